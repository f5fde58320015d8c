"""A storage below a host tier: files by key, what is written there, and what is read for requests that wait.

What is read has pages of the host from the moment when it is found on, and is the host's tree's when the end of its
reading is heard of. What a write or a read stands at is locked on the host meanwhile.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from radix_host import Host
from radix_tier import end_of

from kvproof.refimpl.tree.radix import Node

__all__ = ["PLACES", "Read", "Storage"]

PLACES = 4096
"""Files that a case may ever have."""


@dataclass(eq=False)
class _Write:
    number: int
    keys: Sequence[bytes]
    node: Node


@dataclass(eq=False)
class Read:
    """What is looked for, and read, for a request that waits."""

    number: int
    keys: Sequence[bytes]
    """Of the whole prefix."""
    first: int
    """So many of them the host had."""
    node: Node
    pages: list[int] = field(default_factory=list)
    """Of the host, for what was found behind these."""
    done: int = 0
    """So many of them are read."""
    is_over: bool = False


class Storage:
    """Files below ``host``, of which a request has so many tokens at least (``threshold``)."""

    def __init__(self, host: Host, threshold: int, page: int, tell: Callable) -> None:
        self.host, self.enabled = host, True
        self.least = -(-threshold // page)
        self.files: dict[bytes, int] = {}
        self._places: dict[bytes, int] = {}
        self._tell, self._begun, self._is_bad = tell, 0, False
        self._writes = deque[_Write]()
        self._wanted, self._found, self._read = deque[Read](), deque[Read](), deque[Read]()
        host.filed = self._filed

    @property
    def pending(self) -> int:
        """What is under way."""
        return len(self._writes) + len(self._reads())

    def want(self, keys: Sequence[bytes], there: int) -> Read | None:
        """A request comes, of which the device has so many pages; what is below is looked for, where that may be
        enough."""
        first = self.host.reach(keys)
        if not self.enabled or len(keys) - max(first, there) < self.least:
            return None
        read = Read(self._number(), keys, first, self.host.lock(keys[:first]))
        self._wanted.append(read)
        return read

    def cut(self, read: Read) -> None:
        """Nobody waits for it any longer; what is read of it stays."""
        if not read.is_over:
            for queue in (self._wanted, self._found, self._read):
                if read in queue:
                    queue.remove(read)
            self._heard(read)

    def go(self, queries: int, writes: int, reads: int, acks: int, bad: bool = False) -> int:
        """So many of each are done; where one is ``bad``, the first file that is written or read fails."""
        self._is_bad = bad
        kinds = (
            (self._wanted, self._look, queries), (self._writes, self._write, writes),
            (self._found, self._load, reads), (self._read, self._heard, acks),
        )  # fmt: skip
        return sum(_each(queue, do, count) for queue, do, count in kinds)

    def detach(self) -> None:
        """It goes: what is to be written is not."""
        for write in self._writes:
            self.host.unlock(write.node)
        self._writes.clear()
        self.enabled = False

    def lose(self, i: int) -> str | None:
        """Somebody removes the i-th file; its place."""
        names = [*self.files]
        return f"storage {self.files.pop(names[i % len(names)])}" if names else None

    def anchors(self) -> dict[str, bytes | None]:
        """What locks the host's tree: a name, and the key at which the lock stands."""
        return {f"write {x.number}": end_of(x.node) for x in self._writes} | {
            f"read {x.number}": end_of(x.node) for x in self._reads()
        }

    def held(self) -> list[int]:
        """The pages of the host that are for what is read."""
        return [page for read in self._reads() for page in read.pages]

    # What is written

    def _filed(self, keys: Sequence[bytes]) -> None:
        """A prefix has come to the host."""
        if self.enabled:
            self._writes.append(_Write(self._number(), keys, self.host.lock(keys)))

    def _write(self, write: _Write) -> None:
        _, pages = self.host.tier.tree.match(write.keys)
        for key, page in zip(write.keys, pages, strict=True):
            if key not in self.files and not self._goes_bad():
                place = self.files[key] = self._places.setdefault(key, len(self._places))
                self._tell("copied", [["host", page, "storage", place]])
        self.host.unlock(write.node)

    # What is read

    def _look(self, read: Read) -> None:
        """Room is made for what is there behind what the host has."""
        behind = read.keys[read.first :]
        count = next((n for n, key in enumerate(behind) if key not in self.files), len(behind))
        if count >= self.least:
            self.host.tier.room(count)
            read.pages = self.host.tier.take(min(count, len(self.host.tier.free)))
        if read.pages:
            self._found.append(read)
        else:
            self._heard(read)

    def _load(self, read: Read) -> None:
        """It is read, up to what has gone meanwhile or goes bad."""
        for key, page in zip(read.keys[read.first :], read.pages, strict=False):
            if key not in self.files or self._goes_bad():
                break
            self._tell("copied", [["storage", self.files[key], "host", page]])
            read.done += 1
        self._read.append(read)

    def _heard(self, read: Read) -> None:
        """What was read becomes the tree's, the rest is given back."""
        tier, done = self.host.tier, read.done
        if self.host.fault == "files what was not read":
            done = len(read.pages)
        keys = read.keys[: read.first + done]
        tier.free.extend(read.pages[done:])
        _, had = tier.tree.match(keys)
        tier.adopt(keys, had[: read.first] + read.pages[:done], read.first)
        self.host.unlock(read.node)
        read.pages, read.is_over = [], True

    def _reads(self) -> list[Read]:
        return [*self._wanted, *self._found, *self._read]

    def _goes_bad(self) -> bool:
        is_bad, self._is_bad = self._is_bad, False
        return is_bad

    def _number(self) -> int:
        self._begun += 1
        return self._begun


def _each(queue: deque, do: Callable, count: int) -> int:
    """Do it to so many of a queue, as far as there are so many."""
    taken = [queue.popleft() for _ in range(min(count, len(queue)))]
    for one in taken:
        do(one)
    return len(taken)
