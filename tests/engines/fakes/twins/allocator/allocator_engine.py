"""SGLang's driver of allocators over an allocator that is right, or wrong in one way on demand."""

import sys
from pathlib import Path

from level import Refused

sys.path.append(str(Path(__file__).parents[5] / "kvproof/engines/sglang/worker"))

import sglang_slots
from sglang_allocator import AllocatorLevel

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


def allocator(setup: dict) -> AllocatorLevel:
    """The level of SGLang; ``fault`` in its setup is the allocator's."""
    sglang_slots.FAULT = setup.get("fault", "")
    return AllocatorLevel({name: value for name, value in setup.items() if name != "fault"})


LEVELS = {"allocator": allocator}
