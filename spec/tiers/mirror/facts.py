"""The facts of the loops of Mirror (machine M): nobody needs them but the prover."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, Index, Int, Queue, all_of, exists, forall, iff, implies, none
from ...pool import Block, Hash, Position, Request, Slot
from .state import MirrorState

__all__ = ["MirrorFacts"]


class MirrorFacts(MirrorState, abstract=True):
    """What the walks of a mirror and of a lookup on both tiers keep from round to round."""

    def _while_claiming(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """While a lookup claims what the device has: what is claimed, and what is not."""
        return {
            "what is claimed is the first of its hash": forall(
                Position,
                lambda k: implies(
                    self.claimed[k] != none, (k < i) & self.cached[self.prompt[r, k]].is_first(self.claimed[k])
                ),
            ),
            "what is on the device is claimed": forall(
                Position,
                lambda k: implies((k < i) & (self.claimed[k] == none), self.cached[self.prompt[r, k]].is_empty()),
            ),
            "the rest is on the host": forall(
                Position, lambda k: implies((k < i) & (self.claimed[k] == none), self.host.has(self.prompt[r, k]))
            ),
            **self._claims_are_sound(r),
            **self._only_taken_from(entry),
        }

    def _while_filling(self, entry: Self, r: Request, reach: Int, i: Index | Int) -> dict[str, Bool]:
        """While a lookup fills the table: what was handed over, and what was reloaded."""
        return {
            "the table is as long as the walk": self.length[r] == i,
            "claims are handed over in order": forall(
                Position,
                lambda k: all_of(
                    implies(k < i, self.claimed[k] == none),
                    implies(k >= i, self.claimed[k] == entry.claimed[k]),
                ),
            ),
            "a claimed block stands where it was claimed for": forall(
                Position,
                lambda k: implies((k < i) & (entry.claimed[k] != none), self.table[r, k] == entry.claimed[k]),
            ),
            "what was claimed can still be found": forall(
                Position,
                lambda k: implies(
                    entry.claimed[k] != none,
                    self.cached[self.prompt[r, k]].has(entry.claimed[k]),
                ),
            ),
            "the table is the prefix": forall(Position, Slot, lambda k, s: implies(k < i, self._is_known(r, k, s))),
            "held blocks keep their hashes": forall(
                Block,
                Hash,
                lambda b, h: implies(
                    entry.hashes[b, h] & (entry.ref_cnt[b] > 0), self.hashes[b, h] & (self.ref_cnt[b] > 0)
                ),
            ),
            "what is not claimed was not on the device": forall(
                Position,
                lambda k: implies((k < reach) & (entry.claimed[k] == none), entry.cached[self.prompt[r, k]].is_empty()),
            ),
            "what is reloaded was free": forall(
                Block, lambda b: implies(self._is_reloaded(entry, r, b, i), entry._idle(b))
            ),
            "who carries a hash stands as before": self._found_in_order(entry),
            "each reload takes its time": self._takes_its_time(entry),
            "each round hands over a claim, or reloads": (
                self.reloaded.total - entry.reloaded.total == i - (entry.all_claims.value - self.all_claims.value)
            ),
            "no more is reloaded than is found": self.reloaded.total - entry.reloaded.total <= i,
            "what is reloaded is found in the order of the prompt": forall(
                Position, Position, lambda j, k: implies(k < i, self._found_in_turn(entry, r, j, k))
            ),
            **self._claims_are_sound(r),
            **self._reloaded_so_far(entry, r, i),
            **self._touched_so_far(entry, r, i),
            **self._taken_in_order(entry),
            **self._filled_so_far(entry),
        }

    def _while_letting_go(self, entry: Self, r: Request, reach: Int, i: Index | Int) -> dict[str, Bool]:
        """While claims are let go that the walk did not reach: which are left, and where their blocks stand."""
        return {
            "from the last on": forall(
                Position,
                lambda k: all_of(
                    implies(k >= reach - i, self.claimed[k] == none),
                    implies(k < reach - i, self.claimed[k] == entry.claimed[k]),
                ),
            ),
            "the mark stands in the queue": implies(self.behind.value != none, self.free.has(self.behind.value)),
            "the mark is its head, as nothing goes to the head": all_of(
                iff(self.behind.value == none, self.free.is_empty()),
                forall(Block, lambda b: implies(self.behind.value != none, ~self.free.before(b, self.behind.value))),
            ),
            "who was free stays free, in the same order": forall(Block, Block, self._kept_in_order(entry)),
            "who could be taken stands as before": forall(
                Block,
                Block,
                lambda b, c: implies(
                    entry._idle(b) & entry._idle(c),
                    self._idle(b) & iff(self._sooner(b, c), entry._sooner(b, c)),
                ),
            ),
            "who is let go stands behind all that was free": forall(
                Block,
                Block,
                lambda b, c: implies(self._is_new(entry, b) & entry.free.has(c), self.free.before(c, b)),
            ),
            "of those the last position stands first": self._last_position_first(entry, entry.free, self.free),
            "what is let go lies behind the end": forall(
                Position, lambda k: implies(self.claimed[k] != none, self.length[r] < k)
            ),
            "where no room is left, nobody else is free": forall(
                Block,
                lambda b: implies((self.length[r] < reach) & self._idle(b), self._is_behind(r, b)),
            ),
            "who joins is of the prefix behind the end": forall(
                Block, lambda b: implies(self._idle(b) & ~entry._idle(b), self._is_behind(r, b))
            ),
            **self._claims_are_sound(r),
        }

    # -------------------------------------------------------------------------------- what these facts are made of

    def _last_position_first(self, entry: Self, then: Queue[Block], now: Queue[Block]) -> Bool:
        """Of the claimed blocks that have joined a queue since `entry`, the one for the last position stands first."""

        def joined(b: Block) -> Bool:
            return now.has(b) & ~then.has(b)

        return forall(
            Position,
            Position,
            Block,
            Block,
            lambda j, k, b, c: implies(
                all_of(
                    joined(b) & joined(c),
                    (j < k) & (entry.claimed[j] == b) & (entry.claimed[k] == c),
                    forall(Position, lambda m: implies(m < k, entry.claimed[m] != c)),
                ),
                now.before(c, b),
            ),
        )

    def _filled_so_far(self, entry: Self) -> dict[str, Bool]:  # noqa: ARG002
        """What else is known while a lookup fills its gaps; for extensions of M."""
        return {}

    def _claims_are_sound(self, r: Request) -> dict[str, Bool]:
        """A claimed block is a block that somebody holds, and carries the hash for which it was claimed."""
        return {
            "a claimed block carries its hash": forall(
                Position,
                lambda k: implies(
                    self.claimed[k] != none,
                    all_of(
                        k < self.limit[r],
                        self.claimed[k] != self.null.value,
                        self.ref_cnt[self.claimed[k]] >= 1,
                        self.hashes[self.claimed[k], self.prompt[r, k]],
                    ),
                ),
            )
        }

    def _taken_in_order(self, entry: Self) -> dict[str, Bool]:
        """Reloads took the first blocks of the queue (M5)."""
        return {
            "who was taken stood before who is left": forall(
                Block,
                Block,
                lambda b, c: implies(entry._idle(b) & ~self._idle(b) & self._idle(c), entry._sooner(b, c)),
            ),
            **self._only_taken_from(entry),
        }

    def _is_of_prefix(self, r: Request, b: Block) -> Bool:
        """The block carries such a hash."""
        return exists(Position, lambda k: (k < self.limit[r]) & self.hashes[b, self.prompt[r, k]])

    def _is_behind(self, r: Request, b: Block) -> Bool:
        """The block carries a hash that a lookup for this request may ask for, behind what it found."""
        return exists(
            Position, lambda k: all_of(self.length[r] < k, k < self.limit[r], self.hashes[b, self.prompt[r, k]])
        )

    def _is_reloaded(self, entry: Self, r: Request, b: Block, i: Index | Int) -> Bool:
        """The block stands at one of the first i positions, and did not carry the prompt's hash before."""
        return exists(
            Position,
            lambda k: all_of(k < i, self.table[r, k] == b, ~entry.hashes[b, self.prompt[r, k]]),
        )

    def _reloaded_so_far(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """What stands in the blocks that a lookup has reloaded at the first i positions, and in all others (M5)."""
        return {
            "what is reloaded is what the host keeps, under its hash and no other": forall(
                Position,
                Slot,
                Hash,
                lambda k, s, h: implies(
                    (k < i) & ~entry.hashes[self.table[r, k], self.prompt[r, k]],
                    all_of(
                        self.content[self.table[r, k], s] == self.kept[self.prompt[r, k], s],
                        iff(self.hashes[self.table[r, k], h], h == self.prompt[r, k]),
                    ),
                ),
            ),
            "nothing else is written": forall(
                Block,
                Slot,
                lambda b, s: implies(~self._is_reloaded(entry, r, b, i), self.content[b, s] == entry.content[b, s]),
            ),
            "nothing else gets or loses a hash": forall(
                Block,
                Hash,
                lambda b, h: implies(~self._is_reloaded(entry, r, b, i), iff(self.hashes[b, h], entry.hashes[b, h])),
            ),
        }

    def _found_in_turn(self, entry: Self, r: Request, j: Position, k: Position) -> Bool:
        """Of two positions that were reloaded under one hash, the block of the first is found first (P5)."""
        h, b, c = self.prompt[r, j], self.table[r, j], self.table[r, k]
        return implies(
            all_of(j < k, self.prompt[r, k] == h, ~entry.hashes[b, h], ~entry.hashes[c, h]),
            self.cached[h].before(b, c),
        )

    def _comes_back(self, entry: Self, r: Request, h: Hash, i: Index | Int) -> Bool:
        """The hash is one of the first i of the prompt, and the device did not have it."""
        return entry.cached[h].is_empty() & exists(Position, lambda k: (k < i) & (self.prompt[r, k] == h))

    def _touched_so_far(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """What the host looks like when the first i positions were filled: what came back was used last (M4, M5)."""

        def comes_back(h: Hash) -> Bool:
            return self._comes_back(entry, r, h, i)

        return {
            "the host keeps what it has": forall(Hash, lambda h: iff(self.host.has(h), entry.host.has(h))),
            "what was not asked for stands as before": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    all_of(self.host.has(g), self.host.has(h), ~comes_back(g), ~comes_back(h)),
                    iff(self.host.before(g, h), entry.host.before(g, h)),
                ),
            ),
            "what came back stands behind it": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    self.host.has(g) & ~comes_back(g) & comes_back(h), self.host.has(h) & self.host.before(g, h)
                ),
            ),
            "what came back last stands last": forall(
                Position,
                Position,
                lambda j, k: implies(
                    all_of(
                        (j < k) & (k < i),
                        entry.cached[self.prompt[r, j]].is_empty() & entry.cached[self.prompt[r, k]].is_empty(),
                        forall(
                            Position,
                            lambda m: implies((j < m) & (m < i), self.prompt[r, m] != self.prompt[r, j]),
                        ),
                    ),
                    self.host.before(self.prompt[r, j], self.prompt[r, k]),
                ),
            ),
        }

    def _takes_its_time(self, entry: Self) -> Bool:
        """The latency is the sum over the reloaded blocks (M7)."""
        blocks = self.reloaded.total - entry.reloaded.total
        return (blocks >= 0) & (self.latency.total == entry.latency.total + self.cost.value * blocks)

    # -------------------------------------------------------------------------------- what the host keeps

    def _mirrored_so_far(self, entry: Self, r: Request, i: Position | Int) -> dict[str, Bool]:
        """What the host keeps when the first i positions were mirrored."""
        return {
            "what is mirrored stands behind all that was not mirrored since": forall(
                Position,
                Hash,
                Hash,
                lambda k, h, g: implies(
                    all_of(
                        (k < i) & (self.filed[r, k] == h) & self._is_worth_keeping(r, k),
                        self.host.has(g) & (g != h) & ~self._is_mirrored(r, g, i, after=k),
                    ),
                    self.host.has(h) & self.host.before(g, h),
                ),
            ),
            "only a full host gives up what is mirrored": forall(
                Position,
                Hash,
                lambda k, h: implies(
                    (k < i) & (self.filed[r, k] == h) & self._is_worth_keeping(r, k) & ~self.host.has(h),
                    self.host.size >= self.capacity.value,
                ),
            ),
            "the least recently used is given up": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    all_of(
                        entry.host.has(g) & ~self.host.has(g),
                        entry.host.has(h) & self.host.has(h) & ~self._is_mirrored(r, h, i),
                    ),
                    entry.host.before(g, h),
                ),
            ),
            "others keep their order": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    all_of(
                        entry.host.has(g) & self.host.has(g) & ~self._is_mirrored(r, g, i),
                        entry.host.has(h) & self.host.has(h) & ~self._is_mirrored(r, h, i),
                    ),
                    iff(self.host.before(g, h), entry.host.before(g, h)),
                ),
            ),
            "a full host is why something is given up": forall(
                Hash,
                lambda h: implies(entry.host.has(h) & ~self.host.has(h), self.host.size >= self.capacity.value),
            ),
            "the host gains what is mirrored": forall(
                Hash,
                lambda h: implies(self.host.has(h), entry.host.has(h) | self._is_mirrored(r, h, i)),
            ),
            "what is stored and what is given up is counted": all_of(
                self.dropped.total >= entry.dropped.total,
                self.mirrored.total - entry.mirrored.total
                == self.host.size - entry.host.size + self.dropped.total - entry.dropped.total,
            ),
        }

    def _is_mirrored(self, r: Request, h: Hash, i: Position | Int, *, after: Position | int = -1) -> Bool:
        """One of the first i positions, after some other, holds a block that was kept under this hash."""
        return exists(
            Position, lambda k: (after < k) & (k < i) & (self.filed[r, k] == h) & self._is_worth_keeping(r, k)
        )
