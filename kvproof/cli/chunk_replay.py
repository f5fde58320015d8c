"""An incident of the sanitizer about a chunk manager once more, judged again and told."""

from __future__ import annotations

from collections.abc import Iterator

from ..checkers.trace import Trace
from ..engines.vllm.sanitizer.chunk_judging import STORING, ChunkCall, Entry
from ..engines.vllm.sanitizer.judging import Verdict
from ..testing.chunk_incidents import ChunkIncident, chunk_incident_of, judged_chunks
from .incident_telling import fault, last_calls, nothing_wrong, other_fault, report
from .output import Output

__all__ = ["replay_chunks"]


def replay_chunks(output: Output, name: str, recorded: Trace) -> int:
    """Judge an incident again and tell what is wrong.

    Raises:
        TraceError: the incident is not readable.
    """
    incident = chunk_incident_of(recorded, name)
    outcome, found = judged_chunks(incident)
    if found is None:
        lacks = "" if incident.first is not None else "state that its calls begin in"
        for line in nothing_wrong(name, recorded, len(incident.calls), incident, lacks):
            output.line(line)
    else:
        for line in _told(recorded, incident, *found):
            output.line(line)
    if outcome == "other":
        output.line(other_fault(incident))
    return report(output, name, recorded, outcome, found, [], whole=incident.first is not None)


def _told(recorded: Trace, incident: ChunkIncident, at: int, verdict: Verdict) -> Iterator[str]:
    yield from fault(recorded, at, verdict, len(incident.calls), "chunk manager")
    about = set(verdict.blocks)
    yield from last_calls(
        incident.calls, at, lambda call: not about.isdisjoint(_chunks(call)), lambda call: _entries(call, about)
    )


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
