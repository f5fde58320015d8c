"""Machines that do what an action is for, and something beside it that nobody asked for; or less than it could have.

No invariant is broken by a lookup that makes another request forget its answers. Each class here does one such thing;
the properties of steps that say what an action leaves alone refute it.
"""

from __future__ import annotations

from kvproof.machine import Int, ite, none, when
from kvproof.spec.hybrid.aligned_split import AlignedSplit
from kvproof.spec.hybrid.connectors import Connector, Connectors
from kvproof.spec.hybrid.file_store import FileStore
from kvproof.spec.hybrid.groups import Groups
from kvproof.spec.hybrid.planner import Group, Tokens
from kvproof.spec.liveness.served import Served
from kvproof.spec.offload import HostBlock, Offload
from kvproof.spec.pool import Block, Hash, Position, Request, Slot
from kvproof.spec.pool.deferred import Deferred, Pass
from kvproof.spec.pool.statistics import Statistics
from kvproof.spec.tiers.mirror import Mirror
from kvproof.spec.tiers.pin import Pinned
from kvproof.spec.timed.links import Links, Transfer

# ------------------------------------------------------------------------------------------------ P, M, D


class CountsEverybody(Statistics):
    """After one lookup no other is a first one."""

    def hit(self, r: Request) -> Int:
        """Look up, and count."""
        found = super().hit(r)
        with self.each(Request) as q:
            self.counted[q] = True
        return found


class ForgetsWhatStepsRead(Deferred):
    """When one step ends, nobody knows what the others read."""

    def process(self, p: Pass) -> None:
        """The first is done."""
        super().process(p)
        with self.each(Pass, Position) as (q, i):
            self.sees[q, i] = none


class ReadsWhatCameLater(Deferred):
    """A step that is scheduled makes those before it see the table as it is now."""

    def schedule(self, p: Pass, r: Request) -> None:
        """All that read for the request see the same."""
        super().schedule(p, r)
        with self.each(Pass, Position) as (q, i), when(self.reader[q] == r):
            self.sees[q, i] = self.table[r, i]


class KeepsItsDrafts(Served):
    """All that is allocated is sure: a rejection has no draft to take back."""

    def allocate(self, r: Request, n: Int) -> None:
        """No position is a draft."""
        super().allocate(r, n)
        self.sure[r] = self.length[r]


class TakesBackWhatIsSure(Served):
    """A rejection takes what was sure together with the drafts."""

    def trim(self, r: Request, n: Int) -> None:
        """Nothing is sure any more."""
        super().trim(r, n)
        self.sure[r] = 0


class LosesItsPlace(Served):
    """Who is preempted has to come again, behind all others."""

    def preempt(self, r: Request) -> None:
        """It leaves the line, and those behind it move up."""
        super().preempt(r)
        with self.each(Request) as q, when(self.line.before(r, q)):
            self.ahead[q] = self.ahead[q] - 1
        self.ahead[r] = 0
        self.line.remove(r)


class RemembersWhoWasAhead(Served):
    """A request that has left is still said to have some before it."""

    def finish(self, r: Request) -> None:
        """As many as there were."""
        was = self.ahead[r]
        super().finish(r)
        self.ahead[r] = was + 1


class MirrorsWhatItReloads(Mirror):
    """A reload counts as if something had been mirrored (M8: the thrash rate falls)."""

    def _come_back(self, b: Block, h: Hash) -> None:
        super()._come_back(b, h)
        self.mirrored.add(1)


class FindsTheLastReloadFirst(Mirror):
    """What comes back stands before all that carries its hash already, as if it had been registered first."""

    def _come_back(self, b: Block, h: Hash) -> None:
        super()._come_back(b, h)
        self.cached[h].remove(b)
        self.cached[h].push_front(b)


class ForgetsTheChain(Pinned):
    """After a window has moved on, nothing can be registered behind it."""

    def _drop(self, r: Request, m: Int, n: Int) -> None:
        super()._drop(r, m, n)
        with self.each(Position) as k, when(self.table[r, k] == self.null.value):
            self.filed[r, k] = none


# ------------------------------------------------------------------------------------------------ O


class ForgetsWhoComputes(Offload):
    """Where a request looks on the host, every step counts as processed: copies may read what is not there yet."""

    def unpin(self, r: Request) -> None:
        """One block at least counts as computed."""
        super().unpin(r)
        with self.each(Block) as b:
            self.computing[b] = False


class FailsWhileItCopies(Offload):
    """A store of which a slot is copied is a failed one."""

    def copy_out(self, c: HostBlock, s: Slot) -> None:
        """It is thrown away at its end."""
        super().copy_out(c, s)
        self.store_failed[c] = True


class LoadsWhatItNeverCopied(Offload):
    """A load counts as copied when it begins, slot by slot: it ends well, and its blocks hold anything."""

    def load(self, r: Request, n: Int) -> None:
        """Blocks will come."""
        super().load(r, n)
        with self.each(Block, Slot) as (b, s), when(self.origin[b] != none):
            self.loaded_slot[b, s] = True


class OffersForAnother(Offload):
    """What one request offers counts as offered by all."""

    def offer(self, r: Request) -> None:
        """The next block."""
        super().offer(r)
        with self.each(Request) as q:
            self.offered[q] = ite(self.lazy.value, self.offered[q], self.length[q])


# ------------------------------------------------------------------------------------------------ G


class ForgetsWhatItMoved(Links):
    """Of a transfer that is over nobody knows how large it was."""

    def _complete(self, t: Transfer) -> None:
        super()._complete(t)
        self.size[t] = 0


# ------------------------------------------------------------------------------------------------ H: groups


class AllocatesNothing(Groups):
    """A free block stays free."""

    def allocate(self, g: Group, r: Request, i: Position, b: Block) -> None:
        """Nothing is taken."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        self.require(self.free[b])
        self.require(self.table[g, r, i] == none)


class RegistersNothing(Groups):
    """A full block cannot be found."""

    def register(self, g: Group, r: Request, i: Position) -> None:
        """Nothing is named."""
        self.require(self.seeking.value == none)
        self.require(self.table[g, r, i] != none)
        self.require(self.hash[self.table[g, r, i]] == none)
        self.require(self.cached[self.name[g, r, i]] == none)


class DropsNothing(Groups):
    """What is not needed any more is held."""

    def drop(self, g: Group, r: Request, i: Position) -> None:
        """Nothing is given back."""
        self.require(self.seeking.value == none)
        self.require(self.table[g, r, i] != none)


class ForgetsEverything(Groups):
    """After a request has left, nothing can be found of any."""

    def leave(self, r: Request) -> None:
        """The cache is empty."""
        super().leave(r)
        with self.each(Block) as b:
            self.hash[b] = none
        with self.each(Hash) as h:
            self.cached[h] = none


class CountsAnEarlierLoad(Groups):
    """What came of one load counts as come of the next."""

    def load(self, r: Request, n: Int) -> None:
        """What groups told stays told."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        self.require(self.external[r] == 0)
        self.require(n > 0)
        self.external[r] = n
        self.has_loaded[r] = True


# ------------------------------------------------------------------------------------------------ H: the others


class EverybodyWaits(Connectors):
    """Where one request waits for an answer, all are inside."""

    def wait(self, r: Request) -> None:
        """Everybody is."""
        super().wait(r)
        with self.each(Request) as q:
            self.inside[q] = True


class CountsAStayTwice(Connectors):
    """Who declines is counted anew."""

    def decline(self, r: Request) -> None:
        """It does without."""
        super().decline(r)
        self.counted[r] = False


class LeavesNothingBehind(Connectors):
    """Who leaves empties all stores."""

    def leave(self, r: Request) -> None:
        """Nothing is kept."""
        super().leave(r)
        with self.each(Connector, Hash) as (c, h):
            self.kept[c, h] = False


class UsesUpAllAnswers(Connectors):
    """Where one request misses, every store looks anew for everybody."""

    def _drop_answers(self, r: Request) -> None:
        super()._drop_answers(r)
        with self.each(Connector, Request) as (c, q):
            self.resolved[c, q] = False
            self.holds[c, q] = self.chosen[q] == c


class TakesOneBlockAtATime(AlignedSplit):
    """However large the budget."""

    def end(self, r: Request, budget: Int) -> Int:
        """Of the block at hand, at most."""
        block = self.block.value
        return super().end(r, ite(budget < block, budget, block))


class LosesItsBlocks(AlignedSplit):
    """A load that begins takes the request's blocks away."""

    def begin_load(self, r: Request, n: Tokens) -> None:
        """It has none."""
        super().begin_load(r, n)
        self.held[r] = 0


class BreaksEveryPromise(FileStore):
    """Where one file is evicted, nothing is said to be stored."""

    def evict(self, h: Hash) -> None:
        """A file makes room."""
        super().evict(h)
        with self.each(Hash) as g:
            self.stored[g] = False


CARELESS = [
    (CountsEverybody, "hit", "only_who_looks_up_is_counted"),
    (ForgetsWhatStepsRead, "process", "other_steps_go_on"),
    (ReadsWhatCameLater, "schedule", "other_steps_go_on"),
    (KeepsItsDrafts, "allocate", "one_position_more_is_sure"),
    (TakesBackWhatIsSure, "trim", "drafts_are_taken_back_first"),
    (LosesItsPlace, "preempt", "nobody_else_comes_to_the_line"),
    (RemembersWhoWasAhead, "finish", "places_are_counted"),
    (MirrorsWhatItReloads, "hit", "a_lookup_mirrors_nothing"),
    (FindsTheLastReloadFirst, "hit", "what_comes_back_twice_is_found_in_turn"),
    (ForgetsTheChain, "drop", "a_drop_empties_what_the_window_has_passed"),
    (ForgetsWhoComputes, "unpin", "nothing_else_is_computed"),
    (FailsWhileItCopies, "copy_out", "a_store_goes_on_slot_by_slot"),
    (LoadsWhatItNeverCopied, "load", "a_load_begins_with_nothing"),
    (OffersForAnother, "offer", "others_were_offered_what_they_were"),
    (ForgetsWhatItMoved, "complete", "what_a_transfer_is_it_stays"),
    (AllocatesNothing, "allocate", "a_free_block_is_taken"),
    (RegistersNothing, "register", "what_is_registered_can_be_found"),
    (DropsNothing, "drop", "one_entry_is_dropped"),
    (ForgetsEverything, "leave", "nothing_else_gives_or_takes_a_hash"),
    (CountsAnEarlierLoad, "load", "what_is_promised_counts"),
    (EverybodyWaits, "wait", "only_who_acts_goes_on"),
    (CountsAStayTwice, "decline", "a_stay_is_counted_by_lookups"),
    (LeavesNothingBehind, "leave", "what_stores_keep_they_keep"),
    (UsesUpAllAnswers, "miss", "others_have_their_answers"),
    (TakesOneBlockAtATime, "schedule", "a_step_takes_all_that_it_may"),
    (LosesItsBlocks, "begin_load", "blocks_are_taken_when_they_are_wanted"),
    (BreaksEveryPromise, "evict", "files_have_nothing_to_do_with_each_other"),
]
"""The machine, the action that does something beside its job, and the property that says so."""
