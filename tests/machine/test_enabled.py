"""All arguments with which an action is possible, asked for at once, are those with which it is possible one by one."""

import itertools

import pytest

from kvproof.machine import Int, Machine, Map, Queue, Scalar, Sort, action
from kvproof.machine.concrete import Concrete, IllFormed
from kvproof.machine.model import Model
from kvproof.machine.scope import Scope


class Thing(Sort):
    """An element."""


class Last(Machine):
    """Random machines showed it: what takes no argument is asked first, though it has a value only behind the rest."""

    line = Queue(Thing)
    held = Map(Thing, to=Int)
    count = Scalar(to=Int)

    @action("X1")
    def leave(self, a: Thing) -> None:
        self.require(self.line.has(a))
        self.require(self.line.has(self.line.tail()))

    @action("X1")
    def share(self, a: Thing, b: Thing) -> None:
        self.require((self.held[b] > 0) & (self.held[b] == self.count.value))
        self.require(self.held[a] % self.held[b] == 0)
        self.require(2 % self.count.value == 0)

    @action("X1")
    def wrong(self, a: Thing) -> None:
        self.require(self.line.has(self.line.tail()))
        self.require(self.line.has(a))


MODEL = Model.of(Last)
SCOPE = Scope(MODEL, {"Thing": 3})


@pytest.mark.parametrize("name", ["leave", "share"])
def test_it_is_the_same_at_once_and_one_by_one(name: str) -> None:
    spec = Concrete(MODEL, SCOPE)
    arity = len(MODEL.actions[name].params)
    for held in itertools.product(range(3), repeat=3):
        for count in range(2):
            state = spec.initial()
            vars(state)["held"][:], vars(state)["count"][:] = held, [count]
            every = itertools.product(range(3), repeat=arity)
            assert [*spec.enabled(state, name)] == [a for a in every if spec.is_enabled(state, name, a)]


def test_what_has_no_value_where_it_stands_is_told() -> None:
    spec = Concrete(MODEL, SCOPE)
    with pytest.raises(IllFormed):
        list(spec.enabled(spec.initial(), "wrong"))
