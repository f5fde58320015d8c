"""The loop of asynchronous managers outlives what is broken off on it, and no task holds up the end of the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kvproof.engines.driver import requests
from kvproof.engines.verdicts import judged_in
from kvproof.engines.worker import serving
from kvproof.judge.record import Case
from kvproof.testing import BlockManager
from kvproof.testing.session import InProcess
from kvproof.testing.subjects import subject_of

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "async-pool"))

import test_async_pool as example  # isort: skip

START = ("start", {"request": "r0", "prompt": [1, 1, 1]})
OPS: list[tuple[str, dict[str, Any]]] = [
    START,
    ("begin", {"op": "start", "request": "r1", "prompt": [1, 1, 1, 2]}),
    ("begin", {"op": "finish", "request": "r0"}),
    ("together", {"order": [0, 1, 0, 1, 1]}),
    ("drain", {}),
]


class _WithTask(example.TestAsyncPool):
    """A task of its own looks now and then, and never ends."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.task: asyncio.Task[None] | None = None

    async def allocate(self, request, tokens):
        self.task = self.task or asyncio.create_task(self.looks())
        return await super().allocate(request, tokens)

    async def looks(self) -> None:
        while True:
            await asyncio.sleep(0.01)


def rule_of(kind: type[BlockManager], *ops: tuple[str, dict[str, Any]]) -> str | None:
    """The rule that a few operations break."""
    judged = judged_in(InProcess(kind, 1.0), subject_of(kind).more_oracles)
    found, _ = judged(Case(requests.LEVEL, {"blocks": 4, "block_tokens": 2}, list(ops)), ())
    return None if found is None else found.violation.rule


def _hangs_at(number: int) -> Callable[[FrameType, str, Any], Any]:
    """What breaks off the call that is under way at a line that is run, as the timer does at any."""
    lines = count()

    def at_line(_frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and next(lines) == number:
            sys.settrace(None)
            serving._broken_off += 1
            raise serving.Hang
        return at_line

    def at_call(frame: FrameType, _event: str, _arg: object) -> Any:
        file = frame.f_code.co_filename
        return at_line if "asyncio" in file or "selectors" in file or file.endswith("turns.py") else None

    return at_call


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("first", range(4))
def test_whatever_a_hang_breaks_off_the_next_manager_is_served(first: int) -> None:
    within = serving._within
    for number in range(first, 3000, 40):
        with pytest.MonkeyPatch.context() as patched:

            def traced(seconds: float, call: Any, *args: Any, at: int = number) -> Any:
                sys.settrace(_hangs_at(at))
                try:
                    return within(seconds, call, *args)
                finally:
                    sys.settrace(None)

            patched.setattr(serving, "_within", traced)
            assert rule_of(_WithTask, *OPS) in ("L2", None), number
        assert rule_of(_WithTask, *OPS) is None, f"behind a hang at line {number}"


def test_a_test_that_is_asynchronous_itself_goes_on_behind_a_manager_that_is() -> None:
    async def test() -> str:
        assert rule_of(_WithTask, *OPS) is None
        await asyncio.sleep(0)
        assert rule_of(_WithTask, *OPS) is None
        async with asyncio.timeout(5):
            return asyncio.current_task().get_name()  # type: ignore[union-attr]

    assert asyncio.run(test()).startswith("Task-")


class _ComputesInACallback(example.TestAsyncPool):
    """What it has put off computes for ever; a loop catches whatever is raised in there."""

    async def free(self, request):
        await super().free(request)
        asyncio.get_running_loop().call_soon(self.computes)

    def computes(self) -> None:
        while True:
            pass


def test_a_callback_that_computes_for_ever_hangs() -> None:
    assert rule_of(_ComputesInACallback, START, ("finish", {"request": "r0"})) == "L2"
    assert rule_of(example.TestAsyncPool, START, ("finish", {"request": "r0"})) is None


STAYS = """
import asyncio
from kvproof.testing import assert_played
from test_async_pool import TestAsyncPool

class Stays(TestAsyncPool):
    async def allocate(self, request, tokens):
        self.task = asyncio.create_task(self.stays())
        return await super().allocate(request, tokens)

    async def stays(self):
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                pass

assert_played(Stays, {"blocks": 4, "block_tokens": 2}, [("start", {"request": "r0", "prompt": [1]})])
print("played")
"""


def test_a_task_that_swallows_that_it_is_cancelled_does_not_hold_up_the_end() -> None:
    folder = str(Path(example.__file__ or "").parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r})\n{STAYS}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("played\n", "")
