"""A scene for whole requests: two of them compute the same blocks beside each other, and only one copy is cached.

What the other one computes behind its own copy is cached below a block that it does not hold. That block goes when its
request is over and somebody needs room, and comes again: in another block, and what was below it must be found there.
A manager that knows a block by its parent's number, or forgets with a parent all that is below it, is wrong then. Or it
is the other copy that goes, and the first one stays: a manager in whose map the later copy stands has lost it then.
Operations that are drawn one by one come to that once in some thousand cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from ...judge.record import Case
from ..cases import Op, Setup

__all__ = ["twins"]

_FEW = st.integers(0, 2)
_MAYBE = st.booleans()


def twins(level: str, sizes: st.SearchStrategy[int], options: Mapping[str, Any]) -> st.SearchStrategy[Case]:
    """Return cases of one scene each, with blocks of these sizes."""
    choices = st.tuples(_FEW, _FEW, _FEW, _FEW, _FEW, _MAYBE, _MAYBE, _MAYBE, _MAYBE)
    return st.builds(lambda size, chosen: _scene(level, size, options, *chosen), sizes, choices)


def _scene(
    level: str,
    size: int,
    options: Mapping[str, Any],
    stem: int,
    behind: int,
    spare: int,
    wanted: int,
    again: int,
    other_first: bool,
    grows: bool,
    leaves_first: bool,
    other_goes: bool,
) -> Case:
    stem, behind = max(1, stem), max(1, behind)
    blocks = 2 * stem + behind + spare
    shared, rest = [0] * stem * size, [1] * behind * size
    first: Op = ("start", {"request": "r0", "prompt": shared, "most": 1})
    other: Op = ("start", {"request": "r1", "prompt": shared if grows else shared + rest, "most": 1})
    goes: list[Op] = [("step", {"request": r, "most": len(shared + rest)}) for r in ("r0", "r1")]
    grown: list[Op] = [("grow", {"request": "r1", "tokens": [token]}) for token in rest] if grows else []
    goes_first, stays = ("r1", "r0") if other_goes else ("r0", "r1")
    above = spare + behind if other_goes else spare  # What was given back last of a request is taken before its stem.
    takes = [2] * (above + min(stem, 1 + wanted)) * size
    leave: Op = ("finish", {"request": stays})
    ops: list[Op] = [
        *((other, first) if other_first else (first, other)),
        *goes,
        *grown,
        ("finish", {"request": goes_first}),
        ("start", {"request": "r2", "prompt": takes}),
        *((leave, ("finish", {"request": "r2"})) if leaves_first else (("finish", {"request": "r2"}), leave)),
        ("start", {"request": "r3", "prompt": [*shared, *[0] * (again % 2)]}),
        *([("finish", {"request": "r3"})] if again else []),
        ("start", {"request": "r4", "prompt": [*shared, *rest, 2]}),
    ]
    setup: Setup = {"blocks": blocks, "block_tokens": size, **options}
    return Case(level, setup, ops)
