"""Assertions about machines: what does not hold fails with its counterexample, and what judges nothing fails too."""

from __future__ import annotations

import pytest

from kvproof import Bool, Int, Machine, Map, Sort, action, invariant, sometimes
from kvproof.errors import UsageError
from kvproof.testing import assert_explored, assert_proved


class Block(Sort): ...


class Counter(Machine):
    held = Map(Block, to=Int)

    @action("T1")
    def take(self, b: Block) -> None:
        self.require(self.held[b] <= 1)
        self.held[b] = self.held[b] + 1

    @action("T1")
    def give(self, b: Block) -> None:
        self.require(self.held[b] >= 1)
        self.held[b] = self.held[b] - 1

    @invariant("T1")
    def two_at_most(self, b: Block) -> Bool:
        return (self.held[b] >= 0) & (self.held[b] <= 2)


class Wrong(Counter):
    @invariant("T2")
    def one_at_most(self, b: Block) -> Bool:
        return self.held[b] <= 1


class Rare(Counter):
    @sometimes("T3")
    def three(self, b: Block) -> Bool:
        return self.held[b] == 3


class Idle(Counter):
    """An action of which nothing could be seen to be wrong."""

    @action("T4")
    def lose(self, b: Block, n: Int) -> None:
        self.require((self.held[b] == 1) & (n > self.held[b]) & (n < 0))
        self.held[b] = 7


class Bare(Machine):
    held = Map(Block, to=Int)


def test_what_holds_passes() -> None:
    assert_proved(Counter)
    assert_explored(Counter, Block=2)


def test_what_does_not_hold_fails_with_its_counterexample() -> None:
    with pytest.raises(AssertionError, match=r"(?s)Wrong\.take.*one_at_most.*held\[b0\] +1 +2 +<- changed"):
        assert_proved(Wrong)
    with pytest.raises(AssertionError, match=r"T2 one_at_most\(b=0\) after 2 steps: take\(b=0\); take\(b=0\)"):
        assert_explored(Wrong, Block=2)


def test_what_judges_nothing_fails() -> None:
    with pytest.raises(AssertionError, match="no property or no action"):
        assert_proved(Bare)
    with pytest.raises(AssertionError, match="nothing was judged"):
        assert_explored(Bare, Block=2)
    with pytest.raises(AssertionError, match="not reached in this scope: three"):
        assert_explored(Rare, Block=2)
    with pytest.raises(AssertionError, match="not all states were visited"):
        assert_explored(Counter, Block=3, max_states=3)
    with pytest.raises(UsageError):
        assert_explored(Counter, Brick=2)


def test_an_action_that_is_never_possible_fails_unless_that_is_said() -> None:
    with pytest.raises(AssertionError, match=r"never possible in this scope: lose \(no negative number is tried\)"):
        assert_explored(Idle, Block=2)
    assert_explored(Idle, Block=2, never=["lose"])
    with pytest.raises(UsageError, match="Idle has no action loose"):
        assert_explored(Idle, Block=2, never=["loose"])
