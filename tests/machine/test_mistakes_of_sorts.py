"""Values of other sorts and types than are expected are refused: the message says what, and in which line."""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Event,
    Int,
    Machine,
    Map,
    Queue,
    Sort,
    action,
    exists,
    forall,
    implies,
    ite,
    none,
)

from .mistakes import Base, Block, Node, Other, Request, in_action, in_property, mistake


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


def test_none_as_a_key() -> None:
    """Written so, it has no sort, and a proof ended with it."""

    def read(self: Base, b: Block, r: Request, n: Int) -> None:
        self.require(self.count[none] == 0)  # wrong

    def push(self: Base, b: Block, r: Request, n: Int) -> None:
        self.line[none].push_back(b)  # wrong

    assert in_action(read) == "count is keyed by Block, and none is no element"
    assert in_action(push) == "line is keyed by Request, and none is no element"


def test_none_in_a_queue() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.line[r].push_back(none)  # wrong

    assert in_action(body) == "line holds Block, and none is no element"
    assert in_property(lambda self, b, r: ~self.free.has(none)) == "free holds Block, and none is no element"  # wrong


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
