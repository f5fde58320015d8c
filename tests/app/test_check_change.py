"""``kvproof check-change``: what a change breaks, what it mends, and what it has nothing to do with."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

import pytest

from kvproof.cli import main as cli
from kvproof.cli.changes import Change, Changes, Fate, Side, _once
from kvproof.cli.engine_replay import Outcome
from kvproof.cli.hunting import Plan
from kvproof.engines.driver.command import Driver
from kvproof.engines.report import Finding
from kvproof.judge.record import Answer, Case
from kvproof.judge.violation import Verdict, Violation

from .test_commands import error_of
from .test_pytest_plugin import MINE, suite

HEAD = """

class Deaf(Right):
    "A block that is to be evicted stays cached."

    def evict(self, block):
        pass
"""

DRIVER = Driver((sys.executable,))
KINDS = Literal["same", "other", "none", "refused", "idle"]


def change(name: Literal["base", "head"], kind: KINDS, rule: str = "P6", expected: str | None = None) -> Change:
    found = Verdict(Violation(rule, "an oracle", "what is wrong"), 0, Answer(0))
    finding = Finding(found, Case("requests", {}, []), "plain", 0.0, 0, expected)
    side = Side(name, Plan(DRIVER, "exec:x", ("requests",), 0, 1.0), [])
    return Change(side, finding, Outcome(DRIVER, kind))


@pytest.mark.parametrize(
    ("name", "kind", "fate"),
    [
        ("head", "none", "broken"),
        ("base", "none", "mended"),
        ("head", "same", "both"),
        ("base", "same", "both"),
        ("head", "other", "unlike"),
        ("base", "other", "unlike"),
        ("head", "refused", "unlike"),
        ("base", "idle", "unlike"),
    ],
)
def test_the_other_side_decides(name: Literal["base", "head"], kind: KINDS, fate: Fate) -> None:
    assert change(name, kind).fate == fate


def test_what_both_do_wrong_is_told_once_and_what_is_known_is_no_news() -> None:
    both = change("head", "same")
    all_of_them = [both, change("head", "none"), change("base", "same"), change("base", "same", "P7")]
    assert [*_once(all_of_them)] == [all_of_them[0], all_of_them[1], all_of_them[3]]
    side = both.side
    assert Changes(side, side, all_of_them).has("broken")
    assert not Changes(side, side, [change("head", "none", expected="known")]).has("broken")


def test_a_change_that_mends_one_thing_and_breaks_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(suite(tmp_path, MINE + HEAD))
    sides = ["--base", "python:test_mine.py:Wrong", "--head", "python:test_mine.py:Deaf"]
    options = ["--examples", "120", "--time", "6", "--traces", "out", "--json", "report.json"]
    assert cli.run(["check-change", *sides, *options]) == 1
    shown = capsys.readouterr().out
    report = json.loads(Path("report.json").read_text())
    fates = {(each["fate"], each["found_on"], each["finding"]["rule"]) for each in report["changes"]}
    assert ("mended", "base", "P14") in fates
    assert ("broken", "head", "P11") in fates
    assert not any(fate == "both" for fate, _, _ in fates)
    assert "base, the same case: nothing is wrong" in shown
    assert report["gaps"] == []
    (trace,) = (str(path) for path in Path("out").glob("head-*-P11-*"))
    assert [cli.run(["replay", trace, "--target", target]) for target in (sides[3], sides[1])] == [1, 0]


def test_sides_that_cannot_be_compared_are_told_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    driver = "exec:./driver"
    two = ["check-change", "--base", driver, "--head", driver]
    assert "name one of requests" in error_of(capsys, *two, "--level", "pool")
    assert "names no engine" in error_of(capsys, "check-change", "--base", driver, "--head", "refimpl")
    assert "--traces" in error_of(capsys, *two, "--traces", "/dev/null/x")
