"""Queues: members once, at their place, and nothing taken that is not there."""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Index,
    Int,
    Machine,
    Map,
    Queue,
    Scalar,
    Sort,
    action,
    corollary,
    iff,
    implies,
    invariant,
    step,
)

from .corpus import false, true


class Block(Sort):
    pass


class Node(Block, extra=("ONE", "TWO")):
    """A block, or one of two more."""


class Place(Index):
    """Numbers in line."""


class Request(Sort):
    pass


class Base(Machine):
    q = Queue(Block)
    line = Queue(Block, by=Request)
    n = Map(Block, to=Int)
    x = Scalar(to=Int)


@false("(put)")
class PushedAgain(Base):
    @action("X")
    def put(self, b: Block) -> None:
        self.q.push_back(b)

    @step("X", of="put")
    def one_more(self, before: PushedAgain, b: Block) -> Bool:
        return self.q.has(b)


@false("(take)")
class RemovedThoughAbsent(Base):
    @action("X")
    def take(self, b: Block) -> None:
        self.q.remove(b)

    @step("X", of="take")
    def gone(self, before: RemovedThoughAbsent, b: Block) -> Bool:
        return ~self.q.has(b)


@false("(put)")
class BehindSomebodyAbsent(Base):
    @action("X")
    def put(self, a: Block, b: Block) -> None:
        self.require(~self.q.has(b))
        self.q.push_before(a, b)

    @step("X", of="put")
    def before_it(self, before: BehindSomebodyAbsent, a: Block, b: Block) -> Bool:
        return self.q.has(b)


@true
class BehindSomebody(Base):
    @action("X")
    def first(self, b: Block) -> None:
        self.require(self.q.is_empty())
        self.q.push_front(b)

    @action("X")
    def put(self, a: Block, b: Block) -> None:
        self.require(self.q.has(a) & ~self.q.has(b))
        self.q.push_before(a, b)

    @step("X", of="put")
    def right_before_it(self, before: BehindSomebody, a: Block, b: Block, c: Block) -> Bool:
        return self.q.before(b, a) & implies(before.q.before(c, a), self.q.before(c, b))


@false("at_the_very_front")
class BeforeIsNotFirst(Base):
    @action("X")
    def first(self, b: Block) -> None:
        self.require(~self.q.has(b))
        self.q.push_front(b)

    @action("X")
    def put(self, a: Block, b: Block) -> None:
        self.require(self.q.has(a) & ~self.q.has(b))
        self.q.push_before(a, b)

    @step("X", of="put")
    def at_the_very_front(self, before: BeforeIsNotFirst, a: Block, b: Block) -> Bool:
        return self.q.is_first(b)


@false("order_is_kept")
class ToTheOtherEnd(Base):
    @action("X")
    def put(self, b: Block) -> None:
        self.require(~self.q.has(b))
        self.q.push_back(b)

    @action("X")
    def turn(self) -> None:
        self.require(~self.q.is_empty())
        b = self.q.head()
        self.q.remove(b)
        self.q.push_back(b)

    @step("X", of="turn")
    def order_is_kept(self, before: ToTheOtherEnd, a: Block, b: Block) -> Bool:
        return implies(before.q.before(a, b), self.q.before(a, b))


@true
class ToTheOtherEndButOne(Base):
    @action("X")
    def put(self, b: Block) -> None:
        self.require(~self.q.has(b))
        self.q.push_back(b)

    @action("X")
    def turn(self) -> None:
        self.require(~self.q.is_empty())
        b = self.q.head()
        self.q.remove(b)
        self.q.push_back(b)

    @step("X", of="turn")
    def order_is_kept(self, before: ToTheOtherEndButOne, a: Block, b: Block) -> Bool:
        return implies(before.q.before(a, b) & (a != before.q.head()), self.q.before(a, b))


@false("lines_are_apart")
class TwoLines(Base):
    """One block in two lines: nothing says that there is one line only."""

    @action("X")
    def put(self, r: Request, b: Block) -> None:
        self.require(~self.line[r].has(b))
        self.line[r].push_back(b)

    @invariant("X")
    def lines_are_apart(self, r: Request, s: Request, b: Block) -> Bool:
        return implies(self.line[r].has(b) & self.line[s].has(b), r == s)


@false("sizes_are_one_less")
class SizeOfTheOther(Base):
    @action("X")
    def put(self, r: Request, b: Block) -> None:
        self.require(~self.line[r].has(b))
        self.line[r].push_back(b)

    @action("X")
    def move(self, r: Request, s: Request, b: Block) -> None:
        self.require(self.line[r].has(b) & (~self.line[s].has(b) | (r == s)))
        self.line[r].remove(b)
        self.line[s].push_back(b)

    @step("X", of="move")
    def sizes_are_one_less(self, before: SizeOfTheOther, r: Request, s: Request, b: Block) -> Bool:
        return self.line[r].size == before.line[r].size - 1


@true
class SizeOfBoth(Base):
    @action("X")
    def put(self, r: Request, b: Block) -> None:
        self.require(~self.line[r].has(b))
        self.line[r].push_back(b)

    @action("X")
    def move(self, r: Request, s: Request, b: Block) -> None:
        self.require(self.line[r].has(b) & ~self.line[s].has(b))
        self.line[r].remove(b)
        self.line[s].push_back(b)

    @step("X", of="move")
    def sizes(self, before: SizeOfBoth, r: Request, s: Request, b: Block) -> Bool:
        return (self.line[r].size == before.line[r].size - 1) & (self.line[s].size == before.line[s].size + 1)


@false("the_first_is_always_there")
class HeadInACorollary(Base):
    @action("X")
    def put(self, b: Block) -> None:
        self.require(~self.q.has(b))
        self.q.push_back(b)

    @corollary("X")
    def the_first_is_always_there(self) -> Bool:
        return self.q.has(self.q.head())

    @invariant("X")
    def nothing(self, b: Block) -> Bool:
        return self.n[b] == 0


@false("sorted_at_first")
class DescendingAtFirst(Machine):
    """All stand in line at first: nobody knows that the head is a certain one."""

    q = Queue(Block, init=True)
    n = Map(Block, to=Int)

    @action("X")
    def skip(self) -> None:
        self.require(~self.q.is_empty())
        self.q.remove(self.q.tail())

    @step("X", of="skip")
    def sorted_at_first(self, before: DescendingAtFirst, b: Block) -> Bool:
        return self.q.has(b) == before.q.has(b)


class Places(Machine):
    """Some places stand in line at first, of each request; from there they only leave."""

    line = Queue(Place, by=Request, init=lambda m, r, p: p > 0)

    @action("X")
    def leave(self, r: Request, p: Place) -> None:
        self.require(self.line[r].has(p))
        self.line[r].remove(p)


@true
class AscendingAtFirst(Places):
    """This was refuted, by a first state in another order than that in which a machine begins."""

    @invariant("X")
    def ascending(self, r: Request, p: Place, q: Place) -> Bool:
        return implies(self.line[r].before(p, q), p < q)


@false("descending")
class NotDescendingAtFirst(Places):
    @invariant("X")
    def descending(self, r: Request, p: Place, q: Place) -> Bool:
        return implies(self.line[r].before(p, q), p > q)


class Named(Machine):
    """Extra elements stand behind all others at first."""

    line = Queue(Node, init=True)
    n = Map(Block, to=Int)

    @action("X")
    def skip(self, b: Block) -> None:
        self.n[b] = 1


@true
class NamedOnesLast(Named):
    @invariant("X")
    def two_is_last(self, n: Node) -> Bool:
        one, two = Node.named("ONE"), Node.named("TWO")
        return implies(n != two, self.line.before(n, two)) & implies((n != one) & (n != two), self.line.before(n, one))


@false("one_is_first")
class NamedOnesFirst(Named):
    @invariant("X")
    def one_is_first(self) -> Bool:
        return self.line.is_first(Node.named("ONE"))


@false("the_first_goes_last")
class TwoKeys(Machine):
    """A queue for each two elements; of one member the first is the last."""

    line = Queue(Block, by=(Request, Bool), init=lambda m, r, f, b: f)

    @action("X")
    def turn(self, r: Request, f: Bool) -> None:
        self.require(~self.line[r, f].is_empty())
        first = self.line[r, f].head()
        self.line[r, f].remove(first)
        self.line[r, f].push_back(first)

    @step("X", of="turn")
    def the_first_goes_last(self, before: TwoKeys, r: Request, f: Bool) -> Bool:
        return ~self.line[r, f].is_first(before.line[r, f].head())


@true
class TwoKeysApart(TwoKeys):
    @step("X", of="turn")
    def the_first_goes_last(self, before: TwoKeys, r: Request, f: Bool) -> Bool:
        return self.line[r, f].tail() == before.line[r, f].head()

    @step("X", of="turn")
    def no_other_line_moves(self, before: TwoKeys, r: Request, f: Bool, q: Request, g: Bool, b: Block) -> Bool:
        return implies((q != r) | (g != f), iff(self.line[q, g].is_first(b), before.line[q, g].is_first(b)))
