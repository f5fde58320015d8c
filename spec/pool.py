"""Machine P: the block pool and its prefix cache.

A pool owns a fixed number of blocks of KV memory. A running request holds blocks in its block table, one for each
position. A block is free when nobody holds it; the free queue keeps free blocks in the order in which they will be
taken again, and a free block keeps its content, and the hashes that name this content, until it is taken. A new request
whose prompt begins with known hashes finds these blocks and shares them instead of computing them again.

The rules P1 to P12, P14, L1 and L2 stand here as actions and properties. Statistics (P15) extend this machine in
`statistics.py`; what makes two hashes equal (P13) is a machine of its own in `keys.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..machine import (
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
    action,
    all_of,
    assume,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)


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


class Pool(Machine):
    """The block pool and its prefix cache (machine P)."""

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

    # -------------------------------------------------------------------------------- actions

    @action("P15, L1")
    def admit(self, r: Request) -> None:
        """A request enters if those inside can all finish in some order.

        As any of them can be preempted, one at a time is such an order, and it exists exactly when each fits the empty
        pool.
        """
        self.require(~self.running[r])
        self.require(self.need[r] <= self.usable.value)
        self.running[r] = True

    @action("P8, P14")
    def hit(self, r: Request) -> Int:
        """Look up the prompt and hold what is found, before anything is allocated for this request.

        The walk ends at the first hash that is not cached. Of several blocks with one hash, the first registered is
        taken.
        """
        self.require(self.running[r])
        self.require(self.caching.value)
        self.require(self.length[r] == 0)
        return self._look_up(r)

    @action("P7")
    def allocate(self, r: Request, n: Int) -> None:
        """Take the n blocks at the head of the free queue, in order; each loses its hashes. Not possible with fewer."""
        self.require(self.running[r])
        self.require(n >= 1)
        self.require(self.length[r] + n <= self.need[r])
        self.require(n <= self._room())
        self._take(r, n)

    @action("P4")
    def skip(self, r: Request) -> None:
        """A position that the window has left behind gets the null block."""
        self.require(self.running[r])
        self.require(self.null.value != none)
        self.require(self.length[r] < self.need[r])
        self.table[r, self.length[r]] = self.null.value
        self.length[r] = self.length[r] + 1

    @action("P6")
    def write(self, r: Request, i: Position, s: Slot, c: Content) -> None:
        """A step computes one token's KV, in a block that the request holds alone and where no hash covers the slot."""
        self.require(i < self.length[r])
        b = self.table[r, i]
        self.require(b != none)
        self.require(b != self.null.value)
        self.require(self.ref_cnt[b] == 1)
        self.require(self.filed[r, i] == none)
        self.require(forall(Hash, lambda h: implies(self.hashes[b, h], self.kv[h, s] == none)))
        self.content[b, s] = c
        self.expects[r, i, s] = c

    @action("P5, P12")
    def register(self, r: Request, i: Position, h: Hash) -> None:
        """A block whose content a hash names can from now on be found under it; other blocks with this hash stay."""
        self.require(self.caching.value)
        self.require(i < self.length[r])
        b = self.table[r, i]
        self.require(b != none)
        self.require(b != self.null.value)
        self.require(~self.hashes[b, h])
        self.require(forall(Slot, lambda s: implies(self.kv[h, s] != none, self.expects[r, i, s] == self.kv[h, s])))
        is_root = (i == 0) & (self.parent[h] == none)
        builds_on = exists(
            Position, lambda j: (j + 1 == i) & (self.parent[h] != none) & (self.parent[h] == self.filed[r, j])
        )
        self.require(is_root | builds_on)
        is_full = forall(Slot, lambda s: self.kv[h, s] != none)
        is_filed = self._is_filed(r, i)
        self._publish(b, h)
        with when(is_full & ~is_filed):
            self.filed[r, i] = h

    @action("P9, P10")
    def trim(self, r: Request, n: Int) -> None:
        """Give back the last n entries of a table: a rejected draft, a shortened request."""
        self.require(self.running[r])
        self.require(n >= 1)
        self.require(n <= self.length[r])
        self._give_back(r, n)

    @action("P9, P10")
    def finish(self, r: Request) -> None:
        """A complete request leaves."""
        self.require(self.running[r])
        self.require(self.length[r] == self.need[r])
        self._give_back(r, self.length[r])
        self.running[r] = False

    @action("P9, P10, L1")
    def preempt(self, r: Request) -> None:
        """A request gives up all its blocks and leaves, to be admitted again later."""
        self.require(self.running[r])
        self._give_back(r, self.length[r])
        self.running[r] = False

    @action("P11")
    def evict(self, b: Block) -> None:
        """Take a block's hashes away. It stays where it is: who holds it goes on holding it."""
        self.require(exists(Hash, lambda h: self.hashes[b, h]))
        self._forget(b)

    @action("P11, P12")
    def reset(self) -> None:
        """Forget every hash; only when nothing is referenced."""
        self.require(forall(Block, lambda b: self.ref_cnt[b] == 0))
        self._forget_everything()
        self.cleared()

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

    # -------------------------------------------------------------------------------- finding and forgetting

    def _is_filed(self, r: Request, i: Position) -> Bool:
        """The request knows the block by a hash, under which it can still be found."""
        return exists(Block, Hash, lambda b, h: all_of(self.table[r, i] == b, self.filed[r, i] == h, self.hashes[b, h]))

    def _publish(self, b: Block, h: Hash) -> None:
        """The block can be found under the hash, behind those that carry it already; the first one is news (P12)."""
        is_first = self.cached[h].is_empty()
        self.hashes[b, h] = True
        self.cached[h].push_back(b)
        with when(is_first):
            self.stored(h, self.parent[h])

    def _forget(self, b: Block) -> None:
        """The block loses its hashes; a removal is reported when the last copy goes (P12)."""
        with self.each(Hash) as h, when(self.hashes[b, h]):
            self.hashes[b, h] = False
            self.cached[h].remove(b)
            with when(self.cached[h].is_empty()):
                self.removed(h)

    def _forget_everything(self) -> None:
        """No hash names anything any more."""
        with self.each(Block, Hash) as (b, h), when(self.hashes[b, h]):
            self.hashes[b, h] = False
            self.cached[h].remove(b)

    # -------------------------------------------------------------------------------- what actions are made of

    def _look_up(self, r: Request) -> Int:
        """The walk of a lookup: each block that is found is held at once. Returns how many were found."""
        with self.loop(
            self.limit[r],
            going=lambda i: ~self.cached[self.prompt[r, i]].is_empty(),
            facts=lambda i, entry: {
                "the table is as long as the walk": self.length[r] == i,
                "the walk stays below the limit": i <= self.limit[r],
                "the first that carries a hash is taken": forall(
                    Position, lambda k: implies(k < i, entry.cached[self.prompt[r, k]].is_first(self.table[r, k]))
                ),
                "what was walked is known": forall(
                    Position, Slot, lambda k, s: implies(k < i, self._is_known(r, k, s))
                ),
                **self._only_taken_from(entry),
            },
        ) as walk:
            self._find(r, walk.index, self.cached[self.prompt[r, walk.index]].head())
        return walk.rounds

    def _find(self, r: Request, i: Index, b: Block) -> None:
        """A block that a lookup has found leaves the queue, and stands in the table under the prompt's hash."""
        h = self.prompt[r, i]
        with when(self.ref_cnt[b] == 0):
            self._leave_queue(b)
        self._hold(r, b)
        self.filed[r, i] = h
        with self.each(Slot) as s:
            self.expects[r, i, s] = self.kv[h, s]

    def _take(self, r: Request, n: Int) -> None:
        """One allocation: block after block from the head of the queue into the table."""
        with self.loop(
            n,
            facts=lambda i, entry: {
                "the table grows by one each round": self.length[r] == entry.length[r] + i,
                "enough blocks are left": self._room() == entry._room() - i,
                "entries stay": forall(
                    Position, lambda k: implies(k < entry.length[r], self.table[r, k] == entry.table[r, k])
                ),
                "held blocks are held": forall(Block, lambda b: implies(entry.ref_cnt[b] > 0, self.ref_cnt[b] > 0)),
                "who carries a hash stands as before": self._found_in_order(entry),
                **self._taken_so_far(entry, i),
                **self._taken_from_the_head(entry, r),
            },
        ):
            b = self._take_head()
            self._forget(b)
            self._hold(r, b)

    def _taken_so_far(self, entry: Pool, n: Int) -> dict[str, Bool]:  # noqa: ARG002
        """What else is known when n blocks were taken; for extensions of P."""
        return {}

    def _hold(self, r: Request, b: Block) -> None:
        """The request holds the block at the end of its table."""
        self.ref_cnt[b] = self.ref_cnt[b] + 1
        self.table[r, self.length[r]] = b
        self.length[r] = self.length[r] + 1

    def _take_head(self) -> Block:
        """Take the first block of the queue."""
        b = self.free.head()
        self.free.remove(b)
        return b

    def _leave_queue(self, b: Block) -> None:
        """Take a block out of the queue, wherever it stands."""
        self.free.remove(b)

    def _give_back(self, r: Request, n: Int) -> None:
        """One free call: the last n entries, last block first."""
        self._begin_free_call()
        with self.loop(
            n,
            facts=lambda i, entry: {
                "the table shrinks by one each round": self.length[r] == entry.length[r] - i,
                "nothing else changes hands": self.others[r] == entry.others[r],
                "entries not yet given back are as they were": forall(
                    Position,
                    Slot,
                    lambda k, s: implies(k < self.length[r], self._stands_as_before(entry, r, k, s)),
                ),
                **self._freed_so_far(entry, r),
            },
        ):
            last = self.length[r] - 1
            b = self.table[r, last]
            self.length[r] = last
            self.table[r, last] = none
            self.filed[r, last] = none
            with self.each(Slot) as s:
                self.expects[r, last, s] = none
            with when(b != self.null.value):
                self._release(b)
        self._end_free_call()

    def _begin_free_call(self) -> None:
        """Behind the run that this call puts at the head stands what is the head now."""
        with when(~self.free.is_empty()):
            self.behind.value = self.free.head()

    def _end_free_call(self) -> None:
        """All runs stand."""
        self.behind.value = none

    def _release(self, b: Block) -> None:
        """One holder less. Where the block goes is decided once, at the moment when nobody holds it any more (P9)."""
        left = self.ref_cnt[b] - 1
        self.ref_cnt[b] = left
        with when(left == 0):
            self._join(b)

    def _join(self, b: Block) -> None:
        """The block joins the queue, at the end that the dialect says (P10)."""
        to_the_head = self._belongs_to_the_head(b)
        with when(to_the_head):
            self._join_head(b)
        with otherwise():
            self._join_tail(b)

    def _join_head(self, b: Block) -> None:
        """The block joins the run that this call puts at the head, as its last."""
        mark = self.behind.value
        with when(mark != none):
            self.free.push_before(mark, b)
        with otherwise():
            self.free.push_back(b)

    def _join_tail(self, b: Block) -> None:
        """The block joins the tail; where nothing stood behind the run at the head, it is now what stands there."""
        self.free.push_back(b)
        with when(self.behind.value == none):
            self.behind.value = b

    # -------------------------------------------------------------------------------- what a listener makes of events

    def _hear_stored(self, h: Hash, parent: Hash) -> None:
        """It can be found from now on. Its parent, if it has one, is right, and was itself reported at some time."""
        was_reported = forall(Hash, lambda p: implies(parent == p, self.reported[p]))
        with when((parent != self.parent[h]) | ~was_reported):
            self.misled[h] = True
        self._hear_found(h)

    def _hear_found(self, h: Hash) -> None:
        """It can be found from now on; it was not before."""
        with when(self.announced[h]):
            self.misled[h] = True
        self.announced[h] = True
        self.reported[h] = True

    def _hear_removed(self, h: Hash) -> None:
        """It cannot be found any more; it was before."""
        with when(~self.announced[h]):
            self.misled[h] = True
        self.announced[h] = False

    def _hear_cleared(self) -> None:
        """Nothing can be found any more."""
        with self.each(Hash) as h:
            self.announced[h] = False

    # -------------------------------------------------------------------------------- invariants

    @invariant("P1")
    def every_block_is_free_or_referenced(self) -> Bool:
        """Conservation: no block is lost, none is counted twice."""
        return self._room() + self.referenced.value == self.usable.value

    @invariant("P2")
    def ref_cnt_counts_holders(self, b: Block) -> Bool:
        """Every reference is a table entry, a lookup's claim or a transfer, and each of these is a reference."""
        return implies(b != self.null.value, self.ref_cnt[b] == self.holders[b] + self.claims[b] + self.transfers[b])

    @invariant("P2")
    def a_held_block_is_referenced(self, r: Request, i: Position, b: Block) -> Bool:
        """No count is negative, and none is 0 while a table holds the block."""
        return (
            (self.ref_cnt[b] >= 0)
            & (self.transfers[b] >= 0)
            & implies((self.table[r, i] == b) & (b != self.null.value), self.ref_cnt[b] >= 1)
        )

    @invariant("P3")
    def free_exactly_when_unreferenced(self, b: Block) -> Bool:
        """A block stands in the free queue exactly when nobody holds it."""
        return implies(b != self.null.value, iff(self._idle(b), self.ref_cnt[b] == 0))

    @invariant("P4")
    def the_null_block_is_left_alone(self, b: Block) -> Bool:
        """It is never queued, cached or counted."""
        is_clean = ~self._idle(b) & (self.ref_cnt[b] == 0) & forall(Hash, lambda h: ~self.hashes[b, h])
        return implies(b == self.null.value, is_clean)

    @invariant("P5")
    def the_map_and_the_blocks_agree(self, b: Block, h: Hash) -> Bool:
        """A lookup finds exactly the blocks that carry the hash."""
        return iff(self.cached[h].has(b), self.hashes[b, h])

    @invariant("P6")
    def a_hash_names_what_is_there(self, b: Block, h: Hash, s: Slot) -> Bool:
        """What a lookup returns is what the hash says, slot by slot."""
        return implies(self.hashes[b, h] & (self.kv[h, s] != none), self.content[b, s] == self.kv[h, s])

    @invariant("P6")
    def a_request_reads_its_own_prefix(self, r: Request, i: Position, s: Slot, b: Block) -> Bool:
        """Nobody writes over what a request relies on, and no request reads another's."""
        relies = (self.table[r, i] == b) & (self.expects[r, i, s] != none)
        return implies(relies, self.content[b, s] == self.expects[r, i, s])

    @invariant("P2")
    def tables_are_filled_from_the_front(self, r: Request, i: Position) -> Bool:
        """A table's entries are those below its length; beyond it nothing is kept."""
        return all_of(
            self.length[r] >= 0,
            self.length[r] <= self.need[r],
            iff(self.table[r, i] != none, i < self.length[r]),
            implies(self.filed[r, i] != none, i < self.length[r]),
            implies(self.length[r] > 0, self.running[r]),
        )

    @invariant("P6")
    def nothing_is_expected_beyond_a_table(self, r: Request, i: Position, s: Slot) -> Bool:
        """Only a block that is held is relied on."""
        return implies(self.expects[r, i, s] != none, (i < self.length[r]) & (self.table[r, i] != self.null.value))

    @invariant("P12")
    def listeners_know_what_is_cached(self, h: Hash) -> Bool:
        """Replaying the events gives exactly the hashes for which a lookup succeeds."""
        return iff(self.announced[h], ~self.cached[h].is_empty())

    @invariant("P12")
    def every_event_is_news(self, h: Hash) -> Bool:
        """One is reported only where the set of hashes changes, with the right parent, which was reported before."""
        return ~self.misled[h]

    @invariant("P12")
    def what_is_built_upon_was_reported(self, r: Request, i: Position, b: Block, h: Hash) -> Bool:
        """A request chains on hashes that listeners have heard of."""
        return all_of(
            implies(self.hashes[b, h], self.reported[h]),
            implies(self.filed[r, i] == h, self.reported[h]),
        )

    @invariant("L1")
    def entries_add_up(self, r: Request) -> Bool:
        """A request's entries and those of others are all there are; each is the first of its block or a spare one."""
        return all_of(
            self.entries.value == self.held[r] + self.others[r],
            self.held[r] + self.skipped[r] == self.length[r],
            self.entries.value + self.all_claims.value + self.lent.value == self.referenced.value + self.spare.value,
        )

    @invariant("L1")
    def admitted_requests_fit(self, r: Request) -> Bool:
        """Whoever is inside could finish alone."""
        return implies(self.running[r], self.need[r] <= self.usable.value)

    @corollary("P2")
    def between_actions_no_claim_is_left(self) -> Bool:
        """What a lookup found stands in a table, or was let go."""
        return self.all_claims.value == 0

    @corollary("L1")
    def who_cannot_go_on_waits_for_others(self, r: Request) -> Bool:
        """Where no block can be taken, and a request needs one more, others hold some, or copies in flight."""
        is_stuck = all_of(self.running[r], self.length[r] < self.need[r], self._room() <= 0)
        return implies(is_stuck, (self.others[r] > 0) | (self.lent.value > 0))

    @corollary("L1")
    def somebody_can_always_go_on(self, r: Request) -> Bool:
        """A running request can finish, can take its next block, or another can be preempted for it; or a copy ends."""
        another = exists(Request, lambda q: (q != r) & (self.length[q] > 0) & can(self.preempt, q))
        is_lent = self.lent.value > 0
        return implies(self.running[r], can(self.finish, r) | can(self.allocate, r, 1) | another | is_lent)

    @corollary("L2")
    def holders_can_let_go(self) -> Bool:
        """While an entry exists some release is possible; when none is left, reset is."""
        return all_of(
            implies(self.entries.value > 0, exists(Request, lambda q: (self.held[q] > 0) & can(self.preempt, q))),
            implies((self.entries.value == 0) & (self.lent.value == 0), can(self.reset)),
        )

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("P15, L1")
    def who_fits_is_admitted(self, r: Request) -> Bool:
        """Nobody enters twice, or who could not finish alone; nobody else is refused."""
        return iff(can(self.admit, r), ~self.running[r] & (self.need[r] <= self.usable.value))

    @corollary("P8, P14")
    def a_lookup_comes_first(self, r: Request) -> Bool:
        """It is possible as long as the table is empty, where there is a cache."""
        return iff(can(self.hit, r), self.running[r] & self.caching.value & (self.length[r] == 0))

    @corollary("P7")
    def allocation_is_refused_for_lack_of_room_only(self, r: Request, k: Position) -> Bool:
        """Or for a table that would be longer than the request needs."""
        fits = (self.length[r] + k + 1 <= self.need[r]) & (k + 1 <= self._room())
        return iff(can(self.allocate, r, k + 1), self.running[r] & fits) & ~can(self.allocate, r, 0)

    @corollary("P4")
    def a_position_can_be_skipped(self, r: Request) -> Bool:
        """As long as there is one to come, where there is a null block."""
        is_left = self.length[r] < self.need[r]
        return iff(can(self.skip, r), all_of(self.running[r], self.null.value != none, is_left))

    @corollary("P6")
    def who_may_write(self, r: Request, i: Position, s: Slot, c: Content) -> Bool:
        """Who holds the block alone and has not filed it, where no hash covers the slot."""
        is_own = exists(Block, lambda b: (self.table[r, i] == b) & self._is_open(b, s))
        return iff(can(self.write, r, i, s, c), all_of(i < self.length[r], self.filed[r, i] == none, is_own))

    def _is_open(self, b: Block, s: Slot) -> Bool:
        """One holds the block, and nobody relies on the slot."""
        is_covered = exists(Hash, lambda h: self.hashes[b, h] & (self.kv[h, s] != none))
        return all_of(b != self.null.value, self.ref_cnt[b] == 1, ~is_covered)

    @corollary("P5, P6, P12")
    def what_can_be_registered(self, r: Request, i: Position, h: Hash) -> Bool:
        """A block that holds what the hash names, behind the block that was filed under the hash's parent."""
        return iff(can(self.register, r, i, h), self.caching.value & self._is_namable(r, i, h))

    def _is_namable(self, r: Request, i: Position, h: Hash) -> Bool:
        """The entry is a block that does not carry the hash, and could: by its content, and by its predecessor."""
        is_root = (i == 0) & (self.parent[h] == none)
        builds_on = exists(
            Position, lambda j: (j + 1 == i) & (self.parent[h] != none) & (self.parent[h] == self.filed[r, j])
        )
        return all_of(
            exists(Block, lambda b: all_of(self.table[r, i] == b, b != self.null.value, ~self.hashes[b, h])),
            forall(Slot, lambda s: implies(self.kv[h, s] != none, self.expects[r, i, s] == self.kv[h, s])),
            is_root | builds_on,
        )

    @corollary("P9")
    def what_is_held_can_be_given_back(self, r: Request, k: Position) -> Bool:
        """At the end of the table, as many entries as there are; not none."""
        return iff(can(self.trim, r, k + 1), self.running[r] & (k < self.length[r])) & ~can(self.trim, r, 0)

    @corollary("P9, L1")
    def who_has_all_it_needs_can_finish(self, r: Request) -> Bool:
        """And nobody else."""
        return iff(can(self.finish, r), self.running[r] & (self.length[r] == self.need[r]))

    @corollary("L1")
    def who_is_inside_can_be_preempted(self, r: Request) -> Bool:
        """Whatever it holds."""
        return iff(can(self.preempt, r), self.running[r])

    @corollary("P11")
    def what_is_found_can_be_evicted(self, b: Block) -> Bool:
        """Also while somebody holds it."""
        return iff(can(self.evict, b), exists(Hash, lambda h: self.hashes[b, h]))

    @corollary("P11")
    def reset_is_refused_for_who_holds_a_block(self) -> Bool:
        """And for nobody else."""
        return iff(can(self.reset), self.referenced.value == 0)

    # -------------------------------------------------------------------------------- steps

    def _is_known(self, r: Request, i: Position, s: Slot) -> Bool:
        """The entry is known by the prompt's hash, and relied on for what this names."""
        h = self.prompt[r, i]
        return (self.filed[r, i] == h) & (self.expects[r, i, s] == self.kv[h, s])

    def _found_in_order(self, entry: Pool) -> Bool:
        """Of two blocks with one hash, the one that was registered first is found first as long as both carry it."""
        return forall(
            Block,
            Block,
            Hash,
            lambda b, c, h: implies(
                self.cached[h].has(b) & self.cached[h].has(c) & entry.cached[h].has(b) & entry.cached[h].has(c),
                iff(self.cached[h].before(b, c), entry.cached[h].before(b, c)),
            ),
        )

    def _only_taken_from(self, entry: Pool) -> dict[str, Bool]:
        """Nobody joined the queue, and who is left in it stands as before."""
        return {
            "who is left in the queue was there, in the same order": forall(
                Block,
                Block,
                lambda b, c: implies(
                    self._idle(b) & self._idle(c),
                    entry._idle(b) & iff(self._sooner(b, c), entry._sooner(b, c)),
                ),
            )
        }

    def _taken_from_the_head(self, entry: Pool, r: Request) -> dict[str, Bool]:
        """The blocks that r took since `entry` were the first of the queue, and stand in its table in that order."""
        return {
            "who was taken stood before who is left": forall(
                Block,
                Block,
                lambda b, c: implies(entry._idle(b) & ~self._idle(b) & self._idle(c), entry._sooner(b, c)),
            ),
            **self._only_taken_from(entry),
            "new entries were free": forall(
                Position,
                Block,
                lambda i, b: implies((i >= entry.length[r]) & (self.table[r, i] == b), entry._idle(b) & ~self._idle(b)),
            ),
            "who was taken has lost its hashes, and nobody else": forall(
                Block,
                Hash,
                lambda b, h: iff(self.hashes[b, h], entry.hashes[b, h] & ~(entry._idle(b) & ~self._idle(b))),
            ),
            "new entries stand in queue order": forall(
                Position,
                Position,
                Block,
                Block,
                lambda i, j, b, c: implies(
                    all_of(i >= entry.length[r], i < j, self.table[r, i] == b, self.table[r, j] == c),
                    entry._sooner(b, c),
                ),
            ),
        }

    def _is_new(self, entry: Pool, b: Block) -> Bool:
        """The block has become free since `entry`."""
        return self.free.has(b) & ~entry.free.has(b)

    def _belongs_to_the_head(self, b: Block) -> Bool:
        """Where the dialect splits, blocks that nobody can find again are taken first."""
        return self.split.value & ~exists(Hash, lambda h: self.hashes[b, h])

    def _freed_so_far(self, entry: Pool, r: Request) -> dict[str, Bool]:
        """While a free call gives back entries of r's table: where everything stands."""
        return {
            "the mark stands in the queue": implies(self.behind.value != none, self.free.has(self.behind.value)),
            "who was free stays free, in the same order": forall(Block, Block, self._kept_in_order(entry)),
            "the mark stands right behind the run at the head": forall(
                Block,
                lambda b: implies(
                    self.split.value & self.free.has(b),
                    iff(
                        self._is_new(entry, b) & self._belongs_to_the_head(b),
                        (self.behind.value == none) | self.free.before(b, self.behind.value),
                    ),
                ),
            ),
            **self._given_back_in_order(entry, r),
        }

    def _given_back_in_order(self, entry: Pool, r: Request) -> dict[str, Bool]:
        """Where the blocks stand that became free since `entry`, when r gave back the end of its table, last first.

        A block that the call names twice has its place where the second hold goes: at the lower position.
        """

        def is_new(b: Block) -> Bool:
            return self._is_new(entry, b)

        def to_the_head(b: Block) -> Bool:
            return self._belongs_to_the_head(b)

        return {
            "what goes to the head stands before all that was free": forall(
                Block,
                Block,
                lambda b, c: implies(is_new(b) & to_the_head(b) & entry.free.has(c), self.free.before(b, c)),
            ),
            "what goes to the tail stands behind all that was free": forall(
                Block,
                Block,
                lambda b, c: implies(is_new(b) & ~to_the_head(b) & entry.free.has(c), self.free.before(c, b)),
            ),
            "what goes to the head stands before what goes to the tail": forall(
                Block,
                Block,
                lambda b, c: implies(
                    all_of(is_new(b), to_the_head(b), is_new(c), ~to_the_head(c)), self.free.before(b, c)
                ),
            ),
            "what goes the same way stands in the order given": forall(
                Position,
                Position,
                Block,
                Block,
                lambda i, j, b, c: implies(
                    all_of(
                        is_new(b) & is_new(c) & iff(to_the_head(b), to_the_head(c)),
                        (j < i) & (entry.table[r, i] == b) & (entry.table[r, j] == c),
                        forall(Position, lambda k: implies(k < i, entry.table[r, k] != b)),
                    ),
                    self.free.before(b, c),
                ),
            ),
        }

    def _kept_in_order(self, entry: Pool) -> Callable[[Block, Block], Bool]:
        """Who was free is still free, and any two of them stand as they stood."""
        return lambda b, c: implies(
            entry.free.has(b) & entry.free.has(c),
            self.free.has(b) & iff(self.free.before(b, c), entry.free.before(b, c)),
        )

    @step("P7", of="allocate")
    def allocation_takes_the_head_in_order(self, before: Pool, r: Request, n: Int) -> Bool:
        """Exactly the n first blocks of the queue, in order, without hashes; the rest of the queue is as it was."""
        return all_of(
            self.length[r] == before.length[r] + n,
            self._room() == before._room() - n,
            *self._taken_from_the_head(before, r).values(),
        )

    # What every action does for the requests, and what it leaves alone.

    @step("P15, L1", of=("admit", "finish", "preempt"))
    def others_stay_inside_or_outside(self, before: Pool, r: Request, q: Request) -> Bool:
        """Who comes or goes does so alone."""
        return implies(q != r, iff(self.running[q], before.running[q]))

    @step("P15, L1", unless=("admit", "finish", "preempt"))
    def nobody_else_comes_or_goes(self, before: Pool, r: Request) -> Bool:
        """A request stays inside, or outside."""
        return iff(self.running[r], before.running[r])

    @step("P15, L1", of="admit")
    def who_is_admitted_runs(self, before: Pool, r: Request) -> Bool:  # noqa: ARG002
        """From now on it can look up, allocate, and finish."""
        return self.running[r]

    @step("P9, L2", of=("finish", "preempt"))
    def who_leaves_holds_nothing(self, before: Pool, r: Request) -> Bool:  # noqa: ARG002
        """It is outside, and its table is empty."""
        return ~self.running[r] & (self.length[r] == 0)

    @step("P9", of="trim")
    def a_table_is_cut_where_it_is_wanted(self, before: Pool, r: Request, n: Int) -> Bool:
        """The last n entries are gone."""
        return self.length[r] == before.length[r] - n

    @step("P4", of="skip")
    def a_skipped_position_is_null(self, before: Pool, r: Request, i: Position) -> Bool:
        """The table is longer by one, and the null block stands there."""
        return (self.length[r] == before.length[r] + 1) & implies(
            i == before.length[r], self.table[r, i] == self.null.value
        )

    @step("P2, P6", of=("hit", "allocate", "skip", "trim", "finish", "preempt"))
    def a_table_changes_at_its_end(self, before: Pool, r: Request, q: Request, i: Position, s: Slot) -> Bool:
        """What stood there and is still within it is as it was, with all that is known of it; so are other tables."""
        stays = (q != r) | ((i < before.length[r]) & (i < self.length[r]))
        return implies(stays, self._stands_as_before(before, q, i, s))

    @step("P2, P6", unless=("hit", "allocate", "skip", "write", "register", "trim", "finish", "preempt"))
    def nothing_else_changes_a_table(self, before: Pool, r: Request, i: Position, s: Slot) -> Bool:
        """Nor what a request relies on in it."""
        return self._stands_as_before(before, r, i, s)

    def _stands_as_before(self, before: Pool, r: Request, i: Position, s: Slot) -> Bool:
        """An entry, the hash that it was filed under, and what the request expects there."""
        return all_of(
            self.table[r, i] == before.table[r, i],
            self.filed[r, i] == before.filed[r, i],
            self.expects[r, i, s] == before.expects[r, i, s],
        )

    # What every action does to content and hashes.

    @step("P6", of="write")
    def a_write_fills_one_slot(
        self, before: Pool, r: Request, i: Position, s: Slot, c: Content, b: Block, t: Slot, q: Request, k: Position
    ) -> Bool:
        """The slot of the block at this position holds the content, and the request relies on it."""
        is_here, is_own = (b == before.table[r, i]) & (t == s), (q == r) & (k == i) & (t == s)
        return all_of(
            self.content[b, t] == ite(is_here, c, before.content[b, t]),
            self.expects[q, k, t] == ite(is_own, c, before.expects[q, k, t]),
            self.table[q, k] == before.table[q, k],
            self.filed[q, k] == before.filed[q, k],
        )

    @step("P6", unless="write")
    def nothing_else_is_written(self, before: Pool, b: Block, s: Slot) -> Bool:
        """Content stays where it is, above all when its block changes hands."""
        return self.content[b, s] == before.content[b, s]

    @step("P5", of="register")
    def a_registered_block_is_found_last(
        self, before: Pool, r: Request, i: Position, h: Hash, b: Block, g: Hash
    ) -> Bool:
        """The block carries one more hash, and stands behind those that carried it already."""
        own = before.table[r, i]
        return all_of(
            iff(self.hashes[b, g], before.hashes[b, g] | ((b == own) & (g == h))),
            implies(before.cached[h].has(b), self.cached[h].before(b, own)),
        )

    @step("P5, P6", of="register")
    def a_full_block_is_filed(
        self, before: Pool, r: Request, i: Position, h: Hash, q: Request, k: Position, s: Slot
    ) -> Bool:
        """The request knows a full block by its hash, and by the first one as long as it can be found under it.

        Tables, and what is relied on in them, are as they were.
        """
        is_full = forall(Slot, lambda t: self.kv[h, t] != none)
        is_new = (q == r) & (k == i) & is_full & ~before._is_filed(r, i)
        return all_of(
            self.table[q, k] == before.table[q, k],
            self.expects[q, k, s] == before.expects[q, k, s],
            self.filed[q, k] == ite(is_new, h, before.filed[q, k]),
        )

    @step("P11", of="evict")
    def an_evicted_block_has_no_hash(self, before: Pool, b: Block, c: Block, h: Hash) -> Bool:
        """And every other block has those that it had."""
        return iff(self.hashes[c, h], before.hashes[c, h] & (c != b))

    @step("P11", of="reset")
    def after_a_reset_nothing_is_found(self, before: Pool, h: Hash) -> Bool:  # noqa: ARG002
        """No block carries a hash."""
        return self.cached[h].is_empty()

    @step("P5, P11", unless=("allocate", "register", "evict", "reset"))
    def nothing_else_gives_or_takes_a_hash(self, before: Pool, b: Block, h: Hash) -> Bool:
        """Above all a block that is given back keeps its hashes."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("P5")
    def who_was_registered_first_is_found_first(self, before: Pool) -> Bool:
        """As long as both blocks carry the hash."""
        return self._found_in_order(before)

    # What every action does to the free queue.

    @step("P8, P14", of="hit")
    def what_is_found_is_held(self, before: Pool, r: Request, i: Position, s: Slot) -> Bool:
        """The table is the prefix, in blocks that stood first under its hashes."""
        is_first = before.cached[self.prompt[r, i]].is_first(self.table[r, i])
        return implies(i < self.length[r], is_first & self._is_known(r, i, s))

    @step("P14", of="hit")
    def a_lookup_ends_where_it_must(self, before: Pool, r: Request) -> Bool:
        """At its limit, or at the first hash that is not cached."""
        end = self.length[r]
        return (end == self.limit[r]) | before.cached[self.prompt[r, end]].is_empty()

    @step("P14", of="hit")
    def a_lookup_returns_what_it_found(self, before: Pool, r: Request, result: Int) -> Bool:  # noqa: ARG002
        """So many blocks stand in the table."""
        return result == self.length[r]

    @step("P8", of="hit")
    def a_lookup_leaves_the_rest_of_the_queue(self, before: Pool) -> Bool:
        """Who is still free was so, and stands as before."""
        return all_of(*self._only_taken_from(before).values())

    @step("P8, P14", of="hit")
    def a_hit_leaves_something_to_compute(self, before: Pool, r: Request) -> Bool:  # noqa: ARG002
        """A lookup returns no more than its limit, and blocks leave the queue only for a holder."""
        return (self.length[r] <= self.limit[r]) & (self.length[r] < self.need[r])

    @step("P9, P10", unless=("hit", "allocate"))
    def the_free_queue_keeps_its_order(self, before: Pool, b: Block, c: Block) -> Bool:
        """Who was free stays free, in the same order, whatever is given back."""
        return self._kept_in_order(before)(b, c)

    @step("P9, P10", of=("trim", "finish", "preempt"))
    def released_blocks_go_where_the_dialect_says(self, before: Pool, r: Request) -> Bool:
        """To the tail; in the dialect `split` those without a hash to the head. Each run in the order given."""
        return all_of(*self._given_back_in_order(before, r).values())

    @step("P12", unless=("evict", "reset"))
    def a_held_block_keeps_its_hashes(self, before: Pool, b: Block, h: Hash) -> Bool:
        """Only evict and reset take hashes from a block that is held."""
        return implies(before.hashes[b, h] & (before.ref_cnt[b] > 0), self.hashes[b, h])

    @step(
        "P2",
        of=("admit", "hit", "allocate", "skip", "write", "register", "trim", "finish", "preempt", "evict", "reset"),
    )
    def requests_lend_nothing(self, before: Pool, b: Block) -> Bool:
        """Copies are begun and ended elsewhere; in P itself no block is ever lent."""
        return self.transfers[b] == before.transfers[b]

    @step("L2", of="preempt")
    def leaving_lowers_the_measure(self, before: Pool, r: Request) -> Bool:
        """Every release lowers the number of entries by what the request held."""
        return (self.held[r] == 0) & (self.entries.value == before.entries.value - before.held[r])

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("P8")
    def a_block_is_shared(self, b: Block) -> Bool:
        """Two requests hold one block."""
        return self.ref_cnt[b] >= 2

    @sometimes("P5")
    def a_hash_has_two_blocks(self, h: Hash) -> Bool:
        """Two blocks carry one hash."""
        return exists(
            Block,
            lambda b: exists(
                Block, lambda c: self.cached[h].before(b, c) & self.cached[h].has(b) & self.cached[h].has(c)
            ),
        )

    @sometimes("P5")
    def a_free_block_can_still_be_found(self, b: Block, h: Hash) -> Bool:
        """Nobody holds it, and a lookup would find it."""
        return self.free.has(b) & self.hashes[b, h]

    @sometimes("L1")
    def the_pool_is_exhausted(self, r: Request) -> Bool:
        """A running request waits for a block."""
        return self.running[r] & (self.length[r] < self.need[r]) & self.free.is_empty()
