"""Each mistake in the text of a machine is refused: the message says what, in which action or property and line."""

from __future__ import annotations

import linecache
from fractions import Fraction
from typing import Any

import pytest

from kvproof.machine import (
    Bool,
    Count,
    Event,
    Index,
    Int,
    Machine,
    MachineError,
    Map,
    Model,
    Param,
    Queue,
    Real,
    Scalar,
    Sort,
    Sum,
    action,
    assume,
    exists,
    forall,
    implies,
    initially,
    invariant,
    ite,
    none,
    optional,
    otherwise,
    step,
    when,
)

ELSEWHERE = "inside a `when`, `each`, `loop` or quantifier, or in another text, and is used outside of it"


class Block(Sort):
    pass


class Node(Block, extra=("HEAD",)):
    pass


class Other(Block, extra=("ROOT",)):
    pass


class Request(Sort):
    pass


class Place(Index):
    pass


class Base(Machine):
    """What the machines below extend, each by one mistake, at the line that says `# wrong`."""

    size = Param(Block, to=Int)
    free = Queue(Block, init=True)
    line = Queue(Block, by=Request)
    count = Map(Block, to=Int)
    owner = Map(Block, to=optional(Request))
    table = Map(Request, Place, to=optional(Block))
    flag = Scalar(to=Bool)
    cursor = Scalar(to=optional(Block))
    time = Map(Block, to=Real)
    at = Map(Block, to=optional(Place))
    told = Event(Block)


def mistake(make: Any) -> str:
    """The message of the error that reading the machine gives; its line must be the one that says so."""
    with pytest.raises(MachineError) as caught:
        Model.of(make())
    text = linecache.getline(caught.value.line.file, caught.value.line.number)
    assert "# wrong" in text, f"{caught.value} names the line {text!r}"
    assert str(caught.value).startswith(f"test_language_errors.py:{caught.value.line.number}")
    return str(caught.value)


def in_action(body: Any) -> str:
    """The message where `body(self, b, r, n)` is the text of an action."""

    class Wrong(Base):
        @action("P1")
        def act(self, b: Block, r: Request, n: Int) -> None:
            body(self, b, r, n)

    message = mistake(lambda: Wrong)
    assert "in action act: " in message
    return message.split("in action act: ")[1]


def in_property(body: Any) -> str:
    """The message where `body(self, b, r)` is the text of an invariant."""

    class Wrong(Base):
        @invariant("P1")
        def holds(self, b: Block, r: Request) -> Bool:
            result: Bool = body(self, b, r)
            return result

    message = mistake(lambda: Wrong)
    assert "in invariant holds: " in message
    return message.split("in invariant holds: ")[1]


# -------------------------------------------------------------------------------- Python on state values


def test_if() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        if self.count[b] == 0:  # wrong
            self.count[b] = 1

    message = in_action(body)
    assert "Python cannot branch on it" in message
    assert "with when(condition):" in message


def test_and() -> None:
    assert "instead of `if`, `and`, `or`, `not`" in in_property(
        lambda self, b, r: self.free.has(b) and self.flag.value  # wrong
    )


def test_not() -> None:
    assert "Python cannot branch" in in_property(lambda self, b, r: not self.free.has(b))  # wrong


def test_chained_comparison() -> None:
    assert "Python cannot branch" in in_property(lambda self, b, r: 0 < self.count[b] < 3)  # wrong


def test_if_on_a_declaration() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        if self.flag:  # wrong
            self.count[b] = 1

    assert in_action(body) == "flag is no value, so Python cannot branch on it; read self.flag.value"


def test_a_declaration_compared_with_a_number() -> None:
    message = in_property(lambda self, b, r: self.count == 0)  # wrong
    assert message == "count is no value that could equal 0; read self.count[Block]"


def test_a_declaration_compared_with_a_value() -> None:
    message = in_property(lambda self, b, r: self.cursor == none)  # wrong
    assert message == "cursor is no value that could equal none; read self.cursor.value"


def test_a_value_compared_with_a_declaration() -> None:
    message = in_property(lambda self, b, r: b == self.cursor)  # wrong
    assert message == "cursor is not a value of the modelling language"


def test_in() -> None:
    message = in_property(lambda self, b, r: b in self.free)  # wrong
    assert message == "Python cannot look for b in free; use self.free.has(b)"


def test_for() -> None:
    message = in_property(lambda self, b, r: any(x == b for x in self.free))  # wrong
    assert message == "Python cannot go through free; use forall, exists, `self.each` or `self.loop`"


def test_replacing_a_declaration() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.cursor = b  # wrong

    assert in_action(body) == "cursor cannot be replaced; write self.cursor.value = …"


def test_replacing_a_map() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count = n  # wrong

    assert in_action(body) == "count cannot be replaced; write self.count[Block] = …"


def test_text_that_is_called_directly() -> None:
    with pytest.raises(MachineError, match=r"run by Model\.of"):
        Base().require(Base().count[Node.named("HEAD")] == 0)


# -------------------------------------------------------------------------------- sorts and types


def test_unknown_sort_as_key() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(str, to=Int)  # type: ignore[arg-type]  # wrong

        return Wrong

    assert "<class 'str'> is not a sort" in mistake(make)


def test_unknown_sort_as_value() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(Block, to=str)  # type: ignore[type-var]  # wrong

        return Wrong

    assert "<class 'str'> is not a type that a map can hold" in mistake(make)


def test_sort_itself() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Queue(Sort)  # wrong

        return Wrong

    assert "is not a sort; a queue holds elements of a sort" in mistake(make)


def test_a_map_to_a_sort_without_first_value() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(Block, to=Request)  # wrong

        return Wrong

    assert "a map to Request needs init=, or to=optional(Request)" in mistake(make)


def test_unknown_name_in_a_parameter() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("P1")  # wrong
            def act(self, b: Blok) -> None:  # type: ignore[name-defined]  # noqa: F821
                self.count[b] = 1

        return Wrong

    message = mistake(make)
    assert "unknown sort in the parameters of act" in message
    assert "Blok" in message


def test_a_parameter_of_another_type() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("P1")  # wrong
            def act(self, b: str) -> None: ...

        return Wrong

    assert "parameter b of act needs a sort, Int or Bool as its annotation, not <class 'str'>" in mistake(make)


def test_a_parameter_without_annotation_in_an_override() -> None:
    class Right(Base):
        @action("P1")
        def act(self, b: Block) -> None: ...

    def make() -> type[Machine]:
        class Wrong(Right):
            def act(self, b) -> None: ...  # wrong

        return Wrong

    assert "parameter b of act needs a sort, Int or Bool as its annotation, not None" in mistake(make)


def test_a_quantifier_over_something_else() -> None:
    message = in_property(lambda self, b, r: forall(str, lambda s: self.flag.value))  # wrong
    assert "<class 'str'> is not a sort; a quantifier runs over sorts" in message


def test_a_quantifier_with_too_many_names() -> None:
    message = in_property(lambda self, b, r: exists(Block, lambda c, d: c == d))  # wrong
    assert message == "the function under exists takes 2 arguments for 1 sorts"


def test_wrong_key() -> None:
    assert in_property(lambda self, b, r: self.count[r] == 0) == "count is keyed by Block; r is a Request"  # wrong


def test_too_few_keys() -> None:
    message = in_property(lambda self, b, r: self.table[r] == b)  # wrong
    assert message == "table takes 2 keys (Request, Place), not 1"


def test_wrong_element_of_a_queue() -> None:
    assert in_property(lambda self, b, r: self.free.has(r)) == "free holds Block; r is a Request"  # wrong


def test_wrong_element_pushed() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.free.push_back(r)  # type: ignore[arg-type]  # wrong

    assert in_action(body) == "free holds Block; r is a Request"


def test_a_number_pushed() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.free.push_back(3)  # type: ignore[arg-type]  # wrong

    assert in_action(body) == "free holds Block; 3 is a int"


def test_a_queue_without_its_key() -> None:
    message = in_property(lambda self, b, r: self.line.has(b))  # wrong
    assert message == "line is one queue for each Request: name the key first"


def test_a_push_without_its_key() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.line.push_back(b)  # wrong

    assert in_action(body) == "line is one queue for each Request: name the key first"


def test_wrong_value() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b] = self.flag.value  # type: ignore[assignment]  # wrong

    assert in_action(body) == "count holds Int; flag is a Bool"


def test_none_where_it_cannot_be() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b] = none  # wrong

    assert in_action(body).startswith("count holds Int; none")


def test_wrong_argument_of_an_event() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.told(r)  # wrong

    assert in_action(body) == "told is keyed by Block; r is a Request"


def test_what_listeners_know_is_written_by_events_only() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            known = Map(Block, to=Bool)
            came = Event(Block, heard=lambda m, b: m.hear(b))

            def hear(self, b: Block) -> None:
                self.known[b] = True

            @action("X")
            def act(self, b: Block) -> None:
                self.came(b)
                self.known[b] = False  # wrong

        return Wrong

    assert mistake(make).endswith("known is what listeners make of came: report the event, and do not write this")


def test_what_listeners_know_of_an_event_that_nobody_reports() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            known = Queue(Block)
            came = Event(Block, heard=lambda m, b: m.known.push_back(b))

            @action("X")
            def act(self, b: Block) -> None:
                self.require(~self.known.has(b))
                self.known.push_back(b)  # wrong

        return Wrong

    assert "known is what listeners make of came" in mistake(make)


def test_a_listener_only_listens() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            came = Event(Block, heard=lambda m, b: m.hear(b))

            def hear(self, b: Block) -> None:
                self.told(b)  # wrong

            @action("X")
            def act(self, b: Block) -> None:
                self.came(b)

        return Wrong

    assert mistake(make).endswith("told is reported where another event is heard: a listener only listens")


def test_a_listener_requires_nothing() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            came = Event(Block, heard=lambda m, b: m.require(~m.flag.value))  # wrong

            @action("X")
            def act(self, b: Block) -> None:
                self.came(b)

        return Wrong

    assert "`require` inside `heard`" in mistake(make)


def test_a_listener_returns_nothing() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            came = Event(Block, heard=lambda m, b: m.flag.value)  # wrong

            @action("X")
            def act(self, b: Block) -> None:
                self.came(b)

        return Wrong

    assert mistake(make).endswith("what a listener makes of came is written, not returned")


def test_comparing_different_sorts() -> None:
    assert in_property(lambda self, b, r: b == r) == "b (Block) cannot equal r (Request)"  # wrong


def test_comparing_two_wider_sorts() -> None:
    message = in_property(lambda self, b, r: Node.named("HEAD") == Other.named("ROOT"))  # wrong
    assert message == "HEAD (Node) cannot equal ROOT (Other)"


def test_a_choice_between_different_types() -> None:
    message = in_property(lambda self, b, r: ite(self.flag.value, b, r) == b)  # wrong
    assert message == "the two values of ite differ in type: b, r"


def test_an_element_that_the_sort_does_not_have() -> None:
    message = in_property(lambda self, b, r: b == Node.named("TAIL"))  # wrong
    assert message == "sort Node has no element TAIL; it has HEAD"


def test_arithmetic_with_an_element() -> None:
    message = in_property(lambda self, b, r: self.count[b] + b == 1)  # wrong
    assert message == "an integer is expected here, not b"


def test_a_number_as_condition() -> None:
    message = in_property(lambda self, b, r: implies(self.count[b], self.flag.value))  # wrong
    assert message == "a condition is expected here, not count[b]"


# -------------------------------------------------------------------------------- numbers


NUMBER = "a number is expected here, not 0.5; write one that is no integer as Fraction(1, 3)"


def test_a_rounded_number_in_arithmetic() -> None:
    assert in_property(lambda self, b, r: self.time[b] + 0.5 == 1) == NUMBER  # wrong


def test_a_rounded_number_in_a_comparison() -> None:
    assert in_property(lambda self, b, r: self.time[b] < 0.5) == NUMBER  # wrong


def test_a_rounded_number_times_an_integer() -> None:
    message = in_property(lambda self, b, r: self.count[b] * 0.5 == 1)  # wrong
    assert message == "an integer is expected here, not 0.5"


def test_a_rounded_number_stored() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.time[b] = 0.5  # type: ignore[assignment]  # wrong

    assert in_action(body) == "0.5 is not a value of the modelling language"


def test_an_exact_number_stored_as_an_integer() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b] = n + Fraction(1, 2)  # type: ignore[assignment]  # wrong

    assert in_action(body) == "count holds Int; n + 1/2 is a Real"


def test_whole_division_by_an_exact_number() -> None:
    message = in_property(lambda self, b, r: self.count[b] // self.time[b] == 1)  # wrong
    assert message == "an integer is expected here, not time[b]"


def test_an_exact_number_and_a_condition() -> None:
    message = in_property(lambda self, b, r: self.time[b] == self.flag.value)  # wrong
    assert message == "time[b] (Real) cannot equal flag (Bool)"


def test_exact_numbers_are_no_keys() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(Real, to=Int)  # wrong

        return Wrong

    assert "Real'> is not a sort; a map is keyed by sorts" in mistake(make)


def test_exact_numbers_are_no_parameters() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("P1")  # wrong
            def act(self, n: Real) -> None: ...

        return Wrong

    assert "parameter n of act needs a sort, Int or Bool as its annotation" in mistake(make)


@pytest.mark.parametrize("number", [Bool, Int, Real])
def test_a_number_that_may_be_none(number: Any) -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            bad = Map(Block, to=optional(number))  # wrong

        return Wrong

    assert f"optional({number.__name__}) is not a type that a map can hold" in mistake(make)


@pytest.mark.parametrize(
    "use",
    [
        lambda at: at + 1,  # wrong
        lambda at: 1 - at,  # wrong
        lambda at: at + Fraction(1, 2),  # wrong
        lambda at: at / 2,  # wrong
        lambda at: at // 2,  # wrong
        lambda at: 7 % at,  # wrong
        lambda at: at < 1,  # wrong
        lambda at: at <= Fraction(1, 2),  # wrong
        lambda at: Fraction(1, 2) == at,  # wrong
    ],
)
def test_an_index_that_may_be_none_in_arithmetic(use: Any) -> None:
    message = in_property(lambda self, b, r: use(self.at[b]) == use(self.at[b]))  # wrong
    assert message == "at[b] may be none, with which nothing can be computed"


def test_an_index_that_may_be_none_stored_as_a_number() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b] = self.at[b]  # wrong

    assert in_action(body) == "count holds Int; at[b] is a Place or none"


def test_an_index_that_may_be_none_stored_as_an_exact_number() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.time[b] = self.at[b]  # wrong

    assert in_action(body) == "at[b] may be none, with which nothing can be computed"


def test_an_index_that_may_be_none_or_a_number() -> None:
    message = in_property(lambda self, b, r: ite(self.flag.value, self.at[b], self.count[b]) == 1)  # wrong
    assert message == "the two values of ite differ in type: at[b], count[b]"


def test_an_index_that_may_be_none_equals_numbers_that_are_there() -> None:
    class Right(Base):
        @invariant("P1")
        def holds(self, b: Block, p: Place) -> Bool:
            return (self.at[b] == p) | (self.at[b] == 0) | (self.at[b] == self.count[b])

    said = repr(Model.of(Right).properties["holds"].formula)
    assert said == "((at[b] == p) | (at[b] == 0)) | ((at[b] != none) & (at[b] == count[b]))"


# -------------------------------------------------------------------------------- the order of statements


def test_require_after_a_write() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b] = 1
        self.require(self.flag.value)  # wrong

    assert in_action(body).startswith("`require` after a write")


def test_require_after_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            pass
        self.require(self.flag.value)  # wrong

    assert in_action(body).startswith("`require` after a write")


def test_require_inside_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.require(self.count[b] == 0)  # wrong

    assert in_action(body).startswith("`require` inside `when`")


def test_require_inside_otherwise() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.count[b] = 1
        with otherwise():
            self.require(self.count[b] == 0)  # wrong

    assert in_action(body).startswith("`require` inside `otherwise`")


def test_require_inside_each() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.require(self.count[c] == 0)  # wrong

    assert in_action(body).startswith("`require` inside `each`")


def test_require_inside_a_loop() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.loop(n):
            self.require(self.flag.value)  # wrong

    assert in_action(body).startswith("`require` inside `loop`")


def test_a_loop_inside_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value), self.loop(n):  # wrong
            self.count[b] = 1

    assert in_action(body) == "a loop stands at the top level of an action, not inside `when`"


def test_otherwise_alone() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with otherwise():  # wrong
            self.count[b] = 1

    assert in_action(body) == "`otherwise` stands right after a `when`"


def test_otherwise_after_something_else() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.count[b] = 1
        self.count[b] = 2
        with otherwise():  # wrong
            self.count[b] = 3

    assert in_action(body) == "`otherwise` stands right after a `when`"


def test_otherwise_twice() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.count[b] = 1
        with otherwise():
            self.count[b] = 2
        with otherwise():  # wrong
            self.count[b] = 3

    assert in_action(body) == "`otherwise` stands right after a `when`"


def test_otherwise_of_an_outer_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.count[b] = 1
        with when(self.count[b] == 2), otherwise():  # wrong
            self.count[b] = 3

    assert in_action(body) == "`otherwise` stands right after a `when`"


def test_a_value_that_leaves_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            seen = self.count[b]
        self.count[b] = seen + 1  # wrong

    message = in_action(body)
    assert message == f"count[b] was read {ELSEWHERE}"


def test_a_value_that_leaves_when_for_another_condition() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            seen = self.count[b]
        with when(seen == 1):  # wrong
            self.count[b] = 0

    assert in_action(body).startswith("count[b] was read inside")


def test_a_value_that_leaves_when_as_a_key() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            c = self.cursor.value
        self.count[b] = self.count[c]  # wrong

    assert in_action(body).startswith("cursor was read inside")


def test_a_value_that_goes_from_when_to_otherwise() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            seen = self.count[b]
        with otherwise():
            self.count[b] = seen  # wrong

    assert in_action(body).startswith("count[b] was read inside")


def test_the_element_of_each_outside_of_it() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.count[c] = 0
        self.count[c] = 1  # wrong

    assert in_action(body) == f"b has its meaning {ELSEWHERE}"


def test_the_index_of_a_loop_after_it() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.loop(n) as loop:
            self.count[b] = 0
        self.cursor.value = self.table[r, loop.index]  # wrong

    assert in_action(body) == f"i has its meaning {ELSEWHERE}"


def test_a_value_that_leaves_an_action_as_its_result() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("P1")  # wrong
            def act(self, b: Block) -> Int:
                with when(self.flag.value):
                    seen = self.count[b]
                return seen  # noqa: RET504

        return Wrong

    assert "count[b] was read inside" in mistake(make)


# -------------------------------------------------------------------------------- what may be written


def test_writing_a_parameter() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.size[b] = 3  # wrong

    assert in_action(body) == "size is a parameter: it never changes"


def test_writing_the_past() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        type(self)("before").count[b] = 3  # wrong

    assert in_action(body) == "before.count is of the past: it cannot be changed"


def test_pushing_to_the_past() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        type(self)("before").free.push_back(b)  # wrong

    assert in_action(body) == "before.free is of the past: it cannot be changed"


def test_writing_in_a_property() -> None:
    def body(self: Base, b: Block, r: Request) -> Bool:
        self.count[b] = 3  # wrong
        return self.flag.value

    assert in_property(body) == "a property only looks at the state; it cannot change it"


def test_requiring_in_a_property() -> None:
    def body(self: Base, b: Block, r: Request) -> Bool:
        self.require(self.flag.value)  # wrong
        return self.flag.value

    assert in_property(body) == "`require` belongs into actions"


def test_writing_under_a_quantifier() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        def write(c: Block) -> Bool:
            self.count[c] = 0  # wrong
            return self.flag.value

        self.require(forall(Block, write))

    assert in_action(body) == "a quantified formula only looks at the state; it cannot change it"


def test_each_that_writes_a_foreign_entry() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Request) as q:
            self.count[b] = 1  # wrong
            self.cursor.value = self.table[q, 0]

    assert in_action(body) == (
        "`each` writes count at an entry that is not its own: r has to stand at one place of its keys, the same in "
        "every write"
    )


def test_each_that_reads_what_another_round_writes() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.count[c] = self.count[b]  # wrong

    assert in_action(body) == "`each` reads count[b], which another round may write"


def test_each_that_reads_a_count_of_what_another_round_writes() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.count[c] = self.many.value  # wrong

    class Counts(Base):
        many = Count(Block, where=lambda m, b: m.count[b] > 0)

    def make() -> type[Machine]:
        class Wrong(Counts):
            @action("P1")
            def act(self, b: Block, r: Request, n: Int) -> None:
                body(self, b, r, n)

        return Wrong

    assert "`each` reads the count many, which another round may change" in mistake(make)


def test_each_that_reads_a_count_of_something_else() -> None:
    class Right(Base):
        others = Count(Block, by=Request, where=lambda m, b, r: m.owner[b] == r)

        @action("P1")
        def act(self, r: Request) -> None:
            with self.each(Block) as b, when(self.free.size > self.others[r]):
                self.count[b] = self.others[r]

    assert list(Model.of(Right).actions) == ["act"]


def test_each_that_pushes() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.free.push_back(c)  # wrong

    assert in_action(body).startswith("pushes to free for each ")


def test_each_inside_each() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c, self.each(Request) as q:  # wrong
            self.owner[c] = q

    assert in_action(body) == "`each` holds plain statements and `when` only"


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
            def holds(self, b: Block) -> Bool:  # type: ignore[return]
                self.count[b] == 0  # noqa: B015

        return Wrong

    assert "in invariant holds: a condition is expected here, not None" in mistake(make)


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
