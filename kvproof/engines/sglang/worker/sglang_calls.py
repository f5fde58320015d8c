"""What a scheduler asks of a request and of its tree, in each release's own words (0.5.12 to 0.5.23).

Since 0.5.22 a request checks in (`checkpoint`) and has its lock; before, the tree caches it, and the lock is what its
node and a receipt say together.
"""

from itertools import groupby
from types import SimpleNamespace

import sglang_setup  # noqa: F401 - before anything of the release
from sglang.srt.mem_cache import common
from sglang_drift import SALTED

__all__ = [
    "CHECKS_IN", "allocation", "batches_of", "checkpoint", "extend_to", "extended_to", "lock", "lock_of", "looked_up",
    "match", "prefix_len", "prefix_of", "refresh", "release", "take", "unlock",
]  # fmt: skip

CHECKS_IN = hasattr(common, "checkpoint_kv_cache")

allocation = common
if not hasattr(common, "alloc_req_slots"):
    from sglang.srt.mem_cache import allocation
"""Where slots are asked for: a module of its own since 0.5.16."""

if not CHECKS_IN:
    from sglang.srt.managers.schedule_policy import match_prefix_for_req


def match(req, cache) -> None:
    """Look up what is cached of a request that is to be admitted."""
    req.init_next_round_input(cache)
    if hasattr(req, "fill_ids"):  # 0.5.12 knows only what is scheduled: what is to be, in the words of 0.5.13.
        req.full_untruncated_fill_ids, req.fill_len = req.fill_ids, 0


def looked_up(req, cache, most: int) -> int:
    """Return how many tokens of a waiting request are cached, at most so many, as a scheduler asks that orders it."""
    if CHECKS_IN:
        return common.match_kv_cache(req, cache, max_prefix_len=most).device_prefix_len
    return len(match_prefix_for_req(cache, req, (req.origin_input_ids + req.output_ids)[:most]).device_indices)


def prefix_len(req) -> int:
    """Return how many tokens of a request need not be computed."""
    return req.prefix_len if CHECKS_IN else len(req.prefix_indices)


def prefix_of(req, cache):
    """Return their slots."""
    return cache.prefix_device_indices(req) if CHECKS_IN else req.prefix_indices


def refresh(req) -> None:
    """Let what is to be computed be prompt and output."""
    if CHECKS_IN:
        req.refresh_fill_ids()
    elif hasattr(req, "_refresh_fill_ids"):
        req._refresh_fill_ids()
    else:  # Before 0.5.14.
        req.full_untruncated_fill_ids = req.origin_input_ids + req.output_ids


def extended_to(req) -> int | None:
    """Return the position up to which a prompt was scheduled; None: not at all."""
    if CHECKS_IN:
        return req.extend_end
    if not hasattr(req, "extend_range"):  # Before 0.5.15.
        return req.fill_len or None
    return None if req.extend_range is None else req.extend_range.end


def extend_to(req, start: int, end: int) -> None:
    """Say which tokens of a prompt are scheduled."""
    if CHECKS_IN:
        req.extend_end = end
    elif hasattr(req, "extend_range"):
        req.set_extend_range(start, end)
    else:
        req.fill_len = end
        req.set_extend_input_len(end - start)
        if hasattr(req, "fill_ids"):
            req.fill_ids = req.full_untruncated_fill_ids[:end]


def lock(req, cache):
    """Lock what a request was found, and return the lock."""
    if CHECKS_IN:
        return cache.lock(req.last_node)
    return SimpleNamespace(node=req.last_node, taken=cache.inc_lock_ref(req.last_node))


def unlock(cache, held) -> None:
    """Give a lock back that no request has taken."""
    if CHECKS_IN:
        cache.unlock(held)
    else:
        cache.dec_lock_ref(held.node, held.taken.to_dec_params())


def take(req, held) -> None:
    """Let a request have a lock."""
    if CHECKS_IN:
        req.lock = held
    elif hasattr(req, "lock_receipt"):
        req.lock_receipt = held.taken.to_dec_params()
    else:
        req.swa_uuid_for_lock, req.skip_lock_node_ids = held.taken.swa_uuid_for_lock, {}


def lock_of(req):
    """Return the lock of a request that has a row, or of a conversation that has one between its turns: its ``node``,
    and whether that of the window is ``swa_released``, of which conversations say nothing before 0.5.20."""
    if CHECKS_IN:
        return req.lock
    node = req.last_node  # The node itself before 0.5.17, since then its number.
    return SimpleNamespace(node=getattr(node, "id", node), swa_released=getattr(req, "swa_prefix_lock_released", False))


def checkpoint(req, cache, chunked: bool) -> None:
    """Let the tree have what was computed of a request that goes on; ``chunked``: its prompt is not over."""
    if CHECKS_IN:
        common.checkpoint_kv_cache(req, cache)
    else:
        common.maybe_cache_unfinished_req(req, cache, **({"chunked": True} if chunked else {}))


def batches_of(passes: list) -> list[tuple[bool, list]]:
    """Return passes, in their order, as batches, and of each whether what its results free waits for its end.

    Before 0.5.18 what prompts free does not: what waits is a view of a row, which a prompt's check-in writes.
    """
    if SALTED:
        return [(True, passes)]
    return [(not extends, list(batch)) for extends, batch in groupby(passes, lambda done: done.extends)]


def release(req, cache, keep: bool) -> None:
    """Let a request give up its row; the tree gets what was computed where it is to be kept."""
    common.release_kv_cache(req, cache, **{"checkpoint" if CHECKS_IN else "is_insert": keep})
