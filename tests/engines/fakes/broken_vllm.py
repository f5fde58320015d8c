"""The adapter of vLLM over a release whose HiSparse is broken in one way, which the setup names."""

import contextlib
import os
import sys
from unittest import mock

sys.path.insert(2, os.environ["KVPROOF_TEST_ADAPTERS"])

import vllm_engine
from level import Refused
from vllm.v1.hisparse.coordinator import HiSparseCoordinator
from vllm_scheduler import SchedulerLevel, _driver_problem

__all__ = ["LEVELS", "Refused", "prepare", "version"]

prepare, version = vllm_engine.prepare, vllm_engine.version
_mirrors, _updates = HiSparseCoordinator.build_row_mirrors, HiSparseCoordinator.take_residency_updates
_plan, _completed = HiSparseCoordinator._plan_page_transfer, HiSparseCoordinator._complete_host_writes
_publish = HiSparseCoordinator.publish_when_ready


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


FAULTS = {
    "a row less": ("build_row_mirrors", _one_row_less),
    "keeps a lost page": ("_lose_page", lambda self, request_id, page_idx: None),
    "tells of no lost page": ("take_residency_updates", _tells_nothing_stale),
    "holds no page that is copied": ("_plan_page_transfer", _holds_nothing),
    "never lets go": ("_complete_host_writes", _never_lets_go),
    "published at once": ("publish_when_ready", _publishes_at_once),
    "drifted": ("take_residency_updates", None),
}
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
        return mock.patch.object(HiSparseCoordinator, *self._fault) if self._fault else contextlib.nullcontext()


LEVELS = {"scheduler": _Broken}
