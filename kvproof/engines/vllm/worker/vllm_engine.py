"""vLLM: which levels there are, and how each is made."""

import contextlib
import importlib.metadata
import logging

from level import Later, Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]

# What a release warns of in thousands of cases nobody reads; it took a tenth of the time.
logging.disable(logging.ERROR)


def version() -> str:
    """Return the installed release, without its local part."""
    return importlib.metadata.version("vllm").partition("+")[0]


LEVELS = {
    "pool": Later("vllm_pool", "PoolLevel"),
    "workload": Later("vllm_workload", "WorkloadLevel"),
    "manager": Later("vllm_manager", "ManagerLevel"),
    "offload": Later("vllm_offload", "OffloadLevel"),
    "scheduler": Later("vllm_scheduler", "SchedulerLevel"),
}

_BARE = {"manager", "offload", "pool"}
"""Levels that need no model."""

_FIRST = {"groups": [{"kind": "full", "block": 4}]}
_CONNECTORS = (
    None,
    {"kind": "simple", "blocks": 4, "lazy": 0},
    {"kind": "offloading", "blocks": 4, "policy": "lru"},
    {"kind": "hisparse"},
)


def prepare(level: str) -> None:
    """Import what a level needs, and learn of the model what the release learns once; refusals come later, if any."""
    if level in _BARE:
        LEVELS[level].load()
        return
    for connector in _CONNECTORS:
        with contextlib.suppress(Refused):
            LEVELS[level](_FIRST if connector is None else {**_FIRST, "connector": {**connector, "workers": 1}})
