"""Machine D with pinning off, beside machine P: they are one machine, step by step (D6).

`PinningOff` does what `Pinned` does, and at each place where a block joins or leaves the free queue it does on a second
queue, `plain`, what machine P does there. Everything else in P's state (tables, counts, hashes, content) depends on the
queue only through the block at its head. So if both queues are equal as orders at every moment, also between the rounds
of a loop, then so is everything, and P allows an allocation exactly when D does.

What D has and P has not changes nothing either: no block is pinned, so demoting finds none, and a gate is open exactly
where P's allocation is. (A window that moves on is a release like any other.)
"""

from __future__ import annotations

from ...machine import (
    Bool,
    Int,
    Queue,
    Scalar,
    all_of,
    assume,
    forall,
    iff,
    implies,
    initially,
    invariant,
    none,
    optional,
    otherwise,
    step,
    when,
)
from ..pool import Block, Request
from ..tiers.pin import Pinned

__all__ = ["PinningOff"]


class PinningOff(Pinned):
    """The pool that could pin and does not, and the pool that cannot."""

    plain = Queue(Block, init=lambda m, b: b != m.null.value)
    """The free queue of machine P."""

    plain_behind = Scalar(to=optional(Block), scratch=True)
    """Machine P's mark behind the run that a free call puts at the head."""

    @assume("D6")
    def pinning_is_off(self) -> Bool:
        """No drop marks a block."""
        return ~self.pinning.value

    @initially("D6")
    def both_constructors_append_all_blocks(self, b: Block, c: Block) -> Bool:
        """In the same order."""
        return implies(self.free.has(b) & self.free.has(c), iff(self.free.before(b, c), self.plain.before(b, c)))

    # -------------------------------------------------------------------------------- what P does with its queue

    def _take_head(self) -> Block:
        """P takes the head of its own queue."""
        self.plain.remove(self.plain.head())
        return super()._take_head()

    def _leave_queue(self, b: Block) -> None:
        """P takes the block out, wherever it stands."""
        super()._leave_queue(b)
        self.plain.remove(b)

    def _begin_free_call(self) -> None:
        """P notes its own head."""
        super()._begin_free_call()
        with when(~self.plain.is_empty()):
            self.plain_behind.value = self.plain.head()

    def _end_free_call(self) -> None:
        """All runs stand."""
        super()._end_free_call()
        self.plain_behind.value = none

    def _join_head(self, b: Block) -> None:
        """P puts the block last in its run at the head."""
        super()._join_head(b)
        mark = self.plain_behind.value
        with when(mark != none):
            self.plain.push_before(mark, b)
        with otherwise():
            self.plain.push_back(b)

    def _join_tail(self, b: Block) -> None:
        """P puts the block at the tail."""
        super()._join_tail(b)
        self.plain.push_back(b)
        with when(self.plain_behind.value == none):
            self.plain_behind.value = b

    def _freed_so_far(self, entry: PinningOff, r: Request) -> dict[str, Bool]:
        """Both runs at the head end at the same place."""
        return {**super()._freed_so_far(entry, r), "both marks are one": self.behind.value == self.plain_behind.value}

    # -------------------------------------------------------------------------------- both are one

    @invariant("D6")
    def both_queues_are_one(self, b: Block, c: Block) -> Bool:
        """Members and order are the same."""
        return all_of(
            iff(self.free.has(b), self.plain.has(b)),
            implies(self.free.has(b) & self.free.has(c), iff(self.free.before(b, c), self.plain.before(b, c))),
        )

    @invariant("D6")
    def both_have_the_same_room(self) -> Bool:
        """P allows an allocation exactly when D does."""
        return (self._room() == self.plain.size) & (self.pinned.size == 0)

    @step("D6", of=("demote", "open_gate"))
    def there_is_nothing_to_demote(self, before: PinningOff, n: Int) -> Bool:  # noqa: ARG002
        """Both queues stay as they are."""
        return forall(
            Block,
            Block,
            lambda b, c: all_of(
                iff(self.free.has(b), before.free.has(b)),
                implies(self.free.has(b) & self.free.has(c), iff(self.free.before(b, c), before.free.before(b, c))),
            ),
        )
