"""SGLang: which levels there are, and how each is made."""

import importlib.metadata
import os

from drift import released
from level import Later, Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    """Return the installed release, without its local part."""
    return importlib.metadata.version("sglang").partition("+")[0]


_BEFORE_CHECKPOINTS = released(version()) < (0, 5, 22)
"""Their schedulers are not driven."""

LEVELS = {
    "tree": Later("sglang_tree", "TreeLevel"),
    "allocator": Later("sglang_allocator", "AllocatorLevel"),
    "hicache": Later("sglang_hicache", "HicacheLevel"),
    "scheduler": Later("sglang_scheduler", "SchedulerLevel"),
}
if _BEFORE_CHECKPOINTS:
    del LEVELS["hicache"], LEVELS["scheduler"]
    # The page of a next token is found by a Triton kernel alone, which Triton's interpreter runs without a GPU.
    os.environ["TRITON_INTERPRET"] = "1"


def prepare(level: str) -> None:
    """Import what a level needs."""
    LEVELS[level].load()
