"""Forward passes and lookups: what they read is what the request's tokens make (P6), and what they write."""

import math
from collections.abc import Iterator, Sequence

from ..record import World
from ..violation import Thing, Violation, of_block, of_request
from .batches import Batches
from .copies import Copies
from .memory import Memory, Slots, said
from .requests import Pass, Request, Requests

__all__ = ["Passes", "first_read"]

_LOOKUP = "a lookup handed out"
_FORK = "a fork handed out"


def first_read(world: World, g: int, start: int) -> int:
    """The first position that a forward pass from ``start`` on reads in a group."""
    group = world.groups[g]
    if group.kind == "full" or group.window is None:
        return 0
    if group.kind == "chunk":
        return start // group.window * group.window
    return max(0, start - group.window + 1)


class Passes:
    """What the model worker does with the blocks of the device."""

    def __init__(self, world: World, requests: Requests, memory: Memory, copies: Copies, batches: Batches) -> None:
        self._world, self._requests, self._memory, self._copies = world, requests, memory, copies
        self._batches = batches
        self._device = next(iter(world.tiers))
        self._null = world.tiers[self._device].null
        self._beyond = world.tiers[self._device].blocks if world.notes.get("reads") else math.inf
        """Blocks from this one on are those of another tier (`World.place`)."""
        kinds = {group.kind for group in world.groups}
        self._drafts_in = "full" if "full" in kinds else "window"
        """The kind of group that a drafter's layers are in: it attends to all there is, where any layer does."""
        self._encoded: set[str] | None = None
        """The multimodal items whose encodings the model worker has; None: that is not told."""
        room = world.notes.get("encodings")
        self._room = room if isinstance(room, int) else math.inf
        """The tokens of items whose encodings it has room for."""

    def has_encoded(self, names: Sequence[str]) -> Iterator[Violation]:
        """From here on the model worker has the encodings of these multimodal items, and of no others."""
        self._encoded = set(names)
        held = sum(self._requests.item_sizes.get(name, 0) for name in self._encoded)
        if held > self._room:
            text = f"the model worker has encodings of {held} tokens of items, and room for {self._room}"
            yield Violation("M3", "more encodings than there is room for", text)

    def found(self, r: str, tables: Sequence[Sequence[int]], tokens: int) -> Iterator[Violation]:
        """What a lookup hands out is what r's tokens make, as far as r attends to it.

        With tokens from elsewhere r goes on behind those: what has left the window there is nobody's, and may be given
        to a copy of these tokens in the same step; the state of a mamba group comes with them.
        """
        request = self._requests[r]
        request.handed_nothing.clear()
        start, who = max(tokens, request.goes_on), _FORK if request.is_fork else _LOOKUP
        for g, table in enumerate(tables):
            if self._world.groups[g].kind != "mamba":
                yield from self._reads(request, r, g, table, (start, tokens), who)
            elif start == tokens:
                yield from self._reads_state(r, g, table[-1] if table else None, tokens)
        request.goes_on = 0

    def compute(self, r: str, start: int, tokens: Sequence[int]) -> Iterator[Violation]:
        """A forward pass computes r's positions from ``start`` on: it reads what is before them, and writes these."""
        request = self._requests[r]
        line, wrong = self._requests.run(r, start, tokens)
        if wrong is not None:
            yield wrong
        if line is None:
            return
        if start + len(tokens) > self._requests.longest:
            yield self._requests.beyond(r, f"{r} is computed up to position {start + len(tokens) - 1}")
        yield from self._reads_items(request, r, start, start + len(tokens), "a forward pass")
        reads: list[tuple[int, int, int]] = []
        for g, group in enumerate(self._world.groups):
            if group.kind == "mamba":
                source, leaves = request.states.pop(g, (None, []))
                if start:
                    yield from self._reads_state(r, g, source, start)
                    yield from self._not_of_now(r, g, source)
                for block, n in leaves:
                    yield from self._write(r, g, block, 0, [request.content(r, n)], 1)
                continue
            table = request.tables[g]
            yield from self._reads(request, r, g, table, (start, start), "a forward pass read")
            if group.kind != "full":
                first = first_read(self._world, g, start) // group.block
                last = (start + len(tokens) - 1) // group.block
                reads += [(g, i, table[i]) for i in range(first, min(last + 1, len(table))) if table[i] != self._null]
            yield from self._writes(r, g, table, line, start)
        request.in_flight.append(Pass(start, len(tokens), reads))

    def draft(self, r: str, position: int, tokens: int) -> Iterator[Violation]:
        """A drafter with layers goes on behind a forward pass of r: it reads what is at this position, and writes so
        many from there on. What it writes is for its own layers, and not followed; where it lies must be r's."""
        request = self._requests[r]
        yield from self._reads_items(request, r, position, position + 1, "a drafter")
        for g, group in enumerate(self._world.groups):
            table = request.tables[g]
            for at in range(position, position + tokens) if group.kind == self._drafts_in else ():
                block = table[at // group.block] if at // group.block < len(table) else self._null
                if block == self._null:
                    text = f"the drafter writes position {at} of {r}, for which its table of group {g} has no block"
                    yield Violation("P6", "a draft without a block", text, (group.kind,), (of_request(r),))
                    return

    def computed_outside(self, r: str, g: int, places: Sequence[tuple[str, int, int, int]]) -> None:
        """What another engine computed of r lies in these places: tier, place, first position, how many."""
        request, group = self._requests[r], self._world.groups[g]
        for tier, unit, first, count in places:
            if group.kind == "mamba":
                self._memory.put(tier, unit, (g, [request.content(r, first + count)]))
                continue
            slots: Slots = [None] * group.block
            slots[first % group.block : first % group.block + count] = request.line[first + 1 : first + 1 + count]
            self._memory.put(tier, unit, (g, slots))

    # ------------------------------------------------------------------------------------------------ reading

    def _reads(
        self, request: Request, r: str, g: int, table: Sequence[int], span: tuple[int, int], who: str
    ) -> Iterator[Violation]:
        """Everything that the first position of ``span`` attends to is there, before the second one."""
        start, end = span
        group, cells, line = self._world.groups[g], self._memory.cells[self._device], request.line
        size = group.block
        position = first_read(self._world, g, start)
        while position < end:
            entry, slot = divmod(position, size)
            count = min(size - slot, end - position)
            block = table[entry] if entry < len(table) else -1
            cell = cells.get(block) if block < self._beyond else self._memory.cell(*self._world.place(block))
            expected = line[position + 1 : position + 1 + count]
            if cell is None or cell[0] != g or cell[1][slot : slot + count] != expected or block == self._null:
                if (g, entry) not in request.handed_nothing:
                    text = (
                        f"{who} {self._named(block)} for positions {position} to {position + count - 1} of {r} in "
                        f"group {g} ({group.kind}), but it holds {said(cell, g, slot, count)}"
                    )
                    yield Violation("P6", who, text, (group.kind,), self._about(block, r))
                if block >= 0 and block != self._null:
                    self._memory.mend(*self._world.place(block), g, slot, expected, size)
                elif who in (_LOOKUP, _FORK):
                    request.handed_nothing.add((g, entry))
            position += count

    def _reads_items(self, request: Request, r: str, start: int, end: int, who: str) -> Iterator[Violation]:
        """The model worker has the encodings of all multimodal items that stand at these positions."""
        encoded = self._encoded
        if encoded is None:
            return
        for offset, length, name in request.items:
            if name not in encoded and offset < end and start < offset + length:
                text = f"{who} reads item {name} at position {max(start, offset)} of {r}, which is not encoded"
                yield Violation("P6", "an item without its encoding", text, (who,), (of_request(r),))

    def _reads_state(self, r: str, g: int, block: int | None, tokens: int) -> Iterator[Violation]:
        """The state of a mamba group is that after so many tokens."""
        if not tokens:
            return
        cell = None if block is None else self._memory.cell(self._device, block)
        expected = self._requests[r].content(r, tokens)
        if cell is None or cell[0] != g or cell[1] != [expected] or block == self._null:
            text = (
                f"the state of {r} after {tokens} tokens is taken from block {block} in group {g} (mamba), but it "
                f"holds {said(cell, g, 0, 1)}"
            )
            yield Violation("P6", "a state was taken", text, ("mamba",), self._about(block, r))
            if block is not None and block != self._null:
                self._memory.mend(self._device, block, g, 0, [expected], 1)

    def _not_of_now(self, r: str, g: int, block: int | None) -> Iterator[Violation]:
        """A state is not of the batch that is to begin with it."""
        other = self._batches.written_now(block)
        if other not in (None, r):
            text = f"the state of {r} is taken from block {block} in group {g} (mamba), which {other} writes just then"
            yield Violation("P6", "a state of the same step", text, ("mamba",), self._about(block, r))

    # ------------------------------------------------------------------------------------------------ writing

    def _writes(self, r: str, g: int, table: Sequence[int], line: Sequence[int], start: int) -> Iterator[Violation]:
        """Write the contents of all positions from ``start`` on to where the table says."""
        group = self._world.groups[g]
        position, end = start, len(line) - 1
        while position < end:
            entry, slot = divmod(position, group.block)
            count = min(group.block - slot, end - position)
            block = table[entry] if entry < len(table) else -1
            if block < 0 or block == self._null:
                where = "has no entry" if block < 0 else "has the null block"
                text = f"{r} writes position {position}, for which its table of group {g} {where}"
                if position < self._requests.longest:  # Else it is told by that.
                    yield Violation("P6", "write without a block", text, (group.kind,), (of_request(r),))
            else:
                written = line[position + 1 : position + 1 + count]
                yield from self._write(r, g, block, slot, written, group.block)
            position += count

    def _write(self, r: str, g: int, block: int, slot: int, contents: Sequence[int], size: int) -> Iterator[Violation]:
        """Write to a block; whoever copies it meanwhile is told of (O8)."""
        if block >= self._beyond:
            text = f"{r} writes to {self._named(block)}, which a forward pass only reads"
            yield Violation("P6", "write without a block", text, (self._world.groups[g].kind,), self._about(block, r))
            return
        self._batches.passes_over(block, r)
        slots = self._memory.fit(self._device, block, g, size)
        old = slots[slot : slot + len(contents)]
        if self._copies.under_way:
            yield from self._copies.written(r, block, (g, slot), old, contents)
        if old != contents:
            slots[slot : slot + len(contents)] = contents
            self._memory.touch(self._device, block)

    def _about(self, block: int | None, r: str) -> tuple[Thing, ...]:
        """A block, if it is one, and a request."""
        if block is None or block < 0 or block == self._null:
            return (of_request(r),)
        return of_block(*self._world.place(block)), of_request(r)

    def _named(self, block: int) -> str:
        """A block in words."""
        tier, number = self._world.place(block)
        return f"block {block}" if block < self._beyond else f"block {number} ({tier})"
