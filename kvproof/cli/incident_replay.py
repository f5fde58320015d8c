"""An incident of the sanitizer once more: what a running engine was seen to do, judged again and told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..checkers.trace import Trace, write_itf
from ..engines.vllm.sanitizer.judging import Call
from ..errors import UsageError
from ..testing.chunk_incidents import is_of_chunks
from ..testing.incidents import Incident, Judgement, incident_of, judged
from .chunk_replay import replay_chunks
from .incident_telling import SHOWN, fault, last_calls, nothing_wrong, other_fault, report
from .output import Output
from .written import writing

__all__ = ["replay_incident"]


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
    unseen = [text for _, text in judgement.unseen]
    whole = incident.last is not None
    return report(output, name, recorded, judgement.outcome, judgement.verdict, unseen, whole=whole)


def _told(name: str, recorded: Trace, incident: Incident, judgement: Judgement) -> Iterator[str]:
    if judgement.verdict is None:
        lacks = "" if incident.last is not None else "state of the pool, which may have more blocks than are kept"
        yield from nothing_wrong(name, recorded, len(incident.calls), incident, lacks)
        return
    at, verdict = judgement.verdict
    yield from fault(recorded, at, verdict, len(incident.calls), "block pool")
    if at == len(incident.calls) and judgement.also:
        yield f"  the oracle of states says: {judgement.also[0][0]}: {judgement.also[0][1]}"
    about = set(verdict.blocks)
    yield from last_calls(
        incident.calls, at, lambda call: not about.isdisjoint(call.blocks), lambda call: _blocks(call, about)
    )
    concerned = [(n, text) for n, text in judgement.unseen if n <= at]
    for n, text in concerned[-SHOWN:]:
        yield f"  between calls, seen before {n + 1}: {text}"
    if judgement.outcome == "other":
        yield other_fault(incident)
    stack = recorded.dialect.get("stack")
    if isinstance(stack, list) and stack and at == incident.at:
        yield "  the engine's calls that led there, the innermost last:"
        for frame in stack[-6:]:
            yield f"    {':'.join(map(str, frame)) if isinstance(frame, list) else frame}"


def _blocks(call: Call, about: set[int]) -> str:
    """The blocks of a call with their counts before and after it, the ones that it is about if there are many."""
    counts = list(zip(call.blocks, call.before, call.after, strict=False))
    shown = counts if len(counts) <= 6 else [entry for entry in counts if entry[0] in about][:6]
    words = ", ".join(f"{b} (ref_cnt {before} → {after})" for b, before, after in shown)
    return words + (f" … {len(counts)} blocks" if len(shown) < len(counts) else "")
