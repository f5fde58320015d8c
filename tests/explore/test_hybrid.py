"""Machines H, exhaustively in small scopes: their counts of states; that a question always has one answer; and what
finds their mutants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.errors import UsageError
from kvproof.harness.scopes import connector_params, find_scope, group_params
from kvproof.machine import (
    Bool,
    Machine,
    Model,
    all_of,
    any_of,
    can,
    exists,
    forall,
    implies,
    invariant,
    none,
)
from kvproof.machine.scope import Scope
from kvproof.spec.hybrid.aligned_split import AlignedSplit
from kvproof.spec.hybrid.connectors import Connector, Connectors
from kvproof.spec.hybrid.file_store import FileStore
from kvproof.spec.hybrid.groups import Groups
from kvproof.spec.hybrid.partial_loads import PartialLoads
from kvproof.spec.hybrid.planner import Group, Planner, Tokens
from kvproof.spec.pool import Request
from tests.explore.chains import alone
from tests.marks import slow_but
from tests.smt import broken_hybrid, broken_pieces

FULL, WINDOW, MAMBA = ("full", 1), ("window", 1), ("mamba", 2)
"""Kinds of groups, and the tokens of their blocks."""


def connectors(
    machine: type[Machine] = Connectors,
    *,
    weighted: bool = True,
    most_pending: int = 1,
    wanted: list[list[bool]] | None = None,
    **more: int,
) -> Scope:
    """Two stores, of which the second is worth twice as much; a load reads everything unless it is said what."""
    sizes = {"Connector": 2, "Request": 2, "Hash": 1, "Tokens": 2, "Job": 2, "Moment": 2, "Int": 3} | more
    params = connector_params(sizes) | {"weighted": weighted, "most_pending": most_pending, "patience": 1}
    return Scope(Model.of(machine), sizes, params if wanted is None else params | {"wanted": wanted})


def pieces(machine: type[Machine] = PartialLoads, **more: int) -> Scope:
    """One store and one request, and loads of up to three pieces."""
    sizes: dict[str, Any] = {"Connector": 1, "Request": 1, "Tokens": 4, "Int": 4} | more
    return connectors(machine, **sizes)


def groups(
    machine: type[Machine] = Groups,
    kinds: Sequence[tuple[str, int]] = (FULL, WINDOW),
    *,
    prompts: int = 1,
    tagged: bool = True,
    **more: int,
) -> Scope:
    """Groups of these kinds, and requests with so many different prompts; names are tagged by group, or not."""
    sizes = {"Group": len(kinds), "Block": 2, "Request": 1, "Position": 2, "Tokens": 3} | more
    sizes = {"Int": sizes["Tokens"], "Hash": len(kinds) * sizes["Position"] * prompts} | sizes
    params = group_params(kinds, sizes, prompts=prompts)
    if not tagged:
        params["name"] = [params["name"][0]] * len(kinds)
    return Scope(Model.of(machine), sizes, params)


def files(machine: type[Machine] = FileStore, **more: int) -> Scope:
    """Two files of two pages."""
    return Scope(Model.of(machine), {"Hash": 2, "Page": 2} | more)


def split(machine: type[Machine] = AlignedSplit, *, block: int = 2, total: int = 5) -> Scope:
    """One request."""
    sizes = {"Request": 1, "Tokens": total + 1, "Int": total + block}
    return Scope(Model.of(machine), sizes, {"block": block, "total": [total]})


def planner(machine: type[Machine] = Planner) -> Scope:
    """A group of attention with blocks of three tokens, and one of mamba with blocks of two."""
    return find_scope(machine, {"Tokens": 7, "Chunks": 4}, split=True, null=None, caching=True, seed=0)


SCOPES = {
    PartialLoads: pieces,
    Connectors: connectors,
    Groups: groups,
    FileStore: files,
    AlignedSplit: split,
    Planner: planner,
}
ONE: dict[str, Any] = {"Request": 1, "Tokens": 3, "Int": 4}
TWO: dict[str, Any] = {"Request": 2, "Position": 1, "Tokens": 2}
GIVEN_UP, LATER = "a_load_was_given_up", "a_later_store_may_win"
TWO_REQUESTS: dict[str, Any] = {"Request": 2, "Int": 3}
HOLE = "something_stands_behind_a_hole"
SHARED, SHORTER, DISAGREE = "a_block_is_shared", "a_hit_is_shorter_than_one_group_could", "groups_disagree"

# What is explored; states, transitions and depth; what cannot happen there.
GOLDEN: dict[str, tuple[Scope, tuple[int, int, int], set[str]]] = {
    "stores": (connectors(), (145_174, 1_371_814, 19), set()),
    "stores, the first wins": (connectors(weighted=False), (133_722, 1_266_822, 22), {LATER}),
    "stores, one request, more tokens": (connectors(**ONE), (2_040, 13_068, 14), {GIVEN_UP}),
    "stores, the first wins, one request, more tokens": (
        connectors(weighted=False, **ONE),
        (1_928, 12_432, 17),
        {GIVEN_UP, LATER},
    ),
    "stores, two loads each": (connectors(most_pending=2), (146_118, 1_379_990, 19), set()),
    "three stores": (connectors(Connector=3, **ONE), (11_200, 87_344, 15), {GIVEN_UP}),
    "pieces": (pieces(), (1_172, 18_368, 14), {GIVEN_UP, LATER}),
    "pieces, two stores and requests": (
        pieces(Connector=2, Tokens=2, **TWO_REQUESTS),
        (181_054, 2_838_062, 19),
        {HOLE},
    ),
    "full and window": (groups(), (16_761, 178_492, 26), {SHARED}),
    "full and mamba": (groups(Groups, (FULL, MAMBA), Block=3, Int=2), (104_992, 1_263_899, 29), {SHARED, SHORTER}),
    "full, window and mamba": (
        groups(Groups, (FULL, WINDOW, ("mamba", 1)), Position=1, Tokens=2, Block=3),
        (35_934, 388_643, 29),
        {SHARED, SHORTER},
    ),
    "full and window, two requests": (groups(**TWO), (143_787, 1_771_106, 30), {SHORTER}),
    "full and window, two prompts": (groups(prompts=2, **TWO), (209_357, 2_565_126, 35), {SHARED, SHORTER}),
    "files": (files(), (25_600, 271_680, 33), set()),
    "three files": (files(Hash=3, Page=1), (74_088, 841_428, 37), {"a_crash_would_leave_a_part"}),
    "steps": (split(), (124, 1_644, 5), set()),
    "steps, blocks of three": (split(block=3, total=8), (224, 4_284, 5), set()),
    "planner": (planner(), (2_048, 22_528, 11), set()),
}


@pytest.mark.parametrize("name", slow_but(GOLDEN, [n for n, (_, counts, _) in GOLDEN.items() if counts[0] < 30_000]))
def test_nothing_is_wrong_in_small_scopes(name: str) -> None:
    small, counts, unreached = GOLDEN[name]
    report = explore(small.model, small)
    assert report.violations == []
    assert (report.states, report.transitions, report.depth) == counts
    assert set(report.unreached) == unreached


def test_everything_happens_somewhere() -> None:
    for machine in SCOPES:
        missed = [unreached for small, _, unreached in GOLDEN.values() if small.model.machine is machine]
        assert set.intersection(*missed) == set()


@pytest.mark.parametrize("machine", SCOPES, ids=lambda m: m.__name__)
def test_the_command_has_a_scope_for_each(machine: type[Machine]) -> None:
    small = find_scope(machine, {}, split=True, null=None, caching=True, seed=0)
    report = explore(small.model, small, max_states=10_000)
    assert report.violations == []
    with pytest.raises(UsageError, match="--set nonsense"):
        find_scope(machine, {}, split=True, null=None, caching=True, seed=0, given={"nonsense": 1})


# ------------------------------------------------------------------------------------------------ nothing stalls


class Answers(Connectors):
    """What no prover can know without counting: of any number of stores, one is worth most."""

    @invariant("H5, L2")
    def a_lookup_has_one_answer(self, r: Request) -> Bool:
        """It is deferred, or finds nothing, or is answered by one store."""
        waits, misses = can(self.wait, r), can(self.miss, r)
        hits = exists(Connector, lambda c: can(self.choose, r, c))
        return all_of(
            implies(self.may_look_up(r), any_of(waits, misses, hits)),
            ~(waits & misses) & ~(waits & hits) & ~(misses & hits),
        )

    @invariant("H5")
    def one_store_is_chosen(self, r: Request, c: Connector, d: Connector) -> Bool:
        """The answer hangs on nothing else."""
        return implies(can(self.choose, r, c) & can(self.choose, r, d), c == d)


class NobodyWins(Answers):
    """Of stores that are worth as much, none is better."""

    def is_better(self, c: Connector, d: Connector, r: Request) -> Bool:
        """It is worth more."""
        return self.answer[c, r] * self.weight[c] > self.answer[d, r] * self.weight[d]


class Ends(Groups):
    """The same of the longest prefix, and of what counts after a load."""

    @invariant("H4, L2")
    def a_search_goes_on(self, r: Request, g: Group) -> Bool:
        """Each group can be asked; if they do not agree, one of them shortens the candidate."""
        asked = exists(Tokens, lambda t: can(self.shorten, r, g, t))
        gain = exists(Group, Tokens, lambda x, t: can(self.shorten, r, x, t) & (t < self.candidate.value))
        return implies(self.seeking.value == r, asked & (can(self.hit, r) | gain))

    @invariant("H4, O11")
    def a_load_can_be_settled(self, r: Request) -> Bool:
        """In one way."""
        settles = exists(Tokens, lambda t: can(self.settle, r, t))
        once = forall(Tokens, Tokens, lambda t, u: implies(can(self.settle, r, t) & can(self.settle, r, u), t == u))
        return implies(self.has_loaded[r] & (self.seeking.value == none), settles & once)


class SettlesOnlyWhatAllHave(Ends):
    """What counts after a load must be what each group has reached, to the token."""

    def settle(self, r: Request, t: Tokens) -> None:
        """The groups agree."""
        self.require(forall(Group, lambda g: t == self.reached[g, r]))
        super().settle(r, t)


@pytest.mark.parametrize(
    "small", [connectors(Answers, **ONE), connectors(Answers, weighted=False, **ONE), connectors(Answers)]
)
def test_a_lookup_has_one_answer(small: Scope) -> None:
    report = explore(small.model, small)
    assert report.complete
    assert report.violations == []


@pytest.mark.parametrize("small", [groups(Ends), groups(Ends, (FULL, MAMBA), Block=3, Int=2), groups(Ends, **TWO)])
def test_a_search_ends(small: Scope) -> None:
    report = explore(small.model, small)
    assert report.complete
    assert report.violations == []


@pytest.mark.parametrize(
    ("small", "prop"),
    [
        (connectors(NobodyWins, **ONE), "a_lookup_has_one_answer"),
        (groups(SettlesOnlyWhatAllHave), "a_load_can_be_settled"),
    ],
)
def test_what_stalls_is_found(small: Scope, prop: str) -> None:
    assert prop in {v.name for v in explore(small.model, small).violations}


# ------------------------------------------------------------------------------------------------ faults

# What shows a fault that the plain scope does not.
LARGER: dict[type[Machine], dict[str, Any]] = {
    # Weights of one and two: one token more is worth as much as two.
    broken_hybrid.WorthIsTokens: ONE,
    broken_hybrid.LastOfEqualsWins: ONE,
    broken_hybrid.AlwaysWeighs: {"weighted": False},
    # One request reads less than the other, at the same time.
    broken_hybrid.ReleasesWhatItDidNotPin: {"Hash": 2, "most_pending": 2, "wanted": [[True, False], [True, True]]},
    broken_hybrid.FirstAnswerWins: {"weighted": False},
    broken_hybrid.SettlesWithinABlock: {"kinds": (FULL, MAMBA), "Block": 3, "Int": 2},
    broken_hybrid.NamesForgetTheGroup: {"tagged": False},
    broken_hybrid.FreesWhatIsShared: TWO,
    broken_hybrid.LeavesWithTheBlocksOfOthers: TWO,
    broken_hybrid.RegistersUnderALookup: TWO,
}


def small_scope(machine: type[Machine]) -> Scope:
    """Where the fault shows."""
    base = next(m for m in machine.__mro__ if m in SCOPES)
    make: Any = SCOPES[base]
    small: Scope = make(machine, **LARGER.get(machine, {}))
    return small


@pytest.mark.parametrize(
    ("machine", "prop", "rule"),
    [(machine, prop, rule) for machine, _, prop, rule in (*broken_hybrid.BROKEN, *broken_pieces.BROKEN)],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_each_fault_is_found(machine: type[Machine], prop: str, rule: str) -> None:
    """By the property that the prover is asked for, whatever else the fault breaks before."""
    small = small_scope(machine)
    found = {v.name: v for v in explore(alone(small.model, prop), small).violations}
    assert prop in found
    assert rule in found[prop].rule
