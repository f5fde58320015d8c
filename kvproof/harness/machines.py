"""The machines that commands know by name, and machines of the user's own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..registry import Registry
from ..spec import MACHINES
from .blame import mistakes_of

if TYPE_CHECKING:
    from ..machine import Machine

NAMES = {
    "pool": "Pool",
    "served": "Served",
    "linked-list": "LinkedPool",
    "statistics": "Statistics",
    "calls": "Calls",
    "lengths": "Lengths",
    "deferred": "Deferred",
    "keys": "Keys",
    "mirror": "Mirror",
    "batches": "Batches",
    "pin": "Pinned",
    "tiered": "Tiered",
    "offload": "Offload",
    "reports": "Reports",
    "chunks": "Chunks",
    "lazy-walk": "LazyWalk",
    "pinning-off": "PinningOff",
    "links": "Links",
    "stalls": "Stalls",
    "timed-tiers": "TimedTiers",
    "shared-tier": "SharedTier",
    "planner": "Planner",
    "groups": "Groups",
    "group-tables": "GroupTables",
    "aligned-split": "AlignedSplit",
    "connectors": "Connectors",
    "partial-loads": "PartialLoads",
    "loads-end": "LoadsEnd",
    "file-store": "FileStore",
    "tree": "PrefixTree",
}
"""The specification's machines: name on the command line, class."""

KNOWN = {name: (f"kvproof.spec.{MACHINES[cls]}", cls) for name, cls in NAMES.items()}
"""The specification's machines: name on the command line, module, class."""

BESIDE = {
    "transfers-end": ("kvproof.spec.liveness.completions", "TransfersEnd"),
}
"""Machines that promise something of one of those, at the price of all its proofs: found by name, and proved at night
where the others are proved every time."""

REFUTED = {
    "partial-hits": ("kvproof.spec.liveness.deadlocks", "HitsInsideAtAnyPrice"),
    "draft-slots": ("kvproof.spec.liveness.deadlocks", "PrefillBesideDrafts"),
    "look-ahead": ("kvproof.spec.liveness.deadlocks", "LookAhead"),
    "held-loads": ("kvproof.spec.liveness.deadlocks", "HeldLoads"),
    "lazy-stores": ("kvproof.spec.liveness.deadlocks", "LazyStoresOfAll"),
    "blis-mirror": ("kvproof.spec.tiers.blis_mirror", "BlisMirror"),
    "proposed-planner": ("kvproof.spec.hybrid.planner", "ProposedPlanner"),
}
"""Machines that stand in the specification to be refuted: found by name, and by nothing that takes all machines."""

INSTALLED: Registry[object] = Registry("kvproof.machines", {})
"""Machines of packages that are installed beside the kit."""


def find_machines(names: Sequence[str]) -> list[type[Machine]]:
    """Return the machines of these names, as `find_machine` does; all known ones if there are none."""
    return [find_machine(name) for name in names or KNOWN]


def find_machine(name: str) -> type[Machine]:
    """Return the machine of that name, or the one at ``FILE.py:CLASS``, which was read without a mistake.

    A name is that of a machine of the kit's own, or of an installed package (`registry.py`).

    Raises:
        UsageError: there is none, or the text in the file does not make one; the message has file and line.
    """
    from ..machine import Machine

    own = KNOWN | BESIDE | REFUTED
    if name in own:
        module, cls = own[name]
        found: object = getattr(importlib.import_module(module), cls)
        assert isinstance(found, type)
        assert issubclass(found, Machine)
        return found
    if name in INSTALLED:
        return _installed(name)
    path, _, cls = (name, "", "") if name.endswith(".py") else name.rpartition(":")
    if not path.endswith(".py"):
        names = ", ".join((*KNOWN, *INSTALLED))
        raise UsageError(f"{name} is no machine; name one of {names}, or your own as FILE.py:CLASS")
    return _own(Path(path), cls)


def _installed(name: str) -> type[Machine]:
    """Return the machine that an installed package has under this name.

    Raises:
        UsageError: it cannot be imported, or is none.
    """
    from ..machine import Machine, Model

    try:
        found = INSTALLED[name]
    except Exception as error:
        raise UsageError(f"the machine {name} of an installed package cannot be loaded ({error}); mend it") from error
    if not isinstance(found, type) or not issubclass(found, Machine):
        raise UsageError(f"what an installed package calls the machine {name} is none; mend its entry point")
    Model.of(found)
    return found


def _own(file: Path, cls: str) -> type[Machine]:
    """Return a machine of the user's own, read.

    Raises:
        UsageError: there is none, or the text in the file does not make one.
    """
    from ..machine import Machine, Model

    with mistakes_of(file):
        module = _run(file)
        own = getattr(module, cls, None) if cls else None
        if not isinstance(own, type) or not issubclass(own, Machine) or own is Machine:
            machines = [f"{file}:{name}" for name in _machines_in(module)]
            wanted = f"{file} has no machine {cls}" if cls else f"{file} is a file, and a machine is a class in it"
            raise UsageError(f"{wanted}; name {' or '.join(machines) or 'a subclass of kvproof.machine.Machine'}")
        Model.of(own)
        return own


def _run(file: Path) -> ModuleType:
    """Run the text in a file as a module. Nothing is written beside it, and nothing compiled is taken from there.

    Raises:
        UsageError: it cannot be read.
        BaseException: whatever the text raises.
    """
    try:
        source = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror or error}); name it as FILE.py:CLASS") from error
    if b"\0" in source:
        line = source[: source.index(b"\0")].count(b"\n") + 1
        raise UsageError(f"{file}, line {line}: a zero byte, which no Python text holds; correct the line")
    try:
        code = compile(source, str(file), "exec", dont_inherit=True)
    except (MemoryError, RecursionError) as error:
        raise UsageError(f"{file}: the text is nested too deeply to be read ({type(error).__name__})") from error
    module = ModuleType(f"kvproof_machine_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # Annotations are looked up there, and so are classes in other processes.
    try:
        exec(code, module.__dict__)  # The command line named this file, to be run.
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _machines_in(module: ModuleType) -> list[str]:
    """The names of the machines that a module itself declares."""
    from ..machine import Machine
    from ..machine.classbody import is_abstract

    own = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Machine)]
    whole = [kind for kind in own if not is_abstract(kind) and kind.__module__ == module.__name__]
    return list(dict.fromkeys(kind.__name__ for kind in whole))
