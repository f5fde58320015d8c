"""Machines M and D and both together, exhaustively in small scopes: their counts of states.

The lockstep walks of `tests/stateful/test_tiers.py` go through the same scopes. `test_broken_tiers.py` has the mutants;
here are two more.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.checkers.transitions import transitions
from kvproof.machine import Int, Machine, Model, when
from kvproof.machine.scope import Scope
from kvproof.spec.pool import Block, Hash
from kvproof.spec.tiers.mirror import Mirror
from kvproof.spec.tiers.pin import Pinned

from ..marks import slow_but
from .tiers import scope

ONE: dict[str, Any] = {"blocks": 2, "requests": 1}
TWO: dict[str, Any] = {"blocks": 2, "requests": 2}
DEEP: dict[str, Any] = {"blocks": 3, "requests": 1, "hashes": 2, "positions": 3, "limit": 2}
"""Room for a gap: lookups of two blocks, and a third block to push one of them out."""

STRANGERS: dict[str, Any] = {"hashes": 3, "capacity": 2, "parent": [None, None, 1], "prompt": [[0, 0], [1, 2]]}
"""Two requests that have nothing in common."""

SHARING, SCARCITY, GAP = "a_block_is_shared", "the_pool_is_exhausted", "a_prefix_has_a_gap"
PINS = ["a_block_is_pinned", "a_marked_block_is_used_again", "a_demoted_block_can_still_be_found"]

Golden = tuple[str, dict[str, Any], tuple[int, int, int], list[str]]
# What is explored; states, transitions and depth; what cannot happen there.
GOLDEN: dict[str, Golden] = {
    "mirror": ("mirror", {**ONE, "hashes": 2}, (2_402, 16_084, 18), [SHARING, SCARCITY, GAP]),
    "mirror, two requests": ("mirror", {**TWO, "hashes": 1}, (3_740, 31_988, 14), [GAP]),
    "mirror, split": ("mirror", {**TWO, "hashes": 2, "split": True}, (20_794, 199_172, 20), [GAP]),
    "pin, one hash": ("pin", {**ONE, "hashes": 1, "null": True}, (718, 7_362, 17), [SHARING]),
    "pin": ("pin", {**ONE, "hashes": 2, "null": True}, (3_044, 33_674, 23), [SHARING]),
    "pin, two requests": ("pin", {**TWO, "hashes": 1, "null": True}, (9_804, 138_796, 18), []),
    "pin, split": ("pin", {**TWO, "hashes": 1, "null": True, "split": True}, (9_732, 137_620, 18), []),
    "pin, off": (
        "pin",
        {**ONE, "hashes": 2, "null": True, "pinning": False},
        (2_280, 24_878, 21),
        [SHARING, SCARCITY, *PINS],
    ),
    "tiered": ("tiered", {**ONE, "hashes": 1, "null": True}, (2_400, 27_084, 20), [SHARING, GAP]),
    "tiered, split": (
        "tiered",
        {**ONE, "hashes": 2, "null": True, "split": True, "capacity": 2},
        (19_702, 238_418, 27),
        [SHARING, GAP],
    ),
    "mirror, a gap, split": (
        "mirror",
        {**DEEP, "capacity": 2, "split": True},
        (56_292, 495_048, 24),
        [SHARING, SCARCITY],
    ),
    "pin, large drops": (
        "pin",
        {**DEEP, "null": True, "min_drop": 2, "window": 2},
        (135_864, 2_023_806, 28),
        [SHARING],
    ),
    "tiered, two requests": ("tiered", {**TWO, "hashes": 1, "null": True}, (69_984, 1_125_704, 22), [GAP]),
}
SMALL = [name for name, (_, _, counts, _) in GOLDEN.items() if counts[0] < 3_000]
OFTEN = {"mirror", "mirror, two requests", "pin, one hash", "tiered"}


@pytest.mark.parametrize("name", slow_but(GOLDEN, OFTEN, {"pin, large drops"}))
def test_counts_and_properties(name: str) -> None:
    machine, sizes, counts, unreached = GOLDEN[name]
    explored = scope(machine, **sizes)
    report = explore(explored.model, explored)
    assert report.violations == []
    assert report.complete
    assert (report.states, report.transitions, report.depth) == counts
    assert report.unreached == unreached


def test_everything_happens_somewhere() -> None:
    for machine in ("mirror", "pin", "tiered"):
        missed = [set(unreached) for m, _, _, unreached in GOLDEN.values() if m == machine]
        assert set.intersection(*missed) <= ({GAP} if machine == "tiered" else set())


@pytest.mark.parametrize("name", slow_but(SMALL, {"pin, one hash", "mirror"}))
def test_one_state_at_a_time_the_counts_are_the_same(name: str) -> None:
    machine, sizes, counts, _ = GOLDEN[name]
    explored = scope(machine, **sizes)
    visits = list(transitions(explored.model, explored))
    assert (len(visits), sum(len(v.edges) for v in visits), max(len(v.path) for v in visits)) == counts


class EvictsMostRecent(Mirror):
    """The host gives up what it got last."""

    def _keep(self, h: Hash, b: Block) -> None:
        with when(~self.host.has(h) & (self.host.size >= self.capacity.value)):
            self.host.remove(self.host.tail())
            self.dropped.add(1)
        super()._keep(h, b)


class GateDemotesTheWholeDemand(Pinned):
    """A gate demotes as many as are wanted, not as many as are missing."""

    def _demote(self, n: Int) -> None:
        super()._demote(n + self.free.size)


MUTANTS: list[tuple[type[Machine], str, dict[str, Any], set[str]]] = [
    (EvictsMostRecent, "mirror", {**TWO, **STRANGERS}, {"the_host_keeps_what_was_mirrored"}),
    (GateDemotesTheWholeDemand, "pin", {**ONE, "hashes": 2, "null": True}, {"a_gate_demotes_exactly_what_is_missing"}),
]


@pytest.mark.parametrize(("mutant", "machine", "sizes", "names"), MUTANTS, ids=lambda x: getattr(x, "__name__", None))
def test_mutants_are_caught(mutant: type[Machine], machine: str, sizes: dict[str, Any], names: set[str]) -> None:
    sound = scope(machine, **sizes)
    model = Model.of(mutant)
    report = explore(model, Scope(model, sound.sizes, sound.params))
    assert names <= {finding.name for finding in report.violations}, report.violations
