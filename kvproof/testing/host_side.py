"""The host tier of a `BlockManager`: what it stores, loads and finds there, told as copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .answers import Pairs, copies, items, listed, number, numbers, parts
from .layout import Layout
from .manager import Request

__all__ = ["STATE", "HostSide"]

STATE = {"ref": "host_ref_counts", "free": "host_free_queue", "cached": "host_cached"}
"""The fields of the host pool's state, and who tells them."""


class HostSide:
    """One manager's host tier; its stores that are under way.

    Who plays the scheduler calls the manager, and hands on what it answered: where calls overlap that takes its time.
    """

    def __init__(
        self, ask: Callable[..., Any], tell: Callable[..., None], has: Callable[[str], bool], layout: Layout
    ) -> None:
        """Ask a manager for what it shows; tell what it does, in the numbers of its keys and groups."""
        self._ask, self._tell, self._layout = ask, tell, layout
        self.takes_time = has("stored")
        """Whether stores do; else they are done when they are answered."""
        self.finds = has("host_lookup")
        """Whether lookups go on here."""
        self._waits = has("loaded")
        self._shows = [name for name, method in STATE.items() if has(method)]
        self._jobs: dict[int, tuple[Any, Pairs]] = {}
        self._loads: dict[str, tuple[Request, int, Pairs]] = {}
        """By request: it, the number of its first copy, and its copies, each of which has a number of its own."""
        self._count = 0

    def found(self, request: Request, told: Any) -> int:
        """Note what a lookup found here of the request's tokens behind what the device has: so many blocks, in each
        group."""
        request.on_host = self._layout.on_host(told)
        return self._layout.length(request.on_host)

    def begin_load(self, request: Request, told: Any) -> bool:
        """What was found is copied into the request's new blocks, before anything is computed there; or that begins
        now, and then it is true."""
        pairs = copies(told, "load")
        if not self._waits:
            self._tell("copied", [["host", a, "device", b] for a, b in pairs])
            return False
        self._loads[request.name] = request, self._count, pairs
        for which, (a, b) in enumerate(pairs, start=self._count):
            self._tell("copy", which, "begin", [["host", a, "device", b]])
        self._count += len(pairs)
        return True

    def end_load(self, name: str, failed: int) -> int:
        """The load of a request ends, and so many of its last copies have failed: how many of them came."""
        _, first, pairs = self._loads.pop(name)
        came = max(0, len(pairs) - failed)
        for at, (a, b) in enumerate(pairs):
            self._tell("copy", first + at, "end" if at < came else "fail", [["host", a, "device", b]])
        return came

    def read_by(self, names: Iterable[str]) -> set[int]:
        """The host blocks that the loads of these requests read."""
        return {a for name in names for a, _ in self._loads[name][2]}

    def begin_stores(self, told: Any) -> None:
        """The manager stores what it likes of the requests' blocks that it was offered."""
        for each in listed(told, "store", "jobs with their copies"):
            job, pairs_told = parts(each, "store", _JOB)
            which, pairs = self._count, copies(pairs_told, "store")
            self._count += 1
            self._tell("copy", which, "begin", [["device", a, "host", b] for a, b in pairs])
            self._jobs[which] = job, pairs
            if not self.takes_time:
                self._end(which)

    def end_store(self, which: int) -> list[Any]:
        """One of the stores that are under way is done, and they may come in any order: its job, if there is one."""
        return [self._end([*self._jobs][which % len(self._jobs)])] if self._jobs else []

    def end_stores(self) -> Iterator[Any]:
        """All of them are, one after the other: their jobs."""
        return (self._end(which) for which in [*self._jobs])

    def _end(self, which: int) -> Any:
        job, pairs = self._jobs.pop(which)
        self._tell("copy", which, "end", [["device", a, "host", b] for a, b in pairs])
        return job

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
