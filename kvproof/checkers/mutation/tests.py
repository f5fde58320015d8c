"""The tests of a text as judges of its mutants: those run that come by the wrong line, the quickest first."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from ..processes import forked
from .sources import SourceMutant
from .wrong_text import Lines, Text, Wrong, ends_after, in_child

__all__ = ["Tests", "TestsError", "look_at_tests"]

LOOKING = 3000.0
"""Seconds after which all tests hang."""

STARTING, EACH, TIMES = 30.0, 2.0, 5
"""A test of a mutant hangs after so many seconds of computing (`EACH`), and so many times what it took with the right
text; all of them have so many more to start."""

OPTIONS = ("-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")
"""In one process, in the order of their names, nothing is left behind, and nobody reads what an assertion says."""


_PLACES = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")}
"""Where the packages of others are."""


class TestsError(Exception):
    """Tests cannot judge; the message says why."""

    __test__ = False


@dataclass(frozen=True)
class Tests:
    """The tests in a folder, which all pass with the right text, and the lines of it that each comes by."""

    __test__ = False

    text: Text
    folder: Path
    reached: dict[str, tuple[float, Lines]]
    """By a test's name its seconds and its lines, the quickest first."""
    digest: str
    """Of all that they say."""

    def lines(self) -> Lines:
        """All lines that some test comes by."""
        found: Lines = {}
        for _, lines in self.reached.values():
            _add(lines, found)
        return found

    def noticed_by(self, mutant: SourceMutant) -> str:
        """The first test that fails with the mistake; empty where none does."""
        asked = {name: s for name, (s, lines) in self.reached.items() if mutant.line in lines.get(mutant.file, ())}
        limits = {name: EACH + TIMES * seconds for name, seconds in asked.items()}
        said = in_child(_ask, self.text, mutant, limits, limit=STARTING + sum(limits.values())) if asked else ""
        assert isinstance(said, str)
        return said


def look_at_tests(folder: Path, text: Text, jobs: int = 1) -> Tests:
    """Run all tests in the folder once, with the right text and in so many processes, and see which lines each comes
    by.

    Raises:
        TestsError: there are none, or one fails.
    """
    with forked(jobs) as pool:
        looks = [pool.submit(in_child, _look, text, folder, share, jobs, limit=LOOKING) for share in range(jobs)]
        looked = [look.result() for look in looks]
    found: dict[str, tuple[float, Lines]] = {}
    for part in looked:
        if isinstance(part, str):
            raise TestsError(f"the tests in {folder} cannot judge: {part}")
        reached, of_others = part
        found |= reached
        for name in of_others:
            with suppress(ImportError):
                import_module(name)
    if not found:
        raise TestsError(f"{folder} has no tests that come by {text.package}: --tests names the folder with its tests")
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.read_bytes())
    by_time = dict(sorted(found.items(), key=lambda item: item[1][0]))
    return Tests(text, folder, by_time, digest.hexdigest())


# ------------------------------------------------------------------------------------------------ in a child


def _look(text: Text, folder: Path, share: int, of: int) -> Any:
    """By test, of every so many from one on, its seconds and its lines, and what else they need; or what is wrong with
    them, as they are."""
    _begin(text)
    before = set(sys.modules)
    with text.lines_come_by() as taken:
        looked = _Looked(taken, share, of)
        status = pytest.main([*OPTIONS, str(folder)], plugins=[looked])
    if looked.first or status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return looked.first or f"pytest ends with {int(status)}"
    return looked.found, [name for name in sys.modules if name not in before and _is_of_others(name)]


def _is_of_others(name: str) -> bool:
    """It is a module of an installed package, or of Python itself, which a process can have before it needs it: no text
    that is judged, nor anything that holds on to one."""
    spec = getattr(sys.modules[name], "__spec__", None)
    if spec is None or spec.name != name or spec.origin is None:
        return False
    return any(Path(spec.origin).is_relative_to(place) for place in _PLACES)


def _ask(text: Text, mutant: SourceMutant, limits: dict[str, float]) -> Any:
    """Which of these tests fails first; each has its seconds."""
    _begin(text)
    asked = _Asked(Wrong(mutant, text), limits)
    status = pytest.main([*OPTIONS, "-x", *limits], plugins=[asked])
    read = sys.modules.get(asked.wrong.name)
    if read is None or read.__spec__ is None or read.__spec__.loader is not asked.wrong:
        return RuntimeError(f"the tests read the right text of {mutant.file}")
    return asked.first or ("" if status == pytest.ExitCode.OK else f"pytest ends with {int(status)}")


def _begin(text: Text) -> None:
    """As in CI: what a test draws is the same each time."""
    os.environ["CI"] = "true"
    text.forget()


class _Failing:
    """Remembers what fails first."""

    first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, or what it needs."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file of tests that cannot be read."""
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not self.first:
            self.first = report.nodeid.rpartition("/")[2]


class _Looked(_Failing):
    """Notes what each test takes, and which lines it comes by; with it what its file came by when it was read."""

    def __init__(self, taken: Any, share: int, of: int) -> None:
        self._taken, self._share, self._of = taken, share, of
        self._read: dict[Path, Lines] = {}
        self.found: dict[str, tuple[float, Lines]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The others are for other processes."""
        items[:] = items[self._share :: self._of]

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """A file of tests is read."""
        self._taken()
        result = yield
        _add(self._taken(), self._read.setdefault(collector.path, {}))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """A test, with what it needs."""
        self._taken()
        started = time.process_time()
        result = yield
        lines = self._taken()
        _add(self._read.get(item.path, {}), lines)
        if lines:
            self.found[_named(item)] = time.process_time() - started, lines
        return result


def _add(lines: Lines, to: Lines) -> None:
    """Add these lines to others."""
    for file, numbers in lines.items():
        to.setdefault(file, set()).update(numbers)


def _named(item: pytest.Item) -> str:
    """A test, as pytest finds it from anywhere."""
    return str(item.path) + item.nodeid[len(item.nodeid.split("::", 1)[0]) :]


class _Asked(_Failing):
    """Gives the tests the wrong text, and each its time."""

    def __init__(self, wrong: Wrong, limits: dict[str, float]) -> None:
        self.wrong = wrong
        self._limits = limits

    def pytest_configure(self) -> None:
        """Before pytest's own finder, which reads the modules of a plugin's package, as kvproof is, by itself."""
        sys.meta_path.insert(0, self.wrong)

    def pytest_collection(self) -> None:
        """Behind the tests' own settings: that something fails is enough, and is not made small."""
        settings.register_profile("asked", settings(), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("asked")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """A test; one that hangs ends the process, so that the others' time need not pass too."""
        with ends_after(self._limits[_named(item)]):
            return (yield)
