"""Host memory and files as connectors (H5, H6, H9, O5, O12), and a hybrid cache served through both: bytes compared."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.hybrid.block_file import PosixFiles, layout_fingerprint
from kvproof.refimpl.hybrid.cache import HybridCache
from kvproof.refimpl.hybrid.chain import boundaries, load_targets, offers
from kvproof.refimpl.hybrid.connector import BlockRef, Boundary, Completion
from kvproof.refimpl.hybrid.device_memory import TensorMemory
from kvproof.refimpl.hybrid.file_store import FileStore
from kvproof.refimpl.hybrid.host_store import HostStore
from kvproof.refimpl.hybrid.multi_connector import MultiConnector
from kvproof.refimpl.hybrid.planner import Group
from kvproof.refimpl.hybrid.store_connectors import FileConnector, HostMemoryConnector, InlineRunner, StoreConnector
from kvproof.refimpl.payload import Payload, prefix_digests
from kvproof.refimpl.pool.block_pool import NULL_BLOCK, BlockPool
from kvproof.refimpl.pool.keys import chain_keys

CUDA = torch.cuda.is_available()
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]),
]
LAYOUT = layout_fingerprint({"test": "connectors"})


class LaterRunner:
    """Does what it was given when told to, the first or the last of it first."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[object], Callable[[], object]]] = []

    def submit(self, work):
        future: Future[object] = Future()
        self.waiting.append((future, work))
        return future

    def run(self, place: int = 0) -> None:
        future, work = self.waiting.pop(place)
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)


@dataclass
class PlainMemory:
    """Blocks as bytes, and which of them were written."""

    block_bytes: int = 4
    blocks: dict[int, bytes] = field(default_factory=dict)
    written: list[int] = field(default_factory=list)

    def read(self, block):
        return self.blocks.get(block, b"%4d" % block)

    def write(self, block, content):
        self.blocks[block] = content
        self.written.append(block)


def chain(*keys: bytes) -> list[Boundary]:
    return [Boundary(place + 1, (key,)) for place, key in enumerate(keys)]


def refs(*pairs: tuple[bytes, int]) -> list[BlockRef]:
    return [BlockRef(key, block) for key, block in pairs]


def connector(store=None, device=None, *, reads=None, writes=None, **options) -> StoreConnector:
    return StoreConnector(
        "under test",
        HostStore(100) if store is None else store,
        PlainMemory() if device is None else device,
        reads=InlineRunner() if reads is None else reads,
        writes=InlineRunner() if writes is None else writes,
        **options,
    )


class TestDeviceMemory:
    @pytest.mark.parametrize("device", DEVICES)
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
    def test_bytes_go_out_and_come_back(self, device, dtype):
        payload = Payload(4, 3, dtype=dtype, device=device)
        for slot in range(3):
            payload.write(1, slot, 1000 + slot)
        memory = TensorMemory(payload.data)
        content = memory.read(1)
        assert len(content) == memory.block_bytes == 2 * 2 * 3 * 2 * 4 * payload.data.element_size()
        memory.write(3, content)
        assert all(payload.matches(3, slot, 1000 + slot) for slot in range(3))
        assert not payload.data[:, :, [0, 2]].any()
        assert memory.read(3) == content

    def test_what_does_not_fit_is_refused(self):
        memory = TensorMemory(Payload(4, 3).data)
        for illegal in (
            lambda: memory.read(4),
            lambda: memory.read(-1),
            lambda: memory.write(4, memory.read(0)),
            lambda: memory.write(0, b"short"),
        ):
            with pytest.raises(RefusedError):
                illegal()

    def test_the_first_block_is_one_like_any_other_and_may_be_the_only_one(self):
        memory = TensorMemory(torch.zeros(2, 2, 1, 3, dtype=torch.float32))
        assert memory.block_bytes == 2 * 2 * 3 * 4
        content = bytes(range(memory.block_bytes))
        memory.write(0, content)
        assert memory.read(0) == content

    def test_layouts_tell_what_would_not_be_understood(self):
        tensors = [Payload(4, 3), Payload(9, 3), Payload(4, 2), Payload(4, 3, dtype=torch.float64)]
        tensors += [Payload(4, 3, layers=3), Payload(4, 3, heads=3), Payload(4, 3, head_dim=3)]
        one, more_blocks, *others = (TensorMemory(payload.data).layout for payload in tensors)
        assert one == more_blocks
        assert len({layout_fingerprint(layout) for layout in (one, *others)}) == 6


class TestStores:
    def test_what_was_offered_is_read_at_once_and_found(self):
        device = PlainMemory()
        under_test = connector(device=device)
        assert under_test.store(1, refs((b"a", 1), (b"b", 2), (b"a", 1))) == 3
        device.blocks[1] = b"else"
        assert under_test.matched(2, chain(b"a", b"b", b"c"), 0) == 2
        under_test.begin_load(0, 2, refs((b"a", 5), (b"b", 6)))
        assert under_test.poll() == [Completion(0, True)]
        assert (device.blocks[5], device.blocks[6]) == (b"   1", b"   2")

    def test_h5_no_more_than_so_many_wait_to_be_written(self):
        writes = LaterRunner()
        under_test = connector(writes=writes, max_writes=2)
        blocks = refs((b"a", 1), (b"b", 2), (b"c", 3), (b"a", 1))
        assert under_test.store(1, blocks) == 2
        assert under_test.store(1, blocks) == 2
        assert under_test.snapshot().writing == {b"a", b"b"}
        assert under_test.matched(2, chain(b"a"), 0) == 0  # What is not stored yet is not found.
        while writes.waiting:
            writes.run()
        assert under_test.poll() == []
        assert under_test.snapshot().writing == set()
        assert under_test.store(1, blocks) == 4
        assert under_test.matched(2, chain(b"a", b"b", b"c"), 0) == 2

    def test_what_stands_behind_one_that_finds_no_room_is_not_stored(self):
        store, device = HostStore(10), PlainMemory(blocks={1: b"12345678", 2: b"12345678", 3: b"1"})
        under_test = connector(store, device)
        under_test.store(9, refs((b"a", 1), (b"b", 2), (b"c", 3)))
        assert [key in store for key in (b"a", b"b", b"c")] == [True, False, False]

    def test_o3_what_is_on_its_way_is_not_written_again(self):
        writes = LaterRunner()
        under_test = connector(writes=writes)
        for _ in range(3):
            assert under_test.store(1, refs((b"a", 1))) == 1
        assert len(writes.waiting) == 1
        assert under_test.store(1, refs((b"a", 1), (b"b", 2))) == 2  # What stands behind it is.

    def test_o12_an_offer_evicts_nothing_that_it_names_and_takes_what_fits(self):
        under_test = connector(HostStore(10))
        under_test.store(1, refs((b"x", 1)))
        under_test.store(1, refs((b"a", 1)))
        assert under_test.store(1, refs((b"b", 2), (b"a", 1), (b"c", 3))) == 2
        assert under_test.matched(1, chain(b"a", b"b"), 0) == 2
        assert under_test.failed_stores == 0  # Nothing was taken that was not kept.

    def test_an_offer_of_what_is_there_is_a_use_of_it(self):
        under_test = connector(HostStore(10))
        for key in (b"a", b"b", b"a", b"c"):
            under_test.store(1, refs((key, 1)))
        assert under_test.matched(1, chain(b"a"), 0) == 1

    def test_a_key_that_is_offered_twice_takes_one_place_among_those_that_wait(self):
        """So it does not keep what stands behind it from being used."""
        store, writes = HostStore(16), LaterRunner()
        store.put(b"c", b"1234")
        store.put(b"d", b"1234")
        under_test = connector(store, writes=writes, max_writes=2)
        assert under_test.store(1, refs((b"a", 1), (b"b", 2), (b"a", 1), (b"c", 3))) == 4
        writes.run()
        store.put(b"e", b"1234")
        assert [key in store for key in (b"a", b"b", b"c", b"d")] == [True, True, True, False]

    def test_h5_what_stands_behind_one_that_must_wait_is_not_used_either(self):
        store, writes = HostStore(8), LaterRunner()
        under_test = connector(store, writes=writes, max_writes=1)
        for key in (b"c", b"d"):
            under_test.store(1, refs((key, 3)))
            writes.run()
            under_test.poll()
        under_test.store(1, refs((b"a", 1), (b"b", 2), (b"c", 3)))
        writes.run()
        assert [key in store for key in (b"a", b"c", b"d")] == [True, False, True]

    def test_what_was_taken_and_found_no_room_is_counted(self):
        writes = LaterRunner()
        under_test = connector(HostStore(4), writes=writes)
        assert under_test.store(1, refs((b"a", 1), (b"b", 2))) == 2
        writes.run()
        under_test.poll()
        under_test.poll()
        assert under_test.failed_stores == 1
        assert under_test.store(1, refs((b"a", 1))) == 1

    def test_a_store_that_breaks_is_counted_too_and_pins_nothing(self):
        class Broken(HostStore):
            def put(self, key, content):
                if key == b"b":
                    raise MemoryError
                return super().put(key, content)

        with pytest.raises(MemoryError):
            connector(Broken(100)).store(1, refs((b"b", 2)))
        writes, store = LaterRunner(), Broken(100)
        under_test = connector(store, writes=writes)
        under_test.store(1, refs((b"a", 1), (b"b", 2)))
        writes.run()
        assert under_test.poll() == []
        assert under_test.failed_stores == 2
        assert not store.snapshot().index.pinned

    def test_a_store_in_which_no_block_fits_is_refused_at_start(self, tmp_path):
        for store in (HostStore(3), FileStore(tmp_path, layout=LAYOUT, capacity=100)):
            with pytest.raises(RefusedError, match="make it larger"):
                connector(store)
        with pytest.raises(RefusedError, match="max_writes"):
            connector(max_writes=0)


class TestLoads:
    def filled(self, store=None, **options) -> StoreConnector:
        under_test = connector(store, **options)
        assert under_test.store(9, refs((b"a", 1), (b"b", 2))) == 2
        return under_test

    def test_o5_what_a_lookup_found_stays_until_it_is_dropped(self):
        store = HostStore(8)
        under_test = self.filled(store)
        assert under_test.matched(1, chain(b"a", b"b"), 0) == 2
        assert under_test.store(9, refs((b"c", 3))) == 0
        assert under_test.matched(1, chain(b"a"), 0) == 1
        assert under_test.store(9, refs((b"c", 3))) == 1
        assert b"b" not in store
        under_test.preempted({1, 2})
        assert under_test.snapshot().held == {}
        assert not store.snapshot().index.pinned

    def test_o5_a_load_holds_what_it_takes_until_its_release(self):
        store = HostStore(8)
        under_test = self.filled(store)
        under_test.matched(1, chain(b"a", b"b"), 0)
        under_test.begin_load(7, 1, refs((b"a", 5)))
        assert store.snapshot().index.pinned == {b"a": (4, 1)}
        under_test.poll()
        assert store.snapshot().index.pinned == {b"a": (4, 1)}
        under_test.release(7, [b"a"])
        assert not store.snapshot().index.pinned
        assert under_test.poll() == []

    def test_nothing_is_written_before_all_is_there_and_only_by_poll(self):
        reads, device = LaterRunner(), PlainMemory()
        under_test = self.filled(device=device, reads=reads)
        under_test.matched(1, chain(b"a", b"b"), 0)
        under_test.begin_load(0, 1, refs((b"a", 5), (b"b", 6)))
        assert (under_test.poll(), device.written) == ([], [])
        reads.run()
        assert device.written == []
        assert under_test.poll() == [Completion(0, True)]
        assert device.written == [5, 6]
        assert under_test.poll() == []

    @pytest.mark.parametrize("when", ["before it is read", "after it is read"])
    def test_h6_a_released_load_writes_nothing_however_late(self, when):
        reads, device = LaterRunner(), PlainMemory()
        under_test = self.filled(device=device, reads=reads)
        under_test.matched(1, chain(b"a", b"b"), 0)
        under_test.begin_load(0, 1, refs((b"a", 5), (b"b", 6)))
        if when == "after it is read":
            reads.run()
        under_test.release(0, [b"b", b"a"])
        assert [future.cancelled() for future, _ in reads.waiting] == [True] * len(reads.waiting)
        while reads.waiting:
            reads.run()
        assert (under_test.poll(), device.written) == ([], [])

    @pytest.mark.parametrize("broken", ["missing", "too short", "raises"])
    def test_o11_a_load_of_which_anything_is_wrong_writes_nothing(self, broken):
        class Broken(HostStore):
            def load(self, key):
                if key == b"a":
                    return super().load(key)
                if broken == "raises":
                    raise MemoryError
                return None if broken == "missing" else b"123"

        device = PlainMemory()
        under_test = self.filled(Broken(100), device=device)
        under_test.matched(1, chain(b"a", b"b"), 0)
        under_test.begin_load(0, 1, refs((b"a", 5), (b"b", 6)))
        assert under_test.poll() == [Completion(0, False)]
        assert device.written == []

    def test_a_key_evicted_in_the_moment_of_the_lookup_is_not_known_yet(self):
        class Evicting(HostStore):
            def pin(self, key):
                return key != b"b" and super().pin(key)

        store = Evicting(100)
        under_test = connector(store)
        for key in (b"a", b"b"):
            store.put(key, b"1234")
        assert under_test.matched(1, chain(b"a", b"b"), 0) is None
        assert not store.snapshot().index.pinned

    def test_illegal_calls_change_nothing(self):
        under_test = self.filled()
        under_test.matched(1, chain(b"a", b"b"), 0)
        under_test.begin_load(0, 1, refs((b"a", 5)))
        under_test.matched(2, chain(b"a", b"b"), 0)
        before = under_test.snapshot()
        for illegal in (
            lambda: under_test.begin_load(0, 2, refs((b"a", 5))),
            lambda: under_test.begin_load(1, 2, []),
            lambda: under_test.begin_load(1, 2, refs((b"a", 5), (b"a", 6))),
            lambda: under_test.begin_load(1, 2, refs((b"a", 5), (b"c", 6))),
            lambda: under_test.begin_load(1, 3, refs((b"a", 5))),
            lambda: under_test.release(1, [b"a"]),
            lambda: under_test.release(0, [b"a", b"b"]),
            lambda: under_test.release(0, []),
        ):
            with pytest.raises(RefusedError):
                illegal()
            assert under_test.snapshot() == before


# End to end: attention every 2 tokens, a window of 5 in blocks of 2, mamba states every 4, through memory and files.

GROUPS = [Group(2, "full"), Group(2, "window", 5), Group(4, "mamba")]
HASH_BLOCK = 2


class TestChain:
    def test_h4_each_boundary_takes_what_the_groups_need_there_beyond_what_is_computed(self):
        cache = HybridCache(BlockPool(60), 2, [Group(2, "full"), Group(2, "window", 7), Group(4, "mamba")])
        keys = chain_keys(list(range(16)), 2)

        def key(group: int, *positions: int) -> tuple[bytes, ...]:
            return tuple(cache.key(group, keys, position) for position in positions)

        assert boundaries(cache, keys, 4, 13) == [
            Boundary(8, key(0, 2, 3), key(1, 2, 3) + key(2, 1)),
            Boundary(12, key(0, 4, 5), key(1, 3, 4, 5) + key(2, 2)),
        ]
        assert [boundary.tokens for boundary in boundaries(cache, keys, 0, 99)] == [4, 8, 12, 16]
        assert boundaries(cache, keys, 16, 99) == boundaries(cache, keys, 0, 3) == []

    def test_a_load_goes_where_the_tables_say_and_offers_come_from_there(self):
        cache = HybridCache(BlockPool(60), 2, [Group(2, "full"), Group(2, "window", 3), Group(4, "mamba")])
        keys = chain_keys(list(range(16)), 2)
        cache.admit(1, 16)
        cache.allocate(1, 12)
        full, window, mamba = cache.tables(1)
        assert [ref.block for ref in load_targets(cache, 1, keys, 4, 4)] == [*full[2:4], window[3], mamba[1]]
        assert len(offers(cache, 1, keys, 8)) == 4 + 4 + 2
        cache.register(1, keys, 11)
        cache.drop_outside(1)
        assert offers(cache, 1, keys, 11) == [
            *(BlockRef(cache.key(0, keys, position), full[position]) for position in range(5)),
            BlockRef(cache.key(1, keys, 4), window[4]),
        ]

    def test_room_for_a_load_is_just_where_it_goes(self):
        cache = HybridCache(BlockPool(60), 2, [Group(2, "full"), Group(2, "window", 3), Group(4, "mamba")])
        keys = chain_keys(list(range(16)), 2)
        cache.admit(1, 16)
        cache.allocate(1, 12, loaded=12)
        taken = [block for table in cache.tables(1) for block in table if block != NULL_BLOCK]
        assert [ref.block for ref in load_targets(cache, 1, keys, 0, 12)] == taken


class UnsyncedFiles(PosixFiles):
    """Quicker, where neither process nor machine goes down."""

    def sync(self, file):
        pass

    def sync_directory(self, path):
        pass


class Engine:
    """Serves requests one by one. KV is a function of the prefix and the group, and is compared, bit by bit."""

    def __init__(
        self, directory: Path, *, host_bytes=100_000, file_bytes=100_000, weight=2, reads=None, ops=None, **options
    ):
        self.payload = Payload(60, 4)
        self.device = TensorMemory(self.payload.data)
        self.cache = HybridCache(BlockPool(60), HASH_BLOCK, GROUPS)
        sizes = {"hash_block": HASH_BLOCK, "groups": [group.block for group in GROUPS]}
        layout = layout_fingerprint(self.device.layout | sizes)
        self.files = FileStore(
            directory, layout=layout, capacity=file_bytes, ops=UnsyncedFiles() if ops is None else ops
        )
        self.reads = InlineRunner() if reads is None else reads
        host = HostMemoryConnector(HostStore(host_bytes), self.device, weight=weight)
        self.file = self.file_connector()
        self.multi = MultiConnector([host, self.file], hybrid=True, **options)
        self.now = 0.0

    def file_connector(self) -> StoreConnector:
        return StoreConnector("file", self.files, self.device, reads=self.reads, writes=InlineRunner())

    def serve(self, tokens: list[int], request: int = 1) -> tuple[int, int]:
        """Serve one request; return how many tokens were found on the device, and how many were loaded."""
        found = self.begin(tokens, request)
        loaded = self.wait(tokens, request)
        self.complete(tokens, request)
        return found, loaded

    def begin(self, tokens: list[int], request: int) -> int:
        """Let a request in, look up, and begin to load what is promised."""
        keys = chain_keys(tokens, HASH_BLOCK)
        assert self.cache.admit(request, len(tokens))
        found = self.cache.hit(request, keys, len(tokens) - 1)
        promised = self.multi.matched(request, boundaries(self.cache, keys, found, len(tokens) - 1), found)
        if promised:
            assert self.cache.allocate(request, found + promised, loaded=found + promised)
            targets = load_targets(self.cache, request, keys, found, promised)
            self.multi.begin_load(request, targets, promised, self.now)
        return found

    def wait(self, tokens: list[int], request: int) -> int:
        """Wait until the load of a request has ended, one way or the other; return how many tokens it brought."""
        ends = []
        while self.multi.snapshot().requests[request].phase == "loading":
            ends += [*self.multi.poll(), *self.multi.expire(self.now)]
            self.now += 1
            time.sleep(0.0005)
        for end in ends:
            assert self.cache.settle(end.request, [end.computed + end.external] * len(GROUPS)) % 4 == 0
            assert self.cache.counts(end.request) == (end.computed, end.external)
        return sum(end.external for end in ends)

    def complete(self, tokens: list[int], request: int) -> None:
        """Compute the rest, offer all, and let the request go."""
        keys = chain_keys(tokens, HASH_BLOCK)
        there = sum(self.cache.counts(request))
        self.check(tokens, request, there)
        assert self.cache.allocate(request, len(tokens))
        for index, (table, group) in enumerate(zip(self.cache.tables(request), GROUPS, strict=True)):
            digests = self.digests(tokens, index)
            for token in range(there, len(tokens)):
                self.payload.write(table[token // group.block], token % group.block, digests[token])
        self.cache.register(request, keys, len(tokens))
        self.check(tokens, request, len(tokens) // 4 * 4)
        blocks = offers(self.cache, request, keys, len(tokens))
        assert self.multi.store(request, blocks) <= len(blocks)
        self.multi.finished(request)
        self.cache.finish(request)

    def digests(self, tokens: list[int], group: int) -> list[int]:
        """What each token's KV of a group is a function of."""
        return [int(digest) ^ group for digest in prefix_digests(tokens)]

    def check(self, tokens: list[int], request: int, length: int) -> None:
        """All that is needed to go on from ``length`` tokens is there, is right, and no block stands twice (H4, H8)."""
        tables = self.cache.tables(request)
        held = [block for table in tables for block in table if block != NULL_BLOCK]
        assert len(held) == len(set(held))
        for index, (table, group) in enumerate(zip(tables, GROUPS, strict=True)):
            digests = self.digests(tokens, index)
            first = group.first_needed(length) // group.block * group.block
            for token in range(first, length):
                assert self.payload.matches(table[token // group.block], token % group.block, digests[token])

    def clear_device(self) -> None:
        """Forget all that the device has, and overwrite it."""
        assert self.cache.pool.reset()
        self.payload.data.fill_(0.5)


class ThreadedEngine(Engine):
    """With the file connector as it is used."""

    def file_connector(self):
        return FileConnector(self.files, self.device)


TOKENS = list(range(100, 118))


class TestEndToEnd:
    def test_the_device_then_the_host_then_after_a_restart_the_disk(self, tmp_path):
        engine = Engine(tmp_path)
        assert engine.serve(TOKENS) == (0, 0)
        assert engine.serve(TOKENS) == (16, 0)
        engine.clear_device()
        assert engine.serve(TOKENS) == (0, 16)
        counters = engine.multi.counters()
        assert [counters[name].hit_tokens for name in ("host", "file")] == [16, 0]
        again = Engine(tmp_path)
        assert again.serve(TOKENS) == (0, 16)
        counters = again.multi.counters()
        assert [(counters[name].hits, counters[name].misses) for name in ("host", "file")] == [(0, 1), (1, 0)]
        # The device has all of the attention's blocks by now, but of the window only what 16 tokens need.
        assert again.serve([*TOKENS[:9], 1, 2, 3]) == (0, 8)

    def test_what_is_on_the_device_is_not_loaded(self, tmp_path):
        engine = Engine(tmp_path)
        engine.serve(TOKENS)
        engine.clear_device()
        assert engine.serve(TOKENS[:9]) == (0, 8)
        assert engine.serve(TOKENS) == (8, 8)

    def test_h5_the_disk_wins_when_it_has_so_much_more(self, tmp_path):
        Engine(tmp_path).serve(TOKENS)
        for weight, expected in ((1, 16), (3, 8)):
            engine = Engine(tmp_path, weight=weight)
            assert engine.serve(TOKENS[:9]) == (0, 8)
            engine.clear_device()
            assert engine.serve(TOKENS) == (0, expected)

    def test_with_threads(self, tmp_path):
        engine = ThreadedEngine(tmp_path, ops=PosixFiles())
        engine.serve(TOKENS)
        assert isinstance(engine.file, FileConnector)
        engine.file.close()
        assert engine.file.snapshot() == connector().snapshot()  # Nothing is held, written, or was lost.
        again = ThreadedEngine(tmp_path)
        assert isinstance(again.file, FileConnector)
        assert again.serve(TOKENS) == (0, 16)
        again.file.close()

    def test_loads_that_no_thread_has_begun_when_it_is_closed_fail(self, tmp_path):
        go = threading.Event()

        class Slow(PosixFiles):
            def open(self, path: Path) -> int:
                go.wait()
                return super().open(path)

        for key in (b"a", b"b"):
            FileStore(tmp_path, layout=LAYOUT, capacity=1000).put(key, b"1234")
        files = FileStore(tmp_path, layout=LAYOUT, capacity=1000, ops=Slow())
        under_test = FileConnector(files, PlainMemory(), readers=1)
        for request, key in enumerate((b"a", b"b")):
            under_test.matched(request, chain(key), 0)
            under_test.begin_load(request, request, refs((key, 5 + request)))
        closing = threading.Thread(target=under_test.close)
        closing.start()
        ended: list[Completion] = []
        try:
            until = time.monotonic() + 30
            while not ended and time.monotonic() < until:
                ended += under_test.poll()
            assert ended == [Completion(1, False)]
        finally:
            go.set()
            closing.join()
        assert under_test.poll() == [Completion(0, True)]

    def test_h9_a_damaged_file_is_computed_again_and_mended(self, tmp_path):
        Engine(tmp_path).serve(TOKENS)
        for path in tmp_path.iterdir():
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
        engine = Engine(tmp_path)
        assert engine.serve(TOKENS) == (0, 0)
        assert engine.multi.counters()["file"].failed == 1
        assert engine.files.faults == {"checksum": 1}
        for _ in range(10):  # One damaged file is found by each load, and stored anew.
            engine = Engine(tmp_path)
            engine.serve(TOKENS)
        assert Engine(tmp_path).serve(TOKENS) == (0, 16)

    def test_h6_a_load_that_takes_too_long_is_computed_and_comes_too_late(self, tmp_path):
        Engine(tmp_path).serve(TOKENS)
        later = LaterRunner()
        engine = Engine(tmp_path, reads=later, load_timeout=3)
        assert engine.begin(TOKENS, 1) == 0
        assert engine.wait(TOKENS, 1) == 0
        assert engine.multi.counters()["file"].expired == 1
        engine.cache.preempt(1)
        engine.multi.preempted({1})
        other = list(range(18))  # It gets the blocks that were to be loaded to.
        engine.begin(other, 2)
        later.run()
        assert engine.multi.poll() == []
        engine.wait(other, 2)
        engine.complete(other, 2)
        assert engine.serve(other, 3) == (16, 0)

    @settings(max_examples=25)
    @given(
        steps=st.lists(
            st.one_of(
                st.tuples(st.just("serve"), st.lists(st.integers(0, 1), min_size=2, max_size=5)),
                st.tuples(st.sampled_from(["clear", "restart", "damage"]), st.integers(0, 1000)),
            ),
            max_size=25,
        ),
        small=st.booleans(),
    )
    @example(steps=[("serve", [0, 0]), ("damage", 0), ("damage", 0), ("serve", [0, 0])], small=False)
    def test_whatever_happens_every_byte_is_right(self, tmp_path_factory, steps, small):
        directory = tmp_path_factory.mktemp("blocks")
        sizes = {"host_bytes": 4_000, "file_bytes": 8_000} if small else {}
        engine = Engine(directory, **sizes)
        for name, value in steps:
            if name == "serve":
                engine.serve([token for bit in value for token in (bit, 7, bit, 9)][: 4 * len(value) - 1])
            elif name == "clear":
                engine.clear_device()
            elif name == "restart":
                engine = Engine(directory, **sizes)
            elif paths := sorted(directory.iterdir()):
                data = paths[value % len(paths)].read_bytes()
                # What was cut off to nothing before stays so.
                paths[value % len(paths)].write_bytes(data[: value % max(1, len(data))])
        state = engine.file.snapshot()
        assert (state.held, state.jobs) == ({}, {})
        assert not engine.files.snapshot().index.pinned
