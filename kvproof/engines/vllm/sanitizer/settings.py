"""What the sanitizer is told by environment variables, which child processes inherit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Settings", "read"]

SWITCH: Final = "KVPROOF_SANITIZE"
EVERY: Final = "KVPROOF_SANITIZE_EVERY"
FOLDER: Final = "KVPROOF_INCIDENTS"
KIT: Final = "KVPROOF_SANITIZE_KIT"
DEFAULT_EVERY: Final = 1000
DEFAULT_FOLDER: Final = "kvproof-incidents"


class Settings(NamedTuple):
    """How it is to work."""

    stop: bool
    """Raise in the engine when a rule is broken."""
    every: int
    """The whole state is checked after so many steps; 0: never."""
    folder: Path
    """Where incidents are written."""
    kit: str
    """The version of the kit, as traces have it."""


def read(variables: Mapping[str, str] = os.environ) -> Settings:
    """Return what the environment says.

    Raises:
        ValueError: it says what makes no sense.
    """
    switch, every = variables.get(SWITCH, ""), variables.get(EVERY, str(DEFAULT_EVERY))
    if switch not in ("1", "stop"):
        raise ValueError(f"{SWITCH} is {switch!r}; set it to 1, or to stop")
    if not every.isdecimal():
        raise ValueError(f"{EVERY} is {every!r}; set it to a number of steps, 0 for never")
    folder = Path(variables.get(FOLDER) or DEFAULT_FOLDER).absolute()
    return Settings(switch == "stop", int(every), folder, variables.get(KIT, "unknown"))
