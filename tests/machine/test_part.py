"""A machine as a part of another: its text, run on the other one's state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import (
    Bool,
    Count,
    Int,
    Machine,
    MachineError,
    Map,
    Model,
    Param,
    Part,
    Queue,
    Scalar,
    Sort,
    Tally,
    action,
    implies,
    invariant,
    step,
)
from kvproof.machine.concrete import Concrete
from kvproof.machine.scope import Scope


class Cup(Sort):
    """What stands on a shelf."""


class Jug(Sort):
    """What stands on the other one."""


class Shelf(Machine):
    """Things stand in a queue, and each is as full as it was made."""

    most = Param(to=Int)
    row = Queue(Cup, init=True)
    level = Map(Cup, to=Int)
    limit = Scalar(to=Int)

    @action("X1")
    def fill(self, c: Cup) -> None:
        """Up to the limit."""
        self.require(self.row.has(c) & (self.level[c] < self.limit.value))
        self._pour(c)

    def _pour(self, c: Cup) -> None:
        self.level[c] = self.level[c] + 1

    @invariant("X1")
    def nothing_flows_over(self, c: Cup) -> Bool:
        return self.level[c] <= self.limit.value


class Kitchen(Shelf):
    """A second shelf, of jugs, that hold three."""

    upper_row = Queue(Jug, init=True)
    upper_level = Map(Jug, to=Int)
    upper = Part(Shelf, limit=3)

    @action("X2")
    def fill_jug(self, j: Jug) -> None:
        """What a shelf does with a cup."""
        self.require(self.upper.row.has(j) & (self.upper.level[j] < self.upper.limit.value))
        self.upper._pour(j)

    @invariant("X2")
    def no_jug_flows_over(self, j: Jug) -> Bool:
        """What a shelf promises."""
        return self.upper.keeps(Shelf.nothing_flows_over, j)


class Careless(Kitchen):
    """The text of the part is that of the machine: what is wrong there is wrong here."""

    def _pour(self, c: Cup) -> None:
        self.level[c] = self.level[c] + 1


class Spills(Shelf):
    def _pour(self, c: Cup) -> None:
        self.level[c] = self.level[c] + 2


class SpillingKitchen(Shelf):
    upper_row = Queue(Jug, init=True)
    upper_level = Map(Jug, to=Int)
    upper = Part(Spills, limit=3)

    @action("X2")
    def fill_jug(self, j: Jug) -> None:
        self.require(self.upper.row.has(j) & (self.upper.level[j] < self.upper.limit.value))
        self.upper._pour(j)

    @invariant("X2")
    def no_jug_flows_over(self, j: Jug) -> Bool:
        return self.upper.keeps(Shelf.nothing_flows_over, j)


def test_the_text_of_a_part_works_on_its_own_state() -> None:
    model = Model.of(Kitchen)
    machine = Concrete(model, Scope(model, {"Cup": 1, "Jug": 2, "Int": 4}, {"most": 1}))
    state = machine.initial()
    machine.apply(state, "fill_jug", (1,))
    assert (machine.describe(state)["upper_level"], machine.describe(state)["level"]) == ([0, 1], [0])


def test_what_it_promises_is_proved_of_the_part() -> None:
    report = prove(Kitchen)
    assert report.holds
    assert any(o.goal == "no_jug_flows_over" for o in report.obligations)


def test_a_mistake_in_its_text_is_one_in_the_part() -> None:
    verdicts = {(o.action, o.goal): o.verdict for o in prove(SpillingKitchen).obligations}
    assert verdicts["fill_jug", "no_jug_flows_over"] == "refuted"


class Pantry(Machine):
    """A shelf is a part of it, and a count is kept of what stands there."""

    most = Param(to=Int)
    low_row = Queue(Cup, init=True)
    low_level = Map(Cup, to=Int)
    low = Part(Shelf, limit=3)
    full = Count(Cup, where=lambda m, c: m.low_level[c] >= 3)

    @action("X3")
    def pour(self, c: Cup) -> None:
        self.require(self.low_row.has(c))
        self.low._pour(c)

    def nothing_is_full(self) -> Bool:
        return self.full.value == 0


class House(Machine):
    """A pantry is a part of it, with its shelf and its count; and it has a shelf of its own, which nobody fills."""

    most = Param(to=Int)
    cold_low_row = Queue(Jug, init=True)
    cold_low_level = Map(Jug, to=Int)
    cold_low = Part(Shelf, limit=3)
    cold_full = Count(Jug, where=lambda m, j: m.cold_low_level[j] >= 3)
    cold = Part(Pantry)
    low_row = Queue(Cup, init=True)
    low_level = Map(Cup, to=Int)
    low = Part(Shelf, limit=3)
    full = Count(Cup, where=lambda m, c: m.low_level[c] >= 3)

    @action("X3")
    def pour(self, j: Jug) -> None:
        self.require(self.cold.low.row.has(j))
        self.cold.low._pour(j)

    @invariant("X3")
    def nothing_is_poured_elsewhere(self, c: Cup) -> Bool:
        return self.low_level[c] == 0


def test_a_part_has_parts_and_counts_of_its_own() -> None:
    class Empty(House):
        @invariant("X3")
        def nothing_is_full(self) -> Bool:
            return self.cold.keeps(Pantry.nothing_is_full)

    assert prove(House).holds
    report = prove(Empty, jobs=1)
    assert {(o.action, o.goal) for o in report.obligations if o.verdict == "refuted"} == {("pour", "nothing_is_full")}


def part_of_the_whole() -> type[Machine]:
    """What is said of the pantry's shelf would be said of the other one."""

    class Wrong(Machine):
        most = Param(to=Int)
        cold_low_row, low_row = Queue(Cup, init=True), Queue(Cup, init=True)
        cold_low_level, low_level = Map(Cup, to=Int), Map(Cup, to=Int)
        low = Part(Shelf, limit=3)
        cold_full = Count(Cup, where=lambda m, c: m.cold_low_level[c] >= 3)
        cold = Part(Pantry)

    return Wrong


def count_of_the_whole() -> type[Machine]:
    class Wrong(Pantry):
        cold_low_row = Queue(Cup, init=True)
        cold_low_level = Map(Cup, to=Int)
        cold_low = Part(Shelf, limit=3)
        cold = Part(Pantry)

        @invariant("X3")
        def nothing_is_full(self) -> Bool:
            return self.cold.keeps(Pantry.nothing_is_full)

    return Wrong


def missing() -> type[Machine]:
    class Wrong(Machine):
        upper_row = Queue(Jug, init=True)
        upper = Part(Shelf, limit=3, most=2)

    return Wrong


def misshapen() -> type[Machine]:
    class Wrong(Shelf):
        upper_row = Map(Jug, to=Bool)
        upper = Part(Shelf)

    return Wrong


def unequal() -> type[Machine]:
    class Wrong(Shelf):
        upper_level = Map(Jug, Cup, to=Int)
        upper = Part(Shelf)

    return Wrong


def counting() -> type[Machine]:
    class Wrong(Shelf):
        upper_level = Tally(Jug)
        upper = Part(Shelf)

    return Wrong


def constant_of_nothing() -> type[Machine]:
    class Wrong(Shelf):
        upper = Part(Shelf, level=3)

    return Wrong


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (missing, "upper is a Shelf and has no upper_level: declare it, or give it a value"),
        (misshapen, "upper_row is a map of 1 keys and stands for Shelf.row, a queue of 0 keys: give it that form"),
        (unequal, "upper_level is a map of 2 keys and stands for Shelf.level, a map of 1 keys: give it that form"),
        (counting, "upper_level is a tally of 1 keys and stands for Shelf.level, a map of 1 keys: give it that form"),
        (constant_of_nothing, "upper gives level a value, which is no scalar of Shelf"),
        (part_of_the_whole, "cold is a Pantry, of which low is a part, and has no cold_low: declare it"),
        (
            count_of_the_whole,
            "cold.full would count what stands in low_level, and that is cold_low_level here: declare",
        ),
    ],
)
def test_what_does_not_fit_is_a_mistake(make: Callable[[], type[Machine]], sentence: str) -> None:
    with pytest.raises(MachineError, match=sentence):
        Model.of(make())


def test_a_part_stands_once_and_is_not_replaced() -> None:
    with pytest.raises(MachineError, match="upper stands twice in Twice"):

        class Twice(Shelf):
            upper = Part(Shelf)
            upper = Part(Shelf)

    class Replaces(Kitchen):
        @action("X1")
        def replace(self) -> None:
            self.upper = 3  # type: ignore[assignment]

    with pytest.raises(MachineError, match="has no upper that could be written"):
        Model.of(Replaces)


class Tidy(Machine):
    """What it promises is said by a property, by a value of the class, and by another promise."""

    MOST = 0
    level = Scalar(to=Int)

    @property
    def is_dry(self) -> Bool:
        return self.level.value == 0

    @invariant("X1")
    def dry(self) -> Bool:
        return self.is_dry

    @invariant("X1")
    def low(self) -> Bool:
        return self.level.value <= self.MOST

    @invariant("X1")
    def both(self) -> Bool:
        return self.dry() & self.low()


class Spilled(Tidy):
    """What is said of the basin is no more true than what the same words say of the level is false."""

    MOST = 5
    basin_level = Scalar(to=Int)
    basin = Part(Tidy)

    @action("X2")
    def spill(self) -> None:
        self.require(self.basin_level.value < self.MOST)
        self.basin_level.value = self.basin_level.value + 1

    @invariant("X2")
    def within(self) -> Bool:
        return self.basin_level.value <= self.MOST

    @invariant("X2")
    def basin_dry(self) -> Bool:
        return self.dry()

    @invariant("X2")
    def of_a_property(self) -> Bool:
        return self.basin.keeps(Tidy.dry)

    @invariant("X2")
    def of_a_value(self) -> Bool:
        return self.basin.keeps(Tidy.low)

    @invariant("X2")
    def of_another_promise(self) -> Bool:
        return self.basin.keeps(Tidy.both)


def test_properties_values_and_methods_are_those_of_the_parts_machine() -> None:
    refuted = {o.goal for o in prove(Spilled).obligations if o.verdict == "refuted" and o.action == "spill"}
    assert {"of_a_property", "of_a_value"} <= refuted
    assert any(goal.startswith("of_another_promise") for goal in refuted)


class Fills(Machine):
    """Level by level, as a loop with a fact."""

    level = Scalar(to=Int)

    @action("X1")
    def fill(self, n: Int) -> None:
        with self.loop(n, facts=lambda i, entry: {"one each": self.level.value == entry.level.value + i}):
            self.level.value = self.level.value + 1

    @step("X1", of="fill")
    def by_as_many(self, before: Fills, n: Int) -> Bool:
        return implies(n >= 0, self.level.value == before.level.value + n)


class FillsItsPart(Machine):
    level = Scalar(to=Int)
    basin_level = Scalar(to=Int)
    basin = Part(Fills)

    @action("X2")
    def fill(self, n: Int) -> None:
        self.level.value = 0
        self.basin.fill(n)

    @step("X2", of="fill")
    def by_as_many(self, before: FillsItsPart, n: Int) -> Bool:
        return implies(n >= 0, self.basin_level.value == before.basin_level.value + n)

    @step("X2", of="fill")
    def not_the_whole(self, before: FillsItsPart, n: Int) -> Bool:
        return self.level.value == before.level.value + n


def test_the_facts_of_a_loop_are_said_of_the_part() -> None:
    left = {o.goal for o in prove(FillsItsPart).obligations if o.verdict != "proved"}
    assert left == {"not_the_whole"}
