"""Transformers: which levels of its continuous batching there are, and how each is made."""

import importlib.metadata

from level import Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    """Return the installed release."""
    return importlib.metadata.version("transformers")


def _level(module: str, name: str):
    """Import a level when it is first used: it costs seconds."""

    def make(setup: dict):
        return getattr(__import__(module), name)(setup)

    return make


LEVELS = {
    "pool": _level("transformers_cache", "PoolLevel"),
    "manager": _level("transformers_cache", "ManagerLevel"),
    "scheduler": _level("transformers_scheduler", "SchedulerLevel"),
}

_FIRST = {"layers": ["full"], "page": 4, "blocks": 4}


def prepare(level: str) -> None:
    """Import what a level needs, and make one: what torch sets up at first use is set up then."""
    LEVELS[level](_FIRST)
