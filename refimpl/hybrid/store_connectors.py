"""Two connectors: host memory, which is fast and forgets at exit, and files, which are slow and stay (H5, H6, H9).

Both do the same with a store: hold what a lookup found, read it, write it to the device when all of it is there, and
keep what is offered. They differ in who waits for the store: nobody for memory, a thread for files. No thread touches
the device: what is read waits beside it until ``poll``. A load that is released before that never writes a byte, so a
late completion cannot spoil blocks that belong to somebody else by then (H6).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol, TypeVar

from ..errors import RefusedError
from ..pool.manager import RequestId
from .connector import BlockRef, Chain, Completion, longest_match, needed_keys
from .device_memory import DeviceMemory
from .file_store import FileStore
from .host_store import HostStore

Result = TypeVar("Result")


class BlockStore(Protocol):
    """What keeps contents by key, for the threads of the runners and the connector's: ``HostStore``, ``FileStore``."""

    def __contains__(self, key: object) -> bool:
        """Tell whether ``key`` is kept."""

    def fits(self, content_bytes: int) -> bool:
        """Tell whether a content of that length could be kept if nothing else were."""

    def put(self, key: bytes, content: bytes) -> bool:
        """Keep a content; tell whether it is kept."""

    def load(self, key: bytes) -> bytes | None:
        """Return a content, or ``None`` when it cannot be had."""

    def pin(self, key: bytes) -> bool:
        """Keep ``key`` from being evicted; ``False`` when it is not kept."""

    def unpin(self, key: bytes) -> None:
        """Take a pin back."""


class Runner(Protocol):
    """Who does what takes time: an executor of ``concurrent.futures``, or whatever looks like one."""

    def submit(self, work: Callable[[], Result], /) -> Future[Result]:
        """Do ``work`` now or later."""


class InlineRunner:
    """Does everything at once."""

    def submit(self, work: Callable[[], Result], /) -> Future[Result]:
        """Do ``work`` and return what came of it."""
        future: Future[Result] = Future()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass(slots=True)
class _Job:
    """A load that was not released yet."""

    blocks: tuple[BlockRef, ...]
    contents: Future[list[bytes] | None]
    is_reported: bool = False


@dataclass(frozen=True, slots=True)
class StoreConnectorSnapshot:
    """The whole observable state of a connector, without its store's."""

    held: dict[RequestId, tuple[bytes, ...]]
    """The keys that each request's lookup holds; each is pinned once for it."""
    jobs: dict[int, tuple[BlockRef, ...]]
    """The loads that were not released; each key is pinned once for its load."""
    writing: frozenset[bytes]
    """The keys that were taken and are not known to be stored."""
    failed_stores: int
    """How many that were taken could not be stored."""


class StoreConnector:
    """A ``Connector`` in front of any ``BlockStore``; its methods are described there. Not for several threads."""

    supports_hybrid = True

    def __init__(
        self,
        name: str,
        store: BlockStore,
        device: DeviceMemory,
        *,
        weight: float | Fraction = 1,
        reads: Runner,
        writes: Runner,
        max_writes: int = 1024,
    ) -> None:
        """Connect ``device`` with ``store``.

        Args:
            name: what it is called.
            store: where contents are kept; others may use it too.
            device: where blocks are read and written, by this thread only.
            weight: what a token from here is worth (H5).
            reads: who reads from the store.
            writes: who writes to it; one of its own, so that no load waits for stores.
            max_writes: the most blocks that wait to be written; more are not taken for now (H5).
        """
        if not store.fits(device.block_bytes):
            raise RefusedError(f"{name}: no block of {device.block_bytes} bytes ever fits the store: make it larger")
        if max_writes < 1:
            raise RefusedError(f"{name}: nothing is ever stored with max_writes={max_writes}")
        self.name = name
        self.weight = weight
        self.failed_stores = 0
        """How many blocks were taken but could not be stored: no room was left, or the disk refused. Only grows."""
        self._store = store
        self._device = device
        self._reads = reads
        self._writes = writes
        self._max_writes = max_writes
        self._held: dict[RequestId, tuple[bytes, ...]] = {}
        self._jobs: dict[int, _Job] = {}
        self._writing: set[bytes] = set()
        self._offers: list[tuple[Future[int], tuple[bytes, ...]]] = []

    def matched(self, request: RequestId, chain: Chain, computed: int) -> int | None:
        """Look up, and pin what a load would take. Not known yet if somebody evicts it in this very moment."""
        self.drop(request)
        best = longest_match(chain, computed, self._store.__contains__)
        if best is None:
            return 0
        tokens = best.tokens - computed
        keys = needed_keys(chain, computed, tokens)
        pinned = [key for key in keys if self._store.pin(key)]
        if len(pinned) < len(keys):
            self._unpin(pinned)
            return None
        self._held[request] = keys
        return tokens

    def drop(self, request: RequestId) -> None:
        """Unpin what the lookup pinned."""
        self._unpin(self._held.pop(request, ()))

    def begin_load(self, job: int, request: RequestId, blocks: Sequence[BlockRef]) -> None:
        """Let the contents be read; ``poll`` writes them. The pins of the lookup become the load's."""
        held = set(self._held.get(request, ()))
        keys = [ref.key for ref in blocks]
        if job in self._jobs or not keys or len(set(keys)) != len(keys) or not held.issuperset(keys):
            raise RefusedError(f"{self.name}: load {job} is known, or takes what no lookup of {request!r} has found")
        del self._held[request]
        self._unpin(held.difference(keys))
        self._jobs[job] = _Job(tuple(blocks), self._reads.submit(partial(_fetch, self._store, keys)))

    def release(self, job: int, keys: Sequence[bytes]) -> None:
        """Forget a load and unpin its keys. What is still being read for it will be thrown away."""
        entry = self._jobs.get(job)
        if entry is None or sorted(keys) != sorted(ref.key for ref in entry.blocks):
            raise RefusedError(f"{self.name}: load {job} is not known, or has other keys: release what was prepared")
        del self._jobs[job]
        entry.contents.cancel()
        self._unpin(keys)

    def store(self, request: RequestId, blocks: Sequence[BlockRef]) -> int:  # noqa: ARG002 - content is nobody's own
        """Read these blocks and let them be written, those that are not kept and not on their way."""
        fresh: dict[bytes, bytes] = {}
        present: list[bytes] = []
        for ref in blocks:
            if ref.key in self._writing or ref.key in fresh:
                continue
            if self._store.pin(ref.key):
                present.append(ref.key)
            elif len(self._writing) + len(fresh) == self._max_writes:
                break
            else:
                fresh[ref.key] = self._device.read(ref.block)
        if not fresh and not present:
            return self._num_settled(blocks)
        offer = self._writes.submit(partial(_keep, self._store, fresh, present))
        if offer.done():
            offer.result()
        else:
            self._writing.update(fresh)
            self._offers.append((offer, tuple(fresh)))
        return self._num_settled(blocks)

    def preempted(self, requests: AbstractSet[RequestId]) -> None:
        """Drop what their lookups hold."""
        for request in requests:
            self.drop(request)

    def poll(self) -> list[Completion]:
        """Write what was read, load by load; a load of which anything is missing writes nothing (O11)."""
        self._reap_offers()
        completions: list[Completion] = []
        for job, entry in self._jobs.items():
            if not entry.is_reported and entry.contents.done():
                entry.is_reported = True
                completions.append(Completion(job, self._write(entry)))
        return completions

    def snapshot(self) -> StoreConnectorSnapshot:
        """Collect the whole observable state."""
        jobs = {job: entry.blocks for job, entry in self._jobs.items()}
        return StoreConnectorSnapshot(dict(self._held), jobs, frozenset(self._writing), self.failed_stores)

    def _num_settled(self, blocks: Sequence[BlockRef]) -> int:
        """Return how many blocks, from the first, are kept or on their way."""
        is_settled = [ref.key in self._writing or ref.key in self._store for ref in blocks]
        return len(blocks) if all(is_settled) else is_settled.index(False)

    def _unpin(self, keys: Iterable[bytes]) -> None:
        """Take back one pin of each."""
        for key in keys:
            self._store.unpin(key)

    def _write(self, entry: _Job) -> bool:
        """Write a load's contents to the device if all are there and have the right length; tell whether."""
        if entry.contents.cancelled() or entry.contents.exception() is not None:
            return False
        contents = entry.contents.result()
        if contents is None or any(len(content) != self._device.block_bytes for content in contents):
            return False
        for ref, content in zip(entry.blocks, contents, strict=True):
            self._device.write(ref.block, content)
        return True

    def _reap_offers(self) -> None:
        """Take note of what was written, or could not be."""
        for offer, keys in [pending for pending in self._offers if pending[0].done()]:
            self._offers.remove((offer, keys))
            self._writing.difference_update(keys)
            self.failed_stores += len(keys) - (offer.result() if offer.exception() is None else 0)


class HostMemoryConnector(StoreConnector):
    """Host memory: nobody waits, a load ends with the next ``poll``, and everything is gone at exit."""

    def __init__(
        self, store: HostStore, device: DeviceMemory, *, name: str = "host", weight: float | Fraction = 1
    ) -> None:
        """Connect ``device`` with ``store``."""
        inline = InlineRunner()
        super().__init__(name, store, device, weight=weight, reads=inline, writes=inline)


class FileConnector(StoreConnector):
    """Files: threads wait for the disk, and what is stored is there after a restart (H9)."""

    def __init__(
        self,
        store: FileStore,
        device: DeviceMemory,
        *,
        name: str = "file",
        weight: float | Fraction = 1,
        readers: int = 4,
        writers: int = 2,
        max_writes: int = 1024,
    ) -> None:
        """Connect ``device`` with ``store``, by so many threads of its own. Call ``close`` in the end."""
        self._pools = [
            ThreadPoolExecutor(readers, thread_name_prefix=f"{name}-read"),
            ThreadPoolExecutor(writers, thread_name_prefix=f"{name}-write"),
        ]
        reads, writes = self._pools
        super().__init__(name, store, device, weight=weight, reads=reads, writes=writes, max_writes=max_writes)

    def close(self) -> None:
        """Let what was taken be written, then end the threads. Loads that no thread has begun fail."""
        reads, writes = self._pools
        reads.shutdown(cancel_futures=True)
        writes.shutdown()
        self._reap_offers()


def _fetch(store: BlockStore, keys: Sequence[bytes]) -> list[bytes] | None:
    """Read contents, all or ``None``."""
    contents: list[bytes] = []
    for key in keys:
        content = store.load(key)
        if content is None:
            return None
        contents.append(content)
    return contents


def _keep(store: BlockStore, fresh: Mapping[bytes, bytes], present: Iterable[bytes]) -> int:
    """Store contents until one finds no room; return how many are kept. ``present`` is pinned for this long.

    What one offer names must not make room for the rest of it (O12), so each stays pinned to the end.
    """
    pinned = list(present)
    kept = 0
    try:
        for key, content in fresh.items():
            if not (store.put(key, content) and store.pin(key)):
                break
            pinned.append(key)
            kept += 1
    finally:
        for key in pinned:
            store.unpin(key)
    return kept
