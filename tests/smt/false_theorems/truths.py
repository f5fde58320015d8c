"""What Python takes for true whatever it holds, or for false: asked for its truth, it would decide for all states."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable

from kvproof.machine import (
    Bool,
    Event,
    Int,
    Machine,
    Part,
    Promise,
    Queue,
    Scalar,
    Sort,
    Tally,
    action,
    all_of,
    can,
    corollary,
    eventually,
    implies,
    invariant,
    promise,
    steps,
    such_as,
    when,
)

from .corpus import false, refused, true


class Block(Sort):
    pass


class Base(Machine):
    """Of x nothing is promised: whatever says that it is 0 is false."""

    x = Scalar(to=Int)
    y = Scalar(to=Int)
    q = Queue(Block)

    @action("X")
    def act(self, n: Int) -> None:
        self.x.value = n

    def is_dark(self) -> Bool:
        return self.x.value == 0

    def is_true(self) -> Bool:
        return self.y.value == 0


def _is_dark(m: Base) -> Bool:
    return m.x.value == 0


def _is_true(m: Base) -> Bool:
    return m.y.value == 0


def _decided_by_a_claim(says: Callable[[Base], Bool]) -> type[Machine]:
    class Claimed(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return says(self)

    return Claimed


def _decided_by(asked: Callable[[Base], object]) -> type[Machine]:
    """What is asked decides whether the machine says what is true, or what is not."""

    class Decided(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_true() if asked(self) else self.is_dark()

    return Decided


@refused('`(self.is_dark(), "x is 0")` is true for Python, whatever it holds')
def a_condition_and_a_message() -> type[Machine]:
    class Asserted(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = n if (self.is_dark(), "x is 0") else 0

    return Asserted


@refused("`[self.is_dark()]` is true")
def a_list_of_conditions() -> type[Machine]:
    class Listed(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_true() if [self.is_dark()] else self.is_dark()

    return Listed


@refused("is true for Python, whatever it holds")
def a_dictionary_of_conditions() -> type[Machine]:
    class Listed(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_true() if {"dark": self.is_dark()} else self.is_dark()

    return Listed


@refused("is true for Python, whatever it holds")
def a_pair_in_a_list() -> type[Machine]:
    return _decided_by(lambda m: all([(m.is_dark(), "x is 0")]))


@refused("`(m.x.value == k for k in (0, 1))` is true")
def a_generator_of_conditions() -> type[Machine]:
    return _decided_by(lambda m: bool(m.x.value == k for k in (0, 1)))


@refused("is true for Python, whatever it holds")
def what_is_filtered() -> type[Machine]:
    class Filtered(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_true() if filter(bool, ()) else self.is_dark()

    return Filtered


@refused("`lambda: m.is_dark()` is true")
def a_lambda_in_a_list() -> type[Machine]:
    return _decided_by(lambda m: all([lambda: m.is_dark()]))


@refused("is true for Python, whatever it holds")
def a_function_that_is_called_in_part() -> type[Machine]:
    return _decided_by(lambda m: bool(functools.partial(_is_dark, m)))


@refused("is_dark is a function")
def a_method_of_a_base() -> type[Machine]:
    class Extended(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_true() if super().is_dark else self.is_dark()  # type: ignore[truthy-function]

    return Extended


@refused("is_dark is a function")
def a_method_of_the_class() -> type[Machine]:
    class Named(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_true() if type(self).is_dark else self.is_dark()  # type: ignore[truthy-function]

    return Named


@refused("is_dark is a function")
def a_method_of_another_class() -> type[Machine]:
    return _decided_by(lambda m: bool(Base.is_dark))


class Lamp:
    def is_dark(self) -> bool:
        return False


_LAMP = Lamp()


@refused("is_dark is a function")
def a_method_of_an_object() -> type[Machine]:
    class Asked(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_true() if _LAMP.is_dark else self.is_dark()  # type: ignore[truthy-function]

    return Asked


@refused("is_empty is a function")
def a_question_to_a_queue() -> type[Machine]:
    class Asked(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_dark() if not self.q.is_empty else self.is_true()  # type: ignore[truthy-function]

    return Asked


@refused("is_dark is a function")
def a_method_of_a_part() -> type[Machine]:
    class Whole(Base):
        host_x = Scalar(to=Int)
        host_y = Scalar(to=Int)
        host_q = Queue(Block)
        host = Part(Base)

        @invariant("X")
        def x_is_zero(self) -> Bool:
            return self.is_true() if self.host.is_dark else self.is_dark()

    return Whole


@refused("is_dark is a function")
def a_loop_goes_through_methods() -> type[Machine]:
    class Looped(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            rules = [self.is_dark, self.is_true]
            for rule in rules:
                if not rule:  # type: ignore[truthy-function]
                    return self.is_dark()
            return self.is_true()

    return Looped


@refused("rule is a function")
def a_loop_goes_through_functions() -> type[Machine]:
    class Looped(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            for rule in (_is_dark, _is_true):
                if not rule:  # type: ignore[truthy-function]
                    return self.is_dark()
            return self.is_true()

    return Looped


@refused("is_dark is a function")
def a_generator_gives_methods() -> type[Machine]:
    return _decided_by(lambda m: all(rule for rule in (m.is_dark, m.is_true)))


@refused("_is_dark is a function")
def a_generator_gives_functions() -> type[Machine]:
    return _decided_by(lambda m: all(_is_dark for _ in (0, 1)))


@refused("is_dark is a function")
def a_dictionary_of_methods() -> type[Machine]:
    return _decided_by(lambda m: all({"dark": m.is_dark}.values()))


@refused("Python tells objects apart")
def objects_that_are_told_apart_by_what_the_text_imports() -> type[Machine]:
    class Same(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            from operator import is_ as same

            return self.is_dark() if same(self.x.value, self.y.value) else self.is_true()

    return Same


@refused("Python tells objects apart")
def objects_that_are_told_apart_by_a_module_that_the_text_imports() -> type[Machine]:
    class Same(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            import operator as op

            return self.is_true() if op.is_not(self.x.value, self.y.value) else self.is_dark()

    return Same


@refused("Python tells objects apart")
def objects_that_the_builtins_tell_apart() -> type[Machine]:
    class Same(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            same = builtins.id(self.x.value) == builtins.id(self.y.value)
            return self.is_dark() if same else self.is_true()

    return Same


@false("x_is_zero")
class ClaimsOneByOne(Base):
    """A list that is filled, and read."""

    @invariant("X")
    def x_is_zero(self) -> Bool:
        claims = [self.is_true()]
        for rule in (self.is_dark, self.is_true):
            claims.append(rule())
        return all_of(*claims) if claims else self.is_true()


@true
class TrueOneByOne(Base):
    """Lists may be asked whether anything is in them."""

    names = ("x", "y")
    none_of_them: tuple[str, ...] = ()

    @invariant("X")
    def y_is_zero(self) -> Bool:
        claims = [] if self.none_of_them else [self.is_true()]
        for rule in (self.is_true, self.is_true):
            claims.append(rule())
        claims.extend(self.is_true() for name in self.names if name)
        return all_of(*claims) if claims and self.names else self.is_dark()


@refused("nothing is done with `claims.append(self.is_dark())`")
def claims_that_nobody_reads() -> type[Machine]:
    class Unread(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            claims: list[Bool] = []
            claims.append(self.is_dark())
            return self.is_true()

    return Unread


@refused("`all([])` is decided by Python while the machine is read")
def all_of_nothing_beside_a_claim() -> type[Machine]:
    return _decided_by_a_claim(lambda m: all([]) | m.is_dark())


@refused("`any(())` is decided by Python")
def a_claim_beside_any_of_nothing() -> type[Machine]:
    return _decided_by_a_claim(lambda m: ~(m.is_dark() & any(())))  # type: ignore[operator]


@refused("`all(claims)` is decided by Python")
def all_of_a_list_beside_a_claim() -> type[Machine]:
    def said(m: Base) -> Bool:
        claims: list[Bool] = []
        result = m.is_dark()
        result |= all(claims)  # type: ignore[operator]
        return result  # type: ignore[no-any-return]

    return _decided_by_a_claim(said)


@refused("`when` is neither true nor false")
def one_block_or_another() -> type[Machine]:
    """The second was made by nobody."""

    class Either(Base):
        @action("X")
        def put(self, n: Int) -> None:
            with when(self.is_dark()) or when(self.is_true()):
                self.y.value = n

        @invariant("X")
        def y_is_zero(self) -> Bool:
            return implies(self.x.value != 0, self.y.value == 0)

    return Either


@refused("steps, and what is promised, are neither true nor false")
def some_steps_or_others() -> type[Machine]:
    """The others were not taken, and could put off nothing."""

    class Either(Base):
        @action("X")
        def put(self, n: Int) -> None:
            self.y.value = 1

        @eventually("X")
        def y_will_be_one(self) -> Promise:
            put = steps(self.put, such_as(1))
            return promise(goal=self.y.value == 1, fair=[put], only=[put or steps(self.act, such_as(0))], measure=[0])

    return Either


# ------------------------------------------------------------------------------------------ what returns nothing


class Doing(Base):
    """Of y nothing is promised either."""

    told = Event()
    many = Tally()

    def put(self, n: Int) -> None:
        self.x.value = n

    def put_both(self, n: Int) -> None:
        self.put(n)
        self.y.value = n


def _put(m: Doing, n: Int) -> None:
    m.x.value = n


def _decided_by_nothing(asked: Callable[[Doing, Int], object]) -> type[Machine]:
    """What an action asks returns nothing, and is false for Python: what it would do otherwise is never taken down."""

    class Decided(Doing):
        @action("X")
        def do(self, n: Int) -> None:
            if asked(self, n):
                self.y.value = n

        @invariant("X")
        def y_is_zero(self) -> Bool:
            return self.y.value == 0

    return Decided


@refused("put(…) returns nothing, which Python takes for false")
def a_write_that_decides() -> type[Machine]:
    return _decided_by_nothing(lambda m, n: m.put(n))


class _Putting:
    def __init__(self, m: Doing) -> None:
        self.m = m

    def put(self, n: Int) -> None:
        self.m.x.value = n


@refused("`self.put_it(self, n)` returns nothing, which Python takes for false")
def a_write_of_a_static_method_that_decides() -> type[Machine]:
    class Put(Doing):
        put_it = staticmethod(_put)

        @action("X")
        def do(self, n: Int) -> None:
            if self.put_it(self, n):
                self.y.value = n

    return Put


@refused("`_Putting(m).put(n)` returns nothing")
def a_write_of_an_object_that_decides() -> type[Machine]:
    return _decided_by_nothing(lambda m, n: bool(not _Putting(m).put(n)) and False)  # type: ignore[func-returns-value]


@refused("`put(n)` returns nothing")
def a_write_of_a_function_that_is_made_there_and_decides() -> type[Machine]:
    def asked(m: Doing, n: Int) -> bool:
        def put(n: Int) -> None:
            m.x.value = n

        return not put(n) and False  # type: ignore[func-returns-value]

    return _decided_by_nothing(asked)


@refused("`put(n)` returns nothing")
def a_write_that_was_given_its_state_and_decides() -> type[Machine]:
    def asked(m: Doing, n: Int) -> bool:
        put = functools.partial(_put, m)
        return not put(n) and False

    return _decided_by_nothing(asked)


@refused("`self.dark` returns nothing")
def a_write_of_a_property_of_python_that_decides() -> type[Machine]:
    class Put(Doing):
        @property
        def dark(self) -> None:
            self.x.value = 0

        @action("X")
        def do(self, n: Int) -> None:
            if self.dark:
                self.y.value = n

    return Put


@refused("`_put(self, n)` returns nothing")
def a_write_of_a_function_that_decides_by_a_name() -> type[Machine]:
    class Put(Doing):
        @action("X")
        def do(self, n: Int) -> None:
            done = _put(self, n)  # type: ignore[func-returns-value]
            if done:
                self.y.value = n

    return Put


@refused("`_put(self, n)` returns nothing")
def a_write_of_a_function_that_decides_by_a_tuple() -> type[Machine]:
    class Put(Doing):
        @action("X")
        def do(self, n: Int) -> None:
            done = (_put(self, n),)  # type: ignore[func-returns-value]
            if all(done):
                self.y.value = n

    return Put


@refused("`_put(self, n)` returns nothing")
def a_write_of_a_function_that_decides_for_another() -> type[Machine]:
    class Put(Doing):
        @action("X")
        def do(self, n: Int) -> None:
            if bool(_put(self, n)):  # type: ignore[func-returns-value]
                self.y.value = n

    return Put


def _asks(put: Callable[[Int], object], n: Int) -> bool:
    return not put(n) and False


@refused("`put(n)` returns nothing")
def a_write_that_is_passed_on_and_decides() -> type[Machine]:
    return _decided_by_nothing(lambda m, n: _asks(lambda n: _put(m, n), n))


@refused("`put(n)` returns nothing")
def a_write_of_an_entry_that_is_passed_on_and_decides() -> type[Machine]:
    return _decided_by_nothing(lambda m, n: _asks(lambda n: m.x.__setitem__((), n), n))


@refused("put_both(…) returns nothing")
def a_write_that_decides_by_a_name() -> type[Machine]:
    class Named(Doing):
        @action("X")
        def do(self, n: Int) -> None:
            done = self.put_both(n)  # type: ignore[func-returns-value]
            if not done:
                self.y.value = 0

        @invariant("X")
        def y_is_zero(self) -> Bool:
            return self.y.value == 0

    return Named


@refused("require(…) returns nothing")
def one_requirement_and_another() -> type[Machine]:
    """The second was none."""

    class Required(Doing):
        @action("X")
        def do(self, n: Int) -> None:
            self.require(n == 1) and self.require(self.x.value == 1)  # type: ignore[func-returns-value]
            self.y.value = n

        @corollary("X")
        def always(self) -> Bool:
            return can(self.do, 1)

    return Required


@refused("push_back(…) returns nothing")
def a_push_that_decides() -> type[Machine]:
    class Pushed(Doing):
        @action("X")
        def do(self, b: Block) -> None:
            self.require(~self.q.has(b))
            self.y.value = 1 if self.q.push_back(b) else 0  # type: ignore[func-returns-value]

        @invariant("X")
        def y_is_zero(self) -> Bool:
            return self.y.value == 0

    return Pushed


@refused("told(…) returns nothing")
def a_report_that_decides() -> type[Machine]:
    return _decided_by_nothing(lambda m, _: m.told())


@refused("add(…) returns nothing")
def a_tally_that_decides() -> type[Machine]:
    return _decided_by_nothing(lambda m, _: m.many.add(1))


@refused("put(…) returns nothing")
def writes_that_all_decide() -> type[Machine]:
    return _decided_by_nothing(lambda m, n: all(m.put(k) for k in (n, n)))  # type: ignore[func-returns-value]


@refused("`super().put(n)` returns nothing")
def a_write_above_that_decides() -> type[Machine]:
    class Above(Doing):
        def put(self, n: Int) -> None:
            if super().put(n):
                self.y.value = n

        @action("X")
        def do(self, n: Int) -> None:
            self.put(n)

        @invariant("X")
        def y_is_zero(self) -> Bool:
            return self.y.value == 0

    return Above


@refused("`_put(self, n)` returns nothing")
def a_function_that_decides() -> type[Machine]:
    class Outside(Doing):
        @action("X")
        def do(self, n: Int) -> None:
            self.y.value = n if _put(self, n) else 0  # type: ignore[func-returns-value]

        @invariant("X")
        def y_is_zero(self) -> Bool:
            return self.y.value == 0

    return Outside


@refused("is_lit(…) returns nothing")
def a_condition_that_is_not_returned() -> type[Machine]:
    class Forgotten(Base):
        def is_lit(self, which: str) -> Bool:
            if which == "x":
                return self.x.value == 0
            return None  # type: ignore[return-value]

        @invariant("X")
        def x_or_y(self) -> Bool:
            return self.is_lit("y") or self.is_true()

    return Forgotten


@false("y_is_zero")
class WhatReturnsNothingIsDone(Doing):
    """What is done with it is not asked, and an action may return it."""

    @action("X")
    def do(self, n: Int) -> None:
        return self.put_both(n)

    @invariant("X")
    def y_is_zero(self) -> Bool:
        return self.y.value == 0
