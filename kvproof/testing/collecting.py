"""Block managers and prefix trees as pytest sees them: a class of tests, one for each rule that can be judged."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ..errors import UsageError
from .subjects import overrides, subject_of

if TYPE_CHECKING:
    from .fuzzing import Fuzzed

__all__ = ["ManagerClass", "RuleItem", "is_complete"]

_CASES = 10
"""So many cases for each example of Hypothesis' profile: there are about as many families of cases."""


def is_complete(kind: object) -> bool:
    """Whether a class can be driven; one that others extend need not be, as one with abstract methods."""
    if not isinstance(kind, type) or inspect.isabstract(kind):
        return False
    return all(overrides(kind, method) for method in subject_of(kind).needed)


_SETUP = {"setup_method", "teardown_method", "setup_class", "teardown_class"}
"""What pytest calls around the tests of a class of its own."""

_MARKS = {"parametrize"}
"""Marks of a class that say how its tests are called."""


class BrokenError(AssertionError):
    """A rule is broken. The text is its story."""


class ManagerClass(pytest.Class):
    """The tests of one manager. It is fuzzed once, by the first of them that is run."""

    is_told = False
    """Why nothing could be done with it was said."""

    ended: tuple[str, BaseException] | None = None
    """What ended its run before there was anything to tell, and in the test of which rule."""

    def collect(self) -> Iterator[pytest.Item]:
        """One test for each rule.

        Raises:
            pytest.Collector.CollectError: the class has what pytest would run, and nobody would here: that must not be
                lost without a word.
        """
        if lost := [*self._unheeded()]:
            why = "its tests are made by kvproof, once for each rule, with managers that kvproof makes"
            raise self.CollectError(f"{self.name} has {', '.join(lost)}: {why}; put that into a class of its own")
        self.add_marker("kvproof")
        for rule in subject_of(self.obj).rules(self.obj):
            yield RuleItem.from_parent(self, name=rule, callobj=_nothing)

    def _unheeded(self) -> Iterator[str]:
        """What of the class pytest would run, or heed, if it were a class of tests of its own."""
        kind = self.obj  # What is looked up first: pytest reads the marks then.
        yield from (f"the mark {mark.name}" for mark in self.own_markers if mark.name in _MARKS)
        for name in dir(kind):
            value = inspect.getattr_static(kind, name)
            if name in _SETUP or (self.funcnamefilter(name) and inspect.isroutine(value)):
                yield f"{name}()"
            elif type(value).__name__ == "FixtureFunctionDefinition" or hasattr(value, "_pytestfixturefunction"):
                yield f"the fixture {name}"

    @cached_property
    def fuzzed(self) -> Fuzzed:
        """What a run has shown."""
        from .fuzzing import fuzz_manager

        return fuzz_manager(self.obj, **self._asked())

    def _asked(self) -> dict[str, Any]:
        """How long it is fuzzed: as a marker says, or else as the command line, or else as Hypothesis' profile."""
        from hypothesis import settings

        from .fuzzing import SECONDS

        seconds = self.config.getoption("--kvproof-time")
        asked = {
            "examples": _CASES * settings().max_examples if seconds is None else None,
            "seconds": SECONDS if seconds is None else seconds,
            "seed": self.config.getoption("--kvproof-seed"),
        }
        for marker in reversed([*self.iter_markers("kvproof")]):
            if "seconds" in marker.kwargs:
                asked["examples"] = None
            asked |= marker.kwargs
        return asked


def _nothing() -> None:
    """What pytest takes for a test's function, to find the fixtures that it uses: it asks for none by itself."""


class RuleItem(pytest.Function):
    """Whether a manager keeps one rule: its name. Fixtures that the class, or everybody, uses are there meanwhile."""

    parent: ManagerClass

    def runtest(self) -> None:
        """Fail with the stories of what breaks the rule; skip where it could not be judged."""
        fuzzed = self._fuzzed()
        broken = fuzzed.broken
        if self.name in broken:
            raise BrokenError("\n".join(broken[self.name]))
        if broken:
            pytest.skip(f"not judged to the end: first mend what is broken ({', '.join(broken)})")
        if not fuzzed.report.steps:
            self._tell(f"nothing was done with the manager: {fuzzed.report.refusal}")
        if self.name in fuzzed.unjudged:
            pytest.skip(f"not judged: {fuzzed.unjudged[self.name]}")

    def _fuzzed(self) -> Fuzzed:
        """What the run of the manager has shown. One that was given up is not begun again for each of the rules."""
        if self.parent.ended is not None and self.parent.ended[0] != self.name:
            rule, why = self.parent.ended
            if isinstance(why, pytest.skip.Exception):
                raise why
            pytest.skip(f"not judged: the run was ended while it was done for {rule}")
        try:
            return self.parent.fuzzed
        except UsageError as error:
            self._tell(str(error))
        except BaseException as error:
            self.parent.ended = self.name, error
            raise

    def _tell(self, why: str) -> NoReturn:
        """Fail with one sentence, once for all rules: the others wait for what it asks for."""
        if self.parent.is_told:
            pytest.skip("nothing was done with the manager: what failed before says why")
        self.parent.is_told = True
        pytest.fail(why, pytrace=False)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], _style: Any = None) -> Any:
        """Of a broken rule its story alone: the calls of the kit say nothing."""
        return str(excinfo.value) if isinstance(excinfo.value, BrokenError) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the manager stands."""
        path, line, name = self.parent.reportinfo()
        return Path(path), line, f"{name}.{self.name}"
