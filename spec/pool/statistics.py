"""Machine P with the statistics of its prefix cache (P15).

Engines report a hit rate: of the blocks that requests looked up, how many were found. The rate means something only if
each request counts once. A request that is preempted and comes back looks its prompt up again, and finds the blocks
that it left behind itself; were that counted, the rate would rise with every preemption. So a request is counted at the
first lookup of its life, which ends when it finishes.
"""

from __future__ import annotations

from ...machine import Bool, Int, Map, Tally, action, all_of, iff, implies, sometimes, step, when
from ..pool import Pool, Request

__all__ = ["Statistics"]


class Statistics(Pool):
    """The block pool, its prefix cache, and how often that was of use."""

    queries = Tally()
    """The blocks that were looked up."""

    hits = Tally()
    """The blocks that were found."""

    counted = Map(Request, to=Bool)
    """The requests whose lookup is counted: inside, or preempted."""

    # -------------------------------------------------------------------------------- actions

    @action("P8, P14, P15")
    def hit(self, r: Request) -> Int:
        """Look up the prompt; count it unless this request was counted before."""
        found = super().hit(r)
        with when(~self.counted[r]):
            self.queries.add(self.limit[r])
            self.hits.add(found)
            self.counted[r] = True
        return found

    @action("P9, P10, P15")
    def finish(self, r: Request) -> None:
        """A complete request leaves. Should it ever come again, it is a new one."""
        super().finish(r)
        self.counted[r] = False

    # -------------------------------------------------------------------------------- steps

    @step("P15")
    def counters_never_fall(self, before: Statistics) -> Bool:
        """Every increment is at least 0, and never more is found than was looked up."""
        asked = self.queries.total - before.queries.total
        found = self.hits.total - before.hits.total
        return (found >= 0) & (found <= asked)

    @step("P15", unless="hit")
    def only_a_lookup_counts(self, before: Statistics) -> Bool:
        """No other action changes a counter."""
        return (self.queries.total == before.queries.total) & (self.hits.total == before.hits.total)

    @step("P15", of="hit")
    def a_lookup_counts_once(self, before: Statistics, r: Request) -> Bool:
        """The first lookup of a life counts all that it asked for and all that it found; a later one counts nothing."""
        is_first = ~before.counted[r]
        return all_of(
            self.counted[r],
            implies(is_first, self.queries.total == before.queries.total + self.limit[r]),
            implies(is_first, self.hits.total == before.hits.total + self.length[r]),
            implies(~is_first, self.queries.total == before.queries.total),
            implies(~is_first, self.hits.total == before.hits.total),
        )

    @step("P15", unless="finish")
    def a_life_ends_with_finish_only(self, before: Statistics, r: Request) -> Bool:
        """Who was counted stays counted; above all a preempted request, which comes back."""
        return implies(before.counted[r], self.counted[r])

    @step("P15", unless=("hit", "finish"))
    def nobody_else_is_counted(self, before: Statistics, r: Request) -> Bool:
        """Lives are counted by lookups, and end with them only."""
        return iff(self.counted[r], before.counted[r])

    @step("P15", of="hit")
    def only_who_looks_up_is_counted(self, before: Statistics, r: Request, q: Request) -> Bool:
        """Other requests have their own first lookups."""
        return implies(q != r, iff(self.counted[q], before.counted[q]))

    @step("P15", of="finish")
    def a_new_life_counts_anew(self, before: Statistics, r: Request, q: Request) -> Bool:
        """A finished request is forgotten, and no other is."""
        return ~self.counted[r] & implies(q != r, iff(self.counted[q], before.counted[q]))

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("P15")
    def a_preempted_request_is_counted(self, r: Request) -> Bool:
        """It waits to come back."""
        return self.counted[r] & ~self.running[r]
