"""The levels at which the reference implementation is driven: for each a machine, a target, and worlds for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..registry import Registry

if TYPE_CHECKING:
    from hypothesis import strategies as st

    from ..checkers.target import Target
    from ..machine import Machine, Model
    from .hybrid.worlds import HybridWorld
    from .timed.worlds import TimedWorld
    from .worlds import World

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
    from ..machine import Model
    from .machines import find_machine
    from .tiers.targets import TARGETS
    from .worlds import World, worlds

    machine = find_machine(name)
    return Level(Model.of(machine), TARGETS[name], lambda: worlds(machine=machine), World)


def _timed(name: str, find: Callable[[], type[Target]]) -> Level:
    from .machines import find_machine
    from .timed.worlds import TimedWorld, model_of, timed_worlds

    machine = find_machine(name)
    return Level(model_of(machine), find(), lambda: timed_worlds(machine), TimedWorld)


def _hybrid(name: str, find: Callable[[], type[Target]]) -> Level:
    from .hybrid.worlds import HybridWorld, hybrid_worlds, model_of
    from .machines import find_machine

    machine = find_machine(name)
    return Level(model_of(machine), find(), lambda: hybrid_worlds(machine), HybridWorld)


def _links() -> type[Target]:
    from .timed.links_target import LinksTarget

    return LinksTarget


def _tiers_in_time() -> type[Target]:
    from .timed.target import TimedTarget

    return TimedTarget


def _shared() -> type[Target]:
    from .timed.shared_target import SharedTarget

    return SharedTarget


def _connectors() -> type[Target]:
    from .hybrid.connectors_target import ConnectorsTarget

    return ConnectorsTarget


def _file_store() -> type[Target]:
    from .hybrid.files_target import FileStoreTarget

    return FileStoreTarget


LEVELS: Registry[Level] = Registry(
    "kvproof.levels",
    {
        **{name: partial(_plain, name) for name in ("pool", "mirror", "pin", "tiered", "offload")},
        "links": partial(_timed, "links", _links),
        "timed": partial(_timed, "timed-tiers", _tiers_in_time),
        "shared": partial(_timed, "shared-tier", _shared),
        "connectors": partial(_hybrid, "connectors", _connectors),
        "file-store": partial(_hybrid, "file-store", _file_store),
    },
)
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
