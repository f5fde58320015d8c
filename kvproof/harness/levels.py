"""The levels at which the reference implementation is driven: for each a machine, a target, and instances for both."""

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
    from .hybrid.instances import HybridInstance
    from .instances import Instance
    from .timed.instances import TimedInstance
    from .tree.instances import TreeInstance

__all__ = ["LEVELS", "RefimplLevel", "level_for", "machine_at"]


@dataclass(frozen=True)
class RefimplLevel:
    """One level."""

    model: Model
    """The machine that the implementation is compared with."""
    target: type[Target]
    """How it is driven."""
    instances: Callable[[], st.SearchStrategy[Any]]
    """Draws instances of the machine's parameters."""
    setting: type[Instance] | type[TimedInstance] | type[HybridInstance] | type[TreeInstance]
    """What these are: made again from a description (``load``), or from any scope of the machine (``of_scope``)."""


def _plain(name: str) -> RefimplLevel:
    from ..machine import Model
    from .instances import Instance, instances
    from .machines import find_machine
    from .tiers.targets import TARGETS

    machine = find_machine(name)
    return RefimplLevel(Model.of(machine), TARGETS[name], lambda: instances(machine=machine), Instance)


def _timed(name: str, find: Callable[[], type[Target]]) -> RefimplLevel:
    from .machines import find_machine
    from .timed.instances import TimedInstance, model_of, timed_instances

    machine = find_machine(name)
    return RefimplLevel(model_of(machine), find(), lambda: timed_instances(machine), TimedInstance)


def _hybrid(name: str, find: Callable[[], type[Target]]) -> RefimplLevel:
    from .hybrid.instances import HybridInstance, hybrid_instances, model_of
    from .machines import find_machine

    machine = find_machine(name)
    return RefimplLevel(model_of(machine), find(), lambda: hybrid_instances(machine), HybridInstance)


def _tree(name: str) -> RefimplLevel:
    from ..machine import Model
    from .machines import find_machine
    from .tree.instances import TreeInstance, tree_instances
    from .tree.target import TreeTarget

    machine = find_machine(name)
    return RefimplLevel(Model.of(machine), TreeTarget, lambda: tree_instances(machine), TreeInstance)


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


_OWN: dict[str, tuple[str, Callable[[str], RefimplLevel]]] = {
    **{name: (name, _plain) for name in ("pool", "mirror", "pin", "tiered", "offload")},
    "links": ("links", partial(_timed, find=_links)),
    "timed": ("timed-tiers", partial(_timed, find=_tiers_in_time)),
    "shared": ("shared-tier", partial(_timed, find=_shared)),
    "connectors": ("connectors", partial(_hybrid, find=_connectors)),
    "file-store": ("file-store", partial(_hybrid, find=_file_store)),
    "tree": ("tree", _tree),
    "calls": ("calls", _plain),
}
"""The kit's own levels: the machine of each, and how it is made of that."""

LEVELS: Registry[RefimplLevel] = Registry(
    "kvproof.levels", {name: partial(make, machine) for name, (machine, make) in _OWN.items()}
)
"""By name; what extends the machine of another level stands behind it."""


def level_for(machine: type[Machine]) -> RefimplLevel:
    """Return the level for this machine, or for the one that it extends.

    Raises:
        ValueError: the reference implementation has nothing that is like it.
    """
    for level in reversed(list(LEVELS.values())):
        if issubclass(machine, level.model.machine):
            return level
    raise ValueError(f"no level is compared with {machine.__name__}: the levels are {', '.join(LEVELS)}")


def machine_at(name: str) -> type[Machine]:
    """The machine at a level. Of the kit's own it is known without the implementation, which takes a second to load."""
    from .machines import find_machine

    return find_machine(_OWN[name][0]) if name in _OWN else LEVELS[name].model.machine
