"""A class of the user's that may take its process with it: each case is run in a copy of this one (``fork``).

What the copy does it tells step by step through a pipe, so that of a crash the operations before it are known. Nothing
that one case leaves behind in memory reaches the next.
"""

from __future__ import annotations

import faulthandler
import os
import re
import select
import signal
import tempfile
import warnings
from typing import IO, Any

import msgspec

from ..engines.computing import running
from ..engines.session import Failure, Run
from ..engines.worker.serving import answer, hang
from ..judge.record import Answer, Case
from .session import InProcess
from .subjects import Adapter

__all__ = ["Isolated", "session_of"]

_END = b"end "
"""What the last line begins with."""

_GRACE = 4.0
"""So many times as long as an operation may take, nothing may be told: native code hears no signal."""

_PATIENCE = 10
"""So many times as often it is looked again, on a busy machine: whether the copy has had a processor at all."""


def session_of(kind: Adapter) -> InProcess:
    """Who runs the cases of a class: this process, or a copy of it for each where the class says that it may crash.

    Raises:
        UsageError: the class lacks what every one of its kind has.
    """
    return Isolated(kind) if kind.isolated else InProcess(kind)


class Isolated(InProcess):
    """What `InProcess` is, with a copy of the process for each case."""

    def run(self, case: Case) -> Run:
        """Let a fresh manager do a case in a copy of this process; a crash, or a hang, is a failure."""
        told, tell = os.pipe()
        with tempfile.TemporaryFile() as trace, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Other threads' locks: the copy needs none of them.
            copy = os.fork()
            if not copy:
                os.close(told)
                self._tell(case, tell, trace)
            os.close(tell)
            try:
                lines, hung = self._read(told, copy)
            finally:
                os.close(told)
                os.kill(copy, signal.SIGKILL)
                _, status = os.waitpid(copy, 0)
            told_all = bool(lines) and lines[-1].startswith(_END)
            run = _understood(lines[:-1], lines[-1].removeprefix(_END)) if told_all else _understood(lines)
            return run if told_all else Run(run.answer, _failure(hung, status, trace))

    def _tell(self, case: Case, pipe: int, trace: IO[bytes]) -> None:
        """In the copy: do the case, tell each step and then all of it, and wait for the end."""
        faulthandler.enable(trace, all_threads=False)
        signal.signal(signal.SIGALRM, hang)
        message = {"level": case.level, "setup": case.setup, "ops": msgspec.to_builtins(case.ops)}
        with os.fdopen(pipe, "wb") as out:

            def say(what: dict[str, Any], before: bytes = b"") -> None:
                out.write(before + msgspec.json.encode(what) + b"\n")
                out.flush()

            try:
                answered, _ = answer(self._adapter, message, 0.0, self._seconds, say)
                # An exception of the setup is a step that was told of nobody.
                ends = answered if "world" not in answered else {**answered, "steps": []}
                say(ends, _END)
            finally:
                os._exit(0)

    def _read(self, pipe: int, copy: int) -> tuple[list[bytes], bool]:
        """What the copy told, line by line, until it ends; and whether it was given up."""
        said = b""
        while self._will_tell(pipe, copy):
            more = os.read(pipe, 2**20)
            if not more:
                return said.split(b"\n")[:-1], False
            said += more
        return said.split(b"\n")[:-1], True

    def _will_tell(self, pipe: int, copy: int) -> bool:
        """Wait for the next word; false where it computes for ever, or sleeps."""
        began = running(copy)
        for _ in range(_PATIENCE):
            if select.select([pipe], [], [], _GRACE * self._seconds)[0]:
                return True
            now = running(copy)
            if began is None or now is None or not now.is_runnable or now.computed - began.computed > self._seconds:
                break
        return False


def _understood(steps: list[bytes], end: bytes = b"{}") -> Run:
    """The answer that these steps, and what was told at the end, make."""
    told = {"id": 0, "steps": [], **msgspec.json.decode(end)}
    told["steps"] += map(msgspec.json.decode, steps)
    try:
        return Run(msgspec.convert(told, Answer))
    except msgspec.ValidationError as error:
        return Run(Answer(0), Failure("garbage", f"the manager's answer is none: {error}"))


def _failure(hung: bool, status: int, trace: IO[bytes]) -> Failure:
    if hung:
        return Failure("hang", "the process computes for ever, and hears no signal: it was killed")
    code = os.waitstatus_to_exitcode(status)
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
    trace.seek(0)
    place = re.search(rb'File "([^"]+)", line (\d+) in (\w+)', trace.read())
    if place is None:
        return Failure("crash", f"the process was ended by {how}")
    file, line, call = (word.decode() for word in place.groups())
    return Failure("crash", f"the process was ended by {how} in {call} ({os.path.basename(file)}:{line})")
