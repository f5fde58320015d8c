"""Machine D: blocks that are worth keeping are pinned, and demoted under pressure.

With sliding-window attention a request leaves blocks behind while it goes on. They join the free queue, are soon taken,
and the next request with the same prefix finds nothing. So the newest window of a large drop is marked for retention:
when nobody holds a marked block any more it waits in a second queue, from which allocation does not take. Only when the
free queue runs out are the oldest pinned blocks demoted: they lose their mark, join the free queue, and can still be
found until they are taken.

`ref_cnt` counts users, and nothing else (D1): a pin is a mark of its own. The first design made it one more reference,
and lost blocks for ever. A pin never stands in the way of progress: who would be refused for lack of free blocks gets
pinned ones, exactly as many as are missing (D5).

To machine P a pinned block is one more block that nobody holds and that can be taken, later than all that are free. So
P's own properties hold of both queues together, word for word; `_idle`, `_sooner` and `_room` say what that means. With
pinning off this machine is P, step by step (D6): `pinning_off.py`.
"""

from __future__ import annotations

from ..machine import (
    Bool,
    Int,
    Map,
    Param,
    Queue,
    Scalar,
    Tally,
    action,
    all_of,
    any_of,
    assume,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    none,
    otherwise,
    sometimes,
    step,
    when,
)
from .pool import Block, Hash, Pool, Position, Request, Slot

__all__ = ["Pinned"]


class Pinned(Pool):
    """The block pool with a second queue, of blocks that are kept as long as there are others."""

    # -------------------------------------------------------------------------------- parameters

    pinning = Param(to=Bool)
    """Whether drops mark blocks at all."""

    window = Param(to=Int)
    """How many blocks a window covers: ceil(window tokens / block tokens). A drop pins no more than one window."""

    min_drop = Param(to=Int)
    """A drop of fewer blocks pins none: those of single decode steps have no prefix value (16 by default)."""

    # -------------------------------------------------------------------------------- state

    pinned = Queue(Block)
    """Marked blocks that nobody holds, oldest first."""

    marked = Map(Block, to=Bool)
    """The retention mark. It survives a hit: the next release routes the block back (D3)."""

    reads = Map(Request, Position, to=Bool)
    """A step that is scheduled and not yet processed reads the request's table from this position on (D7)."""

    quota = Scalar(to=Int, scratch=True)
    """While a window moves on: how many blocks may still be marked."""

    picked = Tally()
    """Marks that were set."""

    # -------------------------------------------------------------------------------- what is known of the parameters

    @assume("D4")
    def a_window_covers_something(self) -> Bool:
        """A window of no block would pin nothing."""
        return (self.window.value >= 1) & (self.min_drop.value >= 1)

    # -------------------------------------------------------------------------------- both queues together

    def _idle(self, b: Block) -> Bool:
        """Nobody holds the block, and it can be taken, if need be."""
        return self.free.has(b) | self.pinned.has(b)

    def _sooner(self, b: Block, c: Block) -> Bool:
        """Free blocks are taken first; pinned ones follow, the oldest first."""
        return any_of(self.free.before(b, c), self.free.has(b) & self.pinned.has(c), self.pinned.before(b, c))

    def _room(self) -> Int:
        """Free and pinned blocks together (D5)."""
        return self.free.size + self.pinned.size

    def _take_head(self) -> Block:
        """Take the first free block; where there is none, the oldest pinned one is demoted first (D2, D5)."""
        with when(self.free.is_empty()):
            self._demote_one()
        return super()._take_head()

    def _demote_one(self) -> None:
        """The oldest pinned block loses its mark and joins the tail of the free queue. Its hashes stay."""
        oldest = self.pinned.head()
        self.pinned.remove(oldest)
        self.marked[oldest] = False
        self.free.push_back(oldest)

    def _leave_queue(self, b: Block) -> None:
        """Take a block out of the queue in which it stands. Its mark stays."""
        is_pinned = self.pinned.has(b)
        with when(is_pinned):
            self.pinned.remove(b)
        with otherwise():
            super()._leave_queue(b)

    def _join(self, b: Block) -> None:
        """Nobody holds the block any more: a marked one is pinned, another is free (D3)."""
        is_marked = self.marked[b]
        with when(is_marked):
            self.pinned.push_back(b)
        with otherwise():
            super()._join(b)

    # -------------------------------------------------------------------------------- actions

    @action("D2")
    def demote(self, n: Int) -> None:
        """Move the n oldest pinned blocks, or all of them, to the tail of the free queue, in order."""
        self.require(n >= 1)
        self._demote(n)

    @action("D5")
    def open_gate(self, n: Int) -> None:
        """An admission gate: a whole demand of n blocks is met, and exactly what is missing is demoted.

        Gates differ in the demand that they compute: that of the full sequence, of the capped budget of a step, or the
        actual one, which `allocate` computes itself. Where free and pinned blocks do not cover it, the gate stays shut,
        and nothing is demoted.
        """
        self.require(n >= 1)
        self.require(n <= self._room())
        self._demote(n - self.free.size)

    @action("D4, D7, P10")
    def drop(self, r: Request, m: Int) -> None:
        """The window has moved past the first m positions: what they hold is released, last first, in one free call.

        The newest window of a large drop is marked first, as far as it can be found again. Nothing that a scheduled
        step still reads is dropped.
        """
        self.require(self.running[r])
        self.require(self.null.value != none)
        self.require(m >= 1)
        self.require(m <= self.length[r])
        self.require(forall(Position, lambda k: implies(self.reads[r, k], m <= k)))
        self._drop(r, m, self._passed(r, m))

    @action("D7")
    def schedule(self, r: Request, i: Position) -> None:
        """A step is scheduled whose window begins at a position: it will read the table from there on."""
        self.require(self.running[r])
        self.require(i < self.length[r])
        self.require(~self.reads[r, i])
        self.require(
            forall(
                Position,
                lambda k: implies((k >= i) & (k < self.length[r]), self.table[r, k] != self.null.value),
            )
        )
        self.reads[r, i] = True

    @action("D7")
    def process(self, r: Request, i: Position) -> None:
        """The step's result is there: it reads no more."""
        self.require(self.reads[r, i])
        self.reads[r, i] = False

    def skip(self, r: Request) -> None:
        """A position that the window has left behind gets the null block, before any step reads the table."""
        self.require(self._is_at_rest(r))
        super().skip(r)

    def trim(self, r: Request, n: Int) -> None:
        """Give back the last n entries of a table, when no step reads it."""
        self.require(self._is_at_rest(r))
        super().trim(r, n)

    def finish(self, r: Request) -> None:
        """A complete request leaves, when no step reads its table."""
        self.require(self._is_at_rest(r))
        super().finish(r)

    def preempt(self, r: Request) -> None:
        """A request gives up all its blocks, when no step reads its table."""
        self.require(self._is_at_rest(r))
        super().preempt(r)

    @action("P11, D3")
    def evict(self, b: Block) -> None:
        """Take a block's hashes away, and its mark. One that was pinned is now the first to be taken."""
        super().evict(b)
        self.marked[b] = False
        was_pinned = self.pinned.has(b)
        with when(was_pinned):
            self.pinned.remove(b)
            self.free.push_front(b)

    def _forget_everything(self) -> None:
        """Pinned blocks join the head of the free queue, the oldest first of all; then all hashes go (D3, D5)."""
        with self.loop(
            self.pinned.size,
            facts=lambda i, entry: {
                "one pinned block less each round": self.pinned.size == entry.pinned.size - i,
                "nobody is referenced": forall(Block, lambda b: self.ref_cnt[b] == 0),
                "the youngest leave first": forall(
                    Block,
                    Block,
                    lambda b, c: implies(
                        self.pinned.has(b) & entry.pinned.has(c) & ~self.pinned.has(c), entry.pinned.before(b, c)
                    ),
                ),
                **self._moved_to_the_head(entry),
            },
        ):
            youngest = self.pinned.tail()
            self.pinned.remove(youngest)
            self.marked[youngest] = False
            self.free.push_front(youngest)
        super()._forget_everything()

    # -------------------------------------------------------------------------------- what actions are made of

    def _is_at_rest(self, r: Request) -> Bool:
        """No scheduled step reads the request's table."""
        return forall(Position, lambda k: ~self.reads[r, k])

    def _demote(self, n: Int) -> None:
        """Demote n blocks, or as many as are pinned."""
        with self.loop(n, going=lambda _: ~self.pinned.is_empty(), facts=lambda i, entry: self._demoted(entry, i)):
            self._demote_one()

    def _demoted(self, entry: Pinned, n: Int) -> dict[str, Bool]:
        """The n oldest pinned blocks stand at the tail of the free queue, in order."""
        return {
            "as many are free as are not pinned any more": all_of(
                self.pinned.size == entry.pinned.size - n, self.free.size == entry.free.size + n
            ),
            "both queues together are as they were": forall(
                Block,
                Block,
                lambda b, c: all_of(iff(self._idle(b), entry._idle(b)), iff(self._sooner(b, c), entry._sooner(b, c))),
            ),
            "nobody is pinned who was not": forall(Block, lambda b: implies(self.pinned.has(b), entry.pinned.has(b))),
            "only the demoted lose their mark": forall(
                Block, lambda b: iff(self.marked[b], entry.marked[b] & ~(entry.pinned.has(b) & self.free.has(b)))
            ),
        }

    def _passed(self, r: Request, m: Int) -> Int:
        """How many positions below m hold a block, down to the first that the window left behind before."""
        with self.loop(
            m,
            going=lambda i: self.table[r, m - 1 - i] != self.null.value,
            facts=lambda i, _: {
                "what was passed holds a block": forall(
                    Position, lambda k: implies((k >= m - i) & (k < m), self.table[r, k] != self.null.value)
                )
            },
        ) as scan:
            pass
        return scan.rounds

    def _drop(self, r: Request, m: Int, n: Int) -> None:
        """Release the n positions below m, last first, and mark what is worth keeping."""
        is_large = self.pinning.value & (n >= self.min_drop.value)
        with when(is_large):
            self.quota.value = self.window.value
        self._begin_free_call()
        with self.loop(n, facts=lambda i, entry: self._dropping(entry, r, m, i)) as walk:
            at = m - 1 - walk.index
            b = self.table[r, at]
            self.table[r, at] = self.null.value
            with self.each(Slot) as s:
                self.expects[r, at, s] = none
            is_picked = (self.quota.value > 0) & exists(Hash, lambda h: self.hashes[b, h])
            with when(is_picked):
                self.marked[b] = True
                self.quota.value = self.quota.value - 1
                self.picked.add(1)
            self._release(b)
        self.quota.value = 0
        self._end_free_call()

    def _dropping(self, entry: Pinned, r: Request, m: Int, n: Int) -> dict[str, Bool]:
        """When the n positions below m were released: what is marked, and where everything stands."""

        def is_dropped(k: Position) -> Bool:
            return (k >= m - n) & (k < m)

        def is_found(b: Block) -> Bool:
            return exists(Hash, lambda h: self.hashes[b, h])

        return {
            "what was passed is null, and nothing is expected there": forall(
                Position,
                Slot,
                lambda k, s: implies(
                    is_dropped(k), (self.table[r, k] == self.null.value) & (self.expects[r, k, s] == none)
                ),
            ),
            "the rest is as it was": forall(
                Position, Slot, lambda k, s: implies(~is_dropped(k), self._stands_as_before(entry, r, k, s))
            ),
            "the quota is what is left to mark": all_of(
                self.quota.value >= 0,
                self.picked.total >= entry.picked.total,
                self.quota.value == entry.quota.value - (self.picked.total - entry.picked.total),
            ),
            "marks stay": forall(Block, lambda b: implies(entry.marked[b], self.marked[b])),
            "only what is dropped is marked": forall(
                Block,
                lambda b: implies(
                    self.marked[b] & ~entry.marked[b],
                    all_of(
                        self.picked.total > entry.picked.total,
                        exists(Position, lambda k: is_dropped(k) & (entry.table[r, k] == b)),
                    ),
                ),
            ),
            "all that can be found is marked while there is quota": forall(
                Position,
                Block,
                lambda k, b: implies(
                    all_of(is_dropped(k), entry.table[r, k] == b, is_found(b), self.quota.value > 0), self.marked[b]
                ),
            ),
            "the newest are marked first": forall(
                Position,
                Block,
                Block,
                lambda k, c, b: implies(
                    all_of(
                        is_dropped(k) & (entry.table[r, k] == c) & is_found(c) & ~self.marked[c],
                        self.marked[b] & ~entry.marked[b],
                    ),
                    exists(Position, lambda j: (j > k) & is_dropped(j) & (entry.table[r, j] == b)),
                ),
            ),
            **self._freed_so_far(entry, r),
        }

    def _moved_to_the_head(self, entry: Pinned) -> dict[str, Bool]:
        """What is not pinned any more stands before all that was free, in the order in which it was pinned."""

        def is_moved(b: Block) -> Bool:
            return entry.pinned.has(b) & ~self.pinned.has(b)

        return {
            "who leaves the pinned queue is free": forall(Block, lambda b: implies(is_moved(b), self.free.has(b))),
            "who is free was so, or was pinned": forall(
                Block, lambda b: implies(self.free.has(b), entry.free.has(b) | is_moved(b))
            ),
            "who stays pinned was so, in the same order": forall(
                Block,
                Block,
                lambda b, c: all_of(
                    implies(self.pinned.has(b), entry.pinned.has(b)),
                    implies(
                        self.pinned.has(b) & self.pinned.has(c),
                        iff(self.pinned.before(b, c), entry.pinned.before(b, c)),
                    ),
                ),
            ),
            "it stands before all that was free": forall(
                Block, Block, lambda b, c: implies(is_moved(b) & entry.free.has(c), self.free.before(b, c))
            ),
            "it stands in the order in which it was pinned": forall(
                Block,
                Block,
                lambda b, c: implies(is_moved(b) & is_moved(c), iff(self.free.before(b, c), entry.pinned.before(b, c))),
            ),
            "who was free stays free, in the same order": forall(Block, Block, self._kept_in_order(entry)),
        }

    def _taken_so_far(self, entry: Pinned, n: Int) -> dict[str, Bool]:  # type: ignore[override]
        """Exactly the shortfall is demoted."""
        return {
            "nothing is demoted while there are free blocks": implies(
                n <= entry.free.size, self.pinned.size == entry.pinned.size
            ),
            "what is missing is demoted": implies(n >= entry.free.size, self.free.size == 0),
            "only who is taken loses its mark": forall(
                Block, lambda b: iff(self.marked[b], entry.marked[b] & (self._idle(b) | ~entry._idle(b)))
            ),
        }

    def _given_back_in_order(self, entry: Pinned, r: Request) -> dict[str, Bool]:  # type: ignore[override]
        """As in P; and what is pinned joins the tail of its queue."""
        return {
            **super()._given_back_in_order(entry, r),
            "who was pinned stays pinned, in the same order": forall(
                Block,
                Block,
                lambda b, c: implies(
                    entry.pinned.has(b) & entry.pinned.has(c),
                    self.pinned.has(b) & iff(self.pinned.before(b, c), entry.pinned.before(b, c)),
                ),
            ),
            "who is pinned now stands behind all that was pinned": forall(
                Block,
                Block,
                lambda b, c: implies(
                    entry.pinned.has(b) & self.pinned.has(c) & ~entry.pinned.has(c), self.pinned.before(b, c)
                ),
            ),
            "who was held and is not is in a queue": forall(
                Block, lambda b: implies(self._idle(b) & ~entry._idle(b), iff(self.pinned.has(b), self.marked[b]))
            ),
        }

    # -------------------------------------------------------------------------------- invariants

    @invariant("D1")
    def a_block_stands_in_one_queue(self, b: Block) -> Bool:
        """Free or pinned, never both; with `free_exactly_when_unreferenced`: free, pinned or referenced."""
        return ~(self.free.has(b) & self.pinned.has(b))

    @invariant("D1, D3")
    def pinned_blocks_are_marked(self, b: Block) -> Bool:
        """A pinned block is marked, a free one is not, and only what can be found again is marked."""
        return all_of(
            implies(self.pinned.has(b), self.marked[b]),
            implies(self.free.has(b), ~self.marked[b]),
            implies(self.marked[b], exists(Hash, lambda h: self.hashes[b, h])),
        )

    @invariant("D6")
    def without_pinning_nothing_is_marked(self, b: Block) -> Bool:
        """The second queue is empty then."""
        return implies(~self.pinning.value, ~self.marked[b])

    @invariant("D7")
    def what_a_step_reads_is_there(self, r: Request, i: Position, k: Position) -> Bool:
        """From where a scheduled step reads, the table holds blocks until it is processed."""
        return implies(
            self.reads[r, i],
            all_of(
                self.running[r],
                i < self.length[r],
                implies((i <= k) & (k < self.length[r]), self.table[r, k] != self.null.value),
            ),
        )

    def _nothing_is_under_way(self) -> Bool:
        """No step is scheduled and not processed. Otherwise processing it is possible, and lowers their number."""
        return forall(Request, Position, lambda q, k: ~self.reads[q, k])

    @corollary("L1, D5")
    def somebody_can_always_go_on(self, r: Request) -> Bool:
        """A running request can finish, can take its next block, pinned ones included, or another makes way for it.

        Or a copy in flight ends.
        """
        another = exists(Request, lambda q: (q != r) & (self.length[q] > 0) & can(self.preempt, q))
        goes_on = can(self.finish, r) | can(self.allocate, r, 1) | another
        return implies(self.running[r] & self._nothing_is_under_way(), goes_on | (self.lent.value > 0))

    @corollary("L2, D7")
    def holders_can_let_go(self) -> Bool:
        """While an entry exists a release is possible, or a step is under way whose end makes it so."""
        lets_go = exists(Request, lambda q: (self.held[q] > 0) & can(self.preempt, q))
        return all_of(
            implies((self.entries.value > 0) & self._nothing_is_under_way(), lets_go),
            implies((self.entries.value == 0) & (self.lent.value == 0), can(self.reset)),
        )

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("P4, D7")
    def a_position_can_be_skipped(self, r: Request) -> Bool:
        """As in P, when no step reads the table."""
        is_left = self.length[r] < self.need[r]
        return iff(can(self.skip, r), all_of(self.running[r], self.null.value != none, is_left, self._is_at_rest(r)))

    @corollary("P9, D7")
    def what_is_held_can_be_given_back(self, r: Request, k: Position) -> Bool:
        """As in P, when no step reads the table."""
        is_there = all_of(self.running[r], k < self.length[r], self._is_at_rest(r))
        return iff(can(self.trim, r, k + 1), is_there) & ~can(self.trim, r, 0)

    @corollary("P9, L1, D7")
    def who_has_all_it_needs_can_finish(self, r: Request) -> Bool:
        """As in P, when no step reads the table."""
        return iff(can(self.finish, r), all_of(self.running[r], self.length[r] == self.need[r], self._is_at_rest(r)))

    @corollary("L1, D7")
    def who_is_inside_can_be_preempted(self, r: Request) -> Bool:
        """As in P, when no step reads the table."""
        return iff(can(self.preempt, r), self.running[r] & self._is_at_rest(r))

    @corollary("D2")
    def demotion_is_always_possible(self, k: Position) -> Bool:
        """However many are pinned; but not of none."""
        return can(self.demote, k + 1) & ~can(self.demote, 0)

    @corollary("D5")
    def a_gate_is_shut_for_lack_of_room_only(self, k: Position) -> Bool:
        """Free and pinned blocks together are room."""
        return iff(can(self.open_gate, k + 1), k + 1 <= self._room()) & ~can(self.open_gate, 0)

    @corollary("D4, D7")
    def what_no_step_reads_can_be_dropped(self, r: Request, k: Position) -> Bool:
        """Up to the end of the table, where there is a null block to stand there."""
        is_read = exists(Position, lambda j: self.reads[r, j] & (j <= k))
        may_drop = all_of(self.running[r], self.null.value != none, k < self.length[r], ~is_read)
        return iff(can(self.drop, r, k + 1), may_drop) & ~can(self.drop, r, 0)

    @corollary("D7")
    def steps_are_scheduled_where_blocks_are(self, r: Request, i: Position) -> Bool:
        """From where the table holds blocks up to its end; and each ends once."""
        holds = forall(Position, lambda k: (k < i) | (self.length[r] <= k) | (self.table[r, k] != self.null.value))
        may_read = all_of(self.running[r], i < self.length[r], ~self.reads[r, i], holds)
        return iff(can(self.schedule, r, i), may_read) & iff(can(self.process, r, i), self.reads[r, i])

    # -------------------------------------------------------------------------------- steps

    @step("P2, P6", unless=("hit", "allocate", "skip", "write", "register", "trim", "finish", "preempt", "drop"))
    def nothing_else_changes_a_table(self, before: Pool, r: Request, i: Position, s: Slot) -> Bool:
        """As in P; beside its end, a table changes where the window has moved on."""
        return self._stands_as_before(before, r, i, s)

    @step("D2", of="demote")
    def the_oldest_are_demoted_first(self, before: Pinned, n: Int) -> Bool:
        """As many as are wanted, or all; in order, to the tail of the free queue. Together the queues are as before."""
        count = before.pinned.size - self.pinned.size
        return all_of(
            any_of(count == n, (count <= n) & (self.pinned.size == 0)),
            *self._demoted(before, count).values(),
        )

    @step("D5", of="open_gate")
    def a_gate_demotes_exactly_what_is_missing(self, before: Pinned, n: Int) -> Bool:
        """The oldest pinned blocks, and no more than the free queue lacks."""
        count = before.pinned.size - self.pinned.size
        return all_of(
            self.free.size >= n,
            any_of(count == 0, self.free.size == n),
            *self._demoted(before, count).values(),
        )

    @step("D2, D5", of="allocate")
    def allocation_demotes_exactly_what_is_missing(self, before: Pinned, n: Int) -> Bool:
        """Nothing while there are free blocks; then the oldest pinned ones, as P7 says of both queues together."""
        return all_of(*self._taken_so_far(before, n).values(), self._room() == before._room() - n)

    @step("D3", unless=("allocate", "evict", "reset", "demote", "open_gate", "drop"))
    def marks_survive_users(self, before: Pinned, b: Block) -> Bool:
        """Who hits a marked block and lets it go again changes nothing about its mark."""
        return iff(self.marked[b], before.marked[b])

    @step("D3, D5", of=("evict", "reset"))
    def what_was_pinned_is_taken_first(self, before: Pinned) -> Bool:
        """A block that can no longer be found is not worth keeping: it joins the head of the free queue."""
        return all_of(*self._moved_to_the_head(before).values())

    @step("D3, D5", of="reset")
    def reset_counts_pinned_blocks_as_free(self, before: Pinned, b: Block) -> Bool:  # noqa: ARG002
        """Nothing is pinned or marked afterwards."""
        return ~self.pinned.has(b) & ~self.marked[b]

    def _is_dropped(self, before: Pinned, r: Request, m: Int, k: Position) -> Bool:
        """The window has moved past the position, and past no null block on the way there."""
        return (k < m) & forall(Position, lambda j: implies((k <= j) & (j < m), before.table[r, j] != self.null.value))

    @step("D4", of="drop")
    def a_drop_empties_what_the_window_has_passed(
        self, before: Pinned, r: Request, m: Int, q: Request, k: Position, s: Slot
    ) -> Bool:
        """There the null block stands, and nothing is expected; all other entries are as they were."""
        is_dropped = (q == r) & self._is_dropped(before, r, m, k)
        return all_of(
            implies(is_dropped, (self.table[q, k] == self.null.value) & (self.expects[q, k, s] == none)),
            implies(~is_dropped, self._stands_as_before(before, q, k, s)),
        )

    @step("D4", of="drop")
    def a_drop_pins_its_newest_window(self, before: Pinned, r: Request, m: Int) -> Bool:
        """Of a large drop the newest blocks that can be found, as many as a window covers; of a small one nothing."""
        marks = self.picked.total - before.picked.total

        def is_dropped(k: Position) -> Bool:
            return self._is_dropped(before, r, m, k)

        def is_found(b: Block) -> Bool:
            return exists(Hash, lambda h: self.hashes[b, h])

        is_held = forall(
            Position, lambda k: implies((k < m) & (m <= k + self.min_drop.value), before.table[r, k] != self.null.value)
        )
        is_large = self.pinning.value & (m >= self.min_drop.value) & is_held
        return all_of(
            (marks >= 0) & (marks <= self.window.value),
            implies(~is_large, marks == 0),
            forall(Block, lambda b: implies(before.marked[b], self.marked[b])),
            forall(
                Block,
                lambda b: implies(
                    self.marked[b] & ~before.marked[b],
                    (marks > 0) & exists(Position, lambda k: is_dropped(k) & (before.table[r, k] == b)),
                ),
            ),
            forall(
                Position,
                Block,
                lambda k, b: implies(
                    all_of(is_large, is_dropped(k), before.table[r, k] == b, is_found(b), ~self.marked[b]),
                    marks == self.window.value,
                ),
            ),
            forall(
                Position,
                Block,
                Block,
                lambda k, c, b: implies(
                    all_of(
                        is_dropped(k) & (before.table[r, k] == c) & is_found(c) & ~self.marked[c],
                        self.marked[b] & ~before.marked[b],
                    ),
                    exists(Position, lambda j: (j > k) & is_dropped(j) & (before.table[r, j] == b)),
                ),
            ),
        )

    @step("D4, P10", of="drop")
    def dropped_blocks_go_where_they_belong(self, before: Pinned, r: Request) -> Bool:
        """Marked ones to the tail of the pinned queue, others into the free queue as in any free call."""
        return all_of(*self._given_back_in_order(before, r).values())

    @step("D3", of="evict")
    def an_evicted_block_is_not_marked(self, before: Pinned, b: Block, c: Block) -> Bool:
        """And every other block keeps its mark."""
        return iff(self.marked[c], before.marked[c] & (c != b))

    @step("D2", of="allocate")
    def allocation_unmarks_what_it_demotes(self, before: Pinned, b: Block) -> Bool:
        """A pinned block that was taken for lack of free ones loses its mark, and no other does."""
        return iff(self.marked[b], before.marked[b] & (self._idle(b) | ~before._idle(b)))

    @step("D7", of="schedule")
    def a_scheduled_step_reads(self, before: Pinned, r: Request, i: Position, q: Request, k: Position) -> Bool:
        """From this position on, beside what other steps read."""
        return iff(self.reads[q, k], before.reads[q, k] | ((q == r) & (k == i)))

    @step("D7", of="process")
    def a_processed_step_reads_no_more(self, before: Pinned, r: Request, i: Position, q: Request, k: Position) -> Bool:
        """What other steps read is as it was."""
        return iff(self.reads[q, k], before.reads[q, k] & ~((q == r) & (k == i)))

    @step("D7", unless=("schedule", "process"))
    def nothing_else_reads(self, before: Pinned, r: Request, i: Position) -> Bool:
        """Steps begin and end by themselves."""
        return iff(self.reads[r, i], before.reads[r, i])

    @step("D7", of=("drop", "trim", "finish", "preempt", "skip"))
    def what_a_step_reads_is_not_released(self, before: Pinned, q: Request, i: Position, k: Position) -> Bool:
        """Whoever releases, a table stays as it is from where a scheduled step reads it."""
        return implies(before.reads[q, i] & (i <= k) & (k < before.length[q]), self.table[q, k] == before.table[q, k])

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("D1")
    def a_block_is_pinned(self, b: Block) -> Bool:
        """Nobody holds it, and it is kept."""
        return self.pinned.has(b)

    @sometimes("D3")
    def a_marked_block_is_used_again(self, b: Block, r: Request, i: Position) -> Bool:
        """A hit found it in the pinned queue."""
        return self.marked[b] & (self.table[r, i] == b)

    @sometimes("D2")
    def a_demoted_block_can_still_be_found(self, b: Block, c: Block, h: Hash) -> Bool:
        """It is free, and carries its hash, while another is pinned."""
        return all_of(self.free.has(b), self.hashes[b, h], self.pinned.has(c))
