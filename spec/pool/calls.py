"""Machine P as its callers see it: whatever is asked, at any moment, is done or refused.

Machine P says when an action is possible. An engine calls whenever it likes, and has to be told: that a request does
not fit, that too few blocks are free, that there is nothing to give back. So here each such call is possible in every
state. Its result says whether it was done; a call that was refused has changed nothing, and what P allows is not
refused.

A caller that gives back twice what it held once, or lets a request go a second time, is refused as well (P9). Nobody
can tell a block that the caller does not hold from one that it holds, as long as anybody does; where nobody does, a
free is an error, and no count goes below zero.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Index,
    Int,
    action,
    all_of,
    can,
    corollary,
    forall,
    iff,
    implies,
    ite,
    sometimes,
    step,
    when,
)
from ..pool import Block, Hash, Pool, Position, Request, Slot

__all__ = ["Calls"]


class Calls(Pool):
    """The block pool, and calls that may be refused."""

    # -------------------------------------------------------------------------------- calls

    @action("P15, L1")
    def ask_to_enter(self, r: Request) -> Bool:
        """A request wants to come in; true if it does."""
        fits = can(self.admit, r)
        with when(fits):
            self.running[r] = True
        return fits

    @action("P7")
    def ask_for(self, r: Request, n: Int) -> Bool:
        """A request wants n more blocks; true if it has all of them, false if it has none."""
        self.require(n >= 1)
        fits = can(self.allocate, r, n)
        self._take(r, ite(fits, n, 0))
        return fits

    @action("P9, P10")
    def return_last(self, r: Request, n: Int) -> Bool:
        """The last n entries of a table are given back; false if there are not so many."""
        self.require(n >= 1)
        holds = can(self.trim, r, n)
        self._give_back(r, ite(holds, n, 0))
        return holds

    @action("P9, P10, L1")
    def send_away(self, r: Request) -> Bool:
        """A request is preempted or aborted; false if it is not inside, above all if it has been sent away before."""
        is_inside = can(self.preempt, r)
        self._give_back(r, ite(is_inside, self.length[r], 0))
        with when(is_inside):
            self.running[r] = False
        return is_inside

    @action("P9")
    def free_without_hold(self, b: Block) -> Bool:
        """Somebody gives back a block that nobody holds. It stays where it stands, and no count falls."""
        self.require(b != self.null.value)
        self.require(self.ref_cnt[b] == 0)
        return self._free(b)

    def _free(self, b: Block) -> Bool:
        """One hold of a block is given back, if there is one."""
        is_held = self.ref_cnt[b] > 0
        with when(is_held):
            self._release(b)
        return is_held

    @action("P11, P12")
    def ask_to_reset(self) -> Bool:
        """Somebody wants every hash forgotten; false if a block is referenced."""
        is_idle = can(self.reset)
        with when(is_idle):
            self._forget_everything()
            self.cleared()
        return is_idle

    # -------------------------------------------------------------------------------- what is known in the midst of it

    def _while_taking(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """A call that takes nothing counts nothing."""
        return {**super()._while_taking(entry, r, i), "counts stand at first": self._counts_stand(entry, i)}

    def _while_giving_back(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """A call that gives nothing back counts nothing."""
        return {**super()._while_giving_back(entry, r, i), "counts stand at first": self._counts_stand(entry, i)}

    def _counts_stand(self, entry: Self, i: Index | Int) -> Bool:
        """Before the first round every block is held as often as it was."""
        return forall(Block, lambda b: implies(i == 0, self.ref_cnt[b] == entry.ref_cnt[b]))

    # -------------------------------------------------------------------------------- what is refused

    @step(
        "P7, P9, P11, P15",
        of=("ask_to_enter", "ask_for", "return_last", "send_away", "free_without_hold", "ask_to_reset"),
    )
    def a_refused_call_changes_nothing(
        self,
        before: Self,
        result: Bool,
        r: Request,
        i: Position,
        s: Slot,
        b: Block,
        c: Block,
        h: Hash,
    ) -> Bool:
        """Nobody's table, no count, no queue, no hash, nothing that listeners believe."""
        return implies(
            ~result,
            all_of(
                iff(self.running[r], before.running[r]) & (self.length[r] == before.length[r]),
                self._stands_as_before(before, r, i, s),
                (self.ref_cnt[b] == before.ref_cnt[b]) & (self.content[b, s] == before.content[b, s]),
                iff(self.free.has(b), before.free.has(b)) & iff(self.free.before(b, c), before.free.before(b, c)),
                iff(self.hashes[b, h], before.hashes[b, h]),
                iff(self.cached[h].before(b, c), before.cached[h].before(b, c)),
                iff(self.announced[h], before.announced[h]) & iff(self.reported[h], before.reported[h]),
            ),
        )

    @step("P15, L1", of="ask_to_enter")
    def who_fits_comes_in(self, before: Self, r: Request, q: Request, result: Bool) -> Bool:
        """Who is outside, and fits the empty pool; nobody else's coming or going changes."""
        fits = ~before.running[r] & (self.need[r] <= self.usable.value)
        return iff(result, fits) & iff(self.running[q], before.running[q] | (fits & (q == r)))

    @step("P7", of="ask_for")
    def a_demand_is_met_whole_or_not_at_all(self, before: Self, r: Request, n: Int, result: Bool) -> Bool:
        """It is met if there are so many blocks, and the table has room for them; then from the head, in order."""
        fits = all_of(before.running[r], before.length[r] + n <= self.need[r], n <= before._room())
        grown = ite(fits, n, 0)
        return all_of(
            iff(result, fits),
            self.length[r] == before.length[r] + grown,
            self._room() == before._room() - grown,
            *self._taken_from_the_head(before, r).values(),
        )

    @step("P9", of="return_last")
    def what_is_there_is_taken_back(self, before: Self, r: Request, n: Int, result: Bool) -> Bool:
        """So many entries, at the end of the table of a request that is inside; never a part of what was named."""
        is_there = before.running[r] & (n <= before.length[r])
        return iff(result, is_there) & (self.length[r] == before.length[r] - ite(is_there, n, 0))

    @step("P9, L2", of="send_away")
    def who_is_inside_leaves_once(self, before: Self, r: Request, result: Bool) -> Bool:
        """Afterwards it is outside and holds nothing, whether or not it was inside."""
        return all_of(iff(result, before.running[r]), ~self.running[r], self.length[r] == 0)

    @step("P9", of="free_without_hold")
    def a_free_without_a_hold_is_an_error(self, before: Self, result: Bool) -> Bool:  # noqa: ARG002
        """It is always refused."""
        return ~result

    @step("P11", of="ask_to_reset")
    def a_reset_is_whole_or_none(self, before: Self, h: Hash, result: Bool) -> Bool:
        """It is refused exactly while a block is referenced; otherwise nothing can be found any more."""
        is_idle = forall(Block, lambda b: before.ref_cnt[b] == 0)
        return iff(result, is_idle) & implies(result, self.cached[h].is_empty())

    @corollary("P7, P9, P11, P15")
    def everything_can_be_asked(self, r: Request, k: Position, b: Block) -> Bool:
        """Of anybody, in every state; but nobody asks for nothing, and what somebody holds is freed by who holds it."""
        is_held_by_nobody = (b != self.null.value) & (self.ref_cnt[b] == 0)
        return all_of(
            can(self.ask_to_enter, r) & can(self.send_away, r) & can(self.ask_to_reset),
            can(self.ask_for, r, k + 1) & ~can(self.ask_for, r, 0),
            can(self.return_last, r, k + 1) & ~can(self.return_last, r, 0),
            iff(can(self.free_without_hold, b), is_held_by_nobody),
        )

    # -------------------------------------------------------------------------------- what P says of its own actions

    @step("P15, L1", of=("admit", "finish", "preempt", "send_away"))
    def others_stay_inside_or_outside(self, before: Self, r: Request, q: Request) -> Bool:
        """As in P."""
        return super().others_stay_inside_or_outside(before, r, q)

    @step("P15, L1", unless=("admit", "finish", "preempt", "ask_to_enter", "send_away"))
    def nobody_else_comes_or_goes(self, before: Self, r: Request) -> Bool:
        """As in P."""
        return super().nobody_else_comes_or_goes(before, r)

    @step(
        "P2, P6",
        of=("hit", "allocate", "skip", "trim", "finish", "preempt", "ask_for", "return_last", "send_away"),
    )
    def a_table_changes_at_its_end(self, before: Self, r: Request, q: Request, i: Position, s: Slot) -> Bool:
        """As in P."""
        return super().a_table_changes_at_its_end(before, r, q, i, s)

    @step(
        "P2, P6",
        unless=(
            "hit",
            "allocate",
            "skip",
            "write",
            "register",
            "trim",
            "finish",
            "preempt",
            "ask_for",
            "return_last",
            "send_away",
        ),
    )
    def nothing_else_changes_a_table(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """As in P."""
        return super().nothing_else_changes_a_table(before, r, i, s)

    @step("P6, P7", of=("allocate", "skip", "ask_for"))
    def nothing_is_known_of_what_is_taken(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """As in P."""
        return super().nothing_is_known_of_what_is_taken(before, r, i, s)

    @step("P5, P11", unless=("allocate", "register", "evict", "reset", "ask_for", "ask_to_reset"))
    def nothing_else_gives_or_takes_a_hash(self, before: Self, b: Block, h: Hash) -> Bool:
        """As in P."""
        return super().nothing_else_gives_or_takes_a_hash(before, b, h)

    @step("P9, P10", unless=("hit", "allocate", "ask_for"))
    def the_free_queue_keeps_its_order(self, before: Self, b: Block, c: Block) -> Bool:
        """As in P."""
        return super().the_free_queue_keeps_its_order(before, b, c)

    @step("P9, P10", of=("trim", "finish", "preempt", "return_last", "send_away"))
    def released_blocks_go_where_the_dialect_says(self, before: Self, r: Request) -> Bool:
        """As in P."""
        return super().released_blocks_go_where_the_dialect_says(before, r)

    @step("P12", unless=("evict", "reset", "ask_to_reset"))
    def a_held_block_keeps_its_hashes(self, before: Self, b: Block, h: Hash) -> Bool:
        """As in P."""
        return super().a_held_block_keeps_its_hashes(before, b, h)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("P7, P15")
    def a_demand_would_be_refused(self, r: Request) -> Bool:
        """A request is inside, fits the pool, and finds less than it lacks."""
        return self.running[r] & (self.length[r] + self._room() < self.need[r])
