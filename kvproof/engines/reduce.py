"""Making a case small: operations are left out and their arguments made simple for as long as the same fault shows."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ..judge.record import Case
from ..judge.violation import Verdict

__all__ = ["reduced"]

Judged = Callable[[Case], Verdict | None]


def reduced(case: Case, found: Verdict, judged: Judged, seconds: float) -> tuple[Case, Verdict]:
    """Return a smaller case with the same fault, and what is wrong with it.

    Args:
        case: a whole sequence, closing operations included.
        found: what is wrong with it.
        judged: runs a case and says what is wrong.
        seconds: nothing is left out for longer.
    """
    best = _Best(case, found, judged, time.monotonic() + seconds)
    # What comes after the fault has no part in it.
    best.take(case.ops[: found.at + 1])
    shrunk = True
    while shrunk and not best.late():
        shrunk = _leave_out(best)
        shrunk = _simplify(best) or shrunk
    return best.case, best.verdict


class _Best:
    """The smallest case so far."""

    def __init__(self, case: Case, verdict: Verdict, judged: Judged, deadline: float) -> None:
        self.case, self.verdict = case, verdict
        self._judged, self._deadline = judged, deadline
        self._wanted = verdict.violation.signature

    def late(self) -> bool:
        return time.monotonic() >= self._deadline

    def take(self, ops: list[tuple[str, dict[str, Any]]]) -> bool:
        """Keep these operations, if they show the same fault."""
        candidate = msgspec.structs.replace(self.case, ops=ops)
        found = self._judged(candidate)
        if found is None or found.violation.signature != self._wanted:
            return False
        self.case = msgspec.structs.replace(candidate, ops=ops[: found.at + 1])
        self.verdict = found
        return True


def _leave_out(best: _Best) -> bool:
    """Leave out operations: runs of them first, then single ones."""
    shrunk, size = False, max(1, len(best.case.ops) // 2)
    while size:
        at = 0
        while at < len(best.case.ops) and not best.late():
            if best.take(best.case.ops[:at] + best.case.ops[at + size :]):
                shrunk = True
            else:
                at += size
        size //= 2
    return shrunk


def _simplify(best: _Best) -> bool:
    """Make arguments smaller: nought is the simplest number, and the shortest list the simplest list."""
    shrunk, at = False, 0
    while at < len(best.case.ops):
        op, args = best.case.ops[at]
        for name in args:
            for simpler in _simpler(args[name]):
                if best.late():
                    return shrunk
                ops = best.case.ops
                changed = (op, {**ops[at][1], name: simpler})
                if best.take([*ops[:at], changed, *ops[at + 1 :]]):
                    shrunk = True
                    break
            if at >= len(best.case.ops):
                break
        at += 1
    return shrunk


def _simpler(value: Any) -> Iterator[Any]:
    """Simpler values than this one, the simplest first; none for what is neither a number nor a list of plain data."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        yield from sorted({0, value // 2, value - 1})
    elif isinstance(value, list) and value and all(isinstance(item, int) for item in value):
        if len(value) > 1:
            yield value[: len(value) // 2]
            yield value[:-1]
            yield value[1:]
        if any(value):
            yield [0] * len(value)
            yield [min(item, 1) for item in value]
    elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        yield from ([], value[: len(value) // 2], value[1:])
