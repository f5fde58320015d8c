"""Findings as text that one understands without knowing the kit."""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ..judge.history import history
from ..judge.oracles.words import GARBAGE
from ..judge.record import TOGETHER, Answer, Case, State, Step, TreeState
from ..judge.violation import Verdict
from ..spec.rules import RULES

if TYPE_CHECKING:
    from .subjects import Adapter

__all__ = ["BESIDE", "played", "regression_test", "replay_line", "short", "story", "tell"]


BESIDE = "machine P does something else"
"""What notices a difference between a manager and machine P (`beside.py`)."""


def replay_line(target: str, path: str) -> str:
    """The command that shows a trace's fault again."""
    return f"kvproof replay {shlex.quote(path)} --target {shlex.quote(target)}"


def tell(target: str, case: Case, found: Verdict, path: str | None = None) -> Iterator[str]:
    """Lines that say what is wrong, which rule that breaks, what led there, and how to see it again."""
    violation = found.violation
    yield f"{violation.rule} {violation.oracle}: {target}, level {case.level}"
    yield f"  what: {violation.text}"
    for other in found.also[:3]:
        yield f"  also: {other.rule} {other.oracle}: {other.text}"
    if violation.oracle == GARBAGE and target.startswith("exec:"):
        yield f"  kvproof protocol-check {shlex.quote(target)} says more"
    rule = RULES.get(violation.rule)
    if rule is not None:
        yield f"  rule {violation.rule}: {rule.sentence}"
    if rule is not None and rule.more:
        yield f"    {rule.more}"
    if any(op == TOGETHER for op, _ in case.ops[: found.at + 1]):
        yield "  calls overlap: a manager that one task alone calls says overlaps = False"
    yield f"  setup: {short(case.setup)}"
    yield from played(case, found.answer, found.at)
    yield from _histories(found)
    yield from _asked(found.answer.steps, found.at)
    yield from _around(found.answer.steps, found.at)
    if path is not None:
        yield f"  again: {replay_line(target, path)}"


def played(case: Case, answer: Answer, at: int) -> Iterator[str]:
    """A line for each operation, up to this one."""
    for number, (op, asked) in enumerate(case.ops[: at + 1]):
        step = answer.steps[number] if number < len(answer.steps) else None
        args = short(asked if step is None else step.args, brackets=False)
        yield f"  {number + 1:3} {op} {args}".rstrip() + _outcome(step)
        yield from _turns(step)


TURNS = 40
"""Of more turns than so many the last are told."""


def _turns(step: Step | None) -> Iterator[str]:
    """Who went on after whom, where calls overlapped: each line is what somebody did when it was his turn."""
    turns: list[str] = []
    for effect in () if step is None else step.effects:
        match effect:
            case ["turn", who, what]:
                turns.append(f"        {who}: {what}")
            case _:
                pass
    if len(turns) > TURNS:
        yield f"        {len(turns) - TURNS} turns before that"
    yield from turns[-TURNS:]


EXPLAINED = 3
"""The histories of so many blocks, keys and requests are told."""

REMEMBERED = 12
"""Of a longer history the end is told."""


def _histories(found: Verdict) -> Iterator[str]:
    """What happened to what the violation is about, to each thing once."""
    for thing in list(dict.fromkeys(found.violation.about))[:EXPLAINED]:
        told = history(found.answer, found.at, thing)
        if told:
            yield f"  history of {thing}:"
        if len(told) > REMEMBERED:
            yield f"        {len(told) - REMEMBERED} operations before that did something to it too"
        for number, happened in told[-REMEMBERED:]:
            yield f"  {number + 1:3} {found.answer.steps[number].op}: {happened}"


def _outcome(step: Step | None) -> str:
    if step is None:
        return "   <- not answered"
    if step.skipped:
        return "   (nothing to do)"
    if step.error is not None:
        return f"   <- {step.error.type}"
    return "" if step.result is None else f"  -> {short(step.result)}"


def _around(steps: list[Step], at: int) -> Iterator[str]:
    """What the last operation changed in the engine's state."""
    after = steps[at].state if at < len(steps) else None
    before = next((s.state for s in reversed(steps[:at]) if s.state is not None), None)
    if after is None:
        if before is not None:
            yield "  state before the last operation:"
            yield from (f"    {line}" for line in _lines(before))
        return
    old = dict(line.split(": ", 1) for line in _lines(before)) if before is not None else {}
    yield "  state after the last operation (before it, where that differs):"
    for line in _lines(after):
        name, value = line.split(": ", 1)
        was = old.get(name)
        yield f"    {name}: {value}" + ("" if was in (None, value) else f"   (before: {was})")


def _lines(state: State) -> Iterator[str]:
    for tier, pool in state.pools.items():
        if pool.ref is not None:
            yield f"{tier} ref_cnt: {short(pool.ref)}"
        if pool.free is not None:
            yield f"{tier} free queue: {short(pool.free)}"
        cached = {f"{key}/{group}": blocks for key, group, blocks in pool.cached or ()}
        yield f"{tier} cached (blocks by key/group): {short(cached)}"
    for request, tables in state.tables.items():
        yield f"block tables of {request}: {short(tables)}"
    for tier, blocks in state.holds.items():
        if blocks:
            yield f"{tier} blocks held by transfers and pins: {short(blocks)}"
    if state.tree is not None:
        yield from _lines_of_tree(state.tree)
    yield f"requests and transfers: {state.waiting} waiting, {state.running} running, {state.pending} transfers"


def _lines_of_tree(tree: TreeState) -> Iterator[str]:
    if tree.evictable is not None or tree.protected is not None:
        yield f"tree sizes: evictable {short(tree.evictable)}, protected {short(tree.protected)}"
    for number, node in enumerate(tree.nodes or ()):
        place = "below the root" if node.parent < 0 else f"below node {node.parent}"
        space = "".join(f" of {name}" for name in node.tenant if name is not None)
        yield f"tree node {number}: tokens {short(node.tokens)}{space} at {short(node.slots)} {place}" + (
            "" if node.lock is None else f", lock_ref {node.lock}"
        )


_ASKED = ("matched", "inserted", "locked", "unlocked", "evicted", "forgotten", "page stored", "page removed")
"""What is asked of a prefix tree, and what it tells, within an operation (`tree_system.py`)."""


def _asked(steps: list[Step], at: int) -> Iterator[str]:
    """What the last operation asked a prefix tree, in order."""
    calls = [effect for effect in (steps[at].effects if at < len(steps) else ()) if effect and effect[0] in _ASKED]
    spaces = _namespaces(steps[: at + 1])
    if calls:
        yield "  in the last operation:"
    for name, *fields in calls:
        said = [spaces.get(field, field) if isinstance(field, str) else short(field) for field in fields]
        yield f"    {name} {', '.join(said)}".rstrip()


def _namespaces(steps: list[Step]) -> dict[str, str]:
    """Requests with their namespaces, where there are several."""
    spaces: dict[str, str | None] = {}
    for effect in (effect for step in steps for effect in step.effects):
        match effect:
            case ["request", str() as r, {"salt": str() as salt}]:
                spaces[r] = salt
            case ["request", str() as r, _]:
                spaces[r] = None
            case _:
                pass  # Perhaps it is no effect at all, which is a finding of its own.
    several = len({*spaces.values()}) > 1
    return {r: f"{r} of {'no namespace' if salt is None else salt}" for r, salt in spaces.items() if several}


def short(value: Any, *, brackets: bool = True) -> str:
    """Plain data in few characters."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key}={short(item)}" for key, item in value.items() if item not in (None, [], {}))
        return f"{{{inside}}}" if brackets else inside
    return msgspec.json.encode(value).decode().replace(",", ", ").replace('"', "")


def story(kind: Adapter, case: Case, found: Verdict) -> str:
    """What is wrong with a manager, what led there, and a test that shows it again."""
    test = "\n".join(f"    {line}".rstrip() for line in regression_test(kind, case, found).splitlines())
    return "\n".join([*tell(kind.__qualname__, case, found), *_hints(found), "  a test to keep:", "", test, ""])


def _hints(found: Verdict) -> Iterator[str]:
    """What may be wrong with a manager where it shows elsewhere."""
    text = found.violation.text
    all_of_them = (found.violation, *found.also)
    if any(each.oracle == "write without a block" and each.text.endswith("has no entry") for each in all_of_them):
        yield "  allocate() may have answered too few blocks for the tokens asked for; it gives the whole table"
    if text.endswith("no request ever had that key"):
        yield "  cached() tells the keys that keys() does; without that these are (adapter, salt, tuple of all tokens"
        yield "  up to the block's end)"
    if found.violation.oracle in _READS and f" block {_null_of(found)} for positions" in text:
        yield "  a manager that gives up what lies behind a sliding window says so: window = its tokens"
    elif found.violation.oracle == "a lookup handed out" and "never written" in text:
        yield "  a copy that the manager makes, as of a block of which a part is found, is told by take_copies()"
    if found.violation.oracle == "what was computed is not found again":
        yield "  a manager that is not meant to keep all of that says so: dialect = {}"
    if found.violation.oracle == "requests that never end":
        ended = [effect[1] for effect in found.answer.steps[found.at].effects if effect[:1] == ["preempted"]]
        why = f"alone, {ended[0]} was let in and refused more blocks" if ended else "alone, it was not let in"
        yield f"  {why}, though it needs no more than there are: allocate() answered None"


_READS = ("a lookup handed out", "a forward pass read")


def _null_of(found: Verdict) -> int | None:
    world = found.answer.world
    return None if world is None else next(iter(world.tiers.values())).null


def regression_test(kind: Adapter, case: Case, found: Verdict) -> str:
    """Python text of a test that plays a case, to be pasted beside the manager.

    Its name ends with a number of what is played: of two tests with one name in a module Python knows the second alone.
    """
    violation = found.violation
    ops = case.ops[: found.at + 1]
    number = zlib.crc32(msgspec.json.encode((case.setup, ops), order="deterministic")) % 10_000
    name = re.sub(r"\W+", "_", f"{violation.rule} {violation.oracle} {number:04}".lower())
    lines = [f"        {op!r}," for op in ops]
    return "\n".join(
        [
            "from kvproof.testing import assert_played",
            "",
            f"def test_{name}() -> None:",
            f"    # {violation.text}",
            f"    assert_played({kind.__name__}, {case.setup!r}, [",
            *lines,
            "    ], lockstep=True)" if violation.oracle == BESIDE else "    ])",
        ]
    )
