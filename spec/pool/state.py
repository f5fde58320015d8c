"""The state of Pool (machine P), and the words in which it is spoken of."""

from __future__ import annotations

from ...machine import (
    Bool,
    Count,
    Event,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Queue,
    Scalar,
    Sort,
    Sum,
    all_of,
    assume,
    exists,
    none,
    optional,
)

__all__ = ["Block", "Content", "Hash", "PoolState", "Position", "Request", "Slot"]


class Block(Sort):
    """One unit of device KV memory."""


class Request(Sort):
    """A sequence of tokens that is being served."""


class Hash(Sort):
    """The chained key of a block: it names the tokens in the block and, through its parent, all tokens before."""


class Slot(Sort):
    """The place of one token in a block."""


class Content(Sort):
    """The KV of one token. It depends on the token and on everything before it."""


class Position(Index):
    """The place of a block in a block table, counted from 0."""


class PoolState(Machine, abstract=True):
    """What a pool knows: its parameters, its queues, tables and hashes, and what is counted of them."""

    # -------------------------------------------------------------------------------- parameters

    null = Param(to=optional(Block))
    """The null block stands in tables where a window has moved on; none where an engine keeps no such block (P4)."""

    caching = Param(to=Bool)
    """Whether full blocks are registered at all."""

    split = Param(to=Bool)
    """Dialect of P10. False: freed blocks join the tail. True: those without a hash join the head instead."""

    kv = Param(Hash, Slot, to=optional(Content))
    """What a hash names: the content of each slot that it covers. Hashes of partly filled blocks cover fewer slots."""

    parent = Param(Hash, to=optional(Hash))
    """The hash of the block before; none for the first block of a sequence."""

    prompt = Param(Request, Position, to=Hash)
    """The hashes of a request's prompt, in order."""

    limit = Param(Request, to=Int)
    """How many blocks a lookup for this request may return: those that end before its last token (P14)."""

    need = Param(Request, to=Int)
    """How many positions the request's table has when it is complete."""

    # -------------------------------------------------------------------------------- state

    free = Queue(Block, init=lambda m, b: b != m.null.value)
    """The free queue, in eviction order: the head is taken next."""

    ref_cnt = Map(Block, to=Int)
    """How many hold the block: table entries, and copies in flight. That of the null block is not kept."""

    transfers = Map(Block, to=Int)
    """How many copies in flight hold the block. P itself has none; machine O has (O2)."""

    running = Map(Request, to=Bool)
    """Admitted, and neither finished nor preempted."""

    table = Map(Request, Position, to=optional(Block))
    """The block tables."""

    length = Map(Request, to=Int)
    """How many positions of a table are filled."""

    hashes = Map(Block, Hash, to=Bool)
    """The hashes under which a block is registered."""

    cached = Queue(Block, by=Hash)
    """The prefix cache: for each hash the blocks that carry it, first registered first (P5)."""

    content = Map(Block, Slot, to=optional(Content))
    """Ghost: what really stands in each slot of a block. Only writes change it; no hash goes into it (P6)."""

    # What an observer knows (ghosts).

    expects = Map(Request, Position, Slot, to=optional(Content))
    """What a request relies on in its table: what it wrote there, or what the hash that it found names."""

    filed = Map(Request, Position, to=optional(Hash))
    """The hash under which a request's block at this position was found or, once full, registered."""

    announced = Map(Hash, to=Bool)
    """The hashes that a listener who replays all events believes to be cached (P12)."""

    reported = Map(Hash, to=Bool)
    """The hashes that were ever reported as stored."""

    misled = Map(Hash, to=Bool)
    """An event told a listener of this hash what was wrong, or what it knew already."""

    claimed = Map(Position, to=optional(Block), scratch=True)
    """During a lookup: a block that was found for this position and is held, but stands in no table yet (P8)."""

    behind = Scalar(to=optional(Block), scratch=True)
    """While blocks are given back: the first block behind those that this call has put at the head."""

    # -------------------------------------------------------------------------------- events

    stored = Event(Hash, optional(Hash), heard=lambda m, h, parent: m._hear_stored(h, parent))
    """A hash can now be found; its parent is named with it."""

    removed = Event(Hash, heard=lambda m, h: m._hear_removed(h))
    """A hash can no longer be found."""

    cleared = Event(heard=lambda m: m._hear_cleared())
    """No hash can be found any more."""

    # -------------------------------------------------------------------------------- counts

    usable = Count(Block, where=lambda m, b: b != m.null.value)
    """All blocks but the null block."""

    referenced = Count(Block, where=lambda m, b: m.ref_cnt[b] > 0)
    """Blocks that somebody holds."""

    holders = Count((Request, Position), by=Block, where=lambda m, r, i, b: m.table[r, i] == b)
    """The table entries that hold a block."""

    claims = Count(Position, by=Block, where=lambda m, i, b: m.claimed[i] == b)
    """The positions for which a lookup holds a block."""

    all_claims = Count(Position, where=lambda m, i: m.claimed[i] != none)
    """Everything that a lookup holds outside of tables."""

    entries = Count(
        (Request, Position), where=lambda m, r, i: (m.table[r, i] != none) & (m.table[r, i] != m.null.value)
    )
    """All table entries that hold a block."""

    lent = Sum(Block, of=lambda m, b: m.transfers[b], to=Int)
    """What copies in flight hold, all blocks together."""

    spare = Sum(Block, of=lambda m, b: m.ref_cnt[b] - 1, to=Int)
    """References beyond the first, of all blocks together: what sharing saves."""

    skipped = Count(
        Position, by=Request, where=lambda m, i, r: (m.table[r, i] != none) & (m.table[r, i] == m.null.value)
    )
    """The positions of a request that a window has left behind."""

    held = Count(
        Position,
        by=Request,
        where=lambda m, i, r: (m.table[r, i] != none) & (m.table[r, i] != m.null.value),
    )
    """The entries of one request."""

    others = Count(
        (Request, Position),
        by=Request,
        where=lambda m, q, i, r: (q != r) & (m.table[q, i] != none) & (m.table[q, i] != m.null.value),
    )
    """The entries of all other requests."""

    # -------------------------------------------------------------------------------- what is known of the parameters

    @assume("P14")
    def the_last_token_is_computed(self, r: Request) -> Bool:
        """A lookup leaves at least one position to compute."""
        return (self.limit[r] >= 0) & (self.limit[r] < self.need[r])

    @assume("P2")
    def a_table_has_a_position_for_all_that_it_needs(self, r: Request) -> Bool:
        """No request is longer than the tables are."""
        return Position.has(self.need[r] - 1)

    # -------------------------------------------------------------------------------- blocks that nobody holds

    def _idle(self, b: Block) -> Bool:
        """Nobody holds the block, and it can be taken. Extensions of P keep such blocks in more queues than one."""
        return self.free.has(b)

    def _sooner(self, b: Block, c: Block) -> Bool:
        """Of two such blocks, ``b`` is taken before ``c``."""
        return self.free.before(b, c)

    def _room(self) -> Int:
        """How many such blocks there are."""
        return self.free.size

    # -------------------------------------------------------------------------------- words

    def _is_filed(self, r: Request, i: Position) -> Bool:
        """The request knows the block by a hash, under which it can still be found."""
        return exists(Block, Hash, lambda b, h: all_of(self.table[r, i] == b, self.filed[r, i] == h, self.hashes[b, h]))

    def _belongs_to_the_head(self, b: Block) -> Bool:
        """Where the dialect splits, blocks that nobody can find again are taken first."""
        return self.split.value & ~exists(Hash, lambda h: self.hashes[b, h])
