"""The state of Offload (machine O), and the words in which it is spoken of."""

from __future__ import annotations

from ...machine import (
    Bool,
    Count,
    Event,
    Int,
    Map,
    Param,
    Part,
    Queue,
    Scalar,
    Sort,
    Tally,
    exists,
    forall,
    implies,
    none,
    optional,
)
from ..pool import Block, Content, Hash, Pool, Position, Request, Slot

__all__ = ["HostBlock", "OffloadState", "Worker"]


class HostBlock(Sort):
    """One unit of host KV memory, as large as a device block."""


class Worker(Sort):
    """A process that owns a part of every block, and copies it."""


class OffloadState(Pool, abstract=True):
    """What is known beside the pool: the host's pool, and the copies between the two."""

    # -------------------------------------------------------------------------------- parameters

    lazy = Param(to=Bool)
    """False: eager mode, every computed block of a request is offered once. True: free blocks are, before they are
    taken for something else; so what requests hold all the time is never stored (O4)."""

    owner = Param(Slot, to=Worker)
    """The worker that copies a slot: here a worker's part of a block is some of its slots."""

    driver = Param(to=Worker)
    """One of the workers: there is at least one."""

    # -------------------------------------------------------------------------------- the host pool (O1)

    host_free = Queue(HostBlock, init=True)
    """The host blocks that nobody holds, the one to be taken next first."""

    host_ref_cnt = Map(HostBlock, to=Int)
    """How many transfers and lookups hold the host block."""

    host_hashes = Map(HostBlock, Hash, to=Bool)
    """The hashes under which a host block can be found."""

    host_cached = Queue(HostBlock, by=Hash)
    """For each hash the host blocks that carry it, first stored first."""

    host_content = Map(HostBlock, Slot, to=optional(Content))
    """Ghost: what really stands in each slot of a host block. Only copies change it."""

    host_announced = Map(Hash, to=Bool)
    """Ghost: the hashes that a listener believes to be on the host (P12)."""

    host_behind = Scalar(to=optional(HostBlock), scratch=True)
    """While host blocks are given back: as `behind`."""

    host_stored = Event(Hash, heard=lambda m, h: m.host._hear_found(h))
    """A hash can now be found on the host."""

    host_removed = Event(Hash, heard=lambda m, h: m.host._hear_removed(h))
    """A hash can no longer be found on the host."""

    host = Part(Pool, null=none)
    """All of these: a pool by P's own text. Dialect and hashes are the device's; there is no null block."""

    # -------------------------------------------------------------------------------- transfers

    source = Map(HostBlock, to=optional(Block))
    """The device block that a store in flight copies to this host block."""

    named = Map(HostBlock, to=optional(Hash))
    """The hash that the store's content had when it was planned."""

    stored_slot = Map(HostBlock, Slot, to=Bool)
    """Ghost: the store in flight has copied this slot."""

    storing = Map(HostBlock, Worker, to=Bool)
    """The worker has yet to report its part of a store to this host block: until then it may read and write."""

    store_failed = Map(HostBlock, to=Bool)
    """One of them could not copy its part."""

    origin = Map(Block, to=optional(HostBlock))
    """The host block that a load in flight copies to this device block."""

    wanted = Map(Block, to=optional(Hash))
    """The hash for which the load was planned."""

    loaded_slot = Map(Block, Slot, to=Bool)
    """Ghost: the load in flight has copied this slot."""

    loading = Map(Block, Worker, to=Bool)
    """The worker has yet to report its part of a load to this block: until then it may read and write."""

    load_failed = Map(Block, to=Bool)
    """One of them could not copy its part."""

    pins = Map(Request, Position, to=optional(HostBlock))
    """What a lookup found on the host for this position of a request, held until the load is planned (O5)."""

    computing = Map(Block, to=Bool)
    """A scheduled step writes the block and is not processed yet: no copy may touch it."""

    offered = Map(Request, to=Int)
    """Eager mode: how many positions of the request were offered."""

    met = Map(Hash, to=Bool)
    """Ghost: the hashes that the host had, has or was offered when it had no room (O9)."""

    refused = Tally()
    """Offers that met a host without a block to take (O9)."""

    # -------------------------------------------------------------------------------- counts

    host_usable = Count(HostBlock, where=lambda _, c: c != none)
    """All host blocks."""

    host_referenced = Count(HostBlock, where=lambda m, c: m.host_ref_cnt[c] > 0)
    """Host blocks that somebody holds."""

    stores_from = Count(HostBlock, by=Block, where=lambda m, c, b: m.source[c] == b)
    """The stores that read a block."""

    stores = Count(HostBlock, where=lambda m, c: m.source[c] != none)
    """All stores in flight."""

    loads_from = Count(Block, by=HostBlock, where=lambda m, b, c: m.origin[b] == c)
    """The loads that read a host block."""

    loads = Count(Block, where=lambda m, b: m.origin[b] != none)
    """All loads in flight."""

    pins_on = Count((Request, Position), by=HostBlock, where=lambda m, r, i, c: m.pins[r, i] == c)
    """The lookups that hold a host block."""

    all_pins = Count((Request, Position), where=lambda m, r, i: m.pins[r, i] != none)
    """Everything that lookups hold on the host."""

    # -------------------------------------------------------------------------------- words

    def _is_computed(self, r: Request) -> Bool:
        """No scheduled step writes a block of the request any more."""
        return forall(
            Position,
            Block,
            lambda i, b: implies(self.table[r, i] == b, ~self.computing[b]),
        )

    def _is_worth_storing(self, b: Block, h: Hash) -> Bool:
        """A full block that can be found and has not been stored."""
        is_full = forall(Slot, lambda s: self.kv[h, s] != none)
        return self.hashes[b, h] & is_full & ~self.computing[b] & ~self._is_stored(b, h)

    def _is_stored(self, b: Block, h: Hash) -> Bool:
        """The hash is on the host, or this block is on its way there (O3)."""
        on_its_way = exists(HostBlock, lambda c: (self.source[c] == b) & (self.named[c] == h))
        return ~self.host_cached[h].is_empty() | on_its_way

    def _asked(self, r: Request) -> Int:
        """Where a lookup ends at the latest: before the last token, whatever there is behind it (O6, P14)."""
        return self.limit[r]
