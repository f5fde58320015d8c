"""Loops, and scratch state around them: what a round relies on has to hold before the first."""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Queue,
    Scalar,
    Sort,
    action,
    corollary,
    forall,
    iff,
    implies,
    invariant,
    none,
    optional,
    otherwise,
    step,
    when,
)

from .corpus import false, true


class Block(Sort):
    pass


class Place(Index):
    pass


@false("the_lamp_is_off")
class DirtyBeforeTheLoop(Machine):
    """The round is only safe while the scratch flag is down, and it is up when the loop begins."""

    dirty = Scalar(to=Bool, scratch=True)
    lamp = Scalar(to=Bool)

    @action("X")
    def act(self, n: Int) -> None:
        self.dirty.value = True
        with self.loop(n):
            self.lamp.value = True
        self.dirty.value = False

    @invariant("X")
    def the_lamp_is_off(self) -> Bool:
        return ~self.lamp.value

    @invariant("X")
    def never_dirty(self) -> Bool:
        return ~self.dirty.value


@true
class CleanBeforeTheLoop(Machine):
    """The flag goes up in a round and down again before its end, and no round touches the lamp."""

    dirty = Scalar(to=Bool, scratch=True)
    lamp = Scalar(to=Bool)
    turns = Scalar(to=Int)

    @action("X")
    def act(self, n: Int) -> None:
        with self.loop(n):
            self.dirty.value = True
            self.turns.value = self.turns.value + 1
            self.dirty.value = False

    @invariant("X")
    def the_lamp_is_off(self) -> Bool:
        return ~self.lamp.value

    @invariant("X")
    def never_dirty(self) -> Bool:
        return ~self.dirty.value


@false("nothing_is_marked")
class DirtyInOneBranch(Machine):
    """A branch before the loop raises the scratch mark of one block only."""

    wide = Scalar(to=Bool)
    mark = Map(Block, to=Bool, scratch=True)
    seen = Map(Block, to=Bool)

    @action("X")
    def widen(self) -> None:
        self.wide.value = ~self.wide.value

    @action("X")
    def act(self, b: Block) -> None:
        with when(self.wide.value):
            self.mark[b] = True
        with self.loop(2):
            self.seen[b] = self.mark[b]
        with when(self.wide.value):
            self.mark[b] = False

    @invariant("X")
    def nothing_is_marked(self, b: Block) -> Bool:
        return ~self.mark[b] & ~self.seen[b]


@false("the_total_is_even")
class DirtyBetweenTwoLoops(Machine):
    """The first loop begins clean; between the two the scratch number is changed."""

    half = Scalar(to=Int, scratch=True)
    total = Scalar(to=Int)

    @action("X")
    def act(self, n: Int) -> None:
        with self.loop(n):
            self.total.value = self.total.value + 2
        self.half.value = 1
        with self.loop(1):
            self.total.value = self.total.value + 1
        self.half.value = 0

    @invariant("X")
    def the_total_is_even(self) -> Bool:
        return (self.total.value + self.half.value) % 2 == 0


@true
class CleanBetweenTwoLoops(Machine):
    half = Scalar(to=Int, scratch=True)
    total = Scalar(to=Int)

    @action("X")
    def act(self, n: Int) -> None:
        with self.loop(n):
            self.total.value = self.total.value + 2
        with self.loop(1):
            self.half.value = 1
            self.total.value = self.total.value + 1
            self.total.value = self.total.value + self.half.value
            self.half.value = 0

    @invariant("X")
    def the_total_is_even(self) -> Bool:
        return (self.total.value + self.half.value) % 2 == 0

    @invariant("X")
    def half_rests(self) -> Bool:
        return self.half.value == 0


@false("marked_means_busy")
class DirtyByEach(Machine):
    """All marks are raised at once before the loop, and rounds only look at the counted number of them."""

    mark = Map(Block, to=Bool, scratch=True)
    busy = Map(Block, to=Bool)
    marked = Count(Block, where=lambda m, b: m.mark[b])
    most = Scalar(to=Int)

    @action("X")
    def act(self, c: Block) -> None:
        with self.each(Block) as b:
            self.mark[b] = True
        with self.loop(1):
            self.most.value = self.marked.value
        with self.each(Block) as b:
            self.mark[b] = False

    @invariant("X")
    def marked_means_busy(self, b: Block) -> Bool:
        return implies(self.mark[b], self.busy[b]) & (self.most.value == 0)

    @invariant("X")
    def none_is_marked(self) -> Bool:
        return self.marked.value == 0


@false("(act)")
class EachBetweenRounds(Machine):
    """An `each` in a round puts scratch back, but for the last round there is a write behind it."""

    pen = Map(Block, to=Int, scratch=True)
    sum = Scalar(to=Int)

    @action("X")
    def act(self, c: Block) -> None:
        self.pen[c] = 0
        with self.loop(3) as loop:
            self.sum.value = loop.index // self.pen[c]
            with self.each(Block) as b:
                self.pen[b] = 0
            self.pen[c] = 1
        self.pen[c] = 0

    @invariant("X")
    def the_sum_is_natural(self) -> Bool:
        return self.sum.value >= 0


@false("as_many_as_asked")
class NegativeRounds(Machine):
    """A loop of fewer than no rounds has none."""

    done = Scalar(to=Int)

    @action("X")
    def act(self, n: Int) -> None:
        with self.loop(n) as loop:
            self.done.value = 0
        self.done.value = loop.rounds

    @step("X", of="act")
    def as_many_as_asked(self, before: NegativeRounds, n: Int) -> Bool:
        return self.done.value == n


@true
class NaturalRounds(Machine):
    done = Scalar(to=Int)

    @action("X")
    def act(self, n: Int) -> None:
        self.require(n >= 0)
        with self.loop(n) as loop:
            self.done.value = 0
        self.done.value = loop.rounds

    @step("X", of="act")
    def as_many_as_asked(self, before: NaturalRounds, n: Int) -> Bool:
        return self.done.value == n


@false("it_goes_all_the_way")
class StopsEarly(Machine):
    """`going` may end the loop before its count does."""

    left = Scalar(to=Int)

    @action("X")
    def fill(self, n: Int) -> None:
        self.require(n >= 0)
        self.left.value = n

    @action("X")
    def act(self) -> None:
        with self.loop(3, going=lambda i: self.left.value > 0):
            self.left.value = self.left.value - 1

    @step("X", of="act")
    def it_goes_all_the_way(self, before: StopsEarly) -> Bool:
        return self.left.value == before.left.value - 3


@true
class StopsInTime(Machine):
    left = Scalar(to=Int)

    @action("X")
    def fill(self, n: Int) -> None:
        self.require(n >= 0)
        self.left.value = n

    @action("X")
    def act(self) -> None:
        count = self.left.value
        with self.loop(count, going=lambda i: self.left.value > 0, facts=self._facts):
            self.left.value = self.left.value - 1

    def _facts(self, done: Index, entry: StopsInTime) -> dict[str, Bool]:
        return {"each round takes one": self.left.value == entry.left.value - done}

    @invariant("X")
    def never_below_zero(self) -> Bool:
        return self.left.value >= 0

    @step("X", of="act")
    def it_goes_all_the_way(self, before: StopsInTime) -> Bool:
        return self.left.value == 0


@false("only_one_row_changes")
class TheRowMoves(Machine):
    """Rounds write in the row that they have just read, which is another one each time."""

    row = Scalar(to=Place)
    table = Map(Place, Block, to=Bool)

    @action("X")
    def act(self, b: Block) -> None:
        with self.loop(2) as loop:
            self.row.value = loop.index
            self.table[self.row.value, b] = True

    @step("X", of="act")
    def only_one_row_changes(self, before: TheRowMoves, i: Place, c: Block) -> Bool:
        return implies(i != before.row.value, self.table[i, c] == before.table[i, c])


@true
class TheRowStays(Machine):
    row = Scalar(to=Place)
    table = Map(Place, Block, to=Bool)

    @action("X")
    def act(self, b: Block) -> None:
        row = self.row.value
        with self.loop(2):
            self.table[row, b] = True

    @step("X", of="act")
    def only_one_row_changes(self, before: TheRowStays, i: Place, c: Block) -> Bool:
        return implies(i != before.row.value, self.table[i, c] == before.table[i, c])


@false("the_fact_holds")
class FactOfTheEntry(Machine):
    """What a fact calls the entry is the state before the first round, and not that before the action."""

    x = Scalar(to=Int)

    @action("X")
    def act(self) -> None:
        self.x.value = self.x.value + 5
        with self.loop(2, facts=lambda i, entry: {"nothing moves": self.x.value == entry.x.value}):
            self.x.value = self.x.value + 0

    @step("X", of="act")
    def the_fact_holds(self, before: FactOfTheEntry) -> Bool:
        return self.x.value == before.x.value


@false("the_other_way_round")
class QueueFromFrontToFront(Machine):
    """Taking each head to the front of another queue turns the order round."""

    a = Queue(Block, init=True)
    b = Queue(Block)

    @action("X")
    def act(self) -> None:
        with self.loop(2, going=lambda i: ~self.a.is_empty()):
            x = self.a.head()
            self.a.remove(x)
            self.b.push_front(x)

    @action("X")
    def empty(self, x: Block) -> None:
        self.require(self.b.has(x))
        self.b.remove(x)

    @invariant("X")
    def nobody_is_in_both(self, x: Block) -> Bool:
        return ~(self.a.has(x) & self.b.has(x))

    @step("X", of="act")
    def the_other_way_round(self, before: QueueFromFrontToFront, x: Block, y: Block) -> Bool:
        return implies(before.a.before(x, y) & self.b.has(x) & self.b.has(y), self.b.before(x, y))


@true
class QueueToTheBack(Machine):
    a = Queue(Block, init=True)
    b = Queue(Block)

    @action("X")
    def act(self) -> None:
        with self.loop(2, going=lambda i: ~self.a.is_empty()):
            x = self.a.head()
            self.a.remove(x)
            self.b.push_back(x)

    @invariant("X")
    def everybody_is_in_one(self, x: Block) -> Bool:
        return iff(self.a.has(x), ~self.b.has(x))


@false("(act)")
class BothWaysOfABranch(Machine):
    """What is read between `when` and `otherwise` is read after the first branch ran."""

    m = Map(Block, to=optional(Block))
    n = Map(Block, to=Int)

    @action("X")
    def act(self, b: Block) -> None:
        with when(self.n[b] == 0):
            self.m[b] = b
        held = self.m[b]
        with otherwise():
            self.n[held] = 0
        self.n[b] = self.n[b] + 1
        self.m[b] = self.m[held]
        self.m[self.m[b]] = b

    @action("X")
    def clear(self, b: Block) -> None:
        self.n[b] = 2

    @invariant("X")
    def all_are_natural(self) -> Bool:
        return forall(Block, lambda b: self.n[b] >= 0)


@false("rest_is_free")
class CorollaryInTheMiddle(Machine):
    """A corollary may rely on scratch at rest, and what it says of the map is false."""

    s = Map(Block, to=Int, scratch=True)
    m = Map(Block, to=Int)

    @action("X")
    def act(self, b: Block) -> None:
        with self.loop(1):
            self.s[b] = 4
            self.m[b] = self.s[b]
            self.s[b] = 0

    @invariant("X")
    def at_most_four(self, b: Block) -> Bool:
        return self.m[b] <= 4

    @corollary("X")
    def rest_is_free(self, b: Block) -> Bool:
        return (self.m[b] == 0) & (self.s[b] == 0)


@true
class ThreeRounds(Machine):
    lamp = Scalar(to=Bool)
    done = Scalar(to=Int)

    @action("X")
    def act(self) -> None:
        with self.loop(3) as loop:
            self.lamp.value = ~self.lamp.value
        self.done.value = loop.rounds

    @step("X", of="act")
    def three(self, before: ThreeRounds) -> Bool:
        return self.done.value == 3


@true
class ReadsWhileItGoesOn(Machine):
    """What is held is looked at before the one round, and not after it: then nothing is held."""

    held = Scalar(to=optional(Block))
    number = Map(Block, to=Int)

    @action("X")
    def act(self, b: Block) -> None:
        self.held.value = b
        with self.loop(1, going=self._is_zero, facts=self._facts):
            self.held.value = none

    def _is_zero(self, index: Index) -> Bool:
        return self.number[self.held.value] == 0

    def _facts(self, done: Index, entry: ReadsWhileItGoesOn) -> dict[str, Bool]:
        return {"held at first": implies(done == 0, self.held.value != none)}

    @invariant("X")
    def all_are_zero(self, b: Block) -> Bool:
        return self.number[b] == 0
