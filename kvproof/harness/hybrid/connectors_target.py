"""The reference implementation as a target for machine Connectors: stores that answer what the machine lets them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Self, cast

from ...checkers.target import NONE, UNKNOWN, Answer, Args, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.hybrid.connector import BlockRef, Boundary, Chain, Completion
from ...refimpl.hybrid.connector_records import LoadEnd, LoadSnapshot, MultiSnapshot
from ...refimpl.hybrid.multi_connector import MultiConnector
from ..forking import forked
from ..strays import Stray, TargetWithStrays
from .instances import HybridInstance
from .scripted_store import ScriptedStore

__all__ = ["ConnectorsTarget"]

CHAIN: Chain = (Boundary(1, (b"any",)),)
"""What is asked for means nothing here: a store answers what it was told to have found."""


class ConnectorsTarget(TargetWithStrays):
    """A `MultiConnector` over stores whose answers the machine decides.

    ``wait``, ``miss`` and ``choose`` are one call, whose answer tells them apart, and so is ``look_again``: a lookup
    while nobody has resolved. What stores find is the instance's doing: there is nothing to be refused in ``resolve``.
    """

    name = "refimpl"
    level = "connectors"
    fields: ClassVar[tuple[str, ...]] = (
        "holds",
        "kept",
        "pins",
        "inside",
        "chosen",
        "promised",
        "loading",
        "over",
        "external",
        "arrived",
        "prepared",
        "job",
        "deadline",
        "now",
        "issued",
        "counted",
        "queries",
        "hits",
        "hit_tokens",
        "misses",
    )
    unjudged: ClassVar[Mapping[str, frozenset[str]]] = {
        "resolve": frozenset({"count", "loading"}),
        # Which number a load gets, the implementation decides; and moments that are past count as now (G3).
        "begin_load": frozenset({"issued", "now"}),
        "expire": frozenset({"now"}),
    }
    # Who was never inside leaves nothing.
    ignored: ClassVar[Mapping[str, frozenset[str]]] = {"leave": frozenset({"inside"})}
    lookups: ClassVar[frozenset[str]] = frozenset({"choose"})
    weights: ClassVar[Mapping[str, int]] = {"resolve": 8, "choose": 8, "begin_load": 12, "wait": 2, "miss": 2}
    essential: ClassVar[frozenset[str]] = frozenset({"resolve", "choose", "begin_load"})

    multi_kind: type[MultiConnector] = MultiConnector
    """The connector that is driven."""

    def __init__(self, setting: HybridInstance) -> None:
        """Stores that know nothing, and no requests."""
        super().__init__(setting)
        self.instance = setting
        params, sizes = setting.scope.params, setting.scope.sizes
        self._keys = [b"hash %d" % h for h in range(sizes["Hash"])]
        self._wanted = [
            tuple(key for key, is_wanted in zip(self._keys, row, strict=True) if is_wanted) for row in params["wanted"]
        ]
        # The connector adds and compares moments, no more, so that exact ones stay exact; it is typed for floats.
        self._time = cast(list[float], setting.numbers("time"))
        patience = cast(list[float], setting.numbers("patience"))
        self.stores = [
            ScriptedStore(f"store {c}", Fraction(params["weight"][c]), self._wanted) for c in range(params["count"])
        ]
        self.multi = self.multi_kind(
            self.stores,
            hybrid=True,
            dialect="weighted" if params["weighted"] else "first",
            load_timeout=patience[0],
            max_pending=params["most_pending"],
        )
        requests = range(sizes["Request"])
        # What was heard of a request's loads, of which the implementation forgets what has ended.
        self._arrived = [0 for _ in requests]
        self._job = [NONE for _ in requests]
        self._deadline = [Fraction(0) for _ in requests]
        self._ends: Counter[tuple[int, str]] = Counter()
        """How many loads of each store ended how."""

    # ------------------------------------------------------------------------------------------------ driving

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call that the action is."""
        return self._call(getattr(self, f"_{action}"), args)

    def refuse(self, action: str, args: Args) -> Answer:
        """Try what is not possible: as ``_try_…`` says, where the call leaves a choice to the implementation."""
        return self._call(getattr(self, f"_try_{action}", getattr(self, f"_{action}")), args)

    @staticmethod
    def _call(call: Callable[..., object], args: Args) -> Answer:
        try:
            return Answer(call(*args))
        except RefusedError as error:
            return Answer(refused=str(error))

    def _resolve(self, c: int, r: int, n: int) -> None:
        self.stores[c].resolve(r, n)

    def _store(self, h: int) -> object:
        settled = self.multi.store(0, [BlockRef(self._keys[h], h)])
        return None if settled == 1 else f"{settled} blocks are settled, and all stores took it"

    def _look(self, r: int) -> int | None:
        """A lookup. What a store answered is used up when the lookup is: the next time it finds out anew."""
        found = self.multi.matched(r, CHAIN, 0)
        if found is not None:
            for store in self.stores:
                store.found.pop(r, None)
        return found

    def _wait(self, r: int) -> object:
        return self._look(r)

    def _miss(self, r: int) -> object:
        found = self._look(r)
        return None if found == 0 else f"a lookup finds {found}"

    def _choose(self, r: int, _c: int) -> object:
        return self._look(r)

    def _look_again(self, r: int) -> object:
        return self._look(r)

    def _try_wait(self, r: int) -> object:
        """A lookup where none is possible: whose load is over has nothing to load, and a promise is taken back."""
        phase = self._phase(r)
        if phase == "promised":
            raise RefusedError("a lookup would be a further one, and possible")
        found = self._look(r)
        if phase == "over" and found == 0:
            raise RefusedError("no further load is made")
        return found

    def _try_miss(self, r: int) -> object:
        return self._try_wait(r)

    def _try_choose(self, r: int, _c: int) -> object:
        return self._try_wait(r)

    def _try_look_again(self, r: int) -> object:
        if self._phase(r) == "open":
            raise RefusedError("a lookup would be the first one, and possible")
        return self._try_wait(r)

    def _phase(self, r: int) -> str:
        shown = self.multi.snapshot().requests.get(r)
        return "open" if shown is None else shown.phase

    def _decline(self, r: int) -> None:
        self.multi.decline(r)

    def _begin_load(self, r: int, n: int, j: int, m: int) -> object:
        blocks = (BlockRef(key, block) for block, key in enumerate(self._wanted[r]))
        job = self.multi.begin_load(r, blocks, n, self._time[m])
        self._job[r], self._deadline[r] = job, Fraction(self.multi.snapshot().loads[job].deadline)
        return None if job == j else f"the load has number {job}"

    def _finish_load(self, r: int, j: int, ok: int) -> object:
        """The store says at the next poll that it is done."""
        loads = self.multi.snapshot().loads
        self.stores[loads[j].child if j in loads else 0].ended.append(Completion(j, bool(ok)))
        return self._ended(r, loads, self.multi.poll())

    def _try_finish_load(self, r: int, j: int, ok: int) -> object:
        """No call names the request that waits."""
        load = self.multi.snapshot().loads.get(j)
        if load is not None and load.request != r:
            raise RefusedError("another request waits for it")
        return self._finish_load(r, j, ok)

    def _ended(self, r: int, loads: Mapping[int, LoadSnapshot], ends: Sequence[LoadEnd]) -> object:
        """What is said of a load that ended, of these: it has to be the only one, and that of this request."""
        if not ends:
            raise RefusedError("no load ended")
        for end in ends:
            assert isinstance(end.request, int)
            self._arrived[end.request] = end.external
            self._ends[loads[end.job].child, end.outcome] += 1
        return None if [end.request for end in ends] == [r] else f"loads ended of {[end.request for end in ends]}"

    def _expire(self, r: int, m: int) -> object:
        return self._ended(r, self.multi.snapshot().loads, self.multi.expire(self._time[m]))

    def _try_expire(self, r: int, m: int) -> object:
        """One call ends all that are late, and moves the time: it is made where neither can happen."""
        shown = self.multi.snapshot()
        to = max(shown.now, self._time[m])
        if to > shown.now or any(load.deadline <= to for load in shown.loads.values()):
            raise RefusedError("time would pass, or other loads end")
        return self._expire(r, m)

    def _report_late(self, j: int) -> object:
        """As success by a store, as failure directly."""
        for store in self.stores:
            store.ended.append(Completion(j, ok=True))
        ends = [*self.multi.poll(), *filter(None, [self.multi.finish_load(j, ok=False)])]
        return f"{ends} ended" if ends else None

    def _try_report_late(self, j: int) -> object:
        if j in self.multi.snapshot().loads:
            raise RefusedError("it would be in time")
        if self._report_late(j) is None:
            raise RefusedError("there is no such load")
        return "it ended"

    def _leave(self, r: int) -> object:
        """Half of all requests are preempted, in either form of notice; the others finish."""
        before = [store.heard for store in self.stores]
        notice = ({r}, [{r}] * len(self.stores), None, None)[r % 4]
        if notice is None:
            self.multi.finished(r)
        else:
            self.multi.preempted(notice)
        if r not in self.multi.snapshot().requests:
            self._arrived[r] = 0
        for store in self.stores:
            store.found.pop(r, None)
        told = [store.heard - was for store, was in zip(self.stores, before, strict=True)]
        return None if told == [int(notice is not None)] * len(told) else f"stores were told of {told} preemptions"

    def _try_leave(self, r: int) -> None:
        self.multi.finished(r)

    def _stray_calls(self) -> Iterator[Stray]:
        """Counts, notices and blocks that no call can have."""
        multi, nobody = self.multi, self.scope.sizes["Request"]
        yield multi.matched, (nobody, CHAIN, -1)
        yield multi.decline, (nobody,)
        yield multi.preempted, ([set[int]()] * (len(self.stores) + 1),)
        for r, request in multi.snapshot().requests.items():
            one = BlockRef(b"any", 0)
            for blocks, tokens in (((), 1), ((one, one), 1), ((one,), 0), ((one,), request.promised + 1)):
                yield multi.begin_load, (r, blocks, tokens, multi.snapshot().now)

    # ------------------------------------------------------------------------------------------------ observing

    def flat(self) -> Fields:
        """The connector's own snapshot, the stores' books, and what was heard of loads that ended."""
        shown, sizes = self.multi.snapshot(), self.scope.sizes
        requests, connectors = range(sizes["Request"]), range(sizes["Connector"])
        known = [shown.requests.get(r) for r in requests]
        counters = [*shown.counters, *([None] * (len(connectors) - len(shown.counters)))]
        return {
            "holds": [c < len(self.stores) and r in self.stores[c].held for c in connectors for r in requests],
            "kept": [c < len(self.stores) and key in self.stores[c].kept for c in connectors for key in self._keys],
            "pins": [self._pins(c, key) for c in connectors for key in self._keys],
            "inside": [request is not None for request in known],
            "chosen": [NONE if request is None or request.child is None else request.child for request in known],
            "promised": [0 if request is None else request.promised for request in known],
            "loading": [request is not None and request.phase == "loading" for request in known],
            "over": [request is not None and request.phase == "over" for request in known],
            "external": [0 if request is None else request.external for request in known],
            "arrived": self._arrived[:],
            "prepared": [key in self._prepared(shown, r) for r in requests for key in self._keys],
            "job": self._job[:],
            "deadline": self._deadline[:],
            "now": [max(Fraction(0), shown.now)],
            "issued": [shown.next_job],
            "counted": [request is not None and request.counted for request in known],
            "queries": [0 if counts is None else counts.queries for counts in counters],
            "hits": [0 if counts is None else counts.hits for counts in counters],
            "hit_tokens": [0 if counts is None else counts.hit_tokens for counts in counters],
            "misses": [*(0 if counts is None else counts.misses for counts in counters), *self._miscounted(shown)],
        }

    def _miscounted(self, shown: MultiSnapshot) -> list[str]:
        """What the connector counts of its stores otherwise than it is, or than it said itself."""
        wrong: list[str] = []
        pending = Counter[int | None](load.child for load in shown.loads.values())
        pending.update(request.child for request in shown.requests.values() if request.phase == "promised")
        for c, counts in enumerate(shown.counters):
            counted = counts.pending_loads, counts.failed, counts.expired
            told = pending[c], self._ends[c, "failed"], self._ends[c, "expired"]
            wrong += [f"store {c}: {told} loads pending, failed, expired are counted as {counted}"] * (counted != told)
        return wrong

    def _pins(self, c: int, key: bytes) -> int:
        """How many loads read a key in a store, by the store's own books."""
        return sum(key in keys for keys in self.stores[c].reads.values()) if c < len(self.stores) else 0

    @staticmethod
    def _prepared(shown: MultiSnapshot, r: int) -> tuple[bytes, ...]:
        """What the load of a request reads, as the connector says."""
        loads = [load.keys for load in shown.loads.values() if load.request == r]
        return loads[0] if len(loads) == 1 else (b"%d" % UNKNOWN,) * len(loads)

    def residue(self) -> object:
        """Its own snapshot; in that, how many loads each store has pending, and how many ended badly."""
        return self.multi.snapshot(), [(set(store.held), dict(store.found)) for store in self.stores]

    # ------------------------------------------------------------------------------------------------ the rest

    def fork(self) -> Self:
        """A second run in the same state."""
        other = copy.copy(self)
        other.multi, other.stores = forked((self.multi, self.stores))
        other._arrived, other._job, other._deadline = self._arrived[:], self._job[:], self._deadline[:]
        other._ends = self._ends.copy()
        return other

    def spell(self, action: str, args: Args) -> str:
        """The call on the implementation."""
        spelled = self._spelled().get(action)
        return f"multi.{action}({', '.join(map(str, args))})" if spelled is None else spelled(*args)

    def _spelled(self) -> Mapping[str, Callable[..., str]]:
        """The calls that have other arguments than the action."""
        time, look = self._time, "multi.matched({}, chain, computed=0)".format
        return {
            "resolve": lambda c, r, n: f"# store {c} finds {n} tokens for request {r}",
            "store": lambda h: f"multi.store(0, blocks=[{h}])",
            "wait": look,
            "miss": look,
            "choose": lambda r, c: f"{look(r)}  # store {c}",
            "look_again": look,
            "begin_load": lambda r, n, j, m: f"multi.begin_load({r}, blocks, tokens={n}, now={time[m]})  # load {j}",
            "finish_load": lambda r, j, ok: f"multi.finish_load({j}, ok={bool(ok)})  # of request {r}",
            "expire": lambda r, m: f"multi.expire(now={time[m]})  # the load of request {r}",
            "report_late": lambda j: f"multi.finish_load({j}, ok=True)  # late",
            "leave": lambda r: f"multi.{'preempted' if r % 4 < 2 else 'finished'}({r})",
        }
