"""``kvproof leeway``: what a user's machine forgets to promise."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvproof.cli import main as cli
from kvproof.errors import ExitStatus

SHELF = '''
from typing import Self
from kvproof import Bool, Machine, Map, Sort, action, step

class Jar(Sort):
    """A jar."""

class Shelf(Machine):
    """Jars that are opened."""

    open = Map(Jar, to=Bool)
    clean = Map(Jar, to=Bool)

    @action("X")
    def unscrew(self, j: Jar) -> None:
        self.open[j] = True

    @step("X", of="unscrew")
    def it_is_open(self, before: Self, j: Jar, k: Jar) -> Bool:
        """It alone."""
        return self.open[k] == (before.open[k] | (k == j))
'''


@pytest.fixture
def shelf(tmp_path: Path) -> str:
    """A machine that says of an action what it does, and not what it leaves alone."""
    file = tmp_path / "shelf.py"
    file.write_text(SHELF)
    return f"{file}:Shelf"


def looked_at(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = cli.run(["leeway", *arguments, "--jobs", "1", "--json", "-"])
    return status, json.loads(capsys.readouterr().out)


def test_what_nobody_promises_is_shown(shelf: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = looked_at(capsys, shelf)
    assert status == ExitStatus.REFUTED
    (found,) = report["left_open"]
    assert (found["machine"], found["action"], found["name"]) == ("Shelf", "unscrew", "clean")
    assert "may as well be" in found["what"]


def test_what_is_open_on_purpose_is_allowed(shelf: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = looked_at(capsys, shelf, "--allow", "clean")
    assert (status, report["left_open"]) == (ExitStatus.HOLDS, [])


def test_what_is_not_decided_is_no_pass(
    shelf: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import z3

    monkeypatch.setattr(z3.Solver, "check", lambda *_: z3.unknown)
    status, report = looked_at(capsys, shelf)
    assert status == ExitStatus.UNDECIDED
    assert [(o["name"], o["what"]) for o in report["left_open"]] == [("everything", None)]


def test_several_processes_find_the_same(shelf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["leeway", shelf, "--jobs", "2"]) == ExitStatus.REFUTED
    assert "Shelf: unscrew leaves open clean" in capsys.readouterr().out
