"""What is promised is proved by what each step does to a measure; whatever is no reason for it is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine, MachineError, Map, Model, Promise, Real, Sort, action, eventually, promise, steps
from tests import promises
from tests.promises import Job, Jobs

PROMISE = "every_job_ends"


def test_a_promise_is_proved() -> None:
    report = prove(Jobs)
    assert report.holds
    said = {o.goal.split(" (")[0] for o in report.obligations if o.goal.startswith(PROMISE)}
    assert said >= {
        f"{PROMISE}_kept",
        f"{PROMISE}_lowered_by_work",
        f"{PROMISE}_bounded",
        f"{PROMISE}_possible",
        f"{PROMISE} is not always kept already",
        f"{PROMISE} is served by work",
    }


@pytest.mark.parametrize(
    ("machine", "wrong"),
    [
        (promises.Undone, "kept"),
        (promises.Idle, "lowered_by_work"),
        (promises.Locked, "possible"),
        (promises.Nobody, "possible"),
        (promises.Starved, "lowered_by_work"),
        (promises.Helpless, " is served by help"),
        (promises.Bottomless, "bounded"),
        (promises.Content, " is not always kept already"),
        (promises.Unordered, "lowered_by_work"),
    ],
)
def test_what_is_no_reason_is_refuted(machine: type[Machine], wrong: str) -> None:
    report = prove(machine)
    refuted = [o for o in report.obligations if o.verdict == "refuted"]
    named = f"{PROMISE}{wrong}" if wrong.startswith(" ") else f"{PROMISE}_{wrong}"
    assert named in {o.goal.split(" (")[0] for o in refuted}
    assert not report.holds


class Witness(Sort):
    """Of whom a promise says nothing."""


class Seen(Jobs):
    @eventually("X")
    def every_job_ends(self, j: Job, w: Witness) -> Promise:  # type: ignore[override]
        return Jobs.every_job_ends(self, j)


def test_a_promise_for_all_of_a_sort_of_which_nothing_is_said() -> None:
    assert "Witness" in Model.of(Seen).sorts
    assert prove(Seen).holds


def test_a_step_that_leaves_the_scope_is_no_help() -> None:
    assert prove(promises.Hooks).holds
    wrong = [o for o in prove(promises.OutOfHooks, jobs=1).obligations if o.verdict != "proved"]
    assert [(o.action, o.goal, o.verdict) for o in wrong] == [
        ("hang", "hung is written within the scope, for every_hook_is_used", "refuted")
    ]


def _refused(text: str, **said: object) -> None:
    class Wrong(Jobs):
        time = Map(Job, to=Real)

        @action("L2")
        def wait(self, j: Job) -> None:
            self.time[j] = self.time[j] + Fraction(1, 2)

        @eventually("L2")
        def every_job_ends(self, j: Job) -> Promise:
            whole = {"goal": ~self.busy[j], "fair": [steps(self.wait, j)], "measure": [self.left[j]]}
            return promise(**whole | {k: v(self, j) for k, v in said.items()})  # type: ignore[operator]

    with pytest.raises(MachineError, match=text):
        Model.of(Wrong)


def test_what_is_none_is_refused_where_it_is_read() -> None:
    _refused("without any, nothing need happen", fair=lambda _m, _j: [])
    _refused("has a measure", measure=lambda _m, _j: [])
    _refused("made of integers", measure=lambda m, j: [m.time[j]])  # which may fall for ever, by less and less
    _refused("promises nothing", goal=lambda _m, _j: True)
    _refused("speaks of an action", fair=lambda m, j: [steps(m.nothing_is_owed, j)])
    _refused("takes 2 arguments", fair=lambda m, j: [steps(m.work, j)])
    _refused("is a Job", fair=lambda m, j: [steps(m.wait, m.left[j])])
