"""vLLM's `SimpleCPUOffloadConnector` (since 0.19): a host block pool, one copy per step and direction.

The scheduler's side and the workers' side are the release's own; only what would copy is ours. On a device the copies
of a worker run on two streams, one per direction, each in order.
"""

import sys
from types import SimpleNamespace

import vllm_simple_disk as disk
from level import Refused
from vllm_common import Keys, pool_state
from vllm_side import Side
from vllm_transfers import Part, Transfers

__all__ = ["SimpleSide", "extra_config"]

NAME = "SimpleCPUOffloadConnector"


def extra_config(connector: dict, page: int, workers: int) -> dict:
    """Return what the release is to be told: its size is given in bytes, of all workers together."""
    told = {"lazy_offload": bool(connector.get("lazy"))}
    if connector.get("disk"):
        return told | disk.extra_config(connector, page)
    return told | {"cpu_bytes_to_use": connector["blocks"] * page * workers}


class SimpleSide(Side):
    """One such connector: its copies, its host pool and what it holds."""

    def __init__(self, connector, workers: list, tier: str, transfers: Transfers, setup: dict) -> None:
        from vllm.v1.simple_kv_offload import worker as module

        self.tier, self._transfers = tier, transfers
        manager = connector.scheduler_manager
        if manager is None:
            raise Refused(f"{NAME} does nothing without prefix caching")
        self._manager = manager
        if manager.num_cpu_blocks != setup["blocks"]:
            raise Refused(f"{NAME} made {manager.num_cpu_blocks} blocks of what should be {setup['blocks']}")
        bad = bool(setup.get("disk") and setup.get("bad"))
        self.eager = not setup.get("lazy") and not bad  # What could not be written is not there.
        self.takes_whole_offers, self.shows_all = False, True
        self.media = ("CPU", "STORAGE") if setup.get("disk") else ("CPU",)
        self.sources = ("disk",) if setup.get("disk") else ("host",)
        """What events name this tier."""
        if bad:
            transfers.fallible.add(tier)
        self.resets = hasattr(manager, "reset")
        # Early releases tell of nothing that is stored, only of what is removed.
        self.tells_events = hasattr(sys.modules[type(manager).__module__], "BlockStored")
        self.tiers = {tier: {"blocks": manager.num_cpu_blocks, "null": manager.cpu_block_pool.null_block.block_id}}
        module.torch = _NO_DEVICE
        for number, worker in enumerate(workers):
            handler = worker.worker_handler
            if setup.get("disk"):
                handler._backend = disk.DiskCopies(tier, number, transfers, handler, setup["blocks"])
            else:
                handler._backend = _Copies(tier, number, transfers)
            # Since 0.24 a store waits for what the device computes when it is submitted. Loads do not, as ever.
            self._stores_wait = hasattr(handler, "_store_compute_done")

    def before_forward(self, metadata) -> None:
        """Announce the copies of this step that do not wait for its forward pass, though they are submitted later."""
        announce, tier = self._transfers.announce, self.tier
        if metadata.load_cpu_blocks:
            announce(
                tier, "load", metadata.load_event, _loaded(tier, metadata.load_cpu_blocks, metadata.load_gpu_blocks)
            )
        if metadata.store_gpu_blocks and not self._stores_wait:
            pairs = _stored(tier, metadata.store_gpu_blocks, metadata.store_cpu_blocks)
            announce(tier, "store", metadata.store_event, pairs)

    def pending(self) -> int:
        """Transfers that the scheduler's side waits for."""
        return len(self._in_flight())

    def pools(self, keys: Keys) -> dict:
        """Return the host pool as the protocol has it.

        Up to 0.28 a block gets its hash when its store is planned, and comes into the map when the store ends.
        """
        pool = pool_state(self._manager.cpu_block_pool, keys)
        planned = {b for transfer in self._stores() for b in transfer.cpu_block_ids}
        mapped = {(k, g, b) for k, g, blocks in pool["cached"] for b in blocks}
        pool["hashes"] = [
            [b, [(k, g) for k, g in found if b not in planned or (k, g, b) in mapped]] for b, found in pool["hashes"]
        ]
        return {self.tier: pool}

    def holds(self) -> dict:
        """Return the blocks that transfers and lookups hold."""
        device = [b for transfer in self._in_flight() for b in transfer.gpu_block_ids]
        host = [b for transfer in self._in_flight() for b in transfer.cpu_block_ids]
        for found, *_ in getattr(self._manager, "_pending_cpu_hits", {}).values():
            host += [block.block_id for group in found for block in group if not block.is_null]
        return {"device": device, self.tier: host}

    def _in_flight(self) -> list:
        """The transfers that hold blocks, whether submitted or not."""
        manager = self._manager
        loads = [*manager._reqs_to_load.values(), *getattr(manager, "_abandoned_reqs_to_load", {}).values()]
        return self._stores() + [load.transfer_meta for load in loads if load.transfer_meta is not None]

    def _stores(self) -> list:
        manager = self._manager
        stores = [*manager._store_event_to_blocks.values(), *getattr(manager, "_pending_finished_stores", ())]
        return [*stores, *getattr(manager, "_abandoned_store_event_to_blocks", {}).values()]


class _Copies:
    """Stands where a worker's copy backend is."""

    def __init__(self, tier: str, worker: int, transfers: Transfers) -> None:
        self.tier, self._worker, self._transfers = tier, worker, transfers

    def launch_copy(self, src_blocks, dst_blocks, is_store, event_idx, events_list, **_wait) -> None:
        """Submit a copy, and put the event that says whether it ended where the release looks for it."""
        kind, pairs = ("store", _stored) if is_store else ("load", _loaded)
        part = self._transfers.submit(
            self.tier, kind, self._worker, event_idx, pairs(self.tier, src_blocks, dst_blocks)
        )
        events_list.append((event_idx, _Event(part, self._transfers)))


class _Event:
    """Stands where a device event is, recorded behind a copy."""

    def __init__(self, part: Part, transfers: Transfers) -> None:
        self._part, self._transfers = part, transfers

    def query(self) -> bool:
        """Whether the copy ended."""
        return self._part.done

    def synchronize(self) -> None:
        """Wait for the copy to end."""
        self._transfers.end(self._part)


_NO_DEVICE = SimpleNamespace(
    Event=lambda: SimpleNamespace(record=lambda _stream: None), cuda=SimpleNamespace(current_stream=lambda: None)
)
"""What the worker's module uses of torch once its caches are there."""


def _stored(tier: str, device: list[int], host: list[int]) -> list:
    return [["device", a, tier, b] for a, b in zip(device, host, strict=True)]


def _loaded(tier: str, host: list[int], device: list[int]) -> list:
    return [[tier, a, "device", b] for a, b in zip(host, device, strict=True)]
