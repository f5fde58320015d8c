"""Which rules a call of the block pool breaks, by what was seen before and after it, and which rules a state breaks.

Plain data in, verdicts out: the engine's process judges with it, and so does the kit when it replays an incident.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["AT_BLOCK", "AT_BOTH", "IN_MAP", "NOWHERE", "Call", "Verdict", "judge_call", "judge_state"]

NOWHERE, AT_BOTH, AT_BLOCK, IN_MAP = range(4)
"""Where a block's hash keys stand: neither at the block nor in the prefix map, at both, at one of the two only."""


class Call(NamedTuple):
    """One call of a block pool. What has an entry per block has it in the order of ``blocks``."""

    op: str
    """``take``, ``touch``, ``free``, ``register``, ``evict``, ``reset`` or ``move``."""
    step: int
    """The step of the scheduler that it came in."""
    blocks: tuple[int, ...]
    """The blocks that were given or handed out, null blocks left out."""
    before: tuple[int, ...] = ()
    """Their reference counts before the call."""
    after: tuple[int, ...] = ()
    """Their reference counts after it."""
    was: tuple[bool, ...] = ()
    """Whether each stood in the free queue before; empty where that was not looked at."""
    queued: tuple[bool, ...] = ()
    """Whether each stands there after the call."""
    names: tuple[int, ...] = ()
    """Where the keys of each stand after the call; empty where that was not looked at."""
    free: tuple[int, int] = (0, 0)
    """The counter of the free queue before and after."""
    wanted: int = 0
    """take: how many blocks were asked for; reset: how many stood in the pool, the null block among them."""
    head: tuple[int, ...] = ()
    """take: the first ``wanted`` blocks of the free queue before the call, as far as there were so many."""
    null: str = ""
    """What is wrong with the null block, in words."""
    result: bool = True
    """reset: its answer."""
    error: str = ""
    """What was raised: its type and its words."""


class Verdict(NamedTuple):
    """A rule that is broken."""

    rule: str
    """Its code in `spec/rules.py`."""
    kind: str
    """What is wrong, in a word or two, without numbers."""
    text: str
    """What is wrong, with numbers."""
    blocks: tuple[int, ...] = ()
    """The blocks that it is about."""


# ------------------------------------------------------------------------------------------------------------ calls


def judge_call(call: Call) -> Verdict | None:
    """Return the first rule that a call breaks."""
    if call.null:
        return Verdict("P4", "null block", f"{call.null} ({call.op})")
    found = _JUDGES[call.op](call)
    if found is None and call.error and not _refusal(call):
        return Verdict("L2", "exception", f"{call.op} raised {call.error}", call.blocks)
    return found


def _refusal(call: Call) -> bool:
    return call.op == "take" and call.error.startswith("ValueError") and call.wanted > call.free[0]


def _take(call: Call) -> Verdict | None:
    """P7, and P2 to P5 for the blocks that are handed out."""
    blocks, free, n = call.blocks, call.free, call.wanted
    if n > free[0] and not call.error:
        return Verdict("P7", "too few free", f"{n} blocks were handed out though {free[0]} were free", blocks)
    if call.error and free[1] != free[0] and n > free[0]:
        return Verdict(
            "P7", "refusal", f"a refused take of {n} blocks changed the free blocks from {free[0]} to {free[1]}"
        )
    if n <= free[0] and len(call.head) < n:
        text = f"the free queue's counter says {free[0]}, and it ends after {len(call.head)} blocks"
        return Verdict("P3", "counter of the free queue", text, call.head)
    for b, count in zip(call.head, call.before, strict=False):
        if count and n <= free[0]:
            return Verdict("P3", "held and queued", f"block {b} stood in the free queue with ref_cnt {count}", (b,))
    if call.error:
        return None
    if blocks != call.head:
        text = f"{_some(blocks)} were handed out, the head of the free queue was {_some(call.head)}"
        return Verdict("P7", "order", text, blocks)
    if call.after.count(1) != n:
        b, count = next((b, c) for b, c in zip(blocks, call.after, strict=False) if c != 1)
        return Verdict(
            "P2", "ref_cnt after take", f"block {b} was handed out to one holder, its ref_cnt is {count}", (b,)
        )
    if True in call.queued:
        b = blocks[call.queued.index(True)]
        return Verdict("P3", "handed out and queued", f"block {b} was handed out and stands in the free queue", (b,))
    if any(call.names):
        return _kept(call, "P7", "handed out")
    if free[1] != free[0] - n:
        return _counter(call, free[0] - n)
    return None


def _touch(call: Call) -> Verdict | None:
    """P8, and P2, P3 and P5 for the blocks that get a holder."""
    if found := _queued_before(call):
        return found
    if call.error:
        return None
    joined = call.was.count(True)
    if len(set(call.blocks)) == len(call.blocks):
        due = [count + 1 for count in call.before]
    else:
        times = Counter(call.blocks)
        due = [count + times[b] for b, count in zip(call.blocks, call.before, strict=False)]
        joined = len({b for b, was in zip(call.blocks, call.was, strict=False) if was})
    if True in call.queued:
        b = call.blocks[call.queued.index(True)]
        return Verdict("P8", "held and queued", f"block {b} got a holder and stands in the free queue still", (b,))
    return _counts(call, due) or _names(call) or _counter(call, call.free[0] - joined)


def _free(call: Call) -> Verdict | None:
    """P9, and P2 and P3 for the blocks that lose a holder."""
    if len(set(call.blocks)) == len(call.blocks):
        due = [count - 1 for count in call.before]
        left = due.count(0)
    else:
        times = Counter(call.blocks)
        due = [count - times[b] for b, count in zip(call.blocks, call.before, strict=False)]
        left = len({b for b, count in zip(call.blocks, due, strict=False) if not count})
    if due and min(due) < 0:
        b, count = next((b, c) for b, c, d in zip(call.blocks, call.before, due, strict=False) if d < 0)
        text = f"block {b} was freed by more holders than its ref_cnt of {count} (the caller's error)"
        return Verdict("P9", "free without a holder", text, (b,))
    if found := _queued_before(call):
        return found
    if call.error:
        return None
    if found := _counts(call, due):
        return found
    for b, count, queued in zip(call.blocks, due, call.queued, strict=False):
        if queued != (count == 0):
            where = "in" if queued else "not in"
            text = f"block {b} has ref_cnt {count} after free and is {where} the free queue"
            return Verdict("P3", f"freed and {where} the queue", text, (b,))
    return _counter(call, call.free[0] + left)


def _register(call: Call) -> Verdict | None:
    return _names(call)


def _evict(call: Call) -> Verdict | None:
    """P11: the hashes go, nothing else."""
    if call.error:
        return None
    if any(call.names):
        return _kept(call, "P11", "evicted")
    if call.before != call.after or call.free[0] != call.free[1]:
        return Verdict("P11", "more than hashes", f"evict of {_some(call.blocks)} changed counts", call.blocks)
    return None


def _reset(call: Call) -> Verdict | None:
    """P11: when nothing is referenced, and only then."""
    held = call.wanted - 1 - call.free[0]
    if call.result and held:
        return Verdict("P11", "reset", f"the prefix cache was emptied while {held} blocks were held")
    if not (call.result or held or call.error):
        return Verdict("P11", "reset refused", "a reset was refused though no block was held")
    return Verdict("P11", "reset", "keys are left after a reset that said it was done") if any(call.names) else None


def _move(call: Call) -> Verdict | None:
    return _names(call)


_JUDGES = {
    "take": _take,
    "touch": _touch,
    "free": _free,
    "register": _register,
    "evict": _evict,
    "reset": _reset,
    "move": _move,
}


def _queued_before(call: Call) -> Verdict | None:
    """P3 as the call found it."""
    for b, count, was in zip(call.blocks, call.before, call.was, strict=False):
        if was != (count == 0):
            where = "in" if was else "not in"
            text = f"block {b} had ref_cnt {count} before {call.op} and was {where} the free queue"
            return Verdict("P3", f"found {where} the queue", text, (b,))
    return None


def _counts(call: Call, due: list[int]) -> Verdict | None:
    if list(call.after) == due:
        return None
    b, count, ought = next((b, c, d) for b, c, d in zip(call.blocks, call.after, due, strict=False) if c != d)
    return Verdict(
        "P2", f"ref_cnt after {call.op}", f"block {b} has ref_cnt {count} after {call.op}, not {ought}", (b,)
    )


def _names(call: Call) -> Verdict | None:
    """P5 for the blocks of a call."""
    for b, where in zip(call.blocks, call.names, strict=False):
        if where in (AT_BLOCK, IN_MAP):
            place = "at the block only" if where == AT_BLOCK else "in the prefix map only"
            return Verdict("P5", place, f"a hash key of block {b} stands {place} ({call.op})", (b,))
    return None


def _kept(call: Call, rule: str, done: str) -> Verdict | None:
    if found := _names(call):
        return found
    b = next(b for b, where in zip(call.blocks, call.names, strict=False) if where)
    return Verdict(rule, "hash kept", f"block {b} was {done} and is still found by its hash key", (b,))


def _counter(call: Call, due: int) -> Verdict | None:
    if call.free[1] == due:
        return None
    text = f"the free queue's counter went from {call.free[0]} to {call.free[1]} in {call.op}, not to {due}"
    return Verdict("P3", "counter of the free queue", text, call.blocks)


# ----------------------------------------------------------------------------------------------------------- states


def judge_state(
    pool: Mapping[str, Any], null: int, tables: Mapping[str, Any], holds: Sequence[int], exact: bool
) -> Iterator[Verdict]:
    """Yield the rules that the state of a pool breaks.

    ``pool`` is as `raw_state` reads it; ``tables`` are the block tables of the requests and ``holds`` what else is
    held, all of it where ``exact``.
    """
    ref, free = pool["ref"], pool["free"]
    queued = set(free)
    yield from _queue(ref, free, queued, pool["num_free"], null)
    held = sum(1 for b, count in enumerate(ref) if count > 0 and b != null)
    if len(free) + held != len(ref) - 1:
        text = f"{len(free)} blocks are free and {held} are held, of {len(ref) - 1}"
        yield Verdict("P1", "conservation", text)
    yield from _holders(ref, null, tables, holds, exact)
    yield from _both_ways(pool)
    if any(b == null and keys for b, keys in pool["hashes"]):
        yield Verdict("P4", "null block", "the null block carries a hash key", (null,))


def _queue(ref: Sequence[int], free: Sequence[int], queued: set[int], counter: int, null: int) -> Iterator[Verdict]:
    """P2 to P4."""
    if len(queued) != len(free):
        twice = next(b for b, n in Counter(free).items() if n > 1)
        yield Verdict("P3", "block queued twice", f"block {twice} stands twice in the free queue", (twice,))
    if -1 in queued:
        yield Verdict("P3", "broken links", f"the links of the free queue end after {len(free) - 1} blocks")
    if counter != len(free):
        text = f"the free queue holds {len(free)} blocks, its counter says {counter}"
        yield Verdict("P3", "counter of the free queue", text)
    if null in queued:
        yield Verdict("P4", "null block", "the null block stands in the free queue", (null,))
    for b, count in enumerate(ref):
        if b == null:
            continue
        if count < 0:
            yield Verdict("P2", "negative ref_cnt", f"ref_cnt of block {b} is {count}", (b,))
            return
        if (count == 0) != (b in queued):
            where = "in" if b in queued else "not in"
            text = f"block {b} has ref_cnt {count} and is {where} the free queue"
            yield Verdict("P3", f"free and {where} the queue", text, (b,))
            return


def _holders(
    ref: Sequence[int], null: int, tables: Mapping[str, Any], holds: Sequence[int], exact: bool
) -> Iterator[Verdict]:
    """P2: at least the holders seen, exactly those where all are; H8."""
    holders = Counter(holds)
    for r, groups in tables.items():
        entries = [b for group in groups for b in group if b != null]
        holders.update(entries)
        if len(set(entries)) != len(entries):
            twice = next(b for b, n in Counter(entries).items() if n > 1)
            yield Verdict("H8", "one block twice", f"block {twice} stands twice in the tables of {r}", (twice,))
    for b in range(len(ref)) if exact else holders:
        seen = holders[b]
        if b != null and (seen > ref[b] or (exact and seen != ref[b])):
            how = "too few" if seen > ref[b] else "too many"
            yield Verdict("P2", f"{how} for its holders", f"block {b} has ref_cnt {ref[b]} and {seen} holders", (b,))
            return


def _both_ways(pool: Mapping[str, Any]) -> Iterator[Verdict]:
    """P5: the map and the blocks say the same."""
    empty = sum(not entry[-1] for entry in pool["cached"])
    if empty:
        yield Verdict("P5", "an entry without a block", f"{empty} entries of the prefix map lead to no block")
    by_map = {(_key(entry), b) for entry in pool["cached"] for b in entry[-1]}
    by_block = {(_frozen(key), b) for b, keys in pool["hashes"] for key in keys}
    if by_map != by_block:
        differing = by_map ^ by_block
        block = min(b for _, b in differing)
        in_map = any((key, b) in by_map for key, b in differing if b == block)
        place = "in the prefix map only" if in_map else "at the block only"
        yield Verdict("P5", place, f"a hash key of block {block} stands {place}", (block,))


def _key(entry: Sequence[Any]) -> Any:
    """The key of an entry of the map: as the release has it, or its number and group."""
    return entry[0] if len(entry) == 2 else (entry[0], entry[1])


def _frozen(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _some(blocks: Sequence[int]) -> str:
    return f"{list(blocks)}" if len(blocks) <= 8 else f"{list(blocks[:8])} … ({len(blocks)})"
