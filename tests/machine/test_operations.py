"""Every interpreter has an answer for every operation, and none for an operation that it does not know.

That none is forgotten is what the type checker proves: each interpreter matches over the union `Operation` and ends
with `assert_never`. Here each is asked for each, by an example from the made-up machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import pytest

from kvproof.checkers.export.promela_file import PromelaFile
from kvproof.checkers.export.promela_terms import Terms
from kvproof.checkers.export.setting import Setting
from kvproof.checkers.export.tla import _Module
from kvproof.checkers.mutation.rewriting import Rewriting
from kvproof.machine import Bool, Model
from kvproof.machine import operations as op
from kvproof.machine.batched_terms import TermRun, World
from kvproof.machine.canonical import Content
from kvproof.machine.concrete_text import Writer
from kvproof.machine.graph import Graph
from kvproof.machine.layout import Layout, volume
from kvproof.machine.program import Statement, statements, terms
from kvproof.machine.reads import reads_of
from kvproof.machine.rendering import render
from kvproof.machine.scope import Scope
from kvproof.machine.symbolic import Symbolic
from kvproof.machine.terms import Term, name_of, number_of
from kvproof.machine.traversal import rebuilt, walk
from kvproof.machine.universe import Finite, Unbounded
from kvproof.machine.wellformed import WellFormed

from . import gadget, meter

OPERATIONS: tuple[type[op.Operation], ...] = get_args(op.Operation)
STATEMENTS: tuple[type[Statement], ...] = get_args(Statement)

SCOPES: dict[str, Callable[[], Scope]] = {"Gadget": gadget.scope, "Meter": meter.scope}


@cache
def scope_of(machine: str) -> Scope:
    return SCOPES[machine]()


def _formulas(model: Model) -> Iterator[Term]:
    yield from (p.formula for p in model.properties.values())
    yield from (t for a in model.actions.values() for s in statements(a.body) for t in terms(s))


@cache
def examples() -> dict[type, tuple[str, Term]]:
    """For each operation, a machine and a term of it."""
    found: dict[type, tuple[str, Term]] = {}
    for machine in SCOPES:
        for formula in _formulas(scope_of(machine).model):
            for term in walk(formula):
                found.setdefault(type(term.operation), (machine, term))
    return found


# ------------------------------------------------------------------------------------------------ interpreters


def _symbolic(universe: Unbounded, term: Term, ask: str) -> object:
    symbolic = Symbolic(universe.model, universe)
    now, before = symbolic.arbitrary(), symbolic.arbitrary()
    env, temps = {}, {}
    for part in walk(term):
        if isinstance(part.operation, op.Variable):
            env[number_of(part)] = universe.fresh(name_of(part), type(part))
        elif isinstance(part.operation, op.Temporary):
            temps[part.operation.number] = universe.fresh("read", type(part))
    if ask == "value":
        return symbolic.value(term, now, env, {"before": before}, temps)
    return WellFormed(symbolic, now, {"before": before}, temps).demands(term, env)


def _world(scope: Scope, graph: Graph) -> World:
    layout = Layout(scope.model, scope)
    world: World = {name: [0] * volume(scope, m.kinds) for name, m in scope.model.maps.items()}
    for name in layout.first:
        world[name] = [graph.column(i, f.lo, f.hi) for i, f in enumerate(layout.fields) if f.name == name]
    return world


def _batched(scope: Scope, term: Term) -> object:
    graph = Graph()
    world = _world(scope, graph)
    run = TermRun(graph, scope.model, scope, world, world)
    run.variables = {number_of(v): 1 for v in walk(term) if isinstance(v.operation, op.Variable)}
    run.temps = {t.operation.number: 1 for t in walk(term) if isinstance(t.operation, op.Temporary)}
    return run.term(term)


@cache
def _promela(machine: str) -> PromelaFile:
    return PromelaFile(Setting(scope_of(machine).model, scope_of(machine)))


def _in_promela(scope: Scope, term: Term) -> object:
    file = _promela(scope.model.name)
    given = Terms(file.setting, file.state, file.state)
    given.bind([v for v in walk(term) if isinstance(v.operation, op.Variable)], [0] * len(list(_variables(term))))
    return given.value(term)


def _variables(term: Term) -> Iterator[Term]:
    return (v for v in walk(term) if isinstance(v.operation, op.Variable))


def _in_tla(scope: Scope, term: Term, *needs: Any) -> object:
    given = _Module(Setting(scope.model, scope)).terms()
    given.variables = {number_of(v): "x" for v in _variables(term)}
    return given.need(term, *needs) if needs else given.value(term)


INTERPRETERS: dict[str, Callable[[Scope, Term], object]] = {
    "text": lambda _, t: render(t),
    "reads": lambda _, t: reads_of(t),
    "mutants": lambda scope, t: list(Rewriting(scope.model).changes(t, ())),
    "value of any size": lambda scope, t: _symbolic(Unbounded(scope.model), t, "value"),
    "well-formed of any size": lambda scope, t: _symbolic(Unbounded(scope.model), t, "demands"),
    "value of a finite size": lambda scope, t: _symbolic(Finite(scope.model, scope.sizes), t, "value"),
    "concrete": lambda scope, t: compile(Writer(scope.model, scope, {}, strict=True).term(t), "", "eval"),
    "batched": _batched,
    "Promela": _in_promela,
    "TLA+": _in_tla,
    "TLA+ proper": lambda scope, t: _in_tla(scope, t, "proper"),
    "TLA+ exact": lambda scope, t: _in_tla(scope, t, "exact"),
}


# ------------------------------------------------------------------------------------------------ tests


def test_the_made_up_machines_use_every_operation() -> None:
    assert set(examples()) == set(OPERATIONS)


def test_the_made_up_machines_use_every_statement() -> None:
    bodies = [a.body for machine in SCOPES for a in scope_of(machine).model.actions.values()]
    assert {type(s) for body in bodies for s in statements(body)} == set(STATEMENTS)


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_every_operation_has_a_meaning(interpreter: str) -> None:
    for operation in OPERATIONS:
        machine, term = examples()[operation]
        assert INTERPRETERS[interpreter](scope_of(machine), term) is not None


@dataclass(frozen=True, eq=False, slots=True)
class Strange(op.Operator):
    """An operation that nobody knows."""


@dataclass(frozen=True, eq=False, slots=True)
class Glimpse(op.Read):
    """A look at a queue of a kind that nobody knows."""


UNKNOWN: tuple[Any, ...] = (Strange(), Glimpse("now", "line", ()))


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_no_meaning_is_guessed(interpreter: str) -> None:
    for operation in UNKNOWN:
        if interpreter == "reads" and isinstance(operation, Strange):
            continue  # An operation that is no read looks at what its operands look at.
        with pytest.raises(AssertionError, match="unreachable"):
            INTERPRETERS[interpreter](scope_of("Gadget"), Bool(operation))


def test_a_term_is_rebuilt_as_it_is_and_has_one_canonical_text() -> None:
    texts = {}
    for operation in OPERATIONS:
        _, term = examples()[operation]
        again = rebuilt(term, lambda part: part)
        assert (render(again), type(again), again.is_optional) == (render(term), type(term), term.is_optional)
        assert type(again.operation) is operation
        content, other = Content(), Content()
        content.write(term)
        other.write(again)
        assert content.text == other.text
        texts[content.text] = operation
    assert len(texts) == len(OPERATIONS)
