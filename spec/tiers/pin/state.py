"""The state of Pinned (machine D), and the words in which it is spoken of."""

from __future__ import annotations

from ....machine import Bool, Int, Map, Param, Queue, Scalar, Tally, any_of, assume, forall
from ...pool import Block, Position, Request
from ...pool.read_tables import ReadTables

__all__ = ["PinnedState"]


class PinnedState(ReadTables, abstract=True):
    """What is known beside the pool: the second queue, the marks, the steps under way."""

    # -------------------------------------------------------------------------------- parameters

    pinning = Param(to=Bool)
    """Whether drops mark blocks at all."""

    window = Param(to=Int)
    """How many blocks a window covers: ceil(window tokens / block tokens). A drop pins no more than one window."""

    min_drop = Param(to=Int)
    """A drop of fewer blocks pins none: those of single decode steps have no prefix value (16 by default)."""

    # -------------------------------------------------------------------------------- state

    pinned = Queue(Block)
    """Marked blocks that nobody holds, oldest first."""

    marked = Map(Block, to=Bool)
    """The retention mark. It survives a hit: the next release routes the block back (D3)."""

    reads = Map(Request, Position, to=Bool)
    """A step that is scheduled and not yet processed reads the request's table from this position on (D7)."""

    quota = Scalar(to=Int, scratch=True)
    """While a window moves on: how many blocks may still be marked."""

    picked = Tally()
    """Marks that were set."""

    # -------------------------------------------------------------------------------- what is known of the parameters

    @assume("D4")
    def a_window_covers_something(self) -> Bool:
        """A window of no block would pin nothing."""
        return (self.window.value >= 1) & (self.min_drop.value >= 1)

    # -------------------------------------------------------------------------------- both queues together

    def _idle(self, b: Block) -> Bool:
        """Nobody holds the block, and it can be taken, if need be."""
        return self.free.has(b) | self.pinned.has(b)

    def _sooner(self, b: Block, c: Block) -> Bool:
        """Free blocks are taken first; pinned ones follow, the oldest first."""
        return any_of(self.free.before(b, c), self.free.has(b) & self.pinned.has(c), self.pinned.before(b, c))

    def _room(self) -> Int:
        """Free and pinned blocks together (D5)."""
        return self.free.size + self.pinned.size

    def _is_at_rest(self, r: Request) -> Bool:
        """No scheduled step reads the request's table."""
        return forall(Position, lambda k: ~self.reads[r, k])
