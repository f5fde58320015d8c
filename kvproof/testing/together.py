"""Operations of which each is a task that calls an asynchronous manager, on a loop that gives turns: they go on
together until all have ended, one has failed, or none can go on. What each of them does says who extends this
(`overlap.py`, `tree_overlap.py`).
"""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, cast

from .answers import whole
from .left_alone import left_alone
from .scheduler import SKIPPED, Scheduler, waited
from .turns import Loop, Turns, place, run, swept, tasks

__all__ = ["Call", "CallsNeverEnd", "CallsTogether"]

_REST = 1.0
"""So many seconds pass at most, and at once, until a task of a manager's own has ended."""

_WHILE = 0.05
"""So many seconds pass behind an operation for tasks that never end."""

_SHOWN = 60
"""So many characters of an answer are told."""


class CallsNeverEnd(Exception):
    """Calls are under way, and none of them can go on; the text says where each stands."""


class Call:
    """An operation that goes on beside others: one call of the manager after the other."""

    def __init__(self, name: str, does: Callable[[Call], Coroutine[Any, Any, Any]]) -> None:
        """Be called so, and do that."""
        self.name = name
        self.does = does
        self.task: asyncio.Task[Any] | None = None
        self.method = ""
        """The call that is under way."""
        self.waits = 0
        """How often a call that may be cancelled has waited."""
        self.cancel_at: int | None = None
        """It is cancelled when it has waited more often than that."""
        self.is_cancelled = False
        self.is_spared = False
        """It is not cancelled from now on: it has done what cannot be left half done."""
        self.is_alone = False
        """No other call is under way: it has no turns to tell of."""


class CallsTogether(Scheduler):
    """One adapter, whose calls may overlap. It stands before the system that it makes of such a one."""

    def __init__(self, kind: Any, setup: dict[str, Any]) -> None:
        """Make what the next class makes of these, on a loop on which nothing of another one goes on.

        Raises:
            Refused: its adapter does not take a setup like that.
        """
        if left := tasks():
            run(swept(left))
        super().__init__(kind, setup)
        self._may_be_cancelled: Collection[str] = ()
        """The calls that are cancelled where a case says so."""
        self._calls: dict[object, Call] = {}
        self._endless: set[asyncio.Task[Any]] = set()
        """Tasks of the manager's own that did not end when nothing else was under way."""
        self._over: asyncio.Future[None] | None = None
        self._failed: Call | None = None
        self._stuck = ""

    # ------------------------------------------------------------------------------------------------------ operations

    def _together(self, order: Sequence[int] = (), cancel: Sequence[int] = ()) -> Any:
        """Let what was begun go on together, and wait until all of it has ended.

        Args:
            order: who goes on, each time that somebody can: among those who wait for that, the first for longest.
            cancel: which of them is cancelled, and how often it has waited before.

        Raises:
            CallsNeverEnd: some do not.
        """
        begun, self._begun = self._begun, []
        calls = self._planned(begun)
        if not calls:
            return SKIPPED
        if cancel:
            calls[cancel[0] % len(calls)].cancel_at = cancel[1] if len(cancel) > 1 else 0
        run(self._go_on(calls, Turns(self, order)))
        self._raise_for_failed()
        return {each.name: each.task.result() for each in calls if each.task is not None}

    @abstractmethod
    def _planned(self, begun: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Call]:
        """What there is to do of it: of each request one thing, and no more of any other."""

    def _plans(self, begun: Iterable[tuple[str, Mapping[str, Any]]], several: Collection[str]) -> list[Call]:
        """What ``_plan_...`` say of each operation; of those that name no request, ``several`` go on beside others."""
        planned: dict[str, Call] = {}
        for op, args in begun:
            request = args.get("request", op)
            if op not in self._operations:
                raise ValueError(f"there is no operation {op} to begin")
            if op in several:
                request = op + " again" * sum(name.startswith(op) for name in planned)
            if request not in planned:
                does = getattr(self, f"_plan_{op}")(**args)
                if does is not None:
                    planned[request] = Call(f"{op} {request}" if "request" in args else request, does)
        return [*planned.values()]

    async def _go_on(self, calls: Sequence[Call], turns: Turns) -> None:
        """Give turns until all have ended, or one has failed, or nobody can go on."""
        loop = cast("Loop", asyncio.get_running_loop())
        self._over = over = loop.create_future()
        self._failed, self._stuck = None, ""
        loop.give(turns)
        try:
            for each in calls:
                coro = each.does(each)
                self._calls[coro] = each
                each.task = loop.create_task(coro)
                each.task.add_done_callback(lambda _: self._look(calls))
            await over
        finally:
            loop.take_back()
            self._calls.clear()
        await swept({each.task for each in calls if each.task is not None and not each.task.done()})

    def _look(self, calls: Sequence[Call]) -> None:
        if self._over is None or self._over.done():
            return
        ended = [each for each in calls if each.task is not None and each.task.done()]
        for each in ended:
            if each.task is not None and (each.task.cancelled() or each.task.exception() is not None):
                self._failed = each
        if self._failed is not None or len(ended) == len(calls):
            self._over.set_result(None)

    def _raise_for_failed(self) -> None:
        """Raise what a call has raised, or that some never end."""
        if self._stuck:
            raise CallsNeverEnd(self._stuck)
        if self._failed is None or self._failed.task is None:
            return
        if self._failed.task.cancelled():
            raise RuntimeError(f"{self._failed.name}: a call ended by a CancelledError, and nobody had cancelled it")
        error = self._failed.task.exception()
        if error is not None:
            raise error

    def _ask(self, method: str, *args: Any) -> Any:
        """Call the adapter while no other call is under way; time passes as it does for calls that overlap."""
        with left_alone(method, args):
            answer = getattr(self._adapter, method)(*args)
            if not inspect.isawaitable(answer):
                return whole(answer)
            alone = Call("nothing else is under way", lambda _: waited(answer))
            alone.method, alone.is_alone = method, True
            run(self._go_on([alone], Turns(self)))
            self._raise_for_failed()
            return None if alone.task is None else alone.task.result()

    def _done(self) -> None:
        self._let_tasks_end()
        super()._done()

    def _come_to_rest(self) -> None:
        super()._come_to_rest()
        self._let_tasks_end()

    def _let_tasks_end(self) -> None:
        """Let tasks of the manager's own end, as one that gives blocks back behind the answer of `free`: what becomes
        of them would else depend on when somebody calls again. Those that never end go on for a while."""
        loop = cast("Loop", next((task.get_loop() for task in tasks()), None))
        if loop is None:
            return
        rest = Call("", lambda _: _at_rest(loop.begun - self._endless, bool(self._endless)))
        rest.is_alone = True
        run(self._go_on([rest], Turns(self)))
        self._endless = {task for task in loop.begun if not task.done()}

    # -------------------------------------------------------------------------------------------- whose turns they are

    def waits(self, who: object) -> None:
        """Tell where a call stands that is not alone; a task of the manager's own is no call."""
        each = self._calls.get(who)
        if each is not None and each.method and not each.is_alone:
            self._tell("turn", each.name, f"{each.method} waits {_standing(who)}")
            each.waits += self._is_cancellable(each)

    def before_a_turn(self) -> bool:
        """Cancel who has waited as often as was drawn."""
        for each in self._calls.values():
            due = each.cancel_at is not None and each.waits > each.cancel_at and self._is_cancellable(each)
            if due and each.task is not None:
                each.cancel_at, each.is_cancelled = None, True
                self._tell("turn", each.name, f"{each.method} is cancelled there")
                each.task.cancel()
                return True
        return False

    def _is_cancellable(self, each: Call) -> bool:
        return each.method in self._may_be_cancelled and not each.is_spared

    def stuck(self) -> None:
        """Nobody can go on: the story ends with where each stands."""
        if self._over is not None and not self._over.done():
            calls = self._calls.items()
            stand = [f"{each.name}: {each.method} waits {_standing(who)}" for who, each in calls if each.method]
            is_resting = all(each.is_alone and not each.method for each in self._calls.values())
            self._stuck = "" if is_resting else "; ".join(stand) or "calls of the kit's own"
            self._over.set_result(None)

    async def _call(self, each: Call, method: str, *args: Any) -> Any:
        """Call the adapter, beside others."""
        each.method = method
        self._tell("turn", each.name, f"calls {method}")
        try:
            with left_alone(method, args):
                answer = getattr(self._adapter, method)(*args)
                answer = whole(await answer if inspect.isawaitable(answer) else answer)
        finally:
            each.method = ""
        if each.is_cancelled and each.task is not None and each.task.cancelling():
            each.task.uncancel()  # It was asked to end, and has done all.
        said = "" if answer is None and method != "allocate" else f" {answer}"
        self._tell("turn", each.name, f"{method} answers{said}"[:_SHOWN])
        return answer


def _standing(who: object) -> str:
    return f"at {at}" if (at := place(who)) else "somewhere"


async def _at_rest(others: set[asyncio.Task[Any]], and_longer: bool) -> None:
    """Wait for tasks, as long as they may take; and a while longer."""
    if others:
        await asyncio.wait(others, timeout=_REST)
    if and_longer:
        await asyncio.sleep(_WHILE)
