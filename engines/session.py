"""A worker process: started, spoken to in lines of JSON, limited in time, memory and words, replaced when it is gone.

Whatever a worker does, the kit goes on: a crash, a hang, garbage or a flood on its output is an answer too, a
`Failure`.
"""

import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from .engine import Engine
from .record import PROTOCOL, Answer, Case, Hello, Step
from .store import location

__all__ = ["Failure", "Limits", "Run", "Session", "WorkerError"]

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
    line: int = 256 * 2**20
    """Bytes of an answer."""


@dataclass(frozen=True)
class Failure:
    """How a worker ended instead of answering."""

    kind: str
    """``crash``, ``hang``, ``garbage`` or ``flood``."""
    text: str


@dataclass
class Run:
    """What came of a case."""

    answer: Answer
    failure: Failure | None = None
    """Set when the worker was lost; then the answer has the steps that are known to have ended."""


class _Lost(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@dataclass
class Session:
    """A worker for one engine. Starts when first asked, again after each failure; a context manager that ends it."""

    command: Sequence[str]
    """What starts the worker: ``[PYTHON, WORKER, "vllm"]``, or any program that speaks the protocol."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """All of its environment variables."""
    limits: Limits = field(default_factory=Limits)
    starts: int = 0
    """How many workers there were."""

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._hello: Hello | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._errors: IO[bytes] | None = None
        self._rest = b""
        self._warm: set[str] = set()
        self._id = 0
        self._decode = msgspec.json.Decoder(Answer).decode

    @staticmethod
    def of(engine: Engine, limits: Limits | None = None) -> "Session":
        """A worker for an engine of the store, or of the user's own."""
        limits = limits or Limits()
        said = msgspec.json.encode({"operation": limits.operation, "memory": limits.memory}).decode()
        cache = location() / "work" / f"{engine.name}-{engine.version}"
        environment = engine.environment() | {
            "VLLM_CACHE_ROOT": str(cache),  # What it learns of its models, by release; not in the user's own cache.
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
        }
        return Session([str(engine.python), str(WORKER), engine.name, said], environment, limits)

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

    def _steps_before(self, message: dict[str, Any]) -> list[Step]:
        """The steps that a worker ends before it fails: it is asked again, to say each as soon as it is done."""
        steps: list[Step] = []
        try:
            _ = self.hello
            self._send({**message, "id": self._next(), "stream": True})
            while True:
                line = self._line(time.monotonic() + self.limits.answer)
                steps.append(msgspec.json.decode(line, type=_Streamed).step)
        except (_Lost, WorkerError, msgspec.DecodeError):
            self.close()
        return steps

    def close(self) -> None:
        """End the worker, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
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
        self._folder = tempfile.TemporaryDirectory(prefix="kvproof-worker-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=self._folder.name,
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
            hello = msgspec.json.decode(line, type=_Hello).hello
        except (_Lost, msgspec.DecodeError) as error:
            said = self._last_words()
            self.close()
            raise WorkerError(f"the worker did not start ({error}){said}") from error
        if hello.protocol != PROTOCOL:
            self.close()
            raise WorkerError(f"the worker speaks protocol {hello.protocol}, this kit {PROTOCOL}; update the older one")
        self._hello = hello

    def _ask(self, message: dict[str, Any]) -> Run:
        number = self._next()
        self._send({"id": number, **message})
        limits = self.limits
        level: str | None = message.get("level")
        cold = level is not None and level not in self._warm
        if level is not None:
            self._warm.add(level)
        line = self._line(time.monotonic() + (max(limits.answer, limits.start) if cold else limits.answer))
        try:
            answer = self._decode(line)
        except msgspec.DecodeError as error:
            raise _Lost(Failure("garbage", f"the worker's answer is none: {error}: {line[:80]!r}")) from error
        if answer.id != number:
            raise _Lost(Failure("garbage", f"the worker answered message {answer.id}, not {number}"))
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
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise _Lost(Failure("hang", "the worker has not answered in time"))

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
        return f": {lines[-1].strip()[:300]}" if lines else ""


class _Hello(msgspec.Struct):
    hello: Hello


class _Streamed(msgspec.Struct):
    step: Step
