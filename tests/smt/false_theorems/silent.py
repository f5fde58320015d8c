"""What a reader of machines must not drop without a word: what is lost is proved by silence."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from kvproof.machine import (
    Bool,
    Int,
    Machine,
    Map,
    Queue,
    Scalar,
    Sort,
    action,
    all_of,
    assume,
    can,
    corollary,
    forall,
    implies,
    invariant,
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)

from .corpus import false, refused, true


class Block(Sort):
    pass


class Base(Machine):
    x = Scalar(to=Int)
    lamp = Scalar(to=Bool)
    m = Map(Block, to=Int)
    held = Scalar(to=optional(Block))
    q = Queue(Block)

    @action("X")
    def act(self, n: Int) -> None:
        self.x.value = n

    @invariant("X")
    def m_is_zero(self, b: Block) -> Bool:
        return self.m[b] == 0


Any_ = Any
"""What a decorator is given that is called wrongly."""


def _bare(decorator: Callable[..., Any_]) -> type[Machine]:
    class Bare(Base):
        @decorator
        def it_is_zero(self) -> Bool:
            return self.x.value == 0

    return Bare


@refused("names the rule")
def bare_corollary() -> type[Machine]:
    return _bare(corollary)


@refused("names the rule")
def bare_sometimes() -> type[Machine]:
    return _bare(sometimes)


@refused("names the rule")
def bare_assume() -> type[Machine]:
    return _bare(assume)


@refused("")
def bare_step() -> type[Machine]:
    return _bare(step)


@refused("names the rule")
def bare_action_of_a_subclass() -> type[Machine]:
    class Bare(Base):
        @action  # type: ignore[arg-type]
        def act(self, n: Int) -> None:  # type: ignore[misc,override]
            self.x.value = 0

    return Bare


@refused("stands twice")
def a_second_corollary() -> type[Machine]:
    class Twice(Base):
        @corollary("X")
        def it_is_zero(self) -> Bool:
            return self.x.value == 0

        @corollary("X")  # type: ignore[no-redef]
        def it_is_zero(self) -> Bool:  # noqa: F811
            return self.x.value == self.x.value

    return Twice


@refused("stands twice")
def an_action_and_its_helper() -> type[Machine]:
    class Twice(Base):
        @action("X")
        def more(self) -> None:
            self.x.value = 3

        def more(self) -> None:  # type: ignore[no-redef]  # noqa: F811
            pass

    return Twice


@refused("stands twice")
def two_properties_of_python() -> type[Machine]:
    class Twice(Base):
        is_dark = property(lambda self: ~self.lamp.value)
        is_dark = property(lambda self: self.lamp.value == self.lamp.value)

        @invariant("X")
        def dark(self) -> Bool:
            return implies(self.is_dark, self.x.value == self.x.value)

    return Twice


@refused("stands twice")
def two_properties_that_are_kept() -> type[Machine]:
    class Twice(Base):
        is_dark = cached_property(lambda self: ~self.lamp.value)
        is_dark = cached_property(lambda self: self.lamp.value == self.lamp.value)

        @invariant("X")
        def dark(self) -> Bool:
            return implies(self.is_dark, self.x.value == self.x.value)

    return Twice


@true
class APropertyThatIsWrittenToo(Base):
    @property
    def level(self) -> Int:
        return self.x.value

    @level.setter
    def level(self, level: Int) -> None:
        self.x.value = level

    @action("X")
    def act(self, n: Int) -> None:
        self.level = n

    @step("X", of="act")
    def it_is_the_level(self, _: Base, n: Int) -> Bool:
        return self.level == n


@refused("an action is named initially")
def an_action_that_is_named_as_the_first_state() -> type[Machine]:
    class First(Base):
        @action("X")
        def initially(self, b: Block) -> None:
            self.m[b] = 1

    return First


@refused("stands twice")
def a_part_and_a_property() -> type[Machine]:
    class Twice(Base):
        @invariant("X")
        def dark(self) -> Bool:
            return ~self.lamp.value

        dark = Scalar(to=Bool)  # type: ignore[assignment]  # noqa: F811

    return Twice


@refused("stands twice")
def in_a_loop_of_python() -> type[Machine]:
    class Loop(Base):
        for limit in (1, 2):

            @invariant("X")
            def small(self, limit: int = limit) -> Bool:
                return self.x.value < limit

    return Loop


@refused("taken_out")
def taken_out_again() -> type[Machine]:
    class Out(Base):
        @invariant("X")
        def taken_out(self) -> Bool:
            return ~self.lamp.value

        del taken_out

    return Out


@refused("is lost")
def kept_in_a_list() -> type[Machine]:
    class Listed(Base):
        kept = (invariant("X")(lambda self: self.x.value < 3),)

    return Listed


@refused("put nothing around")
def under_a_property() -> type[Machine]:
    class Wrapped(Base):
        @property
        @invariant("X")
        def dark(self) -> Bool:
            return ~self.lamp.value

    return Wrapped


@refused("over a plain method")
def over_a_staticmethod() -> type[Machine]:
    class Static(Base):
        @invariant("X")
        @staticmethod
        def dark() -> Bool:
            raise NotImplementedError

    return Static


@refused("and not take it away")
def none_in_its_place() -> type[Machine]:
    class Gone(Base):
        m_is_zero = None  # type: ignore[assignment]

    return Gone


@refused("and not take it away")
def a_part_in_its_place() -> type[Machine]:
    class Gone(Base):
        m_is_zero = Scalar(to=Bool)  # type: ignore[assignment]

    return Gone


@refused("give one of them another name")
def another_kind_in_its_place() -> type[Machine]:
    class Other(Base):
        @sometimes("X")
        def m_is_zero(self, b: Block) -> Bool:
            return self.m[b] == 0

    return Other


@refused("`return` leaves a `when`")
def returns_from_a_branch() -> type[Machine]:
    class Early(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with when(n > 3):
                self.x.value = 3
                return
            self.x.value = n

    return Early


@refused("`return` leaves a `otherwise`")
def returns_from_the_other_branch() -> type[Machine]:
    class Early(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with when(n <= 3):
                self.x.value = 3
            with otherwise():
                if True:
                    return
            self.x.value = n

    return Early


@refused("`continue` leaves a `each`")
def goes_on_in_each() -> type[Machine]:
    class Early(Base):
        @action("X")
        def act(self, n: Int) -> None:
            for k in (1, 2):
                with self.each(Block) as b:
                    self.m[b] = k
                    continue
            self.x.value = n

    return Early


@refused("`break` leaves a `loop`")
def breaks_a_loop() -> type[Machine]:
    class Early(Base):
        @action("X")
        def act(self, n: Int) -> None:
            while True:
                with self.loop(n):
                    self.x.value = 1
                    break

    return Early


@refused("`return` leaves a `when`")
def returns_from_a_helper() -> type[Machine]:
    class Early(Base):
        def helper(self, n: Int) -> None:
            with when(n > 3):
                return
            self.x.value = 5

        @action("X")
        def act(self, n: Int) -> None:
            self.helper(n)

    return Early


under = when


@refused("leaves a")
def returns_from_a_branch_of_another_name() -> type[Machine]:
    class Early(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with under(n > 3):
                return
            self.x.value = 5

    return Early


@refused("leaves a")
def returns_from_a_block_that_was_made_before() -> type[Machine]:
    class Early(Base):
        @action("X")
        def act(self, n: Int) -> None:
            above = when(n > 3)
            with above:
                return
            self.x.value = 5

    return Early


@refused("leaves a")
def returns_from_a_block_of_a_helper() -> type[Machine]:
    class Early(Base):
        @contextmanager
        def only(self, condition: Bool) -> Iterator[None]:
            with when(condition):
                yield

        @action("X")
        def act(self, n: Int) -> None:
            with self.only(n > 3):
                return
            self.x.value = 5

    return Early


@refused("")
def rounds_inside_the_loop() -> type[Machine]:
    class Inside(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with self.loop(n) as loop:
                self.x.value = loop.rounds

    return Inside


@refused("x")
def a_part_taken_away() -> type[Machine]:
    class Gone(Base):
        x = None  # type: ignore[assignment]

    return Gone


@refused("y")
def a_part_of_another_machine() -> type[Machine]:
    class Foreign(Base):
        @invariant("X")
        def of_another(self) -> Bool:
            return (self.x.value == self.x.value) & (Elsewhere().y.value >= 0)

    return Foreign


class Elsewhere(Machine):
    y = Scalar(to=Int)


@refused("x is read of Present, which is in no state")
def a_helper_that_asks_the_class() -> type[Machine]:
    """Called of the state before, it would look at the one after."""

    class Present(Base):
        def low(self) -> Bool:
            return type(self).x.value < 3

        @step("X", of="act")
        def it_stays_low(self, before: Any) -> Bool:
            return implies(self.low(), before.low())

    return Present


@refused("x is read of Present, which is in no state")
def a_method_of_the_class() -> type[Machine]:
    class Present(Base):
        @classmethod
        def low(cls) -> Bool:
            return cls.x.value < 3

        @step("X", of="act")
        def it_stays_low(self, before: Any) -> Bool:
            return implies(self.low(), before.low())

    return Present


@refused("raise")
def caught_in_the_text() -> type[Machine]:
    class Caught(Base):
        @action("X")
        def act(self, n: Int) -> None:
            try:
                with when(n > 3):
                    self.x.value = 5
                    raise KeyError
            except KeyError:
                pass

    return Caught


@refused("")
def is_not_none() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def something_is_held(self) -> Bool:
            return self.held.value is not none  # type: ignore[return-value]

    return Is


@refused("")
def is_not_none_and_more() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def something_is_held(self) -> Bool:
            return (self.x.value == 1) | (self.held.value is not None)  # type: ignore[no-any-return,operator]

    return Is


@refused("vlaue")
def an_attribute_that_is_none() -> type[Machine]:
    class Typo(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.x.vlaue = n

    return Typo


@refused("value")
def the_value_of_a_map_with_keys() -> type[Machine]:
    class Keyed(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.m.value = n

    return Keyed


@refused("y")
def a_part_that_is_not_declared() -> type[Machine]:
    class Undeclared(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.y = n

    return Undeclared


@refused("when")
def a_condition_without_with() -> type[Machine]:
    class NoWith(Base):
        @action("X")
        def act(self, n: Int) -> None:
            when(n == 0)
            self.x.value = n

    return NoWith


@refused("stands twice")
def twice_in_a_mixin() -> type[Machine]:
    class Mixin:
        x: Scalar[Int]

        @invariant("X")
        def dark(self) -> Bool:
            return self.x.value == 0

        @invariant("X")  # type: ignore[no-redef]
        def dark(self) -> Bool:  # noqa: F811
            return self.x.value == self.x.value

    class Mixed(Mixin, Base):
        pass

    return Mixed


class Shared:
    """What several machines promise."""

    x: Scalar[Int]

    @invariant("X")
    def x_is_zero(self) -> Bool:
        return self.x.value == 0  # type: ignore[arg-type]


@false("x_is_zero")
class Mixed(Shared, Base):
    """A property of a class that is no machine counts."""


@false("x_is_zero")
class MixedLast(Base, Shared):
    pass


@false("x_is_small")
class Assigned(Base):
    """A property that is written as a value is one."""

    x_is_small = invariant("X")(lambda self: self.x.value < 5)


@false("x_is_zero")
class OverriddenWithoutADecorator(Mixed):
    def x_is_zero(self) -> Bool:
        return self.x.value <= 0


@false("it_is_zero")
class SaidLate(Base):
    pass


def it_is_zero(self: SaidLate) -> Bool:
    return forall(Block, lambda b: self.x.value == 0)


SaidLate.it_is_zero = invariant("X")(it_is_zero)


# -------------------------------------------------------------------------------- said by what nobody calls


@refused("check is a function that is never called")
def a_requirement_in_a_function_that_is_never_called() -> type[Machine]:
    class Made(Base):
        @action("X")
        def low(self, n: Int) -> None:
            def check() -> None:
                self.require(n == 0)

            self.x.value = n

    return Made


@refused("check is a function that is never called")
def a_claim_in_a_lambda_that_is_never_called() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            check = lambda: self.x.value == 0  # noqa: E731, F841
            return self.x.value == self.x.value

    return Made


@refused("k is looked up when this function is called")
def claims_of_which_a_loop_keeps_the_last() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_large(self) -> Bool:
            claims = [lambda: self.x.value * k >= k for k in (1, 0)]  # noqa: B023
            return all_of(*[claim() for claim in claims])

    return Made


@refused("k is looked up when this function is called")
def claims_of_which_an_appending_loop_keeps_the_last() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_large(self) -> Bool:
            claims = []
            for _, k in (("x", 1), ("nothing", 0)):
                claims.append(lambda: self.x.value * k >= k)  # noqa: B023
            return all_of(*[claim() for claim in claims])

    return Made


@refused("k is looked up when this function is called")
def claims_by_name_of_which_a_loop_keeps_the_last() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_large(self) -> Bool:
            claims = {}
            for k in (1, 0):
                claims[k] = lambda: self.x.value * k >= k  # noqa: B023
            return all_of(*[claim() for claim in claims.values()])

    return Made


@refused("k is looked up when this function is called")
def prepared_claims_of_which_a_loop_keeps_the_last() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_large(self) -> Bool:
            claims = [functools.partial(lambda: self.x.value * k >= k) for k in (1, 0)]  # noqa: B023
            return all_of(*[claim() for claim in claims])

    return Made


@refused("k is looked up when somebody goes through this")
def given_claims_of_which_a_loop_keeps_the_last() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_large(self) -> Bool:
            given = [(number * k >= k for number in (self.x.value,)) for k in (1, 0)]
            return all_of(*[claim for claims in given for claim in claims])

    return Made


@refused("k is looked up when this function is called")
def mapped_claims_of_which_a_loop_keeps_the_last() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_large(self) -> Bool:
            given = []
            for k in (1, 0):
                given.append(map(lambda number: number * k >= k, [self.x.value]))  # noqa: C417
            return all_of(*itertools.chain(*given))

    return Made


@refused("claim is bound anew before anybody reads it")
def a_claim_under_the_name_of_another() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            claim = self.x.value == 0
            claim = self.x.value == self.x.value
            return claim  # noqa: RET504

    return Made


@refused("claim is bound anew before anybody reads it")
def a_claim_for_all_under_the_name_of_another() -> type[Machine]:
    class Made(Base):
        @step("X", of="act")
        def x_is_zero(self, before: Base) -> Bool:
            claim = implies(before.x.value == 0, self.x.value == 0)
            claim = implies(before.x.value == 0, before.x.value == 0)
            return claim  # noqa: RET504

    return Made


@refused("of claim a loop keeps the last alone")
def a_claim_for_each_of_which_a_loop_keeps_the_last() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_large(self) -> Bool:
            for k in (1, 0):
                claim = self.x.value * k >= k
            return claim

    return Made


@refused("`next(self.claims())` takes the first alone")
def the_first_of_several_claims() -> type[Machine]:
    class First(Base):
        def claims(self) -> Iterator[Bool]:
            yield self.x.value == self.x.value
            yield self.x.value == 0

        @invariant("X")
        def x_is_zero(self) -> Bool:
            return next(self.claims())

    return First


@refused("this loop is left in its first round")
def a_return_that_is_indented_too_far() -> type[Machine]:
    class Indented(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            claims = []
            for k in (0, 1):
                claims.append(self.x.value * k == 0)
                return all_of(*claims)
            return all_of()

    return Indented


@refused("this loop is left in its first round")
def writes_of_which_the_first_is_the_last() -> type[Machine]:
    class Indented(Base):
        @action("X")
        def low(self) -> None:
            for n in (0, 1):
                self.x.value = n
                break

    return Indented


@refused("nothing is done with `self.lamp.value`")
def a_requirement_and_a_comma() -> type[Machine]:
    class Comma(Base):
        @action("X")
        def low(self, n: Int) -> None:
            self.require(n >= 0), self.lamp.value  # type: ignore[func-returns-value]
            self.x.value = n

        @corollary("X")
        def one_may(self) -> Bool:
            return can(self.low, 0)

    return Comma


@false("x_is_zero")
class ALoopThatMayBeLeft(Base):
    """One that some way leaves in its first round, and another does not."""

    @invariant("X")
    def x_is_zero(self) -> Bool:
        for k in (0, 1):
            if k == 1:
                return self.x.value * k == 0
        return self.x.value == self.x.value


@refused("'claim' stands twice in this dict")
def two_claims_of_one_name() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            claims = {"claim": self.x.value == 0, "claim": self.x.value == self.x.value}  # noqa: F601
            return all_of(*claims.values())

    return Made


@refused("'fact' stands twice in this dict")
def two_facts_of_one_name() -> type[Machine]:
    class Made(Base):
        @action("X")
        def twice(self) -> None:
            x = self.x.value
            with self.loop(
                2,
                facts=lambda _i, _entry: {"fact": self.x.value == 0, "fact": self.x.value >= x},  # noqa: F601
            ):
                self.x.value = self.x.value + 1

    return Made


@refused("a loop is neither true nor false")
def a_loop_that_is_asked_for_its_truth() -> type[Machine]:
    class Made(Base):
        @action("X")
        def twice(self, n: Int) -> None:
            with self.loop(n) as loop:
                self.x.value = 0
            if not loop:
                self.x.value = 1

    return Made


@false("x_is_zero")
class AClaimThatIsReadAndBoundAnew(Base):
    """A name may stand for one thing after the other, and for what a loop ends with."""

    @invariant("X")
    def x_is_zero(self) -> Bool:
        claim = self.x.value == self.x.value
        for k in (0, 1):
            claim = claim & (self.x.value * k == 0)
        for k in (1, 0):
            if k == 1:
                other = self.x.value + k
                break
        return claim & (other == other)


@refused("nothing is done with what is_low(…) says")
def a_condition_of_a_helper_that_nobody_requires() -> type[Machine]:
    class Left(Base):
        def is_low(self, n: Int) -> Bool:
            return n <= self.x.value

        @action("X")
        def low(self, n: Int) -> None:
            self.is_low(n)
            self.x.value = n

    return Left


@refused("goes no further than it must")
def writes_of_which_the_first_ends_them() -> type[Machine]:
    class Ended(Base):
        def put(self, n: int) -> None:
            self.x.value = n

        @action("X")
        def low(self) -> None:
            all(self.put(n) for n in (0, 1))  # type: ignore[func-returns-value]

        @invariant("X")
        def x_is_not_one(self) -> Bool:
            return self.x.value != 1

    return Ended


@refused("goes no further than it must")
def writes_of_which_one_step_is_taken() -> type[Machine]:
    class Ended(Base):
        def puts(self) -> Iterator[None]:
            self.x.value = 0
            yield
            self.x.value = 1

        @action("X")
        def low(self) -> None:
            next(self.puts())

    return Ended


@refused("takes the place of what was to be returned")
def a_claim_of_which_another_takes_the_place() -> type[Machine]:
    class Replaced(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            try:
                return self.x.value == 0
            finally:
                return self.x.value == self.x.value  # noqa: B012, SIM107

    return Replaced


@true
class FunctionsThatAreCalled(Machine):
    """What a loop makes and calls at once, or gives what it goes through, finds what it should."""

    x = Scalar(to=Int)
    y = Scalar(to=Int)
    m = Map(Block, to=Int)

    def taken(self, n: Int) -> Int:
        self.y.value = n
        return n

    def natural(self, n: Int) -> Int:
        self.require(n >= 0)
        return n

    @action("X")
    def act(self, b: Block, n: Int) -> None:
        self.natural(n)
        self.taken(n)
        self.m[b] = n

    @action("X")
    def look(self) -> Int:
        return self.x.value

    @corollary("X")
    def one_may_look(self) -> Bool:
        return can(self.look)

    @invariant("X")
    def all_are_natural(self, b: Block) -> Bool:
        claims = []
        for k in (1, 2):
            claims.append(forall(Block, lambda c: self.m[c] * k >= 0))  # noqa: B023
            claims.extend(number * k >= 0 for number in (self.y.value,))
            claims += [*map(lambda number: number + k >= k, [self.y.value])]  # noqa: C417
        more = [lambda k=k: self.y.value + k >= k for k in (1, 2)]
        return all_of(*claims, *[claim() for claim in more])


# ----------------------------------------------------------------------------------- decorators that are forgotten


@refused("x_stays_below_ten stands under no decorator, and nobody calls it")
def an_invariant_without_its_decorator() -> type[Machine]:
    class Forgotten(Base):
        def x_stays_below_ten(self) -> Bool:
            return self.x.value <= 10

    return Forgotten


@refused("light_the_lamp_for stands under no decorator")
def an_action_without_its_decorator() -> type[Machine]:
    class Forgotten(Base):
        def light_the_lamp_for(self, b: Block, n: Int) -> None:
            self.require(n > 0)
            self.lamp.value = True
            self.m[b] = n

        @invariant("X")
        def the_lamp_is_out(self) -> Bool:
            return ~self.lamp.value

    return Forgotten


@refused("every_block_is_empty stands under no decorator")
def a_property_of_blocks_without_its_decorator() -> type[Machine]:
    """What it returns need not be said."""

    class Above(Base):
        def every_block_is_empty(self, b: Block):
            return self.m[b] == 1

    class Below(Above):
        @action("X")
        def fill(self, b: Block) -> None:
            self.m[b] = 0

    return Below


@true
class HelpersForOthers(Base):
    """A helper that somebody calls, be it another machine or by its name, and those that are for others."""

    def m_of_block_is_zero(self, b: Block) -> Bool:
        return self.m[b] == 0

    def by_its_name_alone(self) -> Bool:
        return self.x.value == self.x.value

    two = lambda self: self.x.value - self.x.value == 0  # noqa: E731
    twice = m_of_block_is_zero

    def _for_others(self) -> Bool:
        return self.x.value == 1

    def number_of(self, name: str) -> Int:
        return {"x": self.x.value}[name]

    @invariant("X")
    def all_of_it(self) -> Bool:
        return all_of(self.two(), *[getattr(self, name)() for name in ("by_its_name_alone",)])


@true
class CallsHelpers(HelpersForOthers):
    @invariant("X")
    def each_is_zero(self) -> Bool:
        return forall(Block, lambda b: self.m_of_block_is_zero(b) & self.twice(b))
