"""What a text keeps to be called, and never calls: in a dict, in an object, in a stack, or for the end of all."""

from __future__ import annotations

import atexit
import functools
import operator
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from kvproof.machine import Bool, Int, Machine, Scalar, Sort, action, can, invariant

from .corpus import refused, true


class Block(Sort):
    pass


class Base(Machine):
    """Whoever puts a negative number into x breaks what is promised of it."""

    x = Scalar(to=Int)
    y = Scalar(to=Int)

    def put(self, n: Int | int) -> None:
        self.x.value = n

    def clear(self) -> None:
        self.x.value = 0

    @invariant("X")
    def x_is_natural(self) -> Bool:
        return self.x.value >= 0


def _puts(of: Base) -> Iterator[None]:
    of.x.value = -1
    yield


def _lowers(of: Base) -> None:
    of.x.value = -1


class _Later:
    """Keeps something to do."""

    def __init__(self, todo: Callable[[], None]) -> None:
        self.todo = todo


def _made(acts: Callable[[Base], None]) -> type[Machine]:
    """A machine with an action of this text."""

    class Made(Base):
        @action("X")
        def act(self) -> None:
            self.y.value = self.y.value + 1
            acts(self)

    return Made


@refused("put is kept to be called later, and nobody calls it")
def a_method_in_a_dict() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {"low": self.put}
        self.y.value = len(later)

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_method_in_a_set() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {self.put}
        self.y.value = len(later)

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def calls_that_are_prepared_in_a_list() -> type[Machine]:
    def acts(self: Base) -> None:
        later = [functools.partial(self.put, n) for n in (-1, 0)]
        self.y.value = len(later)

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_call_that_a_loop_goes_through_and_does_not_make() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {"low": functools.partial(self.put, -1)}
        for name in later:
            self.y.value = len(name)

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_call_that_an_object_keeps() -> type[Machine]:
    def acts(self: Base) -> None:
        later = _Later(functools.partial(self.put, -1))
        self.y.value = len(vars(later))

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_call_in_a_stack_that_nobody_closes() -> type[Machine]:
    def acts(self: Base) -> None:
        stack = ExitStack()
        stack.callback(self.put, -1)

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_call_that_is_taken_out_of_its_stack() -> type[Machine]:
    def acts(self: Base) -> None:
        with ExitStack() as stack:
            stack.callback(self.put, -1)
            stack.pop_all()

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_call_by_two_names() -> type[Machine]:
    def acts(self: Base) -> None:
        later = functools.partial(self.put, -1)
        then = later  # noqa: F841

    return _made(acts)


@refused("this function is kept to be called later, and nobody calls it")
def a_lambda_in_a_dict() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {"low": lambda: self.put(-1)}
        self.y.value = len(later)

    return _made(acts)


@refused("this function is kept to be called later, and nobody calls it")
def lambdas_of_a_comprehension() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {n: (lambda n=n: self.put(n)) for n in (-1, 0)}
        self.y.value = len(later)

    return _made(acts)


@refused("this function is kept to be called later, and nobody calls it")
def a_lambda_that_an_object_keeps() -> type[Machine]:
    def acts(self: Base) -> None:
        later = _Later(lambda: self.put(-1))
        self.y.value = len(vars(later))

    return _made(acts)


@refused("this function is kept to be called later, and nobody calls it")
def a_lambda_in_a_stack_that_nobody_closes() -> type[Machine]:
    def acts(self: Base) -> None:
        stack = ExitStack()
        stack.callback(lambda: self.put(-1))

    return _made(acts)


@refused("nobody goes through _puts(…) to its end")
def a_generator_in_a_dict() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {"low": _puts(self)}
        self.y.value = len(later)

    return _made(acts)


@refused("_lowers is kept to be called later, and nobody calls it")
def a_call_of_a_function_of_the_module_in_a_dict() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {"low": functools.partial(_lowers, self)}
        self.y.value = len(later)

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_call_by_name_in_a_dict() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {"low": operator.methodcaller("put", -1)}
        self.y.value = len(later)

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def calls_for_each_in_a_list() -> type[Machine]:
    def acts(self: Base) -> None:
        later = [map(self.put, (-1,))]
        self.y.value = len(later)

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_method_of_the_class_in_a_dict() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {"low": functools.partial(Base.put, self, -1)}
        self.y.value = len(later)

    return _made(acts)


@refused("nobody goes through `map(self.put, (-1,))`")
def calls_for_each_that_are_given_up() -> type[Machine]:
    def acts(self: Base) -> None:
        later = map(self.put, (-1,))
        self.y.value = 0
        del later

    return _made(acts)


@refused("put is kept to be called later, and nobody calls it")
def a_method_above_in_a_dict() -> type[Machine]:
    class Above(Base):
        @action("X")
        def act(self) -> None:
            later = {"low": super().put}
            self.y.value = len(later)

    return Above


@refused("`atexit.register(lambda: self.put(-1))` is done when all has been read")
def a_call_at_the_end_of_the_program() -> type[Machine]:
    def acts(self: Base) -> None:
        atexit.register(lambda: self.put(-1))

    return _made(acts)


@refused("is done when all has been read")
def a_call_at_the_end_of_a_class() -> type[Machine]:
    def acts(self: Base) -> None:
        weakref.finalize(_Later, lambda: self.put(-1))

    return _made(acts)


@true
class WhatIsKeptIsCalled(Base):
    """One of a table, all of a list, those of a stack, what a helper makes; and methods that others are asked of."""

    @action("X")
    def act(self, n: Int) -> None:
        self.require((n >= 0) & can(self.reset))
        table: dict[str, Any] = {"put": self.put, "clear": lambda: self.put(0)}
        table["put"](n)
        ways = [self.clear, self.double]
        ways[0]()
        for later in [functools.partial(self.put, k) for k in (2, 1)]:
            later()
        with ExitStack() as stack:
            stack.callback(self.put, n)
            stack.callback(lambda: self.put(n))
        self.later(n).todo()
        [*map(self.put, ())]
        named: dict[str, Any] = {"put": operator.methodcaller("put", n), "both": map(self.put, (n, n))}
        named["put"](self)
        list(named["both"])
        for _ in self.zero():
            pass

    def later(self, n: Int) -> _Later:
        return _Later(lambda: self.put(n))

    def zero(self) -> Iterator[None]:
        ways = {"clear": lambda: self.put(0)}
        yield
        ways["clear"]()

    def double(self) -> None:
        self.x.value = 2 * self.x.value

    @action("X")
    def reset(self) -> None:
        self.x.value = 0
