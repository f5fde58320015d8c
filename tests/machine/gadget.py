"""A made-up machine without any sense, which uses every feature of the modelling language."""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Count,
    Event,
    Index,
    Int,
    Machine,
    Map,
    Model,
    Param,
    Queue,
    Scalar,
    Sort,
    Sum,
    Tally,
    action,
    can,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)
from kvproof.machine.scope import Scope


class Item(Sort):
    pass


class Node(Item, extra=("HEAD", "TAIL")):
    pass


class Box(Sort):
    pass


class Place(Index):
    pass


class Gadget(Machine):
    """Items in boxes."""

    favourite = Param(to=optional(Item))
    weight = Param(Item, to=Int)
    is_odd = Param(to=Bool)

    line = Queue(Item, init=lambda m, i: m.weight[i] > 0)
    within = Queue(Item, by=Box)
    chain = Queue(Node, by=(Box, Item), init=lambda m, b, i, n: n == Node.named("HEAD"))
    home = Map(Item, to=optional(Box))
    link = Map(Node, to=Node, init=lambda m, n: Node.named("TAIL"))
    shelf = Map(Box, Place, to=optional(Item))
    used = Map(Item, Box, to=Bool)
    level = Map(Box, to=Int)
    cursor = Scalar(to=optional(Item))
    stage = Scalar(to=Place)
    busy = Scalar(to=Bool, init=True)
    spare = Scalar(to=Int, scratch=True)
    moved = Tally()

    known = Map(Item, to=optional(Box))
    told = Event(Item, optional(Box), heard=lambda m, i, b: m.hear(i, b))

    housed = Count(Item, by=Box, where=lambda m, i, b: m.home[i] == b)
    heavy = Count(Item, where=lambda m, i: m.weight[i] > 1)
    pairs = Count((Item, Box), where=lambda m, i, b: m.used[i, b] | m.within[b].has(i))
    load = Sum(Item, by=Box, of=lambda m, i, b: ite(m.home[i] == b, m.weight[i], 0) - 1, to=Int)
    filled = Sum(Box, of=lambda m, b: m.level[b], to=Int)

    def hear(self, i: Item, b: Box) -> None:
        with when(self.known[i] == b):
            self.known[i] = none
        with otherwise():
            self.known[i] = b

    @action("1")
    def store(self, b: Box) -> None:
        self.require(~self.line.is_empty())
        i = self.line.tail()
        self.require(self.home[i] == none)
        self.require(~self.within[b].has(i))
        self.line.remove(i)
        self.home[i] = b
        self.level[b] = self.level[b] + self.weight[i]
        with when(self.within[b].is_empty()):
            self.within[b].push_back(i)
        with otherwise():
            first = self.within[b].head()
            self.within[b].push_before(first, i)
            with when(self.weight[first] > self.weight[i]):
                self.used[first, b] = ~self.used[first, b]
        self.moved.add(1)
        self.told(i, self.home[i])

    @action("2")
    def drain(self, i: Item, n: Int) -> Int:
        self.require(self.home[i] != none)
        self.require(n >= 1)
        b = self.home[i]
        with self.loop(
            n, going=lambda k: ~self.within[b].is_empty() & (self.weight[self.within[b].head()] <= self.level[b])
        ) as loop:
            x = self.within[b].head()
            self.within[b].remove(x)
            self.home[x] = none
            self.spare.value = self.spare.value + 1
            with when(~self.line.has(x)):
                self.line.push_front(x)
            self.shelf[b, loop.index] = x
            self.moved.add(loop.index)
        self.level[b] = ite(self.spare.value > 1, 0, self.level[b])
        self.spare.value = 0
        return loop.rounds

    @action("3")
    def sweep(self) -> None:
        self.require(self.busy.value | self.is_odd.value)
        with self.each(Item, Box) as (i, b), when(self.used[i, b] & (self.home[i] != b)):
            self.used[i, b] = False
            with when(self.within[b].has(i)):
                self.within[b].remove(i)
        with self.each(Item) as i:
            self.home[i] = ite(self.home[i] == none, none, self.home[i])
        self.busy.value = exists(Item, Box, lambda i, b: self.used[i, b])

    @action("4")
    def tie(self, n: Node, b: Box, p: Place) -> None:
        self.require(implies(self.cursor.value != none, self.link[n] != n))
        at = self.link[n]
        self.link[at] = ite(self.shelf[b, p] == none, n, Node.named("HEAD"))
        item = self.shelf[b, p]
        with when(item != none):
            member = self.chain[b, item].has(n)
            with when(member):
                self.chain[b, item].remove(n)
            with otherwise():
                with when(self.chain[b, item].is_empty()):
                    self.chain[b, item].push_front(n)
                with otherwise():
                    self.chain[b, item].push_before(self.chain[b, item].tail(), n)
        self.shelf[b, p] = self.cursor.value
        self.stage.value = p

    @action("5")
    def aim(self, i: Item) -> None:
        self.require(self.line.is_first(i) | (self.favourite.value == i))
        old = self.level[self.home[i]]
        self.cursor.value = ite(old == self.housed[self.home[i]], i, none)
        self.used[i, self.home[i]] = True
        self.shelf[self.home[i], old - 1] = i
        self.busy.value = self.busy.value & ~self.busy.value | (self.pairs.value > self.heavy.value)

    @action("6")
    def careless(self, i: Item, b: Box) -> None:
        self.require(self.level[b] < 2)
        self.within[b].push_back(i)
        self.line.remove(i)
        self.level[b] = self.level[b] - 1

    @action("7")
    def swap(self, a: Item, b: Item) -> None:
        self.require(self.line.before(a, b))
        self.line.remove(b)
        self.line.push_before(a, b)
        self.moved.add(2)

    @invariant("1")
    def levels_are_small(self, b: Box) -> Bool:
        return self.level[b] <= self.heavy.value + self.within[b].size

    @invariant("1")
    def loads_are_small(self, i: Item, b: Box) -> Bool:
        return implies(self.home[i] == b, self.load[b] < self.level[b] + 1) & (
            self.filled.value > self.load[self.home[i]]
        )

    @invariant("2")
    def homes_are_known(self, i: Item, b: Box) -> Bool:
        return iff(self.home[i] == b, self.within[b].has(i)) & (self.housed[b] <= self.within[b].size)

    @invariant("3")
    def the_first_is_light(self) -> Bool:
        return implies(~self.line.is_empty(), self.weight[self.line.head()] <= self.weight[self.line.tail()])

    @invariant("4")
    def ends_are_linked(self, n: Node) -> Bool:
        return (self.link[n] != Node.named("HEAD")) | exists(
            Box, Place, lambda b, p: (self.shelf[b, p] != none) & can(self.tie, n, b, p)
        )

    @step("1", of="swap")
    def swapping_swaps(self, before: Gadget, a: Item, b: Item) -> Bool:
        return self.line.before(b, a) & before.line.before(a, b) & (self.line.size == before.line.size)

    @step("2")
    def order_is_kept(self, before: Gadget, i: Item, j: Item) -> Bool:
        return implies(before.line.before(i, j) & self.line.has(i), ~self.line.before(j, i))

    @step("3")
    def little_is_moved(self, before: Gadget, b: Box) -> Bool:
        return (self.moved.total - before.moved.total <= 1) | (self.housed[b] != before.housed[b]) & forall(
            Item, lambda i: before.weight[i] == self.weight[i]
        )

    @sometimes("1")
    def all_stored(self) -> Bool:
        return self.line.is_empty()


def scope(*, is_odd: bool = False, favourite: int | None = 1) -> Scope:
    """Three items in two boxes."""
    sizes = {"Item": 3, "Box": 2, "Place": 2, "Int": 3}
    return Scope(Model.of(Gadget), sizes, {"favourite": favourite, "weight": [0, 1, 2], "is_odd": is_odd})
