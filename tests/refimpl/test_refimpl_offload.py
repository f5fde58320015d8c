"""The scheduler's side of asynchronous offload: what is stored, when, and what a store holds (O1 to O4, O12)."""

import pytest

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import BlockRemoved, BlockStored
from kvproof.refimpl.offload.transfers import Store, WorkerReport
from kvproof.refimpl.payload import prefix_digests
from tests.refimpl.offload_rig import (
    BLOCK_TOKENS,
    DIALECTS,
    Rig,
    bring_to_host,
    chain,
    check,
    enter,
    flood,
    load,
    make,
    settle,
    take,
)


@pytest.mark.parametrize("free_order", DIALECTS)
def test_o2_a_store_holds_both_blocks_until_it_ends(free_order):
    manager = make(free_order=free_order)
    keys = chain(0, 2)
    enter(manager, 1, keys)
    assert manager.offer(1, 5) == 2
    (message,) = manager.take_messages()
    assert message == Store(0, ((1, 0), (2, 1)))
    assert [manager.pool.ref_cnt(block) for block in (1, 2)] == [2, 2]
    assert [manager.host.ref_cnt(block) for block in (0, 1)] == [1, 1]
    assert manager.host.lookup(keys[0]) is None
    manager.finish(1)
    check(manager)
    assert not manager.pool.is_free(1)
    assert manager.report(WorkerReport(0, 0))
    assert [manager.host.lookup(key) for key in keys] == [0, 1]
    assert manager.snapshot().host.free == (2, 3, 4, 5, 0, 1)
    assert manager.snapshot().pool.free == (3, 4, 5, 6, 1, 2)
    assert manager.host.take_events() == [BlockStored(key, None, block) for block, key in enumerate(keys)]
    check(manager)


@pytest.mark.parametrize("count", range(1, 6))
def test_every_block_that_a_step_writes_to_is_being_computed(count):
    rig = Rig()
    assert rig.manager.admit(1, 3)
    assert rig.manager.allocate(1, 3) is not None
    table = list(rig.manager.table(1))
    rig.manager.write_run(1, 1, prefix_digests(range(6))[1 : 1 + count])
    assert [block for block in table if rig.manager.is_computing(block)] == table[: count // BLOCK_TOKENS + 1]


def test_o2_what_a_store_reads_is_not_overwritten_or_taken():
    rig = Rig()
    rig.serve(1, range(4))
    rig.manager.offer(1, 2)
    rig.manager.finish(1)
    rig.send()
    assert rig.manager.admit(2, 4)
    blocks = rig.manager.allocate(2, 4)
    assert blocks is not None
    assert not {1, 2} & set(blocks)
    assert rig.manager.pool.num_free == 0
    rig.settle()
    assert rig.on_host(range(4)) == [True, True]


def test_o2_a_store_registers_the_key_that_its_content_had():
    """The device block loses its key while it is copied: what arrives is still what was copied."""
    rig = Rig()
    rig.serve(1, range(4))
    rig.manager.offer(1, 1)
    rig.manager.evict(1)
    rig.settle()
    assert rig.on_host(range(4)) == [True, False]


@pytest.mark.parametrize("keyless", [(0, 1), (0, 1, 2), (1, 2), (0, 2), (0,)])
@pytest.mark.parametrize("ok", [True, False])
def test_o2_a_long_store_lets_its_blocks_go_as_stores_of_one_block_each_do(keyless, ok):
    """Those that lost their keys meanwhile go to the head of the queue, each by itself, and the rest to its tail."""

    def queues(most: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        manager = make(max_pairs=most)
        enter(manager, 1, chain(0, 3))
        table = manager.table(1)
        manager.finish(1)
        for position in keyless:
            manager.evict(table[position])
        for message in manager.take_messages():
            assert manager.report(WorkerReport(0, message.id, ok=ok))
        check(manager)
        return manager.snapshot().pool.free, manager.snapshot().host.free

    assert queues(None) == queues(1)


def test_o2_blocks_that_stand_twice_in_a_store_go_as_in_stores_of_one_block_each():
    """Each has two keys, and stands at two positions of one table; both keys are lost before the store ends."""

    def queues(most: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        manager, keys = make(max_pairs=most), chain(0, 4)
        manager.admit(1, 2)
        manager.allocate(1, 2)
        for index, key in enumerate(keys):
            manager.register(1, index // 2, key, None, BLOCK_TOKENS)
        twice = manager.table(1)
        manager.preempt(1)
        manager.admit(2, 4)
        manager.hit(2, keys, 4)
        assert manager.table(2) == (twice[0], twice[0], twice[1], twice[1])
        manager.offer(2, 4)
        manager.finish(2)
        for block in twice:
            manager.evict(block)
        for message in manager.take_messages():
            assert manager.report(WorkerReport(0, message.id))
        check(manager)
        return manager.snapshot().pool.free, manager.snapshot().host.free

    assert queues(None) == queues(1)


def test_o12_a_store_takes_the_head_of_the_hosts_queue_and_drops_its_keys():
    manager = make(host_blocks=2)
    old, new = chain(0, 2), chain(100, 1)
    bring_to_host(manager, old)
    manager.host.take_events()
    enter(manager, 1, new)
    manager.offer(1)
    assert manager.host.take_events() == [BlockRemoved(old[0])]
    assert manager.host.lookup(old[1]) is not None
    settle(manager)
    assert manager.host.lookup(new[0]) is not None


# O3, O4: what is offered, and when.


def test_o2_a_store_does_not_wait_for_steps_that_write_other_blocks():
    """Not even where its host blocks have their numbers."""
    rig = Rig()
    rig.serve(1, range(6), processed=False)
    rig.serve(2, range(100, 106))
    rig.manager.finish(2)
    (store,) = rig.manager.snapshot().stores.values()
    assert {host_block for _, host_block in store.pairs} & set(rig.manager.table(1))
    assert [message.pairs for message in rig.manager.take_messages()] == [store.pairs]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("max_pairs", [None, 1, 2, 3, 4])
def test_o12_many_stores_of_one_call_are_cut_into_transfers_in_their_order(max_pairs, lazy):
    manager = make(max_pairs=max_pairs, lazy=lazy)
    keys = chain(0, 4)
    enter(manager, 1, keys)
    table = manager.table(1)
    if lazy:
        manager.finish(1)
        assert manager.scan(6) == 4
    else:
        assert manager.offer(1, 4) == 4
    check(manager)
    stores = manager.snapshot().stores.values()
    size = max_pairs or 4
    assert [len(shown.pairs) for shown in stores] == [min(size, 4 - at) for at in range(0, 4, size)]
    stored = [(block, key) for shown in stores for (block, _), key in zip(shown.pairs, shown.keys, strict=True)]
    in_turn = list(zip(table, keys, strict=True))
    assert stored == (in_turn[::-1] if lazy else in_turn), "last first a prefix is let go, and scanned"
    settle(manager)
    assert all(manager.host.lookup(key) is not None for key in keys)


def test_o4_a_block_is_offered_once_its_content_is_there():
    rig = Rig()
    rig.serve(1, range(4), processed=False)
    before = rig.manager.snapshot()
    assert rig.manager.offer(1, 9) == 0
    assert rig.manager.snapshot() == before
    rig.manager.processed(1)
    assert rig.manager.offer(1, 9) == 1
    rig.manager.processed(2)
    assert rig.manager.offer(1, 9) == 1
    assert rig.manager.offer(1, 9) == 0
    assert [len(message.pairs) for message in rig.manager.take_messages()] == [1, 1]


def test_o4_each_drop_has_its_cause():
    manager = make(host_blocks=2, device_blocks=9)
    bring_to_host(manager, chain(0, 1))
    keys = [*chain(0, 1), *chain(100, 4)]
    enter(manager, 1, keys)  # Hits the first block.
    manager.evict(manager.table(1)[2])
    manager.skip(2) if manager.admit(2, 1) else None
    assert manager.offer(1, 9) == 5
    assert manager.offer(2, 1) == 1
    stats = manager.offer_stats
    # Host block 0 stays for nobody's sake: the second store takes it, and the third finds none.
    assert (stats.resident, stats.forgotten, stats.stored, stats.host_full, stats.unfiled) == (1, 1, 3, 1, 1)
    check(manager)


def test_o3_a_block_hit_by_a_second_request_is_stored_once():
    """B8: the same block is offered again, for another request, while its store is in flight."""
    manager = make()
    keys = chain(0, 2)
    enter(manager, 1, keys)
    assert manager.offer(1, 2) == 2
    assert enter(manager, 2, keys) == 2
    assert manager.offer(2, 2) == 2
    assert manager.offer_stats.in_flight == 2
    assert len(manager.take_messages()) == 1
    check(manager)


def test_o3_two_blocks_with_one_key_are_two_blocks():
    manager = make()
    keys = chain(0, 1)
    for name in (1, 2):
        manager.admit(name, 1)
        manager.allocate(name, 1)
        manager.register(name, 0, keys[0], None, BLOCK_TOKENS)
        assert manager.offer(name) == 1
    assert manager.offer_stats.stored == 2
    settle(manager)
    check(manager)
    assert manager.host.snapshot().copies == {keys[0]: (0, 1)}


def test_o3_what_is_on_the_host_is_not_stored_again():
    manager = make()
    bring_to_host(manager, chain(0, 2))
    enter(manager, 1, chain(0, 2))
    manager.offer(1, 2)
    assert manager.offer_stats.resident == 2
    assert manager.pending == 0


def test_o4_what_is_registered_below_the_cursor_is_offered():
    manager = make()
    manager.admit(1, 3)
    manager.allocate(1, 3)
    assert manager.offer(1, 3) == 3
    assert manager.offer_stats.unfiled == 3
    keys = chain(0, 3)
    manager.register(1, 0, keys[0], None, BLOCK_TOKENS)
    assert manager.num_offered(1) == 0
    manager.register(1, 1, keys[1], keys[0], BLOCK_TOKENS)
    assert manager.offer(1, 3) == 3
    assert manager.offer_stats.stored == 2


def test_o4_a_partly_filled_block_is_not_stored():
    manager = make()
    manager.admit(1, 1)
    manager.allocate(1, 1)
    manager.register(1, 0, b"part", None, 1)
    assert manager.offer(1) == 1
    assert manager.offer_stats.unfiled == 1
    manager.register(1, 0, b"whole", None, BLOCK_TOKENS)
    assert manager.offer(1) == 1
    settle(manager)
    assert manager.host.lookup(b"whole") is not None
    assert manager.host.lookup(b"part") is None


@pytest.mark.parametrize("is_lost", [False, True])
def test_o4_a_block_with_several_keys_is_stored_under_the_first_that_it_still_has(is_lost):
    manager = make()
    manager.admit(1, 1)
    (block,) = take(manager, 1, 1)
    manager.register(1, 0, b"first", None, BLOCK_TOKENS)
    if is_lost:
        manager.evict(block)
    manager.register(1, 0, b"second", None, BLOCK_TOKENS)
    wanted = b"second" if is_lost else b"first"
    assert manager.snapshot().filed[1] == (wanted,)
    assert manager.offer(1) == 1
    assert manager.snapshot().stores[0].keys == (wanted,)


def test_o4_a_trimmed_position_is_offered_anew():
    manager = make()
    keys = chain(0, 3)
    enter(manager, 1, keys)
    manager.offer(1, 3)
    manager.trim(1, 2)
    assert manager.num_offered(1) == 1
    manager.allocate(1, 1)
    assert manager.offer(1, 3) == 1
    assert manager.offer_stats.unfiled == 1


# O4: lazy mode.


def test_o4_a_scan_stores_what_stands_next_to_be_reused():
    manager = make(lazy=True)
    keys = chain(0, 3)
    enter(manager, 1, keys)
    manager.finish(1)
    assert manager.snapshot().pool.free == (4, 5, 6, 3, 2, 1)
    assert manager.scan(3) == 0
    assert manager.snapshot().cursor == 6
    assert manager.scan(2) == 2
    assert manager.offer_stats.stored == 2
    assert manager.snapshot().stores[0].pairs == ((3, 0), (2, 1))
    assert manager.snapshot().pool.free == (4, 5, 6, 1)
    check(manager)
    settle(manager)
    assert manager.snapshot().pool.free == (4, 5, 6, 1, 3, 2)
    assert manager.scan(9) == 1
    settle(manager)
    assert manager.scan(9) == 0
    assert [manager.host.lookup(key) for key in keys] == [2, 1, 0]


def test_o4_lazy_never_stores_a_prefix_that_somebody_always_holds():
    """S11: requests come and go, one at least always holds the shared prefix, and it is lost with the last one."""
    manager = make(device_blocks=9, host_blocks=20, lazy=True)
    shared = chain(0, 2)
    for name in range(10):
        own = chain(100 * (name + 1), 1)
        enter(manager, name, [*shared, *own])
        if name:
            manager.finish(name - 1)
        manager.scan(9)
        settle(manager)
    host = manager.host
    assert [host.lookup(key) for key in shared] == [None, None]
    assert len(manager.snapshot().host.keys) > 2
    manager.finish(9)
    flood(manager)
    assert manager.find(shared, 2) == []


def test_o4_eager_stores_that_prefix():
    manager = make(device_blocks=9, host_blocks=20)
    shared = chain(0, 2)
    enter(manager, 1, [*shared, *chain(100, 1)])
    manager.offer(1, 3)
    settle(manager)
    assert None not in [manager.host.lookup(key) for key in shared]


def test_o4_the_cursor_restarts_when_its_block_left_the_queue_and_came_back():
    manager = make(lazy=True)
    first, second = chain(0, 1), chain(100, 1)
    enter(manager, 1, first)
    enter(manager, 2, second)
    manager.finish(1)
    assert manager.scan(5) == 1
    settle(manager)
    assert manager.scan(5) == 0
    assert manager.snapshot().cursor == manager.pool.lookup(first[0])
    manager.finish(2)
    enter(manager, 3, first)  # The cursor's block leaves ...
    manager.finish(3)  # ... and is back, now behind the block of the second request.
    assert manager.snapshot().pool.free[-2:] == (manager.pool.lookup(second[0]), manager.pool.lookup(first[0]))
    assert manager.snapshot().cursor is None
    assert manager.scan(6) == 1


@pytest.mark.parametrize("step", ["hit", "allocate", "load"])
def test_o4_the_cursor_restarts_whichever_step_took_its_block(step):
    """Nothing else happens between: the block is taken, and given back by a free that the cursor does not see."""
    manager = make(lazy=True)
    first = chain(0, 1)
    enter(manager, 1, first)
    manager.finish(1)
    assert manager.scan(9) == 1
    settle(manager)
    assert manager.scan(9) == 0
    assert manager.snapshot().cursor == manager.snapshot().pool.free[-1] == 1
    manager.admit(2, 6)
    if step == "hit":
        assert manager.hit(2, first, 1) == 1
    elif step == "allocate":
        manager.allocate(2, 6)
    else:
        manager.allocate(2, 5)
        assert manager.snapshot().cursor == 1
        manager.look(2, [b""] * 5 + first, 6)
        assert load(manager, 2, 1) == [1]
    assert manager.snapshot().cursor != 1


def test_o4_the_cursor_stays_when_a_block_that_is_held_was_processed():
    rig = Rig(lazy=True)
    rig.serve(1, range(2))
    rig.manager.finish(1)
    rig.serve(2, range(10, 12), processed=False)
    assert rig.manager.scan(9) == 1
    rig.settle()
    assert rig.manager.scan(9) == 0
    cursor = rig.manager.snapshot().cursor
    assert cursor is not None
    rig.manager.processed_run(2)
    assert rig.manager.snapshot().cursor == cursor


def test_o4_the_cursor_restarts_when_a_passed_block_was_only_processed_later():
    rig = Rig(lazy=True)
    rig.serve(1, range(2), processed=False)
    rig.manager.preempt(1)
    assert rig.manager.scan(9) == 0
    rig.manager.processed(1)
    assert rig.manager.scan(9) == 1


def test_o4_the_cursor_restarts_when_the_host_forgets_a_passed_block():
    manager = make(host_blocks=1, lazy=True)
    first, second = chain(0, 1), chain(100, 1)
    enter(manager, 1, first)
    manager.finish(1)
    assert manager.scan(9) == 1
    settle(manager)
    assert manager.scan(9) == 0
    enter(manager, 2, second)
    manager.finish(2)
    assert manager.scan(9) == 1
    settle(manager)
    assert manager.scan(9) == 1
    assert manager.snapshot().stores[2].keys == (first[0],)


def test_o4_a_scan_of_no_block_finds_nothing_and_a_negative_one_is_refused():
    manager = make(lazy=True)
    enter(manager, 1, chain(0, 1))
    manager.finish(1)
    before = manager.snapshot()
    assert manager.scan(0) == 0
    with pytest.raises(RefusedError):
        manager.scan(-1)
    assert manager.snapshot() == before


def test_o4_a_scan_waits_for_room_on_the_host():
    manager = make(host_blocks=1, lazy=True)
    enter(manager, 1, chain(0, 2))
    manager.finish(1)
    assert manager.scan(9) == 1
    before = manager.snapshot()
    assert manager.scan(9) == 0
    assert manager.snapshot() == before


def test_o4_a_scan_passes_partly_filled_and_forgotten_blocks():
    manager = make(lazy=True)
    manager.admit(1, 2)
    manager.allocate(1, 2)
    manager.register(1, 0, b"part", None, 1)
    manager.register(1, 0, b"whole", None, BLOCK_TOKENS)
    manager.register(1, 1, b"tail", b"whole", 1)
    manager.finish(1)
    assert manager.scan(9) == 1
    assert manager.snapshot().stores[0].keys == (b"whole",)
    # The block is used anew: what covered it whole before does not count any more.
    settle(manager)
    flood(manager)
    manager.admit(2, 6)
    manager.allocate(2, 6)
    for position in range(6):
        manager.register(2, position, b"part %d" % position, None, 1)
    manager.finish(2)
    assert manager.scan(9) == 0


# O5, O6: lookups and pins.
