"""The chunk manager of any vLLM release under one set of calls. What differs between releases is known here alone.

Up to 0.17 there are two managers over a backend; then one manager with two policies, and a wrapper that counts
sightings, which becomes part of the manager in 0.21. Names change from hashes over keys and from blocks to chunks.
Requests come as contexts from 0.20 on; lookups answer a count, then yes, no and not yet, then an enumeration.
"""

import functools
import inspect
import struct

from level import Refused

__all__ = ["Manager"]


def _first(found: object, *names: str):
    """The first attribute of these names."""
    for name in names:
        value = getattr(found, name, None)
        if value is not None:
            return value
    raise Refused(f"{type(found).__name__} has none of {', '.join(names)}: this release is not known")


@functools.cache
def _parameters(kind: type, method: str) -> tuple[str, ...]:
    return tuple(inspect.signature(getattr(kind, method)).parameters)


class Manager:
    """A chunk manager; keys are numbers here, and bytes for vLLM."""

    def __init__(self, setup: dict) -> None:
        self._chunks: int = setup["chunks"]
        self._threshold: int = setup["threshold"]
        groups = setup["groups"]
        # A hash and, from 0.20 on, the number of the KV-cache group in four bytes: the same for all, so that keys are.
        self._bytes = [struct.pack(">28xII", k, k % groups) for k in range(setup["keys"])]
        self._number = {key: k for k, key in enumerate(self._bytes)}
        # Where a chunk ends in its request: the next two keys of each group are alternatives at the next place.
        self._positions = [(k // (2 * groups) + 1) * 16 for k in range(setup["keys"])]
        front, back = _made(setup)
        self._front, self._back = front, back
        self.name = type(back).__name__
        self._lookup = self._call("lookup")
        self._by_list = _parameters(type(front), "lookup")[1] != "key"
        self._prepare_store = self._call("prepare_store")
        self._complete_store = self._call("complete_store")
        self._prepare_load = self._call("prepare_load")
        self._complete_load = self._call("complete_load")
        self._touch = self._call("touch")
        # Where keys must be seen several times: what counts as that. Earlier releases count lookups.
        self.sightings = "offers" if hasattr(front, "_record_accesses") else "lookups"
        # Whether what a request had is used once more when it ends. Earlier releases know of no ends.
        self.ends = "use" if hasattr(front, "_record_request_cache_access") else "nothing"
        self._policy = getattr(back, "_policy", back)

    def _call(self, method: str):
        """A method that takes keys and a context, whether the release wants the context or not."""
        call = getattr(self._front, method)
        if "req_context" in _parameters(type(self._front), method):
            return call
        return lambda keys, _context, *more: call(keys, *more)

    # ---------------------------------------------------------------------------------------------------- requests

    def context(self, name: str):
        """Return what stands for a new request; None where the release has no such thing."""
        kind = _context_type()
        if kind is None:
            return None
        context = kind(req_id=name) if "req_id" in _parameters(kind, "__init__") else kind()
        if hasattr(self._front, "on_new_request"):
            self._front.on_new_request(context)
        return context

    def position(self, context, keys: list[int]) -> None:
        """Say where in the request the keys' chunks end."""
        if hasattr(context, "set_offload_key_position"):
            for k in keys:
                context.set_offload_key_position(self._bytes[k], self._positions[k])

    def finish(self, context) -> None:
        """The request is over."""
        if hasattr(self._front, "on_request_finished"):
            self._front.on_request_finished(context)

    # ------------------------------------------------------------------------------------------------------- calls

    def lookup(self, k: int, context) -> bool:
        """Return whether the key is there and can be loaded."""
        key = self._bytes[k]
        answer = self._lookup([key] if self._by_list else key, context)
        name = getattr(answer, "name", None)
        return name == "HIT" if name is not None else bool(answer)

    def prepare_store(self, keys: list[int], context) -> tuple[list[int], list[int], list[int]] | None:
        """Offer keys; return those to store, the chunks for them and the keys evicted, or None when refused."""
        answer = self._prepare_store([self._bytes[k] for k in keys], context)
        if answer is None:
            return None
        return (
            self._numbers(_first(answer, "keys_to_store", "block_hashes_to_store")),
            answer.store_spec.block_ids.tolist(),
            self._numbers(_first(answer, "evicted_keys", "block_hashes_evicted")),
        )

    def complete_store(self, keys: list[int], context, ok: bool) -> None:
        """The store of these keys ended."""
        self._complete_store([self._bytes[k] for k in keys], context, ok)

    def prepare_load(self, keys: list[int], context) -> list[int]:
        """Pin keys and return their chunks."""
        return self._prepare_load([self._bytes[k] for k in keys], context).block_ids.tolist()

    def complete_load(self, keys: list[int], context) -> None:
        """The load of these keys ended."""
        self._complete_load([self._bytes[k] for k in keys], context)

    def touch(self, keys: list[int], context) -> None:
        """These keys were used."""
        self._touch([self._bytes[k] for k in keys], context)

    def reset(self) -> bool:
        """Forget everything; False where the release cannot."""
        if not hasattr(self._front, "reset_cache"):
            return False
        self._front.reset_cache()
        return True

    def events(self) -> list[tuple[bool, list[int]]]:
        """Return the events since the last call: whether it is a removal, and of which keys."""
        return [
            (event.removed, self._numbers(_first(event, "keys", "block_hashes")))
            for event in self._front.take_events()
            # A failed store gives its chunk back. The connector does not publish that: the key was never stored.
            if not getattr(event, "metadata_only", False)
        ]

    # ------------------------------------------------------------------------------------------------------ reading

    def eligible(self, keys: list[int]) -> list[int]:
        """Return those keys that were seen often enough to be stored."""
        if self._threshold < 2:
            return keys
        counts = self._front.counts
        return [k for k in keys if counts.get(self._bytes[k], 0) >= self._threshold]

    def read(self) -> tuple[list[int], int, list[tuple[int, int]]]:
        """Return the references of each chunk, how many chunks can be had, and the keys to load with their chunks."""
        ref = [0] * self._chunks
        ready, evictable = [], 0
        for entries in self._entries():
            for key, entry in entries.items():
                chunk = entry.chunk_id if hasattr(entry, "chunk_id") else entry.block_id
                count = entry.ref_cnt
                if count < 0:
                    ref[chunk] += 1
                    continue
                ref[chunk] += count
                evictable += not count
                ready.append((self._number[key], chunk))
        return ref, self._unused() + self._evictable(evictable), ready

    def _entries(self) -> tuple[dict, ...]:
        policy = self._policy
        if hasattr(policy, "t1"):
            return policy.t1, policy.t2
        return (policy.chunks if hasattr(policy, "chunks") else policy.blocks,)

    def _unused(self) -> int:
        """How many chunks hold nothing, by the manager's own books."""
        back = self._back
        if hasattr(back, "backend"):
            return back.backend.get_num_free_blocks()
        return _first(back, "_get_num_free_chunks", "_get_num_free_blocks")()

    def _evictable(self, counted: int) -> int:
        """The manager's own count of entries without a reference, where it keeps one."""
        back = self._back
        for name in ("_num_evictable_cache_chunks", "_num_evictable_cache_blocks"):
            if hasattr(back, name):
                return getattr(back, name)
        return counted

    def _numbers(self, keys) -> list[int]:
        return [self._number[key] for key in keys]


@functools.cache
def _context_type():
    """The class of request contexts; None before there was one."""
    for module in ("base", "abstract"):
        try:
            return __import__(f"vllm.v1.kv_offload.{module}", fromlist=["ReqContext"]).ReqContext
        except (ImportError, AttributeError):
            continue
    return None


def _made(setup: dict) -> tuple[object, object]:
    """A manager: what calls go to, and what keeps the entries."""
    chunks, policy, events = setup["chunks"], setup["policy"], setup["events"]
    threshold, tracker = setup["threshold"], setup["tracker"]
    try:
        from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager
    except ImportError:
        if threshold >= 2:
            raise Refused("this release has no store threshold") from None
        manager = _older(policy, chunks, events)
        return manager, manager
    known = _parameters(CPUOffloadingManager, "__init__")
    wanted = {
        "block_size": 16, "num_chunks": chunks, "num_blocks": chunks, "cache_policy": policy, "enable_events": events,
        "store_threshold": threshold, "max_tracker_size": tracker,
    }  # fmt: skip
    manager = CPUOffloadingManager(**{name: value for name, value in wanted.items() if name in known})
    if threshold < 2 or "store_threshold" in known:
        return manager, manager
    from vllm.v1.kv_offload.reuse_manager import FilterReusedOffloadingManager

    return FilterReusedOffloadingManager(manager, threshold, tracker), manager


def _older(policy: str, chunks: int, events: bool):
    """A manager as it was before 0.18: one class per policy, chunks from a backend."""
    from vllm.v1.kv_offload.arc_manager import ARCOffloadingManager
    from vllm.v1.kv_offload.backends.cpu import CPUBackend
    from vllm.v1.kv_offload.lru_manager import LRUOffloadingManager

    kind = {"lru": LRUOffloadingManager, "arc": ARCOffloadingManager}[policy]
    return kind(CPUBackend(16, chunks), enable_events=events)
