"""Cases for the level ``tree``: those of whole requests, with evictions by number of tokens, and inserts once more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from ..engines.cases import Op
from ..engines.driver import requests
from ..judge.oracles.tree_answers import TreeAnswersOracle
from ..judge.record import TOGETHER, Capabilities, Case, World
from .tree_scenes import SCENE, SCENES, tree_scenes, tree_uses
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
    found = {
        name: cases.map(lambda case: _of_tree(case, evicts=evicts))
        for name, cases in requests.profiles(drawn, _OFTEN).items()
    }
    setups = requests.setups(capabilities)
    plays = st.binary(min_size=SCENES[0] * SCENE, max_size=SCENES[1] * SCENE)
    if TOGETHER not in capabilities.operations:
        uses = st.builds(lambda setup, play: tree_uses(LEVEL, capabilities, setup, play), setups["again"], plays)
        return {**found, "again": st.one_of(found["again"], uses)} if evicts else found
    scenes = st.builds(lambda setup, play: tree_scenes(LEVEL, capabilities, setup, play), setups["overlap"], plays)
    usual = {name: st.one_of(cases, scenes) for name, cases in found.items()}
    return {"scenes": scenes, **usual}


def _of_tree(case: Case, *, evicts: bool) -> Case:
    """An eviction of a block is one of so many tokens; or nothing is evicted, and all is inserted once more."""
    return Case(LEVEL, case.setup, [_op_of_tree(name, args, evicts=evicts) for name, args in case.ops])


def _op_of_tree(name: str, args: dict[str, Any], *, evicts: bool) -> Op:
    if name == "begin":
        begun, rest = _op_of_tree(args["op"], {key: args[key] for key in args if key != "op"}, evicts=evicts)
        return "begin", {"op": begun, **rest}
    if name != "evict":
        return name, args
    return ("evict", {"tokens": args["block"]}) if evicts and args["block"] else ("again", {})
