"""The symbolic interpreter gives the successors that the concrete one gives, with counts carried by their laws."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvproof.machine import Machine, Model
from kvproof.machine.concrete import Concrete, IllFormed
from kvproof.machine.scope import Scope, ScopeError
from kvproof.spec.pool import Pool
from kvproof.spec.pool.linked_list import LinkedPool
from kvproof.spec.pool.statistics import Statistics
from kvproof.spec.tiers.mirror import Mirror
from kvproof.spec.tiers.pin import Pinned
from kvproof.spec.tiers.tiered import Tiered

from ..explore.tiers import scope as tier_scope
from ..marks import slow_but
from . import gadget, meter
from .symbolic_successor import SymbolicSuccessor

SIZES = {"Block": 3, "Request": 2, "Hash": 2, "Slot": 1, "Content": 2, "Position": 2, "Int": 4}
PARAMS: dict[str, Any] = {
    "null": 0,
    "caching": True,
    "split": True,
    "kv": [[0], [1]],
    "parent": [None, 0],
    "prompt": [[0, 1], [0, 1]],
    "limit": [1, 1],
    "need": [2, 2],
}
LINKS = {"first_next": [None, 2, 4, 1, None], "first_prev": [None, 3, 1, None, 2]}
TIERS: dict[str, Any] = {"blocks": 2, "requests": 2, "hashes": 2, "positions": 2}
CASES: dict[str, tuple[type[Machine], Scope, int]] = {
    "pool": (Pool, Scope(Model.of(Pool), SIZES, PARAMS), 2),
    "pool, append": (Pool, Scope(Model.of(Pool), SIZES, PARAMS | {"split": False, "null": None}), 2),
    "linked list": (LinkedPool, Scope(Model.of(LinkedPool), SIZES, PARAMS | LINKS), 2),
    "statistics": (Statistics, Scope(Model.of(Statistics), SIZES, PARAMS), 2),
    "mirror": (Mirror, tier_scope("mirror", **TIERS), 2),
    "pin": (Pinned, tier_scope("pin", **TIERS, null=True), 2),
    "tiered": (Tiered, tier_scope("tiered", **TIERS, null=True, split=True), 2),
    "gadget": (gadget.Gadget, gadget.scope(), 4),
    "meter": (meter.Meter, meter.scope(), 2),
}


AT_NIGHT = {"pool, append", "statistics", "mirror", "pin"}
"""What they say stands in ``pool`` and in ``tiered``."""


@pytest.mark.parametrize("name", slow_but(CASES, {"gadget", "meter"}, AT_NIGHT))
def test_the_same_successors_on_a_random_walk(name: str) -> None:
    machine, scope, rounds = CASES[name]
    model = Model.of(machine)
    concrete, dice = Concrete(model, scope), random.Random(7)
    symbolic: dict[str, SymbolicSuccessor] = {}
    state, compared = concrete.initial(), 0
    assert concrete.violations(state, "initially") == []
    for _ in range(100):
        possible = [(a, x) for a in model.actions for x in concrete.enabled(state, a)]
        action = dice.choice(sorted({a for a, _ in possible}))
        args = dice.choice([x for a, x in possible if a == action])
        try:
            after, _ = concrete.after(state, action, args)
            concrete.state(concrete.describe(after))  # else it has left the scope
        except (IllFormed, ScopeError):
            continue
        if action not in symbolic:
            symbolic[action] = SymbolicSuccessor(model, scope, action, rounds=rounds)
        assert symbolic[action].after(concrete, state, args) == concrete.describe(after), (action, args)
        state, compared = after, compared + 1
    assert compared > 30
    assert len(symbolic) > len(model.actions) // 2
