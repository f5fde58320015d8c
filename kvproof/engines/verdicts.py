"""Running a case and saying what is wrong with it."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import msgspec

from ..judge.judging import faults, judge
from ..judge.oracles.words import garbage
from ..judge.record import Answer, Case
from ..judge.violation import Verdict, Violation
from .cases import MoreOracles
from .session import Failure, Run, Session

__all__ = ["CLOSING", "Begun", "Judged", "Result", "Runs", "begun_in", "close", "judged_in", "of_failure", "verdict"]

CLOSING: list[tuple[str, dict[str, Any]]] = [("drain", {}), ("reset", {})]
"""How a sequence ends: everything must come to rest, and rest must be empty."""


class Runs(Protocol):
    """Whoever runs cases: a session with a worker, or a manager in this process."""

    def run(self, case: Case) -> Run:
        """Do a case."""


Result = tuple[Verdict | None, Answer]
"""What is wrong with a case, if anything is; and what the engine told."""

Judged = Callable[[Case, Collection[tuple[str, ...]]], Result]
"""Runs a case and says what is wrong with it, passing over what has a known signature; and what the engine told."""

Begun = Callable[[Case], Callable[[], Result]]
"""Lets the engine begin with a case, while whoever asks does something else; what it returns waits for the end, and
says what is wrong. Cases end in the order in which they begin."""


def close(case: Case, closing: Sequence[tuple[str, dict[str, Any]]] = CLOSING) -> Case:
    """The case with the closing operations."""
    return msgspec.structs.replace(case, ops=[*case.ops, *closing])


def verdict(
    session: Runs, case: Case, more: MoreOracles | None = None, known: Collection[tuple[str, ...]] = ()
) -> Result:
    """Run a case and judge it: the first step that breaks a rule, if one does, and what is broken behind it.

    Violations that are ``known`` are passed over as `judge` does.
    """
    return _of_run(session.run(case), case, more, known)


def _of_run(run: Run, case: Case, more: MoreOracles | None, known: Collection[tuple[str, ...]]) -> Result:
    answer = run.answer
    oracles = None if more is None else more(case)
    if known:
        first = judge(answer, oracles, known)
        found = [] if first is None else [first]
    else:
        found = [*faults(answer, oracles)]
    other = _other_operation(case, answer)
    if other is not None:
        at, text = other
        found = [(number, violations) for number, violations in found if number < at]
        found.append((at, [garbage("answer", text)]))
    if run.failure is not None:
        found.append((len(answer.steps), [of_failure(run.failure)]))
    elif not found and (unanswered := _unanswered(case, answer)):
        found.append((len(answer.steps), [garbage("answer", unanswered)]))
    if not found:
        return None, answer
    (at, violations), *rest = found
    later = tuple((number, violation) for number, others in rest for violation in others)
    return Verdict(violations[0], at, answer, tuple(violations[1:]), later), answer


def _other_operation(case: Case, answer: Answer) -> tuple[int, str] | None:
    """The first step that is of another operation than was asked: by it, and by what follows, nothing can be judged."""
    if answer.world is None:
        return None
    for at, ((asked, _), step) in enumerate(zip(case.ops, answer.steps, strict=False)):
        if step.op != asked:
            return at, f"operation {at + 1} is {asked}, and the answer's step is of {step.op}"
    return None


def _unanswered(case: Case, answer: Answer) -> str | None:
    """What an answer leaves out: what nobody told cannot be judged, and must not pass for right."""
    if answer.refused is not None:
        return "the answer refuses the setup, and has steps all the same" if answer.steps else None
    if answer.world is None:
        return "the answer has neither a world nor a refusal"
    asked, told = len(case.ops), len(answer.steps)  # Of which operation each step is, `_other_operation` has looked at.
    ended = bool(answer.steps) and answer.steps[-1].error is not None
    if told == asked or (ended and told < asked):
        return None
    return f"{asked} operations were asked, and the answer's {told} steps do not fit them"


def of_failure(failure: Failure) -> Violation:
    """A worker that was lost on legal calls."""
    return Violation("L2", failure.kind, failure.text, (failure.kind,))


def judged_in(session: Runs, more: MoreOracles | None = None) -> Judged:
    """Cases run in a session, and judged by the oracles and ``more``."""
    return lambda case, known: verdict(session, case, more, known)


def begun_in(session: Session, more: MoreOracles | None = None) -> Begun:
    """Cases begun in a session, and judged as `judged_in` does: the engine is at work on the next one meanwhile."""

    def begun(case: Case) -> Callable[[], Result]:
        asked = session.ask(case)
        return lambda: _of_run(session.answer(asked), case, more, ())

    return begun
