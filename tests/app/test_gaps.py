"""A run that judged nothing says so: exit status 3, which part, why, and what to do."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from kvproof.checkers.trace import read_trace, write_trace
from kvproof.cli import gaps
from kvproof.cli import main as cli
from kvproof.cli.engine_replay import Outcome, gaps_of
from kvproof.cli.output import Output
from kvproof.engines.build import Build
from kvproof.engines.report import Finding, HuntReport
from kvproof.errors import ExitStatus
from kvproof.judge.record import Answer, Case
from kvproof.judge.sight import Sight
from kvproof.judge.violation import Verdict, Violation

from .test_workload import make_lines, write_lines

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "tests/engines/fakes/requests_driver.py"
STILL = """
from kvproof.machine import Bool, Int, Machine, Map, Sort, action, invariant


class Thing(Sort):
    '''One of them.'''


class Still(Machine):
    count = Map(Thing, to=Int)

    @action("P1")
    def move(self, t: Thing) -> None:
        self.require(self.count[t] >= 1)
        self.count[t] = self.count[t] - 1

    @invariant("P1")
    def nothing_is_below_nought(self, t: Thing):
        return self.count[t] >= 0


class Bare(Machine):
    on = Map(Thing, to=Bool)

    @action("P1")
    def flip(self, t: Thing) -> None:
        self.on[t] = ~self.on[t]
"""
"""A machine in which nothing is possible, and one that promises nothing."""


def driver(*options: str) -> str:
    return "exec:" + shlex.join([sys.executable, str(FAKE), *options])


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, report and all that was said."""
    status = cli.run([*arguments, "--json", "-"])
    shown = capsys.readouterr()
    return status, json.loads(shown.out), " ".join(shown.err.split())


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (["--fault", "refuses all"], "setups were refused, the last because: not today"),
        (["--fault", "skips all"], "no step was done"),
        (["--fault", "caches nothing"], "asked for what had been computed before, and none found anything"),
    ],
)
def test_a_hunt_that_judged_nothing_is_undecided(
    fault: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report, said = ran(capsys, "fuzz", driver(*fault, "--hides-cached"), "--examples", "40")
    assert (status, report["findings"]) == (3, [])
    (gap,) = report["gaps"]
    assert gap["part"].startswith("level requests")
    assert why in gap["why"]
    assert f"not judged: {gap['part']}: {gap['why']}; {gap['mend']}" in said


def test_a_hunt_that_judged_something_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    status, report, said = ran(capsys, "fuzz", driver(), "--examples", "160")
    assert (status, report["gaps"]) == (0, [])
    assert "what happened" in said
    level = report["levels"][0]
    assert level["activity"]["hits"] > 0
    assert set(level["profiles"]) == {"plain", "again", "tight", "tenants", "uncached", "forks"}
    assert "no case of" not in said, "each family has a turn before any has a second one"
    _, _, said = ran(capsys, "fuzz", driver(), "--examples", "2")
    assert re.search(r"no case of .*uncached.* \([1-5] of 6", said), "families that had no turn are named"


def test_what_broke_a_rule_once_and_not_in_a_fresh_worker_is_told_and_undecided(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, report, said = ran(capsys, "fuzz", driver("--fault", "wears out"), "--examples", "60")
    assert (status, report["findings"]) == (3, [])
    assert report["levels"][0]["not_confirmed"]["L2 crash"] > 0
    assert "a fresh worker did not show it again: L2 crash" in report["gaps"][-1]["why"]
    assert "what: the worker ended with status 1: worn out" in said
    assert "1 start request=r0" in said
    assert "met once, and not when a fresh worker was asked for this case alone" in said


def test_what_is_found_outweighs_what_was_not_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(None)
    gap = gaps.Gap("this", "why", "mend it")
    assert gaps.conclude(output, found=True, gaps=[gap]) == ExitStatus.REFUTED
    assert gaps.conclude(output, found=False, gaps=[gap]) == ExitStatus.UNDECIDED
    assert gaps.conclude(output, found=False, gaps=[], undecided=True) == ExitStatus.UNDECIDED
    assert gaps.conclude(output, found=False, gaps=[]) == ExitStatus.HOLDS
    assert capsys.readouterr().out.count("not judged: this: why; mend it") == 2


def whys(report: HuntReport) -> list[str]:
    return [gap.why for gap in gaps.of_hunt(report)]


def test_each_way_of_judging_nothing_has_its_words() -> None:
    report = HuntReport("x", "manager")
    assert "no case was run" in whys(report)[0]
    report.examples, report.refused, report.refusal = 7, 7, "no such thing"
    assert whys(report) == ["all 7 setups were refused, the last because: no such thing"]
    report.refusal = ""
    assert whys(report) == ["all 7 setups were refused, the last because: it gave no reason"]
    report.refused, report.skipped = 2, 11
    assert whys(report) == ["no step was done in 5 cases: of 11 operations each was skipped"]
    report.steps = 3
    assert "no state was told" in whys(report)[0]
    report.activity.states = 3
    assert whys(report) == []
    report.activity.asked_again = 4
    assert "none found anything" in whys(report)[0]
    report.activity.hits = 1
    assert whys(report) == []
    report.unsorted = 2
    assert whys(report) == ["2 kinds of cases broke a rule, and there was no time to see them again"]
    found = Verdict(Violation("L2", "hang", "..."), 0, Answer(0))
    report.left_over = {"L2 hang": (Case("manager", {}, []), found)}
    assert whys(report) == ["2 kinds of cases broke a rule (L2 hang), and there was no time to see them again"]
    report.unsorted, report.unconfirmed = 0, {"L2 hang": 2}
    assert whys(report) == ["cases broke a rule, and a fresh worker did not show it again: L2 hang (2)"]
    report.unconfirmed = {}
    report.sight = Sight()
    assert "no rule could be judged" in whys(report)[0]
    report.sight.told = {"lookup"}
    assert whys(report) == ["nothing was computed in 3 steps: no effect compute was told"]
    report.sight.told = {"lookup", "compute"}
    assert whys(report) == []


def test_an_engine_that_fails_at_once_was_judged_by_that() -> None:
    case = Case("manager", {}, [])
    found = Verdict(Violation("L2", "exception", "..."), 0, Answer(0))
    report = HuntReport("x", "manager", examples=1, findings=[Finding(found, case, "plain", 0.0, 0)])
    assert whys(report) == []


def test_runs_of_the_reference_implementation_name_what_they_never_did(capsys: pytest.CaptureFixture[str]) -> None:
    status, report, _ = ran(capsys, "fuzz", "refimpl", "--examples", "1", "--steps", "2")
    assert status == 3
    assert report["gaps"][0]["part"] == "level pool"
    assert "never applied: " in report["gaps"][0]["why"]


@pytest.mark.parametrize(
    ("name", "why"), [("Still", "no action is possible in the first state"), ("Bare", "has no property to judge")]
)
def test_an_exploration_that_judged_nothing_is_undecided(
    name: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(STILL)
    params = tmp_path / "params.json"
    params.write_text("{}")
    options = ["--size", "Thing=2", "--params", str(params)]
    status, report, _ = ran(capsys, "explore", f"{tmp_path}/own.py:{name}", *options)
    assert (status, report["violations"]) == (3, [])
    assert why in report["gaps"][0]["why"]


def test_an_exploration_that_was_cut_short_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    status, report, _ = ran(capsys, "explore", "pool", "--max-states", "50")
    assert status == 3
    assert "it stopped after" in report["gaps"][0]["why"]


@pytest.mark.parametrize("tiers", [[], ["--tiers"], ["--host-blocks", "5"]])
def test_a_workload_of_which_nothing_fits_is_undecided(
    tiers: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for line in make_lines(1) if len(line["hash_ids"]) > 1]
    trace = write_lines(tmp_path / "large.jsonl", lines)
    status, report, _ = ran(capsys, "workload", str(trace), "--capacity", "1,200", *tiers)
    assert status == 3
    (gap,) = report["gaps"]
    assert gap["part"].startswith(("capacity 1", "1 slots"))
    status, report, _ = ran(capsys, "workload", str(trace), "--capacity", "200", *tiers)
    assert (status, report["gaps"]) == (0, [])


def test_a_bisection_that_no_release_drives_is_undecided() -> None:
    def outcome(kind: Literal["refused", "idle", "none"]) -> Outcome:
        return Outcome(Build("vllm", "1.0", Path(sys.executable), ()), kind, why="no such option")

    (gap,) = gaps_of([outcome("refused"), outcome("idle")])
    assert gap.why == "no release drove it (vllm==1.0: no such option; vllm==1.0: no such option)"
    assert list(gaps_of([outcome("refused"), outcome("none")])) == []


def test_a_trace_with_nothing_to_do_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tmp_path / "found"
    assert cli.run(["fuzz", driver("--engine-fault", "keep-hash"), "--examples", "40", "--traces", str(found)]) == 1
    trace = read_trace(next(found.iterdir()))
    trace.operations = trace.operations[:0]
    write_trace(tmp_path / "empty.jsonl", trace)
    capsys.readouterr()
    assert cli.run(["replay", str(tmp_path / "empty.jsonl"), "--target", driver()]) == 3
    assert "none of its 0 operations had anything to act on" in " ".join(capsys.readouterr().out.split())
