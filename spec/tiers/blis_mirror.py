"""Machine M in the dialect `blis`: reload first, hold afterwards. Wrong, and kept to be refuted.

This is the lookup of a simulator's tiered cache (BLIS, `sim/kv/tiered.go`), step for step. It notes which blocks it
found without holding them, reloads what is missing into free blocks, which join the tail of the free queue with no
holder, and looks again; if more is found now, that is claimed, otherwise what was noted at first. The bound is the
number of free blocks at the start.

Free blocks of the same prefix stand in the same queue. So a reload may take one that was noted, or one behind a gap
(M6), and what was noted is claimed although another hash's content stands there now: the request reads what is not its
prefix (P6). `tests/explore/test_broken_tiers.py` has the shortest traces.
"""

from __future__ import annotations

from ...machine import Int, Map, Scalar, none, optional, otherwise, when
from ..pool import Block, Hash, Position, Request, Slot
from ..tiers.mirror import Mirror

__all__ = ["BlisMirror"]


class BlisMirror(Mirror):
    """The mirrored pool whose lookup reloads before it holds."""

    noted = Map(Position, to=optional(Block), scratch=True)
    """What the first walk found, and nobody holds for it."""

    left = Scalar(to=Int, scratch=True)
    """How many reloads the bound still allows."""

    def _look_up(self, r: Request) -> Int:
        """Walk, reload, walk again, claim."""
        with self.loop(self.limit[r], going=lambda i: ~self.cached[self.prompt[r, i]].is_empty()) as first:
            self.noted[first.index] = self.cached[self.prompt[r, first.index]].head()
        found = first.rounds
        self._reload_behind(r, found)
        with self.loop(self.limit[r], going=lambda i: ~self.cached[self.prompt[r, i]].is_empty()) as again:
            pass
        is_longer = again.rounds > found
        with when(is_longer):
            self.left.value = again.rounds
        with otherwise():
            self.left.value = found
        with self.loop(self.left.value) as claim:
            h = self.prompt[r, claim.index]
            with when(is_longer):
                self._claim_block(r, self.cached[h].head())
            with otherwise():
                self._claim_block(r, self.noted[claim.index])
            self.filed[r, claim.index] = h
            with self.each(Slot) as s:
                self.expects[r, claim.index, s] = self.kv[h, s]
        self.left.value = 0
        with self.each(Position) as i:
            self.noted[i] = none
        return claim.rounds

    def _reload_behind(self, r: Request, found: Int) -> None:
        """Reload what the first walk did not find, up to the first hash on neither tier."""
        self.left.value = self.free.size
        with self.loop(
            self.limit[r] - found,
            going=lambda i: (
                ~self.cached[self.prompt[r, found + i]].is_empty()
                | (self.host.has(self.prompt[r, found + i]) & (self.left.value > 0))
            ),
        ) as walk:
            h = self.prompt[r, found + walk.index]
            with when(self.cached[h].is_empty()):
                self._reload_to_the_tail(h)
                self.left.value = self.left.value - 1

    def _reload_to_the_tail(self, h: Hash) -> None:
        """The head of the queue gets the host's content and its hash, and joins the tail: nobody holds it."""
        b = self._take_head()
        self._forget(b)
        self._come_back(b, h)
        self.free.push_back(b)

    def _claim_block(self, r: Request, b: Block) -> None:
        """The request holds the block, whatever stands in it by now."""
        with when(self.ref_cnt[b] == 0):
            self._leave_queue(b)
        self._hold(r, b)
