"""The invariants of Mirror (machine M), and what must be reachable."""

from __future__ import annotations

from ....machine import Bool, all_of, exists, implies, invariant, none, sometimes
from ...pool import Block, Hash, Position, Request, Slot
from .actions import MirrorActions

__all__ = ["MirrorInvariants"]


class MirrorInvariants(MirrorActions, abstract=True):
    """What always holds of the host."""

    # -------------------------------------------------------------------------------- invariants

    @invariant("M3")
    def the_host_holds_no_more_than_it_can(self) -> Bool:
        """Used <= capacity."""
        return self.host.size <= self.capacity.value

    @invariant("M3, P6")
    def a_host_block_is_what_its_hash_names(self, h: Hash, s: Slot) -> Bool:
        """What a reload will bring back is what the hash says, slot by slot."""
        return implies(self.host.has(h) & (self.kv[h, s] != none), self.kept[h, s] == self.kv[h, s])

    @invariant("M2, P12")
    def a_host_block_was_reported(self, h: Hash, p: Hash) -> Bool:
        """What is on the host was once on the device, and listeners know of it and of what it builds upon."""
        return all_of(
            implies(self.host.has(h), self.reported[h]),
            implies(self.reported[h] & (self.parent[h] == p), self.reported[p]),
        )

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("M2")
    def a_hash_is_on_the_host_only(self, h: Hash) -> Bool:
        """The device has lost it, the host has not."""
        return self.host.has(h) & self.cached[h].is_empty()

    @sometimes("M6")
    def a_prefix_has_a_gap(self, r: Request, i: Position, j: Position) -> Bool:
        """The device has a later block of a prompt, free, and the host an earlier one."""
        return all_of(
            self.running[r] & (self.length[r] == 0) & (i < j) & (j < self.limit[r]),
            self.host.has(self.prompt[r, i]) & self.cached[self.prompt[r, i]].is_empty(),
            exists(Block, lambda b: self.hashes[b, self.prompt[r, j]] & (self.ref_cnt[b] == 0)),
        )
