"""Machines that extend others: what was true of the one is asked again of the other."""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Count,
    Int,
    Machine,
    Map,
    Param,
    Scalar,
    Sort,
    Tally,
    action,
    assume,
    can,
    corollary,
    exists,
    implies,
    invariant,
    step,
)

from .corpus import false, refused, true


class Block(Sort):
    pass


class Base(Machine):
    """Holds for itself."""

    holds = Map(Block, to=Bool)
    ready = Map(Block, to=Bool, init=True)
    work = Scalar(to=Int, scratch=True)
    held = Count(Block, where=lambda m, b: m.holds[b])
    done = Tally()
    limit = Param(to=Int)
    level = Scalar(to=Int, init=lambda m: m.first())

    def first(self) -> Int | int:
        return 0

    @assume("X")
    def limits(self) -> Bool:
        return self.limit.value > 0

    def is_free(self, b: Block) -> Bool:
        """What the properties call free."""
        return ~self.holds[b]

    @action("X")
    def take(self, b: Block) -> None:
        self.require(self.is_free(b))
        self.holds[b] = True
        self.done.add(1)

    @action("X")
    def give(self, b: Block) -> None:
        self.require(self.holds[b])
        self.holds[b] = False

    @action("X")
    def turn(self, n: Int) -> None:
        with self.loop(2, facts=lambda i, entry: {"counts": self.level.value == entry.level.value}):
            self.work.value = 1
            self.level.value = self.level.value + self.step_by()
            self.work.value = 0

    def step_by(self) -> Int | int:
        return 0

    @invariant("X")
    def level_is_zero(self) -> Bool:
        return (self.level.value == 0) & (self.work.value == 0)

    @corollary("X")
    def what_is_held_can_be_given(self, b: Block) -> Bool:
        return implies(self.holds[b], can(self.give, b))

    @step("X", of="take")
    def one_more(self, before: Base, b: Block) -> Bool:
        return (self.held.value == before.held.value + 1) & self.holds[b]

    @step("X", of="give")
    def nobody_else(self, before: Base, other: Block) -> Bool:
        return implies(self.holds[other], before.holds[other])

    @step("X", of="take")
    def counted(self, before: Base) -> Bool:
        return self.done.total == before.done.total + 1


true(Base)


@false("what_is_held_can_be_given")
class GiveAsksForMore(Base):
    @action("X")
    def give(self, b: Block) -> None:
        self.require(self.holds[b] & ~self.ready[b])
        self.holds[b] = False

    @action("X")
    def tire(self, b: Block) -> None:
        self.ready[b] = False


@false("what_is_held_can_be_given")
class GiveAsksThroughAHelper(Base):
    """The requirement is the same text, and calls something else."""

    @action("X")
    def give(self, b: Block) -> None:
        self.require(~self.is_free(b))
        self.holds[b] = False

    def is_free(self, b: Block) -> Bool:
        return ~self.holds[b] | self.ready[b]

    @action("X")
    def tire(self, b: Block) -> None:
        self.ready[b] = False


@false("one_more")
class AnotherMeaningOfFree(Base):
    def is_free(self, b: Block) -> Bool:
        return self.ready[b]


@false("one_more")
class AnotherCount(Base):
    held = Count(Block, where=lambda m, b: m.holds[b] & m.ready[b])

    @action("X")
    def tire(self, b: Block) -> None:
        self.ready[b] = False


@false("counted")
class CountsTwice(Base):
    @action("X")
    def take(self, b: Block) -> None:
        super().take(b)
        self.done.add(1)


@false("level_is_zero")
class BeginsHigher(Base):
    def first(self) -> Int | int:
        return self.limit.value


@false("level_is_zero")
class StepsInTheLoop(Base):
    def step_by(self) -> Int | int:
        return self.work.value


@false("level_is_zero")
class AnotherFirstValue(Base):
    level = Scalar(to=Int, init=1)


@false("level_is_zero")
class ScratchNoMore(Base):
    """What was put back between actions is kept here."""

    work = Scalar(to=Int)

    @action("X")
    def leave(self) -> None:
        self.work.value = 2


@false("limit_is_positive")
class AssumesLess(Base):
    @assume("X")
    def limits(self) -> Bool:
        return self.limit.value >= 0

    @corollary("X")
    def limit_is_positive(self) -> Bool:
        return self.limit.value > 0


@false("first_is_second")
class Swapped(Machine):
    """Parameters are known by name, and a subclass names them the other way round."""

    after = Map(Block, to=Block, init=lambda m, b: b)

    @action("X")
    def link(self, a: Block, b: Block) -> None:
        self.after[b] = a

    @step("X", of="link")
    def first_is_second(self, before: Swapped, a: Block, b: Block) -> Bool:
        return self.after[a] == b


class Links(Machine):
    after = Map(Block, to=Block, init=lambda m, b: b)

    @action("X")
    def link(self, a: Block, b: Block) -> None:
        self.after[a] = b

    @step("X", of="link")
    def first_is_second(self, before: Links, a: Block, b: Block) -> Bool:
        return self.after[a] == b


true(Links)


@false("first_is_second")
class LinksTheOtherWay(Links):
    @action("X")
    def link(self, b: Block, a: Block) -> None:  # type: ignore[override]
        self.after[b] = a


@true
class LinksWithNamesChanged(Links):
    """The same, for the parameters have changed their places with their names."""

    @action("X")
    def link(self, b: Block, a: Block) -> None:  # type: ignore[override]
        self.after[a] = b


@false("(link)")
class ReadBeforeItIsRequired(Machine):
    """A read above the requirement that made it safe."""

    left = Map(Block, to=Int, init=2)
    share = Scalar(to=Int)

    @action("X")
    def link(self, b: Block) -> None:
        part = 10 // self.left[b]
        self.require(part > 1)
        self.require(self.left[b] > 0)
        self.share.value = part
        self.left[b] = self.left[b] - 1

    @invariant("X")
    def natural(self, b: Block) -> Bool:
        return (self.left[b] >= 0) & (self.share.value >= 0)


@true
class ReadAfterItIsRequired(Machine):
    left = Map(Block, to=Int, init=2)
    share = Scalar(to=Int)

    @action("X")
    def link(self, b: Block) -> None:
        self.require(self.left[b] > 0)
        self.share.value = 10 // self.left[b]
        self.left[b] = self.left[b] - 1

    @invariant("X")
    def natural(self, b: Block) -> Bool:
        return (self.left[b] >= 0) & (self.share.value >= 0)


class WithATemporary(Machine):
    total = Scalar(to=Int)
    size = Map(Block, to=Int, init=3)

    @action("X")
    def add(self, b: Block) -> None:
        each = self.each_is(b)
        with self.loop(2, facts=lambda i, entry: {"so far": self.total.value == entry.total.value + i * each}):
            self.total.value = self.total.value + each

    def each_is(self, b: Block) -> Int:
        return self.size[b]

    @step("X", of="add")
    def twice(self, before: WithATemporary, b: Block) -> Bool:
        return self.total.value == before.total.value + 2 * self.size[b]


true(WithATemporary)


@false("twice")
class WithAnotherTemporary(WithATemporary):
    """The fact is the same text; what its temporary holds is not."""

    def each_is(self, b: Block) -> Int:
        return self.size[b] + 1


class Left(Base):
    @invariant("X")
    def tidy(self, b: Block) -> Bool:
        return implies(self.holds[b], self.holds[b])

    @action("X")
    def tire(self, b: Block) -> None:
        self.ready[b] = False


class Right(Base):
    @invariant("X")
    def tidy(self, b: Block) -> Bool:
        return self.ready[b]


true(Right)


@refused("tidy")
def both_sides() -> type[Machine]:
    """What one side promises the other side breaks, and one promise hides the other."""

    class BothSides(Right, Left):
        @corollary("X")
        def some_are_ready(self) -> Bool:
            return exists(Block, lambda b: self.ready[b])

    return BothSides


class Gives(Machine):
    holds = Map(Block, to=Bool, init=True)

    @action("X")
    def give(self, b: Block) -> None:
        self.holds[b] = False

    @step("X", of="give")
    def the_others_keep(self, before: Gives, other: Block, b: Block) -> Bool:
        return implies(other != b, self.holds[other] == before.holds[other])


true(Gives)


@refused("rename the parameter")
def a_binder_becomes_a_parameter() -> type[Machine]:
    class GivesToo(Gives):
        @action("X")
        def give(self, b: Block, other: Block) -> None:  # type: ignore[override]
            self.holds[b] = False

    return GivesToo


@refused("tidy")
def two_promises_of_one_name() -> type[Machine]:
    class LeftFirst(Left, Right):
        pass

    return LeftFirst


class Upper(Base):
    """What is low, and how low, is its own affair, as it is of the other."""

    least = 0

    def is_low(self, b: Block) -> Bool:
        return implies(self.holds[b], self.holds[b])


class Lower(Base):
    def is_low(self, b: Block) -> Bool:
        return ~self.holds[b]


class LowByHelper(Lower):
    @invariant("X")
    def low(self, b: Block) -> Bool:
        return self.is_low(b)


class LowByNumber(Base):
    least = 1

    @invariant("X")
    def low(self, b: Block) -> Bool:
        return implies(self.holds[b], exists(Block, lambda c: c == b)) if self.least == 0 else ~self.holds[b]


@refused("extends Upper and Lower, which both have is_low: one would hide the other")
def a_helper_of_one_side_hides_that_of_the_other() -> type[Machine]:
    """What the other side promises by its own helper was said by this one's, and proved."""

    class Both(Upper, LowByHelper):
        pass

    return Both


@refused("extends Upper and LowByNumber, which both have least: one would hide the other")
def a_number_of_one_side_hides_that_of_the_other() -> type[Machine]:
    class Both(Upper, LowByNumber):
        pass

    return Both


class UpperPages(Machine):
    full = Map(Block, to=Bool)

    @property
    def is_filled(self) -> Bool:
        return exists(Block, lambda b: self.full[b])

    @action("X")
    def fill(self, b: Block) -> None:
        self.full[b] = True


class LowerPages(UpperPages):
    """Of what both extend, each may say it in its own way."""

    @property
    def is_filled(self) -> Bool:
        return super().is_filled & exists(Block, lambda b: self.full[b])


class OtherPages(UpperPages):
    @property
    def is_filled(self) -> Bool:
        return super().is_filled


@true
class AllPages(LowerPages, OtherPages):
    @step("X", of="fill")
    def something_is_filled(self, before: AllPages) -> Bool:
        return self.is_filled


class Pages(Machine):
    """Nothing in common with the others but the name of a property."""

    left = Map(Block, to=Bool)

    @property
    def is_filled(self) -> Bool:
        return ~exists(Block, lambda b: self.left[b])


@refused("extends Pages and UpperPages, which both have is_filled: one would hide the other")
def a_property_of_one_side_hides_that_of_the_other() -> type[Machine]:
    class Both(Pages, UpperPages):
        @invariant("X")
        def it_is_filled(self) -> Bool:
            return self.is_filled

    return Both
