"""Blocks in files, by key: the store behind a connector that survives a restart (H9).

Whatever happens to the process or the machine, at any step: what is served is what was stored under that key, and what
was acknowledged as stored is served after a restart. Everything that a file says is checked when it is read; one that
is wrong is a failed load (O11), is removed, and can be stored anew.
"""

import re
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from ..errors import RefusedError
from .block_file import (
    FINGERPRINT_BYTES,
    FileOps,
    PosixFiles,
    StaleFileError,
    WriteStep,
    encode_file,
    file_bytes,
    read_file,
    remove_file,
    write_file,
)
from .lru_index import IndexSnapshot, LruIndex

MAX_KEY_BYTES = 100
"""The longest key: in hexadecimal digits, and with the rest of a file's name, it fits what file systems take."""

_NAME = re.compile(r"(?P<key>([0-9a-f]{2})+)-(?P<layout>[0-9a-f]{32})\.kv(?P<unfinished>\.tmp)?")


@dataclass(frozen=True, slots=True)
class FileStoreSnapshot:
    """The whole observable state of a file store."""

    ready: frozenset[bytes]
    """The keys that are served."""
    index: IndexSnapshot
    """Keys, bytes of their files, order and pins; also of files being written, and of damaged ones still pinned."""
    files: dict[str, int]
    """The length of every file in the directory, by name: what a restart would find."""


class FileStore:
    """Contents by key, one file each in one directory, of ``capacity`` bytes in all, least recently used out first.

    The file's name holds the key and the layout: a store of another layout (block sizes changed between restarts)
    finds nothing there, and leaves it alone. One process at a time may use one directory with one layout. Within it,
    any thread may call anything; the lock is never held while content is read or written.

    ``putting`` writes step by step; every other public method is one step.
    """

    __slots__ = ("_index", "_layout", "_lock", "_ops", "_ready", "directory", "faults")

    def __init__(self, directory: Path, *, layout: bytes, capacity: int, ops: FileOps | None = None) -> None:
        """Open a store, with what earlier processes have left there; files that they did not finish are removed.

        Args:
            directory: where the files are; it is made if it is not there.
            layout: ``layout_fingerprint`` of all that decides what the bytes mean.
            capacity: bytes of files, headers included.
            ops: what is done with files; by default the operating system's.
        """
        if len(layout) != FINGERPRINT_BYTES:
            raise RefusedError(f"a layout is a fingerprint of {FINGERPRINT_BYTES} bytes, not of {len(layout)}")
        self.directory = directory
        self.faults: Counter[str] = Counter()
        """What was wrong with files that were not served, and how often."""
        self._layout = layout
        self._ops: FileOps = PosixFiles() if ops is None else ops
        self._index = LruIndex(capacity)
        # A key that has a place but is not in here is being written, or was found damaged by one of several readers.
        self._ready: set[bytes] = set()
        self._lock = Lock()
        if not directory.is_dir():
            directory.mkdir(parents=True)
            self._ops.sync_directory(directory.parent)
        self._recover()

    def __contains__(self, key: object) -> bool:
        """Tell whether ``key`` is stored. Nothing is read: a load may find the file damaged."""
        return key in self._ready

    def fits(self, content_bytes: int) -> bool:
        """Tell whether a content of that length, under the longest key, could be stored if nothing else were."""
        return self._index.fits(file_bytes(MAX_KEY_BYTES, content_bytes))

    def put(self, key: bytes, content: bytes) -> bool:
        """Store ``content``, to stay; tell whether it is stored. What is there already is only touched.

        ``False``: pinned keys leave too little room, the disk would not take it, or the same key is being written.
        Refused for a key that is empty or too long, and for what could never fit.
        """
        for _ in self.putting(key, content):
            pass
        return key in self

    def putting(self, key: bytes, content: bytes) -> Generator[WriteStep, None, None]:
        """Store ``content`` step by step: each item says what was just done, and the last, that it is served.

        It ends early, with nothing stored, where ``put`` is ``False``; ``close`` between two steps gives up.
        """
        if not self._reserve(key, content):
            return
        try:
            with suppress(OSError):
                final, temporary = self._path(key), self._path(key, ".tmp")
                for step in write_file(self._ops, temporary, final, encode_file(key, content, self._layout)):
                    if step == "durable":
                        with self._lock:
                            self._ready.add(key)
                    yield step
        finally:
            self.unpin(key)

    def load(self, key: bytes) -> bytes | None:
        """Return the content of ``key``, checked, and note its use; ``None`` when it cannot be had (H9, O11).

        A file that is not what it must be is removed. One that cannot be read is left, and not served any more: if
        the reason passes, a restart finds it again.
        """
        with self._lock:
            if key not in self._ready:
                return None
            self._index.pin(key)
        try:
            return read_file(self._ops, self._path(key), key, self._layout)
        except StaleFileError as error:
            self._reject(key, error.fault, remove=True)
        except OSError:
            self._reject(key, "unreadable", remove=False)
        finally:
            self.unpin(key)
        return None

    def pin(self, key: bytes) -> bool:
        """Keep ``key`` from being evicted until ``unpin``; pins count. ``False``, and nothing changed: not stored."""
        with self._lock:
            if key not in self._ready:
                return False
            self._index.pin(key)
            return True

    def unpin(self, key: bytes) -> None:
        """Take one pin. Refused when there is none."""
        with self._lock:
            self._index.unpin(key)
            if key not in self._ready and not self._index.is_pinned(key):
                self._index.remove(key)

    def snapshot(self) -> FileStoreSnapshot:
        """Collect the whole observable state, the directory's included."""
        with self._lock:
            files = {path.name: path.stat().st_size for path in self.directory.iterdir()}
            return FileStoreSnapshot(frozenset(self._ready), self._index.snapshot(), files)

    def _reserve(self, key: bytes, content: bytes) -> bool:
        """Make room for a key and pin it; ``False`` when it is there, on its way, or finds no room."""
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise RefusedError(f"a key has 1 to {MAX_KEY_BYTES} bytes, not {len(key)}")
        with self._lock:
            if key in self._index:
                self._index.touch(key)
                return False
            evicted = self._index.add(key, file_bytes(len(key), len(content)))
            if evicted is None:
                return False
            for victim in evicted:
                self._forget(victim)
            return True

    def _reject(self, key: bytes, reason: str, *, remove: bool) -> None:
        """Serve a key no more. Whoever pins it may still be there; its place goes with the last pin."""
        with self._lock:
            self.faults[reason] += 1
            if remove:
                self._forget(key)
            self._ready.discard(key)

    def _forget(self, key: bytes) -> None:
        """Serve a key no more and remove its file. Should the removal not survive a crash, the file is still right."""
        self._ready.discard(key)
        remove_file(self._ops, self._path(key))

    def _recover(self) -> None:
        """Find what is stored, the oldest first; remove what was not finished, and what does not fit any more."""
        found: list[tuple[int, bytes, int]] = []
        for path in self.directory.iterdir():
            name = _NAME.fullmatch(path.name)
            if name is None or name["layout"] != self._layout.hex():
                continue
            if name["unfinished"]:
                remove_file(self._ops, path)
                continue
            stat = path.stat()
            found.append((stat.st_mtime_ns, bytes.fromhex(name["key"]), stat.st_size))
        for _, key, size in sorted(found):
            if size > self._index.capacity:
                self._forget(key)
                continue
            for victim in self._index.add(key, size) or ():
                self._forget(victim)
            self._ready.add(key)
            self._index.unpin(key)

    def _path(self, key: bytes, suffix: str = "") -> Path:
        """Return where the file of ``key`` is."""
        return self.directory / f"{key.hex()}-{self._layout.hex()}.kv{suffix}"
