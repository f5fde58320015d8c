"""Why engines came to a halt: five small machines in which whoever is first in line leaves it, and five that stop.

Each of these faults was seen in a released engine (docs/findings.md, docs/dynamo.md). None breaks a rule of safety:
every block is counted, nobody reads what is not his. What is broken is L1, or L2. So each machine here keeps its
promise, and a subclass differs from it in the one thing that the engine did otherwise; that one is refuted, with the
state or the cycle in which the engine stood.
"""

from __future__ import annotations

from ...machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Promise,
    Queue,
    Sort,
    Sum,
    action,
    all_of,
    assume,
    eventually,
    exists,
    implies,
    invariant,
    ite,
    promise,
    step,
    steps,
    such_as,
)

__all__ = [
    "AlignedPrefill",
    "GrowingRequests",
    "HeldLoads",
    "HitsInside",
    "HitsInsideAtAnyPrice",
    "LazyStores",
    "LazyStoresOfAll",
    "LookAhead",
    "PrefillBesideDrafts",
    "ReservedLoads",
]


class Request(Sort):
    """A sequence of tokens that is being served."""


class Block(Sort):
    """A block of KV memory whose content has a hash."""


class Tokens(Index):
    """A number of tokens."""


class Line(Machine):
    """Requests that are served one after the other, in a pool of so many blocks."""

    capacity = Param(to=Int)
    """The blocks of the pool."""

    need = Param(Request, to=Int)
    """How many of them a request takes when it is complete."""

    line = Queue(Request)
    """Who has come and not left, in the order of arrival."""

    @assume("L1")
    def every_request_fits(self, r: Request) -> Bool:
        """What the engine checks at its start: each request alone fits the empty pool."""
        return (self.need[r] >= 1) & (self.need[r] <= self.capacity.value)

    @action("L1")
    def come(self, r: Request) -> None:
        """A request joins the line."""
        self.require(~self.line.has(r))
        self.line.push_back(r)

    def _ends(self, r: Request) -> None:
        self.line.remove(r)

    @step("L1", unless="finish")
    def who_has_come_stays(self, before: Line, r: Request) -> Bool:
        """Until it is complete."""
        return implies(before.line.has(r), self.line.has(r))


# ---------------------------------------------------------------------------------------------- findings.md 2


class HitsInside(Line):
    """A hit that ends inside a block needs its source beside the copy: one block more than computing everything.

    It is taken where that block is there.
    """

    cached = Map(Request, to=Bool)
    """What a request begins with is cached, and ends inside a block."""

    held = Map(Request, to=Int)
    """The blocks that a request holds."""

    @action("P6")
    def start(self, r: Request) -> None:
        """The first in line gets all that it needs."""
        self.require(self.line.is_first(r) & (self.held[r] == 0))
        self.require(self._wanted(r) <= self.capacity.value)
        self.held[r] = self._wanted(r)

    def _wanted(self, r: Request) -> Int:
        pays = self.cached[r] & (self.need[r] + 1 <= self.capacity.value)
        return ite(pays, self.need[r] + 1, self.need[r])

    @action("L1")
    def finish(self, r: Request) -> None:
        """It leaves; its last block can be found."""
        self.require(self.line.is_first(r) & (self.held[r] > 0))
        self.held[r] = 0
        self.cached[r] = True
        self._ends(r)

    @invariant("P1")
    def only_the_first_holds(self, r: Request) -> Bool:
        """And no more than there is."""
        is_held = self.line.is_first(r) & (self.held[r] <= self.capacity.value)
        return (self.held[r] >= 0) & implies(self.held[r] > 0, is_held)

    @eventually("L1")
    def the_first_leaves(self, r: Request) -> Promise:
        """Whoever stands first in the line leaves it."""
        return promise(
            goal=~self.line.is_first(r),
            fair=[steps(self.start, r), steps(self.finish, r)],
            measure=[self.held[r] == 0],
        )


class HitsInsideAtAnyPrice(HitsInside):
    """As vLLM 0.33.0: a hit is used whenever there is one. The pool is free, and the request waits for ever."""

    def _wanted(self, r: Request) -> Int:
        return ite(self.cached[r], self.need[r] + 1, self.need[r])


# ---------------------------------------------------------------------------------------------- findings.md 3


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


# ---------------------------------------------------------------------------------------------- findings.md 4


class GrowingRequests(Line):
    """Requests grow block by block; where there is none left, one that came later gives up all that it holds."""

    extra = Param(to=Int)
    """The slots for tokens to come that an allocation wants beside what it allocates."""

    held = Map(Request, to=Int)
    """The blocks that a request holds."""

    used = Sum(Request, of=lambda m, r: m.held[r], to=Int)
    """All that are held."""

    others = Sum(Request, by=Request, of=lambda m, q, r: ite(q != r, m.held[q], 0), to=Int)
    """What others than a request hold."""

    @assume("L1")
    def every_request_fits(self, r: Request) -> Bool:
        """Each request alone fits the empty pool, and what is wanted beside it too."""
        is_number = (self.need[r] >= 1) & (self.extra.value >= 0)
        return is_number & (self.need[r] + self.extra.value <= self.capacity.value)

    @action("P7")
    def grow(self, r: Request) -> None:
        """It takes another block."""
        self.require(self.line.has(r) & (self.held[r] < self.need[r]))
        self.require(self._fits())
        self.held[r] = self.held[r] + 1

    def _fits(self) -> Bool:
        return self.used.value + 1 + self.extra.value <= self.capacity.value

    @action("L1")
    def give_up(self, r: Request) -> None:
        """Somebody wants a block, and there is none: one starts over; the first only where nobody else holds any."""
        self.require(self.held[r] > 0)
        self.require(~self._fits())
        self.require(~self.line.is_first(r) | (self.others[r] == 0))
        self.held[r] = 0

    @action("L1")
    def finish(self, r: Request) -> None:
        """A complete request leaves."""
        self.require(self.line.has(r) & (self.held[r] == self.need[r]))
        self.held[r] = 0
        self._ends(r)

    @invariant("P1")
    def what_is_held_adds_up(self, r: Request) -> Bool:
        """Who stands in line holds no more than it needs; nobody else holds anything."""
        return all_of(
            (self.held[r] >= 0) & (self.held[r] <= self.need[r]),
            implies(self.held[r] > 0, self.line.has(r)),
            self.used.value == self.held[r] + self.others[r],
        )

    @eventually("L1")
    def the_first_leaves(self, r: Request) -> Promise:
        """Whoever stands first in the line leaves it, if nobody takes a block for which it waits."""
        waits = (self.held[r] < self.need[r]) & ~self._fits()
        return promise(
            goal=~self.line.is_first(r),
            fair=[steps(self.grow, r), steps(self.give_up, Request, where=lambda _: waits), steps(self.finish, r)],
            only=[
                steps(self.grow, Request, where=lambda q: (q == r) | (self.held[r] == self.need[r])),
                steps(self.give_up, Request, where=lambda _: waits),
            ],
            measure=[self.need[r] - self.held[r], ite(self.held[r] < self.need[r], self.others[r], 0)],
        )


class LookAhead(GrowingRequests):
    """As vLLM 0.24.0 to 0.33.0: the smallest pool is checked without the slots that an allocation wants beside."""

    @assume("L1")
    def every_request_fits(self, r: Request) -> Bool:
        """Each request alone fits the empty pool."""
        return all_of(self.need[r] >= 1, self.extra.value >= 0, self.need[r] <= self.capacity.value)


# ---------------------------------------------------------------------------------------------- dynamo.md 1


class ReservedLoads(Machine):
    """A request has blocks loaded from the host, and holds them while it waits for the rest of what it needs.

    What it needs is set aside before its load begins.
    """

    capacity = Param(to=Int)
    """The blocks of the pool."""

    loads = Param(Request, to=Int)
    """The blocks that a request has loaded."""

    computes = Param(Request, to=Int)
    """Those that it computes after that."""

    held = Map(Request, to=Int)
    """The blocks that it holds."""

    landed = Map(Request, to=Bool)
    """Its load has ended."""

    running = Map(Request, to=Bool)
    """It has all that it needs."""

    used = Sum(Request, of=lambda m, r: m.held[r], to=Int)
    """All that are held."""

    @assume("L1")
    def every_request_fits(self, r: Request) -> Bool:
        """Alone."""
        is_number = (self.loads[r] >= 1) & (self.computes[r] >= 0)
        return is_number & (self.loads[r] + self.computes[r] <= self.capacity.value)

    @assume("P1")
    def there_is_a_pool(self) -> Bool:
        """Of any size."""
        return self.capacity.value >= 0

    @action("O5")
    def load(self, r: Request) -> None:
        """A load begins; its blocks are held from now on."""
        self.require((self.held[r] == 0) & (self.used.value + self._at_once(r) <= self.capacity.value))
        self.held[r] = self._at_once(r)

    def _at_once(self, r: Request) -> Int:
        return self.loads[r] + self.computes[r]

    @action("O7")
    def land(self, r: Request) -> None:
        """The load ends."""
        self.require((self.held[r] > 0) & ~self.landed[r])
        self.landed[r] = True

    @action("P7")
    def run(self, r: Request) -> None:
        """It gets what it needs besides."""
        more = self.loads[r] + self.computes[r] - self.held[r]
        self.require(self.landed[r] & ~self.running[r] & (self.used.value + more <= self.capacity.value))
        self.running[r] = True
        self.held[r] = self.held[r] + more

    @action("P9")
    def finish(self, r: Request) -> None:
        """It leaves, and gives back all that it holds."""
        self.require(self.running[r])
        self.held[r] = 0
        self.landed[r] = False
        self.running[r] = False

    @invariant("P1")
    def nothing_is_held_twice(self, r: Request) -> Bool:
        """What is held is there, and what goes on holds something."""
        whole = self.loads[r] + self.computes[r]
        return all_of(
            (self.held[r] == 0) | (self.held[r] == self._at_once(r)) | (self.held[r] == whole),
            implies(self.running[r], self.held[r] == whole),
            self.used.value <= self.capacity.value,
            implies(self.running[r], self.landed[r]),
            implies(self.landed[r], self.held[r] > 0),
        )

    @eventually("L1")
    def who_loads_ends(self, r: Request) -> Promise:
        """A request whose load has begun leaves."""
        return promise(
            goal=self.held[r] == 0,
            fair=[steps(self.land, r), steps(self.run, r), steps(self.finish, r)],
            measure=[~self.landed[r], ~self.running[r]],
        )


class HeldLoads(ReservedLoads):
    """As Dynamo's mocker 1.6.1: what is loaded is held, and nothing is set aside for the rest.

    Two requests, each of which holds what the other needs.
    """

    def _at_once(self, r: Request) -> Int:
        return self.loads[r]


# ---------------------------------------------------------------------------------------------- findings.md 7


class LazyStores(Machine):
    """Free blocks that can still be found are stored on the host, while the engine has nothing else to do.

    What is still to be found on the device goes last: a store drives out only what is not.
    """

    capacity = Param(to=Int)
    """The blocks of the host."""

    cached = Map(Block, to=Bool)
    """It can be found on the device, and is within reach."""

    stored = Map(Block, to=Bool)
    """It can be found on the host."""

    taken = Count(Block, where=lambda m, b: m.stored[b])
    """The host's blocks that are in use."""

    missing = Count(Block, where=lambda m, b: m.cached[b] & ~m.stored[b])
    """What there is to be stored."""

    @assume("M3")
    def there_is_a_host(self) -> Bool:
        """With a block at least."""
        return self.capacity.value >= 1

    @action("P5")
    def compute(self, b: Block) -> None:
        """A request leaves a block that can be found."""
        self.require(~self.cached[b])
        self.cached[b] = True

    @action("P7")
    def reuse(self, b: Block) -> None:
        """A block is taken for something else."""
        self.require(self.cached[b])
        self.cached[b] = False

    @action("O4")
    def store(self, b: Block) -> None:
        """A block is stored where the host has room."""
        self.require(self.cached[b] & ~self.stored[b])
        self.require(self.taken.value < self.capacity.value)
        self.stored[b] = True

    @action("O4, O12")
    def replace(self, b: Block, old: Block) -> None:
        """A block is stored in the place of another one, where the host is full."""
        self.require(self.cached[b] & ~self.stored[b] & self.stored[old])
        self.require(self.taken.value >= self.capacity.value)
        self.require(self._may_go(old))
        self.stored[old] = False
        self.stored[b] = True

    def _may_go(self, old: Block) -> Bool:
        return ~self.cached[old]

    @invariant("M3")
    def the_host_is_not_overfull(self) -> Bool:
        """It holds no more than it can."""
        return self.taken.value <= self.capacity.value

    @eventually("L2")
    def an_idle_engine_rests(self) -> Promise:
        """With no request left, there is some day nothing more to copy."""
        can_go = exists(Block, lambda old: self.stored[old] & self._may_go(old))
        goes_on = (self.missing.value > 0) & ((self.taken.value < self.capacity.value) | can_go)
        return promise(
            goal=~goes_on,
            fair=[steps(self.store, Block), steps(self.replace, Block, Block)],
            only=[steps(self.compute, Block, where=lambda b: self.cached[b]), steps(self.reuse, Block)],
            measure=[self.missing.value],
        )


class LazyStoresOfAll(LazyStores):
    """As vLLM 0.30.0 to 0.33.0: whatever is on the host may be driven out, also what will be stored next."""

    def _may_go(self, old: Block) -> Bool:  # noqa: ARG002
        return self.capacity.value >= 1
