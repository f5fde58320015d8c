"""Incidents of the sanitizer, judged again: what a running engine was seen to do (docs/sanitizer.md).

An incident is a trace like any other, sent around like any other: it is parsed and judged, and nothing in it is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from ..checkers.trace import Operation, Trace, TraceError
from ..engines.vllm.sanitizer.judging import Call, judge_call, judge_state
from ..judge.ghost import Ghost
from ..judge.oracles.counting import CountingOracle
from ..judge.record import Group, PoolState, State, Step, Tier, World
from ..untrusted import limits
from .chunk_incidents import is_of_chunks
from .incident_calls import Calls, Found, Outcome, check_entries, check_place, compared, reading

__all__ = ["LEVEL", "Incident", "Judgement", "incident_of", "judged", "shrunk"]

LEVEL: Final = "sanitizer"
"""The level that incidents name in their first line."""

_CALLS: Final = Calls(Call, ("take", "touch", "free", "register", "evict", "reset", "move"))


class _Pool(msgspec.Struct):
    null: int
    exact: bool


class _Violation(msgspec.Struct):
    rule: str
    oracle: str
    text: str
    at: int
    blocks: list[int]


class _Dialect(msgspec.Struct):
    sanitizer: Literal[1]
    violation: _Violation
    pool: _Pool


class _First(msgspec.Struct):
    pool: PoolState


class _Last(msgspec.Struct):
    pool: PoolState
    tables: dict[str, list[list[int]]]
    holds: list[int]


@dataclass(frozen=True)
class Incident:
    """What was seen of one block pool."""

    blocks: int
    null: int
    exact: bool
    """Whether the last state shows all holders."""
    rule: str
    """The rule that was broken when it was written, and in a word or two how."""
    kind: str
    text: str
    at: int
    """Which operation broke it, counted from 0; behind the calls stands the last state."""
    about: frozenset[int]
    """The blocks that it is about."""
    calls: tuple[Call, ...]
    first: PoolState | None
    """The state before the first call."""
    last: _Last | None
    """The state at the end, and who holds what."""


@dataclass(frozen=True)
class Judgement:
    """What is wrong with an incident, judged again."""

    found: tuple[Found, ...]
    """What breaks rules, in order."""
    also: tuple[tuple[str, str], ...]
    """Rule and text, as the kit's own oracle of states judges the last state."""
    unseen: tuple[tuple[int, str], ...]
    """What changed between two calls, and before which operation that was seen."""
    outcome: Outcome
    verdict: Found | None
    """The recorded one, else the first that was found."""


def incident_of(trace: Trace, name: str) -> Incident:
    """Return the incident that a trace is; messages call it by its ``name``.

    Raises:
        TraceError: it is none, or tells of blocks that there cannot be.
    """
    with reading(name):
        blocks = trace.sizes["blocks"]
        said = msgspec.convert(trace.dialect, _Dialect)
        first = None if trace.initial is None else msgspec.convert(trace.initial, _First).pool
        calls = tuple(_call(operation, blocks) for operation in trace.operations if operation.op != "state")
        lasts = [operation for operation in trace.operations if operation.op == "state"]
        last = None if not lasts else msgspec.convert(lasts[-1].snapshot, _Last)
        if len(lasts) > 1 or (lasts and trace.operations[-1].op != "state"):
            raise ValueError("its state stands elsewhere than at its end")
        for state in [first, last.pool if last else None]:
            _check_state(state, blocks)
        if last is not None:
            _within([b for table in last.tables.values() for group in table for b in group], blocks)
            _within(last.holds, blocks)
        _within([*said.violation.blocks, said.pool.null], blocks)
        check_place(said.violation.at, trace, whole=last is not None)
    found = said.violation
    return Incident(
        blocks,
        said.pool.null,
        said.pool.exact,
        found.rule,
        found.oracle,
        found.text,
        found.at,
        frozenset(found.blocks),
        calls,
        first,
        last,
    )


def judged(incident: Incident) -> Judgement:
    """Judge an incident again, from the state that it begins in."""
    found = [(at, verdict) for at, call in enumerate(incident.calls) if (verdict := judge_call(call)) is not None]
    end = len(incident.calls)
    also: tuple[tuple[str, str], ...] = ()
    if incident.last is not None:
        pool = {name: getattr(incident.last.pool, name) for name in ("ref", "free", "num_free", "cached", "hashes")}
        last = judge_state(pool, incident.null, incident.last.tables, incident.last.holds, incident.exact)
        found += [(end, verdict) for verdict in last]
        also = tuple(_by_oracle(incident, incident.last))
    outcome, chosen = compared(found, incident.at, incident.rule, incident.kind)
    return Judgement(tuple(found), also, tuple(_unseen(incident)), outcome, chosen)


def shrunk(trace: Trace, name: str) -> Trace:
    """Return the incident with those calls alone that name the blocks that it is about, if it is the same then.

    A state is kept where it is what broke the rule.

    Raises:
        TraceError: as `incident_of`; the rule is not broken by what it tells; or it is about a chunk manager.
    """
    if is_of_chunks(trace):
        raise TraceError(f"{name} is about a chunk manager, of which every call counts; it cannot be made smaller")
    incident = incident_of(trace, name)
    if judged(incident).outcome != "same":
        raise TraceError(f"{name} does not show the fault that it was written for; see kvproof replay {name}")
    by_state = incident.at == len(incident.calls)
    about = incident.about or frozenset(incident.calls[incident.at].blocks if not by_state else ())
    kept = [
        operation
        for at, operation in enumerate(trace.operations)
        if (at == incident.at or (operation.op != "state" and at < incident.at and about & _named(incident.calls[at])))
    ]
    violation = {**trace.dialect["violation"], "at": len(kept) - 1}
    smaller = msgspec.structs.replace(
        trace,
        operations=kept,
        initial=trace.initial if by_state else None,
        dialect={**trace.dialect, "violation": violation},
    )
    if judged(incident_of(smaller, name)).outcome != "same":
        raise AssertionError(f"the smaller incident of {name} shows another fault")
    return smaller


# ---------------------------------------------------------------------------------------------------------- reading


def _call(operation: Operation, blocks: int) -> Call:
    call = _CALLS.read(operation)
    _within([*call.blocks, *call.head], blocks)
    for field in ("after", "was", "queued", "names") if call.op != "reset" else ():
        check_entries(call, field, 0, len(call.blocks))
    needed = {
        "take": ("after", "queued"),
        "touch": ("before", "after", "was"),
        "free": ("before", "after", "was", "queued"),
    }
    for field in needed.get(call.op, ()):
        check_entries(call, field, len(call.blocks))
    if call.op == "take" and len(call.before) != len(call.head):
        raise ValueError("before of take has another length than head")
    if call.op == "take" and len(call.head) > call.wanted:
        raise ValueError("the head of take is longer than what it asked for")
    return call


def _check_state(state: PoolState | None, blocks: int) -> None:
    if state is None:
        return
    if None in (state.ref, state.free, state.num_free, state.cached, state.hashes):
        raise ValueError("a state of its pool is not whole")
    if len(state.ref or ()) != blocks:
        raise ValueError(f"a state has {len(state.ref or ())} blocks, not {blocks}")
    _within([b for _, _, places in state.cached or () for b in places], blocks)
    _within([b for b, _ in state.hashes or ()], blocks)
    _within([b for b in state.free or () if b != -1], blocks)


def _within(numbers: list[int], blocks: int) -> None:
    if not 0 < blocks <= limits.BLOCKS or (numbers and (min(numbers) < 0 or max(numbers) >= blocks)):
        raise ValueError(f"it names a block that a pool of {blocks} has not")


# ---------------------------------------------------------------------------------------------------------- judging


def _by_oracle(incident: Incident, last: _Last) -> Iterator[tuple[str, str]]:
    """What the oracle of states says, which judges engines in a hunt too: a second opinion."""
    world = World([Group("full", 1)], {"device": Tier(incident.blocks, incident.null)}, 1, incident.exact)
    state = State({"device": last.pool}, last.tables, {"device": last.holds})
    for violation in CountingOracle(world).step(Step("state", {}, state=state), Ghost(world)):
        yield violation.rule, violation.text


def _named(call: Call) -> frozenset[int]:
    return frozenset((*call.blocks, *call.head))


def _unseen(incident: Incident) -> Iterator[tuple[int, str]]:
    """What changed behind the back of the pool's calls: the calls are played from the first state on.

    The engine itself may do so (a copy on write adds a holder by hand): it is told, and not judged.
    """
    if incident.first is None:
        return
    ref = list(incident.first.ref or ())
    queued = set(incident.first.free or ())
    for at, call in enumerate(incident.calls):
        for b, count in zip(call.head if call.op == "take" else call.blocks, call.before, strict=False):
            if ref[b] != count:
                yield at, f"ref_cnt of block {b} went from {ref[b]} to {count}"
                ref[b] = count
        for b, was in zip(call.blocks, call.was, strict=False):
            if was != (b in queued):
                yield at, f"block {b} {'joined' if was else 'left'} the free queue"
        for b, count in zip(call.blocks, call.after, strict=False):
            ref[b] = count
        for b, now in zip(call.blocks, call.queued, strict=False):
            (queued.add if now else queued.discard)(b)
    if incident.last is not None:
        for b, (count, end) in enumerate(zip(ref, incident.last.pool.ref or (), strict=True)):
            if count != end and b != incident.null:
                yield len(incident.calls), f"ref_cnt of block {b} went from {count} to {end}"
