"""Chunks by key with one thing wrong each (O12): what `prove` must refute, and `explore` find."""

from __future__ import annotations

from kvproof.machine import Bool, Int, Machine, ite, when
from kvproof.spec.offload.chunks import Chunks, Load, Offer
from kvproof.spec.pool import Hash


class LooksAtOneKeyAtATime(Chunks):
    """What the offer names is not held while room is made: as machine O, where each key is an offer of its own."""

    def _touch(self, _o: Offer, _n: Int) -> None:
        """Nothing is looked at before."""


class CountsWhatItNames(Chunks):
    """What is named counts among what may go: the second of a list makes room for the first."""

    def _fits(self, o: Offer) -> Bool:
        return self._wanted(o) <= self.idle.size


class StoresWhatFits(Chunks):
    """Of an offer that is too long, the beginning is stored."""

    def offer(self, o: Offer) -> Bool:
        fits = self._fits(o)
        gone = ite(fits, self._wanted(o), self.evictable[o])
        self._touch(o, self.count[o])
        self._make_room(o, gone)
        self._begin_stores(o, ite(fits, self.count[o], 1))
        return fits


class MakesRoomInVain(Chunks):
    """Who is refused has cost all that could go."""

    def offer(self, o: Offer) -> Bool:
        fits = self._fits(o)
        self._touch(o, self.count[o])
        self._make_room(o, ite(fits, self._wanted(o), self.evictable[o]))
        self._begin_stores(o, ite(fits, self.count[o], 0))
        return fits


class RefusesTooSoon(Chunks):
    """An offer that needs all that may go is refused."""

    def _fits(self, o: Offer) -> Bool:
        return self._wanted(o) < self.evictable[o]


class StoresNothing(Chunks):
    """Every offer is taken, and none is stored."""

    def _begin_stores(self, _o: Offer, _n: Int) -> None:
        """Nothing begins."""


class StoresWhatIsThere(Chunks):
    """O3: what can be found is stored once more."""

    def _begin_stores(self, o: Offer, n: Int) -> None:
        with self.loop(n, facts=lambda i, entry: self._while_storing(entry, o, i)) as walk:
            h = self.key[o, walk.index]
            with when(~self.storing[h]):
                self.storing[h] = True


class GivesUpTheLatest(Chunks):
    """What was used last goes first: the offer's own keys before all else."""

    def _make_room(self, o: Offer, n: Int) -> None:
        with self.loop(n, facts=lambda i, entry: self._while_making_room(entry, o, i)):
            h = self.idle.tail()
            self.idle.remove(h)
            self.ready[h] = False
            self.removed(h)


class GivesUpWithoutAWord(Chunks):
    """P12: nobody is told that a key can no longer be found."""

    def _make_room(self, o: Offer, n: Int) -> None:
        with self.loop(n, facts=lambda i, entry: self._while_making_room(entry, o, i)):
            h = self.idle.head()
            self.idle.remove(h)
            self.ready[h] = False


class ReadsWhatMayGo(Chunks):
    """What is read stands among what may go."""

    def begin_load(self, x: Load, h: Hash) -> None:
        self.require(self.ready[h])
        self.require(~self.reads[x, h])
        self.reads[x, h] = True
        self.readers[h] = self.readers[h] + 1


class FindsWhatFailed(Chunks):
    """What a store has failed to write can be found."""

    def end_store(self, h: Hash, ok: Bool) -> None:
        self.require(self.storing[h])
        self.storing[h] = False
        self.ready[h] = True
        self.idle.push_back(h)
        self.stored(h)


class ForgetsWhatIsOnItsWay(Chunks):
    """P11: a reset asks for readers only."""

    def reset(self) -> None:
        with self.each(Hash) as h, when(self.idle.has(h)):
            self.ready[h] = False
            self.idle.remove(h)
            self.removed(h)


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (LooksAtOneKeyAtATime, "offer", "nothing_goes_that_is_named_or_needed", "O12"),
    (CountsWhatItNames, "offer", "an_offer_is_refused_only_when_too_little_can_go", "O12"),
    (StoresWhatFits, "offer", "a_refusal_changes_nothing", "O12"),
    (MakesRoomInVain, "offer", "a_refusal_changes_nothing", "O12"),
    (RefusesTooSoon, "offer", "an_offer_is_refused_only_when_too_little_can_go", "O12"),
    (StoresNothing, "offer", "all_of_an_offer_is_stored", "O12"),
    (StoresWhatIsThere, "offer", "what_is_there_is_not_being_stored", "O3"),
    (GivesUpTheLatest, "offer", "the_least_recently_used_goes_first", "O12"),
    (GivesUpWithoutAWord, "offer", "listeners_know_what_is_there", "P12"),
    (ReadsWhatMayGo, "begin_load", "what_can_go_is_what_nobody_needs", "O12"),
    (FindsWhatFailed, "end_store", "a_good_store_can_be_found", "O2"),
    (ForgetsWhatIsOnItsWay, "reset", "a_reset_leaves_nothing", "P11"),
]
"""Machine, the action that goes wrong, the property that it breaks, and the rule."""
