"""Counts, first values and properties that say nothing, or speak of what they may not, are refused."""

from __future__ import annotations

from typing import Any

from kvproof.machine import (
    Bool,
    Count,
    Int,
    Machine,
    Map,
    Model,
    Queue,
    Sum,
    action,
    all_of,
    assume,
    exists,
    forall,
    implies,
    initially,
    invariant,
    step,
)
from kvproof.machine.terms import as_bool

from .mistakes import Base, Block, Request, mistake

# -------------------------------------------------------------------------------- counts


def test_a_count_that_quantifies() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Count(Block, where=lambda m, b: exists(Request, lambda r: m.owner[b] == r))  # wrong

        return Wrong

    assert "count bad quantifies" in mistake(make)


def test_a_count_of_what_is_not_indexed_by_its_element() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Count(Block, where=lambda m, b: m.count[b] == m.count[m.cursor.value])  # wrong

        return Wrong

    assert "which is not indexed by b: one write would change the count of many elements" in mistake(make)


def test_a_count_of_heads() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Count(Block, where=lambda m, b: m.free.is_first(b))  # wrong

        return Wrong

    assert "count bad reads free.first(b), which one write can change for many elements" in mistake(make)


def test_a_sum_with_too_few_names() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Sum(Block, by=Request, of=lambda m, b: m.count[b], to=Int)  # wrong

        return Wrong

    assert "count bad: `where` takes the machine and 2 arguments, not 1" in mistake(make)


def test_a_sum_in_elements() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Sum(Block, of=lambda m, b: m.count[b], to=Block)  # type: ignore[type-var]  # wrong

        return Wrong

    assert "Block'> is no type to sum up in; use Int or Real" in mistake(make)


def test_a_sum_of_exact_numbers_as_an_integer() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Sum(Block, of=lambda m, b: m.time[b], to=Int)  # wrong

        return Wrong

    assert "in count bad: an integer is expected here, not time[b]" in mistake(make)


def test_a_count_of_a_number() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Count(Block, where=lambda m, b: m.count[b])  # wrong

        return Wrong

    assert "a condition is expected here, not count[b]" in mistake(make)


def test_if_in_a_count() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Count(Block, where=lambda m, b: m.count[b] > 0 if m.flag.value else m.flag.value)  # wrong

        return Wrong

    message = mistake(make)
    assert "in count bad: " in message
    assert "Python cannot branch" in message


# -------------------------------------------------------------------------------- first values, properties


def test_a_first_value_that_depends_on_the_state() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(Block, to=Int, init=lambda m, b: m.count[b])  # wrong

        return Wrong

    assert "the first value of bad may only depend on parameters, not on count[b]" in mistake(make)


def test_a_first_value_of_another_type() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(Block, to=Int, init=True)  # wrong

        return Wrong

    assert "bad holds Int; its first value True does not" in mistake(make)


def test_first_members_that_are_no_condition() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Queue(Block, init=lambda m, b: m.size[b])  # wrong

        return Wrong

    assert "a condition is expected here, not size[b]" in mistake(make)


def test_an_assumption_about_the_state() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @assume("P1")  # wrong
            def known(self, b: Block) -> Bool:
                return self.count[b] == self.size[b]

        return Wrong

    assert "assume known speaks of count[b], which is not a parameter" in mistake(make)


def test_an_assumption_about_an_order() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @assume("P1")  # wrong
            def known(self, b: Block, c: Block) -> Bool:
                return implies(self.free.before(b, c), self.size[b] < self.size[c])

        return Wrong

    assert "assume known speaks of free.before(b, c), which is not a parameter" in mistake(make)


def test_what_is_known_of_the_first_state_may_speak_of_it() -> None:
    class Right(Base):
        @initially("P1")
        def known(self, b: Block, c: Block) -> Bool:
            return implies(self.free.before(b, c), self.size[b] < self.size[c])

    assert [p.name for p in Model.of(Right).of_kind("initially")] == ["known"]


def test_a_property_without_return() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("P1")  # wrong
            def holds(self, b: Block) -> Bool:  # type: ignore[empty-body]
                pass

        return Wrong

    assert "in invariant holds: a condition is expected here, not None" in mistake(make)


def test_a_property_that_inverts_what_python_knows() -> None:
    known = (1, 2)

    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("P1")
            def holds(self) -> Bool:
                return as_bool(~(known[0] > known[1]))  # wrong

        return Wrong

    assert "not -1; of what Python itself knows to be true or false write `not`, not ~" in mistake(make)


def test_one_of_two_claims_without_return() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("P1")
            def holds(self, b: Block) -> Bool:
                all_of(self.count[b] == 0)  # wrong
                return self.count[b] >= 0

        return Wrong

    assert "nothing is done with `all_of(self.count[b] == 0)`: return it with what else is said" in mistake(make)


def test_a_claim_that_has_a_name_and_is_not_returned() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("P1")
            def holds(self, b: Block) -> Bool:
                low = self.count[b] >= 0
                high = self.count[b] <= 3  # noqa: F841 # wrong
                return low

        return Wrong

    assert "nothing is done with high: return it with what else is said" in mistake(make)


def test_both_parts_of_a_pair_are_wanted() -> None:
    class Right(Base):
        def both(self, b: Block) -> tuple[Bool, Bool]:
            return self.count[b] >= 0, self.count[b] <= 3

        @invariant("P1")
        def holds(self, b: Block) -> Bool:
            least, most = self.both(b)
            return forall(Block, lambda c: (c == b) & least & most)

    assert [p.name for p in Model.of(Right).of_kind("invariant")] == ["holds"]


def test_a_part_of_a_pair_that_nobody_wants() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            def both(self, b: Block) -> tuple[Bool, Bool]:
                return self.count[b] >= 0, self.count[b] <= 3  # wrong

            @invariant("P1")
            def holds(self, b: Block) -> Bool:
                low, _high = self.both(b)
                return low

        return Wrong

    assert "nothing is done with count[b] <= 3" in mistake(make)


def test_a_value_with_which_nothing_is_done() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("P1")
            def holds(self, b: Block) -> Bool:  # type: ignore[return]
                self.count[b] == 0  # noqa: B015 # wrong

        return Wrong

    assert "nothing is done with `self.count[b] == 0`: require it, write it or return it" in mistake(make)


def test_a_result_that_is_no_value() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("P1")  # wrong
            def act(self, b: Block) -> Any:
                return [self.count[b]]

        return Wrong

    assert "in action act: [count[b]] is not a value of the modelling language" in mistake(make)


def test_a_step_of_an_unknown_action() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @step("P1", of="grow")  # wrong
            def grows(self, before: Base, b: Block) -> Bool:
                return self.count[b] >= before.count[b]

        return Wrong

    assert "grows speaks of an action grow that the machine does not have" in mistake(make)


def test_a_step_may_stand_before_its_action() -> None:
    class Right(Base):
        @step("P1", of="grow")
        def grows(self, before: Base, b: Block) -> Bool:
            return self.count[b] == before.count[b] + 1

        @action("P1")
        def grow(self, b: Block) -> None:
            self.count[b] = 1 + self.count[b]

    assert list(Model.of(Right).properties["grows"].given) == ["b"]
