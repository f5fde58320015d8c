"""A worker process: started, spoken to in lines of JSON, limited in time, memory and words, replaced when it is gone.

Whatever a worker does, the kit goes on: a crash, a hang, garbage or a flood on its output is an answer too, a
`Failure`.
"""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from ..judge.record import PROTOCOL, Answer, Case, Hello, Step
from ..untrusted import limits
from ..untrusted.reading import UnreadableError, check_json, decode_json
from ..untrusted.text import one_line
from .build import Build
from .catalog import ENGINES
from .driver.command import Driver

__all__ = ["Exchange", "Failure", "Limits", "Run", "Session", "WorkerError"]

WORKER = Path(__file__).with_name("worker")
"""The worker for Python engines: a folder that the engine's interpreter runs."""


class WorkerError(Exception):
    """No worker can be had for an engine. One sentence that says why."""


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


_OF_DRIVERS = Limits(start=60.0, answer=30.0)
"""A program of the user's: nothing large is imported, and nobody but the kit watches its time."""

_WATCH = 0.5
"""Seconds between two looks at the memory of a program that does not limit it itself."""


_PATIENCE = 10
"""A worker on a busy machine has so many times as long to answer, as long as it waits for a processor."""


@dataclass(frozen=True)
class Failure:
    """How a worker ended instead of answering."""

    kind: str
    """``crash``, ``hang``, ``garbage``, ``flood`` or ``memory``."""
    text: str


@dataclass
class Run:
    """What came of a case."""

    answer: Answer
    failure: Failure | None = None
    """Set when the worker was lost; then the answer has the steps that are known to have ended."""


@dataclass
class Exchange:
    """What came of a message, as it was said: for judging the words, not what they tell."""

    answer: Any = None
    """The line that has the message's number; None where the worker was lost first."""
    before: list[Any] = field(default_factory=list)
    """What was said before it: streamed steps."""
    failure: Failure | None = None


class _Lost(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@dataclass
class Session:
    """A worker for one engine. Starts when first asked, again after each failure; a context manager that ends it."""

    command: Sequence[str]
    """What starts the worker: ``[PYTHON, WORKER, ADAPTER, LIMITS]``, or any program that speaks the protocol."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """All of its environment variables."""
    limits: Limits = field(default_factory=Limits)
    folder: Path | None = None
    """Where it runs; None: in an empty folder of its own."""
    watched: bool = False
    """Whether the kit watches its memory, since it does not itself."""
    forks: bool = False
    """Whether the worker makes a fresh one of itself when it is asked to."""
    starts: int = 0
    """How many workers there were."""

    said_hello: Any = None
    """The hello of the last worker as it was said, with what the kit does not know."""

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._hello: Hello | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._errors: IO[bytes] | None = None
        self._rest = b""
        self._warm: set[str] = set()
        self._id = 0
        self._decode = msgspec.json.Decoder(Answer).decode
        self._least = 0
        self._looked = 0.0

    @staticmethod
    def of(build: Build | Driver, limits: Limits | None = None, levels: Sequence[str] = ()) -> "Session":
        """A worker for a build of the store or of the user's own, or the user's own driver.

        The levels are ready when it says hello, and a fresh worker costs next to nothing (`renew`).
        """
        if isinstance(build, Driver):
            return Session(build.command, limits=limits or _OF_DRIVERS, folder=Path.cwd(), watched=True)
        engine = ENGINES[build.name]
        return Session.around(engine.WORKER, build.python, build.environment(), limits or Limits(), levels)

    @staticmethod
    def around(
        adapter: Path, python: Path, environment: Mapping[str, str], limits: Limits, levels: Sequence[str] = ()
    ) -> "Session":
        """The kit's worker around an adapter: a file ``NAME_engine.py`` that makes the levels of an engine."""
        told = {"operation": limits.operation, "memory": limits.memory, "levels": [*levels]}
        said = msgspec.json.encode(told).decode()
        return Session([str(python), str(WORKER), str(adapter), said], environment, limits, forks=bool(levels))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def hello(self) -> Hello:
        """What the worker says of itself; starts it.

        Raises:
            WorkerError: it cannot be started, or does not speak the protocol.
        """
        if self._hello is None or self._process is None:
            self._start()
        assert self._hello is not None
        return self._hello

    def run(self, case: Case, *, snapshots: str = "full", full_at: Sequence[int] = (), keep: bool = False) -> Run:
        """Let the worker do a case; ``keep``: `more` may go on with it.

        Raises:
            WorkerError: no worker can be started (any more).
        """
        _ = self.hello
        message: dict[str, Any] = {
            "level": case.level,
            "setup": case.setup,
            "ops": case.ops,
            "snapshots": snapshots,
            "full_at": list(full_at),
        }
        if keep:
            message["keep"] = True
        try:
            return self._ask(message)
        except _Lost as lost:
            self.close()
            return Run(Answer(0, steps=self._steps_before(message)), lost.failure)

    def more(self, ops: Sequence[tuple[str, dict[str, Any]]], *, snapshots: str = "full") -> Run:
        """Let the worker go on with what it kept.

        Raises:
            WorkerError: no worker can be started (any more).
        """
        _ = self.hello
        try:
            return self._ask({"more": ops, "snapshots": snapshots})
        except _Lost as lost:
            self.close()
            return Run(Answer(0), lost.failure)

    def renew(self) -> None:
        """Let a fresh worker do the next case: one that has done none."""
        if self._process is None:
            return
        if not self.forks or self.exchange({"fresh": True}).failure is not None:
            self.close()

    def exchange(self, message: dict[str, Any]) -> Exchange:
        """Say a message, and return all that is said until its answer; the answer may be anything with its number.

        Raises:
            WorkerError: no worker can be started (any more).
        """
        _ = self.hello
        number = self._next()
        done = Exchange()
        try:
            self._send({"id": number, **message})
            while True:
                line = self._line(time.monotonic() + self.limits.answer)
                try:
                    said = decode_json(line, object, values=limits.ANSWER_VALUES)
                except UnreadableError as error:
                    raise _Lost(Failure("garbage", f"it said {line[:80]!r}, which is no JSON ({error})")) from error
                if isinstance(said, dict) and said.get("id") == message.get("id", number):
                    done.answer = said
                    return done
                if not (isinstance(said, dict) and said.keys() == {"step"}):
                    raise _Lost(Failure("garbage", f"it said {line[:80]!r}, which is no answer to message {number}"))
                done.before.append(said["step"])
                if len(done.before) > limits.STREAMED_LINES:
                    raise _Lost(Failure("flood", f"it said {limits.STREAMED_LINES:,} steps before an answer"))
        except _Lost as lost:
            done.failure = lost.failure
            self.close()
            return done

    def idle(self) -> bytes:
        """What a worker says though nothing was asked: it should be nothing."""
        process, said = self._process, self._rest
        if process is not None and process.stdout is not None:
            with suppress(BlockingIOError):
                said += os.read(process.stdout.fileno(), 2**16)
        return said

    def _steps_before(self, message: dict[str, Any]) -> list[Step]:
        """The steps that a worker ends before it fails: it is asked again, to say each as soon as it is done."""
        steps: list[Step] = []
        try:
            _ = self.hello
            self._send({**message, "id": self._next(), "stream": True})
            while len(steps) < len(message["ops"]):
                line = self._line(time.monotonic() + self.limits.answer)
                steps.append(decode_json(line, _Streamed, values=limits.ANSWER_VALUES).step)
        except (_Lost, WorkerError, UnreadableError):
            pass
        self.close()
        return steps

    def close(self) -> None:
        """End the worker, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # With what it started: a driver may be a script around one.
            process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        self._rest = b""

    # --------------------------------------------------------------------------------------------------- talking

    def _start(self) -> None:
        self.close()
        self._folder = tempfile.TemporaryDirectory(prefix="kvproof-worker-", ignore_cleanup_errors=True)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=self.folder or self._folder.name,
                env={**self.environment, "TMPDIR": self._folder.name},
                start_new_session=True,
            )
        except OSError as error:
            self.close()
            raise WorkerError(f"{self.command[0]} cannot be run ({error.strerror or error}); name another") from error
        self.starts += 1
        self._warm.clear()
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        os.set_blocking(self._process.stdin.fileno(), False)
        try:
            line = self._line(time.monotonic() + self.limits.start)
        except _Lost as error:
            said = "" if error.failure.kind == "crash" else self._last_words()
            self.close()
            what = f"no hello within {self.limits.start:g} s" if error.failure.kind == "hang" else error
            raise WorkerError(f"the worker did not start ({what}){said}; it must say hello at once") from error
        try:
            hello = _hello(line)
        except UnreadableError as error:
            self.close()
            raise WorkerError(
                f"the worker's first line is no hello: {line[:80]!r} ({error}); docs/protocol.md says what it must be"
            ) from error
        if hello.protocol != PROTOCOL:
            self.close()
            raise WorkerError(f"the worker speaks protocol {hello.protocol}, this kit {PROTOCOL}; update the older one")
        self._hello = hello
        self.said_hello = decode_json(line, object)
        self._least = self._resident() if self.watched else 0

    def _ask(self, message: dict[str, Any]) -> Run:
        number = self._next()
        self._send({"id": number, **message})
        own = self.limits
        level: str | None = message.get("level")
        cold = level is not None and level not in self._warm
        if level is not None:
            self._warm.add(level)
        line = self._line(time.monotonic() + (max(own.answer, own.start) if cold else own.answer))
        try:
            check_json(line, values=limits.ANSWER_VALUES, digits=False)
            answer = self._decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise _Lost(Failure("garbage", f"the worker's answer is none: {error}: {line[:80]!r}")) from error
        if answer.id != number:
            raise _Lost(Failure("garbage", f"the worker answered message {answer.id}, not {number}"))
        self._watch_memory()
        return Run(answer)

    def _next(self) -> int:
        self._id += 1
        return self._id

    def _send(self, message: dict[str, Any]) -> None:
        """Write a line; the worker reads it at once, or something is wrong with it."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        data = memoryview(msgspec.json.encode(message) + b"\n")
        deadline = time.monotonic() + self.limits.answer
        while data:
            try:
                data = data[os.write(process.stdin.fileno(), data) :]
            except BlockingIOError:
                self._wait(process.stdin, selectors.EVENT_WRITE, deadline)
            except BrokenPipeError as error:
                raise _Lost(self._gone()) from error

    def _line(self, deadline: float) -> bytes:
        """Read a line."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        parts, size = [self._rest], len(self._rest)
        while b"\n" not in parts[-1]:
            try:
                part = os.read(process.stdout.fileno(), 2**20)
            except BlockingIOError:
                self._wait(process.stdout, selectors.EVENT_READ, deadline)
                continue
            if not part:
                raise _Lost(self._gone())
            parts.append(part)
            size += len(part)
            if size > self.limits.line:
                raise _Lost(Failure("flood", f"the worker's answer is longer than {self.limits.line:,} bytes"))
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _wait(self, pipe: IO[bytes], event: int, deadline: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            while (left := deadline - time.monotonic()) > 0:
                if selector.select(min(left, _WATCH) if self.watched else left):
                    return
                self._watch_memory()
            # On a busy machine everything takes long: what waits for a processor has some time more, of its own.
            began, latest = self._computing()[0], deadline + _PATIENCE * self.limits.answer
            while time.monotonic() < latest:
                computed, runnable = self._computing()
                if not runnable or computed - began > self.limits.answer / 4:
                    break
                if selector.select(_WATCH):
                    return
                self._watch_memory()
            raise _Lost(Failure("hang", "the worker has not answered in time"))

    def _computing(self) -> tuple[float, bool]:
        """Seconds that the worker and what it started have computed, and whether one of them could go on; where the
        system tells."""
        assert self._process is not None
        found, runnable = 0, False
        for process in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, ValueError, IndexError):
                # After the name, which may have spaces: state, parent, group; user and system time as 12th and 13th.
                told = process.read_text().rpartition(")")[2].split()
                if int(told[2]) == self._process.pid:
                    found += int(told[11]) + int(told[12])
                    runnable = runnable or told[0] == "R"
        return found / os.sysconf("SC_CLK_TCK"), runnable

    def _watch_memory(self) -> None:
        """Now and then, see whether a watched worker has grown beyond its limit."""
        now = time.monotonic()
        if not self.watched or now - self._looked < _WATCH:
            return
        self._looked = now
        grown = (self._resident() - self._least) / 2**20
        if grown > self.limits.memory:
            raise _Lost(Failure("memory", f"the worker grew by {grown:,.0f} MiB, {self.limits.memory:,} are allowed"))

    def _resident(self) -> int:
        """Bytes of memory that the worker and what it started take, where the system tells."""
        assert self._process is not None
        page, found = os.sysconf("SC_PAGE_SIZE"), 0
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError, IndexError):
                # After the name, which may have spaces: state, parent, group.
                if int((process / "stat").read_text().rpartition(")")[2].split()[2]) == self._process.pid:
                    found += int((process / "statm").read_text().split()[1]) * page
        return found

    def _gone(self) -> Failure:
        assert self._process is not None
        try:
            status = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return Failure("crash", "the worker closed its output and went on running")
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return Failure("crash", f"the worker ended with {how}{self._last_words()}")

    def _last_words(self) -> str:
        """The end of what the worker wrote to standard error."""
        if self._errors is None:
            return ""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 600))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {one_line(lines[-1].strip(), 300)}" if lines else ""


class _Hello(msgspec.Struct):
    hello: Hello


class _Version(msgspec.Struct):
    protocol: int


class _Versioned(msgspec.Struct):
    hello: _Version


def _hello(line: bytes) -> Hello:
    """Read a hello; of another version of the protocol only that is read, as the rest may be anything.

    Raises:
        UnreadableError: it is none, or names more or larger things than an engine has.
    """
    protocol = decode_json(line, _Versioned).hello.protocol
    if protocol != PROTOCOL:
        return Hello(protocol, "", "", [])
    hello = decode_json(line, _Hello).hello
    _check_names([hello.engine, hello.version], "engine and version")
    _check_names(hello.levels, "levels")
    _check_names(hello.capabilities, "capabilities")
    for can in hello.capabilities.values():
        for what in (can.operations, can.options, can.tenants, can.visible, *can.visible.values()):
            _check_names(what, "capabilities")
        if max((len(can.block_tokens), can.tokens_per_grow, *can.block_tokens)) > limits.BLOCK_TOKENS:
            raise UnreadableError(f"block_tokens and tokens_per_grow are up to {limits.BLOCK_TOKENS:,}")
    return hello


def _check_names(names: Collection[str], what: str) -> None:
    """Make sure that there are not too many names, and that each is one.

    Raises:
        UnreadableError: there are, or one is not.
    """
    if len(names) > limits.NAMES or any(len(name) > limits.NAME_LETTERS for name in names):
        raise UnreadableError(f"{what} are up to {limits.NAMES:,} names of {limits.NAME_LETTERS} letters")


class _Streamed(msgspec.Struct):
    step: Step
