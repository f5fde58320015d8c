"""Parts: what a part's text says for every element is said of all of its state here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvproof.machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Part,
    Queue,
    Scalar,
    Sort,
    action,
    exists,
    forall,
    invariant,
    optional,
    step,
)

from .corpus import false, refused, true


class Block(Sort):
    """What is kept."""


class Pinned(Block, extra=("PIN",)):
    """One more, that is always there."""


class HostBlock(Sort):
    """What is kept elsewhere."""


class Place(Index):
    """Where it stands."""


class HostPlace(Index):
    """Where it stands elsewhere, in a table of another length."""


class Table(Machine):
    """Places are taken."""

    taken = Map(Place, to=Bool)

    @action("X")
    def take(self, p: Place) -> None:
        self.taken[p] = True

    @action("X")
    def wipe(self) -> None:
        with self.each(Place) as p:
            self.taken[p] = False

    @step("X", of="wipe")
    def nothing_is_left(self, before: Table, p: Place) -> Bool:
        return ~self.taken[p]

    def is_empty(self) -> Bool:
        return forall(Place, lambda p: ~self.taken[p])


@refused("host_taken is of HostPlace and stands for Table.taken, of Place")
def a_longer_table() -> type[Machine]:
    """Indices are numbers: those of the other table were wiped, and asked, as far as this one goes."""

    class Host(Machine):
        host_taken = Map(HostPlace, to=Bool)
        host = Part(Table)

        @action("X")
        def take(self, p: HostPlace) -> None:
            self.host_taken[p] = True

        @action("X")
        def wipe(self) -> None:
            self.host.wipe()

        @step("X", of="wipe")
        def it_is_empty(self, before: Host) -> Bool:
            return self.host.keeps(Table.is_empty)

    return Host


class Kept(Machine):
    """Blocks are kept."""

    kept = Map(Block, to=Bool)

    def is_empty(self) -> Bool:
        return forall(Block, lambda b: ~self.kept[b])


@refused("host_kept is of Pinned and stands for Kept.kept, of Block")
def a_wider_sort() -> type[Machine]:
    """The one more is kept, and it is no block of which the text speaks."""

    class Host(Machine):
        host_kept = Map(Pinned, to=Bool)
        host = Part(Kept)

        @action("X")
        def keep(self) -> None:
            self.host_kept[Pinned.named("PIN")] = True

        @invariant("X")
        def nothing_is_kept(self) -> Bool:
            return self.host.keeps(Kept.is_empty)

    return Host


@refused("taken is of HostPlace and stands for Table.taken, of Place")
def a_longer_table_of_the_whole() -> type[Machine]:
    """So it is with what is no state of the part alone."""

    class Whole(Machine):
        taken = Map(HostPlace, to=Bool)
        table = Part(Table)

        @action("X")
        def take(self, p: HostPlace) -> None:
            self.taken[p] = True

        @action("X")
        def wipe(self) -> None:
            self.table.wipe()

        @step("X", of="wipe")
        def it_is_empty(self, before: Whole) -> Bool:
            return self.table.keeps(Table.is_empty)

    return Whole


class Shelf(Machine):
    """Of one sort or another: the text names none."""

    full = Map(Block, to=Bool)

    @action("X")
    def fill(self, b: Block) -> None:
        self.full[b] = True


class TwoShelves(Shelf):
    host_full = Map(HostBlock, to=Bool)
    host = Part(Shelf)

    @action("X")
    def fill_there(self, b: HostBlock) -> None:
        self.host.fill(b)


@false("nothing_is_full_there")
class FilledThere(TwoShelves):
    @step("X", of="fill_there")
    def nothing_is_full_there(self, before: FilledThere) -> Bool:
        return forall(HostBlock, lambda b: ~self.host_full[b])


@true
class FilledThereAndNotHere(TwoShelves):
    @step("X", of="fill_there")
    def something_is_full_there(self, before: FilledThereAndNotHere) -> Bool:
        return exists(HostBlock, lambda b: self.host_full[b]) & forall(Block, lambda b: self.full[b] == before.full[b])


class Line(Machine):
    """Places in a line, each of which knows another one."""

    line = Queue(Place)
    known = Map(Block, to=optional(Place))

    def nobody_waits(self) -> Bool:
        return ~exists(Place, lambda p: self.line.has(p))

    def nobody_knows(self, b: Block) -> Bool:
        return forall(Place, lambda p: self.known[b] != p)


@refused("host_line is of HostPlace and stands for Line.line, of Place")
def a_line_of_more() -> type[Machine]:
    class Host(Line):
        host_line = Queue(HostPlace)
        host = Part(Line)

        @action("X")
        def come(self, p: HostPlace) -> None:
            self.require(~self.host_line.has(p))
            self.host_line.push_back(p)

        @invariant("X")
        def nobody_waits_there(self) -> Bool:
            return self.host.keeps(Line.nobody_waits)

    return Host


@refused("host_known is of HostPlace and stands for Line.known, of Place")
def more_to_know() -> type[Machine]:
    """What a map holds is compared with what the text names, as its keys are."""

    class Host(Line):
        host_known = Map(HostBlock, to=optional(HostPlace))
        host = Part(Line)

        @action("X")
        def learn(self, b: HostBlock, p: HostPlace) -> None:
            self.host_known[b] = p

        @invariant("X")
        def nobody_knows_there(self, b: HostBlock) -> Bool:
            return self.host.keeps(Line.nobody_knows, b)

    return Host


class Counted(Machine):
    """As many as are full."""

    full = Map(Block, to=Bool)
    many = Count(Block, where=lambda m, b: m.full[b])

    def is_empty(self) -> Bool:
        return self.many.value == 0


@refused("host.many would count what stands in full, and that is host_full here")
def a_count_of_the_whole() -> type[Machine]:
    class Host(Counted):
        host_full = Map(HostBlock, to=Bool)
        host = Part(Counted)

        @action("X")
        def fill(self, b: HostBlock) -> None:
            self.host_full[b] = True

        @invariant("X")
        def nothing_is_full(self) -> Bool:
            return self.host.keeps(Counted.is_empty)

    return Host


class Tank(Machine):
    """Filled up to a limit."""

    limit = Scalar(to=Int)
    level = Scalar(to=Int)

    def pour(self) -> None:
        self.require(self.level.value < self.limit.value)
        self.level.value = self.level.value + 1

    def is_within(self) -> Bool:
        return self.level.value <= self.limit.value


class TwoTanks(Machine):
    left_level = Scalar(to=Int)
    right_level = Scalar(to=Int)
    left = Part(Tank, limit=2)
    right = Part(Tank, limit=3)

    @action("X")
    def pour_left(self) -> None:
        self.left.pour()

    @action("X")
    def pour_right(self) -> None:
        self.right.pour()

    @invariant("X")
    def within(self) -> Bool:
        return self.left.keeps(Tank.is_within) & self.right.keeps(Tank.is_within)


@true
class EachWithinItsOwn(TwoTanks):
    @invariant("X")
    def by_number(self) -> Bool:
        return (self.left_level.value <= 2) & (self.right_level.value <= 3)


@false("both_within_the_lower")
class LimitOfTheOther(TwoTanks):
    @invariant("X")
    def both_within_the_lower(self) -> Bool:
        return (self.left_level.value <= 2) & (self.right_level.value <= 2)


@refused("left gives limit a value, and left_limit would stand for it too")
def two_limits() -> type[Machine]:
    """What is written of the one was said of the other, which never changes."""

    class Lowered(TwoTanks):
        left_limit = Scalar(to=Int, init=2)

        @action("X")
        def lower(self) -> None:
            self.left_limit.value = 0

    return Lowered


class HigherTank(Tank):
    """Goes by way of what it extends."""

    def is_high(self) -> Bool:
        return self.level.value >= 0

    @property
    def is_low(self) -> Bool:
        return self.level.value <= 0


class HighestTank(HigherTank):
    def is_high(self) -> Bool:
        return super().is_high() & (self.level.value <= self.limit.value)

    @property
    def is_low(self) -> Bool:
        return super().is_low


@refused("is_high of HighestTank goes by way of super(), which knows nothing of the part left")
def what_a_part_extends() -> type[Machine]:
    return _of_the_highest(lambda machine: machine.left.is_high())


@refused("is_low of HighestTank goes by way of super(), which knows nothing of the part left")
def what_a_property_of_a_part_extends() -> type[Machine]:
    return _of_the_highest(lambda machine: machine.left.is_low)


def _of_the_highest(says: Callable[[Any], Bool]) -> type[Machine]:
    class Above(Machine):
        left_level = Scalar(to=Int)
        left = Part(HighestTank, limit=2)

        @action("X")
        def fill(self) -> None:
            self.left_level.value = 5

        @invariant("X")
        def left_is_so(self) -> Bool:
            return says(self)

    return Above


class Full(Tank):
    """Asks the class for what it holds, and so the machine that it is a part of."""

    def is_full(self) -> Bool:
        return Full.level.value == self.limit.value


@refused("level is read of Full, which is in no state")
def what_the_text_of_a_part_asks_the_class() -> type[Machine]:
    class Above(Machine):
        left_level = Scalar(to=Int)
        level = Scalar(to=Int, init=2)
        left = Part(Full, limit=2)

        @action("X")
        def empty(self) -> None:
            self.left_level.value = 0

        @invariant("X")
        def left_is_full(self) -> Bool:
            return self.left.is_full()  # type: ignore[no-any-return]

    return Above


@refused("left is asked of TwoTanks, which is in no state")
def a_part_of_the_class() -> type[Machine]:
    class Above(TwoTanks):
        @invariant("X")
        def left_is_within(self) -> Bool:
            return TwoTanks.left.is_within()  # type: ignore[arg-type,no-any-return]

    return Above
