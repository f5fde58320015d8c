"""Sliding windows: what a drop frees and pins (D4), when it may happen (D7), and what is read afterwards (P6)."""

import random

import pytest
import torch

from kvproof.refimpl.attention import dense_attention, paged_attention
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.hybrid.window import WindowFlow
from kvproof.refimpl.payload import Payload
from kvproof.refimpl.pool.block_pool import NULL_BLOCK, BlockPool
from kvproof.refimpl.pool.blocks import blocks_behind_window
from kvproof.refimpl.pool.manager import KVCacheManager
from kvproof.refimpl.pool.pinned_pool import PinnedPool

BLOCK_TOKENS = 4


def scene(num_keys: int = 6, pool: BlockPool | None = None) -> KVCacheManager:
    """Request 'a' with table [1 .. 8]; the first ``num_keys`` blocks carry a key; 3 blocks are free."""
    manager = KVCacheManager(pool or PinnedPool(12), block_tokens=BLOCK_TOKENS)
    manager.admit("a", 9)
    manager.allocate("a", 8)
    for position in range(num_keys):
        manager.register("a", position, b"%d" % position, None, BLOCK_TOKENS)
    return manager


def pinned_pool(manager: KVCacheManager) -> PinnedPool:
    assert isinstance(manager.pool, PinnedPool)
    return manager.pool


def queues(manager: KVCacheManager) -> tuple[list[int], list[int]]:
    """The free and the pinned queue."""
    state = pinned_pool(manager).snapshot()
    return list(state.free), list(state.pinned)


# The arithmetic of windows (D7).


@pytest.mark.parametrize("block_tokens", range(1, 6))
@pytest.mark.parametrize("window_tokens", range(1, 12))
def test_d7_what_is_behind_the_window_agrees_with_listing_what_queries_read(window_tokens, block_tokens):
    for num_computed in range(40):
        later = range(num_computed, num_computed + 3)
        read = {token // block_tokens for p in later for token in range(max(0, p - window_tokens + 1), p + 1)}
        assert blocks_behind_window(num_computed, window_tokens, block_tokens) == min(read)


@pytest.mark.parametrize("arguments", [(-1, 4, 4), (4, 0, 4), (4, -1, 4), (4, 4, 0)])
def test_a_window_that_means_nothing_is_refused(arguments):
    with pytest.raises(ValueError, match=r"must not be negative|at least"):
        blocks_behind_window(*arguments)


# Drops, one by one (D4).


def test_p10_a_drop_frees_last_position_first_and_leaves_the_null_block():
    manager = scene(pool=PinnedPool(12, free_order="append"))
    assert manager.drop("a", 3, window_blocks=2, min_drop=4) == [3, 2, 1]
    assert manager.table("a") == (NULL_BLOCK,) * 3 + (4, 5, 6, 7, 8)
    assert queues(manager) == ([9, 10, 11, 3, 2, 1], [])


def test_a_drop_ends_at_what_was_dropped_before():
    manager = scene()
    manager.drop("a", 2)
    assert manager.drop("a", 2) == manager.drop("a", 1) == manager.drop("a", 0) == []
    assert manager.drop("a", 5) == [5, 4, 3]
    assert manager.drop("a", 8) == [8, 7, 6]
    assert manager.table("a") == (NULL_BLOCK,) * 8
    assert manager.pool.num_free == 11
    manager.allocate("a", 1)
    manager.finish("a")
    assert manager.pool.num_free == 11


def test_a_drop_ends_at_a_position_that_was_skipped():
    """What lies before a null block in the table was dropped, or was never there for this window."""
    manager = KVCacheManager(PinnedPool(12), block_tokens=BLOCK_TOKENS)
    manager.admit("a", 5)
    manager.allocate("a", 2)
    manager.skip("a")
    manager.allocate("a", 2)
    assert manager.drop("a", 3) == []
    assert manager.drop("a", 5) == [4, 3]
    assert manager.table("a") == (1, 2, NULL_BLOCK, NULL_BLOCK, NULL_BLOCK)


@pytest.mark.parametrize(
    ("before", "min_drop", "pinned"),
    [(4, 5, []), (5, 5, [5, 4]), (6, 5, [6, 5]), (1, 1, [1]), (1, 0, [1]), (0, 0, []), (6, 7, [])],
    ids=lambda value: str(value),
)
def test_d4_a_drop_pins_one_window_from_min_drop_blocks_on(before, min_drop, pinned):
    manager = scene()
    dropped = manager.drop("a", before, window_blocks=2, min_drop=min_drop)
    assert len(dropped) == before
    free, pinned_now = queues(manager)
    assert pinned_now == pinned
    # All of them carry a key, so those that are not pinned go to the tail, last position first.
    assert free == [9, 10, 11, *(block for block in dropped if block not in pinned)]
    assert all(manager.pool.ref_cnt(block) == 0 for block in dropped)


@pytest.mark.parametrize("size", [15, 16, 17])
def test_d4_by_default_a_drop_of_sixteen_pins(size):
    manager = KVCacheManager(PinnedPool(20), block_tokens=BLOCK_TOKENS)
    manager.admit("a", 17)
    manager.allocate("a", 17)
    for position in range(17):
        manager.register("a", position, b"%d" % position, None, BLOCK_TOKENS)
    manager.drop("a", size, window_blocks=3)
    assert queues(manager)[1] == ([] if size < 16 else [size, size - 1, size - 2])


def test_d4_only_blocks_with_a_key_count_and_are_pinned():
    """Blocks 6 to 8 carry no key; the newest two that carry one are 5 and 3, since 4 was evicted."""
    manager = scene(num_keys=5)
    manager.evict(4)
    assert manager.drop("a", 8, window_blocks=2, min_drop=4) == [8, 7, 6, 5, 4, 3, 2, 1]
    assert queues(manager) == ([8, 7, 6, 4, 9, 10, 11, 2, 1], [5, 3])


def test_d4_only_blocks_dropped_now_count_for_min_drop():
    manager = scene()
    manager.drop("a", 3, window_blocks=2, min_drop=4)
    manager.drop("a", 6, window_blocks=2, min_drop=4)
    assert queues(manager)[1] == []


@pytest.mark.parametrize("min_drop", [2, 9])
def test_d4_a_drop_takes_no_mark_away(min_drop):
    manager = scene()
    pinned_pool(manager).mark([1])
    manager.drop("a", 4, window_blocks=1, min_drop=min_drop)
    assert queues(manager)[1] == ([1] if min_drop == 9 else [4, 1])


def test_d4_a_dropped_block_that_others_hold_is_marked_and_pinned_when_they_leave():
    manager = scene()
    manager.admit("b", 2)
    assert manager.hit("b", [b"0", b"1"], 2) == 2
    manager.drop("a", 2, window_blocks=1, min_drop=2)
    pool = pinned_pool(manager)
    assert queues(manager) == ([9, 10, 11], [])
    assert (pool.ref_cnt(2), pool.is_marked(2), pool.is_marked(1)) == (1, True, False)
    manager.finish("b")
    assert queues(manager) == ([9, 10, 11, 1], [2])


@pytest.mark.parametrize("make", [lambda: BlockPool(12), lambda: PinnedPool(12, pinning=False)])
def test_d6_without_pinning_a_drop_pins_nothing(make):
    manager = scene(pool=make())
    assert manager.drop("a", 5, window_blocks=2, min_drop=1) == [5, 4, 3, 2, 1]
    assert manager.snapshot().pool.free == (9, 10, 11, 5, 4, 3, 2, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.drop("nobody", 0),
        lambda manager: manager.drop("a", 9),
        lambda manager: manager.drop("a", -1),
        lambda manager: manager.drop("a", 2, window_blocks=-1),
        lambda manager: manager.drop("a", 2, min_drop=-1),
    ],
)
def test_a_drop_that_means_nothing_is_refused_and_changes_nothing(call):
    manager = scene()
    before = manager.snapshot()
    with pytest.raises(RefusedError):
        call(manager)
    assert manager.snapshot() == before


def test_p4_a_pool_without_null_block_cannot_drop():
    manager = scene(pool=PinnedPool(12, null_block=False))
    before = manager.snapshot()
    with pytest.raises(RefusedError):
        manager.drop("a", 2)
    assert manager.snapshot() == before
    with pytest.raises(RefusedError):
        WindowFlow(manager, window_tokens=4)


# Whole requests (D7, P6).


def make(pool: BlockPool, window_tokens: int, min_drop: int = 2) -> WindowFlow:
    payload = Payload(pool.num_blocks, BLOCK_TOKENS, layers=2, heads=2, head_dim=8)
    manager = KVCacheManager(pool, block_tokens=BLOCK_TOKENS, payload=payload)
    return WindowFlow(manager, window_tokens=window_tokens, min_drop=min_drop)


def wrong_in_window(flow: WindowFlow, name: object) -> list[int]:
    """The tokens that the next query reads and that are wrong: token by token, by no arithmetic of the flow."""
    payload, digests = flow.manager.payload, flow.digests(name)  # type: ignore[arg-type]
    assert payload is not None
    table, next_token = flow.manager.table(name), flow.num_computed(name)  # type: ignore[arg-type]
    first = max(0, next_token - flow.window_tokens + 1)
    return [
        token
        for token in range(first, next_token)
        if not payload.matches(table[token // BLOCK_TOKENS], token % BLOCK_TOKENS, int(digests[token]))
    ]


@pytest.mark.parametrize("arguments", [{"window_tokens": 0}, {"window_tokens": 4, "min_drop": -1}])
def test_a_flow_with_a_window_that_means_nothing_is_refused(arguments):
    with pytest.raises(RefusedError):
        WindowFlow(KVCacheManager(BlockPool(3), block_tokens=4), **arguments)


@pytest.mark.parametrize(("window_tokens", "blocks"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_d4_a_window_is_pinned_in_whole_blocks(window_tokens, blocks):
    flow = make(PinnedPool(20), window_tokens)
    assert flow.window_blocks == blocks
    flow.add_request("a", range(40))
    flow.schedule("a")
    flow.compute("a")
    assert pinned_pool(flow.manager).num_pinned == blocks


def test_d4_each_chunk_pins_one_window():
    """Windows of 8 tokens, chunks of 16: the blocks before each chunk's end are pinned, the older ones are not."""
    flow = make(PinnedPool(20, free_order="append"), window_tokens=8)
    flow.add_request("a", range(48))
    flow.schedule("a")
    tables = []
    for _ in range(3):
        flow.compute("a", 16)
        tables.append([block or None for block in flow.manager.table("a")])
    rest = list(range(1, 13))
    assert tables == [[None] * dropped + rest[dropped:] for dropped in (2, 6, 10)]
    assert queues(flow.manager)[1] == [2, 1, 6, 5, 10, 9]
    assert queues(flow.manager)[0][-4:] == [4, 3, 8, 7]


def test_d4_decoding_pins_nothing():
    flow = make(PinnedPool(20), window_tokens=8)
    flow.add_request("a", range(8), max_new_tokens=30)
    flow.schedule("a")
    flow.compute("a")
    for token in range(30):
        assert flow.append("a", token)
        assert flow.compute("a") == 1
        assert wrong_in_window(flow, "a") == flow.mismatches("a") == []
    assert pinned_pool(flow.manager).num_pinned == 0
    assert flow.manager.table("a").count(NULL_BLOCK) == (38 - 8 + 1) // 4


def test_d7_a_step_that_is_scheduled_drops_nothing_before_it_is_processed():
    flow = make(PinnedPool(20), window_tokens=8)
    flow.add_request("a", range(40))
    flow.schedule("a", budget_tokens=16)
    flow.compute("a")
    table = flow.manager.table("a")
    assert table == (NULL_BLOCK, NULL_BLOCK, 3, 4)
    assert flow.extend("a", 24)
    # The first query of the step in flight is token 16: it reads tokens 9 to 16, in blocks 2 and 3.
    assert flow.manager.table("a")[:4] == table
    assert wrong_in_window(flow, "a") == []
    flow.compute("a")
    assert flow.manager.table("a")[:8] == (NULL_BLOCK,) * 8
    assert wrong_in_window(flow, "a") == []


def test_a_window_leaves_room_for_a_prompt_longer_than_the_free_blocks():
    flow = make(PinnedPool(7), window_tokens=4)
    other = flow.manager
    flow.add_request("other", [1, 2, 3])
    flow.schedule("other")
    assert flow.add_request("a", range(24))
    assert flow.schedule("a") is None
    assert flow.schedule("a", budget_tokens=8) == 0
    while flow.compute("a"):
        assert wrong_in_window(flow, "a") == []
        flow.extend("a", 8)
    assert flow.num_computed("a") == 24
    flow.finish("a")
    assert other.pool.num_reclaimable == 5


def test_a_request_is_dropped_preempted_and_comes_back():
    flow = make(PinnedPool(20), window_tokens=4, min_drop=1)
    flow.add_request("a", range(30))
    flow.schedule("a")
    flow.compute("a", 20)
    flow.preempt("a")
    assert flow.schedule("a") == 20
    assert wrong_in_window(flow, "a") == []
    flow.compute("a")
    assert wrong_in_window(flow, "a") == flow.mismatches("a") == []


def last_output(flow: WindowFlow, name: str, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The output of the last token over its window: through the table behind the dropped blocks, and from tokens."""
    payload = flow.manager.payload
    assert payload is not None
    expected = payload.expected(flow.digests(name))[:, layer]
    total = flow.num_tokens(name)
    query = expected[-1:, 0].flip(-1)
    # The table from the first block that is kept on; the window must start at one for this to be the whole of it.
    first = (total - flow.window_tokens) // BLOCK_TOKENS
    assert first * BLOCK_TOKENS == total - flow.window_tokens
    kept = flow.manager.table(name)[first:]
    paged = paged_attention(query, payload.data, layer, kept, flow.window_tokens)
    window = expected[-flow.window_tokens :]
    return paged, dense_attention(query, window[:, 0], window[:, 1])


def test_attention_is_the_same_with_and_without_pinning_and_pinning_hits_more():
    """A long prefix is served in a chunk and dropped, others wash over it, and it is asked for again."""
    pools = {"base": BlockPool(13), "off": PinnedPool(13, pinning=False), "on": PinnedPool(13)}
    hits: dict[str, int] = {}
    results: dict[str, list[torch.Tensor]] = {}
    for name, pool in pools.items():
        # With a window of 8 tokens and a chunk of 16, the whole drop of 2 blocks is pinned.
        flow = make(pool, window_tokens=8)
        flow.add_request("first", range(16))
        flow.schedule("first")
        flow.compute("first")
        flow.finish("first")
        for number in range(3):
            other = [*range(100 + 40 * number, 140 + 40 * number)]
            flow.add_request(number, other)
            assert flow.schedule(number, budget_tokens=4) == 0
            while flow.compute(number):
                assert wrong_in_window(flow, number) == []
                assert flow.num_computed(number) == len(other) or flow.extend(number, 4)
            flow.finish(number)
        flow.add_request("again", [*range(16), *range(900, 904)])
        hit = flow.schedule("again")
        assert hit is not None
        assert flow.mismatches("again") == []
        flow.compute("again")
        hits[name] = hit
        results[name] = []
        for layer in range(2):
            paged, dense = last_output(flow, "again", layer)
            assert torch.equal(paged, dense)
            results[name].append(paged)
    assert hits == {"base": 0, "off": 0, "on": 8}
    for name in ("off", "on"):
        assert all(map(torch.equal, results[name], results["base"]))


@pytest.mark.parametrize("free_order", ["append", "split"])
@pytest.mark.parametrize("seed", range(3))
def test_p1_p6_and_d7_hold_through_a_random_service(free_order, seed):
    """Tiny vocabulary, few blocks, budgets, drops, pins, preemption: every window is right, and nothing leaks."""
    rng = random.Random(seed)
    pool = PinnedPool(12, free_order=free_order)
    flow = make(pool, window_tokens=5, min_drop=1)
    known: list[int] = []
    seen_pinned = 0
    for name in range(60):
        tokens = [rng.randrange(2) for _ in range(rng.randrange(1, 30))]
        if flow.add_request(name, tokens, max_new_tokens=rng.randrange(4)):
            known.append(name)
        for other in list(known):
            if not flow.manager.is_inside(other):
                flow.schedule(other, full_sequence=rng.random() < 0.3, budget_tokens=rng.choice([None, 4, 7]))
            elif rng.random() < 0.2:
                flow.preempt(other)
            else:
                flow.extend(other, rng.randrange(1, 9))
                flow.compute(other, rng.choice([None, 3, 6]))
                if rng.random() < 0.3:
                    flow.finish(other)
                    known.remove(other)
        for other in known:
            if flow.manager.is_inside(other):
                assert wrong_in_window(flow, other) == flow.mismatches(other) == []
        state = pool.snapshot()
        tables = flow.manager.snapshot().tables.values()
        held = {block for table in tables for block in table if block != NULL_BLOCK}
        assert sorted([*state.free, *state.pinned, *held]) == list(range(1, 12))
        assert [sum(table.count(block) for table in tables) for block in range(1, 12)] == list(state.ref_cnt[1:])
        seen_pinned = max(seen_pinned, state.num_pinned)
    for name in known:
        flow.finish(name)
    assert seen_pinned > 3
    assert flow.manager.stats.hits > 0
    assert pool.num_reclaimable == 11
    assert flow.manager.reset()
