"""The scheduler's side of asynchronous offload: how transfers end, requests that leave, failures (O7 to O11)."""

import pytest

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.offload.manager import OffloadManager
from kvproof.refimpl.offload.records import OffloadSnapshot
from kvproof.refimpl.offload.transfers import Load, Store, WorkerReport
from kvproof.refimpl.payload import prefix_digests
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.keys import chain_keys
from tests.refimpl.offload_rig import (
    BLOCK_TOKENS,
    DIALECTS,
    Rig,
    bring_to_host,
    chain,
    check,
    copy_all,
    enter,
    flood,
    load,
    load_two,
    make,
    settle,
    take,
)


def test_o7_completions_come_in_any_order():
    manager = make()
    keys = chain(0, 3)
    enter(manager, 1, keys)
    for _ in keys:
        manager.offer(1)
    manager.take_messages()
    for number in (2, 0, 1):
        assert manager.report(WorkerReport(0, number))
        assert manager.host.lookup(keys[number]) is not None
        check(manager)
    assert manager.pending == 0


def test_o7_a_transfer_is_complete_when_all_workers_have_reported():
    rig = Rig(workers=2)
    rig.serve(1, range(4))
    rig.manager.finish(1)
    rig.send()
    for worker in reversed(rig.workers):
        assert rig.on_host(range(4)) == [False, False]
        copy_all(worker, 0)
        worker.finish(0)
        (report,) = worker.poll()
        assert rig.manager.report(report)
    assert rig.on_host(range(4)) == [True, True]
    assert rig.manager.pool.num_free == 6


@pytest.mark.parametrize("kind", ["store", "load"])
def test_o7_stale_repeated_and_unknown_reports_change_nothing(kind):
    manager = make(workers=2)
    keys = chain(0, 2)
    enter(manager, 1, keys)
    manager.offer(1, 2)
    if kind == "load":
        manager.finish(1)
        settle(manager)
        flood(manager)
        manager.admit(2, 3)
        manager.look(2, keys, 2)
        manager.load(2, 2)
    (message,) = manager.take_messages()
    assert manager.report(WorkerReport(1, message.id))
    before = manager.snapshot()
    for report in [
        WorkerReport(1, message.id),
        WorkerReport(1, message.id, ok=False),
        WorkerReport(2, message.id),
        WorkerReport(-1, message.id),
    ]:
        assert not manager.report(report)
    assert not manager.report(WorkerReport(0, message.id + 1))
    assert not manager.report(WorkerReport(0, -1))
    assert manager.snapshot() == before
    assert manager.report(WorkerReport(0, message.id))
    before = manager.snapshot()
    assert before.stores == before.loads == {}
    for worker in (0, 1):
        assert not manager.report(WorkerReport(worker, message.id))
        assert not manager.report(WorkerReport(worker, message.id, ok=False))
    assert manager.snapshot() == before


def test_ids_are_unique_and_increase_over_both_kinds():
    manager = make()
    keys = chain(0, 2)
    bring_to_host(manager, keys)
    flood(manager)
    manager.admit(1, 3)
    manager.look(1, keys, 2)
    manager.load(1, 2)
    enter(manager, 2, chain(100, 1))
    manager.offer(2)
    messages = manager.take_messages()
    assert [type(message) for message in messages] == [Load, Store]
    assert [message.id for message in messages] == [1, 2]
    assert manager.take_messages() == []


# O8: requests leave while transfers run.


@pytest.mark.parametrize("leave", ["finish", "abort", "preempt", "trim"])
@pytest.mark.parametrize("free_order", DIALECTS)
def test_o8_a_request_may_leave_while_its_load_runs(leave, free_order):
    rig = Rig(free_order=free_order)
    rig.serve(1, range(4))
    rig.manager.finish(1)
    rig.settle()
    flood(rig.manager)
    rig.manager.admit(2, 2)
    keys = chain_keys(range(4), BLOCK_TOKENS)
    rig.manager.look(2, keys, 2)
    blocks = load(rig.manager, 2, 2)
    rig.send()
    if leave == "trim":
        rig.manager.trim(2, 2)
    elif leave == "preempt":
        rig.manager.preempt(2)
    else:
        rig.manager.finish(2, abort=leave == "abort")
    check(rig.manager)
    # Nobody can take the blocks, or find them, until the copies are done.
    assert rig.manager.pool.num_free == 4
    rig.serve(3, range(100, 108))
    rig.settle()
    assert rig.reads_right(3, range(100, 108))
    assert sorted(rig.manager.snapshot().pool.free) == sorted(blocks)
    check(rig.manager)


def test_o8_a_request_that_comes_back_is_another_life():
    rig = Rig()
    rig.serve(1, range(4))
    rig.manager.finish(1)
    rig.settle()
    flood(rig.manager)
    keys = chain_keys(range(4), BLOCK_TOKENS)
    rig.manager.admit(2, 3)
    rig.manager.look(2, keys, 2)
    rig.manager.load(2, 2)
    rig.manager.preempt(2)
    rig.manager.admit(2, 3)
    rig.manager.look(2, keys, 2)
    again = load(rig.manager, 2, 2)
    check(rig.manager)
    rig.send()
    rig.workers[0].fail(1)
    assert rig.manager.report(*rig.workers[0].poll())
    assert rig.manager.table(2) == tuple(again)
    rig.settle()
    assert rig.reads_right(2, range(4))


def test_o9_the_blocks_of_the_last_step_are_stored():
    """B10: a request that finishes right after the step that filled its last block; nothing offered it before."""
    rig = Rig()
    rig.serve(1, range(6))
    rig.manager.offer(1, 2)
    rig.manager.finish(1)
    assert [len(message.pairs) for message in rig.send()] == [2, 1]
    rig.settle()
    assert rig.on_host(range(6)) == [True, True, True]


def test_o9_a_request_does_not_finish_while_a_step_writes_for_it():
    rig = Rig()
    rig.serve(1, range(4), processed=False)
    rig.manager.processed(1)
    before = rig.manager.snapshot()
    with pytest.raises(RefusedError):
        rig.manager.finish(1)
    assert rig.manager.snapshot() == before
    rig.manager.finish(1, abort=True)
    assert rig.manager.offer_stats.stored == 1
    rig.manager.processed(2)
    rig.settle()
    assert rig.on_host(range(4)) == [True, False]
    check(rig.manager)


def test_o9_a_request_that_may_not_finish_is_not_flushed():
    manager = make()
    manager.admit(1, 3)
    manager.allocate(1, 2)
    manager.register(1, 0, b"key", None, BLOCK_TOKENS)
    before = manager.snapshot()
    with pytest.raises(RefusedError):
        manager.finish(1)
    assert manager.snapshot() == before


# O10: reset.


@pytest.mark.parametrize("holder", ["store", "load", "pin", "table"])
def test_o10_reset_is_refused_while_anything_is_referenced_and_works_when_retried(holder):
    manager = make()
    keys = chain(0, 2)
    enter(manager, 1, keys)
    if holder != "table":
        manager.finish(1)
    if holder in ("load", "pin"):
        settle(manager)
        manager.admit(2, 3)
        manager.look(2, keys, 2)
    if holder == "load":
        flood(manager)
        manager.load(2, 2)
        manager.preempt(2)
    before = manager.snapshot()
    assert not manager.reset()
    assert manager.snapshot() == before
    if holder == "pin":
        manager.unpin(2)
    if holder == "table":
        manager.finish(1)
    settle(manager)
    assert manager.reset()
    after = manager.snapshot()
    assert not any((after.pool.keys, after.pool.copies, after.host.keys, after.host.copies))


def test_o10_a_scan_begins_at_the_head_again_after_a_reset():
    manager = make(lazy=True)
    enter(manager, 1, chain(0, 1))
    manager.finish(1)
    manager.scan(9)
    settle(manager)
    manager.scan(9)
    assert manager.snapshot().cursor is not None
    free = manager.snapshot().pool.free
    assert manager.reset()
    assert manager.snapshot().cursor is None
    assert manager.scan(2) == 0
    assert manager.snapshot().cursor == free[1]


# O11: failures.


@pytest.mark.parametrize("free_order", DIALECTS)
def test_o11_a_failed_load_leaves_the_table_as_it_was_and_the_request_recomputes(free_order):
    rig = Rig(free_order=free_order)
    load_two(rig, extra=1)
    rig.workers[0].copy(1, 0, 1)
    rig.workers[0].fail(1)
    before, pairs = rig.manager.table(2), rig.manager.snapshot().loads[1].pairs
    assert rig.manager.num_external(2) == 2
    assert rig.manager.report(*rig.workers[0].poll())
    assert rig.manager.table(2) == before[:1]
    assert rig.manager.num_external(2) == 0
    check(rig.manager)
    # Block by block from the last, each with what stands behind it in the table: three of them went, in two calls.
    free = rig.manager.snapshot().pool.free
    if free_order == "append":
        assert free[-3:] == (before[3], before[2], before[1])
    else:
        assert free[:3] == (before[1], before[3], before[2])
    assert rig.manager.snapshot().host.free[-2:] == tuple(host_block for host_block, _ in pairs[::-1])
    assert rig.on_host(range(6)) == [True, True, True]
    tokens = range(7)
    assert rig.manager.allocate(2, 3) is not None
    rig.compute(2, chain_keys(tokens, BLOCK_TOKENS), prefix_digests(tokens), 1)
    rig.manager.processed_run(2, 1)
    assert rig.reads_right(2, tokens)
    rig.manager.finish(2)
    rig.manager.finish(1)
    rig.settle()
    assert rig.manager.reset()


def test_o11_a_load_that_fails_for_part_of_a_table():
    rig = Rig()
    load_two(rig)
    rig.manager.trim(2, 1)
    rig.workers[0].fail(1)
    assert rig.manager.report(*rig.workers[0].poll())
    assert rig.manager.num_positions(2) == 1
    check(rig.manager)


def test_o11_a_failed_load_of_a_request_that_is_gone():
    rig = Rig()
    load_two(rig)
    rig.manager.preempt(2)
    rig.workers[0].fail(1)
    assert rig.manager.report(*rig.workers[0].poll())
    check(rig.manager)
    assert rig.manager.pool.num_free == 5


def test_a_failed_store_can_be_found_by_nobody_and_lets_both_blocks_go():
    rig = Rig()
    rig.serve(1, range(4))
    rig.manager.finish(1)
    rig.send()
    rig.workers[0].copy(0, 0, 0)
    rig.workers[0].fail(0)
    assert rig.manager.report(*rig.workers[0].poll())
    assert rig.on_host(range(4)) == [False, False]
    check(rig.manager)
    assert rig.manager.pool.num_free == 6
    # Both were let go one by one: the host's, without keys, went to the head each.
    assert rig.manager.snapshot().host.free[:2] == (1, 0)
    # It may be tried again.
    rig.serve(2, range(5))
    rig.manager.finish(2)
    rig.settle()
    assert rig.on_host(range(4)) == [True, True]


@pytest.mark.parametrize("kind", ["store", "load"])
def test_o8_a_failed_transfer_ends_when_the_last_worker_has_let_go(kind):
    """One worker has failed, the other still copies: until it reports, the blocks are nobody else's."""
    rig = Rig(workers=2)
    if kind == "load":
        blocks = load_two(rig)
    else:
        rig.serve(1, range(4))
        rig.manager.finish(1)
        rig.send()
        blocks = [1, 2]
    (transfer,) = rig.workers[0].jobs
    rig.workers[0].fail(transfer)
    assert rig.manager.report(*rig.workers[0].poll())
    assert rig.manager.pending == 1
    check(rig.manager)
    if kind == "load":
        rig.manager.preempt(2)
    taken = rig.manager.pool.num_free
    rig.manager.admit(3, taken)
    assert not set(take(rig.manager, 3, taken)) & set(blocks)
    copy_all(rig.workers[1], transfer)
    rig.workers[1].finish(transfer)
    assert rig.manager.report(*rig.workers[1].poll())
    assert rig.manager.pending == 0
    assert kind == "load" or rig.on_host(range(4)) == [False, False]
    assert sorted(rig.manager.snapshot().pool.free) == sorted(blocks)
    check(rig.manager)


# Illegal calls.


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.offer("nobody"),
        lambda manager: manager.offer("in", -1),
        lambda manager: manager.scan(1),
        lambda manager: manager.look("nobody", [], 0),
        lambda manager: manager.look("in", [b"k"] * 9, 9),
        lambda manager: manager.look("in", [b"k"], -1),
        lambda manager: manager.unpin("in"),
        lambda manager: manager.unpin("nobody"),
        lambda manager: manager.load("in", 1),
        lambda manager: manager.load("pinned", 0),
        lambda manager: manager.load("pinned", 3),
        lambda manager: manager.load("nobody", 1),
        lambda manager: manager.processed(1),
        lambda manager: manager.processed(-1),
        lambda manager: manager.processed_run("in", -1),
        lambda manager: manager.processed_run("nobody"),
        lambda manager: manager.finish("in"),
        lambda manager: manager.finish("nobody", abort=True),
        lambda manager: manager.preempt("nobody"),
        lambda manager: manager.trim("in", 9),
        lambda manager: manager.admit("in", 1),
        lambda manager: manager.register("in", 7, b"k", None, 1),
        lambda manager: manager.num_pinned("nobody"),
    ],
)
def test_illegal_calls_are_refused_and_change_nothing(call):
    manager = make()
    bring_to_host(manager, chain(0, 2))
    manager.admit("in", 3)
    manager.allocate("in", 2)
    manager.admit("pinned", 3)
    manager.look("pinned", chain(0, 2), 2)
    before = manager.snapshot()
    with pytest.raises(RefusedError):
        call(manager)
    assert manager.snapshot() == before


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"host": BlockPool(4)},
        {"host": BlockPool(4, null_block=False, free_order="append")},
        {"host": BlockPool(4, null_block=False, caching=False)},
    ],
)
def test_a_manager_that_cannot_work_is_refused(options):
    with pytest.raises(RefusedError):
        OffloadManager(BlockPool(4), block_tokens=2, **{"host": BlockPool(4, null_block=False), **options})


def test_pins_are_for_positions_of_the_table_as_it_was():
    """A table that grew takes what is pinned from there on; one that shrank has no pins where it ends."""
    manager = make()
    keys = chain(0, 3)
    bring_to_host(manager, keys)
    flood(manager)
    manager.admit(1, 4)
    manager.look(1, keys, 3)
    manager.allocate(1, 1)
    blocks = load(manager, 1, 2)
    assert manager.snapshot().loads[1].pairs == tuple(enumerate(blocks, 1))
    check(manager)
    manager.preempt(1)
    settle(manager)
    manager.admit(1, 4)
    manager.allocate(1, 1)
    manager.look(1, keys, 3)
    manager.trim(1, 1)
    with pytest.raises(RefusedError):
        manager.load(1, 1)


def test_the_device_side_alone_is_what_a_plain_manager_shows():
    manager = make()
    enter(manager, 1, chain(0, 2))
    shown = manager.snapshot()
    assert isinstance(shown, OffloadSnapshot)
    assert shown.device.tables == {1: (1, 2)}
    assert shown.filed == {1: tuple(chain(0, 2))}


def test_o9_a_window_drop_forgets_what_was_filed():
    manager = make()
    enter(manager, 1, chain(0, 3))
    assert manager.drop(1, 2) == [2, 1]
    assert manager.snapshot().filed[1] == (None, None, chain(0, 3)[2])
    manager.finish(1)
    assert manager.offer_stats.unfiled == 2
    check(manager)


def test_o11_what_a_window_left_behind_does_not_count_as_loaded_any_more():
    rig = Rig()
    load_two(rig)
    rig.settle()
    assert rig.manager.num_external(2) == 2
    rig.manager.drop(2, 2)
    assert rig.manager.num_external(2) == 1
    assert rig.manager.snapshot().external[2] == 1
    rig.manager.drop(2, 3)
    assert rig.manager.num_external(2) == 0


# All rules at once.
