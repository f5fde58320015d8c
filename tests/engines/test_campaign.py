"""Campaigns: a folder of findings that nothing loses, one finding for each cause, slices that know what was found."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvproof.checkers.trace import read_trace
from kvproof.cli import main as cli
from kvproof.cli import standalone
from kvproof.cli.campaign import running
from kvproof.cli.campaign.causes import causes_of
from kvproof.cli.campaign.hunters import Arm, HunterProcess, Processes
from kvproof.cli.campaign.running import Campaign
from kvproof.cli.campaign.slices import Order, Told
from kvproof.cli.campaign.store import Asked, Sighting, Slice, Store
from kvproof.cli.campaign.summary import summary, write
from kvproof.cli.findings import case_of, violation_of
from kvproof.cli.hunting import Plan, open_target
from kvproof.engines.catalog import ENGINES
from kvproof.engines.collecting import FIRST, Memory
from kvproof.engines.hunt import hunt
from kvproof.engines.known import Known
from kvproof.engines.report import Finding, HuntReport
from kvproof.engines.session import Limits, Session
from kvproof.engines.verdicts import judged_in
from kvproof.errors import UsageError
from kvproof.judge.record import Case

from ..app.test_interruption import left_of
from .installed import engine
from .toys import FAKES, cases, toy

WRONG = f"exec:{sys.executable} {FAKES / 'requests_driver.py'} --engine-fault keep-hash"
RIGHT = f"exec:{sys.executable} {FAKES / 'requests_driver.py'}"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with toy(Limits(start=30, operation=2, answer=10)) as session:
        yield session


def hunted(session: Session, fault: str | None, examples: int = 150, **more: Any) -> HuntReport:
    profiles = {"toy": cases(fault=fault)}
    return hunt(
        judged_in(session), "toy", "toy", profiles, seconds=60, examples=examples, renew=session.renew, **more
    )  # fmt: skip


@pytest.fixture(scope="module")
def found(session: Session) -> list[Finding]:
    """Two causes of the toy's."""
    findings = [hunted(session, fault).findings[0] for fault in ("P13", "leak")]
    assert [f.violation.rule for f in findings] == ["P13", "P2"]
    return findings


def begun(folder: Path, *targets: str) -> Store:
    return Store.begun(folder, Asked([*targets]))


# The folder


def test_a_cause_that_two_releases_show_is_one(found: list[Finding], tmp_path: Path) -> None:
    store = begun(tmp_path, "toy==1.0", "toy==2.0", "other==1.0")
    key, leak = found
    store.see("b", Sighting("toy==2.0", "toy", "2.0", 7.0, key))
    store.see("a", Sighting("toy==1.0", "toy", "1.0", 9.0, key))
    store.see("c", Sighting("toy==1.0", "toy", "1.0", 8.0, leak))
    store.see("d", Sighting("other==1.0", "other", "1.0", 9.5, key))
    causes = causes_of(Store.of(tmp_path))
    assert [(c.engine, c.finding.violation.rule, sorted(c.seen), c.after) for c in causes] == [
        ("toy", "P13", ["toy==1.0", "toy==2.0"], 7.0),
        ("toy", "P2", ["toy==1.0"], 8.0),
        ("other", "P13", ["other==1.0"], 9.5),
    ]


def test_what_is_known_of_one_release_is_news_of_another(found: list[Finding], tmp_path: Path) -> None:
    store = begun(tmp_path, "toy==1.0", "toy==2.0")
    for version in ("1.0", "2.0"):
        store.see(version, Sighting(f"toy=={version}", "toy", version, 1.0, found[0]))
    (cause,) = causes_of(store, [Known("toy", "P13", "salts are ignored", "https://example.org/1", "<2")])
    assert {name: seen.expected for name, seen in cause.seen.items()} == {
        "toy==1.0": "salts are ignored (https://example.org/1)",
        "toy==2.0": None,
    }
    assert not cause.expected


@pytest.mark.parametrize(("listed", "expected"), [([], None), (["pause"], None), (["pause", "salt"], "it is held (x)")])
def test_a_cause_that_needs_more_in_a_release_is_known_there_by_that(
    listed: list[str], expected: str | None, found: list[Finding], tmp_path: Path
) -> None:
    """And only where all that was seen of it there is listed."""
    leak = replace(found[1], needs=frozenset({"abort"}))
    store = begun(tmp_path, "toy==1.0", "toy==2.0")
    store.see("a", Sighting("toy==1.0", "toy", "1.0", 1.0, leak))
    for more in ("pause", "salt"):
        store.see(more, Sighting("toy==2.0", "toy", "2.0", 1.0, replace(leak, needs=frozenset({"abort", more}))))
    known = [Known("toy", "P2", "it is held", "x", ">=2", needs=["abort", more]) for more in listed]
    (cause,) = causes_of(store, known)
    assert {name: seen.expected for name, seen in cause.seen.items()} == {"toy==1.0": None, "toy==2.0": expected}


def test_what_is_listed_is_known_by_whatever_one_step_breaks_or_named_where_it_needs_less(
    found: list[Finding], tmp_path: Path
) -> None:
    """As in a single hunt: a campaign with a list of its own findings tells no news."""
    leak, key = found[1], found[0].violation
    both = replace(leak, verdict=replace(leak.verdict, also=(key,)))
    more = replace(leak, needs=frozenset({"salt", "abort"}), unfinished=True)
    listed = [
        Known("toy", key.rule, "salts are ignored", "x"),
        Known("toy", leak.violation.rule, "a block is lost", "y", needs=["salt"]),
    ]
    told = []
    for number, finding in enumerate([leak, both, more]):
        store = begun(tmp_path / str(number), "toy==1.0")
        store.see("a", Sighting("toy==1.0", "toy", "1.0", 1.0, finding))
        write(store, summary(store, listed, [], 0), listed)
        told += [cause.seen[0] for cause in summary(store, listed, [], 0).causes]
    assert [(seen.expected, seen.perhaps) for seen in told] == [
        (None, None), ("salts are ignored (x)", None), (None, "a block is lost (y)")
    ]  # fmt: skip
    assert "with less it would be what is listed: a block is lost" in (tmp_path / "2/summary.md").read_text()


def test_the_summary_has_each_cause_with_its_trace(found: list[Finding], tmp_path: Path) -> None:
    store = begun(tmp_path, "toy==1.0")
    store.see("a", Sighting("toy==1.0", "toy", "1.0", 7.0, found[0]))
    told = summary(store, [], [], 0)
    write(store, told, [])
    page, (cause,) = (tmp_path / "summary.md").read_text(), told.causes
    assert "## 1. P13 one key, two contents" in page
    assert "Rule P13: A hash key stands for one content" in page
    assert "device ref" in page
    assert cause.seen[0].script is None
    assert case_of(read_trace(tmp_path / cause.seen[0].trace)) == found[0].case
    assert json.loads((tmp_path / "summary.json").read_text())["causes"][0]["rule"] == "P13"
    assert [gap.part for gap in told.gaps] == ["toy==1.0"], "nothing was hunted here"


@pytest.mark.parametrize("unfinished", [True, False])
def test_the_summary_says_of_what_the_needs_were_not_seen_to_their_end(
    found: list[Finding], tmp_path: Path, unfinished: bool
) -> None:
    store = begun(tmp_path, "toy==1.0")
    needing = replace(found[0], needs=frozenset({"salt"}), unfinished=unfinished)
    store.see("a", Sighting("toy==1.0", "toy", "1.0", 7.0, needing))
    told = summary(store, [], [], 0)
    write(store, told, [])
    assert told.causes[0].unfinished == unfinished
    assert ("It needs: salt (perhaps less)" in (tmp_path / "summary.md").read_text()) == unfinished


def test_a_folder_is_one_campaigns_and_whole(found: list[Finding], tmp_path: Path) -> None:
    store = begun(tmp_path / "new", "toy==1.0")
    (store.root / "sightings" / ".a.json.x.part").write_text('{"target":')  # Whoever wrote it was ended.
    assert begun(tmp_path / "new", "toy==1.0").sightings() == {}
    with pytest.raises(UsageError, match=r"is a campaign of toy==1\.0"):
        begun(tmp_path / "new", "toy==2.0")
    with pytest.raises(UsageError, match="holds something else"):
        begun(tmp_path, "toy==1.0")
    with pytest.raises(UsageError, match="holds no campaign"):
        Store.of(tmp_path)
    with store.alone(), pytest.raises(UsageError, match="another kvproof hunt"), Store(store.root).alone():
        pass
    (store.root / "slices" / "a.json").write_text("[]")
    with pytest.raises(UsageError, match="no file of a campaign"):
        store.slices()


# What a slice takes along


def test_what_was_found_before_is_not_told_again(session: Session, found: list[Finding]) -> None:
    told: list[Finding] = []
    before = [found[0]]

    def share(news: list[Finding]) -> list[Finding]:
        told.extend(news)
        heard, before[:] = before[:], []
        return heard

    hunted(session, "P13", share=share)
    assert "P13" not in {finding.violation.rule for finding in told}
    hunted(session, "P13", share=share)
    assert "P13" in {finding.violation.rule for finding in told}, "a hunt that does not hear of it tells it"


def test_what_another_release_showed_is_tried_first(session: Session, found: list[Finding]) -> None:
    memory = Memory(first=[found[1].case])
    (finding,) = hunted(session, None, 3, memory=memory).findings
    assert (finding.violation.rule, finding.profile) == ("P2", FIRST)
    assert hunted(session, None, 3, memory=Memory()).findings == [], "without that there is nothing"


def test_a_hunt_brings_what_no_other_one_saw(session: Session) -> None:
    first = Memory()
    hunted(session, None, memory=first)
    again = Memory(set(first.behaviours))
    hunted(session, None, memory=again)
    assert first.behaviours <= again.behaviours
    assert first.brought > 20
    assert again.brought < first.brought / 2


# Processes


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_SHORTEST", 3.0), ("_LONGEST", 3.0), ("_LEAST", 1.0)):
        monkeypatch.setattr(running, name, value)


def test_the_next_slice_goes_to_what_brought_most_before(tmp_path: Path) -> None:
    store = begun(tmp_path, WRONG, RIGHT)
    for number in range(6):
        for target, brought in ((WRONG, 400.0), (RIGHT, 2.0)):
            store.finish(f"{number}-{brought}", Slice(target, ("requests",), 60.0, 60.0, brought, []))
    plans = [Plan(open_target(target), target, ("requests",), 0, 9999.0) for target in (RIGHT, WRONG)]
    campaign = Campaign(store, plans, 9999.0, Processes(1))
    assert campaign.elapsed >= 720
    arms = dict.fromkeys(campaign._plans, 0)
    for _ in range(50):
        arms[campaign._schedule.next(arms)] += 1
    assert arms[WRONG, ("requests",)] > 40


@dataclass
class Doomed:
    """A hunter that ends without a word."""

    arm: Arm
    is_alive: bool = False
    how_lost: str = "lost"

    def send(self, order: Order) -> None:
        pass

    def told(self) -> list[Told]:
        return []

    def end(self) -> None:
        pass


class Careless(Processes):
    """Loses the first two hunters."""

    def __init__(self) -> None:
        super().__init__(1)
        self.arms: list[Arm] = []

    def new(self, arm: Arm, store: Store) -> Any:
        self.arms.append(arm)
        return Doomed(arm) if len(self.arms) <= 2 else super().new(arm, store)


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_what_is_lost_at_its_first_turn_is_hunted_before_others_go_on(tmp_path: Path) -> None:
    store, hunters = begun(tmp_path, RIGHT, WRONG), Careless()
    plans = [Plan(open_target(target), target, ("requests",), 0, 600.0) for target in (RIGHT, WRONG)]
    with Campaign(store, plans, 600.0, hunters) as campaign:
        while len(store.slices()) < 2:
            campaign.go_on()
    assert [target for target, _ in hunters.arms] == [RIGHT, RIGHT, RIGHT, WRONG]
    assert campaign.lost == 2
    assert not campaign.gaps


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_an_engine_stays_ready_for_the_next_slice_and_its_start_costs_no_time(tmp_path: Path) -> None:
    store = begun(tmp_path, RIGHT)
    hunters: set[int | None] = set()
    plan = Plan(open_target(RIGHT), RIGHT, ("requests",), 0, 600.0)
    with Campaign(store, [plan], 600.0, Processes(1)) as campaign:
        campaign.go_on()
        assert campaign.elapsed == 0, "nothing is hunted yet"
        while len(store.slices()) < 2:
            campaign.go_on()
            hunters |= {cast(HunterProcess, each.hunter).process.pid for each in campaign.running}
        assert campaign.elapsed >= sum(done.seconds for done in store.slices().values()) / 2
    assert len(hunters) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_a_process_that_is_killed_loses_no_finding_and_is_noticed(tmp_path: Path) -> None:
    store = begun(tmp_path, WRONG)
    plan = Plan(open_target(WRONG), WRONG, ("requests",), 0, 600.0)
    with Campaign(store, [plan], 600.0, Processes(1)) as campaign:
        while not (store.sightings() and campaign.running):  # Between two slices nobody hunts.
            campaign.go_on()
        cast(HunterProcess, campaign.running[0].hunter).process.kill()
        until = time.monotonic() + 300
        while not store.slices() and time.monotonic() < until:
            campaign.go_on()
        assert campaign.lost == 1
        assert not campaign.gaps
    assert len(store.slices()) == 1, "it goes on"
    # What came of one that there was no time to finish is told again; on a busy machine it may need more than another.
    found = [sighting.finding for sighting in store.sightings().values()]
    told = [(finding.violation.signature, finding.needs) for finding in found if not finding.was]
    assert len(set(told)) == len(told)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_campaign_goes_on_after_an_interruption(how: signal.Signals, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "kvproof",
        "hunt",
        WRONG,
        RIGHT,
        "--hours",
        "1",
        "--into",
        str(tmp_path / "folder"),
    ]
    with subprocess.Popen(
        command,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        until = time.monotonic() + 300
        while not (seen := [*tmp_path.glob("folder/sightings/*.json")]) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(how)
        process.wait(60)
    until = time.monotonic() + 60
    while left_of(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert left_of(process.pid) == [], "who is not listened to ends"
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    assert seen
    hasty = ["--minutes", "0.1", "--jobs", "1", "--json", "-"]
    done = subprocess.run([*command[:-4], *hasty, *command[-2:]], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert sum(each["slices"] for each in told["targets"]) == 1
    assert {seen["target"] for cause in told["causes"] for seen in cause["seen"]} == {WRONG}
    titles = [cause["title"] for cause in told["causes"]]
    assert len(titles) == len(set(titles))


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_the_command_hunts_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "folder")
    assert cli.run(["hunt", WRONG, RIGHT, "--minutes", "0.1", "--jobs", "2", "--into", folder]) == 1
    said = capsys.readouterr()
    assert "new: P6 content of a cached block" in said.err
    assert cli.run(["hunt", "--report", folder, "--json", "-"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {seen["target"] for cause in told["causes"] for seen in cause["seen"]} == {WRONG}
    assert all(each["slices"] for each in told["targets"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name what is hunted"),
        ([RIGHT], "say how long"),
        ([RIGHT, "--minutes", "1", "--level", "pool"], "no target has a level pool"),
        ([RIGHT, "--report", "x"], "leave the targets out"),
        (["--report", "x"], "holds no campaign"),
    ],
)
def test_what_cannot_be_hunted_is_said_in_a_sentence(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["hunt", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


# Scripts


def ran(script: Path, text: str, python: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
    script.write_text(text)
    return subprocess.run(
        [python, "-P", script], env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True
    )


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine of one level, which is the toy."""
    (tmp_path / "stub_engine.py").write_text('LEVELS = {"toy": _level("stub_level", "ToyLevel")}')
    (tmp_path / "stub_level.py").write_text((FAKES / "fake_engine.py").read_text())
    stub = SimpleNamespace(
        WORKER=tmp_path / "stub_engine.py", DISTRIBUTIONS=("stub",), environment=lambda cache: {"PYTHONHASHSEED": "0"}
    )  # fmt: skip
    monkeypatch.setattr(standalone, "ENGINES", {"stub": stub})


@pytest.mark.usefixtures("stub")
def test_a_script_says_whether_the_fault_shows(found: list[Finding], tmp_path: Path) -> None:
    text = standalone.script("a finding", "stub==1", ("stub", "1"), found[0].case, found[0].verdict)
    assert "import kvproof" not in text
    (tmp_path / "elsewhere").mkdir()
    script = tmp_path / "elsewhere" / "script.py"
    shown = ran(script, text, sys.executable)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (1, f"The fault shows: {found[0].violation.text}")
    mended = ran(script, text.replace("'fault': 'P13'", "'fault': None"), sys.executable)
    assert (mended.returncode, mended.stdout.splitlines()[-1]) == (
        0,
        "The engine did not do what stub==1 was seen to do.",
    )


@pytest.mark.usefixtures("stub")
def test_a_script_holds_what_was_asked_and_seen_as_literals_only(found: list[Finding]) -> None:
    hostile, kept = 3 * "'" + 3 * '"' + "\\\rimport evil\nimport evil", found[0]
    case = Case("toy", {hostile: hostile}, [(hostile, {hostile: hostile}), *kept.case.ops])
    seen = replace(kept.verdict, violation=replace(kept.violation, text=hostile))
    text = ast.parse(standalone.script(hostile, hostile, ("stub", hostile), case, seen))
    assigned = {
        target.id: statement.value
        for statement in text.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    assert ast.literal_eval(assigned["SETUP"]) == case.setup
    assert ast.literal_eval(assigned["OPERATIONS"])[0] == case.ops[0]
    assert ast.literal_eval(assigned["WRONG"]) == hostile
    imported = {name.name for each in ast.walk(text) if isinstance(each, ast.Import) for name in each.names}
    assert "tempfile" in imported
    assert "evil" not in imported


@pytest.mark.parametrize("name", ["vllm", "transformers", "sglang", "lmcache"])
def test_every_level_that_is_driven_has_a_script(name: str) -> None:
    assert [level for level in ENGINES[name].LEVELS if not standalone.can_be(name, level)] == []


FINDINGS = Path(__file__).parents[2] / "docs" / "findings"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "release", "trace"),
    [
        ("vllm", "0.33.0", "eagle-drop-counted-twice"),
        ("sglang", "0.5.23", "cached-up-to-the-branch"),  # a state with a tree
        ("lmcache", "0.5.6", "unpinned-by-key"),
    ],
)
def test_a_script_of_a_trace_shows_the_fault_in_the_engines_own_interpreter(
    name: str, release: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build, script = engine(release, name), tmp_path / "script.py"
    path = FINDINGS / f"{trace}.jsonl"
    assert cli.run(["replay", str(path), "--target", build.label, "--script", str(script)]) == 1
    assert f"own interpreter: {script}" in capsys.readouterr().out
    done = ran(script, script.read_text(), build.python, PYTHONPATH=os.pathsep.join(map(str, build.path)))
    assert done.returncode == 1, done.stderr
    shown = violation_of(read_trace(path))
    assert shown is not None
    assert f"The fault shows: {shown.text}" in done.stdout


@pytest.mark.slow
def test_a_trace_that_shows_nothing_there_has_no_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build, script = engine("0.33.0"), tmp_path / "script.py"
    to_write = ["--target", build.label, "--script", str(script)]
    assert cli.run(["replay", str(FINDINGS / "results-dropped-by-tokens.jsonl"), *to_write]) == 0
    assert "no script was written" in capsys.readouterr().out
    assert not script.exists()
