"""One chunk manager under watch: `watch` for `CPUOffloadingManager`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .chunk_judging import Books, ChunkCall, ChunkState, judge_chunk_call, judge_chunks
from .chunk_observing import CHUNK_FIELDS, chunk_state
from .incident import filed, first_line
from .judging import Verdict
from .ring import Ring
from .saying import say
from .settings import Settings
from .watch import MOST_BLOCKS, MOST_INCIDENTS, ViolationError

__all__ = ["ChunkWatch"]


class ChunkWatch:
    """The watch of one chunk manager."""

    def __init__(self, manager: Any, settings: Settings, release: str, number: int) -> None:
        """Begin with a new manager.

        Raises:
            ValueError: it is not made as the known ones are.
        """
        if lacks := [name for name in CHUNK_FIELDS if not hasattr(manager, name)]:
            raise ValueError(f"a {type(manager).__name__} without {lacks[0]} is not as it knows it")
        self.steps = 0
        self.alive = True
        """False once the sanitizer itself failed: it then stays out of the engine's way."""
        self._settings = settings
        self._release = release
        self._number = number
        self._since = 0
        self._kept = manager._num_chunks <= MOST_BLOCKS
        self._told: set[tuple[str, str]] = set()
        self._begin(manager, chunk_state(manager))

    def saw(self, manager: Any, fields: tuple[Any, ...]) -> None:
        """Take note of a call, given as the fields of a `ChunkCall`, and judge it; and the state where it is time.

        It is time at the first call after so many steps, not at the step: between its calls a manager may be used by
        another thread, which holds a lock of the engine's.

        Raises:
            ViolationError: a rule is broken, and the engine is to be stopped.
        """
        call = ChunkCall(*fields)
        full = self._ring.add(fields)
        verdict = judge_chunk_call(self._books, call)
        if verdict is not None:
            state = chunk_state(manager)
            self._report(manager, (verdict,), None)
            self._begin(manager, state)
            self._stop(verdict)
            return
        if full or (self._settings.every and self._since >= self._settings.every):
            state = chunk_state(manager)
            verdicts = tuple(judge_chunks(self._books, state))
            if verdicts:
                self._report(manager, verdicts, state)
            self._begin(manager, state)
            if verdicts:
                self._stop(verdicts[0])

    def stepped(self, _manager: Any, _scheduler: Any | None) -> None:
        """A step of the scheduler was processed."""
        self.steps += 1
        self._since += 1

    def _begin(self, manager: Any, state: ChunkState) -> None:
        """What comes next begins here, broken or not."""
        self._books = Books(manager._num_chunks, state.entries)
        self._start = self._books.entries() if self._kept else None
        self._ring, self._since = Ring(_weight), 0

    def _stop(self, verdict: Verdict) -> None:
        if self._settings.stop:
            raise ViolationError(f"{verdict.rule}: {verdict.text}")

    def _report(self, manager: Any, verdicts: tuple[Verdict, ...], state: ChunkState | None) -> None:
        """Write an incident, once for each kind of fault; ``state``: what broke the rule, if no call did."""
        verdict = verdicts[0]
        if (verdict.rule, verdict.kind) in self._told or len(self._told) >= MOST_INCIDENTS:
            return
        self._told.add((verdict.rule, verdict.kind))
        numbered = _numbering()
        first = None if self._start is None else {"entries": _entries(self._start, numbered)}
        operations = [_operation(ChunkCall(*fields), numbered) for fields in self._ring.calls()]
        if state is not None and self._kept:
            last = {**state._asdict(), "entries": _entries(state.entries, numbered)}
            operations.append({"op": "state", "args": {}, "snapshot": last})
        about = {"chunks": {"number": self._number, "kind": type(manager).__name__}}
        at = len(operations) - 1
        header = first_line(self._release, self._settings, self.steps, manager._num_chunks, verdicts, at, about)
        lines = [{**header, "initial": first}, *operations, {"end": True, "operations": len(operations)}]
        said = filed(self._settings, verdict, f"chunk manager {self._number}", f"chunks-{self._number}", lines)
        say(said)


def _weight(fields: tuple[Any, ...]) -> int:
    """About how many numbers a call takes up in a trace."""
    call = ChunkCall(*fields)
    return 12 + 5 * len(call.keys) + 8 * len(call.evicted)


def _operation(call: ChunkCall, numbered: Callable[[Any], int]) -> dict[str, Any]:
    """What was seen of a call, without what is as it mostly is, and with numbers for keys."""
    named = call._replace(
        keys=tuple(map(numbered, call.keys)),
        stored=tuple(map(numbered, call.stored)),
        evicted=tuple(map(numbered, call.evicted)),
    )
    usual = ChunkCall._field_defaults
    seen = {name: value for name, value in named._asdict().items() if name not in usual or value != usual[name]}
    return {"op": seen.pop("op"), "args": seen}


def _entries(entries: Any, numbered: Callable[[Any], int]) -> list[list[int]]:
    return [[numbered(key), chunk, count] for key, chunk, count in entries]


def _numbering() -> Callable[[Any], int]:
    """What numbers keys in the order in which it meets them."""
    numbers: dict[Any, int] = {}
    return lambda key: numbers.setdefault(key, len(numbers))
