"""The conformance checker: a right driver passes, and each check is seen to fail on one that is wrong in that way."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from kvproof.cli import main as cli
from kvproof.engines.driver import conformance
from kvproof.engines.driver.command import Driver
from kvproof.engines.session import Limits, Session

from ..marks import slow_but
from .toys import FAKES

LIMITS = Limits(start=20, answer=5)
FAKE = (sys.executable, str(FAKES / "requests_driver.py"))

FAULTS = {
    "typo in the hello": "hello",
    "cannot start": "hello",
    "chatters": "quiet",
    "any level": "unknown level",
    "setup raises": "bad setup",
    "ignores options": "unknown option",
    "refuses all": "usual setups",
    "refuses events": "usual setups",
    "short numbers": "message numbers",
    "one step too few": "answers",
    "no groups": "worlds",
    "counts the null block": "worlds",
    "room for three": "worlds",
    "garbage effect": "effects",
    "blocks below 0": "effects",
    "short ref": "states",
    "hides hashes": "visible",
    "tells no request": "story",
    "tells no keys": "story",
    "tells no table": "story",
    "tells no compute": "story",
    "tells no lookup": "story",
    "tells no end": "story",
    "tells no preempted": "story",
    "other prompt": "story",
    "tells no fork": "story",
    "gives nothing to a fork": "story",
    "no booleans": "results",
    "drain says nothing": "results",
    "drains nothing": "rest",
    "never resumes": "every operation",
    "more than it can": "every operation",
    "raises on nobody": "skipping",
    "always full": "snapshots",
    "one digest": "digests",
    "counts messages": "same again",
    "remembers": "fresh process",
    "says its process": "fresh process",
    "begins anew": "keep and more",
    "keeps always": "forgets",
    "keeps after errors": "forgets",
    "no stream": "stream",
    "error is a text": "errors",
    "strict": "unknown fields",
    "no such dialect": "worlds",
    "caches nothing": "hits",
    "no boundary": "events",
    "tells no removed": "events",
}


def checked(*more: str, limits: Limits = LIMITS) -> conformance.ConformanceReport:
    with Session.of(Driver((*FAKE, *more)), limits) as session:
        return conformance.check(session)


def test_a_right_driver_passes() -> None:
    report = checked()
    assert [(o.check.name, o.detail) for o in report.failed] == []
    assert {outcome.verdict for outcome in report.outcomes} == {"passed"}
    assert report.sight.unjudged == {}


OFTEN = {"one step too few", "hides hashes", "tells no request", "raises on nobody", "counts messages", "no boundary"}
"""Some of all kinds; CI takes all."""


@pytest.mark.parametrize("fault", slow_but(FAULTS, OFTEN))
def test_a_check_fails_where_the_driver_is_wrong(fault: str) -> None:
    failed = {outcome.check.name: outcome for outcome in checked("--fault", fault).failed}
    assert FAULTS[fault] in failed
    assert failed[FAULTS[fault]].detail
    assert failed[FAULTS[fault]].check.mend.endswith(".")


def test_every_check_is_seen_to_fail() -> None:
    assert set(FAULTS.values()) == {check.name for check in conformance.CHECKS}


def test_a_driver_of_two_groups_may_have_as_many_blocks_for_each() -> None:
    """A request that needs all blocks must be able to run alone: in one id space it needs them of both groups."""
    assert "worlds" not in [outcome.check.name for outcome in checked("--fault", "two groups").failed]


@pytest.mark.parametrize("fault", ["never hits", "short hits"])
def test_lookups_that_find_less_than_all_that_is_kept_are_noticed(fault: str) -> None:
    failed = {outcome.check.name: outcome.detail for outcome in checked("--engine-fault", fault).failed}
    assert set(failed) == {"hits"}
    assert "all that is kept are 4" in failed["hits"]


def test_a_driver_that_says_that_it_keeps_nothing_is_believed() -> None:
    report = checked("--fault", "says it caches nothing")
    assert {o.check.name: o.verdict for o in report.outcomes}["hits"] == "not applicable"
    assert [o.check.name for o in checked("--fault", "promises nothing").failed] == []


def test_a_driver_that_hangs_is_left_alone_soon() -> None:
    report = checked("--fault", "slow", limits=Limits(start=20, answer=0.5))
    verdicts = [outcome.verdict for outcome in report.outcomes]
    assert verdicts.count("not asked") > 10
    assert report.seconds < 10


def test_the_command_shows_what_fails_and_how_to_mend_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = "exec:" + shlex.join([*FAKE, "--fault", "one digest"])
    path = tmp_path / "report.json"
    assert cli.run(["protocol-check", target, "--json", str(path)]) == 1
    shown = capsys.readouterr().out
    assert "digests: " in shown
    assert "mend: Make the digest from the whole state" in shown
    report = json.loads(path.read_text())
    assert report["failed"] == 1
    assert [c["name"] for c in report["checks"] if c["verdict"] == "failed"] == ["digests"]
    assert all(c["mend"] for c in report["checks"] if c["verdict"] == "failed")


def test_the_command_is_content_with_a_right_driver(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["protocol-check", "exec:" + shlex.join(FAKE)]) == 0
    assert "0 failed" in capsys.readouterr().out


def test_the_command_is_for_drivers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["protocol-check", "refimpl"]) == 2
    assert cli.run(["protocol-check", "exec:" + shlex.join([*FAKE, "--fault", "no json"])]) == 2
    assert "Welcome!" in capsys.readouterr().err
