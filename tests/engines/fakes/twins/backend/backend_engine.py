"""LMCache's drivers over an engine, a backend and a memory of leases that are right, or wrong in one way on demand."""

import sys
from pathlib import Path

from level import Refused

sys.path.append(str(Path(__file__).parents[5] / "kvproof/engines/lmcache/worker"))

import lmcache_l1_setup
from lmcache_l1 import L1Level
from lmcache_offload import OffloadLevel
from lmcache_requests import EngineLevel

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


def leases(setup: dict) -> L1Level:
    """The level of the memory of leases; ``fault`` in its setup is the manager's."""
    lmcache_l1_setup.FAULT = setup.get("fault", "")
    return L1Level({name: value for name, value in setup.items() if name != "fault"})


LEVELS = {"engine": EngineLevel, "l1": leases, "offload": OffloadLevel}
