"""The file tier below the host memory of vLLM's `OffloadingConnector` (type ``fs`` of its `TieringOffloadingSpec`, from
0.22 on): the release's own manager, its names of files, its reads, writes and lookups.

Ours are the disk, the threads and what the host memory holds. What a thread would do is done when the case says that
the copy ends; then a write may find no room, and a read an error, no file, or one that is too short. Other engines that
share the folder, data-parallel ranks of one server or other servers, write files of what they computed and remove
files. Lookups, where a release hands them to a thread, are answered while a step runs, or a few steps later. The memory
holds a stamp for each chunk that is stored, so that what is told of a copy is what the release's code copied.
"""

import contextlib
import functools
import io
import itertools
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

import numpy as np
from vllm.v1.kv_offload.base import make_offload_key
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.fs import io as fs_io
from vllm.v1.kv_offload.tiering.fs import manager as fs
from vllm_common import since, takes
from vllm_disk import Disk
from vllm_tier_below import chunks_of
from vllm_transfers import Part, Transfers

try:
    from vllm.v1.kv_offload.tiering import async_lookup
except ImportError:
    async_lookup = None  # Before 0.24 a lookup looks at once.

__all__ = ["PLACES", "FilesBelow", "told"]

PLACES = 4096
"""The places of the tier: one for each file that a case ever has."""

_TYPE = "kvproof_files"
_LATE = 3
"""Late lookups are answered in each so manieth step."""

_DISK = Disk()
_roots = itertools.count()
_stamps = (n << 32 | n for n in itertools.count(1))
"""Half of one is none."""


def told(files: int) -> dict:
    """Return what the release is to be told of such a tier; ``files`` is 2 where lookups are late."""
    _register()
    events = {"enable_kv_events": True} if "enable_kv_events" in takes(fs.FileSystemTierManager) else {}
    return {"type": _TYPE, "root_dir": f"/{next(_roots)}", "late": files > 1, **events}


class FilesBelow(fs.FileSystemTierManager):
    """Files by key; from `serve` on the moments of what is done to them are in our hands."""

    def __init__(self, *args, late: bool, **kwargs) -> None:
        super().__init__(*args, n_read_threads=0, n_write_threads=0, **kwargs)
        self._every, self._steps = _LATE if late else 1, 0
        self.asked = False
        """Whether lookups were under way as the last step ran: who asked waits for them."""
        self._memory = np.asarray(self._primary_kv_view).view(np.int64)[:, 0]
        """The stamp of each chunk of the host."""
        self._places: dict[bytes, int] = {}
        self._stored_in: dict[int, int] = {}
        """The place of the file that holds a stamp."""
        self._path = functools.cache(self.file_mapper.get_file_name)
        self._busy: list[int] = []
        """Places of the files that copies under way write or read."""
        self._pool.tier = self
        self._news: list[tuple[str, bytes]] = []
        self.known: set[str] = set()
        """The requests that came, as this tier was told, and are not over."""

    def serve(self, name: str, transfers: Transfers, factor: int, host: str) -> None:
        """Copy by these from here on, from and to this tier of the host, so many units to a chunk."""
        self.name = name
        self._transfers, self._factor, self._host = transfers, factor, host
        transfers.fallible.add(name)
        transfers.losing.append(self._lose)
        transfers.gaining.append(self._gain)

    @property
    def stored(self) -> dict[bytes, int]:
        """The place of each key that has a file."""
        return {key: place for key, place in self._places.items() if self._is_there(key)}

    @property
    def tells_events(self) -> bool:
        """Whether the release tells what it writes: from 0.26 on, where events are on."""
        return getattr(self, "events", None) is not None

    @property
    def untold(self) -> set[int]:
        """The places of files of which the release has not told yet what it did to them."""
        return {*(self._place(key) for event in self.events for key in event.keys), *self._pool.ended}

    def take_news(self) -> list[tuple[str, bytes]]:
        """Return what others did to files since the last call, as they tell it: stored or removed, and the key."""
        news, self._news = self._news, []
        return news

    def step(self) -> None:
        """A step runs: what was asked of the disk is answered, or will be."""
        self._steps += 1
        if async_lookup is None:
            return
        lookups = self._lookup_manager
        self.asked = not lookups._lookup_queue.empty()
        if self._steps % self._every == 0:
            lookups._lookup_queue.put(None)  # So its own loop ends behind what was asked.
            lookups._worker()

    def submit_store(self, job) -> None:
        """Begin to write a file for each key that has none."""
        self._job = ("store", job)
        super().submit_store(job)

    def submit_load(self, job) -> None:
        """Begin to read the files of these keys."""
        self._job = ("load", job)
        super().submit_load(job)

    def on_new_request(self, request):
        """A request comes: releases from 0.24 on say so."""
        self.known.add(request.req_id)
        return super().on_new_request(request)

    def on_request_finished(self, request) -> None:
        """It is over."""
        self.known.discard(request.req_id)
        super().on_request_finished(request)

    def begin(self, tasks: list) -> "_Work":
        """Tell of the copy that was just submitted; ``tasks``: what threads would do for it."""
        kind, job = self._job
        work = _Work(job.job_id, tasks, [self._place(key) for key in job.keys], chunks_of(job))
        if kind == "store":
            self._memory[work.chunks] = [next(_stamps) for _ in work.chunks]
        # What has a file is not written, and what has none cannot be read; what is being written will be there.
        is_copied = [self._is_there(key) != (kind == "store") for key in job.keys]
        work.planned = [
            (place, chunk)
            for place, chunk, is_one in zip(work.places, work.chunks, is_copied, strict=True)
            if is_one and (kind == "load" or place not in self._busy)
        ]
        if not work.planned:
            self._do(work, kind, False)
            return work
        self._busy += work.places
        ended = functools.partial(self._ended, work, kind)
        pairs = self._pairs(kind, work.planned)
        work.part = self._transfers.submit(self.name, kind, 0, job.job_id, pairs, alone=True, ended=ended)
        return work

    def end(self, work: "_Work") -> None:
        """Wait for a copy."""
        if work.part is not None:
            self._transfers.end(work.part)

    def _ended(self, work: "_Work", kind: str, failed: bool) -> list | None:
        """A copy ends, or is to fail; what it brought, where that is not what was told."""
        for place in work.places:
            self._busy.remove(place)
        done = self._do(work, kind, failed)
        is_as_told = work.success and not failed and {*done} == {*work.planned}
        return None if is_as_told else self._pairs(kind, done)

    def _do(self, work: "_Work", kind: str, failed: bool) -> list[tuple[int, int]]:
        """Do what threads would; return which file was copied from or to which chunk."""
        if failed:
            _DISK.go_bad(work.job_id % len(work.planned), work.job_id // len(work.planned) % 3)
        done = self._write(work) if kind == "store" else self._read(work)
        if gone := _DISK.go_well():
            self._news += [("removed", key) for key in self._places if self._path(key) in gone]
        return done

    def _write(self, work: "_Work") -> list[tuple[int, int]]:
        """Write; the files that are new, and the chunks whose stamps they hold."""
        before, chunks = self.stored, {int(stamp): chunk for chunk, stamp in enumerate(self._memory)}
        work.success = _all_done(work.tasks)
        done = []
        for key, place in self.stored.items():
            if key not in before:
                stamp = int(np.frombuffer(_DISK.files[self._path(key)], np.int64)[0])
                self._stored_in[stamp] = place
                done.append((place, chunks[stamp]))
        return done

    def _read(self, work: "_Work") -> list[tuple[int, int]]:
        """Read; the chunks that are other than before, and the files whose stamps they hold."""
        self._memory[work.chunks] = 0
        before = self._memory.copy()
        work.success = _all_done(work.tasks)
        places = ((self._stored_in.get(int(stamp)), chunk) for chunk, stamp in enumerate(self._memory))
        return [(place, chunk) for place, chunk in places if place is not None and self._memory[chunk] != before[chunk]]

    def _lose(self, pick: int) -> list[str]:
        """Somebody removes a file; its place."""
        # What comes first, that one is written or that it is gone, must be seen from the events.
        untold = self.untold if self.tells_events else ()
        there = [(key, place) for key, place in self.stored.items() if place not in untold]
        if not there:
            return []
        key, place = there[pick % len(there)]
        _DISK.remove(self._path(key))
        self._news.append(("removed", key))
        return [f"{self.name} {place}"]

    def _gain(self, pick: int) -> list[str]:
        """Another engine has computed what a request begins with, all or some chunks of it, and writes its files; their
        places. What is being written or read here stays as it is."""
        requests = [*self._transfers.requests]
        if not requests:
            return []
        r, chunks = requests[pick % len(requests)], pick // len(requests) or PLACES
        new = [each for each in self._prompt(r, chunks) if not self._is_there(each[0])]
        new = [each for each in new if self._place(each[0]) not in self._busy]
        for key, g, first, tokens in new:
            place, stamp = self._place(key), next(_stamps)
            data = np.zeros(self._block_size // np.dtype(np.int64).itemsize, np.int64)
            data[0] = stamp
            _DISK.files[self._path(key)] = data.tobytes()
            self._stored_in[stamp] = place
            self._news.append(("stored", key))
            units = range(self._factor)
            written = [[self.name, place * self._factor + i, first + i * tokens, tokens] for i in units]
            self._transfers.level.tell("computed_outside", r, g, written)
        return [f"{self.name} {self._place(key)}" for key, *_ in new]

    def _prompt(self, r: str, chunks: int) -> Iterator[tuple[bytes, int, int, int]]:
        """The first chunks of a request's prompt in each group: key, group, first token, and tokens to a unit."""
        world, request = self._transfers.level.world, self._transfers.requests[r]
        for g, group in enumerate(world["groups"]):
            tokens = group["block"] * self._factor
            count = min(chunks, request.num_prompt_tokens // tokens)
            for n in range(count):
                block_hash = request.block_hashes[(n + 1) * tokens // world["hash_block"] - 1]
                yield make_offload_key(block_hash, g), g, n * tokens, group["block"]

    def _pairs(self, kind: str, copied: list[tuple[int, int]]) -> list:
        """Copies of chunks as copies of units."""
        here, there, factor = self._host, self.name, self._factor
        pairs = [(chunk * factor + i, place * factor + i) for place, chunk in copied for i in range(factor)]
        return [[here, a, there, b] if kind == "store" else [there, b, here, a] for a, b in pairs]

    def _place(self, key: bytes) -> int:
        return self._places.setdefault(key, len(self._places))

    def _is_there(self, key: bytes) -> bool:
        return self._path(key) in _DISK.files


class _Work:
    """What one job is to do."""

    def __init__(self, job_id: int, tasks: list, places: list[int], chunks: list[int]) -> None:
        self.job_id, self.tasks, self.places, self.chunks = job_id, tasks, places, chunks
        self.planned: list[tuple[int, int]] = []
        """Which file is copied from or to which chunk."""
        self.part: Part | None = None
        self.success = False

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self.part is None or self.part.done


class _Pool:
    """Stands where the tier's threads are."""

    def __init__(self, *_threads, **_named) -> None:
        self.tier: FilesBelow | None = None
        self._works: list[_Work] = []

    def enqueue_store(self, _job_id: int, _count: int, tasks: Iterable) -> None:
        """Begin to write."""
        self._works.append(self.tier.begin([*tasks]))

    enqueue_load = enqueue_store

    def get_finished(self) -> list[tuple]:
        """Return the jobs that ended since the last call: number, success, and from 0.28 on the time it took."""
        ended = [work for work in self._works if work.done]
        self._works = [work for work in self._works if not work.done]
        took = (0.0,) if since((0, 28)) else ()
        return [(work.job_id, work.success, *took) for work in ended]

    @property
    def ended(self) -> set[int]:
        """The places of files whose copies have ended, and were not asked for yet."""
        return {place for work in self._works if work.done for place in work.places}

    def wait_idle(self) -> None:
        """Let all copies end."""
        for work in self._works:
            self.tier.end(work)

    def shutdown(self, wait: bool = True) -> None:
        """Nothing runs."""


class _NoThread:
    """Stands where a thread is that answers lookups."""

    def __init__(self, **_what) -> None:
        pass

    def start(self) -> None:
        """Nothing runs."""

    def join(self) -> None:
        """Nothing runs."""


def _all_done(tasks: list) -> bool:
    """Do all tasks, as a release's threads do: one that fails leaves the others alone.

    They take any failure for that of the disk; what is none is no less than a call that the disk does not have.
    """
    good = True
    for task in tasks:
        try:
            task()
        except (OSError, ValueError):
            good = False
    return good


@functools.cache
def _register() -> None:
    """Let the release's modules find our disk and threads, and its factory this tier."""
    fs.os = fs_io.os = _DISK
    fs.open = lambda _path, _mode: contextlib.closing(io.StringIO())
    fs.DualQueueThreadPool = _Pool
    fs.probe_o_direct = lambda _folder: False
    fs._HAS_BATCH_LOOKUP_C = fs_io._HAS_FSIO_C = False
    if async_lookup is not None:
        async_lookup.threading = SimpleNamespace(Thread=_NoThread)
    SecondaryTierFactory.register_tier(_TYPE, __name__, FilesBelow.__name__)
