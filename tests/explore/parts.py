"""Small machines, each about one part of the modelling language, for translations of it. None of them has any sense.

All of them are well-formed in their scope, and have no more than some thousand states.
"""

from __future__ import annotations

from fractions import Fraction

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
    Real,
    Scalar,
    Sort,
    Sum,
    Tally,
    action,
    all_of,
    any_of,
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


class Mark(Index):
    pass


HEAD, TAIL = Node.named("HEAD"), Node.named("TAIL")


class Queues(Machine):
    """Orders: three ways in, one way out, and everything that can be asked of them."""

    line = Queue(Item, init=True)
    ring = Queue(Node, by=Box, init=lambda m, b, n: n == HEAD)
    last = Scalar(to=optional(Node))

    @action("back")
    def to_the_back(self, i: Item) -> None:
        self.require(self.line.is_first(i))
        self.line.remove(i)
        self.line.push_back(i)

    @action("front")
    def to_the_front(self) -> None:
        self.require(~self.line.is_empty())
        i = self.line.tail()
        self.line.remove(i)
        self.line.push_front(i)

    @action("before")
    def overtake(self, a: Item, b: Item) -> None:
        self.require(self.line.before(a, b))
        self.line.remove(b)
        self.line.push_before(a, b)

    @action("in")
    def enter(self, b: Box, n: Node) -> None:
        self.require(~self.ring[b].has(n))
        self.require(self.ring[b].size < 3)
        with when(self.ring[b].is_empty()):
            self.ring[b].push_back(n)
        with otherwise():
            with when(self.last.value == n):
                self.ring[b].push_front(n)
            with otherwise():
                self.ring[b].push_before(self.ring[b].tail(), n)
        self.last.value = n

    @action("out")
    def leave(self, b: Box) -> None:
        self.require(self.ring[b].size > 1)
        n = ite(self.last.value == HEAD, self.ring[b].head(), self.ring[b].tail())
        self.ring[b].remove(n)
        with when((n == HEAD) | (n == TAIL)):
            self.last.value = none

    @invariant("1")
    def nobody_is_lost(self, i: Item, j: Item) -> Bool:
        return self.line.has(i) & iff(self.line.before(i, j), (i != j) & ~self.line.before(j, i))

    @invariant("2")
    def a_ring_has_ends(self, b: Box) -> Bool:
        ends = self.ring[b].has(self.ring[b].head()) & self.ring[b].has(self.ring[b].tail())
        return ends & (self.ring[b].size >= 1) & (self.ring[b].size <= 3)

    @step("3")
    def who_stays_stays_in_order(self, before: Queues, b: Box, m: Node, n: Node) -> Bool:
        both = self.ring[b].has(m) & self.ring[b].has(n)
        return implies(before.ring[b].before(m, n) & both, self.ring[b].before(m, n))

    @step("4", of="overtake")
    def overtaking_overtakes(self, before: Queues, a: Item, b: Item) -> Bool:
        return self.line.before(b, a) & before.line.before(a, b) & (self.line.size == before.line.size)

    @sometimes("5")
    def a_ring_is_full(self, b: Box) -> Bool:
        return self.ring[b].size == 3


class Loops(Machine):
    """Rounds: as many as the state says, as long as something holds, and what they leave behind."""

    weight = Param(Item, to=Int)
    line = Queue(Item, init=True)
    shelf = Map(Place, to=optional(Item))
    filled = Scalar(to=Int)
    rounds = Scalar(to=Int)
    marked = Map(Item, to=Bool)
    found = Map(Item, to=Bool, scratch=True)
    sum = Scalar(to=Int, scratch=True, init=2)
    passed = Tally()
    unseen = Tally(Item)

    load = Sum(Place, of=lambda m, p: ite(m.shelf[p] == none, 0, m.weight[m.shelf[p]]), to=Int)

    @action("1")
    def fill(self, n: Int) -> Int:
        self.require(self.filled.value + n <= 3)
        with self.loop(n, going=lambda i: ~self.line.is_empty() & (self.load.value + i < 4)) as loop:
            i = self.line.head()
            self.line.remove(i)
            self.shelf[self.filled.value] = i
            self.filled.value = self.filled.value + 1
            self.marked[i] = (loop.index == 1) | ~self.marked[i]
            self.passed.add(loop.index + 1)
            self.unseen.add(1, i)
        self.rounds.value = loop.rounds
        return loop.rounds

    @action("2")
    def clear(self) -> None:
        self.require(self.filled.value > 0)
        with self.loop(self.filled.value) as loop:
            last = self.filled.value - 1
            i = self.shelf[last]
            self.shelf[last] = none
            self.filled.value = last
            self.found[i] = True
            self.sum.value = self.sum.value + self.weight[i] * 2 - loop.index
        with self.loop(2, going=lambda k: self.sum.value > k) as twice:
            self.sum.value = self.sum.value - 3
        with self.each(Item) as i, when(self.found[i]):
            self.found[i] = False
            self.marked[i] = self.marked[i] & (self.sum.value > 0)
        self.rounds.value = twice.rounds
        self.sum.value = 2

    @action("3")
    def come_back(self, i: Item) -> None:
        self.require(~self.line.has(i))
        self.require(forall(Place, lambda p: self.shelf[p] != i))
        self.line.push_back(i)

    @invariant("1")
    def the_shelf_is_filled_from_the_left(self, p: Place) -> Bool:
        return iff(self.shelf[p] != none, p < self.filled.value) & (self.load.value <= 6)

    @step("2", of="fill")
    def no_more_rounds_than_asked(self, before: Loops, n: Int) -> Bool:
        grown = self.filled.value - before.filled.value
        passed = self.passed.total - before.passed.total
        return all_of(
            self.rounds.value <= n,
            grown == self.rounds.value,
            passed == ite(grown == 0, 0, ite(grown == 1, 1, ite(grown == 2, 3, 6))),
        )


class Rounds(Machine):
    """What is done for each element, or each pair, and what each round reads of its own."""

    used = Map(Item, Box, to=Bool)
    home = Map(Item, to=optional(Box))
    guests = Queue(Item, by=Box)
    flags = Map(Bool, to=Bool)
    level = Map(Box, to=Int)

    @action("1")
    def settle(self, i: Item, b: Box) -> None:
        self.require(self.home[i] == none)
        self.home[i] = b
        self.guests[b].push_front(i)
        self.used[i, b] = True

    @action("2")
    def sweep(self, which: Bool) -> None:
        with self.each(Item, Box) as (i, b), when(self.used[i, b] & (iff(which, self.home[i] == b))):
            self.used[i, b] = False
        with self.each(Bool) as f:
            self.flags[f] = iff(f, which) | self.flags[f]

    @action("3")
    def leave(self, keep: Box) -> None:
        with self.each(Box, Item) as (b, i), when((b != keep) & self.guests[b].has(i)):
            self.guests[b].remove(i)
            self.used[i, b] = ~self.used[i, b]
        with self.each(Item) as i:
            self.home[i] = ite(self.home[i] == keep, keep, none)
        with self.each(Box) as b:
            self.level[b] = ite(b == keep, self.level[b], (self.level[b] + 1) % 3)

    @invariant("1")
    def guests_are_at_home(self, i: Item, b: Box) -> Bool:
        return iff(self.guests[b].has(i), self.home[i] == b)

    @step("2", of=("sweep", "leave"))
    def who_stays_was_there(self, before: Rounds, i: Item) -> Bool:
        return implies(self.home[i] != none, before.home[i] == self.home[i])

    @step("3")
    def levels_turn(self, before: Rounds, b: Box) -> Bool:
        return (self.level[b] == before.level[b]) | (self.level[b] == (before.level[b] + 1) % 3)


class Keys(Machine):
    """Places that may not be there: none, numbers beyond the scope, elements that a wider sort has more."""

    start = Param(to=optional(Place))
    first_box = Param(to=Box)
    table = Param(Item, Place, to=optional(Item))
    link = Map(Node, to=Node, init=lambda m, n: ite(n == HEAD, TAIL, HEAD))
    back = Map(Node, to=optional(Node))
    shelf = Map(Box, Place, to=optional(Item))
    by_number = Map(Mark, to=Bool)
    by_flag = Map(Bool, to=Int)
    home = Map(Item, to=Box, init=lambda m, i: m.first_box.value)
    stage = Scalar(to=Place)
    cursor = Scalar(to=optional(Place), init=lambda m: m.start.value)
    guest = Scalar(to=optional(Item))

    @action("1")
    def tie(self, n: Node) -> None:
        self.require(self.link[n] != n)
        at = self.link[n]
        self.back[at] = ite(self.back[n] == none, n, none)
        self.link[at] = ite((n == TAIL) | (at == TAIL), HEAD, n)

    @action("2")
    def put(self, b: Box, k: Int) -> None:
        self.require(self.shelf[b, k] == none)
        self.require(self.shelf[b, k - 1] == self.guest.value)
        self.require(k < 2)
        self.shelf[b, k] = self.table[self.guest.value, k]
        self.by_number[k + 1] = self.by_number[k + 7] | ~self.by_number[k]
        self.stage.value = 1 - k

    @action("3")
    def point(self, p: Place) -> None:
        self.require(self.cursor.value != p)
        self.cursor.value = ite(self.cursor.value == self.stage.value, none, p)
        self.by_flag[self.cursor.value == none] = ite(self.by_flag[False] > 1, 0, self.by_flag[False] + 1)

    @action("4")
    def invite(self, i: Item) -> None:
        self.require(self.shelf[self.home[i], self.cursor.value] == none)
        self.guest.value = ite(self.guest.value == i, none, i)

    @invariant("1")
    def links_lead_somewhere(self, n: Node) -> Bool:
        return (self.link[n] == HEAD) | (self.link[n] == TAIL) | exists(Item, lambda i: self.link[n] == i)

    @invariant("2")
    def what_is_not_there_is_none(self, b: Box, p: Place) -> Bool:
        return all_of(
            self.shelf[b, p + 2] == none,
            ~self.by_number[p - 3],
            self.table[self.guest.value, p + 2] == none,
        )

    @step("3", of="put")
    def only_one_place_is_filled(self, before: Keys, b: Box, k: Int, p: Place) -> Bool:
        return (p == k) | (self.shelf[b, p] == before.shelf[b, p])


class Sums(Machine):
    """Counts and sums, of pairs, by keys that may be none, of parameters alone, with what counts as nothing."""

    weight = Param(Item, to=Int)
    home = Map(Item, to=optional(Box))
    used = Map(Item, Box, to=Bool)
    level = Map(Box, to=Int)

    housed = Count(Item, by=Box, where=lambda m, i, b: m.home[i] == b)
    pairs = Count((Item, Box), where=lambda m, i, b: m.used[i, b] | (m.weight[i] > 1))
    heavy = Count(Item, where=lambda m, i: m.weight[i] > 1)
    load = Sum(Item, by=Box, of=lambda m, i, b: ite(m.home[i] == b, m.weight[i], 0) - 1, to=Int)
    filled = Sum(Box, of=lambda m, b: m.level[b], to=Int)

    @action("1")
    def move(self, i: Item, b: Box) -> None:
        self.require(self.housed[b] < 2)
        self.require(self.load[self.home[i]] <= self.load[b] + 1)
        with when(self.home[i] != none):
            self.used[i, self.home[i]] = self.pairs.value > self.heavy.value

    @action("2")
    def settle(self, i: Item, b: Box) -> None:
        self.require(self.housed[self.home[i]] + self.load[b] <= self.heavy.value)
        self.home[i] = ite(self.home[i] == b, none, b)
        self.level[b] = self.housed[b]

    @action("3")
    def use(self, i: Item, b: Box) -> None:
        self.require(self.pairs.value + self.filled.value < 6)
        self.used[i, b] = ~self.used[i, b]

    @invariant("1")
    def levels_are_counted_once(self, b: Box) -> Bool:
        return (self.level[b] <= 3) & (self.filled.value >= self.level[b]) & (self.load[b] <= 1)

    @step("2")
    def counts_change_little(self, before: Sums, b: Box) -> Bool:
        d = self.housed[b] - before.housed[b]
        return (d <= 1) & (d >= 0 - 1) & (before.pairs.value - self.pairs.value <= 2)


class Numbers(Machine):
    """Numbers: below 0 on the way, divided, multiplied, compared with indices that may be none."""

    base = Param(to=Int)
    number = Map(Box, to=Int, init=1)
    seen = Map(Box, to=optional(Place))
    stage = Scalar(to=Place)
    debt = Scalar(to=Int, scratch=True)

    @action("1")
    def count_down(self, b: Box, n: Int) -> None:
        self.debt.value = self.number[b] - n * self.base.value
        self.number[b] = (self.debt.value // 3) % 4
        self.stage.value = (self.debt.value % 5) // 3
        self.debt.value = 0

    @action("2")
    def see(self, b: Box, p: Place) -> None:
        self.require(self.number[b] * self.base.value >= p * p)
        self.seen[b] = ite(self.number[b] % 2 == 0, none, p)

    @action("3")
    def copy(self, b: Box, c: Box) -> None:
        self.require(self.seen[b] != self.seen[c])
        self.require(self.seen[c] != self.number[c] - 2)
        self.seen[b] = self.seen[c]
        self.number[c] = ite(self.seen[b] == self.stage.value, 3 // (self.number[c] + 1), self.number[c] // 2)

    @action("4")
    def twice(self, b: Box) -> None:
        with when(self.number[b] <= 1):
            self.number[b] = self.number[b] * 2
            with when(self.number[b] == 2):
                self.stage.value = 1
        with otherwise():
            old = self.number[b]
            self.number[b] = old - 1
            with when(old > self.number[b] + 1):
                self.seen[b] = none
            with otherwise():
                self.seen[b] = 0

    @invariant("1")
    def division_is_division(self, b: Box) -> Bool:
        n, d = self.number[b] - 2, self.base.value
        return all_of((n // d) * d + n % d == n, n % d < d, n % d >= 0, iff(n // d < 0, n < 0))

    @invariant("2")
    def none_is_no_number(self, b: Box) -> Bool:
        return implies(self.seen[b] == self.number[b] - 1, self.seen[b] != none) & (self.number[b] <= 3)


class Exact(Machine):
    """Exact numbers, in units of 1/36."""

    rate = Param(Box, to=Real)
    first = Param(to=Box)
    level = Map(Box, to=Real, init=lambda m, b: m.rate[b] / 2)
    clock = Scalar(to=Real, init=Fraction(1, 2))
    number = Map(Box, to=Int, init=1)
    spilt = Scalar(to=Real, scratch=True)

    told = Event(Box)

    volume = Sum(Box, of=lambda m, b: m.level[b] - Fraction(1, 4), to=Real)
    full = Count(Box, where=lambda m, b: m.level[b] >= 1)

    @action("1")
    def pour(self, b: Box, n: Int) -> Real:
        self.require(self.level[b] + self.rate[b] * n < Fraction(3, 2))
        self.level[b] = self.level[b] + self.rate[b] * n
        self.told(b)
        return self.level[b] / 2

    @action("2")
    def level_out(self) -> None:
        self.require(self.volume.value > self.clock.value)
        with self.each(Box) as b, when(self.level[b] > self.clock.value):
            self.level[b] = self.clock.value / 2

    @action("3")
    def tick(self) -> None:
        self.require(self.clock.value * 3 < 5)
        self.clock.value = self.clock.value + Fraction(1, 3)
        with when(self.clock.value * self.clock.value > 1):
            self.clock.value = Fraction(1, 2)

    @action("4")
    def spill(self, n: Int) -> None:
        self.require((n <= 2) & (self.full.value < 2))
        with self.loop(n, going=lambda k: self.volume.value > k + self.spilt.value) as loop:
            self.spilt.value = self.spilt.value + Fraction(1, 2)
        b = self.first.value
        self.number[b] = loop.rounds + self.full.value
        self.level[b] = ite(self.spilt.value > 0, self.spilt.value / (loop.rounds + 1), 1)
        self.spilt.value = 0

    @invariant("1")
    def there_is_room(self, b: Box) -> Bool:
        return (self.level[b] < Fraction(5, 2)) & (self.volume.value >= self.level[b] - Fraction(1, 4))

    @step("2", of="pour")
    def pouring_adds(self, before: Exact, b: Box, n: Int) -> Bool:
        return self.level[b] - before.level[b] == n * self.rate[b]


class Answers(Machine):
    """What actions return, and whether there is an index of some number."""

    top = Scalar(to=Int)
    next = Scalar(to=Place)
    owner = Map(Place, to=optional(Box))
    level = Map(Box, to=Real)

    @action("1")
    def climb(self, n: Int) -> Int:
        self.require(Place.has(self.top.value - 1 + n))
        old = self.top.value
        self.top.value = old + n
        return old

    @action("2")
    def fall(self, p: Place) -> Int:
        self.require((self.top.value > 0) & ~Place.has(self.top.value * 2 - p))
        self.top.value = ite(Mark.has(self.top.value - 2 - p), self.top.value - 2, 0)
        return p

    @action("3")
    def take(self, p: Place, b: Box) -> Bool:
        was_free: Bool = self.owner[p] == none
        with when(was_free):
            self.owner[p] = b
        with otherwise():
            self.owner[p] = none
        with when(Place.has(p + 1) & Place.has(self.next.value + 1)):
            self.next.value = self.next.value + 1
        with otherwise():
            self.next.value = 0
        return was_free

    @action("4")
    def lift(self, b: Box) -> Real:
        self.require(Mark.has(self.top.value - 2))
        self.level[b] = ite(self.level[b] > 1, 0, self.level[b] + Fraction(1, 2))
        return self.level[b] / 2

    @action("5")
    def choose(self, b: Box, p: Place) -> Box:
        self.require(exists(Box, lambda c: self.owner[p] == c))
        self.owner[p] = b
        return b

    @invariant("1")
    def the_top_is_behind_an_index(self) -> Bool:
        return implies(self.top.value > 0, Place.has(self.top.value - 1)) & ~Place.has(0 - 1) & Mark.has(0)

    @step("2", of=("climb", "fall"))
    def it_says_where_it_was(self, before: Answers, result: Int) -> Bool:
        return any_of(result == before.top.value, (self.top.value < before.top.value) & Place.has(result))

    @step("3", of="take")
    def it_says_whether_it_was_free(self, before: Answers, p: Place, result: Bool) -> Bool:
        return all_of(iff(result, before.owner[p] == none), result | (self.owner[p] == none))

    @step("4", of="lift")
    def it_is_lifted(self, before: Answers, b: Box) -> Bool:
        return before.level[b] != self.level[b]

    @step("5", of="choose")
    def it_says_who(self, before: Answers, p: Place, result: Box, c: Box) -> Bool:
        return (self.owner[p] == result) & implies(c != result, self.level[c] == before.level[c])


SCOPES: dict[type[Machine], tuple[dict[str, int], dict[str, object]]] = {
    Queues: ({"Item": 2, "Box": 2}, {}),
    Loops: ({"Item": 3, "Place": 3, "Int": 4}, {"weight": [1, 2, 3]}),
    Rounds: ({"Item": 2, "Box": 2}, {}),
    Keys: (
        {"Item": 2, "Box": 2, "Place": 2, "Mark": 3, "Int": 2},
        {"start": None, "table": [[1, None], [0, 1]], "first_box": 1},
    ),
    Sums: ({"Item": 3, "Box": 2, "Int": 4}, {"weight": [0, 1, 2]}),
    Numbers: ({"Box": 2, "Place": 2, "Int": 3}, {"base": 2}),
    Answers: ({"Box": 2, "Place": 2, "Mark": 2, "Int": 2, "Real": 4}, {}),
    Exact: ({"Box": 2, "Int": 3, "Real": 36}, {"rate": ["1/3", "1/2"], "first": 0}),
}
"""The machines, each with sizes and parameters."""


SMALL: dict[type[Machine], tuple[dict[str, int], dict[str, object]]] = {
    **SCOPES,
    Queues: ({"Item": 2, "Box": 1}, {}),
    Rounds: ({"Item": 2, "Box": 1}, {}),
    Keys: (
        {"Item": 1, "Box": 1, "Place": 2, "Mark": 3, "Int": 2},
        {"start": None, "table": [[0, None]], "first_box": 0},
    ),
    Sums: ({"Item": 2, "Box": 1, "Int": 3}, {"weight": [1, 2]}),
    Numbers: ({"Box": 1, "Place": 2, "Int": 3}, {"base": 2}),
    Answers: ({"Box": 1, "Place": 2, "Mark": 2, "Int": 2, "Real": 4}, {}),
    Exact: ({"Box": 1, "Int": 3, "Real": 36}, {"rate": ["1/3"], "first": 0}),
}
"""The same with few states."""


def scope(machine: type[Machine], *, small: bool = False) -> Scope:
    """The scope of one of them."""
    sizes, params = (SMALL if small else SCOPES)[machine]
    return Scope(Model.of(machine), dict(sizes), dict(params))
