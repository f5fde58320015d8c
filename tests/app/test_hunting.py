"""Hunts in several processes: what becomes of those that fail."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvproof.cli import hunting
from kvproof.cli.gaps import Gap
from kvproof.cli.hunting import POOL, Part, Plan, hunt_levels
from kvproof.engines.build import Build
from kvproof.engines.report import HuntReport
from kvproof.errors import UsageError

NOT_DRIVEN = """
from pathlib import Path

from kvproof.cli.hunting import Plan, hunt_levels, levels_of
from kvproof.engines.build import Build
from kvproof.errors import UsageError

if __name__ == "__main__":
    build = Build("vllm", "0.33.0", Path("/bin/false"))
    try:
        hunt_levels(Plan(build, build.label, levels_of(build), 0, 5.0, jobs=2), lambda report: None)
    except UsageError as error:
        print(error)
"""


def test_processes_that_cannot_drive_the_engine_end_in_one_sentence(tmp_path: Path) -> None:
    script = tmp_path / "hunt.py"
    script.write_text(NOT_DRIVEN)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert "vllm==0.33.0 cannot be driven: the worker did not start" in done.stdout


class _Session:
    """Of an engine that nobody starts."""

    def renew(self) -> None:
        """Nothing was changed."""


def test_the_time_of_a_level_that_cannot_be_driven_goes_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(*_: Any) -> Iterator[_Session]:
        yield _Session()

    def refused(*_: Any) -> None:
        raise UsageError("its order of freeing is another one")

    hunted: list[Part] = []

    def hunt_in(_session: _Session, plan: Plan, part: Part, *_: Any) -> list[HuntReport]:
        hunted.append(part)
        return [HuntReport(plan.target, level) for level in part.levels]

    for name, instead in (("opened", opened), ("hunt_beside", refused), ("hunt_in", hunt_in)):
        monkeypatch.setattr(hunting, name, instead)
    build = Build("vllm", "0.33.0", Path("/bin/false"))
    told = hunt_levels(Plan(build, build.label, (POOL, "scheduler"), 0, 100.0, jobs=1), lambda report: None)
    assert [type(each) for each in told] == [Gap, HuntReport]
    assert [part.levels for part in hunted] == [("scheduler",)]
    assert 99.0 < hunted[0].seconds <= 100.0
