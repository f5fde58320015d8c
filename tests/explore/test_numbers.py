"""What an exploration makes of numbers: products, numbers too large to compute with, and those that it never tries."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from kvproof.checkers.explore import explore
from kvproof.checkers.prove import prove
from kvproof.cli.commands.explore import show
from kvproof.cli.output import Output
from kvproof.machine import (
    Bool,
    Int,
    Machine,
    Map,
    Model,
    Queue,
    Real,
    Scalar,
    Sort,
    Sum,
    action,
    invariant,
    ite,
    sometimes,
)
from kvproof.machine.concrete import Concrete
from kvproof.machine.scope import Scope, ScopeError


class Block(Sort):
    pass


class Two(Machine):
    """Two numbers that count up to six."""

    n = Scalar(to=Int, init=1)
    k = Scalar(to=Int, init=1)

    @action("X")
    def count_n(self) -> None:
        self.require(self.n.value < 6)
        self.n.value = self.n.value + 1

    @action("X")
    def count_k(self) -> None:
        self.require(self.k.value < 6)
        self.k.value = self.k.value + 1


LARGE: dict[str, Callable[[Two], Bool]] = {
    "a product": lambda m: m.n.value * 2**64 == 0,
    "of products": lambda m: m.n.value * 2**40 * 2**40 == 0,
    "a choice": lambda m: ite(m.n.value == 1, m.k.value, m.k.value + 2**64) == m.k.value,
    "chosen": lambda m: ite(m.n.value == 2, 2**64, 0) == 0,
    "a sum": lambda m: m.n.value + 2**62 + 2**62 + 2**62 > 0,
    "of both": lambda m: (m.n.value * 2**40) * (m.k.value * 2**40) == 0,
}


@pytest.mark.parametrize("said", LARGE.values(), ids=LARGE)
def test_numbers_that_do_not_fit_a_word_are_refused(said: Callable[[Two], Bool]) -> None:
    """Torch would wrap around, and what is false be found to hold."""

    class Large(Two):
        @invariant("X")
        def holds(self) -> Bool:
            return said(self)

    with pytest.raises(ScopeError, match=r"needs more than 62 bits|too many to tell apart"):
        explore(Large, Scope(Model.of(Large), {"Int": 8}))


class HalfInAProperty(Two):
    """No exact number stands in the state; on the way there are some."""

    @invariant("X")
    def half_of_both_is_not_eleven_halves(self) -> Bool:
        return (self.n.value + self.k.value) / 2 != Fraction(11, 2)


class HalfInASum(Two):
    """So much weigh all blocks together."""

    on = Map(Block, to=Bool)
    weight = Sum(Block, of=lambda m, b: ite(m.on[b], Fraction(1, 2), 0), to=Real)

    @action("X")
    def put_on(self, b: Block) -> None:
        self.on[b] = True

    @invariant("X")
    def not_all_are_on(self) -> Bool:
        return self.weight.value < 1


class HalfInAnAction(Two):
    """Whole numbers only, the more of them the less there are of the other."""

    @action("X")
    def halve(self) -> None:
        self.require(self.n.value / 2 == 3)
        self.n.value = 0

    @invariant("X")
    def never_nothing(self) -> Bool:
        return self.n.value > 0


@pytest.mark.parametrize("machine", [HalfInAProperty, HalfInASum, HalfInAnAction], ids=lambda m: m.__name__)
def test_exact_numbers_that_stand_in_no_state_have_a_unit(machine: type[Machine]) -> None:
    """There was none for them: the explorer failed, and a size of Real was refused."""
    model = Model.of(machine)
    sizes = {"Int": 6, **dict.fromkeys(Scope.roots(model), 2)}
    assert explore(machine, Scope(model, sizes | {"Real": 2})).violations
    with pytest.raises(ScopeError, match="give Real a size"):
        explore(machine, Scope(model, sizes))


def test_two_numbers_of_a_state_are_multiplied() -> None:
    class Products(Two):
        @invariant("X")
        def never_thirty(self) -> Bool:
            return self.n.value * self.k.value != 30

    found = explore(Products, Scope(Model.of(Products), {"Int": 8})).violations
    assert [(v.name, len(v.trace)) for v in found] == [("never_thirty", 9)]


def test_what_is_never_possible_is_told() -> None:
    class Below(Two):
        @action("X")
        def go_below(self, by: Int) -> None:
            self.require(by < 0)
            self.n.value = 0

    report = explore(Below, Scope(Model.of(Below), {"Int": 8}))
    assert (report.complete, report.never, report.numbered) == (True, ["go_below"], True)


def test_which_numbers_actions_are_given_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A negative one breaks what all that are tried keep: a proof finds it."""

    class Takes(Machine):
        below = Scalar(to=Bool)

        @action("X")
        def take(self, n: Int) -> None:
            self.below.value = n < 0

        @invariant("X")
        def never_below(self) -> Bool:
            return ~self.below.value

    report = explore(Takes, Scope(Model.of(Takes), {"Int": 3}))
    assert report.complete
    assert not report.violations
    assert report.given_numbers
    assert not explore(Two, Scope(Model.of(Two), {"Int": 8})).given_numbers
    show(Output(None), [report])
    assert "Takes: numbers that an action is given are 0 to 3 here, and never negative" in capsys.readouterr().out
    assert {o.goal for o in prove(Takes, jobs=1).obligations if o.verdict == "refuted"} == {"never_below"}


def test_scratch_that_is_left_is_found() -> None:
    """It is no part of a state, so that the next step would begin as if nothing had happened."""

    class Leaves(Machine):
        work = Scalar(to=Int, scratch=True)
        seen = Scalar(to=Int)

        @action("X")
        def leave(self) -> None:
            self.work.value = 1

        @action("X")
        def look(self) -> None:
            self.seen.value = self.work.value

        @invariant("X")
        def nothing_is_seen(self) -> Bool:
            return self.seen.value == 0

    class Rests(Leaves):
        @action("X")
        def leave(self) -> None:
            self.work.value = 1
            self.seen.value = self.work.value - 1
            self.work.value = 0

    (found,) = explore(Leaves, Scope(Model.of(Leaves), {"Int": 3})).violations
    assert (found.kind, found.name) == ("ill-formed", "work is not back at its first value")
    assert found.path == [("leave", ())]
    assert explore(Rests, Scope(Model.of(Rests), {"Int": 3})).complete


def test_what_has_no_value_is_no_witness() -> None:
    """The head of an empty queue was some element, and a number divided by 0 was 0: so both were reached."""

    class Waits(Machine):
        queue = Queue(Block)
        by = Scalar(to=Int)
        turns = Scalar(to=Int)

        @action("X")
        def turn(self) -> None:
            self.require(self.turns.value < 2)
            self.turns.value = self.turns.value + 1

        @sometimes("X")
        def someone_is_first(self, b: Block) -> Bool:
            return self.queue.head() == b

        @sometimes("X")
        def a_share_is_nothing(self) -> Bool:
            return 5 // self.by.value == 0

        @sometimes("X")
        def it_turns_for_some(self, b: Block, ready: Bool) -> Bool:
            """Not for all values is there one, and it is reached all the same."""
            return (5 // ite(ready, self.turns.value, 0)) == 2

    scope = Scope(Model.of(Waits), {"Block": 2, "Int": 5})
    assert explore(Waits, scope).unreached == ["someone_is_first", "a_share_is_nothing"]
    spec, state = Concrete(Model.of(Waits), scope), Concrete(Model.of(Waits), scope).initial()
    for _ in range(2):
        spec.apply(state, "turn", ())
    reached = [p.name for p in spec.model.of_kind("sometimes") if spec.holds_somewhere(state, p.name)]
    assert reached == ["it_turns_for_some"]
