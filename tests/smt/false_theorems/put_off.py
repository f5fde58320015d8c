"""What a text puts off and nobody does: a block that no `with` enters, a call that is prepared and not made."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType

from kvproof.machine import Bool, Int, Machine, Queue, Scalar, Sort, action, invariant, none

from .corpus import refused, true


class Block(Sort):
    pass


class Base(Machine):
    """Whoever puts a negative number into x breaks what is promised of it."""

    x = Scalar(to=Int)
    y = Scalar(to=Int)

    def put(self, n: Int) -> None:
        self.x.value = n

    @contextmanager
    def lowered(self) -> Iterator[None]:
        self.x.value = self.x.value - 1
        yield
        self.y.value = 0

    @invariant("X")
    def x_is_natural(self) -> Bool:
        return self.x.value >= 0


@contextmanager
def _lowered(of: Base) -> Iterator[None]:
    of.x.value = -1
    yield


def _puts(of: Base) -> Iterator[None]:
    of.x.value = -1
    yield


class _Lowered:
    def __init__(self, of: Base) -> None:
        self._of = of

    def __enter__(self) -> None:
        self._of.x.value = -1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._of.y.value = 0


def _made(acts: Callable[[Base], None]) -> type[Machine]:
    """A machine with an action of this text."""

    class Made(Base):
        @action("X")
        def act(self) -> None:
            self.y.value = self.y.value + 1
            acts(self)

    return Made


@refused("nobody enters `self.lowered()`: write `with self.lowered():`")
def a_block_that_is_not_entered() -> type[Machine]:
    def acts(self: Base) -> None:
        self.lowered()

    return _made(acts)


@refused("nobody goes through lowered(…) to its end")
def a_block_that_waits_in_a_dict() -> type[Machine]:
    def acts(self: Base) -> None:
        blocks = {"low": self.lowered()}
        self.y.value = len(blocks)

    return _made(acts)


@refused("nobody goes through lowered(…) to its end")
def a_block_that_is_entered_and_not_left() -> type[Machine]:
    def acts(self: Base) -> None:
        self.lowered().__enter__()

    return _made(acts)


@refused("nobody enters `_lowered(self)`")
def a_block_of_a_function_that_has_a_name() -> type[Machine]:
    def acts(self: Base) -> None:
        low = _lowered(self)  # noqa: F841

    return _made(acts)


@refused("nobody enters `_Lowered(self)`")
def a_block_of_a_class() -> type[Machine]:
    def acts(self: Base) -> None:
        _Lowered(self)

    return _made(acts)


@refused("`_lowered(self)` is true for Python")
def a_block_that_is_asked_for_its_truth() -> type[Machine]:
    def acts(self: Base) -> None:
        if _lowered(self):
            self.y.value = 0

    return _made(acts)


@refused("nobody goes through `_puts(self)`")
def a_generator_that_has_a_name() -> type[Machine]:
    def acts(self: Base) -> None:
        _ = _puts(self)

    return _made(acts)


@refused("nobody goes through `_puts(self)`")
def a_generator_in_a_list_that_nobody_reads() -> type[Machine]:
    def acts(self: Base) -> None:
        puts = [_puts(self), self.y.value]  # noqa: F841

    return _made(acts)


@refused("nobody goes through `map(self.put, (-1,))`")
def a_map_that_has_a_name() -> type[Machine]:
    def acts(self: Base) -> None:
        puts = map(self.put, (-1,))  # type: ignore[arg-type] # noqa: F841

    return _made(acts)


@refused("nobody calls what `functools.partial(self.put, n=-1)` makes")
def a_call_that_is_prepared() -> type[Machine]:
    def acts(self: Base) -> None:
        functools.partial(self.put, n=-1)  # type: ignore[arg-type]

    return _made(acts)


@refused('nobody calls what `operator.methodcaller("put", -1)` makes')
def a_call_of_a_name_that_is_prepared() -> type[Machine]:
    def acts(_: Base) -> None:
        put = operator.methodcaller("put", -1)  # noqa: F841

    return _made(acts)


@refused("self.put is a function that is never called")
def a_method_that_has_another_name() -> type[Machine]:
    def acts(self: Base) -> None:
        put = self.put  # noqa: F841

    return _made(acts)


@refused("is a function that is never called")
def a_lambda_that_nobody_calls() -> type[Machine]:
    def acts(self: Base) -> None:
        lambda: self.put(-1)  # type: ignore[arg-type]

    return _made(acts)


@refused("is a function that is never called")
def a_lambda_in_a_list_that_nobody_reads() -> type[Machine]:
    def acts(self: Base) -> None:
        later = [lambda: self.put(-1)]  # type: ignore[arg-type] # noqa: F841

    return _made(acts)


@refused("nobody goes through `puts()`")
def a_generator_that_is_defined_there() -> type[Machine]:
    def acts(self: Base) -> None:
        def puts() -> Iterator[None]:
            self.x.value = -1
            yield

        puts()

    return _made(acts)


@refused("nobody calls what preparing(…) returns")
def what_a_helper_prepares() -> type[Machine]:
    class Prepared(Base):
        def preparing(self, n: int) -> Callable[[], None]:
            return functools.partial(self.put, n)  # type: ignore[arg-type]

        @action("X")
        def act(self) -> None:
            self.y.value = 0
            self.preparing(-1)

    return Prepared


@refused("nobody calls what preparing(…) returns")
def what_a_helper_defines() -> type[Machine]:
    class Prepared(Base):
        def preparing(self) -> Callable[[], None]:
            def lower() -> None:
                self.x.value = -1

            return lower

        @action("X")
        def act(self) -> None:
            self.preparing()
            self.y.value = 0

    return Prepared


@refused("nobody reads what is put into later")
def a_list_of_things_to_do() -> type[Machine]:
    def acts(self: Base) -> None:
        later = []
        for n in (0, -1):
            later.append((self.x, n))

    return _made(acts)


@refused("nobody reads what is put into later")
def things_to_do_by_name() -> type[Machine]:
    def acts(self: Base) -> None:
        later = {}
        later["x"] = -1

    return _made(acts)


@refused("x is never read again: write a part of the state")
def a_number_for_a_name() -> type[Machine]:
    def acts(self: Base) -> None:
        x = self.x.value
        self.y.value = x
        x = -1  # type: ignore[assignment]

    return _made(acts)


@refused("push_back is kept to be called later, and nobody calls it")
def a_way_to_write_for_a_name() -> type[Machine]:
    class Named(Base):
        q = Queue(Block)

        @action("X")
        def act(self, b: Block) -> None:
            self.require(~self.q.has(b))
            put = self.q.push_back  # noqa: F841
            self.y.value = 0

        @invariant("X")
        def nobody_waits(self) -> Bool:
            return self.q.is_empty()

    return Named


@refused("x is never read again: write a part of the state")
def a_parameter_for_a_name() -> type[Machine]:
    class Named(Base):
        @action("X")
        def act(self, n: Int) -> None:
            x = n  # noqa: F841
            self.y.value = 0

    return Named


@refused("x is never read again: write a part of the state")
def a_parameter_for_a_name_in_a_condition() -> type[Machine]:
    class Named(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.require((x := n) >= 0)  # noqa: F841
            self.y.value = 0

    return Named


@refused("x is never read again: write a part of the state")
def a_name_beside_a_part_of_the_state() -> type[Machine]:
    class Named(Base):
        @action("X")
        def act(self, n: Int) -> None:
            x, self.y.value = n, 0  # noqa: F841

    return Named


@refused("x is never read again: write a part of the state")
def a_name_that_is_written_with_a_part_of_the_state() -> type[Machine]:
    class Named(Base):
        @action("X")
        def act(self, n: Int) -> None:
            x = self.y.value = n  # noqa: F841

    return Named


@refused("rest is never read again: write a part of the state")
def a_name_for_the_rest() -> type[Machine]:
    class Named(Base):
        @action("X")
        def act(self, n: Int) -> None:
            x, *rest = -1, n  # noqa: F841
            self.y.value = x

    return Named


@refused("x is never read again: write a part of the state")
def a_name_that_is_given_up() -> type[Machine]:
    class Named(Base):
        @action("X")
        def act(self, n: Int) -> None:
            x = n
            del x
            self.y.value = 0

    return Named


@refused("x is never read again: write a part of the state")
def none_for_a_name() -> type[Machine]:
    def acts(self: Base) -> None:
        x = none  # noqa: F841

    return _made(acts)


@refused("a state has no dict")
def a_write_into_what_python_keeps_of_a_state() -> type[Machine]:
    def acts(self: Base) -> None:
        self.__dict__["x"] = -1

    return _made(acts)


@refused("a state has no dict")
def a_write_into_what_vars_tells_of_a_state() -> type[Machine]:
    def acts(self: Base) -> None:
        vars(self).update(x=-1)

    return _made(acts)


@true
class WhatHasANameIsRead(Base):
    """Numbers, lists and what is written, read in a later round, in another order, or by a function inside."""

    @action("X")
    def act(self, b: Bool) -> None:
        parts, done = [self.x], 0
        parts.append(self.y)
        by_name = {}
        for part in parts:
            by_name[part.name] = done
            done += 1
        number = 2
        while number > 0:
            number -= 1
            limit = done
        first, *others = (part for part in parts)
        for _ in others:
            for spare in (first, first):
                number += sum([spare + 1 for spare in (1,)])
        last = number
        for turn in range(2):
            last, number = turn, last
        with self.named() as unread:  # noqa: F841
            number += last

        def write() -> None:
            self.put(limit + by_name["x"])  # type: ignore[arg-type]

        write()
        self.y.value = number

    @contextmanager
    def named(self) -> Iterator[int]:
        yield 0


@true
class WhatIsPutOffIsDone(Base):
    """Blocks that are entered, in each way, and calls that are made later."""

    @action("X")
    def act(self, n: Int) -> None:
        self.require((n > 0) & (self.x.value > 1))
        with self.lowered():
            self.y.value = n
        with ExitStack() as stack:
            stack.enter_context(self.lowered())
        put = functools.partial(self.put, n)
        put()
        list(map(self.put, (n,)))
        later = self.put
        later(n)

        def once() -> Iterator[Int]:
            yield n

        for number in once():
            self.put(number)
        [lambda: self.put(n)][0]()
