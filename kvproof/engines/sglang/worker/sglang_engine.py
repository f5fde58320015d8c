"""SGLang: which levels there are, and how each is made."""

import importlib.metadata

from level import Later, Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    """Return the installed release, without its local part."""
    return importlib.metadata.version("sglang").partition("+")[0]


LEVELS = {
    "hicache": Later("sglang_hicache", "HicacheLevel"),
    "scheduler": Later("sglang_scheduler", "SchedulerLevel"),
    "tree": Later("sglang_tree", "TreeLevel"),
    "allocator": Later("sglang_allocator", "AllocatorLevel"),
}


def prepare(level: str) -> None:
    """Import what a level needs."""
    LEVELS[level].load()
