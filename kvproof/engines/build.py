"""A build of an engine that can be run: which release, by which interpreter, in which environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from .catalog import ENGINES

__all__ = ["VARIABLE", "Build", "StoreError", "location", "without_python"]

VARIABLE = "KVPROOF_ENGINES"
"""The environment variable that says where the store is."""


class StoreError(Exception):
    """A build cannot be had. The message is one sentence that says what is wrong and how to mend it."""

    def __init__(self, message: str, said: str = "") -> None:
        """Say what is wrong; ``said`` is the end of what the tool that failed had to say."""
        super().__init__(message)
        self.said = said


@dataclass(frozen=True)
class Build:
    """A release of an engine and the interpreter that runs it."""

    name: str
    """The engine: ``vllm``."""
    version: str
    """``0.33.0``."""
    python: Path
    """The interpreter."""
    path: tuple[Path, ...] = ()
    """Folders to put on ``PYTHONPATH``; none for an environment of the user's own."""

    @property
    def label(self) -> str:
        """The build as the command line names it: ``vllm==0.33.0``."""
        return f"{self.name}=={self.version}"

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables to start ``python`` with.

        A release of the store sees nothing of the user's Python, and what Python compiles of it stays there: pip may be
        configured not to compile what it installs, and every start would do it again. An environment of the user's own
        sees all of the user's Python, and nothing is written into it.
        """
        cache = location() / "work" / f"{self.name}-{self.version}"
        variables = (
            without_python(self.name) | {"PYTHONPATH": os.pathsep.join(map(str, self.path))}
            if self.path
            else dict(os.environ) | {"PYTHONDONTWRITEBYTECODE": "1"}
        )
        return {
            **variables,
            **ENGINES[self.name].environment(cache),
            # The current folder is no place to import from: it may hold anything.
            "PYTHONSAFEPATH": "1",
        }


def location() -> Path:
    """Return the folder of the store, which need not exist."""
    return Path(os.environ.get(VARIABLE) or Path(platformdirs.user_cache_dir("kvproof"), "engines")).absolute()


def without_python(name: str) -> dict[str, str]:
    """Return the environment variables without those that change what Python imports or what an engine does."""
    kept_away = ("PYTHON", *ENGINES[name].VARIABLES)
    return {variable: value for variable, value in os.environ.items() if not variable.startswith(kept_away)}
