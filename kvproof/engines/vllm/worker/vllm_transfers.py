"""The copies of a connector, with their moments in our hands.

A copy is submitted by the release's own worker-side code, once by each worker, and ends when we say so. Copies of one
stream end in the order in which they were submitted, as on a device; streams know nothing of each other. What is told
is one copy for all workers: it begins with the first worker's part and ends with the last one's.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from level import Level

__all__ = ["Part", "Transfers"]

Stream = tuple[str, str, int]
"""Tier, what it carries, and the worker that it belongs to."""


@dataclass(eq=False)
class Part:
    """One worker's part of a copy."""

    name: str
    stream: Stream
    ended: Callable[[bool], list | None] | None = None
    """Told when it ends, and whether it is to fail; what it brought, where that is not what was told."""
    done: bool = False
    failed: bool = False


@dataclass
class _Copy:
    """A copy under way."""

    missing: int
    """Workers whose part has not ended."""
    failed: bool = False


@dataclass
class Transfers:
    """All copies under way."""

    level: Level
    workers: int
    requests: Mapping[str, Any] = field(default_factory=dict)
    """The scheduler's, by name."""
    fallible: set[str] = field(default_factory=set)
    """Tiers whose copies may fail: those of releases and connectors that can report it."""
    losing: list[Callable[[int], list[str]]] = field(default_factory=list)
    """Let a tier lose something, which it returns."""
    gaining: list[Callable[[int], list[str]]] = field(default_factory=list)
    """Let a tier have what another engine put there, which it returns."""
    _copies: dict[str, _Copy] = field(default_factory=dict)
    _streams: dict[Stream, deque[Part]] = field(default_factory=dict)

    def announce(
        self,
        tier: str,
        kind: str,
        number: object,
        pairs: list,
        *,
        order: str | None = None,
        alone: bool = False,
        after: str | None = None,
    ) -> str:
        """Tell that a copy may begin from here on, unless that was told; return its name.

        ``order``: ``behind`` what steps were told to do so far, or ``void``, since a reset came since it was planned.
        ``alone``: it is one part, not one of each worker. ``after``: the copy that it waits for.
        """
        name = f"{tier} {kind} {number}"
        if name not in self._copies:
            self._copies[name] = _Copy(1 if alone else self.workers)
            rest = [order, after] if after else [order] if order else []
            self.level.tell("copy", name, "begin", pairs, *rest)
        return name

    def submit(
        self,
        tier: str,
        kind: str,
        worker: int,
        number: object,
        pairs: list,
        stream: str = "",
        *,
        order: str | None = None,
        alone: bool = False,
        ended: Callable[[bool], list | None] | None = None,
    ) -> Part:
        """A worker puts its part of a copy on a stream: the one for copies of this kind, or one of its own.

        ``alone``: there is no other part. ``ended``: is called when it ends, with whether it is to fail, and returns
        the pairs that it brought where these are not what was told.
        """
        of = (tier, stream or kind, worker)
        after = self._streams[of][-1].name if of in self._streams else None
        name = self.announce(tier, kind, number, pairs, order=order, alone=alone, after=after)
        part = Part(name, of, ended)
        self._streams.setdefault(part.stream, deque()).append(part)
        return part

    def end(self, part: Part, failed: bool = False) -> list[str]:
        """End a part and those before it on its stream; return the names of the copies."""
        ended: list[str] = []
        while not part.done:
            stream = self._streams[part.stream]
            first = stream.popleft()
            if not stream:
                del self._streams[part.stream]
            first.done, first.failed = True, failed and first is part
            ended.append(first.name)
            self._ended(first)
        return ended

    def complete(self, pick: int, how: int) -> dict | None:
        """End the oldest copy of a stream (``how`` 0), or all of it (1), or let the oldest fail if it may (2), or end
        all copies of all streams (3); or let a tier lose something (4), or have something of another engine (5).

        None when nothing is under way, or can be lost or had.
        """
        if how in (4, 5):
            name, others = ("lost", self.losing) if how == 4 else ("had", self.gaining)
            places = [place for other in others for place in other(pick)]
            return {name: places} if places else None
        if not self._streams:
            return None
        if how == 3:
            return {"ended": [name for key in sorted(self._streams) for name in self.end(self._streams[key][-1])]}
        key = sorted(self._streams)[pick % len(self._streams)]
        stream, failed = self._streams[key], how == 2 and key[0] in self.fallible
        ended = self.end(stream[-1 if how == 1 else 0], failed)
        return {"worker": key[2], "failed" if failed else "ended": ended}

    def pending(self) -> int:
        """How many copies have not ended."""
        return len(self._copies)

    def _ended(self, part: Part) -> None:
        brought = part.ended(part.failed) if part.ended is not None else None
        copy = self._copies[part.name]
        copy.missing -= 1
        copy.failed = copy.failed or part.failed or brought is not None
        if not copy.missing:
            del self._copies[part.name]
            self.level.tell("copy", part.name, "fail" if copy.failed else "end", [])
        if brought:
            self.level.tell("copied", brought)
