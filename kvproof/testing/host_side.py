"""The host tier of a `BlockManager`: what it stores, loads and finds there, told as copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .answers import Pairs, copies, items, listed, number, numbers, parts
from .layout import Layout
from .manager import Request

__all__ = ["STATE", "HostSide"]

STATE = {"ref": "host_ref_counts", "free": "host_free_queue", "cached": "host_cached"}
"""The fields of the host pool's state, and who tells them."""


class HostSide:
    """One manager's host tier; its stores that are under way."""

    def __init__(
        self, ask: Callable[..., Any], tell: Callable[..., None], has: Callable[[str], bool], layout: Layout
    ) -> None:
        """Ask a manager; tell what it does, in the numbers of its keys and groups."""
        self._ask, self._tell, self._layout = ask, tell, layout
        self._takes_time = has("stored")
        self._finds = has("host_lookup")
        self._waits = has("loaded")
        self._shows = [name for name, method in STATE.items() if has(method)]
        self._jobs: dict[int, tuple[Any, Pairs]] = {}
        self._loads: dict[str, tuple[Request, int, Pairs]] = {}
        """By request: it, the number of its first copy, and its copies, each of which has a number of its own."""
        self._count = 0

    def find(self, request: Request) -> int:
        """Look up what of the request's tokens the host has behind what the device has: so many blocks, in each
        group."""
        told = self._ask("host_lookup", request) if self._finds else []
        request.on_host = self._layout.on_host(told)
        return self._layout.length(request.on_host)

    def load(self, request: Request) -> bool:
        """Copy what was found into the request's new blocks, before anything is computed there; or begin to, and return
        true."""
        pairs = copies(self._ask("load", request), "load")
        if not self._waits:
            self._tell("copied", [["host", a, "device", b] for a, b in pairs])
            return False
        self._loads[request.name] = request, self._count, pairs
        for which, (a, b) in enumerate(pairs, start=self._count):
            self._tell("copy", which, "begin", [["host", a, "device", b]])
        self._count += len(pairs)
        return True

    def end_load(self, pick: int, failed: int) -> tuple[Request, int] | None:
        """One of the loads under way ends, and so many of its last copies have failed: the request, and how many of
        those came. None: there is none."""
        if not self._loads:
            return None
        request, first, pairs = self._loads.pop([*self._loads][pick % len(self._loads)])
        came = max(0, len(pairs) - failed)
        for at, (a, b) in enumerate(pairs):
            self._tell("copy", first + at, "end" if at < came else "fail", [["host", a, "device", b]])
        return request, came

    def computed(self, request: Request) -> None:
        """A step is over: a manager whose stores take time is offered what was computed."""
        if self._takes_time:
            self.store([request])

    def store(self, requests: Sequence[Request]) -> None:
        """Let the manager store what it likes of these requests' blocks."""
        for each in listed(self._ask("store", requests), "store", "jobs with their copies"):
            job, told = parts(each, "store", _JOB)
            which, pairs = self._count, copies(told, "store")
            self._count += 1
            self._tell("copy", which, "begin", [["device", a, "host", b] for a, b in pairs])
            self._jobs[which] = job, pairs
            if not self._takes_time:
                self._end(which)

    def end_one(self, which: int) -> None:
        """One of the stores that are under way is done: they may come in any order."""
        if self._jobs:
            self._end([*self._jobs][which % len(self._jobs)])

    def end_all(self) -> None:
        """All of them are."""
        for which in [*self._jobs]:
            self._end(which)

    def _end(self, which: int) -> None:
        job, pairs = self._jobs.pop(which)
        self._tell("copy", which, "end", [["device", a, "host", b] for a, b in pairs])
        if self._takes_time:
            self._ask("stored", job)

    @property
    def pending(self) -> int:
        """How many stores are under way."""
        return len(self._jobs) + len(self._loads)

    def holds(self) -> dict[str, list[int]]:
        """The blocks that stores read and write, and those that loads read: what these write are their requests'."""
        pairs = [pair for _, each in self._jobs.values() for pair in each]
        loads = [pair for _, _, each in self._loads.values() for pair in each]
        return {"device": [a for a, _ in pairs], "host": [b for _, b in pairs] + [a for a, _ in loads]}

    def state(self) -> dict[str, Any]:
        """What the manager tells of its host pool."""
        told: dict[str, Any] = {
            name: numbers(self._ask(STATE[name]), STATE[name]) for name in self._shows if name in ("ref", "free")
        }
        if "cached" in self._shows:
            entries = items(self._ask("host_cached"), "host_cached")
            told["cached"] = [
                [*self._layout.entry(key, "host_cached"), [number(at, "host_cached")]] for key, at in entries
            ]
        return told


_JOB = ("a job", "its copies")
