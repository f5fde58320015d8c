"""What the parts of the implementation are made with: the least of each number is taken, and one less is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.hybrid.cache import HybridCache
from kvproof.refimpl.hybrid.host_store import HostStore
from kvproof.refimpl.hybrid.lru_index import LruIndex
from kvproof.refimpl.hybrid.multi_connector import MultiConnector
from kvproof.refimpl.hybrid.planner import Group, HybridPlanner
from kvproof.refimpl.hybrid.store_connectors import StoreConnector
from kvproof.refimpl.hybrid.window import WindowFlow
from kvproof.refimpl.offload.manager import OffloadManager
from kvproof.refimpl.payload import Payload
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.free_list import FreeList
from kvproof.refimpl.pool.manager import KVCacheManager
from kvproof.refimpl.tiers.host_tier import HostTier
from kvproof.refimpl.tiers.mirror import MirrorManager
from kvproof.refimpl.timed.links import LinkModel
from kvproof.refimpl.timed.replay import TierReplay
from kvproof.refimpl.timed.shared_tier import SharedTier
from kvproof.refimpl.timed.tiers import TimedTiers

Maker = Callable[..., object]


class NoDevice:
    """A device with blocks of one byte, which nobody reads or writes."""

    block_bytes = 1


def connector(max_writes: int) -> StoreConnector:
    nobody: Any = None
    device: Any = NoDevice()
    return StoreConnector("store", HostStore(1), device, reads=nobody, writes=nobody, max_writes=max_writes)


def replay(concurrency: int) -> TierReplay:
    tiers = TimedTiers(LinkModel([1.0, 1.0], now=0.0), slots=1, host_blocks=1, batch=1, block_bytes=1.0)
    return TierReplay(tiers, [], concurrency=concurrency)


LEAST: dict[str, tuple[Maker, dict[str, int]]] = {
    "a pool with a null block": (lambda num_blocks: BlockPool(num_blocks), {"num_blocks": 2}),
    "a pool without": (lambda num_blocks: BlockPool(num_blocks, null_block=False), {"num_blocks": 1}),
    "a free list": (lambda num_blocks: FreeList(num_blocks), {"num_blocks": 0}),
    "a manager": (lambda block_tokens: KVCacheManager(BlockPool(2), block_tokens=block_tokens), {"block_tokens": 1}),
    "a payload": (Payload, {"num_blocks": 1, "block_tokens": 1, "layers": 1, "heads": 1, "head_dim": 1}),
    "a host tier": (HostTier, {"capacity": 1}),
    "a mirror": (
        lambda **given: MirrorManager(BlockPool(2), host=HostTier(1), **given),
        {"block_tokens": 1, "base_latency": 0},
    ),
    "an offload manager": (
        lambda **given: OffloadManager(BlockPool(2), host=BlockPool(1, null_block=False), **given),
        {"block_tokens": 1, "workers": 1, "max_pairs": 1},
    ),
    "a window": (
        lambda **given: WindowFlow(KVCacheManager(BlockPool(2), block_tokens=1), **given),
        {"window_tokens": 1, "min_drop": 0},
    ),
    "an index": (LruIndex, {"capacity": 1}),
    "a group": (lambda block: Group(block, "full"), {"block": 1}),
    "a group with a window": (lambda window: Group(1, "window", window), {"window": 1}),
    "a planner": (
        lambda **given: HybridPlanner(groups=[Group(1, "full")], **given),
        {"hash_block": 1, "chunk": 1, "offload_block": 1},
    ),
    "a hybrid cache": (lambda hash_block: HybridCache(BlockPool(2), hash_block, [Group(1, "full")]), {"hash_block": 1}),
    "a connector": (connector, {"max_writes": 1}),
    "several connectors": (
        lambda max_pending: MultiConnector([connector(1)], hybrid=False, max_pending=max_pending),
        {"max_pending": 1},
    ),
    "timed tiers": (
        lambda **given: TimedTiers(LinkModel([1, 1]), **given),
        {"slots": 1, "host_blocks": 0, "batch": 1, "block_bytes": 0},
    ),
    "a shared tier": (
        lambda **given: SharedTier(LinkModel([1]), **given),
        {"workers": 1, "block_bytes": 0},
    ),
    "a replay": (replay, {"concurrency": 1}),
}


@pytest.mark.parametrize("name", LEAST)
def test_the_least_is_taken_and_one_less_is_refused(name):
    make, least = LEAST[name]
    make(**least)
    for number, value in least.items():
        with pytest.raises((RefusedError, ValueError)):
            make(**least | {number: value - 1})
