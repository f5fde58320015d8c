"""Mutants whose smallest step takes long to find: the step that was found once breaks their property again."""

from __future__ import annotations

import pytest

from kvproof.machine import Machine, Model

from . import broken_chunks, broken_hybrid, broken_pieces, broken_stalls
from .kept import ALL, KEPT, LONG, QUICK, STEPS, is_refuted_again, properties_broken_again


def original(machine: type[Machine]) -> type[Machine]:
    """The machine of the specification that a mutant is a copy of."""
    return next(base for base in machine.__mro__ if base.__module__.startswith("kvproof.spec."))


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_step_breaks_the_property_and_the_original_does_not(name: str) -> None:
    machine, _, prop, rule = KEPT[name]
    assert prop in properties_broken_again(name, machine)
    assert rule in Model.of(machine).properties[prop].rule
    assert properties_broken_again(name, original(machine)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_the_formulas_of_the_prover_see_it(name: str) -> None:
    machine, *_ = KEPT[name]
    assert is_refuted_again(name, machine)
    assert not is_refuted_again(name, original(machine))


def test_every_step_that_is_kept_is_taken() -> None:
    assert {path.stem for path in STEPS.iterdir()} == set(KEPT)


def test_those_that_are_quick_or_take_long_are_there() -> None:
    """A name that no mutant has any more would leave one to CI, or to every night, that nobody sees."""
    others = (broken_chunks, broken_hybrid, broken_pieces, broken_stalls)
    there = {row[0].__name__ for row in (*ALL, *(row for module in others for row in module.BROKEN))}
    assert sorted((LONG | QUICK) - there) == []
