"""Ghost content: what was written to each block, and by whom.

The engine moves block numbers; the ghost moves the content that real memory would have. A *content* is a whole prefix:
a number for a sequence of tokens together with everything else that its KV depends on, so that one wrong token, tenant
or picture anywhere before makes another number. It is told what happened (`docs/protocol.md`, effects) and knows
nothing of any policy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..untrusted import limits
from .record import Effect, World
from .stamps import Stamps
from .violation import Thing, Violation, of_block, of_key, of_request

__all__ = ["Contents", "Ghost", "Request"]

TORN = -1
"""The content of a place that a copy may or may not have written, or read before or after a change."""

Slots = list[int | None]


class Contents:
    """Numbers for prefixes. Equal numbers, equal KV."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._parents: list[int] = []

    def root(self, adapter: str | None, salt: str | None) -> int:
        """The empty prefix of a tenant."""
        return self._number((None, "adapter", adapter, "salt", salt), TORN)

    def after(self, prefix: int, token: int, item: tuple[str, int] | None = None) -> int:
        """The prefix that is one token longer; ``item`` is the multimodal item that covers the token, and where in
        it."""
        return self._number((prefix, token, item), prefix)

    def positions(self, prefix: int, count: int) -> list[int]:
        """The contents of the last ``count`` positions of a prefix, oldest first."""
        found = []
        for _ in range(count):
            found.append(prefix)
            prefix = self._parents[prefix]
        return found[::-1]

    def _number(self, key: tuple[Any, ...], parent: int) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._parents)
            self._parents.append(parent)
        return number


@dataclass
class Request:
    """A request as the ghost sees it."""

    tokens: int
    """How many it has for certain: its prompt and what was accepted."""
    line: list[int]
    """The content of its first n tokens, for every n; drafts that were computed stand behind ``tokens``."""
    items: list[tuple[int, int, str]]
    tables: list[list[int]]
    """Its block tables, as the model worker has them."""
    keys: list[int] = field(default_factory=list)
    """The engine's own hash keys of its first tokens, one for each `World.hash_block`."""
    skips: bool = False
    """It asked that nothing cached be read for it."""
    states: dict[int, tuple[int | None, list[tuple[int, int]]]] = field(default_factory=dict)
    """Per mamba group: where the next forward pass takes the state from, and where it leaves which."""
    in_flight: list["Pass"] = field(default_factory=list)
    """Forward passes that the engine was not told the result of."""

    def item_at(self, position: int) -> tuple[str, int] | None:
        """The multimodal item that covers a position, and where in it."""
        for offset, length, name in self.items:
            if offset <= position < offset + length:
                return name, position - offset
        return None


@dataclass(frozen=True)
class Pass:
    """A scheduled forward pass of one request."""

    start: int
    tokens: int
    reads: list[tuple[int, int, int]]
    """Group, entry of the block table, block: what it reads and writes in groups that give blocks up as they go."""


@dataclass
class _Copy:
    """A copy under way: its places, and what was in the sources when it began."""

    pairs: list[tuple[str, int, str, int]]
    begun: list[tuple[int, Slots] | None]
    void: bool = False
    """A reset came since: it brings nothing any more."""


class Ghost:
    """The contents of all blocks of all tiers, and what the requests are."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.contents = Contents()
        self.requests: dict[str, Request] = {}
        self.named: dict[int, tuple[int, int]] = {}
        """Per hash key: the content that it names, and of how many tokens."""
        self.version = 0
        self._memory: dict[str, dict[int, tuple[int, Slots]]] = {tier: {} for tier in world.tiers}
        self._versions: dict[str, dict[int, int]] = {tier: {} for tier in world.tiers}
        self.copies: dict[Any, _Copy] = {}
        self._device = next(iter(world.tiers))
        self._null = world.tiers[self._device].null
        self._do = {
            name: getattr(self, "_" + name)
            for name in (
                "request", "append", "keys", "end", "found", "table", "compute", "state", "processed", "copy",
                "copied", "computed_outside", "zero", "preempted",
            )
        }  # fmt: skip
        stamps = Stamps(self)
        self._do |= {"ran": stamps.ran, "read": stamps.read, "holds": stamps.holds, "output": stamps.output}

    def apply(self, effect: Effect) -> Iterator[Violation] | None:
        """Let an effect happen; what is wrong with it comes back, and must be read before the next one."""
        do = self._do.get(effect[0])
        return None if do is None else do(*effect[1:])

    def cell(self, tier: str, unit: int) -> tuple[int, Slots] | None:
        """The group that last wrote to a place, and the content of each of its slots."""
        return self._memory[tier].get(unit)

    def version_of(self, tier: str, unit: int) -> int:
        """A number that changes whenever the place is written."""
        return self._versions[tier].get(unit, 0)

    def mend(self, tier: str, unit: int, g: int, slot: int, contents: Sequence[int], size: int) -> None:
        """Let a place hold what it should have held: a fault was told, and what reads the place is judged without
        it."""
        cell = self._memory[tier].get(unit)
        if cell is None or cell[0] != g or len(cell[1]) != size:
            cell = self._memory[tier][unit] = (g, [None] * size)
        cell[1][slot : slot + len(contents)] = contents
        self._touch(tier, unit)

    def hold(self, tier: str, unit: int, g: int, contents: Slots) -> None:
        """A place of memory that is real holds this."""
        self._put(tier, unit, (g, contents))

    def void_copies(self) -> None:
        """A reset: what is under way is stored for nobody."""
        for copy in self.copies.values():
            copy.void = True

    # ------------------------------------------------------------------------------------------------ requests

    def _request(self, r: str, what: dict[str, Any]) -> None:
        items = [(offset, length, name) for offset, length, name in what.get("items") or ()]
        line = [self.contents.root(what.get("adapter"), what.get("salt"))]
        tables: list[list[int]] = [[] for _ in self.world.groups]
        self.requests[r] = Request(0, line, items, tables, skips=bool(what.get("skip")))
        self._append(r, what["tokens"])

    def _append(self, r: str, tokens: Sequence[int]) -> None:
        request = self.requests[r]
        line = request.line[: request.tokens + 1]
        self._extend(request, line, tokens)
        if request.line[: len(line)] != line:  # Else: drafts behind these tokens may still turn out to be right.
            request.line = line
        request.tokens += len(tokens)

    def _extend(self, request: Request, line: list[int], tokens: Sequence[int]) -> None:
        """Go on with a line by these tokens."""
        after, items = self.contents.after, request.items
        for token in tokens:
            line.append(after(line[-1], token, request.item_at(len(line) - 1) if items else None))

    def _keys(self, r: str, first: int, keys: Sequence[int]) -> Iterator[Violation]:
        request, size = self.requests[r], self.world.hash_block
        line = request.line
        del request.keys[first:]
        request.keys += [-1] * (first - len(request.keys)) + [*keys]
        for n, key in enumerate(keys, start=first + 1):
            content = line[n * size]
            known = self.named.setdefault(key, (content, n * size))
            if known[0] != content:
                text = f"hash key {key} names the first {n * size} tokens of {r} and other KV too"
                yield Violation("P13", "one key, two contents", text, about=(of_key(key), of_request(r)))

    def _end(self, r: str, _how: str = "") -> None:
        request = self.requests[r]
        request.in_flight.clear()
        request.tables = [[] for _ in self.world.groups]

    def _preempted(self, r: str) -> None:
        self.requests[r].in_flight.clear()

    # -------------------------------------------------------------------------------------------- forward passes

    def _table(self, r: str, g: int, at: int, blocks: Sequence[int]) -> None:
        if at > limits.TABLE:  # No table is that long, and this one would be made.
            raise ValueError(f"entry {at} of a block table")
        table = self.requests[r].tables[g]
        del table[at:]
        table.extend([-1] * (at - len(table)))
        table.extend(blocks)

    def _state(self, r: str, g: int, source: int | None, leaves: Sequence[Sequence[int]]) -> None:
        self.requests[r].states[g] = (source, [(block, n) for block, n in leaves])

    def _found(self, r: str, tables: Sequence[Sequence[int]], tokens: int) -> Iterator[Violation]:
        """What a lookup hands out is what r's tokens make."""
        request = self.requests[r]
        for g, table in enumerate(tables):
            if self.world.groups[g].kind == "mamba":
                yield from self._reads_state(r, g, table[-1] if table else None, tokens)
            else:
                yield from self._reads(request, r, g, table, tokens, "a lookup handed out")

    def run(self, r: str, start: int, tokens: Sequence[int]) -> tuple[list[int] | None, Violation | None]:
        """A forward pass runs r's positions from ``start`` on: the content of its first n tokens then, for every n, and
        what is wrong with that."""
        request = self.requests[r]
        if start >= len(request.line):
            text = f"{r} is computed from position {start} on, but has {len(request.line) - 1} tokens there"
            return None, Violation("P6", "position without a token", text, about=(of_request(r),))
        line, known = request.line[: start + 1], request.tokens + 1
        self._extend(request, line, tokens)
        if line[:known] != request.line[: min(known, len(line))]:
            text = f"the forward pass of {r} from position {start} on runs other tokens than the request has"
            return line, Violation("P6", "other tokens were run", text, about=(of_request(r),))
        if len(line) > known:
            request.line = line
        return line, None

    def line_of(self, r: str, tokens: Sequence[int]) -> list[int]:
        """The content of the first n of these tokens, for every n, if they were r's."""
        line = self.requests[r].line[:1]
        self._extend(self.requests[r], line, tokens)
        return line

    def _compute(self, r: str, start: int, tokens: Sequence[int]) -> Iterator[Violation]:
        request = self.requests[r]
        line, wrong = self.run(r, start, tokens)
        if wrong is not None:
            yield wrong
        if line is None:
            return
        reads: list[tuple[int, int, int]] = []
        for g, group in enumerate(self.world.groups):
            if group.kind == "mamba":
                source, leaves = request.states.pop(g, (None, []))
                if start:
                    yield from self._reads_state(r, g, source, start)
                for block, n in leaves:
                    yield from self._write(r, g, block, 0, [line[n]], 1)
                continue
            table = request.tables[g]
            yield from self._reads(request, r, g, table, start, "a forward pass read")
            if group.kind != "full":
                first, last = self.first_read(g, start) // group.block, (start + len(tokens) - 1) // group.block
                reads += [(g, i, table[i]) for i in range(first, min(last + 1, len(table))) if table[i] != self._null]
            position, end = start, start + len(tokens)
            while position < end:
                entry, slot = divmod(position, group.block)
                count = min(group.block - slot, end - position)
                block = table[entry] if entry < len(table) else -1
                if block < 0 or block == self._null:
                    where = "has no entry" if block < 0 else "has the null block"
                    text = f"{r} writes position {position}, for which its table of group {g} {where}"
                    yield Violation("P6", "write without a block", text, (group.kind,), (of_request(r),))
                else:
                    written = line[position + 1 : position + 1 + count]
                    yield from self._write(r, g, block, slot, written, group.block)
                position += count
        request.in_flight.append(Pass(start, len(tokens), reads))

    def first_read(self, g: int, start: int) -> int:
        """The first position that a forward pass from ``start`` on reads in a group."""
        group = self.world.groups[g]
        if group.kind == "full" or group.window is None:
            return 0
        if group.kind == "chunk":
            return start // group.window * group.window
        return max(0, start - group.window + 1)

    def _reads(
        self, request: Request, r: str, g: int, table: Sequence[int], start: int, who: str
    ) -> Iterator[Violation]:
        """Everything that position ``start`` attends to is there."""
        group, memory, line = self.world.groups[g], self._memory[self._device], request.line
        size = group.block
        position = self.first_read(g, start)
        while position < start:
            entry, slot = divmod(position, size)
            count = min(size - slot, start - position)
            block = table[entry] if entry < len(table) else -1
            cell = memory.get(block)
            expected = line[position + 1 : position + 1 + count]
            if cell is None or cell[0] != g or cell[1][slot : slot + count] != expected or block == self._null:
                text = (
                    f"{who} block {block} for positions {position} to {position + count - 1} of {r} in group {g} "
                    f"({group.kind}), but it holds {_said(cell, g, slot, count)}"
                )
                yield Violation("P6", who, text, (group.kind,), self._about(block, r))
                if block >= 0 and block != self._null:
                    self.mend(self._device, block, g, slot, expected, size)
            position += count

    def _reads_state(self, r: str, g: int, block: int | None, tokens: int) -> Iterator[Violation]:
        if not tokens:
            return
        cell = None if block is None else self._memory[self._device].get(block)
        expected = self.requests[r].line[tokens]
        if cell is None or cell[0] != g or cell[1] != [expected] or block == self._null:
            text = (
                f"the state of {r} after {tokens} tokens is taken from block {block} in group {g} (mamba), but it "
                f"holds {_said(cell, g, 0, 1)}"
            )
            yield Violation("P6", "a state was taken", text, ("mamba",), self._about(block, r))
            if block is not None and block != self._null:
                self.mend(self._device, block, g, 0, [expected], 1)

    def _write(self, r: str, g: int, block: int, slot: int, contents: Sequence[int], size: int) -> Iterator[Violation]:
        memory = self._memory[self._device]
        cell = memory.get(block)
        if cell is None or cell[0] != g or len(cell[1]) != size:
            cell = memory[block] = (g, [None] * size)
        slots = cell[1]
        if self.copies:
            yield from self._write_under_copy(r, block, slots[slot : slot + len(contents)], contents)
        if slots[slot : slot + len(contents)] != contents:
            slots[slot : slot + len(contents)] = contents
            self._touch(self._device, block)

    def _about(self, block: int | None, r: str) -> tuple[Thing, ...]:
        """A block of the device, if it is one, and a request."""
        real = block is not None and block >= 0 and block != self._null
        return (*((of_block(self._device, block),) if real and block is not None else ()), of_request(r))

    def _write_under_copy(
        self, r: str, block: int, old: Sequence[int | None], new: Sequence[int]
    ) -> Iterator[Violation]:
        here, changed = (self._device, block), any(a not in (None, b) for a, b in zip(old, new, strict=True))
        places = [place for copy in self.copies.values() for place in copy.pairs]
        if any(place[2:] == here for place in places):
            text = f"{r} writes to block {block}, which an unfinished copy writes to as well"
            yield Violation("O8", "write under a copy", text, ("load",), self._about(block, r))
        if changed and any(place[:2] == here for place in places):
            text = f"{r} overwrites block {block}, which an unfinished copy still reads"
            yield Violation("O8", "write under a copy", text, ("store",), self._about(block, r))

    def _touch(self, tier: str, unit: int) -> None:
        self.version += 1
        self._versions[tier][unit] = self.version

    def _processed(self, r: str, _n: int) -> None:
        request = self.requests.get(r)
        if request is not None and request.in_flight:
            request.in_flight.pop(0)

    # ---------------------------------------------------------------------------------------------------- copies

    def _copy(self, number: Any, phase: str, pairs: Sequence[Sequence[Any]] = ()) -> Iterator[Violation]:
        if phase == "begin":
            places = [(a, b, c, d) for a, b, c, d in pairs]
            begun = [self._kept(a, b) for a, b, _, _ in places]
            yield from self._stored_twice(places, begun)
            self.copies[number] = _Copy(places, begun)
            for _, _, tier, unit in places:
                self._put(tier, unit, self._torn(tier, unit))
            return
        copy = self.copies.pop(number, None)
        if copy is None:
            return
        for (source_tier, source, tier, unit), then in zip(copy.pairs, copy.begun, strict=True):
            now = self._memory[tier].get(unit)
            untouched = now is not None and all(s == TORN for s in now[1])
            if phase == "end" and untouched:
                self._put(tier, unit, _common(then, self._memory[source_tier].get(source)))
            else:
                self._put(tier, unit, self._torn(tier, unit))

    def _stored_twice(
        self, places: Sequence[tuple[str, int, str, int]], begun: Sequence[tuple[int, Slots] | None]
    ) -> Iterator[Violation]:
        """O3: no second store of what an unfinished one brings to the same tier already."""
        for (source_tier, source, tier, _), cell in zip(places, begun, strict=True):
            if (
                tier == self._device
                or cell is None
                or self.world.tiers[tier].split != 1
                or not self.world.tiers[tier].blocks
            ):
                # A block may belong to two chunks; what goes to others' memory is sent, not stored.
                continue
            for copy in self.copies.values():
                if copy.void:
                    continue
                for place, other in zip(copy.pairs, copy.begun, strict=True):
                    if place[:3] == (source_tier, source, tier) and other == cell:
                        text = f"block {source} is stored to {tier} again while the first store of it is in flight"
                        yield Violation("O3", "stored twice", text, (tier,), (of_block(source_tier, source),))
                        return

    def _copied(self, pairs: Sequence[Sequence[Any]]) -> None:
        kept = [self._kept(a, b) for a, b, _, _ in pairs]
        for (_, _, tier, unit), cell in zip(pairs, kept, strict=True):
            self._put(tier, unit, cell)

    def _computed_outside(self, r: str, g: int, places: Sequence[Sequence[Any]]) -> None:
        line, group = self.requests[r].line, self.world.groups[g]
        for tier, unit, first, count in places:
            if group.kind == "mamba":
                self._put(tier, unit, (g, [line[first + count]]))
                continue
            slots: Slots = [None] * group.block
            slots[first % group.block : first % group.block + count] = line[first + 1 : first + 1 + count]
            self._put(tier, unit, (g, slots))

    def _zero(self, tier: str, blocks: Sequence[int]) -> None:
        for block in blocks:
            self._put(tier, block, None)

    def _kept(self, tier: str, unit: int) -> tuple[int, Slots] | None:
        cell = self._memory[tier].get(unit)
        return None if cell is None else (cell[0], cell[1][:])

    def _torn(self, tier: str, unit: int) -> tuple[int, Slots]:
        cell = self._memory[tier].get(unit)
        return (-1, [TORN]) if cell is None else (cell[0], [TORN] * len(cell[1]))

    def _put(self, tier: str, unit: int, cell: tuple[int, Slots] | None) -> None:
        if cell is None:
            self._memory[tier].pop(unit, None)
        else:
            self._memory[tier][unit] = cell
        self._touch(tier, unit)


def _said(cell: tuple[int, Slots] | None, g: int, slot: int, count: int) -> str:
    """In words, why a place does not hold what it should."""
    if cell is None:
        return "nothing: it was never written"
    if cell[0] != g:
        return f"what group {cell[0]} wrote"
    found = cell[1][slot : slot + count]
    if TORN in found:
        return "what a copy may or may not have written"
    if None in found:
        return "nothing in some of these slots"
    return "the KV of other tokens"


def _common(begun: tuple[int, Slots] | None, ended: tuple[int, Slots] | None) -> tuple[int, Slots] | None:
    """What a copy brought, whenever it read: the slots that held the same all the time."""
    if begun is None or ended is None:
        return None
    if begun[0] != ended[0] or len(begun[1]) != len(ended[1]):
        return (begun[0], [TORN] * len(begun[1]))
    return (begun[0], [a if a == b else (None if a is None else TORN) for a, b in zip(begun[1], ended[1], strict=True)])
