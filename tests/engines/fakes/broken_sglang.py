"""The adapter of SGLang over a release whose scheduler is broken in one way, which the setup names."""

import os
import sys

sys.path.insert(2, os.environ["KVPROOF_TEST_ADAPTERS"])

import sglang_engine
from level import Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]

prepare, version = sglang_engine.prepare, sglang_engine.version


def _no_release(scheduler) -> None:
    """What a finished request holds is not given back."""
    from sglang.srt.managers.scheduler_components import batch_result_processor

    _patch(batch_result_processor, "release_kv_cache", lambda req, _tree, **_how: None)


def _no_unlock(scheduler) -> None:
    """A request that finishes leaves its lock."""
    _patch(scheduler.tree_cache, "unlock", lambda _lock: None)


def _wrong_relay(scheduler) -> None:
    """The token that is sampled is not the one that the next pass is fed."""
    stash = scheduler.future_map.stash

    def other(indices, payload):
        payload.bonus_tokens = (payload.bonus_tokens + 1) % 3
        stash(indices, payload)

    _patch(scheduler.future_map, "stash", other)


def _early_free(scheduler) -> None:
    """The first page of a prompt is freed when its pass is processed."""
    process = scheduler.process_batch_result

    def processed(batch, result):
        row = scheduler.req_to_token_pool.req_to_token[batch.reqs[0].kv.req_pool_idx, : scheduler.page_size].long()
        process(batch, result)
        scheduler.token_to_kv_pool_allocator.free(row)

    _patch(scheduler, "process_batch_result", processed)


def _lost_abort(scheduler) -> None:
    """Aborts are not heard."""
    from sglang.srt.managers.io_struct import AbortReq

    heard = scheduler.process_input_requests
    silent = lambda messages: heard([each for each in messages if not isinstance(each, AbortReq)])  # noqa: E731
    _patch(scheduler, "process_input_requests", silent)


def _never_admits(scheduler) -> None:
    """The queue is never looked at."""
    _patch(scheduler, "_should_defer_prefill", lambda _batch: True)


def _stale_row(scheduler) -> None:
    """A row points one slot further than it should."""
    forward = scheduler.model_worker.forward_batch_generation

    def launched(batch, **how):
        if batch.forward_mode.is_decode():
            rows = scheduler.req_to_token_pool.req_to_token
            rows[batch.req_pool_indices[0], 0] = rows[batch.req_pool_indices[0], 0] % scheduler.max_total_num_tokens + 1
        return forward(batch, **how)

    _patch(scheduler.model_worker, "forward_batch_generation", launched)


def _early_window(scheduler) -> None:
    """Tokens are given up before they have left the window."""
    evict = scheduler.tree_cache.evict_sliding_windows
    early = lambda req, length, **how: evict(req, length + 4, **how)  # noqa: E731
    _patch(scheduler.tree_cache, "evict_sliding_windows", early)


def _kept_window(scheduler) -> None:
    """What is said to have left the window is not freed."""
    _patch(scheduler.token_to_kv_pool_allocator, "free_swa_segment", lambda _slots, **_how: None)


_FAULTS = {
    fault.__name__.removeprefix("_").replace("_", " "): fault
    for fault in (
        _no_release,
        _no_unlock,
        _wrong_relay,
        _early_free,
        _lost_abort,
        _never_admits,
        _stale_row,
        _early_window,
        _kept_window,
    )
}
_undo: list = []


def _patch(owner, name: str, value) -> None:
    _undo.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _broken(setup: dict):
    while _undo:
        setattr(*_undo.pop())
    fault = setup.pop("fault", None)
    made = sglang_engine.LEVELS["scheduler"](setup)
    if fault is not None:
        _FAULTS[fault](made.served)
    return made


LEVELS = {"scheduler": _broken}
