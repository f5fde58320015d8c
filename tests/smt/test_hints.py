"""What one proof needed is shown first where the same property is asked again, and is only ever a first try."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kvproof.checkers import deciding
from kvproof.checkers.deciding import TOGETHER, Deciding
from kvproof.checkers.hints import Hints
from kvproof.checkers.obligations import problems_of
from kvproof.checkers.prove import prove
from kvproof.checkers.solvers import Question, Way, ask
from kvproof.machine import Bool, Machine, Map, Model, Sort, action, invariant
from kvproof.machine.universe import Unbounded
from kvproof.spec.pool import Pool


@dataclass
class Asked:
    """How many facts each question of the first two kinds showed, and whether it was proved."""

    again: list[tuple[int, bool]] = field(default_factory=list)
    together: list[tuple[int, bool]] = field(default_factory=list)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()

    def noted(question: Question, way: Way, **more: Any) -> tuple[int, ...] | None:
        core = ask(question, way, **more)
        kinds = {deciding.AGAIN: found.again, TOGETHER.way: found.together}
        kinds.get(way, []).append((len(question.known), core is not None))
        return core

    monkeypatch.setattr(deciding, "ask", noted)
    return found


def decided(machine: type[Machine], place: str, hints: Hints) -> Deciding:
    model = Model.of(machine)
    work = Deciding(problems_of(model, place, Unbounded(model)), "z3", 10.0, hints=hints)
    work.decide()
    return work


def test_a_property_that_was_proved_is_proved_with_what_it_needed(asked: Asked) -> None:
    decided(Pool, "finish", Hints())
    without = len(asked.together)
    hints = Hints()
    decided(Pool, "allocate", hints)
    asked.again.clear()
    asked.together.clear()
    work = decided(Pool, "finish", hints)
    assert all(d.is_proved for d in work.decisions)
    succeeded = [shown for shown, is_proved in asked.again if is_proved]
    assert len(succeeded) > 0.7 * len(asked.again)
    assert len(asked.together) < without
    everything = len(work.slices.known(work.decisions[-1].goal))
    assert max(succeeded) < everything / 2


def test_names_are_of_no_moment() -> None:
    hints = Hints()
    work = decided(Pool, "allocate", hints)
    for decision in work.decisions:
        known = {fact.name for fact in work.slices.known(decision.goal)} | set(work.problems.symbolic.ends)
        assert not {name for name in hints.of([decision.goal]) if name.endswith(" after") or " loop" in name} - known
        assert {fact.name for fact in decision.core or ()} <= hints.of([decision.goal])


class Thing(Sort): ...


class Doubtful(Machine):
    """`kept` follows from `low`; `free` from nothing."""

    low: Map[Bool] = Map(Thing, to=Bool)
    kept: Map[Bool] = Map(Thing, to=Bool)
    free: Map[Bool] = Map(Thing, to=Bool)

    @invariant("H1")
    def kept_is_low(self, t: Thing) -> Bool:
        return ~self.kept[t] | self.low[t]

    @invariant("H2")
    def nothing_is_free(self, t: Thing) -> Bool:
        return ~self.free[t]

    @action("H1")
    def keep(self, t: Thing) -> None:
        self.require(self.low[t])
        self.kept[t] = True

    @action("H2")
    def let_go(self, t: Thing) -> None:
        self.free[t] = self.kept[t]


def test_a_hint_proves_nothing_that_does_not_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    said: set[str] = {"kept_is_low (1)", "nothing_is_free (1)", "type of t", "what no machine says"}
    monkeypatch.setattr(Hints, "of", lambda *_: said)
    report = prove(Doubtful, jobs=1, timeout=2.0)
    assert {(o.action, o.goal) for o in report.obligations if o.verdict == "refuted"} == {("let_go", "nothing_is_free")}
    assert all(o.verdict == "proved" for o in report.obligations if o.goal != "nothing_is_free" or o.action == "keep")


def test_a_hint_that_misleads_costs_no_proof(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> None:
    monkeypatch.setattr(Hints, "of", lambda *_: {"what no machine says"})
    assert all(d.is_proved for d in decided(Pool, "finish", Hints()).decisions)
    assert not all(is_proved for _, is_proved in asked.again)
