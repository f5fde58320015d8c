"""Several processes that share what this one has read: the machines of a user's file need not be importable."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext
from typing import Any, Protocol, TypeVar

__all__ = ["Each", "each_by", "each_here", "each_in", "end_with_the_parent", "forked"]

R = TypeVar("R")


class Each(Protocol):
    """Does something with each of many tasks; what is returned comes as it is ready, in any order."""

    def __call__(self, do: Callable[..., R], tasks: Iterable[tuple[Any, ...]]) -> Iterator[R]:
        """Yield what ``do(work, *task)`` returns."""


def each_here(work: object) -> Each:
    """Each task in this process, one after another."""
    return lambda do, tasks: (do(work, *task) for task in tasks)


def each_by(
    work: object, jobs: int | None, *, most: int | None = None, apart: bool = False
) -> AbstractContextManager[Each]:
    """Each task in one of so many processes, one for each core unless ``jobs`` says otherwise, or where one does, here.

    ``most``: no more than so many can be busy. ``apart``: a single process is another one than this all the same.
    """
    workers = jobs or os.cpu_count() or 1
    workers = workers if most is None else min(workers, most)
    if (workers < 2 and not apart) or "fork" not in multiprocessing.get_all_start_methods():
        return nullcontext(each_here(work))
    return each_in(workers, work)


@contextmanager
def each_in(number: int, work: object) -> Iterator[Each]:
    """Each task in one of so many forked processes, which have the work from this one.

    What a task begins with is what it is about: a process goes on with what it has begun as long as there is some left,
    so that what is read and built for it is there, and helps the others when its own is done. Who interrupts the work,
    or is done with it early, does not wait for what is still at work.
    """
    context = multiprocessing.get_context("fork")
    hands: list[_Hand] = []
    homes: dict[Hashable, int] = {}
    try:
        for _ in range(number):
            hands.append(_Hand(context, work, hands))
        yield lambda do, tasks: _shared_out(hands, homes, do, tasks)
    finally:
        for hand in hands:
            hand.end()


class _Hand:
    """A process that does one task after another."""

    def __init__(self, context: ForkContext, work: object, others: Iterable[_Hand]) -> None:
        self.pipe, theirs = context.Pipe()
        # A child holds its own end alone: another one's is closed when the parent is gone, however it ends.
        away = [self.pipe, *(other.pipe for other in others)]
        self.process = context.Process(target=_serve, args=(work, theirs, away), daemon=True)
        self.process.start()
        theirs.close()

    def end(self) -> int | None:
        """End the process, whatever it still does: nobody waits for that. Return its status."""
        self.pipe.close()
        self.process.kill()
        self.process.join()
        return self.process.exitcode


def _serve(work: object, pipe: Connection, away: Iterable[Connection]) -> None:
    """Do what comes, until nobody is there to send more."""
    _leave_it_to_the_parent()
    for other in away:
        other.close()
    with suppress(EOFError, OSError):
        while True:
            do, task = pipe.recv()
            try:
                answer: Any = _Answer(do(work, *task))
            except BaseException as error:  # Whatever it is, it is the parent's to raise.
                answer = _told(error)
            pipe.send(answer)


@dataclass(frozen=True)
class _Answer:
    """What a task returned."""

    value: Any


@dataclass(frozen=True)
class _Failure:
    """What a task raised, and where."""

    error: BaseException
    where: str


def _told(error: BaseException) -> _Failure:
    where = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # It may be of a kind that cannot be sent, or not be made again from what it says.
        return _Failure(RuntimeError(f"{type(error).__name__}: {error}"), where)
    return _Failure(error, where)


def _shared_out(
    hands: Sequence[_Hand], homes: dict[Hashable, int], do: Callable[..., R], tasks: Iterable[tuple[Any, ...]]
) -> Iterator[R]:
    left: dict[Hashable, deque[tuple[Any, ...]]] = {}
    for task in tasks:
        left.setdefault(task[0], deque()).append(task)
    at_work: dict[Connection, int] = {}

    def give(number: int) -> None:
        about = _next_for(number, left, homes)
        homes.setdefault(about, number)
        hands[number].pipe.send((do, left[about].popleft()))
        at_work[hands[number].pipe] = number
        if not left[about]:
            del left[about]

    for number in range(min(len(hands), sum(map(len, left.values())))):
        give(number)
    while at_work:
        for pipe in wait([*at_work]):
            assert isinstance(pipe, Connection)
            number = at_work.pop(pipe)
            try:
                answer = pipe.recv()
            except (EOFError, OSError):
                status = hands[number].end()
                raise RuntimeError(f"a process ended while it was at work (status {status})") from None
            if left:
                give(number)
            if isinstance(answer, _Failure):
                raise answer.error from _Elsewhere(answer.where)
            yield answer.value


class _Elsewhere(Exception):
    """Where in another process it was."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _next_for(number: int, left: Mapping[Hashable, Collection[Any]], homes: Mapping[Hashable, int]) -> Hashable:
    """What a process does next: its own, else what nobody has begun, else what another one has most of."""
    own = next((about for about in left if homes.get(about) == number), None)
    if own is not None:
        return own
    new = next((about for about in left if about not in homes), None)
    return max(left, key=lambda about: len(left[about])) if new is None else new


@contextmanager
def forked(number: int) -> Iterator[ProcessPoolExecutor]:
    """Forked processes. Who interrupts them does not wait for what they still do."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(number, multiprocessing.get_context("fork"), initializer=_begin)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.kill()
        raise
    pool.shutdown()


def end_with_the_parent(patience: float = 5.0) -> None:
    """Take the end of the process that began this one for SIGTERM, however it ended: a kill tells nobody else.

    What does not end within ``patience`` seconds by itself, since it waits for more to do, is ended.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        _thread.interrupt_main(signal.SIGTERM)
        time.sleep(patience)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _begin() -> None:
    _leave_it_to_the_parent()
    end_with_the_parent(0.0)


def _leave_it_to_the_parent() -> None:
    """An interruption goes to all processes of a terminal; the parent ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
