"""Stores that wait until there is nothing else to do (docs/findings.md, 7)."""

from __future__ import annotations

from ....machine import (
    Bool,
    Count,
    Int,
    Machine,
    Map,
    Param,
    Promise,
    Sort,
    action,
    assume,
    eventually,
    exists,
    invariant,
    promise,
    steps,
)

__all__ = ["LazyStores", "LazyStoresOfAll"]


class Block(Sort):
    """A block of KV memory whose content has a hash."""


class LazyStores(Machine):
    """Free blocks that can still be found are stored on the host, while the engine has nothing else to do.

    What is still to be found on the device goes last: a store drives out only what is not.
    """

    capacity = Param(to=Int)
    """The blocks of the host."""

    cached = Map(Block, to=Bool)
    """It can be found on the device, and is within reach."""

    stored = Map(Block, to=Bool)
    """It can be found on the host."""

    taken = Count(Block, where=lambda m, b: m.stored[b])
    """The host's blocks that are in use."""

    missing = Count(Block, where=lambda m, b: m.cached[b] & ~m.stored[b])
    """What there is to be stored."""

    @assume("M3")
    def there_is_a_host(self) -> Bool:
        """With a block at least."""
        return self.capacity.value >= 1

    @action("P5")
    def compute(self, b: Block) -> None:
        """A request leaves a block that can be found."""
        self.require(~self.cached[b])
        self.cached[b] = True

    @action("P7")
    def reuse(self, b: Block) -> None:
        """A block is taken for something else."""
        self.require(self.cached[b])
        self.cached[b] = False

    @action("O4")
    def store(self, b: Block) -> None:
        """A block is stored where the host has room."""
        self.require(self.cached[b] & ~self.stored[b])
        self.require(self.taken.value < self.capacity.value)
        self.stored[b] = True

    @action("O4, O12")
    def replace(self, b: Block, old: Block) -> None:
        """A block is stored in the place of another one, where the host is full."""
        self.require(self.cached[b] & ~self.stored[b] & self.stored[old])
        self.require(self.taken.value >= self.capacity.value)
        self.require(self._may_go(old))
        self.stored[old] = False
        self.stored[b] = True

    def _may_go(self, old: Block) -> Bool:
        return ~self.cached[old]

    @invariant("M3")
    def the_host_is_not_overfull(self) -> Bool:
        """It holds no more than it can."""
        return self.taken.value <= self.capacity.value

    @eventually("L2")
    def an_idle_engine_rests(self) -> Promise:
        """With no request left, there is some day nothing more to copy."""
        can_go = exists(Block, lambda old: self.stored[old] & self._may_go(old))
        goes_on = (self.missing.value > 0) & ((self.taken.value < self.capacity.value) | can_go)
        return promise(
            goal=~goes_on,
            fair=[steps(self.store, Block), steps(self.replace, Block, Block)],
            only=[steps(self.compute, Block, where=lambda b: self.cached[b]), steps(self.reuse, Block)],
            measure=[self.missing.value],
        )


class LazyStoresOfAll(LazyStores):
    """As vLLM 0.30.0 to 0.33.0: whatever is on the host may be driven out, also what will be stored next."""

    def _may_go(self, old: Block) -> Bool:  # noqa: ARG002
        return self.capacity.value >= 1
