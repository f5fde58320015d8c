"""The host tier of a `BlockManager`: what it stores, loads and finds there, told as copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any

from .manager import Request
from .scheduler import numbers

__all__ = ["STATE", "HostSide"]

Pairs = list[tuple[int, int]]
"""Copies: from a block of one tier to a block of the other."""

STATE = {"ref": "host_ref_counts", "free": "host_free_queue", "cached": "host_cached"}
"""The fields of the host pool's state, and who tells them."""


class HostSide:
    """One manager's host tier; its stores that are under way."""

    def __init__(
        self, ask: Callable[..., Any], tell: Callable[..., None], has: Callable[[str], bool], number: Callable[..., int]
    ) -> None:
        """Ask a manager; tell what it does, in the numbers of its keys."""
        self._ask, self._tell, self._number = ask, tell, number
        self._takes_time = has("stored")
        self._finds = has("host_lookup")
        self._shows = [name for name, method in STATE.items() if has(method)]
        self._jobs: dict[int, tuple[Any, Pairs]] = {}
        self._count = 0

    def find(self, request: Request) -> None:
        """Look up what of the request's tokens the host has behind what the device has."""
        request.on_host = numbers(self._ask("host_lookup", request), "host_lookup") if self._finds else []

    def load(self, request: Request, table: Sequence[int]) -> None:
        """Copy what was found into the request's new blocks, before anything is computed there."""
        request.table = numbers(table, "allocate")
        if request.on_host:
            pairs = _pairs(self._ask("load", request))
            self._tell("copied", [["host", a, "device", b] for a, b in pairs])

    def computed(self, request: Request) -> None:
        """A step is over: a manager whose stores take time is offered what was computed."""
        if self._takes_time:
            self.store([request])

    def store(self, requests: Sequence[Request]) -> None:
        """Let the manager store what it likes of these requests' blocks."""
        for job, told in self._ask("store", requests):
            number, pairs = self._count, _pairs(told)
            self._count += 1
            self._tell("copy", number, "begin", [["device", a, "host", b] for a, b in pairs])
            self._jobs[number] = job, pairs
            if not self._takes_time:
                self._end(number)

    def end_one(self, which: int) -> None:
        """One of the stores that are under way is done: they may come in any order."""
        if self._jobs:
            self._end([*self._jobs][which % len(self._jobs)])

    def end_all(self) -> None:
        """All of them are."""
        for number in [*self._jobs]:
            self._end(number)

    def _end(self, number: int) -> None:
        job, pairs = self._jobs.pop(number)
        self._tell("copy", number, "end", [["device", a, "host", b] for a, b in pairs])
        if self._takes_time:
            self._ask("stored", job)

    @property
    def pending(self) -> int:
        """How many stores are under way."""
        return len(self._jobs)

    def holds(self) -> dict[str, list[int]]:
        """The blocks that they read and write."""
        pairs = [pair for _, each in self._jobs.values() for pair in each]
        return {"device": [a for a, _ in pairs], "host": [b for _, b in pairs]}

    def state(self) -> dict[str, Any]:
        """What the manager tells of its host pool."""
        told: dict[str, Any] = {
            name: numbers(self._ask(STATE[name]), STATE[name]) for name in self._shows if name in ("ref", "free")
        }
        if "cached" in self._shows:
            told["cached"] = [[self._number(key), 0, [index(at)]] for key, at in self._ask("host_cached").items()]
        return told


def _pairs(told: Iterable[tuple[Any, Any]]) -> Pairs:
    return [(index(a), index(b)) for a, b in told]
