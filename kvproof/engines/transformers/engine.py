"""Transformers, as the kit knows it (`kvproof.engines.engine`): the cache and the loop of its continuous batching."""

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

VARIABLES: Final = ("TRANSFORMERS_", "HF_")
WORKER: Final = Path(__file__).with_name("worker") / "transformers_engine.py"

LEVELS: Final = ("scheduler", "manager", "pool")


def environment(cache: Path) -> dict[str, str]:
    """Return what keeps Transformers the same in every run, off the network and silent."""
    return {
        **SAME,
        "HF_HOME": str(cache),  # Not the user's own: nothing there is ever needed.
        "TRANSFORMERS_VERBOSITY": "critical",
    }


def cases(level: str) -> Cases | None:
    """Return what a level is hunted with."""
    from ..cases import Cases
    from .levels import cache, scheduler, traits

    return {
        "scheduler": Cases(scheduler.profiles, traits=traits.of_scheduler),
        "manager": Cases(cache.manager_profiles, cache.more_oracles, traits.of_cache),
        "pool": Cases(cache.pool_profiles, cache.more_oracles, traits.of_cache),
    }.get(level)
