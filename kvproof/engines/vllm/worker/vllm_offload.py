"""The level ``offload`` of vLLM: its offload managers, driven directly, without a scheduler above them."""

import importlib

from level import Refused

__all__ = ["OffloadLevel"]

_KINDS = {
    "manager": ("vllm_cpu_manager", "CpuManagerLevel"),
    "simple": ("vllm_simple_offload", "SimpleOffloadLevel"),
}


def OffloadLevel(setup: dict):
    """Return the level for ``setup["kind"]``: ``manager`` (chunks by LRU or ARC) or ``simple`` (a host block pool).

    Raises:
        Refused: there is no such kind, or this release cannot be set up so.
    """
    if setup["kind"] not in _KINDS:
        raise Refused(f"no kind of offload manager: {setup['kind']}")
    module, name = _KINDS[setup["kind"]]
    return getattr(importlib.import_module(module), name)(setup)
