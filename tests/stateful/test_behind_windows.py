"""What lies behind a window is given up: at once, where a manager promises that, or where it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kvproof.judge.judging import faults
from kvproof.judge.oracles.behind import BehindOracle
from kvproof.judge.record import Answer, Group, State, Step, Tier, World
from kvproof.testing import BlockManager, assert_played
from kvproof.testing.fuzzing import fuzz_manager

from . import test_grouped as grouped
from .test_block_manager import _Window, _Windows

import test_hybrid as example  # isort: skip # test_grouped puts its folder on the path
import test_hybrid_offload as hosts  # isort: skip
from hybrid import HybridPool  # isort: skip

GIVEN = {"dialect": {"keep": "all", "behind": "given"}}
KEPT = {"dialect": {"keep": "all", "behind": "kept"}}


class _Never(HybridPool):
    """What lies behind the window stays until the request ends."""

    def done(self, name: str, tokens: Sequence[int]) -> None:
        window, self.window = self.window, 1 << 20
        super().done(name, tokens)
        self.window = window


class _Lazy(_Never):
    """It is given up where the request would be refused more."""

    def __init__(self, blocks: int, block_tokens: int, window: int) -> None:
        super().__init__(blocks, block_tokens, window)
        self.so_far: dict[str, int] = {}

    def done(self, name: str, tokens: Sequence[int]) -> None:
        self.so_far[name] = len(tokens)
        super().done(name, tokens)

    def end(self, name: str) -> None:
        self.so_far.pop(name, None)
        super().end(name)

    def sweep(self, name: str) -> None:
        window = self.groups[name][1]
        for at in range(min(self.first(self.so_far.get(name, 0)), len(window))):
            self.give_up(window, at)

    def give(self, name: str, found: Sequence[Sequence[int]], tokens: int) -> bool:
        if super().give(name, found, tokens):
            return True
        if name not in self.groups:
            return False
        self.sweep(name)
        return super().give(name, found, tokens)


class _BeforeItGoesOn(_Lazy):
    """It is given up when the request wants more, whether or not that needs it."""

    def give(self, name: str, found: Sequence[Sequence[int]], tokens: int) -> bool:
        if name in self.groups:
            self.sweep(name)
        return super().give(name, found, tokens)


class _SweepsTooFew(_Lazy):
    """Where it is needed, the first block alone is given up."""

    def sweep(self, name: str) -> None:
        if self.first(self.so_far.get(name, 0)) and self.groups[name][1]:
            self.give_up(self.groups[name][1], 0)


class _AllButTheFirst(HybridPool):
    """The first block of a request stays."""

    is_going_on = False

    def done(self, name: str, tokens: Sequence[int]) -> None:
        self.is_going_on = True
        super().done(name, tokens)
        self.is_going_on = False

    def give_up(self, table: list[int], at: int) -> None:
        if at or not self.is_going_on:
            super().give_up(table, at)


class _ABlockLate(HybridPool):
    """The window is a block wider than it says."""

    def done(self, name: str, tokens: Sequence[int]) -> None:
        self.window += self.block_tokens
        super().done(name, tokens)
        self.window -= self.block_tokens


class _OnlyOfLong(HybridPool):
    """As long as it is short, a request gives up nothing."""

    def done(self, name: str, tokens: Sequence[int]) -> None:
        window, self.window = self.window, self.window if len(tokens) > 3 * self.block_tokens else 1 << 20
        super().done(name, tokens)
        self.window = window


def _hybrid(pool: type[HybridPool], **more: Any) -> type[BlockManager]:
    return type(pool.__name__, (example.TestHybrid,), {"kind": pool, **more})


class _NeverOfOne(_Windows):
    """All layers have a window, and nothing is given up."""

    behind = 1 << 20


@pytest.mark.parametrize(
    "kind",
    [
        _hybrid(_Never),
        _hybrid(_SweepsTooFew),
        type("One", (_Window,), {"kind": _NeverOfOne}),
        _hybrid(_Never, **GIVEN),
        _hybrid(_Lazy, **GIVEN),
        _hybrid(_AllButTheFirst, **GIVEN),
        _hybrid(_ABlockLate, **GIVEN),
        _hybrid(_OnlyOfLong, **GIVEN),
    ],
    ids=lambda kind: f"{kind.__name__} {kind.dialect.get('behind', '')}".strip(),
)
def test_what_is_held_behind_a_window_is_told(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, seconds=30, findings=1)
    assert [*fuzzed.broken] == ["D7"], fuzzed.broken


@pytest.mark.parametrize(
    "kind",
    [
        _hybrid(_Lazy),
        _hybrid(_BeforeItGoesOn),
        _hybrid(_ABlockLate),
        _hybrid(_Never, **KEPT),
        _hybrid(HybridPool, **GIVEN),
        _hybrid(_BeforeItGoesOn, **GIVEN),
        type("One", (_Window,), GIVEN),
        type("Hosts", (hosts.TestHybridOffload,), GIVEN),
        type("Loads", (grouped._Loads,), GIVEN),
        type("Overlaps", (grouped._Overlaps,), GIVEN),
    ],
    ids=lambda kind: f"{kind.__name__} {kind.dialect.get('behind', '')}".strip(),
)
def test_who_gives_it_up_as_it_says_is_told_nothing(kind: type[BlockManager]) -> None:
    assert fuzz_manager(kind, examples=200, seconds=30).broken == {}


def test_a_manager_that_keeps_it_is_told_how_to_say_so() -> None:
    grows = [("grow", {"request": "r0", "tokens": [0, 0]}) for _ in range(12)]
    others = [("start", {"request": f"r{n}", "prompt": [n] * 4}) for n in (1, 2)]
    operations = [("start", {"request": "r0", "prompt": [0] * 12}), *others, *grows]
    with pytest.raises(AssertionError, match=r'(?s)D7 refused for what is behind a window.*"behind": "kept"'):
        assert_played(_hybrid(_Never), {"blocks": 12, "block_tokens": 2}, operations)


def _played(behind: str, table: list[int], *, refused: bool) -> list[str]:
    """What is told of a request that goes on from 4 tokens, and then from 6, by a window of 2."""
    world = World([Group("window", 2, 2)], {"device": Tier(9, 0)}, 2, notes={"dialect": {"behind": behind}})
    about = {"adapter": None, "salt": None, "tokens": [1] * 6}
    first: list[list[Any]] = [
        ["request", "r0", about],
        ["lookup", "r0", 0, 0, 5],
        ["found", "r0", [[]], 0],
        ["table", "r0", 0, 0, [1, 2]],
        ["compute", "r0", 0, [1] * 4],
        ["processed", "r0", 4],
    ]
    second: list[list[Any]] = [["table", "r0", 0, 0, table], ["compute", "r0", 4, [1] * 2], ["processed", "r0", 6]]
    tables = State({}, {"r0": [table]})
    steps = [
        Step("start", {"request": "r0"}, effects=first, state=State({}, {"r0": [[1, 2]]})),
        Step("step", {"request": "r0", "most": 2}, effects=second, state=tables),
    ]
    if refused:
        steps.append(Step("grow", {"request": "r0", "tokens": [1]}, result=False, state=tables))
    told = faults(Answer(0, world, steps), lambda world: [BehindOracle(world)])
    return [found.oracle for _, violations in told for found in violations if found.rule == "D7"]


def test_what_a_promise_is_about() -> None:
    assert _played("given", [1, 2, 3], refused=False) == ["held behind a window"]
    assert _played("given", [0, 2, 3], refused=False) == [], "the token behind four attends to the second block"
    assert _played("needed", [1, 2, 3], refused=False) == [], "nobody needs it"
    assert _played("needed", [1, 2, 3], refused=True) == ["refused for what is behind a window"]
    assert _played("needed", [0, 2, 3], refused=True) == [], "a window may be a block wider"
    assert _played("kept", [1, 2, 3], refused=True) == []
