"""Calls that name what is not there: each must be refused, whatever the state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

from ..checkers.target import Target
from ..refimpl.errors import RefusedError

__all__ = ["Stray", "TargetWithStrays"]

Stray = tuple[Callable[..., object], tuple[object, ...]]
"""A call, and its arguments."""


class TargetWithStrays(Target):
    """A target that lists such calls of its implementation."""

    @abstractmethod
    def _stray_calls(self) -> Iterator[Stray]:
        """The calls, each as the state is when those before it were refused."""

    def strays(self) -> list[str]:
        """Make all these calls; return those that were done, as a user would write them."""
        done: list[str] = []
        for call, args in self._stray_calls():
            try:
                call(*args)
            except RefusedError:
                continue
            done.append(f"{call.__qualname__}({', '.join(map(repr, args))})")
        return done
