"""The facts of the loops of Offload (machine O): nobody needs them but the prover."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Self

from ...machine import Bool, Index, Int, all_of, forall, iff, implies, none
from ..pool import Block, Hash, Position, Request, Slot
from .state import HostBlock, OffloadState, Worker

__all__ = ["OffloadFacts"]


class OffloadFacts(OffloadState, abstract=True):
    """What lookups on the host, and the beginning of loads, keep from round to round."""

    def _while_looking(self, entry: Self, r: Request, start: Int, i: Index | Int) -> dict[str, Bool]:
        """While a lookup walks the host: what it found is pinned."""
        return {
            "what was found is pinned, and nothing else": forall(
                Position, lambda k: iff(self.pins[r, k] != none, (k >= start) & (k < start + i))
            ),
            "who is left stands in the same order": forall(
                HostBlock,
                HostBlock,
                lambda c, d: implies(
                    self.host_free.has(c) & self.host_free.has(d),
                    entry.host_free.has(c) & iff(self.host_free.before(c, d), entry.host_free.before(c, d)),
                ),
            ),
            "of each hash the first stored": forall(
                Position,
                HostBlock,
                lambda k, c: implies(
                    (k >= start) & (self.pins[r, k] == c), self.host_cached[self.prompt[r, k]].is_first(c)
                ),
            ),
        }

    def _while_unpinning(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """While pins go, the last first: which are left, and where their blocks stand."""
        return {
            "from the last on": forall(
                Position,
                lambda k: all_of(
                    implies(k >= self.limit[r] - i, self.pins[r, k] == none),
                    implies(k < self.limit[r] - i, self.pins[r, k] == entry.pins[r, k]),
                ),
            ),
            "the mark stands in the queue": implies(
                self.host_behind.value != none, self.host_free.has(self.host_behind.value)
            ),
            "who was free stays free, in the same order": forall(
                HostBlock, HostBlock, self.host._kept_in_order(entry.host)
            ),
            "the mark stands right behind the run at the head": forall(
                HostBlock,
                lambda c: implies(
                    self.split.value & self.host_free.has(c),
                    iff(
                        self.host._is_new(entry.host, c) & self.host._belongs_to_the_head(c),
                        (self.host_behind.value == none) | self.host_free.before(c, self.host_behind.value),
                    ),
                ),
            ),
            "what is free anew stands where the dialect says": forall(
                HostBlock, HostBlock, lambda c, d: self._joins_the_host_queue(entry, c, d)
            ),
            "each run in the order given": forall(
                Position, Position, HostBlock, HostBlock, self._unpinned_in_order(entry, r)
            ),
        }

    def _while_loading(self, entry: Self, r: Request, start: Int, i: Index | Int) -> dict[str, Bool]:
        """While pins become loads: which have, and what is still to come."""
        return {
            "pins become loads in order": forall(
                Position,
                lambda k: all_of(
                    implies((k >= start) & (k < start + i), self.pins[r, k] == none),
                    implies((k < start) | (k >= start + i), self.pins[r, k] == entry.pins[r, k]),
                ),
            ),
            "what was pinned is on its way": forall(
                Position,
                Block,
                lambda k, b: implies(
                    (k >= start) & (k < start + i) & (self.table[r, k] == b), self._is_on_its_way(entry, r, k, b)
                ),
            ),
            "other loads go on": forall(
                Block,
                lambda b: implies(
                    forall(Position, lambda k: implies((k >= start) & (k < start + i), self.table[r, k] != b)),
                    self._load_is_as_it_was(entry, b),
                ),
            ),
            "what is still to come is fresh": forall(
                Position,
                Block,
                lambda k, b: implies(
                    (k >= start + i) & (self.table[r, k] == b),
                    (self.transfers[b] == 0) & forall(Hash, lambda h: ~self.hashes[b, h]),
                ),
            ),
            "nobody relies on it yet": forall(
                Position,
                Request,
                Position,
                Slot,
                lambda k, q, j, s: implies(
                    all_of(k >= start + i, self.table[r, k] != none, self.table[q, j] == self.table[r, k]),
                    (self.expects[q, j, s] == none) & (self.filed[q, j] == none),
                ),
            ),
        }

    # -------------------------------------------------------------------------------- what these facts are made of

    def _is_on_its_way(self, before: Self, r: Request, i: Position, b: Block) -> Bool:
        """The block is loaded with what was pinned for a position, and every worker has its part before it."""
        begins = (self.origin[b] == before.pins[r, i]) & (self.wanted[b] == self.prompt[r, i])
        return begins & ~self.load_failed[b] & forall(Worker, lambda w: self.loading[b, w])

    def _load_is_as_it_was(self, before: Self, b: Block) -> Bool:
        """What the load to this block reads, and how far it is."""
        return all_of(
            (self.origin[b] == before.origin[b]) & (self.wanted[b] == before.wanted[b]),
            iff(self.load_failed[b], before.load_failed[b]),
            forall(Worker, lambda w: iff(self.loading[b, w], before.loading[b, w])),
            forall(Slot, lambda s: iff(self.loaded_slot[b, s], before.loaded_slot[b, s])),
        )

    def _joins_the_host_queue(self, entry: Self, c: HostBlock, d: HostBlock) -> Bool:
        """One that is free anew stands behind any other, or before it."""
        is_new, to_the_head = self.host._is_new(entry.host, c), self.host._belongs_to_the_head(c)
        goes_elsewhere = ~self.host._is_new(entry.host, d) | (to_the_head & ~self.host._belongs_to_the_head(d))
        return implies(is_new & self.host_free.has(d) & goes_elsewhere, iff(self.host_free.before(c, d), to_the_head))

    def _unpinned_in_order(self, entry: Self, r: Request) -> Callable[[Position, Position, HostBlock, HostBlock], Bool]:
        """Of two blocks that go the same way, the one that was pinned for the later position joins first.

        One that was pinned for two has its place where the second pin goes: at the lower position.
        """
        is_new, to_the_head = partial(self.host._is_new, entry.host), self.host._belongs_to_the_head
        return lambda i, j, c, d: implies(
            all_of(
                is_new(c) & is_new(d) & iff(to_the_head(c), to_the_head(d)),
                (j < i) & (entry.pins[r, i] == c) & (entry.pins[r, j] == d),
                forall(Position, lambda k: implies(k < i, entry.pins[r, k] != c)),
            ),
            self.host_free.before(c, d),
        )
