"""Transformers: which levels of its continuous batching there are, and how each is made."""

import importlib.metadata

from level import Later, Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    """Return the installed release."""
    return importlib.metadata.version("transformers")


LEVELS = {
    "pool": Later("transformers_cache", "PoolLevel"),
    "manager": Later("transformers_cache", "ManagerLevel"),
    "scheduler": Later("transformers_scheduler", "SchedulerLevel"),
}

_FIRST = {"layers": ["full"], "page": 4, "blocks": 4}


def prepare(level: str) -> None:
    """Import what a level needs, and make one: what torch sets up at first use is set up then."""
    LEVELS[level](_FIRST)
