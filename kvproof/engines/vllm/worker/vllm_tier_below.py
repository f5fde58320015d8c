"""A tier below the host memory of vLLM's `OffloadingConnector` (`TieringOffloadingSpec`, from 0.22 on).

The release's tiering manager stores what came to the host in the tiers below, and promotes what it finds there. The
tier itself is ours, by the release's own interface for tiers of others: it has few places, forgets what was used
longest ago, and its copies end late, in any order between the two directions, or fail, as a whole or in part. It may
ask for all chunks of a request, also for those that others had stored. No memory is mapped: what would be copied is
told.
"""

import functools
from collections import Counter, OrderedDict
from types import SimpleNamespace

import numpy as np
from vllm.v1.kv_offload.tiering import spec as tiering
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm_transfers import Part, Transfers

try:
    from vllm.v1.kv_offload.base import LookupResult
except ImportError:
    LookupResult = SimpleNamespace(HIT=True, MISS=False, RETRY=None)  # Before 0.26.
try:
    from vllm.v1.kv_offload.base import RequestOffloadingContext
except ImportError:
    RequestOffloadingContext = SimpleNamespace  # Before 0.24 nobody asks.
try:
    from vllm.v1.kv_offload.base import Medium
except ImportError:
    Medium = SimpleNamespace(CPU=None)  # Nobody asks what a tier is made of.
try:
    from vllm.v1.kv_offload.base import OffloadPolicy
except ImportError:
    OffloadPolicy = None  # Nor can anything be asked for.

__all__ = ["TierBelow", "chunks_of", "told", "told_of"]

_TYPE = "kvproof"
_HALVES = 2
_BYTES = 8
"""Of a chunk: room for a number."""


def told(blocks: int, all_chunks: bool = False, in_part: bool = False) -> dict:
    """Return what the release is to be told of such a tier with so many places of a chunk each.

    ``all_chunks``: it asks for all chunks of a request; ``in_part``: of a load that fails the first half arrives.
    """
    _register()
    return {"type": _TYPE, "blocks": blocks, "all_chunks": all_chunks, "in_part": in_part}


def told_of(tiers: list[dict]) -> dict:
    """Return what the release is to be told of its host with these tiers below."""
    _map_no_memory()
    return {"spec_name": "TieringOffloadingSpec", "secondary_tiers": tiers, "tier_poll_interval_s": 0}


class TierBelow(SecondaryTierManager):
    """Chunks by key; from `serve` on the moments of its copies are in our hands."""

    medium = Medium.CPU
    asked = False
    """It answers at once."""

    def __init__(self, *args, blocks: int, all_chunks: bool, in_part: bool, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._all_chunks, self._in_part = all_chunks, in_part
        self._free = list(range(blocks - 1, -1, -1))
        self._jobs: list[tuple[int, Part | None, bool]] = []
        """Number, copy, and whether it can bring what was asked for; without a copy there is none to wait for."""
        self._arrived: dict[int, list] = {}
        """The keys that arrived of each load that failed in part."""
        self._busy: Counter = Counter()
        """How many copies write or read each key."""
        self.entries: OrderedDict = OrderedDict()
        """The place of each key, those used longest ago first."""
        self.ready: set = set()
        """Keys whose store ended well."""
        self.known: set[str] = set()
        """The requests that came, as this tier was told, and are not over."""

    @property
    def stored(self) -> dict:
        """The place of each key whose store ended well."""
        return {key: place for key, place in self.entries.items() if key in self.ready}

    def step(self) -> None:
        """A step runs: nothing is to be done in the meantime."""

    def serve(self, name: str, transfers: Transfers, factor: int, host: str) -> None:
        """Copy by these from here on, from and to this tier of the host, so many units to a chunk."""
        self._name, self._transfers, self._factor, self._host = name, transfers, factor, host
        transfers.fallible.add(name)

    def lookup(self, key, _request=None):
        """Whether a key is here, or will be."""
        if key in self.ready:
            return LookupResult.HIT
        return LookupResult.RETRY if key in self.entries else LookupResult.MISS

    def submit_store(self, job) -> None:
        """Begin to store what is not here, as far as there is room."""
        stored = [
            (key, chunk)
            for key, chunk in zip(job.keys, chunks_of(job), strict=True)
            if key not in self.entries and self._take(key)
        ]
        pairs = [(self._host, chunk, self._name, self.entries[key]) for key, chunk in stored]
        self._begin("store", job, [key for key, _ in stored], pairs)

    def submit_load(self, job) -> None:
        """Begin to bring a job's keys; all of it fails where one was forgotten since it was found."""
        if not all(key in self.ready for key in job.keys):
            self._jobs.append((job.job_id, None, False))
            return
        self._busy.update(job.keys)
        found = zip(job.keys, chunks_of(job), strict=True)
        self._begin("load", job, job.keys, [(self._name, self.entries[key], self._host, chunk) for key, chunk in found])

    def get_finished_jobs(self):
        """Return the results of the jobs whose copies ended since the last call."""
        ended = [job for job in self._jobs if job[1] is None or job[1].done]
        self._jobs = [job for job in self._jobs if job not in ended]
        return [
            JobResult(job_id=number, success=can and not (part is not None and part.failed), **self._in_part_of(number))
            for number, part, can in ended
        ]

    def _in_part_of(self, number: int) -> dict:
        """What is said beside of a load of which some arrived."""
        keys = self._arrived.pop(number, None)
        return {} if keys is None else {"successful_keys": keys}

    get_finished = get_finished_jobs
    """Its name before 0.24."""

    def drain_jobs(self) -> None:
        """Let all copies end."""
        for _, part, _ in self._jobs:
            if part is not None:
                self._transfers.end(part)

    def has_pending_work(self) -> bool:
        """Whether the engine has to go on for copies to be noticed."""
        return bool(self._jobs)

    def touch(self, keys, _request=None) -> None:
        """These are used now."""
        for key in keys:
            if key in self.entries:
                self.entries.move_to_end(key)

    def on_new_request(self, request):
        """Ask for what others stored too, or for nothing beside the usual."""
        self.known.add(request.req_id)
        return (
            RequestOffloadingContext(policy=OffloadPolicy.REQUEST_LEVEL)
            if self._all_chunks
            else RequestOffloadingContext()
        )

    def on_request_finished(self, request) -> None:
        """Keep nothing more of a request."""
        self.known.discard(request.req_id)

    def _begin(self, kind: str, job, keys, chunks: list) -> None:
        """Begin a copy of these chunks, each from a place to a place."""
        if not chunks:
            self._jobs.append((job.job_id, None, True))
            return
        factor = self._factor
        pairs = [[a, x * factor + i, b, y * factor + i] for a, x, b, y in chunks for i in range(factor)]
        ended = functools.partial(self._store_ended, keys)
        if kind != "store":
            ended = functools.partial(self._load_ended, job.job_id, keys, pairs)
        part = self._transfers.submit(self._name, kind, 0, job.job_id, pairs, alone=True, ended=ended)
        self._jobs.append((job.job_id, part, True))

    def _store_ended(self, keys, failed: bool) -> None:
        """A store ends; what has failed to come has no place any more."""
        self._busy.subtract(keys)
        if not failed:
            self.ready |= {*keys}
            return
        for key in keys:
            self._free.append(self.entries.pop(key))

    def _load_ended(self, number: int, keys, pairs: list, failed: bool) -> list | None:
        """A load ends; what it brought, where it fails in part."""
        self._busy.subtract(keys)
        if not failed or not self._in_part or len(keys) < _HALVES:
            return None
        self._arrived[number] = arrived = [*keys][: len(keys) // _HALVES]
        return pairs[: len(arrived) * self._factor]

    def _take(self, key) -> bool:
        """Take a place for a key that is stored, from what was used longest ago where none is free."""
        if not self._free:
            oldest = next((old for old in self.entries if not self._busy[old]), None)
            if oldest is None:
                return False
            self.ready.discard(oldest)
            self._free.append(self.entries.pop(oldest))
        self.entries[key] = self._free.pop()
        self._busy[key] += 1
        return True


class _Region:
    """Stands where memory would be mapped that the processes share."""

    def __init__(self, num_chunks: int = 0, num_blocks: int = 0, **_sizes) -> None:
        self._rows = num_chunks or num_blocks

    def create_kv_memoryview(self) -> memoryview:
        """A number to each chunk."""
        return memoryview(np.zeros((self._rows, _BYTES), np.int8))

    def cleanup(self) -> None:
        """Nothing is mapped."""


def _map_no_memory() -> None:
    tiering.SharedOffloadRegion = _Region


@functools.cache
def _register() -> None:
    SecondaryTierFactory.register_tier(_TYPE, __name__, TierBelow.__name__)


def chunks_of(job) -> list[int]:
    """The chunks of the host that a job of a tier reads or writes."""
    ids = job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids
    return [int(chunk) for chunk in ids]
