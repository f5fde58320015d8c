"""States as people see them: before and after a step side by side, in the machine's words."""

from __future__ import annotations

from kvproof.checkers.states import names_of, side_by_side, step_of
from kvproof.machine import Model
from kvproof.machine.concrete import Concrete

from .alloc import Alloc, scope

MODEL = Model.of(Alloc)


def test_a_state_that_stands_alone_has_one_column() -> None:
    spec = Concrete(MODEL, scope(Alloc, 2, 1, 1))
    assert step_of(spec, spec.initial(), []) == ["              state", "  number[b1]  1", "  free        [b0, b1]"]


def test_a_step_that_is_not_possible_has_no_state_after_it() -> None:
    spec = Concrete(MODEL, scope(Alloc, 1, 1, 1))
    calls = [("alloc", (0,)), ("alloc", (0,))]
    assert "1   <- changed" in "".join(step_of(spec, spec.initial(), calls[:1]))
    assert step_of(spec, spec.initial(), calls)[0].split() == ["state"]


def test_changes_are_marked_and_what_is_empty_in_both_is_left_out() -> None:
    names = {"ref": ("b", ""), "free": ("b",)}
    before, after = {"ref": [0, 1, 0], "free": [2, 0]}, {"ref": [0, 2, 0], "free": [2]}
    assert side_by_side(names, {}, before, after, ("old", "new")) == [
        "           old       new",
        "  ref[b1]  1         2   <- changed",
        "  free     [b2, b0]  [b2]   <- changed",
    ]
    assert {"free", "ref", "holds"} <= names_of(MODEL).keys()
