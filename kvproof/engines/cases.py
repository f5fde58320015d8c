"""What an engine's level is hunted with: families of cases, and who judges them besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ..judge.record import Case

if TYPE_CHECKING:
    from .traits import Traits

__all__ = ["Cases", "MoreOracles", "Op", "Setup"]

Op = tuple[str, dict[str, Any]]
"""An operation of a case: its name and its arguments."""

Setup = dict[str, Any]

MoreOracles = Callable[[Case], Callable[[Any], list[Any]] | None]
"""What makes the oracles of a level's own for a case, from the world that the engine tells."""


@dataclass(frozen=True)
class Cases:
    """What a level is hunted with."""

    profiles: Callable[[str], Mapping[str, st.SearchStrategy[Case]]]
    """The families of cases that a release can do, by name."""
    more_oracles: MoreOracles | None = None
    """The level's own oracles, beside those that judge every level."""
    traits: Callable[[str], Traits] | None = None
    """What cases of a release may have that a fault needs."""
