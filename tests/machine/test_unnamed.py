"""A quantifier that is relied on speaks of what it binds, in all its parts: a sort may have no elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvproof.machine import (
    Bool,
    Index,
    Int,
    Machine,
    MachineError,
    Map,
    Model,
    Param,
    Scalar,
    Sort,
    action,
    assume,
    forall,
    iff,
    implies,
    initially,
    invariant,
    ite,
    step,
    when,
)


class Block(Sort):
    pass


class Node(Block, extra=("HEAD",)):
    pass


class Place(Index):
    pass


class Lamp(Machine):
    """A lamp, and blocks that may be good."""

    lit, good, far, known = Scalar(to=Bool), Map(Block, to=Bool), Map(Place, to=Bool), Map(Node, to=Bool)
    bound = Param(to=Int)


def _required(said: Callable[[Any], Bool]) -> type[Machine]:
    class Wrong(Lamp):
        @action("X")
        def light(self) -> None:
            self.require(said(self))
            self.lit.value = True

    return Wrong


def _branched(said: Callable[[Any], Bool]) -> type[Machine]:
    class Wrong(Lamp):
        @action("X")
        def light(self) -> None:
            with when(said(self)):
                self.lit.value = True

    return Wrong


def _written(said: Callable[[Any], Bool]) -> type[Machine]:
    class Wrong(Lamp):
        @action("X")
        def light(self) -> None:
            self.lit.value = said(self)

    return Wrong


def _relied_on(said: Callable[[Any], Bool]) -> type[Machine]:
    class Wrong(Lamp):
        @action("X")
        def light(self) -> None:
            self.lit.value = True

        @invariant("X")
        def follows(self) -> Bool:
            return implies(said(self), self.lit.value)

    return Wrong


MADE = [_required, _branched, _written, _relied_on]

SAID: dict[str, Callable[[Any], Bool]] = {
    "nothing of it": lambda m: forall(Block, lambda b: m.lit.value),
    "a part": lambda m: forall(Block, lambda b: m.good[b] & m.lit.value),
    "under a condition": lambda m: forall(Block, lambda b: implies(m.lit.value, m.good[b] & ~m.lit.value)),
    "of a place alone": lambda m: forall(Block, lambda b: forall(Place, lambda i: m.far[i])),
    "of a node, which need not be a block": lambda m: forall(Block, lambda b: forall(Node, lambda n: m.known[n])),
}

FINE: dict[str, Callable[[Any], Bool]] = {
    "all of it": lambda m: forall(Block, lambda b: m.good[b]),
    "beside it": lambda m: forall(Block, lambda b: m.good[b]) & m.lit.value,
    "in a choice": lambda m: forall(Block, lambda b: ite(m.lit.value, m.good[b], ~m.good[b])),
    "a place: there is one": lambda m: forall(Place, lambda i: m.lit.value),
    "a node: there is one": lambda m: forall(Node, lambda n: m.lit.value),
    "a block: it is a node": lambda m: forall(Node, lambda n: forall(Block, lambda b: m.good[b])),
    "two of a sort": lambda m: forall(Block, lambda b: forall(Block, lambda c: m.good[c])),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_what_is_relied_on_speaks_of_what_it_binds(
    made: Callable[[Callable[[Any], Bool]], type[Machine]], said: Callable[[Any], Bool]
) -> None:
    with pytest.raises(MachineError, match="there may be no Block; say it by itself"):
        Model.of(made(said))


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("said", FINE.values(), ids=FINE)
def test_what_speaks_of_it_or_of_what_there_always_is_is_taken(
    made: Callable[[Callable[[Any], Bool]], type[Machine]], said: Callable[[Any], Bool]
) -> None:
    assert Model.of(made(said)).actions["light"]


@pytest.mark.parametrize("decorator", [assume, initially])
def test_what_is_assumed_of_every_element_speaks_of_it(decorator: Callable[[str], Any]) -> None:
    class Wrong(Lamp):
        @action("X")
        def light(self) -> None:
            self.lit.value = True

        @decorator("X")  # type: ignore[untyped-decorator]
        def said(self, b: Block) -> Bool:
            return self.bound.value > 0

    with pytest.raises(MachineError, match="said says `0 < bound` for every b, of which that does not speak"):
        Model.of(Wrong)


def test_what_is_proved_may_say_more_than_is_asked() -> None:
    class Fine(Lamp):
        @action("X")
        def light(self) -> None:
            self.lit.value = True

        @invariant("X")
        def asserted(self, b: Block) -> Bool:
            return iff(self.lit.value, self.lit.value) & forall(Block, lambda c: self.lit.value | ~self.lit.value)

        @step("X")
        def stays_lit(self, before: Machine) -> Bool:
            return implies(self.lit.value, forall(Block, lambda c: self.lit.value))

    assert Model.of(Fine).properties["asserted"]
