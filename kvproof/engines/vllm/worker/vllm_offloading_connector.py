"""vLLM's `OffloadingConnector` over its own chunk manager for host memory, in every release from 0.16 on.

Both sides of the connector are the release's own; only what would copy is ours. On a device each direction of a worker
runs in order of submission, and so do loads that a step waits for. What was submitted waits for all compute submitted
before it (loads before 0.28 do not, but are submitted before the forward pass of their step).

A chunk of the host tier holds as many units as blocks go into a chunk; which block goes to which unit is told by the
transfer's own specification, by the arithmetic of the release that runs it.
"""

import copy
import functools
from collections.abc import Callable
from types import SimpleNamespace

from level import Refused
from vllm_common import Keys, since
from vllm_side import Side
from vllm_transfers import Part, Transfers

__all__ = ["OffloadingSide", "extra_config", "key_and_group"]

NAME = "OffloadingConnector"

_OPTIONS = {
    "threshold": (0, 19),
    "below": (0, 22),
    "files": (0, 22),
    "prompt_only": (0, 24),
    "describes": (0, 24),
    "all_chunks": (0, 25),
    "in_part": (0, 28),
    "beside": (0, 22),
    "replicated": (0, 31),
    "sync": (0, 33),
}
"""Options, and the first release that has them."""

_STORES_ALL = (0, 28)
"""The first release that stores what the last step of a request completed."""

_LOADS_WAIT = (0, 28)
"""The first release whose loads wait for the compute that was submitted before them, as stores always did."""


def extra_config(connector: dict, page: int, workers: int, block: int) -> dict:
    """Return what the release is to be told: its size is given in bytes, of all workers together.

    ``block``: tokens per block of the groups, which must be the same in all of them where a chunk is several blocks.
    """
    for option, first in _OPTIONS.items():
        if connector.get(option) and not since(first):
            raise Refused(f"{NAME} has no option {option} before {'.'.join(map(str, first))}")
    factor = connector.get("factor", 1)
    below = connector.get("below", 0)
    alignment = getattr(_spec_class(below), "BLOCK_SIZE_ALIGNMENT", 1)
    copies = 1 if is_replicated(connector, workers) else workers
    chunk = -(-page * copies * factor // alignment) * alignment
    told = {
        "cpu_bytes_to_use": connector["blocks"] * chunk,
        "eviction_policy": connector.get("policy", "lru"),
        "store_threshold": connector.get("threshold", 0),
        "offload_prompt_only": bool(connector.get("prompt_only")),
        "self_describing_kv_events": bool(connector.get("describes")),
        "sync_load_budget_bytes": connector.get("sync", 0) * page,
    }
    if factor > 1:
        told["block_size"] = factor * block
    if below:
        files = connector.get("files", 0)
        asked = bool(connector.get("all_chunks")), bool(connector.get("in_part"))
        tiers = [_files().told(files) if files else _below().told(below, *asked)]
        tiers += [_below().told(beside)] if (beside := connector.get("beside", 0)) else []
        told |= _below().told_of(tiers)
    return told


def is_replicated(connector: dict, workers: int) -> bool:
    """Return whether several workers have the same KV and share one copy of it on the host."""
    return bool(connector.get("replicated") and connector.get("below") and workers > 1)


def replicate(vllm_config, kv_cache_config) -> None:
    """Let a configuration be that of a model whose KV is the same on all ranks of tensor parallelism, as latents are
    (MLA), in one server. What it plans is the same."""
    workers = vllm_config.parallel_config.world_size
    vllm_config.parallel_config.tensor_parallel_size = kv_cache_config.kv_tp_replicas = workers
    vllm_config.parallel_config.distributed_executor_backend = "mp"
    model = vllm_config.model_config = copy.copy(vllm_config.model_config)
    model.__class__ = type("_OfLatents", (type(model),), {"use_mla": True})


class OffloadingSide(Side):
    """One such connector: its copies, its chunks and what holds them."""

    def __init__(self, connector, workers: list, tier: str, transfers: Transfers, setup: dict) -> None:
        self.tier = tier
        self._scheduler = connector.connector_scheduler
        manager = self._scheduler.manager
        self._tiering = manager if hasattr(manager, "primary_tier") else None
        self._manager = getattr(manager, "primary_tier", getattr(manager, "_backing", manager))
        factor = setup.get("factor", 1)
        if self._chunks() != setup["blocks"]:
            raise Refused(f"{NAME} made {self._chunks()} chunks of what should be {setup['blocks']}")
        # What ends a request is stored since then; of some only what was seen several times is, or what was asked.
        self.eager = since(_STORES_ALL) and not setup.get("threshold") and not setup.get("prompt_only")
        self.takes_whole_offers = self.shows_all = True
        self.resets = hasattr(self._scheduler, "reset_cache")
        self.tells_events = True
        self.media = ("CPU",)
        self.sources = ("host", "disk") if setup.get("files") else ("host",)
        self.tiers = {tier: {"blocks": setup["blocks"], "split": factor}}
        self._below = {}
        """The tiers below by name, in the order in which they are asked."""
        if self._tiering is not None:
            sizes = _files().PLACES if setup.get("files") else setup["below"], setup.get("beside", 0)
            for name, places, below in zip(_names_below(tier), sizes, self._tiering.secondary_tiers, strict=False):
                self.tiers[name] = {"blocks": places, "split": factor, "persists": True}
                self._below[name] = below
                below.serve(name, transfers, factor, tier)
                if getattr(below, "tells_events", False):
                    self.files = below
        replicated = is_replicated(setup, len(workers))
        for number, worker in enumerate(workers):
            end = worker.connector_worker
            if getattr(end.spec, "replicated_layout", False) != replicated:
                raise Refused(f"{NAME} takes these workers for others than they are")
            # What all share one of them stores.
            end.worker = _Copies(tier, number, transfers, factor, self._order, alone=replicated)

    def _order(self, kind: str, job_id: int) -> str | None:
        """How a transfer stands to what else is done."""
        if kind == "store":
            return "void" if job_id < getattr(self._scheduler, "_stale_job_threshold", 0) else "behind"
        return "behind" if since(_LOADS_WAIT) else None

    def before_forward(self, _metadata) -> None:
        """Copies begin where they are submitted; what a tier below does beside a step is done."""
        for below in self._below.values():
            below.step()

    def pending(self) -> int:
        """Transfers that the scheduler's side waits for."""
        return len(self._jobs()) + len(self._jobs_below())

    def waits(self) -> bool:
        """Whether lookups of a tier below were under way as the last step ran."""
        return any(below.asked for below in self._below.values())

    def kept(self) -> set[str]:
        """Return the requests that a tier below knows of, and was not told that they are over."""
        return {r for below in self._below.values() for r in below.known}

    def pools(self, keys: Keys) -> dict:
        """Return the chunks as a pool: one that is being stored has one reference, the store."""
        ref, cached = [0] * self._chunks(), []
        for key, entry in self._entries().items():
            chunk = _chunk(entry)
            ref[chunk] += 1 if entry.ref_cnt < 0 else entry.ref_cnt
            if entry.ref_cnt >= 0:
                cached.append([*key_and_group(key, keys), [chunk]])
        pools = {self.tier: _pool(cached, ref, self._free())}
        for name, below in self._below.items():
            # What holds the places of a tier below is its own affair.
            pools[name] = _pool([[*key_and_group(key, keys), [at]] for key, at in below.stored.items()])
        return pools

    def holds(self) -> dict:
        """Return the chunks that transfers hold. Device blocks they hold only through their requests."""
        entries = self._entries()
        jobs = [*self._jobs(), *self._jobs_below()]
        return {self.tier: [_chunk(entries[key]) for keys in jobs for key in keys if key in entries]}

    def _jobs(self) -> list:
        """The keys of each transfer that the scheduler's side knows of."""
        scheduler = self._scheduler
        if hasattr(scheduler, "_jobs"):
            return [job.keys for job in scheduler._jobs.values()]
        found = [*scheduler._reqs_being_stored.values(), *scheduler._reqs_being_loaded.values()]
        return [keys for keys in found if keys]

    def _jobs_below(self) -> list:
        """The keys of each transfer between the host and the tiers below."""
        if self._tiering is None:
            return []
        known = self._tiering._jobs if hasattr(self._tiering, "_jobs") else self._tiering._transfer_jobs
        return [getattr(job, "transfer_job", job).keys for job in known.values()]

    def _entries(self) -> dict:
        policy = getattr(self._manager, "_policy", self._manager)
        if hasattr(policy, "t1"):
            return {**policy.t1, **policy.t2}
        return policy.chunks if hasattr(policy, "chunks") else policy.blocks

    def _chunks(self) -> int:
        backend = getattr(self._manager, "backend", None)
        if backend is not None:
            return backend.num_blocks
        return getattr(self._manager, "_num_chunks", None) or self._manager._num_blocks

    def _free(self) -> int:
        backend = getattr(self._manager, "backend", None)
        if backend is not None:
            return backend.get_num_free_blocks()
        count = getattr(self._manager, "_get_num_free_chunks", None) or self._manager._get_num_free_blocks
        return count()


class _Copies:
    """Stands where a worker's copying end is, under the names of all releases."""

    def __init__(
        self,
        tier: str,
        worker: int,
        transfers: Transfers,
        factor: int,
        order: Callable[[str, int], str | None],
        *,
        alone: bool,
    ) -> None:
        self.tier, self._worker, self._transfers, self._factor, self._order = tier, worker, transfers, factor, order
        self._alone = alone
        self._submitted: dict[str, list[tuple[int, Part]]] = {"store": [], "load": [], "sync load": []}

    def transfer_async(self, job_id: int, spec: tuple) -> bool:
        """Submit a transfer (before 0.25)."""
        source, target = spec
        if type(source).__name__.startswith("GPU"):
            return self.submit_store(job_id, source, target)
        return self.submit_load(job_id, source, target)

    def submit_store(self, job_id: int, source, target) -> bool:
        """Submit a store."""
        pairs = [["device", a, self.tier, b] for a, b in self._places(source, target, store=True)]
        return self._submit("store", job_id, pairs)

    def submit_load(self, job_id: int, source, target, expedited: bool = False) -> bool:
        """Submit a load; an expedited one has a stream of its own."""
        pairs = [[self.tier, b, "device", a] for a, b in self._places(target, source, store=False)]
        return self._submit("sync load" if expedited else "load", job_id, pairs)

    def get_finished(self) -> list:
        """Return what ended since the last call, direction by direction, each in order."""
        found = []
        for parts in self._submitted.values():
            while parts and parts[0][1].done:
                found.append(_result(parts.pop(0)[0]))
        return found

    def wait(self, job_ids) -> None:
        """Wait for transfers to end, those that were submitted."""
        for parts in self._submitted.values():
            for job_id, part in parts:
                if job_id in job_ids:
                    self._transfers.end(part)

    def shutdown(self) -> None:
        """Nothing runs."""

    def _submit(self, kind: str, job_id: int, pairs: list) -> bool:
        order = self._order(kind, job_id)
        alone = self._alone and kind == "store"
        part = self._transfers.submit(self.tier, kind, self._worker, job_id, pairs, order=order, alone=alone)
        self._submitted[kind].append((job_id, part))
        return True

    def _places(self, device, host, store: bool) -> list[tuple[int, int]]:
        """Device blocks and the units that they go to or come from.

        Each group's blocks follow each other, and so do the units of its chunks; its first chunk may be entered in the
        middle. Before 0.20 there is one group, stores begin at the start of a chunk, and loads end at the end of one.
        """
        factor, blocks, chunks = self._factor, device.block_ids.tolist(), host.block_ids.tolist()
        if since((0, 20)):
            sizes, starts = device.group_sizes, device.block_indices
        else:
            sizes, starts = [len(blocks)], [0 if store else -len(blocks) % factor]
        places, at_block, at_chunk = [], 0, 0
        for size, start in zip(sizes, starts, strict=True):
            if not size:
                continue
            skip = start % factor
            count = -(-(size + skip) // factor)
            units = [chunk * factor + i for chunk in chunks[at_chunk : at_chunk + count] for i in range(factor)]
            places += zip(blocks[at_block : at_block + size], units[skip : skip + size], strict=True)
            at_block, at_chunk = at_block + size, at_chunk + count
        assert at_chunk == len(chunks), "the copying end checks that blocks and chunks fit each other, and they do not"
        return places


def _result(job_id: int) -> SimpleNamespace:
    return SimpleNamespace(job_id=job_id, success=True, transfer_size=None, transfer_time=None, transfer_type=None)


def _pool(cached: list, ref: list | None = None, num_free: int | None = None) -> dict:
    """A pool of chunks with one key each."""
    hashes = [[chunk, [[k, group]]] for k, group, (chunk,) in cached]
    return {"ref": ref, "free": None, "num_free": num_free, "cached": cached, "hashes": hashes}


def _chunk(entry) -> int:
    return entry.chunk_id if hasattr(entry, "chunk_id") else entry.block_id


def key_and_group(key: bytes, keys: Keys) -> tuple[int, int]:
    """Number and group of an offload key: a block hash, from 0.20 on with the group's number in four bytes behind."""
    if not since((0, 20)):
        return keys.number(key), 0
    return keys.number(key[:-4]), int.from_bytes(key[-4:], "big")


def _names_below(host: str) -> tuple[str, str]:
    """The names of the tiers below a host. Both are of one kind for whoever compares findings, so that both are
    numbered alike; there are two hosts at most."""
    number = int(host.removeprefix("host") or 1)
    return "below" if number == 1 else f"below{number}", f"below{number + 2}"


@functools.cache
def _below():
    """The module of a tier below, which imports what older releases do not have."""
    import vllm_tier_below

    return vllm_tier_below


@functools.cache
def _files():
    """The module of a tier of files."""
    import vllm_files_below

    return vllm_files_below


def _spec_class(below: int):
    """The release's own specification of an offload to host memory, or to that and a tier below."""
    if below:
        return _below().tiering.TieringOffloadingSpec
    try:
        from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
    except ImportError:
        from vllm.v1.kv_offload.cpu import CPUOffloadingSpec
    return CPUOffloadingSpec
