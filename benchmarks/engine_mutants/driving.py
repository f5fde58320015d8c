"""Mutants of a module, all driven by the same cases: which are told, and which are missed."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from benchmarks.engine_mutants.mutating import Mutant, mutants, traced
from kvproof.engines.cases import MoreOracles, Op
from kvproof.engines.drawing import DRAWING
from kvproof.engines.session import WorkerError
from kvproof.engines.traits import Traits
from kvproof.engines.verdicts import CLOSING, Runs, close, verdict
from kvproof.judge.record import Answer, Case
from kvproof.judge.violation import Violation

__all__ = [
    "Bench",
    "Judged",
    "Opens",
    "Outcome",
    "Subject",
    "asked_for",
    "by_the_judge",
    "drawn",
    "keep",
    "last_of",
    "outcomes",
]

Signature = tuple[str, ...]

Opens = Callable[[str], AbstractContextManager[Runs]]
"""Lets what is driven have this text as its module.

Raises:
    WorkerError: it does not start with it.
"""

Judged = Callable[[Runs, Case], tuple[Sequence[Violation], Answer]]
"""Runs a case; returns what is wrong with it, and what was told."""


def by_the_judge(more: MoreOracles | None, session: Runs, case: Case) -> tuple[Sequence[Violation], Answer]:
    """What a hunt says of a case."""
    found, answer = verdict(session, case, more)
    return () if found is None else found.violations, answer


@dataclass(frozen=True)
class Subject:
    """What is driven, and judged by what."""

    module: str
    level: str
    source: str
    """The module's text as it is."""
    judged: Judged
    traits: Traits


class Outcome(msgspec.Struct, frozen=True):
    """What came of a mutant."""

    module: str
    level: str
    line: int
    column: int
    function: str
    what: str
    came: str
    """``told``, ``start`` (the worker does not start), ``refused``, ``same`` or ``missed``."""
    seconds: float
    cases: int
    by: list[str] = []
    """The signature of what told it."""
    text: str = ""
    first: int = -1
    """The number of the first case that it answers otherwise."""


def outcomes(path: Path) -> list[Outcome]:
    """What was found so far."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Outcome) for line in path.read_bytes().splitlines()]


def asked_for(every: Sequence[Mutant], path: Path, module: str, level: str, *, again: bool) -> list[Mutant]:
    """The mutants of which nothing was found so far, or ``again`` those that were missed."""
    came = {(o.line, o.column, o.what): o.came for o in last_of(path, module, level)}
    wanted = "missed" if again else None
    return [m for m in every if came.get((m.line, m.column, m.what)) == wanted]


def keep(outcome: Outcome, path: Path) -> None:
    """Write what came of a mutant behind the others, and say it."""
    with path.open("ab") as sink:
        sink.write(msgspec.json.encode(outcome) + b"\n")
    where = f"{outcome.line:4} {outcome.function}"
    print(f"{outcome.came:6} {where}: {outcome.what}  {outcome.text[:90]}", flush=True)


def last_of(path: Path, module: str, level: str) -> list[Outcome]:
    """What was found last of each mutant of a module, at a level."""
    found = [outcome for outcome in outcomes(path) if (outcome.module, outcome.level) == (module, level)]
    return [*{(outcome.line, outcome.column, outcome.what): outcome for outcome in found}.values()]


class Bench:
    """The cases, and what the module as it is answers."""

    def __init__(self, subject: Subject, cases: Iterator[Case], opens: Opens, sink: Path, seconds: float) -> None:
        """Take cases and run them with the module as it is, twice: what it answers differently by itself says nothing.

        ``sink`` is a file for the lines that they reach.
        """
        self.subject, self.seconds = subject, seconds
        self.cases: list[Case] = []
        self.known: dict[Signature, frozenset[str]] = {}
        """The symptoms of the module as it is, each with what all cases have that show it."""
        self.refused: set[int] = set()
        """The numbers of the cases that the module as it is refuses."""
        with opens(subject.source) as session:
            first = [*self._answered(session, cases, keep=True)]
        with opens(traced(subject.source, str(sink))) as session:
            again = [*self._answered(session, iter(self.cases))]
        self._digests = [one if one == other else "" for one, other in zip(first, again, strict=True)]
        self.lines = {int(line) for line in sink.read_text().split()}
        """The lines of the module that the cases reach."""

    def _answered(self, session: Runs, cases: Iterator[Case], *, keep: bool = False) -> Iterator[str]:
        until = time.monotonic() + self.seconds * 1.5
        for case in cases:
            found, answer = self.subject.judged(session, case)
            if keep:
                if answer.refused is not None:
                    self.refused.add(len(self.cases))
                self.cases.append(case)
            traits = self.subject.traits.of(case)
            for violation in found:
                self.known[violation.signature] = traits & self.known.get(violation.signature, traits)
            yield _digest(answer)
            if len(self.cases) == 1:
                until = time.monotonic() + self.seconds * 1.5  # The first waits for the engine's import.
            if keep and time.monotonic() > until:
                return

    def mutants(self) -> list[Mutant]:
        """The mutants of what the cases reach."""
        return [*mutants(self.subject.source, self.lines)]

    def outcome(self, mutant: Mutant, opens: Opens) -> Outcome:
        """Drive a mutant by the cases until one tells it, or the time is over."""
        where = (mutant.line, mutant.column, mutant.function, mutant.what)
        outcome = Outcome(self.subject.module, self.subject.level, *where, "start", 0.0, 0)
        try:
            with opens(mutant.source) as session:
                return self._driven(session, outcome)
        except WorkerError as error:
            return replaced(outcome, text=str(error))

    def _news(self, case: Case, found: Sequence[Violation]) -> Violation | None:
        """The first that the module as it is does not show, or not without something that the case has not."""
        known, traits = self.known, self.subject.traits.of(case)
        return next((v for v in found if v.signature not in known or not known[v.signature] <= traits), None)

    def _driven(self, session: Runs, outcome: Outcome) -> Outcome:
        began, first, cases = time.monotonic(), -1, 0
        for case, digest in zip(self.cases, self._digests, strict=True):
            found, answer = self.subject.judged(session, case)
            seconds, cases = round(time.monotonic() - began, 2), cases + 1
            new = self._news(case, found)
            if new is not None:
                said, by = f"{new.rule}: {new.text}", [*new.signature]
                return replaced(outcome, came="told", seconds=seconds, cases=cases, by=by, text=said)
            if answer.refused is not None and cases - 1 not in self.refused:
                return replaced(outcome, came="refused", seconds=seconds, cases=cases, text=answer.refused)
            if first < 0 and digest not in ("", _digest(answer)):
                first = cases - 1
            if cases == 1:
                began = time.monotonic()  # The first waits for the engine's import.
            elif seconds > self.seconds:
                break
        came = "same" if first < 0 else "missed"
        return replaced(outcome, came=came, seconds=seconds, cases=cases, first=first)


def drawn(
    profiles: Mapping[str, st.SearchStrategy[Case]], number: int, closing: Sequence[Op] = CLOSING
) -> Iterator[Case]:
    """Cases of all families in turn, without end."""
    families = [*profiles.values()]
    for turn in range(1_000_000):
        yield from _a_few(families[turn % len(families)], number * 1_000_003 + turn, closing)


def _a_few(family: st.SearchStrategy[Case], number: int, closing: Sequence[Op]) -> list[Case]:
    cases: list[Case] = []

    def keep(case: Case) -> None:
        cases.append(close(case, closing))

    seed(number)(settings(DRAWING, max_examples=6)(given(family)(keep)))()
    return cases


def _digest(answer: Answer) -> str:
    return hashlib.blake2b(msgspec.json.encode([answer.steps, answer.refused]), digest_size=8).hexdigest()
