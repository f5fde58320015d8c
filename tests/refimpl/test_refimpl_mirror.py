"""The host tier and the manager in front of it: M1 to M8, sentence by sentence, with real payload on both sides."""

import random
from collections import OrderedDict
from fractions import Fraction
from math import inf, nan

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.refimpl.attention import dense_attention, paged_attention
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import BlockRemoved, BlockStored
from kvproof.refimpl.payload import Payload, prefix_digests
from kvproof.refimpl.pool.block_pool import NULL_BLOCK, BlockPool
from kvproof.refimpl.pool.blocks import blocks_for, lookup_limit
from kvproof.refimpl.pool.keys import chain_keys
from kvproof.refimpl.pool.manager import KVCacheManager, ManagerSnapshot, PrefixCacheStats
from kvproof.refimpl.pool.pinned_pool import PinnedPool
from kvproof.refimpl.pool.request_flow import RequestFlow
from kvproof.refimpl.tiers.host_tier import HostTier
from kvproof.refimpl.tiers.mirror import MirrorManager, MirrorSnapshot

BLOCK_TOKENS = 4
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
    ),
]


def content(num_blocks: int, **options) -> Payload:
    return Payload(num_blocks, BLOCK_TOKENS, layers=2, heads=1, head_dim=4, **options)


def make(num_blocks: int = 6, capacity: int = 8, pool: BlockPool | None = None, **options) -> MirrorManager:
    """A manager that keeps no payload."""
    pool = pool or BlockPool(num_blocks)
    return MirrorManager(pool, block_tokens=BLOCK_TOKENS, host=HostTier(capacity), **options)


def make_real(num_blocks: int = 6, capacity: int = 8, device: str = "cpu") -> MirrorManager:
    """A manager that keeps payload in both tiers."""
    host = HostTier(capacity, payload=content(capacity, pin_memory=device == "cuda"))
    payload = content(num_blocks, device=device)
    return MirrorManager(BlockPool(num_blocks), block_tokens=BLOCK_TOKENS, host=host, payload=payload)


def payloads(manager: MirrorManager) -> tuple[Payload, Payload]:
    """Of the device and of the host, with everything that was queued done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    assert manager.payload is not None
    assert manager.host.payload is not None
    return manager.payload, manager.host.payload


def enter(manager: KVCacheManager, name, keys, limit=None) -> int:
    """Admit a request for these blocks, take hits and room, register all of it; return the hits."""
    assert manager.admit(name, len(keys))
    hits = manager.hit(name, keys, len(keys) if limit is None else limit)
    assert manager.allocate(name, len(keys) - hits) is not None
    for position in range(hits, len(keys)):
        parent = keys[position - 1] if position else None
        manager.register(name, position, keys[position], parent, BLOCK_TOKENS)
    return hits


def serve(manager: KVCacheManager, name, tokens) -> int:
    """Do the same for tokens, up to P14's limit, and write their KV."""
    keys, digests = chain_keys(tokens, BLOCK_TOKENS), prefix_digests(tokens)
    positions = blocks_for(len(tokens), BLOCK_TOKENS)
    assert manager.admit(name, positions)
    hits = manager.hit(name, keys, min(lookup_limit(len(tokens), BLOCK_TOKENS), len(keys)))
    assert manager.allocate(name, positions - hits) is not None
    manager.write_run(name, hits * BLOCK_TOKENS, digests[hits * BLOCK_TOKENS :])
    for position in range(hits, len(keys)):
        parent = keys[position - 1] if position else None
        manager.register(name, position, keys[position], parent, BLOCK_TOKENS)
    return hits


def reads_right(manager: MirrorManager, name, tokens) -> bool:
    """Whether every token of a request, read through its table, is its own."""
    table, (device, _) = manager.table(name), payloads(manager)
    blocks = [table[token // BLOCK_TOKENS] for token in range(len(tokens))]
    slots = [token % BLOCK_TOKENS for token in range(len(tokens))]
    return device.mismatches(blocks, slots, prefix_digests(tokens)) == []


def on_host(manager: MirrorManager, key: bytes, digests) -> bool:
    """Whether the host slot of ``key`` holds the tokens with these digests."""
    slot, (_, host) = manager.host.slot(key), payloads(manager)
    return all(host.matches(slot, index, digest) for index, digest in enumerate(digests.tolist()))


def forget_on_device(manager: MirrorManager) -> None:
    """Evict every free block by a request that uses them all for nothing."""
    manager.admit("flood", manager.pool.num_free)
    manager.allocate("flood", manager.pool.num_free)
    manager.finish("flood")


def conserved(manager: MirrorManager) -> bool:
    """P1 to P3, from the walked links, the counts and the tables, each on its own."""
    snapshot = manager.snapshot()
    holds = [block for table in snapshot.tables.values() for block in table if block != NULL_BLOCK]
    everything = sorted([*snapshot.pool.free, *set(holds)])
    counts = tuple(holds.count(block) for block in range(len(snapshot.pool.ref_cnt)))
    return (
        everything == list(range(1, len(counts)))
        and len(snapshot.pool.free) == snapshot.pool.num_free
        and snapshot.pool.ref_cnt == counts
    )


# The host tier.


def test_m3_a_full_host_evicts_what_was_used_least_recently():
    host = HostTier(2)
    first = host.store(b"a")
    second = host.store(b"b")
    assert (sorted([first, second]), host.keys(), len(host), host.evictions) == ([0, 1], (b"a", b"b"), 2, 0)
    host.touch(b"a")
    assert host.keys() == (b"b", b"a")
    assert host.store(b"c") == second
    assert (host.keys(), host.evictions, host.stored, len(host)) == ((b"a", b"c"), 1, 3, 2)
    assert b"b" not in host
    assert (host.slot(b"a"), host.slot(b"c")) == (first, second)


def test_asking_the_host_is_no_use_of_a_block():
    host = HostTier(2)
    host.store(b"a")
    host.store(b"b")
    assert b"a" in host
    host.slot(b"a")
    host.keys()
    host.store(b"c")
    assert host.keys() == (b"b", b"c")


def test_a_cleared_host_has_room_for_all_again():
    host = HostTier(3)
    for key in (b"a", b"b", b"c", b"d"):
        host.store(key)
    host.clear()
    assert (len(host), host.keys(), b"d" in host, host.stored, host.evictions) == (0, (), False, 4, 1)
    assert {host.store(key) for key in (b"a", b"b", b"d")} == {0, 1, 2}
    assert host.evictions == 1


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda host: host.store(b"a"), id="store what is there"),
        pytest.param(lambda host: host.touch(b"x"), id="touch what is not there"),
        pytest.param(lambda host: host.slot(b"x"), id="ask where it is not"),
        pytest.param(lambda host: host.slot(b"gone"), id="ask for what was evicted"),
        pytest.param(lambda host: host.slot(b""), id="the empty key is no key of an unused slot"),
    ],
)
def test_an_illegal_call_to_the_host_changes_nothing(call):
    host = HostTier(2)
    for key in (b"gone", b"a", b"b"):
        host.store(key)
    before = (host.keys(), len(host), host.stored, host.evictions, host.slot(b"a"), host.slot(b"b"))
    with pytest.raises(RefusedError):
        call(host)
    assert (host.keys(), len(host), host.stored, host.evictions, host.slot(b"a"), host.slot(b"b")) == before


def test_m3_a_host_without_capacity_is_refused():
    for capacity in (0, -1):
        with pytest.raises(RefusedError):
            HostTier(capacity)
    with pytest.raises(RefusedError):
        HostTier(3, payload=content(4))
    assert HostTier(3, payload=content(3)).capacity == 3


HOST_STEPS = st.lists(
    st.tuples(st.sampled_from(["store", "store", "touch", "clear"]), st.integers(0, 6).map(lambda n: b"%d" % n)),
    max_size=40,
)


@given(st.integers(1, 4), HOST_STEPS)
@settings(max_examples=150, deadline=None)
def test_the_host_is_an_ordered_dictionary(capacity, steps):
    host, model, evictions = HostTier(capacity), OrderedDict[bytes, int](), 0
    for operation, key in steps:
        if operation == "clear":
            host.clear()
            model.clear()
        elif (operation == "store") == (key in model):
            with pytest.raises(RefusedError):
                getattr(host, operation)(key)
        elif operation == "touch":
            host.touch(key)
            model.move_to_end(key)
        else:
            if len(model) == capacity:
                model.popitem(last=False)
                evictions += 1
            model[key] = host.store(key)
        assert host.keys() == tuple(model)
        assert len(host) == len(model) <= capacity
        assert {key: host.slot(key) for key in model} == model
        assert len(set(model.values())) == len(model)
        assert all(0 <= slot < capacity for slot in model.values())
        assert host.evictions == evictions


# What is accepted.


def test_m7_what_means_nothing_is_refused():
    for options in (
        {"base_latency": -1},
        {"base_latency": 0.5},
        {"bandwidth": 0},
        {"bandwidth": -2.0},
        {"bandwidth": inf},
        {"bandwidth": nan},
        {"bandwidth": Fraction(-1, 2)},
    ):
        with pytest.raises(RefusedError):
            make(**options)
    make(base_latency=0, bandwidth=Fraction(1, 1000))


def test_payloads_between_which_nothing_can_be_copied_are_refused():
    for device, host in (
        (content(6), None),
        (None, content(8)),
        (content(6), content(8, dtype=torch.float64)),
        (content(6), Payload(8, BLOCK_TOKENS, layers=1, heads=1, head_dim=4)),
        (content(6), Payload(8, BLOCK_TOKENS, layers=2, heads=2, head_dim=4)),
        (content(6), Payload(8, BLOCK_TOKENS + 1, layers=2, heads=1, head_dim=4)),
        (content(7), content(8)),
    ):
        with pytest.raises(RefusedError):
            MirrorManager(BlockPool(6), block_tokens=BLOCK_TOKENS, host=HostTier(8, payload=host), payload=device)


@pytest.mark.filterwarnings("error")
def test_m7_the_warning_of_the_old_threshold_names_the_line_of_who_gave_it():
    with pytest.warns(DeprecationWarning, match="offload_threshold") as warnings:
        MirrorManager(BlockPool(6), block_tokens=BLOCK_TOKENS, host=HostTier(8), offload_threshold=0.8)
    assert [warning.filename for warning in warnings] == [__file__]


@pytest.mark.parametrize(("device", "host"), [(1, 4), (4, 1), (1, 1)])
def test_a_tier_may_have_one_block(device, host):
    manager = MirrorManager(
        BlockPool(device, null_block=False),
        block_tokens=BLOCK_TOKENS,
        host=HostTier(host, payload=content(host)),
        payload=content(device),
    )
    for name, tokens in [(1, range(4)), (2, range(10, 14)), (3, range(10, 14))]:
        serve(manager, name, tokens)
        assert reads_right(manager, name, tokens)
        manager.mirror(name)
        assert on_host(manager, chain_keys(tokens, BLOCK_TOKENS)[0], prefix_digests(tokens))
        manager.finish(name)


def test_m7_the_old_threshold_is_accepted_with_a_warning_and_ignored():
    with pytest.warns(DeprecationWarning, match="offload_threshold"):
        old = make(offload_threshold=0.8)
    new = make()
    for manager in (old, new):
        enter(manager, 1, [b"a", b"b"])
        manager.mirror(1)
        manager.finish(1)
    assert old.snapshot() == new.snapshot()


# Device to host.


def test_m1_leaving_moves_nothing():
    manager = make_real()
    tokens = list(range(20))
    keys = chain_keys(tokens, BLOCK_TOKENS)
    serve(manager, 1, tokens[:8])
    manager.mirror(1)
    serve(manager, 2, tokens)  # Its own three blocks are never mirrored.
    host = payloads(manager)[1].data.clone()
    manager.trim(2, 1)
    manager.preempt(2)
    manager.finish(1)
    assert manager.host.keys() == tuple(keys[:2])
    assert payloads(manager)[1].data.equal(host)
    assert manager.snapshot().mirrored == 2
    assert all(manager.pool.lookup(key) is not None for key in keys)
    assert manager.pool.num_free == 5


def test_m2_full_blocks_are_copied_and_the_device_is_only_read():
    manager = make_real()
    tokens = list(range(10))
    serve(manager, 1, tokens)
    before, device = manager.snapshot().device, payloads(manager)[0].data.clone()
    manager.take_events()
    manager.mirror(1)
    keys, digests = chain_keys(tokens, BLOCK_TOKENS), prefix_digests(tokens)
    assert manager.host.keys() == tuple(keys)
    assert [on_host(manager, key, digests[4 * i : 4 * i + 4]) for i, key in enumerate(keys)] == [True, True]
    assert not on_host(manager, keys[0], digests[4:8])
    assert manager.snapshot().device == before
    assert manager.take_events() == []
    assert payloads(manager)[0].data.equal(device)


def test_m2_what_is_on_the_host_is_touched_and_not_copied_again():
    manager = make_real()
    serve(manager, 1, range(10))
    serve(manager, 2, range(100, 104))
    manager.mirror(1)
    manager.mirror(2)
    one, two = chain_keys(range(10), BLOCK_TOKENS)
    (other,) = chain_keys(range(100, 104), BLOCK_TOKENS)
    assert manager.host.keys() == (one, two, other)
    payloads(manager)[1].data.zero_()
    manager.mirror(1)
    assert manager.host.keys() == (other, one, two)
    assert manager.snapshot().mirrored == 3
    assert payloads(manager)[1].data.count_nonzero() == 0


def test_m2_what_is_partial_unhashed_or_null_is_passed_over():
    manager = make()
    manager.admit(1, 4)
    manager.allocate(1, 1)
    manager.skip(1)
    manager.allocate(1, 2)
    manager.register(1, 0, b"half", None, 2)
    manager.register(1, 2, b"full", b"half", BLOCK_TOKENS)
    manager.mirror(1)
    assert manager.host.keys() == (b"full",)
    assert manager.snapshot().filed == {1: (None, None, b"full", None)}
    manager.register(1, 0, b"whole", None, BLOCK_TOKENS)
    manager.mirror(1)
    assert manager.host.keys() == (b"whole", b"full")


def test_m2_a_key_counts_only_on_that_very_block():
    """Both requests computed the same block. The copy of the first loses its key, the second's does not matter."""
    manager = make()
    for name in (1, 2):
        manager.admit(name, 1)
        manager.allocate(name, 1)
        manager.register(name, 0, b"same", None, BLOCK_TOKENS)
    manager.evict(manager.table(1)[0])
    manager.mirror(1)
    assert manager.pool.lookup(b"same") is not None
    assert manager.host.keys() == ()
    manager.mirror(2)
    assert manager.host.keys() == (b"same",)
    manager.evict(manager.table(2)[0])
    manager.host.clear()
    manager.register(2, 0, b"half", None, 2)
    manager.mirror(2)
    assert manager.host.keys() == ()


def test_m2_a_block_that_lost_its_key_is_mirrored_under_its_next_one():
    manager = make()
    manager.admit(1, 1)
    manager.allocate(1, 1)
    manager.register(1, 0, b"old", None, BLOCK_TOKENS)
    manager.evict(manager.table(1)[0])
    manager.register(1, 0, b"new", None, BLOCK_TOKENS)
    manager.mirror(1)
    assert manager.host.keys() == (b"new",)


def test_m2_a_batch_is_its_requests_in_order_and_may_be_empty():
    manager = make()
    enter(manager, 1, [b"a", b"b"])
    enter(manager, 2, [b"a", b"c"])
    before = manager.snapshot()
    manager.mirror_batch([])
    manager.mirror_batch(None)
    assert manager.snapshot() == before
    manager.mirror_batch([2, 1])
    assert manager.host.keys() == (b"c", b"a", b"b")
    manager.mirror_batch([1, 2])
    assert manager.host.keys() == (b"b", b"a", b"c")


@pytest.mark.parametrize("device", DEVICES)
def test_a_slot_that_is_used_twice_in_one_call_ends_with_the_later_block(device):
    manager = make_real(num_blocks=8, capacity=2, device=device)
    tokens = list(range(20))
    serve(manager, 1, tokens)
    serve(manager, 2, range(100, 104))
    manager.mirror_batch([1, 2])
    keys, digests = chain_keys(tokens, BLOCK_TOKENS), prefix_digests(tokens)
    (other,) = chain_keys(range(100, 104), BLOCK_TOKENS)
    assert manager.host.keys() == (keys[4], other)
    assert on_host(manager, keys[4], digests[16:])
    assert on_host(manager, other, prefix_digests(range(100, 104)))
    assert (manager.snapshot().mirrored, manager.snapshot().evicted) == (6, 4)


def test_what_is_filed_goes_with_the_position():
    manager = make()
    enter(manager, 1, [b"a", b"b", b"c"])
    assert manager.snapshot().filed == {1: (b"a", b"b", b"c")}
    manager.trim(1, 2)
    manager.allocate(1, 1)
    manager.register(1, 1, b"half of b", b"a", 2)
    assert manager.snapshot().filed == {1: (b"a", None)}
    manager.mirror(1)
    assert manager.host.keys() == (b"a",)
    manager.preempt(1)
    assert manager.snapshot().filed == {}
    manager.admit(1, 3)
    manager.allocate(1, 3)
    assert manager.snapshot().filed == {1: (None, None, None)}
    manager.trim(1, 3)
    assert manager.hit(1, [b"a", b"other"], 2) == 1
    assert manager.snapshot().filed == {1: (b"a",)}
    manager.finish(1, abort=True)
    manager.admit(1, 3)
    manager.allocate(1, 2)
    assert manager.snapshot().filed == {1: (None, None)}


# Host to device.


@pytest.mark.parametrize("device", DEVICES)
def test_m5_a_prefix_comes_back_from_the_host_with_its_content(device):
    manager = make_real(device=device)
    tokens = list(range(14))
    keys = chain_keys(tokens, BLOCK_TOKENS)
    assert serve(manager, 1, tokens) == 0
    manager.mirror(1)
    manager.finish(1)
    forget_on_device(manager)
    payloads(manager)[0].data.fill_(-7)
    assert [manager.pool.lookup(key) for key in keys] == [None] * 3
    head = manager.snapshot().pool.free[:3]
    assert serve(manager, 2, tokens) == 3
    assert manager.table(2)[:3] == head
    assert reads_right(manager, 2, tokens)
    assert not reads_right(manager, 2, [99, *tokens[1:]])
    assert [manager.pool.lookup(key) for key in keys] == list(head)
    assert manager.snapshot().reloaded == 3
    assert manager.snapshot().filed == {2: (*keys, None)}
    assert conserved(manager)


def test_m5_a_reload_takes_the_head_and_its_keys_from_the_map():
    manager = make(num_blocks=4)
    enter(manager, 1, [b"a"])
    manager.mirror(1)
    manager.finish(1)
    forget_on_device(manager)
    enter(manager, 2, [b"x", b"y", b"z"])
    manager.finish(2)
    free = manager.snapshot().pool.free
    (lost,) = manager.pool.keys_of(free[0])
    manager.take_events()
    manager.admit(3, 2)
    assert manager.hit(3, [b"a", b"b"], 2) == 1
    assert manager.table(3) == free[:1]
    assert manager.snapshot().pool.free == free[1:]
    assert manager.pool.keys_of(free[0]) == (b"a",)
    assert manager.pool.ref_cnt(free[0]) == 1
    assert manager.pool.lookup(lost) is None
    assert manager.take_events() == [BlockRemoved(lost), BlockStored(b"a", None, free[0])]


def test_m5_each_reload_touches_its_host_block_and_names_its_parent():
    manager = make()
    enter(manager, 1, [b"a", b"b"])
    enter(manager, 2, [b"c"])
    manager.mirror_batch([1, 2])
    manager.finish(1)
    manager.evict(2)
    manager.take_events()
    manager.admit(3, 2)
    manager.hit(3, [b"a", b"b"], 2)
    assert manager.host.keys() == (b"a", b"c", b"b")  # What was found on the device is not touched on the host.
    assert manager.take_events() == [BlockStored(b"b", b"a", manager.table(3)[1])]


def test_p6_no_slot_of_a_reloaded_block_may_be_written():
    manager = make(pool=BlockPool(6, free_order="append"))
    enter(manager, 1, [b"a"])
    manager.mirror(1)
    manager.finish(1)
    manager.evict(1)
    manager.admit(2, 1)
    manager.hit(2, [b"a"], 1)
    assert manager.table(2) == (2,)  # No key was ever registered on this one before.
    assert manager.covered_slots(manager.table(2)[0]) == BLOCK_TOKENS
    with pytest.raises(RefusedError):
        manager.write(2, 0, BLOCK_TOKENS - 1, 7)


def test_m4_the_walk_ends_at_the_first_key_on_neither_tier_and_at_the_limit():
    manager = make(num_blocks=8)
    enter(manager, 1, [b"a", b"b", b"c", b"d"])
    manager.mirror(1)
    manager.finish(1)
    forget_on_device(manager)
    manager.admit(2, 5)
    assert manager.hit(2, [b"a", b"b", b"?", b"c", b"d"], 5) == 2
    assert manager.host.keys() == (b"c", b"d", b"a", b"b")
    assert manager.pool.lookup(b"c") is None
    manager.admit(3, 5)
    assert manager.hit(3, [b"a", b"b", b"c", b"d"], 3) == 3
    assert manager.host.keys() == (b"d", b"a", b"b", b"c")
    assert manager.pool.lookup(b"d") is None
    assert manager.stats == PrefixCacheStats(queries=4 + 5 + 3, hits=2 + 3)


def gap_scene(usable: int, held: int) -> MirrorManager:
    """All of [x, g, h, y, z] on the host; on the device [x, -, -, y, z] free, x .. z in eviction order z, y, -, -, x.

    Besides these, the pool has ``usable`` - 5 empty blocks, behind them; ``held`` blocks are held by request 'o'.
    """
    manager = make(pool=BlockPool(usable + 1, free_order="append"))
    keys = [b"x", b"g", b"h", b"y", b"z"]
    manager.admit("o", held)
    manager.allocate("o", held)
    enter(manager, 1, keys)
    table = manager.table(1)
    manager.mirror(1)
    manager.finish(1)
    manager.evict(table[1])
    manager.evict(table[2])
    manager.pool.touch(empty := [block for block in manager.snapshot().pool.free if block not in table])
    manager.pool.free(empty)
    assert manager.snapshot().pool.free == (*table[::-1], *empty)
    manager.take_events()
    return manager


def test_m6_what_is_behind_a_gap_is_not_destroyed():
    """The head of the queue are z and y themselves: a reload that came before the claim would take them."""
    manager = gap_scene(5, 0)
    z, y, h, g, x = manager.snapshot().pool.free
    manager.admit(2, 5)
    assert manager.find([b"x", b"g", b"h", b"y", b"z"], 5) == [x, y, z]
    assert manager.reach([b"x", b"g", b"h", b"y", b"z"], 5) == 5
    assert manager.hit(2, [b"x", b"g", b"h", b"y", b"z"], 5) == 5
    assert manager.table(2) == (x, h, g, y, z)
    assert [manager.pool.ref_cnt(block) for block in manager.table(2)] == [1] * 5
    assert manager.snapshot().reloaded == 2
    assert not any(isinstance(event, BlockRemoved) for event in manager.take_events())
    assert conserved(manager)


class SpyPool(BlockPool):
    """A pool that remembers what was freed, call by call."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.freed: list[list[int]] = []

    def free(self, blocks) -> None:
        self.freed.append(list(blocks))
        super().free(blocks)


def test_m6_the_bound_is_what_is_free_after_the_claim_and_the_rest_is_let_go():
    manager = gap_scene(6, 1)
    z, y, h, g, x = manager.snapshot().pool.free
    keys = [b"x", b"g", b"h", b"y", b"z"]
    manager.admit("p", 1)
    manager.pool.touch([h])  # Somebody takes one of the two blocks that are empty.
    manager.admit(2, 5)
    before = manager.snapshot()
    assert (manager.find(keys, 5), manager.reach(keys, 5)) == ([x], 2)
    assert manager.snapshot() == before
    assert manager.hit(2, keys, 5) == 2
    assert manager.table(2) == (x, g)
    assert manager.snapshot().pool.free == (z, y)
    assert manager.pool.lookup(b"y") == y
    assert manager.pool.lookup(b"z") == z
    assert manager.snapshot().filed[2] == (b"x", b"g")
    assert manager.stats.hits == 2
    manager.pool.free([h])
    assert conserved(manager)


def test_m6_what_is_let_go_goes_in_one_call_last_first_and_stays_held_by_others():
    pool = SpyPool(5)
    manager = make(pool=pool)
    keys = [b"g", b"x", b"y"]
    enter(manager, 1, keys)
    manager.mirror(1)
    manager.evict(manager.table(1)[0])
    _, x, y = manager.table(1)
    manager.admit("all", 1)
    manager.allocate("all", 1)
    manager.admit(2, 3)
    pool.freed.clear()
    assert manager.find(keys, 3) == []
    assert manager.hit(2, keys, 3) == 0
    assert pool.freed == [[y, x]]
    assert pool.ref_cnt(x) == pool.ref_cnt(y) == 1
    assert manager.snapshot().filed[2] == ()
    assert conserved(manager)


def test_one_key_twice_is_found_twice_or_reloaded_twice():
    manager = make_real()
    tokens = list(range(8))
    keys = chain_keys(tokens, BLOCK_TOKENS)
    serve(manager, 1, tokens)
    manager.mirror(1)
    manager.finish(1)
    manager.admit(2, 3)
    assert manager.hit(2, [keys[0]] * 3, 3) == 3
    assert len(set(manager.table(2))) == 1
    manager.finish(2)
    forget_on_device(manager)
    manager.admit(2, 3)
    assert manager.hit(2, [keys[1]] * 3, 3) == 3
    assert len(set(manager.table(2))) == 3
    digests = prefix_digests(tokens)[4:].tolist()
    device, _ = payloads(manager)
    assert device.mismatches([b for b in manager.table(2) for _ in range(4)], [0, 1, 2, 3] * 3, digests * 3) == []
    assert conserved(manager)


def test_one_key_twice_takes_no_room_twice():
    manager = make(num_blocks=4)
    enter(manager, 1, [b"x", b"g"])
    manager.mirror(1)
    manager.finish(1)
    manager.evict(2)
    manager.admit("o", 1)
    manager.allocate("o", 1)
    assert manager.pool.num_free == 2
    manager.admit(2, 3)
    assert manager.hit(2, [b"x", b"x", b"g"], 3) == 3
    assert conserved(manager)


def test_m6_pinned_blocks_are_room_for_a_reload_too():
    pool = PinnedPool(5)
    manager = make(pool=pool)
    enter(manager, 1, [b"a", b"b", b"c", b"d"])
    manager.mirror(1)
    a, b, c, d = manager.table(1)
    pool.mark([b, c, d])
    manager.finish(1)
    pool.evict(a)
    pool.touch([a])
    assert (pool.snapshot().pinned, pool.snapshot().free) == ((d, c, b), ())
    manager.admit(2, 2)
    assert manager.hit(2, [b"a", b"c"], 2) == 2  # c is claimed where it is pinned, d is demoted to make room for a.
    assert manager.table(2) == (d, c)
    assert (pool.snapshot().pinned, pool.snapshot().free) == ((b,), ())
    assert pool.lookup(b"d") is None


def test_m8_a_reloaded_block_is_one_hit_once_in_a_life():
    manager = make()
    enter(manager, 1, [b"a", b"b"])
    manager.mirror(1)
    manager.finish(1)
    manager.evict(2)
    assert manager.stats == PrefixCacheStats(queries=2, hits=0)
    for _ in range(2):
        manager.admit(2, 3)
        assert manager.hit(2, [b"a", b"b", b"c"], 3) == 2
        assert manager.stats == PrefixCacheStats(queries=5, hits=2)
        manager.preempt(2)
        forget_on_device(manager)
    assert manager.snapshot().reloaded == 1 + 2


def test_m8_the_thrash_rate_is_evictions_per_mirrored_block():
    manager = make(capacity=2)
    assert manager.thrash_rate == 0
    enter(manager, 1, [b"a", b"b", b"c", b"d"])
    assert manager.thrash_rate == 0
    manager.mirror(1)
    assert manager.thrash_rate == 2 / 4
    manager.mirror(1)  # a and b push c and d out and are pushed out by them.
    assert manager.thrash_rate == 6 / 8


def test_p15_without_caching_nothing_is_reloaded_or_counted():
    manager = make(pool=BlockPool(6, caching=False))
    manager.host.store(b"a")
    manager.host.store(b"b")
    manager.admit(1, 2)
    assert (manager.find([b"a"], 1), manager.reach([b"a"], 1)) == ([], 0)
    assert manager.hit(1, [b"a"], 1) == 0
    assert manager.stats == PrefixCacheStats()
    assert manager.host.keys() == (b"a", b"b")
    manager.allocate(1, 1)
    manager.mirror(1)
    assert manager.host.keys() == (b"a", b"b")


@pytest.mark.parametrize(
    ("block_tokens", "base", "bandwidth", "each"),
    [
        (4, 0, 1, 4),
        (4, 7, 4, 8),
        (4, 7, 5, 8),
        (4, 7, 3, 9),
        (16, 0, 2.5, 7),
        (16, 0, 1e300, 1),
        (3, 0, Fraction(3, 10), 10),
        (3, 0, 0.3, 11),
        (2**60, 1, 3, (2**60 + 2) // 3 + 1),
    ],
)
def test_m7_the_latency_is_exact_and_read_once(block_tokens, base, bandwidth, each):
    manager = MirrorManager(
        BlockPool(6), block_tokens=block_tokens, host=HostTier(3), base_latency=base, bandwidth=bandwidth
    )
    for key in (b"a", b"b", b"c"):
        manager.host.store(key)
    assert manager.take_latency() == 0
    manager.admit(1, 2)
    manager.hit(1, [b"a", b"b"], 2)
    manager.admit(2, 3)
    manager.hit(2, [b"a", b"b", b"c"], 3)
    latency = manager.take_latency()
    assert (latency, type(latency)) == (3 * each, int)
    assert manager.take_latency() == 0
    manager.preempt(2)
    manager.admit(2, 3)
    manager.hit(2, [b"a", b"b", b"c"], 3)
    assert manager.take_latency() == 0


# Both together.


REFUSED = {
    "hit on a table that is not empty": lambda m: m.hit("a", [b"gone"], 1),
    "hit beyond the need": lambda m: m.hit("b", [b"gone", b"a"], 2),
    "hit of fewer than no blocks": lambda m: m.hit("b", [b"gone"], -1),
    "hit of a stranger": lambda m: m.hit("c", [b"gone"], 1),
    "mirror a stranger": lambda m: m.mirror("c"),
    "mirror a batch with a stranger": lambda m: m.mirror_batch(["a", "c"]),
    "mirror one that left": lambda m: m.mirror("p"),
    "register for too many slots": lambda m: m.register("a", 1, b"x", None, BLOCK_TOKENS + 1),
    "register a key twice": lambda m: m.register("a", 0, b"a", None, BLOCK_TOKENS),
    "trim too much": lambda m: m.trim("a", 3),
    "finish with a table that is not full": lambda m: m.finish("a"),
    "finish a stranger": lambda m: m.finish("p", abort=True),
    "preempt a stranger": lambda m: m.preempt("c"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_illegal_call_is_refused_and_changes_nothing(name):
    manager = make_real()
    manager.host.store(b"gone")
    manager.admit("a", 3)
    manager.allocate("a", 2)
    manager.register("a", 0, b"a", None, BLOCK_TOKENS)
    manager.admit("b", 1)
    manager.admit("p", 1)
    manager.preempt("p")
    before = manager.snapshot()
    contents = [payload.data.clone() for payload in payloads(manager)]
    manager.take_events()
    with pytest.raises(RefusedError):
        REFUSED[name](manager)
    assert manager.snapshot() == before
    assert manager.take_events() == []
    assert manager.take_latency() == 0
    assert all(payload.data.equal(was) for payload, was in zip(payloads(manager), contents, strict=True))


def test_the_snapshot_is_the_managers_and_the_hosts():
    manager, plain = make(), KVCacheManager(BlockPool(6), block_tokens=BLOCK_TOKENS)
    for either in (manager, plain):
        enter(either, 1, [b"a", b"b"])
    snapshot = manager.snapshot()
    assert isinstance(snapshot, MirrorSnapshot)
    assert type(snapshot.device) is ManagerSnapshot
    assert snapshot.device == plain.snapshot()
    assert (snapshot.host, snapshot.mirrored, snapshot.evicted, snapshot.reloaded) == ((), 0, 0, 0)


def test_p11_a_reset_empties_the_device_and_the_host_brings_it_back():
    manager = make()
    enter(manager, 1, [b"a"])
    manager.mirror(1)
    assert not manager.reset()
    manager.finish(1)
    assert manager.reset()
    assert manager.pool.lookup(b"a") is None
    assert manager.host.keys() == (b"a",)
    assert enter(manager, 2, [b"a"]) == 1


def answers(manager: KVCacheManager, name, tokens) -> torch.Tensor:
    """The attention output of all tokens of a request, through its table."""
    assert manager.payload is not None
    queries = manager.payload.expected(prefix_digests(tokens))[:, 1, 0].flip(-1)
    return paged_attention(queries, manager.payload.data, 1, manager.table(name), len(tokens))


def test_attention_is_the_same_with_and_without_the_host_tier():
    tokens = list(range(14))
    plain = KVCacheManager(BlockPool(6), block_tokens=BLOCK_TOKENS, payload=content(6))
    tiered = make_real()
    outputs, hits = [], []
    for manager in (plain, tiered):
        for name, prompt in [(1, tokens), (2, list(range(50, 70)))]:
            assert serve(manager, name, prompt) == 0
            if isinstance(manager, MirrorManager):
                manager.mirror(name)
            manager.finish(name)
        hits.append(serve(manager, 3, tokens))
        outputs.append(answers(manager, 3, tokens))
    assert hits == [0, 3]
    assert torch.equal(outputs[0], outputs[1])
    expected = content(1).expected(prefix_digests(tokens))[:, 1]
    assert torch.equal(outputs[1], dense_attention(expected[:, 0].flip(-1), expected[:, 0], expected[:, 1]))


def test_whole_requests_are_served_from_both_tiers():
    manager = make_real()
    flow = RequestFlow(manager)
    for name, tokens, hits in [(1, range(14), 0), (2, range(50, 70), 0), (3, range(14), 12), (4, range(6), 4)]:
        flow.add_request(name, list(tokens))
        assert flow.schedule(name) == hits
        assert flow.compute(name) == len(tokens) - hits
        assert flow.mismatches(name) == []
        manager.mirror(name)
        if name != 3:
            flow.finish(name)
    assert manager.snapshot().reloaded == 3
    assert manager.stats == PrefixCacheStats(queries=3 + 4 + 3 + 1, hits=0 + 0 + 3 + 1)


def test_a_step_s_budget_begins_behind_what_is_reloaded():
    manager = make_real()
    flow = RequestFlow(manager)
    flow.add_request(1, list(range(14)))
    flow.schedule(1)
    flow.compute(1)
    manager.mirror(1)
    flow.finish(1)
    forget_on_device(manager)
    flow.add_request(2, list(range(14)))
    assert flow.schedule(2, budget_tokens=1) == 12
    assert manager.num_positions(2) == 4
    assert flow.compute(2, 1) == 1
    assert flow.mismatches(2) == []


def test_a_whole_request_that_does_not_fit_changes_nothing_in_either_tier():
    manager = make_real(capacity=12)
    flow = RequestFlow(manager)
    for name, tokens in [(1, range(14)), (2, range(50, 70)), (3, range(80, 88))]:
        flow.add_request(name, list(tokens))
        assert flow.schedule(name) is not None
        flow.compute(name)
        manager.mirror(name)
        if name != 3:
            flow.finish(name)
    flow.add_request(4, list(range(14)))
    before = manager.snapshot()
    assert before.pool.num_free == 3
    assert flow.schedule(4) is None
    assert manager.snapshot() == before
    flow.finish(3)
    assert flow.schedule(4) == 12


@pytest.mark.parametrize("free_order", ["append", "split"])
@pytest.mark.parametrize("capacity", [1, 3, 30])
@pytest.mark.parametrize("seed", range(2))
def test_p1_p6_and_m3_hold_through_a_random_service(free_order, capacity, seed):
    """Tiny vocabulary, few blocks, much sharing: every read is right, in both tiers, nothing leaks, and ``find``
    says beforehand whether a request fits."""
    rng = random.Random(seed)
    manager = make_real(num_blocks=8, capacity=capacity)
    manager.pool.free_order = free_order
    inside: dict[int, list[int]] = {}
    content_of: dict[bytes, torch.Tensor] = {}
    refused = 0
    for name in range(80):
        tokens = [rng.randrange(2) for _ in range(rng.randrange(1, 22))]
        keys, digests = chain_keys(tokens, BLOCK_TOKENS), prefix_digests(tokens)
        content_of.update((key, digests[4 * i : 4 * i + 4]) for i, key in enumerate(keys))
        positions, limit = blocks_for(len(tokens), BLOCK_TOKENS), lookup_limit(len(tokens), BLOCK_TOKENS)
        found, reach, pool = manager.find(keys, limit), manager.reach(keys, limit), manager.pool
        fits = positions - len(found) <= pool.num_free - sum(map(pool.is_free, found))
        manager.admit(name, positions)
        hits = manager.hit(name, keys, limit)
        assert hits == reach
        assert [block for block in manager.table(name) if block in found] == found
        assert (manager.allocate(name, positions - hits) is not None) == fits
        if fits:
            manager.write_run(name, hits * BLOCK_TOKENS, digests[hits * BLOCK_TOKENS :])
            for position in range(hits, len(keys)):
                parent = keys[position - 1] if position else None
                manager.register(name, position, keys[position], parent, BLOCK_TOKENS)
            inside[name] = tokens
        else:
            refused += 1
            manager.preempt(name)
        manager.mirror_batch(rng.sample(sorted(inside), rng.randrange(len(inside) + 1)))
        for other in list(inside):
            assert reads_right(manager, other, inside[other])
            if rng.random() < 0.5:
                manager.finish(other)
                del inside[other]
        if rng.random() < 0.1:
            manager.evict(rng.randrange(1, 8))
        assert all(on_host(manager, key, content_of[key]) for key in manager.host.keys())  # noqa: SIM118
        assert len(manager.host) <= capacity
        assert conserved(manager)
    assert 0 < refused < 40
    assert manager.snapshot().reloaded > 0 or capacity < 30
