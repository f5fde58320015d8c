"""Machines that promise something: one that keeps it, and one for each way in which a promise is none."""

from __future__ import annotations

from kvproof.machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Promise,
    Scalar,
    Sort,
    action,
    eventually,
    exists,
    forall,
    iff,
    implies,
    invariant,
    otherwise,
    promise,
    steps,
    such_as,
    when,
)


class Job(Sort):
    pass


SIZES = {"Job": 2, "Int": 4}


class Jobs(Machine):
    """Each job that is begun ends, if its own work is not put off for ever; it may rest in between as often as it
    likes, which is a cycle without fair steps."""

    left = Map(Job, to=Int)
    busy = Map(Job, to=Bool)

    @action("L2")
    def begin(self, j: Job) -> None:
        self.require(~self.busy[j])
        self.busy[j] = True
        self.left[j] = 2

    @action("L2")
    def work(self, j: Job, n: Int) -> None:
        self.require(self.busy[j] & (n >= 1))
        with when(self.left[j] < n):
            self.busy[j] = False
        with otherwise():
            self.left[j] = self.left[j] - n

    @action("L2")
    def rest(self, j: Job) -> None:
        self.require(self.busy[j])

    @invariant("L2")
    def nothing_is_owed(self, j: Job) -> Bool:
        return self.left[j] >= 0

    @eventually("L2")
    def every_job_ends(self, j: Job) -> Promise:
        """Whoever begins ends."""
        return promise(goal=~self.busy[j], fair=[steps(self.work, j, such_as(1))], measure=[self.left[j]])


class Undone(Jobs):
    """A step that is not fair takes progress back, for ever."""

    @action("L2")
    def undo(self, j: Job) -> None:
        self.require(self.busy[j] & (self.left[j] < 2))
        self.left[j] = self.left[j] + 1


class Idle(Jobs):
    """A fair step may do nothing at all."""

    @action("L2")
    def work(self, j: Job, n: Int) -> None:
        self.require(self.busy[j] & (n >= 1) & (self.left[j] >= 0))


class Locked(Jobs):
    """Two jobs wait for each other."""

    @action("L2")
    def work(self, j: Job, n: Int) -> None:
        self.require(forall(Job, lambda i: implies(self.busy[i], i == j)))
        super().work(j, n)


class Nobody(Jobs):
    """The steps that lower the measure are never called fair."""

    @eventually("L2")
    def every_job_ends(self, j: Job) -> Promise:
        of_nobody = steps(self.work, j, such_as(1), where=lambda i, _: self.left[i] < 0)
        return promise(goal=~self.busy[j], fair=[of_nobody], measure=[self.left[j]])


class Starved(Jobs):
    """Fair is whoever works, so that one job may begin and end, again and again, while another never goes on."""

    @eventually("L2")
    def every_job_ends(self, j: Job) -> Promise:
        return promise(goal=~self.busy[j], fair=[steps(self.work, Job, such_as(1))], measure=[self.left[j]])


class Helpless(Jobs):
    """One of the fair actions is possible in no state."""

    @action("L2")
    def help(self, j: Job) -> None:
        self.require(self.busy[j] & (self.left[j] < 0))
        self.busy[j] = False

    @eventually("L2")
    def every_job_ends(self, j: Job) -> Promise:
        some = [steps(self.work, j, such_as(1)), steps(self.help, j)]
        return promise(goal=~self.busy[j], fair=some, measure=[self.left[j]])


class Bottomless(Jobs):
    """A debt grows for ever: what falls is not bounded below, and no end comes of it. (The last round is left out.)"""

    debt = Map(Job, to=Int)

    @action("L2")
    def work(self, j: Job, n: Int) -> None:
        self.require(self.busy[j] & (n >= 1))
        self.debt[j] = self.debt[j] - n

    @eventually("L2")
    def every_job_ends(self, j: Job) -> Promise:
        return promise(goal=~self.busy[j], fair=[steps(self.work, j, such_as(1))], measure=[self.debt[j]])


class Content(Jobs):
    """The goal is reached in every state there is."""

    @eventually("L2")
    def every_job_ends(self, j: Job) -> Promise:
        return promise(goal=self.left[j] >= 0, fair=[steps(self.work, j, such_as(1))], measure=[self.left[j]])


class Unordered(Jobs):
    """The lighter part falls while the weightier one rises."""

    tries = Map(Job, to=Int)

    @action("L2")
    def work(self, j: Job, n: Int) -> None:
        self.require((n >= 1) & exists(Job, lambda i: self.tries[i] < 3))
        super().work(j, n)
        self.tries[j] = self.tries[j] + 1

    @eventually("L2")
    def every_job_ends(self, j: Job) -> Promise:
        some = [steps(self.work, j, such_as(1))]
        return promise(goal=~self.busy[j], fair=some, measure=[self.tries[j], self.left[j]])


class Hook(Index):
    pass


class Hooks(Machine):
    """On each hook something hangs some day: until then the next one is no hook behind the last."""

    next = Scalar(to=Hook)
    hung = Map(Hook, to=Bool)
    bare = Count(Hook, where=lambda m, i: ~m.hung[i])
    done = Scalar(to=Bool)

    @action("L2")
    def hang(self, n: Int) -> None:
        self.require(n >= 1)
        self.hung[self.next.value + n - 1] = n == 1
        with when(n == 1):
            self.next.value = self.next.value + 1

    @invariant("L2")
    def up_to_the_next(self, i: Hook) -> Bool:
        return iff(i < self.next.value, self.hung[i])

    @eventually("L2")
    def every_hook_is_used(self, i: Hook) -> Promise:
        return promise(
            goal=self.hung[i],
            fair=[steps(self.hang, such_as(1))],
            only=[steps(self.hang, such_as(1), where=lambda n: n == 1)],
            measure=[i - self.next.value],
        )


class OutOfHooks(Hooks):
    """Where all are used the next step leaves what is spoken of: it leads nowhere."""

    @eventually("L2")
    def every_hook_is_used(self, i: Hook) -> Promise:
        return promise(
            goal=self.done.value,
            fair=[steps(self.hang, such_as(1))],
            only=[steps(self.hang, such_as(1), where=lambda n: n == 1)],
            measure=[self.bare.value],
        )
