"""Several processes that share what this one has read: the machines of a user's file need not be importable."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

__all__ = ["forked"]


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
