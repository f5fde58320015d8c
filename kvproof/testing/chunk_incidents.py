"""Incidents of the sanitizer that are about a chunk manager, judged again (docs/sanitizer.md).

Their calls are played into books from the state that they begin in, as the engine's process did; nothing in them is
run. What was seen ends with the fault, so the first one that is found is the last thing that there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_type_hints

import msgspec

from ..checkers.trace import Operation, Trace, TraceError
from ..engines.vllm.sanitizer.chunk_judging import Books, ChunkCall, ChunkState, judge_chunk_call, judge_chunks
from ..engines.vllm.sanitizer.judging import Verdict
from ..untrusted import limits

__all__ = ["ChunkIncident", "chunk_incident_of", "is_of_chunks", "judged_chunks"]

_OPERATIONS: Final = ("offer", "stored", "load", "loaded", "reset")

_Seen = msgspec.defstruct(
    "Seen",
    [
        (name, kind, ChunkCall._field_defaults[name]) if name in ChunkCall._field_defaults else (name, kind)
        for name, kind in get_type_hints(ChunkCall).items()
        if name != "op"
    ],
    forbid_unknown_fields=True,
)
"""The arguments of an operation: a `ChunkCall` without its name."""


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
    try:
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
    except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
        why = f"it lacks {error}" if isinstance(error, LookupError) else error
        raise TraceError(f"{name} is no readable incident of the sanitizer: {why}; record it again") from error
    return ChunkIncident(chunks, said.rule, said.oracle, said.text, said.at, calls, first, last)


def judged_chunks(incident: ChunkIncident) -> tuple[Literal["same", "other", "none"], tuple[int, Verdict] | None]:
    """Judge an incident again: whether it shows its fault, and which operation breaks which rule."""
    if incident.first is None:
        return "none", None
    books = Books(incident.chunks, incident.first)
    found: tuple[int, Verdict] | None = None
    for at, call in enumerate(incident.calls):
        if (verdict := judge_chunk_call(books, call)) is not None:
            found = at, verdict
            break
    else:
        verdicts = [] if incident.last is None else list(judge_chunks(books, incident.last))
        if verdicts:
            found = len(incident.calls), verdicts[0]
    if found is None:
        return "none", None
    same = (found[0], found[1].rule, found[1].kind) == (incident.at, incident.rule, incident.kind)
    return ("same" if same else "other"), found


def _call(operation: Operation) -> ChunkCall:
    if operation.op not in _OPERATIONS:
        raise ValueError(f"there is no call {operation.op!r}")
    seen: dict[str, Any] = msgspec.structs.asdict(msgspec.convert(operation.args, _Seen))
    call = ChunkCall(operation.op, **seen)
    if any(type(key) is not int for key in (*call.keys, *call.stored, *call.evicted)):
        raise ValueError(f"a key of {call.op} is no number")
    for field, keys in (("before", call.keys), ("after", call.keys), ("left", call.evicted)):
        if len(getattr(call, field)) != len(keys) and call.op != "reset":
            raise ValueError(f"{field} of {call.op} has {len(getattr(call, field))} entries")
    return call
