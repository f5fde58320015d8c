"""Mutants: which mistakes are noticed, which are shown to be none, and that nothing is shown that is not so."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from kvproof.checkers.mutation import running
from kvproof.checkers.mutation.equivalence import Beside
from kvproof.checkers.mutation.followed import Followed
from kvproof.checkers.mutation.judging import Judge
from kvproof.checkers.mutation.mutant import Mutant
from kvproof.checkers.mutation.operators import OPERATORS, is_inherited, mutants_of, refusal
from kvproof.checkers.mutation.record import Judged
from kvproof.checkers.mutation.running import How, judge_mutants
from kvproof.checkers.mutation.starts import Starts
from kvproof.checkers.shown import Start
from kvproof.cli import main as cli
from kvproof.harness.machines import KNOWN, find_machine
from kvproof.harness.scopes import smallest_scope
from kvproof.machine import Machine, Model, Scalar, action, none, optional, when
from kvproof.machine.concrete import Concrete
from kvproof.machine.model import Action
from kvproof.machine.program import Emit, Push, Statement, When
from kvproof.machine.scope import Scope
from kvproof.spec.pool.calls import Calls

from .mutated import Library, Reader
from .random_machines.comparing import compare
from .random_machines.loading import load
from .random_machines.side_by_side import differences, equivalent_mutants, in_scope

FILE = Path(__file__).with_name("mutated.py")

NO_MISTAKES = {
    "borrow: does not ask `holder[b] == none`",
    "give_back: never does what stands under `when(times[b] == 0)`",
    "give_back: `when` `times[b] <= 0` in place of `times[b] == 0`",
    "give_back: forgets `waiting.push_front(b)`",
    "give_back: `spare.push_front(b)` in place of `waiting.push_front(b)`",
    "give_back: `waiting.push_back(b)` in place of `waiting.push_front(b)`",
    "give_back: forgets `borrowed(b, holder[b])`",
    "give_back: reports `borrowed(b, holder[b])` twice",
    "set_aside: `spare.push_front(b)` in place of `spare.push_back(b)`",
    "sort_in: asks `Place.has(n)` in place of `(0 <= n) & Place.has(n)`",
    "sort_in: goes on while `shelf[i] <= 0` in place of `shelf[i] == 0`",
    "sort_in: `shelf[i + 1]` in place of `shelf[i]`",
    "sort_in: never does what stands under `when(shelf[i] < 0)`",
    "sort_in: `when` `shelf[i] <= 0` in place of `shelf[i] < 0`",
    "sort_in: `when` `shelf[i] < 1` in place of `shelf[i] < 0`",
    "sort_in: forgets `closed = True`",
    "sort_in: `closed = False` in place of `closed = True`",
    "forget: does what stands under `when(last[r] != none)` in any case",
    "forget: forgets `closed = False`",
}
"""Under the library's invariants these change nothing: a queue is empty, a branch is never taken, a guard follows."""


@pytest.fixture(scope="module")
def library() -> list[Judged]:
    return judge_mutants([Library], How(jobs=1))


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return list(mutants_of(Model.of(Library)))


def test_what_changes_nothing_is_shown_to_change_nothing(library: list[Judged]) -> None:
    assert {f"{j.action}: {j.what}" for j in library if j.fate == "equivalent"} == NO_MISTAKES


@pytest.mark.slow
def test_what_is_known_of_the_right_action_changes_no_verdict(
    mutants: list[Mutant], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is taken for proved that does not follow in the mutant; and it would be seen if it were."""
    some = [m for m in mutants if m.action.name in ("borrow", "give_back")]
    found = [judge.judge(m).verdict for judge in [Judge(Model.of(Library))] for m in some]
    with monkeypatch.context() as patch:
        patch.setattr(Judge, "followed", lambda _self, _place: None)
        assert [judge.judge(m).verdict for judge in [Judge(Model.of(Library))] for m in some] == found
    assert {"refuted", "equivalent"} <= {*found}
    monkeypatch.setattr(Followed, "cores", lambda _self, _goal: [()])  # whatever is asked follows from nothing
    assert {judge.judge(m).verdict for judge in [Judge(Model.of(Library))] for m in some} <= {"proved", "equivalent"}


def test_what_a_state_refutes_is_refuted_without_it(mutants: list[Mutant], monkeypatch: pytest.MonkeyPatch) -> None:
    """States that bring the right action far are found by themselves, and say nothing else than the solver."""
    model = Model.of(Library)
    starts = Starts(model, "sort_in")
    some = [m for m in mutants if m.action.name == "sort_in" and refusal(m) is None]
    broken = [m for m in some if starts.broken_far_in(m) is not None]
    assert len(broken) >= 5
    assert NO_MISTAKES.isdisjoint(f"{m.action.name}: {m.what}" for m in broken)
    assert all(starts.broken_by(m) is not None for m in broken)
    assert starts.broken_far_in(replace(broken[0], action=model.actions["sort_in"])) is None
    monkeypatch.setattr(Starts, "broken_by", lambda _self, _mutant: None)
    monkeypatch.setattr(Starts, "broken_far_in", lambda _self, _mutant: None)
    assert {Judge(model).judge(m).verdict for m in broken} == {"refuted"}


def test_a_state_that_cannot_be_is_not_kept(mutants: list[Mutant]) -> None:
    """In it an invariant is broken before anything happens, or the right action cannot happen."""
    wrong = next(m for m in mutants if m.what == "forgets `times[b] = times[b] + 1`")
    model, sizes = Model.of(Library), {"Box": 1, "Reader": 1, "Place": 1, "Int": 8}
    right = Concrete(model, Scope(model, sizes))
    before = right.describe(right.initial())
    starts = Starts(model, "borrow")
    starts.keep(Start(sizes, {}, before | {"times": [1]}, (0, 0)))
    starts.keep(Start(sizes, {}, before | {"waiting": []}, (0, 0)))
    assert starts.broken_by(wrong) is None
    starts.keep(Start(sizes, {}, before, (0, 0)))
    assert starts.broken_by(wrong) == "times_are_counted"


def test_a_survivor_comes_with_what_it_does_otherwise(library: list[Judged]) -> None:
    survivors = {f"{j.action}: {j.what}": j.by for j in library if j.fate == "survivor"}
    assert survivors["give_back: `waiting.push_front(b)` in place of `waiting.push_back(b)`"] == (
        "the order in waiting, the end"
    )
    assert survivors["borrow: forgets `lent = lent + 1`"] == "lent, the end"
    assert survivors["borrow: returns `times[b] + 1` in place of `times[b]`"] == "what is computed, the end"
    assert survivors["give_back: reports `returned(b)` twice"] == "what is reported, the end"
    assert survivors["pass_on: `borrowed(b, r)` in place of `borrowed(b, q)`"] == "what is reported, the end"
    assert survivors["set_aside: does not ask `spare.empty()`"] == "when it is possible"
    assert survivors["sort_in: makes `n - 1` in place of `n` rounds"] == "shelf, the end"
    assert all(survivors.values())


def test_what_a_property_forbids_is_noticed_by_a_proof(library: list[Judged]) -> None:
    noticed = {f"{j.action}: {j.what}": j.by for j in library if j.fate == "prove"}
    assert noticed["borrow: forgets `waiting.remove(b)`"].startswith(("who_waits_is_not_lent", "the_first_is_taken"))
    assert noticed["borrow: forgets `times[b] = times[b] + 1`"].startswith("times_are_counted")
    assert {j.fate for j in library} == {"prove", "equivalent", "survivor"}


def test_whatever_is_shown_to_be_the_same_is_the_same_in_the_concrete_interpreter(
    library: list[Judged], mutants: list[Mutant]
) -> None:
    scope = Scope(Model.of(Library), {"Box": 2, "Reader": 2, "Place": 2, "Int": 8})
    fates = dict(zip(mutants, [j.fate for j in library], strict=True))
    differing = {m for m in mutants if fates[m] in ("equivalent", "survivor") and any(in_scope(m, scope, 100))}
    assert {fates[m] for m in differing} == {"survivor"}
    assert len(differing) > len(NO_MISTAKES)


def is_same(beside: Beside, wrong: Action) -> bool:
    same = beside.same(wrong)
    return same is not None and same.at_last()


@pytest.mark.parametrize("wrong", ["events swapped", "an event less", "another queue"])
def test_what_differs_in_one_corner_is_not_shown_to_be_the_same(wrong: str) -> None:
    model = Model.of(Library)
    action = model.actions["give_back"]
    when = next(s for s in action.body if isinstance(s, When))
    push, event, filed = (s for s in when.otherwise if isinstance(s, Push | Emit))
    assert isinstance(push, Push)
    others: dict[str, list[Statement]] = {
        "events swapped": [push, filed, event],
        "an event less": [push, filed],
        "another queue": [replace(push, name="spare"), event, filed],
    }
    body = [replace(s, otherwise=others[wrong]) if s is when else s for s in action.body]
    beside = Beside(model, "give_back")
    assert is_same(beside, replace(action, body=list(action.body)))
    assert not is_same(beside, replace(action, body=body))


class Curious(Library):
    """Looks at the times of the box that stands aside, for nothing; there may be none."""

    @action("B")
    def forget(self) -> None:
        with self.each(Reader) as r, when(self.last[r] != none):
            self.last[r] = none
        with when(self.times[self.spare.head()] < 0):
            self.closed.value = False
        self.closed.value = False


class Careful(Library):
    """Looks first whether there is one."""

    @action("B")
    def forget(self) -> None:
        with self.each(Reader) as r, when(self.last[r] != none):
            self.last[r] = none
        with when(~self.spare.is_empty()), when(self.times[self.spare.head()] < 0):
            self.closed.value = False
        self.closed.value = False


def test_what_reads_something_that_has_no_value_is_not_shown_to_be_the_same() -> None:
    beside = Beside(Model.of(Library), "forget")
    assert is_same(beside, Model.of(Careful).actions["forget"])
    assert not is_same(beside, Model.of(Curious).actions["forget"])


class Desk(Machine):
    """What is written on a desk is wiped off before the next one comes."""

    note = Scalar(to=optional(Reader), scratch=True)
    last = Scalar(to=optional(Reader))

    @action("A")
    def serve(self, r: Reader) -> None:
        """The note says for whom."""
        self.note.value = r
        self.last.value = self.note.value
        self.note.value = none


class Untidy(Desk):
    """Leaves the note."""

    @action("A")
    def serve(self, r: Reader) -> None:
        self.note.value = r
        self.last.value = self.note.value


class Brief(Desk):
    """Needs no note."""

    @action("A")
    def serve(self, r: Reader) -> None:
        self.last.value = r


def test_what_leaves_scratch_as_it_must_not_be_is_not_shown_to_be_the_same() -> None:
    beside = Beside(Model.of(Desk), "serve")
    assert is_same(beside, Model.of(Brief).actions["serve"])
    assert not is_same(beside, Model.of(Untidy).actions["serve"])


def test_every_kind_of_mistake_is_made() -> None:
    made = {m.operator for name in ("pool", "connectors") for m in mutants_of(Model.of(find_machine(name)))}
    assert made == set(OPERATORS)


def test_a_mutant_has_one_name_and_is_another_text(mutants: list[Mutant]) -> None:
    assert len({m.name for m in mutants}) == len(mutants)
    assert all(m.action is not m.original.actions[m.action.name] for m in mutants)
    told = [re.findall("`([^`]*)` in place of `([^`]*)`", m.what) for m in mutants]
    assert not [one for said in told for one, other in said if one == other]


def test_what_the_language_refuses_is_noticed_by_the_reader() -> None:
    found = [refusal(m) for m in mutants_of(Model.of(find_machine("mirror")))]
    assert any(why is not None and "each" in why for why in found)


def test_what_can_says_follows_a_guard_that_is_wrong() -> None:
    model = Model.of(find_machine("pool"))
    wrong = next(m for m in mutants_of(model, ["finish"]) if m.operator == "negate guard")
    name = "somebody_can_always_go_on"
    assert wrong.model.properties[name] is not model.properties[name]
    assert "~running[r]" in repr(wrong.model.properties[name].formula)
    assert wrong.model.properties["holders_can_let_go"] is model.properties["holders_can_let_go"]


def test_a_machine_that_extends_another_leaves_its_mutants_to_it() -> None:
    inherited = [m for m in mutants_of(Model.of(find_machine("statistics"))) if is_inherited(m)]
    own = [m for m in mutants_of(Model.of(find_machine("statistics"))) if not is_inherited(m)]
    assert len(inherited) > 10 * len(own) > 0
    assert {m.line.file.rpartition("/")[2] for m in own} >= {"statistics.py"}


@pytest.mark.parametrize("name", ["pool", "groups"])
def test_a_machine_in_several_files_has_its_mutants_itself(name: str) -> None:
    """A part of a machine's text (`abstract=True`) is none to which they could be left."""
    own = mutants_of(Model.of(find_machine(name)))
    assert own
    assert not [m for m in own if is_inherited(m)]


def test_mutants_that_are_said_alike_at_several_lines_are_told_apart_on_record() -> None:
    mutants = [m for m in mutants_of(Model.of(Calls)) if not is_inherited(m)]
    said = {(m.action.name, m.operator, m.what, m.number) for m in mutants}
    assert len(said) < len(mutants) == len(set(running._keys(mutants, "prove")))


def test_what_is_on_record_is_not_judged_again(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    how = How(sample=4, seed=1, jobs=1, record=record)
    first = judge_mutants([Library], how)
    lines = record.read_text().splitlines()
    for line in map(json.loads, lines):
        kept = line | {"judged": line["judged"] | {"by": "kept"}}
        record.write_text(record.read_text() + json.dumps(kept) + "\n")
    assert len(lines) == len(first) == 4
    assert {j.by for j in judge_mutants([Library], how)} == {"kept"}


def test_the_mutants_of_one_action_are_judged_alone() -> None:
    judged = judge_mutants([Library], How(actions=["give_back"], jobs=1))
    everything = [m for m in mutants_of(Model.of(Library)) if m.action.name == "give_back"]
    assert [(j.action, j.what, j.number) for j in judged] == [("give_back", m.what, m.number) for m in everything]
    assert judged


def test_the_explorer_notices_what_is_not_reached() -> None:
    machine = find_machine("file-store")
    judged = judge_mutants([machine], How("all", sample=12, seed=3, jobs=1, scope=smallest_scope))
    assert {j.fate for j in judged} <= {"prove", "explore", "equivalent", "survivor"}


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_what_is_shown_of_random_machines_holds_where_they_run(seed: int) -> None:
    outcome = compare(seed)
    if outcome.verdict == "proved" and outcome.text is not None:
        machine = load(outcome.text.source, outcome.text.main)
        wrong = [d for m in equivalent_mutants(machine, seed, most=6) for d in differences(m, seed, rounds=4)]
        assert not wrong


@pytest.mark.slow
def test_a_sample_of_all_machines() -> None:
    size = settings().max_examples // 25
    judged = judge_mutants([find_machine(name) for name in KNOWN], How(sample=size, seed=0))
    assert len(judged) == size
    assert sum(j.fate == "prove" for j in judged) >= 0.7 * size


def test_the_command_lists_survivors_and_answers_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    status = cli.run(["mutate", f"{FILE}:Library", "--sample", "6", "--jobs", "1", "--json", str(report)])
    said = json.loads(report.read_text())
    assert said["mutants"] == 6
    assert said["survivors"] == capsys.readouterr().out.count("survives: Library: smt/mutated.py:") > 0
    assert status == 1


def test_what_cannot_be_asked_is_answered_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record.jsonl"
    record.write_text("no record\n")
    asked = {
        ("keys", "--record", str(record)): "is no record of mutants",
        ("refimpl", "pool"): "name it alone",
        ("pool", "--level", "pool"): "--level names levels of refimpl",
        ("refimpl", "--level", "pools"): "refimpl has no level pools",
        ("refimpl", "--action", "hit"): "--action names actions of machines",
        ("pool", "--action", "hot"): "--action hot: no machine here has it; name one of admit",
    }
    for arguments, answer in asked.items():
        assert cli.run(["mutate", *arguments]) == 2
        assert answer in " ".join(capsys.readouterr().err.split())
