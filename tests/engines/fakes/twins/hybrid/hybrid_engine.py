"""vLLM's levels ``manager`` and ``scheduler`` over the reference implementation, wrong in one way on demand.

Right, they are the clean twins of these levels: the same cases, the same oracles, and nothing is found.
"""

import sys
from pathlib import Path

from level import Refused

sys.path.append(str(Path(__file__).parents[5] / "kvproof/engines/vllm/worker"))

from hybrid_manager import Manager
from hybrid_scheduler import Scheduler

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


LEVELS = {"manager": Manager, "scheduler": Scheduler}
