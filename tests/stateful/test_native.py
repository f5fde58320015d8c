"""A manager in C++ behind ctypes: it is judged as any other, and a crash of its process is a finding."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kvproof.judge.record import Case
from kvproof.testing import BlockManager, assert_played
from kvproof.testing.fuzzing import fuzz_manager
from kvproof.testing.isolated import Isolated, session_of
from kvproof.testing.session import InProcess

from .pool_faults import EXAMPLE

sys.path.insert(0, str(EXAMPLE.parent / "native-pool"))

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler (c++)")


def native(*options: str) -> type[BlockManager]:
    example = importlib.import_module("test_native")
    return type("Native", (example.TestNative,), {"library": example.built(*options)} if options else {})


@needs_compiler
def test_a_pool_in_another_language_is_judged_alike() -> None:
    fuzzed = fuzz_manager(native(), examples=24, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.activity.hits


@pytest.mark.slow
@needs_compiler
def test_a_crash_is_a_finding_with_its_operations() -> None:
    kind = native("-DNO_ROOM_CHECK")
    fuzzed = fuzz_manager(kind, seconds=60, findings=1)
    (told,) = fuzzed.broken["L2"]
    assert "the process was ended by signal SIGSEGV in allocate (test_native.py:" in told
    assert "<- not answered" in told
    finding = fuzzed.report.findings[0]
    with pytest.raises(AssertionError, match="L2 crash"):
        assert_played(kind, finding.case.setup, finding.case.ops)


@pytest.mark.slow
@needs_compiler
def test_a_planted_fault_is_found() -> None:
    assert "P6" in fuzz_manager(native("-DSTALE_KEY"), seconds=60, findings=1).broken


class _Odd(BlockManager):
    """It ends, or hangs, or says what it should not."""

    isolated = True
    how = "nothing"

    def __init__(self, blocks: int, block_tokens: int) -> None:
        if self.how == "refuses":
            raise KeyError("odd")

    def allocate(self, request: Any, tokens: int) -> list[int]:
        if self.how == "exits":
            os._exit(3)
        if self.how == "hangs":
            sum(itertools.repeat(1))  # In C, where no signal is heard.
        if self.how == "kills":
            ctypes.string_at(0)
        return [*range(tokens)]

    def free(self, request: Any) -> None:
        pass


CASE = Case("requests", {"blocks": 3, "block_tokens": 1}, [("start", {"request": "r0", "prompt": [0]})])


def run(how: str, seconds: float = 5.0) -> Any:
    return Isolated(type("Odd", (_Odd,), {"how": how}), seconds).run(CASE)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [("exits", "crash", "ended by status 3"), ("kills", "crash", "SIGSEGV"), ("hangs", "hang", "hears no signal")],
)
def test_however_a_process_ends_it_is_told(how: str, kind: str, words: str) -> None:
    failure = run(how, 0.2).failure
    assert failure.kind == kind
    assert words in failure.text


def test_a_copy_answers_as_this_process_does() -> None:
    kind = type("Odd", (_Odd,), {})
    assert run("nothing") == InProcess(kind).run(CASE)
    assert run("refuses") == InProcess(type("Odd", (_Odd,), {"how": "refuses"})).run(CASE)
    assert isinstance(session_of(kind), Isolated)


def test_nothing_of_a_case_is_left_behind() -> None:
    files = len([*Path("/proc/self/fd").iterdir()])
    held = threading.Event()
    thread = threading.Thread(target=held.wait)
    thread.start()
    began = time.monotonic()
    for _ in range(10):
        assert run("kills").failure is not None
    assert time.monotonic() - began < 20
    held.set()
    thread.join()
    assert len([*Path("/proc/self/fd").iterdir()]) == files
