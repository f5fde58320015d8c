"""Reports of transfers with one thing wrong, one class for each: what `prove` must refute and `explore` must find."""

from __future__ import annotations

from kvproof.machine import Bool, Machine, all_of, none, when
from kvproof.spec.offload import HostBlock, Worker
from kvproof.spec.offload.reports import Number, Reports
from kvproof.spec.pool import Block, Position, Request, Slot


class HearsByBlock(Reports):
    """Whatever its number, a report of a store to a host block is taken for one of the store in flight there."""

    def hear_store(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a store."""
        c = self.store_to[t]
        self.require(c != none)
        counts = self.storing[c, w]
        with when(counts):
            self._end_part_of_store(c, w, ok)
        return counts


class HearsTwice(Reports):
    """A worker that has reported its part of a store is heard again, and thanked."""

    def hear_store(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a store."""
        super().hear_store(t, w, ok)
        return all_of(self.store_to[t] != none)


class FreesTwice(Reports):
    """A report that comes twice lets the host block go twice."""

    def hear_store(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a store."""
        counts = super().hear_store(t, w, ok)
        c = self.store_to[t]
        with when(~counts & (self.host_ref_cnt[c] > 0)):
            self._take_host_back(c)
        return counts


class PublishesWhatIsStale(Reports):
    """A good report of a store that has ended lets the host block be found, though another store is filling it."""

    def hear_store(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a store."""
        counts = super().hear_store(t, w, ok)
        c = self.store_to[t]
        with when(~counts & ok & (self.named[c] != none)):
            self._let_be_found(c)
        return counts


class EndsALoadTwice(Reports):
    """A report that comes twice ends the next load to the same block."""

    def hear_load(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a load."""
        counts = super().hear_load(t, w, ok)
        b = self.load_to[t]
        with when(~counts & (self.origin[b] != none)):
            self._end_load(b)
        return counts


class HearsNobody(Reports):
    """No report is ever awaited."""

    def hear_load(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a load."""
        self.require(self.load_to[t] != none)
        return all_of(self.load_to[t] == none)


class ForgetsWhatWasCopied(Reports):
    """When one worker is heard, nothing is known any more of what the others have copied."""

    def hear_store(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a store."""
        counts = super().hear_store(t, w, ok)
        c = self.store_to[t]
        with self.each(Slot) as s, when(counts & self.storing[c, self.owner[s]]):
            self.stored_slot[c, s] = False
        return counts


class FilesWhatComes(Reports):
    """What a load has brought is filed, though nobody has registered it."""

    def hear_load(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a load."""
        b = self.load_to[t]
        h = self.wanted[b]
        counts = super().hear_load(t, w, ok)
        with self.each(Request, Position) as (r, i), when(counts & (self.table[r, i] == b) & (self.origin[b] == none)):
            self.filed[r, i] = h
        return counts


class KeepsItsNumber(Reports):
    """The number of a store that has ended is that of the next one to the same host block."""

    def _end_store(self, c: HostBlock) -> None:
        number = self.store_number[c]
        super()._end_store(c)
        self.store_number[c] = number


class NumbersAnew(Reports):
    """A number that was given is given again."""

    def send_load(self, b: Block, t: Number) -> None:
        """Workers are told to copy to this block."""
        self.require(t <= self.issued.value)
        self.require(self.origin[b] != none)
        self.require(self.load_number[b] == none)
        with when(t == self.issued.value):
            self.issued.value = t + 1
        self.load_to[t] = b
        self.load_number[b] = t


BROKEN: list[tuple[type[Machine], str, str]] = [
    (HearsByBlock, "hear_store", "a_part_of_a_store_is_heard_once"),
    (HearsTwice, "hear_store", "a_part_of_a_store_is_heard_once"),
    (FreesTwice, "hear_store", "what_nobody_waits_for_changes_nothing"),
    (PublishesWhatIsStale, "hear_store", "what_nobody_waits_for_changes_nothing"),
    (EndsALoadTwice, "hear_load", "what_nobody_waits_for_changes_nothing"),
    (HearsNobody, "hear_load", "a_part_of_a_load_is_heard_once"),
    (ForgetsWhatWasCopied, "hear_store", "a_store_is_heard_as_it_is_reported"),
    (FilesWhatComes, "hear_load", "transfers_leave_tables_alone"),
    (KeepsItsNumber, "report_store", "a_number_is_of_one_transfer"),
    (NumbersAnew, "send_load", "a_transfer_is_sent_under_a_new_number"),
]
"""Machine, an action that shows the fault, and the property that it breaks."""
