"""Turns: an event loop on which a drawn order says who goes on at each ``await``, and time passes only when all wait.

Nothing of asyncio is replaced: tasks, locks, queues and timers are its own. A coroutine that takes turns is run through
another one which, each time that it may go on, first waits until it is told to; and the loop asks its selector for news
only when nobody can go on, so that the selector is where the next turn is given. What waits for a timer has it at once,
what waits for a thread or for another process waits for that.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import selectors
import threading
import types
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import cache
from typing import Any, Protocol, TypeVar, TypeVarTuple

from ..engines.clock import monotonic
from ..engines.worker.serving import broken_off

__all__ = ["Loop", "Player", "Turns", "place", "run", "swept", "tasks"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_PATIENCE = 0.2
"""So many seconds a thread may take before others go on; and so long it is listened, before nobody can go on."""

_GRACE = 0.05
"""So many seconds a task has to end that is cancelled for good."""

_ITSELF = 1
"""So many files a loop listens to that listens to nobody: the one by which threads wake it."""

_THREADS = frozenset(threading.enumerate())
"""Those that no manager has started."""

_MOST = 5_000
"""So many turns and timers a few calls may take."""


class Player(Protocol):
    """Whose turns they are."""

    def waits(self, who: object) -> None:
        """Hear that somebody waits for something; `place` tells where."""

    def before_a_turn(self) -> bool:
        """Do what is due while everybody waits; true where somebody can go on by that."""

    def stuck(self) -> None:
        """Hear that nobody can go on, or that they go on for ever."""


class Turns:
    """Who may go on, and in which order they do."""

    def __init__(self, player: Player, order: Sequence[int] | None = None) -> None:
        """Give turns by the numbers of an order: each chooses among those who may go on.

        The first of them has waited for longest. Behind the order's end it is always that one: nobody waits for ever.
        Without an order there is one call, which waits for nobody else but for tasks that it has begun.
        """
        self._order, self.player = iter(order or ()), player
        self.is_for_one = order is None
        self._gates: list[asyncio.Future[None]] = []
        self._taken = 0

    def gate(self, loop: Loop) -> asyncio.Future[None]:
        """Let somebody wait for a turn."""
        gate = loop.create_future()
        self._gates.append(gate)
        return gate

    def next(self) -> bool:
        """Give the next turn; false where nobody waits for one."""
        if self.player.before_a_turn():
            return True
        self._gates = [gate for gate in self._gates if not gate.done()]
        if not self._gates:
            return False
        self._gates.pop(next(self._order, 0) % len(self._gates)).set_result(None)
        return True

    def is_endless(self) -> bool:
        """Count a turn or a timer, and tell whether that are too many."""
        self._taken += 1
        return self._taken > _MOST

    def end(self) -> None:
        """Let all go on as they like."""
        for gate in self._gates:
            if not gate.done():
                gate.set_result(None)


class Loop(asyncio.SelectorEventLoop):
    """An event loop that knows whose turn it is, while turns are given."""

    def __init__(self) -> None:
        """Be asyncio's own loop until turns are given."""
        self.turns: Turns | None = None
        self.begun: set[asyncio.Task[Any]] = set()
        """What has begun in turns and is not done. asyncio holds no task, so one that only its manager holds, and it
        the manager, would be collected in the midst of it, with a line on stderr for each."""
        self.is_ending = False
        """What is left on it is no news."""
        self._hangs = broken_off()
        self._now: float | None = None
        self._ahead = 0.0
        self._in_threads = 0
        super().__init__(_Selector(self))
        self.set_task_factory(_task)

    def time(self) -> float:
        """The time that timers are set by: it stands still while turns are given."""
        return monotonic() + self._ahead if self._now is None else self._now

    def give(self, turns: Turns) -> None:
        """Give turns from now on, to every task that is begun from now on."""
        self._now, self.turns = self.time(), turns

    def take_back(self) -> None:
        """Give no more turns."""
        if self.turns is not None and self._now is not None:
            self._ahead = self._now - monotonic()
            self.turns.end()
            self._now, self.turns = None, None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Say what nobody has heard, as of a task that failed; nothing of what a hang has left in the midst of it."""
        if not self.is_ending and self._hangs == broken_off():
            super().call_exception_handler(context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Do something in a thread, and know that there it goes on."""
        self._in_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._is_back)
        return future

    def _is_back(self, _: object) -> None:
        self._in_threads -= 1

    def idle(self, turns: Turns, timeout: float | None, hear: Callable[[float], list[Any]]) -> list[Any]:
        """Nobody goes on by himself: hear what comes from outside, or else give a turn, or else let time pass."""
        heard = hear(_PATIENCE if self._in_threads else 0)
        if heard or turns.next():
            return self._counted(turns, heard)
        if timeout is not None:
            # A little more: a timer is due when the time is behind it, and large numbers differ by more than a little.
            later = (self._now or 0.0) + timeout
            self._now = later + max(1e-6, later * 1e-12)
            return self._counted(turns, heard)
        if self._in_threads or set(threading.enumerate()) - _THREADS:
            heard = hear(_PATIENCE)
        if not heard:
            turns.player.stuck()
        return heard

    def _counted(self, turns: Turns, heard: list[Any]) -> list[Any]:
        if turns.is_endless():
            turns.player.stuck()
        return heard


class _Selector(selectors.DefaultSelector):
    """What a loop listens by: it is asked to wait only where nobody can go on."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Listen for so long, in seconds; while turns are given, give one."""
        turns = self._loop.turns
        if turns is None:
            return super().select(timeout)
        if timeout == 0:  # Somebody goes on. What threads bring is there unasked, and to ask the system takes longest.
            return super().select(0) if len(self.get_map()) > _ITSELF else []
        return self._loop.idle(turns, timeout, super().select)


def _task(loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
    """A task; one that is begun while turns are given takes turns."""
    if not isinstance(loop, Loop) or loop.turns is None or not inspect.iscoroutine(coro):
        return asyncio.Task(coro, loop=loop, **more)
    task = asyncio.Task(_in_turns(loop, coro), loop=loop, **more)
    task.add_done_callback(lambda _: coro.close())  # It has not even begun, where the task was cancelled before.
    loop.begun.add(task)
    task.add_done_callback(loop.begun.discard)
    return task


async def _in_turns(loop: Loop, coro: Coroutine[Any, Any, Any]) -> Any:
    return await _stepped(loop, coro)


@types.coroutine
def _stepped(loop: Loop, coro: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run a coroutine, and let it wait for its turn before each step."""
    error: BaseException | None = None
    while True:
        try:
            yield from _turn(loop)
        except asyncio.CancelledError as cancelled:
            error = cancelled
        try:
            waits_for = coro.send(None) if error is None else coro.throw(error)
        except StopIteration as done:
            return done.value
        error = None
        if loop.turns is not None:
            loop.turns.player.waits(coro)
        try:
            yield waits_for
        except GeneratorExit:
            coro.close()
            raise
        except BaseException as thrown:  # Whatever it is, it is for the coroutine.
            error = thrown


def _turn(loop: Loop) -> Iterator[Any]:
    """Wait for a turn. Who is alone has it at once, as long as that does not go on for ever."""
    turns = loop.turns
    if turns is None or (turns.is_for_one and len(loop.begun) == 1 and not turns.is_endless()):
        return
    yield from turns.gate(loop).__await__()


_OWN = (os.path.dirname(asyncio.__file__) + os.sep, os.path.dirname(__file__) + os.sep)
"""Folders in which no manager stands."""


def place(coro: Any) -> str:
    """Where a coroutine stands: the innermost places that are neither asyncio's nor ours; empty if there are none."""
    found: list[str] = []
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None) or getattr(coro, "ag_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith(_OWN):
            found.append(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}")
        coro = next(
            (getattr(coro, name) for name in ("cr_await", "gi_yieldfrom", "ag_await") if hasattr(coro, name)), None
        )
    return ", ".join(found[-_PLACES:])


_PLACES = 2
"""So many places are told: the one that waits may be a helper that all use."""


def run(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on one event loop for all managers: what is bound to it in one call is there in the
    next, and so are context variables.

    `asyncio.Runner.run` would do the same between two changes of what Control-C does, for each of thousands of short
    calls. Without them it breaks off at once what is run.
    """
    with _alone():
        loop, context = _here()
        return loop.run_until_complete(loop.create_task(coro, context=context))


@contextmanager
def _alone() -> Iterator[None]:
    """Leave the loop that a test itself is run by, as pytest-asyncio's are: asyncio lets none run within another."""
    outer = asyncio._get_running_loop()
    if outer is None or isinstance(outer, Loop):
        yield
        return
    task = asyncio.current_task(outer)
    if task is not None:
        asyncio.tasks._leave_task(outer, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)
        if task is not None:
            asyncio.tasks._enter_task(outer, task)


def tasks() -> set[asyncio.Task[Any]]:
    """What goes on there, and has not ended."""
    return asyncio.all_tasks(_here()[0])


async def swept(tasks: Collection[asyncio.Task[Any]]) -> None:
    """End tasks that nobody waits for any more."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_GRACE)


def _here() -> tuple[Loop, Context]:
    """The loop and the context of all managers.

    A hang is broken off in the midst of whatever goes on. A loop may have lost a callback by that, or take itself for
    running: whoever comes behind it has a new one.
    """
    return _loop(broken_off())


@cache
def _loop(hangs: int) -> tuple[Loop, Context]:
    """The loop that there is behind so many hangs."""
    if hangs and isinstance(asyncio._get_running_loop(), Loop):
        asyncio._set_running_loop(None)
    loop = Loop()
    atexit.register(_end, loop)
    return loop, copy_context()


def _end(loop: Loop) -> None:
    """End a loop with the process. What swallows that it is cancelled is not waited for."""
    if loop is _here()[0]:
        run(swept(tasks()))
        loop.is_ending = True
        loop.close()
