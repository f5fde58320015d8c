"""Cases for the level ``tree``: those of whole requests, with evictions by number of tokens, and inserts once more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from ..engines.driver import requests
from ..judge.oracles.tree_answers import TreeAnswersOracle
from ..judge.record import Capabilities, Case, World
from .tree_system import LEVEL

__all__ = ["more_oracles", "profiles"]

_OFTEN = {"evict": 10, "step": 10, "grow": 14}
"""Trees change where prompts are computed in chunks, and where leaves go."""


def more_oracles(_case: Case) -> Callable[[World], list[TreeAnswersOracle]]:
    """Return what makes the oracle of this level's own for a case."""
    return lambda world: [TreeAnswersOracle(world)]


def profiles(capabilities: Capabilities) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases that a tree can do, by name."""
    drawn = msgspec.structs.replace(capabilities, operations=[*capabilities.operations, "evict"])
    evicts = "evict" in capabilities.operations
    return {
        name: cases.map(lambda case: _of_tree(case, evicts=evicts))
        for name, cases in requests.profiles(drawn, _OFTEN).items()
    }


def _of_tree(case: Case, *, evicts: bool) -> Case:
    """An eviction of a block is one of so many tokens; or nothing is evicted, and all is inserted once more."""
    ops: list[tuple[str, dict[str, Any]]] = []
    for name, args in case.ops:
        if name != "evict":
            ops.append((name, args))
        elif evicts and args["block"]:
            ops.append(("evict", {"tokens": args["block"]}))
        else:
            ops.append(("again", {}))
    return Case(LEVEL, case.setup, ops)
