"""The model of the baselines (Alloc.tla) as a machine: its counts of states are known from TLC, Spin and plain Python.

A pool of blocks, requests that hold them, at most one hash a block. `ref` is redundant, but part of the baseline's
state.
"""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Count,
    Int,
    Machine,
    Map,
    Model,
    Param,
    Queue,
    Sort,
    action,
    forall,
    iff,
    implies,
    invariant,
    none,
    optional,
    otherwise,
    sometimes,
    when,
)
from kvproof.machine.scope import Scope


class Block(Sort):
    pass


class Request(Sort):
    pass


class Hash(Sort):
    pass


class Alloc(Machine):
    """Blocks are taken from the head; freed blocks without a hash join the head, the others the tail."""

    number = Param(Block, to=Int)
    free = Queue(Block, init=True)
    ref = Map(Block, to=Int)
    hash = Map(Block, to=optional(Hash))
    map = Map(Hash, Block, to=Bool)
    holds = Map(Request, Block, to=Bool)

    referenced = Count(Block, where=lambda m, b: m.ref[b] > 0)
    everything = Count(Block, where=lambda m, b: b == b)
    holders = Count(Request, by=Block, where=lambda m, r, b: m.holds[r, b])

    @action("alloc")
    def alloc(self, r: Request) -> None:
        self.require(~self.free.is_empty())
        b = self.free.head()
        self._take(b)
        self.ref[b] = self.ref[b] + 1
        self._unmap(b)
        self.holds[r, b] = True

    def _take(self, b: Block) -> None:
        self.free.remove(b)

    @action("cache")
    def cache(self, r: Request, b: Block, h: Hash) -> None:
        self.require(self.holds[r, b])
        self.require(self.hash[b] == none)
        self.hash[b] = h
        self.map[h, b] = True

    @action("touch")
    def touch(self, r: Request, h: Hash, b: Block) -> None:
        """Hold the least block with the hash."""
        self.require(self.map[h, b])
        self.require(forall(Block, lambda c: implies(self.map[h, c], self.number[b] <= self.number[c])))
        self.require(~self.holds[r, b])
        with when(self.ref[b] == 0):
            self.free.remove(b)
        self.ref[b] = self.ref[b] + 1
        self.holds[r, b] = True

    @action("free")
    def free_one(self, r: Request, b: Block) -> None:
        self.require(self.holds[r, b])
        left = self.ref[b] - 1
        self.ref[b] = left
        self.holds[r, b] = False
        with when(left == 0):
            has_no_hash = self.hash[b] == none
            with when(has_no_hash):
                self.free.push_front(b)
            with otherwise():
                self.free.push_back(b)

    @action("evict")
    def evict(self, b: Block) -> None:
        self.require(self.hash[b] != none)
        self._unmap(b)

    def _unmap(self, b: Block) -> None:
        h = self.hash[b]
        with when(h != none):
            self.map[h, b] = False
        self.hash[b] = none

    @invariant("Conservation")
    def conservation(self) -> Bool:
        return self.free.size + self.referenced.value == self.everything.value

    @invariant("RefMatches")
    def references_are_holders(self, b: Block) -> Bool:
        return self.ref[b] == self.holders[b]

    @invariant("FreeIffZero")
    def free_exactly_when_unreferenced(self, b: Block) -> Bool:
        return iff(self.free.has(b), self.ref[b] == 0)

    @invariant("HashSound")
    def the_map_is_sound(self, b: Block, h: Hash) -> Bool:
        return iff(self.map[h, b], self.hash[b] == h)

    @sometimes("sharing")
    def shared(self, b: Block) -> Bool:
        return self.ref[b] >= 2


class AllocBug(Alloc):
    """AllocBug.tla: the block that is taken does not leave the queue."""

    def _take(self, b: Block) -> None:
        pass


def scope(machine: type[Machine], blocks: int, requests: int, hashes: int) -> Scope:
    """The constants N, R and H of the baseline."""
    sizes = {"Block": blocks, "Request": requests, "Hash": hashes, "Int": requests}
    return Scope(Model.of(machine), sizes, {"number": list(range(blocks))})
