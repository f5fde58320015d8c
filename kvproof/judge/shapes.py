"""Shapes: whether worlds, effects and states are what `docs/protocol.md` says, number by number.

The judge trusts that much; a driver's words are looked at here when they led it astray, and by the conformance checker.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..untrusted import limits
from .record import KINDS, Effect, PoolState, State, Step, TreeState, World

__all__ = ["DIALECT", "EFFECTS", "KEEPS", "Problem", "Reader", "problem_of_dialect", "problem_of_world", "problems"]

DIALECT: dict[str, tuple[str, ...]] = {
    "take": ("head",),
    "free": ("append", "split"),
    "host": ("mirror",),
    "keep": ("all", "tree", "none"),
    "caches": ("prompts", "ended"),
    "cached": ("held",),
    "reuse": ("ordered",),
    "copies": ("first",),
    "evicts": ("lru",),
    "host_evicts": ("lru",),
    "behind": ("given", "needed", "kept"),
}
"""What a world's notes may say of where engines differ, and in which words."""

KEEPS = ("all", "tree")
"""Words of ``keep`` that promise to keep what was computed: all of it, or what can be reached from the first block."""

_TOKENS = ("drop", "leaves")
"""What they may say in numbers of tokens."""

_WORDS = {"sampled": "processed", "keys": "tokens"}
"""Notes that say one thing, in this word."""


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it must be."""

    step: int
    kind: str
    """``effect``, ``state`` or ``result``."""
    text: str


def problem_of_world(world: World) -> str | None:
    """What is wrong with a world; None when nothing is."""
    if not world.groups or not world.tiers:
        return "the world has no groups or no tiers"
    if max(len(world.groups), len(world.tiers)) > limits.NAMES:
        return f"the world has more than {limits.NAMES:,} groups or tiers"
    if next(iter(world.tiers)) != "device":
        return f"the first tier is {next(iter(world.tiers))!r}, and must be 'device'"
    for group in world.groups:
        if group.kind not in KINDS or group.block < 1:
            return f"{group} is no group: its kind is full, window, chunk or mamba, its block at least 1"
        if group.kind in ("window", "chunk") and (group.window or 0) < 1:
            return f"{group} says no window"
        if max(group.block, group.window or 0) > limits.BLOCK_TOKENS:
            return f"{group} is larger than {limits.BLOCK_TOKENS:,} tokens"
    for name, tier in world.tiers.items():
        if tier.blocks < 0 or tier.split < 1 or (tier.null is not None and not 0 <= tier.null < tier.blocks):
            return f"tier {name} is out of range: {tier}"
        if tier.blocks > limits.BLOCKS or tier.split > limits.NAMES:
            return f"tier {name} is larger than {limits.BLOCKS:,} blocks of {limits.NAMES:,} units: {tier}"
    if not 1 <= world.hash_block <= limits.BLOCK_TOKENS:
        return f"hash_block must be from 1 to {limits.BLOCK_TOKENS:,}"
    return None


def problem_of_dialect(world: World) -> str | None:
    """What a world's notes say in words that are none, so that nobody is held to it; None when they say nothing so."""
    longest = world.notes.get("longest")
    if longest is not None and not _is_count(longest):
        return f"the longest request is {_short(longest)}, and must be a number of tokens"
    encodings = world.notes.get("encodings")
    if encodings is not None and not _is_count(encodings):
        return f"there is room for encodings of {_short(encodings)}, and that must be a number of tokens"
    kept_back = world.notes.get("kept_back")
    if kept_back is not None and not _is_count(kept_back):
        return f"so many blocks are kept back: {_short(kept_back)}, and that must be a number of blocks"
    for name, word in _WORDS.items():
        if world.notes.get(name) not in (None, word):
            return f"the note {name} is {_short(world.notes[name])}; what can be said is {word}"
    reads = world.notes.get("reads")
    if reads is not None and reads not in [*world.tiers][1:]:
        return f"attention reads {_short(reads)} too, and that must be a tier behind the device"
    for name in ("eager", "whole", "loads", "parts", "below"):
        tiers = world.notes.get(name) or []
        if not isinstance(tiers, list) or not all(isinstance(tier, str) and tier in world.tiers for tier in tiers):
            return f"the {name} tiers are {_short(tiers)}, and must be a list of names of tiers"
    sources = world.notes.get("sources") or []
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        return f"the sources of hits are {_short(sources)}, and must be a list of names"
    below = world.notes.get("below")
    if below and len(below) != 2:
        return f"the below tiers are {_short(below)}, and must be two: the upper one and the lower one"
    waits = world.notes.get("waits")
    if waits is not None and not (isinstance(waits, list) and len(waits) == 2 and all(map(_is_count, waits))):
        return f"what is waited for is {_short(waits)}, and must be two numbers of tokens"
    dialect = world.notes.get("dialect", {})
    if not isinstance(dialect, dict):
        return f"the dialect is {_short(dialect)}, and no object of names"
    for name, value in dialect.items():
        if name in _TOKENS and not _is_count(value):
            return f"the dialect's {name} is {_short(value)}, and must be a number of tokens"
        if name not in _TOKENS and value not in DIALECT.get(name, ()):
            known = ", ".join(f"{n} ({' or '.join(values)})" for n, values in DIALECT.items())
            tokens = " and ".join(f"{n} (tokens)" for n in _TOKENS)
            return f"the dialect says {name} {_short(value)}; what can be said is {known}, {tokens}"
    return None


def problems(world: World, steps: Sequence[Step]) -> Iterator[Problem]:
    """Yield what is wrong with the effects and states of steps that are told from the beginning of a case."""
    reader = Reader(world)
    for number, step in enumerate(steps):
        for kind, text in reader.step(step):
            yield Problem(number, kind, text)


@dataclass
class Reader:
    """Reads steps in their order: a request must have arrived before something happens to it."""

    world: World
    requests: set[str] = field(default_factory=set)

    def step(self, step: Step) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with a step: ``effect``, ``state`` or ``result``, and a sentence."""
        for effect in step.effects:
            text = self.problem(effect)
            if text is not None:
                yield "effect", f"{_short(effect)}: {text}"
        if step.skipped and step.effects:
            yield "effect", f"{step.op} is skipped, and has effects all the same: {_short(step.effects[0])}"
        if step.state is not None:
            for text in _of_state(self.world, step.state):
                yield "state", text
        if step.op == "drain" and not step.skipped and step.error is None and not _is_rest(step.result):
            yield "result", f"drain answered {_short(step.result)}, and must say how many are left and pending"

    def problem(self, effect: Effect) -> str | None:
        """What is wrong with an effect; None when nothing is."""
        kinds = EFFECTS.get(effect[0]) if effect and isinstance(effect[0], str) else None
        if kinds is None:
            return "there is no such effect"
        least = sum(not kind.endswith("?") for kind in kinds)
        if not least <= len(effect) - 1 <= len(kinds):
            return f"it has {len(effect) - 1} fields, and must have {len(kinds)}: {', '.join(kinds)}"
        if effect[0] == "request" and isinstance(effect[1], str):
            self.requests.add(effect[1])
        for kind, value in zip(kinds, effect[1:], strict=False):
            name = kind.removesuffix("?")
            if value is None and kind != name:
                continue
            if not _FIELDS[name](self, value):
                return f"{_short(value)} is no {_FIELD_WORDS.get(name, name)}"
        return None

    def _place(self, tier: Any, unit: Any) -> bool:
        return isinstance(tier, str) and tier in self.world.tiers and _is_place(self.world, tier, unit)

    def _pair(self, value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == 4
            and self._place(value[0], value[1])
            and self._place(value[2], value[3])
        )

    def _span(self, value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == 7
            and self._place(*value[:2])
            and self._place(*value[3:5])
            and all(_is_count(n) and n <= limits.BLOCK_TOKENS for n in (value[2], *value[5:]))
        )

    def _outside(self, value: Any) -> bool:
        return (
            isinstance(value, list) and len(value) == 4 and self._place(*value[:2]) and all(map(_is_count, value[2:]))
        )

    def _request(self, value: Any) -> bool:
        is_one = isinstance(value, dict) and _is_count(value.get("stored", 0))
        return is_one and _all(_is_count, value.get("tokens")) and _all(_is_item, _or_list(value))

    def _leaves(self, value: Any) -> bool:
        return _all(lambda leaf: isinstance(leaf, list) and len(leaf) == 2 and all(map(_is_count, leaf)), value)

    def _evicted(self, value: Any) -> bool:
        return isinstance(value, list) and all(_is_evicted(node, at) for at, node in enumerate(value))

    def _tables(self, value: Any) -> bool:
        return _all(lambda table: self._blocks(table), value) and len(value) == len(self.world.groups)

    def _blocks(self, value: Any) -> bool:
        return _all(lambda block: _is_in_a_table(self.world, block), value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_evicted(value: Any, at: int) -> bool:
    """Whether this is the node at this place of an eviction."""
    if not isinstance(value, list) or len(value) != 6:
        return False
    parent, slots, left, lock, *flags = value
    if not isinstance(parent, int) or not -1 <= parent < at or not _all(_is_count, slots):
        return False
    is_left = left is None or (_is_count(left) and left <= len(slots))
    return is_left and _is_count(lock) and all(isinstance(flag, bool) for flag in flags)


def _is_stamp(value: Any) -> bool:
    return value == -1 or _is_count(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_item(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_count, value[:2])) and isinstance(value[2], str)


def _or_list(value: Mapping[str, Any]) -> Any:
    return value.get("items") or []


def _is_rest(value: Any) -> bool:
    """What is left when everything outstanding was completed."""
    return isinstance(value, dict) and all(
        map(_is_count, (value.get("left"), value.get("pending"), value.get("kept", 0)))
    )


def _is_place(world: World, tier: str, unit: Any) -> bool:
    kind = world.tiers[tier]
    return _is_count(unit) and (kind.by_key or not kind.blocks or unit < kind.blocks * kind.split)


def _is_in_a_table(world: World, block: Any) -> bool:
    """Whether a block table may name this block: one of the device, or of the tier that attention reads too."""
    return _is_count(block) and _is_place(world, *world.place(block))


def _all(holds: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, list) and all(map(holds, value))


_FIELDS: dict[str, Callable[[Reader, Any], bool]] = {
    "request": lambda reader, value: isinstance(value, str) and value in reader.requests,
    "name": lambda _reader, value: isinstance(value, str),
    "what": Reader._request,
    "count": lambda _reader, value: _is_count(value),
    "entry": lambda _reader, value: _is_count(value) and value <= limits.TABLE,
    "counts": lambda _reader, value: _all(_is_count, value),
    "items": lambda _reader, value: _all(_is_item, value),
    "names": lambda _reader, value: _all(lambda name: isinstance(name, str), value),
    "end": lambda _reader, value: value in ("finished", "aborted"),
    "group": lambda reader, value: _is_count(value) and value < len(reader.world.groups),
    "blocks": Reader._blocks,
    "block": lambda reader, value: reader._blocks([value]),
    "tables": Reader._tables,
    "leaves": Reader._leaves,
    "pairs": lambda reader, value: _all(reader._pair, value),
    "spans": lambda reader, value: _all(reader._span, value),
    "outside": lambda reader, value: _all(reader._outside, value),
    "tier": lambda reader, value: isinstance(value, str) and value in reader.world.tiers,
    "phase": lambda _reader, value: value in ("begin", "end", "fail"),
    "order": lambda _reader, value: value in ("behind", "void"),
    "moment": lambda _reader, value: value in ("begin", "end"),
    "id": lambda _reader, value: isinstance(value, str | int),
    "stamps": lambda _reader, value: _all(_is_stamp, value),
    "held": lambda reader, value: _all(lambda cell: len(cell) == 3 and reader._blocks(cell[:1]), value),
    "evicted": Reader._evicted,
    "totals": lambda _reader, value: isinstance(value, dict) and all(map(_is_number, value.values())),
}

_FIELD_WORDS = {
    "request": "request that has arrived", "what": "description of a request", "counts": "list of numbers",
    "end": "way to end (finished, aborted)", "blocks": "list of the device's blocks", "block": "block of the device",
    "tables": "list of blocks per group", "pairs": "list of [tier, unit, tier, unit] in range",
    "spans": "list of [tier, unit, slot, tier, unit, slot, slots] in range",
    "evicted": "list of nodes, [parent, slots, how many are left, lock_ref, held, on the device], parents first",
    "phase": "phase (begin, end, fail)", "order": "order (behind, void)", "moment": "moment (begin, end)",
}  # fmt: skip

EFFECTS: dict[str, tuple[str, ...]] = {
    "request": ("name", "what"),
    "append": ("request", "counts", "items?"),
    "cut": ("request", "count"),
    "keys": ("request", "count", "counts"),
    "end": ("request", "end"),
    "lookup": ("request", "count", "count", "count"),
    "found": ("request", "tables", "count"),
    "refused": ("request", "count", "tables", "blocks", "count"),
    "table": ("request", "group", "entry", "blocks"),
    "compute": ("request", "count", "counts"),
    "draft": ("request", "count", "count"),
    "encoded": ("names",),
    "state": ("request", "group", "block?", "leaves"),
    "processed": ("request", "count"),
    "batch": ("moment",),
    "copy": ("id", "phase", "pairs?", "order?", "id?"),
    "copied": ("pairs",),
    "rows": ("spans",),
    "computed_outside": ("request", "group", "outside"),
    "zero": ("tier", "counts"),
    "stored": ("tier", "group?", "counts", "count?", "counts?", "count?", "names?"),
    "removed": ("tier", "group?", "counts"),
    "cleared": ("tier",),
    "boundary": ("tier",),
    "counts": ("totals",),
    "preempted": ("request",),
    "turn": ("name", "name"),
    "ran": ("request", "count", "count", "counts", "count?"),
    "read": ("request", "group", "stamps"),
    "holds": ("tier", "held"),
    "makes_room": ("tier", "group", "count", "count", "evicted"),
    "output": ("request", "count", "count", "count?", "counts", "counts", "count?", "count?"),
}
"""The fields of each effect, in order; with a question mark those that may be left out or null."""


def _of_state(world: World, state: State) -> Iterator[str]:
    for tier, pool in state.pools.items():
        if tier not in world.tiers:
            yield f"the state has a pool {tier!r}, which is no tier of the world"
        else:
            yield from _of_pool(world, tier, pool)
    for r, tables in state.tables.items():
        if len(tables) != len(world.groups):
            yield f"{r} has {len(tables)} block tables, the world {len(world.groups)} groups"
        for block in (block for table in tables for block in table):
            if not _is_in_a_table(world, block):
                yield f"block {block} in a table of {r} is not one of the device's, which are numbered from 0"
    for tier, blocks in state.holds.items():
        if tier not in world.tiers or not all(_is_place(world, tier, block) for block in blocks):
            yield f"holds of {tier!r} are out of range: {_short(blocks)}"
    if min(state.waiting, state.running, state.pending) < 0:
        yield "waiting, running and pending must be 0 or more"
    if state.tree is not None:
        yield from _of_tree(world, state.tree)


def _of_tree(world: World, tree: TreeState) -> Iterator[str]:
    device = next(iter(world.tiers))
    size = world.groups[0].block
    for at, node in enumerate(tree.nodes or ()):
        if not -1 <= node.parent < at:
            yield f"node {at} of the tree has the parent {node.parent}, which does not stand before it"
        if min(node.tokens, default=0) < 0:
            yield f"node {at} of the tree has a token below 0"
    further = world.groups[1:]
    if len(tree.parts) not in (0, len(further)):
        yield f"the tree has {len(tree.parts)} parts, the world {len(further)} further groups"
        return
    if any(len(node.parts) != len(tree.parts) for node in tree.nodes or ()):
        yield f"a node of the tree has not {len(tree.parts)} parts, as the tree has"
        return
    edges = [(size, tree.slots or [])]
    for node in tree.nodes or ():
        edges.append((size, node.slots))
        edges += [(group.slots, slots) for group, (slots, _) in zip(further, node.parts, strict=False)]
    places = [slot // each for each, slots in edges for slot in slots]
    for block in (*places, *(block for blocks in tree.own.values() for block in blocks)):
        if not _is_place(world, device, block):
            yield f"the tree names block {block}, which is not one of the device's"
    for node in tree.nodes or ():
        if node.host and (len(world.tiers) < 2 or len(node.host) != len(world.groups)):
            yield f"a node of the tree has {len(node.host)} groups on a second tier, the world {len(world.groups)}"
            return
        for group, (slots, _) in zip(world.groups, node.host, strict=False):
            if not all(_is_place(world, list(world.tiers)[1], slot // group.slots) for slot in slots):
                yield "the tree names a block that is not one of the second tier's"
                return
    for locks in (tree.locks, tree.anchors, *(at for part in tree.parts for at in (part.locks, part.anchors or {}))):
        for r, place in locks.items():
            if not -1 <= place < len(tree.nodes or ()):
                yield f"the lock of {r} stands at node {place}, which is none"


def _of_pool(world: World, tier: str, pool: PoolState) -> Iterator[str]:
    blocks, by_key = world.tiers[tier].blocks, world.tiers[tier].by_key
    if pool.ref is not None and len(pool.ref) != blocks and not by_key:
        yield f"ref of {tier} has {len(pool.ref)} entries, one for each of {blocks} blocks is needed"
    named = [(k, g, b) for k, g, at in pool.cached or () for b in at]
    named += [(k, g, b) for b, keys in pool.hashes or () for k, g in keys]
    places = [("free", b) for b in pool.free or () if b != -1] + [("cached or hashes", b) for _, _, b in named]
    for where, block in places:
        if not _is_place(world, tier, block):
            yield f"{where} of {tier} names block {block}, the blocks are 0 to {blocks - 1}"
    for k, g, _ in named:
        if k < 0 or not 0 <= g < len(world.groups):
            yield f"cached or hashes of {tier} name key {k} of group {g}, which is out of range"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else text[:97] + "..."
