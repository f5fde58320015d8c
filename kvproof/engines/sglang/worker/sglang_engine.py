"""SGLang: which levels there are, and how each is made."""

import importlib.metadata

from level import Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    """Return the installed release, without its local part."""
    return importlib.metadata.version("sglang").partition("+")[0]


def _level(module: str, name: str):
    """Import a level when it is first used: the scheduler and the trees cost many seconds."""

    def make(setup: dict):
        return getattr(__import__(module), name)(setup)

    return make


_MODULES = {
    "scheduler": ("sglang_scheduler", "SchedulerLevel"),
    "tree": ("sglang_tree", "TreeLevel"),
    "allocator": ("sglang_allocator", "AllocatorLevel"),
}

LEVELS = {level: _level(*where) for level, where in _MODULES.items()}


def prepare(level: str) -> None:
    """Import what a level needs."""
    __import__(_MODULES[level][0])
