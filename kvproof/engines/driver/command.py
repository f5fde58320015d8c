"""A program of the user's that speaks the worker protocol: the target ``exec:COMMAND``."""

import shlex
from dataclasses import dataclass

from ..build import StoreError

__all__ = ["PREFIX", "Driver"]

PREFIX = "exec:"


@dataclass(frozen=True)
class Driver:
    """A command that starts a driver. It is run as it is, without a shell, in the current folder."""

    command: tuple[str, ...]

    @staticmethod
    def of(target: str) -> "Driver":
        """The driver of ``exec:COMMAND``; the command is split into words as a shell splits it, and nothing more.

        Raises:
            StoreError: there is no command, or its quotes do not end.
        """
        try:
            words = shlex.split(target.removeprefix(PREFIX))
        except ValueError as error:
            raise StoreError(f"{target} cannot be split into words ({error}); close its quotes") from error
        if not words:
            raise StoreError("exec: names no command; write exec:COMMAND, in quotes where it has spaces")
        return Driver(tuple(words))

    @property
    def label(self) -> str:
        """The driver as the command line names it."""
        return PREFIX + shlex.join(self.command)
