"""The invariants of Connectors (machine H), and what must be reachable."""

from __future__ import annotations

from ....machine import Bool, all_of, can, exists, iff, implies, invariant, none, sometimes
from ...pool import Hash, Request
from .actions import ConnectorsActions
from .state import Connector, Job

__all__ = ["ConnectorsInvariants"]


class ConnectorsInvariants(ConnectorsActions, abstract=True):
    """What always holds of answers, promises and loads."""

    # -------------------------------------------------------------------------------- invariants

    @invariant("H5")
    def a_load_is_of_one_store(self, r: Request, c: Connector) -> Bool:
        """Exactly the chosen one loads; and a request that has nothing chosen has nothing promised, nor a load."""
        return all_of(
            implies(self.chosen[r] == c, (c < self.count.value) & ~self.over[r] & self.inside[r]),
            implies(self.loading[r], (self.chosen[r] != none) & (self.job[r] != none)),
            iff(self.promised[r] > 0, (self.chosen[r] != none) & ~self.loading[r]),
            self.promised[r] >= 0,
        )

    @invariant("H5, O5")
    def only_who_may_be_needed_holds(self, c: Connector, r: Request) -> Bool:
        """A store holds what it found until the lookup is answered, and the chosen one until its load begins."""
        is_waited_for = self.resolved[c, r] & (self.answer[c, r] > 0)
        is_chosen = (self.chosen[r] == c) & ~self.loading[r]
        return iff(self.holds[c, r], is_waited_for | is_chosen)

    @invariant("H5")
    def an_answer_is_used_up(self, c: Connector, r: Request) -> Bool:
        """All stores are asked anew for the next lookup; none keeps its answer while another loads, or is done."""
        return implies((self.chosen[r] != none) | self.over[r], ~self.resolved[c, r])

    @invariant("H6")
    def pins_count_loads(self, c: Connector, h: Hash) -> Bool:
        """What is pinned is what some load has prepared, as often; nothing else, and nothing for ever."""
        return self.pins[c, h] == self.readers[c, h]

    @invariant("H6")
    def a_load_has_prepared_what_it_reads(self, r: Request, h: Hash) -> Bool:
        """And who does not load has prepared nothing."""
        return iff(self.prepared[r, h], self.loading[r] & self.wanted[r, h])

    @invariant("H6, O11")
    def what_counts_is_there_or_comes(self, r: Request) -> Bool:
        """Tokens count as there exactly if they have come, or a load is under way that brings them."""
        return all_of(
            implies(~self.loading[r], self.external[r] == self.arrived[r]),
            implies(self.loading[r], (self.external[r] > 0) & (self.arrived[r] == 0)),
            implies(~self.loading[r] & ~self.over[r], self.arrived[r] == 0),
        )

    @invariant("H6")
    def loads_have_different_numbers(self, r: Request, q: Request) -> Bool:
        """So a late report of one is not taken for another."""
        return all_of(
            implies(self.loading[r], exists(Job, lambda j: (self.job[r] == j) & (j < self.issued.value))),
            implies(self.loading[r] & self.loading[q] & (self.job[r] == self.job[q]), r == q),
        )

    @invariant("H5")
    def nobody_has_more_loads_than_it_may(self, c: Connector) -> Bool:
        """Backpressure defers; it drops nothing."""
        return self.pending[c] <= self.most_pending.value

    @invariant("H5, O8")
    def nothing_is_known_of_who_is_not_inside(self, r: Request) -> Bool:
        """A stay begins with nothing chosen, loaded, counted or given up."""
        is_blank = all_of(self.chosen[r] == none, ~self.loading[r], ~self.over[r], ~self.counted[r])
        return implies(~self.inside[r], is_blank)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("H5")
    def a_later_store_may_win(self, r: Request, c: Connector, d: Connector) -> Bool:
        """While an earlier one has not resolved."""
        return all_of(c < d, ~self.resolved[c, r], can(self.choose, r, d))

    @sometimes("H6")
    def a_load_was_given_up(self, r: Request, q: Request) -> Bool:
        """While another is under way."""
        return all_of(self.over[r], self.arrived[r] == 0, self.job[r] != none, self.loading[q])

    @sometimes("H6")
    def a_late_report_comes_while_the_next_load_is_under_way(self, r: Request, j: Job) -> Bool:
        """Of the same request, which has left and come back."""
        return all_of(self.loading[r], self.job[r] != j, can(self.report_late, j))
