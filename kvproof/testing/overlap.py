"""An asynchronous `BlockManager` with several calls under way: who goes on at each ``await``, the case has drawn.

What the calls answer is told when they answer, what they take back when it is asked of them: a request holds a block
from the answer of its `allocate` until its `free` is called. Whatever the order in which a manager does the calls, each
of them between its call and its answer, no two hold a block then that one alone may hold. So nothing has to be guessed
of that order, and the oracles judge what was told as they always do; where they would have to know it, they ask for
less (`kvproof/judge/oracles/hits.py`). States are asked for when no call is under way.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from .answers import was_reset, whole
from .layout import Tables
from .left_alone import left_alone
from .manager import BlockManager, Request
from .scheduler import SKIPPED, waited
from .system import System
from .turns import Loop, Turns, place, run, swept, tasks

__all__ = ["CallsNeverEnd", "OverlappingSystem"]

_CANCELLED = ("lookup", "allocate", "commit")
"""The calls that are cancelled: what becomes of a request whose `free` was, nobody could say."""

_UPSET = ("evict", "reset")
"""Operations that may take away what a lookup has found."""

_REST = 1.0
"""So many seconds pass at most, and at once, until a task of a manager's own has ended."""

_WHILE = 0.05
"""So many seconds pass behind an operation for tasks that never end."""

_SHOWN = 60
"""So many characters of an answer are told."""


class CallsNeverEnd(Exception):
    """Calls are under way, and none of them can go on; the text says where each stands."""


class _Call:
    """An operation that goes on beside others: one call of the manager after the other."""

    def __init__(self, name: str, does: Callable[[_Call], Coroutine[Any, Any, Any]]) -> None:
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
        self.is_alone = False
        """No other call is under way: it has no turns to tell of."""


class OverlappingSystem(System):
    """One manager, whose calls may overlap."""

    def __init__(self, kind: type[BlockManager], setup: dict[str, Any]) -> None:
        """Make a manager from a setup, on a loop on which nothing of another one goes on.

        Raises:
            Refused: it does not take one like that.
        """
        if left := tasks():
            run(swept(left))
        super().__init__(kind, setup)
        self._begun: list[tuple[str, dict[str, Any]]] = []
        self._calls: dict[object, _Call] = {}
        self._takers = _Takers()
        self._staying: set[int] = set()
        """Blocks of requests that nothing is asked of while calls overlap: nobody takes them."""
        self._upset = False
        self._endless: set[asyncio.Task[Any]] = set()
        """Tasks of the manager's own that did not end when nothing else was under way."""
        self._over: asyncio.Future[None] | None = None
        self._failed: _Call | None = None
        self._stuck = ""

    # ------------------------------------------------------------------------------------------------------ operations

    def do(self, op: str, args: dict[str, Any]) -> Any:
        """Do an operation; one that is begun waits for those that it goes on with."""
        if op != "begin":
            return super().do(op, args)
        self._begun.append((args["op"], {name: value for name, value in args.items() if name != "op"}))
        return None

    def _together(self, order: Sequence[int] = (), cancel: Sequence[int] = ()) -> Any:
        """Let what was begun go on together, and wait until all of it has ended.

        Args:
            order: who goes on, each time that somebody can: among those who wait for that, the first for longest.
            cancel: which of them is cancelled, and how often it has waited before.

        Raises:
            CallsNeverEnd: some do not.
        """
        begun, self._begun = self._begun, []
        names = {args.get("request") for _, args in begun}
        self._upset = any(op in _UPSET for op, _ in begun)
        self._staying = {
            block
            for name, each in self._running.items()
            if name not in names
            for block in self._layout.blocks(self._layout.read(each.table, "allocate"))
        }
        calls = self._planned(begun)
        if not calls:
            return SKIPPED
        if cancel:
            calls[cancel[0] % len(calls)].cancel_at = cancel[1] if len(cancel) > 1 else 0
        run(self._go_on(calls, Turns(order, self)))
        self._raise_for_failed()
        return {each.name: each.task.result() for each in calls if each.task is not None}

    def _planned(self, begun: Sequence[tuple[str, dict[str, Any]]]) -> list[_Call]:
        """What there is to do of it: of each request one thing, and no more of any other."""
        planned: dict[str, _Call] = {}
        for op, args in begun:
            request = args.get("request", op)
            if op not in self._operations:
                raise ValueError(f"there is no operation {op} to begin")
            if request not in planned:
                does = getattr(self, f"_plan_{op}")(**args)
                if does is not None:
                    planned[request] = _Call(f"{op} {request}" if request != op else op, does)
        return [*planned.values()]

    async def _go_on(self, calls: Sequence[_Call], turns: Turns) -> None:
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

    def _look(self, calls: Sequence[_Call]) -> None:
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
            alone = _Call("nothing else is under way", lambda _: waited(answer))
            alone.method, alone.is_alone = method, True
            run(self._go_on([alone], Turns((), self)))
            self._raise_for_failed()
            return None if alone.task is None else alone.task.result()

    def _done(self) -> None:
        self._come_to_rest()
        super()._done()

    def _come_to_rest(self) -> None:
        """Let tasks of the manager's own end, as one that gives blocks back behind the answer of `free`: what becomes
        of them would else depend on when somebody calls again. Those that never end go on for a while."""
        loop = cast("Loop", next((task.get_loop() for task in tasks()), None))
        if loop is None:
            return
        rest = _Call("", lambda _: _at_rest(loop.begun - self._endless, bool(self._endless)))
        rest.is_alone = True
        run(self._go_on([rest], Turns((), self)))
        self._endless = {task for task in loop.begun if not task.done()}

    # -------------------------------------------------------------------------------------------- whose turns they are

    def waits(self, who: object) -> None:
        """Tell where a call stands that is not alone; a task of the manager's own is no call."""
        each = self._calls.get(who)
        if each is not None and each.method and not each.is_alone:
            self._tell("turn", each.name, f"{each.method} waits {_standing(who)}")
            each.waits += each.method in _CANCELLED

    def before_a_turn(self) -> bool:
        """Cancel who has waited as often as was drawn."""
        for each in self._calls.values():
            due = each.cancel_at is not None and each.waits > each.cancel_at and each.method in _CANCELLED
            if due and each.task is not None and self._kind.cancelled is not None:
                each.cancel_at, each.is_cancelled = None, True
                self._tell("turn", each.name, f"{each.method} is cancelled there")
                each.task.cancel()
                return True
        return False

    def stuck(self) -> None:
        """Nobody can go on: the story ends with where each stands."""
        if self._over is not None and not self._over.done():
            calls = self._calls.items()
            stand = [f"{each.name}: {each.method} waits {_standing(who)}" for who, each in calls if each.method]
            is_resting = all(each.is_alone and not each.method for each in self._calls.values())
            self._stuck = "" if is_resting else "; ".join(stand) or "calls of the kit's own"
            self._over.set_result(None)

    async def _call(self, each: _Call, method: str, *args: Any) -> Any:
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

    # ------------------------------------------------------------------------------------------------- what is planned

    def _plan_start(self, request: str, prompt: list[int], most: int = 0, **tenant: Any) -> Any:
        if request in self._waiting or request in self._running:
            return None
        new = self._waiting[request] = Request(request, list(prompt), tenant.get("adapter"), tenant.get("salt"))
        self._tell("request", request, {"tokens": list(prompt), "adapter": new.adapter, "salt": new.salt})
        return self._plan_admission(new, most)

    def _plan_resume(self, request: str) -> Any:
        waiting = self._waiting.get(request)
        return None if waiting is None else self._plan_admission(waiting, 0)

    def _plan_admission(self, request: Request, most: int) -> Any:
        self._tell_keys(request)
        return lambda each: self._admits(each, request, most)

    def _plan_step(self, request: str, most: int) -> Any:
        running = self._running.get(request)
        if running is None or running.computed >= len(running.tokens):
            return None
        until = len(running.tokens) if not most else min(len(running.tokens), running.computed + most)
        return lambda each: self._advances(each, running, until, [], [])

    def _plan_grow(self, request: str, tokens: list[int]) -> Any:
        running = self._running.get(request)
        if running is None or running.computed < len(running.tokens):
            return None
        before = len(running.tokens)
        running.tokens += tokens
        keys = self._keys(running)
        del running.tokens[before:]
        return lambda each: self._advances(each, running, before + len(tokens), tokens, keys)

    def _plan_finish(self, request: str) -> Any:
        return self._plan_end(request, "finished") if request in self._running else None

    def _plan_abort(self, request: str) -> Any:
        return self._plan_end(request, "aborted") if request in self._running or request in self._waiting else None

    def _plan_end(self, request: str, how: str) -> Any:
        self._waiting.pop(request, None)
        return lambda each: self._gives_back(each, request, "end", request, how)

    def _plan_preempt(self, request: str) -> Any:
        running = self._running.get(request)
        return None if running is None else lambda each: self._waits_again(each, running)

    def _plan_evict(self, block: int) -> Any:
        if not 0 <= block < self._blocks or block == self._kind.null_block:
            return None
        return lambda each: self._asks(each, "evict", block)

    def _plan_reset(self) -> Any:
        return lambda each: self._asks(each, "reset")

    # ------------------------------------------------------------------------------------------- what goes on together

    async def _admits(self, each: _Call, request: Request, most: int) -> Any:
        """Look up, hold, compute and commit. What it was told stays right between its calls, as it does for a scheduler
        that admits one request after the other."""
        try:
            admitted = await self._looks_up_and_takes(each, request, most)
        except asyncio.CancelledError:
            self._forget_found(request)
            return await self._was_cancelled(each, request)
        return await self._commits(each, request) if admitted else False

    async def _looks_up_and_takes(self, each: _Call, request: Request, most: int) -> bool:
        if not self._looks_up:
            async with self._takers.beside_others():
                return await self._takes(each, request, self._layout.read([], "lookup"), most)
        async with self._takers.beside_others():
            found = self._layout.read(await self._call(each, "lookup", request), "lookup")
            blocks = self._layout.blocks(found)
            if not blocks or (not self._upset and self._staying.issuperset(blocks)):
                return await self._takes(each, request, found, most)
        # A lookup takes hold of nothing: until this request has what was found, nobody else may be given it.
        async with self._takers.alone():
            found = self._layout.read(await self._call(each, "lookup", request), "lookup")
            return await self._takes(each, request, found, most)

    async def _takes(self, each: _Call, request: Request, found: Tables, most: int) -> bool:
        length = len(request.tokens)
        request.found, request.cached = self._layout.as_told(found), len(found[0]) * self._size
        until = min(length, request.cached + (most or length))
        table = await self._allocated(each, request, until)
        if table is None:
            self._forget_found(request)
            return False
        self._admitted(request, table, found, 0)
        self._forward(request, table, max(until, request.computed))
        return True

    async def _allocated(self, each: _Call, request: Request, until: int) -> Tables | None:
        table = await self._call(each, "allocate", request, until)
        self._tell_copies()
        return None if table is None else self._layout.read(table, "allocate")

    async def _advances(self, each: _Call, request: Request, until: int, tokens: list[int], keys: list[int]) -> Any:
        before = len(request.tokens)
        request.tokens += tokens
        try:
            async with self._takers.beside_others():
                table = await self._allocated(each, request, until)
                if table is not None:
                    self._advanced(request, table, until, tokens, keys)
        except asyncio.CancelledError:
            del request.tokens[before:]
            return await self._was_cancelled(each, request)
        if table is None:
            del request.tokens[before:]
            return False
        return await self._commits(each, request)

    def _advanced(self, request: Request, table: Tables, until: int, tokens: list[int], keys: list[int]) -> None:
        if tokens:
            self._tell("append", request.name, list(tokens))
            self._tell_those(request, keys)
        self._forward(request, table, until)

    async def _commits(self, each: _Call, request: Request) -> Any:
        try:
            await self._call(each, "commit", request, request.computed)
        except asyncio.CancelledError:
            if not each.is_cancelled:
                raise
            return "cancelled"  # What of it was cached is cached.
        self._tell("processed", request.name, request.computed)
        return True

    async def _was_cancelled(self, each: _Call, request: Request) -> str:
        """A request holds what it held; or else all of it, which is taken back."""
        if not each.is_cancelled:
            raise asyncio.CancelledError
        if self._kind.cancelled == "freed":
            if each.task is not None:
                each.task.uncancel()
            if request.name in self._running:
                await self._waits_again(each, request)
            else:
                await self._call(each, "free", request)
        return "cancelled"

    async def _gives_back(self, each: _Call, name: str, *effect: Any) -> None:
        """What a request holds it holds no more from now on, whenever it is taken back."""
        running = self._running.get(name)
        self._tell(*effect)
        if running is not None:
            del self._running[name]
            await self._call(each, "free", running)
            running.table, running.found, running.cached, running.computed = [], [], 0, 0

    async def _waits_again(self, each: _Call, request: Request) -> None:
        self._waiting[request.name] = request
        await self._gives_back(each, request.name, "preempted", request.name)

    async def _asks(self, each: _Call, method: str, *args: Any) -> Any:
        async with self._takers.beside_others():
            answer = await self._call(each, method, *args)
        return was_reset(answer) if method == "reset" else None


class _Takers:
    """Who may take blocks: many beside each other, or one alone."""

    def __init__(self) -> None:
        self._beside = 0
        self._is_alone = False
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        """Be one of many."""
        while self._is_alone:
            await self._change()
        self._beside += 1
        try:
            yield
        finally:
            self._beside -= 1
            self._changed()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only one."""
        while self._is_alone or self._beside:
            await self._change()
        self._is_alone = True
        try:
            yield
        finally:
            self._is_alone = False
            self._changed()

    async def _change(self) -> None:
        change = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        await change

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)


def _standing(who: object) -> str:
    return f"at {at}" if (at := place(who)) else "somewhere"


async def _at_rest(others: set[asyncio.Task[Any]], and_longer: bool) -> None:
    """Wait for tasks, as long as they may take; and a while longer."""
    if others:
        await asyncio.wait(others, timeout=_REST)
    if and_longer:
        await asyncio.sleep(_WHILE)
