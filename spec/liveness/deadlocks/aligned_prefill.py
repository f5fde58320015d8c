"""A prefill that goes by whole blocks, beside drafts (docs/findings.md, 3)."""

from __future__ import annotations

from ....machine import (
    Bool,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Promise,
    action,
    all_of,
    assume,
    eventually,
    implies,
    invariant,
    ite,
    promise,
    steps,
    such_as,
)
from .lines import Request

__all__ = ["AlignedPrefill", "PrefillBesideDrafts"]


class Tokens(Index):
    """A number of tokens."""


class AlignedPrefill(Machine):
    """A prefill goes on in whole blocks, or to its end, within a budget of tokens that drafts share."""

    budget = Param(to=Int)
    """The tokens of a step."""

    drafts = Param(to=Int)
    """Those of them that are kept for drafts."""

    block = Param(to=Tokens)
    """The tokens between two states that are kept."""

    is_whole = Param(Tokens, to=Bool)
    """So many tokens are whole blocks."""

    left = Map(Request, to=Int)
    """What a request has still to compute."""

    @assume("H7")
    def blocks_are_whole(self, n: Tokens) -> Bool:
        """One block is, and nothing shorter."""
        is_one = implies(n == self.block.value, self.is_whole[n])
        return all_of(self.block.value >= 1, is_one, implies(self.is_whole[n], n >= self.block.value))

    @assume("H7")
    def a_step_has_room(self) -> Bool:
        """A block fits a step beside the drafts."""
        is_number = (self.drafts.value >= 0) & Tokens.has(self.budget.value) & Tokens.has(self.block.value)
        return is_number & (self.block.value + self.drafts.value <= self.budget.value)

    @action("H7")
    def come(self, r: Request, n: Tokens) -> None:
        """A request comes with so many tokens to compute."""
        self.require(self.left[r] == 0)
        self.left[r] = n

    @action("H7")
    def compute(self, r: Request, n: Tokens) -> None:
        """A step computes whole blocks of it, or all that is left."""
        self.require((n >= 1) & (n <= self.left[r]) & (n <= self.budget.value - self.drafts.value))
        self.require(self.is_whole[n] | (n == self.left[r]))
        self.left[r] = self.left[r] - n

    @invariant("H7")
    def nothing_is_computed_twice(self, r: Request) -> Bool:
        """No step does more than is left."""
        return self.left[r] >= 0

    @eventually("L1")
    def every_prefill_ends(self, r: Request) -> Promise:
        """Some step computes its last token."""
        is_last = self.left[r] <= self.budget.value - self.drafts.value
        such = such_as(ite(is_last, self.left[r], self.block.value))
        return promise(goal=self.left[r] == 0, fair=[steps(self.compute, r, such)], measure=[self.left[r]])


class PrefillBesideDrafts(AlignedPrefill):
    """As vLLM 0.33.0: what is checked at the start is that a block fits the budget, with the drafts left out."""

    @assume("H7")
    def a_step_has_room(self) -> Bool:
        """A block fits a step that has no drafts."""
        is_number = (self.drafts.value >= 0) & Tokens.has(self.budget.value) & Tokens.has(self.block.value)
        return all_of(is_number, self.block.value <= self.budget.value, self.drafts.value < self.budget.value)
