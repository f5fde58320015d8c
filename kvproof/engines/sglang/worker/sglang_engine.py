"""SGLang: which levels there are, and how each is made."""

from level import Later, Refused
from sglang_release import SERVED, version

__all__ = ["LEVELS", "Refused", "prepare", "version"]

LEVELS = {
    "tree": Later("sglang_tree", "TreeLevel"),
    "allocator": Later("sglang_allocator", "AllocatorLevel"),
    "hicache": Later("sglang_hicache", "HicacheLevel"),
    "scheduler": Later("sglang_scheduler", "SchedulerLevel"),
}
if not SERVED:
    del LEVELS["hicache"], LEVELS["scheduler"]


def prepare(level: str) -> None:
    """Import what a level needs."""
    LEVELS[level].load()
