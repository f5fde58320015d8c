"""Run by a release's own interpreter under ``kvproof run``: its scheduler, with one fault after the other put into it.

``python sanitized.py WORKER ADAPTERS [deaf]``: the folders of the kit's worker, whose level ``scheduler`` plays the
model; ``deaf``: nothing can be written to standard error.
"""

import contextlib
import errno
import io
import sys

sys.path[:0] = sys.argv[1:3]

import vllm.v1.core.block_pool as block_pool
import vllm.v1.core.kv_cache_utils as utils
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm_scheduler import SchedulerLevel

SETUP = {"groups": [{"kind": "full", "block": 2}], "blocks": 14, "max_len": 16, "budget": 16, "events": False}


def play() -> None:
    """Prompts that share a prefix, more of them than the pool keeps: blocks are hit, evicted, freed, taken again."""
    level = SchedulerLevel(SETUP)
    for turn in range(12):
        level.op_add({"tokens": [0, 1, 2, 0, turn % 3, turn // 3, 1], "max_tokens": 3})
        level.op_step({"token": 3})
    for turn in (11, 11, 3):
        level.op_drain({})
        level.op_add({"tokens": [0, 1, 2, 0, turn % 3, turn // 3, 1], "max_tokens": 3})
    level.op_drain({})


def forgetful(method):
    """What puts blocks into the queue forgets the last one."""
    return lambda queue, blocks: method(queue, blocks[:-1])


def twice(method):
    """Every free is done twice."""

    def free(pool, blocks):
        blocks = list(blocks)
        method(pool, blocks)
        method(pool, blocks)

    return free


def stays(_method):
    """A block that is touched stays in the queue."""
    return lambda queue, block: None


def peeked(method):
    """An entry that is taken from the map stays in it."""

    def pop(entries, key, number):
        before = entries._cache.get(key)
        block = method(entries, key, number)
        if before is not None:
            entries._cache[key] = before
        return block

    return pop


def backwards(method):
    """What is handed out is not the head of the queue, but the head's end first."""
    return lambda queue, n: method(queue, n)[::-1]


def leak(_method):
    """A request that ends gives nothing back."""
    return lambda manager, request: None


Queue, Entries, Pool = utils.FreeKVCacheBlockQueue, block_pool.BlockHashToBlockMap, block_pool.BlockPool
FAULTS = {
    "none": [],
    "forgetful free": [(Queue, "append_n", forgetful), (Queue, "prepend_n", forgetful)],
    "double free": [(Pool, "free_blocks", twice)],
    "touch stays": [(Queue, "remove", stays)],
    "stale entry": [(Entries, "pop", peeked)],
    "order": [(Queue, "popleft_n", backwards)],
    "leak": [(KVCacheManager, "free", leak), (KVCacheManager, "pop_blocks_for_free", lambda _: lambda *_args: [])],
}


class Deaf(io.StringIO):
    """A log on a full disk."""

    def write(self, _text):
        raise OSError(errno.ENOSPC, "No space left on device")


def main() -> None:
    """Play each fault on a scheduler of its own, and say which pool it was."""
    deaf = sys.argv[3:] == ["deaf"]
    if deaf:
        sys.stderr = Deaf()
    for name, changes in FAULTS.items():
        kept = [(cls, method, cls.__dict__[method]) for cls, method, _ in changes if method in cls.__dict__]
        for cls, method, change in changes:
            if method in cls.__dict__:
                setattr(cls, method, change(cls.__dict__[method]))
        if not deaf:
            print("fault", name, file=sys.stderr, flush=True)
        with contextlib.suppress(AssertionError, LookupError, RuntimeError, ValueError):  # It may end the scheduler.
            play()
        for cls, method, original in kept:
            setattr(cls, method, original)
    if not deaf:
        print("fault stop", file=sys.stderr, flush=True)
    level = SchedulerLevel(SETUP)
    level._pool._kvproof_watch._settings = level._pool._kvproof_watch._settings._replace(stop=True)
    level._pool.blocks[3].ref_cnt = 5
    try:
        level._pool.free_blocks([level._pool.blocks[4]])
    except Exception as error:
        print("stopped", type(error).__name__, error, flush=True)


main()
