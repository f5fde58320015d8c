"""A worker: asked for cases in lines of JSON, and replaced when it is gone.

Whatever a worker does, the kit goes on: a crash, a hang, garbage or a flood on its output is an answer too, a
`Failure`. Its process, and what limits that, is a `Program`.
"""

import os
import time
from collections import deque
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

__all__ = ["Asked", "Exchange", "Failure", "Limits", "Run", "Session", "WorkerError"]

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


@dataclass(eq=False)
class Asked:
    """A message that a worker was given. What comes of it is asked of the session (`Session.answer`)."""

    message: dict[str, Any]
    number: int = 0
    """Under which it was said last."""
    seconds: float = 0.0
    """How long its answer may take, once those before it were answered."""
    run: Run | None = None
    """What came of it, once that is known."""


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
    """Whether the worker makes a fresh one of itself when it is asked to, and when the one at work is lost."""
    ahead: int = 0
    """So many messages a worker may be given before it has answered those before them. A user's own driver is given
    none: it may not expect that the next one is there already."""
    starts: int = 0
    """How many workers there were."""
    starting: float = 0.0
    """Seconds that the last start took."""

    said_hello: Any = None
    """The hello of the last worker as it was said, with what the kit does not know."""

    def __post_init__(self) -> None:
        self._program: Program | None = None
        self._hello: Hello | None = None
        self._warm: set[str] = set()
        self._id = 0
        self._open: deque[Asked] = deque()
        """What was said and not answered, in order."""
        # Of a key that stands twice in an answer the last one counts. To look for them would take as long as decoding
        # does, and a state of a large pool is most of what a hunt reads; a hello and `exchange` refuse them.
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
        return Session([str(python), str(WORKER), str(adapter), said], environment, limits, forks=bool(levels), ahead=1)

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
        return self.answer(self.ask(case, snapshots=snapshots, full_at=full_at, keep=keep))

    def ask(self, case: Case, *, snapshots: str = "full", full_at: Sequence[int] = (), keep: bool = False) -> Asked:
        """Give a case to the worker, and wait for nothing. Cases are done in the order in which they are given.

        Raises:
            WorkerError: no worker can be started (any more).
        """
        message: dict[str, Any] = {
            "level": case.level,
            "setup": case.setup,
            "ops": case.ops,
            "snapshots": snapshots,
            "full_at": list(full_at),
        }
        if keep:
            message["keep"] = True
        return self._say(Asked(message))

    def answer(self, asked: Asked) -> Run:
        """Wait for what comes of a case that was given to the worker, and of those before it.

        Raises:
            WorkerError: no worker can be started (any more).
        """
        while asked.run is None:
            self._hear()
        return asked.run

    def more(self, ops: Sequence[tuple[str, dict[str, Any]]], *, snapshots: str = "full") -> Run:
        """Let the worker go on with what it kept.

        Raises:
            WorkerError: no worker can be started (any more).
        """
        return self.answer(self._say(Asked({"more": ops, "snapshots": snapshots})))

    def renew(self) -> None:
        """Let a fresh worker do the next case: one that has done none."""
        self._hear_all()
        if self._program is None:
            return
        if not self.forks or self.exchange({"fresh": True}).failure is not None:
            self.close()

    def exchange(self, message: dict[str, Any]) -> Exchange:
        """Say a message, and return all that is said until its answer; the answer may be anything with its number.

        Raises:
            WorkerError: no worker can be started (any more).
        """
        self._hear_all()
        _ = self.hello
        number = self._next()
        done = Exchange()
        self._send({"id": number, **message})
        try:
            while True:
                line = self._line(self.limits.answer)
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

    @property
    def computed(self) -> float:
        """Seconds that the worker has computed, where the system tells; none before it was started."""
        return 0.0 if self._program is None else self._program.computed

    def _steps_before(self, message: dict[str, Any]) -> list[Step]:
        """The steps that a worker ends before it fails: it is asked again, to say each as soon as it is done."""
        steps: list[Step] = []
        behind, self._open = self._open, deque()
        goes_on = False
        try:
            _ = self.hello
            self._send({**message, "id": self._next(), "stream": True})
            while len(steps) < len(message["ops"]):
                line = self._line(self.limits.answer)
                steps.append(decode_json(line, _Streamed, values=limits.ANSWER_VALUES, once=False).step)
        except Lost as lost:
            goes_on = lost.goes_on
        except (WorkerError, UnreadableError):
            pass
        self._leave(goes_on)
        self._open = behind
        return steps

    def close(self) -> None:
        """End the worker, if there is one. What it was given and has not answered is given to the next one, if anybody
        waits for that."""
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
        began = time.monotonic()
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
        self.starting = time.monotonic() - began
        self._hello = hello
        self.said_hello = decode_json(line, object)
        program.begin_to_watch()
        for asked in self._open:
            self._give(asked)

    def make_room(self) -> None:
        """Wait until the worker may have another message: a while, where it hangs on one.

        Raises:
            WorkerError: no worker can be started (any more).
        """
        while len(self._open) > self.ahead:
            self._hear()

    def _say(self, asked: Asked) -> Asked:
        """Give a message to the worker, as soon as it may have another one."""
        self.make_room()
        _ = self.hello
        self._open.append(asked)
        self._give(asked)
        return asked

    def _give(self, asked: Asked) -> None:
        asked.number = self._next()
        level: str | None = asked.message.get("level")
        cold = level is not None and level not in self._warm
        if level is not None:
            self._warm.add(level)
        asked.seconds = max(self.limits.answer, self.limits.start) if cold else self.limits.answer
        self._send({"id": asked.number, **asked.message})

    def _hear_all(self) -> None:
        while self._open:
            self._hear()

    def _hear(self) -> None:
        """Wait for the oldest answer that is open. A worker that is lost was lost on that one: what comes behind it is
        given to the next worker."""
        _ = self.hello
        asked = self._open[0]
        try:
            asked.run = Run(self._answer(asked))
            self._open.popleft()
        except Lost as lost:
            self._leave(lost.goes_on)
            self._open.popleft()
            answer = Answer(0, steps=self._steps_before(asked.message) if "ops" in asked.message else [])
            asked.run = Run(answer, lost.failure)
            if self._program is not None:
                for behind in self._open:
                    self._give(behind)

    def _leave(self, goes_on: bool) -> None:
        """A worker was lost: speak to the copy that takes its place, if one does; else the next message starts one."""
        if not goes_on or self._program is None:
            self.close()
            return
        self._warm.clear()
        self._send({"again": self._next()})

    def _line(self, seconds: float) -> bytes:
        """Read a line of the worker.

        Raises:
            Lost: as `Program.line`; and where it says that the copy at work was lost.
        """
        line = self._running.line(seconds)
        if line or not self.forks:
            return line
        try:
            lost = decode_json(self._running.line(self.limits.answer), _CopyLost, values=limits.ANSWER_VALUES).lost
        except UnreadableError as error:
            raise Lost(Failure("garbage", f"the worker's answer is none: an empty line, and {error}")) from error
        raise self._running.copy_lost(lost)

    def _answer(self, asked: Asked) -> Answer:
        line = self._line(asked.seconds)
        try:
            check_json(line, values=limits.ANSWER_VALUES, digits=False)
            answer = self._decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Lost(Failure("garbage", f"the worker's answer is none: {error}: {line[:80]!r}")) from error
        if answer.id != asked.number:
            raise Lost(Failure("garbage", f"the worker answered message {answer.id}, not {asked.number}"))
        self._running.watch_memory()
        return answer

    def _next(self) -> int:
        self._id += 1
        return self._id

    def _send(self, message: dict[str, Any]) -> None:
        self._running.send(msgspec.json.encode(message))


class _Streamed(msgspec.Struct):
    step: Step


class _CopyLost(msgspec.Struct):
    """What a worker says, behind an empty line, when a copy of it has ended that was at work."""

    lost: str
