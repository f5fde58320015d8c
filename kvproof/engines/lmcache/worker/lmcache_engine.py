"""LMCache: which levels of it there are, and how each is made."""

import importlib.metadata

from drift import released
from level import Later, Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    """Return the installed release."""
    return importlib.metadata.version("lmcache")


_BEFORE_STAGING = released(version()) < (0, 5, 6)
"""Their `L1Manager` writes in the place of what is there, and is not driven."""

LEVELS = {
    "engine": Later("lmcache_requests", "EngineLevel"),
    "l1": Later("lmcache_l1", "L1Level"),
    "offload": Later("lmcache_offload", "OffloadLevel"),
}
if _BEFORE_STAGING:
    del LEVELS["l1"]


def prepare(level: str) -> None:
    """Import what a level needs, and make one: what torch sets up at first use is set up then."""
    LEVELS[level]({"policy": "LRU", "units": 8} | ({"sizes": [4, 4]} if level == "offload" else {}))
