"""The reference implementation as a target for machine M, for machine D, and for both together."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar

from ...checkers.target import NONE, UNKNOWN, Answer, Args, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.payload import Payload
from ...refimpl.pool.block_pool import BlockPool
from ...refimpl.pool.manager import KVCacheManager, ManagerSnapshot
from ...refimpl.pool.pinned_pool import PinnedPool, PinnedSnapshot
from ...refimpl.tiers.host_tier import HostTier
from ...refimpl.tiers.mirror import MirrorManager, MirrorSnapshot
from ..instances import Instance
from ..offload.target import OffloadTarget
from ..pool.calls_target import CallsTarget
from ..pool.strays import NOBODY
from ..pool.target import PoolTarget, walked
from ..strays import Stray

__all__ = ["TARGETS", "MirrorTarget", "PinnedTarget", "TieredTarget"]


class MirrorTarget(PoolTarget):
    """A `MirrorManager` with real payload on both tiers.

    What the host keeps for a hash is what stands in the bytes of its slot. What is measured is compared too: the
    latency that each hit leaves to be taken, and the manager's own counters.
    """

    level = "mirror"
    fields: ClassVar[tuple[str, ...]] = (
        *PoolTarget.fields,
        "filed",
        "host",
        "kept",
        "counted",
        "queries",
        "hits",
        "reloaded",
        "latency",
        "mirrored",
        "dropped",
    )
    kept_for: ClassVar = {"kept": "host"}
    # Who wrote a block's tokens is the caller's business; what others may find there is the implementation's.
    unjudged: ClassVar = {**PoolTarget.unjudged, "write": frozenset({"filed"})}
    weights: ClassVar = {**PoolTarget.weights, "hit": 3, "mirror": 3}

    manager_kind: type[KVCacheManager] = MirrorManager
    host_kind: type[HostTier] = HostTier
    """The host tier that is driven."""

    manager: MirrorManager

    def __init__(self, setting: Instance) -> None:
        """A fresh manager for an instance, with an empty host tier."""
        super().__init__(setting)
        self._latency = 0

    def _manager_options(self) -> dict[str, Any]:
        """A reload takes base and transfer, rounded up; together they are the instance's cost."""
        instance = self.instance
        capacity, cost = instance.scope.params["capacity"], instance.scope.params["cost"]
        transfer = (cost + 1) // 2
        return {
            **super()._manager_options(),
            "host": self.host_kind(capacity, payload=self._payload(capacity)),
            "base_latency": cost - transfer,
            "bandwidth": Fraction(2 * instance.block_tokens, 2 * transfer - 1),
        }

    @property
    def _host(self) -> Payload:
        assert self.manager.host.payload is not None
        return self.manager.host.payload

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call that the action is, and take the time that it cost."""
        answer = super().apply(action, args)
        self._latency += self.manager.take_latency()
        return answer

    def _mirror(self, r: int) -> None:
        self.manager.mirror(r)

    def _stray_calls(self) -> Iterator[Stray]:
        yield from super()._stray_calls()
        host = self.manager.host
        yield self.manager.mirror, (NOBODY,)
        yield host.slot, (b"",)
        yield host.touch, (b"",)
        for key in self.manager.snapshot().host:
            yield host.store, (key,)

    def _fields_of(self, snapshot: ManagerSnapshot) -> Fields:
        assert isinstance(snapshot, MirrorSnapshot)
        _, requests, positions, hashes = self._sizes
        filed = [NONE] * (requests * positions)
        for r, keys in snapshot.filed.items():
            assert isinstance(r, int)
            filed[r * positions : r * positions + len(keys)] = [
                NONE if key is None else self._hash_of.get(key, UNKNOWN) for key in keys
            ]
        host = self.manager.host
        contents, slots = self._decoder.decode(self._host), self.instance.block_tokens
        kept = [NONE] * (hashes * slots)
        for key in snapshot.host:
            h, at = self._hash_of.get(key), host.slot(key) * slots
            if h is not None:
                kept[h * slots : (h + 1) * slots] = contents[at : at + slots]
        return {
            **super()._fields_of(snapshot),
            "filed": filed,
            "host": walked([self._hash_of.get(key, UNKNOWN) for key in snapshot.host], len(host)),
            "kept": kept,
            "counted": [r in snapshot.counted for r in range(requests)],
            "queries": [snapshot.queries],
            "hits": [snapshot.hits],
            "reloaded": [snapshot.reloaded],
            "latency": [self._latency],
            "mirrored": [snapshot.mirrored],
            "dropped": [snapshot.evicted],
        }


class PinnedTarget(PoolTarget):
    """A manager over a `PinnedPool`.

    That a step is scheduled and processed (D7) is the engine's to know: the manager is not told, and what a step still
    reads is not given up by whoever calls it. So those two actions do nothing here, and what they forbid is no matter
    of the implementation.
    """

    level = "pin"
    fields: ClassVar[tuple[str, ...]] = ("marked", *PoolTarget.fields, "pinned")
    unjudged: ClassVar = {
        **PoolTarget.unjudged,
        "schedule": frozenset({"running", "length", "table"}),
    }
    ignored: ClassVar = {
        **PoolTarget.ignored,
        "demote": frozenset({"1 <= n"}),
        "open_gate": frozenset({"1 <= n"}),
        "drop": frozenset({"1 <= m"}),
    }
    weights: ClassVar = {**PoolTarget.weights, "drop": 4, "process": 2}

    pool_kind: type[BlockPool] = PinnedPool

    def _pool_options(self) -> dict[str, Any]:
        return {**super()._pool_options(), "pinning": self.instance.scope.params["pinning"]}

    def _demote(self, n: int) -> object:
        pool = self.manager.pool
        assert isinstance(pool, PinnedPool)
        before = pool.num_pinned
        count = pool.demote(n)
        return None if count == before - pool.num_pinned else f"{count}, but {before - pool.num_pinned} were demoted"

    def _open_gate(self, n: int) -> None:
        if not self.manager.pool.make_room(n):
            raise RefusedError("free and pinned blocks are too few")

    def _drop(self, r: int, m: int) -> object:
        params = self.instance.scope.params
        before = self.manager.table(r) if self.manager.is_inside(r) else ()
        dropped = self.manager.drop(r, m, window_blocks=params["window"], min_drop=params["min_drop"])
        gone = [b for b, now in zip(before, self.manager.table(r), strict=True) if b != now][::-1]
        return None if dropped == gone else f"{dropped}, but the table lost {gone}"

    def _stray_calls(self) -> Iterator[Stray]:
        yield from super()._stray_calls()
        pool = self.manager.pool
        assert isinstance(pool, PinnedPool)
        yield pool.demote, (-1,)
        held = [b for b, count in enumerate(pool.snapshot().ref_cnt) if count and pool.has_keys(b)]
        yield pool.mark, ([*held, next((b for b in range(pool.num_blocks) if not pool.ref_cnt(b)), -1)],)

    def _schedule(self, r: int, i: int) -> None:
        """The manager is not told."""

    def _process(self, r: int, i: int) -> None:
        """The manager is not told."""

    def _fields_of(self, snapshot: ManagerSnapshot) -> Fields:
        pool = snapshot.pool
        assert isinstance(pool, PinnedSnapshot)
        return {
            **super()._fields_of(snapshot),
            "marked": list(pool.marked),
            "pinned": walked(pool.pinned, pool.num_pinned),
        }

    def _spelled(self) -> Mapping[str, Callable[..., str]]:
        params = self.instance.scope.params
        options = f"window_blocks={params['window']}, min_drop={params['min_drop']}"
        return {
            **super()._spelled(),
            "demote": lambda n: f"manager.pool.demote({n})",
            "open_gate": lambda n: f"manager.pool.make_room({n})",
            "drop": lambda r, m: f"manager.drop({r}, {m}, {options})",
            "schedule": lambda r, i: f"# a step is scheduled that reads request {r} from position {i} on",
            "process": lambda r, i: f"# the step that reads request {r} from position {i} on is processed",
        }


class TieredTarget(MirrorTarget, PinnedTarget):
    """A `MirrorManager` over a `PinnedPool`."""

    level = "tiered"
    fields: ClassVar[tuple[str, ...]] = (*PinnedTarget.fields, *MirrorTarget.fields[len(PoolTarget.fields) :])
    unjudged: ClassVar = {**MirrorTarget.unjudged, **PinnedTarget.unjudged}
    ignored: ClassVar = PinnedTarget.ignored
    weights: ClassVar = {**PinnedTarget.weights, **MirrorTarget.weights}


TARGETS: Mapping[str, type[PoolTarget]] = {
    t.level: t for t in (PoolTarget, MirrorTarget, PinnedTarget, TieredTarget, OffloadTarget, CallsTarget)
}
"""The levels of the reference implementation; each has the name of the machine that it is compared with."""
