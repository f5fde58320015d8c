"""The pytest plugin: classes of test modules become tests, and ``--kvproof TARGET`` adds those of an engine.

It is loaded by every pytest where kvproof is installed, so it imports nothing of it before somebody asks for it, and
changes nothing for suites that do not use it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .collecting import ManagerClass

__all__: list[str] = []

MARKER = "kvproof(examples, seconds, seed): a test that kvproof makes; on a class of yours, how long it is fuzzed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("kvproof", "KV-cache block managers (kvproof)")
    group.addoption(
        "--kvproof",
        action="append",
        default=[],
        metavar="TARGET",
        help="Also fuzz an engine, one test for each level: vllm@PYTHON, vllm==VERSION, exec:COMMAND or "
        "python:MODULE:CLASS. May be given several times.",
    )
    group.addoption(
        "--kvproof-time",
        type=float,
        metavar="SECONDS",
        help="For each level of a target (60 by default), and for each BlockManager (10 at most by default).",
    )
    group.addoption("--kvproof-known", metavar="FILE", help="A list of findings of targets that are no news.")
    group.addoption("--kvproof-seed", type=int, default=0, metavar="N", help="Chooses the cases (default: 0).")


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line("markers", MARKER)


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> ManagerClass | list[Any] | None:
    """Collect the managers of a module, as pytest collects `unittest.TestCase`."""
    if not _is_manager(obj):
        return None
    from .collecting import ManagerClass, is_complete

    wanted = not name.startswith("_") and getattr(obj, "__test__", True) and is_complete(obj)
    return ManagerClass.from_parent(collector, name=name, obj=obj) if wanted else []


def _is_manager(obj: object) -> bool:
    """Whether it extends `BlockManager` or `PrefixTree`; where these were never imported, nothing does."""
    testing = sys.modules.get("kvproof.testing")
    return testing is not None and isinstance(obj, type) and issubclass(obj, (testing.BlockManager, testing.PrefixTree))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Add the targets that the command line names to what the session has: counted, selected and run as its files are.

    Raises:
        pytest.UsageError: one of them is no target.
    """
    report = yield
    if isinstance(collector, pytest.Session) and report.passed:
        report.result += _of_targets(collector, collector.config.getoption("--kvproof"))
    return report


def _of_targets(session: pytest.Session, targets: list[str]) -> Iterator[pytest.Collector]:
    if targets:
        from .targets import TargetCollector, levels_of

        for target in dict.fromkeys(targets):
            levels_of(target)  # What names no target is a mistake of usage, and no test that fails.
            yield TargetCollector.from_parent(session, name=target)


@pytest.hookimpl(trylast=True)  # When nothing is caught any more.
def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Let a worker of pytest-xdist tell what it found: nobody asks it for that any more."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        sys.stderr.writelines(f"{note}\n" for note in getattr(excinfo.value, "__notes__", ()))
        sys.stderr.flush()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End with the status that SIGTERM gives, where that ended the run: pytest knows of interruptions alone."""
    ended = sys.modules.get("kvproof.testing.ended")
    if ended is not None and (status := ended.status()) is not None:
        session.exitstatus = status
