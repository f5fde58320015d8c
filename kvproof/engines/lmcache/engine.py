"""LMCache, as the kit knows it (`kvproof.engines.engine`): its engine, and its backend of chunks in CPU memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..engine import SAME
from .releases import DISTRIBUTIONS, MODULES, OLDEST, RUNTIME, TORCH, recipes

if TYPE_CHECKING:
    from ..cases import Cases

__all__ = [
    "DISTRIBUTIONS", "LEVELS", "MODULES", "OLDEST", "RUNTIME", "TORCH", "VARIABLES", "WORKER", "cases", "environment",
    "recipes",
]  # fmt: skip

VARIABLES: Final = ("LMCACHE_", "HF_")
WORKER: Final = Path(__file__).with_name("worker") / "lmcache_engine.py"

LEVELS: Final = ("engine", "l1", "offload")


def environment(cache: Path) -> dict[str, str]:
    """Return what keeps LMCache the same in every run, off the network and silent."""
    return {
        **SAME,
        "LMCACHE_LOG_LEVEL": "CRITICAL",
        "LMCACHE_TRACK_USAGE": "false",
        "HF_HOME": str(cache),
    }


def cases(level: str) -> Cases | None:
    """Return what a level is hunted with."""
    from ..cases import Cases
    from .levels import engine, l1, offload

    return {
        "engine": Cases(engine.profiles, engine.more_oracles, engine.traits),
        "l1": Cases(l1.profiles, l1.more_oracles, l1.traits),
        "offload": Cases(offload.profiles, offload.more_oracles, offload.traits),
    }.get(level)
