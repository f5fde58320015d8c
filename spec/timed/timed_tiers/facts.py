"""The facts of the loops of TimedTiers (machine G): nobody needs them but the prover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

from ....machine import Bool, Index, Int, Queue, all_of, exists, forall, iff, implies, ite, none
from ...pool import Block, Hash, Position, Request
from ...timed.links import Transfer
from .state import TimedTiersState

__all__ = ["TimedTiersFacts"]

V = TypeVar("V", Block, Hash)


class TimedTiersFacts(TimedTiersState, abstract=True):
    """What a batch, a swap-in and the end of a copy keep from block to block."""

    def _while_shipping(self, entry: Self, t: Transfer, i: Index | Int) -> dict[str, Bool]:
        """While a batch goes down: how much of it is aboard, and in which order."""
        return {
            "the rest is still gathered": self.gathered.size == entry.gathered.size - i,
            "so many are aboard": self.cargo[t].size == i,
            "nobody else is": forall(
                Block, lambda b: iff(entry.gathered.has(b), self.gathered.has(b) | (self.carrier[b] == t))
            ),
            "who was under way still is": self._still_under_way(entry),
            "it is loaded in order": forall(Block, Block, self._moved_in_order(entry.gathered, self.gathered, t)),
        }

    def _while_swapping_in(
        self, entry: Self, r: Request, p: Position, e: Position, t: Transfer, i: Index | Int
    ) -> dict[str, Bool]:
        """While a prefix is prepared to come up: how much of it is aboard, and what waits for it."""
        return {
            "so many are taken": self.free.size == entry.free.size - i,
            "so many are aboard": self.cargo[t].size == i,
            "what is to be read is there": forall(
                Position, lambda j: implies((p <= j) & (j < e), self._is_on_host(r, j))
            ),
            "who was under way still is": self._still_under_way(entry),
            "it is loaded in order": forall(Block, Block, self._moved_in_order(entry.free, self.free, t)),
            "so much of the prefix is on its way": forall(
                Position,
                lambda j: implies((p <= j) & (j < p + i), self._comes_up(r, j, t)),
            ),
            "and nothing else": forall(Block, lambda b: self._was_asked_for(r, p, p + i, b, t)),
            "who reads goes on reading": forall(
                Block, lambda b: implies(entry.fetch[b] != none, self.fetch[b] == entry.fetch[b])
            ),
            "what nobody reads keeps its place": forall(Hash, Hash, self._keep_their_place(entry.host, self.host)),
        }

    def _while_completing(self, entry: Self, t: Transfer, i: Index | Int) -> dict[str, Bool]:
        """While a transfer ends: who is aboard, and who has landed."""
        return {
            "so many have landed": self.cargo[t].size == entry.cargo[t].size - i,
            "the others are aboard": forall(Block, lambda b: iff(self.cargo[t].has(b), self.carrier[b] == t)),
            "who has not is aboard": forall(
                Block,
                lambda b: implies(
                    entry.carrier[b] == t,
                    ite(
                        self.carrier[b] == t,
                        iff(self.fetch[b] == none, entry.fetch[b] == none),
                        ite(entry.fetch[b] == none, self.free.has(b), self.used[b]) & (self.carrier[b] == none),
                    ),
                ),
            ),
            "other copies go on": forall(
                Block,
                lambda b: implies(
                    (entry.carrier[b] != none) & (entry.carrier[b] != t),
                    (self.carrier[b] != none) & (self.carrier[b] == entry.carrier[b]),
                ),
            ),
            **self._landed_so_far(entry, t),
        }

    # -------------------------------------------------------------------------------- what these facts are made of

    def _still_under_way(self, entry: Self) -> Bool:
        return forall(
            Block,
            lambda b: implies(
                entry.carrier[b] != none, (self.carrier[b] != none) & (self.carrier[b] == entry.carrier[b])
            ),
        )

    def _moved_in_order(self, then: Queue[Block], now: Queue[Block], t: Transfer) -> Callable[[Block, Block], Bool]:
        """Block after block went from the head of a queue to the end of a transfer's cargo."""
        return lambda b, c: all_of(
            implies(self.cargo[t].has(b), then.has(b) & ~now.has(b)),
            implies(self.cargo[t].has(b) & now.has(c), then.before(b, c)),
            implies(self.cargo[t].has(b) & self.cargo[t].has(c), iff(self.cargo[t].before(b, c), then.before(b, c))),
            iff(then.has(b), now.has(b) | self.cargo[t].has(b)),
            implies(now.has(b) & now.has(c), iff(now.before(b, c), then.before(b, c))),
        )

    def _keep_their_place(self, then: Queue[V], now: Queue[V]) -> Callable[[V, V], Bool]:
        """Who stood in a queue and still does stands where it did; who joined it stands behind."""
        return lambda a, b: implies(
            now.has(a) & now.has(b) & then.has(a), iff(now.before(a, b), (a != b) & (~then.has(b) | then.before(a, b)))
        )

    def _comes_up(self, r: Request, i: Position, t: Transfer) -> Bool:
        """A transfer brings the block of this position."""
        return exists(Block, lambda b: (self.carrier[b] == t) & (self.fetch[b] == self.prefix[r, i]))

    def _was_asked_for(self, r: Request, p: Int, e: Int, b: Block, t: Transfer) -> Bool:
        """What a transfer brings is of these positions."""
        is_asked = exists(Position, lambda i: (p <= i) & (i < e) & (self.fetch[b] == self.prefix[r, i]))
        return implies(self.carrier[b] == t, (self.fetch[b] != none) & is_asked)

    def _landed_so_far(self, entry: Self, t: Transfer) -> dict[str, Bool]:
        """While a transfer ends: what of it can be found, on either tier, and where everything stands."""

        def has_landed(b: Block) -> Bool:
            return all_of(entry.cargo[t].has(b), self.carrier[b] == none)

        def is_down(b: Block, h: Hash) -> Bool:
            return all_of(entry.serves[t] == none, has_landed(b), entry.holds[b] == h)

        is_full, was_full = (m.on_host_now.value == m.capacity.value for m in (self, entry))
        is_stuck = was_full & entry.host.is_empty()
        return {
            "who is aboard is as it was": forall(
                Block,
                lambda b: implies(
                    self.cargo[t].has(b),
                    all_of(entry.cargo[t].has(b), self.holds[b] == entry.holds[b], self.fetch[b] == entry.fetch[b]),
                ),
            ),
            "who is not aboard has what it had": forall(
                Block,
                lambda b: implies(
                    ~entry.cargo[t].has(b), (self.holds[b] == entry.holds[b]) & (self.fetch[b] == entry.fetch[b])
                ),
            ),
            "what came up can be found": forall(
                Block,
                Hash,
                lambda b, h: implies(has_landed(b) & (entry.fetch[b] == h), self.found[h] != none),
            ),
            "what could be found still can": forall(
                Hash,
                Block,
                lambda h, b: implies(entry.found[h] == b, self.found[h] == b),
            ),
            "free blocks stand where they stood": forall(Block, Block, self._keep_their_place(entry.free, self.free)),
            "cargo is free in its order": forall(
                Block,
                Block,
                lambda b, c: implies(
                    all_of(entry.serves[t] == none, has_landed(b), has_landed(c), entry.cargo[t].before(b, c)),
                    self.free.before(b, c),
                ),
            ),
            "the first lands first": forall(
                Block,
                Block,
                lambda b, c: implies(has_landed(b) & self.cargo[t].has(c), entry.cargo[t].before(b, c)),
            ),
            "the cargo's order is what it was": forall(
                Block, Block, self._keep_their_place(entry.cargo[t], self.cargo[t])
            ),
            "the host's queue is in order": forall(Hash, Hash, self._keep_their_place(entry.host, self.host)),
            "what is read no more joins in the cargo's order": forall(
                Block,
                Hash,
                Hash,
                lambda c, g, h: implies(
                    all_of(
                        has_landed(c) & (entry.fetch[c] == h) & self.host.has(g) & self.host.has(h),
                        ~entry.host.has(g) & (entry.serves[t] != none),
                        forall(
                            Block, lambda b: implies(has_landed(b) & (entry.fetch[b] == g), entry.cargo[t].before(b, c))
                        ),
                    ),
                    self.host.before(g, h),
                ),
            ),
            "it gives up what was not used for longest": forall(
                Hash,
                Hash,
                lambda g, h: implies(entry.host.before(g, h) & self.host.has(g), self.host.has(h)),
            ),
            "and only what nobody reads, where it is full": forall(
                Hash,
                lambda h: implies(entry.on_host[h] & ~self.on_host[h], is_full & entry.host.has(h)),
            ),
            "what goes down is read by nobody": implies(
                entry.serves[t] == none, forall(Hash, lambda h: self.reads[h] == entry.reads[h])
            ),
            "what lands was carried": forall(
                Hash,
                lambda h: implies(self.on_host[h] & ~entry.on_host[h], exists(Block, lambda b: is_down(b, h))),
            ),
            "all of it lands while there is room": forall(
                Block, Hash, lambda b, h: implies(is_down(b, h) & ~self.on_host[h], is_full)
            ),
            "nothing does where all is being read": implies(
                is_stuck & (entry.serves[t] == none), is_full & self.host.is_empty()
            ),
            "else there is always room": implies(
                ~is_stuck & (entry.serves[t] == none), ~is_full | ~self.host.is_empty()
            ),
            "later ones push out earlier ones": forall(
                Block,
                Block,
                Hash,
                Hash,
                lambda b, c, g, h: implies(
                    all_of(is_down(b, g), is_down(c, h), entry.cargo[t].before(b, c), self.on_host[g]),
                    self.on_host[h] & self.host.before(g, h),
                ),
            ),
            "the last one is there": forall(
                Block,
                Hash,
                lambda b, h: implies(
                    all_of(
                        is_down(b, h) & ~is_stuck,
                        forall(Block, lambda c: implies(entry.cargo[t].before(b, c), self.cargo[t].has(c))),
                    ),
                    self.on_host[h],
                ),
            ),
        }
