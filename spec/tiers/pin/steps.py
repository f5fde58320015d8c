"""The properties of steps of Pinned (machine D): what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, Int, all_of, any_of, exists, forall, iff, implies, none, step
from ...pool import Block, Hash, Position, Request, Slot
from .actions import PinnedActions

__all__ = ["PinnedSteps"]


class PinnedSteps(PinnedActions, abstract=True):
    """What each action is for, and what it leaves alone."""

    @step("P2, P6", unless=("hit", "allocate", "skip", "write", "register", "trim", "finish", "preempt", "drop"))
    def nothing_else_changes_a_table(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """As in P; beside its end, a table changes where the window has moved on."""
        return self._stands_as_before(before, r, i, s)

    @step("D2", of="demote")
    def the_oldest_are_demoted_first(self, before: Self, n: Int) -> Bool:
        """As many as are wanted, or all; in order, to the tail of the free queue. Together the queues are as before."""
        count = before.pinned.size - self.pinned.size
        return all_of(
            any_of(count == n, (count <= n) & (self.pinned.size == 0)),
            *self._demoted(before, count).values(),
        )

    @step("D5", of="open_gate")
    def a_gate_demotes_exactly_what_is_missing(self, before: Self, n: Int) -> Bool:
        """The oldest pinned blocks, and no more than the free queue lacks."""
        count = before.pinned.size - self.pinned.size
        return all_of(
            self.free.size >= n,
            any_of(count == 0, self.free.size == n),
            *self._demoted(before, count).values(),
        )

    @step("D2, D5", of="allocate")
    def allocation_demotes_exactly_what_is_missing(self, before: Self, n: Int) -> Bool:
        """Nothing while there are free blocks; then the oldest pinned ones, as P7 says of both queues together."""
        return all_of(*self._taken_so_far(before, n).values(), self._room() == before._room() - n)

    @step("D3", unless=("allocate", "evict", "reset", "demote", "open_gate", "drop"))
    def marks_survive_users(self, before: Self, b: Block) -> Bool:
        """Who hits a marked block and lets it go again changes nothing about its mark."""
        return iff(self.marked[b], before.marked[b])

    @step("D3, D5", of=("evict", "reset"))
    def what_was_pinned_is_taken_first(self, before: Self) -> Bool:
        """A block that can no longer be found is not worth keeping: it joins the head of the free queue."""
        return all_of(*self._moved_to_the_head(before).values())

    @step("D3, D5", of="reset")
    def reset_counts_pinned_blocks_as_free(self, before: Self, b: Block) -> Bool:  # noqa: ARG002
        """Nothing is pinned or marked afterwards."""
        return ~self.pinned.has(b) & ~self.marked[b]

    def _is_dropped(self, before: Self, r: Request, m: Int, k: Position) -> Bool:
        """The window has moved past the position, and past no null block on the way there."""
        return (k < m) & forall(Position, lambda j: implies((k <= j) & (j < m), before.table[r, j] != self.null.value))

    @step("D4", of="drop")
    def a_drop_empties_what_the_window_has_passed(
        self, before: Self, r: Request, m: Int, q: Request, k: Position, s: Slot
    ) -> Bool:
        """There the null block stands, and nothing is expected; all other entries are as they were.

        Under which hash an entry was filed is known all the same: the next block is registered behind it.
        """
        is_dropped = (q == r) & self._is_dropped(before, r, m, k)
        return all_of(
            self.filed[q, k] == before.filed[q, k],
            implies(is_dropped, (self.table[q, k] == self.null.value) & (self.expects[q, k, s] == none)),
            implies(~is_dropped, self._stands_as_before(before, q, k, s)),
        )

    @step("D4", of="drop")
    def a_drop_pins_its_newest_window(self, before: Self, r: Request, m: Int) -> Bool:
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

    @step("D4", unless="drop")
    def only_drops_mark(self, before: Self) -> Bool:
        """No other action picks a block to be pinned."""
        return self.picked.total == before.picked.total

    @step(
        "D2, D3",
        of=("admit", "skip", "write", "register", "schedule", "process"),
    )
    def nobody_else_touches_what_is_pinned(self, before: Self, b: Block, c: Block) -> Bool:
        """Who is pinned stays so, in the same order."""
        is_same = iff(self.pinned.has(b), before.pinned.has(b))
        return is_same & iff(self.pinned.before(b, c), before.pinned.before(b, c))

    @step("D4, P10", of="drop")
    def dropped_blocks_go_where_they_belong(self, before: Self, r: Request) -> Bool:
        """Marked ones to the tail of the pinned queue, others into the free queue as in any free call."""
        return all_of(*self._given_back_in_order(before, r).values())

    @step("D3", of="evict")
    def an_evicted_block_is_not_marked(self, before: Self, b: Block, c: Block) -> Bool:
        """And every other block keeps its mark."""
        return iff(self.marked[c], before.marked[c] & (c != b))

    @step("D2", of="allocate")
    def allocation_unmarks_what_it_demotes(self, before: Self, b: Block) -> Bool:
        """A pinned block that was taken for lack of free ones loses its mark, and no other does."""
        return iff(self.marked[b], before.marked[b] & (self._idle(b) | ~before._idle(b)))

    @step("D7", of="schedule")
    def a_scheduled_step_reads(self, before: Self, r: Request, i: Position, q: Request, k: Position) -> Bool:
        """From this position on, beside what other steps read."""
        return iff(self.reads[q, k], before.reads[q, k] | ((q == r) & (k == i)))

    @step("D7", of="process")
    def a_processed_step_reads_no_more(self, before: Self, r: Request, i: Position, q: Request, k: Position) -> Bool:
        """What other steps read is as it was."""
        return iff(self.reads[q, k], before.reads[q, k] & ~((q == r) & (k == i)))

    @step("D7", unless=("schedule", "process"))
    def nothing_else_reads(self, before: Self, r: Request, i: Position) -> Bool:
        """Steps begin and end by themselves."""
        return iff(self.reads[r, i], before.reads[r, i])

    @step("D7", of=("drop", "trim", "finish", "preempt", "skip"))
    def what_a_step_reads_is_not_released(self, before: Self, q: Request, i: Position, k: Position) -> Bool:
        """Whoever releases, a table stays as it is from where a scheduled step reads it."""
        return implies(before.reads[q, i] & (i <= k) & (k < before.length[q]), self.table[q, k] == before.table[q, k])
