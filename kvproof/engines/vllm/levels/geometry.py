"""What cases of several levels are made of: groups of layers, small and unequal, and how operations are written."""

from typing import Any

from hypothesis import strategies as st
from packaging.version import Version

from ...cases import Op, Setup

__all__ = ["BLOCKS", "MIXED", "Choice", "Op", "Setup", "chunk", "plain", "takes_events", "window", "windowed"]

Choice = st.SearchStrategy[Any]

BLOCKS = st.sampled_from([2, 3, 4, 8])
"""Tokens of a block."""

MIXED = Version("0.25")
"""The first release whose prompts may be tokens and embeddings by turns."""

_EVENTS_WITH_GROUPS = Version("0.20")


def takes_events(known: Version, groups: list[Setup]) -> bool:
    """Whether a release takes KV events and these groups together; before 0.20, events make one group of all layers."""
    return known >= _EVENTS_WITH_GROUPS or len(groups) == 1


def plain(sizes: st.SearchStrategy[int] = BLOCKS) -> st.SearchStrategy[list[Setup]]:
    """Full attention alone, with blocks of these sizes."""
    return st.builds(lambda block: [{"kind": "full", "block": block}], sizes)


def windowed(block: int, behind: int) -> Setup:
    """A sliding window over a token and so many behind it."""
    return {"kind": "window", "block": block, "window": 1 + behind}


def window() -> st.SearchStrategy[list[Setup]]:
    """A sliding window alone."""
    return st.builds(lambda block, behind: [windowed(block, behind)], BLOCKS, st.integers(1, 12))


def chunk(sizes: st.SearchStrategy[int]) -> st.SearchStrategy[list[Setup]]:
    """Chunked attention by itself or beside full attention, with blocks of these sizes."""
    return st.builds(_chunk_groups, sizes, st.integers(1, 3), st.booleans())


def _chunk_groups(block: int, blocks: int, full: bool) -> list[Setup]:
    return [{"kind": "full", "block": block}] * full + [{"kind": "chunk", "block": block, "window": block * blocks}]
