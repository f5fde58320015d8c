"""kvproof in a test suite: adapters around block managers, and assertions about machines.

Everything named here is public (docs/api.md). Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .manager import BlockManager, Refused, Request
from .tree import Edge, PrefixTree

if TYPE_CHECKING:
    from .assertions import assert_explored, assert_fuzzed, assert_lockstep, assert_played, assert_proved

__all__ = [
    "BlockManager",
    "Edge",
    "PrefixTree",
    "Refused",
    "Request",
    "assert_explored",
    "assert_fuzzed",
    "assert_lockstep",
    "assert_played",
    "assert_proved",
]


def __getattr__(name: str) -> object:
    """An assertion, from the module where it is made."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(".assertions", __name__), name)
    globals()[name] = found
    return found
