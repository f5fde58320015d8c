"""Engines and drivers that ``pytest --kvproof TARGET`` names: a test for each level, which runs ``kvproof fuzz``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..engines.build import StoreError
from ..engines.catalog import ENGINES, levels_of_release
from ..engines.driver.command import Driver, is_driver
from ..engines.driver.requests import LEVEL
from ..engines.store import engine_of, names_release, resolve
from ..errors import ExitStatus
from .ended import heeding, with_found

__all__ = ["LevelItem", "TargetCollector", "levels_of"]

_SECONDS = 60.0


class FoundError(AssertionError):
    """Something was found. The text is what the command said."""


class TargetCollector(pytest.Collector):
    """The tests of an engine, or of a driver of the user's: one for each level."""

    def collect(self) -> Iterator[pytest.Item]:
        """One test for each level.

        Raises:
            pytest.UsageError: there is no such engine.
        """
        self.add_marker("kvproof")
        for level in levels_of(self.name):
            yield LevelItem.from_parent(self, name=level)


def levels_of(target: str) -> tuple[str, ...]:
    """The levels that a target has: of an engine those of the release, where that can be told.

    Raises:
        pytest.UsageError: it names no engine and no driver.
    """
    if is_driver(target):
        return _of_driver(target)
    engine = engine_of(target)
    if engine is None:
        raise pytest.UsageError(
            f"--kvproof {target} names no target; write vllm@PYTHON, vllm==VERSION, exec:COMMAND or python:MODULE:CLASS"
        )
    try:
        version = target.partition("==")[2] if names_release(target) else resolve(target).version
    except StoreError:
        return ENGINES[engine].LEVELS  # The tests say what is wrong with it.
    return levels_of_release(engine, version)


def _of_driver(target: str) -> tuple[str, ...]:
    try:
        Driver.of(target)
    except StoreError as error:
        raise pytest.UsageError(f"--kvproof {target}: {error}") from error
    return (LEVEL,)


_ENDING = 30.0
"""So many seconds a command may take to end, and to say what it found."""


def _done(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; an interruption ends it too, and tells what it found until then."""
    pipe = subprocess.PIPE
    with heeding(), subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            said, errors = process.communicate()
        except KeyboardInterrupt as error:
            process.terminate()
            try:
                said, _ = process.communicate(timeout=_ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                said = ""
            with_found(error, [said] if said.strip() else [])
            raise
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, errors)


class LevelItem(pytest.Item):
    """Whether an engine keeps the rules at one level."""

    def runtest(self) -> None:
        """Run the command; fail with what it found, skip where it judged nothing."""
        assert self.parent is not None
        option = self.config.getoption
        command = [sys.executable, "-m", "kvproof", "fuzz", self.parent.name, "--level", self.name]
        command += ["--time", str(option("--kvproof-time") or _SECONDS), "--seed", str(option("--kvproof-seed"))]
        if option("--kvproof-known"):
            command += ["--known", option("--kvproof-known")]
        done = _done(command, self.config.invocation_params.dir)
        if done.returncode == ExitStatus.REFUTED:
            raise FoundError(done.stdout)
        if done.returncode == ExitStatus.UNDECIDED:
            pytest.skip(done.stdout.strip().splitlines()[-1])
        if done.returncode != ExitStatus.HOLDS:
            pytest.fail(done.stderr.strip() or done.stdout, pytrace=False)
        self.add_report_section("call", "kvproof", done.stdout)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Of what was found, what the command said."""
        return str(excinfo.value) if isinstance(excinfo.value, FoundError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """No file has it."""
        assert self.parent is not None
        return self.path, None, f"{self.parent.name}: {self.name}"
