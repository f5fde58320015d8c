"""Limits of lookups that do not follow from the length of the request: what `prove` must refute and `explore` find."""

from __future__ import annotations

from kvproof.machine import Int, Machine
from kvproof.spec.pool import Request
from kvproof.spec.pool.lengths import Lengths


class LooksForEveryToken(Lengths):
    """S12: n in place of n - 1; a request whose last block is full has nothing left to compute."""

    def _asked(self, r: Request) -> Int:
        return self.tokens[r] // self.block_tokens.value


class LeavesTwoTokens(Lengths):
    """A request that is one token longer than its full blocks computes the last of them again."""

    def _asked(self, r: Request) -> Int:
        return (self.tokens[r] - 2) // self.block_tokens.value


BROKEN: list[tuple[type[Machine], str, int]] = [
    (LooksForEveryToken, "a_lookup_leaves_the_last_token", 2),
    (LeavesTwoTokens, "a_lookup_leaves_no_more_than_it_must", 0),
]
"""Machine, the property that it breaks, and its limit for a request of two blocks of one token."""
