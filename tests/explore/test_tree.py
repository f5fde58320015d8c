"""Machine R, exhaustively in small scopes."""

from __future__ import annotations

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.scopes import find_scope
from kvproof.spec.tree import PrefixTree

# Sizes that differ from the default's; then states, transitions and depth, and what cannot happen in so small a scope.
GOLDEN: list[tuple[dict[str, int], tuple[int, int, int], list[str]]] = [
    ({"Page": 2, "Prefix": 3}, (656, 6_832, 14), ["sequences_part"]),
    ({"Page": 2, "Prefix": 2, "Slot": 2}, (2_530, 29_408, 16), ["sequences_part"]),
    ({}, (10_662, 126_834, 22), []),
]
LARGE: list[tuple[dict[str, int], tuple[int, int, int], list[str]]] = [({"Page": 4}, (198_624, 2_640_480, 26), [])]


@pytest.mark.parametrize(
    ("sizes", "counts", "unreached"), [*GOLDEN, *(pytest.param(*row, marks=pytest.mark.slow) for row in LARGE)]
)
def test_counts_and_properties(sizes: dict[str, int], counts: tuple[int, int, int], unreached: list[str]) -> None:
    scope = find_scope(PrefixTree, sizes, split=False, null=None, caching=True, seed=0)
    report = explore(PrefixTree, scope)
    assert report.violations == []
    assert report.complete
    assert (report.states, report.transitions, report.depth) == counts
    assert report.unreached == unreached
