"""A program of the user's that speaks the worker protocol: ``exec:COMMAND``, or ``python:MODULE:CLASS``."""

import shlex
import sys
from dataclasses import dataclass

from ..build import StoreError

__all__ = ["Driver", "is_driver"]

EXEC, PYTHON = "exec:", "python:"


def is_driver(target: str) -> bool:
    """Tell whether a target names a program of the user's own."""
    return target.startswith((EXEC, PYTHON))


@dataclass(frozen=True)
class Driver:
    """A command that starts a driver. It is run as it is, without a shell, in the current folder."""

    command: tuple[str, ...]
    named: str = ""
    """The target that it was named by, where that is not the command."""

    @staticmethod
    def of(target: str) -> "Driver":
        """The driver that a target names.

        ``exec:COMMAND`` is split into words as a shell splits it, and nothing more. ``python:MODULE:CLASS`` is a
        `kvproof.testing.BlockManager` in an importable module, or in ``FILE.py``.

        Raises:
            StoreError: there is no command, its quotes do not end, or there is no class.
        """
        if target.startswith(PYTHON):
            return _of_class(target)
        try:
            words = shlex.split(target.removeprefix(EXEC))
        except ValueError as error:
            raise StoreError(f"{target} cannot be split into words ({error}); close its quotes") from error
        if not words:
            raise StoreError("exec: names no command; write exec:COMMAND, in quotes where it has spaces")
        return Driver(tuple(words))

    @property
    def label(self) -> str:
        """The driver as the command line names it."""
        return self.named or EXEC + shlex.join(self.command)


def _of_class(target: str) -> Driver:
    """The driver around a class of Python: the interpreter that runs the kit serves it (`kvproof/testing`)."""
    place = target.removeprefix(PYTHON)
    module, _, kind = place.rpartition(":")
    if not module or not kind.isidentifier():
        raise StoreError(f"{target} names no class; write python:MODULE:CLASS or python:FILE.py:CLASS")
    return Driver((sys.executable, "-m", "kvproof.testing", place), target)
