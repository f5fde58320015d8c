"""vLLM: which levels there are, and how each is made."""

import contextlib
import importlib.metadata

from level import Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    """Return the installed release, without its local part."""
    return importlib.metadata.version("vllm").partition("+")[0]


def _level(module: str, name: str):
    """Import a level when it is first used: each costs seconds."""

    def make(setup: dict):
        return getattr(__import__(module), name)(setup)

    return make


LEVELS = {
    "pool": _level("vllm_pool", "PoolLevel"),
    "workload": _level("vllm_workload", "WorkloadLevel"),
    "manager": _level("vllm_manager", "ManagerLevel"),
    "offload": _level("vllm_offload", "OffloadLevel"),
    "scheduler": _level("vllm_scheduler", "SchedulerLevel"),
}

_MODULES = {"manager": "vllm_manager", "offload": "vllm_offload", "pool": "vllm_pool"}

_FIRST = {"groups": [{"kind": "full", "block": 4}]}
_CONNECTORS = (None, {"kind": "simple", "blocks": 4, "lazy": 0}, {"kind": "offloading", "blocks": 4, "policy": "lru"})


def prepare(level: str) -> None:
    """Import what a level needs, and learn of the model what the release learns once; refusals come later, if any."""
    if level in _MODULES:
        __import__(_MODULES[level])
        return
    for connector in _CONNECTORS:
        with contextlib.suppress(Refused):
            LEVELS[level](_FIRST if connector is None else {**_FIRST, "connector": {**connector, "workers": 1}})
