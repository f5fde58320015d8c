"""What of a request is the kit's alone: a manager that changes it would be judged by what it made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .manager import Request

__all__ = ["left_alone"]


@contextmanager
def left_alone(method: str, args: Sequence[Any]) -> Iterator[None]:
    """See that a call leaves its request as it was. Its blocks are lists of the request's own, which some go on with.

    Raises:
        ValueError: it does not.
    """
    before = [(request, _kept(request)) for request in _requests(args)]
    yield
    for request, kept in before:
        if (now := _kept(request)) != kept:
            name = next(name for name, was in kept.items() if now[name] != was)
            raise ValueError(
                f"{method}() changed request.{name}, which is the kit's; a manager may read all of a request, and "
                "change own, and cached in allocate()"
            )


def _requests(args: Sequence[Any]) -> Iterator[Request]:
    """The requests that a call is given: one, or several at once."""
    for given in args:
        if isinstance(given, Request):
            yield given
        elif isinstance(given, list | tuple):
            yield from (each for each in given if isinstance(each, Request))


def _kept(request: Request) -> dict[str, Any]:
    return {
        "name": request.name,
        "tokens": [*request.tokens],
        "adapter": request.adapter,
        "salt": request.salt,
        "computed": request.computed,
    }
