"""Block managers that hold more than requests do, what is cached or some kept back: they say so, and are right."""

from __future__ import annotations

import re
from typing import ClassVar

import pytest

from kvproof.errors import UsageError
from kvproof.testing import BlockManager, assert_lockstep
from kvproof.testing.fuzzing import fuzz_manager

from . import pool_faults

import test_pool as example  # isort: skip # pool_faults puts its folder on the path

assert pool_faults.EXAMPLE


class _Holding(BlockManager):
    """Its cache is one holder of each block that is cached, and lets go where there is no room otherwise."""

    dialect: ClassVar = {"keep": "all", "cached": "held"}

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.size = block_tokens
        self.counts = [0] * blocks
        self.free_blocks = [*range(blocks)]
        self.map: dict[tuple[None, None, tuple[int, ...]], int] = {}
        self.tables: dict[str, list[int]] = {}

    def lookup(self, request):
        found = []
        for key in self.prefixes(request.tokens[:-1]):
            if key not in self.map:
                break
            found.append(self.map[key])
        return found

    def allocate(self, request, tokens):
        table = self.tables.get(request.name, request.found)
        missing = -(-tokens // self.size) - len(table)
        idle = [block for block in self.map.values() if self.counts[block] == 1 and block not in table]
        lacking = max(0, missing - len(self.free_blocks))
        if lacking > len(idle):
            return None
        for block in idle[:lacking]:
            self.evict(block)
        new = [self.free_blocks.pop() for _ in range(missing)]
        for block in new if request.name in self.tables else [*table, *new]:
            self.counts[block] += 1
        self.tables[request.name] = [*table, *new]
        return self.tables[request.name]

    def commit(self, request, tokens):
        for key, block in zip(self.prefixes(request.tokens[:tokens]), self.tables[request.name], strict=False):
            if key not in self.map:
                self.map[key] = block
                self.counts[block] += 1

    def free(self, request):
        for block in self.tables.pop(request.name):
            self.let_go(block)

    def evict(self, block):
        for key in [key for key, at in self.map.items() if at == block]:
            del self.map[key]
            self.let_go(block)

    def reset(self):
        for block in [] if self.tables else [*self.map.values()]:
            self.evict(block)
        return not self.tables

    def ref_counts(self):
        return self.counts

    def free_queue(self):
        return self.free_blocks[::-1]

    def cached(self):
        return self.map

    def prefixes(self, tokens):
        return [(None, None, tuple(tokens[:end])) for end in range(self.size, len(tokens) + 1, self.size)]

    def let_go(self, block):
        self.counts[block] -= 1
        if not self.counts[block]:
            self.free_blocks.append(block)


class _KeepsWhatItEvicts(_Holding):
    """What leaves the map keeps the map's reference."""

    def evict(self, block):
        self.map = {key: at for key, at in self.map.items() if at != block}


class _NotCounted(_Holding):
    """What comes into the map gets no reference of the map's."""

    def commit(self, request, tokens):
        before = {*self.map.values()}
        super().commit(request, tokens)
        for block in {*self.map.values()} - before:
            self.counts[block] -= 1


class _KeepsOneBack(example.TestPool):
    """The last free block is nobody's who is let in; so it has one more than there are to be used."""

    kept_back = 1
    dialect: ClassVar = {"keep": "all"}

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks + 1, block_tokens)

    def allocate(self, request, tokens):
        missing = self.pool.need(tokens) - len(self.pool.tables.get(request.name, request.found))
        idle = [] if request.name in self.pool.tables else request.found
        free = self.pool.num_free - sum(not self.pool.blocks[block].ref_cnt for block in idle)
        return super().allocate(request, tokens) if missing < free or not missing else None


class _KeepsTwoBack(_KeepsOneBack):
    """It says one, and keeps two: the largest request never runs."""

    def allocate(self, request, tokens):
        room = self.pool.num_free - len(request.found) > self.pool.need(tokens) + 1
        return super().allocate(request, tokens) if room or request.name in self.pool.tables else None


class _Integer:
    """An integer of a library's own, as NumPy's are."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class _CountsInItsOwnIntegers(_Holding):
    """It looks up where it allocates, and says in integers of its own what was found."""

    lookup = BlockManager.lookup

    def allocate(self, request, tokens):
        if request.name not in self.tables:
            request.found = _Holding.lookup(self, request)
            request.cached = _Integer(len(request.found) * self.size)
        return super().allocate(request, max(tokens, len(request.found) * self.size))


@pytest.mark.parametrize("kind", [_Holding, _KeepsOneBack, _CountsInItsOwnIntegers])
def test_who_is_right_is_not_accused(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, examples=160, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.activity.tight_hits


@pytest.mark.parametrize(("kind", "rule"), [(_KeepsWhatItEvicts, "P2"), (_NotCounted, "P2"), (_KeepsTwoBack, "L1")])
def test_who_is_not_right_is(kind: type[BlockManager], rule: str) -> None:
    assert rule in fuzz_manager(kind, seconds=20, findings=1).broken


def test_blocks_that_are_left_held_by_nobody_are_told_where_counts_have_other_holders() -> None:
    kind = type("Loose", (_KeepsWhatItEvicts,), {"exact": False})
    assert "L2" in fuzz_manager(kind, seconds=20, findings=1).broken


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"cached": BlockManager.cached}, "then cached() tells what that is"),
        ({"kept_back": -1}, "kept_back is -1; it is a number of blocks"),
    ],
)
def test_what_cannot_be_held_to_what_it_says_is_one_sentence(more: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        fuzz_manager(type("Odd", (_Holding,), more))


@pytest.mark.parametrize("kind", [_Holding, _KeepsOneBack])
def test_machine_p_holds_nothing_of_the_kind(kind: type[BlockManager]) -> None:
    with pytest.raises(UsageError, match="machine P does nothing of that"):
        assert_lockstep(kind)
