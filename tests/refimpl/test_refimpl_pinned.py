"""Pin and demote, rule by rule (D1 to D3, D5, D6): the pool against a model of plain lists, the gates, the output."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.refimpl.attention import dense_attention, paged_attention
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import AllBlocksCleared, BlockRemoved
from kvproof.refimpl.payload import Payload
from kvproof.refimpl.pool.block_pool import NULL_BLOCK, BlockPool, PoolSnapshot
from kvproof.refimpl.pool.free_list import FreeList
from kvproof.refimpl.pool.manager import KVCacheManager
from kvproof.refimpl.pool.pinned_pool import PinnedPool
from kvproof.refimpl.pool.request_flow import RequestFlow


def cached(pool: BlockPool, *names: bytes) -> list[int]:
    """Allocate one block per name, register it under that name, and drop the events of it."""
    blocks = pool.allocate(len(names))
    assert blocks is not None
    for block, name in zip(blocks, names, strict=True):
        pool.register(block, name, None)
    pool.take_events()
    return blocks


def pinned(pool: PinnedPool, *names: bytes) -> list[int]:
    """Allocate, register, mark and free one block per name: they are pinned in that order."""
    blocks = cached(pool, *names)
    pool.mark(blocks)
    pool.free(blocks)
    return blocks


def queues(pool: PinnedPool) -> tuple[list[int], list[int]]:
    """The free and the pinned queue, each with a counter that agrees."""
    state = pool.snapshot()
    assert state.num_free == len(state.free) == pool.num_free
    assert state.num_pinned == len(state.pinned) == pool.num_pinned
    return list(state.free), list(state.pinned)


def base_part(state: PoolSnapshot) -> PoolSnapshot:
    """What a pool without pinning shows of itself."""
    return PoolSnapshot(state.free, state.num_free, state.ref_cnt, state.keys, state.copies)


# Two queues, one pair of links.


def test_queues_beside_each_other_share_links_and_nothing_else():
    free = FreeList(4, range(4))
    other = FreeList(4, beside=free)
    third = FreeList(4, beside=other)
    assert len({queue.head for queue in (free, other, third)} | {queue.tail for queue in (free, other, third)}) == 6
    free.remove_n([2, 0])
    other.append_n([0, 2])
    assert (list(free), list(other), list(third)) == ([1, 3], [0, 2], [])
    assert (len(free), len(other), len(third)) == (2, 2, 0)
    assert 2 in free
    with pytest.raises(RefusedError):
        third.append(2)
    with pytest.raises(RefusedError):
        other.append(free.head)
    with pytest.raises(RefusedError):
        FreeList(5, beside=free)
    assert (free.walk(), other.walk()) == ([1, 3], [0, 2])


# Marks (D1).


def test_d1_a_mark_is_no_holder_and_sends_a_freed_block_to_the_pinned_queue():
    pool = PinnedPool(6)
    cached(pool, b"a", b"b", b"c")
    pool.mark([3, 1, 3])
    assert pool.snapshot().ref_cnt == (0, 1, 1, 1, 0, 0)
    assert queues(pool) == ([4, 5], [])
    pool.free([3, 2, 1])
    assert queues(pool) == ([4, 5, 2], [3, 1])
    assert pool.snapshot().marked == (False, True, False, True, False, False)
    assert (pool.num_free, pool.num_pinned, pool.num_reclaimable, pool.usable) == (3, 2, 5, 5)


def test_d1_every_block_is_in_one_of_three_places():
    pool = PinnedPool(5)
    cached(pool, b"a", b"b")
    pool.mark([1, 2])
    pool.free([1])
    places = [(pool.is_free(block), pool.is_pinned(block), pool.is_unreferenced(block)) for block in range(-1, 7)]
    nowhere, pinned_, free = (False, False, False), (False, True, True), (True, False, True)
    assert places == [nowhere, nowhere, pinned_, nowhere, free, free, nowhere, nowhere]
    assert [pool.is_marked(block) for block in range(5)] == [False, True, True, False, False]


@pytest.mark.parametrize("blocks", [[NULL_BLOCK], [2], [3], [4], [1, 2], [-1], [9], [1, 9]], ids=str)
def test_d1_only_a_held_block_with_a_key_can_be_marked(blocks):
    """Block 1 is held and has a key; 2 is held and has none; 3 has one and is free; 4 is pinned."""
    pool = PinnedPool(6)
    cached(pool, b"a", b"b", b"c", b"d")
    pool.evict(2)
    pool.mark([4])
    pool.free([3, 4])
    before = pool.snapshot()
    with pytest.raises(RefusedError):
        pool.mark(blocks)
    assert pool.snapshot() == before


def test_d6_a_pool_that_does_not_pin_marks_nothing():
    pool = PinnedPool(3, pinning=False)
    cached(pool, b"a")
    before = pool.snapshot()
    for blocks in ([1], []):
        with pytest.raises(RefusedError):
            pool.mark(blocks)
    assert pool.snapshot() == before


@pytest.mark.parametrize("free_order", ["append", "split"])
def test_p9_a_marked_block_is_pinned_once_at_its_last_release(free_order):
    pool = PinnedPool(5, free_order=free_order)
    cached(pool, b"a", b"b")
    pool.touch([1])
    pool.mark([1, 2])
    pool.free([1, NULL_BLOCK])
    assert queues(pool) == ([3, 4], [])
    pool.touch([1])
    pool.free([1, 2, 1])
    assert queues(pool) == ([3, 4], [2, 1])


def test_p10_the_unmarked_blocks_of_a_call_go_where_the_dialect_says():
    orders = {}
    for free_order in ("append", "split"):
        pool = PinnedPool(8, free_order=free_order)
        cached(pool, b"a", b"b", b"c", b"d", b"e")
        pool.mark([2, 5])
        pool.evict(4)
        pool.free([5, 4, 3, 2, 1])
        orders[free_order] = queues(pool)
    assert orders == {"append": ([6, 7, 4, 3, 1], [5, 2]), "split": ([4, 6, 7, 3, 1], [5, 2])}


@pytest.mark.parametrize(
    "call",
    [
        lambda pool: pool.free([1, 1]),
        lambda pool: pool.free([1, 2]),
        lambda pool: pool.free([1, 9]),
        lambda pool: pool.touch([2, 9]),
        lambda pool: pool.touch([2, -1]),
        lambda pool: pool.allocate(-1),
        lambda pool: pool.demote(-1),
        lambda pool: pool.make_room(-1),
        lambda pool: pool.evict(NULL_BLOCK),
        lambda pool: pool.evict(9),
        lambda pool: pool.evict(-1),
    ],
)
def test_illegal_calls_change_nothing(call):
    """Block 1 is held and marked, 2 is pinned."""
    pool = PinnedPool(5)
    cached(pool, b"a", b"b")
    pool.mark([1, 2])
    pool.free([2])
    before = pool.snapshot()
    with pytest.raises(RefusedError):
        call(pool)
    assert pool.snapshot() == before
    assert pool.take_events() == []


# Touch (D3).


def test_d3_a_mark_survives_touch_and_free():
    """Fault of the first design: a hit and a release lost the pin."""
    pool = PinnedPool(6)
    pinned(pool, b"a", b"b", b"c")
    pool.touch([2, 2, 5, 1])
    assert queues(pool) == ([4], [3])
    assert pool.snapshot().ref_cnt == (0, 1, 2, 0, 0, 1)
    assert pool.is_marked(2)
    assert not pool.is_pinned(2)
    pool.free([2, 2, 5, 1])
    assert queues(pool) == ([5, 4], [3, 2, 1])


def test_d3_a_hit_takes_a_pinned_block_out_beside_the_first_of_all():
    """Without a null block, block 0 is one as any other."""
    pool = PinnedPool(4, null_block=False)
    assert pinned(pool, b"a", b"b") == [0, 1]
    pool.touch([0, 1])
    assert queues(pool) == ([2, 3], [])
    pool.free([1, 0])
    assert queues(pool) == ([2, 3], [1, 0])


def test_d3_a_hit_takes_a_pinned_block_out_of_the_middle():
    pool = PinnedPool(7)
    pinned(pool, b"a", b"b", b"c", b"d")
    assert pool.lookup(b"c") == 3
    pool.touch([3])
    assert queues(pool) == ([5, 6], [1, 2, 4])
    pool.free([3])
    assert queues(pool) == ([5, 6], [1, 2, 4, 3])


@pytest.mark.parametrize("where", ["held", "pinned"])
def test_d3_evict_clears_the_mark_and_frees_a_pinned_block_to_the_head(where):
    pool = PinnedPool(5)
    cached(pool, b"a", b"b")
    pool.mark([1, 2])
    pool.free([2] if where == "held" else [1, 2])
    pool.evict(1)
    assert not pool.is_marked(1)
    assert pool.lookup(b"a") is None
    assert queues(pool) == (([3, 4], [2]) if where == "held" else ([1, 3, 4], [2]))
    assert pool.take_events() == [BlockRemoved(b"a")]
    if where == "held":
        pool.free([1])
        assert queues(pool) == ([1, 3, 4], [2])


def test_d3_evict_leaves_a_free_block_where_it_is():
    pool = PinnedPool(5)
    pinned(pool, b"a")
    cached(pool, b"b")
    pool.free([2])
    assert queues(pool) == ([3, 4, 2], [1])
    pool.evict(2)
    assert queues(pool) == ([3, 4, 2], [1])


def test_d3_and_d5_reset_counts_pinned_as_free_and_puts_them_first():
    pool = PinnedPool(6)
    pinned(pool, b"a", b"b")
    blocks = cached(pool, b"c")
    pool.mark(blocks)
    before = pool.snapshot()
    assert not pool.reset()
    assert pool.snapshot() == before
    assert pool.take_events() == []
    pool.touch([1])
    pool.free([1, *blocks])
    assert queues(pool) == ([4, 5], [2, 1, 3])
    assert pool.reset()
    assert queues(pool) == ([2, 1, 3, 4, 5], [])
    after = pool.snapshot()
    assert not any(after.marked)
    assert (after.keys, after.copies) == ({}, {})
    assert pool.take_events() == [AllBlocksCleared()]


# Demotion and room (D2, D5).


def test_d2_demote_moves_the_oldest_to_the_tail_of_the_free_queue_in_order():
    pool = PinnedPool(7)
    pinned(pool, b"a", b"b", b"c", b"d")
    assert pool.demote(0) == 0
    assert pool.demote(2) == 2
    assert queues(pool) == ([5, 6, 1, 2], [3, 4])
    assert pool.snapshot().marked == (False, False, False, True, True, False, False)
    assert pool.demote(5) == 2
    assert queues(pool) == ([5, 6, 1, 2, 3, 4], [])
    assert pool.demote(5) == 0


def test_d2_a_demoted_block_is_hit_until_it_is_reused():
    pool = PinnedPool(4)
    pinned(pool, b"a", b"b")
    pool.demote(2)
    assert pool.lookup(b"a") == 1
    pool.touch([1])
    assert not pool.is_marked(1)
    pool.free([1])
    assert queues(pool) == ([3, 2, 1], [])
    assert pool.allocate(2) == [3, 2]
    assert pool.lookup(b"a") == 1
    assert pool.lookup(b"b") is None


def test_d2_and_d5_allocation_demotes_exactly_the_shortfall():
    pool = PinnedPool(7)
    pinned(pool, b"a", b"b", b"c", b"d")
    assert pool.allocate(2) == [5, 6]
    assert queues(pool) == ([], [1, 2, 3, 4])
    pool.free([6])
    assert pool.allocate(3) == [6, 1, 2]
    assert queues(pool) == ([], [3, 4])
    assert pool.snapshot().marked == (False, False, False, True, True, False, False)
    assert pool.lookup(b"a") is pool.lookup(b"b") is None
    assert pool.lookup(b"c") == 3
    assert pool.take_events() == [BlockRemoved(b"a"), BlockRemoved(b"b")]
    # A block that is handed out has neither keys nor a mark, so it is not pinned when it comes back.
    pool.free([1])
    assert queues(pool) == ([1], [3, 4])


def test_p7_and_d5_an_allocation_that_does_not_fit_changes_nothing():
    pool = PinnedPool(6)
    pinned(pool, b"a", b"b")
    cached(pool, b"c")
    before = pool.snapshot()
    assert pool.allocate(5) is None
    assert pool.snapshot() == before
    assert pool.take_events() == []
    assert pool.allocate(4) == [4, 5, 1, 2]


@pytest.mark.parametrize(
    ("n", "room", "expected"),
    [
        (0, True, ([4, 5], [1, 2, 3])),
        (2, True, ([4, 5], [1, 2, 3])),
        (3, True, ([4, 5, 1], [2, 3])),
        (5, True, ([4, 5, 1, 2, 3], [])),
        (6, False, ([4, 5], [1, 2, 3])),
    ],
)
def test_d5_the_gate_demotes_exactly_the_shortfall_or_nothing(n, room, expected):
    pool = PinnedPool(6)
    pinned(pool, b"a", b"b", b"c")
    assert pool.make_room(n) == room
    assert queues(pool) == expected


def test_a_pool_without_pinning_answers_the_same_questions():
    pool = BlockPool(5)
    pool.allocate(1)
    assert pool.num_reclaimable == pool.num_free == 3
    assert [pool.is_unreferenced(block) for block in range(5)] == [False, False, True, True, True]
    assert [pool.make_room(n) for n in (0, 3, 4)] == [True, True, False]
    with pytest.raises(RefusedError):
        pool.make_room(-1)


# Against a model of plain lists, and against the base (D6).

BLOCKS = 7
NAMES = st.sampled_from([b"a", b"b", b"c", b"d"])
SOME = st.lists(st.integers(-1, BLOCKS), max_size=5)
BASE_CALLS = st.one_of(
    st.tuples(st.just("allocate"), st.integers(-1, BLOCKS)),
    st.tuples(st.sampled_from(["touch", "free"]), SOME),
    st.tuples(st.just("register"), st.integers(-1, BLOCKS), NAMES),
    st.tuples(st.just("evict"), st.integers(-1, BLOCKS)),
    st.tuples(st.just("make_room"), st.integers(-1, BLOCKS)),
    st.tuples(st.just("reset")),
    st.tuples(st.just("free_held"), st.integers(0, 5), st.integers(0, 5)),
)
PIN_CALLS = st.one_of(
    BASE_CALLS,
    st.tuples(st.just("mark"), SOME),
    st.tuples(st.just("demote"), st.integers(-1, BLOCKS)),
    st.tuples(st.just("mark_held"), st.integers(0, 5), st.integers(0, 5)),
)


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or that it was refused."""
    try:
        return call()
    except RefusedError:
        return "refused"


def perform(pool: object, call: tuple[Any, ...], held: list[int]) -> object:
    """Make a drawn call; the calls on held blocks name some that are held, so that most of them are legal."""
    name, *arguments = call
    if name.endswith("_held"):
        start, count = arguments
        name, arguments = name.removesuffix("_held"), [(held[start:] + held[:start])[:count]]
    if name == "register":
        arguments.append(None)
    return outcome(lambda: getattr(pool, name)(*arguments))


@dataclass
class ListModel:
    """Machine D as lists and dictionaries, with none of the pool's code: every method says what it means, slowly."""

    split: bool
    free_queue: list[int] = field(default_factory=lambda: list(range(1, BLOCKS)))
    pinned_queue: list[int] = field(default_factory=list)
    holders: list[int] = field(default_factory=lambda: [0] * BLOCKS)
    marks: set[int] = field(default_factory=set)
    keys: list[tuple[int, bytes]] = field(default_factory=list)

    def has_key(self, block: int) -> bool:
        return any(block == other for other, _ in self.keys)

    def forget(self, block: int) -> None:
        self.keys = [(other, key) for other, key in self.keys if other != block]

    def require(self, condition: bool) -> None:
        if not condition:
            raise RefusedError("the model refuses")

    def allocate(self, n: int) -> list[int] | None:
        self.require(n >= 0)
        if n > len(self.free_queue) + len(self.pinned_queue):
            return None
        while len(self.free_queue) < n:
            self.demote(1)
        blocks = [self.free_queue.pop(0) for _ in range(n)]
        for block in blocks:
            self.forget(block)
            self.holders[block] = 1
        return blocks

    def touch(self, blocks: list[int]) -> None:
        self.require(all(0 <= block < BLOCKS for block in blocks))
        for block in blocks:
            if block != NULL_BLOCK:
                self.holders[block] += 1
                for queue in (self.free_queue, self.pinned_queue):
                    if block in queue:
                        queue.remove(block)

    def free(self, blocks: list[int]) -> None:
        usable = [block for block in blocks if block != NULL_BLOCK]
        self.require(all(0 < block < BLOCKS and usable.count(block) <= self.holders[block] for block in usable))
        first: list[int] = []
        for block in usable:
            self.holders[block] -= 1
            if self.holders[block] == 0:
                if block in self.marks:
                    self.pinned_queue.append(block)
                elif self.split and not self.has_key(block):
                    first.append(block)
                else:
                    self.free_queue.append(block)
        self.free_queue = first + self.free_queue

    def register(self, block: int, key: bytes, parent: None) -> None:
        self.require(0 <= block < BLOCKS and self.holders[block] > 0 and (block, key) not in self.keys)
        self.keys.append((block, key))

    def mark(self, blocks: list[int]) -> None:
        self.require(all(0 <= block < BLOCKS and self.holders[block] > 0 and self.has_key(block) for block in blocks))
        self.marks |= set(blocks)

    def demote(self, n: int) -> int:
        self.require(n >= 0)
        moved = self.pinned_queue[:n]
        self.pinned_queue = self.pinned_queue[n:]
        self.free_queue += moved
        self.marks -= set(moved)
        return len(moved)

    def make_room(self, n: int) -> bool:
        self.require(n >= 0)
        if n > len(self.free_queue) + len(self.pinned_queue):
            return False
        self.demote(max(0, n - len(self.free_queue)))
        return True

    def evict(self, block: int) -> None:
        self.require(0 < block < BLOCKS)
        self.forget(block)
        self.marks -= {block}
        if block in self.pinned_queue:
            self.pinned_queue.remove(block)
            self.free_queue.insert(0, block)

    def reset(self) -> bool:
        if any(self.holders):
            return False
        self.free_queue, self.pinned_queue = self.pinned_queue + self.free_queue, []
        self.marks, self.keys = set(), []
        return True

    def check(self, pool: PinnedPool) -> None:
        """The pool's state is this one, and it is one that D1 allows."""
        state = pool.snapshot()
        assert queues(pool) == (self.free_queue, self.pinned_queue)
        assert list(state.ref_cnt) == self.holders
        assert {block for block in range(BLOCKS) if state.marked[block]} == self.marks
        copies: dict[bytes, tuple[int, ...]] = {}
        for block, key in self.keys:
            copies[key] = (*copies.get(key, ()), block)
        assert state.copies == copies
        assert {block for block, _ in self.keys} == set(state.keys)
        for block in range(1, BLOCKS):
            places = (self.holders[block] > 0) + self.free_queue.count(block) + self.pinned_queue.count(block)
            assert places == 1
            assert pool.is_pinned(block) == (block in self.marks and self.holders[block] == 0)
            assert pool.is_free(block) == (block in self.free_queue)
            assert pool.is_unreferenced(block) == (self.holders[block] == 0)
        assert self.marks <= set(state.keys)


@given(st.sampled_from(["append", "split"]), st.lists(PIN_CALLS, max_size=40))
@settings(max_examples=300)
def test_the_pool_is_the_model_step_by_step(free_order, calls):
    pool = PinnedPool(BLOCKS, free_order=free_order, events=False)
    model = ListModel(split=free_order == "split")
    for call in calls:
        held = [block for block in range(BLOCKS) for _ in range(model.holders[block])]
        before = pool.snapshot()
        expected = perform(model, call, held)
        assert perform(pool, call, held) == expected
        if expected == "refused" or (call[0] == "allocate" and expected is None):
            assert pool.snapshot() == before
        model.check(pool)


@given(
    st.sampled_from(["append", "split"]),
    st.booleans(),
    st.booleans(),
    st.lists(BASE_CALLS, max_size=40),
)
@settings(max_examples=200)
def test_d6_without_pinning_the_pool_is_the_base_step_by_step(free_order, caching, null_block, calls):
    options = {"free_order": free_order, "caching": caching, "null_block": null_block}
    base, pool = BlockPool(BLOCKS, **options), PinnedPool(BLOCKS, **options, pinning=False)
    for call in calls:
        held = [block for block in range(BLOCKS) for _ in range(base.ref_cnt(block))]
        assert perform(pool, call, held) == perform(base, call, held)
        state = pool.snapshot()
        assert base_part(state) == base.snapshot()
        assert (state.pinned, state.num_pinned, any(state.marked)) == ((), 0, False)
        assert pool.take_events() == base.take_events()
        assert pool.num_reclaimable == pool.num_free
        assert pool.demote(3) == 0


# Whole requests through the gates (D5, P8, P15).


def flow_over(pool: BlockPool) -> RequestFlow:
    payload = Payload(pool.num_blocks, 4, layers=2, heads=2, head_dim=8)
    return RequestFlow(KVCacheManager(pool, block_tokens=4, payload=payload))


def serve(flow: RequestFlow, name: str, tokens, pin: bool = False, max_new_tokens: int = 0) -> int:
    """Serve a request to its end; with ``pin``, its full blocks are marked before it leaves."""
    assert flow.add_request(name, tokens, max_new_tokens=max_new_tokens)
    hit = flow.schedule(name)
    assert hit is not None
    flow.compute(name)
    if pin:
        pool = flow.manager.pool
        assert isinstance(pool, PinnedPool)
        pool.mark([block for block in flow.manager.table(name) if pool.has_keys(block)])
    flow.finish(name)
    return hit


def gate_scene() -> tuple[RequestFlow, PinnedPool]:
    """Ten blocks: 4 pinned ones (the prompt 0 to 15), 2 held, 4 free."""
    pool = PinnedPool(11)
    flow = flow_over(pool)
    serve(flow, "old", range(16), pin=True)
    flow.add_request("long", range(100, 108))
    flow.schedule("long")
    assert (pool.num_free, pool.num_pinned) == (4, 4)
    assert queues(pool)[1] == [4, 3, 2, 1]
    return flow, pool


@pytest.mark.parametrize(
    ("name", "tokens", "new", "options", "expected"),
    [
        # Nothing is found: the demand is the fresh blocks.
        ("fits the free ones", range(200, 216), 0, {}, 4),
        ("one too few", range(200, 220), 0, {}, 3),
        ("all of them", range(200, 232), 0, {}, 0),
        ("one too many", range(200, 236), 0, {}, None),
        # The whole sequence, of which the prompt alone would fit the free blocks.
        ("whole sequence", range(200, 208), 16, {"full_sequence": True}, 2),
        ("whole sequence, not asked for", range(200, 208), 16, {}, 4),
        ("whole sequence, one too many", range(200, 208), 28, {"full_sequence": True}, None),
        # A budget: only the first chunk is asked for.
        ("budget", range(200, 236), 0, {"budget_tokens": 20}, 3),
        ("budget, partial block", range(200, 236), 0, {"budget_tokens": 17}, 3),
        ("budget beyond the prompt", range(200, 216), 0, {"budget_tokens": 99}, 4),
        ("budget, too large", range(200, 236), 0, {"budget_tokens": 33}, None),
        ("both gates", range(200, 236), 0, {"budget_tokens": 4, "full_sequence": True}, None),
    ],
)
def test_d5_a_gate_demotes_exactly_the_shortfall_or_refuses_and_changes_nothing(name, tokens, new, options, expected):
    flow, pool = gate_scene()
    assert flow.add_request(name, tokens, max_new_tokens=new)
    before = flow.manager.snapshot()
    content = flow.manager.payload.data.clone()  # type: ignore[union-attr]
    pool.take_events()
    hit = flow.schedule(name, **options)
    if expected is None:
        assert hit is None
        assert flow.manager.snapshot() == before
        assert pool.take_events() == []
        assert flow.manager.payload.data.equal(content)  # type: ignore[union-attr]
    else:
        assert hit == 0
        assert pool.num_pinned == expected
        assert queues(pool)[1] == [4, 3, 2, 1][4 - expected :]


def test_d5_the_gate_of_the_whole_sequence_leaves_what_it_demoted_free_and_hittable():
    flow, pool = gate_scene()
    flow.add_request("new", range(200, 208), max_new_tokens=16)
    assert flow.schedule("new", full_sequence=True) == 0
    assert queues(pool)[0][-2:] == [4, 3]
    assert pool.num_free == 4
    flow.finish("new")
    assert serve(flow, "again", range(17)) == 16


@pytest.mark.parametrize(("extra_blocks", "admitted"), [(4, True), (5, False)])
def test_p8_pinned_blocks_that_were_found_are_touched_before_anything_is_demoted(extra_blocks, admitted):
    """The found blocks are the only pinned ones: they are part of the demand, and no room can be made of them."""
    flow, pool = gate_scene()
    tokens = [*range(16), *range(300, 300 + 4 * extra_blocks)]
    flow.add_request("again", tokens)
    before = flow.manager.snapshot()
    if admitted:
        assert flow.schedule("again") == 16
        assert flow.manager.table("again")[:4] == (1, 2, 3, 4)
        assert (pool.num_free, pool.num_pinned) == (0, 0)
        assert all(pool.is_marked(block) for block in (1, 2, 3, 4))
        flow.finish("again")
        assert queues(pool)[1] == [4, 3, 2, 1]
    else:
        assert flow.schedule("again") is None
        assert flow.manager.snapshot() == before


def test_p8_found_blocks_are_older_than_what_is_demoted_and_stay_marked():
    """Of the found blocks three are the oldest pinned and one is free. Touching them first demotes the others."""
    pool = PinnedPool(11)
    flow = flow_over(pool)
    serve(flow, "old", range(16), pin=True)
    serve(flow, "newer", range(100, 116), pin=True)
    pool.demote(1)
    assert queues(pool) == ([9, 10, 4], [3, 2, 1, 8, 7, 6, 5])
    flow.add_request("again", [*range(16), *range(300, 316)])
    assert flow.schedule("again") == 16
    assert flow.manager.table("again") == (1, 2, 3, 4, 9, 10, 8, 7)
    assert queues(pool) == ([], [6, 5])
    assert [pool.is_marked(block) for block in (1, 2, 3, 4, 7, 8)] == [True, True, True, False, False, False]


def test_d5_what_was_found_is_no_part_of_the_shortfall():
    pool = PinnedPool(21)
    flow = flow_over(pool)
    for name, first in zip("abcd", (0, 100, 200, 300), strict=True):
        serve(flow, name, range(first, first + 16), pin=True)
    assert (pool.num_free, pool.num_pinned) == (4, 16)
    flow.add_request("again", [*range(16), *range(400, 424)])
    assert flow.schedule("again") == 16
    assert (pool.num_free, pool.num_pinned) == (0, 10)


def test_a_budget_counts_the_tokens_behind_the_hit():
    flow, pool = gate_scene()
    flow.add_request("again", [*range(16), *range(300, 320)])
    assert flow.schedule("again", budget_tokens=6) == 16
    assert flow.manager.num_positions("again") == 6
    assert pool.num_free == 2
    assert flow.compute("again", 6) == 6
    assert flow.mismatches("again") == []


def test_d5_growth_demotes_too():
    pool = PinnedPool(4)
    flow = flow_over(pool)
    serve(flow, "old", range(8), pin=True)
    flow.add_request("new", range(100, 104), max_new_tokens=8)
    flow.schedule("new")
    assert queues(pool) == ([], [2, 1])
    assert flow.append("new", 104)
    assert queues(pool) == ([], [1])
    flow.compute("new")
    assert flow.mismatches("new") == []


def test_a_prompt_is_served_in_steps_of_a_budget():
    pool = PinnedPool(6)
    flow = flow_over(pool)
    serve(flow, "old", range(8), pin=True)
    flow.add_request("new", range(100, 118), max_new_tokens=1)
    assert flow.schedule("new", budget_tokens=5) == 0
    assert flow.manager.num_positions("new") == 2
    assert flow.compute("new", 5) == 5
    assert flow.compute("new", 99) == 3
    assert flow.compute("new") == 0
    with pytest.raises(RefusedError):
        flow.append("new", 118)
    assert flow.extend("new", 4)
    assert flow.extend("new", 4)
    assert (pool.num_free, pool.num_pinned) == (0, 2)
    assert flow.compute("new", 3) == 3
    assert flow.extend("new", 1)
    assert flow.manager.num_positions("new") == 3
    assert flow.extend("new", 99)
    assert (pool.num_free, pool.num_pinned) == (0, 0)
    assert flow.compute("new") == 7
    assert flow.extend("new", 1)
    assert flow.append("new", 118)
    assert flow.compute("new") == 1
    assert flow.mismatches("new") == []
    assert flow.keys("new") == tuple(flow.manager.pool.keys_of(block)[0] for block in flow.manager.table("new")[:4])


def test_a_step_that_finds_no_room_changes_nothing():
    pool = PinnedPool(5)
    flow = flow_over(pool)
    serve(flow, "old", range(4), pin=True)
    flow.add_request("new", range(100, 116))
    flow.add_request("other", [1])
    flow.schedule("new", budget_tokens=4)
    flow.schedule("other")
    flow.compute("new")
    before = flow.manager.snapshot()
    assert not flow.extend("new", 12)
    assert flow.manager.snapshot() == before
    assert flow.extend("new", 8)
    for call in (
        lambda: flow.extend("new", 0),
        lambda: flow.extend("nobody", 1),
        lambda: flow.schedule("other", budget_tokens=1),
    ):
        with pytest.raises(RefusedError):
            call()
    flow.preempt("other")
    for budget in (0, -1):
        with pytest.raises(RefusedError):
            flow.schedule("other", budget_tokens=budget)


def test_the_same_block_found_twice_is_demanded_once():
    """Ready keys may repeat; one block stands at both positions and leaves its queue once."""
    pool = BlockPool(4)
    flow = RequestFlow(KVCacheManager(pool, block_tokens=4))
    flow.add_hashed_request("a", 4, [b"k"])
    flow.schedule("a")
    flow.compute("a")
    flow.finish("a")
    flow.add_request("b", [1])
    flow.schedule("b")
    assert pool.num_free == 2
    flow.add_hashed_request("c", 9, [b"k", b"k"])
    assert flow.schedule("c") == 8
    assert flow.manager.table("c")[:2] == (1, 1)
    assert flow.manager.num_positions("c") == 3
    assert pool.num_free == 0


def outputs(flow: RequestFlow, name: str, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The attention output of all tokens of a request: through its table, and from its tokens alone."""
    payload = flow.manager.payload
    assert payload is not None
    expected = payload.expected(flow.digests(name))[:, layer]
    queries = expected[:, 0].flip(-1)
    paged = paged_attention(queries, payload.data, layer, flow.manager.table(name), flow.num_tokens(name))
    return paged, dense_attention(queries, expected[:, 0], expected[:, 1])


def test_attention_is_the_same_with_and_without_pinning_and_pinning_hits_more():
    """A prefix is served, others wash it out of the free queue, and it is asked for again."""
    pools = {"base": BlockPool(9), "off": PinnedPool(9, pinning=False), "on": PinnedPool(9)}
    hits: dict[str, int] = {}
    results: dict[str, list[torch.Tensor]] = {}
    for name, pool in pools.items():
        flow = flow_over(pool)
        serve(flow, "first", range(14), pin=name == "on")
        for number in range(3):
            serve(flow, f"other {number}", range(100 + 20 * number, 117 + 20 * number))
        flow.add_request("again", range(14))
        hit = flow.schedule("again")
        assert hit is not None
        flow.compute("again")
        assert flow.mismatches("again") == []
        hits[name] = hit
        results[name] = []
        for layer in range(2):
            paged, dense = outputs(flow, "again", layer)
            assert torch.equal(paged, dense)
            results[name].append(paged)
    assert hits == {"base": 0, "off": 0, "on": 12}
    for name in ("off", "on"):
        assert all(map(torch.equal, results[name], results["base"]))
