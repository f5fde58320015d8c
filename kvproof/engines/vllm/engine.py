"""vLLM, as the kit knows it (`kvproof.engines.engine`)."""

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

VARIABLES: Final = ("VLLM_",)
WORKER: Final = Path(__file__).with_name("worker") / "vllm_engine.py"

LEVELS: Final = ("scheduler", "manager", "offload", "pool")
"""The level ``pool`` is compared with machine P step by step, the others are hunted with generated cases."""


def environment(cache: Path) -> dict[str, str]:
    """Return what keeps vLLM the same in every run, off the network and silent."""
    return {
        **SAME,
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(cache),  # What it learns of its models; not in the user's own cache.
    }


def cases(level: str) -> Cases | None:
    """Return what a level is hunted with."""
    from ..cases import Cases
    from .levels import manager, offload, scheduler, traits

    return {
        "scheduler": Cases(scheduler.profiles, scheduler.more_oracles, traits.of_scheduler),
        "manager": Cases(manager.profiles, manager.more_oracles, traits.of_manager),
        "offload": Cases(offload.profiles, offload.more_oracles, traits.of_offload),
    }.get(level)
