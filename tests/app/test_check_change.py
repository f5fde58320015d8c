"""``kvproof check-change``: what a change breaks, what it mends, and what it has nothing to do with."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from kvproof.cli import main as cli
from kvproof.cli.behaviour import Behaviour, parting
from kvproof.cli.changes import Change, Changes, Fate, Side, _once
from kvproof.cli.commands.check_change import _show_behaviour
from kvproof.cli.engine_replay import Outcome
from kvproof.cli.hunting import Plan
from kvproof.cli.output import Output
from kvproof.engines.driver.command import Driver
from kvproof.engines.report import Finding, HuntReport
from kvproof.judge.record import Answer, Case, PoolState, State, Step
from kvproof.judge.violation import Verdict, Violation

from .test_commands import error_of
from .test_pytest_plugin import MINE, suite

HEAD = """

class Deaf(Right):
    "A block that is to be evicted stays cached."

    def evict(self, block):
        pass
"""

ANOTHER_ORDER = """

class Backwards(Pool):
    "What was freed last is taken first."

    def give_back(self, block):
        super().give_back(block)
        if block.number in self.free:
            self.free.move_to_end(block.number, last=False)


class AnyOrder(Right):
    "It promises nothing of where blocks go that were freed."

    dialect = {"keep": "all", "take": "head"}


class Otherwise(AnyOrder):
    kind = Backwards
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


def test_a_fault_that_the_other_side_shows_in_other_cases_may_only_have_moved() -> None:
    moved = change("head", "none")
    report = HuntReport("exec:y", "requests", findings=[moved.finding])
    base = Side("base", moved.side.plan, [report])
    assert Changes(base, moved.side, [moved]).shows_otherwise(moved)
    assert not Changes(base, moved.side, [moved]).shows_otherwise(replace(moved, elsewhere=Outcome(DRIVER, "same")))
    another = change("head", "none", "P7")
    assert not Changes(base, another.side, [another]).shows_otherwise(another)
    assert not Changes(Side("base", base.plan, []), moved.side, [moved]).shows_otherwise(moved)


@pytest.mark.slow
def test_a_change_that_mends_one_thing_and_breaks_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(suite(tmp_path, MINE + HEAD))
    sides = ["--base", "python:test_mine.py:Wrong", "--head", "python:test_mine.py:Deaf"]
    options = ["--examples", "120", "--time", "60", "--traces", "out", "--json", "report.json"]  # Cases, not the clock.
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


def test_where_no_behaviour_was_compared_nothing_is_said_to_be_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    for behaviour, said in ((Behaviour("requests"), "not compared"), (Behaviour("requests", 3), "0 of 3 cases")):
        _show_behaviour(Output(None), behaviour)
        assert said in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_different_and_no_fault_is_told_apart_from_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(suite(tmp_path, MINE + ANOTHER_ORDER))
    right = "python:test_mine.py:AnyOrder"
    for head, different in ((right, False), ("python:test_mine.py:Otherwise", True)):
        options = ["--examples", "60", "--time", "40", "--json", "report.json"]
        assert cli.run(["check-change", "--base", right, "--head", head, *options]) == 0
        shown = capsys.readouterr().out
        report = json.loads(Path("report.json").read_text())
        assert report["changes"] == []
        (behaviour,) = report["behaviour"]
        assert behaviour["cases"] > 10
        assert bool(behaviour["different"]) == different
        assert ("the shortest: setup" in shown) == different


def answer(*results: object, free: list[int] | None = None) -> Answer:
    state = State({"device": PoolState(free=free)})
    return Answer(1, steps=[Step("start", {}, result=result, state=state) for result in results])


def test_sides_part_at_the_first_step_that_both_show_and_that_differs() -> None:
    case = Case("requests", {}, [("start", {}), ("start", {})])
    assert parting(case, answer(1, 2), answer(1, 2)) is None
    assert parting(case, answer(1, 2), answer(1, 2, free=[3])) is None
    found = parting(case, answer(1, 2), answer(1, 3))
    assert found is not None
    assert (found.at, found.what, found.base, found.head) == (1, "result", 2, 3)
    found = parting(case, answer(1, free=[3, 4]), answer(1, free=[4, 3]))
    assert found is not None
    assert (found.at, found.what) == (0, "state.pools.device.free")
