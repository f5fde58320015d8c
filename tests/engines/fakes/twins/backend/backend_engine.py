"""LMCache's driver of backends over a backend that is right, or wrong in one way on demand."""

import sys
from pathlib import Path

from level import Refused

sys.path.append(str(Path(__file__).parents[5] / "kvproof/engines/lmcache/worker"))

from lmcache_offload import OffloadLevel

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


LEVELS = {"offload": OffloadLevel}
