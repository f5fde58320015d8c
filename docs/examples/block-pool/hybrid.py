"""A pool for a hybrid model: layers of full attention and layers with a window, with block tables of their own."""

from collections.abc import Sequence

from pool import Pool

__all__ = ["NULL", "HybridPool"]

NULL = 0
"""A block that stands for nothing, and is never handed out."""

Tables = list[list[int]]
"""Of a request: the blocks of its full attention, and those of the window, the null block for what is behind that."""


class HybridPool(Pool):
    """Two groups of layers over one pool. A hit ends where both have what the next token attends to."""

    def __init__(self, blocks: int, block_tokens: int, window: int) -> None:
        """So many blocks of so many tokens, all free, and the null block; each token of a window attends to so many."""
        super().__init__(blocks + 1, block_tokens)
        self.window = window
        del self.free[NULL]
        self.num_free -= 1
        self.groups: dict[str, Tables] = {}

    def first(self, tokens: int) -> int:
        """The first block of a window that the token behind so many attends to."""
        return max(0, tokens - self.window + 1) // self.block_tokens

    def of_groups(self, keys: Sequence[bytes]) -> list[list[bytes]]:
        """The keys of blocks, in each group: what one has cached is none of the other's."""
        return [[key + mark for key in keys] for mark in (b"full", b"window")]

    def found(self, tokens: Sequence[int]) -> Tables:
        """The blocks that hold the beginning of these tokens, in both groups, for as many of them as there can be."""
        full, window = self.of_groups(self.keys(tokens)[: self.most(tokens)])
        longest = next((n for n, key in enumerate(full) if key not in self.cached), len(full))
        for end in range(longest, 0, -1):
            begin = self.first(end * self.block_tokens)
            if all(key in self.cached for key in window[begin:end]):
                behind = [NULL] * begin
                return [
                    [self.cached[key] for key in full[:end]],
                    behind + [self.cached[key] for key in window[begin:end]],
                ]
        return [[], []]

    def give(self, name: str, found: Sequence[Sequence[int]], tokens: int) -> bool:
        """Give a request blocks for so many tokens in all, a new one what was found for it; without room, nothing."""
        tables = self.groups.get(name) or [[*table] for table in found] or [[], []]
        taken = [] if name in self.groups else [self.blocks[n] for table in tables for n in table if n != NULL]
        idle = sum(block.ref_cnt == 0 for block in taken)
        missing = [self.need(tokens) - len(table) for table in tables]
        if sum(missing) > self.num_free - idle:
            return False
        for block in taken:
            self.touch(block)
        for table, more in zip(tables, missing, strict=True):
            table += [self.take() for _ in range(more)]
        self.groups[name] = tables
        return True

    def done(self, name: str, tokens: Sequence[int]) -> None:
        """These tokens are computed: full blocks can be found, and what is behind the window is given back."""
        full, window = self.groups[name]
        for keys, table in zip(self.of_groups(self.keys(tokens)), (full, window), strict=True):
            for key, number in zip(keys, table, strict=False):
                if number != NULL:
                    self.register(self.blocks[number], key)
        for at in range(min(self.first(len(tokens)), len(window))):
            self.give_up(window, at)

    def give_up(self, table: list[int], at: int) -> None:
        """What stands there in a table is given back."""
        number, table[at] = table[at], NULL
        if number != NULL:
            self.give_back(self.blocks[number])

    def end(self, name: str) -> None:
        """A request is over: all of its blocks are given back."""
        for table in self.groups.pop(name):
            for at in reversed(range(len(table))):
                self.give_up(table, at)
