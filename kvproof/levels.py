"""The levels at which the reference implementation is driven: for each a machine, a target, and worlds for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from . import hybrid_worlds, timed_worlds
from .checkers.target import Target
from .connectors_target import ConnectorsTarget
from .files_target import FileStoreTarget
from .hybrid_worlds import HybridWorld
from .links_target import LinksTarget
from .machine import Machine, Model
from .machines import find_machine
from .shared_target import SharedTarget
from .tiered_targets import TARGETS
from .timed_target import TimedTarget
from .timed_worlds import TimedWorld
from .worlds import World, worlds

__all__ = ["LEVELS", "Level", "level_for"]


@dataclass(frozen=True)
class Level:
    """One level."""

    model: Model
    """The machine that the implementation is compared with."""
    target: type[Target]
    """How it is driven."""
    worlds: Callable[[], st.SearchStrategy[Any]]
    """Draws instances of the machine's parameters."""
    setting: type[World] | type[TimedWorld] | type[HybridWorld]
    """What these are: made again from a description (``load``), or from any scope of the machine (``of_scope``)."""


def _plain(name: str) -> Level:
    machine = find_machine(name)
    return Level(Model.of(machine), TARGETS[name], lambda: worlds(machine=machine), World)


def _timed(name: str, target: type[Target]) -> Level:
    machine = find_machine(name)
    return Level(timed_worlds.model_of(machine), target, lambda: timed_worlds.timed_worlds(machine), TimedWorld)


def _hybrid(name: str, target: type[Target]) -> Level:
    machine = find_machine(name)
    return Level(hybrid_worlds.model_of(machine), target, lambda: hybrid_worlds.hybrid_worlds(machine), HybridWorld)


LEVELS: Mapping[str, Level] = {
    **{name: _plain(name) for name in TARGETS},
    "links": _timed("links", LinksTarget),
    "timed": _timed("timed-tiers", TimedTarget),
    "shared": _timed("shared-tier", SharedTarget),
    "connectors": _hybrid("connectors", ConnectorsTarget),
    "file-store": _hybrid("file-store", FileStoreTarget),
}
"""By name; what extends the machine of another level stands behind it."""


def level_for(machine: type[Machine]) -> Level:
    """Return the level for this machine, or for the one that it extends.

    Raises:
        ValueError: the reference implementation has nothing that is like it.
    """
    for level in reversed(list(LEVELS.values())):
        if issubclass(machine, level.model.machine):
            return level
    raise ValueError(f"no level is compared with {machine.__name__}: the levels are {', '.join(LEVELS)}")
