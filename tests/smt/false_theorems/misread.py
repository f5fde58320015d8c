"""What a reader sees in a text, and Python does not: which sign binds closer, which state comes first, and of which
`when` an `otherwise` is the other way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kvproof.machine import (
    Bool,
    Count,
    Int,
    Machine,
    Map,
    Scalar,
    Sort,
    action,
    forall,
    iff,
    implies,
    invariant,
    otherwise,
    step,
    when,
)

from .corpus import false, refused, true


class Block(Sort):
    pass


class Base(Machine):
    """A lamp that is lit, while nothing else is ever on; a level that falls."""

    lit = Scalar(to=Bool)
    heated = Scalar(to=Bool)
    open = Scalar(to=Bool)
    level = Scalar(to=Int)
    hot = Map(Block, to=Bool)

    @action("X")
    def light(self) -> None:
        self.lit.value = True

    @action("X")
    def lower(self) -> None:
        self.level.value = self.level.value - 1


@refused("`self.heated.value & self.lit.value == self.open.value` compares all that & and | join")
def a_comparison_behind_and() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def heated_and_as_lit_as_open(self) -> Bool:
            return self.heated.value & self.lit.value == self.open.value

    return Made


@refused("`self.heated.value == self.open.value | self.lit.value` compares all that & and | join")
def a_comparison_before_or() -> type[Machine]:
    class Made(Base):
        @action("X")
        def light(self) -> None:
            self.require(self.heated.value == self.open.value | self.lit.value)
            self.lit.value = True

    return Made


@refused("compares all that & and | join, for these bind closer than == and !=")
def a_difference_of_several() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def one_is_not_as_the_other(self) -> Bool:
            return ~self.heated.value & ~self.open.value & (self.level.value <= 0) != self.open.value

    return Made


@refused("compares all that & and | join, for these bind closer than == and !=")
def a_comparison_for_every_block() -> type[Machine]:
    class Made(Base):
        @invariant("X")
        def cold_and_as_lit_as_open(self) -> Bool:
            return forall(Block, lambda b: ~self.hot[b] & self.lit.value == self.open.value)

    return Made


@refused("compares all that & and | join, for these bind closer than == and !=")
def a_comparison_that_is_counted() -> type[Machine]:
    class Made(Base):
        many = Count(Block, where=lambda m, b: m.hot[b] | m.hot[b] != m.hot[b])

    return Made


@false("heated_and_as_lit_as_open")
class TakenAsItIsRead(Base):
    @invariant("X")
    def heated_and_as_lit_as_open(self) -> Bool:
        return self.heated.value & (self.lit.value == self.open.value)


@true
class TakenAsItIsMeant(Base):
    @invariant("X")
    def nothing_else_is_on(self) -> Bool:
        return ~self.heated.value & ~self.open.value

    @invariant("X")
    def neither_is_heated_and_lit_nor_open(self) -> Bool:
        return ((self.heated.value & self.lit.value) == self.open.value) & iff(
            self.heated.value | self.open.value, self.open.value
        )


class Noting(Machine):
    """A lamp may be lit or not, and what is noted is noted always."""

    lit = Scalar(to=Bool)
    noting = Scalar(to=Bool, init=True)
    notes = Scalar(to=Int)
    dark = Scalar(to=Bool)

    def note(self) -> None:
        with when(self.noting.value):
            self.notes.value = 1

    @contextmanager
    def if_lit(self) -> Iterator[None]:
        with when(self.lit.value):
            yield

    @invariant("X")
    def it_is_noted(self) -> Bool:
        return self.noting.value

    @invariant("X")
    def it_is_never_dark(self) -> Bool:
        return ~self.dark.value


@refused("the last one here stands in note(…), which was called between the two")
def an_otherwise_behind_a_helper() -> type[Machine]:
    class Made(Noting):
        @action("X")
        def look(self) -> None:
            with when(self.lit.value):
                self.lit.value = False
            self.note()
            with otherwise():
                self.dark.value = True

    return Made


@false("it_is_never_dark")
class OtherwiseIsItsOwn(Noting):
    @action("X")
    def look(self) -> None:
        with when(self.lit.value):
            self.lit.value = False
        with otherwise():
            self.dark.value = True
        self.note()


@true
class OtherwiseBehindABlockOfOnesOwn(Noting):
    @action("X")
    def look(self) -> None:
        with self.if_lit():
            self.note()
        with otherwise():
            self.lit.value = True


@refused("the_level_never_falls gets the state after the step first, and then that before")
def before_and_after() -> type[Machine]:
    class Made(Base):
        @step("X")
        def the_level_never_falls(before, after: Base) -> Bool:
            return after.level.value >= before.level.value

    return Made


@refused("it_gets_no_darker gets the state after the step first, and then that before")
def a_state_before_itself() -> type[Machine]:
    class Made(Base):
        @step("X", of="light")
        def it_gets_no_darker(earlier, self: Base) -> Bool:
            return implies(self.lit.value, earlier.lit.value)

    return Made


@false("the_level_never_falls")
class AfterAndBefore(Base):
    @step("X")
    def the_level_never_falls(self, before: AfterAndBefore) -> Bool:
        return self.level.value >= before.level.value
