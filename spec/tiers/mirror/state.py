"""The state of Mirror (machine M), and the words in which it is spoken of."""

from __future__ import annotations

from ....machine import Bool, Index, Int, Map, Param, Queue, Tally, assume, exists, optional
from ...pool import Content, Hash, Request, Slot
from ...pool.statistics import Statistics

__all__ = ["MirrorState"]


class MirrorState(Statistics, abstract=True):
    """What is known beside the pool: the host's blocks, and what is measured."""

    # -------------------------------------------------------------------------------- parameters

    capacity = Param(to=Int)
    """How many blocks the host tier keeps."""

    cost = Param(to=Int)
    """The time that one block's reload takes: base + ceil(block tokens / bandwidth) (M7)."""

    # -------------------------------------------------------------------------------- state

    host = Queue(Hash)
    """The hashes of the blocks on the host, least recently used first."""

    kept = Map(Hash, Slot, to=optional(Content))
    """Ghost: what really stands in each slot of the host block that is kept for a hash."""

    # -------------------------------------------------------------------------------- what is measured

    mirrored = Tally()
    """Blocks that were stored on the host."""

    dropped = Tally()
    """Blocks that the host gave up for others."""

    reloaded = Tally()
    """Blocks that came back to the device."""

    latency = Tally()
    """The time that reloads took. Who reads it takes it away; a tally never falls, so a reader notes where it was."""

    # -------------------------------------------------------------------------------- what is known of the parameters

    @assume("M3")
    def the_host_has_room(self) -> Bool:
        """A host tier without a block would be none."""
        return self.capacity.value >= 1

    @assume("M7")
    def copies_take_time(self) -> Bool:
        """The base latency is not negative, and the bandwidth is finite."""
        return self.cost.value >= 1

    # -------------------------------------------------------------------------------- words

    def _is_worth_keeping(self, r: Request, i: Index) -> Bool:
        """The block is full, and a lookup on the device finds it under the hash by which the request knows it."""
        b, h = self.table[r, i], self.filed[r, i]
        return exists(Hash, lambda g: (h == g) & self.hashes[b, g])
