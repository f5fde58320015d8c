"""How a mamba model's prompt is cut into steps (H7).

The state of a mamba layer is stored at the ends of blocks only. So a step ends at the end of a block, as long as there
is a whole block to come; what is behind the last one is computed as it comes. What a connector has loaded counts like
what was computed: the end of the step is what is aligned, not its length. While a load is under way nothing is
computed, and that is no error. A request may be asked for fewer blocks than it holds; it then gets none.
"""

from __future__ import annotations

from ...machine import (
    Bool,
    Int,
    Machine,
    Map,
    Param,
    action,
    all_of,
    assume,
    can,
    corollary,
    iff,
    implies,
    invariant,
    ite,
    sometimes,
    step,
    when,
)
from ..hybrid.planner import Tokens
from ..pool import Request

__all__ = ["AlignedSplit"]


class AlignedSplit(Machine):
    """Requests on their way through their tokens."""

    block = Param(to=Int)
    """The tokens between two states that are stored."""

    total = Param(Request, to=Int)
    """The tokens of a request."""

    computed = Map(Request, to=Int)
    """The tokens that were on the device, or are computed."""

    external = Map(Request, to=Int)
    """The tokens that were loaded, or are being loaded."""

    loading = Map(Request, to=Bool)
    """A load is under way."""

    held = Map(Request, to=Int)
    """The blocks that the request has."""

    @assume("H1, H7")
    def a_block_has_tokens(self) -> Bool:
        """One at least."""
        return self.block.value > 0

    @assume("H1, H7")
    def a_request_may_be_empty(self, r: Request) -> Bool:
        """And has no fewer tokens than none."""
        return self.total[r] >= 0

    # -------------------------------------------------------------------------------- words

    def start(self, r: Request) -> Int:
        """The tokens that need not be computed any more, wherever they come from."""
        return self.computed[r] + self.external[r]

    def last(self, r: Request) -> Int:
        """The end of the last whole block."""
        return self.total[r] // self.block.value * self.block.value

    def end(self, r: Request, budget: Int) -> Int:
        """Where a step with that budget ends, if nothing is loaded meanwhile."""
        start, last = self.start(r), self.last(r)
        reach = start + budget
        aligned = ite(reach < last, reach, last) // self.block.value * self.block.value
        rest = ite(reach < self.total[r], reach, self.total[r])
        return ite(start < last, ite(aligned > start, aligned, start), rest)

    # -------------------------------------------------------------------------------- actions

    @action("H7")
    def begin_load(self, r: Request, n: Tokens) -> None:
        """Tokens behind the computed ones are promised."""
        self.require(~self.loading[r])
        self.require(self.external[r] == 0)
        self.require(self.computed[r] + n <= self.total[r])
        self.external[r] = n
        self.loading[r] = True

    @action("H7, O11")
    def end_load(self, r: Request, ok: Bool) -> None:
        """They are there, or they are not."""
        self.require(self.loading[r])
        self.loading[r] = False
        with when(~ok):
            self.external[r] = 0

    @action("H7")
    def schedule(self, r: Request, budget: Tokens) -> None:
        """A step computes what it may: nothing, while a load is under way."""
        taken = self.end(r, budget) - self.start(r)
        with when(~self.loading[r]):
            self.computed[r] = self.computed[r] + taken

    @action("H7")
    def grow(self, r: Request, demand: Tokens) -> None:
        """Take as many blocks as are missing for so many tokens."""
        needed = (demand + self.block.value - 1) // self.block.value
        with when(needed > self.held[r]):
            self.held[r] = needed

    # -------------------------------------------------------------------------------- invariants

    @invariant("H7")
    def nobody_is_behind_its_end(self, r: Request) -> Bool:
        """Nor before its beginning."""
        return all_of(
            (self.computed[r] >= 0) & (self.external[r] >= 0) & (self.held[r] >= 0),
            self.start(r) <= self.total[r],
        )

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("H7")
    def one_load_at_a_time(self, r: Request, n: Tokens) -> Bool:
        """Of what is left of the request, if nothing was loaded."""
        fits = self.computed[r] + n <= self.total[r]
        return iff(can(self.begin_load, r, n), all_of(~self.loading[r], self.external[r] == 0, fits))

    @corollary("H7, O11")
    def a_load_ends_once(self, r: Request, ok: Bool) -> Bool:
        """Well or badly."""
        return iff(can(self.end_load, r, ok), self.loading[r])

    @corollary("H7")
    def steps_and_blocks_are_never_refused(self, r: Request, n: Tokens) -> Bool:
        """A step may take nothing, and blocks may be there already."""
        return can(self.schedule, r, n) & can(self.grow, r, n)

    # -------------------------------------------------------------------------------- steps

    @step("H7", of=("begin_load", "end_load", "schedule", "grow"))
    def requests_go_on_by_themselves(self, before: AlignedSplit, r: Request, q: Request) -> Bool:
        """What happens to one changes nothing for another."""
        is_as_it_was = all_of(
            self.computed[q] == before.computed[q],
            self.external[q] == before.external[q],
            iff(self.loading[q], before.loading[q]),
            self.held[q] == before.held[q],
        )
        return implies(q != r, is_as_it_was)

    @step("H7", of=("begin_load", "schedule", "grow"))
    def nothing_is_computed_again(self, before: AlignedSplit, r: Request) -> Bool:
        """What is there stays there, wherever it comes from."""
        return all_of(self.start(r) >= before.start(r), self.computed[r] >= before.computed[r])

    @step("H7", of="begin_load")
    def what_is_promised_counts(self, before: AlignedSplit, r: Request, n: Tokens) -> Bool:
        """And nothing is computed before it is there, or is not."""
        return all_of(self.external[r] == n, self.loading[r], ~before.loading[r])

    @step("H7, O11", of="end_load")
    def only_what_came_counts(self, before: AlignedSplit, r: Request, ok: Bool) -> Bool:
        """All of it, or nothing."""
        return all_of(
            before.loading[r] & ~self.loading[r],
            implies(ok, self.external[r] == before.external[r]),
            implies(~ok, self.external[r] == 0),
            self.computed[r] == before.computed[r],
        )

    @step("H7", of="schedule")
    def a_step_keeps_to_its_budget(self, before: AlignedSplit, r: Request, budget: Tokens) -> Bool:
        """And takes nothing while a load is under way."""
        taken = self.start(r) - before.start(r)
        return all_of((taken >= 0) & (taken <= budget), implies(before.loading[r], taken == 0))

    @step("H7", of="schedule")
    def a_step_ends_with_a_block(self, before: AlignedSplit, r: Request) -> Bool:
        """Counted from the first token, loaded ones included; or behind the last whole block; or it takes nothing."""
        is_aligned = self.start(r) // self.block.value * self.block.value == self.start(r)
        return implies(self.start(r) != before.start(r), is_aligned | (before.start(r) >= self.last(r)))

    @step("H7", of="schedule")
    def a_step_with_a_budget_goes_on(self, before: AlignedSplit, r: Request, budget: Tokens) -> Bool:
        """One of a whole block is enough, wherever the request stands."""
        could = ~before.loading[r] & (budget >= self.block.value) & (before.start(r) < self.total[r])
        return implies(could, self.start(r) > before.start(r))

    @step("H7", of="schedule")
    def a_step_takes_all_that_it_may(self, before: AlignedSplit, r: Request, budget: Tokens) -> Bool:
        """As many blocks as its budget reaches, up to the last whole one: where it stays, no block ends within reach.
        Behind that, as many tokens."""
        reach, last, b = before.start(r) + budget, self.last(r), self.block.value
        within = ite(reach < last, reach, last)
        stays = self.start(r) == before.start(r)
        to_a_block = ite(stays, within // b * b <= before.start(r), within < self.start(r) + b)
        to_the_end = self.start(r) == ite(reach < self.total[r], reach, self.total[r])
        return implies(~before.loading[r], ite(before.start(r) < last, to_a_block, to_the_end))

    @step("H7", unless=("begin_load", "end_load"))
    def loads_begin_and_end_by_themselves(self, before: AlignedSplit, r: Request) -> Bool:
        """No step and no block changes what was loaded."""
        return (self.external[r] == before.external[r]) & iff(self.loading[r], before.loading[r])

    @step("H7", unless="schedule")
    def only_steps_compute(self, before: AlignedSplit, r: Request) -> Bool:
        """What is loaded is not computed as well."""
        return self.computed[r] == before.computed[r]

    @step("H7", unless="grow")
    def blocks_are_taken_when_they_are_wanted(self, before: AlignedSplit, r: Request) -> Bool:
        """And stay."""
        return self.held[r] == before.held[r]

    @step("H7", of="grow")
    def only_what_is_missing_is_taken(self, before: AlignedSplit, r: Request, demand: Tokens) -> Bool:
        """What is demanded is there; what is held is not taken again, and nothing is given back."""
        b = self.block.value
        return all_of(
            (self.held[r] >= before.held[r]) & (demand <= self.held[r] * b),
            implies(demand <= before.held[r] * b, self.held[r] == before.held[r]),
            implies(self.held[r] > before.held[r], (self.held[r] - 1) * b < demand),
        )

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("H7")
    def a_load_ends_within_a_block(self, r: Request) -> Bool:
        """And the next step ends with that block."""
        return (self.external[r] > 0) & (self.computed[r] > 0) & ~self.loading[r] & (self.start(r) == self.block.value)
