"""Frame properties (`unless=`): what stays as it is, whatever action comes later."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import ProveReport, prove
from kvproof.machine import Bool, Int, Machine, MachineError, Map, Model, Scalar, Sort, action, step


class Coin(Sort):
    """What lies in a purse."""


class Purse(Machine):
    """Coins go in; who looks at one leaves all of them where they are."""

    inside = Map(Coin, to=Bool)
    looks = Scalar(to=Int)

    @action("X1")
    def put(self, c: Coin) -> None:
        self.inside[c] = True

    @action("X1")
    def look(self, c: Coin) -> None:
        self.require(self.inside[c])
        self.looks.value = self.looks.value + 1

    @step("X1", unless="put")
    def coins_stay(self, before: Purse, c: Coin) -> Bool:
        """Each of them, not only the one that is looked at."""
        return self.inside[c] == before.inside[c]


class Swap(Purse):
    """It keeps the coin that it names, and no other."""

    @action("X1")
    def look(self, c: Coin) -> None:
        with self.each(Coin) as other:
            self.inside[other] = self.inside[other] & (other == c)


class Thief(Purse):
    """An action that comes later, and that no list of those that leave the coins alone would hold."""

    @action("X1")
    def steal(self, c: Coin) -> None:
        self.inside[c] = False


class Spender(Thief):
    """The property names who may take a coin."""

    @step("X1", unless=("put", "steal"))
    def coins_stay(self, before: Purse, c: Coin) -> Bool:
        return self.inside[c] == before.inside[c]


def verdicts(report: ProveReport) -> dict[str, str]:
    return {o.action: o.verdict for o in report.obligations if o.goal == "coins_stay"}


def test_every_action_but_those_that_are_named_is_asked() -> None:
    assert Model.of(Purse).properties["coins_stay"].of == ("look",)
    assert prove(Purse).holds


def test_a_parameter_is_every_element_and_not_that_of_an_action() -> None:
    assert verdicts(prove(Swap))["look"] == "refuted"


def test_an_action_that_comes_later_does_not_escape() -> None:
    assert verdicts(prove(Thief))["steal"] == "refuted"
    assert prove(Spender).holds
    assert Model.of(Spender).properties["coins_stay"].of == ("look",)


def test_an_action_that_is_not_there_cannot_be_left_out() -> None:
    class Misspelt(Purse):
        @step("X1", unless=("put", "stael"))
        def coins_stay(self, before: Purse, c: Coin) -> Bool:
            return self.inside[c] == before.inside[c]

    with pytest.raises(MachineError, match="coins_stay leaves out an action stael that the machine does not have"):
        Model.of(Misspelt)


def test_a_property_of_no_action_says_nothing() -> None:
    class Silent(Purse):
        @step("X1", unless=("put", "look"))
        def coins_stay(self, before: Purse, c: Coin) -> Bool:
            return self.inside[c] == before.inside[c]

    with pytest.raises(MachineError, match="leaves out every action, and says nothing"):
        Model.of(Silent)


def test_either_those_that_are_meant_or_the_others() -> None:
    class Both(Purse):
        @step("X1", of="look", unless="put")
        def coins_stay(self, before: Purse, c: Coin) -> Bool:
            return self.inside[c] == before.inside[c]

    with pytest.raises(MachineError, match="both of= and unless="):
        Model.of(Both)
