"""What the twin's scheduler knows of a request, of its part of a batch, and of a conversation."""

from dataclasses import dataclass, field
from typing import NamedTuple

from radix_storage import Read

from kvproof.refimpl.tree.radix import Node

__all__ = ["Conversation", "Pass", "Request"]


@dataclass(eq=False)
class Request:
    """A request: what it asked for, how far it is, and what it holds."""

    r: str
    tokens: list[int]
    """With what was sampled, though nobody was told yet."""
    known: int
    """How many of them the clients know."""
    most: int
    """How many tokens it may get to, its prompt's included."""
    salt: str | None
    rank: tuple[int, int]
    """Who has the least is served first."""
    node: Node
    """Where its lock stands."""
    status: str = "waiting"
    target: int = 0
    """Up to here it is computed before it decodes."""
    computed: int = 0
    """Up to where passes were launched."""
    done: int = 0
    """Up to where they were processed."""
    epoch: int = 0
    """How often it lost everything."""
    in_flight: int = 0
    held: int = 0
    """So many pages of its table are the tree's."""
    table: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    """Of the full pages that are known."""
    read: Read | None = None
    """What is read for it from below."""


class Pass(NamedTuple):
    """A request's part of a batch that is not processed."""

    x: Request
    epoch: int
    end: int
    sampled: list[int]
    extends: bool


class Conversation:
    """Whose turns go on where the last one ended."""

    def __init__(self, name: str) -> None:
        self.name, self.context, self.closed = name, list[int](), False
        self.turn: Request | None = None
