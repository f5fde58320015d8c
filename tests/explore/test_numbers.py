"""What an exploration makes of numbers: products, numbers too large to compute with, and those that it never tries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvproof.checkers.explore import explore
from kvproof.machine import Bool, Int, Machine, Model, Scalar, Sort, action, invariant, ite
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
