"""A mutant that is proved to do what its machine does, beside it in the concrete interpreter, wherever that comes.

The concrete interpreter has no part in the proof. Whatever the two do differently there shows that it is wrong.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from kvproof.checkers.mutation.judging import Judge
from kvproof.checkers.mutation.mutant import Mutant
from kvproof.checkers.mutation.operators import mutants_of, refusal
from kvproof.machine import Machine, Model
from kvproof.machine.concrete import Concrete, IllFormed, State
from kvproof.machine.scope import Scope, ScopeError

from .choices import Draw
from .walking import ROUNDS, STATES, _scope, _values

__all__ = ["differences", "equivalent_mutants", "in_scope"]

OUTSIDE = "out of scope"


def equivalent_mutants(machine: type[Machine], seed: int, *, most: int) -> Iterator[Mutant]:
    """Of some mutants of a machine that is proved: those that are proved too, and proved to do the same."""
    model = Model.of(machine)
    judge = Judge(model)
    mutants = [m for m in mutants_of(model) if refusal(m) is None]
    for mutant in random.Random(seed).sample(mutants, min(most, len(mutants))):
        verdict = judge.judge(mutant).verdict
        if verdict == "equivalent" or (verdict == "proved" and judge.is_at_last_the_same(mutant)):
            yield mutant


def differences(mutant: Mutant, seed: int, *, rounds: int = ROUNDS, states: int = STATES) -> Iterator[str]:
    """Where the two do something different, in a few scopes drawn from the seed."""
    draw = Draw(f"beside {seed}")
    for number in range(rounds):
        yield from in_scope(mutant, _scope(mutant.original, draw, number), states)


def in_scope(mutant: Mutant, scope: Scope, states: int) -> Iterator[str]:
    """Where the two do something different in this scope, in so many of the states that the machine reaches."""
    right, wrong = Concrete(mutant.original, scope, strict=True), Concrete(mutant.model, scope, strict=True)
    try:
        start = right.initial()
        if right.violations(start, "assume") or right.violations(start, "initially"):
            return
    except (IllFormed, ScopeError):
        return
    waiting, seen = [start], {right.key(start)}
    for state in waiting:
        for name, action in mutant.original.actions.items():
            for args in itertools.product(*[_values(scope, type(p)) for p in action.params]):
                told, after = _told(right, state, name, args)
                if name == mutant.action.name and _differ(told, other := _told(wrong, state, name, args)[0]):
                    yield f"{name}{args} in {right.describe(state)}: {told}, and {other}"
                if after is not None and len(waiting) < states and right.key(after) not in seen:
                    seen.add(right.key(after))
                    waiting.append(after)


def _differ(here: Any, there: Any) -> bool:
    """Whether two steps do something different; one that leaves its scope shows nothing."""
    return here != there and OUTSIDE not in (here, there)


def _told(concrete: Concrete, state: State, name: str, args: tuple[Any, ...]) -> tuple[Any, State | None]:
    """All that can be seen of a step: that it is impossible or ill-formed, or its outcome and the state after it."""
    try:
        if not concrete.is_enabled(state, name, args):
            return "impossible", None
        after, outcome = concrete.after(state, name, args)
    except IllFormed:
        return "ill-formed", None
    except ScopeError:
        return OUTSIDE, None
    tallies = [getattr(after, n) for n, m in concrete.model.maps.items() if m.is_tally]
    return (outcome.events, outcome.result, concrete.key(after), tallies), after
