"""Exported machines from any state: each step, each property, as the concrete interpreter says. Nothing is well-formed
here but by chance, so this also tells that what must not happen fails an assertion."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kvproof.machine import Machine, Model
from kvproof.machine.program import statements, terms
from kvproof.machine.scope import Scope
from kvproof.machine.traversal import unseen

from ..machine.test_interpreters_agree import CASES, EVERY_CONSTRUCT
from .one_step import IMPOSSIBLE, Move, Ours, Seen, SpinSteps, tlc_steps
from .outside import Described, needs_spin, needs_tlc
from .test_export import known

OTHERS: dict[str, Callable[[], tuple[type[Machine], Scope]]] = {
    name: known(name)
    for name in ("linked-list", "offload", "links", "timed-tiers", "shared-tier", "groups", "connectors", "file-store")
}


def find(name: str) -> tuple[type[Machine], Scope]:
    if name in OTHERS:
        return OTHERS[name]()
    machine, make = CASES[name]
    return machine, make()


def but_nightly(often: set[str]) -> list[object]:
    """The names of all machines, with the mark of what is slow; what these say already is compared at night."""
    marks = {True: pytest.mark.slow, False: pytest.mark.nightly}
    return [pytest.param(n, marks=marks[n in often]) for n in (*CASES, *OTHERS)]


def written_with(name: str) -> set[type]:
    """The kinds of statements, and of operations in them and in properties, of a machine."""
    model, seen = Model.of(find(name)[0]), set[int]()
    body = [s for action in model.actions.values() for s in statements(action.body)]
    formulas = [t for s in body for t in terms(s)] + [p.formula for p in model.properties.values()]
    return {type(s) for s in body} | {type(t.operation) for formula in formulas for t in unseen(formula, seen)}


def test_these_say_what_the_others_say() -> None:
    often = set[type]().union(*map(written_with, EVERY_CONSTRUCT))
    assert set[type]().union(*map(written_with, (*CASES, *OTHERS))) <= often


STARTS, MOVES = 10, 25


def questions(name: str, seed: int) -> tuple[Ours, list[Described], list[tuple[int, Move]]]:
    """States to begin in, and steps to take from them."""
    ours, random_ = Ours(*find(name)), random.Random(seed)
    starts = ours.starts(STARTS, random_)
    return ours, starts, [(i, m) for i, s in enumerate(starts) for m in ours.some_moves(s, MOVES, random_)]


@needs_spin
@pytest.mark.parametrize("name", but_nightly(EVERY_CONSTRUCT))
def test_spin_says_the_same_of_any_state(name: str, tmp_path: Path) -> None:
    ours, starts, moves = questions(name, seed=1)
    spin = SpinSteps(ours.setting, starts, tmp_path)
    for i, start in enumerate(starts):
        state, broken = spin.broken(i)
        expected = ours.broken(start)
        assert state == ours.flat(start)
        assert expected is None or broken == expected
    for i, move in moves:
        assert spin.step(i, move) == ours.step(starts[i], move), (starts[i], move)


@needs_tlc
@pytest.mark.parametrize("name", but_nightly(EVERY_CONSTRUCT))
def test_tlc_says_the_same_of_any_state(name: str, tmp_path: Path) -> None:
    ours, starts, moves = questions(name, seed=2)
    judged, seen = tlc_steps(ours.setting, starts, moves, tmp_path)
    for i, start in enumerate(starts):
        state, broken = judged[i]
        expected = ours.broken(start)
        assert state == ours.flat(start)
        assert expected is None or broken == expected
    for i, move in moves:
        assert seen.get((i, move), Seen(IMPOSSIBLE)) == ours.step(starts[i], move), (starts[i], move)
