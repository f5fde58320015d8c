"""What hybrid models offload: whole chunks, and prefixes that every group can use (H1 to H3).

A hybrid model keeps several kinds of state, each in blocks of its own size: a group of attention layers may have blocks
of 16 tokens, one of mamba layers blocks of 1,000. All are stored in chunks of one size. A block that a chunk size
divides is stored in pieces of that size; any other is stored whole, when chunks cover it.

Two questions are asked all the time. How many chunks do so many tokens fill? And when so many chunks are stored, how
long a prefix can be restored from them? The answers must fit: nothing is stored that is not computed yet, and nothing
is restored that was not stored.

Everything here is arithmetic; the machine has state only so that answers can be compared. `ProposedPlanner` is a
planner that was proposed for vLLM. It is not part of what is proved: it must be refuted.
"""

from __future__ import annotations

from ...machine import (
    Bool,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Sort,
    action,
    all_of,
    assume,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    none,
    optional,
    sometimes,
    step,
)

__all__ = ["Chunks", "Group", "Planner", "ProposedPlanner", "Tokens"]


class Group(Sort):
    """Layers that share one kind of block."""


class Tokens(Index):
    """A number of tokens."""


class Chunks(Index):
    """A number of chunks."""


class Planner(Machine):
    """How tokens, chunks and prefixes go together."""

    # -------------------------------------------------------------------------------- parameters

    hash_block = Param(to=Int)
    """The tokens of the block for which hashes are made: the grain of every prefix."""

    chunk = Param(to=Int)
    """The tokens of a chunk."""

    block = Param(Group, to=Int)
    """The tokens of a block of a group."""

    is_mamba = Param(Group, to=Bool)
    """Of this group only the state at the end of a stored piece can be used; of others, any prefix of it."""

    a_group = Param(to=Group)
    """One of the groups; there is at least one."""

    is_boundary = Param(Tokens, to=Bool)
    """Every group has a usable state after so many tokens, if they are stored."""

    grain = Param(to=Int)
    """The least common multiple of the hash block and the units of the mamba groups."""

    @assume("H1")
    def sizes_are_positive(self) -> Bool:
        """Others are refused when the planner is made."""
        return (self.hash_block.value > 0) & (self.chunk.value > 0)

    @assume("H1")
    def chunks_are_whole(self) -> Bool:
        """They consist of hash blocks."""
        return self.chunk.value % self.hash_block.value == 0

    @assume("H1")
    def blocks_are_whole(self, g: Group) -> Bool:
        """So do the blocks of all groups."""
        return (self.block[g] > 0) & (self.block[g] % self.hash_block.value == 0)

    pieces = Param(Group, Chunks, to=Int)
    """How many pieces of a group so many chunks cover completely."""

    @assume("H2")
    def pieces_are_covered_whole(self, g: Group, k: Chunks) -> Bool:
        """As many as there is room for."""
        return self.pieces[g, k] == k * self.chunk.value // self.unit(g)

    @assume("H2")
    def a_boundary_is_one_of_every_group(self, t: Tokens) -> Bool:
        """It ends a hash block, and a stored piece of every mamba group."""
        whole = forall(Group, lambda g: implies(self.is_mamba[g], t % self.unit(g) == 0))
        return iff(self.is_boundary[t], (t % self.hash_block.value == 0) & whole)

    @assume("H2")
    def boundaries_are_multiples_of_the_grain(self, t: Tokens) -> Bool:
        """What a least common multiple is."""
        return (self.grain.value > 0) & iff(self.is_boundary[t], t % self.grain.value == 0)

    # -------------------------------------------------------------------------------- state

    count = Map(Tokens, to=optional(Chunks))
    """How many chunks so many tokens fill, if that was asked."""

    prefix = Map(Chunks, to=optional(Tokens))
    """How many tokens can be restored from so many chunks, if that was asked."""

    # -------------------------------------------------------------------------------- words

    def unit(self, g: Group) -> Int:
        """The tokens of a stored piece of a group."""
        is_whole = (self.block[g] <= self.chunk.value) | (self.block[g] % self.chunk.value != 0)
        return ite(is_whole, self.block[g], self.chunk.value)

    def covered(self, g: Group, k: Int) -> Int:
        """The tokens of the pieces of a group that k chunks cover completely."""
        return self.pieces[g, k] * self.unit(g)

    def is_usable(self, p: Tokens, k: Chunks) -> Bool:
        """A prefix of p tokens can be restored from k chunks: each group covers it, and has a usable state there."""
        return self.is_boundary[p] & self.is_covered(p, k)

    def is_covered(self, p: Int, k: Int) -> Bool:
        """Each group's pieces reach as far."""
        return forall(Group, lambda g: p <= self.covered(g, k))

    # -------------------------------------------------------------------------------- actions

    @action("H2")
    def measure(self, t: Tokens, k: Chunks) -> None:
        """Ask how many chunks t tokens fill."""
        self.require(k == t // self.chunk.value)
        self.count[t] = k

    @action("H2")
    def plan(self, k: Chunks, p: Tokens) -> None:
        """Ask for the longest prefix that k chunks restore: the boundary after it is not covered by some group."""
        self.require(self.is_usable(p, k))
        self.require(~self.is_covered(p + self.grain.value, k))
        self.prefix[k] = p

    # -------------------------------------------------------------------------------- lemmas

    @invariant("H2")
    def more_chunks_cover_more(self, g: Group, k: Chunks, j: Chunks) -> Bool:
        """Or as much."""
        return implies(k <= j, self.pieces[g, k] <= self.pieces[g, j])

    @invariant("H2")
    def pieces_lie_within_the_chunks(self, g: Group, k: Chunks) -> Bool:
        """They are whole, and the next one does not."""
        end = k * self.chunk.value
        return (self.covered(g, k) <= end) & (end < self.covered(g, k) + self.unit(g))

    @invariant("H2")
    def boundaries_are_a_grain_apart(self, p: Tokens, q: Tokens) -> Bool:
        """At least."""
        return implies(self.is_boundary[p] & self.is_boundary[q] & (p < q), p + self.grain.value <= q)

    # -------------------------------------------------------------------------------- invariants

    @invariant("H2")
    def a_chunk_counts_when_it_is_full(self, t: Tokens) -> Bool:
        """As many are counted as the tokens fill: no more (S19), no fewer."""
        k, c = self.count[t], self.chunk.value
        return implies(k != none, exists(Chunks, lambda n: (k == n) & (n * c <= t) & (t < (n + 1) * c)))

    @invariant("H2")
    def a_prefix_is_usable(self, k: Chunks, p: Tokens) -> Bool:
        """Every group covers it, and has the state that it needs there."""
        return implies(self.prefix[k] == p, self.is_usable(p, k))

    @invariant("H2")
    def more_chunks_cover_it_too(self, k: Chunks, p: Tokens, j: Chunks, g: Group) -> Bool:
        """What can be restored from some chunks can be restored from more."""
        return implies((self.prefix[k] == p) & (k <= j), p <= self.covered(g, j))

    @invariant("H2")
    def the_next_boundary_is_not(self, k: Chunks, p: Tokens) -> Bool:
        """Some group does not cover it."""
        return implies(self.prefix[k] == p, exists(Group, lambda g: self.covered(g, k) < p + self.grain.value))

    @invariant("H2")
    def a_prefix_is_the_longest(self, k: Chunks, p: Tokens, q: Tokens) -> Bool:
        """Nothing longer could be restored."""
        return implies((self.prefix[k] == p) & self.is_usable(q, k), q <= p)

    # -------------------------------------------------------------------------------- what follows

    @corollary("H2")
    def there_is_always_a_prefix(self, k: Chunks, t: Tokens) -> Bool:
        """The empty one at least."""
        return implies(t == 0, self.is_usable(t, k))

    @corollary("H2")
    def nothing_is_restored_that_was_not_stored(self, k: Chunks, p: Tokens) -> Bool:
        """A prefix ends within its chunks."""
        return implies(self.prefix[k] == p, p <= k * self.chunk.value)

    @corollary("H2")
    def nothing_is_stored_that_is_not_computed(self, t: Tokens, k: Chunks, p: Tokens) -> Bool:
        """What can be restored from the chunks that t tokens fill is within these tokens."""
        return implies((self.count[t] == k) & (self.prefix[k] == p), p <= t)

    @corollary("H2")
    def a_prefix_fills_no_more_than_its_chunks(self, k: Chunks, p: Tokens, j: Chunks) -> Bool:
        """There and back again gives no more chunks than there were."""
        return implies((self.prefix[k] == p) & (self.count[p] == j), j <= k)

    @corollary("H2")
    def more_tokens_fill_more_chunks(self, t: Tokens, u: Tokens, k: Chunks, j: Chunks) -> Bool:
        """Or as many."""
        return implies((self.count[t] == k) & (self.count[u] == j) & (t <= u), k <= j)

    @corollary("H2, H3")
    def more_chunks_give_a_longer_prefix(self, k: Chunks, j: Chunks, p: Tokens, q: Tokens) -> Bool:
        """Or the same. So if those of the longest request give none, nothing is ever stored: that is known at start."""
        return implies((self.prefix[k] == p) & (self.prefix[j] == q) & (k <= j), p <= q)

    @corollary("H2")
    def each_question_has_one_answer(self, t: Tokens, k: Chunks, p: Tokens) -> Bool:
        """The chunks that are full; and the longest prefix that can be used: the next boundary is not covered."""
        c, g = self.chunk.value, self.grain.value
        is_longest = self.is_usable(p, k) & ~self.is_covered(p + g, k)
        return all_of(
            iff(can(self.measure, t, k), (k * c <= t) & (t < (k + 1) * c)),
            iff(can(self.plan, k, p), is_longest),
        )

    # -------------------------------------------------------------------------------- steps

    @step("H2", of="measure")
    def who_asks_for_chunks_is_answered(self, before: Planner, t: Tokens, k: Chunks, u: Tokens) -> Bool:
        """Of so many tokens, and of no others."""
        return (self.count[t] == k) & implies(u != t, self.count[u] == before.count[u])

    @step("H2", unless="plan")
    def prefixes_are_planned_by_themselves(self, before: Planner, j: Chunks) -> Bool:
        """Who asks for chunks changes no answer of that kind."""
        return all_of(self.prefix[j] == before.prefix[j])

    @step("H2", unless="measure")
    def chunks_are_counted_by_themselves(self, before: Planner, u: Tokens) -> Bool:
        """Nor the other way round."""
        return all_of(self.count[u] == before.count[u])

    @step("H2", of="plan")
    def who_asks_for_a_prefix_is_answered(self, before: Planner, k: Chunks, p: Tokens, j: Chunks) -> Bool:
        """Of so many chunks, and of no others."""
        return (self.prefix[k] == p) & implies(j != k, self.prefix[j] == before.prefix[j])

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("H2")
    def a_chunk_is_not_full(self, t: Tokens, k: Chunks) -> Bool:
        """Behind one that is."""
        return (self.count[t] == k) & (k > 0) & (k * self.chunk.value < t)

    @sometimes("H2")
    def a_prefix_is_shorter_than_its_chunks(self, k: Chunks, p: Tokens) -> Bool:
        """A block that chunks do not divide is not covered yet."""
        return (self.prefix[k] == p) & (p > 0) & (p < k * self.chunk.value)


class ProposedPlanner(Planner):
    """To be refuted: as proposed for vLLM (pull request 38261).

    Chunks are counted by what can be restored from them, one more than the tokens fill among them (S19); and a prefix
    is what all groups cover, whether or not they can be used there.
    """

    @action("H2")
    def measure(self, t: Tokens, k: Chunks) -> None:
        """Ask how many chunks t tokens fill: the most whose prefix is within the tokens."""
        most = t // self.chunk.value + 1
        self.require(k <= most)
        self.require(self._is_within(k, t))
        self.require((k == most) | ~self._is_within(k + 1, t))
        self.count[t] = k

    def _is_within(self, k: Int, t: Int) -> Bool:
        return exists(Group, lambda g: self.covered(g, k) <= t)

    @action("H2")
    def plan(self, k: Chunks, p: Tokens) -> None:
        """Ask for the longest prefix that can be restored from k chunks: what all groups cover."""
        self.require(self.is_covered(p, k))
        self.require(~self.is_covered(p + 1, k))
        self.prefix[k] = p
