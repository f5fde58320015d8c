"""SGLang, as the kit knows it (`kvproof.engines.engine`)."""

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

VARIABLES: Final = ("SGLANG_", "SGL_")
WORKER: Final = Path(__file__).with_name("worker") / "sglang_engine.py"

LEVELS: Final = ("scheduler", "hicache", "tree", "allocator")


def environment(cache: Path) -> dict[str, str]:
    """Return what keeps SGLang the same in every run, off the network and silent."""
    return {
        **SAME,
        "SGLANG_RUST_BUILD_MODE": "never",  # The wheel has its compiled parts.
        "TORCH_EXTENSIONS_DIR": str(cache / "extensions"),  # What it would compile; not in the user's own cache.
    }


def cases(level: str) -> Cases | None:
    """Return what a level is hunted with."""
    from ..cases import Cases
    from .levels import allocator, hicache, scheduler, tree

    return {
        "scheduler": Cases(scheduler.profiles, scheduler.more_oracles, scheduler.traits),
        "hicache": Cases(hicache.profiles, hicache.more_oracles, hicache.traits),
        "tree": Cases(tree.profiles, traits=tree.traits),
        "allocator": Cases(allocator.profiles, traits=allocator.traits),
    }.get(level)
