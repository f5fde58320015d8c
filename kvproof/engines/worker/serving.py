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
import traceback
from collections.abc import Callable, Mapping
from types import FrameType
from typing import IO, Any, Protocol

try:
    # An engine may bring it; it writes JSON five times as fast.
    from msgspec.json import encode as _encode
except ImportError:

    def _encode(message: Any) -> bytes:  # type: ignore[misc]
        return json.dumps(message, separators=(",", ":")).encode()


__all__ = ["PROTOCOL", "Adapter", "Hang", "System", "answer", "hang", "serve"]

PROTOCOL = 1

Message = dict[str, Any]


class Hang(BaseException):
    """An operation took longer than its limit. No engine's `except Exception` catches it."""


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


def serve(imported: Callable[[], tuple[Adapter, dict[str, Any]]], limits: Mapping[str, Any]) -> None:
    """Answer messages until standard input ends; what is printed meanwhile goes to standard error.

    ``imported`` imports the engine, and returns what makes its systems and what its hello says besides. ``limits`` may
    have ``operation``, in seconds, and ``memory``, in megabytes.
    """
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    adapter, about = imported()
    signal.signal(signal.SIGALRM, hang)
    _limit_memory(limits.get("memory"))
    # What the import made lives for ever: the collector need not walk it again.
    gc.collect()
    gc.freeze()
    _say(replies, {"hello": {"protocol": PROTOCOL, **about, "levels": list(adapter.LEVELS)}})
    warm: set[str] = set()
    kept = None
    for line in sys.stdin:
        message = json.loads(line)
        # Whoever makes a level for the first time waits for the engine's modules; the kit watches that.
        seconds = float(limits.get("operation", 0))
        setup_seconds = seconds if message.get("level") in warm else 0.0
        warm.add(message.get("level"))
        done = (lambda step: _say(replies, {"step": step})) if message.get("stream") else None
        answered, kept = answer(adapter, message, setup_seconds, seconds, done, kept)
        _say(replies, {"id": message["id"], **answered})


def _limit_memory(megabytes: int | None) -> None:
    """Let the process grow by so much beyond what it takes now."""
    if megabytes is None:
        return
    with open("/proc/self/statm", encoding="ascii") as statm:
        now = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + megabytes * 2**20, hard))


def _say(replies: IO[bytes], message: dict[str, Any]) -> None:
    replies.write(_encode(message) + b"\n")
    replies.flush()


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
        except (Exception, Hang) as error:
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
        except (Exception, Hang) as error:
            step["error"] = _told(error, adapter)
        step["effects"] = system.take_effects()
        if done is not None:
            done(step)
        if "error" in step:
            return False
    return True


def _within(seconds: float, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call, and raise `Hang` in the midst of it when it takes longer."""
    if not seconds:
        return call(*arguments)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def hang(_signal: int, _frame: FrameType | None) -> None:
    """End what takes too long."""
    raise Hang


def _told(error: BaseException, adapter: Adapter) -> dict[str, Any]:
    """An exception as plain data: its type, its words and the engine's calls that led to it."""
    ours = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, adapter.__file__) if file)
    calls = traceback.extract_tb(error.__traceback__)
    frames = [call for call in calls if not os.path.abspath(call.filename).startswith(ours)]
    where = [[_short(call.filename), call.lineno or 0, call.name] for call in frames]
    return {"type": type(error).__name__, "message": str(error)[:2000], "where": where[-30:]}


def _short(path: str) -> str:
    """A file of the engine by its path within the package."""
    for folder in sorted(sys.path, key=len, reverse=True):
        if folder and path.startswith(folder + os.sep):
            return path[len(folder) + 1 :]
    return path


def _digest(state: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(state, sort_keys=True).encode(), digest_size=8).hexdigest()
