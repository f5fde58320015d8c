"""A manager of asynchronous offload with real payload and workers that copy when they are told: for its tests."""

from kvproof.refimpl.offload.manager import OffloadManager
from kvproof.refimpl.offload.transfers import Message, WorkerReport
from kvproof.refimpl.offload.worker import SteppedWorker, split_layers
from kvproof.refimpl.payload import Payload, prefix_digests
from kvproof.refimpl.pool.block_pool import NULL_BLOCK, BlockPool
from kvproof.refimpl.pool.blocks import blocks_for, lookup_limit
from kvproof.refimpl.pool.keys import chain_keys

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
            assert manager.report(WorkerReport(worker, message.id))


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
    wanted = [(pair[0], key) for load in shown.loads.values() for pair, key in zip(load.pairs, load.keys, strict=True)]
    assert all(key in shown.host.keys[block] for block, key in wanted), "O5"
    assert manager.pending == len(transfers)
    assert all(0 <= shown.offered[name] <= len(table) for name, table in shown.tables.items())


# O1, O2: stores.


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
