"""What the tests of mistakes in a machine's text have in common: a machine to extend by one, and what is said of it."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import pytest

from kvproof.machine import (
    Bool,
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
    action,
    invariant,
    optional,
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
    file = Path(caught.value.line.file).name
    assert str(caught.value).startswith(f"{file}:{caught.value.line.number}")
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
