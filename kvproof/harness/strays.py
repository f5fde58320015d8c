"""Calls that name what is not there: each must be refused, whatever the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..refimpl.errors import RefusedError

__all__ = ["Stray", "not_refused"]

Stray = tuple[Callable[..., object], tuple[object, ...]]
"""A call, and its arguments."""


def not_refused(calls: Iterable[Stray]) -> list[str]:
    """Make all these calls; return those that were done, as a user would write them."""
    done: list[str] = []
    for call, args in calls:
        try:
            call(*args)
        except RefusedError:
            continue
        done.append(f"{call.__qualname__}({', '.join(map(repr, args))})")
    return done
