"""The loop of a worker: a message is read, a system made, operated, told of. Every driver in Python uses it.

It needs the standard library alone, since it is run by an engine's interpreter; `kvproof/testing` answers with it too.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import IO, Any, Protocol

try:
    # An engine may bring it; it writes JSON five times as fast.
    from msgspec.json import encode as _encode
except ImportError:

    def _encode(message: Any) -> bytes:  # type: ignore[misc]
        return json.dumps(message, separators=(",", ":")).encode()


__all__ = ["PROTOCOL", "Adapter", "Hang", "System", "answer", "broken_off", "hang", "serve"]

PROTOCOL = 1

Message = dict[str, Any]


class Hang(BaseException):
    """An operation computed or slept longer than its limit. No engine's `except Exception` catches it."""


_GIVEN_UP = ("_pytest", "kvproof")
"""Who raises what ends the run, and no operation: a test that is given up, a search whose time is over."""


def _fails(error: BaseException) -> bool:
    """Whether an operation fails with this; what else there is ends the run, as an interruption does.

    It need be no Exception: a panic of Rust code is none in Python (PyO3), nor is what cancels in several libraries.
    """
    if isinstance(error, Exception | Hang) or _says_that_it_failed(error):
        return True
    kinds = type(error).__mro__  # What pytest raises says of itself that it is Python's own.
    return not isinstance(error, KeyboardInterrupt) and not any(
        kind.__module__.partition(".")[0] in _GIVEN_UP for kind in kinds
    )


def _says_that_it_failed(error: BaseException) -> bool:
    """Whether it came of `pytest.fail` in the operation itself, and not of a timer that gave up the test."""
    calls = (frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__))
    return type(error).__name__ == "Failed" and "pytest_timeout" not in calls


class System(Protocol):
    """One system that is driven (`level.py` has what most of them share)."""

    @property
    def SKIPPED(self) -> object:
        """What `do` returns when there was nothing to do it to."""

    @property
    def world(self) -> dict[str, Any]:
        """What the setup became."""

    def do(self, op: str, args: dict[str, Any]) -> Any:
        """Do an operation."""

    def take_effects(self) -> list[list[Any]]:
        """Return the effects since the last call."""

    def state(self) -> dict[str, Any]:
        """Return the state."""


class Adapter(Protocol):
    """What makes systems. A module is one."""

    @property
    def LEVELS(self) -> Mapping[str, Callable[[dict[str, Any]], System]]:
        """What makes a system of each level from a setup."""

    @property
    def Refused(self) -> type[Exception]:
        """What that raises where it does not take a setup."""

    @property
    def __file__(self) -> str | None:
        """A file in the folder of the driver's own text: calls there are no places in the engine."""

    # It may have ``prepare(level)``, which imports what a level needs.


def serve(imported: Callable[[], tuple[Adapter, dict[str, Any]]], limits: Mapping[str, Any]) -> None:
    """Answer messages until standard input ends; what is printed meanwhile goes to standard error.

    ``imported`` imports the engine, and returns what makes its systems and what its hello says besides. ``limits`` may
    have ``operation``, in seconds, and ``memory``, in megabytes; and ``levels``, which are made ready before the hello.
    Then copies of this process do the work: after a message ``fresh`` the next one does, which has done nothing yet.
    It does too when a copy is lost; this is said, and the next one answers what is said after a message ``again``.
    """
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    adapter, about = imported()
    ready: list[str] = [level for level in limits.get("levels", ()) if level in adapter.LEVELS]
    prepare: Callable[[str], None] = getattr(adapter, "prepare", lambda _level: None)
    for level in ready:
        prepare(level)
    _leave_alone()
    _say(replies, {"hello": {"protocol": PROTOCOL, **about, "levels": list(adapter.LEVELS)}})
    if ready and _stay_fresh(replies):
        _pass_over()
    signal.signal(signal.SIGALRM, hang)
    _limit_memory(limits.get("memory"))
    warm: set[str] = set(ready)
    kept = None
    for line in sys.stdin:
        message = json.loads(line)
        if "fresh" in message:
            _say(replies, {"id": message["id"]})
            os._exit(_FRESH if ready else 0)
        # Whoever makes a level for the first time waits for the engine's modules; the kit watches that.
        seconds = float(limits.get("operation", 0))
        cold = message.get("level") not in warm
        warm.add(message.get("level"))
        done = (lambda step: _say(replies, {"step": step})) if message.get("stream") else None
        answered, kept = answer(adapter, message, 0.0 if cold else seconds, seconds, done, kept)
        _say(replies, {"id": message["id"], **answered})
        if cold:
            _leave_alone()


def _leave_alone() -> None:
    """What an import made lives for ever: the collector need not walk it again."""
    gc.collect()
    gc.freeze()


_FRESH = 75
"""With this status a copy ends that shall be followed by a fresh one."""


def _stay_fresh(replies: IO[bytes]) -> bool:
    """Return in a copy of this process, and in another one whenever a copy asks for that or is lost: what was imported
    is not imported again. End when a copy says that nothing more is asked.

    Returns:
        Whether the copy before was lost, perhaps in the midst of a message.
    """
    lost = None
    while True:
        copy = os.fork()
        if not copy:
            break
        _, status = os.waitpid(copy, 0)
        ended = os.waitstatus_to_exitcode(status)
        if not ended:
            os._exit(0)
        lost = None if ended == _FRESH else f"signal {-ended}" if ended < 0 else f"status {ended}"
    if lost is not None:
        # By the copy: who hears it shall find no less than this process and its copy, and may look for more. The one
        # before may have ended in the midst of a line; and no answer is an empty one.
        replies.write(b"\n")
        _say(replies, {"lost": lost})
    return lost is not None


def _pass_over() -> None:
    """Pass over what a copy that was lost left of what it was given, perhaps a part of a line, up to `again`."""
    for line in sys.stdin:
        if line.startswith('{"again":') and line.endswith("}\n") and line.count("}") == 1:
            return


def _limit_memory(megabytes: int | None) -> None:
    """Let the process grow by so much beyond what it takes now."""
    if megabytes is None:
        return
    with open("/proc/self/statm", encoding="ascii") as statm:
        now = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + megabytes * 2**20, hard))


def _say(replies: IO[bytes], message: dict[str, Any]) -> None:
    """Say something. Where nobody listens any more, nothing more is asked: the process ends, and whoever waits for it.

    Any other end would be one of a copy that was lost, which another one follows, and another one, for ever.
    """
    try:
        replies.write(_encode(message) + b"\n")
        replies.flush()
    except BrokenPipeError:
        os._exit(0)


def answer(
    adapter: Adapter,
    message: Message,
    setup_seconds: float,
    seconds: float,
    done: Callable[[dict[str, Any]], None] | None = None,
    kept: System | None = None,
) -> tuple[dict[str, Any], System | None]:
    """Make the setup, or go on with the system that was kept; do the operations, and tell what happened.

    Each step is handed to ``done`` at once, if given. Returned are the answer, and the system if it is to be kept.
    Where there are limits of time, `hang` must be the handler of SIGALRM.
    """
    with _looking(seconds or setup_seconds):
        return _answered(adapter, message, setup_seconds, seconds, done, kept)


def _answered(
    adapter: Adapter,
    message: Message,
    setup_seconds: float,
    seconds: float,
    done: Callable[[dict[str, Any]], None] | None,
    kept: System | None,
) -> tuple[dict[str, Any], System | None]:
    steps: list[dict[str, Any]] = []
    answered: dict[str, Any] = {"steps": steps}
    system = kept
    if "more" not in message:
        if message["level"] not in adapter.LEVELS:
            return {"refused": f"there is no level {message['level']}"}, None
        try:
            system = _within(setup_seconds, adapter.LEVELS[message["level"]], message["setup"])
        except adapter.Refused as error:
            return {"refused": str(error)}, None
        except BaseException as error:
            if not _fails(error):
                raise
            steps.append({"op": "setup", "args": message["setup"], "error": _told(error, adapter)})
            return answered, None
        assert system is not None
        answered["world"] = system.world
    elif system is None:
        return {"refused": "no system was kept"}, None
    well = _operate(adapter, system, message, seconds, steps, done)
    keep = well and (message.get("keep") or "more" in message)
    return answered, system if keep else None


def _operate(
    adapter: Adapter,
    system: System,
    message: Message,
    seconds: float,
    steps: list[dict[str, Any]],
    done: Callable[[dict[str, Any]], None] | None,
) -> bool:
    """Do the operations of a message; return whether the engine took all of them."""
    detail, full_at = message.get("snapshots", "full"), set(message.get("full_at", ()))
    for number, (op, args) in enumerate(message["more"] if "more" in message else message["ops"]):
        step: dict[str, Any] = {"op": op, "args": args}
        steps.append(step)
        try:
            outcome = _within(seconds, system.do, op, args)
            if outcome is system.SKIPPED:
                step["skipped"] = True
            else:
                step["result"] = outcome
            if detail == "full" or number in full_at:
                step["state"] = _within(seconds, system.state)
            elif detail == "digest":
                step["digest"] = _digest(system.state())
        except BaseException as error:
            if not _fails(error):
                raise
            step["error"] = _told(error, adapter)
        step["effects"] = system.take_effects()
        if done is not None:
            done(step)
        if "error" in step:
            return False
    return True


@contextmanager
def _looking(seconds: float) -> Iterator[None]:
    """Look at what is under way again and again, for `_within`. One timer for all operations of a message: to set one
    for each took as long as many an operation does."""
    if seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds / _LOOKS, seconds / _LOOKS)
    try:
        yield
    finally:
        if seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _within(seconds: float, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call, and raise `Hang` in the midst of it when it takes longer, as `_Watch` judges that.

    Who catches all, as an event loop does around its callbacks, goes on after it; what comes of that is no answer.
    """
    global _watch
    if not seconds:
        return _here(call, *arguments)
    before = _broken_off
    _watch = _Watch(seconds)
    try:
        answer = _here(call, *arguments)
    except Exception:
        if _broken_off == before:
            raise
    finally:
        _watch = None
    if _broken_off != before:
        raise Hang
    return answer


def _here(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call, and go on in this process alone.

    A copy that the call made (`os.fork`) may come back too, as by `sys.exit`: it would do all that is still to be done
    once more, and make copies of its own.
    """
    process = os.getpid()
    try:
        return call(*arguments)
    finally:
        if os.getpid() != process:
            os._exit(_status(sys.exc_info()[1]))


def _status(error: BaseException | None) -> int:
    """What Python ends with, where nobody hears of an exception."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if error is not None:
        traceback.print_exception(error)
    return int(error is not None)


_LOOKS = 4
"""How often an operation is looked at in the time that it may take."""


class _Watch:
    """Judges whether an operation hangs: by what it computes and by how long it sleeps, not by the clock.

    On a busy machine everything takes long: what waits for a processor neither computes nor sleeps.
    """

    def __init__(self, seconds: float) -> None:
        """Watch from now on; so many seconds it may compute, or sleep at one place."""
        self._seconds = seconds
        self._used = time.process_time()
        self._last: tuple[float, float] | None = None
        self._place: tuple[object, ...] = ()
        self._computed = self._slept = 0.0

    def hangs(self, frame: FrameType | None) -> bool:
        """Tell whether it does, at a place."""
        before, self._used = self._used, time.process_time()
        # Not by `time.monotonic`: what is tested may let that stand still.
        now = time.clock_gettime(time.CLOCK_MONOTONIC), _waited()
        used, last = self._used - before, self._last
        place, last_place = tuple((each.f_code, each.f_lasti) for each in _frames(frame)), self._place
        self._last, self._place = now, place
        if any(each.f_code.co_filename.startswith("<frozen importlib") for each in _frames(frame)):
            # What is imported for the first time takes its time once.
            self._computed, self._last = 0.0, None
            return False
        # A look comes late where the whole process, or machine, has stopped, and counts no more than one in time does.
        most = self._seconds / _LOOKS
        self._computed += min(used, most)
        if last is not None and place == last_place:
            elapsed, waited = (new - old for new, old in zip(now, last, strict=True))
            self._slept += min(max(0.0, elapsed - used - waited), most)
        else:
            self._slept = 0.0
        return self._computed >= self._seconds or self._slept >= self._seconds


_watch: _Watch | None = None
"""What is under way; None between operations."""

_broken_off = 0


def broken_off() -> int:
    """How many calls were broken off in this process so far, each in the midst of whatever it did."""
    return _broken_off


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _waited() -> float:
    """For how many seconds this process has waited for a processor, where the system tells."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as told:
            return int(told.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def hang(_signal: int, frame: FrameType | None) -> None:
    """End what hangs."""
    global _broken_off
    if _watch is not None and _watch.hangs(frame):
        _broken_off += 1
        raise Hang


def _told(error: BaseException, adapter: Adapter) -> dict[str, Any]:
    """An exception as plain data: its type, its words and the engine's calls that led to it."""
    ours = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, adapter.__file__) if file)
    calls = traceback.extract_tb(error.__traceback__)
    frames = [call for call in calls if not os.path.abspath(call.filename).startswith(ours)]
    where = [[_short(call.filename), call.lineno or 0, call.name] for call in frames]
    return {"type": type(error).__name__, "message": _text_of(error)[:2000], "where": where[-30:]}


def _short(path: str) -> str:
    """A file of the engine by its path within the package."""
    for folder in sorted(sys.path, key=len, reverse=True):
        if folder and path.startswith(folder + os.sep):
            return path[len(folder) + 1 :]
    return path


def _digest(state: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(state, sort_keys=True).encode(), digest_size=8).hexdigest()


def _text_of(error: BaseException) -> str:
    """What an exception says, as text that can be sent and shown: a class of the engine's may fail at that, too."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception as another:
        return f"(its text cannot be told: {type(another).__name__})"
