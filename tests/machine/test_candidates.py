"""Where a quantifier looks at one element only, and where it must not."""

import pytest

from kvproof.machine import Bool, Int, Machine, Map, Queue, Scalar, Sort, exists, forall, implies, invariant, optional
from kvproof.machine import operations as op
from kvproof.machine.candidates import candidates
from kvproof.machine.model import Model
from kvproof.machine.terms import name_of, number_of


class Thing(Sort):
    """An element."""


class Other(Sort):
    """Another."""


class Asking(Machine):
    """Says what it says with equations."""

    of = Map(Thing, to=optional(Other))
    back = Map(Other, to=optional(Thing))
    marked = Map(Thing, Other, to=Bool)
    one = Scalar(to=optional(Thing))
    line = Queue(of=Thing)
    count = Scalar(to=Int)

    @invariant("X1")
    def named(self) -> Bool:
        return exists(Thing, lambda a: (a == self.one.value) & (self.of[a] == self.of[a]))

    @invariant("X1")
    def chained(self) -> Bool:
        return exists(Thing, Other, lambda a, b: (self.of[a] == b) & (a == self.one.value) & self.marked[a, b])

    @invariant("X1")
    def premise(self) -> Bool:
        return forall(Thing, Other, lambda a, b: implies((b == self.of[a]) & (self.one.value == a), self.marked[a, b]))

    @invariant("X1")
    def itself(self) -> Bool:
        return exists(Thing, Other, lambda a, b: (self.back[b] == a) & (b == self.of[a]))

    @invariant("X1")
    def conclusion(self) -> Bool:
        return forall(Thing, lambda a: implies(self.marked[a, self.of[a]], a == self.one.value))

    @invariant("X1")
    def either(self) -> Bool:
        return exists(Thing, lambda a: (a == self.one.value) | self.marked[a, self.of[a]])

    @invariant("X1")
    def head(self) -> Bool:
        return exists(Thing, lambda a: (self.count.value == 0) & (a == self.line.head()))

    @invariant("X1")
    def behind_a_head(self) -> Bool:
        return exists(Thing, lambda a: (self.line.head() != a) & (a == self.one.value))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("named", {"a"}),
        ("chained", {"a", "b"}),
        ("premise", {"a", "b"}),
        # Each would be named by the other: one of both has to be tried.
        ("itself", {"b"}),
        ("conclusion", set()),
        ("either", set()),
        # The head of an empty queue is ill-formed, wherever it is asked for.
        ("head", set()),
        ("behind_a_head", set()),
    ],
)
def test_which_elements_are_named(name: str, found: set[str]) -> None:
    quantified = Model.of(Asking).properties[name].formula.operation
    assert isinstance(quantified, op.Forall | op.Exists)
    named = candidates(quantified)
    assert {name_of(binder) for binder in quantified.binders if number_of(binder) in named} == found
