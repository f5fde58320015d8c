"""Machine G, exhaustively in small scopes: its counts of states, that nothing stalls; and what finds its mutants.

Each scope says how fine its numbers are (``Real``); one that is too coarse is refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.checkers.transitions import transitions
from kvproof.errors import UsageError
from kvproof.harness.scopes import find_scope
from kvproof.machine import Bool, Machine, Model, Real, any_of, can, exists, implies, invariant
from kvproof.machine.scope import Scope, ScopeError
from kvproof.spec.hybrid.planner import Planner, ProposedPlanner
from kvproof.spec.timed.links import Links, Transfer
from kvproof.spec.timed.shared_tier import SharedTier, Worker
from kvproof.spec.timed.timed_tiers import TimedTiers
from tests.explore.chains import alone
from tests.explore.saying import without_corollaries
from tests.smt import broken_timed

from ..marks import rows_but, slow_but

LINKS: dict[str, Any] = {
    "sizes": {"Link": 2, "Transfer": 3, "Moment": 2, "Int": 40, "Real": 6},
    "params": {"bandwidth": [6, 6], "bytes": [6, 12, 6], "time": [1, 2]},
}
TIERS: dict[str, Any] = {
    "sizes": {"Link": 2, "Transfer": 2, "Moment": 1, "Int": 10, "Real": 2}
    | {"Block": 2, "Hash": 2, "Request": 1, "Position": 2},
    "params": {"bandwidth": [2, 2], "bytes": [2, 2], "time": ["3/2"]}
    | {"down": 0, "up": 1, "block_bytes": 2, "batch": 2, "capacity": 1, "prefix": [[0, 1]]},
}
SHARED: dict[str, Any] = {
    "sizes": {"Link": 2, "Transfer": 3, "Moment": 2, "Int": 10, "Real": 6, "Worker": 2, "Hash": 2},
    "params": {"bandwidth": [2, 2], "bytes": [2, 4, 2], "time": [1, 2]},
}
MACHINES: dict[type[Machine], dict[str, Any]] = {Links: LINKS, TimedTiers: TIERS, SharedTier: SHARED}


def scope(machine: type[Machine], sizes: dict[str, int] | None = None, **params: Any) -> Scope:
    """The plain scope of the machine that this one is or extends, with some sizes and parameters of its own."""
    plain = next(MACHINES[base] for base in machine.__mro__ if base in MACHINES)
    return Scope(Model.of(machine), plain["sizes"] | (sizes or {}), plain["params"] | params)


LATER, SHARED_LINK, TOGETHER = "a_later_copy_ends_first", "a_link_is_shared", "two_end_at_one_time"
WAITING, BATCH, BOTH_WAYS, ALL_AWAY = (
    "a_request_waits",
    "a_batch_of_two_goes_down",
    "two_copies_share_nothing",
    "all_that_is_evicted_is_under_way",
)
THREE = {"Transfer": 3}

Golden = tuple[type[Machine], dict[str, int], dict[str, Any], tuple[int, int, int], set[str]]
# What is explored; states, transitions and depth; what cannot happen there.
GOLDEN: dict[str, Golden] = {
    "links": (Links, {}, {}, (703, 1_724, 11), set()),
    "links, one without a bandwidth": (Links, {}, {"bandwidth": [6, 0]}, (402, 974, 11), set()),
    "links, a moment past deadlines": (Links, {}, {"time": [1, 4]}, (791, 1_858, 11), {LATER}),
    "tiers": (TimedTiers, {}, {}, (9_523, 36_349, 24), {LATER, BOTH_WAYS}),
    "tiers, no host": (
        TimedTiers,
        {},
        {"capacity": 0},
        (1_426, 6_588, 13),
        {SHARED_LINK, LATER, ALL_AWAY, BATCH, WAITING, BOTH_WAYS},
    ),
    "tiers, both ways on one link": (
        TimedTiers,
        {**THREE, "Real": 4},
        {"bytes": [2, 2, 2], "up": 0},
        (88_769, 346_802, 29),
        {LATER},
    ),
    "tiers, three blocks": (
        TimedTiers,
        {**THREE, "Real": 4, "Block": 3, "Position": 1},
        {"bytes": [2, 4, 2], "prefix": [[0]]},
        (565_926, 2_706_672, 32),
        {ALL_AWAY, WAITING, BOTH_WAYS},
    ),
    "shared tier": (SharedTier, {}, {}, (2_368, 21_006, 10), {LATER}),
    "shared tier, three moments": (
        SharedTier,
        {"Link": 1, "Moment": 3},
        {"bandwidth": [2], "time": [1, 2, 4]},
        (1_783, 18_972, 12),
        {TOGETHER},
    ),
    "shared tier, one link without a bandwidth": (SharedTier, {}, {"bandwidth": [2, 0]}, (3_182, 24_815, 11), set()),
}
SMALL = [name for name, (_, _, _, counts, _) in GOLDEN.items() if counts[0] < 3_000]


OFTEN = [*SMALL, "shared tier", "shared tier, one link without a bandwidth"]


@pytest.mark.parametrize("name", slow_but(GOLDEN, OFTEN, {"tiers, three blocks"}))
def test_nothing_is_wrong_in_small_scopes(name: str) -> None:
    machine, sizes, params, counts, unreached = GOLDEN[name]
    small = scope(machine, sizes, **params)
    report = explore(small.model, small)
    assert report.violations == []
    assert (report.states, report.transitions, report.depth) == counts
    assert set(report.unreached) == unreached


def test_everything_happens_somewhere() -> None:
    for machine in MACHINES:
        missed = [unreached for m, _, _, _, unreached in GOLDEN.values() if m is machine]
        assert set.intersection(*missed) == set()


@pytest.mark.parametrize("name", slow_but(SMALL, {"links", "tiers, no host"}))
def test_one_state_at_a_time_the_counts_are_the_same(name: str) -> None:
    """The concrete interpreter computes with fractions, whatever the scope says."""
    machine, sizes, params, counts, _ = GOLDEN[name]
    small = scope(machine, sizes, **params)
    visits = list(transitions(small.model, small))
    assert (len(visits), sum(len(v.edges) for v in visits), max(len(v.path) for v in visits)) == counts


def test_numbers_that_the_scope_does_not_have_are_not_rounded() -> None:
    """Half of a second passes between two deadlines; thirds, where three share a link."""
    with pytest.raises(ScopeError, match="give Real a size that has more divisors"):
        explore(Links, scope(Links, {"Real": 1}))
    with pytest.raises(ScopeError, match="no multiple of 1/6; give Real a size of which 4 is a divisor"):
        explore(Links, scope(Links, time=["1/4", 2]))


# ------------------------------------------------------------------------------------------------ nothing stalls


class LinksGoOn(Links):
    """G1: where nothing else can run, time moves to a deadline; as long as there is one, it can."""

    @invariant("G1")
    def a_copy_can_end(self) -> Bool:
        """Or time can move to where it does."""
        is_busy = exists(Transfer, lambda t: self.moving[t])
        return implies(
            is_busy, exists(Transfer, lambda t: any_of(can(self.complete, t), can(self.advance_to_deadline, t)))
        )


class TiersGoOn(TimedTiers):
    """The same with tiers, whose open batch can always be shipped."""

    @invariant("G1")
    def a_copy_can_end(self) -> Bool:
        """Or time can move to where it does."""
        is_busy = exists(Transfer, lambda t: self.moving[t])
        return implies(
            is_busy, exists(Transfer, lambda t: any_of(can(self.complete, t), can(self.advance_to_deadline, t)))
        )

    @invariant("G1, G4")
    def an_open_batch_can_go(self) -> Bool:
        """As long as there are ids left."""
        is_open = ~self.gathered.is_empty() & exists(Transfer, lambda t: t == self.issued.value)
        return implies(is_open, exists(Transfer, lambda t: can(self.ship, t)))


class WorkersWaitForWorkers(SharedTier):
    """The same with workers: the tier can go on, unless a worker has yet to come as far."""

    @invariant("G1, G8")
    def a_copy_can_end(self) -> Bool:
        """Or time can move to where it does, or a worker is behind that."""
        is_busy = exists(Transfer, lambda t: self.moving[t])
        is_behind = exists(
            Worker, Transfer, lambda w, t: self.moving[t] & ~self.is_due(t) & (self.clock[w] < self.deadline(t))
        )
        return implies(
            is_busy,
            is_behind | exists(Transfer, lambda t: any_of(can(self.complete, t), can(self.advance_to_deadline, t))),
        )


class Stalls(LinksGoOn):
    """Time stops short of every deadline."""

    def nobody_is_done_before(self, time: Real) -> Bool:
        some = exists(Transfer, lambda t: self.moving[t] & (self.deadline(t) <= time))
        return super().nobody_is_done_before(time) & ~some


GO_ON: dict[type[Machine], list[str]] = {
    LinksGoOn: ["links", "links, one without a bandwidth"],
    TiersGoOn: ["tiers", "tiers, no host", "tiers, both ways on one link"],
    WorkersWaitForWorkers: ["shared tier", "shared tier, three moments"],
}


@pytest.mark.parametrize(
    "machine",
    [LinksGoOn, *(pytest.param(m, marks=pytest.mark.slow) for m in (TiersGoOn, WorkersWaitForWorkers))],
    ids=lambda m: m.__name__,
)
def test_nothing_stalls(machine: type[Machine]) -> None:
    for name in GO_ON[machine]:
        _, sizes, params, counts, _ = GOLDEN[name]
        report = explore(machine, scope(machine, sizes, **params))
        assert report.violations == []
        assert report.states == counts[0]


def test_a_stall_is_noticed() -> None:
    report = explore(Stalls, scope(Stalls))
    assert {v.name for v in report.violations} == {"a_copy_can_end"}


# ------------------------------------------------------------------------------------------------ mutants


OTHER: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "MovesOnWithoutCompleting": ({}, {"bandwidth": [6, 0]}),
    "WaitsWithoutABandwidth": ({}, {"bandwidth": [6, 0]}),
    "RoundsTheShare": ({}, {"bandwidth": [1, 1], "bytes": [1, 1, 1]}),
    "GathersMoreThanABatch": ({}, {"batch": 1}),
    "KeepsWithoutATier": ({}, {"capacity": 0}),
}
"""What shows the fault where the plain scope does not."""

BEFORE = {"MovesOnWithoutCompleting": "a number is divided by 0"}
"""What is found before the property itself breaks."""


@pytest.mark.parametrize(
    ("machine", "_action", "prop", "rule"),
    rows_but(broken_timed.BROKEN, [m.__name__ for m, *_ in broken_timed.BROKEN[::3]]),
)
def test_each_fault_is_found(machine: type[Machine], _action: str, prop: str, rule: str) -> None:
    sizes, params = OTHER.get(machine.__name__, ({}, {}))
    small = scope(machine, sizes, **params)
    # With all that is claimed another property may tell of a nearer step, of a guard before anything comes of it.
    found = {v.name: v for v in explore(alone(small.model, prop), small).violations}
    first = BEFORE.get(machine.__name__, prop)
    assert first in found
    assert rule in found[first].rule


# ------------------------------------------------------------------------------------------------ scopes of the command


def by_default(machine: type[Machine], sizes: dict[str, int] | None = None, **given: int) -> Scope:
    return find_scope(machine, sizes or {}, split=True, null=None, caching=True, seed=0, given=given)


@pytest.mark.parametrize(
    ("machine", "sizes", "given", "states", "unreached"),
    [
        (Links, {}, {}, 703, set()),
        pytest.param(Links, {"Transfer": 5, "Link": 1}, {}, 1_636, {TOGETHER}, marks=pytest.mark.slow),
        pytest.param(TimedTiers, {}, {}, 102_649, set(), marks=pytest.mark.slow),
        (
            TimedTiers,
            {"Transfer": 2},
            {"batch": 1, "capacity": 2, "block_bytes": 3},
            6_982,
            {LATER, TOGETHER, BATCH, WAITING, BOTH_WAYS},
        ),
        (SharedTier, {}, {}, 2_160, {LATER, TOGETHER}),
        (Planner, {}, {}, 16_384, set()),
        (Planner, {"Group": 3, "Tokens": 7}, {"hash_block": 2, "chunk": 4}, 1_024, set()),
    ],
)
def test_machines_have_scopes_of_their_own(
    machine: type[Machine], sizes: dict[str, int], given: dict[str, int], states: int, unreached: set[str]
) -> None:
    report = explore(machine, by_default(machine, sizes, **given))
    assert report.violations == []
    assert report.states == states
    assert set(report.unreached) == unreached


def test_the_planner_as_proposed_is_wrong_at_once() -> None:
    report = explore(without_corollaries(ProposedPlanner), by_default(ProposedPlanner))
    found = {v.name: v.trace[-1].args for v in report.violations}
    assert found == {"a_chunk_counts_when_it_is_full": {"t": 0, "k": 1}, "a_prefix_is_usable": {"k": 2, "p": 3}}


@pytest.mark.parametrize(
    ("machine", "sizes", "given", "message"),
    [
        (Links, {}, {"bandwidth": 3}, "--set bandwidth: Links has nothing to set"),
        (TimedTiers, {}, {"window": 1}, "--set window: TimedTiers has block_bytes, batch, capacity to set"),
        (SharedTier, {"Wrkr": 2}, {}, "SharedTier has no sort Wrkr; it has Hash, Int, Link"),
        (TimedTiers, {"Real": 0}, {}, "the size of Real is 0"),
        (Planner, {}, {"chunk": 0}, "each has one token at least"),
    ],
)
def test_a_scope_that_cannot_be_says_so(
    machine: type[Machine], sizes: dict[str, int], given: dict[str, int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        by_default(machine, sizes, **given)
