"""A host tier behind the pool of a hybrid model: each group stores and loads blocks of its own."""

from collections.abc import Sequence

from hybrid import NULL, HybridPool, Tables
from offload import Copies, Offload

__all__ = ["Hosts", "HybridOffload"]

Hosts = list[list[int | None]]
"""Host blocks, for each group; None is for what is behind a window, and need not be loaded."""


class HybridOffload(Offload):
    """Host blocks of both groups. A load ends where the next token finds all that it attends to."""

    pool: HybridPool

    def found(self, tokens: Sequence[int], held: int) -> Hosts:
        """The host blocks that go on where the device ends, behind so many blocks, for as many tokens as there can
        be."""
        full, window = self.pool.of_groups(self.pool.keys(tokens)[: self.pool.most(tokens)])
        missing = (n for n in range(held, len(full)) if full[n] not in self.cached)
        for end in range(next(missing, len(full)), held, -1):
            begin = max(held, self.pool.first(end * self.pool.block_tokens))
            if all(key in self.cached for key in window[begin:end]):
                behind = [None] * (begin - held)
                return [[*self.lookup(full[held:end])], [*behind, *self.lookup(window[begin:end])]]
        return [[], []]

    def places(self, found: Sequence[Sequence[int]], hosts: Hosts) -> Tables:
        """What a new table begins with: what the device has, and no block for what the host need not bring."""
        return [[*table, *(NULL for at in of if at is None)] for table, of in zip(found, hosts, strict=True)]

    def loads(self, hosts: Hosts, tables: Tables, held: int) -> Copies:
        """The copies that bring this into these tables, behind so many blocks."""
        pairs = (pair for of, table in zip(hosts, tables, strict=True) for pair in zip(of, table[held:], strict=False))
        return [(host, block) for host, block in pairs if host is not None]

    def store_groups(self, tokens: Sequence[int], tables: Tables) -> tuple[list[bytes], Copies]:
        """Begin to store what is computed of each group, and was not given up."""
        of_groups = zip(self.pool.of_groups(self.pool.keys(tokens)), tables, strict=True)
        pairs = (pair for keys, table in of_groups for pair in zip(keys, table, strict=False))
        there = [(key, block) for key, block in pairs if block != NULL]
        return self.store([key for key, _ in there], [block for _, block in there])
