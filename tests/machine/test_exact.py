"""Exact numbers, whole division, indices that may be none: what is proved of them, and which scopes do not fit them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.checkers.prove import Obligation, prove
from kvproof.machine import (
    Bool,
    Event,
    Index,
    Int,
    Machine,
    Map,
    Model,
    Param,
    Real,
    Scalar,
    Sort,
    Sum,
    action,
    all_of,
    assume,
    corollary,
    exists,
    implies,
    invariant,
    none,
    optional,
    sometimes,
    step,
    when,
)
from kvproof.machine.concrete import Concrete
from kvproof.machine.concrete_text import Writer
from kvproof.machine.scope import Scope, ScopeError, exact

from . import meter


class Jar(Sort):
    pass


class Mark(Index):
    pass


class Pots(Machine):
    """What is poured from one jar into another is not lost."""

    cup = Param(to=Real)
    level = Map(Jar, to=Real)
    supply = Scalar(to=Real)
    total = Sum(Jar, of=lambda m, j: m.level[j], to=Real)

    @assume("1")
    def a_cup_holds_something(self) -> Bool:
        return self.cup.value > 0

    @action("1")
    def fill(self, j: Jar) -> None:
        self.require(self.supply.value <= 1)
        self.level[j] = self.level[j] + self.cup.value / 3
        self.supply.value = self.supply.value + self.cup.value / 3

    @action("1")
    def pour(self, a: Jar, b: Jar) -> None:
        self._require_enough(a)
        self.require(a != b)
        self.level[a] = self.level[a] - self.cup.value / 2
        self.level[b] = self.level[b] + self.cup.value / 2

    def _require_enough(self, a: Jar) -> None:
        self.require(2 * self.level[a] >= self.cup.value)

    @action("1")
    def halve(self, j: Jar) -> None:
        half = self.level[j] / 2
        self.level[j] = half
        self.supply.value = self.supply.value - half

    @invariant("1")
    def nothing_is_lost(self) -> Bool:
        return self.total.value == self.supply.value

    @invariant("1")
    def no_jar_owes(self, j: Jar) -> Bool:
        return self.level[j] >= 0

    @corollary("1")
    def no_jar_has_more_than_all(self, j: Jar) -> Bool:
        return self.level[j] <= self.supply.value

    @corollary("1")
    def nor_have_two(self, i: Jar, j: Jar) -> Bool:
        return implies(i != j, self.level[i] + self.level[j] <= self.supply.value)

    @corollary("1")
    def what_there_is_is_somewhere(self) -> Bool:
        return implies(self.supply.value > 0, exists(Jar, lambda j: self.level[j] > 0))


class PoursFromTheEmpty(Pots):
    """What a jar owes counts as nothing, so more is there afterwards."""

    def _require_enough(self, a: Jar) -> None:
        pass


class SaysTooMuch(Pots):
    """Each fact of the counting is needed; none says more than is true."""

    @corollary("1")
    def no_two_jars_have_all(self, i: Jar, j: Jar) -> Bool:
        return implies(i != j, self.level[i] + self.level[j] < self.supply.value)

    @corollary("1")
    def a_whole_cup_is_somewhere(self) -> Bool:
        return implies(self.supply.value > 0, exists(Jar, lambda j: self.level[j] >= 1))

    @corollary("1")
    def something_is_always_somewhere(self) -> Bool:
        return exists(Jar, lambda j: self.level[j] > 0)


def refuted(machine: type[Machine]) -> list[Obligation]:
    """What is refuted, each by a step that the concrete interpreter confirms; the rest is proved."""
    found = [o for o in prove(machine).obligations if o.verdict != "proved"]
    assert all(o.counterexample is not None and o.counterexample.replayed for o in found)
    return found


def test_sums_of_exact_numbers_are_carried_by_their_law() -> None:
    assert refuted(Pots) == []


@pytest.mark.parametrize(
    ("machine", "wrong"),
    [
        (PoursFromTheEmpty, {"nothing_is_lost", "no_jar_owes"}),
        (SaysTooMuch, {"no_two_jars_have_all", "a_whole_cup_is_somewhere", "something_is_always_somewhere"}),
    ],
)
def test_what_is_not_true_of_sums_is_refuted(machine: type[Machine], wrong: set[str]) -> None:
    assert {o.goal for o in refuted(machine)} == wrong


# ------------------------------------------------------------------------------------------------ divisions


class Divides(Machine):
    """One division, which is well-formed as long as the divisor is."""

    least = 0
    divisor = Scalar(to=Int, init=2)
    ratio = Scalar(to=Real)
    quotient = Scalar(to=Int)
    told = Event(Mark)

    @action("1")
    def lower(self) -> None:
        self.require(self.divisor.value > self.least)
        self.divisor.value = self.divisor.value - 1

    @action("1")
    def divide(self) -> None:
        self.ratio.value = 1 / self.divisor.value

    @action("1")
    def divide_whole(self) -> None:
        self.quotient.value = 7 // self.divisor.value + 7 % self.divisor.value

    @action("1")
    def require_it(self) -> None:
        self.require(1 / self.divisor.value > 0)

    @action("1")
    def decide_by_it(self) -> None:
        with when(7 % self.divisor.value > 1):
            self.quotient.value = 0

    @action("1")
    def count_by_it(self) -> None:
        with self.loop(1 // self.divisor.value):
            self.quotient.value = 0

    @action("1")
    def go_on_by_it(self) -> None:
        with self.loop(1, going=lambda i: 1 / self.divisor.value > 0):
            self.quotient.value = 0

    @action("1")
    def tell_it(self) -> None:
        self.told(1 // self.divisor.value)

    @action("1")
    def return_it(self) -> Real:
        return 1 / self.divisor.value

    @invariant("1")
    def the_divisor_is_small(self) -> Bool:
        return (self.least <= self.divisor.value) & (self.divisor.value <= 2)


class DividesWell(Divides):
    """The divisor never comes to 0."""

    least = 1


def test_divisors_are_obligations() -> None:
    assert {o.action for o in refuted(Divides)} == Model.of(Divides).actions.keys() - {"lower"}
    assert refuted(DividesWell) == []


class DividesAtFirst(Machine):
    """First values and counts are asked too, what the machine does not know to be positive."""

    base = Param(to=Int)
    level = Map(Jar, to=Real, init=lambda m, j: 1 / m.base.value)
    shares = Sum(Jar, of=lambda m, j: m.level[j] / (m.base.value + 1), to=Real)

    @invariant("1")
    def levels_are_there(self, j: Jar) -> Bool:
        return self.level[j] == self.level[j]


class KnowsTheBase(DividesAtFirst):
    """The divisors are known to be positive."""

    @assume("1")
    def the_base_is_positive(self) -> Bool:
        return self.base.value > 0


def test_first_values_and_counts_have_values() -> None:
    open_ends = {o.goal for o in prove(DividesAtFirst).obligations if o.verdict != "proved"}
    assert open_ends == {"the first value of level has a value", "count shares has a value"}
    assert refuted(KnowsTheBase) == []


def test_a_division_by_nothing_is_found() -> None:
    report = explore(Divides, Scope(Model.of(Divides), {"Int": 7, "Mark": 8, "Real": 2}))
    assert {v.kind for v in report.violations} == {"ill-formed"}
    assert [[action for action, _ in v.path[:-1]] for v in report.violations] == [["lower", "lower"]] * 2
    assert explore(DividesWell, Scope(Model.of(DividesWell), {"Int": 7, "Mark": 8, "Real": 2})).violations == []


# ------------------------------------------------------------------------------------------------ indices


class Pointers(Machine):
    """An index that may be none, beside a number that may be the one that stands for it."""

    at = Map(Jar, to=optional(Mark))
    number = Scalar(to=Int, init=1)
    seen = Map(Mark, to=Bool)

    @action("1")
    def lower(self) -> None:
        self.require(self.number.value >= 0)
        self.number.value = self.number.value - 1

    @action("1")
    def point(self, j: Jar, k: Mark) -> None:
        self.at[j] = k

    @action("1")
    def follow(self, j: Jar) -> None:
        self.require(self.at[j] != none)
        self.seen[self.at[j]] = True

    @invariant("1")
    def the_number_is_small(self) -> Bool:
        return (self.number.value >= -1) & (self.number.value <= 1)

    @invariant("1")
    def none_is_no_number(self, j: Jar) -> Bool:
        return implies(self.at[j] == self.number.value, all_of(self.at[j] != none, self.number.value >= 0))


class PointsByNumbers(Pointers):
    """A number that is no index is stored as one."""

    @action("1")
    def point(self, j: Jar, k: Mark) -> None:
        self.at[j] = self.number.value


class FollowsBlindly(Pointers):
    """None is used as a key."""

    @action("1")
    def follow(self, j: Jar) -> None:
        self.seen[self.at[j]] = True


def test_none_is_no_index_and_no_number() -> None:
    assert refuted(Pointers) == []
    assert {o.action for o in refuted(PointsByNumbers)} == {"point"}
    assert {o.action for o in refuted(FollowsBlindly)} == {"follow"}
    scope = Scope(Model.of(FollowsBlindly), {"Jar": 1, "Mark": 2, "Int": 2})
    assert [v.path for v in explore(FollowsBlindly, scope).violations] == [[("follow", (0,))]]


# ------------------------------------------------------------------------------------------------ scopes


@pytest.mark.parametrize(
    ("said", "number"), [(3, 3), ("1/3", Fraction(1, 3)), ("0.1", Fraction(1, 10)), (Fraction(-2, 4), Fraction(-1, 2))]
)
def test_exact_numbers_are_written_as_integers_or_text(said: object, number: Fraction | int) -> None:
    assert exact(said) == number


@pytest.mark.parametrize("said", [0.1, 2.0, True, None, "a third", "1/0", "nan", [1]])
def test_what_may_have_been_rounded_is_no_exact_number(said: object) -> None:
    with pytest.raises(ScopeError, match="rate: an integer, or text such as"):
        exact(said, "rate")


class Chosen(Machine):
    """Parameters of two keys, and one that is true or not."""

    held = Param(Jar, Mark, to=Bool)
    is_on = Param(to=Bool)
    n = Scalar(to=Int)

    @action("X")
    def count(self) -> None:
        self.require(self.is_on.value & (self.n.value < 1))
        self.n.value = self.n.value + 1

    @invariant("X")
    def few(self) -> Bool:
        return self.n.value <= 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"held": [[True], [False, False, True]]}, "the value of parameter held does not have"),
        ({"held": [[True, False]]}, "the value of parameter held does not have"),
        ({"held": [[True, False], [True, 2]]}, "held holds Bool, not 2"),
        ({"is_on": -1}, "is_on holds Bool, not -1"),
    ],
)
def test_a_parameter_has_a_value_for_each_key(params: dict[str, Any], message: str) -> None:
    """A list that is too long gave what it has too many to other keys, where another one was too short."""
    given = {"held": [[True, False], [False, True]], "is_on": 1}
    sizes = {"Jar": 2, "Mark": 2}
    assert Scope(Model.of(Chosen), sizes, given).params == given
    with pytest.raises(ScopeError, match=message):
        Scope(Model.of(Chosen), sizes, given | params)


def of_meter(sizes: dict[str, int], params: dict[str, Any]) -> Scope:
    plain = meter.scope()
    return Scope(plain.model, plain.sizes | sizes, plain.params | params)


@pytest.mark.parametrize(
    ("sizes", "params", "message"),
    [
        ({"Real": 0}, {}, "the size of Real is 0; it is a positive integer"),
        ({"Int": -1}, {}, "the size of Int is -1"),
        ({}, {"rate": [1, 0.5]}, "rate holds exact numbers: an integer, or text"),
        ({}, {"first": 2}, "first holds 2, but Mark has only 2 elements"),
        ({}, {"first": -1}, "first holds -1"),
        ({"Real": 4}, {}, "rate is 1/3, no multiple of 1/4; give Real a size of which 3 is a divisor"),
        ({"Real": 3}, {}, "the first value of level: a number is no multiple of 1/3"),
        ({"Real": 3}, {"rate": [2, 2]}, "a number in the text is 1/2, no multiple of 1/3"),
        ({"Real": 6, "Int": 7}, {}, "a number is no multiple of 1/6; give Real a size that has more divisors"),
        ({"Real": 12, "Int": 1}, {}, "leaves the scope, where it is 0 to 1; give Int a greater size"),
        ({"Real": 1200}, {}, "may have 3,601 values, too many to tell apart; give Int or Real a smaller size"),
        ({"Real": 12 * 10**9, "Int": 10**9}, {}, "needs more than 63 bits; give Int or Real a smaller size"),
    ],
)
def test_a_scope_that_does_not_fit_says_so(sizes: dict[str, int], params: dict[str, Any], message: str) -> None:
    with pytest.raises(ScopeError, match=message):
        explore(meter.Meter, of_meter(sizes, params), check=False)


class Fills(Machine):
    """Whole numbers, of which thirds are spoken."""

    level = Scalar(to=Real)

    @action("1")
    def fill(self) -> None:
        self.require(self.level.value < 3)
        self.level.value = self.level.value + 1


class RequiresThirds(Fills):
    @action("1")
    def empty(self) -> None:
        self.require(self.level.value / 3 == 1)
        self.level.value = 0


class StoresThirds(Fills):
    @action("1")
    def share(self) -> None:
        self.level.value = self.level.value / 3


class StartsWithAThird(Fills):
    level = Scalar(to=Real, init=Fraction(1, 3))


class HasThirds(Fills):
    @invariant("1")
    def thirds_are_small(self) -> Bool:
        return self.level.value / 3 <= 1


class AddsThirds(Fills):
    @step("1")
    def thirds_grow(self, before: Fills) -> Bool:
        return self.level.value / 3 > before.level.value / 3


class ReachesThirds(Fills):
    @sometimes("1")
    def a_third_is_one(self) -> Bool:
        return self.level.value / 3 == 1


class Squares(Fills):
    @action("1")
    def square(self) -> None:
        self.level.value = self.level.value * self.level.value


class Divided(Fills):
    @action("1")
    def divide(self) -> None:
        self.level.value = 1 / (1 + self.level.value)


class Totals(Fills):
    levels = Map(Jar, to=Real)
    total = Sum(Jar, of=lambda m, j: m.levels[j], to=Real)

    @invariant("1")
    def nothing_is_in_jars(self) -> Bool:
        return self.total.value == 0


THIRDS = [RequiresThirds, StoresThirds, StartsWithAThird, HasThirds, AddsThirds, ReachesThirds]


@pytest.mark.parametrize("machine", THIRDS, ids=lambda m: m.__name__)
def test_nothing_is_rounded(machine: type[Machine]) -> None:
    """Neither where the machine computes, nor where it is judged."""
    with pytest.raises(ScopeError, match="no multiple of 1/2"):
        explore(machine, Scope(Model.of(machine), {"Int": 9, "Real": 2}))
    report = explore(machine, Scope(Model.of(machine), {"Int": 9, "Real": 27}), max_states=5)
    assert report.violations == []


@pytest.mark.parametrize(
    ("machine", "unit", "message"),
    [
        (Squares, 1000, "a factor may have 9,001 values, too many to tell apart"),
        (Divided, 1000, "a divisor may have 9,001 values, too many to tell apart"),
        (Fills, 1 << 60, "a value of level needs more than 63 bits"),
        (Totals, 1 << 58, "a number needs more than 62 bits; give Int or Real a smaller size"),
    ],
)
def test_numbers_that_are_too_many_or_too_large_are_refused(machine: type[Machine], unit: int, message: str) -> None:
    sizes = {"Int": 9, "Real": unit} | ({"Jar": 4} if machine is Totals else {})
    with pytest.raises(ScopeError, match=message):
        explore(machine, Scope(Model.of(machine), sizes))


def test_sums_of_parameters_are_taken_once() -> None:
    scope = meter.scope()
    concrete = Concrete(scope.model, scope)
    text = Writer(scope.model, scope, concrete._constants).check(scope.model.properties["sums_are_numbers"])
    assert "K_flow" in text
    assert concrete.violations(concrete.initial()) == []  # sums_are_numbers reads it


class Spoken(Machine):
    """An action tells an exact number, of which properties speak."""

    level = Map(Jar, to=Real)

    @action("1")
    def pour(self, j: Jar) -> Real:
        self.level[j] = self.level[j] + Fraction(1, 3)
        return self.level[j] / 2

    @step("1", of="pour")
    def half_of_it_is_told(self, before: Spoken, j: Jar, result: Real) -> Bool:
        return result * 2 == self.level[j]

    @step("1", of="pour")
    def little_is_told(self, before: Spoken, j: Jar, result: Real) -> Bool:  # not from four pours on
        return result < Fraction(2, 3)


def test_what_an_action_returns_may_be_an_exact_number() -> None:
    assert {o.prop: o.verdict for o in prove(Spoken).obligations if o.prop} == {
        "half_of_it_is_told": "proved",
        "little_is_told": "refuted",
    }
    found = explore(Spoken, Scope(Model.of(Spoken), {"Jar": 1, "Int": 3, "Real": 6}))
    assert [(v.name, len(v.trace)) for v in found.violations] == [("little_is_told", 4)]
    concrete = Concrete(Model.of(Spoken), Scope(Model.of(Spoken), {"Jar": 1, "Int": 3, "Real": 6}))
    before = concrete.state({"level": [1]})
    after, outcome = concrete.after(before, "pour", (0,))
    broken = concrete.step_violations(before, after, "pour", (0,), outcome.result)
    assert [v.prop.name for v in broken] == ["little_is_told"]
