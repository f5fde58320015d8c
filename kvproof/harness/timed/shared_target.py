"""The reference implementation as a target for the machine of a tier that workers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import inf
from typing import ClassVar, Self

from ...checkers.target import NONE, UNKNOWN, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.timed.links import Completion
from ...refimpl.timed.shared_tier import SharedTier
from ..forking import forked
from ..strays import Stray
from .instances import TimedInstance
from .links_target import Clock, LinksTarget, chosen

__all__ = ["SharedTarget"]


class SharedTarget(LinksTarget):
    """`SharedTier` of the reference implementation. Its link is its own: nobody else starts anything there."""

    level = "shared"
    owner: ClassVar[str] = "tier"
    fields: ClassVar[tuple[str, ...]] = (*LinksTarget.fields, "clock", "stores", "present")
    unjudged: ClassVar[Mapping[str, frozenset[str]]] = {"store": frozenset({"issued"})}
    lookups: ClassVar[frozenset[str]] = frozenset({"look"})
    weights: ClassVar[Mapping[str, int]] = {
        "work": 2,
        "store": 4,
        "advance": 3,
        "advance_to_deadline": 6,
        "complete": 4,
    }
    essential: ClassVar[frozenset[str]] = frozenset({"work", "store", "advance", "advance_to_deadline", "complete"})

    tier_kind: type[SharedTier[Fraction]] = SharedTier
    """The tier that is driven."""

    def __init__(self, setting: TimedInstance) -> None:
        """An empty tier."""
        super().__init__(setting)
        self._keys = setting.keys
        self._hash_of = {key: h for h, key in enumerate(self._keys)}
        self.tier = self.tier_kind(self.links, setting.scope.sizes["Worker"], block_bytes=self._bytes[0])
        self._landed: dict[int, bytes] = {}

    @property
    def clock(self) -> Clock:
        """The tier moves the time."""
        return self.tier

    # ------------------------------------------------------------------------------------------------ driving

    def _start(self, _t: int, _x: int, _m: int) -> str | None:
        raise RefusedError("nobody else may use the link of a shared tier")

    def _work(self, w: int, m: int) -> None:
        self.tier.work(w, self._time[m])

    def _store(self, w: int, h: int, t: int, _x: int) -> str | None:
        transfer = self.tier.store(w, self._keys[h])
        if transfer is None:
            raise RefusedError("it is there, or on its way")
        worker, _ = self.tier.snapshot().stores[transfer]
        return chosen(t, transfer) or chosen(w, worker)

    def _look(self, w: int, h: int) -> bool:
        return self.tier.look(w, self._keys[h])

    def _complete_first(self) -> Completion[Fraction]:
        landed = self.tier.complete()
        self._landed[landed.completion.id] = landed.key
        return landed.completion

    def _stray_calls(self) -> Iterator[Stray]:
        yield from super()._stray_calls()
        tier = self.tier
        for worker in (-1, self.scope.sizes["Worker"]):
            yield tier.clock, (worker,)
            yield tier.work, (worker, tier.now)
            yield tier.store, (worker, b"a key that nothing has")
            yield tier.look, (worker, b"a key that nothing has")
            yield tier.catch_up, (worker,)
        yield tier.work, (0, inf)

    # ------------------------------------------------------------------------------------------------ observing

    def flat(self) -> Fields:
        """The tier's own snapshot, and what was heard of the past."""
        snapshot = self.tier.snapshot()
        stores = self._landed | {name: key for name, (_, key) in snapshot.stores.items()}
        transfers = range(self.scope.sizes["Transfer"])
        return {
            **self._fields_of(snapshot.links),
            "clock": list(snapshot.clocks),
            "stores": [self._hash_of.get(stores[t], UNKNOWN) if t in stores else NONE for t in transfers],
            "present": [key in snapshot.landed for key in self._keys],
        }

    # ------------------------------------------------------------------------------------------------ the rest

    def fork(self) -> Self:
        """A second run in the same state."""
        other = super().fork()
        other._landed = dict(self._landed)
        return other

    def _fork_implementation(self) -> None:
        self.links, self.tier = forked((self.links, self.tier))

    def _spelled(self) -> Mapping[str, Callable[..., str]]:
        time = self._time
        return {
            **super()._spelled(),
            "work": lambda w, m: f"tier.work({w}, until={time[m]})",
            "store": lambda w, h, t, _x: f"tier.store({w}, key={h})  # transfer {t}",
            "look": lambda w, h: f"tier.look({w}, key={h})",
        }
