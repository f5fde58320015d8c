"""Dynamo, as the kit knows it (`kvproof.engines.engine`): its mocker is compared, one whole trace at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from .releases import DISTRIBUTIONS, MODULES, OLDEST, RUNTIME, TORCH, recipes

if TYPE_CHECKING:
    from ..cases import Cases

__all__ = [
    "DISTRIBUTIONS", "LEVELS", "MODULES", "OLDEST", "RUNTIME", "TORCH", "VARIABLES", "WORKER", "cases", "environment",
    "recipes",
]  # fmt: skip

VARIABLES: Final = ("DYN_",)
WORKER: Final = Path(__file__).with_name("worker") / "dynamo_engine.py"
LEVELS: Final = ()


def environment(_cache: Path) -> dict[str, str]:
    """Return what keeps the mocker silent."""
    return {"PYTHONHASHSEED": "0", "DYN_LOG": "error", "CUDA_VISIBLE_DEVICES": ""}


def cases(_level: str) -> Cases | None:
    """Return nothing: no level is driven operation by operation."""
    return None
