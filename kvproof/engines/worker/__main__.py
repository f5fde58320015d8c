"""The worker: run by the engine's own interpreter, it drives the engine and tells what happened.

``python kvproof/engines/worker ADAPTER [LIMITS]`` reads cases and writes answers, one line of JSON each
(`docs/protocol.md`); the adapter is a file such as ``kvproof/engines/vllm/worker/vllm_engine.py``. It needs the
standard library and the engine, nothing of the kit. What the engine prints goes to standard error.
"""

import gc
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import traceback

try:
    # An engine may bring it; it writes JSON five times as fast.
    from msgspec.json import encode as _encode
except ImportError:

    def _encode(message) -> bytes:
        return json.dumps(message, separators=(",", ":")).encode()


PROTOCOL = 1


class Hang(BaseException):
    """An operation took longer than its limit. No engine's `except Exception` catches it."""


def main() -> None:
    """Answer cases until standard input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    folder, _, file = os.path.abspath(sys.argv[1]).rpartition(os.sep)
    module = file.removesuffix(".py")
    name = module.removesuffix("_engine")
    limits = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    # Its folder must not shadow what the engine imports: all names in it begin with the engine's.
    sys.path.insert(1, folder)
    adapter = importlib.import_module(module)
    hello = {"protocol": PROTOCOL, "engine": name, "version": adapter.version(), "levels": list(adapter.LEVELS)}
    signal.signal(signal.SIGALRM, _hang)
    _limit_memory(limits.get("memory"))
    # What the import made lives for ever: the collector need not walk it again.
    gc.collect()
    gc.freeze()
    _say(replies, {"hello": hello})
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


def answer(adapter, message: dict, setup_seconds: float, seconds: float, done=None, kept=None) -> tuple:
    """Make the setup, or go on with the system that was kept; do the operations, and tell what happened.

    Each step is handed to ``done`` at once, if given. Returned are the answer, and the system if it is to be kept.
    """
    answered: dict = {"steps": []}
    level = kept
    if "more" not in message:
        try:
            level = _within(setup_seconds, adapter.LEVELS[message["level"]], message["setup"])
        except adapter.Refused as error:
            return {"refused": str(error)}, None
        except (Exception, Hang) as error:
            answered["steps"].append({"op": "setup", "args": message["setup"], "error": _told(error)})
            return answered, None
        answered["world"] = level.world
    elif level is None:
        return {"refused": "no system was kept"}, None
    well = _operate(level, message, seconds, answered["steps"], done)
    keep = well and (message.get("keep") or "more" in message)
    return answered, level if keep else None


def _operate(level, message: dict, seconds: float, steps: list[dict], done) -> bool:
    """Do the operations of a message; return whether the engine took all of them."""
    detail, full_at = message.get("snapshots", "full"), set(message.get("full_at", ()))
    for number, (op, args) in enumerate(message["more"] if "more" in message else message["ops"]):
        step: dict = {"op": op, "args": args}
        steps.append(step)
        try:
            outcome = _within(seconds, level.do, op, args)
        except (Exception, Hang) as error:
            step["effects"] = level.take_effects()
            step["error"] = _told(error)
            return False
        if outcome is level.SKIPPED:
            step["skipped"] = True
        else:
            step["result"] = outcome
        step["effects"] = level.take_effects()
        if detail == "full" or number in full_at:
            step["state"] = level.state()
        elif detail == "digest":
            step["digest"] = _digest(level.state())
        if done is not None:
            done(step)
    return True


def _within(seconds: float, call, *arguments):
    """Call, and raise `Hang` in the midst of it when it takes longer."""
    if not seconds:
        return call(*arguments)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _hang(_signal, _frame) -> None:
    raise Hang


def _limit_memory(megabytes: int | None) -> None:
    """Let the process grow by so much beyond what it takes now."""
    if megabytes is None:
        return
    with open("/proc/self/statm", encoding="ascii") as statm:
        now = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + megabytes * 2**20, hard))


def _told(error: BaseException) -> dict:
    """An exception as plain data: its type, its words and the engine's calls that led to it."""
    ours = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (__file__, sys.argv[1]))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not os.path.abspath(f.filename).startswith(ours)]
    where = [[_short(f.filename), f.lineno or 0, f.name] for f in frames]
    return {"type": type(error).__name__, "message": str(error)[:2000], "where": where[-30:]}


def _short(path: str) -> str:
    """A file of the engine by its path within the package."""
    for folder in sorted(sys.path, key=len, reverse=True):
        if folder and path.startswith(folder + os.sep):
            return path[len(folder) + 1 :]
    return path


def _digest(state: dict) -> str:
    return hashlib.blake2b(json.dumps(state, sort_keys=True).encode(), digest_size=8).hexdigest()


def _say(replies, message: dict) -> None:
    replies.write(_encode(message) + b"\n")
    replies.flush()


if __name__ == "__main__":
    main()
