"""The manager's steps, one by one: admission, hits, tables, writes (P6), statistics (P15), and every refusal."""

import pytest
import torch

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.payload import Payload
from kvproof.refimpl.pool.block_pool import NULL_BLOCK, BlockPool
from kvproof.refimpl.pool.manager import KVCacheManager, PrefixCacheStats

BLOCK_TOKENS = 4


def make(num_blocks: int = 6, **options) -> KVCacheManager:
    payload = Payload(num_blocks, BLOCK_TOKENS, layers=1, heads=1, head_dim=4)
    return KVCacheManager(BlockPool(num_blocks, **options), block_tokens=BLOCK_TOKENS, payload=payload)


def payload_of(manager: KVCacheManager) -> Payload:
    assert manager.payload is not None
    return manager.payload


def scene() -> KVCacheManager:
    """Request 'a' with table [1, 2], keys on both; 'b' shares block 1 and holds 3; 'p' was preempted."""
    manager = make()
    manager.admit("a", 3)
    manager.allocate("a", 2)
    manager.register("a", 0, b"one", None, BLOCK_TOKENS)
    manager.register("a", 1, b"two, half", b"one", 2)
    manager.admit("b", 2)
    manager.hit("b", [b"one", b"other"], 2)
    manager.allocate("b", 1)
    manager.admit("p", 1)
    manager.hit("p", [], 0)
    manager.preempt("p")
    return manager


REFUSED = {
    "admit one inside": lambda m: m.admit("a", 1),
    "admit for fewer than no positions": lambda m: m.admit("c", -1),
    "hit on a table that is not empty": lambda m: m.hit("a", [b"one"], 1),
    "hit of a stranger": lambda m: m.hit("c", [b"one"], 1),
    "allocate beyond the need": lambda m: m.allocate("a", 2),
    "allocate a negative number": lambda m: m.allocate("a", -1),
    "allocate for a stranger": lambda m: m.allocate("c", 1),
    "skip beyond the need": lambda m: m.skip("b"),
    "skip for a stranger": lambda m: m.skip("c"),
    "write to a shared block": lambda m: m.write("a", 0, 0, 7),
    "write to a covered slot": lambda m: m.write("a", 1, 1, 7),
    "write beyond the table": lambda m: m.write("a", 2, 0, 7),
    "write before the table": lambda m: m.write("b", -1, 0, 7),
    "write beyond the block": lambda m: m.write("b", 1, BLOCK_TOKENS, 7),
    "write before the block": lambda m: m.write("b", 1, -1, 7),
    "register beyond the table": lambda m: m.register("a", 2, b"x", None, 1),
    "register a key twice": lambda m: m.register("b", 0, b"one", None, BLOCK_TOKENS),
    "register for no slot": lambda m: m.register("b", 1, b"x", None, 0),
    "register for too many slots": lambda m: m.register("b", 1, b"x", None, BLOCK_TOKENS + 1),
    "trim too much": lambda m: m.trim("a", 3),
    "trim a negative number": lambda m: m.trim("a", -1),
    "finish with a table that is not full": lambda m: m.finish("a"),
    "finish a stranger": lambda m: m.finish("c", abort=True),
    "finish one that was preempted": lambda m: m.finish("p", abort=True),
    "preempt a stranger": lambda m: m.preempt("c"),
    "forget one inside": lambda m: m.forget("a"),
    "evict the null block": lambda m: m.evict(NULL_BLOCK),
    "evict what is no block": lambda m: m.evict(6),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_illegal_call_is_refused_and_changes_nothing(name):
    manager = scene()
    before = manager.snapshot()
    content = payload_of(manager).data.clone()
    manager.take_events()
    with pytest.raises(RefusedError):
        REFUSED[name](manager)
    assert manager.snapshot() == before
    assert manager.take_events() == []
    assert payload_of(manager).data.equal(content)


def test_the_scene_is_what_its_docstring_says():
    snapshot = scene().snapshot()
    assert snapshot.tables == {"a": (1, 2), "b": (1, 3)}
    assert snapshot.pool.ref_cnt == (0, 2, 1, 1, 0, 0)
    assert snapshot.pool.keys == {1: (b"one",), 2: (b"two, half",)}
    assert snapshot.counted == {"b", "p"}
    assert snapshot.needs == {"a": 3, "b": 2}


def test_admission_turns_away_what_never_fits():
    manager = make(num_blocks=4)
    before = manager.snapshot()
    assert not manager.admit(1, 4)
    assert manager.snapshot() == before
    assert manager.admit(1, 3)


def test_p7_an_allocation_that_does_not_fit_now_changes_nothing():
    manager = make(num_blocks=4)
    manager.admit(1, 3)
    manager.admit(2, 3)
    manager.allocate(1, 2)
    before = manager.snapshot()
    assert manager.allocate(2, 2) is None
    assert manager.snapshot() == before


def test_p14_a_hit_stops_at_the_limit_and_at_the_first_gap():
    manager = make()
    manager.admit("a", 3)
    manager.allocate("a", 3)
    for position, key in enumerate([b"0", b"1", b"2"]):
        manager.register("a", position, key, None, BLOCK_TOKENS)
    manager.finish("a")
    manager.admit("b", 3)
    assert manager.hit("b", [b"0", b"1", b"2"], 2) == 2
    assert manager.table("b") == (1, 2)
    assert manager.snapshot().pool.free == (4, 5, 3)
    manager.evict(2)
    manager.admit("c", 3)
    assert manager.hit("c", [b"0", b"1", b"2"], 3) == 1


def test_a_lookup_that_cannot_fit_the_table_is_refused():
    manager = make()
    manager.admit("a", 1)
    before = manager.snapshot()
    for limit in (2, -1):
        with pytest.raises(RefusedError):
            manager.hit("a", [b"0", b"1"], limit)
    assert manager.snapshot() == before


def test_p15_a_request_counts_once_in_its_life():
    manager = scene()
    assert manager.stats == PrefixCacheStats(queries=2, hits=1)
    manager.preempt("b")
    manager.admit("b", 2)
    assert manager.hit("b", [b"one", b"other"], 2) == 1
    assert manager.stats == PrefixCacheStats(queries=2, hits=1)
    manager.finish("b", abort=True)
    manager.admit("b", 2)
    manager.hit("b", [b"one", b"other"], 2)
    assert manager.stats == PrefixCacheStats(queries=4, hits=2)
    manager.forget("p")
    assert manager.snapshot().counted == {"b"}


def test_p6_a_slot_behind_what_keys_cover_may_be_written_and_covers_grow():
    manager = scene()
    manager.write("a", 1, 2, 7)
    assert payload_of(manager).matches(2, 2, 7)
    assert not payload_of(manager).matches(2, 2, 8)
    manager.register("a", 1, b"two", b"one", 3)
    assert manager.covered_slots(2) == 3
    with pytest.raises(RefusedError):
        manager.write("a", 1, 2, 7)


def test_p6_what_an_evicted_key_covered_may_be_written_again():
    manager = scene()
    manager.evict(2)
    assert manager.covered_slots(2) == 0
    manager.write("a", 1, 0, 7)
    manager.register("a", 1, b"new", b"one", 1)
    assert manager.covered_slots(2) == 1


@pytest.mark.parametrize("start", [0, 3, 2 * BLOCK_TOKENS])
def test_no_tokens_are_written_wherever_they_begin_in_a_table(start):
    manager = scene()
    content = payload_of(manager).data.clone()
    manager.write_run("b", start, content.new_zeros(0).long())
    assert payload_of(manager).data.equal(content)


def test_without_payload_a_run_of_writes_is_asked_for_in_the_same_way():
    manager = KVCacheManager(BlockPool(4), block_tokens=BLOCK_TOKENS)
    manager.admit("a", 2)
    manager.allocate("a", 2)
    before = manager.snapshot()
    manager.write_run("a", 1, torch.arange(7))
    with pytest.raises(RefusedError):
        manager.write_run("a", 1, torch.arange(8))
    assert manager.snapshot() == before


def test_p10_a_request_frees_its_last_block_first():
    manager = make(free_order="append")
    manager.admit("a", 4)
    manager.allocate("a", 4)
    manager.trim("a", 2)
    assert manager.table("a") == (1, 2)
    assert manager.snapshot().pool.free == (5, 4, 3)
    manager.trim("a", 0)
    manager.preempt("a")
    assert manager.snapshot().pool.free == (5, 4, 3, 2, 1)
    assert manager.num_inside == 0


def test_a_whole_table_can_be_trimmed_and_hit_again():
    manager = make()
    manager.admit("a", 2)
    manager.allocate("a", 2)
    manager.register("a", 0, b"one", None, BLOCK_TOKENS)
    manager.trim("a", 2)
    assert manager.hit("a", [b"one"], 1) == 1
    assert manager.table("a") == (1,)


def test_p4_a_skipped_position_holds_the_null_block():
    manager = make()
    manager.admit("a", 2)
    manager.skip("a")
    manager.allocate("a", 1)
    assert manager.table("a") == (NULL_BLOCK, 1)
    for call in (
        lambda: manager.write("a", 0, 0, 7),
        lambda: manager.write_run("a", 0, payload_of(manager).data.new_zeros(1).long()),
        lambda: manager.register("a", 0, b"x", None, 1),
    ):
        with pytest.raises(RefusedError):
            call()
    manager.finish("a")
    assert manager.snapshot().pool.free == (1, 2, 3, 4, 5)


def test_a_pool_without_null_block_cannot_skip():
    manager = make(null_block=False)
    manager.admit("a", 2)
    with pytest.raises(RefusedError):
        manager.skip("a")


def test_p11_reset_waits_for_the_last_holder():
    manager = scene()
    assert not manager.reset()
    manager.finish("a", abort=True)
    manager.finish("b", abort=True)
    assert manager.reset()
    assert manager.snapshot().pool.keys == {}


def test_a_payload_of_another_size_is_refused():
    with pytest.raises(RefusedError):
        KVCacheManager(BlockPool(6), block_tokens=4, payload=Payload(5, 4))
    with pytest.raises(RefusedError):
        KVCacheManager(BlockPool(6), block_tokens=0)
