"""vLLM: which levels there are, and how each is made."""

import importlib.metadata

from level import Refused

__all__ = ["LEVELS", "Refused", "version"]


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
