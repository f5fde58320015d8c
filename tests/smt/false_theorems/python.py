"""What Python could decide of a state, or lose of a class, in the text of a machine: the reader refuses it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import time
import types
from collections.abc import Iterator, Mapping
from typing import Any

from kvproof.machine import (
    Bool,
    Count,
    Event,
    Index,
    Int,
    Machine,
    MachineError,
    Map,
    Model,
    Part,
    Promise,
    Queue,
    Scalar,
    Sort,
    action,
    can,
    eventually,
    forall,
    implies,
    invariant,
    none,
    optional,
    otherwise,
    promise,
    step,
    steps,
    when,
)
from kvproof.machine.terms import FALSE, TRUE

from .corpus import false, refused

# ruff: noqa: B015


class Block(Sort):
    pass


class Base(Machine):
    """Of x nothing is promised: whatever says that it is 0 is false."""

    x = Scalar(to=Int)
    y = Scalar(to=Int)
    lamp = Scalar(to=Bool)
    m = Map(Block, to=Int)
    held = Scalar(to=optional(Block))
    q = Queue(Block)

    @action("X")
    def act(self, n: Int) -> None:
        self.x.value = n

    @invariant("X")
    def m_is_natural(self, b: Block) -> Bool:
        return self.m[b] >= 0


def _marked() -> Any:
    def x_is_zero(self: Base) -> Bool:
        return self.x.value == 0

    return invariant("X")(x_is_zero)


# -------------------------------------------------------------------------------- decided by identity


@refused("Python decides `a is b`")
def two_elements() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def of_one(self, a: Block, b: Block) -> Bool:
            return implies(TRUE if a is b else ~TRUE, self.x.value == 0)

    return Is


@refused("Python decides `held is None`")
def a_value_with_a_name() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def of_nothing(self) -> Bool:
            held = self.held.value
            return self.x.value == self.x.value if held is None else self.x.value == 0

    return Is


@refused("Python decides")
def in_a_lambda() -> type[Machine]:
    class Is(Base):
        of_nothing = invariant("X")(lambda self: implies(TRUE if self.held.value is none else ~TRUE, self.x.value == 0))

    return Is


@refused("Python decides")
def in_what_is_counted() -> type[Machine]:
    class Is(Base):
        owner = Map(Block, to=optional(Block))
        owned = Count(Block, where=lambda m, b: m.owner[b] is not none)  # type: ignore[arg-type,return-value]

    return Is


def _is_nothing(value: object) -> bool:
    return value is none


@refused("Python decides `value is none`")
def in_a_function_beside_the_class() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(TRUE if _is_nothing(self.held.value) else ~TRUE, self.x.value == 0)

    return Is


class _Helper:
    def is_nothing(self, value: object) -> bool:
        return value is none


_helper = functools.partial(_Helper().is_nothing)


@refused("Python decides `value is none`")
def in_a_method_that_is_called_in_part() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(TRUE if _helper(self.held.value) else ~TRUE, self.x.value == 0)

    return Is


@refused("Python decides `None`")
def in_a_pattern() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def of_nothing(self) -> Bool:
            match self.held.value:
                case None:
                    return self.x.value == 0
                case _:
                    return self.x.value == self.x.value

    return Is


# -------------------------------------------------------------------------------- decided inside of what is no function


@refused("Python decides `self.held.value is None`")
def in_a_property_of_python() -> type[Machine]:
    class Is(Base):
        @property
        def is_free(self) -> Bool:
            return TRUE if self.held.value is None else ~TRUE

        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(self.is_free, self.x.value == 0)

    return Is


@refused("Python decides `self.held.value is None`")
def in_a_property_that_is_kept() -> type[Machine]:
    class Is(Base):
        @functools.cached_property
        def is_free(self) -> Bool:
            return TRUE if self.held.value is None else ~TRUE

        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(self.is_free, self.x.value == 0)

    return Is


@refused("Python decides `value is None`")
def in_a_method_without_a_state() -> type[Machine]:
    class Is(Base):
        @staticmethod
        def is_none(value: object) -> Bool:
            return TRUE if value is None else ~TRUE

        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(self.is_none(self.held.value), self.x.value == 0)

    return Is


@refused("Python decides `value is None`")
def in_a_method_of_the_class() -> type[Machine]:
    class Is(Base):
        @classmethod
        def is_none(cls, value: object) -> Bool:
            return TRUE if value is None else ~TRUE

        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(self.is_none(self.held.value), self.x.value == 0)

    return Is


@refused("Python decides `self.held.value is None`")
def in_a_method_that_is_given_more() -> type[Machine]:
    class Is(Base):
        is_free = functools.partialmethod(lambda self, said: said if self.held.value is None else ~TRUE, TRUE)

        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(self.is_free(), self.x.value == 0)

    return Is


@refused("Python decides `m.held.value is None`")
def in_a_table_of_functions() -> type[Machine]:
    class Is(Base):
        table = ({"free": [lambda m: TRUE if m.held.value is None else ~TRUE]},)

        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(self.table[0]["free"][0](self), self.x.value == 0)

    return Is


@refused("Python decides `value is None`")
def in_a_default() -> type[Machine]:
    class Is(Base):
        def _held(self, is_none: Any = lambda value: value is None) -> Bool:
            return TRUE if is_none(self.held.value) else ~TRUE

        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(self._held(), self.x.value == 0)

    return Is


@refused("Python decides `m.held.value is None`")
def in_an_object_of_a_class_inside() -> type[Machine]:
    class Is(Base):
        class Asked:
            def __get__(self, m: Any, _: object) -> Bool:
                return TRUE if m.held.value is None else ~TRUE

        is_free: Any = Asked()

        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(self.is_free, self.x.value == 0)

    return Is


@refused("Python decides `m.held.value is None`")
def in_what_is_counted_with_more() -> type[Machine]:
    class Is(Base):
        zeros = Count(
            Block, where=functools.partial(lambda n, m, b: m.m[b] == (n if m.held.value is None else n + 1), 0)
        )

    return Is


@functools.cache
def _is_free(m: Any) -> Bool:
    return TRUE if m.held.value is None else ~TRUE


@refused("Python decides `m.held.value is None`")
def in_a_function_that_keeps_what_it_said() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(_is_free(self), self.x.value == 0)

    return Is


@functools.singledispatch
def _asks(_: object) -> Bool:
    return TRUE


@_asks.register
def _(m: Machine) -> Bool:
    return TRUE if m.held.value is None else ~TRUE


@refused("Python decides `m.held.value is None`")
def in_a_function_that_another_one_chooses() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(_asks(self), self.x.value == 0)

    return Is


@contextlib.contextmanager
def _free(m: Any) -> Iterator[Bool]:
    yield TRUE if m.held.value is None else ~TRUE


@refused("Python decides `m.held.value is None`")
def in_a_block_of_its_own() -> type[Machine]:
    class Is(Base):
        @action("X")
        def take(self, b: Block) -> None:
            with _free(self) as is_free:
                self.require(is_free)
            self.held.value = b

    return Is


class _Asking:
    def is_none(self, value: object) -> bool:
        return value is None


class _Asker(_Asking):
    pass


@refused("Python decides `value is None`")
def in_a_class_that_a_helper_extends() -> type[Machine]:
    class Is(Base):
        @invariant("X")
        def of_nothing(self) -> Bool:
            return implies(TRUE if _Asker().is_none(self.held.value) else ~TRUE, self.x.value == 0)

    return Is


@refused("nothing is done with `self.x.value == 0`")
def a_claim_of_a_property_of_python_that_is_not_returned() -> type[Machine]:
    class Left(Base):
        @property
        def is_dark(self) -> Bool:
            self.x.value == 0
            return ~self.lamp.value

        @action("X")
        def light(self) -> None:
            self.require(self.is_dark)
            self.lamp.value = True

    return Left


# -------------------------------------------------------------------------------- decided by other ways around a value


@refused("cannot stand in a set")
def in_a_set() -> type[Machine]:
    class Hashed(Base):
        @invariant("X")
        def of_one(self, a: Block, b: Block) -> Bool:
            return self.x.value == 0 if a in {b} else self.x.value == self.x.value

    return Hashed


@refused("cannot stand in a set")
def in_a_dict() -> type[Machine]:
    class Hashed(Base):
        @invariant("X")
        def of_one(self, a: Block, b: Block) -> Bool:
            known: Mapping[Block, Bool] = {a: self.x.value == 0}
            return known.get(b, TRUE)

    return Hashed


@refused("Python cannot branch on it")
def caught_by_the_text() -> type[Machine]:
    class Caught(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with contextlib.suppress(Exception):
                if n > 3:
                    self.x.value = n
            self.x.value = 0

        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.x.value == 0

    return Caught


@refused("Python cannot branch on it")
def caught_by_a_property() -> type[Machine]:
    class Caught(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            try:
                assert self.x.value == 0
            except MachineError:
                return self.x.value == self.x.value
            return TRUE

    return Caught


@refused("the value of n is not known while the machine is read: Python cannot compute with it so")
def what_python_raises_is_caught() -> type[Machine]:
    class Caught(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with contextlib.suppress(TypeError):
                self.require(abs(n) <= 3)  # type: ignore[arg-type]
            self.x.value = n

    return Caught


@refused("Python cannot count with it")
def a_place_in_a_list_that_is_passed_over() -> type[Machine]:
    class Caught(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            try:
                limit = (0, 1)[self.x.value]  # type: ignore[call-overload]
            except (IndexError, TypeError):
                return self.y.value == 0
            return self.x.value == limit

    return Caught


@refused("Python cannot go through it")
def elements_of_a_number_that_are_passed_over() -> type[Machine]:
    class Caught(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with contextlib.suppress(TypeError):
                for k in n:  # type: ignore[attr-defined]
                    self.require(k == 0)
            self.x.value = n

    return Caught


@refused("Python cannot count what stands in q")
def the_length_of_a_queue_that_is_passed_over() -> type[Machine]:
    class Caught(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with contextlib.suppress(TypeError):
                self.require(n <= len(self.q))
            self.x.value = n

    return Caught


@refused("put each of these in parentheses")
def a_condition_without_parentheses_that_is_passed_over() -> type[Machine]:
    class Caught(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with contextlib.suppress(TypeError):
                self.require(n == 1 & self.y.value == 2)  # type: ignore[arg-type, operator]
            self.x.value = n

    return Caught


@refused("has no z")
def a_missing_part_that_is_passed_over() -> type[Machine]:
    class Caught(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with contextlib.suppress(AttributeError):
                self.z.value = n
            self.x.value = 0

    return Caught


# -------------------------------------------------------------------------------- read elsewhere


@refused("kept is changed by this text")
def a_value_of_another_action() -> type[Machine]:
    kept: list[Int] = []

    class Leak(Base):
        @action("X")
        def act(self, n: Int) -> None:
            kept.append(self.x.value)
            self.x.value = n

        @action("X")
        def other(self) -> None:
            self.require(kept[0] == 1)

    return Leak


@refused("m[p] was read")
def what_a_quantifier_has_read() -> type[Machine]:
    """All rounds of `each` would read what one of them has written, where a proof reads what was there before."""
    kept: list[Int] = []

    class Leak(Base):
        @action("X")
        def all(self, p: Block) -> None:
            def look(b: Block) -> Bool:
                kept.append(self.m[p])
                return b == b

            self.require(forall(Block, look))
            with self.each(Block) as b:
                self.m[b] = kept[0] + 1

        @invariant("X")
        def all_are_alike(self, a: Block, b: Block) -> Bool:
            return self.m[a] == self.m[b]

    return Leak


@refused("x was read")
def what_a_first_value_has_read() -> type[Machine]:
    kept: list[Int] = []

    def zero(m: Base, b: Block) -> int:
        kept.append(m.x.value)
        return 0

    class Leak(Base):
        z = Map(Block, to=Int, init=zero)

        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = n
            self.y.value = kept[0]

    return Leak


@refused("x was read")
def what_the_facts_of_a_loop_have_read() -> type[Machine]:
    kept: list[Int] = []

    class Leak(Base):
        @action("X")
        def act(self, n: Int) -> None:
            def facts(_i: Index, _entry: Leak) -> dict[str, Bool]:
                kept.append(self.x.value)
                return {}

            with self.loop(n, facts=facts):
                self.x.value = 1
            self.x.value = 2
            self.y.value = kept[0]

    return Leak


@refused("not at hand here")
def a_state_before_no_step() -> type[Machine]:
    class View(Base):
        @invariant("X")
        def x_stays(self) -> Bool:
            return type(self)("before").x.value == self.x.value

    return View


@refused("view")
def another_state_by_its_name() -> type[Machine]:
    class View(Base):
        @step("X")
        def x_stays(self, before: Base) -> Bool:
            self.view = "before"
            return before.x.value == self.x.value

    return View


class Elsewhere(Machine):
    held = Scalar(to=Block, init=lambda m: none)
    told = Event(Block)


@refused("of another machine's held")
def a_part_of_the_same_name() -> type[Machine]:
    class Foreign(Base):
        @action("X")
        def more(self) -> None:
            self.m[Elsewhere().held.value] = 1

    return Foreign


@refused("told is not part of this machine")
def an_event_of_another_machine() -> type[Machine]:
    class Foreign(Base):
        @action("X")
        def more(self, b: Block) -> None:
            Elsewhere.told(b)

    return Foreign


# -------------------------------------------------------------------------------- something else each time


@refused("says something else each time")
def a_requirement_that_changes() -> type[Machine]:
    class Moody(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.require(self.x.value <= time.monotonic_ns())
            self.x.value = n

        @invariant("X")
        def it_is_always_possible(self) -> Bool:
            return can(self.act, self.x.value)

    return Moody


@refused("says something else each time")
def a_measure_that_falls_by_itself() -> type[Machine]:
    class Moody(Base):
        @action("X")
        def turn(self) -> None:
            self.lamp.value = ~self.lamp.value

        @eventually("X")
        def x_will_be_seven(self) -> Promise:
            return promise(goal=self.x.value == 7, fair=[steps(self.turn)], measure=[-time.monotonic_ns()])

    return Moody


@refused("says something else each time")
def fair_steps_that_lower_nothing() -> type[Machine]:
    """Each step is one that is not put off, as long as nobody asks what it has lowered."""

    class Moody(Base):
        @action("X")
        def turn(self) -> None:
            self.lamp.value = ~self.lamp.value

        @eventually("X")
        def x_will_be_seven(self) -> Promise:
            is_asked_of_a_step = self.view != "now"
            fair = steps(self.turn, where=lambda: FALSE if is_asked_of_a_step else TRUE)
            return promise(goal=self.x.value == 7, fair=[fair], measure=[0])

    return Moody


@refused("by way of a machine that its text has made or kept")
def fair_steps_that_are_none_when_they_are_done() -> type[Machine]:
    """Whether a step is fair was asked of the state after it."""

    class Fresh(Base):
        @action("X")
        def up(self) -> None:
            self.require(~self.lamp.value)
            self.lamp.value = True

        @action("X")
        def down(self) -> None:
            self.require(self.lamp.value)
            self.lamp.value = False

        @eventually("X")
        def x_will_be_seven(self) -> Promise:
            now = type(self)()
            up = steps(self.up, where=lambda: ~now.lamp.value)
            return promise(goal=self.x.value == 7, fair=[up, steps(self.down, where=now.is_on)], measure=[0])

        def is_on(self) -> Bool:
            return self.lamp.value

    return Fresh


# -------------------------------------------------------------------------------- written where nothing is kept


@refused("it cannot change it")
def what_says_whether_to_go_on_writes() -> type[Machine]:
    class Going(Base):
        @action("X")
        def act(self, n: Int) -> None:
            def going(_i: Index) -> Bool:
                self.x.value = self.x.value + 1
                return TRUE

            self.x.value = 0
            with self.loop(5, going=going):
                self.lamp.value = True

        @invariant("X")
        def x_is_at_most_one(self) -> Bool:
            return self.x.value <= 1

    return Going


class Cursor(Machine):
    cursor = Scalar(to=optional(Block))
    count = Scalar(to=Int)

    @action("X")
    def go(self, b: Block) -> None:
        self.cursor.value = b
        self.count.value = 1


@refused("has a fixed value here")
def what_is_fixed_in_a_part() -> type[Machine]:
    class Whole(Machine):
        host_count = Scalar(to=Int)
        host = Part(Cursor, cursor=none)

        @action("X")
        def go(self, b: Block) -> None:
            self.host.go(b)

    return Whole


@refused("host has no count")
def a_part_that_is_replaced() -> type[Machine]:
    class Whole(Machine):
        host_count = Scalar(to=Int)
        host = Part(Cursor, cursor=none)

        @action("X")
        def go(self) -> None:
            self.host.count = 5

    return Whole


@refused("nothing is done with `self.x.value == n`")
def a_comparison_that_should_be_a_write() -> type[Machine]:
    class Left(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.x.value == n

    return Left


@refused("nothing is done with `implies(self.x.value > 3, self.lamp.value)`")
def a_claim_that_is_not_returned_with_another() -> type[Machine]:
    class Half(Base):
        @invariant("X")
        def low(self) -> Bool:
            implies(self.x.value > 3, self.lamp.value)
            return self.x.value == self.x.value

    return Half


@refused("nothing is done with `self.is_dark()`")
def a_claim_of_a_helper_that_is_not_returned() -> type[Machine]:
    class Half(Base):
        def is_dark(self) -> Bool:
            return ~self.lamp.value

        @invariant("X")
        def low(self) -> Bool:
            self.is_dark()
            return self.x.value == self.x.value

    return Half


@refused("Python would compare m and m")
def two_maps() -> type[Machine]:
    """Of what stands in the class there are two, one for each state, which are never the same."""

    class Compared(Base):
        @step("X", of="act")
        def it_changes(self, before: Base) -> Bool:
            return implies(self.x.value != before.x.value, self.m != before.m)  # type: ignore[arg-type]

    return Compared


@refused("Python cannot compare two states")
def two_states() -> type[Machine]:
    class Compared(Base):
        @step("X", of="act")
        def it_changes(self, before: Base) -> Bool:
            return implies(self.x.value != before.x.value, self != before)  # type: ignore[arg-type]

    return Compared


@refused("a state is neither true nor false")
def the_truth_of_a_state() -> type[Machine]:
    class Compared(Base):
        @step("X", of="act")
        def it_changes(self, before: Base) -> Bool:
            return implies(self.x.value > 0, bool(before) or self.lamp.value)  # type: ignore[arg-type]

    return Compared


@refused("a loop is no number")
def the_number_of_a_loop() -> type[Machine]:
    class Compared(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with self.loop(n) as loop, when(implies(self.lamp.value, loop != 1)):  # type: ignore[arg-type]
                self.x.value = 1

    return Compared


@refused("compare what host is")
def two_parts() -> type[Machine]:
    class Compared(Machine):
        host_cursor = Scalar(to=optional(Block))
        host_count = Scalar(to=Int)
        host = Part(Cursor)

        @action("X")
        def go(self, b: Block) -> None:
            self.host.go(b)

        @step("X", of="go")
        def it_changes(self, before: Any) -> Bool:
            return implies(self.host_count.value > 0, self.host != before.host)

    return Compared


@refused("is_dark is a function")
def a_helper_that_is_not_called() -> type[Machine]:
    """For Python every function is true: of the two only the second was claimed."""

    class Half(Base):
        def is_dark(self) -> Bool:
            return ~self.lamp.value

        @invariant("X")
        def low(self) -> Bool:
            return self.is_dark and self.x.value == self.x.value  # type: ignore[truthy-function]

    return Half


@refused("is_dark is a function")
def a_helper_that_decides_and_is_not_called() -> type[Machine]:
    class Half(Base):
        def is_dark(self) -> Bool:
            return ~self.lamp.value

        @step("X", of="act")
        def low(self, before: Any) -> Bool:
            return implies(self.x.value > 0, not before.is_dark or self.x.value > 3)  # type: ignore[arg-type]

    return Half


@refused("is_dark is a function")
def a_helper_that_is_compared() -> type[Machine]:
    class Half(Base):
        def is_dark(self) -> Bool:
            return ~self.lamp.value

        @invariant("X")
        def low(self) -> Bool:
            return implies(self.x.value > 0, self.is_dark != True)  # type: ignore[arg-type, comparison-overlap]  # noqa: E712

    return Half


@refused("_false is a function")
def a_function_of_the_module_that_is_not_called() -> type[Machine]:
    class Half(Base):
        @invariant("X")
        def low(self) -> Bool:
            return implies(self.x.value > 0, True if _false else self.lamp.value)  # type: ignore[arg-type, truthy-function]

    return Half


@refused("is_low is a function")
def a_function_that_is_made_there_and_not_called() -> type[Machine]:
    class Half(Base):
        @invariant("X")
        def low(self) -> Bool:
            def is_low() -> Bool:
                return self.x.value == 0

            return is_low and self.x.value == self.x.value  # type: ignore[truthy-function]

    return Half


@refused("is_low is a function")
def a_static_method_that_is_not_called() -> type[Machine]:
    class Half(Base):
        @staticmethod
        def is_low(x: Int) -> Bool:
            return x == 0

        @invariant("X")
        def low(self) -> Bool:
            return self.is_low and self.x.value == self.x.value  # type: ignore[truthy-function]

    return Half


@refused("is_low is a function")
def a_method_in_a_list_that_is_not_called() -> type[Machine]:
    class Half(Base):
        def is_low(self) -> Bool:
            return self.x.value == 0

        @invariant("X")
        def low(self) -> Bool:
            return TRUE if all([self.is_low, True]) else ~TRUE

    return Half


@refused("is_low is a function")
def a_method_in_a_tuple_in_a_list_that_is_not_called() -> type[Machine]:
    class Half(Base):
        def is_low(self) -> Bool:
            return self.x.value == 0

        @invariant("X")
        def low(self) -> Bool:
            return (self.x.value == self.x.value) & (TRUE if any([(1, self.is_low)]) else ~TRUE)

    return Half


@refused("is_low is a function")
def a_method_that_is_asked_for_its_truth() -> type[Machine]:
    class Half(Base):
        def is_low(self) -> Bool:
            return self.x.value == 0

        @invariant("X")
        def low(self) -> Bool:
            return implies(self.x.value > 0, bool(self.is_low))  # type: ignore[arg-type]

    return Half


@refused("so_it_is is a function")
def a_method_by_another_name_that_is_not_called() -> type[Machine]:
    class Half(Base):
        def is_low(self) -> Bool:
            return self.x.value == 0

        @invariant("X")
        def low(self) -> Bool:
            so_it_is = self.is_low
            return so_it_is and self.x.value == self.x.value  # type: ignore[truthy-function]

    return Half


@refused("has __eq__ of its own")
def elements_that_equal_all_others() -> type[Machine]:
    class Equal(Sort):
        def __eq__(self, other: object) -> Any:
            return TRUE

        __hash__ = Sort.__hash__

    class One(Machine):
        held = Scalar(to=optional(Equal))

        @action("X")
        def take(self, e: Equal) -> None:
            self.held.value = e

        @invariant("X")
        def any_of_them_is_held(self, e: Equal) -> Bool:
            return self.held.value == e  # type: ignore[no-any-return]

    return One


@refused("a sort is declared and no more")
def elements_that_a_dataclass_compares() -> type[Machine]:
    @dataclasses.dataclass(frozen=True)
    class Equal(Sort):
        pass

    class One(Base):
        taken = Map(Equal, to=Bool)

    return One


@refused("nothing is done with `self.x.value == n`")
def a_comparison_with_a_comma() -> type[Machine]:
    class Left(Base):
        @action("X")
        def act(self, n: Int) -> None:
            (self.x.value == n,)  # noqa: B018

    return Left


@refused("nothing is done with `implies(self.x.value > 3, self.lamp.value)`")
def a_claim_with_a_comma() -> type[Machine]:
    class Half(Base):
        @invariant("X")
        def low(self) -> Bool:
            (implies(self.x.value > 3, self.lamp.value),)
            return self.x.value == self.x.value

    return Half


@refused("is never run")
def a_claim_behind_the_end() -> type[Machine]:
    class Half(Base):
        @invariant("X")
        def low(self) -> Bool:
            return self.x.value == self.x.value  # and:
            return self.x.value == 0

    return Half


@refused("is never run")
def a_write_behind_the_end() -> type[Machine]:
    class Half(Base):
        @action("X")
        def act(self, n: Int) -> None:
            for k in (1, 2):
                if k == 1:
                    continue
                    self.require(n == 0)
            self.x.value = n

    return Half


@refused("nothing is done with dark: return it")
def a_claim_that_has_a_name_and_is_not_returned() -> type[Machine]:
    class Half(Base):
        @invariant("X")
        def low(self) -> Bool:
            dark = ~self.lamp.value  # noqa: F841
            return self.x.value == self.x.value

    return Half


@refused("nothing is done with `forall(Block, lambda b: self.m[b] == n)`: require it")
def a_condition_that_is_not_required() -> type[Machine]:
    class Any_(Base):
        @action("X")
        def act(self, n: Int) -> None:
            forall(Block, lambda b: self.m[b] == n)
            self.x.value = 0

    return Any_


@refused("nobody goes through `(self.require(n == k) for k in (0,))`")
def requirements_of_a_generator() -> type[Machine]:
    class Lazy(Base):
        @action("X")
        def act(self, n: Int) -> None:
            (self.require(n == k) for k in (0,))  # type: ignore[func-returns-value]
            self.x.value = n

    return Lazy


@refused("nobody goes through `map(")
def writes_that_are_mapped() -> type[Machine]:
    class Lazy(Base):
        @action("X")
        def act(self, n: Int) -> None:
            map(lambda k: setattr(self.x, "value", k), [n])  # noqa: C417
            self.y.value = 0

    return Lazy


@refused("nobody goes through `self.put(n)`")
def a_helper_that_yields() -> type[Machine]:
    class Lazy(Base):
        def put(self, n: Int) -> Iterator[None]:
            self.x.value = n
            yield

        @action("X")
        def act(self, n: Int) -> None:
            self.put(n)
            self.y.value = 0

    return Lazy


@refused("Python tells objects apart")
def parameters_that_are_one_object() -> type[Machine]:
    class Apart(Base):
        @action("X")
        def meet(self, a: Block, b: Block) -> None:
            self.x.value = 1 if id(a) == id(b) else 0

    return Apart


@refused("Python tells objects apart")
def parameters_that_an_operator_tells_apart() -> type[Machine]:
    class Apart(Base):
        @action("X")
        def meet(self, a: Block, b: Block) -> None:
            self.x.value = 1 if operator.is_(a, b) else 0

    return Apart


@refused("the text of a is the same whatever its value is")
def parameters_that_are_written_alike() -> type[Machine]:
    class Apart(Base):
        @action("X")
        def meet(self, a: Block, b: Block) -> None:
            self.x.value = 1 if f"{a}" == f"{b}" else 0

    return Apart


@refused("is not run where it is called")
def a_helper_that_nobody_waits_for() -> type[Machine]:
    class Late(Base):
        async def put(self, n: Int) -> None:
            self.x.value = n

        @action("X")
        def act(self, n: Int) -> None:
            self.put(n)  # type: ignore[unused-coroutine]
            self.x.value = 0

    return Late


@refused("`return` leaves a")
def returns_from_a_block_that_is_ended_by_hand() -> type[Machine]:
    class Early(Base):
        @action("X")
        def act(self, n: Int) -> None:
            above = when(n > 3)
            above.__enter__()
            try:
                self.x.value = 3
                return
            finally:
                above.__exit__(None, None, None)
            self.x.value = n

    return Early


# -------------------------------------------------------------------------------- names that outlive a block


@refused("found is bound inside a `when`")
def a_name_that_is_bound_in_a_branch() -> type[Machine]:
    class Bound(Base):
        @action("X")
        def act(self, n: Int) -> None:
            found = 0
            with when(n > 3):
                found = 1
            self.x.value = found

    return Bound


@refused("found is bound inside a `otherwise`")
def a_name_that_is_bound_in_both_branches() -> type[Machine]:
    class Bound(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with when(n > 3):
                found = 1
            with otherwise():
                found = 2
            self.x.value = found

    return Bound


@refused("last is bound inside a `loop`")
def a_name_that_goes_from_round_to_round() -> type[Machine]:
    class Bound(Base):
        @action("X")
        def act(self, n: Int) -> None:
            last = 0
            with self.loop(n):
                self.x.value = last
                last = 1

    return Bound


@refused("found is bound inside a `when`")
def a_name_that_is_bound_in_the_block_of_a_helper() -> type[Machine]:
    class Bound(Base):
        @action("X")
        def act(self, n: Int) -> None:
            found: Int | int = 0
            with _above(n):
                found = n
            self.x.value = found

    return Bound


@refused("found is changed inside a `when`")
def a_list_that_is_filled_in_a_branch() -> type[Machine]:
    class Bound(Base):
        @action("X")
        def act(self, n: Int) -> None:
            found: list[int] = []
            with when(n > 3):
                found.append(1)
            self.x.value = len(found)

    return Bound


# -------------------------------------------------------------------------------- properties that nobody would read


@refused("found is changed inside a `when`")
def an_object_that_is_changed_in_a_branch() -> type[Machine]:
    class Changed(Base):
        @action("X")
        def act(self, n: Int) -> None:
            found = types.SimpleNamespace(number=0)
            with when(self.lamp.value):
                found.number = 1
            self.x.value = found.number

    return Changed


@refused("found is changed inside a `when`")
def a_list_in_a_list_that_is_changed_in_a_branch() -> type[Machine]:
    class Changed(Base):
        @action("X")
        def act(self, n: Int) -> None:
            found = [[0]]
            with when(self.lamp.value):
                found[0][0] = 1
            self.x.value = found[0][0]

    return Changed


@refused("numbers is changed inside a `when`")
def an_iterator_that_a_branch_advances() -> type[Machine]:
    class Changed(Base):
        @action("X")
        def act(self, n: Int) -> None:
            numbers = iter((0, 1))
            with when(self.lamp.value):
                self.y.value = next(numbers)
            self.x.value = next(numbers)

    return Changed


@refused("numbers is changed inside a `each`")
def an_iterator_that_each_round_advances() -> type[Machine]:
    class Changed(Base):
        @action("X")
        def act(self, n: Int) -> None:
            numbers = (k for k in range(9))
            with self.each(Block) as b:
                self.m[b] = next(numbers)

    return Changed


_LAST = [0]


@refused("_LAST is changed inside a `when`")
def what_belongs_to_the_module_and_is_changed_in_a_branch() -> type[Machine]:
    class Changed(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with when(self.lamp.value):
                _LAST[0] += 1
            self.x.value = _LAST[0]

    return Changed


_last = 0


@refused("_last outlives this text")
def a_name_of_the_module_that_is_bound_in_a_branch() -> type[Machine]:
    class Changed(Base):
        @action("X")
        def act(self, n: Int) -> None:
            global _last
            with when(self.lamp.value):
                _last += 1
            self.x.value = _last

    return Changed


@refused("is lost")
def in_a_partial_method() -> type[Machine]:
    class Wrapped(Base):
        x_is_zero = functools.partialmethod(_marked())

    return Wrapped


@refused("put nothing around")
def in_a_static_method() -> type[Machine]:
    class Wrapped(Base):
        x_is_zero = staticmethod(_marked())

    return Wrapped


@refused("@invariant")
def in_a_list_that_is_made_there() -> type[Machine]:
    class Listed(Base):
        said = [invariant("X")(rule) for rule in (lambda self: self.x.value == 0,)]  # noqa: RUF012

    return Listed


@refused("stands inside of said")
def in_a_list_that_is_made_elsewhere() -> type[Machine]:
    rules = (_marked(),)

    class Listed(Base):
        said = rules

    return Listed


@refused("put nothing around")
def under_a_decorator_of_ones_own() -> type[Machine]:
    def rule(function: Any) -> Any:
        return invariant("X")(function)

    class Wrapped(Base):
        @property
        @rule
        def x_is_zero(self) -> Bool:
            return self.x.value == 0

    return Wrapped


@refused("stands inside of Inner")
def in_a_class_inside() -> type[Machine]:
    class Outer(Base):
        class Inner:
            @invariant("X")
            def x_is_zero(self) -> Bool:
                return self.x.value == 0  # type: ignore[attr-defined,no-any-return]

    return Outer


@refused("stands inside another text")
def in_an_action() -> type[Machine]:
    class Outer(Base):
        @action("X")
        def more(self) -> None:
            self.lamp.value = True

            @invariant("X")
            def x_is_zero(self: Base) -> Bool:
                return self.x.value == 0

    return Outer


@refused("is lost")
def in_a_body_of_another_kind() -> type[Machine]:
    class Kind(type(Machine)):  # type: ignore[misc]
        @classmethod
        def __prepare__(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return {}

    class Made(Base, metaclass=Kind):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.x.value == 0

        @invariant("X")  # type: ignore[no-redef]
        def x_is_zero(self) -> Bool:  # noqa: F811
            return self.x.value == self.x.value

    return Made


@refused("put nothing around")
def a_property_of_a_mixin() -> type[Machine]:
    class Mixin:
        @property
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.x.value == 0  # type: ignore[attr-defined,no-any-return]

    class Mixed(Mixin, Base):
        pass

    return Mixed


@refused("is lost")
def replaced_in_a_mixin() -> type[Machine]:
    class Mixin:
        if issubclass(Base, Machine):

            @invariant("X")
            def x_is_zero(self) -> Bool:
                return self.x.value == 0  # type: ignore[attr-defined,no-any-return]

        x_is_zero = None  # type: ignore[assignment]

    class Mixed(Mixin, Base):
        pass

    return Mixed


@refused("a name of Python's own")
def by_a_name_of_python() -> type[Machine]:
    class Mixin:
        @invariant("X")
        def __x_is_zero__(self) -> Bool:
            return self.x.value == 0  # type: ignore[attr-defined,no-any-return]

    class Mixed(Mixin, Base):
        pass

    return Mixed


@refused("part of the language")
def a_mixin_that_keeps_what_is_written() -> type[Machine]:
    class Mixin:
        def __setattr__(self, name: str, value: object) -> None:
            object.__setattr__(self, name, value)

    class Mixed(Mixin, Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.z = n

    return Mixed


@refused("both have x_is_zero")
def hidden_by_a_mixin() -> type[Machine]:
    class First(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.x.value == 0

    class Second(First):
        def x_is_zero(self) -> Bool:
            return self.x.value == 0

    class Mixin:
        def x_is_zero(self) -> Bool:
            return TRUE | (self.x.value == 0)  # type: ignore[attr-defined,no-any-return]

    class Mixed(Mixin, Second):
        pass

    return Mixed


def _false() -> Any:
    class False_(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.x.value == 0

    return False_


@refused("cannot be taken out of it afterwards")
def taken_away_afterwards() -> type[Machine]:
    made: type[Machine] = _false()
    made.x_is_zero = None
    return made


@refused("cannot be taken out of it afterwards")
def deleted_afterwards() -> type[Machine]:
    made: type[Machine] = _false()
    del made.x_is_zero  # type: ignore[attr-defined]
    return made


@refused("cannot be taken out of it afterwards")
def deleted_by_a_base() -> type[Machine]:
    class Mixin:
        def __init_subclass__(cls, **_: Any) -> None:
            if "x_is_zero" in vars(cls):
                del cls.x_is_zero  # type: ignore[attr-defined]

    class Mixed(Mixin, Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.x.value == 0

    return Mixed


@refused("has been read")
def said_after_it_was_read() -> type[Machine]:
    class Late(Base):
        pass

    Model.of(Late)
    Late.x_is_zero = _marked()
    return Late


# -------------------------------------------------------------------------------- numbers


class _Five(int):
    """A number that does not look like itself."""

    def __repr__(self) -> str:
        return "0"

    __str__ = __repr__


@false("x_is_zero")
class ANumberInDisguise(Base):
    @action("X")
    def act(self, n: Int) -> None:
        self.x.value = _Five(5)

    @invariant("X")
    def x_is_zero(self) -> Bool:
        return self.x.value == 0


@contextlib.contextmanager
def _above(n: Int) -> Iterator[None]:
    with when(n > 3):
        yield


@false("x_is_small")
class AnEndByAHelper(Base):
    """A block of a helper that is left at its end is one."""

    @action("X")
    def act(self, n: Int) -> None:
        with _above(n):
            self.x.value = n

    @invariant("X")
    def x_is_small(self) -> Bool:
        return self.x.value <= 3
