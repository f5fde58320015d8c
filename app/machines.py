"""The machines that commands know by name, and machines of the user's own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UsageError

if TYPE_CHECKING:
    from .machine import Machine

KNOWN = {
    "pool": ("kvproof.spec.pool", "Pool"),
    "linked-list": ("kvproof.spec.linked_list", "LinkedPool"),
    "statistics": ("kvproof.spec.statistics", "Statistics"),
    "keys": ("kvproof.spec.keys", "Keys"),
    "mirror": ("kvproof.spec.mirror", "Mirror"),
    "pin": ("kvproof.spec.pin", "Pinned"),
    "tiered": ("kvproof.spec.tiered", "Tiered"),
    "offload": ("kvproof.spec.offload", "Offload"),
    "pinning-off": ("kvproof.spec.pinning_off", "PinningOff"),
    "links": ("kvproof.spec.links", "Links"),
    "timed-tiers": ("kvproof.spec.timed_tiers", "TimedTiers"),
    "shared-tier": ("kvproof.spec.shared_tier", "SharedTier"),
    "planner": ("kvproof.spec.planner", "Planner"),
    "groups": ("kvproof.spec.groups", "Groups"),
    "aligned-split": ("kvproof.spec.aligned_split", "AlignedSplit"),
    "connectors": ("kvproof.spec.connectors", "Connectors"),
    "file-store": ("kvproof.spec.file_store", "FileStore"),
}
"""The specification's machines: name on the command line, module, class."""

REFUTED = {
    "blis-mirror": ("kvproof.spec.blis_mirror", "BlisMirror"),
    "proposed-planner": ("kvproof.spec.planner", "ProposedPlanner"),
}
"""Machines that stand in the specification to be refuted: found by name, and by nothing that takes all machines."""


def find_machine(name: str) -> type[Machine]:
    """Return the machine of that name, or the one at ``FILE.py:CLASS``.

    Raises:
        UsageError: there is none.
    """
    from .machine import Machine

    if name in KNOWN | REFUTED:
        module, cls = (KNOWN | REFUTED)[name]
        found: object = getattr(importlib.import_module(module), cls)
        assert isinstance(found, type)
        assert issubclass(found, Machine)
        return found
    path, _, cls = name.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        raise UsageError(f"there is no machine {name}; name one of {', '.join(KNOWN)}, or your own as FILE.py:CLASS")
    spec = importlib.util.spec_from_file_location(f"kvproof_machine_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module_object = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module_object
    spec.loader.exec_module(module_object)
    own = getattr(module_object, cls, None)
    if not isinstance(own, type) or not issubclass(own, Machine):
        raise UsageError(f"{path} has no machine {cls}; name a subclass of kvproof.machine.Machine")
    return own
