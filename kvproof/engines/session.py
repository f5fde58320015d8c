"""A worker: asked for cases in lines of JSON, and replaced when it is gone.

Whatever a worker does, the kit goes on: a crash, a hang, garbage or a flood on its output is an answer too, a
`Failure`. Its process, and what limits that, is a `Program`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from ..judge.record import PROTOCOL, Answer, Case, Hello, Step
from ..untrusted import limits
from ..untrusted.reading import UnreadableError, check_json, decode_json
from .build import Build
from .catalog import ENGINES
from .driver.command import Driver
from .hello import read_hello
from .program import Failure, Limits, Lost, Program

__all__ = ["Exchange", "Failure", "Limits", "Run", "Session", "WorkerError"]

WORKER = Path(__file__).with_name("worker")
"""The worker for Python engines: a folder that the engine's interpreter runs."""


class WorkerError(Exception):
    """No worker can be had for an engine. One sentence that says why."""


_OF_DRIVERS = Limits(start=60.0, answer=30.0)
"""A program of the user's: nothing large is imported, and nobody but the kit watches its time."""


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
        self._program: Program | None = None
        self._hello: Hello | None = None
        self._warm: set[str] = set()
        self._id = 0
        self._decode = msgspec.json.Decoder(Answer).decode

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
        if self._hello is None or self._program is None:
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
        except Lost as lost:
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
        except Lost as lost:
            self.close()
            return Run(Answer(0), lost.failure)

    def renew(self) -> None:
        """Let a fresh worker do the next case: one that has done none."""
        if self._program is None:
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
                line = self._running.line(self.limits.answer)
                try:
                    said = decode_json(line, object, values=limits.ANSWER_VALUES)
                except UnreadableError as error:
                    raise Lost(Failure("garbage", f"it said {line[:80]!r}, which is no JSON ({error})")) from error
                if isinstance(said, dict) and said.get("id") == message.get("id", number):
                    done.answer = said
                    return done
                if not (isinstance(said, dict) and said.keys() == {"step"}):
                    raise Lost(Failure("garbage", f"it said {line[:80]!r}, which is no answer to message {number}"))
                done.before.append(said["step"])
                if len(done.before) > limits.STREAMED_LINES:
                    raise Lost(Failure("flood", f"it said {limits.STREAMED_LINES:,} steps before an answer"))
        except Lost as lost:
            done.failure = lost.failure
            self.close()
            return done

    def idle(self) -> bytes:
        """What a worker says though nothing was asked: it should be nothing."""
        return b"" if self._program is None else self._program.waiting()

    def _steps_before(self, message: dict[str, Any]) -> list[Step]:
        """The steps that a worker ends before it fails: it is asked again, to say each as soon as it is done."""
        steps: list[Step] = []
        try:
            _ = self.hello
            self._send({**message, "id": self._next(), "stream": True})
            while len(steps) < len(message["ops"]):
                line = self._running.line(self.limits.answer)
                steps.append(decode_json(line, _Streamed, values=limits.ANSWER_VALUES).step)
        except (Lost, WorkerError, UnreadableError):
            pass
        self.close()
        return steps

    def close(self) -> None:
        """End the worker, if there is one."""
        program, self._program = self._program, None
        if program is not None:
            program.end()

    # --------------------------------------------------------------------------------------------------- talking

    @property
    def _running(self) -> Program:
        assert self._program is not None
        return self._program

    def _start(self) -> None:
        self.close()
        try:
            program = Program(self.command, self.environment, self.limits, folder=self.folder, watched=self.watched)
        except OSError as error:
            raise WorkerError(f"{self.command[0]} cannot be run ({error.strerror or error}); name another") from error
        self._program = program
        self.starts += 1
        self._warm.clear()
        try:
            line = program.line(self.limits.start)
        except Lost as error:
            said = "" if error.failure.kind == "crash" else program.last_words()
            self.close()
            what = f"no hello within {self.limits.start:g} s" if error.failure.kind == "hang" else error
            raise WorkerError(f"the worker did not start ({what}){said}; it must say hello at once") from error
        try:
            hello = read_hello(line)
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
        program.begin_to_watch()

    def _ask(self, message: dict[str, Any]) -> Run:
        number = self._next()
        self._send({"id": number, **message})
        own = self.limits
        level: str | None = message.get("level")
        cold = level is not None and level not in self._warm
        if level is not None:
            self._warm.add(level)
        line = self._running.line(max(own.answer, own.start) if cold else own.answer)
        try:
            check_json(line, values=limits.ANSWER_VALUES, digits=False)
            answer = self._decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Lost(Failure("garbage", f"the worker's answer is none: {error}: {line[:80]!r}")) from error
        if answer.id != number:
            raise Lost(Failure("garbage", f"the worker answered message {answer.id}, not {number}"))
        self._running.watch_memory()
        return Run(answer)

    def _next(self) -> int:
        self._id += 1
        return self._id

    def _send(self, message: dict[str, Any]) -> None:
        self._running.send(msgspec.json.encode(message))


class _Streamed(msgspec.Struct):
    step: Step
