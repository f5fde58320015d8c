"""CrossHair on the planner of hybrid groups (H2, H3) and on the aligned split (H7).

What a verdict means, and what is trusted, is said in ``test_contracts.py``. All contracts here are confirmed: every
path was followed to its end, for all integers that the ``pre`` allows.
"""

import sys

import pytest

pytest.importorskip("crosshair")

from crosshair.statespace import MessageType

from .test_contracts import analyse, load, name_of

holding = load("contracts_planner")
broken = load("contracts_planner_faults")


def contracts_of(module):
    """The contracts of a module, in order: every one is run."""
    return [
        function
        for function in vars(module).values()
        if callable(function) and getattr(function, "__module__", None) == module.__name__
    ]


@pytest.mark.parametrize("contract", contracts_of(holding), ids=name_of)
def test_confirmed_over_all_paths(contract):
    state, message, paths = analyse(contract, sys.maxsize)
    assert state == MessageType.CONFIRMED, message
    assert paths > 0


@pytest.mark.parametrize("contract", contracts_of(broken), ids=name_of)
def test_a_mistake_is_found(contract):
    state, message, _ = analyse(contract, 2000)
    assert state == MessageType.POST_FAIL, message
    assert f"{contract.__name__}(" in message


def test_nothing_is_left_out():
    """A module that lost its contracts would pass in silence."""
    assert len(contracts_of(holding)) == 14
    assert len(contracts_of(broken)) == 6
