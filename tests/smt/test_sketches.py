"""A sketch says what a proof needed: it makes the next proof quick, and proves nothing by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvproof.checkers import deciding
from kvproof.checkers.deciding import Deciding
from kvproof.checkers.obligations import COROLLARIES, INITIALLY, problems_of
from kvproof.checkers.prove import How, ProveReport, prove_machines
from kvproof.checkers.sketches import LARGEST, Sketch, SketchError, Sketches, file_for, named, read
from kvproof.checkers.slices import without_lines
from kvproof.checkers.solvers import Question, Way, ask
from kvproof.harness.machines import find_machine
from kvproof.machine import Machine, Model
from kvproof.machine.universe import Unbounded
from tests.app.hostile import refusal, run

MACHINE = """
from tests.smt.test_hints import Doubtful as Base


class Doubtful(Base):
    pass
"""

MENDED = """
from kvproof.machine import action
from tests.smt.test_hints import Doubtful as Base, Thing


class Doubtful(Base):
    @action("H2")
    def let_go(self, t: Thing) -> None:
        self.free[t] = False
"""


@pytest.fixture
def doubtful(tmp_path: Path) -> type[Machine]:
    file = tmp_path / "doubtful.py"
    file.write_text(MACHINE)
    return find_machine(f"{file}:Doubtful")


def proved(machine: type[Machine], *, sketching: bool = False) -> ProveReport:
    (report,) = prove_machines([machine], How(timeout=2.0, sketching=sketching), jobs=1)
    return report


def write(machine: type[Machine], content: object) -> Path:
    file = file_for(machine)
    assert file is not None
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_a_sketch_proves_nothing_that_does_not_follow(doubtful: type[Machine]) -> None:
    said = ["nothing_is_free (1)", "nothing_is_free (1) after", "proved: nothing_is_free", "kept_is_low (1)", "no such"]
    write(doubtful, {"let_go": {"nothing_is_free": [{"needs": said, "way": 5}]}})
    report = proved(doubtful)
    assert {(o.action, o.goal) for o in report.obligations if o.verdict == "refuted"} == {("let_go", "nothing_is_free")}


def test_what_no_longer_follows_from_its_sketch_is_asked_as_if_there_were_none(doubtful: type[Machine]) -> None:
    write(doubtful, {"keep": {"kept_is_low": [{"needs": ["nothing_is_free (1)"]}]}, "gone": {"what": [None]}})
    report = proved(doubtful)
    assert {o.goal for o in report.obligations if o.verdict != "proved"} == {"nothing_is_free"}


@pytest.mark.parametrize(
    "content",
    [
        "not JSON",
        {"keep": {"kept_is_low": [{"needs": ["a"], "way": 99}]}},
        {"keep": {"kept_is_low": [{"needs": "a"}]}},
        {"keep": ["kept_is_low"]},
        "[" * 100_000,
        " " * (LARGEST + 1),
    ],
)
def test_a_file_that_holds_no_sketches_is_told_in_a_sentence(
    doubtful: type[Machine], content: object, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(doubtful, content)
    with pytest.raises(SketchError, match=r"Doubtful\.json .*remove it"):
        Sketches.of(doubtful)
    said = refusal(capsys, "prove", f"{file.parent.parent / 'doubtful.py'}:Doubtful", "--jobs", "1", "--fresh")
    assert "Doubtful.json" in said


@pytest.mark.slow
def test_sketches_are_written_beside_the_machine_and_make_proofs_short(tmp_path: Path) -> None:
    """A copy of a machine with loops and counts: what took several tries is proved at the first."""
    source = "from kvproof.spec.pool.linked_list import LinkedPool\n\n\nclass Copy(LinkedPool):\n    pass\n"
    (tmp_path / "copy_of.py").write_text(source)
    machine = find_machine(f"{tmp_path / 'copy_of.py'}:Copy")
    (report,) = prove_machines([machine], How(sketching=True), jobs=1, only=["finish"])
    assert report.holds
    assert report.sketches["finish"]
    model = Model.of(machine)
    goals = problems_of(model, "finish", Unbounded(model)).goals
    assert {name for name, s in report.sketches["finish"].items() if any(s)} <= {name for name, _ in named(goals)}

    def tries(sketches: Sequence[Sketch | None]) -> int:
        work = Deciding(problems_of(model, "finish", Unbounded(model)), "z3", 10.0, sketches=sketches)
        work.decide()
        assert all(d.is_proved for d in work.decisions)
        return sum(d.tries for d in work.decisions)

    with_them = tries([*Sketches([report.sketches]).at("finish", goals)])
    assert with_them < tries(())


def test_a_sketch_shows_what_it_names_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = find_machine("mirror")
    model = Model.of(machine)
    problems = problems_of(model, "hit", Unbounded(model))
    file = file_for(machine)
    assert file is not None
    sketches = [*Sketches([read(file)]).at("hit", problems.goals)]
    shown: list[int] = []

    def noted(question: Question, way: Way, **more: Any) -> tuple[int, ...] | None:
        shown.append(len(question.known))
        return ask(question, way, **more)

    monkeypatch.setattr(deciding, "ask", noted)
    work = Deciding(problems, "z3", 10.0, sketches=sketches)
    for decision in work.decisions:
        work.follow(decision)
    assert len(shown) > 20, "the walk of a lookup has sketches"
    assert max(shown) < 60
    assert sum(d.is_proved for d in work.decisions) > 0.9 * len(shown)


def test_the_command_writes_and_removes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "doubtful.py"
    file.write_text(MENDED)
    stale = tmp_path / "sketches" / "Doubtful.json"
    stale.parent.mkdir()
    stale.write_text("not JSON")
    status, out, err = run(capsys, "prove", f"{file}:Doubtful", "--jobs", "1", "--sketch")
    assert status == 0, out + err
    assert not stale.exists() or read(stale)


@pytest.mark.parametrize("name", ["keys", "links", "planner", "aligned-split", "groups"])
def test_the_sketches_that_come_along_are_of_what_is_there(name: str) -> None:
    """A rename leaves a sketch behind: `kvproof prove --sketch` writes them anew."""
    machine = find_machine(name)
    file = file_for(machine)
    assert file is not None
    model = Model.of(machine)
    for place, goals in read(file).items():
        assert place in (*model.actions, INITIALLY, COROLLARIES)
        problems = problems_of(model, place, Unbounded(model))
        there = {name for name, _ in named(problems.goals)}
        assert not goals.keys() - there
        labels = {without_lines(fact.label) for goal in problems.goals for fact in goal.context.all_facts()}
        needed = {label for s in goals.values() for sketch in s if sketch is not None for label in sketch.needs}
        assert len(needed - labels) <= 0.1 * len(needed), "the rest are of the ends of queues"
