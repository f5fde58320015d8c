"""What the tests of untrusted input share: hostile samples, written out here and nowhere else, and a guard around
whatever is done with them, so that a check that fails does not take the machine with it."""

import json
import resource
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import Phase, find, settings

from kvproof.cli import main as cli
from kvproof.harness.levels import LEVELS

SECONDS = 120
"""How long a guarded body may take: no measurement, only an end."""

ROOM = 3 * 2**30
"""Bytes by which the process may grow in it."""

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202e\u2066[red]x[/blue][/] :bomb:\u200b\nkvproof: all holds"
"""A title, a cleared screen, colours in one byte, a line begun anew, reversed text, markup, a line of the kit's own."""

POOL_SIZES = {"Block": 3, "Request": 1, "Slot": 1, "Hash": 1, "Content": 1, "Position": 1, "Int": 3}
POOL_PARAMS = {
    "caching": True, "split": True, "null": None, "kv": [[0]], "parent": [None], "prompt": [[0]], "limit": [0],
    "need": [1],
}  # fmt: skip
SETUP = {"setup": {"blocks": 4}, "violation": {"rule": "P6", "oracle": "x", "key": [], "text": "t"}}

Op = Mapping[str, Any] | str


def trace_text(header: Mapping[str, Any] = {}, operations: Sequence[Op] = (), **more: Any) -> str:
    """A trace of machine P, with this in its header, and with these operations: as data, or as text."""
    first = {
        "format": "kvproof-trace",
        "version": 1,
        "subject": "Pool",
        "level": "machine",
        "sizes": POOL_SIZES,
        "dialect": POOL_PARAMS,
        "kit": "0",
    }
    lines = [first | dict(header) | more, *operations, {"end": True, "operations": len(operations)}]
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)


@cache
def an_instance(level: str) -> Any:
    """Some setting of a level, the same one in every run."""
    quick = settings(database=None, max_examples=1, phases=[Phase.generate], derandomize=True)
    return find(LEVELS[level].instances(), lambda _: True, settings=quick)


def admit(r: int = 0) -> dict[str, Any]:
    return {"op": "admit", "args": {"r": r}}


class OutOfTimeError(BaseException):
    """A guarded body took too long."""


@contextmanager
def guarded() -> Iterator[None]:
    """Bound the time and the memory that the body takes."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, end)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, hard))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command, guarded; return status, output and errors, in which nothing may be obeyed by a terminal."""
    with guarded():
        status = cli.run(list(arguments))
    out, err = capsys.readouterr()
    for text in (out, err):
        assert [c for c in text if not c.isprintable() and c not in "\n\t"] == []
    assert "a fault of kvproof" not in err
    assert "Traceback" not in err
    assert "out of memory" not in err
    return status, out, err


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must be refused; return the one sentence."""
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("kvproof: ")
    assert err.count("\n") == 1
    return err
