"""What a chunk manager knows of uses: which keys were seen often enough to be stored, and what was used last (O12)."""

from collections import Counter
from collections.abc import Collection, Iterable

__all__ = ["Sightings", "Uses"]


class Sightings:
    """How often keys were offered, as long as all of them can be counted. Whether a reset forgets it is open."""

    def __init__(self, threshold: int, most: int) -> None:
        """Keys are stored from so many sightings on; of so many at most it is known how often they were seen."""
        self._threshold, self._most = threshold, most
        self._seen: Counter[int] = Counter()
        self._since_reset: Counter[int] = Counter()

    def offered(self, keys: Iterable[int], told: Collection[int]) -> list[int]:
        """Return those of the keys offered now that may be stored; where that is open, those that the manager told."""
        keys = [*keys]
        self._seen.update(keys)
        self._since_reset.update(keys)
        if len(self._seen) > self._most:
            return [*told]
        surely = {k for k in keys if self._since_reset[k] >= self._threshold}
        return [k for k in keys if k in surely or (k in told and self._seen[k] >= self._threshold)]

    def reset(self) -> None:
        """All was forgotten, or all but this."""
        self._since_reset.clear()


class Uses:
    """When keys were used last, at least and at most: releases differ in what else is a use.

    A key is used when it is touched, and when it is stored: by some releases as of when its request began. It may be
    used whenever a call names it, when its transfers end, and when a request ends that named it. In some releases the
    end of a request is a use of all that it loaded and stored.
    """

    def __init__(self, *, ends: bool) -> None:
        """Nothing was used; whether the ``ends`` of requests are uses for certain."""
        self._now, self._ends = 0, ends
        self._at_least: dict[int, int] = {}
        self._at_most: dict[int, int] = {}
        self._began: dict[int, int] = {}
        self._named: dict[int, set[int]] = {}
        """What a request named."""
        self._had: dict[int, set[int]] = {}
        """What it has loaded or stored."""

    def called(self, op: str, request: int | None, keys: Iterable[int]) -> None:
        """A call has named these keys."""
        self._now += 1
        used = set(keys)
        if request is not None:
            self._began.setdefault(request, self._now)
            named = self._named.setdefault(request, set())
            named |= used
            if op == "finish":
                used = named
                del self._began[request], self._named[request]
                if self._ends:
                    self._at_least |= dict.fromkeys(self._had.pop(request, ()), self._now)
        self._at_most |= dict.fromkeys(used, self._now)

    def touched(self, keys: Iterable[int]) -> None:
        """The call that was told last has touched these keys."""
        self._at_least |= dict.fromkeys(keys, self._now)

    def stored(self, request: int, keys: Iterable[int]) -> None:
        """The call that was told last has found a place for these keys."""
        keys = [*keys]
        self._at_least |= dict.fromkeys(keys, self._began[request])
        self._had.setdefault(request, set()).update(keys)

    def loaded(self, request: int, keys: Iterable[int]) -> None:
        """The call that was told last loads these keys."""
        self._had.setdefault(request, set()).update(keys)

    def forget(self) -> None:
        """Nothing is there any more."""
        self._had.clear()

    def was_used_before(self, k: int, other: int) -> bool:
        """Whether a key was certainly not used since another one was."""
        return self._at_most.get(k, 0) < self._at_least.get(other, 0)
