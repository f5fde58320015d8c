"""The scheduler's side of asynchronous offload: O1 to O11, rule by rule, with real payload where content matters."""

import random

import pytest

from kvproof.refimpl.block_pool import NULL_BLOCK, BlockPool
from kvproof.refimpl.blocks import blocks_for, full_blocks, lookup_limit
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import BlockRemoved, BlockStored
from kvproof.refimpl.keys import chain_keys
from kvproof.refimpl.offload import OffloadManager, OffloadSnapshot
from kvproof.refimpl.offload_worker import SteppedWorker, split_layers
from kvproof.refimpl.payload import Payload, prefix_digests
from kvproof.refimpl.transfers import Load, Message, Report, Store

BLOCK_TOKENS = 2
DIALECTS = ["append", "split"]


def make(device_blocks: int = 7, host_blocks: int = 6, free_order="split", **options) -> OffloadManager:
    """A manager over six usable device blocks, by default, that keeps no payload."""
    return OffloadManager(
        BlockPool(device_blocks, free_order=free_order),
        block_tokens=BLOCK_TOKENS,
        host=BlockPool(host_blocks, null_block=False, free_order=free_order),
        **options,
    )


class Rig:
    """A manager, the payload of both tiers, and workers that copy when they are told."""

    def __init__(self, device_blocks: int = 7, host_blocks: int = 6, workers: int = 1, **options) -> None:
        self.device = Payload(device_blocks, BLOCK_TOKENS, layers=2, heads=1, head_dim=4)
        self.host = Payload(host_blocks, BLOCK_TOKENS, layers=2, heads=1, head_dim=4)
        self.manager = make(device_blocks, host_blocks, payload=self.device, workers=workers, **options)
        parts = zip(split_layers(self.device.data, workers), split_layers(self.host.data, workers), strict=True)
        self.workers = [SteppedWorker(index, here, there) for index, (here, there) in enumerate(parts)]

    def send(self) -> list[Message]:
        messages = self.manager.take_messages()
        for worker in self.workers:
            worker.submit(messages)
        return messages

    def settle(self) -> None:
        """Let everything in flight end well."""
        self.send()
        for worker in self.workers:
            for transfer in worker.jobs:
                copy_all(worker, transfer)
                worker.finish(transfer)
            for report in worker.poll():
                assert self.manager.report(report)

    def serve(self, name, tokens, *, processed: bool = True) -> int:
        """Admit a request, take device hits and room, compute and register the rest; return the hits."""
        manager, keys, digests = self.manager, chain_keys(tokens, BLOCK_TOKENS), prefix_digests(tokens)
        positions = blocks_for(len(tokens), BLOCK_TOKENS)
        assert manager.admit(name, positions)
        hits = manager.hit(name, keys, min(lookup_limit(len(tokens), BLOCK_TOKENS), len(keys)))
        assert manager.allocate(name, positions - hits) is not None
        self.compute(name, keys, digests, hits)
        if processed:
            manager.processed_run(name, hits)
        return hits

    def compute(self, name, keys, digests, start: int) -> None:
        self.manager.write_run(name, start * BLOCK_TOKENS, digests[start * BLOCK_TOKENS :])
        for position in range(start, len(keys)):
            parent = keys[position - 1] if position else None
            self.manager.register(name, position, keys[position], parent, BLOCK_TOKENS)

    def reads_right(self, name, tokens) -> bool:
        """Whether every token of a request, read through its table, is its own (P6)."""
        table, count = self.manager.table(name), len(tokens)
        blocks = [table[token // BLOCK_TOKENS] for token in range(count)]
        slots = [token % BLOCK_TOKENS for token in range(count)]
        return self.device.mismatches(blocks, slots, prefix_digests(tokens)) == []

    def on_host(self, tokens) -> list[bool]:
        """For each full block of these tokens: whether the host finds it, and it is right."""
        digests = prefix_digests(tokens).tolist()
        answers = []
        for position, key in enumerate(chain_keys(tokens, BLOCK_TOKENS)):
            block = self.manager.host.lookup(key)
            first = position * BLOCK_TOKENS
            answers.append(
                block is not None
                and all(self.host.matches(block, slot, digests[first + slot]) for slot in range(BLOCK_TOKENS))
            )
        return answers


def copy_all(worker: SteppedWorker, transfer: int) -> None:
    for pair, slot in worker.uncopied(transfer):
        worker.copy(transfer, pair, slot)


def enter(manager: OffloadManager, name, keys) -> int:
    """Admit a request for these full blocks, take hits and room, register the rest; return the hits."""
    assert manager.admit(name, len(keys))
    hits = manager.hit(name, keys, len(keys))
    assert manager.allocate(name, len(keys) - hits) is not None
    for position in range(hits, len(keys)):
        manager.register(name, position, keys[position], keys[position - 1] if position else None, BLOCK_TOKENS)
    return hits


def bring_to_host(manager: OffloadManager, keys) -> None:
    """Store these blocks, and let no request hold them."""
    enter(manager, "storer", keys)
    manager.finish("storer")
    settle(manager)


def settle(manager: OffloadManager) -> None:
    for message in manager.take_messages():
        for worker in range(manager.workers):
            assert manager.report(Report(worker, message.id))


def flood(manager: OffloadManager) -> None:
    """Take every free device block for nothing, so that the device forgets all of them."""
    free = manager.pool.num_free
    manager.admit("flood", free)
    manager.allocate("flood", free)
    manager.preempt("flood")


def load(manager: OffloadManager, name, n: int) -> list[int]:
    """Load what is pinned; there must be room."""
    blocks = manager.load(name, n)
    assert blocks is not None
    return blocks


def take(manager: OffloadManager, name, n: int) -> list[int]:
    """Take fresh blocks; there must be room."""
    blocks = manager.allocate(name, n)
    assert blocks is not None
    return blocks


def chain(first: int, blocks: int) -> list[bytes]:
    return chain_keys(range(first, first + blocks * BLOCK_TOKENS), BLOCK_TOKENS)


def check(manager: OffloadManager) -> None:
    """O1 and O2 as far as one state shows them: on each tier, counts are holders, and free is unreferenced (P1-P3)."""
    shown = manager.snapshot()
    transfers = [*shown.stores.values(), *shown.loads.values()]
    device = [block for table in shown.tables.values() for block in table if block != NULL_BLOCK]
    device += [pair[0] for store in shown.stores.values() for pair in store.pairs]
    device += [pair[1] for load in shown.loads.values() for pair in load.pairs]
    host = [block for pins in shown.pins.values() for block in pins.values()]
    host += [pair[1] for store in shown.stores.values() for pair in store.pairs]
    host += [pair[0] for load in shown.loads.values() for pair in load.pairs]
    for pool, holds, blocks in [
        (shown.pool, device, range(1, manager.pool.num_blocks)),
        (shown.host, host, range(manager.host.num_blocks)),
    ]:
        assert sorted([*pool.free, *set(holds)]) == list(blocks)
        assert len(pool.free) == pool.num_free
        assert all(pool.ref_cnt[block] == holds.count(block) for block in blocks)
    written = [pair[1] for store in shown.stores.values() for pair in store.pairs]
    assert len(set(written)) == len(written)
    assert not set(written) & set(shown.host.keys)
    loaded = [pair[1] for load in shown.loads.values() for pair in load.pairs]
    assert len(set(loaded)) == len(loaded)
    assert not set(loaded) & set(shown.pool.keys)
    stored = [
        (pair[0], key) for store in shown.stores.values() for pair, key in zip(store.pairs, store.keys, strict=True)
    ]
    assert len(set(stored)) == len(stored), "O3"
    assert manager.pending == len(transfers)
    assert all(0 <= shown.offered[name] <= len(table) for name, table in shown.tables.items())


# O1, O2: stores.


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
    assert manager.report(Report(0, 0))
    assert [manager.host.lookup(key) for key in keys] == [0, 1]
    assert manager.snapshot().host.free == (2, 3, 4, 5, 0, 1)
    assert manager.snapshot().pool.free == (3, 4, 5, 6, 1, 2)
    assert manager.host.take_events() == [BlockStored(key, None, block) for block, key in enumerate(keys)]
    check(manager)


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
    assert manager.report(Report(0, 1))
    assert not manager.is_loading(1)
    assert [manager.pool.ref_cnt(block) for block in blocks] == [1, 1]
    check(manager)


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


def test_o2_a_load_is_not_sent_while_a_step_still_writes_its_block():
    """The block was given up under the step: what that writes must not land behind what the load copies."""
    rig = Rig(device_blocks=3)
    rig.serve(1, range(2))
    rig.manager.finish(1)
    rig.settle()
    flood(rig.manager)
    rig.manager.admit(2, 1)
    (block,) = take(rig.manager, 2, 1)
    rig.manager.write(2, 0, 0, 7)
    rig.manager.preempt(2)
    rig.manager.admit(3, 2)
    rig.manager.look(3, chain_keys(range(2), BLOCK_TOKENS), 1)
    assert rig.manager.load(3, 1) == [block]
    assert rig.manager.take_messages() == []
    assert rig.manager.pending == 1
    assert not rig.manager.report(Report(0, 1)), "nobody was told of it"
    rig.manager.processed(block)
    rig.settle()
    assert rig.reads_right(3, range(2))


# O7: reports.


def test_o7_completions_come_in_any_order():
    manager = make()
    keys = chain(0, 3)
    enter(manager, 1, keys)
    for _ in keys:
        manager.offer(1)
    manager.take_messages()
    for number in (2, 0, 1):
        assert manager.report(Report(0, number))
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
    assert manager.report(Report(1, message.id))
    before = manager.snapshot()
    for report in [
        Report(1, message.id),
        Report(1, message.id, ok=False),
        Report(2, message.id),
        Report(-1, message.id),
    ]:
        assert not manager.report(report)
    assert not manager.report(Report(0, message.id + 1))
    assert not manager.report(Report(0, -1))
    assert manager.snapshot() == before
    assert manager.report(Report(0, message.id))
    before = manager.snapshot()
    assert before.stores == before.loads == {}
    for worker in (0, 1):
        assert not manager.report(Report(worker, message.id))
        assert not manager.report(Report(worker, message.id, ok=False))
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


# O11: failures.


def load_two(rig: Rig, extra: int = 0) -> list[int]:
    """Let request 2 hit a block, load two and have room for some more; return what is loaded to."""
    rig.serve(1, range(6))
    rig.manager.finish(1)
    rig.settle()
    flood(rig.manager)
    rig.serve(1, range(2))
    keys = chain_keys(range(6), BLOCK_TOKENS)
    rig.manager.admit(2, 4)
    assert rig.manager.hit(2, keys, 3) == 1
    assert rig.manager.look(2, keys, 3) == 2
    blocks = load(rig.manager, 2, 2)
    assert rig.manager.allocate(2, extra) is not None
    rig.send()
    return blocks


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


# All rules at once.


class Chaos(Rig):
    """Random legal steps on a tiny system; after each, what must hold is looked at from outside."""

    def __init__(self, seed: int, **options) -> None:
        super().__init__(**options)
        self.rng = random.Random(seed)
        self.tokens: dict[int, list[int]] = {}
        self.names = 0
        self.failures = True
        self.known: dict[int, int] = {}
        """How many positions of a request, from the first, have content that it relies on."""
        self.full_before: dict[int, int] = {}
        """How many offers had met a full host when a request came in."""
        self.met: set[bytes] = set()
        """What the host has, had, or is to get."""

    def step(self) -> None:
        rng, manager = self.rng, self.manager
        inside = [name for name in self.tokens if manager.is_inside(name)]
        choice = rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 8, 9])
        if choice == 0 and len(self.tokens) < 3:
            self.names += 1
            self.tokens[self.names] = [rng.randrange(2) for _ in range(rng.choice([1, 3, 5, 7, 8, 8]))]
        elif choice == 1:
            for name in self.tokens:
                if name not in inside:
                    manager.admit(name, blocks_for(len(self.tokens[name]), BLOCK_TOKENS))
                    self.hit(name)
        elif choice in (2, 3) and inside:
            self.grow(rng.choice(inside))
        elif choice == 4 and inside:
            self.compute_one(rng.choice(inside))
        elif choice == 5:
            for block in [*manager.snapshot().computing]:
                if rng.random() < 0.7:
                    manager.processed(block)
        elif choice == 6 and not manager.lazy and inside:
            manager.offer(rng.choice(inside), rng.randrange(4))
        elif choice == 6 and manager.lazy:
            self.scan()
        elif choice == 7 and inside:
            self.leave(rng.choice(inside))
        elif choice == 8:
            self.work()
        elif choice == 9 and rng.random() < 0.3:
            flood(manager)
        elif choice == 9 and rng.random() < 0.1:
            manager.evict(rng.randrange(1, manager.pool.num_blocks))

    def hit(self, name) -> None:
        tokens = self.tokens[name]
        hits = self.manager.hit(name, chain_keys(tokens, BLOCK_TOKENS), lookup_limit(len(tokens), BLOCK_TOKENS))
        self.known[name] = hits
        self.full_before[name] = self.manager.offer_stats.host_full

    def grow(self, name) -> None:
        tokens, manager = self.tokens[name], self.manager
        keys = chain_keys(tokens, BLOCK_TOKENS)
        length = manager.num_positions(name)
        if length == self.known[name] and not manager.is_loading(name):
            found = manager.look(name, keys, max(length, lookup_limit(len(tokens), BLOCK_TOKENS)))
            if found and self.rng.random() < 0.9 and manager.load(name, self.rng.randint(1, found)):
                return
        if length < manager.need(name):
            manager.allocate(name, 1)

    def settle_loads(self) -> None:
        """After reports: what was loaded is relied on, and registered."""
        for name, tokens in self.tokens.items():
            if not self.manager.is_inside(name) or self.manager.is_loading(name):
                continue
            keys = chain_keys(tokens, BLOCK_TOKENS)
            table, external = self.manager.table(name), self.manager.snapshot().external[name]
            while external and self.known[name] < len(table) and self.is_external(name, self.known[name]):
                position = self.known[name]
                parent = keys[position - 1] if position else None
                if position == 0 or parent in self.manager.pool.keys_of(table[position - 1]):
                    self.manager.register(name, position, keys[position], parent, BLOCK_TOKENS)
                self.known[name] += 1

    def is_external(self, name, position) -> bool:
        return position in self.manager._tiers[name].external

    def compute_one(self, name) -> None:
        tokens, position = self.tokens[name], self.known[name]
        if position >= self.manager.num_positions(name) or self.manager.is_loading(name):
            return
        first = position * BLOCK_TOKENS
        digests = prefix_digests(tokens)[first : first + BLOCK_TOKENS]
        self.manager.write_run(name, first, digests)
        keys = chain_keys(tokens, BLOCK_TOKENS)
        parent = keys[position - 1] if position else None
        if position < len(keys):
            self.manager.register(name, position, keys[position], parent, BLOCK_TOKENS)
        self.known[name] += 1

    def scan(self) -> None:
        manager = self.manager
        before = manager.snapshot()
        worth = [block for block in before.pool.free if manager._worth_storing(block) is not None]
        manager.scan(self.rng.randrange(1, 7))
        begun = [number for number in manager.snapshot().stores if number not in before.stores]
        stored = [pair[0] for number in begun for pair in manager.snapshot().stores[number].pairs]
        assert stored[:1] == worth[: len(stored[:1])], "the first that is worth it"
        assert stored == worth[: len(stored)] or len(before.host.free) < manager.host.num_blocks or before.host.keys

    def leave(self, name) -> None:
        manager = self.manager
        computing = manager.snapshot().computing
        table = manager.table(name)
        is_done = self.known[name] == manager.need(name) and not computing.intersection(table)
        if is_done and not manager.is_loading(name):
            carried = [key for block in table for key in manager.pool.keys_of(block)]
            filed = [key for key in manager.snapshot().filed[name] if key in carried]
            manager.finish(name)
            self.note_what_the_host_met()
            assert manager.lazy or manager.offer_stats.host_full > self.full_before[name] or self.met >= set(filed), (
                "O9"
            )
            del self.tokens[name]
        elif self.rng.random() < 0.3:
            manager.preempt(name)
        elif self.rng.random() < 0.1:
            manager.finish(name, abort=True)
            del self.tokens[name]

    def note_what_the_host_met(self) -> None:
        shown = self.manager.snapshot()
        self.met.update(shown.host.copies, *(store.keys for store in shown.stores.values()))

    def work(self) -> None:
        """Send, copy some, finish or fail some, deliver in any order, some twice."""
        self.send()
        reports = []
        for worker in self.workers:
            for transfer in worker.jobs:
                left = list(worker.uncopied(transfer))
                for pair, slot in self.rng.sample(left, self.rng.randint(0, len(left))):
                    worker.copy(transfer, pair, slot)
                if self.failures and self.rng.random() < 0.05:
                    worker.fail(transfer)
                elif not worker.uncopied(transfer):
                    worker.finish(transfer)
            reports += worker.poll()
        self.rng.shuffle(reports)
        for report in reports:
            assert self.manager.report(report)
            assert not self.manager.report(report)
            for name in self.tokens:
                if self.manager.is_inside(name):
                    self.known[name] = min(self.known[name], self.manager.num_positions(name))
            self.settle_loads()

    def settle_all(self) -> None:
        """L2: with nobody inside, transfers end by themselves."""
        self.failures = False
        for _ in range(1000):
            if not self.manager.pending:
                return
            self.work()
        raise AssertionError("a transfer never ends")

    def verify(self) -> None:
        check(self.manager)
        self.note_what_the_host_met()
        device, host = self.manager.snapshot().pool, self.manager.snapshot().host
        for payload, pool in [(self.device, device), (self.host, host)]:
            for block, keys in pool.keys.items():
                for key in keys:
                    digests = CONTENT.get(key)
                    assert digests is not None
                    assert all(payload.matches(block, slot, digest) for slot, digest in enumerate(digests)), "P6"


CONTENT: dict[bytes, list[int]] = {}
"""For each key of at most eight binary tokens: the digests of its block's tokens."""

for length in range(BLOCK_TOKENS, 9, BLOCK_TOKENS):
    for number in range(2**length):
        bits = [number >> index & 1 for index in range(length)]
        CONTENT[chain_keys(bits, BLOCK_TOKENS)[-1]] = prefix_digests(bits).tolist()[-BLOCK_TOKENS:]


@pytest.mark.parametrize("seed", range(12))
def test_all_rules_hold_through_random_steps(seed):
    rng = random.Random(seed)
    chaos = Chaos(
        seed,
        device_blocks=rng.randint(6, 9),
        host_blocks=rng.randint(1, 8),
        workers=rng.randint(1, 2),
        lazy=seed % 2 == 1,
        free_order=rng.choice(DIALECTS),
    )
    for _ in range(600):
        chaos.step()
        chaos.verify()
    for name in list(chaos.tokens):
        if chaos.manager.is_inside(name):
            chaos.manager.finish(name, abort=True)
    for block in chaos.manager.snapshot().computing:
        chaos.manager.processed(block)
    chaos.settle_all()
    assert chaos.manager.reset()
