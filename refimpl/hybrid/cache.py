"""The prefix cache of a model whose layers come in groups: one pool of blocks, a table per group (H4, H8).

Keys are chain keys (``keys.chain_keys``) over ``hash_block`` tokens. A group files its block j under the chain key at
the end of that block, tagged with the group's index: no block ever stands for two groups.

In the table of a window or mamba group the null block stands for what is not needed. It stands in front: what a longer
prefix needs begins no earlier than what a shorter one needs (``Group.first_needed``). While a load is awaited it also
stands for what the load does not bring, between what is there already and what will come: no block is taken that nobody
would fill, so none can be filed or gone on from (P6).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm

from ..errors import RefusedError
from ..pool.block_pool import BlockPool
from ..pool.blocks import blocks_for
from ..pool.manager import RequestId
from .aligned_split import new_blocks
from .planner import Group, check_blocks
from .records import HybridSnapshot, RequestSnapshot


@dataclass(slots=True)
class _Entry:
    """A request that is inside."""

    need: int
    tables: list[list[int]]
    computed: int = 0
    external: int = 0
    filed: int = 0


class HybridCache:
    """Block tables of requests, one per group, over one shared pool.

    A request enters with ``admit``, may ``hit`` while its tables are empty, grows them with ``allocate``, tells with
    ``settle`` what a load brought, before anything behind it is computed, and with ``register`` what is computed, gives
    back with ``drop_outside`` what it does not need any more, and leaves with ``finish`` or ``preempt``. Each is one
    atomic step: an illegal one raises ``RefusedError``, one that does not fit now answers ``False``, and either way
    nothing has changed. Copies are not known here: who copies from or to a block holds it, by ``pool.touch``, until the
    copy has ended (O8).
    """

    __slots__ = ("_inside", "_null_block", "boundary", "groups", "hash_block", "pool")

    def __init__(self, pool: BlockPool, hash_block: int, groups: Sequence[Group]) -> None:
        """Serve ``groups`` from ``pool``.

        Args:
            pool: the pool, with a null block; nobody else may allocate from or free to it.
            hash_block: tokens per chain key.
            groups: the groups, at least one; their blocks are multiples of ``hash_block``, else ``ValueError``.
        """
        if pool.null_block is None:
            raise RefusedError("the pool has no null block to stand for positions that are not needed")
        if hash_block < 1:
            raise ValueError(f"a hash block holds at least one token, got {hash_block}")
        check_blocks(hash_block, groups)
        self.pool = pool
        self._null_block = pool.null_block
        self.hash_block = hash_block
        self.groups = tuple(groups)
        self.boundary = lcm(*(group.block for group in groups))
        """Blocks of all groups end at the multiples of this, and nowhere else."""
        self._inside: dict[RequestId, _Entry] = {}

    # Requests come and go.

    def admit(self, request: RequestId, need_tokens: int) -> bool:
        """Let a request in, with empty tables. ``need_tokens`` is the most tokens that they may ever cover.

        One whose tables would not fit the empty pool is turned away (``False``, nothing changed). Any other can finish
        once those inside have, so it is let in (L1).
        """
        if request in self._inside:
            raise RefusedError(f"request {request!r} is inside already")
        if need_tokens < 0:
            raise RefusedError(f"tables cannot need to cover {need_tokens} tokens")
        if sum(blocks_for(need_tokens, group.block) for group in self.groups) > self.pool.usable:
            return False
        self._inside[request] = _Entry(need_tokens, [[] for _ in self.groups])
        return True

    def finish(self, request: RequestId) -> None:
        """Let a request leave for good. Its blocks are freed, one call per group, last position first (P10)."""
        for table in self._entry(request).tables:
            self._release(table, 0)
        del self._inside[request]

    def preempt(self, request: RequestId) -> None:
        """Let a request leave for now, as if it had finished; it comes back by ``admit``, and finds what remains."""
        self.finish(request)

    # Hits.

    def hit(self, request: RequestId, chain: Sequence[bytes], limit_tokens: int) -> int:
        """Start a request's tables with the cached blocks of a prefix; return how many tokens it has (H4).

        Args:
            request: a request inside whose tables are empty.
            chain: its chain keys, first to last.
            limit_tokens: the most tokens that may be returned, by P14 one less than the request has.

        All blocks found, of all groups, are touched before anything else can happen to them (P8); positions that a
        group does not need at that length get the null block. Refused when so many tokens would not fit the tables.
        """
        entry = self._entry(request)
        if any(entry.tables):
            raise RefusedError(f"the tables of request {request!r} are not empty")
        asked = self._asked(chain, limit_tokens)
        if asked > entry.need:
            raise RefusedError(f"a lookup of {asked} tokens does not fit tables of {entry.need}")
        length = self.reach(chain, limit_tokens)
        tables = [self._found(index, chain, length) for index in range(len(self.groups))]
        held = [block for table in tables for block in table if block != self._null_block]
        if len(set(held)) < len(held):
            raise RefusedError("the chain names one block twice: its keys must all differ")
        self.pool.touch(held)
        entry.tables = tables
        entry.computed = entry.filed = length  # With empty tables nothing was there, nothing external either.
        return length

    def reach(self, chain: Sequence[bytes], limit_tokens: int) -> int:
        """Return how many tokens a ``hit`` with these arguments would return. Nothing changes.

        The candidate starts at the limit. In turn each group shortens it to the longest prefix that it can serve, and
        it is the answer when all agree on it: what a group rejects on the way, no longer prefix can be made of.
        """
        candidate = self._asked(chain, limit_tokens) // self.boundary * self.boundary
        agreeing = index = 0
        while agreeing < len(self.groups):
            served = self._served(index, chain, candidate)
            agreeing = agreeing + 1 if served == candidate else 1
            candidate = served
            index = (index + 1) % len(self.groups)
        return candidate

    # Tables grow and shrink.

    def allocate(self, request: RequestId, tokens: int, *, loaded: int = 0) -> bool:
        """Grow every group's table to cover ``tokens`` tokens; ``False``, and nothing changed, if too few are free.

        The demand of all groups is computed first, and met with one allocation. What is covered already asks for
        nothing (H7). Refused beyond what the request said it needs.

        Args:
            request: a request inside.
            tokens: how many tokens the tables shall cover.
            loaded: up to where a load brings what each group needs to go on there, and no more: of new positions, those
                that it does not bring get the null block. 0 when no load is awaited.
        """
        entry = self._entry(request)
        if not 0 <= loaded <= tokens <= entry.need:
            raise RefusedError(f"tables for {tokens} of {entry.need} tokens, {loaded} of them loaded, are not possible")
        tables = list(zip(entry.tables, self.groups, strict=True))
        skipped = [max(0, group.first_needed(loaded) // group.block - len(table)) for table, group in tables]
        demands = [
            new_blocks(tokens, len(table) + skip, group.block)
            for (table, group), skip in zip(tables, skipped, strict=True)
        ]
        blocks = self.pool.allocate(sum(demands))
        if blocks is None:
            return False
        start = 0
        for table, skip, demand in zip(entry.tables, skipped, demands, strict=True):
            table += [self._null_block] * skip + blocks[start : start + demand]
            start += demand
        return True

    def settle(self, request: RequestId, computed_per_group: Sequence[int]) -> int:
        """Go on from what is really there after a load, and return how many tokens that is (H4, O11).

        Args:
            request: a request inside.
            computed_per_group: up to which token the table of each group holds now what it should: KV in every position
                before that has a block.

        That is the greatest boundary of all groups, up to the least of the counts, at which no group misses a block
        that it needs: one that it gave up, or that the load was not to bring. Blocks behind it are given back, and so
        is what nobody needs to go on from there. What is there beyond the tokens computed here counts as external: with
        nothing left, both counts are 0.
        """
        entry = self._entry(request)
        if len(computed_per_group) != len(self.groups):
            raise RefusedError(f"there are {len(self.groups)} groups, and counts of {len(computed_per_group)}")
        if not 0 <= min(computed_per_group) <= max(computed_per_group) <= self._room(entry):
            raise RefusedError(f"groups cannot have {list(computed_per_group)} of {self._room(entry)} tokens")
        longest = min(computed_per_group) // self.boundary * self.boundary
        candidates = range(longest, 0, -self.boundary)
        length = next((candidate for candidate in candidates if self._goes_on_at(entry, candidate)), 0)
        for table, group in zip(entry.tables, self.groups, strict=True):
            self._release(table, length // group.block)
            self._drop(table, reversed(range(group.first_needed(length) // group.block)))
        entry.computed = min(entry.computed, length)
        entry.external = length - entry.computed
        entry.filed = min(entry.filed, length)
        return length

    def register(self, request: RequestId, chain: Sequence[bytes], tokens: int) -> None:
        """Say that the first ``tokens`` tokens are computed: every full block up to there can be found from now on.

        A mamba group files its blocks alike: it is taken to leave a state at the end of every block, and to have none
        that others can go on from in a block that is not full. Positions that hold the null block are passed over.

        Args:
            request: a request inside, whose tables cover that many tokens.
            chain: its chain keys, at least those of the full hash blocks up to there.
            tokens: how many leading tokens have KV now; fewer than before change nothing.
        """
        entry = self._entry(request)
        if not 0 <= tokens <= self._room(entry):
            raise RefusedError(f"request {request!r} has tables for {self._room(entry)} tokens, not for {tokens}")
        if len(chain) < tokens // self.hash_block:
            raise RefusedError(f"{len(chain)} chain keys are fewer than {tokens} tokens have")
        entry.computed = max(entry.computed, tokens - entry.external)
        if self.pool.caching:
            for index, group in enumerate(self.groups):
                for position in range(entry.filed // group.block, tokens // group.block):
                    self._file(index, chain, position, entry.tables[index][position])
        entry.filed = max(entry.filed, tokens)

    def drop_outside(self, request: RequestId) -> list[int]:
        """Give back what no group needs to go on from the tokens that are there; return those blocks.

        Window groups keep their window, mamba groups the block of the last state. Blocks for tokens to come stay: only
        tokens whose step has been processed count (D7). One free call per group, last position first (P10).
        """
        entry = self._entry(request)
        total = entry.computed + entry.external
        dropped: list[int] = []
        for table, group in zip(entry.tables, self.groups, strict=True):
            dropped += self._drop(table, self._held_before(table, group.first_needed(total) // group.block))
        return dropped

    # Observation.

    def tables(self, request: RequestId) -> tuple[tuple[int, ...], ...]:
        """Return a copy of the block tables of a request inside, one per group."""
        return tuple(tuple(table) for table in self._entry(request).tables)

    def counts(self, request: RequestId) -> tuple[int, int]:
        """Return the computed and the external tokens of a request inside."""
        entry = self._entry(request)
        return entry.computed, entry.external

    def key(self, group: int, chain: Sequence[bytes], position: int) -> bytes:
        """Return the key under which a group files the block at a position: the chain key at its end, tagged (H8)."""
        hash_blocks = self.groups[group].block // self.hash_block
        return group.to_bytes(4, "little") + chain[(position + 1) * hash_blocks - 1]

    def snapshot(self) -> HybridSnapshot:
        """Collect the whole observable state. Linear in the pool: for checkers, not for serving."""
        return HybridSnapshot(
            pool=self.pool.snapshot(),
            requests={
                request: RequestSnapshot(entry.need, self.tables(request), entry.computed, entry.external, entry.filed)
                for request, entry in self._inside.items()
            },
        )

    # What the steps are made of.

    def _asked(self, chain: Sequence[bytes], limit_tokens: int) -> int:
        """Return the most tokens that a lookup may return."""
        if limit_tokens < 0:
            raise RefusedError(f"a lookup cannot return {limit_tokens} tokens")
        return min(limit_tokens, len(chain) * self.hash_block)

    def _served(self, index: int, chain: Sequence[bytes], candidate: int) -> int:
        """Return the longest prefix, up to ``candidate``, of which one group has all that it needs.

        A missing block is needed by every prefix that ends behind its beginning, down from the candidate: so the next
        one to try ends there.
        """
        group = self.groups[index]
        while True:
            needed = range(group.first_needed(candidate) // group.block, candidate // group.block)
            missing = (j for j in needed if self.pool.lookup(self.key(index, chain, j)) is None)
            first_missing = next(missing, None)
            if first_missing is None:
                return candidate
            candidate = first_missing * group.block // self.boundary * self.boundary

    def _found(self, index: int, chain: Sequence[bytes], length: int) -> list[int]:
        """Return the table of one group at a hit of ``length`` tokens."""
        group = self.groups[index]
        first = group.first_needed(length) // group.block
        table = [self._null_block] * first
        for position in range(first, length // group.block):
            block = self.pool.lookup(self.key(index, chain, position))
            assert block is not None
            table.append(block)
        return table

    def _goes_on_at(self, entry: _Entry, length: int) -> bool:
        """Tell whether the tables hold a block wherever a group needs one of the first ``length`` tokens."""
        return all(
            self._null_block not in table[group.first_needed(length) // group.block : length // group.block]
            for table, group in zip(entry.tables, self.groups, strict=True)
        )

    def _file(self, index: int, chain: Sequence[bytes], position: int, block: int) -> None:
        """Let lookups find one full block of a table, unless the null block stands there."""
        if block != self._null_block:
            parent = self.key(index, chain, position - 1) if position else None
            self.pool.register(block, self.key(index, chain, position), parent)

    def _held_before(self, table: list[int], before: int) -> Iterator[int]:
        """Yield the positions before one, last first, down to those that were given up earlier."""
        for position in range(before - 1, -1, -1):
            if table[position] == self._null_block:
                return
            yield position

    def _drop(self, table: list[int], positions: Iterable[int]) -> list[int]:
        """Free what stands at these positions, in this order; return the blocks."""
        dropped: list[int] = []
        for position in positions:
            if table[position] != self._null_block:
                dropped.append(table[position])
                table[position] = self._null_block
        self.pool.free(dropped)
        return dropped

    def _release(self, table: list[int], keep: int) -> None:
        """Free all positions of a table from ``keep`` on, last first."""
        self.pool.free(table[keep:][::-1])
        del table[keep:]

    def _room(self, entry: _Entry) -> int:
        """Return how many tokens the tables of every group have positions for."""
        return min(len(table) * group.block for table, group in zip(entry.tables, self.groups, strict=True))

    def _entry(self, request: RequestId) -> _Entry:
        """Return a request that must be inside."""
        entry = self._inside.get(request)
        if entry is None:
            raise RefusedError(f"request {request!r} is not inside")
        return entry
