"""The example pool that forks (docs/examples/block-pool/forks.py) with a fault each."""

from __future__ import annotations

from . import pool_faults  # isort: skip # it puts the example's folder on the path

from forks import ForkPool  # isort: skip
from pool import Block, Pool  # isort: skip

assert pool_faults.EXAMPLE.is_dir()


class WritesToShared(ForkPool):
    """Who goes on writes to the block that others read."""

    def is_shared(self, name: str, position: int) -> bool:
        return False


class CopyIsForgotten(ForkPool):
    """A block is put in the place of a shared one, and nothing is copied to it."""

    def copy_on_write(self, name: str, at: int) -> None:
        super().copy_on_write(name, at)
        self.copies.pop()


class CopiesBackwards(ForkPool):
    """What is to be written is read, and the other way round."""

    def copy_on_write(self, name: str, at: int) -> None:
        super().copy_on_write(name, at)
        self.copies.append(self.copies.pop()[::-1])


class ChildIsNotCounted(ForkPool):
    """The child is no holder of what it shares."""

    def fork(self, name: str, child: str) -> None:
        self.tables[child] = [*self.tables[name]]


class SharedIsKept(ForkPool):
    """Who has a copy goes on holding what it was copied from."""

    def copy_on_write(self, name: str, at: int) -> None:
        block = self.blocks[self.tables[name][at]]
        super().copy_on_write(name, at)
        self.touch(block)


class LastIsNotShared(ForkPool):
    """Of a block that is not full the child is given nothing."""

    def fork(self, name: str, child: str) -> None:
        super().fork(name, child)
        if len(self.tables[child]) > 1:
            self.give_back(self.blocks[self.tables[child].pop()])


class OneTable(ForkPool):
    """Both have one list for their block table."""

    def fork(self, name: str, child: str) -> None:
        super().fork(name, child)
        self.tables[child] = self.tables[name]


class CopiesThenRefuses(ForkPool):
    """The copy is made before it is known whether there is room for all."""

    def grow(self, name: str, computed: int, tokens: int) -> bool:
        if computed < tokens and self.num_free and self.is_shared(name, computed):
            self.copy_on_write(name, computed // self.block_tokens)
        return super().grow(name, computed, tokens)


class CopyIsNotCached(ForkPool):
    """What was filled behind a copy is not registered."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.written: set[int] = set()

    def copy_on_write(self, name: str, at: int) -> None:
        super().copy_on_write(name, at)
        self.written.add(self.tables[name][at])

    def take(self) -> int:
        number = super().take()
        self.written.discard(number)
        return number

    def register(self, block: Block, key: bytes) -> None:
        if block.number not in self.written:
            super().register(block, key)


FAULTS: dict[type[Pool], str] = {
    WritesToShared: "P6",
    CopyIsForgotten: "P6",
    CopiesBackwards: "P6",
    ChildIsNotCounted: "P2",
    SharedIsKept: "P2",
    LastIsNotShared: "P6",
    OneTable: "P2",
    CopiesThenRefuses: "P7",
    CopyIsNotCached: "P14 (nothing less)",
}

UNTOLD: dict[type[Pool], str] = {**FAULTS, ChildIsNotCounted: "P6", SharedIsKept: "L1", OneTable: "L1"}
"""The rules that name them where the pool tells nothing of itself."""
del UNTOLD[CopiesThenRefuses]
