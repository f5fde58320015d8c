"""A class of the user's in this process, asked as a worker behind a pipe is: the same messages, the same answers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from ..engines.session import Failure, Run
from ..engines.worker.serving import System, answer, hang
from ..judge.record import PROTOCOL, Answer, Capabilities, Case, Hello
from .manager import Refused
from .subjects import Adapter, subject_of

__all__ = ["InProcess", "Served"]

_SECONDS = 5.0
"""So long an operation may take."""


class Served:
    """What makes systems of a class."""

    Refused = Refused
    __file__: str | None = __file__

    def __init__(self, kind: Adapter) -> None:
        """Make systems of this class."""
        subject = subject_of(kind)
        self.LEVELS: Mapping[str, Callable[[dict[str, Any]], System]] = {subject.level: partial(subject.make, kind)}
        self.about: dict[str, Any] = {
            "engine": kind.__qualname__,
            "version": str(getattr(kind, "version", "unversioned")),
            "capabilities": {subject.level: subject.capabilities(kind)},
        }
        """What a hello says of it."""


class InProcess:
    """What `kvproof.engines.session.Session` is for a worker, without one: `hunt` asks either."""

    def __init__(self, kind: Adapter, seconds: float = _SECONDS) -> None:
        """Ask this manager; an operation may take so long.

        Raises:
            UsageError: it lacks what every manager has.
        """
        self._adapter, self._seconds = Served(kind), seconds
        about = self._adapter.about
        can = msgspec.convert(about["capabilities"], dict[str, Capabilities])
        self.hello = Hello(PROTOCOL, about["engine"], about["version"], [*can], can)

    def run(self, case: Case) -> Run:
        """Let a fresh manager do a case. What it says that cannot be read is garbage, and a finding."""
        message = {"level": case.level, "setup": case.setup, "ops": msgspec.to_builtins(case.ops)}
        with _watched(self._seconds) as seconds:
            answered, _ = answer(self._adapter, message, seconds, seconds)
        try:
            return Run(msgspec.convert({"id": 0, **answered}, Answer))
        except msgspec.ValidationError as error:
            return Run(Answer(0), Failure("garbage", f"the manager's answer is none: {error}"))


@contextmanager
def _watched(seconds: float) -> Iterator[float]:
    """Have a handler for operations that hang, and give their limit: none where somebody else watches the time.

    Signals reach the main thread alone, and there is one timer: that of pytest-timeout goes on.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getitimer(signal.ITIMER_REAL)[0] or signal.getsignal(signal.SIGALRM) is None:
        yield 0.0
        return
    before = signal.signal(signal.SIGALRM, hang)
    try:
        yield seconds
    finally:
        signal.signal(signal.SIGALRM, before)
