"""Findings as text that one understands without knowing the kit."""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ..judge.history import history
from ..judge.oracles.behind import BEHIND
from ..judge.oracles.counting import MISCOUNTED, held_by_cache
from ..judge.oracles.words import GARBAGE
from ..judge.record import BATCH, TOGETHER, Answer, Case, State, Step, TreeState
from ..judge.violation import Verdict
from ..spec.rules import RULES
from ..untrusted.text import visible
from .manager import BlockManager

if TYPE_CHECKING:
    from .subjects import Adapter

__all__ = ["BESIDE", "hint_of_hits", "played", "regression_test", "replay_line", "short", "story", "tell"]


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
    yield from _held_by(found)
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
    if any(op == BATCH for op, _ in case.ops[: found.at + 1]):
        yield "  requests share a forward pass: a manager that each is to be computed for alone says overlaps = False"
    if any(op == "cut" for op, _ in case.ops[: found.at + 1]):
        yield "  a result is not waited for: a manager whose server always does says cuts = False"
    yield f"  setup: {short(case.setup)}"
    yield from played(case, found.answer, found.at)
    yield from _histories(found)
    yield from _asked(found.answer.steps, found.at)
    yield from _around(found.answer.steps, found.at)
    if path is not None:
        yield f"  again: {replay_line(target, path)}"


def _held_by(found: Verdict) -> Iterator[str]:
    """Who is seen to hold the block whose count is not that of its holders."""
    world = found.answer.world
    state = found.answer.steps[found.at].state if found.violation.oracle == MISCOUNTED else None
    if world is None or state is None:
        return
    _, block, tier = found.violation.about[0]
    entries = ((r, at) for r, tables in state.tables.items() for table in tables for at in table)
    holders = [f"the table of {r}" for r, at in entries if at == block and tier == next(iter(world.tiers))]
    holders += ["a copy or a pin" for at in state.holds.get(tier, ()) if at == block]
    holders += ["the prefix map" for at in held_by_cache(world, tier, state.pools[tier]) if at == block]
    yield f"    it is held by {', '.join(holders)}" if holders else "    nobody is seen to hold it"


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
        if pool.cached is not None:
            cached = {f"{key}/{group}": blocks for key, group, blocks in pool.cached}
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
    # A text of several lines, as pytest makes of an assert of the user's, stands below where it begins.
    told = (line.replace("\n", "\n    ") for line in tell(kind.__qualname__, case, found))
    return "\n".join([*told, *_hints(kind, found), "  a test to keep:", "", test, ""])


def _hints(kind: Adapter, found: Verdict) -> Iterator[str]:
    """What may be wrong with a manager where it shows elsewhere."""
    text = found.violation.text
    all_of_them = (found.violation, *found.also)
    if any(each.oracle == "write without a block" and each.text.endswith("has no entry") for each in all_of_them):
        yield "  allocate() may have answered too few blocks for the tokens asked for; it gives the whole table"
    if issubclass(kind, BlockManager):
        yield from _hints_of_blocks(kind, found)
    if text.endswith("no request ever had that key"):
        yield "  cached() tells the keys that keys() does; without that these are (adapter, salt, tuple of all tokens"
        yield "  up to the block's end)"
    if found.violation.oracle == "requests that never end":
        ended = [effect[1] for effect in found.answer.steps[found.at].effects if effect[:1] == ["preempted"]]
        why = f"alone, {ended[0]} was let in and refused more blocks" if ended else "alone, it was not let in"
        yield f"  {why}, though it needs no more than there are: allocate() answered None"


def _hints_of_blocks(kind: type[BlockManager], found: Verdict) -> Iterator[str]:
    text, oracle, null = found.violation.text, found.violation.oracle, _null_of(found)
    if any(each.oracle == GARBAGE and "block" in each.text for each in (found.violation, *found.also)):
        last = 0 if found.answer.world is None else next(iter(found.answer.world.tiers.values())).blocks - 1
        yield f"  blocks are numbered from 0 to {last}; an adapter translates"
    elif oracle in _READS and f" block {null} for positions" in text:
        yield _hint_of_null(null, kind)
    elif oracle == "content of a cached block" and text.startswith(f"block {null} (device)"):
        yield f"  block {null} is the null block, which stands for nothing and is never cached (P4)"
    elif oracle == "a lookup handed out" and "never written" in text:
        yield "  a copy that the manager makes, as of a block of which a part is found, is told by take_copies()"
    elif oracle == "a forward pass read":
        yield from _left_out(found)
    if oracle == BEHIND:
        yield '  a manager that means to keep that to the end says dialect = {"keep": "all", "behind": "kept"}'
    if oracle == "what was computed is not found again":
        yield '  a manager that is not meant to keep all of that says so: dialect = {}, or {"keep": "tree"} where what'
        yield '  stands behind a block goes with it, or {"keep": "all", "caches": "ended"} where it is cached when its'
        yield "  request ends"
        yield from hint_of_hits(kind)


def hint_of_hits(kind: type[Any]) -> Iterator[str]:
    """How a manager says what it found that has no call of its own for that."""
    if getattr(kind, "lookup", None) is BlockManager.lookup:
        yield "  without a lookup(), allocate() says in request.cached what it found"


def _left_out(found: Verdict) -> Iterator[str]:
    """Whose table is another one than what was found for him, in the step in which that was."""
    handed: dict[str, list[int]] = {}
    for effect in found.answer.steps[found.at].effects:
        match effect:
            case ["found", str() as r, [[*blocks]], _]:
                handed[r] = blocks
            case ["table", str() as r, 0, 0, [*table]] if table[: len(handed.get(r, ()))] != handed.get(r, []):
                yield f"  the table of {r} does not begin with what lookup() found for it, {short(handed[r])}"
            case _:
                pass


def _hint_of_null(null: int | None, kind: type[BlockManager]) -> str:
    window = kind.window
    if kind.groups:
        return (
            f"  block {null} is the null block: what a group reads there must not be given up, nor left out of a hit;\n"
            f"  what lies behind a window may be, and groups = {kind.groups} says which of them have one"
        )
    if window is None:
        return "  a manager that gives up what lies behind a sliding window says so: window = its tokens"
    return (
        f"  block {null} is the null block: what is read there must not be given up, nor left out of a hit, since it\n"
        f"  is within the window of {window} tokens (the token that reads is itself counted)"
    )


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
            *(f"    # {line}" for line in visible(violation.text).splitlines()),
            f"    assert_played({kind.__name__}, {case.setup!r}, [",
            *lines,
            "    ], lockstep=True)" if violation.oracle == BESIDE else "    ])",
        ]
    )
