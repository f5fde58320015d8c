"""The adapter of SGLang over a release with a scheduler, tree or allocator broken in one way, which the setup names."""

import os
import sys
from functools import partial

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
    tree = scheduler.tree_cache
    _patch(tree, "unlock" if hasattr(tree, "unlock") else "dec_lock_ref", lambda *_lock, **_how: None)  # Since 0.5.22.


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


def _unkept(scheduler) -> None:
    """Of a request that has finished nothing that it made goes into the tree."""
    cache = scheduler.tree_cache
    name = "checkpoint" if hasattr(cache, "checkpoint") else "insert_req"  # The latter before 0.5.22.
    keep = getattr(cache, name)
    _patch(cache, name, lambda req, **how: None if req.finished() else keep(req, **how))


def _lost_abort(scheduler) -> None:
    """Aborts are not heard."""
    from sglang.srt.managers.io_struct import AbortReq

    heard = scheduler.process_input_requests
    silent = lambda messages: heard([each for each in messages if not isinstance(each, AbortReq)])  # noqa: E731
    _patch(scheduler, "process_input_requests", silent)


def _never_admits(scheduler) -> None:
    """The queue is never looked at."""
    _patch(scheduler, "_should_defer_prefill", lambda *_batch: True)


def _says(scheduler, change) -> None:
    """What clients are told is changed before it is sent."""
    sent, outbox = scheduler.ipc_channels.send_output, scheduler.ipc_channels

    def send_output(output, *about) -> None:
        if hasattr(output, "finished_reasons"):
            change(output)
        sent(output, *about)

    _patch(outbox, "send_output", send_output)


def _lost_token(scheduler) -> None:
    """A client does not get the last token of an answer."""

    def shorten(output) -> None:
        output.output_ids = [
            tokens[:-1] if over else tokens
            for tokens, over in zip(output.output_ids, output.finished_reasons, strict=True)
        ]

    _says(scheduler, shorten)


def _other_answer(scheduler) -> None:
    """A client gets other tokens than were sampled."""

    def exchange(output) -> None:
        output.output_ids = [[(token + 1) % 3 for token in tokens] for tokens in output.output_ids]

    _says(scheduler, exchange)


def _all_cached(scheduler) -> None:
    """A client is told that all of its prompt was cached."""
    _says(scheduler, lambda output: setattr(output, "cached_tokens", output.prompt_tokens))


def _one_more_made(scheduler) -> None:
    """A client is told of one token more than it gets."""
    _says(scheduler, lambda output: setattr(output, "completion_tokens", [n + 1 for n in output.completion_tokens]))


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
    from sglang.srt.managers.schedule_batch import ScheduleBatch

    evict = ScheduleBatch._evict_swa
    early = lambda batch, req, length, **how: evict(batch, req, length + 4, **how)  # noqa: E731
    _patch(ScheduleBatch, "_evict_swa", early)


def _kept_window(scheduler) -> None:
    """What is said to have left the window is not freed."""
    allocator = scheduler.token_to_kv_pool_allocator
    name = "free_swa_segment" if hasattr(allocator, "free_swa_segment") else "free_swa"  # Since 0.5.20.
    _patch(allocator, name, lambda _slots, **_how: None)


def _uncopied_state(scheduler) -> None:
    """A request goes on from a state that was never copied to it."""
    _patch(scheduler.memory, "copy_states", lambda _batch: None)


def _kept_reserve(_scheduler) -> None:
    """Slots for drafts that a request has beyond its tokens are not given back."""
    from sglang.srt.mem_cache import common

    _patch(common, "_release_overallocated_kv_indices", lambda *_request: None)


def _counted_draft(scheduler) -> None:
    """One draft that was not right counts as computed, where not all were right."""
    process = scheduler.process_batch_result

    def processed(batch, result):
        process(batch, result)
        if result.accept_lens is not None and batch.forward_mode.is_decode():
            for req in batch.reqs:
                req.kv.kv_committed_len += req.kv.kv_committed_len < req.kv.kv_allocated_len

    _patch(scheduler, "process_batch_result", processed)


def _no_reserve(_scheduler) -> None:
    """A pass that verifies drafts has no slots for them."""
    from sglang.srt.speculative import eagle_utils

    _patch(eagle_utils, "get_alloc_reserve_per_decode", lambda: 1)


def _early_ack(scheduler) -> None:
    """A store to the host counts as done when it is submitted."""
    cache = scheduler.tree_cache
    submit = cache.cache_controller.start_writing

    def submitted() -> None:
        submit()
        while cache.cache_controller.ack_write_queue:
            for node in cache.cache_controller.ack_write_queue.pop(0).node_ids:
                cache._finish_write_through_ack(node)

    _patch(cache.cache_controller, "start_writing", submitted)


def _no_wait(scheduler) -> None:
    """A batch does not know that it begins with a load."""
    begin = scheduler.tree_cache.ready_to_load_host_cache
    _patch(scheduler.tree_cache, "ready_to_load_host_cache", lambda: (begin(), -1)[1])


def _host_leak(scheduler) -> None:
    """What is evicted from the host is not given back."""
    full = scheduler.tree_cache._components_tuple[0]
    _patch(full, "free_host_values", lambda values: values.clear())


def _crossed_copies(scheduler) -> None:
    """Pages are stored in another order than they are counted in."""
    controller = scheduler.tree_cache.cache_controller
    transfers = controller._l2_transfers

    def crossed(host, device, pools=None):
        return transfers(host.flip(0) if len(host) > scheduler.page_size else host, device, pools)

    _patch(controller, "_l2_transfers", crossed)


def _forgotten_copy(scheduler) -> None:
    """A node that is given up on the device forgets what it has on the host."""
    core = scheduler.tree_cache.tree_core
    demote = core._demote

    def demoted(node, *args, **how):
        demote(node, *args, **how)
        node.component_data[0].host_value = None

    _patch(core, "_demote", demoted)


def _reclaimed_in_flight(scheduler) -> None:
    """The host's copy of what is on the device too is given up, whether it is still being written or not."""
    core = scheduler.tree_cache.tree_core
    both = lambda node: None not in (node.component_data[0].value, node.component_data[0].host_value)  # noqa: E731
    _patch(core, "_is_settled_full_host_duplicate", both)
    _patch(core, "_can_reclaim_full_host_duplicate", both)


def _lost_load(scheduler) -> None:
    """Nobody hears that a load is over."""
    _patch(scheduler.tree_cache, "loading_check", lambda finish_count=None: None)


def _lost_anchor(scheduler) -> None:
    """A load does not hold what it reads."""
    core = scheduler.tree_cache.tree_core

    def unheld(node, _params):
        core.node_by_id(node).component_data[0].host_lock_ref -= 1

    lock = core.inc_host_lock_ref
    _patch(core, "dec_host_lock_ref", lambda *_: None)

    def locked(node):
        result = lock(node)
        unheld(node, result)
        return result

    _patch(core, "inc_host_lock_ref", locked)


def _kept_tail(scheduler) -> None:
    """Pages that were to be read into, and were not, are not given back."""
    _patch(scheduler.tree_cache.cache_controller, "append_host_mem_release", lambda *_slots, **_pools: None)


def _crossed_reads(scheduler) -> None:
    """Pages are read from the storage in another order than they are counted in."""
    controller = scheduler.tree_cache.cache_controller
    read = controller._page_transfer_kv_batch
    _patch(
        controller, "_page_transfer_kv_batch",
        lambda operation, keys, slots, *more: read(operation, keys, slots.flip(0), *more),
    )  # fmt: skip


def _freed_under_a_read(scheduler) -> None:
    """Whoever is aborted gives back all that is being read for it, and gets the rest back once more when it was."""
    cache = scheduler.tree_cache
    retire = cache._retire_ongoing_prefetch
    _patch(
        cache, "_retire_ongoing_prefetch",
        lambda request, slots, pools: retire(request, cache.ongoing_prefetch[request].host_indices, pools),
    )  # fmt: skip


def _unheld_write(scheduler) -> None:
    """A node on the host is not held while it is being written to the storage."""
    cache = scheduler.tree_cache
    write = cache.write_backup_storage

    def written(node) -> None:
        before = set(cache.ongoing_backup)
        write(node)
        for number in set(cache.ongoing_backup) - before:
            cache.dec_host_lock_ref(*cache.ongoing_backup[number])

    _patch(cache, "write_backup_storage", written)


def _of_states(scheduler):
    from sglang_drift import ComponentType

    return scheduler.tree_cache.components[ComponentType.MAMBA]


def _unloaded_state(scheduler) -> None:
    """A state comes back from the host to its node, and not to the request that goes on from it."""
    states = _of_states(scheduler)
    build = states.build_hicache_transfers
    _patch(states, "build_hicache_transfers", lambda *node, **how: (build(*node, **how) or [])[:1] or None)


def _unstored_part(scheduler, kind: str, on: str = "BACKUP_HOST") -> None:
    from sglang_drift import ComponentType

    part = scheduler.tree_cache.components[ComponentType[kind]]
    build = part.build_hicache_transfers

    def built(node, phase, **how):
        return None if phase.name == on else build(node, phase, **how)

    _patch(part, "build_hicache_transfers", built)


def _unstored_state(scheduler) -> None:
    """States are never stored on the host."""
    _unstored_part(scheduler, "MAMBA")


def _unstored_window(scheduler) -> None:
    """Slots of the window are never stored on the host."""
    _unstored_part(scheduler, "SWA")


def _unwritten_state(scheduler) -> None:
    """States on the host do not go on to the storage."""
    _unstored_part(scheduler, "MAMBA", on="BACKUP_STORAGE")


def _unwritten_window(scheduler) -> None:
    """Nor do slots of the window."""
    _unstored_part(scheduler, "SWA", on="BACKUP_STORAGE")


def _unwritten(scheduler) -> None:
    """Nothing on the host goes on to the storage."""
    _patch(scheduler.tree_cache, "write_backup_storage", lambda _node: None)


def _unread_state(scheduler) -> None:
    """States are not read from the storage."""
    _unstored_part(scheduler, "MAMBA", on="PREFETCH")


def _unread_window(scheduler) -> None:
    """Nor are slots of the window."""
    _unstored_part(scheduler, "SWA", on="PREFETCH")


def _unread(scheduler) -> None:
    """Nothing is read from the storage."""
    _patch(scheduler.tree_cache, "prefetch_from_storage", lambda *_what, **_how: None)


def _takes_too_much(scheduler) -> None:
    """An eviction from the host goes on until nothing is left."""
    core = scheduler.tree_cache.tree_core
    evict = core.drive_host_eviction
    _patch(core, "drive_host_eviction", lambda kind, _count: evict(kind, 1 << 20))


def _stops_early(scheduler) -> None:
    """An eviction from the host takes one node."""
    core = scheduler.tree_cache.tree_core
    evict = core.drive_host_eviction
    _patch(core, "drive_host_eviction", lambda kind, count: evict(kind, min(count, 1)))


def _tells_less(scheduler) -> None:
    """An eviction from the host says a page less than it frees."""
    core = scheduler.tree_cache.tree_core
    evict = core.drive_host_eviction

    def evicted(kind, count):
        result = evict(kind, count)
        result.tracker[kind] -= scheduler.page_size
        return result

    _patch(core, "drive_host_eviction", evicted)


def _unlisted(scheduler, kind: str) -> None:
    from sglang_drift import ComponentType

    lru = scheduler.tree_cache.tree_core.host_lru_lists[ComponentType[kind]]
    _patch(lru, "get_lru_no_host_lock", lambda: None)


def _unlisted_state(scheduler) -> None:
    """No state on the host is among those that can go."""
    _unlisted(scheduler, "MAMBA")


def _unlisted_window(scheduler) -> None:
    """No slots of the window on the host are among those that can go."""
    _unlisted(scheduler, "SWA")


def _takes_what_is_held(scheduler) -> None:
    """An eviction from the host does not ask what is locked there."""
    core = scheduler.tree_cache.tree_core
    is_leaf = lambda node: (  # noqa: E731
        node is not core.root_node and node.evicted and node.backuped and not node.children
    )
    _patch(core, "_is_host_leaf", is_leaf)


def _hasty_state(scheduler) -> None:
    """A state is copied to a request without waiting for the load that brings it."""
    _patch(scheduler.req_to_token_pool, "layer_transfer_counter", None)


def _state_freed_twice(scheduler) -> None:
    """A state's place on the host is given back twice."""
    states = _of_states(scheduler)
    free = states.free_host_values
    _patch(states, "free_host_values", lambda values: (free(values), free(values))[0])


def _kept_state(scheduler) -> None:
    """A state's place on the host is not given back."""
    _patch(_of_states(scheduler), "free_host_values", lambda _values: None)


def _state_left_locked(scheduler) -> None:
    """What a store locks is released, but for the state."""
    states = _of_states(scheduler)
    release = states.release_component_lock

    def released(node, params, lock_host=False) -> None:
        if lock_host or node.component_data[0].host_value is None:
            release(node, params, lock_host=lock_host)

    _patch(states, "release_component_lock", released)


def _state_left_anchored(scheduler) -> None:
    """What a load holds on the host is released, but for the state."""
    states = _of_states(scheduler)
    release = states.release_component_lock

    def released(node, params, lock_host=False) -> None:
        if not lock_host:
            release(node, params)

    _patch(states, "release_component_lock", released)


def _state_of_a_half(scheduler) -> None:
    """Of a node that is split the upper half gets the state on the host, which is that of the lower one's end."""
    states = _of_states(scheduler)
    split = states.redistribute_on_node_split

    def halved(new_parent, child) -> None:
        split(new_parent, child)
        upper, lower = (node.component_data[states.component_type] for node in (new_parent, child))
        upper.host_value, lower.host_value = lower.host_value, None

    _patch(states, "redistribute_on_node_split", halved)


# As reported of SGLang, and mended in the releases that are driven: planted back (docs/findings.md).


def _checked_in_twice(scheduler) -> None:
    """What a request has checked in counts as its own still, and is checked in again."""
    check_in = scheduler.tree_cache.checkpoint

    def checked_in(req, **how):
        check_in(req, **how)
        req.kv.cache_protected_len = 0

    _patch(scheduler.tree_cache, "checkpoint", checked_in)


def _unlocked_twice(scheduler) -> None:
    """A lock of a request is released twice."""
    unlock = scheduler.tree_cache.unlock
    _patch(scheduler.tree_cache, "unlock", lambda lock: (unlock(lock), unlock(lock))[0])


def _unlocked_to_the_root(scheduler) -> None:
    """A lock that is held while a state is made room for is released beyond its window, up to the root."""
    from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

    release = scheduler.tree_cache.dec_lock_ref

    def released(node, receipt, **how):
        if not how and ComponentType.SWA in receipt.component_lock_uuids:
            receipt.component_lock_uuids[ComponentType.SWA] = None
        return release(node, receipt, **how)

    _patch(scheduler.tree_cache, "dec_lock_ref", released)


def _refused_with_a_state(scheduler) -> None:
    """A request that is matched and then refused keeps the state that it was given, and forgets it."""
    from sglang.srt.managers.schedule_policy import AddReqResult, PrefillAdder

    add = PrefillAdder.add_one_req

    def added(adder, req, **how):
        result = add(adder, req, **how)
        if result != AddReqResult.CONTINUE and req not in adder.can_run_list:
            req.kv.mamba_pool_idx = None
        return result

    _patch(PrefillAdder, "add_one_req", added)


def _stale_mapping(scheduler) -> None:
    """Slots that gave up their window still point at what they gave up."""
    allocator = scheduler.token_to_kv_pool_allocator
    if hasattr(allocator, "clear_full_to_swa_mapping"):
        _patch(allocator, "clear_full_to_swa_mapping", lambda _slots: None)


def _silent_removal(scheduler) -> None:
    """What is removed is not reported."""
    events = getattr(scheduler.tree_cache.tree_core, "kv_events", None)
    if events is not None:
        _patch(events, "record_remove", lambda _node, **_where: None)


_FAULTS = {
    fault.__name__.removeprefix("_").replace("_", " "): fault
    for fault in (
        _no_release,
        _no_unlock,
        _wrong_relay,
        _early_free,
        _kept_reserve,
        _counted_draft,
        _no_reserve,
        _unkept,
        _lost_abort,
        _never_admits,
        _lost_token,
        _other_answer,
        _all_cached,
        _one_more_made,
        _stale_row,
        _early_window,
        _kept_window,
        _uncopied_state,
        _early_ack,
        _no_wait,
        _host_leak,
        _crossed_copies,
        _forgotten_copy,
        _reclaimed_in_flight,
        _lost_load,
        _lost_anchor,
        _kept_tail,
        _crossed_reads,
        _freed_under_a_read,
        _unheld_write,
        _unloaded_state,
        _unstored_state,
        _unstored_window,
        _unwritten,
        _unwritten_state,
        _unwritten_window,
        _unread,
        _unread_state,
        _unread_window,
        _takes_too_much,
        _stops_early,
        _tells_less,
        _unlisted_state,
        _unlisted_window,
        _takes_what_is_held,
        _hasty_state,
        _state_freed_twice,
        _kept_state,
        _state_left_locked,
        _state_left_anchored,
        _state_of_a_half,
        _checked_in_twice,
        _unlocked_twice,
        _unlocked_to_the_root,
        _refused_with_a_state,
        _stale_mapping,
        _silent_removal,
    )
}


def _handed_out_again(made) -> None:
    """What is handed out stays free."""
    allocator = made.allocator
    for name in ("alloc", "alloc_extend", "alloc_decode"):
        if hasattr(allocator, name):
            _patch(allocator, name, partial(_and_forget, allocator, getattr(allocator, name)))


def _and_forget(allocator, call, *args, **how):
    free = allocator.free_pages
    slots = call(*args, **how)
    allocator.free_pages = free
    return slots


def _kept_rows(made) -> None:
    """A request that leaves gives up nothing."""
    import sglang_calls

    _patch(sglang_calls, "release", lambda _req, _cache, **_how: None)


def _core(made):
    return getattr(made.cache, "tree_core", made.cache)  # The tree is the cache before 0.5.17.


def _locked_twice(made) -> None:
    """Each lock is taken twice, and given back once."""
    core = _core(made)
    locked = core.inc_lock_ref

    def twice(*args, **how):
        locked(*args, **how)
        return locked(*args, **how)

    _patch(core, "inc_lock_ref", twice)


def _untold_removal(made) -> None:
    """What is removed is not reported."""
    core = _core(made)
    if hasattr(core, "kv_events"):
        _patch(core.kv_events, "record_remove", lambda _node, **_where: None)
    else:  # Before 0.5.19.
        _patch(core, "_record_remove_event", lambda _node, **_where: None)


def _forgotten_ends(made) -> None:
    """What a request computed is given up when it finishes, as if it were retracted."""
    import sglang_calls

    release = sglang_calls.release
    _patch(sglang_calls, "release", lambda req, cache, **_how: release(req, cache, keep=False))


def _evicts_for_nothing(made) -> None:
    """Something is evicted whenever results are processed."""
    import sglang_calls

    batches, memory = sglang_calls.batches_of, made.memory
    asked = [1] + [0] * len(memory.further)
    _patch(sglang_calls, "batches_of", lambda passes: (memory.evict(made.cache, asked), batches(passes))[1])


def _evicts_all(made) -> None:
    """An eviction goes on when enough is free, until nothing is left that could go."""
    evict = made.memory.evict
    made.memory.evict = lambda cache, asked: evict(cache, [99 * count for count in asked])


def _evicts_with_room(made) -> None:
    """Whoever computes a prompt has something evicted before, though there is room."""
    compute, memory = made._compute_prompt, made.memory

    def evict_first(x, *prompt) -> None:
        memory.evict(made.cache, [1] + [0] * len(memory.further))
        compute(x, *prompt)

    made._compute_prompt = evict_first


def _other_order(made) -> None:
    """It is said that what was used last goes last, whatever the policy is."""
    made.world["notes"]["order"] = "lru"


_OF_PARTS = {
    "handed out again": _handed_out_again,
    "kept rows": _kept_rows,
    "locked twice": _locked_twice,
    "untold removal": _untold_removal,
    "forgotten ends": _forgotten_ends,
    "evicts for nothing": _evicts_for_nothing,
    "evicts all": _evicts_all,
    "evicts with room": _evicts_with_room,
    "other order": _other_order,
}
"""Faults of the levels ``tree`` and ``allocator``."""

_undo: list = []


def _patch(owner, name: str, value) -> None:
    _undo.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _broken(level: str, setup: dict):
    while _undo:
        setattr(*_undo.pop())
    fault = setup.pop("fault", None)
    made = sglang_engine.LEVELS[level](setup)
    if fault is not None:
        if level in ("tree", "allocator"):
            _OF_PARTS[fault](made)
        else:
            _FAULTS[fault](made.served)
    return made


LEVELS = {level: partial(_broken, level) for level in sglang_engine.LEVELS}
