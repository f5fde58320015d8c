"""Incidents of the sanitizer that are about a chunk manager, judged again (docs/sanitizer.md).

Their calls are played into books from the state that they begin in, as the engine's process did; nothing in them is
run. What was seen ends with the fault, so the first one that is found is the last thing that there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from ..checkers.trace import Operation, Trace
from ..engines.vllm.sanitizer.chunk_judging import Books, ChunkCall, ChunkState, judge_chunk_call, judge_chunks
from ..untrusted import limits
from .incident_calls import Calls, Found, Outcome, check_entries, check_place, compared, reading

__all__ = ["ChunkIncident", "chunk_incident_of", "is_of_chunks", "judged_chunks"]

_CALLS: Final = Calls(ChunkCall, ("offer", "stored", "load", "loaded", "reset"))


class _First(msgspec.Struct):
    entries: list[tuple[int, int, int]]


class _Last(msgspec.Struct):
    entries: list[tuple[int, int, int]]
    free: list[int]
    begun: int
    counters: tuple[int, int, int]


class _Violation(msgspec.Struct):
    rule: str
    oracle: str
    text: str
    at: int


@dataclass(frozen=True)
class ChunkIncident:
    """What was seen of one chunk manager; keys are numbers."""

    chunks: int
    rule: str
    """The rule that was broken when it was written, and in a word or two how."""
    kind: str
    text: str
    at: int
    """Which operation broke it, counted from 0; behind the calls stands the state, where that did."""
    calls: tuple[ChunkCall, ...]
    first: tuple[tuple[int, int, int], ...] | None
    """The entries before the first call; None where they were too many to be kept."""
    last: ChunkState | None
    """The state at the end."""


def is_of_chunks(trace: Trace) -> bool:
    """Whether an incident is about a chunk manager, and not about a block pool."""
    return "chunks" in trace.dialect


def chunk_incident_of(trace: Trace, name: str) -> ChunkIncident:
    """Return the incident that a trace is; messages call it by its ``name``.

    Raises:
        TraceError: it is none, or tells of chunks or keys that there cannot be.
    """
    with reading(name):
        chunks = trace.sizes["blocks"]
        if not 0 < chunks <= limits.BLOCKS:
            raise ValueError(f"its manager has {chunks} chunks")
        said = msgspec.convert(trace.dialect["violation"], _Violation)
        first = None if trace.initial is None else tuple(msgspec.convert(trace.initial, _First).entries)
        ends = bool(trace.operations) and trace.operations[-1].op == "state"
        calls = tuple(_call(operation) for operation in trace.operations[: -1 if ends else None])
        state = msgspec.convert(trace.operations[-1].snapshot, _Last) if ends else None
        last = None if state is None else ChunkState(state.entries, state.free, state.begun, state.counters)
        if last is not None and not 0 <= last.begun <= limits.BLOCKS:
            raise ValueError(f"{last.begun} chunks were handed out")
        check_place(said.at, trace, whole=True)
    return ChunkIncident(chunks, said.rule, said.oracle, said.text, said.at, calls, first, last)


def judged_chunks(incident: ChunkIncident) -> tuple[Outcome, Found | None]:
    """Judge an incident again: whether it shows its fault, and which operation breaks which rule."""
    if incident.first is None:
        return "none", None
    found = next(_faults(incident, Books(incident.chunks, incident.first)), None)
    return compared([] if found is None else [found], incident.at, incident.rule, incident.kind)


def _faults(incident: ChunkIncident, books: Books) -> Iterator[Found]:
    for at, call in enumerate(incident.calls):
        if (verdict := judge_chunk_call(books, call)) is not None:
            yield at, verdict
    if incident.last is not None:
        for verdict in judge_chunks(books, incident.last):
            yield len(incident.calls), verdict


def _call(operation: Operation) -> ChunkCall:
    call = _CALLS.read(operation)
    if any(type(key) is not int for key in (*call.keys, *call.stored, *call.evicted)):
        raise ValueError(f"a key of {call.op} is no number")
    for field, keys in (("before", call.keys), ("after", call.keys), ("left", call.evicted)):
        if call.op != "reset":
            check_entries(call, field, len(keys))
    return call
