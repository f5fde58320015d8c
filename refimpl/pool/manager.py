"""Block tables of requests over a block pool: the small steps of which every request flow is made.

Each public method that changes something is one atomic step with its precondition: a step that is illegal in the
state at hand raises ``RefusedError``, one that does not fit now answers ``None`` or ``False``, and either way nothing
has changed. ``request_flow`` puts them together for tokens in, KV out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from torch import Tensor

from ..errors import RefusedError
from ..events import Event
from ..payload import Payload
from .block_pool import BlockPool, PoolSnapshot
from .pinned_pool import PinnedPool

RequestId = int | str
"""What names a request: the caller's choice."""


@dataclass(frozen=True, slots=True)
class PrefixCacheStats:
    """How well the prefix cache served, in blocks (P15). Both numbers only grow."""

    queries: int = 0
    """Blocks looked up: those a lookup may return, found or not."""
    hits: int = 0
    """Blocks found."""


@dataclass(frozen=True, slots=True)
class ManagerSnapshot:
    """The whole observable state of a manager, collected by walking its own structures and its pool's.

    Payload and event backlog are not part of it; ``KVCacheManager.payload`` and ``take_events`` give those.
    """

    pool: PoolSnapshot
    """The state of the pool."""
    tables: dict[RequestId, tuple[int, ...]]
    """The block table of each request inside, in order of admission."""
    needs: dict[RequestId, int]
    """The most positions that each of those tables may ever have."""
    counted: frozenset[RequestId]
    """The requests, inside or preempted, whose queries and hits are counted already (P15)."""
    queries: int
    """Blocks looked up so far, each request once (P15)."""
    hits: int
    """Blocks found so far, each request once (P15)."""


@dataclass(slots=True)
class _Entry:
    """A request that is inside: its block table, and how long it may become."""

    need: int
    table: list[int]


class KVCacheManager:
    """Block tables per request, statistics, and the payload of every token, over one ``BlockPool``.

    A request enters with ``admit``, may ``hit`` cached blocks while its table is empty, grows its table with
    ``allocate`` and ``skip``, writes and registers, and leaves with ``finish`` or ``preempt``. Every step costs O(1)
    per block that it names.
    """

    __slots__ = ("_counted", "_covered", "_hits", "_inside", "_queries", "block_tokens", "payload", "pool")

    def __init__(self, pool: BlockPool, *, block_tokens: int, payload: Payload | None = None) -> None:
        """Manage ``pool``, whose blocks hold ``block_tokens`` tokens each.

        Args:
            pool: the pool; nobody else may allocate from or free to it.
            block_tokens: tokens per block.
            payload: where the KV of the tokens goes; ``None`` moves no payload, and everything else is the same.
        """
        if block_tokens < 1:
            raise RefusedError(f"a block holds at least one token, got {block_tokens}")
        if payload is not None and (payload.num_blocks, payload.block_tokens) != (pool.num_blocks, block_tokens):
            raise RefusedError(
                f"the payload has {payload.num_blocks} blocks of {payload.block_tokens} tokens, "
                f"the pool {pool.num_blocks} of {block_tokens}"
            )
        self.pool = pool
        self.block_tokens = block_tokens
        self.payload = payload
        self._inside: dict[RequestId, _Entry] = {}
        self._counted: set[RequestId] = set()
        # Leading slots that the keys of a block cover. Valid only while the block carries a key: all keys of a block
        # go at once, so the entry is set afresh when a block without key is registered, and never needs clearing.
        self._covered = [0] * pool.num_blocks
        self._queries = 0
        self._hits = 0

    # Requests come and go.

    def admit(self, request_id: RequestId, need: int) -> bool:
        """Let a request in, with an empty table. ``need`` is the most positions that its table may ever have.

        The admission rule: a request that would not fit the empty pool is turned away (``False``, nothing changed,
        nothing counted). Any other can finish once those inside have, so it is let in. A request that was preempted
        comes back the same way, and its lookup is not counted again.
        """
        if request_id in self._inside:
            raise RefusedError(f"request {request_id!r} is inside already")
        if need < 0:
            raise RefusedError(f"a table cannot need {need} positions")
        if need > self.pool.usable:
            return False
        self._inside[request_id] = _Entry(need, [])
        return True

    def finish(self, request_id: RequestId, *, abort: bool = False) -> None:
        """Let a request leave for good; its blocks are freed, last first (P10), in one call.

        A request finishes with a full table, one of ``need`` positions; with ``abort`` it may leave at any moment.
        """
        entry = self._entry(request_id)
        if not abort and len(entry.table) != entry.need:
            raise RefusedError(f"request {request_id!r} has {len(entry.table)} of {entry.need} positions")
        self.pool.free(entry.table[::-1])
        del self._inside[request_id]
        self._counted.discard(request_id)

    def preempt(self, request_id: RequestId) -> None:
        """Let a request leave for now; its blocks are freed, last first. It stays counted for when it comes back."""
        self.pool.free(self._entry(request_id).table[::-1])
        del self._inside[request_id]

    def forget(self, request_id: RequestId) -> None:
        """Drop what is remembered of a preempted request that will not come back. Refused while it is inside."""
        if request_id in self._inside:
            raise RefusedError(f"request {request_id!r} is inside")
        self._counted.discard(request_id)

    # Tables grow and shrink.

    def hit(self, request_id: RequestId, keys: Sequence[bytes], limit: int) -> int:
        """Start a table with the cached blocks of a prefix; return how many were found (P8, P14).

        Args:
            request_id: a request inside whose table is empty.
            keys: the keys of its full blocks, first to last.
            limit: the most blocks that may be returned, by P14 (``blocks.lookup_limit``).

        The walk ends at the first key that no block carries. All found blocks are touched before anything else can
        happen to them. ``min(limit, len(keys))`` queries and the found hits are counted, once in the request's life
        (P15). Refused when that many blocks would not fit the table.
        """
        entry = self._entry(request_id)
        asked = min(limit, len(keys))
        if entry.table:
            raise RefusedError(f"the table of request {request_id!r} is not empty")
        if not 0 <= asked <= entry.need:
            raise RefusedError(f"a lookup of {asked} blocks does not fit a table of {entry.need} positions")
        if not self.pool.caching:
            return 0  # There is no cache to ask, so no query is counted (P15).
        self._take_prefix(request_id, entry.table, keys, asked)
        if request_id not in self._counted:
            self._counted.add(request_id)
            self._queries += asked
            self._hits += len(entry.table)
        return len(entry.table)

    def find(self, keys: Sequence[bytes], limit: int) -> list[int]:
        """Return the blocks that a ``hit`` with these arguments would put into the table. Nothing changes."""
        lookup = self.pool.lookup
        found: list[int] = []
        for position in range(min(limit, len(keys))):
            block = lookup(keys[position])
            if block is None:
                break
            found.append(block)
        return found

    def reach(self, keys: Sequence[bytes], limit: int) -> int:
        """Return how many blocks a ``hit`` with these arguments would return. Nothing changes."""
        return len(self.find(keys, limit))

    def allocate(self, request_id: RequestId, n: int) -> list[int] | None:
        """Append ``n`` fresh blocks to a table and return them; ``None``, and nothing changed, if too few are free.

        Refused when the table would become longer than the request said it needs.
        """
        entry = self._entry(request_id)
        if n < 0 or len(entry.table) + n > entry.need:
            raise RefusedError(f"{n} more blocks than {len(entry.table)}, of at most {entry.need}, are not possible")
        blocks = self.pool.allocate(n)
        if blocks is not None:
            entry.table.extend(blocks)
        return blocks

    def skip(self, request_id: RequestId) -> None:
        """Append the null block to a table: a position that needs no KV (P4). Refused if the pool has none."""
        entry = self._entry(request_id)
        if self.pool.null_block is None:
            raise RefusedError("the pool has no null block")
        if len(entry.table) >= entry.need:
            raise RefusedError(f"the table of request {request_id!r} is full")
        entry.table.append(self.pool.null_block)

    def trim(self, request_id: RequestId, n: int) -> None:
        """Free the last ``n`` entries of a table, last first, in one call (P9, P10)."""
        table = self._entry(request_id).table
        if not 0 <= n <= len(table):
            raise RefusedError(f"cannot trim {n} of {len(table)} positions")
        keep = len(table) - n
        self.pool.free(table[: keep - 1 if keep else None : -1] if n else ())
        del table[keep:]

    def drop(self, request_id: RequestId, before: int, *, window_blocks: int = 0, min_drop: int = 16) -> list[int]:
        """Free what a sliding window has left behind; return the freed blocks, last position first (D4).

        Args:
            request_id: a request inside.
            before: positions ``0 .. before - 1`` are behind the window (``blocks.blocks_behind_window``, D7).
            window_blocks: how many of the freed blocks to pin, if the pool pins: the newest ones that carry a key.
            min_drop: a drop of fewer blocks pins none. Drops of single steps are that small: their keys end in tokens
                of one request alone, and nobody comes back for them.

        The walk goes down from the last position behind the window to the first null block: what lies before that was
        dropped earlier. Each entry on its way becomes the null block, and all go in one call (P10). Blocks that are
        not pinned by this keep the mark that they have or have not.
        """
        table = self._entry(request_id).table
        null_block = self.pool.null_block
        if null_block is None:
            raise RefusedError("the pool has no null block to stand for dropped positions")
        if not 0 <= before <= len(table):
            raise RefusedError(f"a window cannot be past {before} of {len(table)} positions")
        if window_blocks < 0 or min_drop < 0:
            raise RefusedError(f"cannot pin {window_blocks} blocks of a drop of {min_drop}")
        dropped: list[int] = []
        for position in range(before - 1, -1, -1):
            block = table[position]
            if block == null_block:
                break
            dropped.append(block)
            table[position] = null_block
        if isinstance(self.pool, PinnedPool) and self.pool.pinning and len(dropped) >= min_drop:
            self.pool.mark(list(islice(filter(self.pool.has_keys, dropped), window_blocks)))
        self.pool.free(dropped)
        return dropped

    # Content.

    def write(self, request_id: RequestId, position: int, slot: int, digest: int) -> None:
        """Write the KV of one token, which is a function of ``digest``, the 64-bit digest of its prefix.

        Refused unless the request alone holds that block, the block is not the null block, and no key registered on
        it covers the slot (P6): what others may read, or find, is never overwritten.
        """
        block = self._block(request_id, position)
        self._check_writable(block, slot)
        if self.payload is not None:
            self.payload.write(block, slot, digest)

    def write_run(self, request_id: RequestId, start: int, digests: Tensor) -> None:
        """Write the KV of consecutive tokens, as ``write`` would one by one, in one go.

        Args:
            request_id: a request inside, whose table covers the tokens.
            start: the index of the first token in the request.
            digests: int64 ``[n]``, one digest a token.
        """
        table = self._entry(request_id).table
        block_tokens = self.block_tokens
        end = start + len(digests)
        if not 0 <= start <= end <= len(table) * block_tokens:
            raise RefusedError(f"request {request_id!r} has no blocks for tokens {start} to {end - 1}")
        blocks: list[int] = []
        slots: list[int] = []
        token = start
        while token < end:
            # Slots are written upwards, so a block is writable as a whole when its first slot of the run is.
            position, slot = divmod(token, block_tokens)
            self._check_writable(table[position], slot)
            count = min(block_tokens - slot, end - token)
            blocks += [table[position]] * count
            slots += range(slot, slot + count)
            token += count
        if self.payload is not None and blocks:
            self.payload.write_run(blocks, slots, digests)

    def register(self, request_id: RequestId, position: int, key: bytes, parent: bytes | None, covered: int) -> None:
        """Let lookups of ``key`` find the block at ``position`` (P5).

        Args:
            request_id: a request inside.
            position: a place in its table that does not hold the null block.
            key: the key; it covers the first ``covered`` slots of the block and every token before the block.
            parent: the key of the position before, for the event (P12).
            covered: from 1 to the tokens of a block; a partly filled block may be registered at several lengths.
        """
        block = self._block(request_id, position)
        if not 1 <= covered <= self.block_tokens:
            raise RefusedError(f"a key covers 1 to {self.block_tokens} slots of its block, not {covered}")
        had_keys = self.pool.has_keys(block)
        self.pool.register(block, key, parent)
        self._covered[block] = max(self._covered[block], covered) if had_keys else covered

    def covered_slots(self, block: int) -> int:
        """Return how many leading slots of ``block`` its keys cover: those may not be written (P6)."""
        return self._covered[block] if self.pool.has_keys(block) else 0

    def evict(self, block: int) -> None:
        """Take all keys off a block (P11)."""
        self.pool.evict(block)

    def reset(self) -> bool:
        """Forget all keys if no request holds a block, else change nothing; tell which (P11)."""
        return self.pool.reset()

    # Observation.

    @property
    def stats(self) -> PrefixCacheStats:
        """The counters so far (P15)."""
        return PrefixCacheStats(self._queries, self._hits)

    @property
    def num_inside(self) -> int:
        """The number of requests inside."""
        return len(self._inside)

    def is_inside(self, request_id: RequestId) -> bool:
        """Tell whether a request is inside."""
        return request_id in self._inside

    def table(self, request_id: RequestId) -> tuple[int, ...]:
        """Return a copy of the block table of a request inside."""
        return tuple(self._entry(request_id).table)

    def num_positions(self, request_id: RequestId) -> int:
        """Return the length of the block table of a request inside."""
        return len(self._entry(request_id).table)

    def need(self, request_id: RequestId) -> int:
        """Return the most positions that the table of a request inside may ever have."""
        return self._entry(request_id).need

    def take_events(self) -> list[Event]:
        """Return what happened to the prefix-cache map since the last call (P12), and forget it."""
        return self.pool.take_events()

    def snapshot(self) -> ManagerSnapshot:
        """Collect the whole observable state. Linear in the pool: for checkers, not for serving."""
        return ManagerSnapshot(
            pool=self.pool.snapshot(),
            tables={request_id: tuple(entry.table) for request_id, entry in self._inside.items()},
            needs={request_id: entry.need for request_id, entry in self._inside.items()},
            counted=frozenset(self._counted),
            queries=self._queries,
            hits=self._hits,
        )

    def _take_prefix(self, request_id: RequestId, table: list[int], keys: Sequence[bytes], asked: int) -> None:  # noqa: ARG002
        """Hold what a lookup of the first ``asked`` keys finds, and put it into the empty table of a request."""
        found = self.find(keys, asked)
        self.pool.touch(found)
        table.extend(found)

    def _entry(self, request_id: RequestId) -> _Entry:
        """Return a request that must be inside."""
        entry = self._inside.get(request_id)
        if entry is None:
            raise RefusedError(f"request {request_id!r} is not inside")
        return entry

    def _block(self, request_id: RequestId, position: int) -> int:
        """Return the block at a position that must exist."""
        table = self._entry(request_id).table
        if not 0 <= position < len(table):
            raise RefusedError(f"request {request_id!r} has no position {position}")
        return table[position]

    def _carries(self, request_id: RequestId, position: int, key: bytes | None) -> bool:
        """Tell whether the block at a position can be found under a key by which its request knows it."""
        return key is not None and key in self.pool.keys_of(self._block(request_id, position))

    def _check_writable(self, block: int, slot: int) -> None:
        """Refuse a write that others could notice (P6). A count of 1 is the caller's own hold: it is in its table."""
        if not 0 <= slot < self.block_tokens:
            raise RefusedError(f"slot {slot} is not one of the {self.block_tokens} slots of a block")
        if block == self.pool.null_block:
            raise RefusedError("the null block holds no KV")
        if self.pool.ref_cnt(block) != 1:
            raise RefusedError(f"block {block} has other holders")
        if slot < self.covered_slots(block):
            raise RefusedError(f"slot {slot} of block {block} is covered by a registered key")
