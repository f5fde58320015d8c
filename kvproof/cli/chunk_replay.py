"""An incident of the sanitizer about a chunk manager once more, judged again and told."""

from __future__ import annotations

from collections.abc import Iterator

from ..checkers.trace import Trace
from ..engines.vllm.sanitizer.chunk_judging import STORING, ChunkCall, Entry
from ..engines.vllm.sanitizer.judging import Verdict
from ..errors import ExitStatus
from ..spec.rules import RULES
from ..testing.chunk_incidents import ChunkIncident, chunk_incident_of, judged_chunks
from .output import Output
from .schema import runs as schema

__all__ = ["replay_chunks"]

SHOWN = 12
"""How many of the calls that concern the chunks are shown, the last ones."""


def replay_chunks(output: Output, name: str, recorded: Trace) -> int:
    """Judge an incident again and tell what is wrong.

    Raises:
        TraceError: the incident is not readable.
    """
    incident = chunk_incident_of(recorded, name)
    outcome, found = judged_chunks(incident)
    if found is None:
        output.line(f"{name}: {len(incident.calls)} calls of {recorded.subject}: nothing is wrong with what was seen")
        if incident.first is None:
            output.line("  it holds no state that its calls begin in, so none of them could be judged")
    else:
        for line in _told(recorded, incident, *found):
            output.line(line)
    if outcome == "other":
        output.line(f"  the incident was written for another fault: {incident.rule} {incident.kind}: {incident.text}")
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
            unseen=[],
        )
    )
    return ExitStatus.HOLDS if found is None else ExitStatus.REFUTED


def _told(recorded: Trace, incident: ChunkIncident, at: int, verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.rule} {verdict.kind}: {recorded.subject}, seen by the sanitizer"
    yield f"  what: {verdict.text}"
    if rule := RULES.get(verdict.rule):
        yield f"  rule {rule.code}: {rule.sentence}"
    where = "the state after all of them" if at == len(incident.calls) else f"call {at + 1}"
    yield f"  where: {where}, of {len(incident.calls)} calls of the chunk manager since it was last checked"
    about = set(verdict.blocks)
    calls = [(n, call) for n, call in enumerate(incident.calls[: at + 1]) if n == at or about & _chunks(call)]
    if len(calls) > SHOWN:
        yield f"  … {len(calls) - SHOWN} earlier calls concern it"
    for n, call in calls[-SHOWN:]:
        raised = f"  ! {call.error}" if call.error else ""
        yield f"  {n + 1:>6} step {call.step}: {call.op} {_entries(call, about)}{raised}"


def _chunks(call: ChunkCall) -> set[int]:
    return {*call.chunks, *(entry[0] for entry in (*call.before, *call.after) if entry is not None)}


def _entries(call: ChunkCall, about: set[int]) -> str:
    """The keys of a call with what was there for them before and after it; those that it is about, of many."""
    entries = list(zip(call.keys, call.before, call.after, strict=False))
    concerned = [entry for entry in entries if about & {each[0] for each in entry[1:] if each is not None}]
    shown = entries if len(entries) <= 6 else concerned[:6]
    words = ", ".join(f"key {key} ({_entry(before)} → {_entry(after)})" for key, before, after in shown)
    return words + (f" … {len(entries)} keys" if len(shown) < len(entries) else "")


def _entry(entry: Entry) -> str:
    if entry is None:
        return "nothing"
    chunk, count = entry
    return f"chunk {chunk} {'being stored' if count == STORING else f'ref_cnt {count}'}"
