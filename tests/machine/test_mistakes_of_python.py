"""Python where it has no meaning on values of a state is refused: the message says what, and in which line."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest

from kvproof.machine import (
    Bool,
    Count,
    Event,
    Int,
    MachineError,
    Map,
    Model,
    Param,
    Queue,
    Scalar,
    Sum,
    Tally,
    action,
    all_of,
    implies,
    invariant,
    none,
    optional,
    otherwise,
    when,
)

from .mistakes import Base, Block, Node, Request, in_action, in_property, mistake


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


def test_going_through_a_block() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        for c in self.each(Block):  # wrong
            self.count[c] = 0

    assert "write `with self.each(…) as …:`" in in_action(body)


def test_a_value_that_is_written() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b].value = n  # type: ignore[attr-defined] # wrong

    assert in_action(body).startswith("count[b] is a value, and has no value that could be written")


def test_a_call_of_what_a_call_has_made() -> None:
    class Called(Base):
        @action("X")
        def fill(self, b: Block) -> None:
            functools.partial(self.write, b)(1)

        def write(self, b: Block, n: int) -> None:
            self.count[b] = n

    assert len(Model.of(Called).actions["fill"].body) == 1


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


def test_going_through_a_sort() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        for c in Block:  # type: ignore[attr-defined] # wrong
            self.count[c] = 0

    assert in_action(body).startswith("Python cannot go through Block: write `with self.each(…) as …:`")
    message = in_property(lambda self, b, r: all_of(*[self.count[c] == 0 for c in Block]))  # type: ignore # wrong
    assert message.startswith("Python cannot go through Block")


def test_looking_into_a_sort() -> None:
    assert "cannot look into Block" in in_property(lambda self, b, r: b in Block)  # type: ignore[operator] # wrong
    message = in_property(lambda self, b, r: len(Block) == 0)  # type: ignore[arg-type] # wrong
    assert message == "how many elements Block has is not known while the machine is read: use `Count`"


def test_a_sort_is_true_as_any_class() -> None:
    assert bool(Block)


@pytest.mark.parametrize("given", [(), (0,)])
def test_making_an_element(given: tuple[Any, ...]) -> None:
    message = in_property(lambda self, b, r: self.count[Block(*given)] == 0)  # wrong
    assert "Block is a type" in message
    assert "give the action or property a parameter of that type" in message


def test_a_block_that_is_not_called() -> None:
    class Wrong(Base):
        @action("P1")
        def act(self, n: Int) -> None:
            with when(n > 0):
                self.flag.value = True
            with otherwise:  # type: ignore[attr-defined] # wrong
                self.flag.value = False

    assert "`otherwise` is a function, and opens nothing: call it, as in `with otherwise(…):`" in mistake(lambda: Wrong)


def test_a_block_of_the_machine_that_is_not_called() -> None:
    class Wrong(Base):
        @action("P1")
        def act(self) -> None:
            with self.each as b:  # type: ignore[attr-defined] # wrong
                self.count[b] = 0

    assert "`self.each` is a function, and opens nothing: call it" in mistake(lambda: Wrong)


def test_a_block_that_is_given_what_it_does_not_take() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(n > 0):
            self.flag.value = True
        with otherwise(n > 0):  # type: ignore[call-arg] # wrong
            self.flag.value = False

    message = in_action(body)
    assert message.startswith("otherwise() takes 0 positional arguments")
    assert message.endswith("write `with otherwise():`, right after the `when` whose condition does not hold")


def test_a_condition_that_opens_a_block() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with n > 0:  # type: ignore[attr-defined] # wrong
            self.flag.value = True

    assert "write `with when(condition):`" in in_action(body)


def test_a_sort_that_opens_a_block() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with Block as c:  # type: ignore[attr-defined] # wrong
            self.count[c] = 0

    assert in_action(body) == "Block is no block: write `with self.each(Block) as …:`"


def test_divmod() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b], _ = divmod(n, 2)  # type: ignore[operator] # wrong

    assert "write a // b for the quotient, and a % b for what is left" in in_action(body)


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


def test_a_part_of_a_machine_may_be_called_id() -> None:
    class Named(Base):
        id = Map(Block, to=optional(Block))

        @invariant("P1")
        def own(self, b: Block) -> Bool:
            return implies(self.id[b] != none, self.id[b] == b)

    assert [p.name for p in Model.of(Named).of_kind("invariant")] == ["own"]


@pytest.mark.parametrize(
    ("act", "given", "says"),
    [
        (operator.add, ("flag", 1), "flag is no value that Python could compute with: read self.flag.value, and write"),
        (operator.lt, ("count", 1), "count is no value that Python could compute with: read self.count[Block]"),
        (operator.or_, ("free", True), "free is no value that Python could compute with"),
        (operator.iadd, ("told", 1), "told is no value that Python could compute with"),
        (operator.delitem, ("count", 1), "an entry of count cannot be taken out: a map has a value for every key"),
        (delattr, ("cursor", "value"), "cursor cannot lose its value"),
        (setattr, ("free", "size", 0), "free.size follows from other parts of the state"),
        (operator.setitem, ("free", 0, 1), "free has no entries that are written: it is a queue"),
    ],
)
def test_a_declaration_is_no_value(act: Callable[..., object], given: tuple[Any, ...], says: str) -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        name, *rest = given
        act(getattr(self, name), *rest)  # wrong

    assert says in in_action(body)


def test_a_declaration_is_not_taken_out_of_a_state() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        del self.cursor  # wrong

    assert "cursor cannot be taken out of a state" in in_action(body)


@pytest.mark.parametrize(
    ("kind", "given", "more", "says"),
    [
        (Scalar, (Bool,), {}, r"too many positional arguments; it is written as in Scalar\(to=Int\)"),
        (
            Map,
            (Block, Bool),
            {},
            r"missing a required (keyword-only )?argument: 'to'; it is written as in Map\(Block, to=Int\)",
        ),
        (Param, (Int,), {}, "missing a required (keyword-only )?argument: 'to'"),
        (Scalar, (), {"to": Int, "initial": 2}, "got an unexpected keyword argument 'initial'"),
        (Queue, (), {}, "missing a required (keyword-only )?argument: 'of'"),
        (Count, (Block,), {}, "missing a required (keyword-only )?argument: 'where'"),
        (Sum, (Block,), {"of": lambda _m, _b: 1}, "missing a required (keyword-only )?argument: 'to'"),
        (Tally, (), {"to": Int}, "got an unexpected keyword argument 'to'"),
        (Event, (), {"of": Block}, "got an unexpected keyword argument 'of'"),
    ],
)
def test_a_declaration_is_written_as_such_are(
    kind: Any, given: tuple[object, ...], more: dict[str, object], says: str
) -> None:
    with pytest.raises(MachineError, match=says) as caught:
        kind(*given, **more)
    assert caught.value.line.file == __file__
    assert f": {kind.__name__}(…): " in str(caught.value)
