"""Machine P for requests of so many tokens: where a lookup ends follows from the length (P14, O6).

In machine P the limit of a lookup is a number that comes with the request. Here it is what it has to be: the blocks
that are full without the last token of the request, which is computed again for its logits. So a request whose last
block is full is never served whole from the cache. What is looked up on the host (O6) ends at the same limit.
"""

from __future__ import annotations

from typing import Self

from ...machine import Bool, Int, Param, all_of, any_of, assume, implies, sometimes, step
from ..pool import Pool, Position, Request

__all__ = ["Lengths"]


class Lengths(Pool):
    """The block pool, and the lengths of requests."""

    tokens = Param(Request, to=Int)
    """How many tokens a request has when it is looked up."""

    block_tokens = Param(to=Int)
    """How many tokens a full block has."""

    @assume("P14")
    def blocks_have_tokens(self) -> Bool:
        """One at least."""
        return self.block_tokens.value >= 1

    @assume("P14")
    def there_is_a_last_token(self, r: Request) -> Bool:
        """So have requests."""
        return self.tokens[r] >= 1

    @assume("P14, O6")
    def the_limit_follows_from_the_length(self, r: Request) -> Bool:
        """No request is looked up further than `_asked` says."""
        return self.limit[r] == self._asked(r)

    def _asked(self, r: Request) -> Int:
        """The blocks that are full without the last token."""
        return (self.tokens[r] - 1) // self.block_tokens.value

    @step("P14, O6", of="hit")
    def a_lookup_leaves_the_last_token(self, before: Self, r: Request, result: Int) -> Bool:  # noqa: ARG002
        """At least one token of the request is computed, however much of it is cached."""
        return result * self.block_tokens.value < self.tokens[r]

    @step("P14", of="hit")
    def a_lookup_leaves_no_more_than_it_must(self, before: Self, r: Request, i: Position, result: Int) -> Bool:
        """It ends at a hash that is not cached, or where less than a block is left beside the last token."""
        is_all = (result + 1) * self.block_tokens.value >= self.tokens[r]
        is_missing = implies(i == result, before.cached[self.prompt[r, i]].is_empty())
        return any_of(is_all, is_missing)

    @sometimes("P14")
    def a_request_is_full_and_cached(self, r: Request, i: Position) -> Bool:
        """Its last block ends with its last token, and could be found."""
        ends_there = (i + 1) * self.block_tokens.value == self.tokens[r]
        return all_of(ends_there, ~self.cached[self.prompt[r, i]].is_empty())
