"""Conditions and numbers that are made, and of which nothing is made: whatever Python does with them, they are not lost
unseen."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from kvproof.machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Promise,
    Queue,
    Scalar,
    Sort,
    action,
    all_of,
    any_of,
    can,
    eventually,
    iff,
    implies,
    invariant,
    ite,
    promise,
    steps,
)

from .corpus import refused, true

TRUE: Any = True


class Block(Sort):
    pass


class Base(Machine):
    """Of x nothing is promised: whatever says how large it is is false."""

    x = Scalar(to=Int)
    y = Scalar(to=Int)
    lamp = Scalar(to=Bool)
    m = Map(Block, to=Int)
    q = Queue(Block)

    def claims(self) -> tuple[Bool, Bool]:
        return self.y.value == 0, self.x.value == 0

    def one_by_one(self) -> Iterator[Bool]:
        yield self.y.value == 0
        yield self.x.value == 0

    @action("X")
    def act(self, n: Int) -> None:
        self.x.value = n

    @invariant("X")
    def y_is_zero(self) -> Bool:
        return self.y.value == 0


def _made(says: Callable[[Any], Any]) -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def both_are_zero(self) -> Bool:
            return says(self)  # type: ignore[no-any-return]

    return Made


@refused("nothing is done with x == 0")
def the_rest_of_what_is_taken_apart() -> type[Machine]:
    def says(self: Base) -> Bool:
        first, *_ = self.claims()
        return first

    return _made(says)


@refused("nothing is done with x == 0")
def the_first_of_a_tuple() -> type[Machine]:
    return _made(lambda self: self.claims()[0])


@refused("nothing is done with x == 0")
def all_but_the_last_of_a_list() -> type[Machine]:
    return _made(lambda self: all_of(*[*self.claims()][:-1]))


@refused("nothing is done with x == 0")
def the_last_is_taken_out_of_a_list() -> type[Machine]:
    def says(self: Base) -> Bool:
        claims = [*self.claims()]
        _ = claims.pop()
        return all_of(*claims)

    return _made(says)


@refused("nothing is done with x == 0")
def another_one_under_the_same_key() -> type[Machine]:
    def says(self: Base) -> Bool:
        claims = {}
        claims["zero"] = self.x.value == 0
        claims["zero"] = self.y.value == 0
        return all_of(*claims.values())

    return _made(says)


@refused("nothing is done with x == 0")
def another_one_under_a_key_that_is_computed() -> type[Machine]:
    def says(self: Base) -> Bool:
        key = "zero"
        return all_of(*{key: self.x.value == 0, "zero": self.y.value == 0}.values())

    return _made(says)


@refused("nothing is done with x == 0")
def another_one_in_a_dict_of_two() -> type[Machine]:
    return _made(lambda self: all_of(*({"zero": self.x.value == 0} | {"zero": self.y.value == 0}).values()))


@refused("nothing is done with x == 0")
def a_parameter_that_a_helper_does_not_use() -> type[Machine]:
    def both(first: Bool, second: Bool) -> Bool:
        return first

    return _made(lambda self: both(*self.claims()))


@refused("nothing is done with x == 0")
def more_than_a_helper_uses() -> type[Machine]:
    def both(first: Bool, **_: Bool) -> Bool:
        return first

    return _made(lambda self: both(self.y.value == 0, second=self.x.value == 0))


@refused("nothing is done with x == 0")
def more_than_there_are_names_for() -> type[Machine]:
    return _made(lambda self: all_of(*[claim for claim, _ in zip(self.claims(), ("y",), strict=False)]))


@refused("nothing is done with x == 0")
def a_case_that_looks_at_one_of_two() -> type[Machine]:
    def says(self: Base) -> Bool:
        match self.claims():
            case (first, _):
                return first

    return _made(says)


@dataclasses.dataclass
class Pair:
    first: Bool
    second: Bool


@refused("nothing is done with x == 0")
def a_part_of_an_object() -> type[Machine]:
    return _made(lambda self: Pair(*self.claims()).first)


@refused("nothing is done with x == 0")
def what_a_reduction_drops() -> type[Machine]:
    return _made(lambda self: functools.reduce(lambda first, _: first, self.claims()))


@refused("nothing is done with (x == 0) & lamp")
def a_whole_of_which_the_parts_are_used() -> type[Machine]:
    return _made(lambda self: (self.y.value == 0, (self.x.value == 0) & self.lamp.value)[0])


@refused("nothing is done with x != 0")
def a_negation_that_is_dropped() -> type[Machine]:
    return _made(lambda self: (self.y.value == 0, self.x.value != 0)[0])


@refused("nothing is done with n == 0")
def a_requirement_of_two() -> type[Machine]:
    class Made(Base):
        @action("X")
        def low(self, n: Int) -> None:
            least, _ = n >= 0, n == 0
            self.require(least)
            self.x.value = n

    return Made


@refused("nothing is done with 0 <= x")
def a_fact_of_two() -> type[Machine]:
    class Made(Base):
        @action("X")
        def low(self) -> None:
            def facts(i: Index, before: Base) -> dict[str, Bool]:
                known = {}
                for at_least in (self.x.value >= 0, self.x.value >= i):
                    known["x"] = at_least
                return known

            with self.loop(3, facts=facts):
                self.x.value = self.x.value + 1

    return Made


class Served(Machine):
    """Whoever comes may go."""

    waits = Map(Block, to=Bool)
    n = Map(Block, to=Int)

    @action("X")
    def come(self, b: Block) -> None:
        self.waits[b] = True

    @action("X")
    def go(self, b: Block) -> None:
        self.require(self.waits[b])
        self.waits[b] = False


@refused("nothing is done with n[b] == 1")
def a_goal_of_two() -> type[Machine]:
    class Made(Served):
        @eventually("X")
        def it_goes(self, b: Block) -> Promise:
            goals = ~self.waits[b], self.n[b] == 1
            return promise(goal=goals[0], fair=[steps(self.go, b)], measure=[self.waits[b]])

    return Made


@true
class OneServed(Served):
    """What is meant by a step may have been said before."""

    @eventually("X")
    def it_goes(self, b: Block) -> Promise:
        waits = self.waits[b]
        some = steps(self.go, Block, where=lambda c: waits & (c == b))
        return promise(goal=~waits, fair=[some], measure=[waits])


@refused("nothing is done with lamp")
def a_count_of_two() -> type[Machine]:
    class Made(Base):
        n = Count(Block, where=lambda m, b: (m.m[b] == 0, m.lamp.value)[0])

    return Made


@refused("nobody goes through one_by_one(…) to its end")
def the_first_that_is_given() -> type[Machine]:
    def says(self: Base) -> Bool:
        given = self.one_by_one()
        return next(given)

    return _made(says)


@refused("nobody goes through one_by_one(…) to its end")
def the_first_of_all_that_are_given() -> type[Machine]:
    return _made(lambda self: all_of(*itertools.islice(self.one_by_one(), 1)))


@refused("nobody goes through this to its end")
def the_first_that_an_expression_gives() -> type[Machine]:
    return _made(lambda self: next(part.value == 0 for part in (self.y, self.x)))


@refused("nobody goes through this to its end")
def as_many_as_there_are_names() -> type[Machine]:
    def says(self: Base) -> Bool:
        given = (part.value == 0 for part in (self.y, self.x))
        return all_of(*[claim for _, claim in zip(("y",), given, strict=False)])

    return _made(says)


@refused("leaves out what is longer than the shortest: say `strict=True`")
def as_many_as_there_are_limits() -> type[Machine]:
    def says(self: Base) -> Bool:
        return all_of(*[number == most for number, most in zip((self.y.value, self.x.value), (0,))])  # noqa: B905

    return _made(says)


@refused("leaves out what is longer than the shortest: go through `zip(…, strict=True)` instead")
def as_many_as_there_are_limits_to_compare_with() -> type[Machine]:
    return _made(lambda self: all_of(*map(operator.eq, (self.y.value, self.x.value), (0,))))


@refused("leaves out what is longer than the shortest: go through `zip(…, strict=True)` instead")
def as_many_as_there_are_limits_in_a_list_of_lists() -> type[Machine]:
    def says(self: Base) -> Bool:
        lists: list[list[Any]] = [[self.y.value, self.x.value], [0]]
        return all_of(*map(operator.eq, *lists))

    return _made(says)


def _writes(m: Base) -> Iterator[int]:
    m.x.value = 0
    yield 1
    m.x.value = -1
    yield 2


@refused("nobody goes through _writes(…) to its end")
def the_first_of_some_writes() -> type[Machine]:
    class Written(Base):
        @action("X")
        def write(self) -> None:
            number = next(_writes(self))
            self.y.value = number

        @invariant("X")
        def x_is_natural(self) -> Bool:
            return self.x.value >= 0

    return Written


@refused("nobody goes through _writes(…) to its end")
def as_many_writes_as_there_are_names() -> type[Machine]:
    class Written(Base):
        @action("X")
        def write(self) -> None:
            for _, number in zip(("x",), _writes(self), strict=False):
                self.y.value = number

    return Written


@refused("nobody goes through given(…) to its end")
def until_a_loop_is_left() -> type[Machine]:
    def says(self: Base) -> Bool:
        def given() -> Iterator[Bool]:
            yield self.y.value == 0
            yield self.x.value == 0

        claims = []
        for claim in given():
            claims.append(claim)
            if len(claims) > 0:
                break
        return all_of(*claims)

    return _made(says)


@refused("nobody goes through `self.one_by_one()`")
def that_nobody_begins_with() -> type[Machine]:
    def says(self: Base) -> Bool:
        _ = self.one_by_one()
        return self.y.value == 0

    return _made(says)


@refused("`all_of` of no conditions at all")
def all_of_none() -> type[Machine]:
    class Made(Base):
        most: tuple[int, ...] = ()

        @invariant("X")
        def x_is_small(self) -> Bool:
            return all_of(*[self.x.value <= k for k in self.most])

    return Made


@refused("`any_of` of no conditions at all")
def any_of_none() -> type[Machine]:
    return _made(lambda self: implies(any_of(*[self.x.value == k for k in range(0)]), self.x.value == 0))


@refused("check is bound anew before anybody calls it")
def a_function_in_the_place_of_another() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            def check() -> Bool:
                return self.x.value == 0

            def check() -> Bool:  # type: ignore[no-redef]  # noqa: F811
                return self.y.value == 0

            return check()

    return Made


@refused("nothing is done with")
def a_list_of_what_was_read_that_is_asked() -> type[Machine]:
    class Asked(Base):
        def lamps(self) -> list[Bool]:
            return [self.lamp.value]

        @action("X")
        def swap(self) -> None:
            if not self.lamps():
                self.y.value = 1

    return Asked


@refused("nothing is done with")
def a_name_of_a_list_of_what_was_read_that_is_asked() -> type[Machine]:
    class Asked(Base):
        @action("X")
        def swap(self) -> None:
            read = [self.lamp.value]
            if not read:
                self.y.value = 1

    return Asked


@refused("no attribute 'vlaue'")
def a_value_that_the_text_does_without() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            claims = [self.y.value == 0]
            try:
                claims.append(self.x.value.vlaue == 0)  # type: ignore[attr-defined]
            except AttributeError:
                claims.append(self.y.value >= 0)
            return all_of(*claims)

    return Made


@refused("q has no empty")
def a_question_that_the_text_does_without() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def nothing_stands_there(self) -> Bool:
            asks = getattr(self.q, "empty", self.q.is_empty)
            return asks() | (self.x.value == self.x.value)

    return Made


def _acting(does: Callable[[Any], None]) -> type[Machine]:
    """What it does to y, so that y is not 0 for ever, is done to a name of Python's."""

    class Acting(Base):
        @action("X")
        def raise_y(self) -> None:
            self.x.value = 1
            does(self)

    return Acting


@refused("nothing is done with y + 1")
def a_name_that_is_raised() -> type[Machine]:
    def does(self: Base) -> None:
        y = self.y.value
        y += 1

    return _acting(does)


@refused("nothing is done with y + 1")
def each_of_some_numbers_that_is_raised() -> type[Machine]:
    def does(self: Base) -> None:
        for number in (self.y.value,):
            number += 1

    return _acting(does)


@refused("nothing is done with y + 1")
def a_place_in_a_list_that_is_raised() -> type[Machine]:
    def does(self: Base) -> None:
        numbers = [self.x.value, self.y.value]
        numbers[1] += 1
        self.x.value = numbers[0]

    return _acting(does)


@refused("nothing is done with ite(x == 1, 1, y)")
def an_attribute_that_is_chosen() -> type[Machine]:
    @dataclasses.dataclass
    class Numbers:
        y: Int

    def does(self: Base) -> None:
        numbers = Numbers(self.y.value)
        numbers.y = ite(self.x.value == 1, 1, numbers.y)

    return _acting(does)


@true
class AllIsComputedForSomething(Base):
    """Numbers that are used twice, returned, asked of an action, and given to one that does not need them."""

    @action("X")
    def up_to(self, n: Int) -> Int:
        self.require(can(self.act, n + 1))
        more = self.x.value
        more += n
        self.x.value = more + more
        return more - 1

    @invariant("X")
    def zero_is_small(self) -> Bool:
        total: Int = sum([self.y.value, self.y.value])  # type: ignore[assignment]
        return total <= 1


def _claiming(claims: Callable[[Base], Bool]) -> type[Machine]:
    """A machine with an invariant of this text."""

    class Claiming(Base):
        @invariant("X")
        def claimed(self) -> Bool:
            return claims(self)

    return Claiming


@refused("`ok: self.y.value == 0` does nothing: what stands behind the colon is taken for the type of ok")
def a_claim_in_the_place_of_a_type() -> type[Machine]:
    def claims(self: Base) -> Bool:
        ok: self.y.value == 0  # type: ignore[valid-type] # noqa: F842
        return self.lamp.value | ~self.lamp.value

    return _claiming(claims)


@refused("`(it): self.y.value == 0` does nothing")
def a_claim_behind_a_colon_and_a_name_in_parentheses() -> type[Machine]:
    def claims(self: Base) -> Bool:
        # fmt: off
        ok = self.lamp.value | ~self.lamp.value; (it): self.y.value == 0  # type: ignore[valid-type] # noqa: E702, F842
        # fmt: on
        return ok

    return _claiming(claims)


@refused("`ok: self.y.value == 0 = TRUE` does nothing")
def a_claim_between_a_name_and_its_value() -> type[Machine]:
    def claims(self: Base) -> Bool:
        ok: self.y.value == 0 = TRUE  # type: ignore[valid-type]
        return implies(ok, self.lamp.value | ~self.lamp.value)

    return _claiming(claims)


@refused("`y: Int` does nothing")
def a_name_that_only_has_a_type() -> type[Machine]:
    class Declared(Base):
        @action("X")
        def act(self, n: Int) -> None:
            y: Int  # noqa: F842
            self.x.value = n

    return Declared


@true
class WhatIsOfATypeIsUsed(Base):
    """Types of names that get a value later, or at once; those of a class inside."""

    @action("X")
    def act(self, n: Int) -> None:
        zero: int
        for number in (0,):
            zero = number
        parts: list[Scalar[Int]] = [self.x]

        class Pair:
            first: int
            second: int = 0

        for part in parts:
            part.value = ite(n > zero + Pair.second, n, zero)

    @invariant("X")
    def x_is_natural(self) -> Bool:
        return self.x.value >= 0


@true
class AllIsUsed(Base):
    """Conditions that are used twice, turned twice, chosen, stored, reported as a result, and asked of an action."""

    @action("X")
    def turn(self, n: Int) -> Bool:
        is_low = n <= 3
        self.require(can(self.act, n) & ~~is_low)
        self.lamp.value = ~(~is_low)
        self.x.value = ite(is_low & self.lamp.value, n, 0)
        return is_low

    @invariant("X")
    def all_are_zero(self) -> Bool:
        least, most = self.y.value >= 0, self.y.value <= 0
        pairs = zip(self.one_by_one_of_y(), ("y", "lamp"), strict=True)
        return all_of(
            *(part.value == 0 for part in (self.y,)),
            *[claim for claim, _ in pairs],
            *self.claims()[:1],
            iff(least & most, ~(self.y.value != 0)),
            *self.one_by_one_of_y(),
        )

    def claims(self) -> tuple[Bool, ...]:  # type: ignore[override]
        return (self.y.value == 0,)

    def one_by_one_of_y(self) -> Iterator[Bool]:
        yield self.y.value == 0
        yield implies(self.lamp.value, self.y.value <= 1)
