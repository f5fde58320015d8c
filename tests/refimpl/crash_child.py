"""Stores blocks in a process that is killed, at every step in turn. Run as ``crash_child.py DIRECTORY``.

One directory ``DIRECTORY/NUMBER.TORN`` per run: the store is in it, and beside it, in ``NUMBER.TORN.acks``, one byte
per block that was acknowledged. A run dies by SIGKILL before step NUMBER; if that is a write, after so much of it as
TORN says. The runs are forks of this process, which has no thread and little else.
"""

import os
import signal
import sys
from pathlib import Path

from kvproof.refimpl.hybrid.block_file import PosixFiles, layout_fingerprint
from kvproof.refimpl.hybrid.file_store import FileStore

LAYOUT = layout_fingerprint({"test": "crash"})
CAPACITY = 700
TORN = {"none": 0.0, "half": 0.5, "nearly": 0.999}


def key(number: int) -> bytes:
    return b"block %d" % number


def content(number: int) -> bytes:
    """Of lengths such that the last ones evict the first ones."""
    return bytes([number + 1]) * (50 + 30 * number)


BLOCKS = range(5)


class DyingFiles(PosixFiles):
    """Dies at one step."""

    def __init__(self, last: int, torn: float) -> None:
        self.left = last
        self.torn = torn

    def step(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def create(self, path):
        self.step()
        return super().create(path)

    def write(self, file, data):
        if self.left == 0:
            os.write(file, data[: int(len(data) * self.torn)])
        self.step()
        super().write(file, data)

    def sync(self, file):
        self.step()
        super().sync(file)

    def close(self, file):
        self.step()
        super().close(file)

    def rename(self, old, new):
        self.step()
        super().rename(old, new)

    def sync_directory(self, path):
        self.step()
        super().sync_directory(path)

    def remove(self, path):
        self.step()
        super().remove(path)


def store_all(directory: Path, last: int, torn: float) -> None:
    """Store all blocks and say so, one by one."""
    acks = os.open(directory.with_name(directory.name + ".acks"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    store = FileStore(directory, layout=LAYOUT, capacity=CAPACITY, ops=DyingFiles(last, torn))
    for number in BLOCKS:
        if store.put(key(number), content(number)):
            os.write(acks, bytes([number]))


def main(base: Path) -> None:
    """Let runs die one step later each, until one lives."""
    for name, torn in TORN.items():
        last, lives = 0, False
        while not lives:
            child = os.fork()
            if child == 0:
                store_all(base / f"{last}.{name}", last, torn)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            lives = os.WIFEXITED(status)
            if lives and os.WEXITSTATUS(status):
                sys.exit(f"run {last}.{name} failed")
            last += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
