"""How the incidents of block pools and of chunk managers are told and reported alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ..checkers.trace import Trace
from ..engines.vllm.sanitizer.chunk_judging import ChunkCall
from ..engines.vllm.sanitizer.judging import Call, Verdict
from ..errors import ExitStatus
from ..spec.rules import RULES
from ..testing.chunk_incidents import ChunkIncident
from ..testing.incident_calls import Found, Outcome
from ..testing.incidents import Incident
from .output import Output
from .schema import runs as schema

__all__ = ["SHOWN", "fault", "last_calls", "nothing_wrong", "other_fault", "report"]

SHOWN = 12
"""How many lines of one kind are shown, the last ones."""

C = TypeVar("C", Call, ChunkCall)


def nothing_wrong(
    name: str, recorded: Trace, calls: int, written_for: Incident | ChunkIncident, lacks: str
) -> Iterator[str]:
    """No rule is broken; ``lacks``: what the incident does not hold, so that it could not be judged."""
    yield f"{name}: {calls} calls of {recorded.subject}: nothing is wrong with what was seen"
    if lacks:
        yield f"  not judged: it holds no {lacks}"
    yield f"  the incident was written for: {written_for.rule} {written_for.kind}: {written_for.text}"


def fault(recorded: Trace, at: int, verdict: Verdict, calls: int, of: str) -> Iterator[str]:
    """Which rule is broken, and where; ``of`` says what was called."""
    yield f"{verdict.rule} {verdict.kind}: {recorded.subject}, seen by the sanitizer"
    yield f"  what: {verdict.text}"
    if rule := RULES.get(verdict.rule):
        yield f"  rule {rule.code}: {rule.sentence}"
    where = "the state after all of them" if at == calls else f"call {at + 1}"
    yield f"  where: {where}, of {calls} calls of the {of} since it was last checked"


def last_calls(calls: Sequence[C], at: int, concerned: Callable[[C], bool], words: Callable[[C], str]) -> Iterator[str]:
    """The calls that are concerned, up to the one that broke the rule, in these words."""
    told = [(n, call) for n, call in enumerate(calls[: at + 1]) if n == at or concerned(call)]
    if len(told) > SHOWN:
        yield f"  … {len(told) - SHOWN} earlier calls concern it"
    for n, call in told[-SHOWN:]:
        raised = f"  ! {call.error}" if call.error else ""
        yield f"  {n + 1:>6} step {call.step}: {call.op} {words(call)}{raised}"


def other_fault(incident: Incident | ChunkIncident) -> str:
    """Another rule is broken than was recorded."""
    return f"  the incident was written for another fault: {incident.rule} {incident.kind}: {incident.text}"


def report(
    output: Output,
    name: str,
    recorded: Trace,
    outcome: Outcome,
    found: Found | None,
    unseen: list[str],
    *,
    whole: bool,
) -> ExitStatus:
    """Report what came of an incident, and return the exit status.

    ``unseen`` changed between its calls; where it is not ``whole``, what it was written for may be in what it lacks.
    """
    problem = None
    if found is not None:
        at, verdict = found
        problem = schema.SeenProblem(
            rule=verdict.rule, kind=verdict.kind, text=verdict.text, at=at, blocks=list(verdict.blocks)
        )
    output.report(
        schema.ReplayIncident(
            trace=name,
            subject=recorded.subject,
            operations=len(recorded.operations),
            outcome=outcome,
            problem=problem,
            unseen=unseen,
        )
    )
    if found is not None:
        return ExitStatus.REFUTED
    return ExitStatus.HOLDS if whole else ExitStatus.UNDECIDED
