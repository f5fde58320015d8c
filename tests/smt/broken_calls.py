"""Machine P's calls with one thing wrong, one class for each: what `prove` must refute."""

from __future__ import annotations

from kvproof.machine import Bool, Int, action, can, ite, when
from kvproof.spec.pool import Block, Request
from kvproof.spec.pool.calls import Calls


class TakesWhatThereIs(Calls):
    """A demand that cannot be met is met in part."""

    @action("P7")
    def ask_for(self, r: Request, n: Int) -> Bool:
        self.require(n >= 1)
        may_grow = self.running[r] & (self.length[r] + n <= self.need[r])
        fits = may_grow & (n <= self._room())
        self._take(r, ite(may_grow, ite(fits, n, self._room()), 0))
        return fits


class KeepsOneBack(Calls):
    """A demand for all that is free is refused."""

    @action("P7")
    def ask_for(self, r: Request, n: Int) -> Bool:
        self.require(n >= 1)
        fits = can(self.allocate, r, n) & (n < self._room())
        self._take(r, ite(fits, n, 0))
        return fits


class PromisesBlocks(Calls):
    """Whoever asks for blocks is told that it has them."""

    @action("P7")
    def ask_for(self, r: Request, n: Int) -> Bool:
        fits = super().ask_for(r, n)
        return fits | ~fits


class MakesRoomInVain(Calls):
    """Who is refused has cost the head of the queue its hashes."""

    @action("P7")
    def ask_for(self, r: Request, n: Int) -> Bool:
        self.require(n >= 1)
        fits = can(self.allocate, r, n)
        with when(~fits & ~self.free.is_empty()):
            self._forget(self.free.head())
        self._take(r, ite(fits, n, 0))
        return fits


class LetsAnybodyIn(Calls):
    """Who does not fit the pool is told so, and runs."""

    @action("P15, L1")
    def ask_to_enter(self, r: Request) -> Bool:
        fits = can(self.admit, r)
        self.running[r] = True
        return fits


class GivesBackWhatItCan(Calls):
    """Of a free of more than there is, what there is goes."""

    @action("P9, P10")
    def return_last(self, r: Request, n: Int) -> Bool:
        self.require(n >= 1)
        holds = can(self.trim, r, n)
        self._give_back(r, ite(holds, n, ite(self.running[r], self.length[r], 0)))
        return holds


class LeavesTwice(Calls):
    """Who is gone is sent away once more, and that is called done."""

    @action("P9, P10, L1")
    def send_away(self, r: Request) -> Bool:
        is_inside = super().send_away(r)
        return is_inside | ~is_inside


class BelowZero(Calls):
    """A free without a hold takes one all the same (vLLM, fault B16)."""

    def _free(self, b: Block) -> Bool:
        self._release(b)
        return self.ref_cnt[b] >= 0


class MovesWhatIsFree(Calls):
    """A free without a hold sends the block to the end of the queue."""

    def _free(self, b: Block) -> Bool:
        is_held = self.ref_cnt[b] > 0
        self._leave_queue(b)
        self._join_tail(b)
        return is_held


class ForgetsInUse(Calls):
    """A reset that is refused has forgotten what could be found."""

    @action("P11, P12")
    def ask_to_reset(self) -> Bool:
        is_idle = can(self.reset)
        self._forget_everything()
        self.cleared()
        return is_idle


class NeverResets(Calls):
    """Every reset is refused."""

    @action("P11, P12")
    def ask_to_reset(self) -> Bool:
        is_idle = can(self.reset)
        return is_idle & ~is_idle
