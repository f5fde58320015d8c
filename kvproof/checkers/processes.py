"""Several processes that share what this one has read: the machines of a user's file need not be importable."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

__all__ = ["Each", "each_here", "each_in", "forked"]

R = TypeVar("R")


class Each(Protocol):
    """Does something with each of many tasks; what is returned comes as it is ready, in any order."""

    def __call__(self, do: Callable[..., R], tasks: Iterable[tuple[Any, ...]]) -> Iterator[R]:
        """Yield what ``do(work, *task)`` returns."""


def each_here(work: object) -> Each:
    """Each task in this process, one after another."""
    return lambda do, tasks: (do(work, *task) for task in tasks)


@contextmanager
def each_in(number: int, work: object) -> Iterator[Each]:
    """Each task in one of so many forked processes, which have the work from this one."""
    global _work
    _work = work

    def each(do: Callable[..., R], tasks: Iterable[tuple[Any, ...]]) -> Iterator[R]:
        for future in as_completed([pool.submit(_do, do, task) for task in tasks]):
            yield future.result()

    with forked(number) as pool:
        yield each


_work: object = None


def _do(do: Callable[..., R], task: tuple[Any, ...]) -> R:
    return do(_work, *task)


@contextmanager
def forked(number: int) -> Iterator[ProcessPoolExecutor]:
    """Forked processes. Who interrupts the proof, or is done with it early, does not wait for what they still ask."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(number, multiprocessing.get_context("fork"), initializer=_leave_it_to_the_parent)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.kill()
        raise
    pool.shutdown()


def _leave_it_to_the_parent() -> None:
    """An interruption goes to all processes of a terminal; the parent ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
