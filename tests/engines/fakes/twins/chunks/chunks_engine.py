"""vLLM's driver of chunk managers over a manager that is right, or wrong in one way on demand."""

import sys
from pathlib import Path

from level import Refused

sys.path.append(str(Path(__file__).parents[5] / "kvproof/engines/vllm/worker"))

from vllm_cpu_manager import CpuManagerLevel

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


LEVELS = {"offload": CpuManagerLevel}
