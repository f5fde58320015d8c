"""A note of a write: which entry gets which value, in terms of the state before the action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .text import replaced_names
from .world import Part, Type

__all__ = ["Write"]


@dataclass(frozen=True)
class Write:
    """``kind`` is assign, tally, remove, or where a queue is pushed to; ``value`` is the value, amount or element."""

    kind: str
    part: Part
    keys: tuple[str, ...]
    value: str
    anchor: str
    path: tuple[str, ...]
    binders: dict[str, Type]
    in_loop: bool

    def renamed(self, names: Mapping[str, str], *, path: Sequence[str], in_loop: bool) -> Write:
        """As it is where these names stand for other texts."""
        return replace(
            self,
            keys=tuple(replaced_names(k, names) for k in self.keys),
            value=replaced_names(self.value, names),
            anchor=replaced_names(self.anchor, names),
            path=(*path, *(replaced_names(c, names) for c in self.path)),
            in_loop=self.in_loop or in_loop,
        )
