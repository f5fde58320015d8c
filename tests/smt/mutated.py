"""A small machine of which every kind of mistake can be made, for the tests of mutants."""

from kvproof.machine import (
    Bool,
    Event,
    Index,
    Int,
    Machine,
    Map,
    Queue,
    Scalar,
    Sort,
    Tally,
    action,
    implies,
    invariant,
    none,
    optional,
    otherwise,
    step,
    when,
)


class Box(Sort):
    """What is lent."""


class Reader(Sort):
    """Who borrows."""


class Place(Index):
    """A position on a shelf."""


class Library(Machine):
    """Boxes that stand in a queue until somebody borrows them."""

    waiting = Queue(Box, init=True)
    spare = Queue(Box)
    holder = Map(Box, to=optional(Reader))
    times = Map(Box, to=Int)
    last = Map(Reader, to=optional(Box))
    shelf = Map(Place, to=Int)
    closed = Scalar(to=Bool)
    lent = Tally()
    borrowed = Event(Box, Reader)
    returned = Event(Box)
    filed = Event(Box)

    @action("A")
    def borrow(self, b: Box, r: Reader) -> Int:
        """The first box goes to a reader."""
        self.require(self.waiting.is_first(b))
        self.require(self.holder[b] == none)
        self.waiting.remove(b)
        self.holder[b] = r
        self.times[b] = self.times[b] + 1
        self.last[r] = b
        self.lent.add(1)
        self.borrowed(b, r)
        return self.times[b]

    @action("B")
    def give_back(self, b: Box) -> None:
        """It goes to the end of the queue, or to the front where it was never lent."""
        self.require(self.holder[b] != none)
        self.holder[b] = none
        with when(self.times[b] == 0):
            self.waiting.push_front(b)
            self.borrowed(b, self.holder[b])
        with otherwise():
            self.waiting.push_back(b)
            self.returned(b)
            self.filed(b)

    @action("B")
    def pass_on(self, b: Box, r: Reader, q: Reader) -> None:
        """It goes from hand to hand."""
        self.require(self.holder[b] == r)
        self.holder[b] = q
        self.borrowed(b, q)

    @action("C")
    def set_aside(self, b: Box) -> None:
        """One box at most stands aside."""
        self.require(self.waiting.has(b))
        self.require(self.spare.is_empty())
        self.waiting.remove(b)
        self.spare.push_back(b)

    @action("D")
    def sort_in(self, n: Int) -> None:
        """The first n places of the shelf are counted up, as far as it is empty."""
        self.require((n >= 0) & Place.has(n))
        with self.loop(n, going=lambda i: self.shelf[i] == 0) as loop:
            self.shelf[loop.index] = self.shelf[loop.index] + 1
            with when(self.shelf[loop.index] < 0):
                self.closed.value = True

    @action("E")
    def forget(self) -> None:
        """Nobody remembers a box."""
        with self.each(Reader) as r, when(self.last[r] != none):
            self.last[r] = none
        self.closed.value = False

    @invariant("A")
    def who_waits_is_not_lent(self, b: Box) -> Bool:
        """A box is in one place."""
        is_here, is_aside = self.waiting.has(b), self.spare.has(b)
        return implies(is_here | is_aside, self.holder[b] == none) & implies(is_here, ~is_aside)

    @invariant("A")
    def times_are_counted(self, b: Box) -> Bool:
        """What is lent was lent at least once."""
        return (self.times[b] >= 0) & implies(self.holder[b] != none, self.times[b] >= 1)

    @invariant("D")
    def shelves_are_counted_up(self, p: Place) -> Bool:
        """None is negative, and nothing is closed."""
        return (self.shelf[p] >= 0) & ~self.closed.value

    @step("A", of="borrow")
    def the_first_is_taken(self, before: "Library", b: Box) -> Bool:
        """Nobody else can be lent."""
        return before.waiting.is_first(b) & ~self.waiting.has(b)
