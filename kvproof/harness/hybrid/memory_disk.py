"""A disk in memory that keeps only what it must.

It shows processes one thing and keeps another: pages and names get to the disk when they are synced, or at any moment
before that its user chooses; a crash leaves what is on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import stat_result
from pathlib import Path
from typing import cast

from ...refimpl.hybrid.block_file import FileOps

__all__ = ["NOTHING_FOUND", "File", "MemoryDisk", "MemoryProcess"]

Found = tuple[list[bytes], bool, bool]
"""What a restart would find: pages, and whether they have the final and the temporary name."""

NOTHING_FOUND: Found = ([], False, False)


@dataclass
class File:
    """The latest file of a name: its pages as processes see them, and as they are on the disk."""

    seen: list[bytes]
    on_disk: list[bytes]
    coming: list[bytes] = field(default_factory=list)
    """What a write call that is under way will write."""


class MemoryDisk:
    """Files in one directory, each of so many pages, and what of them would survive.

    Names with ``.tmp`` at their end and without are names of the same file, one at a time, as in the machine.
    """

    def __init__(self, pages: int) -> None:
        """An empty disk."""
        self.pages = pages
        self.files: dict[str, File] = {}
        self.names: set[str] = set()
        """As processes see them."""
        self.found: dict[str, Found] = {}
        """By final name, what would be found."""
        self.directory = cast(Path, _MemoryPath(self))

    def split(self, data: bytes) -> list[bytes]:
        """The pages of a file with this content."""
        size = -(-len(data) // self.pages)
        return [data[page * size : (page + 1) * size] for page in range(self.pages)]

    # What the instance does.

    def write(self, name: str, page: int) -> None:
        """A page of a write call that is under way reaches the file."""
        file = self.files[name]
        if file.coming:
            file.seen[page] = file.coming[page]

    def write_back(self, name: str, page: int) -> None:
        """A page reaches the disk."""
        file = self.files[name]
        file.on_disk[page] = file.seen[page]

    def write_back_names(self, name: str) -> None:
        """The names of a file reach the disk, and so which file has them."""
        pages = self.files[name].on_disk[:] if name in self.files else []
        self.found[name] = pages, name in self.names, name + ".tmp" in self.names

    def damage(self, name: str, page: int, instead: bytes) -> None:
        """Somebody puts something else there: in the file that is seen, and in the one that would be found."""
        file = self.files[name]
        file.seen[page] = file.on_disk[page] = instead
        pages, is_final, is_temporary = self.found.get(name, NOTHING_FOUND)
        self.found[name] = [instead if p == page else old for p, old in enumerate(pages)], is_final, is_temporary

    def crash(self) -> None:
        """What is on the disk is all that there is."""
        self.names = set()
        for name, (pages, is_final, is_temporary) in self.found.items():
            self.files[name] = File(pages[:], pages[:])
            self.names |= {name} if is_final else set()
            self.names |= {name + ".tmp"} if is_temporary and not is_final else set()
        for name in self.files.keys() - self.found.keys():
            del self.files[name]


@dataclass(frozen=True)
class _MemoryPath:
    """A path on a memory disk, with as much of `Path` as the store uses: the directory, or a file in it."""

    disk: MemoryDisk
    name: str = ""

    @property
    def parent(self) -> _MemoryPath:
        """Everything is in the one directory."""
        return _MemoryPath(self.disk)

    def __truediv__(self, name: str) -> _MemoryPath:
        return _MemoryPath(self.disk, name)

    def is_dir(self) -> bool:
        """There is one directory."""
        return not self.name

    def iterdir(self) -> Iterator[_MemoryPath]:
        """The files that a process sees."""
        return (self / name for name in sorted(self.disk.names))

    def stat(self) -> stat_result:
        """The length of the file; all are of one time."""
        length = sum(map(len, self.disk.files[self.name.removesuffix(".tmp")].seen))
        return stat_result((0o644, 0, 0, 1, 0, 0, length, 0, 0, 0))


class MemoryProcess(FileOps):
    """What one process does with files; nothing any more once it is gone."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.is_gone = False
        self.cares_for = ""
        """The final name of the file whose directory entry is synced."""
        self._open: dict[int, tuple[File, int]] = {}
        self._next = 3

    def create(self, path: Path) -> int:
        """A file under a name that nobody has."""
        self._check()
        if path.name in self.disk.names:
            raise FileExistsError(path.name)
        self.disk.names.add(path.name)
        file = File([b""] * self.disk.pages, [b""] * self.disk.pages)
        self.disk.files[path.name.removesuffix(".tmp")] = file
        return self._opened(file)

    def write(self, file: int, data: bytes) -> None:
        """The pages get into the file at the moments that the machine chooses; until then there is something else."""
        self._check()
        pages = self.disk.split(data)
        of, _ = self._open[file]
        of.coming = pages
        of.seen[:] = [bytes(len(page)) for page in pages]
        of.on_disk[:] = [bytes(len(page)) for page in pages[:-1]] + [b""]  # It may be too short as well.

    def open(self, path: Path) -> int:
        """A file that is there."""
        self._check()
        if path.name not in self.disk.names:
            raise FileNotFoundError(path.name)
        return self._opened(self.disk.files[path.name.removesuffix(".tmp")])

    def _opened(self, file: File) -> int:
        self._next += 1
        self._open[self._next] = file, 0
        return self._next

    def size(self, file: int) -> int:
        """As it is seen."""
        self._check()
        return sum(map(len, self._open[file][0].seen))

    def read(self, file: int, count: int) -> bytes:
        """As it is seen."""
        self._check()
        of, at = self._open[file]
        data = b"".join(of.seen)[at : at + count]
        self._open[file] = of, at + len(data)
        return data

    def sync(self, file: int) -> None:
        """All that is seen is on the disk."""
        self._check()
        of, _ = self._open[file]
        of.on_disk[:] = of.seen

    def close(self, file: int) -> None:
        """It is read or written no more."""
        self._check()
        del self._open[file]

    def rename(self, old: Path, new: Path) -> None:
        """For who sees it."""
        self._check()
        self.disk.names.remove(old.name)
        self.disk.names.add(new.name)

    def sync_directory(self, path: Path) -> None:  # noqa: ARG002
        """Of the names, those of the file that is cared for are on the disk; of others the machine says nothing."""
        self._check()
        self.disk.write_back_names(self.cares_for)

    def remove(self, path: Path) -> None:
        """For who sees it."""
        self._check()
        if path.name not in self.disk.names:
            raise FileNotFoundError(path.name)
        self.disk.names.remove(path.name)

    def _check(self) -> None:
        """A process that is gone does nothing."""
        if self.is_gone:
            raise OSError("this process is gone")
