"""Making a case small: traits are taken away, operations left out and arguments made simple while the fault shows.

What is cheap and takes much away comes first. Everything is tried in one order, so that two cases of one fault end
alike.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ..judge.record import Case
from ..judge.violation import Verdict
from . import clock
from .traits import Traits, with_setup

__all__ = ["Reduction"]

_VARIANTS = 40
"""So many variations of a case without a trait are tried before the trait counts as necessary."""

_ROUNDS = (1, 3, 10)
"""So many rounds of what a drain does are tried in its place."""

Judged = Callable[[Case], Verdict | None]


class Reduction:
    """The smallest case so far that shows a symptom, and its way there."""

    def __init__(
        self, case: Case, verdict: Verdict, judged: Judged, traits: Traits, deadline: float, cost: float = 0.0
    ) -> None:
        """Begin with a whole sequence, closing operations included.

        Args:
            case: what is made small.
            verdict: what is wrong with it, the symptom in front.
            judged: runs a case and says what is wrong.
            traits: what cases of its level may have.
            deadline: nothing is tried that would end later than that, on the monotonic clock.
            cost: seconds that a case which shows the symptom may take: the engine may have to start again.
        """
        self.case, self.verdict, self.traits = case, verdict, traits
        self._judged, self._deadline = judged, deadline
        self._wanted = verdict.violation.signature
        self.cost = cost
        """What the dearest one took: who finds the engine running pays for one start, who does not for two."""
        self.runs = 0
        self.finished = False
        """Whether each trait that is left was seen to be necessary."""

    @property
    def needs(self) -> frozenset[str]:
        """The traits that are left, by which causes are told apart."""
        return self.traits.of(self.case)

    def go_on(self, deadline: float) -> None:
        """Have time until a later moment."""
        self._deadline = deadline

    @property
    def late(self) -> bool:
        """Whether the time is over, or would be before another case has shown the symptom."""
        return clock.monotonic() + self.cost >= self._deadline

    def take(self, candidate: Case, *, unfolded: bool = False) -> bool:
        """Keep a case, if it shows the same; none that breaks something else before replaces one that does not, unless
        it is ``unfolded``: then that was there already, within one operation."""
        if self.late:
            return False
        self.runs += 1
        began = clock.monotonic()
        found = self._judged(candidate)
        found = None if found is None else found.about(self._wanted)
        if found is not None:
            self.cost = max(self.cost, clock.monotonic() - began)
        if found is None or (found.behind is not None and self.verdict.behind is None and not unfolded):
            return False
        self.case = msgspec.structs.replace(candidate, ops=candidate.ops[: found.at + 1])
        self.verdict = found
        return True

    def cut(self) -> bool:
        """Leave out what has no part in the fault: what comes after it, and what found nothing to do.

        Returns:
            Whether the fault shows again at all.
        """
        ops = self.case.ops[: self.verdict.at + 1]
        done = [op for op, step in zip(ops, self.verdict.answer.steps, strict=False) if not step.skipped]
        return (len(done) < len(ops) and self._ops(done)) or self._ops(ops)

    def jump(self, needs: frozenset[str]) -> bool:
        """Take away all but these traits at once."""
        if not needs <= self.needs or (self.needs != needs and not self.take(self.traits.only(self.case, needs))):
            return False
        self.finished = self.needs == needs
        return self.finished

    def strip(self) -> None:
        """Take away traits one by one, until each that is left is necessary."""
        stripped = True
        while stripped and not self.late:
            stripped = False
            for trait in self.traits.all:
                if trait.has(self.case):
                    before = self.case
                    if self._first(self.traits.without(self.case, trait)):
                        stripped = stripped or self.case != before
        self.finished = not self.late

    def doubt(self, needs: frozenset[str], seed: int) -> bool:
        """Whether the symptom shows with these traits alone, which are not all that are left: variations are tried.

        A trait may seem to be necessary because without it the operations come out a little differently.
        """
        dice = random.Random(seed)
        base = self.traits.only(self.case, needs)
        varied = (_varied(base, self.traits, dice) for _ in range(_VARIANTS))
        return self._first(case for case in varied if self.traits.of(case) == needs)

    def shorten(self) -> None:
        """Leave out operations: runs of them first, then single ones."""
        size = max(1, len(self.case.ops) // 2)
        while size:
            at = 0
            while at < len(self.case.ops) and not self.late:
                ops = self.case.ops[:at] + self.case.ops[at + size :]
                at += 0 if self._ops(ops) else size
            size //= 2

    def unfold(self) -> None:
        """Put single operations in the place of a drain, which does many: they say at which of them the fault shows,
        and whether it is behind another one."""
        single = [*self.traits.drained(self.case)]
        at = len(self.case.ops) - 1 if single else -1
        while at >= 0:
            if self.case.ops[at][0] == "drain":
                self._unfold_at(at, single)
            at = min(at, len(self.case.ops)) - 1  # What was cut may have been more than what was put in.

    def _unfold_at(self, at: int, single: list[tuple[str, dict[str, Any]]]) -> None:
        for rounds in _ROUNDS:
            ops = [*self.case.ops[:at], *single * rounds, *self.case.ops[at + 1 :]]
            if self.take(msgspec.structs.replace(self.case, ops=ops), unfolded=True):
                self.cut()
                return

    def simplify(self) -> None:
        """Make arguments and the numbers of the setup smaller, and once more leave out operations."""
        size = -1
        while size != len(msgspec.json.encode(self.case)) and not self.late:
            size = len(msgspec.json.encode(self.case))
            self._arguments()
            self._first(self.traits.simpler(self.case))
            self.shorten()

    def _first(self, candidates: Iterable[Case]) -> bool:
        """Take the first of some that shows the same."""
        return any(self.take(candidate) for candidate in candidates)

    def _ops(self, ops: list[tuple[str, dict[str, Any]]]) -> bool:
        return self.take(msgspec.structs.replace(self.case, ops=ops))

    def _arguments(self) -> None:
        at = 0
        while at < len(self.case.ops):
            for name in self.case.ops[at][1]:
                for simpler in _simpler(self.case.ops[at][1][name]):
                    ops = self.case.ops
                    changed = (ops[at][0], {**ops[at][1], name: simpler})
                    if self._ops([*ops[:at], changed, *ops[at + 1 :]]):
                        break
                if at >= len(self.case.ops) or self.late:
                    return
            at += 1


def _varied(case: Case, traits: Traits, dice: random.Random) -> Case:
    """The case with a few things changed: operations come twice, go or change places, numbers become others, and
    circumstances come in."""
    ops = list(case.ops)
    circumstances = [trait for trait in traits.all if trait.added is not None]
    for _ in range(dice.randint(1, 4)):
        # A case without operations has only its setup to vary: what is built of it may be what fails.
        what, at = (dice.randrange(5), dice.randrange(len(ops))) if ops else (4, 0)
        if what == 0:
            ops.insert(dice.randrange(len(ops)), ops[at])
        elif what == 1 and len(ops) > 1:
            del ops[at]
        elif what == 2:
            other = dice.randrange(len(ops))
            ops[at], ops[other] = ops[other], ops[at]
        elif what == 3:
            ops[at] = (ops[at][0], {n: _other(v, dice) for n, v in ops[at][1].items()})
        elif circumstances and dice.randrange(2):
            added = dice.choice(circumstances).added
            case = case if added is None else added(case)
        elif traits.numbers:
            name = dice.choice(sorted(traits.numbers))
            if name in case.setup:
                case = with_setup(case, {**case.setup, name: dice.choice(traits.numbers[name])})
    return traits.legal(msgspec.structs.replace(case, ops=ops))


def _other(value: Any, dice: random.Random) -> Any:
    """Another number in the place of one; a list of numbers that is longer or shorter."""
    if isinstance(value, int) and not isinstance(value, bool) and value:
        return max(1, value + dice.randint(-2, 2))
    if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
        return value[: dice.randint(1, len(value))] if dice.randrange(2) else [*value, value[-1]]
    return value


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
