"""The block pool: P1 to P5 and P7 to P12, rule by rule, and what it must refuse."""

import pytest

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import AllBlocksCleared, BlockRemoved, BlockStored
from kvproof.refimpl.pool.block_pool import NULL_BLOCK, BlockPool


def cached(pool: BlockPool, *names: bytes) -> list[int]:
    """Allocate one block per name, register it under that name, and drop the events of it."""
    blocks = pool.allocate(len(names))
    assert blocks is not None
    for block, name in zip(blocks, names, strict=True):
        pool.register(block, name, None)
    pool.take_events()
    return blocks


def queue(pool: BlockPool) -> list[int]:
    return list(pool.snapshot().free)


def test_p4_the_null_block_is_not_in_the_queue():
    pool = BlockPool(4)
    assert queue(pool) == [1, 2, 3]
    assert pool.usable == pool.num_free == 3
    assert pool.allocate(3) == [1, 2, 3]
    pool.touch([NULL_BLOCK])
    pool.free([NULL_BLOCK, 2])
    assert pool.ref_cnt(NULL_BLOCK) == 0
    assert queue(pool) == [2]


def test_p4_a_pool_may_have_no_null_block():
    pool = BlockPool(3, null_block=False)
    assert queue(pool) == [0, 1, 2]
    pool.allocate(1)
    pool.touch([0])
    assert pool.ref_cnt(0) == 2


def test_p7_allocation_takes_the_head_in_order():
    pool = BlockPool(5, free_order="append")
    blocks = pool.allocate(4)
    assert blocks == [1, 2, 3, 4]
    pool.free(blocks[::-1])
    assert pool.allocate(2) == [4, 3]
    assert [pool.ref_cnt(block) for block in range(5)] == [0, 0, 0, 1, 1]


def test_p7_allocation_is_all_or_nothing():
    pool = BlockPool(5)
    cached(pool, b"a", b"b")
    before = pool.snapshot()
    assert pool.allocate(3) is None
    assert pool.snapshot() == before
    assert pool.take_events() == []


def test_p7_an_allocated_block_loses_all_its_keys():
    pool = BlockPool(2)
    cached(pool, b"a")
    pool.register(1, b"a2", b"a")
    pool.free([1])
    pool.take_events()
    assert pool.lookup(b"a") == pool.lookup(b"a2") == 1
    assert pool.allocate(1) == [1]
    assert pool.lookup(b"a") is pool.lookup(b"a2") is None
    assert pool.take_events() == [BlockRemoved(b"a"), BlockRemoved(b"a2")]


def test_p8_a_block_leaves_the_queue_with_its_first_holder():
    pool = BlockPool(4)
    pool.touch([2, 2])
    assert queue(pool) == [1, 3]
    assert pool.ref_cnt(2) == 2
    pool.touch([2])
    assert queue(pool) == [1, 3]


def test_p9_a_block_named_twice_is_decided_once():
    """Fault B7: the block was queued twice."""
    pool = BlockPool(3)
    pool.allocate(1)
    pool.touch([1])
    pool.free([1, 1])
    assert queue(pool) == [1, 2]
    assert pool.num_free == 2


@pytest.mark.parametrize("free_order", ["append", "split"])
@pytest.mark.parametrize("blocks", [[3], [1, 1], [2, 1, 1], [1, 2, 2, 2], [1, 4], [1, -1]])
def test_p9_a_free_without_a_hold_changes_nothing(free_order, blocks):
    """Fault B16: the count went to -1, silently."""
    pool = BlockPool(4, free_order=free_order)
    pool.allocate(2)
    pool.touch([2])
    before = pool.snapshot()
    with pytest.raises(RefusedError):
        pool.free(blocks)
    assert pool.snapshot() == before


def test_p10_append_puts_every_block_last_in_the_order_in_which_counts_reached_zero():
    pool = BlockPool(6, free_order="append")
    cached(pool, b"a", b"b", b"c", b"d")
    pool.evict(2)
    pool.touch([3])
    pool.free([3, 4, 2, 3, 1])
    assert queue(pool) == [5, 4, 2, 3, 1]


def test_p10_split_puts_blocks_without_key_first_as_one_run():
    pool = BlockPool(7, free_order="split")
    cached(pool, b"a", b"b", b"c", b"d", b"e")
    pool.evict(2)
    pool.evict(4)
    pool.free([5, 4, 3, 2, 1])
    assert queue(pool) == [4, 2, 6, 5, 3, 1]


def test_p10_without_caching_split_frees_to_the_head():
    pool = BlockPool(5, caching=False)
    pool.allocate(2)
    pool.free([2, 1])
    assert queue(pool) == [2, 1, 3, 4]
    pool.allocate(1)
    with pytest.raises(RefusedError):
        pool.register(2, b"a", None)


def test_p5_a_lookup_returns_the_first_registered_that_remains():
    pool = BlockPool(5)
    pool.allocate(3)
    for block in (2, 1, 3):
        pool.register(block, b"a", None)
    assert pool.lookup(b"a") == 2
    before = pool.snapshot()
    with pytest.raises(RefusedError):
        pool.register(3, b"a", None)  # As one of several too, it carries a key once.
    assert pool.snapshot() == before
    pool.evict(2)
    assert pool.lookup(b"a") == 1
    pool.register(2, b"a", None)
    assert pool.snapshot().copies == {b"a": (1, 3, 2)}
    assert pool.keys_of(2) == (b"a",)


@pytest.mark.parametrize(("block", "key"), [(1, b"a"), (2, b"b"), (NULL_BLOCK, b"b"), (-1, b"b"), (9, b"b")], ids=str)
def test_p5_a_registration_that_means_nothing_is_refused(block, key):
    pool = BlockPool(3)
    cached(pool, b"a")
    before = pool.snapshot()
    with pytest.raises(RefusedError):
        pool.register(block, key, None)
    assert pool.snapshot() == before
    assert pool.take_events() == []


def test_p11_evict_takes_the_keys_only():
    pool = BlockPool(3)
    cached(pool, b"a", b"b")
    pool.free([2])
    pool.evict(1)
    pool.evict(2)
    assert pool.ref_cnt(1) == 1
    assert queue(pool) == [2]
    assert pool.lookup(b"a") is pool.lookup(b"b") is None
    with pytest.raises(RefusedError):
        pool.evict(NULL_BLOCK)


def test_p11_reset_needs_every_block_free():
    pool = BlockPool(4)
    cached(pool, b"a", b"b")
    pool.free([1])
    before = pool.snapshot()
    assert not pool.reset()
    assert pool.snapshot() == before
    assert pool.take_events() == []
    pool.free([2])
    order = queue(pool)
    assert order == [3, 1, 2]
    assert pool.reset()
    assert queue(pool) == order
    assert pool.snapshot().keys == {}
    assert pool.snapshot().copies == {}
    assert pool.take_events() == [AllBlocksCleared()]


def test_p12_events_follow_the_first_and_the_last_copy():
    """Fault B15: a removal was reported while another copy was hittable."""
    pool = BlockPool(4)
    pool.allocate(2)
    pool.register(1, b"a", b"p")
    pool.register(2, b"a", b"p")
    pool.evict(1)
    assert pool.take_events() == [BlockStored(b"a", b"p", 1)]
    pool.evict(2)
    assert pool.take_events() == [BlockRemoved(b"a")]
    assert pool.take_events() == []


def test_events_can_be_turned_off():
    pool = BlockPool(2, events=False)
    cached(pool, b"a")
    pool.free([1])
    pool.reset()
    assert pool.take_events() == []


def test_a_pool_that_reports_nothing_reports_no_registration_either():
    pool = BlockPool(2, events=False)
    pool.allocate(1)
    pool.register(1, b"a", None)
    assert pool.take_events() == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: BlockPool(1),
        lambda: BlockPool(0, null_block=False),
        lambda: BlockPool(3, free_order="x"),  # type: ignore[arg-type]
    ],
)
def test_a_pool_that_means_nothing_is_refused(make):
    with pytest.raises(RefusedError):
        make()


@pytest.mark.parametrize(
    "call", [lambda pool: pool.touch([1, 3]), lambda pool: pool.touch([1, -1]), lambda pool: pool.allocate(-1)]
)
def test_other_illegal_calls_change_nothing(call):
    pool = BlockPool(3)
    before = pool.snapshot()
    with pytest.raises(RefusedError):
        call(pool)
    assert pool.snapshot() == before
