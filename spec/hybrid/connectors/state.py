"""The state of Connectors (machine H), and the words in which it is spoken of."""

from __future__ import annotations

from ....machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Real,
    Scalar,
    Tally,
    all_of,
    assume,
    exists,
    forall,
    none,
    optional,
)
from ...hybrid.planner import Tokens
from ...pool import Hash, Request
from ...timed.links import Moment

__all__ = ["Connector", "ConnectorsState", "Job"]


class Connector(Index):
    """A store. Its number is its place: of equals, the first is chosen."""


class Job(Index):
    """The number of a load, in the order in which they begin."""


class ConnectorsState(Machine, abstract=True):
    """What stores and requests know of each other."""

    # -------------------------------------------------------------------------------- parameters

    weighted = Param(to=Bool)
    """True: the most tokens times weight wins, and who has not resolved is not waited for. False: the first that has
    anything wins, and one that has not resolved defers all, as in released vLLM."""

    weight = Param(Connector, to=Int)
    """What a token from this store is worth."""

    most_pending = Param(to=Int)
    """The most loads that a store has at a time; one that has as many counts as not resolved."""

    count = Param(to=Int)
    """How many stores there are."""

    wanted = Param(Request, Hash, to=Bool)
    """What a load for the request reads."""

    patience = Param(to=Real)
    """How long a load may take."""

    time = Param(Moment, to=Real)
    """When something happens outside."""

    @assume("H5")
    def weights_are_positive(self, c: Connector) -> Bool:
        """And each store may load something."""
        return all_of(self.weight[c] > 0, self.most_pending.value > 0, self.patience.value > 0)

    # -------------------------------------------------------------------------------- what stores know

    resolved = Map(Connector, Request, to=Bool)
    """The store knows what it has for the request."""

    answer = Map(Connector, Request, to=Tokens, init=0)
    """How many tokens that is."""

    holds = Map(Connector, Request, to=Bool)
    """The store keeps what it found for the request, until it is told otherwise (O5)."""

    kept = Map(Connector, Hash, to=Bool)
    """What was offered to the store."""

    pins = Map(Connector, Hash, to=Int)
    """How many loads read this in the store."""

    # -------------------------------------------------------------------------------- requests

    inside = Map(Request, to=Bool)
    """The request has looked up, and has not left."""

    chosen = Map(Request, to=optional(Connector))
    """The store that was chosen, until its load ends."""

    promised = Map(Request, to=Int)
    """The tokens that it promised."""

    loading = Map(Request, to=Bool)
    """Its load is under way."""

    over = Map(Request, to=Bool)
    """A load has ended: no other is made during this stay."""

    external = Map(Request, to=Int)
    """The tokens that count as there, or as coming."""

    arrived = Map(Request, to=Int)
    """Ghost: the tokens that really have come."""

    prepared = Map(Request, Hash, to=Bool)
    """What the load of the request has pinned."""

    job = Map(Request, to=optional(Job))
    """The number of its load."""

    deadline = Map(Request, to=Real)
    """When that is given up."""

    # -------------------------------------------------------------------------------- everything else

    now = Scalar(to=Real)
    """The time."""

    issued = Scalar(to=Int)
    """The number of the next load."""

    counted = Map(Request, to=Bool)
    """A lookup of this stay was counted."""

    queries = Tally(Connector)
    """How often a store was asked and answered; once for each stay of a request."""

    hits = Tally(Connector)
    """How often it was chosen."""

    hit_tokens = Tally(Connector)
    """For how many tokens."""

    misses = Tally(Connector)
    """How often it had nothing."""

    pending = Count(Request, where=lambda m, r, c: m.chosen[r] == c, by=Connector)
    """The requests that wait for the store's loads, or for them to begin."""

    readers = Count(Request, where=lambda m, r, c, h: (m.chosen[r] == c) & m.prepared[r, h], by=(Connector, Hash))
    """The loads that read this there."""

    # -------------------------------------------------------------------------------- words

    def has_answered(self, c: Connector, r: Request) -> Bool:
        """The store has resolved, and is not busy with as many loads as it may have."""
        return (c < self.count.value) & self.resolved[c, r] & (self.pending[c] < self.most_pending.value)

    def is_deferred(self, r: Request) -> Bool:
        """There is no answer yet: nobody has one; where the first wins, somebody has none."""
        nobody = forall(Connector, lambda c: ~self.has_answered(c, r))
        somebody = exists(Connector, lambda c: (c < self.count.value) & ~self.has_answered(c, r))
        return (nobody & self.weighted.value) | (somebody & ~self.weighted.value)

    def offers(self, c: Connector, r: Request) -> Bool:
        """The store has answered, and has something."""
        return self.has_answered(c, r) & (self.answer[c, r] > 0)

    def is_better(self, c: Connector, d: Connector, r: Request) -> Bool:
        """Of two stores that have something, the first named is to be preferred to the other."""
        worth, other = self.answer[c, r] * self.weight[c], self.answer[d, r] * self.weight[d]
        is_worth_more = (worth > other) | ((worth == other) & (c < d))
        return (is_worth_more & self.weighted.value) | ((c < d) & ~self.weighted.value)

    def may_look_up(self, r: Request) -> Bool:
        """The request has no load, and had none during this stay."""
        return all_of(~self.loading[r], ~self.over[r], self.chosen[r] == none)
