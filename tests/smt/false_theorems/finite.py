"""Counts, sums and quantifiers over indices; assumptions; actions that are never possible."""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Scalar,
    Sort,
    Sum,
    action,
    assume,
    corollary,
    exists,
    forall,
    iff,
    implies,
    initially,
    invariant,
    step,
)

from .corpus import false, true


class Block(Sort):
    pass


class Place(Index):
    pass


@false("there_is_always_room")
class RoomForEver(Machine):
    """However many places there are, at some time all are taken."""

    next = Scalar(to=Place)
    taken = Map(Place, to=Bool)
    room = Count(Place, where=lambda m, i: ~m.taken[i])

    @action("X")
    def take(self) -> None:
        self.require(self.room.value > 0)
        self.require(exists(Place, lambda i: i == self.next.value))
        self.taken[self.next.value] = True
        self.next.value = self.next.value + 1

    @invariant("X")
    def those_before_are_taken(self, i: Place) -> Bool:
        return iff(self.taken[i], i < self.next.value)

    @corollary("X")
    def there_is_always_room(self) -> Bool:
        return exists(Place, lambda i: ~self.taken[i])


@false("the_sum_never_shrinks")
class SumOfAllPlaces(Machine):
    weight = Map(Place, to=Int, init=1)
    all = Sum(Place, of=lambda m, i: m.weight[i], to=Int)

    @action("X")
    def lower(self, i: Place) -> None:
        self.weight[i] = 0

    @step("X", of="lower")
    def the_sum_never_shrinks(self, before: SumOfAllPlaces) -> Bool:
        return self.all.value == before.all.value


@true
class SumOfAllPlacesShrinks(Machine):
    weight = Map(Place, to=Int, init=1)
    all = Sum(Place, of=lambda m, i: m.weight[i], to=Int)

    @action("X")
    def lower(self, i: Place) -> None:
        self.require(self.weight[i] > 0)
        self.weight[i] = self.weight[i] - 1

    @step("X", of="lower")
    def by_one(self, before: SumOfAllPlacesShrinks) -> Bool:
        return self.all.value == before.all.value - 1


@false("one_behind_it")
class NoLastPlace(Machine):
    """Behind each place there is another one: not behind the last."""

    lamp = Map(Place, to=Bool)

    @action("X")
    def light(self, i: Place) -> None:
        self.lamp[i] = True

    @invariant("X")
    def one_behind_it(self, i: Place) -> Bool:
        return exists(Place, lambda j: i < j)


@false("two_weigh_more")
class HeavyPlaces(Machine):
    """What two weigh together is no more than all, and may be all."""

    weight = Map(Place, to=Int, init=lambda m, i: i)
    all = Sum(Place, of=lambda m, i: m.weight[i], to=Int)

    @action("X")
    def add(self, i: Place) -> None:
        self.weight[i] = self.weight[i] + 1

    @invariant("X")
    def two_weigh_more(self, i: Place, j: Place) -> Bool:
        return implies(i != j, self.weight[i] + self.weight[j] < self.all.value)


@true
class HeavyPlacesTogether(Machine):
    weight = Map(Place, to=Int, init=1)
    all = Sum(Place, of=lambda m, i: m.weight[i], to=Int)

    @action("X")
    def add(self, i: Place) -> None:
        self.weight[i] = self.weight[i] + 1

    @invariant("X")
    def natural(self, i: Place) -> Bool:
        return self.weight[i] >= 0

    @invariant("X")
    def two_weigh_no_more(self, i: Place, j: Place) -> Bool:
        return implies(i != j, self.weight[i] + self.weight[j] <= self.all.value)


@false("two_places")
class MoreThanOnePlace(Machine):
    lamp = Map(Place, to=Bool)

    @action("X")
    def light(self, i: Place) -> None:
        self.lamp[i] = True

    @invariant("X")
    def two_places(self) -> Bool:
        return Place.has(1)


@true
class AtLeastOnePlace(Machine):
    lamp = Map(Place, to=Bool)

    @action("X")
    def light(self, i: Place) -> None:
        self.lamp[i] = True

    @invariant("X")
    def one_place(self) -> Bool:
        return Place.has(0) & ~Place.has(0 - 1)


@false("one_is_idle")
class UnboundedByInvariant(Machine):
    """The invariants would hold for ever only if places had no last one."""

    used = Map(Place, to=Bool)
    n = Scalar(to=Int)

    @action("X")
    def use(self, i: Place) -> None:
        self.require(i == self.n.value)
        self.used[i] = True
        self.n.value = self.n.value + 1

    @invariant("X")
    def up_to_n(self, i: Place) -> Bool:
        return iff(self.used[i], i < self.n.value)

    @invariant("X")
    def natural(self) -> Bool:
        return self.n.value >= 0

    @invariant("X")
    def one_is_idle(self) -> Bool:
        return exists(Place, lambda i: ~self.used[i])


@false("as_many_as_blocks")
class TwoCountsOfDifferentThings(Machine):
    """Where some block has the mark, not all have it."""

    mark = Map(Block, to=Bool)
    marked = Count(Block, where=lambda m, b: m.mark[b])
    size = Count(Block, where=lambda m, b: m.mark[b] | ~m.mark[b])

    @action("X")
    def set(self, b: Block) -> None:
        self.mark[b] = True

    @invariant("X")
    def as_many_as_blocks(self) -> Bool:
        return implies(self.marked.value > 0, self.marked.value == self.size.value)


@true
class TwoCountsAddUp(Machine):
    mark = Map(Block, to=Bool)
    marked = Count(Block, where=lambda m, b: m.mark[b])
    plain = Count(Block, where=lambda m, b: ~m.mark[b])

    @action("X")
    def set(self, b: Block) -> None:
        self.mark[b] = True

    @step("X", of="set")
    def they_add_up(self, before: TwoCountsAddUp) -> Bool:
        return self.marked.value + self.plain.value == before.marked.value + before.plain.value


@false("never_three")
class ThreeNeedThree(Machine):
    """What fails only with three blocks."""

    mark = Map(Block, to=Bool)
    marked = Count(Block, where=lambda m, b: m.mark[b])

    @action("X")
    def set(self, a: Block, b: Block, c: Block) -> None:
        self.require((a != b) & (b != c) & (a != c))
        self.mark[a] = True
        self.mark[b] = True
        self.mark[c] = True

    @invariant("X")
    def never_three(self) -> Bool:
        return self.marked.value < 3


@true
class FourNeedFour(Machine):
    """An action that needs four distinct blocks is possible."""

    mark = Map(Block, to=Bool)
    marked = Count(Block, where=lambda m, b: m.mark[b])

    @action("X")
    def set(self, a: Block, b: Block, c: Block, d: Block) -> None:
        self.require((a != b) & (b != c) & (a != c) & (a != d) & (b != d) & (c != d))
        self.require(~self.mark[a] & ~self.mark[b] & ~self.mark[c] & ~self.mark[d])
        self.mark[a] = True
        self.mark[b] = True
        self.mark[c] = True
        self.mark[d] = True

    @step("X", of="set")
    def four_more(self, before: FourNeedFour) -> Bool:
        return self.marked.value == before.marked.value + 4


@false("only_where_assumed")
class AssumedForSome(Machine):
    """The assumption speaks of two different blocks: with one block it says nothing."""

    owner = Param(Block, to=Block)
    lamp = Map(Block, to=Bool)

    @assume("X")
    def nobody_owns_another(self, a: Block, b: Block) -> Bool:
        return implies(a != b, self.owner[a] == b)

    @action("X")
    def light(self, b: Block) -> None:
        self.lamp[b] = True

    @invariant("X")
    def only_where_assumed(self, b: Block) -> Bool:
        return ~self.lamp[b]


@true
class TwoOfThemAreGood(Machine):
    """An assumption speaks of a count of parameters."""

    good = Param(Block, to=Bool)
    are_good = Count(Block, where=lambda m, b: m.good[b])
    seen = Scalar(to=Int, init=0)

    @assume("X")
    def two_are(self) -> Bool:
        return self.are_good.value == 2

    @action("X")
    def count(self, b: Block) -> None:
        self.require(self.good[b])
        self.seen.value = self.are_good.value

    @invariant("X")
    def two_are_seen(self) -> Bool:
        return (self.seen.value == 0) | (self.seen.value == 2)


@false("three_are")
class ThreeOfThemAreNot(TwoOfThemAreGood):
    @corollary("X")
    def three_are(self) -> Bool:
        return self.are_good.value == 3


@false("as_it_began")
class InitiallyIsNotAlways(Machine):
    best = Param(to=Block)
    mark = Map(Block, to=Bool, init=lambda m, b: b == m.best.value)

    @initially("X")
    def the_best_is_marked(self) -> Bool:
        return self.mark[self.best.value]

    @action("X")
    def clear(self, b: Block) -> None:
        self.mark[b] = False

    @invariant("X")
    def as_it_began(self) -> Bool:
        return self.mark[self.best.value]


# What holds of nothing is no theorem; no run can show it, so these are not in the register.


class NothingToAssume(Machine):
    """No place is behind the last one: there is nothing of which this machine speaks."""

    more = Param(Place, to=Place)
    lamp = Scalar(to=Bool)

    @assume("X")
    def there_is_always_more(self, i: Place) -> Bool:
        return exists(Place, lambda j: j > i)

    @action("X")
    def light(self) -> None:
        self.lamp.value = True

    @invariant("X")
    def dark(self) -> Bool:
        return ~self.lamp.value


class NeverPossible(Machine):
    lamp = Map(Block, to=Bool)

    @action("X")
    def light(self, b: Block) -> None:
        self.require(self.lamp[b])
        self.lamp[b] = True

    @invariant("X")
    def dark(self, b: Block) -> Bool:
        return ~self.lamp[b]


class NeverPossibleAnywhere(Machine):
    lamp = Map(Block, to=Bool)

    @action("X")
    def light(self, b: Block) -> None:
        self.require(forall(Block, lambda c: b != c))
        self.lamp[b] = True

    @invariant("X")
    def dark(self, b: Block) -> Bool:
        return ~self.lamp[b]


class ContradictsItself(Machine):
    """Of three blocks there would have to be a fourth, and of four none."""

    rank = Param(Block, to=Int)
    lamp = Scalar(to=Bool)

    @assume("X")
    def everybody_is_above_one(self, a: Block) -> Bool:
        return exists(Block, lambda b: self.rank[b] < self.rank[a])

    @action("X")
    def light(self) -> None:
        self.lamp.value = True

    @invariant("X")
    def dark(self) -> Bool:
        return ~self.lamp.value


class BeginsNowhere(Machine):
    """What is known of the first state is what no first state is like."""

    lamp = Scalar(to=Bool)

    @initially("X")
    def lit(self) -> Bool:
        return self.lamp.value

    @action("X")
    def stay(self) -> None:
        self.require(self.lamp.value)
        self.lamp.value = True

    @invariant("X")
    def burning(self) -> Bool:
        return self.lamp.value


class NothingPromised(Machine):
    lamp = Scalar(to=Bool)

    @action("X")
    def light(self) -> None:
        self.lamp.value = True


class NothingHappens(Machine):
    lamp = Scalar(to=Bool)

    @invariant("X")
    def dark(self) -> Bool:
        return ~self.lamp.value


class WritesForNobody(Machine):
    """Where `each` goes over nothing, nothing is written, and nothing says that the number lies within the scope."""

    m = Map(Block, Place, to=Bool)
    over = Scalar(to=Bool)

    @action("F")
    def go(self, n: Int) -> None:
        self.require(n >= 0)
        with self.each(Block) as b:
            self.m[b, n] = True
        self.over.value = ~Place.has(n)

    @invariant("F")
    def never_over(self) -> Bool:
        return ~self.over.value


class BeginsWithoutAValue(Machine):
    """What is said of the first state divides by what is nothing then."""

    x = Scalar(to=Int)
    d = Param(to=Int)
    lamp = Scalar(to=Bool)

    @initially("F")
    def quotient(self) -> Bool:
        return self.d.value == 5 // self.x.value

    @action("F")
    def go(self) -> None:
        self.lamp.value = ~self.lamp.value

    @invariant("F")
    def same(self) -> Bool:
        return self.d.value == 5 // self.x.value


VACUOUS = [
    WritesForNobody,
    BeginsWithoutAValue,
    NothingToAssume,
    NeverPossible,
    NeverPossibleAnywhere,
    ContradictsItself,
    BeginsNowhere,
    NothingPromised,
    NothingHappens,
]
