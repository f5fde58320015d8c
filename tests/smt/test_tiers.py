"""Machines M and D, their composition, and D without pinning: proved; and their mutants refuted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvproof.checkers import deciding, records, vacuity
from kvproof.checkers.counterexample import Search
from kvproof.checkers.deciding import QUICK, Deciding, Decision
from kvproof.checkers.obligations import problems_of
from kvproof.checkers.proofs import Proofs
from kvproof.checkers.prove import How, ProveReport, prove, prove_machines
from kvproof.checkers.shown import Counterexample
from kvproof.machine import (
    Bool,
    Int,
    Machine,
    Map,
    Model,
    Scalar,
    Sort,
    action,
    corollary,
    invariant,
    none,
    step,
    when,
)
from kvproof.machine.universe import Unbounded
from kvproof.spec.pool import Block, Pool, Request
from kvproof.spec.pool.statistics import Statistics
from kvproof.spec.tiers.mirror import Mirror
from kvproof.spec.tiers.pin import Pinned
from kvproof.spec.tiers.pinning_off import PinningOff
from kvproof.spec.tiers.tiered import Tiered

from ..proofs import of_this_run
from . import broken_tiers
from .kept import sought


def open_ends(report: ProveReport) -> list[tuple[str, str, str, str]]:
    return [(o.action, o.goal, o.verdict, o.note) for o in report.obligations if o.verdict != "proved"]


def step_that_breaks(machine: type[Machine], action: str, prop: str) -> Counterexample | None:
    """The smallest step that breaks a property, at its end or in a loop.

    Of the parts of a property, those that are proved at once come last: to search for what breaks them is long, and
    only where a fact of a loop is false can a step be found.
    """
    search = Search(Model.of(machine), action, seconds=10.0)
    in_doubt_first = sorted(decided(machine, action, prop), key=lambda d: d.is_proved)
    return next((step for d in in_doubt_first if (step := search.find(d.goal.name))), None)


def decided(machine: type[Machine], action: str, prop: str, proofs: Proofs | None = None) -> list[Decision]:
    """What comes of the parts of one property, where nothing else is asked."""
    model = Model.of(machine)
    problems = problems_of(model, action, Unbounded(model))
    problems.goals[:] = [g for g in problems.goals if g.name.split(": ")[-1].startswith(prop)]
    work = Deciding(problems, "z3", 1.0, proofs)
    work.decide(QUICK[:4])
    return work.decisions


@pytest.mark.parametrize(
    ("machine", "rules"),
    [
        (Mirror, {"M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8"}),
        pytest.param(Pinned, {"D1", "D2", "D3", "D4", "D5", "D6", "D7"}, marks=pytest.mark.slow),
        pytest.param(PinningOff, {"D6"}, marks=pytest.mark.slow),
        pytest.param(Tiered, {"M1", "M2", "M5", "D2", "D3", "D5"}, marks=pytest.mark.slow),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else "",
)
def test_the_machine_is_proved(machine: type[Machine], rules: set[str]) -> None:
    assert open_ends(prove(machine, proofs=of_this_run())) == []
    # Where a property speaks of nothing that any action writes (M1), no question is left to ask.
    promised = [p for p in Model.of(machine).properties.values() if p.kind in ("invariant", "step", "assume")]
    assert rules <= {r for p in promised for r in re.findall(r"[A-Z]\d+", p.rule)}


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"),
    [sought(row) for row in broken_tiers.BROKEN if row[1] != "hit"],
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert rule in found.rule


# ------------------------------------------------------------------------------------------------ what others have


class KeepsTheEndOfAPrefix(Tiered):
    """What a lookup could not reach is pinned again the other way round: a prefix loses its beginning first."""

    def _let_go(self, r: Request, reach: Int) -> None:
        """Those that were let go stand the other way round."""
        with self.loop(reach) as walk:
            b = self.claimed[walk.index]
            with when(b != none):
                self.claimed[walk.index] = none
                self._release(b)


@pytest.mark.slow
def test_the_end_of_a_prefix_is_given_up_first() -> None:
    """To claim two blocks that cannot be reached takes more elements than the smallest scopes have."""
    sizes = {"Block": 4, "Request": 2, "Position": 4, "Hash": 4, "Content": 1, "Slot": 1}
    broken = {
        machine: Search(Model.of(machine), "hit", seconds=10.0).any(["the_end_of_a_prefix_is_pinned_first"], sizes)
        for machine in (Tiered, KeepsTheEndOfAPrefix)
    }
    assert broken == {Tiered: None, KeepsTheEndOfAPrefix: "the_end_of_a_prefix_is_pinned_first"}


def recalled(machine: type[Machine], place: str, proofs: Proofs) -> set[str]:
    """The properties of which everything at this place follows as it did where it was proved before."""
    model = Model.of(machine)
    work = Deciding(problems_of(model, place, Unbounded(model)), "z3", 10.0, proofs)
    work.decide(QUICK[:4])
    asked = {d.goal.prop.name for d in work.decisions if d.goal.prop is not None and not d.is_recalled}
    return {d.goal.prop.name for d in work.decisions if d.goal.prop is not None and d.is_recalled} - asked


@pytest.fixture(autouse=True)
def nothing_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found in the store is believed: by chance some of it is asked again."""
    for module in (records, deciding, vacuity):
        monkeypatch.setattr(module, "SAMPLE", 0.0)


@pytest.fixture(scope="module")
def proofs_of_pool(tmp_path_factory: pytest.TempPathFactory) -> Proofs:
    """A store in which everything of P is proved."""
    proofs = Proofs(tmp_path_factory.mktemp("pool") / "proofs.sqlite")
    assert prove(Pool, proofs=proofs).holds
    return proofs


@pytest.mark.slow
def test_what_an_extension_leaves_alone_is_not_asked_again(proofs_of_pool: Proofs) -> None:
    """An obligation that stands beside the same facts in another machine follows as it did there."""
    kept = {"free_exactly_when_unreferenced", "ref_cnt_counts_holders", "the_map_and_the_blocks_agree"}
    assert recalled(Mirror, "allocate", proofs_of_pool) >= kept
    assert recalled(Statistics, "allocate", proofs_of_pool) >= kept
    whole, short = prove(Statistics, only=["skip"], jobs=1), prove(Statistics, only=["skip"], proofs=proofs_of_pool)
    assert (whole.recalled, short.recalled > 5) == (0, True)
    assert [(o.goal, o.verdict) for o in short.obligations] == [(o.goal, o.verdict) for o in whole.obligations]
    assert short.holds


def test_what_was_proved_of_one_machine_serves_the_next_of_one_run() -> None:
    apart = prove_machines([Statistics], How(), only=["skip"], jobs=1)[0]
    together = prove_machines([Pool, Statistics], How(), only=["skip"], jobs=1)[1]
    assert together.recalled > apart.recalled
    assert [(o.goal, o.verdict) for o in together.obligations] == [(o.goal, o.verdict) for o in apart.obligations]


class CountsMore(Statistics):
    """Writes state of its own only."""

    def finish(self, r: Request) -> None:
        """A request leaves, and is noted."""
        super().finish(r)
        self.queries.add(0)


class WritesBaseState(Pool):
    """One write to P's state more, at the end of one action."""

    def finish(self, r: Request) -> None:
        """A request leaves, and its length is not what it was."""
        super().finish(r)
        self.length[r] = self.length[r] + 1


class WritesBaseStateSometimes(Pool):
    """The same statements, one of them under a condition."""

    def _release(self, b: Block) -> None:
        left = self.ref_cnt[b] - 1
        with when(left != 1):
            self.ref_cnt[b] = left
        with when(left == 0):
            self._join(b)


class AsksForLess(Pool):
    """A requirement of P is missing: a position behind the last that a request needs gets the null block."""

    def skip(self, r: Request) -> None:
        """A position gets the null block, whether the request is running or not."""
        self.table[r, self.length[r]] = self.null.value
        self.length[r] = self.length[r] + 1


class PromisesSomethingElse(Pool):
    """An invariant of P's name says less, so what rests on it does not follow any longer."""

    def the_map_and_the_blocks_agree(self, b: Block) -> bool:  # type: ignore[override]
        """Nothing."""
        return self.ref_cnt[b] == self.ref_cnt[b]  # type: ignore[return-value]


@pytest.mark.slow
def test_what_is_written_beside_is_no_concern_of_the_rest(proofs_of_pool: Proofs) -> None:
    report = prove(CountsMore, only=["finish"], proofs=proofs_of_pool, jobs=1)
    assert report.holds
    assert report.recalled > 10


@pytest.mark.slow
def test_what_asks_for_less_is_refuted_whatever_is_known_of_its_base(proofs_of_pool: Proofs) -> None:
    report = prove(AsksForLess, only=["skip"], proofs=proofs_of_pool, timeout=2, jobs=1)
    refuted = {o.prop or o.goal.split(": ")[-1] for o in report.obligations if o.verdict == "refuted"}
    assert "tables_are_filled_from_the_front" in refuted, open_ends(report)
    assert all(o.counterexample and o.counterexample.replayed for o in report.obligations if o.verdict == "refuted")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "place", "broken"),
    [
        (WritesBaseState, "finish", "tables_are_filled_from_the_front"),
        (WritesBaseStateSometimes, "trim", "ref_cnt_counts_holders"),
        (PromisesSomethingElse, "hit", "a_request_reads_its_own_prefix"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_what_does_something_else_does_not_follow_as_it_did(
    machine: type[Machine], place: str, broken: str, proofs_of_pool: Proofs
) -> None:
    """What is asked of these beside the broken property takes the prover long, and says nothing of the store."""
    assert not all(d.is_proved for d in decided(machine, place, broken, proofs_of_pool))
    step = step_that_breaks(machine, place, broken)
    assert step is not None
    assert step.replayed


# ------------------------------------------------------------------------------------------------ small extensions


class Cup(Sort):
    pass


class Cups(Machine):
    """Full cups are counted by hand, up to a limit."""

    full = Map(Cup, to=Bool)
    number = Scalar(to=Int)

    def most(self) -> int:
        return 3

    def _require_room(self) -> None:
        self.require(self.number.value < self.most())

    @action("X")
    def fill(self, c: Cup) -> None:
        self._require_room()
        self.full[c] = True
        self.number.value = self.number.value + 1

    @action("X")
    def look(self, c: Cup) -> None:
        self.require(self.full[c])

    @invariant("X")
    def there_is_room(self) -> Bool:
        return self.number.value <= self.most()

    @corollary("X")
    def fewer_than_five(self) -> Bool:
        return self.number.value < 5

    @step("X", of="fill")
    def it_is_never_empty_afterwards(self, before: Cups, c: Cup) -> Bool:
        return (self.number.value != before.number.value) & self.full[c] & (self.number.value < 4)


class WithoutRequirement(Cups):
    """What an inherited invariant and an inherited property of steps rest on is not required."""

    def _require_room(self) -> None:
        pass


class MoreRoom(Cups):
    """What an inherited corollary rests on says less; the invariant and the requirement still agree."""

    def most(self) -> int:
        return 7


class JustEnoughRoom(Cups):
    """Less is said, and enough for the corollary, but not for what is said of steps."""

    def most(self) -> int:
        return 4


@pytest.mark.parametrize(
    ("machine", "broken"),
    [
        (WithoutRequirement, {("fill", "there_is_room"), ("fill", "it_is_never_empty_afterwards")}),
        (MoreRoom, {("every state", "fewer_than_five"), ("fill", "it_is_never_empty_afterwards")}),
        (JustEnoughRoom, {("fill", "it_is_never_empty_afterwards")}),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
@pytest.mark.parametrize("is_warm", [False, True])
def test_what_is_overridden_refutes_what_was_inherited(
    machine: type[Machine], broken: set[tuple[str, str]], is_warm: bool, tmp_path: Path
) -> None:
    proofs = Proofs(tmp_path / "proofs.sqlite")
    if is_warm:
        assert prove(Cups, proofs=proofs, jobs=1).holds
    report = prove(machine, proofs=proofs, jobs=1, timeout=2)
    left = [o for o in report.obligations if o.verdict != "proved"]
    assert {(o.action, o.prop) for o in left} == broken
    assert all(o.verdict == "refuted" and o.counterexample and o.counterexample.replayed for o in left)
