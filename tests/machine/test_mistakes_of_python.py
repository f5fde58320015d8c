"""Python where it has no meaning on values of a state is refused: the message says what, and in which line."""

from __future__ import annotations

import pytest

from kvproof.machine import Bool, Int, MachineError, Map, Model, implies, invariant, none, optional

from .mistakes import Base, Block, Node, Request, in_action, in_property


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


def test_a_part_of_a_machine_may_be_called_id() -> None:
    class Named(Base):
        id = Map(Block, to=optional(Block))

        @invariant("P1")
        def own(self, b: Block) -> Bool:
            return implies(self.id[b] != none, self.id[b] == b)

    assert [p.name for p in Model.of(Named).of_kind("invariant")] == ["own"]
