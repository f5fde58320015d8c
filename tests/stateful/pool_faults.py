"""The example pool (docs/examples/block-pool) with a fault each, and each is one that real pools had."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "block-pool"
sys.path.insert(0, str(EXAMPLE))

from pool import Block, Pool  # noqa: E402


class MissingTouch(Pool):
    """What was found is put into the table, and nobody counts that."""

    def touch(self, block: Block) -> None:
        pass


class StaleMapEntry(Pool):
    """A block that is taken stays in the map under its old key."""

    def forget(self, block: Block) -> None:
        block.key = None


class PartialAllocation(Pool):
    """Blocks are taken one by one, until there are none: a refusal keeps those that it has."""

    def extend(self, name: str, tokens: int) -> bool:
        for _ in range(self.need(tokens) - len(self.tables[name])):
            if not self.num_free:
                return False
            self.tables[name].append(self.take())
        return True


class LeakyRefusal(Pool):
    """Who is refused to grow takes a block all the same, which nobody gives back."""

    def extend(self, name: str, tokens: int) -> bool:
        if self.need(tokens) - len(self.tables[name]) > self.num_free > 0:
            self.take()
        return super().extend(name, tokens)


class FreedInOrder(Pool):
    """A request's first block is given back first, and so is the first to go."""

    def release(self, name: str) -> None:
        for number in self.tables.pop(name):
            self.give_back(self.blocks[number])


class KeyWithoutSalt(Pool):
    """Tenants share keys."""

    def keys(self, tokens: Sequence[int], salt: str | None = None) -> list[bytes]:
        return super().keys(tokens)


class KeyWithoutParent(Pool):
    """A key names the tokens of its block and nothing before it."""

    def key(self, parent: bytes, tokens: Sequence[int]) -> bytes:
        return super().key(b"", tokens)


class EarlyRegistration(Pool):
    """A block is registered as soon as it is allocated, whatever is computed."""

    def computed(self, name: str, tokens: Sequence[int], salt: str | None = None) -> None:
        pass

    def allocated(self, name: str, tokens: Sequence[int], salt: str | None) -> None:
        super().computed(name, tokens, salt)


class Admitting(Pool):
    """A pool that knows whether it lets somebody in."""

    is_admitting = False

    def admit(self, name: str, found: Sequence[int], tokens: int) -> bool:
        self.is_admitting = True
        admitted = super().admit(name, found, tokens)
        self.is_admitting = False
        return admitted


class AsksForAll(Admitting):
    """Who grows is refused where there is no room for all that it will have, whatever of that it has already."""

    def extend(self, name: str, tokens: int) -> bool:
        if not self.is_admitting and self.need(tokens) > self.num_free:
            return False
        return super().extend(name, tokens)


class WholePrompt(Pool):
    """A lookup may find all tokens, so that there is none left to compute."""

    def most(self, tokens: Sequence[int]) -> int:
        return len(tokens) // self.block_tokens


class TruncatedHit(Pool):
    """A lookup gives up the last block that it found."""

    def lookup(self, tokens: Sequence[int], salt: str | None = None) -> list[int]:
        return super().lookup(tokens, salt)[:-1]


class ShortHits(Pool):
    """A lookup gives up behind so many blocks."""

    def lookup(self, tokens: Sequence[int], salt: str | None = None) -> list[int]:
        return super().lookup(tokens, salt)[:8]


class MiscountedFree(Pool):
    """A block that is found in the free queue leaves it uncounted."""

    def touch(self, block: Block) -> None:
        before = self.num_free
        super().touch(block)
        self.num_free = before


class EventWithoutChange(Pool):
    """A removal is told of blocks that are given back, though they stay in the map."""

    def give_back(self, block: Block) -> None:
        super().give_back(block)
        if block.key is not None and block.ref_cnt == 0:
            self.events.append(("removed", block.key))


class ResetWhileHeld(Pool):
    """A reset empties the map, whoever holds blocks."""

    def reset(self) -> bool:
        for block in self.blocks:
            self.forget(block)
        return True


class EvictToHead(Pool):
    """A free block that loses its key goes to the head of the queue."""

    def forget(self, block: Block) -> None:
        super().forget(block)
        if block.number in self.free:
            self.free.move_to_end(block.number, last=False)


class EvictWithoutHolder(Pool):
    """A block that loses its key is held by one less."""

    def forget(self, block: Block) -> None:
        super().forget(block)
        block.ref_cnt = max(0, block.ref_cnt - 1)


class RefusalTouches(Pool):
    """What was found for a request that is refused counts as used."""

    def admit(self, name: str, found: Sequence[int], tokens: int) -> bool:
        admitted = super().admit(name, found, tokens)
        for number in found if not admitted else ():
            if number in self.free:
                self.free.move_to_end(number)
        return admitted


class WrongParent(Pool):
    """Whatever is stored is told to be below the first block of its prompt."""

    def computed(self, name: str, tokens: Sequence[int], salt: str | None = None) -> None:
        told = len(self.events)
        super().computed(name, tokens, salt)
        first = self.keys(tokens, salt)[:1]
        told_with = [(*event, *first) if event[1:] != (*first,) else event for event in self.events[told:]]
        self.events[told:] = told_with  # type: ignore[assignment]  # a third field, which the example has none of


class ForgetsBelow(Pool):
    """With a block all goes that is cached below it, whoever holds that, and whether the block comes again."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.above: dict[bytes, bytes] = {}

    def keys(self, tokens: Sequence[int], salt: str | None = None) -> list[bytes]:
        keys = super().keys(tokens, salt)
        self.above.update(zip(keys[1:], keys, strict=False))
        return keys

    def forget(self, block: Block) -> None:
        key = block.key
        super().forget(block)
        for each in self.blocks if key is not None else ():
            if each.key is not None and self.above.get(each.key) == key:
                self.forget(each)


class LaterCopyReplaces(Pool):
    """What is computed a second time is found from then on; when that goes nothing is, though the first is there."""

    def register(self, block: Block, key: bytes) -> None:
        if block.key is None and key in self.cached:
            self.forget(self.blocks[self.cached[key]])
        super().register(block, key)


class NeverHits(Pool):
    """A lookup finds nothing, ever."""

    def lookup(self, tokens: Sequence[int], salt: str | None = None) -> list[int]:
        return []


class CopiesPool(Pool):
    """Every copy of a prefix is registered, as in vLLM and in machine P; the first one is found."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.copies: dict[bytes, list[int]] = {}
        self.registered: dict[str, int] = {}

    def admit(self, name: str, found: Sequence[int], tokens: int) -> bool:
        self.registered[name] = len(found)
        return super().admit(name, found, tokens)

    def computed(self, name: str, tokens: Sequence[int], salt: str | None = None) -> None:
        keys = self.keys(tokens, salt)
        for at in range(self.registered[name], len(keys)):
            block = self.blocks[self.tables[name][at]]
            block.key = keys[at]
            self.copies.setdefault(keys[at], []).append(block.number)
            self.cached[keys[at]] = self.copies[keys[at]][0]
            if len(self.copies[keys[at]]) == 1:
                self.events.append(("stored", keys[at]))
        self.registered[name] = len(keys)

    def forget(self, block: Block) -> None:
        if block.key is None:
            return
        copies, key, block.key = self.copies[block.key], block.key, None
        copies.remove(block.number)
        if copies:
            self.cached[key] = copies[0]
        else:
            del self.copies[key], self.cached[key]
            self.events.append(("removed", key))


class StingyPool(Admitting, CopiesPool):
    """The last free blocks are given to nobody who grows beside others: nothing breaks, and room is lost."""

    def extend(self, name: str, tokens: int) -> bool:
        missing = self.need(tokens) - len(self.tables[name])
        if missing > 0 and self.num_free <= 3 and not self.is_admitting and len(self.tables) > 1:
            return False
        return super().extend(name, tokens)


class LastCopyPool(CopiesPool):
    """Of several copies the youngest is found."""

    def lookup(self, tokens: Sequence[int], salt: str | None = None) -> list[int]:
        found = super().lookup(tokens, salt)
        return [self.copies[key][-1] for key in self.keys(tokens, salt)[: len(found)]]


FAULTS: dict[type[Pool], str] = {
    MissingTouch: "P2",
    StaleMapEntry: "P5",
    PartialAllocation: "P7",
    FreedInOrder: "P10",
    KeyWithoutSalt: "P13",
    KeyWithoutParent: "P13",
    EarlyRegistration: "P6",
    WholePrompt: "P14",
    TruncatedHit: "P14 (nothing less)",
    ShortHits: "P14 (nothing less)",
    MiscountedFree: "P3",
    EventWithoutChange: "P12",
    ResetWhileHeld: "P11",
    WrongParent: "P12",
    NeverHits: "P14 (nothing less)",
    EvictToHead: "P11",
    EvictWithoutHolder: "P11",
    RefusalTouches: "P7",
    AsksForAll: "L1",
}
"""The rule that names each of them."""
