"""The reference implementation as a target for the machine of tiers in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar, Self

from ...checkers.target import NONE, UNKNOWN, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.timed.links import Completion
from ...refimpl.timed.records import Stored, TierEvent, TiersSnapshot
from ...refimpl.timed.tiers import TimedTiers
from ..forking import forked
from ..pool.target import walked
from ..strays import Stray
from .instances import TimedInstance
from .links_target import Clock, LinksTarget, chosen

__all__ = ["TimedTarget"]


class TimedTarget(LinksTarget):
    """`TimedTiers` of the reference implementation, over links on which others have transfers too.

    Queries are part of what is observed: they are made after each step, and must not change what comes after.
    """

    level = "timed"
    owner: ClassVar[str] = "tiers"
    fields: ClassVar[tuple[str, ...]] = (
        *LinksTarget.fields,
        "free",
        "used",
        "idle",
        "gathered",
        "cargo",
        "carrier",
        "holds",
        "found",
        "on_host",
        "host",
        "fetch",
        "host_announced",
        "waits",
        "serves",
        "promotions",
    )
    unjudged: ClassVar[Mapping[str, frozenset[str]]] = {
        **LinksTarget.unjudged,
        "ship": frozenset({"issued"}),
        "swap_in": frozenset({"issued"}),
    }
    weights: ClassVar[Mapping[str, int]] = {
        "allocate": 3,
        "register": 6,
        "release": 4,
        "evict": 4,
        "ship": 4,
        "advance_to_deadline": 3,
        "complete": 6,
        "swap_in": 20,
    }
    # The way to the host and back is long: a run that lacks one of its steps ends before it.
    essential: ClassVar[frozenset[str]] = frozenset(
        {"allocate", "register", "release", "evict", "ship", "advance_to_deadline", "complete", "swap_in"}
    )

    tiers_kind: type[TimedTiers[Fraction]] = TimedTiers
    """The tiers that are driven."""

    def __init__(self, setting: TimedInstance) -> None:
        """A fresh worker, with an empty host tier."""
        super().__init__(setting)
        params = setting.scope.params
        self._keys = setting.keys
        self._hash_of = {key: h for h, key in enumerate(self._keys)}
        self._prefixes = [[self._keys[h] for h in row] for row in setting.prefixes]
        self.tiers = self.tiers_kind(
            self.links,
            slots=setting.scope.sizes["Block"],
            host_blocks=params["capacity"],
            batch=params["batch"],
            block_bytes=setting.numbers("block_bytes")[0],
            down=params["down"],
            up=params["up"],
        )
        self._promoted: list[tuple[int, int]] = []
        self._announced: Mapping[str, frozenset[bytes]] = {"device": frozenset(), "host": frozenset()}

    @property
    def clock(self) -> Clock:
        """The tiers move the time."""
        return self.tiers

    # ------------------------------------------------------------------------------------------------ driving

    def _heard(self) -> tuple[tuple[Any, ...], ...]:
        heard = [self._hear(event) for event in self.tiers.take_events()]
        return tuple([event for event in heard if event])

    def _hear(self, event: TierEvent) -> tuple[Any, ...]:
        """An event in the machine's words, which has those of the host only; on the device what is no news is told."""
        believed, h = self._announced[event.tier], self._hash_of.get(event.key, UNKNOWN)
        is_stored = isinstance(event, Stored)
        is_news = is_stored != (event.key in believed)
        self._announced = {
            **self._announced,
            event.tier: believed | {event.key} if is_stored else believed - {event.key},
        }
        if event.tier == "device" and is_news:
            return ()
        return f"{event.tier}_{'stored' if is_stored else 'removed'}", h

    def _allocate(self) -> int:
        slot = self.tiers.allocate()
        if slot is None:
            raise RefusedError("no slot is free")
        return slot

    def _register(self, b: int, h: int) -> None:
        self.tiers.register(b, self._keys[h])

    def _release(self, b: int) -> None:
        self.tiers.release(b)

    def _touch(self, b: int) -> None:
        self.tiers.touch(b)

    def _evict(self, b: int) -> str | None:
        slot = self.tiers.evict()
        if slot is None:
            raise RefusedError("no slot is idle")
        return chosen(b, slot)

    def _try_evict(self, b: int) -> str | None:
        idle = self.tiers.snapshot().idle
        if idle and idle[0] != b:
            raise RefusedError("the implementation evicts another")
        return self._evict(b)

    def _ship(self, t: int) -> str | None:
        transfer = self.tiers.ship()
        if transfer is None:
            raise RefusedError("the batch is empty")
        return chosen(t, transfer)

    def _swap_in(self, r: int, t: int, _p: int, _e: int) -> str | None:
        transfer = self.tiers.swap_in(r, self._prefixes[r])
        if transfer is None:
            raise RefusedError("there is nothing to bring, or nowhere to put it")
        return chosen(t, transfer)

    def _try_swap_in(self, r: int, t: int, p: int, e: int) -> str | None:
        device, host = self.tiers.lookup(self._prefixes[r])
        count = min(host, self.tiers.num_free)
        if count and (device, device + count) != (p, e):
            raise RefusedError("the implementation brings something else")
        return self._swap_in(r, t, p, e)

    def _complete_first(self) -> Completion[Fraction]:
        landed = self.tiers.complete()
        if landed.promoted is not None:
            assert isinstance(landed.promoted, int)
            self._promoted.append((landed.completion.id, landed.promoted))
        return landed.completion

    def _stray_calls(self) -> Iterator[Stray]:
        yield from super()._stray_calls()
        tiers, slots = self.tiers, self.scope.sizes["Block"]
        yield tiers.allocate_many, (-1,)
        for slot in (-1, slots):
            yield tiers.register, (slot, b"a key that nothing has")
            yield tiers.release, (slot,)
            yield tiers.touch, (slot,)
        for key in filter(tiers.on_host, self._keys):
            yield tiers.adopt, (key,)

    # ------------------------------------------------------------------------------------------------ observing

    def flat(self) -> Fields:
        """The tiers' own snapshot and their answers to queries, the listener's view, and what was heard of the past."""
        snapshot, tiers = self.tiers.snapshot(), self.tiers
        blocks, transfers, requests = (range(self.scope.sizes[s]) for s in ("Block", "Transfer", "Request"))
        down = {name: [*cargo] for name, cargo in snapshot.offloads.items()}
        up = {name: [*cargo] for name, (_, cargo) in snapshot.swap_ins.items()}
        carrier = {b: name for name, cargo in (down | up).items() for b, _ in cargo}
        evicted = [*snapshot.gathered, *(entry for cargo in down.values() for entry in cargo)]
        holds, fetch = snapshot.keys | dict(evicted), dict(entry for cargo in up.values() for entry in cargo)
        serves = {name: request for name, (request, _) in snapshot.swap_ins.items()}
        waits = {request: name for name, request in serves.items()}
        shipped = sum(map(len, down.values()))
        return {
            **self._fields_of(snapshot.links),
            "free": walked(snapshot.free, tiers.num_free),
            "used": [b in snapshot.used for b in blocks],
            "idle": list(snapshot.idle),
            "gathered": walked([b for b, _ in snapshot.gathered], tiers.num_leaving - shipped),
            "cargo": [[b for b, _ in (down | up).get(t, ())] for t in transfers],
            "carrier": [carrier.get(b, NONE) for b in blocks],
            "holds": [self._hash_in(holds, b) for b in blocks],
            "found": [self._found(key, snapshot) for key in self._keys],
            "on_host": [tiers.on_host(key) for key in self._keys],
            "host": self._host(snapshot),
            "fetch": [self._hash_in(fetch, b) for b in blocks],
            "host_announced": [key in self._announced["host"] for key in self._keys],
            "waits": [waits.get(r, NONE) for r in requests],
            "serves": [(dict(self._promoted) | serves).get(t, NONE) for t in transfers],
            "promotions": [len(self._promoted)],
        }

    def _hash_in(self, keys: Mapping[int, bytes], b: int) -> int:
        return self._hash_of.get(keys[b], UNKNOWN) if b in keys else NONE

    def _found(self, key: bytes, snapshot: TiersSnapshot[Fraction]) -> int:
        """Where a key is found, and where the listener to the device's events believes it to be too."""
        slot = self.tiers.find(key)
        is_sound = slot == snapshot.found.get(key) and (slot is not None) == (key in self._announced["device"])
        return (NONE if slot is None else slot) if is_sound else UNKNOWN

    def _host(self, snapshot: TiersSnapshot[Fraction]) -> list[Any]:
        """What nobody reads, and who is counted as reading where nobody is."""
        order = [self._hash_of.get(key, UNKNOWN) for key in snapshot.host]
        read = Counter(key for _, cargo in snapshot.swap_ins.values() for _, key in cargo)
        return order if read == snapshot.reading else [*order, f"it counts {snapshot.reading}"]

    # ------------------------------------------------------------------------------------------------ the rest

    def fork(self) -> Self:
        """A second run in the same state."""
        other = super().fork()
        other._promoted = self._promoted[:]
        return other

    def _fork_implementation(self) -> None:
        self.links, self.tiers = forked((self.links, self.tiers))

    def _spelled(self) -> Mapping[str, Callable[..., str]]:
        prefixes = self.instance.prefixes
        return {
            **super()._spelled(),
            "register": lambda b, h: f"tiers.register({b}, key={h})",
            "evict": lambda b: f"tiers.evict()  # slot {b}",
            "ship": lambda t: f"tiers.ship()  # transfer {t}",
            "swap_in": lambda r, t, p, e: f"tiers.swap_in({r}, keys={prefixes[r]})  # transfer {t}: {p} to {e}",
        }
