"""Parallel sampling on the pool: requests fork, share their blocks, and copy the one that they both write to."""

from pool import Pool

__all__ = ["ForkPool"]


class ForkPool(Pool):
    """A pool in which a request can go on as several, each of which grows by itself."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        """So many blocks of so many tokens, all free."""
        super().__init__(blocks, block_tokens)
        self.copies: list[tuple[int, int]] = []

    def fork(self, name: str, child: str) -> None:
        """Let another request go on where one is, in the same blocks."""
        self.tables[child] = [*self.tables[name]]
        for number in self.tables[child]:
            self.touch(self.blocks[number])

    def grow(self, name: str, computed: int, tokens: int) -> bool:
        """Give a request, of which so many tokens are computed, blocks that it can write the next ones to."""
        shared = computed < tokens and self.is_shared(name, computed)
        if self.need(tokens) - len(self.tables[name]) + shared > self.num_free:
            return False
        if shared:
            self.copy_on_write(name, computed // self.block_tokens)
        return self.extend(name, tokens)

    def is_shared(self, name: str, position: int) -> bool:
        """Whether the block that a position lies in holds tokens of others, too."""
        at, slot = divmod(position, self.block_tokens)
        return slot > 0 and self.blocks[self.tables[name][at]].ref_cnt > 1

    def copy_on_write(self, name: str, at: int) -> None:
        """Put a copy in the place of a block."""
        table = self.tables[name]
        block, table[at] = self.blocks[table[at]], self.take()
        self.give_back(block)
        self.copies.append((block.number, table[at]))

    def take_copies(self) -> list[tuple[int, int]]:
        """The copies to be done before anything more is computed."""
        copies, self.copies = self.copies, []
        return copies
