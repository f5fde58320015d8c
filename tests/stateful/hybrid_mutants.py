"""Must-fail: stores behind one connector, and planners, each wrong in one thing (S17 to S19, H2, H5, H6, O5)."""

from collections.abc import Mapping
from typing import Any

from kvproof.harness.hybrid.connectors_target import ConnectorsTarget
from kvproof.refimpl.hybrid.multi_connector import MultiConnector
from kvproof.refimpl.hybrid.planner import HybridPlanner

# ------------------------------------------------------------------------------------------------ connectors


class NotYetBlocksAll(ConnectorsTarget):
    """S17: one store that has not resolved defers the lookup, though others have."""

    class multi_kind(MultiConnector):
        def _is_deferred(self, answers):
            return None in answers


class WaitsForNobody(ConnectorsTarget):
    """H5, dialect ``first``: a store that has not resolved is passed over."""

    class multi_kind(MultiConnector):
        def _is_deferred(self, answers):
            return all(answer is None for answer in answers)


class LoadsForEver(ConnectorsTarget):
    """S18: a load that takes too long is waited for."""

    class multi_kind(MultiConnector):
        def expire(self, now):
            self._now = max(self._now, now)
            return ()


class LateReportsCount(ConnectorsTarget):
    """S18: a report of a load that was given up makes its tokens count after all."""

    class multi_kind(MultiConnector):
        def finish_load(self, job, *, ok):
            if job not in self._loads and ok:
                for stay in self._stays.values():
                    if stay.phase == "over" and not stay.external:
                        stay.external = 1
            return super().finish_load(job, ok=ok)


class FailedLoadsCount(ConnectorsTarget):
    """S16, O11: the external tokens of a load that failed stay counted."""

    class multi_kind(MultiConnector):
        def _end(self, job, outcome):
            external = self._stays[self._loads[job].request].external
            end = super()._end(job, outcome)
            self._stays[end.request].external = external
            return end


class MostTokensWin(ConnectorsTarget):
    """H5: weights are not looked at."""

    class multi_kind(MultiConnector):
        def _winner(self, answers):
            offers = [index for index, tokens in enumerate(answers) if tokens]
            return max(offers, key=lambda index: answers[index]) if offers else None


class LastOfEqualsWins(ConnectorsTarget):
    """H5: of equals the last is chosen."""

    class multi_kind(MultiConnector):
        def _winner(self, answers):
            offers = [index for index, tokens in enumerate(answers) if tokens]
            worth = {index: answers[index] * self._weights[index] for index in offers}
            return max(offers, key=lambda index: (worth[index], index)) if offers else None


class PromisesTheMost(ConnectorsTarget):
    """H5: what is promised is the most that anybody has, and not what the winner has."""

    class multi_kind(MultiConnector):
        def _winner(self, answers):
            winner = super()._winner(answers)
            if winner is not None:
                answers[winner] = max(tokens or 0 for tokens in answers)
            return winner


def holds(multi: Any) -> list[set[int]]:
    """What each store holds, for which requests."""
    return [set(store.held) for store in multi.children]


def take_back(multi: Any, request: int, held: list[set[int]]) -> None:
    """What stores held for a request they hold again."""
    for store, before in zip(multi.children, held, strict=True):
        store.held |= before & {request}


class LosersKeepTheirHolds(ConnectorsTarget):
    """O5: who was not chosen goes on holding what it found."""

    class multi_kind(MultiConnector):
        def matched(self, request, chain, computed):
            held = holds(self)
            found = super().matched(request, chain, computed)
            take_back(self, request, held)
            return found


class BusyStoresLose(ConnectorsTarget):
    """H5: a store that has all the loads that it may have loses what it found, though the lookup is deferred."""

    class multi_kind(MultiConnector):
        def matched(self, request, chain, computed):
            for child, counters in zip(self.children, self._counters, strict=True):
                if counters.pending_loads >= (self.max_pending or 1):
                    child.drop(request)
            return super().matched(request, chain, computed)


class LoadsWithoutEnd(ConnectorsTarget):
    """H5: no store has ever too many loads."""

    class multi_kind(MultiConnector):
        def _is_busy(self, index):
            return False


class OnlyTheFirstStores(ConnectorsTarget):
    """H5: what was computed is offered to one store."""

    class multi_kind(MultiConnector):
        def store(self, request, blocks):
            return self.children[0].store(request, tuple(blocks))


class PreemptionsReachTheFirst(ConnectorsTarget):
    """H5: one store is told who was preempted."""

    class multi_kind(MultiConnector):
        def preempted(self, notice):
            children, self.children = self.children, self.children[:1]
            try:
                super().preempted(notice if isinstance(notice, set) else notice[: len(notice) - len(children) + 1])
            finally:
                self.children = children


class PreemptionKeepsTheLoad(ConnectorsTarget):
    """O8: the load of a request that leaves is not released."""

    class multi_kind(MultiConnector):
        def _leave(self, request):
            stay = self._stays.get(request)
            if stay is not None and stay.job is not None:
                self._counters[self._loads.pop(stay.job).child].pending_loads -= 1
                stay.job = None
            super()._leave(request)


class LeavesHolds(ConnectorsTarget):
    """O8: what stores hold for a request that leaves stays held."""

    class multi_kind(MultiConnector):
        def _leave(self, request):
            held = holds(self)
            super()._leave(request)
            take_back(self, request, held)


class ReleasesTwice(ConnectorsTarget):
    """H6: what a load had pinned is let go twice."""

    class multi_kind(MultiConnector):
        def _close(self, job):
            load = self._loads[job]
            self.children[load.child].release(job, load.keys)
            return super()._close(job)


class ReleasesOtherKeys(ConnectorsTarget):
    """H6: something is let go that was not prepared."""

    class multi_kind(MultiConnector):
        def _close(self, job):
            load = self._loads[job]
            object.__setattr__(load, "keys", (*load.keys, b"other"))
            return super()._close(job)


class AnotherLoads(ConnectorsTarget):
    """H5: not the winner loads."""

    class multi_kind(MultiConnector):
        def begin_load(self, request, blocks, tokens, now):
            stay = self._stays.get(request)
            if stay is not None and stay.phase == "promised":
                stay.child = 0
            return super().begin_load(request, blocks, tokens, now)


class TakesMoreThanWasPromised(ConnectorsTarget):
    """H5: a load of any length begins."""

    class multi_kind(MultiConnector):
        def begin_load(self, request, blocks, tokens, now):
            self._promised(request).promised = 100
            return super().begin_load(request, blocks, tokens, now)


class CountsEveryLookup(ConnectorsTarget):
    """P15: a request's second lookup counts too."""

    class multi_kind(MultiConnector):
        def _count(self, stay, answers, winner):
            stay.counted = False
            super()._count(stay, answers, winner)


class LooksAgainAfterALoad(ConnectorsTarget):
    """H6: a request whose load failed waits for the same store again."""

    class multi_kind(MultiConnector):
        def _end(self, job, outcome):
            end = super()._end(job, outcome)
            self._stays[end.request].phase = "open"
            return end


class CountsNoExpiry(ConnectorsTarget):
    """H6: nobody learns that a store is too slow."""

    class multi_kind(MultiConnector):
        def expire(self, now):
            ends = super().expire(now)
            for counts in self._counters:
                counts.expired = 0
            return ends


class ReadsAKeyTwice(ConnectorsTarget):
    """H6: a load of the same key into two blocks begins."""

    class multi_kind(MultiConnector):
        def begin_load(self, request, blocks, tokens, now):
            blocks = list({ref.key: ref for ref in blocks}.values())
            return super().begin_load(request, blocks, tokens, now)


ONE: dict[str, Any] = {
    "sizes": {"Connector": 2, "Request": 1, "Hash": 1, "Tokens": 2, "Job": 1, "Moment": 2},
    "weighted": True,
    "weight": [1, 1],
    "most_pending": 1,
    "count": 2,
    "wanted": [[True]],
    "patience": 1,
    "time": [0, 1],
}
"""A scope in which most happens."""

UNEQUAL: dict[str, Any] = {
    "sizes": {"Connector": 2, "Request": 1, "Hash": 1, "Tokens": 3, "Job": 1, "Moment": 1},
    "time": [0],
    "weight": [3, 1],
}
TWO: dict[str, Any] = {
    "sizes": {"Connector": 1, "Request": 2, "Hash": 1, "Tokens": 2, "Job": 2, "Moment": 1},
    "weight": [1],
    "count": 1,
    "wanted": [[True], [True]],
    "time": [0],
}

CONNECTORS: Mapping[str, tuple[type[ConnectorsTarget], dict[str, Any], set[str]]] = {
    kind.__name__: (kind, more, oracles)
    for kind, more, oracles in (
        (NotYetBlocksAll, {}, {"result"}),
        (WaitsForNobody, {"weighted": False}, {"result", "inside"}),
        (LoadsForEver, {}, {"refusal"}),
        (LateReportsCount, {}, {"external"}),
        (FailedLoadsCount, {}, {"external"}),
        (MostTokensWin, UNEQUAL, {"result"}),
        (LastOfEqualsWins, {}, {"holds"}),
        (PromisesTheMost, UNEQUAL, {"result"}),
        (LosersKeepTheirHolds, {}, {"holds"}),
        (BusyStoresLose, TWO, {"holds"}),
        (LoadsWithoutEnd, TWO, {"result"}),
        (OnlyTheFirstStores, {}, {"kept"}),
        (PreemptionsReachTheFirst, {}, {"result"}),
        (PreemptionKeepsTheLoad, {}, {"pins"}),
        (LeavesHolds, {}, {"holds"}),
        (ReleasesTwice, {}, {"crash"}),
        (ReleasesOtherKeys, {}, {"crash"}),
        (AnotherLoads, {}, {"chosen"}),
        (TakesMoreThanWasPromised, UNEQUAL, {"refusal"}),
        (CountsEveryLookup, {}, {"queries"}),
        (LooksAgainAfterALoad, {}, {"over"}),
        (CountsNoExpiry, {}, {"misses"}),
        (ReadsAKeyTwice, {}, {"stray", "crash"}),
    )
}
"""By name: the target, what its scope has otherwise than `ONE`, and what it must be noticed by."""

# ------------------------------------------------------------------------------------------------ planners


class CountsWhatIsNotFull(HybridPlanner):
    """S19: a chunk counts that the tokens do not fill."""

    def chunks_for(self, tokens):
        return -(-tokens // self.chunk)


class CountsAsProposed(HybridPlanner):
    """S19: the most chunks whose prefix is within the tokens count, one more than these fill among them."""

    def chunks_for(self, tokens):
        most = tokens // self.chunk + 1
        return max(k for k in range(most + 1) if self.prefix(k) <= tokens)


class PlainMinimum(HybridPlanner):
    """H2: what all groups cover, whether or not every group can go on there."""

    def prefix(self, chunks):
        return min(self.covered(group, chunks) for group in range(len(self.groups)))


class FirstGroupOnly(HybridPlanner):
    """H2: the others are not asked."""

    def prefix(self, chunks):
        return self.covered(0, chunks) // self.boundary * self.boundary


class WholeBlocksOnly(HybridPlanner):
    """H1: the unit of each group is its block."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.units = tuple(group.block for group in self.groups)


PLANNERS = (CountsWhatIsNotFull, CountsAsProposed, PlainMinimum, FirstGroupOnly, WholeBlocksOnly)
