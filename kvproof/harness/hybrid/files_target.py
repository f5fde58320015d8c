"""The reference implementation as a target for machine FileStore: a real store, on a disk in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import ClassVar, Self

from ...checkers.target import Answer, Args, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.hybrid.block_file import FINGERPRINT_BYTES, WriteStep, encode_file, file_bytes
from ...refimpl.hybrid.file_store import MAX_KEY_BYTES, FileStore
from ..strays import Stray, TargetWithStrays
from .instances import HybridInstance
from .memory_disk import NOTHING_FOUND, File, MemoryDisk, MemoryProcess

__all__ = ["CAPACITY", "LAYOUT", "FileStoreTarget"]

LAYOUT = b"L" * FINGERPRINT_BYTES
CONTENT_BYTES = 40
FILLER = b"filler"
CAPACITY = 100_000
"""More than all files of an instance have together; what makes room is asked to make it."""


class FileStoreTarget(TargetWithStrays):
    """A `FileStore` on a memory disk; ``create``, ``rename`` and ``sync_directory`` are steps of one ``putting``.

    What is observed is the disk, both sides of it, and what the store would serve. When the system brings what to the
    disk, and who damages files, is the instance's doing, and there is nothing to be refused in it.
    """

    name = "refimpl"
    level = "file-store"
    fields: ClassVar[tuple[str, ...]] = (
        "temporary",
        "final",
        "written",
        "ready",
        "on_disk",
        "final_on_disk",
        "found",
    )
    unjudged: ClassVar[Mapping[str, frozenset[str]]] = {
        "write_back": frozenset({"written"}),
        "damage": frozenset({"final"}),
        # A write call returns when all pages are written: the implementation waits for it, and never for a page.
        "rename": frozenset({"written"}),
    }
    lookups: ClassVar[frozenset[str]] = frozenset({"load"})
    weights: ClassVar[Mapping[str, int]] = {"create": 3, "write": 8, "rename": 6, "sync_directory": 6, "load": 3}
    essential: ClassVar[frozenset[str]] = frozenset({"create", "write", "rename", "sync_directory"})

    store_kind: type[FileStore] = FileStore
    """The store that is driven."""
    process_kind: type[MemoryProcess] = MemoryProcess
    """What its processes do with files."""

    def __init__(self, setting: HybridInstance) -> None:
        """An empty store on an empty disk."""
        super().__init__(setting)
        sizes = setting.scope.sizes
        self.disk = MemoryDisk(sizes["Page"])
        self._keys = [b"hash %d" % h for h in range(sizes["Hash"])]
        self._contents = [bytes((37 * h + i) % 251 + 1 for i in range(CONTENT_BYTES)) for h in range(sizes["Hash"])]
        self._names = [f"{key.hex()}-{LAYOUT.hex()}.kv" for key in self._keys]
        self._pages = [
            self.disk.split(encode_file(key, content, LAYOUT))
            for key, content in zip(self._keys, self._contents, strict=True)
        ]
        self._done: list[tuple[str, Args]] = []
        self._start()

    def _start(self) -> None:
        """A process opens the store."""
        self._process = self.process_kind(self.disk)
        self.store = self.store_kind(self.disk.directory, layout=LAYOUT, capacity=CAPACITY, ops=self._process)
        self._putting: dict[int, Generator[WriteStep, None, None]] = {}

    # ------------------------------------------------------------------------------------------------ driving

    def apply(self, action: str, args: Args) -> Answer:
        """Make the calls that the action is."""
        answer = self._call(getattr(self, f"_{action}"), args)
        if answer.refused is None:
            self._done.append((action, args))
        return answer

    def refuse(self, action: str, args: Args) -> Answer:
        """Try what is not possible."""
        return self._call(getattr(self, f"_{action}"), args)

    @staticmethod
    def _call(call: Callable[..., object], args: Args) -> Answer:
        try:
            return Answer(call(*args))
        except RefusedError as error:
            return Answer(refused=str(error))

    def _create(self, h: int) -> object:
        putting = self.store.putting(self._keys[h], self._contents[h])
        step = next(putting, None)
        if step is None:
            raise RefusedError("it is there, or is being written")
        self._putting[h] = putting
        return _as("created", step)

    def _write(self, h: int, p: int) -> object:
        if h not in self._putting or self._names[h] + ".tmp" not in self.disk.names:
            raise RefusedError("nobody writes it")
        is_begun = bool(self.disk.files[self._names[h]].coming)
        wrong = None if is_begun else _as("written", next(self._putting[h], None))
        self.disk.write(self._names[h], p)
        return wrong

    def _rename(self, h: int) -> object:
        if h not in self._putting or self._names[h] + ".tmp" not in self.disk.names:
            raise RefusedError("nobody writes it")
        return _as("synced", next(self._putting[h], None)) or _as("renamed", next(self._putting[h], None))

    def _sync_directory(self, h: int) -> object:
        if h not in self._putting or self._names[h] not in self.disk.names:
            raise RefusedError("nobody has renamed it")
        putting = self._putting.pop(h)
        self._process.cares_for = self._names[h]
        return _as("durable", next(putting, None)) or _as(None, next(putting, None))

    def _load(self, h: int) -> object:
        """Right, or not at all."""
        was_ready, faults = self._keys[h] in self.store, self.store.faults.total()
        content = self.store.load(self._keys[h])
        if content is None and not was_ready:
            raise RefusedError("it is not stored")
        if self.store.faults.total() != faults + (content is None):
            return f"{self.store.faults} are counted"
        return content == self._contents[h] if content in (None, self._contents[h]) else f"{content!r} is served"

    def _evict(self, h: int) -> None:
        """A file is begun for which there is room if just this one goes; it is given up at once."""
        others = [key for key in self._keys if key != self._keys[h] and self.store.pin(key)]
        room = CAPACITY - self.store.snapshot().index.used
        putting = self.store.putting(FILLER, bytes(room + 1 - file_bytes(len(FILLER), 0)))
        is_evicted = self._keys[h] in self.store and next(putting, None) is not None
        putting.close()
        for key in others:
            self.store.unpin(key)
        if not is_evicted:
            raise RefusedError("it is not stored")

    def _write_back(self, h: int, p: int) -> None:
        self.disk.write_back(self._names[h], p)

    def _write_back_names(self, h: int) -> None:
        self.disk.write_back_names(self._names[h])

    def _damage(self, h: int, p: int) -> None:
        """A bit is turned, or the page is another file's, or zero, or cut off, or too long."""
        page = self._pages[h][p]
        is_last = p == len(self._pages[h]) - 1
        other = self._pages[h - 1][p]
        kinds: Sequence[bytes] = (
            bytes([page[0] ^ 1]) + page[1:],
            other if other != page else bytes(len(page)),
            page[:-1] if is_last else bytes(len(page)),
            page + b"more" if is_last else page[:-1] + bytes([page[-1] ^ 128]),
        )
        self.disk.damage(self._names[h], p, kinds[len(self._done) % len(kinds)])

    def _crash(self) -> None:
        self._process.is_gone = True
        self.disk.crash()
        self._start()

    def _stray_calls(self) -> Iterator[Stray]:
        """Keys and sizes that no file has, pins that nobody has."""
        put, beyond = self.store.put, CAPACITY + 1 - file_bytes(len(FILLER), 0)
        yield put, (b"", b"content")
        yield put, (b"k" * (MAX_KEY_BYTES + 1), b"content")
        yield put, (FILLER, bytes(beyond))
        pinned = self.store.snapshot().index.pinned
        for key in self._keys:
            if key not in pinned:
                yield self.store.unpin, (key,)

    # ------------------------------------------------------------------------------------------------ observing

    def flat(self) -> Fields:
        """The disk's two sides, and what the store serves."""
        ready, names, found = self.store.snapshot().ready, self.disk.names, self.disk.found
        return {
            "temporary": [name + ".tmp" in names for name in self._names],
            "final": [name in names for name in self._names],
            "written": self._right([self._file(name).seen for name in self._names]),
            "ready": [*(key in ready for key in self._keys), *self._miscounted()],
            "on_disk": self._right([self._file(name).on_disk for name in self._names]),
            "final_on_disk": [found.get(name, NOTHING_FOUND)[1] for name in self._names],
            "found": self._right([found.get(name, NOTHING_FOUND)[0] for name in self._names]),
        }

    def _miscounted(self) -> list[str]:
        """What the index counts otherwise than it is."""
        index = self.store.snapshot().index
        pinned = sum(size for size, _ in index.pinned.values())
        used = pinned + sum(size for _, size in index.idle)
        wrong = (index.used, index.pinned_bytes) != (used, pinned)
        return [f"{used} bytes, {pinned} of them pinned, are counted as {index.used} and {index.pinned_bytes}"] * wrong

    def _file(self, name: str) -> File:
        return self.disk.files.get(name, File([], []))

    def _right(self, files: Sequence[Sequence[bytes]]) -> list[bool]:
        """For each page of each file, whether it is what it should be."""
        return [
            p < len(pages) and pages[p] == page
            for pages, right in zip(files, self._pages, strict=True)
            for p, page in enumerate(right)
        ]

    def residue(self) -> object:
        """Who has a place, and what is pinned; a refused store is a use of what is there, which is no matter."""
        index = self.store.snapshot().index
        return sorted(index.idle), index.pinned, index.used, index.pinned_bytes, dict(self.store.faults)

    # ------------------------------------------------------------------------------------------------ the rest

    def fork(self) -> Self:
        """A second run in the same state: what was done is done again, for a file half written cannot be copied."""
        assert isinstance(self.setting, HybridInstance)
        forked = type(self)(self.setting)
        for action, args in self._done:
            forked.apply(action, args)
        return forked

    def spell(self, action: str, args: Args) -> str:
        """The call on the implementation, or what the instance does."""
        calls = {
            "create": "putting = store.putting({0}, content); next(putting)",
            "rename": "next(putting), next(putting)  # of {0}: synced, renamed",
            "sync_directory": "next(putting)  # of {0}: durable",
            "load": "store.load({0})",
            "evict": "# {0} makes room for another",
        }
        instance = f"# {action.replace('_', ' ')}: {', '.join(map(str, args))}"
        return calls.get(action, instance).format(*args)


def _as(wanted: WriteStep | None, done: WriteStep | None) -> str | None:
    """No result, as the machine has it, where the implementation did the step that it should."""
    return None if done == wanted else f"it did {done}, not {wanted}"
