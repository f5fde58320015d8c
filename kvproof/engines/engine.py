"""An engine that can be run: which release, by which interpreter, in which environment."""

import os
from dataclasses import dataclass
from pathlib import Path

from .vllm import releases

__all__ = ["Engine", "StoreError", "without_python"]


class StoreError(Exception):
    """An engine cannot be had. The message is one sentence that says what is wrong and how to mend it."""

    def __init__(self, message: str, said: str = "") -> None:
        """Say what is wrong; ``said`` is the end of what the tool that failed had to say."""
        super().__init__(message)
        self.said = said


@dataclass(frozen=True)
class Engine:
    """A release of an engine and the interpreter that runs it."""

    name: str
    """``vllm``."""
    version: str
    """``0.33.0``."""
    python: Path
    """The interpreter."""
    path: tuple[Path, ...] = ()
    """Folders to put on ``PYTHONPATH``; none for an environment of the user's own."""

    @property
    def label(self) -> str:
        """The engine as the command line names it: ``vllm==0.33.0``."""
        return f"{self.name}=={self.version}"

    def environment(self) -> dict[str, str]:
        """Return the environment variables to start ``python`` with.

        A release of the store sees nothing of the user's Python; an environment of the user's own sees all of it, and
        nothing is written into it.
        """
        variables = without_python() if self.path else dict(os.environ)
        if self.path:
            variables["PYTHONPATH"] = os.pathsep.join(map(str, self.path))
        # The current folder is no place to import from: it may hold anything.
        return variables | releases.QUIET | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}


def without_python() -> dict[str, str]:
    """Return the environment variables without those that change what Python imports or how vLLM is built."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VLLM_"))}
