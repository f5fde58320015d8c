"""Tiers in virtual time with one thing wrong: first designs (the known faults S13 to S15), and systematic.

As in ``offload_mutants.py``. Each mutant stands with the instance in which it shows. Where the way there is long, it is
given; else every transition of that instance is tried.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

from kvproof.checkers.lockstep import Call
from kvproof.harness.levels import LEVELS
from kvproof.harness.timed.instances import TimedInstance
from kvproof.harness.timed.links_target import LinksTarget
from kvproof.harness.timed.shared_target import SharedTarget
from kvproof.harness.timed.target import TimedTarget
from kvproof.machine.scope import Scope
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.timed.links import LinkModel, _Link, check_time
from kvproof.refimpl.timed.records import Removed, Stored
from kvproof.refimpl.timed.shared_tier import SharedTier
from kvproof.refimpl.timed.tiers import TimedTiers

PACKED = {"Real": 12, "Int": 20}
"""For the explorer: all times and bytes of these instances are multiples of 1/12, and at most 20."""

Path = Sequence[Call]

Link = _Link[Fraction]
Links = LinkModel[Fraction]
Tiers = TimedTiers[Fraction]
Sharing = SharedTier[Fraction]


def do(action: str, *args: int) -> Call:
    """A step that is possible."""
    return Call(action, args)


def no(action: str, *args: int) -> Call:
    """One that must be refused."""
    return Call(action, args, probe=True)


def links(**more: Any) -> TimedInstance:
    """Three copies on two links: on one each takes 1 alone, of the others one takes none."""
    return _instance("links", {"Link": 2, "Transfer": 3, "Moment": 2}, _linked(3) | more)


def tiers(blocks: int = 2, hashes: int = 1, requests: int = 1, transfers: int = 2, **more: Any) -> TimedInstance:
    """Requests that all look for all hashes; a block takes 2 down and 1 up; there is room for one on the host."""
    prefix = [[*range(hashes), None]] * requests
    sizes = {"Link": 2, "Transfer": transfers, "Moment": 1, "Block": blocks, "Hash": hashes, "Request": requests}
    params = {"down": 0, "up": 1, "block_bytes": 2, "batch": 2, "capacity": 1, "prefix": prefix}
    plain = _linked(transfers) | {"bandwidth": [1, 2], "time": [1]}
    return _instance("timed", sizes | {"Position": hashes + 1}, plain | params | more)


def shared(**more: Any) -> TimedInstance:
    """Two workers and two blocks; a copy takes 3/2 alone."""
    sizes = {"Link": 1, "Transfer": 2, "Moment": 3, "Worker": 2, "Hash": 2}
    return _instance("shared", sizes, {"bandwidth": [2], "bytes": [3, 3], "time": [1, 2, 4]} | more)


def _linked(transfers: int) -> dict[str, Any]:
    return {"bandwidth": [2, 0], "bytes": [2, 1, 1, 2, 2, 2][:transfers], "time": [1, "1/2"]}


def _instance(level: str, sizes: dict[str, int], params: dict[str, Any]) -> TimedInstance:
    return TimedInstance(Scope(LEVELS[level].model, sizes | PACKED, params))


@dataclass(frozen=True)
class Mutant:
    """A broken target, and how it is noticed."""

    kind: type[LinksTarget]
    oracles: frozenset[str]
    instance: Callable[..., TimedInstance]
    more: dict[str, Any]
    path: Path


MUTANTS: dict[str, Mutant] = {}


def mutant(*oracles: str, path: Path = (), **more: Any) -> Callable[[type[LinksTarget]], type[LinksTarget]]:
    """Enter a mutant: what it is noticed by, where, and on which way."""

    def enter(kind: type[LinksTarget]) -> type[LinksTarget]:
        instance = {"links": links, "timed": tiers, "shared": shared}[kind.level]
        MUTANTS[kind.__name__] = Mutant(kind, frozenset(oracles), instance, more, path)
        return kind

    return enter


class _Mutant(LinksTarget):
    def preamble(self) -> str:
        # Not part of the package: a script finds it by its file.
        return (
            "import runpy\nfrom kvproof.harness.timed.instances import TimedInstance\n\n"
            f"mutants = runpy.run_path({__file__!r})\n"
            f"target = mutants[{type(self).__name__!r}](TimedInstance.load(setting))"
        )


# ---------------------------------------------------------------------------------------------------- links


class _Linking(Links):
    """Its links may be of the broken kinds beside it."""

    link_kind: Any = _Link

    def __init__(self, bandwidths, *, now):
        super().__init__(bandwidths, now=now)
        self._links = [self.link_kind(bandwidth, now) for bandwidth in bandwidths]


class _Shared(Link):
    """Gives each as if so many were active as its kind says."""

    share: Any

    def end_of_next(self):
        if not self.tags or not self.bandwidth:
            return super().end_of_next()
        return self.since + (self.tags[0][0] - self.base) * self.share() / self.bandwidth

    def received(self, now):
        if not self.tags:
            return super().received(now)
        return min(self.base + self.bandwidth * (now - self.since) / self.share(), self.tags[0][0])


class _FullSpeed(_Shared):
    def share(self):
        return 1


@mutant("now", "given", "refusal")
class MovesEachAtFullBandwidth(_Mutant):
    """S14: k transfers are as fast as one (G2)."""

    class links_kind(_Linking):
        link_kind = _FullSpeed


class _OldShare(_Shared):
    def start(self, transfer, size, now):
        self.base, self.since = self.received(now), now
        self.first = len(self.tags) + 1
        return super().start(transfer, size, now)

    def share(self):
        return self.first


@mutant("now", "given", "refusal")
class KeepsItsFirstShare(_Mutant):
    """Nobody gets faster when another is done (G2)."""

    class links_kind(_Linking):
        link_kind = _OldShare


@mutant("result")
class CountsIdsByLink(_Mutant):
    """S15: two links give one id to two transfers (G3)."""

    class links_kind(Links):
        def start(self, link, size, at=None):
            issued, self._issued = self._issued, self.active(link)
            try:
                return super().start(link, size, at)
            except RefusedError:
                self._issued = issued
                raise


@mutant("result", "completed")
class WakesAnother(_Mutant):
    """S15: what ends is told under the id of what began last (G3)."""

    class links_kind(Links):
        def complete(self):
            completion = super().complete()
            return dataclasses.replace(completion, id=max(self._transfers, default=completion.id))


@mutant("refusal")
class CompletesTheLatestFirst(_Mutant):
    """Ties go by the greatest id (G3)."""

    class links_kind(Links):
        def due(self):
            return max((due for link in self._links if (due := link.due()) is not None), default=None)


@mutant("now")
class RunsBackward(_Mutant):
    """Time moves to wherever it is sent (G3)."""

    class links_kind(Links):
        def move(self, to):
            check_time(to)
            if to < self._now:
                self._now = to
            super().move(to)


@mutant("begun")
class BackdatesAStart(_Mutant):
    """A transfer begins when it was to, even if that is past (G3)."""

    class links_kind(Links):
        def start(self, link, size, at=None):
            transfer = super().start(link, size, at)
            if at is not None:
                self._transfers[transfer] = dataclasses.replace(self._transfers[transfer], begun=at)
            return transfer


@mutant("refusal")
class StartsInTheFuture(_Mutant):
    """A start that is later than now is taken for one that is now (G3)."""

    class links_kind(Links):
        def start(self, link, size, at=None):
            return super().start(link, size)


@mutant("refusal", "now")
class JumpsOverDeadlines(_Mutant):
    """An interval is not split where a transfer ends (G2)."""

    class links_kind(Links):
        def move(self, to):
            check_time(to)
            if to > self._now:
                for link in self._links:
                    link.move(to)
                self._now = to


class _Proud(Link):
    def settle(self):
        base = self.base
        super().settle()
        self.base = max(base, self.base)


@mutant("given")
class RemembersWhenIdle(_Mutant):
    """What an idle link has given is not forgotten (G2)."""

    class links_kind(_Linking):
        link_kind = _Proud


@mutant("given")
class ForgetsTheOthers(_Mutant):
    """When one ends, the others on its link begin anew (G2)."""

    class links_kind(Links):
        def complete(self):
            completion = super().complete()
            self._links[completion.link].base = self._links[completion.link].zero
            return completion


class _Eager(Link):
    def settle(self):
        super().settle()
        while self.tags and self.tags[0][0] - self.base <= 1:
            heappush(self.ready, heappop(self.tags)[1])


@mutant("refusal")
class EndsAByteEarly(_Mutant):
    """What is almost done is done (G2)."""

    class links_kind(_Linking):
        link_kind = _Eager


class _Waiting(Link):
    def start(self, transfer, size, now):
        speed, self.bandwidth = self.bandwidth, self.bandwidth or Fraction(1)
        tag = super().start(transfer, size, now)
        self.bandwidth = speed
        return tag


@mutant("mark", "crash")
class NeverEndsWithoutABandwidth(_Mutant):
    """What has no bandwidth is not instantaneous (G2)."""

    class links_kind(_Linking):
        link_kind = _Waiting


# ---------------------------------------------------------------------------------------------------- tiers

AWAY: Path = [do("allocate"), do("register", 0, 0), do("release", 0), do("evict", 0)]
LANDED: Path = [*AWAY, do("ship", 0), do("advance_to_deadline", 0), do("complete", 0)]
UNDER_WAY_UP: Path = [*LANDED, do("swap_in", 0, 1, 0, 1)]


def computed(*blocks: tuple[int, int]) -> Path:
    """These blocks are computed with these hashes, and evicted in this order."""
    taken = [do("allocate")] * len(blocks)
    named = [step for b, h in blocks for step in (do("register", b, h), do("release", b))]
    return [*taken, *named, *(do("evict", b) for b, _ in blocks)]


def down(transfer: int) -> Path:
    """The open batch goes down in this transfer, which lands."""
    return [do("ship", transfer), do("advance_to_deadline", transfer), do("complete", transfer)]


class _Tiers(_Mutant, TimedTarget):
    pass


@mutant("free")
class FreesWhatIsStillCopied(_Tiers):
    """S13: a slot is free when its copy begins: capacity is inflated (G1)."""

    class tiers_kind(Tiers):
        def ship(self):
            slots = [slot for slot, _ in self._gathered]
            transfer = super().ship()
            self._free.append_n(slots)
            return transfer

        def _end_offload(self, cargo):
            self._free.remove_n([slot for slot, _ in cargo if slot in self._free])
            super()._end_offload(cargo)


@mutant("free")
class FreesWhatIsEvicted(_Tiers):
    """S13: a slot is free when it is evicted (G1)."""

    class tiers_kind(Tiers):
        def evict(self):
            slot = super().evict()
            if slot is not None and slot not in self._free:
                self._free.append(slot)
            return slot


@mutant("refusal")
class TakesWhatIsGathered(_Tiers):
    """When nothing is free, a slot of the open batch is handed out (G1)."""

    class tiers_kind(Tiers):
        def allocate(self):
            slot = super().allocate()
            if slot is None and self._gathered:
                slot, key = self._gathered.pop()
                self._leaving.remove(key)
                self._used.add(slot)
            return slot


@mutant("refusal", batch=1, hashes=2)
class GathersWithoutEnd(_Tiers):
    """S14: a batch is as large as it gets (G4)."""

    class tiers_kind(Tiers):
        def evict(self):
            batch, self.batch = self.batch, self.slots + 1
            try:
                return super().evict()
            finally:
                self.batch = batch


@mutant("issued", "result", path=[*computed((0, 0), (1, 1)), do("ship", 0)], hashes=2)
class ShipsOneByOne(_Tiers):
    """S14: each block of a batch is a transfer of its own (G4)."""

    class tiers_kind(Tiers):
        def ship(self):
            gathered, first = self._gathered, None
            for entry in gathered:
                self._gathered = [entry]
                transfer = super().ship()
                first = transfer if first is None else first
            return first


@mutant("size", path=[*computed((0, 0), (1, 1)), do("ship", 0)], hashes=2)
class MovesOneBlocksBytes(_Tiers):
    """S14: a batch takes as long as a block (G4)."""

    class tiers_kind(Tiers):
        def _send(self, link, request, cargo):
            transfer = self._links.start(link, self._block_bytes)
            self._cargoes[transfer] = (request, cargo)
            return transfer


@mutant("link")
class GoesDownTheUpLink(_Tiers):
    """An offload slows swap-ins, and not other offloads (G2)."""

    class tiers_kind(Tiers):
        def __init__(self, links, *, down, up, **more):
            super().__init__(links, down=up, up=down, **more)


TWO_AT_ONCE: Path = [
    *LANDED,
    *[do("allocate"), do("register", 1, 1), do("release", 1), do("evict", 1), do("ship", 1)],
    *[do("swap_in", 0, 2, 0, 1), do("advance_to_deadline", 2), do("complete", 2)],
]


@mutant("free", "carrier", "cargo", path=TWO_AT_ONCE, hashes=2, transfers=3)
class LandsTheOldestCargo(_Tiers):
    """S15: whatever completes, what left first lands (G3)."""

    class tiers_kind(Tiers):
        def complete(self):
            due, first = self._links.due(), next(iter(self._cargoes), None)
            if due in self._cargoes and first is not None:
                self._cargoes[due], self._cargoes[first] = self._cargoes[first], self._cargoes[due]
            return super().complete()


class _Telling(Tiers):
    """Tells of other promotions than there are."""

    told: Any
    last: Any = None

    def complete(self):
        landed = super().complete()
        return dataclasses.replace(landed, promoted=self.told(landed.promoted))


@mutant(
    "promotions",
    "serves",
    path=[*UNDER_WAY_UP, do("advance_to_deadline", 1), do("complete", 1), do("start", 2, 0, 0), do("complete", 2)],
    transfers=3,
    bytes=[0, 0, 0],
)
class PromotesTwice(_Tiers):
    """The next landing promotes the request again (G5)."""

    class tiers_kind(_Telling):
        def told(self, promoted):
            self.last, told = promoted, self.last if promoted is None else promoted
            return told


@mutant("promotions", "serves", path=[*UNDER_WAY_UP, do("advance_to_deadline", 1), do("complete", 1)])
class NeverPromotes(_Tiers):
    """Who waits is not told (G5)."""

    class tiers_kind(_Telling):
        def told(self, promoted):
            return None


@mutant("refusal", path=[*UNDER_WAY_UP, no("swap_in", 0, 2, 0, 1)], transfers=3)
class AsksAgainWhileItWaits(_Tiers):
    """One request waits for two transfers (G5)."""

    class tiers_kind(Tiers):
        def swap_in(self, request, keys):
            transfer = super().swap_in(request, keys)
            self._waiting.discard(request)
            return transfer

        def complete(self):
            self._waiting.update(request for request, _ in self._cargoes.values() if request is not None)
            return super().complete()


@mutant("refusal", hashes=1)
class WaitsForNothing(_Tiers):
    """A request that nothing was brought for waits all the same (G5)."""

    class tiers_kind(Tiers):
        def swap_in(self, request, keys):
            transfer = super().swap_in(request, keys)
            self._waiting.add(request)
            return transfer


GAP: Path = [*computed((0, 0), (1, 2)), *down(0)]


@mutant("size", "fetch", "free", path=[*GAP, do("swap_in", 0, 1, 0, 1)], hashes=3, capacity=2)
class BringsWhatComesAfterAGap(_Tiers):
    """The host's blocks behind the first miss come up too (G5)."""

    class tiers_kind(Tiers):
        def lookup(self, keys):
            device, _ = super().lookup(keys)
            return device, sum(key in self._host for key in keys[device:])

        def swap_in(self, request, keys):
            return super().swap_in(request, [key for key in keys if key in self._host])


@mutant("refusal", "fetch", path=[*LANDED, do("allocate"), do("register", 1, 0), no("swap_in", 0, 1, 0, 1)])
class BringsWhatTheDeviceHas(_Tiers):
    """The device is not asked before the host (G5)."""

    class tiers_kind(Tiers):
        def lookup(self, keys):
            found, self._found = self._found, {}
            try:
                return super().lookup(keys)
            finally:
                self._found = found


OUT_OF_ORDER: Path = [*computed((0, 1), (1, 0)), *down(0)]


@mutant("host", path=[*OUT_OF_ORDER, do("allocate")], hashes=2, capacity=2)
class QueryIsAUse(_Tiers):
    """To ask whether something is on the host keeps it there (G5)."""

    class tiers_kind(Tiers):
        def on_host(self, key):
            self._host.touch(key)
            return super().on_host(key)


@mutant("host")
class EvictsWhatIsRead(_Tiers):
    """What a swap-in reads can be evicted meanwhile (G5)."""

    class tiers_kind(Tiers):
        def swap_in(self, request, keys):
            transfer = super().swap_in(request, keys)
            self._host.order.update(dict.fromkeys(self._host.reading))
            return transfer


READ_TWICE: Path = [
    *[*computed((0, 0)), *down(0)],
    *[do("swap_in", 0, 1, 0, 1), do("swap_in", 1, 2, 0, 1), do("advance_to_deadline", 1), do("complete", 1)],
]


@mutant("host", path=READ_TWICE, requests=2, transfers=3)
class LetsGoWithTheFirstReader(_Tiers):
    """Of two swap-ins that read one block, the first that ends lets it be evicted (G5)."""

    class tiers_kind(Tiers):
        def _end_swap_in(self, cargo):
            for _, key in cargo:
                self._host.reading[key] = 1
            super()._end_swap_in(cargo)
            self._host.reading.update((key, 1) for _, kept in self._reading() for key in kept)

        def _reading(self):
            return [(name, [key for _, key in cargo]) for name, (request, cargo) in self._cargoes.items() if request]


COMPUTED_MEANWHILE: Path = [
    *[*UNDER_WAY_UP, do("allocate"), do("register", 0, 0), do("advance_to_deadline", 1), do("complete", 1)]
]


@mutant("found", "holds", path=COMPUTED_MEANWHILE)
class ArrivesOverWhatIsThere(_Tiers):
    """What comes up is found, even where the device has it by now."""

    class tiers_kind(Tiers):
        def _end_swap_in(self, cargo):
            for key in {key for _, key in cargo} & self._found.keys():
                del self._keys[self._found.pop(key)]
                self._events.append(Removed("device", key))
            super()._end_swap_in(cargo)


@mutant("used", path=[*UNDER_WAY_UP, do("advance_to_deadline", 1), do("complete", 1)])
class ArrivesIdle(_Tiers):
    """Nobody uses what came up (G5)."""

    class tiers_kind(Tiers):
        def _end_swap_in(self, cargo):
            super()._end_swap_in(cargo)
            for slot, _ in cargo:
                self.release(slot)


@mutant("free")
class FreesAtTheHead(_Tiers):
    """What has landed is taken next, and not last (P3)."""

    class tiers_kind(Tiers):
        def _end_offload(self, cargo):
            before = list(self._free)
            super()._end_offload(cargo)
            self._free.remove_n(before)
            self._free.append_n(before)


@mutant("result", hashes=2)
class EvictsTheYoungest(_Tiers):
    """What was used last is evicted first."""

    class tiers_kind(Tiers):
        def evict(self):
            last = self._idle.walk()[-1:]
            self._idle.remove_n(last)
            self._idle.prepend_n(last)
            return super().evict()


@mutant("gathered", "free", path=[*LANDED, *computed((1, 0))])
class CopiesWhatIsThere(_Tiers):
    """What the host has goes down again."""

    class tiers_kind(Tiers):
        def evict(self):
            host, self._host = self._host, type(self._host)(0)
            try:
                return super().evict()
            finally:
                self._host = host


@mutant("gathered", "free")
class CopiesWhatIsOnItsWay(_Tiers):
    """One block goes down twice at once (O3)."""

    class tiers_kind(Tiers):
        def evict(self):
            leaving, self._leaving = self._leaving, set()
            try:
                return super().evict()
            finally:
                self._leaving |= leaving


@mutant("host", path=[*OUT_OF_ORDER, *computed((2, 1))], blocks=3, hashes=2, capacity=2)
class SparesWithoutNotice(_Tiers):
    """To evict what the host has is no use of it there."""

    class tiers_kind(Tiers):
        def evict(self):
            order = list(self._host.order)
            slot = super().evict()
            for key in order:
                self._host.touch(key)
            return slot


@mutant("gathered", "free", capacity=0)
class GathersForNoHost(_Tiers):
    """Without a host tier, blocks wait to be copied there (G7)."""

    class tiers_kind(Tiers):
        def evict(self):
            self.host_blocks = max(self.host_blocks, 1)
            return super().evict()


# ---------------------------------------------------------------------------------------------------- its host

FULL: Path = [*computed((0, 0), (1, 1)), *down(0)]


@mutant("host", "on_host", "events", path=FULL, hashes=2)
class HoldsMoreThanItCan(_Tiers):
    """A full host takes one more (G6, G7)."""

    class tiers_kind(Tiers):
        def complete(self):
            self._host.capacity += 1
            return super().complete()


@mutant("host", "on_host", "events", path=[*LANDED, *computed((1, 1)), *down(1)], hashes=2)
class DropsTheNewest(_Tiers):
    """A full host keeps what it has, and not what comes (G6)."""

    class tiers_kind(Tiers):
        def _end_offload(self, cargo):
            order, self._host.order = self._host.order, type(self._host.order)()
            self._host.reading.update((key, 1) for key in order)
            super()._end_offload(cargo)
            for key in order:
                del self._host.reading[key]
            order.update(self._host.order)
            self._host.order = order


class _Hearing(Tiers):
    """Other events than happen."""

    tell: Any

    def take_events(self):
        return [told for event in super().take_events() for told in self.tell(event)]


@mutant("events")
class StoresInSilence(_Tiers):
    """A block that lands is not told of (G6)."""

    class tiers_kind(_Hearing):
        def tell(self, event):
            return [] if event.tier == "host" and isinstance(event, Stored) else [event]


@mutant("events", path=FULL, hashes=2)
class EvictsInSilence(_Tiers):
    """What leaves the host is not told of (G6)."""

    class tiers_kind(_Hearing):
        def tell(self, event):
            return [] if event.tier == "host" and isinstance(event, Removed) else [event]


@mutant("events")
class TellsTwice(_Tiers):
    """A block that lands is told of twice (G6)."""

    class tiers_kind(_Hearing):
        def tell(self, event):
            return [event] * (2 if event.tier == "host" else 1)


@mutant("events")
class TellsOfTheDeviceTwice(_Tiers):
    """A block that is registered is told of twice (G6)."""

    class tiers_kind(_Hearing):
        def tell(self, event):
            return [event] * (2 if event.tier == "device" else 1)


@mutant("found")
class LeavesTheDeviceInSilence(_Tiers):
    """What is evicted from the device is not told of (G6)."""

    class tiers_kind(_Hearing):
        def tell(self, event):
            return [] if event.tier == "device" and isinstance(event, Removed) else [event]


# ---------------------------------------------------------------------------------------------------- a shared tier


class _SharedTier(_Mutant, SharedTarget):
    pass


@mutant("refusal")
class ActsAtAnyTime(_SharedTier):
    """A worker looks, and stores, before the tier is up to its time (G8)."""

    class tier_kind(Sharing):
        def _check_caught_up(self, worker):
            self._check_worker(worker)


@mutant("refusal")
class LooksPastWhatIsDue(_SharedTier):
    """What lands at the worker's own time is not there yet (G8)."""

    class tier_kind(Sharing):
        def _check_caught_up(self, worker):
            self._check_worker(worker)
            if self._clocks[worker] != self._links.now:
                super()._check_caught_up(worker)


@mutant("refusal")
class OvertakesAWorker(_SharedTier):
    """The tier goes on while somebody may yet store something before (G8)."""

    class tier_kind(Sharing):
        def move(self, to):
            self._links.move(to)


@mutant("refusal")
class FollowsTheFastest(_SharedTier):
    """The tier waits for the wrong worker (G8)."""

    class tier_kind(Sharing):
        def next_worker(self):
            return max(range(len(self._clocks)), key=lambda worker: self._clocks[worker])


@mutant("refusal", "begun")
class BackdatesALateStore(_SharedTier):
    """Who comes late stores at its own time, which is past for the tier (G8)."""

    class tier_kind(Sharing):
        def store(self, worker, key):
            self._check_worker(worker)
            time, self._clocks[worker] = self._clocks[worker], self._links.now
            transfer = super().store(worker, key)
            self._clocks[worker] = time
            if transfer is not None:
                entry = self._links._transfers[transfer]
                self._links._transfers[transfer] = dataclasses.replace(entry, begun=time)
            return transfer


@mutant("result")
class KeepsPrivateLists(_SharedTier):
    """A worker sees what it stored itself (G8)."""

    class tier_kind(Sharing):
        def complete(self):
            landed = super().complete()
            self.seen = getattr(self, "seen", frozenset()) | {(landed.worker, landed.key)}
            return landed

        def look(self, worker, key):
            return super().look(worker, key) and (worker, key) in self.seen


@mutant("result")
class SeesWhatIsUnderWay(_SharedTier):
    """A block is there when its copy begins (G8)."""

    class tier_kind(Sharing):
        def look(self, worker, key):
            return super().look(worker, key) or key in self._known


@mutant("refusal")
class StoresTwice(_SharedTier):
    """Two workers store one block (O3)."""

    class tier_kind(Sharing):
        def store(self, worker, key):
            self._known.discard(key)
            return super().store(worker, key)


@mutant("clock")
class WorksBackward(_SharedTier):
    """A worker's time runs back (G3)."""

    class tier_kind(Sharing):
        def work(self, worker, until):
            super().work(worker, until)
            self._clocks[worker] = until


@mutant("clock")
class HasOneClock(_SharedTier):
    """All workers are where one of them is (G8)."""

    class tier_kind(Sharing):
        def work(self, worker, until):
            super().work(worker, until)
            for other in range(len(self._clocks)):
                super().work(other, until)
