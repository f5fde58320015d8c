"""The properties of steps of Chunks: what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, all_of, forall, iff, implies, ite, step
from ...pool import Hash, Position
from .actions import ChunksActions
from .state import Load, Offer

__all__ = ["ChunksSteps"]


class ChunksSteps(ChunksActions, abstract=True):
    """What each action is for, and what it leaves alone."""

    @step("O12", of="offer")
    def an_offer_is_refused_only_when_too_little_can_go(self, before: Self, o: Offer, result: Bool) -> Bool:
        """Free chunks, and entries that may go, are fewer than what is missing of it."""
        free = before.capacity.value - before.used.value
        return iff(result, before.missing[o] <= free + before.evictable[o])

    @step("O12", of="offer")
    def a_refusal_changes_nothing(self, before: Self, g: Hash, h: Hash, result: Bool) -> Bool:
        """No entry, and not the order in which they go."""
        return implies(~result, self._is_as_it_was(before, h) & iff(self.idle.before(g, h), before.idle.before(g, h)))

    @step("O12, O3", of="offer")
    def all_of_an_offer_is_stored(self, before: Self, o: Offer, h: Hash, result: Bool) -> Bool:
        """Exactly what is named and neither there nor on its way; with one answer for all of it."""
        is_missing = before.names[o, h] & ~before.ready[h] & ~before.storing[h]
        return iff(self.storing[h], before.storing[h] | (result & is_missing))

    @step("O12", of="offer")
    def nothing_goes_that_is_named_or_needed(self, before: Self, o: Offer, h: Hash) -> Bool:
        """Also what comes later in the list, or is there already."""
        is_safe = before.names[o, h] | (before.readers[h] > 0)
        return implies(is_safe, iff(self.ready[h], before.ready[h])) & implies(self.ready[h], before.ready[h])

    @step("O12", of="offer")
    def no_more_goes_than_must(self, before: Self, o: Offer, result: Bool) -> Bool:
        """As many entries as chunks are missing; none where enough are free."""
        whole = before.used.value + before.missing[o]
        is_full = whole > before.capacity.value
        return implies(result, self.used.value == ite(is_full, before.capacity.value, whole))

    @step("O12", of="offer")
    def the_least_recently_used_goes_first(self, before: Self, o: Offer, g: Hash, h: Hash) -> Bool:
        """Of what may go."""
        went = before.ready[g] & ~self.ready[g]
        may_go = before.idle.has(h) & ~before.names[o, h]
        return implies(went & may_go & self.ready[h], before.idle.before(g, h))

    @step("O12", of="offer")
    def what_is_named_was_just_used(
        self, before: Self, o: Offer, i: Position, j: Position, g: Hash, h: Hash, result: Bool
    ) -> Bool:
        """It goes after all else, in the order of the list; all else goes in the order as before."""
        stay = self.idle.has(g) & self.idle.has(h) & ~before.names[o, g]
        listed = all_of(i < j, j < self.count[o], before.key[o, i] == g, before.key[o, j] == h)
        return all_of(
            implies(stay & ~before.names[o, h], iff(self.idle.before(g, h), before.idle.before(g, h))),
            implies(stay & before.names[o, h] & result, self.idle.before(g, h)),
            implies(listed & self.idle.has(g) & self.idle.has(h) & result, self.idle.before(g, h)),
        )

    @step("O2, P12", of="end_store")
    def a_good_store_can_be_found(self, before: Self, h: Hash, ok: Bool) -> Bool:
        """From now on, and goes last; a bad one leaves nothing."""
        return all_of(
            before.storing[h] & ~self.storing[h],
            iff(self.ready[h], ok),
            forall(Hash, lambda g: implies(ok & before.idle.has(g), self.idle.before(g, h))),
        )

    @step("P2, O5", of="begin_load")
    def who_begins_reads(self, before: Self, x: Load, h: Hash) -> Bool:
        """What is there; one more than before."""
        return before.ready[h] & self.reads[x, h] & (self.readers[h] == before.readers[h] + 1)

    @step("P2, P9", of="end_load")
    def who_has_read_lets_go(self, before: Self, x: Load, h: Hash, g: Hash) -> Bool:
        """One less than before; with the last one the entry goes behind all others."""
        is_last = before.readers[h] == 1
        is_over = ~self.reads[x, h] & (self.readers[h] == before.readers[h] - 1)
        return is_over & implies(is_last & before.idle.has(g), self.idle.before(g, h))

    @step("P2", of=("begin_load", "end_load"))
    def other_loads_go_on(self, before: Self, x: Load, h: Hash, y: Load, g: Hash) -> Bool:
        """Of this entry, and of any other."""
        return implies((y != x) | (g != h), iff(self.reads[y, g], before.reads[y, g]))

    @step("P2", unless=("begin_load", "end_load"))
    def nothing_else_reads(self, before: Self, x: Load, h: Hash) -> Bool:
        """Nor ends a load."""
        return iff(self.reads[x, h], before.reads[x, h])

    @step("P5, O12", of=("end_store", "begin_load", "end_load"))
    def entries_have_nothing_to_do_with_each_other(self, before: Self, h: Hash, f: Hash, g: Hash) -> Bool:
        """What happens to one leaves all others, and their order; only stores and offers change what is there."""
        are_others = (f != h) & (g != h)
        return all_of(
            implies(g != h, self._is_as_it_was(before, g)),
            implies(are_others, iff(self.idle.before(f, g), before.idle.before(f, g))),
        )

    @step("P5", of=("begin_load", "end_load"))
    def reading_takes_nothing_away(self, before: Self, h: Hash) -> Bool:
        """What is read stays."""
        return iff(self.ready[h], before.ready[h]) & iff(self.storing[h], before.storing[h])

    @step("P11, O10", of="reset")
    def a_reset_leaves_nothing(self, before: Self, h: Hash) -> Bool:  # noqa: ARG002
        """Nobody finds anything."""
        return ~self.ready[h] & ~self.storing[h]

    def _is_as_it_was(self, before: Self, h: Hash) -> Bool:
        """The entry of a key, or that there is none."""
        return all_of(
            iff(self.ready[h], before.ready[h]),
            iff(self.storing[h], before.storing[h]),
            self.readers[h] == before.readers[h],
        )
