"""Differential: the tree core in Rust and the one in Python of one release of SGLang, operation by operation.

Both play the same case, and must answer the same (R11): results, what lookups find, which pages tables name and in
which order they are free, sizes, and KV events, one removed page after the other. The core in Python shows its nodes
and is judged by `kvproof fuzz`; so what they agree in is judged too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from ...engines.sglang.levels import tree
from ...engines.verdicts import Runs
from ...judge.judging import judge
from ...judge.record import Answer, Case, Effect, Step
from ..outcome import Disagreement, Outcome

__all__ = ["LEVEL", "compare", "profiles"]

LEVEL = "tree"

_BESIDE = "the core in Python"

_CORES = ("rust", "python")


def profiles(release: str, operations: int | None = None) -> dict[str, st.SearchStrategy[Case]]:
    """Return families of cases, by name: the level's own, but for those that are of the core in Rust.

    Cases have so many operations, or as many as the level's own.
    """
    count = {} if operations is None else {"least": operations, "most": operations}
    return {name: cases for name, cases in tree.profiles(release, **count).items() if not name.startswith("rust")}


def compare(session: Runs, case: Case) -> Outcome:
    """Let both cores do a case, and compare them after each operation."""
    rust, python = (_told(session, case, core) for core in _CORES)
    done = [step for step in rust.steps if not step.skipped]
    outcome = Outcome(case, rust, len(done))
    if rust.refused is not None or python.refused is not None:
        outcome.parted = rust.refused or python.refused
        return outcome
    for at, (one, other) in enumerate(zip(rust.steps, python.steps, strict=False)):
        outcome.disagreement = next(_disagreements(at, one, other), None)
        if outcome.disagreement is not None:
            return outcome
        outcome.compared += not one.skipped
        outcome.counts["tokens found"] += sum(effect[2] for effect in one.effects if effect[0] == "lookup")
        outcome.counts["pages told of"] += len(_events(one.effects))
    if len(rust.steps) != len(python.steps):
        at = min(len(rust.steps), len(python.steps))
        op = case.ops[min(at, len(case.ops) - 1)][0] if case.ops else "setup"
        outcome.disagreement = Disagreement(at, op, "steps", len(rust.steps), len(python.steps), _BESIDE)
    found = judge(python)
    outcome.broken = [] if found is None else found[1]
    return outcome


def _told(session: Runs, case: Case, core: str) -> Answer:
    """What a core makes of a case. An operation says in its arguments what was picked, so each gets its own."""
    ops = [(op, dict(args)) for op, args in case.ops]
    return session.run(msgspec.structs.replace(case, setup={**case.setup, "core": core}, ops=ops)).answer


def _disagreements(at: int, one: Step, other: Step) -> Iterator[Disagreement]:
    """Yield what two steps differ in; one is the core's in Rust."""
    for (what, engine), (_, reference) in zip(_parts(one), _parts(other), strict=True):
        if engine != reference:
            yield Disagreement(at, one.op, what, engine, reference, _BESIDE)


def _parts(step: Step) -> Iterator[tuple[str, Any]]:
    """What of a step must be equal, by name."""
    yield "error", None if step.error is None else (step.error.type, step.error.message)
    yield "skipped", step.skipped
    yield "result", step.result
    yield "effects", [effect for effect in step.effects if effect[0] not in ("stored", "removed")]
    yield "events", _events(step.effects)
    state = step.state
    tree_state = None if state is None else state.tree
    yield "tables", None if state is None else state.tables
    yield "free", None if state is None else state.pools["device"].free
    yield "evictable", None if tree_state is None else tree_state.evictable
    yield "protected", None if tree_state is None else tree_state.protected
    yield "own", None if tree_state is None else tree_state.own
    parts = [] if tree_state is None else tree_state.parts
    yield "evictable and protected, of windows and states", [(part.evictable, part.protected) for part in parts]


def _events(effects: list[Effect]) -> list[tuple[Any, ...]]:
    """Events page by page: how many one message names is left to each core."""
    told: list[tuple[Any, ...]] = []
    for effect in effects:
        if effect[0] == "stored":
            _, tier, _, keys, parent, *more = effect  # Who tells no tokens ends there.
            tokens, size = more[:2] if more else (None, 0)
            for i, (key, above) in enumerate(zip(keys, [parent, *keys], strict=False)):
                told.append(("stored", tier, key, above, (tokens or ())[i * size : (i + 1) * size]))
        elif effect[0] == "removed":
            told += [("removed", effect[1], key) for key in effect[3]]
    return told
