"""`each`: what one round does is neither seen nor undone by another."""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Count,
    Int,
    Machine,
    Map,
    Queue,
    Real,
    Scalar,
    Sort,
    Sum,
    action,
    exists,
    forall,
    implies,
    invariant,
    step,
    when,
)

from .corpus import false, refused, true


class Block(Sort):
    pass


class Request(Sort):
    pass


class Base(Machine):
    m = Map(Block, Block, to=Bool)
    n = Map(Block, to=Int)
    of = Map(Request, Block, to=Bool)
    q = Queue(Block, init=True)
    line = Queue(Block, by=Request)
    busy = Count(Block, where=lambda m, b: m.n[b] > 0)


@false("a_whole_row")
class OnlyTheDiagonal(Base):
    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.m[b, b] = True

    @step("X", of="act")
    def a_whole_row(self, before: OnlyTheDiagonal, a: Block, b: Block) -> Bool:
        return implies(self.m[a, a], self.m[a, b])


@true
class TheWholeSquare(Base):
    @action("X")
    def act(self) -> None:
        with self.each(Block, Block) as (a, b):
            self.m[a, b] = True

    @step("X", of="act")
    def a_whole_row(self, before: TheWholeSquare, a: Block, b: Block) -> Bool:
        return self.m[a, b]


@false("nobody_else_changes")
class OneColumn(Base):
    """The second key is a value that differs from round to round."""

    to = Map(Block, to=Block, init=lambda m, b: b)

    @action("X")
    def point(self, a: Block, b: Block) -> None:
        self.to[a] = b

    @action("X")
    def act(self, c: Block) -> None:
        with self.each(Block) as b:
            self.m[b, self.to[b]] = True

    @step("X", of="act")
    def nobody_else_changes(self, before: OneColumn, a: Block, b: Block, c: Block) -> Bool:
        return implies(b != before.to[c], self.m[a, b] == before.m[a, b])


@true
class OwnColumn(Base):
    to = Map(Block, to=Block, init=lambda m, b: b)

    @action("X")
    def point(self, a: Block, b: Block) -> None:
        self.to[a] = b

    @action("X")
    def act(self, c: Block) -> None:
        with self.each(Block) as b:
            self.m[b, self.to[b]] = True

    @step("X", of="act")
    def nobody_else_changes(self, before: OwnColumn, a: Block, b: Block) -> Bool:
        return implies(b != before.to[a], self.m[a, b] == before.m[a, b])


@false("all_of_it")
class OnlySome(Base):
    @action("X")
    def act(self, c: Block) -> None:
        with self.each(Block) as b, when(b != c):
            self.n[b] = 1

    @step("X", of="act")
    def all_of_it(self, before: OnlySome, b: Block) -> Bool:
        return self.n[b] == 1


@false("the_last_write_is_forgotten")
class TwiceInARound(Base):
    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.n[b] = 1
            self.n[b] = self.n[b] + 1

    @step("X", of="act")
    def the_last_write_is_forgotten(self, before: TwiceInARound, b: Block) -> Bool:
        return self.n[b] == 1


@true
class TwiceInARoundAddsUp(Base):
    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.n[b] = 1
            self.n[b] = self.n[b] + 1

    @step("X", of="act")
    def both_count(self, before: TwiceInARoundAddsUp, b: Block) -> Bool:
        return self.n[b] == 2


@false("no_more_than_before")
class MutantCounts(Machine):
    """Two counts of what all rounds write: neither is known by what the other was before."""

    up = Map(Block, to=Bool)
    a = Count(Block, where=lambda m, b: m.up[b])
    z = Count(Block, where=lambda m, b: m.up[b])

    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.up[b] = True

    @step("X", of="act")
    def no_more_than_before(self, before: MutantCounts) -> Bool:
        return self.a.value <= before.z.value


@false("no_more_than_before")
class CountAndSum(Machine):
    up = Map(Block, to=Bool)
    weight = Map(Block, to=Int)
    number = Count(Block, where=lambda m, b: m.weight[b] > 0)
    total = Sum(Block, of=lambda m, b: m.weight[b], to=Int)

    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.weight[b] = 2

    @step("X", of="act")
    def no_more_than_before(self, before: CountAndSum) -> Bool:
        return self.number.value <= before.total.value


@true
class CountAndSumAgree(Machine):
    weight = Map(Block, to=Int)
    number = Count(Block, where=lambda m, b: m.weight[b] > 0)
    total = Sum(Block, of=lambda m, b: m.weight[b], to=Int)

    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.weight[b] = 1

    @step("X", of="act")
    def as_many_as_much(self, before: CountAndSumAgree) -> Bool:
        return self.number.value == self.total.value


@false("the_count_stays")
class EachUnderACount(Base):
    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.n[b] = self.n[b] + 1

    @step("X", of="act")
    def the_count_stays(self, before: EachUnderACount) -> Bool:
        return self.busy.value == before.busy.value


@true
class EachUnderACountGrows(Base):
    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.n[b] = self.n[b] + 1

    @step("X", of="act")
    def the_count_grows(self, before: EachUnderACountGrows) -> Bool:
        return self.busy.value >= before.busy.value


@false("everyone_leaves")
class RemovedInARound(Base):
    @action("X")
    def act(self, c: Block) -> None:
        with self.each(Block) as b, when(self.q.has(b) & (b != c)):
            self.q.remove(b)

    @step("X", of="act")
    def everyone_leaves(self, before: RemovedInARound, b: Block) -> Bool:
        return ~self.q.has(b)


@false("(act)")
class RemovedTwice(Base):
    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.q.remove(b)

    @invariant("X")
    def nothing(self) -> Bool:
        return forall(Block, lambda b: self.n[b] == 0)


@false("(act)")
class PushedTwice(Base):
    """Every request gets the block, also one that has it."""

    @action("X")
    def act(self, b: Block) -> None:
        with self.each(Request) as r:
            self.line[r].push_back(b)

    @step("X", of="act")
    def everyone_has_it(self, before: PushedTwice, r: Request, b: Block) -> Bool:
        return self.line[r].has(b)


@true
class PushedOnce(Base):
    @action("X")
    def act(self, b: Block) -> None:
        with self.each(Request) as r, when(~self.line[r].has(b)):
            self.line[r].push_back(b)

    @step("X", of="act")
    def everyone_has_it(self, before: PushedOnce, r: Request, b: Block) -> Bool:
        return self.line[r].has(b)


@false("(act)")
class HeadOfEach(Base):
    """Each request's first block is taken, of those too that have none."""

    @action("X")
    def act(self) -> None:
        with self.each(Request) as r:
            self.line[r].remove(self.line[r].head())

    @action("X")
    def put(self, r: Request, b: Block) -> None:
        self.require(~self.line[r].has(b))
        self.line[r].push_back(b)

    @invariant("X")
    def nothing(self, b: Block) -> Bool:
        return self.n[b] == 0


class Shrinks(Base):
    """Each request's first block is taken, and how many are left is kept in the same round."""

    left = Map(Request, to=Int)

    @action("X")
    def put(self, r: Request, b: Block) -> None:
        self.require(~self.line[r].has(b))
        self.line[r].push_back(b)

    @action("X")
    def act(self) -> None:
        self.require(forall(Request, lambda r: ~self.line[r].is_empty()))
        with self.each(Request) as r:
            self.line[r].remove(self.line[r].head())
            self.left[r] = self.line[r].size


@false("as_many_as_before")
class SizeOfEach(Shrinks):
    """Which element goes differs from round to round, and the size was taken for that before the round."""

    @step("X", of="act")
    def as_many_as_before(self, before: SizeOfEach, r: Request) -> Bool:
        return self.left[r] == before.line[r].size


@true
class SizeOfEachLessOne(Shrinks):
    @step("X", of="act")
    def one_less(self, before: SizeOfEachLessOne, r: Request) -> Bool:
        return self.left[r] == before.line[r].size - 1


@false("sums_are_kept")
class RealsInARound(Machine):
    load = Map(Block, to=Real)
    total = Sum(Block, of=lambda m, b: m.load[b], to=Real)
    big = Scalar(to=Bool)

    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.load[b] = self.load[b] - 1

    @action("X")
    def put(self, b: Block) -> None:
        self.load[b] = self.load[b] + 2

    @step("X", of="act")
    def sums_are_kept(self, before: RealsInARound) -> Bool:
        return self.total.value == before.total.value


@true
class RoundsOfTruth(Machine):
    number = Map(Bool, to=Int)

    @action("X")
    def act(self) -> None:
        with self.each(Bool) as b, when(b):
            self.number[b] = 1

    @step("X", of="act")
    def of_true_it_is_one(self, before: RoundsOfTruth) -> Bool:
        return self.number[True] == 1


# ------------------------------------------------------------------------------------------------ refused


@refused("which another round may write")
def swapped() -> type[Machine]:
    class Swapped(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block, Block) as (a, b):
                self.m[a, b] = self.m[b, a]

    return Swapped


@refused("which another round may write")
def transposed_under_a_condition() -> type[Machine]:
    class Transposed(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block, Block) as (a, b), when(self.m[b, a]):
                self.m[a, b] = False

    return Transposed


@refused("which another round may write")
def neighbours() -> type[Machine]:
    class Neighbours(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block) as b:
                self.n[b] = self.n[b]
                with when(exists(Block, lambda c: self.n[c] > 0)):
                    self.n[b] = 1

    return Neighbours


@refused("which another round may write")
def first_in_line() -> type[Machine]:
    class FirstInLine(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block) as b, when(self.q.is_first(b)):
                self.q.remove(b)

    return FirstInLine


@refused("which another round may write")
def as_long_as_there_are_many() -> type[Machine]:
    class Many(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block) as b, when(self.q.size > 1):
                self.q.remove(b)

    return Many


@refused("which another round may write")
def behind_another() -> type[Machine]:
    class Behind(Base):
        @action("X")
        def act(self, c: Block) -> None:
            with self.each(Block) as b, when(self.q.before(c, b)):
                self.q.remove(b)

    return Behind


@refused("reads the count")
def fewer_than_two() -> type[Machine]:
    class Fewer(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block) as b, when(self.busy.value < 2):
                self.n[b] = 1

    return Fewer


@refused("which another round may write")
def can_in_a_round() -> type[Machine]:
    from kvproof.machine import can

    class CanInARound(Base):
        @action("X")
        def take(self, b: Block) -> None:
            self.require(forall(Block, lambda c: self.n[c] == 0))
            self.n[b] = 1

        @action("X")
        def act(self) -> None:
            with self.each(Block) as b, when(can(self.take, b)):
                self.n[b] = 1

    return CanInARound


@refused("at an entry that is not its own")
def two_that_meet() -> type[Machine]:
    class Meet(Base):
        @action("X")
        def act(self, c: Block) -> None:
            with self.each(Block) as b:
                self.m[b, c] = True
                self.m[c, b] = False

    return Meet


@refused("at an entry that is not its own")
def everyone_writes_one() -> type[Machine]:
    class One(Base):
        @action("X")
        def act(self, c: Block) -> None:
            with self.each(Block) as b:
                self.n[c] = self.n[b]

    return One


@refused("at an entry that is not its own")
def one_of_two_binders() -> type[Machine]:
    class Half(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block, Block) as (a, b), when(self.m[a, b]):
                self.n[a] = 1

    return Half


@refused("have no order")
def a_queue_in_no_order() -> type[Machine]:
    class NoOrder(Base):
        @action("X")
        def act(self, r: Request) -> None:
            with self.each(Block) as b:
                self.line[r].push_front(b)

    return NoOrder


@refused("plain statements")
def rounds_in_rounds() -> type[Machine]:
    class Nested(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block) as b, self.each(Request) as r:
                self.of[r, b] = True

    return Nested


@refused("inside `each`")
def loop_in_a_round() -> type[Machine]:
    class LoopInside(Base):
        @action("X")
        def act(self) -> None:
            with self.each(Block) as b, self.loop(2):
                self.n[b] = 1

    return LoopInside


@refused("push before")
def making_room_in_each() -> type[Machine]:
    class Room(Base):
        @action("X")
        def act(self, b: Block, c: Block) -> None:
            with self.each(Request) as r, when(self.line[r].has(b) & ~self.line[r].has(c)):
                self.line[r].push_before(b, c)

    return Room


class Ends(Machine):
    """Each round stores what a quantifier says, of which the property says the same behind a quantifier of its own."""

    link = Map(Block, Block, to=Bool)
    ends = Map(Block, to=Bool)

    @action("X")
    def join(self, a: Block, b: Block) -> None:
        self.link[a, b] = True

    @action("X")
    def act(self) -> None:
        with self.each(Block) as b:
            self.ends[b] = exists(Block, lambda c: self.link[b, c])

    @step("X", of="act")
    def of_these(self, before: Ends, b: Block) -> Bool:
        return self.ends[b] == exists(Block, lambda c: self.link[b, c])


true(Ends)


@false("of_those")
class EndsOfOthers(Ends):
    """The text of what a round stores named two elements alike, so that it said the same of both ends of a link."""

    @action("X")
    def turn(self) -> None:
        with self.each(Block) as b:
            self.ends[b] = exists(Block, lambda c: self.link[c, b])

    @step("X", of="turn")
    def of_those(self, before: EndsOfOthers, b: Block) -> Bool:
        return self.ends[b] == exists(Block, lambda c: self.link[b, c])


@false("to_itself")
class EndsAtItself(Ends):
    @step("X", of="act")
    def to_itself(self, before: EndsAtItself, b: Block) -> Bool:
        return self.ends[b] == exists(Block, lambda c: self.link[c, c])
