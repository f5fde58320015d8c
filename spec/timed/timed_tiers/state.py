"""The state of TimedTiers (machine G), and the words in which it is spoken of."""

from __future__ import annotations

from ....machine import (
    Bool,
    Count,
    Event,
    Int,
    Map,
    Param,
    Queue,
    Real,
    Tally,
    all_of,
    any_of,
    assume,
    exists,
    none,
    optional,
)
from ...pool import Block, Hash, Position, Request
from ...timed.links import Link, Links, Transfer

__all__ = ["TimedTiersState"]


class TimedTiersState(Links, abstract=True):
    """What is known of a device, of the host behind it, and of the requests that wait for copies."""

    # -------------------------------------------------------------------------------- parameters

    down = Param(to=Link)
    """The link from the device to the host."""

    up = Param(to=Link)
    """The link from the host to the device."""

    block_bytes = Param(to=Real)
    """The size of a block."""

    batch = Param(to=Int)
    """The most blocks that go down in one transfer."""

    capacity = Param(to=Int)
    """The most blocks that the host keeps; with 0 there is no host tier (G7)."""

    prefix = Param(Request, Position, to=optional(Hash))
    """The hashes of a request's blocks; none behind the last that a lookup may return (P14)."""

    # -------------------------------------------------------------------------------- the device

    free = Queue(Block, init=True)
    """The blocks that can be taken."""

    used = Map(Block, to=Bool)
    """The block belongs to somebody."""

    idle = Queue(Block)
    """The blocks that nobody uses, the one to be evicted next first."""

    gathered = Queue(Block)
    """The open batch: evicted blocks whose copy has not begun."""

    cargo = Queue(Block, by=Transfer)
    """The blocks that a transfer reads or writes."""

    carrier = Map(Block, to=optional(Transfer))
    """The transfer that a block belongs to."""

    holds = Map(Block, to=optional(Hash))
    """What stands in a block, if it has a name."""

    found = Map(Hash, to=optional(Block))
    """The block, used or idle, under which a lookup finds the hash."""

    # -------------------------------------------------------------------------------- the host

    on_host = Map(Hash, to=Bool)
    """What a lookup finds on the host."""

    host = Queue(Hash)
    """What of that nobody reads, the one to be evicted next first."""

    fetch = Map(Block, to=optional(Hash))
    """What is being copied into a block."""

    host_announced = Map(Hash, to=Bool)
    """What somebody who listens to the host's events believes to be there (G6)."""

    host_misled = Map(Hash, to=Bool)
    """An event told somebody who listens what was known already."""

    host_stored = Event(Hash, heard=lambda m, h: m._hear_stored(h))
    """The block landed on the host."""

    host_removed = Event(Hash, heard=lambda m, h: m._hear_removed(h))
    """It left the host."""

    # -------------------------------------------------------------------------------- requests

    waits = Map(Request, to=optional(Transfer))
    """The transfer that a request waits for."""

    serves = Map(Transfer, to=optional(Request))
    """The request that a transfer brings something up for."""

    promotions = Tally()
    """How often a request was told that it may go on."""

    in_use = Count(Block, where=lambda m, b: m.used[b])

    copying = Count(Block, where=lambda m, b: m.carrier[b] != none)

    usable = Count(Block, where=lambda _, b: b == b)

    on_host_now = Count(Hash, where=lambda m, h: m.on_host[h])

    reads = Count(Block, where=lambda m, b, h: m.fetch[b] == h, by=Hash)

    @assume("G4")
    def a_batch_has_room(self) -> Bool:
        """For one block at least; and a block is of some size."""
        return all_of(self.batch.value >= 1, self.capacity.value >= 0, self.block_bytes.value >= 0)

    # -------------------------------------------------------------------------------- words

    def is_evicted(self, b: Block) -> Bool:
        """The block holds what is on its way to the host."""
        return any_of(self.gathered.has(b), (self.carrier[b] != none) & (self.holds[b] != none))

    def is_on_its_way(self, h: Hash) -> Bool:
        """Some block's copy to the host will bring it there."""
        return exists(Block, lambda b: (self.holds[b] == h) & self.is_evicted(b))

    def _is_on_device(self, r: Request, i: Position) -> Bool:
        return exists(Hash, lambda h: (self.prefix[r, i] == h) & (self.found[h] != none))

    def _is_on_host(self, r: Request, i: Position) -> Bool:
        return exists(Hash, lambda h: (self.prefix[r, i] == h) & self.on_host[h])
