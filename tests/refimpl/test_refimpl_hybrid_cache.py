"""The cache of hybrid groups: hits against searching (H4), no block twice (H8), P8, P14, loads (O11), and mistakes."""

import random
from collections import Counter
from dataclasses import dataclass
from itertools import count
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import BlockStored
from kvproof.refimpl.hybrid.cache import HybridCache
from kvproof.refimpl.hybrid.planner import Group
from kvproof.refimpl.pool.block_pool import NULL_BLOCK, BlockPool
from kvproof.refimpl.pool.keys import chain_keys
from kvproof.refimpl.pool.manager import RequestId

# By example: keys every 2 tokens; attention in blocks of 2, a window of 5 tokens in blocks of 2, mamba in blocks of 4.

GROUPS = [Group(2, "full"), Group(2, "window", 5), Group(4, "mamba")]
TOKENS = list(range(16))
CHAIN = chain_keys(TOKENS, 2)


def make(num_blocks: int = 40, groups=GROUPS, **options) -> HybridCache:
    return HybridCache(BlockPool(num_blocks, **options), 2, groups)


def warm(num_blocks: int = 40, tokens: int = 12, **options) -> HybridCache:
    """Request 'w' came, computed so many of ``TOKENS``, and left."""
    cache = make(num_blocks, **options)
    cache.admit("w", 16)
    cache.allocate("w", tokens)
    cache.register("w", CHAIN, tokens)
    cache.finish("w")
    return cache


def evict(cache: HybridCache, group: int, position: int) -> None:
    block = cache.pool.lookup(cache.key(group, CHAIN, position))
    assert block is not None
    cache.pool.evict(block)


def come_back(cache: HybridCache, limit: int = 15) -> int:
    cache.admit("r", 16)
    return cache.hit("r", CHAIN, limit)


def test_h4_every_group_holds_what_it_needs():
    cache = warm()
    assert come_back(cache) == 12
    full, window, mamba = cache.tables("r")
    assert NULL_BLOCK not in full
    assert window[:4] == (NULL_BLOCK,) * 4
    assert mamba[:2] == (NULL_BLOCK,) * 2
    assert NULL_BLOCK not in window[4:] + mamba[2:]
    assert (len(full), len(window), len(mamba)) == (6, 6, 3)
    assert cache.counts("r") == (12, 0)


def test_p14_the_limit_is_kept_at_a_boundary_of_all():
    assert [come_back(warm(), limit) for limit in (0, 3, 4, 11, 12, 15)] == [0, 0, 4, 8, 12, 12]
    assert come_back(warm(tokens=11)) == 8


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ([(0, 0)], 0),
        ([(0, 3)], 4),
        ([(1, 5)], 8),
        ([(1, 4)], 8),
        ([(1, 3)], 12),  # The window at 12 tokens does not reach back to there.
        ([(2, 2)], 8),
        ([(2, 0), (2, 1)], 12),  # Nobody needs the states before.
        ([(2, 2), (1, 2)], 4),  # Mamba shortens to 8, whose window is gone.
        ([(2, 2), (1, 2), (0, 1)], 0),
    ],
    ids=str,
)
def test_h4_a_group_only_ever_shortens_the_candidate(gone, expected):
    cache = warm()
    for group, position in gone:
        evict(cache, group, position)
    assert cache.reach(CHAIN, 15) == expected
    assert come_back(cache) == expected


def held(cache: HybridCache, request: str = "r") -> list[int]:
    """The blocks of all tables of a request."""
    return [block for table in cache.tables(request) for block in table if block != NULL_BLOCK]


def test_p8_what_was_found_is_held_before_anything_is_allocated():
    """What was found stands at the head of the queue, and is not handed out."""
    cache = warm(21, free_order="append")
    head = cache.pool.snapshot().free[:14]
    assert come_back(cache) == 12
    found = held(cache)
    assert set(found) & set(head)
    assert cache.allocate("r", 16)
    assert len(set(held(cache))) == len(held(cache)) == len(found) + 2 + 2 + 1
    assert set(found) < set(held(cache))


def test_allocation_is_all_or_nothing_across_groups():
    cache = make(11)
    assert cache.admit("a", 8)
    assert cache.allocate("a", 4)
    assert cache.admit("b", 8)
    before = cache.snapshot()
    assert not cache.allocate("b", 6)  # 3 + 3 + 2 of 5 free blocks.
    assert cache.snapshot() == before
    assert cache.allocate("b", 4)
    assert cache.pool.num_free == 0


def test_h7_a_demand_below_what_is_held_allocates_nothing():
    cache = make()
    cache.admit("a", 16)
    cache.allocate("a", 9)
    before = cache.snapshot()
    assert cache.allocate("a", 3)
    assert cache.allocate("a", 0)
    assert cache.snapshot() == before


def test_l1_what_would_not_fit_the_empty_pool_is_turned_away():
    cache = make(11)
    assert cache.admit("a", 8)  # 4 + 4 + 2 blocks.
    before = cache.snapshot()
    assert not cache.admit("b", 9)
    assert cache.snapshot() == before
    assert cache.admit("b", 0)  # Tables that stay empty fit.


def test_d7_what_is_outside_goes_back_and_what_comes_next_stays():
    cache = make(free_order="append")
    cache.admit("a", 16)
    cache.allocate("a", 16)
    assert cache.drop_outside("a") == []  # Nothing is computed: the first step reads from the start.
    cache.register("a", CHAIN, 11)
    _, window, mamba = cache.tables("a")
    dropped = cache.drop_outside("a")
    # Tokens 7 to 10 and the next one are the window; the state behind token 10 is in the third block.
    assert dropped == [*window[:3][::-1], *mamba[:2][::-1]]
    assert cache.tables("a")[1:] == ((NULL_BLOCK,) * 3 + window[3:], (NULL_BLOCK,) * 2 + mamba[2:])
    assert cache.pool.snapshot().free[-5:] == tuple(dropped)
    assert cache.drop_outside("a") == []
    assert NULL_BLOCK not in cache.tables("a")[0]


def test_p10_a_request_that_leaves_frees_group_by_group_last_first():
    cache = make(free_order="append")
    cache.admit("a", 8)
    cache.allocate("a", 8)
    tables = cache.tables("a")
    cache.preempt("a")
    assert cache.pool.snapshot().free[-10:] == tuple(block for table in tables for block in table[::-1])
    assert cache.admit("a", 8)


# Loads (H4, O11).


def loading(cache: HybridCache, tokens: int = 12) -> HybridCache:
    """Request 'r' has room for a load of so many tokens."""
    cache.admit("r", 16)
    cache.hit("r", CHAIN, 15)
    cache.allocate("r", tokens)
    return cache


def test_h4_the_greatest_common_boundary_is_used():
    cache = loading(make())
    before = cache.tables("r")
    assert cache.settle("r", [12, 10, 8]) == 8
    assert cache.counts("r") == (0, 8)
    assert cache.tables("r") == (before[0][:4], (NULL_BLOCK,) * 2 + before[1][2:4], (NULL_BLOCK, before[2][1]))
    cache.register("r", CHAIN, 8)
    assert cache.counts("r") == (0, 8)
    assert cache.reach(CHAIN, 15) == 8


@pytest.mark.parametrize("brought", range(4))
def test_h4_with_blocks_of_one_token_a_load_may_bring_any_number(brought):
    cache = HybridCache(BlockPool(9), 1, [Group(1, "full"), Group(1, "mamba")])
    cache.admit("r", 4)
    cache.allocate("r", 3)
    assert cache.settle("r", [brought, 3]) == brought
    assert cache.counts("r") == (0, brought)


def test_p10_what_a_load_brought_and_nobody_needs_goes_back_group_by_group_last_first():
    cache = loading(make(free_order="append"))
    _, window, mamba = cache.tables("r")
    assert cache.settle("r", [12, 12, 12]) == 12
    assert cache.pool.snapshot().free[-6:] == (*window[:4][::-1], *mamba[:2][::-1])


@pytest.mark.parametrize("counts", [[12, 12, 0], [0, 12, 12], [12, 3, 12]], ids=str)
def test_s16_with_nothing_left_both_counts_are_zero(counts):
    cache = loading(make())
    assert cache.settle("r", [12, 12, 12]) == 12
    assert cache.counts("r") == (0, 12)
    assert cache.settle("r", counts) == 0
    assert cache.counts("r") == (0, 0)
    assert cache.tables("r") == ((), (), ())
    assert cache.pool.num_free == cache.pool.usable
    assert cache.allocate("r", 16)  # It computes from the start, or looks again.


def test_o11_a_failed_load_leaves_what_was_found_here():
    cache = loading(warm(tokens=8), 16)
    assert cache.counts("r") == (8, 0)
    found = cache.tables("r")
    assert cache.settle("r", [8, 16, 14]) == 8
    assert cache.counts("r") == (8, 0)
    assert cache.tables("r") == (found[0][:4], found[1][:4], found[2][:2])


def test_a_load_behind_what_was_found_is_external():
    cache = loading(warm(tokens=8), 16)
    assert cache.settle("r", [16, 16, 15]) == 12
    assert cache.counts("r") == (8, 4)
    cache.allocate("r", 16)
    cache.register("r", CHAIN, 14)
    assert cache.counts("r") == (10, 4)


def test_h4_a_boundary_whose_state_was_given_up_is_none():
    """The table of mamba has the state at 8 only: with one group back at 4 tokens, nothing can go on from there."""
    cache = loading(warm(tokens=8), 12)
    assert cache.settle("r", [4, 12, 12]) == 0
    assert cache.counts("r") == (0, 0)


def test_p6_what_a_load_does_not_bring_is_no_block_that_could_be_filed():
    """Of 12 loaded tokens the window needs the last 4, mamba the last block: nothing else of them is ever found."""
    cache = make()
    cache.admit("r", 16)
    assert cache.allocate("r", 14, loaded=12)
    full, window, mamba = cache.tables("r")
    assert NULL_BLOCK not in full
    assert [position for position, block in enumerate(window) if block != NULL_BLOCK] == [4, 5, 6]
    assert [position for position, block in enumerate(mamba) if block != NULL_BLOCK] == [2, 3]
    assert cache.pool.usable - cache.pool.num_free == 7 + 3 + 2
    assert cache.settle("r", [12, 12, 12]) == 12
    cache.allocate("r", 14)
    cache.register("r", CHAIN, 14)
    filed = set(cache.pool.snapshot().keys)
    assert filed == {*cache.tables("r")[0], *cache.tables("r")[1][4:], cache.tables("r")[2][2]}


def test_p6_where_room_was_made_for_more_than_the_load_brings_that_is_not_filed_either():
    cache = loading(make())
    _, window, mamba = cache.tables("r")
    assert cache.settle("r", [12, 12, 12]) == 12
    assert cache.tables("r")[1:] == ((NULL_BLOCK,) * 4 + window[4:], (NULL_BLOCK,) * 2 + mamba[2:])
    cache.register("r", CHAIN, 12)
    assert not set(cache.pool.snapshot().keys) & {*window[:4], *mamba[:2]}


def test_h4_a_load_that_came_in_part_leaves_what_can_be_gone_on_from():
    """Full attention got 8 tokens of 12, windows nothing that is of use there: what remains is what was found here."""
    cache = warm(tokens=4)
    cache.admit("r", 16)
    assert cache.hit("r", CHAIN, 15) == 4
    found = cache.tables("r")
    assert cache.allocate("r", 16, loaded=16)
    assert cache.tables("r")[1][2:6] == (NULL_BLOCK,) * 4
    assert cache.settle("r", [8, 16, 16]) == 4
    assert cache.counts("r") == (4, 0)
    assert cache.tables("r") == found


def test_what_was_found_is_given_back_when_the_load_behind_it_has_come():
    cache = warm(tokens=4)
    cache.admit("r", 16)
    cache.hit("r", CHAIN, 15)
    cache.allocate("r", 16, loaded=16)
    assert cache.settle("r", [16, 16, 16]) == 16
    assert cache.tables("r")[1][:6] == (NULL_BLOCK,) * 6
    assert cache.tables("r")[2][:3] == (NULL_BLOCK,) * 3
    assert cache.drop_outside("r") == []


# Keys.


def test_h8_groups_of_one_size_never_share_a_block():
    cache = make(groups=[Group(2, "full"), Group(2, "full")])
    cache.admit("a", 8)
    cache.allocate("a", 8)
    cache.register("a", CHAIN, 8)
    cache.admit("b", 8)
    assert cache.hit("b", CHAIN, 8) == 8
    first, second = cache.tables("b")
    assert not set(first) & set(second)


def test_p12_a_block_is_reported_behind_the_one_before_it_in_its_group():
    cache = make(groups=[Group(4, "mamba")])
    cache.admit("a", 16)
    cache.allocate("a", 16)
    (blocks,) = cache.tables("a")
    cache.register("a", CHAIN, 8)
    cache.drop_outside("a")
    cache.register("a", CHAIN, 13)
    keys = [cache.key(0, CHAIN, position) for position in range(3)]
    assert cache.pool.take_events() == [
        BlockStored(keys[0], None, blocks[0]),
        BlockStored(keys[1], keys[0], blocks[1]),
        BlockStored(keys[2], keys[1], blocks[2]),
    ]


def test_a_pool_that_does_not_cache_serves_without_hits():
    cache = warm(caching=False)
    assert come_back(cache) == 0
    cache.allocate("r", 9)
    cache.register("r", CHAIN, 9)
    assert cache.counts("r") == (9, 0)
    assert cache.pool.snapshot().keys == {}


# Illegal steps change nothing.


def scene() -> HybridCache:
    cache = warm()
    cache.admit("a", 16)
    cache.hit("a", CHAIN, 15)
    cache.admit("b", 8)
    return cache


REFUSED = {
    "admit one inside": lambda c: c.admit("a", 1),
    "admit for fewer than no tokens": lambda c: c.admit("c", -1),
    "finish a stranger": lambda c: c.finish("c"),
    "preempt a stranger": lambda c: c.preempt("c"),
    "hit of a stranger": lambda c: c.hit("c", CHAIN, 1),
    "hit on tables that are not empty": lambda c: c.hit("a", CHAIN, 15),
    "hit beyond the need": lambda c: c.hit("b", CHAIN, 9),
    "hit of fewer than no tokens": lambda c: c.hit("b", CHAIN, -1),
    "hit of one block at two places": lambda c: c.hit("b", [CHAIN[0], CHAIN[0], CHAIN[0], CHAIN[1]], 8),
    "allocate for a stranger": lambda c: c.allocate("c", 1),
    "allocate beyond the need": lambda c: c.allocate("b", 9),
    "allocate fewer than no tokens": lambda c: c.allocate("b", -1),
    "settle for a stranger": lambda c: c.settle("c", [0, 0, 0]),
    "settle too few groups": lambda c: c.settle("a", [12, 12]),
    "settle too many groups": lambda c: c.settle("a", [12, 12, 12, 12]),
    "settle beyond the tables": lambda c: c.settle("a", [12, 13, 12]),
    "settle fewer than no tokens": lambda c: c.settle("a", [12, -1, 12]),
    "register for a stranger": lambda c: c.register("c", CHAIN, 0),
    "register beyond the tables": lambda c: c.register("a", CHAIN, 13),
    "register fewer than no tokens": lambda c: c.register("a", CHAIN, -1),
    "register without keys": lambda c: c.register("a", CHAIN[:5], 12),
    "drop for a stranger": lambda c: c.drop_outside("c"),
    "tables of a stranger": lambda c: c.tables("c"),
    "counts of a stranger": lambda c: c.counts("c"),
}


@pytest.mark.parametrize("step", REFUSED)
def test_an_illegal_step_changes_nothing(step):
    cache = scene()
    if step == "hit of one block at two places":
        cache = make(groups=[Group(2, "full")])
        cache.admit("w", 8)
        cache.allocate("w", 8)
        cache.register("w", CHAIN, 8)
        cache.admit("b", 8)
    before = cache.snapshot()
    with pytest.raises(RefusedError):
        REFUSED[step](cache)
    assert cache.snapshot() == before


def test_a_cache_that_makes_no_sense_is_refused():
    with pytest.raises(RefusedError, match="no null block"):
        make(null_block=False)
    with pytest.raises(ValueError, match="there is no group"):
        make(groups=[])
    with pytest.raises(ValueError, match="block of group 0, 3 tokens, is no multiple of the hash block of 2"):
        make(groups=[Group(3, "full")])
    with pytest.raises(ValueError, match="a hash block holds at least one token"):
        HybridCache(BlockPool(9), 0, GROUPS)


# Whole stories, against searching and against what is written where.


@dataclass(frozen=True)
class Setting:
    """A cache, and requests that share prefixes."""

    hash_block: int
    groups: tuple[Group, ...]
    num_blocks: int

    @property
    def prompts(self) -> list[tuple[int, ...]]:
        """Requests that agree on 0, 6, 9, 12 or all of their tokens."""
        one = tuple(range(18))
        return [one, one[:13], one[:12] + (99,) * 6, one[:9] + (98,) * 8, one[:6] + (97,) * 9, (96,) * 10]


SETTINGS = {
    "attention and mamba": Setting(1, (Group(2, "full"), Group(4, "mamba")), 22),
    "two sizes that do not divide": Setting(1, (Group(2, "full"), Group(3, "window", 5)), 20),
    "windows": Setting(2, (Group(2, "window", 4), Group(4, "window", 7), Group(2, "full")), 33),
    "states of two sizes": Setting(1, (Group(3, "mamba"), Group(2, "mamba"), Group(1, "window", 3)), 40),
    "states that come and go": Setting(2, (Group(2, "mamba"), Group(2, "window", 3), Group(2, "mamba")), 60),
    "one size": Setting(3, (Group(3, "full"), Group(3, "full"), Group(3, "mamba")), 26),
    "one group": Setting(2, (Group(2, "full"),), 12),
}

OFTEN = {"windows", "states of two sizes", "one group"}
TOLD = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in SETTINGS]
"""Windows, states and attention always; CI tells stories in all."""


class Story:
    """Random legal steps on a cache; what must hold is checked after each (``AssertionError``, or a refusal).

    ``content`` says for each block whose it is and up to where: the group, and all tokens up to the last one written.
    ``findable`` has those that were registered. Both are kept from the calls and answers alone.
    """

    def __init__(self, cache: HybridCache, setting: Setting, choose: random.Random) -> None:
        self.cache = cache
        self.setting = setting
        self.choose = choose
        self.tokens: dict[RequestId, tuple[int, ...]] = {}
        self.totals: dict[RequestId, int] = {}
        self.content: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.findable: set[int] = set()
        self.names = count()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if not self.tokens or self.choose.random() < 0.25:
                self.choose.choice([self.enter, self.forget])()
            else:
                step = self.choose.choice(
                    [self.grow, self.compute, self.compute, self.load, self.load_what_is_needed, self.drop, self.leave]
                )
                step(self.choose.choice(list(self.tokens)))
            self.check()

    # Steps.

    def enter(self) -> None:
        name, tokens = next(self.names), self.choose.choice(self.setting.prompts)
        if not self.cache.admit(name, len(tokens)):
            return
        chain = self.chain(tokens)
        limit = self.choose.choice([len(tokens) - 1, self.choose.randrange(len(tokens))])
        expected = self.longest(tokens, limit)
        assert self.cache.reach(chain, limit) == expected
        assert self.cache.hit(name, chain, limit) == expected <= len(tokens) - 1
        self.tokens[name], self.totals[name] = tokens, expected
        assert self.cache.counts(name) == (expected, 0)
        for group, table in zip(self.setting.groups, self.cache.tables(name), strict=True):
            assert [block != NULL_BLOCK for block in table] == [
                any(token in needed(group, expected) for token in range(j * group.block, (j + 1) * group.block))
                for j in range(expected // group.block)
            ]

    def forget(self) -> None:
        """Some free blocks lose their key, as if they had been handed out and come back."""
        free = sorted(block for block in self.findable if self.cache.pool.ref_cnt(block) == 0)
        for block in self.choose.sample(free, len(free) // 3):
            self.cache.pool.evict(block)
            self.findable.discard(block)

    def grow(self, name: RequestId) -> None:
        self.allocate(name, self.choose.randint(0, len(self.tokens[name])))

    def allocate(self, name: RequestId, wanted: int, loaded: int = 0) -> bool:
        before = self.cache.snapshot()
        tables = self.cache.tables(name)
        demand = sum(
            len([j for j in range(len(table), -(-wanted // group.block)) if self.is_filled(group, j, loaded)])
            for group, table in zip(self.setting.groups, tables, strict=True)
        )
        if not self.cache.allocate(name, wanted, **({"loaded": loaded} if loaded else {})):
            assert demand > before.pool.num_free
            assert self.cache.snapshot() == before
            return False
        assert demand <= before.pool.num_free
        grown = self.cache.tables(name)
        assert all(new[: len(old)] == old for old, new in zip(tables, grown, strict=True))
        behind = [block for old, new in zip(tables, grown, strict=True) for block in new[len(old) :]]
        fresh = [block for block in behind if block != NULL_BLOCK]
        assert fresh == list(before.pool.free[:demand])  # P7: in order, group by group.
        for block in fresh:
            self.content.pop(block, None)
            self.findable.discard(block)
        return True

    def is_filled(self, group: Group, position: int, loaded: int) -> bool:
        """A load up to there fills the block at a new position, or the block is behind it."""
        block = range(position * group.block, (position + 1) * group.block)
        return block.stop > loaded or any(token in needed(group, loaded) for token in block)

    def compute(self, name: RequestId, end: int | None = None) -> None:
        tokens, total = self.tokens[name], self.totals[name]
        end = self.choose.randint(self.choose.choice([total, 0]), self.room(name)) if end is None else end
        self.write(name, [end] * len(self.setting.groups))
        self.cache.register(name, self.chain(tokens), end)
        self.totals[name] = max(total, end)
        for group, table in zip(self.setting.groups, self.cache.tables(name), strict=True):
            self.findable.update(block for block in table[: end // group.block] if block != NULL_BLOCK)

    def load(self, name: RequestId) -> None:
        """Blocks arrive, of some groups more than of others; now and then what was there is found to be lost."""
        total, room = self.totals[name], self.room(name)
        least = self.choose.choice([total, total, 0])
        counts = [self.choose.randint(min(least, room), room) for _ in self.setting.groups]
        self.write(name, counts)
        self.settle(name, counts)

    def load_what_is_needed(self, name: RequestId) -> None:
        """Where the tables end, room is made for what a load brings; it comes, or a part of it does, or nothing."""
        total, most = self.totals[name], len(self.tokens[name])
        grain = lcm(*(group.block for group in self.setting.groups))
        is_at_the_end = all(
            len(table) * group.block == total
            for group, table in zip(self.setting.groups, self.cache.tables(name), strict=True)
        )
        loaded = self.choose.randint(total // grain, most // grain) * grain
        if not is_at_the_end or loaded <= total:
            return
        if not self.allocate(name, self.choose.choice([loaded, most]), loaded):
            return
        counts = [self.choose.choice([loaded, loaded, total, (total + loaded) // 2]) for _ in self.setting.groups]
        self.write(name, counts)
        self.settle(name, counts)

    def settle(self, name: RequestId, counts: list[int]) -> None:
        computed, _ = self.cache.counts(name)
        tables = self.cache.tables(name)
        length = self.cache.settle(name, counts)
        assert length == self.longest_common(tables, min(counts))
        assert self.cache.counts(name) == (min(computed, length), length - min(computed, length))
        for group, old, new in zip(self.setting.groups, tables, self.cache.tables(name), strict=True):
            first = min(needed(group, length), default=0) // group.block
            assert new == (NULL_BLOCK,) * first + old[first : length // group.block]
        self.totals[name] = length

    def drop(self, name: RequestId) -> None:
        before = self.cache.tables(name)
        dropped = self.cache.drop_outside(name)
        gone = []
        for group, old, new in zip(self.setting.groups, before, self.cache.tables(name), strict=True):
            first = min(needed(group, self.totals[name]), default=0) // group.block
            assert new == (NULL_BLOCK,) * first + old[first:]
            gone += [block for block in old[:first][::-1] if block != NULL_BLOCK]
        assert dropped == gone

    def leave(self, name: RequestId) -> None:
        self.choose.choice([self.cache.finish, self.cache.preempt])(name)
        del self.tokens[name], self.totals[name]

    # What must hold.

    def check(self) -> None:
        state = self.cache.snapshot()
        assert list(state.requests) == list(self.tokens)
        holders: Counter[int] = Counter()
        for name, request in state.requests.items():
            held = [block for table in request.tables for block in table if block != NULL_BLOCK]
            assert len(set(held)) == len(held), "H8: a block stands twice in the tables of one request"
            holders.update(held)
            assert request.computed + request.external == self.totals[name] <= self.room(name)
            self.check_content(name, request.tables)
        assert NULL_BLOCK not in state.pool.free
        assert list(state.pool.ref_cnt) == [holders[block] for block in range(self.setting.num_blocks)]
        free = {block for block in range(1, self.setting.num_blocks) if not holders[block]}
        assert set(state.pool.free) == free
        assert len(state.pool.free) == state.pool.num_free == len(free)
        assert set(state.pool.keys) == self.findable

    def check_content(self, name: RequestId, tables) -> None:
        """H4, P6: what a request needs to go on is there, and all that it has is its own prefix."""
        tokens, total = self.tokens[name], self.totals[name]
        for index, (group, table) in enumerate(zip(self.setting.groups, tables, strict=True)):
            wanted = {token // group.block for token in needed(group, total)}
            for position in range(-(-total // group.block)):
                block = table[position]
                end = min((position + 1) * group.block, total)
                assert block != NULL_BLOCK or position not in wanted
                assert block == NULL_BLOCK or self.content[block] == (index, tokens[:end])

    # Searching instead of calculating.

    def longest(self, tokens: tuple[int, ...], limit: int) -> int:
        """The longest hit: from the limit down, the first length of which every token needed can be found."""
        found = {self.content[block] for block in self.findable}
        return next(
            length
            for length in range(limit, -1, -1)
            if all(
                length % group.block == 0
                and all(
                    (index, tokens[: (token // group.block + 1) * group.block]) in found
                    for token in needed(group, length)
                )
                for index, group in enumerate(self.setting.groups)
            )
        )

    def longest_common(self, tables, limit: int) -> int:
        """The longest length at which the tables hold every token that is needed."""
        return next(
            length
            for length in range(limit, -1, -1)
            if all(
                length % group.block == 0
                and all(table[token // group.block] != NULL_BLOCK for token in needed(group, length))
                for group, table in zip(self.setting.groups, tables, strict=True)
            )
        )

    def write(self, name: RequestId, ends: list[int]) -> None:
        """Write KV behind what is there, up to an end for each group; nothing that others see is written over (P6)."""
        tokens, total = self.tokens[name], self.totals[name]
        for index, (group, table) in enumerate(zip(self.setting.groups, self.cache.tables(name), strict=True)):
            for position in range(total // group.block, -(-ends[index] // group.block)):
                end = min((position + 1) * group.block, ends[index])
                if end > total:
                    block = table[position]
                    if block == NULL_BLOCK:  # The load does not bring it.
                        continue
                    assert block not in self.findable
                    assert self.cache.pool.ref_cnt(block) == 1
                    self.content[block] = (index, tokens[:end])

    def chain(self, tokens: tuple[int, ...]) -> list[bytes]:
        return chain_keys(tokens, self.setting.hash_block)

    def room(self, name: RequestId) -> int:
        """The tokens that all tables cover, of those that the request has."""
        tables = zip(self.setting.groups, self.cache.tables(name), strict=True)
        return min(len(self.tokens[name]), *(len(table) * group.block for group, table in tables))


def needed(group: Group, length: int) -> range:
    """The tokens whose KV a group needs behind ``length`` tokens."""
    first = {"full": 0, "window": length - group.window + 1, "mamba": length - 1}[group.kind]
    return range(max(0, first), length)


def tell(name: str, cache_class: type[HybridCache], choose: random.Random, steps: int) -> None:
    """One story in a setting."""
    setting = SETTINGS[name]
    pool = BlockPool(setting.num_blocks, free_order="append" if choose.random() < 0.5 else "split")
    Story(cache_class(pool, setting.hash_block, setting.groups), setting, choose).run(steps)


def look_up(name: str, cache_class: type[HybridCache], choose: random.Random) -> None:
    """Every lookup, of every request, in a cache with gaps: it holds any part of the blocks of one request."""
    setting = SETTINGS[name]
    story = Story(cache_class(BlockPool(100), setting.hash_block, setting.groups), setting, choose)
    tokens = setting.prompts[0]
    story.cache.admit(0, len(tokens))
    story.cache.allocate(0, len(tokens))
    story.tokens, story.totals = {0: tokens}, {0: 0}
    story.compute(0, len(tokens))
    story.cache.finish(0)
    for block in choose.sample(sorted(story.findable), choose.randrange(len(story.findable))):
        story.cache.pool.evict(block)
        story.findable.discard(block)
    for prompt in setting.prompts:
        for limit in range(len(prompt)):
            assert story.cache.reach(story.chain(prompt), limit) == story.longest(prompt, limit)


@pytest.mark.parametrize("setting", TOLD)
@given(choose=st.randoms(use_true_random=False))
def test_h4_lookups_agree_with_search_whatever_is_cached(setting, choose):
    look_up(setting, HybridCache, choose)


@pytest.mark.parametrize("setting", TOLD)
@given(choose=st.randoms(use_true_random=False), steps=st.integers(1, 50))
def test_stories(setting, choose, steps):
    tell(setting, HybridCache, choose, steps)


@pytest.mark.parametrize("setting", SETTINGS)
def test_long_stories(setting):
    for seed in range(20):
        tell(setting, HybridCache, random.Random(seed), 150)


# Mistakes: each must be caught by a story.


class ExternalStays(HybridCache):
    """S16: the groups have nothing in common, the computed count is zeroed, and the external one is not."""

    def settle(self, request, computed_per_group):
        length = super().settle(request, computed_per_group)
        if length == 0:
            self._inside[request].external = max(computed_per_group)
        return length


class UntaggedKeys(HybridCache):
    """H8: groups of one size file under one key, and find each other's blocks."""

    def key(self, group, chain, position):
        return super().key(0, [*chain], (position + 1) * self.groups[group].block // self.groups[0].block - 1)


class OneBlockForAllGroups(HybridCache):
    """H8: the groups' new blocks are the same ones."""

    def allocate(self, request, tokens, *, loaded=0):
        tables = self._inside[request].tables
        done = super().allocate(request, tokens, loaded=loaded)
        if len(tables[0]) and len(tables) > 1 and tables[-1]:
            tables[-1][-1] = tables[0][-1]
        return done


class TouchTooLate(HybridCache):
    """P8: a block is allocated between finding and touching."""

    def reach(self, chain, limit_tokens):
        length = super().reach(chain, limit_tokens)
        self.late = [super(TouchTooLate, self)._found(index, chain, length) for index in range(len(self.groups))]
        self.pool.free(self.pool.allocate(1) or [])
        return length

    def _found(self, index, chain, length):
        return self.late[index]


class GroupByGroup(HybridCache):
    """All or nothing within a group only."""

    def allocate(self, request, tokens, *, loaded=0):
        for table, group in zip(self._inside[request].tables, self.groups, strict=True):
            blocks = self.pool.allocate(max(0, -(-tokens // group.block) - len(table)))
            if blocks is None:
                return False
            table += blocks
        return True


class PlainMinimum(HybridCache):
    """H4: after a load the minimum itself, whether or not it is a boundary of all."""

    def settle(self, request, computed_per_group):
        length = super().settle(request, computed_per_group)
        entry = self._inside[request]
        entry.external = max(0, min(computed_per_group) - entry.computed)
        return length


class GoesOnWithoutState(HybridCache):
    """H4: a boundary counts though a group gave up what it needs there."""

    def _goes_on_at(self, entry, length):
        return True


class KeepsWhatWasNotLoaded(HybridCache):
    """P6: a load makes room for all its tokens, and what it did not bring stays to be filed."""

    def allocate(self, request, tokens, *, loaded=0):
        return super().allocate(request, tokens)

    def _drop(self, table, positions):
        return super()._drop(table, () if isinstance(positions, type(reversed(range(0)))) else positions)


class OnePass(HybridCache):
    """H4: each group shortens the candidate once, and none is asked again."""

    def reach(self, chain, limit_tokens):
        candidate = self._asked(chain, limit_tokens) // self.boundary * self.boundary
        for index in range(len(self.groups)):
            candidate = self._served(index, chain, candidate)
        return candidate

    def _found(self, index, chain, length):
        group = self.groups[index]
        keys = [self.key(index, chain, position) for position in range(length // group.block)]
        first = group.first_needed(length) // group.block
        return [NULL_BLOCK if j < first else self.pool.lookup(key) or NULL_BLOCK for j, key in enumerate(keys)]


class NoBoundaryOfAll(HybridCache):
    """H4: hits end at boundaries of the first group."""

    def __init__(self, pool, hash_block, groups):
        super().__init__(pool, hash_block, groups)
        self.boundary = groups[0].block


class LastTokenToo(HybridCache):
    """P14: the limit is rounded up to a boundary."""

    def _asked(self, chain, limit_tokens):
        asked = super()._asked(chain, limit_tokens)
        return min(len(chain) * self.hash_block, -(-asked // self.boundary) * self.boundary)


class DropsWhatComesNext(HybridCache):
    """D7: the window is taken at the end of the tables, in front of which a step still reads."""

    def drop_outside(self, request):
        entry = self._inside[request]
        computed, entry.computed = entry.computed, self._room(entry) - entry.external
        dropped = super().drop_outside(request)
        entry.computed = computed
        return dropped


class FilesUnfilledBlocks(HybridCache):
    """H2, P6: a block that the tokens do not fill is filed."""

    def register(self, request, chain, tokens):
        entry = self._inside[request]
        external, computed = entry.external, max(entry.computed, tokens - entry.external)
        chain = [*chain, *(b"past %d" % index for index in range(8))]
        super().register(request, chain, min(self._room(entry), -(-tokens // self.boundary) * self.boundary))
        entry.external, entry.computed = external, computed


class ForgetsOneGroup(HybridCache):
    """P1: who leaves keeps the last group's blocks."""

    def finish(self, request):
        self._inside[request].tables.pop()
        super().finish(request)


MISTAKES = [
    ExternalStays,
    UntaggedKeys,
    OneBlockForAllGroups,
    TouchTooLate,
    GroupByGroup,
    PlainMinimum,
    GoesOnWithoutState,
    KeepsWhatWasNotLoaded,
    OnePass,
    NoBoundaryOfAll,
    LastTokenToo,
    DropsWhatComesNext,
    FilesUnfilledBlocks,
    ForgetsOneGroup,
]


def is_caught(mistake: type[HybridCache], setting: str, seed: int) -> bool:
    try:
        look_up(setting, mistake, random.Random(seed))
        tell(setting, mistake, random.Random(seed), 150)
    except (AssertionError, RefusedError):
        return True
    return False


def test_h8_a_block_in_two_groups_is_noticed():
    cache = make()
    cache.admit(0, 8)
    cache.allocate(0, 8)
    story = Story(cache, Setting(2, tuple(GROUPS), 40), random.Random(0))
    story.tokens, story.totals = {0: tuple(TOKENS[:8])}, {0: 0}
    story.check()
    tables = cache._inside[0].tables
    tables[2][1] = tables[0][3]
    with pytest.raises(AssertionError, match="H8"):
        story.check()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_caught(mistake):
    assert any(is_caught(mistake, setting, seed) for setting in SETTINGS for seed in range(20))
