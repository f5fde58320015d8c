"""The scheduler's side of asynchronous offload: lookups, pins and loads (O2, O5, O6)."""

import pytest

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.offload.manager import OffloadManager
from kvproof.refimpl.offload.transfers import Load, WorkerReport
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.blocks import blocks_for, full_blocks, lookup_limit
from kvproof.refimpl.pool.keys import chain_keys
from tests.refimpl.offload_rig import BLOCK_TOKENS, Rig, bring_to_host, chain, check, flood, load, make, take


def test_o5_pins_survive_pressure_on_the_host():
    rig = Rig(host_blocks=2)
    rig.serve(1, range(4))
    rig.manager.finish(1)
    rig.settle()
    flood(rig.manager)
    rig.manager.admit(2, 3)
    keys = chain_keys(range(4), BLOCK_TOKENS)
    assert rig.manager.look(2, keys, 2) == 2
    rig.serve(3, range(100, 104))
    rig.manager.finish(3)
    assert rig.manager.offer_stats.host_full == 2
    assert rig.on_host(range(4)) == [True, True]
    assert rig.manager.load(2, 2) is not None
    rig.settle()
    rig.manager.allocate(2, 1)
    assert rig.reads_right(2, range(4))


def test_o5_pins_become_the_loads_holds_and_the_rest_goes():
    manager = make()
    keys = chain(0, 4)
    bring_to_host(manager, keys)
    flood(manager)
    manager.admit(1, 5)
    assert manager.look(1, keys, 4) == 4
    assert manager.num_pinned(1) == 4
    assert manager.snapshot().pins == {1: {0: 0, 1: 1, 2: 2, 3: 3}}
    blocks = load(manager, 1, 2)
    check(manager)
    assert manager.table(1) == tuple(blocks)
    assert manager.num_pinned(1) == 0
    assert manager.num_external(1) == 2
    assert manager.snapshot().host.free == (4, 5, 3, 2)
    assert [manager.pool.ref_cnt(block) for block in blocks] == [2, 2]
    assert manager.take_messages() == [Load(1, tuple(enumerate(blocks)))]
    assert manager.is_loading(1)
    assert manager.report(WorkerReport(0, 1))
    assert not manager.is_loading(1)
    assert [manager.pool.ref_cnt(block) for block in blocks] == [1, 1]
    check(manager)


@pytest.mark.parametrize("max_pairs", [None, 1, 2, 3, 4])
def test_o5_a_long_load_is_cut_into_transfers_in_the_order_of_the_table(max_pairs):
    """Each names the keys for which its host blocks were pinned, and its place in the table, where the load fails."""
    manager = make(max_pairs=max_pairs)
    keys = chain(0, 5)
    bring_to_host(manager, keys)
    flood(manager)
    manager.admit(1, 6)
    manager.allocate(1, 1)
    assert manager.look(1, keys, 5) == 4
    loaded = load(manager, 1, 4)
    check(manager)
    loads = manager.snapshot().loads.values()
    size = max_pairs or 4
    assert [len(shown.pairs) for shown in loads] == [min(size, 4 - at) for at in range(0, 4, size)]
    assert [block for shown in loads for _, block in shown.pairs] == loaded
    assert [key for shown in loads for key in shown.keys] == keys[1:]
    assert [shown.first for shown in loads] == list(range(1, 5, size))


@pytest.mark.parametrize("max_pairs", [None, 2])
def test_o2_a_long_load_lets_its_blocks_go_as_loads_of_one_block_each_do(max_pairs):
    """Nobody else holds them, and they have no key: each goes to the head of the queue by itself."""

    def queues(most: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        manager = make(max_pairs=most)
        keys = chain(0, 4)
        bring_to_host(manager, keys)
        flood(manager)
        manager.admit(1, 5)
        manager.look(1, keys, 4)
        load(manager, 1, 4)
        messages = manager.take_messages()
        manager.preempt(1)
        for message in messages:
            assert manager.report(WorkerReport(0, message.id))
        check(manager)
        return manager.snapshot().pool.free, manager.snapshot().host.free

    assert queues(max_pairs) == queues(1)


@pytest.mark.parametrize("leave", ["unpin", "look", "finish", "preempt"])
def test_o5_pins_go_last_first_when(leave):
    manager = make()
    keys = chain(0, 2)
    bring_to_host(manager, keys)
    manager.admit(1, 3)
    manager.look(1, keys, 2)
    if leave == "look":
        manager.look(1, keys, 0)
    elif leave == "finish":
        manager.finish(1, abort=True)
    else:
        getattr(manager, leave)(1)
    assert manager.snapshot().pins == {}
    assert manager.snapshot().host.free == (2, 3, 4, 5, 1, 0)
    check(manager)


def test_o6_a_lookup_starts_behind_the_table_and_ends_below_the_last_token():
    """n tokens leave at most n - 1 to hits and loads together."""
    rig = Rig(device_blocks=9)
    rig.serve(1, range(6))
    rig.manager.finish(1)
    rig.settle()
    flood(rig.manager)
    keys = chain_keys(range(6), BLOCK_TOKENS)
    for tokens, hits, found in [(6, 0, 2), (7, 0, 3), (5, 0, 2), (2, 0, 0)]:
        rig.manager.admit(2, blocks_for(tokens, BLOCK_TOKENS))
        limit = lookup_limit(tokens, BLOCK_TOKENS)
        assert rig.manager.hit(2, keys[: full_blocks(tokens, BLOCK_TOKENS)], limit) == hits
        assert rig.manager.look(2, keys[: full_blocks(tokens, BLOCK_TOKENS)], limit) == found
        rig.manager.preempt(2)
    rig.serve(3, range(2))
    rig.manager.admit(2, 3)
    assert rig.manager.hit(2, keys, 2) == 1
    assert rig.manager.look(2, keys, 2) == 1
    assert list(rig.manager.snapshot().pins[2]) == [1]
    with pytest.raises(RefusedError):
        rig.manager.look(2, keys * 2, 4)


def test_o5_a_lookup_stops_at_the_first_gap():
    manager = make()
    keys = chain(0, 3)
    bring_to_host(manager, keys)
    manager.host.evict(1)
    manager.admit(1, 4)
    assert manager.look(1, keys, 3) == 1


def test_without_caching_nothing_is_looked_for():
    pool = BlockPool(4, caching=False)
    host = BlockPool(4, caching=False, null_block=False)
    manager = OffloadManager(pool, block_tokens=2, host=host)
    manager.admit(1, 2)
    assert manager.look(1, chain(0, 1), 1) == 0
    manager.allocate(1, 2)
    manager.finish(1)
    assert manager.offer_stats.unfiled == 2
    assert manager.pending == 0


def test_o5_a_load_that_does_not_fit_changes_nothing():
    manager = make()
    keys = chain(0, 3)
    bring_to_host(manager, keys)
    flood(manager)
    manager.admit("big", 4)
    manager.allocate("big", 4)
    manager.admit(1, 4)
    manager.look(1, keys, 3)
    before = manager.snapshot()
    assert manager.load(1, 3) is None
    assert manager.snapshot() == before
    assert manager.load(1, 2) is not None


def test_o2_a_block_that_is_being_loaded_cannot_be_written_registered_or_hit():
    rig = Rig()
    rig.serve(1, range(4))
    rig.manager.finish(1)
    rig.settle()
    flood(rig.manager)
    keys = chain_keys(range(4), BLOCK_TOKENS)
    rig.manager.admit(2, 3)
    rig.manager.look(2, keys, 2)
    rig.manager.load(2, 2)
    before = rig.manager.snapshot()
    with pytest.raises(RefusedError):
        rig.manager.register(2, 0, keys[0], None, BLOCK_TOKENS)
    with pytest.raises(RefusedError):
        rig.manager.write(2, 0, 0, 7)
    assert rig.manager.find(keys, 2) == []
    assert rig.manager.snapshot() == before
    rig.settle()
    rig.manager.register(2, 0, keys[0], None, BLOCK_TOKENS)
    rig.manager.register(2, 1, keys[1], keys[0], BLOCK_TOKENS)
    assert rig.serve(3, range(5)) == 2
    assert rig.reads_right(3, range(5))
    assert rig.manager.offer(2, 2) == 2
    assert rig.manager.offer_stats.resident == 2


def given_up_under_a_step(found: int) -> tuple[Rig, int]:
    """A block was given up while a step still writes it, and request 3 has found so many on the host."""
    rig, tokens = Rig(device_blocks=found + 2), range(found * BLOCK_TOKENS)
    rig.serve(1, tokens)
    rig.manager.finish(1)
    rig.settle()
    flood(rig.manager)
    rig.manager.admit(2, 1)
    (block,) = take(rig.manager, 2, 1)
    rig.manager.write(2, 0, 0, 7)
    rig.manager.preempt(2)
    rig.manager.admit(3, found + 1)
    rig.manager.look(3, chain_keys(tokens, BLOCK_TOKENS), found)
    return rig, block


def test_o2_a_load_is_not_sent_while_a_step_still_writes_its_block():
    """The block was given up under the step: what that writes must not land behind what the load copies."""
    rig, block = given_up_under_a_step(found=1)
    assert rig.manager.load(3, 1) == [block]
    assert rig.manager.take_messages() == []
    assert rig.manager.pending == 1
    assert not rig.manager.report(WorkerReport(0, 1)), "nobody was told of it"
    rig.manager.processed(block)
    rig.settle()
    assert rig.reads_right(3, range(2))


def test_o2_a_load_is_not_sent_while_a_step_still_writes_any_of_its_blocks():
    rig, block = given_up_under_a_step(found=2)
    loaded = load(rig.manager, 3, 2)
    assert block in loaded
    assert len(set(loaded)) == 2
    assert rig.manager.take_messages() == []
    rig.manager.processed(block)
    rig.settle()
    assert rig.reads_right(3, range(4))


# O7: reports.
