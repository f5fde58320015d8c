"""A program behind two pipes: started in a folder of its own, limited in time, memory and words, ended as a whole.

Whatever it does, the kit goes on: a crash, a hang or a flood on its output is a `Lost`.
"""

import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..untrusted import limits
from ..untrusted.text import one_line
from .computing import begun_with, in_group

__all__ = ["Failure", "Limits", "Lost", "Program"]


@dataclass(frozen=True)
class Limits:
    """What a worker may take."""

    start: float = 180.0
    """Seconds until it says hello, and for the first answer of a level: importing an engine takes a while."""
    operation: float = 5.0
    """Seconds an operation may take; the worker itself watches it."""
    answer: float = 60.0
    """Seconds until an answer must be complete: for hangs that the worker cannot notice."""
    memory: int = 4096
    """Megabytes by which it may grow after its start."""
    line: int = limits.ANSWER_BYTES
    """Bytes of an answer."""


_WATCH = 0.5
"""Seconds between two looks at the memory of a program that does not limit it itself."""

_ENDING = 5.0
"""Seconds that a program may take to end that says nothing more."""

_LOOKS = 10
"""So often it is looked for what a program has left running."""

_WITH_COPY = 2
"""So many processes is a worker that lets copies of itself work."""

_PATIENCE = 10
"""A program on a busy machine has so many times as long to answer, as long as it waits for a processor."""


@dataclass(frozen=True)
class Failure:
    """How a worker ended instead of answering."""

    kind: str
    """``crash``, ``hang``, ``garbage``, ``flood`` or ``memory``."""
    text: str


class Lost(Exception):
    """The program is not to be spoken to any more."""

    def __init__(self, failure: Failure, *, goes_on: bool = False) -> None:
        super().__init__(failure.text)
        self.failure = failure
        self.goes_on = goes_on
        """Whether only the copy of it that was at work is lost, and another one can be spoken to."""


_LAST_WORDS = 2**14
"""So much of what a program wrote at last is read: a trace of its calls may stand behind why it ended."""

_BEHIND = re.compile(r"\s|\}|Node\.js v|exit status \d|note: run with|goroutine |created by |[\w./*()]+\(.*\)$")
"""The last line of what a runtime writes behind the reason: of Node.js, Go and Rust. In Python the reason is last."""

_REASON = re.compile(
    r"^(?:\w*(?:Error|Exception)(?: \[\w+\])?: .+|panic: .+|fatal error: .+|thread '.*panicked at .*\n.*)$", re.M
)


def _why(written: str) -> str:
    """The line of a program's last words that says why it ended."""
    lines = written.rstrip().splitlines() or [""]
    reasons = _REASON.findall(written) if _BEHIND.match(lines[-1]) else []
    return (reasons or lines)[-1].strip().replace("\n", " ")


class Program:
    """A running program that is spoken to in lines. Whoever starts it has to `end` it."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        limits: Limits,
        *,
        folder: Path | None,
        watched: bool,
    ) -> None:
        """Start it, in ``folder`` or in an empty one of its own; ``watched``: it does not limit its memory itself.

        Raises:
            OSError: it cannot be run.
        """
        self.limits, self.watched = limits, watched
        self._rest, self._unsaid = b"", bytearray()
        self._is_deaf = False
        """Whether it reads no more of what is said to it."""
        self._least, self._looked = 0, 0.0
        self._read = 0
        """Where on its standard error the words end of copies that were lost."""
        self._folder = tempfile.TemporaryDirectory(prefix="kvproof-worker-", ignore_cleanup_errors=True)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the program
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=folder or self._folder.name,
                env={**environment, "TMPDIR": self._folder.name},
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            self._folder.cleanup()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        os.set_blocking(self._input.fileno(), False)

    def end(self) -> None:
        """End it with what it started: it may be a script around another one."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self.watched:
            self._end_strays()
        self._input.close()
        self._output.close()
        self._errors.close()
        self._folder.cleanup()

    def _end_strays(self) -> None:
        """End what left its group, as a daemon does: it is known by the folder that it was given."""
        for _ in range(_LOOKS):  # One that is about to be ended may start another one meanwhile.
            strays = [*begun_with(f"TMPDIR={self._folder.name}")]
            if not strays:
                return
            for stray in strays:
                with suppress(OSError):
                    os.kill(stray, signal.SIGKILL)

    # --------------------------------------------------------------------------------------------------- lines

    def send(self, line: bytes) -> None:
        """Say a line. What the program does not take at once, since it is at work, it is given when it is listened to.

        That it has ended is found when it is listened to as well: it may have answered before.
        """
        self._unsaid += line + b"\n"
        self._say()

    def line(self, seconds: float) -> bytes:
        """Read a line.

        Raises:
            Lost: the program ended, or said too much, or nothing in so many seconds.
        """
        deadline = time.monotonic() + seconds
        parts, size = [self._rest], len(self._rest)
        while b"\n" not in parts[-1]:
            self._say()
            try:
                part = os.read(self._output.fileno(), 2**20)
            except BlockingIOError:
                if self._is_deaf:
                    raise Lost(self._gone()) from None
                self._wait(deadline)
                continue
            if not part:
                raise Lost(self._gone())
            parts.append(part)
            size += len(part)
            if size > self.limits.line:
                raise Lost(Failure("flood", f"the worker's answer is longer than {self.limits.line:,} bytes"))
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _say(self) -> None:
        """Write what the program takes."""
        while self._unsaid and not self._is_deaf:
            try:
                del self._unsaid[: os.write(self._input.fileno(), self._unsaid)]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._is_deaf = True

    def waiting(self) -> bytes:
        """What was said and not read."""
        said = self._rest
        with suppress(BlockingIOError):
            said += os.read(self._output.fileno(), 2**16)
        return said

    def last_words(self) -> str:
        """The end of what was written to standard error, to be put behind a sentence."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._read, self._errors.tell() - _LAST_WORDS))
        said = _why(self._errors.read().decode(errors="replace"))
        return f": {one_line(said, 300)}" if said else ""

    def copy_lost(self, how: str) -> Lost:
        """What to raise when it says that the copy of it that was at work has ended so, and it goes on with another."""
        failure = Failure("crash", f"the worker ended with {how}{self.last_words()}")
        self._read = self._errors.seek(0, os.SEEK_END)
        # What an operation started goes on where its worker is lost; it would take time and memory from those after it.
        return Lost(failure, goes_on=len([*in_group(self._process.pid)]) <= _WITH_COPY)

    def _gone(self) -> Failure:
        status = self._ended(_ENDING)
        if status is None:
            looks = self._patience(time.monotonic() + _PATIENCE * _ENDING, _ENDING)
            status = next((status for _ in looks if (status := self._ended(_WATCH)) is not None), None)
        if status is None:
            return Failure("crash", "the worker closed its output and went on running")
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return Failure("crash", f"the worker ended with {how}{self.last_words()}")

    def _ended(self, seconds: float) -> int | None:
        """The status that it ends with within so many seconds, if it does."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=seconds)
        return None

    # --------------------------------------------------------------------------------------------------- limits

    def _wait(self, deadline: float) -> None:
        """Wait until it says something, or takes more of what is said to it.

        Raises:
            Lost: it does neither until then, or has ended. What it started may have its output open still.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if self._unsaid:
                selector.register(self._input, selectors.EVENT_WRITE)
            while (left := deadline - time.monotonic()) > 0:
                if selector.select(min(left, _WATCH)):
                    return
                if self._process.poll() is not None and not selector.select(0):  # It may have said something just now.
                    raise Lost(self._gone())
                self.watch_memory()
            # No less than the worker itself needs to see that an operation hangs.
            most = max(self.limits.answer / 4, 2 * self.limits.operation)
            for _ in self._patience(deadline + _PATIENCE * self.limits.answer, most):
                if selector.select(_WATCH):
                    return
                self.watch_memory()
            raise Lost(Failure("hang", "the worker has not answered in time"))

    def _patience(self, latest: float, most: float) -> Iterator[None]:
        """Look again and again, until a moment, for as long as it waits for a processor: on a busy machine everything
        takes long. What it computes meanwhile, at most so many seconds, is its own."""
        began = self._computing()[0]
        while time.monotonic() < latest:
            computed, runnable = self._computing()
            if not runnable or computed - began > most:
                return
            yield

    @property
    def computed(self) -> float:
        """Seconds that it and what it started have computed, where the system tells."""
        return self._computing()[0]

    def _computing(self) -> tuple[float, bool]:
        """Seconds that the program and what it started have computed, and whether one of them could go on; where the
        system tells."""
        mine = [*in_group(self._process.pid)]
        return sum(each.computed for each in mine), any(each.is_runnable for each in mine)

    def begin_to_watch(self) -> None:
        """What it takes now is what it needs: its memory is limited from here on."""
        self._least = self._resident() if self.watched else 0

    def watch_memory(self) -> None:
        """Now and then, see whether a program that is watched has grown beyond its limit.

        Raises:
            Lost: it has.
        """
        now = time.monotonic()
        if not self.watched or now - self._looked < _WATCH:
            return
        self._looked = now
        grown = (self._resident() - self._least) / 2**20
        if grown > self.limits.memory:
            raise Lost(Failure("memory", f"the worker grew by {grown:,.0f} MiB, {self.limits.memory:,} are allowed"))

    def _resident(self) -> int:
        """Bytes of memory that the program and what it started take, where the system tells."""
        return sum(each.memory for each in in_group(self._process.pid))
