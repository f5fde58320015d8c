"""A step, its mirror, and who leaves: in this order (M2). And the time that reloads take, until it is read (M7).

Machine M says what a mirror does. When it comes is another matter: a request that has computed its last token is in the
batch once more, and leaves behind a block that nobody has mirrored. Were it released first, this block could be taken
for somebody else before the host has it. So here each block that a step completes is owed to the host until the mirror
has been there, and who owes something does not leave. What a finished request leaves behind was mirrored; and what the
host lacks of it all the same, a full host gave up for others.

A reload costs its base latency and the time of its block, and the sum waits until somebody reads it. Who reads it takes
it all, and finds nothing a moment later.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Int,
    Machine,
    Map,
    Param,
    Queue,
    Scalar,
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
    sometimes,
    step,
    when,
)
from ..pool import Hash, Request

__all__ = ["Batches"]


class Batches(Machine):
    """Requests, the full blocks that they hold, and a host that keeps the last of these."""

    # -------------------------------------------------------------------------------- parameters

    capacity = Param(to=Int)
    """How many blocks the host keeps."""

    base = Param(to=Int)
    """The time that a reload takes, however small the block."""

    block_tokens = Param(to=Int)
    """How many tokens a block has."""

    bandwidth = Param(to=Int)
    """How many of them come back in a unit of time."""

    most_reloads = Param(to=Int)
    """How many blocks a batch brings back, at most, before its latency is read."""

    @assume("M3, M7")
    def sizes_mean_something(self) -> Bool:
        """A host keeps a block at least; a bandwidth is positive, and no latency negative."""
        return all_of(
            self.capacity.value >= 1,
            self.base.value >= 0,
            self.block_tokens.value >= 1,
            self.bandwidth.value >= 1,
        )

    # -------------------------------------------------------------------------------- state

    running = Map(Request, to=Bool)
    """Inside, and not finished."""

    holds = Map(Request, Hash, to=Bool)
    """The request has a full block on the device that can be found under the hash."""

    owed = Map(Request, Hash, to=Bool)
    """A step has completed it, or a lookup brought it, and no mirror has seen it since."""

    host = Queue(Hash)
    """What the host keeps, least recently used first."""

    met = Map(Hash, to=Bool)
    """Ghost: a mirror has stored it at some time."""

    latency = Scalar(to=Int)
    """The time of all reloads since it was last read."""

    reloaded = Scalar(to=Int)
    """Ghost: how many blocks these were."""

    # -------------------------------------------------------------------------------- words

    def cost(self) -> Int:
        """What one block takes: the base, and its tokens over the bandwidth, rounded up."""
        return self.base.value + (self.block_tokens.value + self.bandwidth.value - 1) // self.bandwidth.value

    def is_full(self) -> Bool:
        """The host keeps as many blocks as it can."""
        return self.host.size >= self.capacity.value

    # -------------------------------------------------------------------------------- actions

    @action("M2")
    def begin(self, r: Request) -> None:
        """A request comes in."""
        self.require(~self.running[r])
        self.running[r] = True

    @action("M2")
    def complete(self, r: Request, h: Hash) -> None:
        """A step completes a block of the request."""
        self.require(self.running[r])
        self.require(~self.holds[r, h])
        self.holds[r, h] = True
        self.owed[r, h] = True

    @action("M5, M7")
    def reload(self, r: Request, h: Hash) -> None:
        """A block comes back from the host, where it is used last now; the next mirror will see it again."""
        self.require(self.running[r])
        self.require(~self.holds[r, h])
        self.require(self.host.has(h))
        self.require(self.reloaded.value < self.most_reloads.value)
        self.holds[r, h] = True
        self.owed[r, h] = True
        self.host.remove(h)
        self.host.push_back(h)
        self.latency.value = self.latency.value + self.cost()
        self.reloaded.value = self.reloaded.value + 1

    @action("M2, M3")
    def mirror(self, r: Request, h: Hash) -> None:
        """After the step: a block of the batch is stored on the host, or touched there."""
        self.require(self.owed[r, h])
        self._keep(h)
        self.owed[r, h] = False
        self.met[h] = True

    def _keep(self, h: Hash) -> None:
        """It is what the host has used last; a full host gives up what it has not used for longest."""
        is_there = self.host.has(h)
        makes_room = ~is_there & self.is_full()
        with when(is_there):
            self.host.remove(h)
        with when(makes_room):
            self.host.remove(self.host.head())
        self.host.push_back(h)

    @action("M1, M2")
    def release(self, r: Request) -> None:
        """A finished request leaves when all that it completed was mirrored."""
        self.require(self.running[r])
        self.require(forall(Hash, lambda h: ~self.owed[r, h]))
        self._leave(r)

    @action("M1")
    def preempt(self, r: Request) -> None:
        """A request gives up its blocks; it will come back, and no step of it waits for a mirror."""
        self.require(self.running[r])
        self._leave(r)

    def _leave(self, r: Request) -> None:
        with self.each(Hash) as h:
            self.holds[r, h] = False
            self.owed[r, h] = False
        self.running[r] = False

    @action("M7")
    def read_latency(self) -> Int:
        """Whoever waits for the reloads of a batch takes their time."""
        latency = self.latency.value
        self.latency.value = 0
        self.reloaded.value = 0
        return latency

    # -------------------------------------------------------------------------------- invariants

    @invariant("M3")
    def the_host_holds_no_more_than_it_can(self) -> Bool:
        """Used <= capacity."""
        return self.host.size <= self.capacity.value

    @invariant("M2")
    def only_blocks_that_are_held_are_owed(self, r: Request, h: Hash) -> Bool:
        """By who is inside."""
        return implies(self.owed[r, h], self.holds[r, h]) & implies(self.holds[r, h], self.running[r])

    @invariant("M2")
    def what_is_not_owed_was_mirrored(self, r: Request, h: Hash) -> Bool:
        """Every full block is one or the other."""
        return implies(self.holds[r, h] & ~self.owed[r, h], self.met[h])

    @invariant("M2, M3")
    def only_a_full_host_gives_up(self, h: Hash) -> Bool:
        """What was mirrored is there, unless it made room; what is there was mirrored."""
        return implies(self.met[h] & ~self.host.has(h), self.is_full()) & implies(self.host.has(h), self.met[h])

    @invariant("M7")
    def the_latency_is_the_sum(self) -> Bool:
        """Over all blocks that were reloaded since it was read."""
        return (self.reloaded.value >= 0) & (self.latency.value == self.cost() * self.reloaded.value)

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("M2")
    def nobody_leaves_before_the_mirror(self, r: Request) -> Bool:
        """Who owes nothing can leave; who is preempted can at any time."""
        owes = exists(Hash, lambda h: self.owed[r, h])
        return iff(can(self.release, r), self.running[r] & ~owes) & iff(can(self.preempt, r), self.running[r])

    @corollary("M2, M5")
    def what_is_owed_can_be_mirrored(self, r: Request, h: Hash) -> Bool:
        """However full the host is; and a block is completed, or reloaded, once, and no more in one batch than may."""
        lacks = self.running[r] & ~self.holds[r, h]
        may_come = self.host.has(h) & (self.reloaded.value < self.most_reloads.value)
        return all_of(
            iff(can(self.begin, r), ~self.running[r]),
            iff(can(self.mirror, r, h), self.owed[r, h]),
            iff(can(self.complete, r, h), lacks),
            iff(can(self.reload, r, h), lacks & may_come),
        )

    @corollary("M7")
    def the_latency_can_be_read_at_any_time(self) -> Bool:
        """And is 0 where nothing was reloaded; one block takes a unit of time at least."""
        is_nothing = implies(self.reloaded.value == 0, self.latency.value == 0)
        return all_of(can(self.read_latency), is_nothing, self.cost() >= self.base.value + 1)

    # -------------------------------------------------------------------------------- steps

    @step("M2", of="release")
    def what_is_left_behind_was_mirrored(self, before: Self, r: Request, h: Hash) -> Bool:
        """Each full block of a finished request is on the host, or a full host gave it up."""
        return implies(before.holds[r, h], self.met[h] & (self.host.has(h) | self.is_full()))

    @step("M1", of=("release", "preempt"))
    def who_leaves_holds_nothing(self, before: Self, r: Request, q: Request, h: Hash) -> Bool:
        """And takes nothing from others."""
        is_gone = before.running[r] & ~self.running[r] & ~self.holds[r, h] & ~self.owed[r, h]
        return is_gone & implies(q != r, self._is_as_it_was(before, q, h))

    @step("M1", unless=("reload", "mirror"))
    def only_mirror_and_reload_touch_the_host(self, before: Self, g: Hash, h: Hash) -> Bool:
        """Above all a release moves nothing there."""
        return iff(self.host.has(h), before.host.has(h)) & iff(self.host.before(g, h), before.host.before(g, h))

    @step("M2, M3, M5", of=("reload", "mirror"))
    def what_is_asked_for_is_used_last(self, before: Self, h: Hash, f: Hash, g: Hash) -> Bool:
        """It stands at the tail, and of all else at most what was not used for longest has gone."""
        stays = (f != h) & (g != h) & self.host.has(f) & self.host.has(g)
        went = before.host.has(g) & ~self.host.has(g)
        return all_of(
            self.host.has(h) & implies(self.host.has(g) & (g != h), self.host.before(g, h)),
            implies(self.host.has(g), before.host.has(g) | (g == h)),
            implies(stays, iff(self.host.before(f, g), before.host.before(f, g))),
            implies(went, all_of(before.host.is_first(g), before.is_full(), ~before.host.has(h))),
        )

    @step("M2", of="mirror")
    def a_mirror_pays_what_is_owed(self, before: Self, r: Request, h: Hash, q: Request, g: Hash) -> Bool:
        """That block, once; and reads the device only. No other hash counts as mirrored by it."""
        is_paid = before.owed[r, h] & ~self.owed[r, h] & self.met[h] & self.holds[r, h]
        is_met = implies(g != h, iff(self.met[g], before.met[g]))
        return all_of(is_paid, is_met, implies((q != r) | (g != h), self._is_as_it_was(before, q, g)))

    @step("M2, M5", of=("complete", "reload"))
    def a_block_that_comes_is_owed(self, before: Self, r: Request, h: Hash, q: Request, g: Hash) -> Bool:
        """Until the next mirror; what was mirrored before is not owed again."""
        is_new = before.running[r] & ~before.holds[r, h] & self.holds[r, h] & self.owed[r, h]
        return is_new & implies((q != r) | (g != h), self._is_as_it_was(before, q, g))

    @step("M2", of="begin")
    def who_comes_holds_nothing(self, before: Self, r: Request, h: Hash) -> Bool:
        """Yet."""
        return ~before.running[r] & self.running[r] & ~self.holds[r, h]

    @step("M2", unless=("begin", "release", "preempt"))
    def nobody_else_comes_or_goes(self, before: Self, r: Request) -> Bool:
        """By steps and mirrors."""
        return iff(self.running[r], before.running[r])

    @step("M2", of=("begin", "release", "preempt"))
    def others_stay_inside_or_outside(self, before: Self, r: Request, q: Request) -> Bool:
        """Whoever comes or goes."""
        return implies(q != r, iff(self.running[q], before.running[q]))

    @step("M2", of=("begin", "read_latency"))
    def nothing_else_changes_hands(self, before: Self, q: Request, g: Hash) -> Bool:
        """No block, and no debt."""
        return self._is_as_it_was(before, q, g)

    def _is_as_it_was(self, before: Self, r: Request, h: Hash) -> Bool:
        """What the request holds, and owes."""
        return iff(self.holds[r, h], before.holds[r, h]) & iff(self.owed[r, h], before.owed[r, h])

    @step("M2", unless="mirror")
    def only_a_mirror_meets(self, before: Self, h: Hash) -> Bool:
        """Nothing else counts as mirrored."""
        return iff(self.met[h], before.met[h])

    @step("M7", of="reload")
    def a_reload_takes_its_time(self, before: Self) -> Bool:
        """Base and transfer."""
        is_one_more = self.reloaded.value == before.reloaded.value + 1
        return is_one_more & (self.latency.value == before.latency.value + self.cost())

    @step("M7", of="read_latency")
    def who_reads_takes_it_all(self, before: Self, result: Int) -> Bool:
        """And nothing is left for whoever reads next."""
        is_sum = (result == before.latency.value) & (result == self.cost() * before.reloaded.value)
        return all_of(is_sum, self.latency.value == 0, self.reloaded.value == 0)

    @step("M7", unless=("reload", "read_latency"))
    def nothing_else_takes_time(self, before: Self) -> Bool:
        """No step, no mirror and no release."""
        return (self.latency.value == before.latency.value) & (self.reloaded.value == before.reloaded.value)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("M2")
    def a_mirrored_block_was_given_up(self, r: Request, h: Hash, g: Hash) -> Bool:
        """Its request is still there, and owes another one."""
        return all_of(self.holds[r, h], ~self.owed[r, h], ~self.host.has(h), self.owed[r, g])

    @sometimes("M7")
    def two_reloads_wait_to_be_read(self) -> Bool:
        """Together."""
        return self.reloaded.value == 2
