"""An independent account of the host tier of a target: the rules M1 to M8 as far as a replay can see them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from ..judge.recency import Recency
from .requests import BLOCK_TOKENS
from .target import HostCounts
from .violation import Violation


@dataclass(slots=True)
class HostLedger:
    """What must be true of a host tier of ``capacity`` blocks after the steps that it was told of."""

    capacity: int
    base_latency: int
    bandwidth: Fraction
    hits: int = 0
    """Blocks that were found on either tier, each counted once (M8)."""
    reloads: int = 0
    """Those of them that came back from the host."""
    stored: int = 0
    """Blocks that mirroring brought to the host."""
    _kept: Recency[int] = field(init=False)
    """The prefixes whose last block is on the host."""

    def __post_init__(self) -> None:
        self._kept = Recency(self.capacity)

    @property
    def evicted(self) -> int:
        """Blocks that the host gave up for others."""
        return self.stored - len(self._kept)

    def __contains__(self, prefix: int) -> bool:
        """Tell whether the block that ends a prefix is on the host."""
        return prefix in self._kept

    def reloaded(self, prefixes: Sequence[int], *, hits: int) -> None:
        """Take into the account a lookup that found ``hits`` blocks, of which these came from the host (M5)."""
        for prefix in prefixes:
            self._kept.use(prefix)
        self.reloads += len(prefixes)
        self.hits += hits

    def mirrored(self, prefixes: Iterable[int]) -> None:
        """Take into the account that the full blocks of a request were brought to the host, in order (M2, M3)."""
        for prefix in prefixes:
            self.stored += self._kept.use(prefix)

    def check_counts(self, counts: HostCounts, rule: str) -> None:
        """Judge the counters after a step; ``rule`` says what the step may do to the host."""
        if counts.mirrored - counts.evicted > self.capacity:
            raise Violation("M3", f"{counts.mirrored - counts.evicted} blocks are on a host of {self.capacity}")
        if (counts.mirrored, counts.evicted) != (self.stored, self.evicted):
            raise Violation(
                rule,
                f"{counts.mirrored} blocks were stored on the host and {counts.evicted} evicted, where it must be "
                f"{self.stored} and {self.evicted}",
            )
        if (counts.hits, counts.reloaded) != (self.hits, self.reloads):
            raise Violation(
                "M8",
                f"{counts.hits} hits with {counts.reloaded} reloads are counted, and there were {self.hits} with "
                f"{self.reloads}",
            )
        latency = self.reloads * (self.base_latency + ceil(BLOCK_TOKENS / self.bandwidth))
        if counts.latency != latency:
            raise Violation("M7", f"{self.reloads} reloads cost {counts.latency} time units instead of {latency}")

    def check_order(self, prefixes: Sequence[int], rule: str) -> None:
        """Judge what is on the host and in which order it will go (M2, M3)."""
        if len(prefixes) > self.capacity:
            raise Violation("M3", f"{len(prefixes)} blocks are on a host of {self.capacity}")
        if list(prefixes) != list(self._kept):
            raise Violation(rule, "the host keeps other blocks than it must, or in another order")
