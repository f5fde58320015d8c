"""Lazy walks with one thing wrong each (O4): what `prove` must refute, and `explore` find."""

from __future__ import annotations

from kvproof.machine import Bool, Machine, exists, implies, none, when
from kvproof.spec.offload.lazy_walk import LazyWalk
from kvproof.spec.pool import Block


class KeepsItsCursor(LazyWalk):
    """The cursor is looked at when a call begins: one whose block was hit and has come back is taken for good."""

    def _leave_queue(self, b: Block) -> None:
        self.free.remove(b)

    def scan(self) -> None:
        is_stale = exists(Block, lambda a: (self.cursor.value == a) & ~self.free.has(a))
        super().scan()
        with when(is_stale):
            self.cursor.value = none


class ForgetsToGoBack(LazyWalk):
    """What the host forgets stays passed."""

    def _go_back(self) -> None:
        """The walk goes on where it was."""


class BeginsAnewEachTime(LazyWalk):
    """Every call begins at the head, and never comes further than its target."""

    def scan(self) -> None:
        super().scan()
        self.cursor.value = none


class PassesWhatItCannotStore(LazyWalk):
    """Where the host has no room the walk goes on."""

    def look(self, b: Block) -> None:
        self.require(self.left.value > 0)
        self.require(self.is_next(b))
        self.left.value = self.left.value - 1
        stores = self.is_worth_storing(b) & (self.in_flight.value < self.host_room.value)
        with when(stores):
            self.free.remove(b)
            self.storing[b] = True
        with when(~stores):
            self.cursor.value = b


class StoresAnyBlock(LazyWalk):
    """S11, the other way round: whatever is ahead is looked at, in no order."""

    def is_next(self, b: Block) -> Bool:
        return self.is_ahead(b)


class LooksOnAndOn(LazyWalk):
    """A call has no target."""

    def look(self, b: Block) -> None:
        super().look(b)
        self.left.value = self.left.value + 1


class LooksWithoutStoring(LazyWalk):
    """The walk goes by, and stores nothing."""

    def look(self, b: Block) -> None:
        self.require(self.left.value > 0)
        self.require(self.is_next(b))
        self.left.value = self.left.value - 1
        self.cursor.value = b


class GivesUpEarly(LazyWalk):
    """A call ends whenever it likes."""

    def stop(self) -> None:
        self.require(self.left.value > 0)
        self.left.value = 0


class ReadsWhatIsFree(LazyWalk):
    """O2: what is being stored stays in the queue, and can be reused."""

    def look(self, b: Block) -> None:
        self.require(self.left.value > 0)
        self.require(self.is_next(b))
        self.require(implies(self.is_worth_storing(b), self.in_flight.value < self.host_room.value))
        self.left.value = self.left.value - 1
        with when(self.is_worth_storing(b)):
            self.storing[b] = True
        self.cursor.value = b


class IsHitMeanwhile(LazyWalk):
    """A block is hit in the midst of a call."""

    def hit(self, b: Block) -> None:
        self.require(self.free.has(b))
        self._leave_queue(b)


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (KeepsItsCursor, "hit", "the_cursor_stands_in_the_queue", "O4"),
    (ForgetsToGoBack, "host_forgets", "what_was_passed_is_settled", "O4"),
    (BeginsAnewEachTime, "scan", "the_cursor_stays", "O4"),
    (PassesWhatItCannotStore, "look", "what_was_passed_is_settled", "O4"),
    (StoresAnyBlock, "look", "what_is_stored_is_reused_first", "O4"),
    (LooksOnAndOn, "look", "each_look_counts", "O4"),
    (LooksWithoutStoring, "look", "what_was_passed_is_settled", "O4"),
    (GivesUpEarly, "every state", "a_call_ends_early_for_a_reason", "O4"),
    (ReadsWhatIsFree, "look", "what_is_being_stored_is_held", "O2"),
    (IsHitMeanwhile, "hit", "a_call_is_one_step_to_others", "O4"),
]
"""Machine, the action that goes wrong, the property that it breaks, and the rule."""
