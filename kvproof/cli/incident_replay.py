"""An incident of the sanitizer once more: what a running engine was seen to do, judged again and told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..checkers.trace import Trace, write_itf
from ..engines.vllm.sanitizer.judging import Call, Verdict
from ..errors import ExitStatus, UsageError
from ..spec.rules import RULES
from ..testing.chunk_incidents import is_of_chunks
from ..testing.incidents import Incident, Judgement, incident_of, judged
from .chunk_replay import replay_chunks
from .output import Output
from .schema import runs as schema
from .written import writing

__all__ = ["replay_incident"]

SHOWN = 12
"""How many of the calls that concern the blocks are shown, the last ones."""


def replay_incident(output: Output, name: str, recorded: Trace, target: str | None, itf: Path | None) -> int:
    """Judge an incident again and tell what is wrong.

    Raises:
        UsageError: a target is named; an incident is what was seen of a running engine, and runs on none.
        TraceError: the incident is not readable.
    """
    if target is not None:
        raise UsageError(f"{name} is what was seen of a running engine, and runs on no target; leave --target out")
    incident = None if is_of_chunks(recorded) else incident_of(recorded, name)
    if itf is not None:
        with writing(itf):
            write_itf(itf, recorded)
    if incident is None:
        return replay_chunks(output, name, recorded)
    judgement = judged(incident)
    for line in _told(name, recorded, incident, judgement):
        output.line(line)
    found = judgement.verdict
    output.report(
        schema.ReplayIncident(
            trace=name,
            subject=recorded.subject,
            operations=len(recorded.operations),
            outcome=judgement.outcome,
            problem=None
            if found is None
            else schema.SeenProblem(
                rule=found[1].rule, kind=found[1].kind, text=found[1].text, at=found[0], blocks=list(found[1].blocks)
            ),
            unseen=[text for _, text in judgement.unseen],
        )
    )
    return ExitStatus.HOLDS if found is None else ExitStatus.REFUTED


def _told(name: str, recorded: Trace, incident: Incident, judgement: Judgement) -> Iterator[str]:
    if judgement.verdict is None:
        yield f"{name}: {len(incident.calls)} calls of {recorded.subject}: nothing is wrong with what was seen"
        if incident.last is None:
            yield "  it holds no state of the pool, so no state could be judged"
        return
    at, verdict = judgement.verdict
    yield f"{verdict.rule} {verdict.kind}: {recorded.subject}, seen by the sanitizer"
    yield f"  what: {verdict.text}"
    if rule := RULES.get(verdict.rule):
        yield f"  rule {rule.code}: {rule.sentence}"
    where = "the state after all of them" if at == len(incident.calls) else f"call {at + 1}"
    yield f"  where: {where}, of {len(incident.calls)} calls of the block pool since it was last checked"
    if at == len(incident.calls) and judgement.also:
        yield f"  the oracle of states says: {judgement.also[0][0]}: {judgement.also[0][1]}"
    yield from _story(incident, at, verdict)
    concerned = [(n, text) for n, text in judgement.unseen if n <= at]
    for n, text in concerned[-SHOWN:]:
        yield f"  between calls, seen before {n + 1}: {text}"
    if judgement.outcome == "other":
        yield f"  the incident was written for another fault: {incident.rule} {incident.kind}: {incident.text}"
    stack = recorded.dialect.get("stack")
    if isinstance(stack, list) and stack and at == incident.at:
        yield "  the engine's calls that led there, the innermost last:"
        for frame in stack[-6:]:
            yield f"    {':'.join(map(str, frame)) if isinstance(frame, list) else frame}"


def _story(incident: Incident, at: int, verdict: Verdict) -> Iterator[str]:
    """What happened to the blocks that it is about."""
    about = set(verdict.blocks)
    calls = [(n, call) for n, call in enumerate(incident.calls[: at + 1]) if about & {*call.blocks} or n == at]
    if len(calls) > SHOWN:
        yield f"  … {len(calls) - SHOWN} earlier calls concern it"
    for n, call in calls[-SHOWN:]:
        raised = f"  ! {call.error}" if call.error else ""
        yield f"  {n + 1:>6} step {call.step}: {call.op} {_blocks(call, about)}{raised}"


def _blocks(call: Call, about: set[int]) -> str:
    """The blocks of a call with their counts before and after it, the ones that it is about if there are many."""
    counts = list(zip(call.blocks, call.before, call.after, strict=False))
    shown = counts if len(counts) <= 6 else [entry for entry in counts if entry[0] in about][:6]
    words = ", ".join(f"{b} (ref_cnt {before} → {after})" for b, before, after in shown)
    return words + (f" … {len(counts)} blocks" if len(shown) < len(counts) else "")
