"""A second made-up machine without any sense, of numbers: exact ones, whole division, and indices that may be none."""

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
    Real,
    Scalar,
    Sort,
    Sum,
    action,
    all_of,
    assume,
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


class Jar(Sort):
    pass


class Mark(Index):
    pass


class Meter(Machine):
    """Jars that are filled, and the marks that they reach."""

    rate = Param(Jar, to=Real)
    base = Param(to=Int)
    first = Param(to=optional(Mark))

    level = Map(Jar, to=Real, init=lambda m, j: m.rate[j] / m.base.value)
    clock = Scalar(to=Real, init=Fraction(1, 2))
    number = Map(Jar, to=Int, init=1)
    seen = Map(Jar, to=optional(Mark))
    at = Map(Mark, to=Real)
    stage = Scalar(to=Mark)
    spilt = Scalar(to=Real, scratch=True)

    told = Event(Jar, optional(Mark))

    full = Count(Jar, where=lambda m, j: m.level[j] >= 1)
    alike = Count(Jar, by=Mark, where=lambda m, j, k: m.seen[j] == k)
    volume = Sum(Jar, of=lambda m, j: m.level[j], to=Real)
    marked = Sum(Jar, by=Mark, of=lambda m, j, k: ite(m.seen[j] == k, m.level[j], 0) - Fraction(1, 2), to=Real)
    flow = Sum(Jar, of=lambda m, j: m.rate[j] / 2, to=Real)
    whole = Sum(Jar, of=lambda m, j: m.number[j], to=Real)

    @assume("1")
    def base_is_positive(self) -> Bool:
        return self.base.value > 0

    @action("1")
    def pour(self, j: Jar, n: Int) -> Real:
        self.require(n <= self.number[j])
        self.require(self.level[j] + self.rate[j] * n < Fraction(5, 2))
        self.level[j] = self.level[j] + self.rate[j] * n
        return self.level[j] / 2

    @action("2")
    def level_out(self) -> None:
        with self.each(Jar) as j, when(self.level[j] > self.clock.value):
            self.level[j] = (self.level[j] + self.clock.value) / 2

    @action("3")
    def tick(self) -> None:
        self.require(self.clock.value * 3 < 5)
        self.require(forall(Jar, lambda j: (self.number[j] <= 0) | (self.clock.value / self.number[j] < 2)))
        self.clock.value = self.clock.value + Fraction(1, 3)

    @action("4")
    def divide(self, j: Jar) -> None:
        self.clock.value = Fraction(1, 6) + self.level[j] / self.number[j]

    @action("5")
    def compare(self, j: Jar, i: Jar) -> None:
        self.clock.value = self.level[j] / self.level[i]
        self.number[j] = ite(self.level[i] * self.level[j] == self.number[i], self.number[i], 7 // self.number[i])

    @action("6")
    def count_down(self, j: Jar, n: Int) -> None:
        self.number[j] = (self.number[j] - n) % 3
        self.stage.value = (self.number[j] - 1) // 2

    @action("7")
    def share_out(self, j: Jar, n: Int) -> Int:
        self.number[j] = (self.number[j] + 5) // n
        return 7 % n

    @action("8")
    def see(self, j: Jar, k: Mark) -> None:
        self.require(self.number[j] <= k + self.level[j])
        self.seen[j] = ite(self.level[j] > self.clock.value, k, none)
        self.told(j, self.seen[j])

    @action("9")
    def copy(self, j: Jar, i: Jar) -> None:
        self.require(self.seen[i] != self.seen[j])
        self.seen[j] = self.seen[i]
        self.seen[i] = ite(self.seen[i] == self.first.value, self.first.value, 0)

    @action("10")
    def point(self, j: Jar) -> None:
        self.seen[j] = self.number[j] - 1

    @action("10")
    def follow(self, j: Jar) -> None:
        self.at[self.seen[j]] = self.level[j]

    @action("11")
    def read_there(self, j: Jar, k: Mark) -> None:
        self.require(self.marked[self.seen[j]] <= self.at[self.seen[j]])
        self.at[k] = self.at[self.seen[j]] + self.alike[self.seen[j]]
        self.stage.value = self.seen[j]

    @action("12")
    def careless(self, j: Jar) -> None:
        # None is no number, not even the one that stands for it.
        self.require(self.seen[j] != self.number[j] - 1)
        self.level[j] = self.level[j] - Fraction(1, 2)
        self.stage.value = self.number[j] + 0

    @action("13")
    def spill(self, n: Int) -> None:
        self.require(n <= 2)
        with self.loop(n, going=lambda k: self.volume.value > k + self.spilt.value) as loop:
            self.spilt.value = self.spilt.value + Fraction(1, 2)
        with when(self.spilt.value < loop.rounds):
            self.clock.value = self.spilt.value
        with otherwise():
            self.clock.value = self.clock.value - 1
        self.spilt.value = 0

    @invariant("1")
    def there_is_room(self, j: Jar) -> Bool:
        return (self.level[j] < 3 - Fraction(1, 2)) & (self.volume.value >= self.level[j])

    @invariant("2")
    def a_mark_is_reached(self, j: Jar, k: Mark) -> Bool:
        return implies(self.seen[j] == k, (self.at[k] >= k) | (self.marked[k] < self.level[j]))

    @invariant("3")
    def none_is_no_number(self, j: Jar) -> Bool:
        return implies(self.seen[j] == self.number[j] - 1, self.seen[j] != none)

    @invariant("4")
    def numbers_divide(self, j: Jar) -> Bool:
        n, b = self.number[j], self.base.value
        return all_of((n // b) * b + n % b == n, n % b < b, iff(n // b == 0, n < b))

    @invariant("5")
    def sums_are_numbers(self) -> Bool:
        least: Real = ite(forall(Jar, lambda j: self.rate[j] > 0), Fraction(1, 6), 0)
        return (self.whole.value >= self.full.value) & (self.flow.value * 2 >= least)

    @invariant("6")
    def small_numbers_are_marks(self, j: Jar) -> Bool:
        return Mark.has(self.number[j]) | (self.number[j] > 1) | ~Mark.has(self.base.value - 1)

    @step("1", of="pour")
    def pouring_adds(self, before: Meter, j: Jar, n: Int) -> Bool:
        added = self.volume.value - before.volume.value
        return (added == self.rate[j] * n) & (self.level[j] - before.level[j] == n * self.rate[j])

    @step("1", of="pour")
    def pouring_tells_half_of_it(self, before: Meter, j: Jar, n: Int, result: Real) -> Bool:
        return (result * 2 == self.level[j]) & (result - before.level[j] / 2 < Fraction(1, 2) + n)

    @step("2")
    def the_clock_goes_on(self, before: Meter) -> Bool:
        return self.clock.value >= before.clock.value - 1

    @sometimes("1")
    def a_third(self) -> Bool:
        return exists(Jar, lambda j: self.level[j] * 3 == 1)


def scope(*, first: int | None = None) -> Scope:
    """Two jars, in twelfths."""
    sizes = {"Jar": 2, "Mark": 2, "Int": 3, "Real": 12}
    return Scope(Model.of(Meter), sizes, {"rate": [1, "1/3"], "base": 2, "first": first})
