"""Exported machines with a fault: Spin and TLC find it too, as near. And what is not covered is refused."""

from __future__ import annotations

import dataclasses
import functools
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from kvproof.checkers.explore import ExploreReport, explore
from kvproof.checkers.export import Refused, Setting, promela, promela_file, tla
from kvproof.checkers.export.bounded import equal
from kvproof.checkers.export.promela_terms import Terms
from kvproof.machine import (
    Bool,
    Int,
    Machine,
    Map,
    Model,
    Param,
    Queue,
    Real,
    Scalar,
    Sort,
    action,
    invariant,
    ite,
    none,
    optional,
    step,
    when,
)
from kvproof.machine import operations as op
from kvproof.machine.mistakes import Line
from kvproof.machine.program import Let
from kvproof.machine.scope import Scope, ScopeError
from kvproof.spec.pool import Pool

from ..machine import gadget
from ..marks import slow_but
from . import parts, pools
from .alloc import AllocBug
from .alloc import scope as alloc_scope
from .outside import Run, needs_spin, needs_tlc, run_spin, run_tlc
from .test_export import known

# ------------------------------------------------------------------------------------- faults


class Forgetful(parts.Rounds):
    """Who settles is not let in, if both have been elsewhere."""

    def settle(self, i: parts.Item, b: parts.Box) -> None:
        self.require(self.home[i] == none)
        self.home[i] = b
        with_others = self.used[i, b] & self.flags[True]
        self.used[i, b] = True
        with when(~with_others):
            self.guests[b].push_front(i)


class Careless(parts.Loops):
    """The head of the queue is looked at whether or not there is one."""

    def fill(self, n: Int) -> None:  # type: ignore[override]
        self.require(self.filled.value + n <= 3)
        with self.loop(n, going=lambda i: self.weight[self.line.head()] + self.load.value < 5 + i):
            i = self.line.head()
            self.line.remove(i)
            self.shelf[self.filled.value] = i
            self.filled.value = self.filled.value + 1


MUTANTS: dict[str, tuple[type[Machine], Scope]] = {
    "an invariant at once": (AllocBug, alloc_scope(AllocBug, 3, 2, 2)),
    "an invariant after some steps": (Forgetful, Scope(Model.of(Forgetful), {"Item": 2, "Box": 2})),
    "a property of steps": (pools.AllocateWithoutRemoving, pools.scope(pools.AllocateWithoutRemoving)),
    "an element that is not there": (pools.RemoveTwice, pools.scope(pools.RemoveTwice)),
    "the head of an empty queue": (Careless, Scope(Model.of(Careless), *parts.SCOPES[parts.Loops])),
    "an invariant at first": (gadget.Gadget, gadget.scope()),
    "a machine that is known to be wrong": known("proposed-planner", "Tokens=4,Chunks=3")(),
}
SOONEST = {"an invariant at once", "the head of an empty queue", "a machine that is known to be wrong"}
LONG = {
    "an eviction that forgets the map": (pools.ForgetKeepsTheMap, pools.scope(pools.ForgetKeepsTheMap)),
    "a release while referenced": (pools.ReleaseWhileReferenced, pools.scope(pools.ReleaseWhileReferenced)),
}


@functools.cache
def explored(name: str) -> ExploreReport:
    """What the explorer finds."""
    return explore(*(MUTANTS | LONG)[name])


def check(name: str, run: Run) -> None:
    """The checker found what the explorer finds, after as many steps."""
    report = explored(name)
    assert report.violations
    assert run.broken is not None
    assert len(run.steps) == min(len(f.trace) for f in report.violations)
    if all(f.kind != "ill-formed" for f in report.violations):
        assert run.broken.split()[-1] in {f.name for f in report.violations}
    else:
        assert any(said in run.broken for said in ("asks for", "an element is", "is written", "gets what"))


@needs_spin
@pytest.mark.parametrize("name", slow_but([*MUTANTS, *LONG], SOONEST))
def test_spin_finds_the_fault_as_near(name: str, tmp_path: Path) -> None:
    run = run_spin(promela(Setting(*(MUTANTS | LONG)[name])), tmp_path, shortest=True)
    check(name, run)
    path = [s.split("(")[0] for s in run.steps]
    assert path[-1:] in [[s.action for s in f.trace][-1:] for f in explored(name).violations]


@needs_tlc
@pytest.mark.parametrize("name", slow_but([*MUTANTS, *LONG], {"the head of an empty queue"}, LONG))
def test_tlc_finds_the_fault_as_near(name: str, tmp_path: Path) -> None:
    run = run_tlc(tla(Setting(*(MUTANTS | LONG)[name])), tmp_path)
    check(name, run)
    assert run.steps[-1:] in [[s.action for s in f.trace][-1:] for f in explored(name).violations]


# ------------------------------------------------------------------------------------- names


class Seq(Sort):
    pass


class Init(Sort):
    pass


class Next(Machine):
    """Everything is called as something is that means something already."""

    _1 = Map(Init, to=Int)
    none = Map(Seq, to=Bool)
    Op = Map(Seq, to=optional(Init))
    Append = Scalar(to=Int)
    int = Queue(Seq, init=True)
    bad = Scalar(to=Int)
    größe = Scalar(to=Int)
    WF_x = Scalar(to=Bool)
    s_int_n = Scalar(to=Bool)
    i_ = Scalar(to=Int, scratch=True)
    t_0 = Scalar(to=Bool)

    @action('P"1 %d */ \\ (* $(false)')
    def init(self, IF: Seq, x: Init, _: Bool) -> None:
        self.require(self.int.is_first(IF))
        self.int.remove(IF)
        self.int.push_back(IF)
        self.i_.value = self.bad.value + 1
        self.bad.value = self.i_.value % 3
        self.i_.value = 0
        self.Op[IF] = x
        self._1[x] = self.größe.value
        self.none[IF] = _
        self.s_int_n.value = ~self.t_0.value
        self.t_0.value = self.WF_x.value

    @action("assert(false)")
    def do(self) -> None:
        self.größe.value = 1 - self.größe.value
        self.WF_x.value = ~self.WF_x.value

    @invariant('"; assert(false) */ %s')
    def Assert(self, d_step: Seq) -> Bool:
        return self.int.has(d_step) & (self.bad.value < 3)

    @step("*)")
    def Next(self, before: Next, self_: Seq) -> Bool:
        return (before.bad.value != self.bad.value) | (before.none[self_] == self.none[self_])


def names() -> Scope:
    return Scope(Model.of(Next), {"Seq": 2, "Init": 1, "Int": 2})


@needs_spin
def test_names_that_mean_something_to_spin(tmp_path: Path) -> None:
    report = explore(Next, names())
    run = run_spin(promela(Setting(Next, names())), tmp_path)
    assert report.violations == []
    assert (run.broken, run.states, run.generated) == (None, report.states, report.generated)


@needs_tlc
@pytest.mark.slow
def test_names_that_mean_something_to_tlc(tmp_path: Path) -> None:
    report = explore(Next, names())
    run = run_tlc(tla(Setting(Next, names())), tmp_path)
    assert (run.broken, run.states, run.generated) == (None, report.states, report.generated)


# ------------------------------------------------------------------------------------- what is not covered


@dataclass(eq=False)
class Strange:
    """A statement that no translation knows."""

    line: Line


def changed(**changes: Any) -> Model:
    """A model with something in it that the language does not have today."""
    return dataclasses.replace(Model.of(parts.Queues), **changes)


ELSEWHERE = Bool(op.Empty("entry:7", "line", ()))
"""A look at a state that is none of a step: no property of a machine can have it today."""


def strange(name: str) -> dict[str, Any]:
    """The properties of the machine, one of them with a look at a state that no translation knows."""
    properties = Model.of(parts.Queues).properties
    return {**properties, name: dataclasses.replace(properties[name], formula=ELSEWHERE)}


def setting(model: Model) -> Setting:
    sizes, params = parts.SCOPES[parts.Queues]
    return Setting(model, Scope(model, dict(sizes), dict(params)))


def test_an_unknown_statement_is_refused() -> None:
    model = Model.of(parts.Queues)
    act = dataclasses.replace(model.actions["leave"], body=[cast(Any, Strange(Line("q.py", 7)))])
    with pytest.raises(Refused, match=r"^leave \(parts.py:\d+\) holds a Strange, which no translation covers yet$"):
        setting(changed(actions={**model.actions, "leave": act}))


def test_an_unknown_state_is_refused_in_an_invariant() -> None:
    with pytest.raises(Refused, match=r"`entry:7.line.empty\(\)` \(parts.py:\d+\) looks at another state, which no"):
        setting(changed(properties=strange("a_ring_has_ends")))


def test_an_unknown_state_is_refused_in_an_action() -> None:
    model = Model.of(parts.Queues)
    let = Let(1, ELSEWHERE, Line("q.py", 7))
    act = dataclasses.replace(model.actions["leave"], body=[let, *model.actions["leave"].body])
    with pytest.raises(Refused, match=r"q.py:7"):
        setting(changed(actions={**model.actions, "leave": act}))


def test_a_property_of_steps_that_is_not_covered_is_left_out_and_said_so() -> None:
    found = setting(changed(properties=strange("who_stays_stays_in_order")))
    assert [p.name for p in found.steps] == ["overtaking_overtakes"]
    for text in (promela(found), tla(found).module):
        assert "Left out: who_stays_stays_in_order (`entry:7.line.empty()`" in text
        assert "Left out: a_ring_is_full (something to be reached" in text
        assert "Checked of every step: overtaking_overtakes\n" in text


class Vague(Machine):
    """What an action returns may be none, or behind the last index, and a property does not say so."""

    home = Map(Seq, to=optional(Init))
    last = Scalar(to=optional(parts.Place))

    @action("1")
    def ask(self, s: Seq) -> Init:
        return self.home[s]

    @action("2")
    def answer(self, s: Seq, i: Init) -> Init:
        self.home[s] = i
        return i

    @action("3")
    def end(self) -> Int:
        return self.last.value

    @step("4", of=("ask", "answer"))
    def it_is_home(self, before: Vague, s: Seq, result: Init) -> Bool:
        return self.home[s] == result

    @step("5", of="answer")
    def it_is_home_now(self, before: Vague, s: Seq, result: Init) -> Bool:
        return self.home[s] == result

    @step("6", of="end")
    def it_is_a_place(self, before: Vague, result: parts.Place) -> Bool:
        return self.last.value == result


def test_a_result_that_may_be_none_is_left_out_and_said_so() -> None:
    found = Setting(Vague, Scope(Model.of(Vague), {"Seq": 1, "Init": 1, "Place": 1}))
    assert [p.name for p in found.steps] == ["it_is_home_now"]
    first, second = found.excuses()
    assert first.startswith("it_is_home (the result (test_export_faults.py:")
    assert first.endswith(") counts as Init, and ask may return what is none of them, which no translation covers)")
    assert second.startswith("it_is_a_place (the result (test_export_faults.py:")


class Wide(Machine):
    """Numbers that grow."""

    base = Param(to=Int)
    debts = Map(Seq, to=Int, scratch=True, init=lambda m, s: -1)
    number = Map(Seq, to=Int)
    fine = Scalar(to=Real)

    @action("1")
    def grow(self, s: Seq) -> None:
        self.require(self.number[s] * self.base.value < 100)
        self.debts[s] = 0 - self.number[s]
        self.number[s] = self.number[s] + self.debts[s] + 1
        self.debts[s] = -1


def wide(base: int, **sizes: int) -> Setting:
    return Setting(Wide, Scope(Model.of(Wide), {"Seq": 2, "Int": 3, **sizes}, {"base": base}))


def test_numbers_that_promela_does_not_have_are_refused() -> None:
    assert "s_number" in promela(wide(2))
    with pytest.raises(Refused, match=r"grow \(test_export_faults.py:\d+\): a number may become 3,000,000,000"):
        promela(wide(10**9))


def test_more_elements_than_bytes_tell_apart_are_refused() -> None:
    large = Scope(Model.of(parts.Queues), {"Item": 256, "Box": 1})
    with pytest.raises(Refused, match="Node has 258 elements in this scope, and 255 are covered; give fewer"):
        promela(Setting(parts.Queues, large))


def test_a_scope_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promela_file, "LARGEST", 10_000)
    with pytest.raises(Refused, match="Queues takes more than 10,000 characters in this scope"):
        promela(Setting(parts.Queues, parts.scope(parts.Queues)))


def test_parameters_that_break_an_assumption_are_refused() -> None:
    with pytest.raises(ScopeError, match="the parameters break an assumption of Pool: P14"):
        promela(Setting(Pool, pools.scope(limit=[2, 2])))


def test_a_first_value_that_leaves_the_scope_is_refused() -> None:
    with pytest.raises(ScopeError, match="the first value of number leaves the scope, where it is 0 to 3"):
        promela(Setting(Far, Scope(Model.of(Far), {"Int": 3})))


class Behind(Machine):
    """Numbers that are what none is in Promela."""

    last = Scalar(to=optional(parts.Place))
    stage = Scalar(to=parts.Place)
    mistaken = Scalar(to=Bool)

    @action("1")
    def stay(self) -> None:
        with when(self.last.value == 255):
            self.mistaken.value = True
        self.stage.value = 254
        self.stage.value = self.stage.value + 1
        with when(self.last.value == self.stage.value):
            self.mistaken.value = True
        self.stage.value = 0

    @invariant("1")
    def none_is_no_number(self) -> Bool:
        return ~self.mistaken.value & (self.last.value != 255)


class Beside(Behind):
    @action("2")
    def lose(self) -> None:
        self.stage.value = 255
        self.last.value = ite(self.mistaken.value, none, self.stage.value)
        self.stage.value = 0


@needs_spin
def test_none_is_no_number_in_promela(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"Place": 2}
    found = Setting(Behind, Scope(Model.of(Behind), sizes))
    assert run_spin(promela(found), tmp_path).broken is None
    with monkeypatch.context() as patch:
        patch.setattr(Terms, "_same", staticmethod(lambda _, exprs: equal(*exprs)))
        assert run_spin(promela(found), tmp_path).broken == "1 none_is_no_number"
    with pytest.raises(Refused, match="a number that may be 255 stands beside none, which is 255 in Promela; give"):
        promela(Setting(Beside, Scope(Model.of(Beside), sizes)))


class Far(Machine):
    number = Scalar(to=Int, init=7)

    @action("1")
    def stay(self) -> None:
        self.number.value = self.number.value


def test_a_number_finer_than_the_unit_is_refused() -> None:
    sizes, params = parts.SCOPES[parts.Exact]
    with pytest.raises(ScopeError, match="rate is 1/3, no multiple of 1/4"):
        promela(Setting(parts.Exact, Scope(Model.of(parts.Exact), {**sizes, "Real": 4}, dict(params))))


def test_the_same_model_is_written_as_the_same_text() -> None:
    """Whatever was read before: numbers of temporaries and variables differ, names in the text do not."""
    first = setting(Model.of(parts.Queues))
    again = setting(_fresh(parts.Queues))
    assert promela(first) == promela(again)
    assert tla(first) == tla(again)


def _fresh(machine: type[Machine]) -> Model:
    def body(namespace: dict[str, object]) -> None:
        namespace["__doc__"] = machine.__doc__

    return Model.of(cast("type[Machine]", types.new_class(machine.__name__, (machine,), exec_body=body)))
