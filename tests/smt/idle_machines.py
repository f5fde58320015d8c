"""Machines that leave undone what an action is for, or do it half: nothing bad happens, and nothing good.

A block manager that caches nothing, stores nothing and serves nobody breaks no invariant. Each class here leaves out
one thing; the properties of steps that say what an action must do refute it.
"""

from __future__ import annotations

from kvproof.machine import Index, Int, exists, forall, none, when
from kvproof.spec.pool import Block, Content, Hash, Pool, Position, Request, Slot
from kvproof.spec.tiers.mirror import Mirror
from kvproof.spec.tiers.pin import Pinned

# ------------------------------------------------------------------------------------------------ P: events


class StoresWithoutAWord(Pool):
    """Nobody is told that a block can be found."""

    def _publish(self, b: Block, h: Hash) -> None:
        self.hashes[b, h] = True
        self.cached[h].push_back(b)


class TellsOfEachCopy(Pool):
    """Also the second block of a hash is reported as stored."""

    def _publish(self, b: Block, h: Hash) -> None:
        self.hashes[b, h] = True
        self.cached[h].push_back(b)
        self.stored(h, self.parent[h])


class NamesNoParent(Pool):
    """Each hash is reported as the first of a sequence."""

    def _publish(self, b: Block, h: Hash) -> None:
        is_first = self.cached[h].is_empty()
        self.hashes[b, h] = True
        self.cached[h].push_back(b)
        with when(is_first):
            self.stored(h, none)


class ForgetsWithoutAWord(Pool):
    """Nobody is told that a hash can no longer be found."""

    def _forget(self, b: Block) -> None:
        with self.each(Hash) as h, when(self.hashes[b, h]):
            self.hashes[b, h] = False
            self.cached[h].remove(b)


class ClearsWithoutAWord(Pool):
    """Nobody is told that everything is forgotten."""

    def reset(self) -> None:
        self.require(forall(Block, lambda b: self.ref_cnt[b] == 0))
        self._forget_everything()


# ------------------------------------------------------------------------------------------------ P: actions


class AdmitsNobody(Pool):
    """A request that could enter stays outside."""

    def admit(self, r: Request) -> None:
        self.require(~self.running[r])
        self.require(self.need[r] <= self.usable.value)


class FindsNothing(Pool):
    """A lookup does not look."""

    def _look_up(self, r: Request) -> Int:
        return self.length[r]


class StopsEarly(Pool):
    """A lookup leaves out the last block that it could find."""

    def _look_up(self, r: Request) -> Int:
        with self.loop(
            self.limit[r] - 1,
            going=lambda i: ~self.cached[self.prompt[r, i]].is_empty(),
            facts=lambda i, _: {"the table is as long as the walk": self.length[r] == i},
        ) as walk:
            self._find(r, walk.index, self.cached[self.prompt[r, walk.index]].head())
        return walk.rounds


class TakesTheLastRegistered(Pool):
    """Of several blocks with one hash the newest is shared."""

    def _find(self, r: Request, i: Index, b: Block) -> None:
        super()._find(r, i, self.cached[self.prompt[r, i]].tail())


class ReturnsNothing(Pool):
    """A lookup holds what it finds, and does not tell."""

    def hit(self, r: Request) -> Int:
        return super().hit(r) * 0


class RegistersFirst(Pool):
    """The newest block of a hash is found first."""

    def _publish(self, b: Block, h: Hash) -> None:
        is_first = self.cached[h].is_empty()
        self.hashes[b, h] = True
        self.cached[h].push_front(b)
        with when(is_first):
            self.stored(h, self.parent[h])


class EvictsNothing(Pool):
    """A block keeps the hashes that it was to lose."""

    def evict(self, b: Block) -> None:
        self.require(exists(Hash, lambda h: self.hashes[b, h]))


class ResetsNothing(Pool):
    """Every hash can be found as before."""

    def reset(self) -> None:
        self.require(forall(Block, lambda b: self.ref_cnt[b] == 0))


class ForgetsWhatIsGivenBack(Pool):
    """A block that nobody holds any more loses its hashes."""

    def _join(self, b: Block) -> None:
        self._forget(b)
        super()._join(b)


class WritesNothing(Pool):
    """The request believes that its token is computed."""

    def write(self, r: Request, i: Position, s: Slot, c: Content) -> None:
        held = self.table[r, i]
        self.require((i < self.length[r]) & (held != none))
        before = self.content[held, s]
        super().write(r, i, s, c)
        self.content[held, s] = before
        self.expects[r, i, s] = before


# ------------------------------------------------------------------------------------------------ M


class MirrorsNothing(Mirror):
    """The host stays empty."""

    def _keep(self, h: Hash, b: Block) -> None:
        pass


class MirrorsInAnyOrder(Mirror):
    """What is mirrored is the next to go."""

    def _keep(self, h: Hash, b: Block) -> None:
        super()._keep(h, b)
        self.host.remove(h)
        self.host.push_front(h)


class MirrorsUncounted(Mirror):
    """What is given up for something mirrored is not counted (M8)."""

    def _keep(self, h: Hash, b: Block) -> None:
        super()._keep(h, b)
        with when(self.host.size >= self.capacity.value):
            self.mirrored.add(1)


class ReloadsNothing(Mirror):
    """A lookup ends at the first gap on the device."""

    def _fill(self, r: Request, reach: Int) -> Int:
        return super()._fill(r, reach * 0)


class ReloadsUntouched(Mirror):
    """A host block that was asked for is given up as if nobody wanted it."""

    def _come_back(self, b: Block, h: Hash) -> None:
        super()._come_back(b, h)
        self.host.remove(h)
        self.host.push_front(h)


# ------------------------------------------------------------------------------------------------ D


class DropsNothing(Pinned):
    """The window moves on, and all stays where it is."""

    def _drop(self, r: Request, m: Int, n: Int) -> None:
        self.quota.value = 0


class MarksNothing(Pinned):
    """A large drop pins none of its blocks."""

    def _drop(self, r: Request, m: Int, n: Int) -> None:
        super()._drop(r, m, n)
        with self.each(Block) as b, when(~self.pinned.has(b)):
            self.marked[b] = False


class DemotesNothing(Pinned):
    """What is pinned stays pinned."""

    def _demote(self, n: Int) -> None:
        pass


class SchedulesNothing(Pinned):
    """A step that is under way is not known."""

    def schedule(self, r: Request, i: Position) -> None:
        super().schedule(r, i)
        self.reads[r, i] = False


IDLE = [
    (StoresWithoutAWord, "register", "listeners_know_what_is_cached"),
    (TellsOfEachCopy, "register", "every_event_is_news"),
    (NamesNoParent, "register", "every_event_is_news"),
    (ForgetsWithoutAWord, "evict", "listeners_know_what_is_cached"),
    (ClearsWithoutAWord, "reset", "listeners_know_what_is_cached"),
    (AdmitsNobody, "admit", "who_is_admitted_runs"),
    (FindsNothing, "hit", "a_lookup_ends_where_it_must"),
    (StopsEarly, "hit", "a_lookup_ends_where_it_must"),
    (TakesTheLastRegistered, "hit", "what_is_found_is_held"),
    (ReturnsNothing, "hit", "a_lookup_returns_what_it_found"),
    (RegistersFirst, "register", "a_registered_block_is_found_last"),
    (EvictsNothing, "evict", "an_evicted_block_has_no_hash"),
    (ResetsNothing, "reset", "after_a_reset_nothing_is_found"),
    (ForgetsWhatIsGivenBack, "preempt", "nothing_else_gives_or_takes_a_hash"),
    (WritesNothing, "write", "a_write_fills_one_slot"),
    (MirrorsNothing, "mirror", "the_host_keeps_what_was_mirrored"),
    (MirrorsInAnyOrder, "mirror", "the_host_keeps_what_was_mirrored"),
    (MirrorsUncounted, "mirror", "the_host_keeps_what_was_mirrored (9 of 9)"),
    (ReloadsNothing, "hit", "a_lookup_ends_where_it_must"),
    (ReloadsUntouched, "hit", "a_lookup_moves_only_what_it_asks_for (4 of 5)"),
    (DropsNothing, "drop", "a_drop_empties_what_the_window_has_passed"),
    (MarksNothing, "drop", "a_drop_pins_its_newest_window"),
    (DemotesNothing, "demote", "the_oldest_are_demoted_first"),
    (SchedulesNothing, "schedule", "a_scheduled_step_reads"),
]
"""The machine, the action that does not do its job, and the property that says so."""
