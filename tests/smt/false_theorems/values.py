"""Values: what a property or an action reads is there, also at none, behind an end, and in a division."""

from __future__ import annotations

from fractions import Fraction

from kvproof.machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Queue,
    Real,
    Scalar,
    Sort,
    Sum,
    action,
    assume,
    corollary,
    exists,
    forall,
    implies,
    initially,
    invariant,
    ite,
    none,
    optional,
    step,
    when,
)

from .corpus import false, refused, true


class Block(Sort):
    pass


class Request(Sort):
    pass


class Node(Block, extra=("ROOT",)):
    pass


class Place(Index):
    pass


class Base(Machine):
    n = Map(Block, to=Int)
    held = Scalar(to=optional(Block))
    at = Scalar(to=optional(Place))
    x = Scalar(to=Int)
    q = Queue(Block)
    table = Map(Place, to=Int)


@false("none_has_a_number")
class NoneReadAfterwards(Base):
    @action("X")
    def let_go(self) -> None:
        self.held.value = none

    @step("X", of="let_go")
    def none_has_a_number(self, before: NoneReadAfterwards) -> Bool:
        return self.n[self.held.value] == before.n[self.held.value]


@false("one_is_next")
class NegativePlace(Base):
    @action("X")
    def set(self, n: Int) -> None:
        self.x.value = n

    @step("X", of="set")
    def one_is_next(self, before: NegativePlace, n: Int) -> Bool:
        return self.table[n] == before.table[self.x.value]


@true
class NaturalPlace(Base):
    @action("X")
    def set(self, n: Int) -> None:
        self.x.value = n

    @step("X", of="set")
    def one_is_next(self, before: NaturalPlace, n: Int) -> Bool:
        return implies(n >= 0, self.table[n] == before.table[self.x.value])


@false("the_head_leaves")
class HeadOfNothing(Base):
    @action("X")
    def put(self, b: Block) -> None:
        self.require(~self.q.has(b))
        self.q.push_back(b)

    @step("X", of="put")
    def the_head_leaves(self, before: HeadOfNothing, b: Block) -> Bool:
        return (before.q.head() == before.q.head()) & self.q.has(b)


@true
class HeadOfSomething(Base):
    @action("X")
    def put(self, b: Block) -> None:
        self.require(~self.q.has(b))
        self.q.push_back(b)

    @step("X", of="put")
    def the_tail_is_new(self, before: HeadOfSomething, b: Block) -> Bool:
        return (self.q.tail() == b) & implies(~before.q.is_empty(), self.q.head() == before.q.head())


@false("halves")
class DividedByItself(Base):
    @action("X")
    def set(self, n: Int) -> None:
        self.x.value = n

    @step("X", of="set")
    def halves(self, before: DividedByItself, n: Int) -> Bool:
        return (n // self.x.value == n // n) & (self.x.value == n)


@false("rest")
class RestByANegative(Base):
    @action("X")
    def set(self, n: Int) -> None:
        self.require(n < 0)
        self.x.value = 7

    @step("X", of="set")
    def rest(self, before: RestByANegative, n: Int) -> Bool:
        return self.x.value % n == 7 % n


@false("exact_rest")
class RealByZero(Machine):
    speed = Scalar(to=Real)
    time = Scalar(to=Real)

    @action("X")
    def go(self, n: Int) -> None:
        self.speed.value = n

    @step("X", of="go")
    def exact_rest(self, before: RealByZero, n: Int) -> Bool:
        return 1 / self.speed.value == Fraction(1) / n


@true
class RealByMore(Machine):
    speed = Scalar(to=Real, init=1)

    @action("X")
    def go(self, n: Int) -> None:
        self.require(n > 0)
        self.speed.value = n

    @step("X", of="go")
    def exact(self, before: RealByMore, n: Int) -> Bool:
        return self.speed.value / n == 1


@false("thirds_are_whole")
class NoRounding(Machine):
    part = Scalar(to=Real)

    @action("X")
    def cut(self, n: Int) -> None:
        self.part.value = n / 3

    @step("X", of="cut")
    def thirds_are_whole(self, before: NoRounding, n: Int) -> Bool:
        return self.part.value * 3 == n - n % 3


@false("up_to_zero")
class RoundedDown(Base):
    """Whole division of a negative number goes down, and not towards 0."""

    @action("X")
    def halve(self, n: Int) -> None:
        self.x.value = n // 2

    @step("X", of="halve")
    def up_to_zero(self, before: RoundedDown, n: Int) -> Bool:
        return implies(n == -1, self.x.value == 0)


@false("the_first_is_read")
class ResultOfNone(Base):
    """An action that returns nothing returns no block, and nothing is kept for that."""

    @action("X")
    def look(self) -> Block:
        return self.held.value

    @step("X", of="look")
    def the_first_is_read(self, before: ResultOfNone, result: Block) -> Bool:
        return self.n[result] == before.n[result]


@false("some_block")
class ResultIsNoBlock(Base):
    @action("X")
    def look(self) -> Block:
        return self.held.value

    @action("X")
    def take(self, b: Block) -> None:
        self.held.value = b

    @step("X", of="look")
    def some_block(self, before: ResultIsNoBlock, result: Block) -> Bool:
        return exists(Block, lambda b: b == result)


@true
class ResultIsABlock(Base):
    @action("X")
    def look(self) -> Block:
        self.require(self.held.value != none)
        return self.held.value

    @step("X", of="look")
    def some_block(self, before: ResultIsABlock, result: Block) -> Bool:
        return exists(Block, lambda b: b == result)


@false("results_count")
class ResultBelow(Base):
    """What is returned is what was there before the write."""

    @action("X")
    def next(self) -> Int:
        was = self.x.value
        self.x.value = was + 1
        return was

    @step("X", of="next")
    def results_count(self, before: ResultBelow, result: Int) -> Bool:
        return result == self.x.value


@false("the_held_has_none")
class CorollaryAtNone(Base):
    @action("X")
    def hold(self, b: Block) -> None:
        self.held.value = b

    @corollary("X")
    def the_held_has_none(self) -> Bool:
        return self.n[self.held.value] == self.n[self.held.value]

    @invariant("X")
    def all_zero(self, b: Block) -> Bool:
        return self.n[b] == 0


@false("everyone_is_zero")
class InvariantAtNone(Base):
    to = Map(Block, to=optional(Block))

    @action("X")
    def hold(self, b: Block, c: Block) -> None:
        self.to[b] = c

    @invariant("X")
    def everyone_is_zero(self, b: Block) -> Bool:
        return (self.n[b] == 0) & (self.n[self.to[b]] == self.n[self.to[b]])


@false("weights_are_natural")
class WeightWithoutValue(Machine):
    load = Map(Block, to=Int)
    unit = Param(Block, to=Int)
    parts = Sum(Block, of=lambda m, b: m.load[b] // m.unit[b], to=Int)

    @action("X")
    def put(self, b: Block) -> None:
        self.load[b] = self.load[b] + 1

    @invariant("X")
    def weights_are_natural(self) -> Bool:
        return self.parts.value >= 0


@true
class WeightWithAValue(Machine):
    load = Map(Block, to=Int)
    unit = Param(Block, to=Int)
    parts = Sum(Block, of=lambda m, b: m.load[b] // m.unit[b], to=Int)

    @assume("X")
    def units_are_some(self, b: Block) -> Bool:
        return self.unit[b] > 0

    @action("X")
    def put(self, b: Block) -> None:
        self.load[b] = self.load[b] + 1

    @invariant("X")
    def weights_are_natural(self) -> Bool:
        return self.parts.value >= 0


@false("(initially)")
class FirstValueByZero(Machine):
    unit = Param(to=Int)
    share = Scalar(to=Int, init=lambda m: 100 // m.unit.value)

    @action("X")
    def stay(self, n: Int) -> None:
        self.share.value = self.share.value

    @invariant("X")
    def itself(self) -> Bool:
        return self.share.value * 2 == self.share.value + self.share.value


@false("(initially)")
class FirstPlaceBeforeAll(Machine):
    """A number below 0 is no index, and is not none either, where there may be none."""

    left = Map(Place, to=optional(Place), init=lambda _, p: p - 1)

    @action("X")
    def forget(self, p: Place) -> None:
        self.left[p] = none

    @invariant("X")
    def never_itself(self, p: Place) -> Bool:
        return self.left[p] != p


@true
class FirstPlaceOrNone(Machine):
    """The same, with none where there is no place before."""

    left = Map(Place, to=optional(Place))

    @action("X")
    def begin(self, p: Place) -> None:
        with when(p > 0):
            self.left[p] = p - 1

    @invariant("X")
    def never_itself(self, p: Place) -> Bool:
        return self.left[p] != p


@false("(act)")
class IllFormedBranch(Base):
    """The branch that is not taken is a value too, where it is read."""

    @action("X")
    def act(self) -> None:
        self.x.value = ite(self.held.value == none, 0, self.n[self.held.value])

    @invariant("X")
    def nothing(self, b: Block) -> Bool:
        return self.n[b] == 0


@true
class WellFormedBranch(Base):
    @action("X")
    def act(self) -> None:
        with when(self.held.value != none):
            self.x.value = self.n[self.held.value]

    @step("X", of="act")
    def what_is_held(self, before: WellFormedBranch) -> Bool:
        return ite(self.held.value == none, self.x.value == before.x.value, self.x.value == self.n[self.held.value])


@false("in_any_order")
class ReadBeforeItIsRuledOut(Base):
    """`|` and `&` are read from left to right."""

    @action("X")
    def hold(self, b: Block) -> None:
        self.held.value = b

    @step("X")
    def in_any_order(self, before: ReadBeforeItIsRuledOut) -> Bool:
        return (before.n[before.held.value] == self.n[before.held.value]) | (before.held.value == none)  # type: ignore[no-any-return]


@true
class RuledOutBeforeItIsRead(Base):
    @action("X")
    def hold(self, b: Block) -> None:
        self.held.value = b

    @step("X")
    def in_any_order(self, before: RuledOutBeforeItIsRead) -> Bool:
        return (before.held.value == none) | (before.n[before.held.value] == self.n[before.held.value])  # type: ignore[no-any-return]


@false("(store)")
class StoredAsABlock(Machine):
    last = Map(Block, to=Node, init=Node.named("ROOT"))
    one = Map(Block, to=Block, init=lambda m, b: b)

    @action("X")
    def store(self, b: Block) -> None:
        self.one[b] = self.last[b]

    @invariant("X")
    def blocks_only(self, b: Block) -> Bool:
        return exists(Block, lambda c: c == self.one[b])


@false("every_node_is_a_block")
class OnlyAQuantifierNamesIt(Machine):
    used = Map(Block, to=Bool)

    @action("X")
    def use(self, b: Block) -> None:
        self.used[b] = True

    @step("X", of="use")
    def every_node_is_a_block(self, before: OnlyAQuantifierNamesIt) -> Bool:
        return forall(Node, lambda n: exists(Block, lambda b: b == n))


@false("the_root_is_a_block")
class OnlyAConstantNamesIt(Machine):
    used = Map(Block, to=Bool)

    @action("X")
    def use(self, b: Block) -> None:
        self.used[b] = True

    @step("X", of="use")
    def the_root_is_a_block(self, before: OnlyAConstantNamesIt) -> Bool:
        root = Node.named("ROOT")
        return (root == none) | exists(Block, lambda b: b == root)  # type: ignore[no-any-return]


@false("the_root_is_a_block")
class AMapNamesItToo(OnlyAConstantNamesIt):
    last = Map(Block, to=Node, init=Node.named("ROOT"))


@true
class WhoeverIsSomebody(Machine):
    likes = Map(Block, Block, to=Bool, init=lambda m, a, b: a == b)

    @action("X")
    def like(self, a: Block, b: Block) -> None:
        self.likes[a, b] = True

    @invariant("X")
    def everybody_likes_himself(self, a: Block) -> Bool:
        return self.likes[a, a]

    @corollary("X")
    def everybody_likes_somebody(self, a: Block) -> Bool:
        return exists(Block, lambda b: self.likes[a, b])


@false("behind_the_last_is_what_was_there")
class BehindTheLast(Machine):
    """The number of rounds may be any: what is read behind the last index is none of what was written before it."""

    n = Scalar(to=Place)
    table = Map(Place, to=Bool, init=True)

    @action("X")
    def go(self) -> None:
        self.n.value = self.n.value + 1

    @invariant("X")
    def all_are_set(self, i: Place) -> Bool:
        return self.table[i]

    @step("X", of="go")
    def behind_the_last_is_what_was_there(self, before: BehindTheLast) -> Bool:
        return self.table[self.n.value]


@true
class NotBehindTheLast(Machine):
    n = Scalar(to=Place)
    table = Map(Place, to=Bool, init=True)

    @action("X")
    def go(self) -> None:
        self.n.value = self.n.value + 1

    @invariant("X")
    def all_are_set(self, i: Place) -> Bool:
        return self.table[i]

    @step("X", of="go")
    def set_if_there_is_one(self, before: NotBehindTheLast) -> Bool:
        return implies(Place.has(self.n.value), self.table[self.n.value])


@false("(back)")
class IndexBelowZero(Machine):
    n = Scalar(to=Place)

    @action("X")
    def back(self) -> None:
        self.n.value = self.n.value - 1

    @invariant("X")
    def natural(self) -> Bool:
        return self.n.value + 1 >= 1


@false("never_minus_one")
class NoneIsMinusOne(Base):
    """How none is stored is nobody's business: a missing place plus one is no place."""

    @action("X")
    def set(self, n: Int) -> None:
        self.x.value = n

    @step("X", of="set")
    def never_minus_one(self, before: NoneIsMinusOne, n: Int) -> Bool:
        return (self.at.value == none) & (n >= 0)  # type: ignore[no-any-return]


@false("alternates")
class Alternation(Machine):
    """For every one some other, and one for all, are different things."""

    likes = Map(Block, Block, to=Bool, init=lambda m, a, b: a == b)

    @action("X")
    def like(self, a: Block, b: Block) -> None:
        self.likes[a, b] = True

    @invariant("X")
    def everybody_likes_one(self, a: Block) -> Bool:
        return exists(Block, lambda b: self.likes[a, b])

    @corollary("X")
    def alternates(self) -> Bool:
        return exists(Block, lambda b: forall(Block, lambda a: self.likes[a, b]))


@true
class AlternationTheOtherWay(Machine):
    likes = Map(Block, Block, to=Bool)

    @action("X")
    def like(self, a: Block, b: Block) -> None:
        self.likes[a, b] = True

    @corollary("X")
    def who_likes_one_likes_somebody(self, a: Block, b: Block) -> Bool:
        return implies(self.likes[a, b], exists(Block, lambda c: self.likes[a, c]))


@false("shares_add_up")
class CountedByTwoKeys(Machine):
    """Per key there is a count of its own; of two keys one is not that of the other."""

    has = Map(Block, Node, Place, to=Bool)
    number = Count(Block, by=(Node, Place), where=lambda m, b, n, i: m.has[b, n, i])

    @action("X")
    def give(self, b: Block, n: Node, i: Place) -> None:
        self.has[b, n, i] = True

    @step("X", of="give")
    def shares_add_up(self, before: CountedByTwoKeys, n: Node, i: Place, m: Node, j: Place) -> Bool:
        return implies(n != m, self.number[m, j] == before.number[m, j]) & (
            self.number[n, i] == before.number[n, i] + 1
        )


@true
class CountedByTwoKeysAndNew(Machine):
    has = Map(Block, Node, Place, to=Bool)
    number = Count(Block, by=(Node, Place), where=lambda m, b, n, i: m.has[b, n, i])

    @action("X")
    def give(self, b: Block, n: Node, i: Place) -> None:
        self.require(~self.has[b, n, i])
        self.has[b, n, i] = True

    @step("X", of="give")
    def shares_add_up(self, before: CountedByTwoKeysAndNew, n: Node, i: Place, m: Node, j: Place) -> Bool:
        return implies((n != m) | (i != j), self.number[m, j] == before.number[m, j]) & (
            self.number[n, i] == before.number[n, i] + 1
        )


@false("negatives_count")
class NegativeWeights(Machine):
    """What is negative counts as nothing in a sum."""

    load = Map(Block, to=Real)
    total = Sum(Block, of=lambda m, b: m.load[b], to=Real)

    @action("X")
    def add(self, b: Block, n: Int) -> None:
        self.load[b] = self.load[b] + n

    @step("X", of="add")
    def negatives_count(self, before: NegativeWeights, b: Block, n: Int) -> Bool:
        return self.total.value == before.total.value + n


@true
class PositiveWeights(Machine):
    load = Map(Block, to=Real)
    total = Sum(Block, of=lambda m, b: m.load[b], to=Real)

    @action("X")
    def add(self, b: Block, n: Int) -> None:
        self.require(n >= 0)
        self.load[b] = self.load[b] + n

    @invariant("X")
    def loads_are_natural(self, b: Block) -> Bool:
        return self.load[b] >= 0

    @step("X", of="add")
    def all_of_it_counts(self, before: PositiveWeights, b: Block, n: Int) -> Bool:
        return self.total.value == before.total.value + n


@false("(initially)")
class SaysThatItFits(Base):
    """A first value has to be an element: what the machine says of its first state is asked of that state only."""

    limit = Param(to=Int)
    at = Scalar(to=Place, init=lambda m: m.limit.value)

    @initially("X")
    def it_fits(self) -> Bool:
        return self.limit.value >= 0

    @action("X")
    def stay(self) -> None:
        self.at.value = self.at.value


@true
class IsAssumedToFit(Base):
    limit = Param(to=Int)
    at = Scalar(to=Place, init=lambda m: m.limit.value)

    @assume("X")
    def it_fits(self) -> Bool:
        return self.limit.value == 0

    @action("X")
    def stay(self) -> None:
        self.at.value = self.at.value

    @invariant("X")
    def it_stays(self) -> Bool:
        return self.at.value == 0


@false("two_are_one")
class TheSameTwice(Base):
    """Two parameters may be one block."""

    @action("X")
    def move(self, a: Block, b: Block) -> None:
        self.n[a] = 1
        self.n[b] = 2

    @step("X", of="move")
    def two_are_one(self, before: TheSameTwice, a: Block, b: Block) -> Bool:
        return (self.n[a] == 1) & (self.n[b] == 2)


@true
class TwoAreTwo(Base):
    @action("X")
    def move(self, a: Block, b: Block) -> None:
        self.require(a != b)
        self.n[a] = 1
        self.n[b] = 2

    @step("X", of="move")
    def two_are_two(self, before: TwoAreTwo, a: Block, b: Block) -> Bool:
        return (self.n[a] == 1) & (self.n[b] == 2)


@false("what_it_says")
class NamedAsTheRest(Machine):
    """What a parameter of the name `mod` says is not what a division leaves, though solvers write both in one way."""

    mod = Param(Place, Place, to=Int)
    lamp = Scalar(to=Bool)

    @action("X")
    def light(self) -> None:
        self.lamp.value = True

    @action("X")
    def dim(self) -> None:
        self.lamp.value = False

    @step("X", of="light")
    def what_is_left(self, before: NamedAsTheRest, i: Place, j: Place) -> Bool:
        return implies(j > 0, (i % j < j) | (self.mod[i, j] == before.mod[i, j] + 1000))

    @step("X", of="dim")
    def what_it_says(self, before: NamedAsTheRest, i: Place, j: Place) -> Bool:
        return implies(j > 0, (self.mod[i, j] < j) | (i % j == i % j + 1000))


@true
class NamedAsTheRestAndMeansIt(Machine):
    mod = Param(Place, Place, to=Int)
    lamp = Scalar(to=Bool)

    @assume("X")
    def it_is_the_rest(self, i: Place, j: Place) -> Bool:
        return implies(j > 0, self.mod[i, j] == i % j)

    @action("X")
    def light(self) -> None:
        self.lamp.value = True

    @step("X", of="light")
    def what_it_says(self, before: NamedAsTheRestAndMeansIt, i: Place, j: Place) -> Bool:
        return implies(j > 0, self.mod[i, j] < j)


class Last(Machine):
    last = Scalar(to=Node, init=Node.named("ROOT"))
    n = Map(Block, to=Int)

    @action("X")
    def look(self) -> Node:
        return self.last.value

    @action("X")
    def use(self, b: Node) -> None:
        self.last.value = b


@refused("look returns a Node")
def result_of_a_wider_sort() -> type[Machine]:
    """The root has no number; that a node is no block is not seen by Python, where the wider sort is the subclass."""

    class Wider(Last):
        @step("X", of="look")
        def the_same_number(self, before: Last, result: Block) -> Bool:
            return self.n[result] == before.n[result]

    return Wider


@refused("look says that it returns a Block, and returns a Node")
def returns_a_wider_sort_than_it_says() -> type[Machine]:
    class Wider(Machine):
        last = Scalar(to=Node, init=Node.named("ROOT"))

        @action("X")
        def look(self) -> Block:
            return self.last.value

    return Wider


@true
class ResultOfANarrowerSort(Last):
    @action("X")
    def first(self, b: Block) -> Node:
        return b  # type: ignore[return-value]

    @step("X", of=("look", "first"))
    def what_is_returned_is_a_node(self, before: ResultOfANarrowerSort, result: Node) -> Bool:
        return (result == Node.named("ROOT")) | exists(Block, lambda b: b == result)

    @step("X", of="first")
    def it_has_a_number(self, before: ResultOfANarrowerSort, result: Block) -> Bool:
        return self.n[result] == before.n[result]


@refused("a sort extends one other")
def a_sort_that_extends_two() -> type[Machine]:
    """It had the extra elements of the first one only, and those of the second one were taken for them in runs."""

    class Leaf(Block, extra=("LEAF",)):
        pass

    class Either(Node, Leaf):
        pass

    class TwoRoots(Machine):
        some = Scalar(to=Either, init=Either.named("ROOT"))

    return TwoRoots


@false("(look)")
class CountedBetweenTwoWrites(Machine):
    """Wherever the invariants hold a share is a number; between the two writes it is none."""

    parts = Map(Block, to=Int, init=1)
    large = Count(Block, where=lambda m, b: 6 // m.parts[b] > 1)
    seen = Scalar(to=Int)

    @action("X")
    def look(self, b: Block) -> None:
        self.parts[b] = 0
        self.seen.value = self.large.value
        self.parts[b] = 1

    @invariant("X")
    def there_is_a_part(self, b: Block) -> Bool:
        return self.parts[b] > 0


@false("(look)")
class SummedInALoop(Machine):
    """So it is in a round of a loop, and for each key."""

    parts = Map(Block, Request, to=Int, init=1)
    shares = Sum(Block, of=lambda m, b, r: 6 // m.parts[b, r], by=Request, to=Int)
    seen = Scalar(to=Int)

    @action("X")
    def look(self, b: Block, r: Request, other: Request) -> None:
        with self.loop(2):
            self.parts[b, other] = 0
            self.seen.value = self.shares[r]
            self.parts[b, other] = 1

    @invariant("X")
    def there_is_a_part(self, b: Block, r: Request) -> Bool:
        return self.parts[b, r] > 0


@true
class CountedBesideTheWrite(Machine):
    """Of another key, and after what makes it a number again."""

    parts = Map(Block, Request, to=Int, init=1)
    shares = Sum(Block, of=lambda m, b, r: 6 // m.parts[b, r], by=Request, to=Int)
    seen = Scalar(to=Int)

    @action("X")
    def look(self, b: Block, r: Request, other: Request) -> None:
        self.require(r != other)
        self.parts[b, other] = 0
        self.seen.value = self.shares[r]
        self.parts[b, other] = 2
        self.seen.value = self.shares[other] + self.seen.value

    @invariant("X")
    def there_is_a_part(self, b: Block, r: Request) -> Bool:
        return self.parts[b, r] > 0


class Lamps(Machine):
    """What is kept is kept by whether all of them are on."""

    on = Map(Block, to=Bool)
    told = Map(Bool, to=Int)

    @action("X")
    def switch(self, b: Block) -> None:
        self.on[b] = ~self.on[b]

    @action("X")
    def tell(self) -> None:
        self.told[forall(Block, lambda b: self.on[b])] = 1


@true
class KeptByAQuantifier(Lamps):
    @step("X", of="tell")
    def told_of_all(self, before: KeptByAQuantifier) -> Bool:
        return self.told[forall(Block, lambda b: before.on[b])] == 1


@false("told_of_some")
class KeptByAnotherQuantifier(Lamps):
    @step("X", of="tell")
    def told_of_some(self, before: KeptByAnotherQuantifier) -> Bool:
        return self.told[exists(Block, lambda b: before.on[b])] == 1


class Stands(Machine):
    """Each block stands at a place, which may lie behind the last one."""

    at = Map(Block, to=Place)
    here = Count(Block, by=Place, where=lambda m, b, p: m.at[b] == p)

    @action("X")
    def move(self, b: Block, n: Int) -> None:
        self.require((n >= 0) & (self.at[b] != n))
        self.at[b] = n


@false("one_more")
class CountedBehindTheLast(Stands):
    """There nothing is counted; proofs carried a count there from write to write, as anywhere."""

    @step("X", of="move")
    def one_more(self, before: CountedBehindTheLast, n: Int) -> Bool:
        return self.here[n] == before.here[n] + 1


@true
class CountedUpToTheLast(Stands):
    @step("X", of="move")
    def one_more(self, before: CountedUpToTheLast, n: Int) -> Bool:
        return self.here[n] == ite(Place.has(n), before.here[n] + 1, 0)


@false("it_weighs_more")
class SummedBehindTheLast(Machine):
    """So it is with sums, with two keys, and where the action itself looks."""

    at = Map(Block, to=Place)
    load = Sum(Block, by=(Request, Place), of=lambda m, b, r, p: ite(m.at[b] == p, m.n[b, r], 0), to=Int)
    n = Map(Block, Request, to=Int)

    @action("X")
    def put(self, b: Block, r: Request, p: Int) -> Int:
        self.require((p >= 0) & (self.n[b, r] == 0) & (self.at[b] == p))
        before = self.load[r, p]
        self.n[b, r] = 1
        return self.load[r, p] - before

    @action("X")
    def move(self, b: Block) -> None:
        self.at[b] = self.at[b] + 1

    @step("X", of="put")
    def it_weighs_more(self, before: SummedBehindTheLast, result: Int) -> Bool:
        return result == 1
