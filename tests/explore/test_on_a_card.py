"""Machines of the specification on a CUDA device: the states and transitions that the processor finds."""

from __future__ import annotations

import pytest
import torch

from kvproof.checkers.explore import explore
from kvproof.harness.machines import NAMES, find_machine
from kvproof.harness.scopes import smallest_scope

OF_THEIR_USERS = {"keys"}
"""Machines whose parameters a user gives: there is no scope to explore where nothing is said."""


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", [name for name in NAMES if name not in OF_THEIR_USERS])
def test_a_card_finds_what_the_processor_finds(name: str) -> None:
    kind = find_machine(name)
    scope = smallest_scope(kind)
    there, here = explore(kind, scope, device="cuda"), explore(kind, scope)
    assert (there.states, there.generated, there.depth) == (here.states, here.generated, here.depth)
    assert (there.complete, there.unreached, there.violations) == (True, here.unreached, [])


def test_every_machine_has_a_scope_to_explore() -> None:
    for name in set(NAMES) - OF_THEIR_USERS:
        assert smallest_scope(find_machine(name)).model.name == NAMES[name]
