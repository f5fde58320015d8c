"""The adapter of vLLM over a release that is broken in one way, which the setup names: its HiSparse, its disk, its
cache of encodings, its tiers below the host or the workers above them, or what clients are told."""

import contextlib
import os
import sys
from unittest import mock

sys.path.insert(2, os.environ["KVPROOF_TEST_ADAPTERS"])

import vllm_engine
from level import Refused
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.worker import OffloadingConnectorWorker
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.hisparse.coordinator import HiSparseCoordinator
from vllm.v1.kv_offload.tiering.manager import TieringOffloadingManager
from vllm.v1.metrics.stats import PrefillStats
from vllm.v1.simple_kv_offload import disk_backend
from vllm.v1.simple_kv_offload.disk_backend import DiskBackend
from vllm_scheduler import SchedulerLevel, _driver_problem

__all__ = ["LEVELS", "Refused", "prepare", "version"]

prepare, version = vllm_engine.prepare, vllm_engine.version
_mirrors, _updates = HiSparseCoordinator.build_row_mirrors, HiSparseCoordinator.take_residency_updates
_plan, _completed = HiSparseCoordinator._plan_page_transfer, HiSparseCoordinator._complete_host_writes
_publish = HiSparseCoordinator.publish_when_ready
_read, _launch = DiskBackend._readv_slot, DiskBackend.launch_copy
_load, _store = DiskBackend._do_load, DiskBackend._do_store


def _one_row_less(self, requests):
    return _mirrors(self, [(r, start, count - 1) for r, start, count in requests])


def _tells_nothing_stale(self, request_ids):
    for state in self.request_states.values():
        state.stale_pages.clear()
    return _updates(self, request_ids)


def _holds_nothing(self, *args, **more):
    planned = _plan(self, *args, **more)
    if planned:
        self.host_manager.block_pool.free_blocks([self.pending_spills[self.next_spill_id - 1].host_block])
    return planned


def _never_lets_go(self) -> None:
    blocks = [spill.host_block for spill in self.pending_spills.values()]
    _completed(self)
    left = {id(spill.host_block) for spill in self.pending_spills.values()}
    self.host_manager.block_pool.touch([block for block in blocks if id(block) not in left])


def _publishes_at_once(self, request, num_computed_tokens, *args, **more):
    state = self._get_request_state(request.request_id)
    state.ready_prefix_pages = num_computed_tokens // self.host_manager.block_size
    _publish(self, request, num_computed_tokens, *args, **more)


def _reads_beside(self, slot, offset):
    return _read(self, slot, offset + self._total_block_bytes)


def _of_half_the_layers(self, slot, offset):
    views = self._load_slot_views[slot]
    first = views[: len(views) // 2]
    disk_backend.os.preadv(self._fd, first, offset)


def _without_waiting(method):
    """The method, to which all that the device was given counts as done."""

    def waits_for_nothing(self, blocks, slots, stream):
        with mock.patch.object(disk_backend.torch.Event, "synchronize"):
            method(self, blocks, slots, stream)

    return waits_for_nothing


def _turned(self, blocks, slots, stream):
    _store(self, blocks, slots[::-1], stream)


def _told_when_it_is_asked_for(self, blocks, others, is_store, event_idx, events, **wait):
    event = disk_backend.torch.Event()
    event.record(self._store_stream if is_store else self._load_stream)
    events.append((event_idx, event))
    _launch(self, blocks, others, is_store, event_idx, [], **wait)


HISPARSE = {
    "a row less": ("build_row_mirrors", _one_row_less),
    "keeps a lost page": ("_lose_page", lambda self, request_id, page_idx: None),
    "tells of no lost page": ("take_residency_updates", _tells_nothing_stale),
    "holds no page that is copied": ("_plan_page_transfer", _holds_nothing),
    "never lets go": ("_complete_host_writes", _never_lets_go),
    "published at once": ("publish_when_ready", _publishes_at_once),
    "drifted": ("take_residency_updates", None),
}


_said, _sampled = PrefillStats.set, Scheduler._update_request_with_output


def _all_is_cached(self, num_prompt_tokens, *_found, **_more) -> None:
    _said(self, num_prompt_tokens, num_prompt_tokens, 0)


def _loses_the_last_token(self, request, new_token_ids, **more):
    tokens, is_over = _sampled(self, request, new_token_ids, **more)
    return (tokens[:-1] if is_over else tokens), is_over


def _stores_alone(worker, metadata) -> None:
    """Of workers that share a copy, those that do not store say nothing of it, though all are waited for."""
    if worker._is_store_writer:
        for job_id, entry in metadata.store_jobs.items():
            worker._unsubmitted_store_jobs.append((job_id, entry.src_spec, entry.dst_spec))


DISK = {
    "reads the slot beside": ("_readv_slot", _reads_beside),
    "reads half the layers": ("_readv_slot", _of_half_the_layers),
    "writes what has not come": ("_do_store", _without_waiting(_store)),
    "reads over what has not gone": ("_do_load", _without_waiting(_load)),
    "slots turned round": ("_do_store", _turned),
    "told when it is asked for": ("launch_copy", _told_when_it_is_asked_for),
}
FAULTS = {name: (HiSparseCoordinator, *fault) for name, fault in HISPARSE.items()}
FAULTS |= {name: (DiskBackend, *fault) for name, fault in DISK.items()}
FAULTS["tells of no eviction"] = EncoderCacheManager, "get_freed_mm_hashes", lambda self: []
FAULTS["tells no tier of an end"] = TieringOffloadingManager, "_maybe_finalize_request", lambda self, *_: None
FAULTS["tells of no store of others"] = OffloadingConnectorWorker, "prepare_store_kv", _stores_alone
FAULTS["tells all as cached"] = PrefillStats, "set", _all_is_cached
FAULTS["loses the last token"] = Scheduler, "_update_request_with_output", _loses_the_last_token
"""Where each fault is, and what stands there instead."""


class _Broken(SchedulerLevel):
    """The level, over a release with the fault that a setup names: none, where it names none."""

    def __init__(self, setup: dict) -> None:
        self._fault = FAULTS.get(setup.pop("fault", ""))
        _driver_problem.cache_clear()
        with self._in_place():
            super().__init__(setup)

    def do(self, op: str, args: dict):
        """Do an operation, with the fault in place."""
        with self._in_place():
            return super().do(op, args)

    def _in_place(self):
        return mock.patch.object(*self._fault) if self._fault else contextlib.nullcontext()


LEVELS = {"scheduler": _Broken}
