"""Run by a release's own interpreter under ``kvproof run``: its chunk manager, with one fault after the other in it.

``python sanitized_chunks.py WORKER ADAPTERS``: the folders of the kit's worker. First the release's own scheduler and
offloading connector are driven, without a fault; then the manager is, by calls.
"""

import contextlib
import sys

sys.path[:0] = sys.argv[1:3]

import vllm.v1.kv_offload.cpu.manager as chunk_manager
from vllm.v1.kv_offload.cpu.policies.lru import LRUCachePolicy as Policy
from vllm_cpu_manager import CpuManagerLevel
from vllm_scheduler import SchedulerLevel

Manager = chunk_manager.CPUOffloadingManager
DEVICE = {"groups": [{"kind": "full", "block": 2}], "blocks": 14, "max_len": 16, "budget": 16, "events": False}
HOST = {"policy": "lru", "chunks": 4, "keys": 8, "groups": 1, "threshold": 0, "tracker": 8, "events": False}


def serve(policy):
    """Prompts that share a prefix, more of them than either tier keeps: chunks are stored, evicted and loaded."""
    offloading = {"kind": "offloading", "blocks": 6, "policy": policy, "factor": 1, "workers": 1}
    level = SchedulerLevel({**DEVICE, "connector": offloading})
    for turn in range(14):
        level.op_add({"tokens": [0, 1, 2, 0, turn % 3, turn // 3, 1], "max_tokens": 3})
        level.op_step({"token": 3})
        if turn % 2:
            level.op_drain({})
        if turn % 5 == 4:
            level.op_reset({"connector": 0, "running": 0})
    level.op_drain({})


def play(policy="lru"):
    """Stores that go well and badly, loads in flight while room is made, a refusal, a reset."""
    level = CpuManagerLevel({**HOST, "policy": policy})
    manager = level._manager._back
    asked = {"request": 0}

    def then(name, args):
        getattr(level, "op_" + name)({**asked, **args})
        manager._kvproof_watch.stepped(manager, None)

    then("offer", {"keys": [0, 1]})
    then("stored", {"which": 0, "ok": True})
    then("offer", {"keys": [2]})
    then("stored", {"which": 0, "ok": False})
    then("offer", {"keys": [2, 3]})
    then("load", {"keys": [0]})
    then("touch", {"keys": [0, 2]})
    then("stored", {"which": 0, "ok": True})
    then("offer", {"keys": [4, 5]})
    then("loaded", {"which": 0})
    then("load", {"keys": [0]})
    then("load", {"keys": [0]})
    then("loaded", {"which": 0})
    then("offer", {"keys": [1, 2, 3, 6]})
    then("loaded", {"which": 0})
    then("stored", {"which": 0, "ok": True})
    then("reset", {})
    then("offer", {"keys": [7]})
    then("drain", {})
    then("load", {"keys": [7]})
    then("drain", {})


def twice(method):
    """An end is told twice."""

    def ends(manager, keys, *more):
        method(manager, keys, *more)
        method(manager, keys, *more)

    return ends


def ready_at_once(method):
    """What is to be stored counts as stored."""

    def insert(policy, key, chunk, context):
        method(policy, key, chunk, context)
        chunk.ref_cnt = 0

    return insert


def same_chunk(method):
    """What is handed out is chunk 0, whoever has it."""

    def allocate(manager, keys):
        chunks = method(manager, keys)
        for chunk in chunks:
            chunk.chunk_id = 0
        return chunks

    return allocate


def anything_goes(_method):
    """Room is made by the entries that came first, in use or not."""
    return lambda policy, n, _protected: [(key, policy.chunks.pop(key)) for key in list(policy.chunks)[:n]]


def unpinned(method):
    """A load pins nothing."""

    def answer(manager, keys, chunks):
        chunks = list(chunks)
        for chunk in chunks:
            chunk.ref_cnt -= chunk.ref_cnt > 0
        return method(manager, keys, chunks)

    return answer


def touched(change):
    """A use of two keys, the one being loaded and the other being stored, does something to their entries."""

    def touch(policy, keys, _context):
        keys = list(keys)
        if all(key in policy.chunks for key in keys):
            change(policy, *keys)

    return lambda _method: touch


def loses_loading(policy, loading, _storing):
    del policy.chunks[loading]


def loses_storing(policy, _loading, storing):
    del policy.chunks[storing]


def negative(policy, loading, _storing):
    policy.chunks[loading].ref_cnt = -7


def nothing(_method):
    return lambda *_args: None


def forgets_reader(method):
    """A chunk that was given back is one that is in use."""

    def free(manager, chunk):
        method(manager, chunk)
        manager._free_list[-1] = 0

    return free


FAULTS = {
    "store ends twice": [(Manager, "complete_store", twice)],
    "load ends twice": [(Manager, "complete_load", twice)],
    "ready at once": [(Policy, "insert", ready_at_once)],
    "same chunk": [(Manager, "_allocate_chunks", same_chunk)],
    "evicts anything": [(Policy, "evict", anything_goes)],
    "load without pin": [(Manager, "_get_load_store_spec", unpinned)],
    "load loses chunk": [(Policy, "touch", touched(loses_loading))],
    "store loses chunk": [(Policy, "touch", touched(loses_storing))],
    "negative": [(Policy, "touch", touched(negative))],
    "failed store stays": [(Policy, "remove", nothing)],
    "chunk is not given back": [(Manager, "_free_chunk", nothing)],
    "wrong chunk is given back": [(Manager, "_free_chunk", forgets_reader)],
    "refuses": [(Policy, "evict", nothing)],
    "reset leaves": [(Policy, "clear", nothing)],
}


def main():
    """Play each fault on a manager of its own."""
    print("fault none", file=sys.stderr, flush=True)
    for policy in ("lru", "arc"):
        serve(policy)
        play(policy)
    for name, changes in FAULTS.items():
        kept = [(cls, method, cls.__dict__[method]) for cls, method, _ in changes]
        for cls, method, change in changes:
            setattr(cls, method, change(cls.__dict__[method]))
        print("fault", name, file=sys.stderr, flush=True)
        with contextlib.suppress(Exception):
            play()
        for cls, method, original in kept:
            setattr(cls, method, original)
    print("fault stop", file=sys.stderr, flush=True)
    level = CpuManagerLevel(HOST)
    manager = level._manager._back
    manager._kvproof_watch._settings = manager._kvproof_watch._settings._replace(stop=True)
    try:
        manager.complete_store([], None)
        manager.complete_store([b"never offered"], None, success=False)
    except Exception as error:
        print("stopped", type(error).__name__, error, flush=True)


main()
