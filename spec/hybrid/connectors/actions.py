"""The actions of Connectors (machine H)."""

from __future__ import annotations

from ....machine import Bool, Int, action, forall, implies, none, otherwise, when
from ...hybrid.planner import Tokens
from ...pool import Hash, Request
from ...timed.links import Moment
from .state import Connector, ConnectorsState, Job

__all__ = ["ConnectorsActions"]


class ConnectorsActions(ConnectorsState, abstract=True):
    """What stores answer, which of them loads, and how a load ends."""

    # -------------------------------------------------------------------------------- stores

    @action("H5, O5")
    def resolve(self, c: Connector, r: Request, n: Tokens) -> None:
        """A store finds out what it has for a request, and keeps it for that."""
        self.require(c < self.count.value)
        self.require(~self.resolved[c, r])
        self.require(self.may_look_up(r))
        self.resolved[c, r] = True
        self.answer[c, r] = n
        self.holds[c, r] = n > 0

    @action("H5")
    def store(self, h: Hash) -> None:
        """What was computed is offered to all."""
        with self.each(Connector) as c, when(c < self.count.value):
            self.kept[c, h] = True

    # -------------------------------------------------------------------------------- lookups

    @action("H5")
    def wait(self, r: Request) -> None:
        """A lookup that has no answer yet changes nothing."""
        self.require(self.may_look_up(r))
        self.require(self.is_deferred(r))
        self.inside[r] = True

    @action("H5")
    def miss(self, r: Request) -> None:
        """A lookup finds that nobody has anything."""
        self.require(self.may_look_up(r))
        self.require(~self.is_deferred(r))
        self.require(forall(Connector, lambda c: ~self.offers(c, r)))
        self.inside[r] = True
        self._count(r)
        self._drop_answers(r)

    @action("H5, O5")
    def choose(self, r: Request, c: Connector) -> Int:
        """A lookup is answered by the store whose answer is worth most; the others let go what they hold for it."""
        self.require(self.may_look_up(r))
        self.require(~self.is_deferred(r))
        self.require(self.offers(c, r))
        self.require(forall(Connector, lambda d: implies((d != c) & self.offers(d, r), self.is_better(c, d, r))))
        promised = self.answer[c, r]
        with when(~self.counted[r]):
            self.hits.add(1, c)
            self.hit_tokens.add(promised, c)
        self._count(r)
        self._drop_answers(r)
        self.inside[r] = True
        self.chosen[r] = c
        self.promised[r] = promised
        self.holds[c, r] = True
        return promised

    def _count(self, r: Request) -> None:
        """Each store that has answered was asked, once in a stay (P15)."""
        is_new = ~self.counted[r]
        with self.each(Connector) as c, when(is_new & self.has_answered(c, r)):
            self.queries.add(1, c)
            with when(self.answer[c, r] == 0):
                self.misses.add(1, c)
        self.counted[r] = True

    def _drop_answers(self, r: Request) -> None:
        """What was answered is used up; who has not resolved goes on."""
        with self.each(Connector) as c, when(self.resolved[c, r]):
            self.resolved[c, r] = False
            self.holds[c, r] = False

    @action("H5, O5")
    def look_again(self, r: Request) -> None:
        """A further lookup takes the place of the one before: what was promised is taken back."""
        self.require(self.chosen[r] != none)
        self.require(~self.loading[r])
        self._take_back(r)

    @action("H5, O5")
    def decline(self, r: Request) -> None:
        """The request does without what was promised."""
        self.require(self.chosen[r] != none)
        self.require(~self.loading[r])
        self._take_back(r)
        self.over[r] = True

    def _take_back(self, r: Request) -> None:
        self.holds[self.chosen[r], r] = False
        self.chosen[r] = none
        self.promised[r] = 0

    # -------------------------------------------------------------------------------- loads

    @action("H5, H6")
    def begin_load(self, r: Request, n: Tokens, j: Job, m: Moment) -> None:
        """The chosen store begins to load; what is read is pinned."""
        self.require(j == self.issued.value)
        self.require(self.chosen[r] != none)
        self.require(~self.loading[r])
        self.require(n > 0)
        self.require(n <= self.promised[r])
        self.require(self.time[m] >= self.now.value)
        c = self.chosen[r]
        self.issued.value = j + 1
        self.now.value = self.time[m]
        self.job[r] = j
        self.deadline[r] = self.time[m] + self.patience.value
        self.loading[r] = True
        self.external[r] = n
        self.promised[r] = 0
        self.holds[c, r] = False
        with self.each(Hash) as h, when(self.wanted[r, h]):
            self.prepared[r, h] = True
            self.pins[c, h] = self.pins[c, h] + 1

    @action("H6, O11")
    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        """A store reports the load of that number."""
        self.require(self.loading[r])
        self.require(self.job[r] == j)
        with when(ok):
            self.arrived[r] = self.external[r]
        with otherwise():
            self.external[r] = 0
        self._end_load(r)

    @action("H6, O11")
    def expire(self, r: Request, m: Moment) -> None:
        """A load has taken too long: it is given up."""
        self.require(self.loading[r])
        self.require(self.time[m] >= self.now.value)
        self.require(self.time[m] >= self.deadline[r])
        self.now.value = self.time[m]
        self.external[r] = 0
        self._end_load(r)

    @action("H6")
    def report_late(self, j: Job) -> None:
        """A store reports a load that has ended already. Nothing changes."""
        self.require(j < self.issued.value)
        self.require(forall(Request, lambda r: ~(self.loading[r] & (self.job[r] == j))))

    def _unpin(self, r: Request) -> None:
        """Exactly what the load of the request has pinned is let go."""
        c = self.chosen[r]
        with self.each(Hash) as h, when(self.prepared[r, h]):
            self.prepared[r, h] = False
            self.pins[c, h] = self.pins[c, h] - 1

    def _end_load(self, r: Request) -> None:
        self._unpin(r)
        self.loading[r] = False
        self.over[r] = True
        self.chosen[r] = none

    # -------------------------------------------------------------------------------- leaving

    @action("H5, O8")
    def leave(self, r: Request) -> None:
        """A request is preempted, or is done: its load is given up, and every store hears of it."""
        self.require(self.inside[r])
        self._unpin(r)
        with self.each(Connector) as d:
            self.resolved[d, r] = False
            self.holds[d, r] = False
        self.inside[r] = False
        self.loading[r] = False
        self.over[r] = False
        self.chosen[r] = none
        self.promised[r] = 0
        self.external[r] = 0
        self.arrived[r] = 0
        self.counted[r] = False
