"""Numbers of other kinds than are expected are refused: the message says what, and in which line."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvproof.machine import Bool, Int, Machine, Map, Model, Real, action, invariant, ite, optional

from .mistakes import Base, Block, Place, Request, in_action, in_property, mistake

NUMBER = "a number is expected here, not 0.5; write one that is no integer as Fraction(1, 3)"


def test_a_rounded_number_in_arithmetic() -> None:
    assert in_property(lambda self, b, r: self.time[b] + 0.5 == 1) == NUMBER  # wrong


def test_a_rounded_number_in_a_comparison() -> None:
    assert in_property(lambda self, b, r: self.time[b] < 0.5) == NUMBER  # wrong


def test_a_rounded_number_times_an_integer() -> None:
    message = in_property(lambda self, b, r: self.count[b] * 0.5 == 1)  # wrong
    assert message == "an integer is expected here, not 0.5"


def test_a_rounded_number_stored() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.time[b] = 0.5  # type: ignore[assignment]  # wrong

    assert in_action(body) == "0.5 is not a value of the modelling language"


def test_an_exact_number_stored_as_an_integer() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b] = n + Fraction(1, 2)  # type: ignore[assignment]  # wrong

    assert in_action(body) == "count holds Int; n + 1/2 is a Real"


def test_whole_division_by_an_exact_number() -> None:
    message = in_property(lambda self, b, r: self.count[b] // self.time[b] == 1)  # wrong
    assert message == "an integer is expected here, not time[b]"


def test_an_exact_number_and_a_condition() -> None:
    message = in_property(lambda self, b, r: self.time[b] == self.flag.value)  # wrong
    assert message == "time[b] (Real) cannot equal flag (Bool)"


def test_exact_numbers_are_no_keys() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(Real, to=Int)  # wrong

        return Wrong

    assert "Real'> is not a sort; a map is keyed by sorts" in mistake(make)


def test_exact_numbers_are_no_parameters() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("P1")  # wrong
            def act(self, n: Real) -> None: ...

        return Wrong

    assert "parameter n of act needs a sort, Int or Bool as its annotation" in mistake(make)


@pytest.mark.parametrize("number", [Bool, Int, Real])
def test_a_number_that_may_be_none(number: Any) -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(Block, to=optional(number))  # wrong

        return Wrong

    assert f"optional({number.__name__}) is not a type that a map can hold" in mistake(make)


@pytest.mark.parametrize(
    "use",
    [
        lambda at: at + 1,  # wrong
        lambda at: 1 - at,  # wrong
        lambda at: at + Fraction(1, 2),  # wrong
        lambda at: at / 2,  # wrong
        lambda at: at // 2,  # wrong
        lambda at: 7 % at,  # wrong
        lambda at: at < 1,  # wrong
        lambda at: at <= Fraction(1, 2),  # wrong
        lambda at: Fraction(1, 2) == at,  # wrong
    ],
)
def test_an_index_that_may_be_none_in_arithmetic(use: Any) -> None:
    message = in_property(lambda self, b, r: use(self.at[b]) == use(self.at[b]))  # wrong
    assert message == "at[b] may be none, with which nothing can be computed"


def test_an_index_that_may_be_none_stored_as_a_number() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b] = self.at[b]  # wrong

    assert in_action(body) == "count holds Int; at[b] is a Place or none"


def test_an_index_that_may_be_none_stored_as_an_exact_number() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.time[b] = self.at[b]  # wrong

    assert in_action(body) == "at[b] may be none, with which nothing can be computed"


def test_an_index_that_may_be_none_or_a_number() -> None:
    message = in_property(lambda self, b, r: ite(self.flag.value, self.at[b], self.count[b]) == 1)  # wrong
    assert message == "the two values of ite differ in type: at[b], count[b]"


def test_an_index_that_may_be_none_equals_numbers_that_are_there() -> None:
    class Right(Base):
        @invariant("P1")
        def holds(self, b: Block, p: Place) -> Bool:
            return (self.at[b] == p) | (self.at[b] == 0) | (self.at[b] == self.count[b])

    said = repr(Model.of(Right).properties["holds"].formula)
    assert said == "((at[b] == p) | (at[b] == 0)) | ((at[b] != none) & (at[b] == count[b]))"
