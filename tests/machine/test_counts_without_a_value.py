"""Counts that may have no value: what is wrong is said where it is, and where they are not read nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.checkers.prove import prove
from kvproof.machine import (
    Bool,
    Count,
    Int,
    Machine,
    Map,
    Model,
    Param,
    Scalar,
    Sort,
    action,
    assume,
    invariant,
    sometimes,
)
from kvproof.machine.scope import Scope, ScopeError


class Block(Sort):
    pass


class Request(Sort):
    pass


class OfParameters(Machine):
    """How many blocks are dear: no number where one costs nothing."""

    cost = Param(Block, to=Int)
    dear = Count(Block, where=lambda m, b: 10 // m.cost[b] < 4)
    seen = Scalar(to=Int)

    @action("X")
    def look(self) -> None:
        self.seen.value = self.dear.value

    @invariant("X")
    def some(self) -> Bool:
        return self.seen.value >= 0


class FromTheFirst(OfParameters):
    seen = Scalar(to=Int, init=lambda m: m.dear.value)


class Assumed(OfParameters):
    @assume("X")
    def few(self) -> Bool:
        return self.dear.value <= 1


class Guarded(FromTheFirst):
    @assume("X")
    def something(self, b: Block) -> Bool:
        return self.cost[b] > 0


class Chosen(Machine):
    """Each request counts; only that of one of them is read, and has a value."""

    left = Map(Block, Request, to=Int, init=1)
    chosen = Scalar(to=Request, init=lambda m: m.first.value)
    first = Param(to=Request)
    many = Count(Block, by=Request, where=lambda m, b, r: 10 // m.left[b, r] > 2)
    seen = Scalar(to=Int)

    @action("X")
    def spend(self, b: Block, r: Request) -> None:
        self.require(r != self.chosen.value)
        self.left[b, r] = 0

    @action("X")
    def look(self) -> None:
        self.seen.value = self.many[self.chosen.value]

    @invariant("X")
    def some(self) -> Bool:
        return self.seen.value >= 0

    @invariant("X")
    def the_chosen_is_left(self, b: Block) -> Bool:
        return self.left[b, self.chosen.value] == 1


class Sought(Machine):
    """What must be reachable has no value in some states."""

    left = Map(Block, to=Int, init=1)

    @action("X")
    def spend(self, b: Block) -> None:
        self.left[b] = 0

    @sometimes("X")
    def half(self, b: Block) -> Bool:
        return (self.left[b] == 1) | (10 // self.left[b] == 5)


def scope_of(machine: type[Machine], sizes: dict[str, int], **params: Any) -> Scope:
    return Scope(Model.of(machine), sizes, params)


@pytest.mark.parametrize("machine", [OfParameters, FromTheFirst, Assumed, Chosen, Sought])
def test_a_proof_says_what_has_no_value(machine: type[Machine]) -> None:
    """Also where no property reads it, and where no first state has one."""
    refuted = [o for o in prove(machine, jobs=1, timeout=3).obligations if o.verdict != "proved"]
    assert refuted
    for obligation in refuted:
        assert "has a value" in obligation.goal
        assert obligation.counterexample is not None
        assert obligation.counterexample.replayed


def test_what_is_assumed_is_enough() -> None:
    assert prove(Guarded, jobs=1, timeout=3).holds


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (FromTheFirst, "the first state of FromTheFirst has no value: 10 is divided by 0"),
        (Assumed, "what Assumed assumes has no value for these parameters: 10 is divided by 0"),
        (Guarded, r"the parameters break an assumption of Guarded: X something\(b=1\)"),
    ],
)
def test_an_exploration_says_what_its_parameters_lack(machine: type[Machine], sentence: str) -> None:
    with pytest.raises(ScopeError, match=sentence):
        explore(machine, scope_of(machine, {"Block": 2, "Int": 10}, cost=[2, 0]))


def test_a_count_without_a_value_is_found_where_it_is_read() -> None:
    (found,) = explore(OfParameters, scope_of(OfParameters, {"Block": 2, "Int": 10}, cost=[2, 0])).violations
    assert (found.kind, [step.action for step in found.trace]) == ("ill-formed", ["look"])


def test_a_count_is_read_for_its_own_key() -> None:
    """Of the request that spent all there is no count, and nobody asks for it."""
    report = explore(Chosen, scope_of(Chosen, {"Block": 2, "Request": 2, "Int": 10}, first=0))
    assert (report.complete, report.violations) == (True, [])
