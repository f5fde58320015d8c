"""How far a run of an action has come: the state at hand, what is known there, and what has to be proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .formulas import Formula, land, limplies, num
from .knowledge import Context, Fact, background, counting, invariants, of_parameters, rested, typing
from .mistakes import Line
from .model import Action, CountOf, Property
from .reads import reads_of
from .symbolic import Snapshot, Symbolic
from .terms import Term, name_of, number_of
from .wellformed import WellFormed

__all__ = ["Beginning", "Goal", "Progress", "constant"]


class Beginning:
    """Any state of a machine, and what is known of it: with this the run of every action begins.

    One of them serves many runs of a machine's actions in one universe, one after the other, so that what is known of
    the state is built once. ``assumed=False``: of the state nothing is known but types.
    """

    def __init__(self, symbolic: Symbolic, *, assumed: bool = True) -> None:
        self.symbolic, self.assumed = symbolic, assumed
        self.state = state = symbolic.arbitrary()
        self.facts = [
            *background(symbolic),
            *of_parameters(symbolic),
            *_known_of(symbolic, state, "", assumed=assumed),
            *(fact for _, fact in rested(symbolic, state, "")),
        ]
        self._names, self._subjects = symbolic.universe.names(), frozenset(symbolic.subjects)
        self._ends = {symbolic.end_name(state, queue, op) for queue in symbolic.model.queues for op in ("head", "tail")}

    def again(self) -> Beginning:
        """The same, for one more run: the one before is over, and names that it had are given again."""
        self.symbolic.universe.give_again(self._names)
        self.symbolic.subjects = set(self._subjects)
        self.symbolic.forget_ends(but=self._ends)
        return self


def _known_of(symbolic: Symbolic, state: Snapshot, moment: str, *, assumed: bool) -> list[Fact]:
    """What is known of any state of the machine."""
    facts = typing(symbolic, state, moment)
    if assumed:
        facts += counting(symbolic, state, moment)
        facts += invariants(symbolic, state, moment)
    return facts


@dataclass(eq=False)
class Goal:
    """Something to prove in a context. ``name`` says what, ``rule`` which rule it writes down.

    It is built when it is first wanted; ``symbols`` are the uninterpreted functions that it may speak of.
    """

    name: str
    rule: str
    context: Context
    line: Line
    build: Callable[[], Formula]
    symbols: frozenset[str]
    prop: Property | None = None
    branches: tuple[Formula, ...] = ()
    """The conditions of `when` on which the state that it speaks of may depend, those without quantifiers."""
    states: tuple[Snapshot, Snapshot] | None = None
    """The last state of which the invariants are known, and the one at hand."""

    @cached_property
    def formula(self) -> Formula:
        """What has to be proved."""
        return self.build()

    @cached_property
    def lemma(self) -> Fact:
        """What is known once it is proved."""
        return Fact(f"proved: {self.name}", self.symbols, lambda: self.formula)


class Progress:
    """What `Run` keeps while it runs an action, and how it asks and learns."""

    def __init__(
        self,
        symbolic: Symbolic,
        action: Action,
        *,
        judged: bool | Literal["values"] = True,
        assumed: bool = True,
        beside: Progress | None = None,
        begun: Beginning | None = None,
    ) -> None:
        self.symbolic, self.action = symbolic, action
        self.judged, self.assumed = judged, assumed
        self.universe, self.model = symbolic.universe, symbolic.model
        if begun is None:
            begun = Beginning(symbolic, assumed=assumed) if beside is None else beside.begun
        self.begun: Beginning = begun
        self.before: Snapshot = begun.state
        self.now = self.before.copy()
        self.start = self.before
        """The last state of which the invariants are known: the first one, or that at the start of a round."""
        self.goals: list[Goal] = []
        self.untouched: list[tuple[str, Property]] = []
        self.temps: dict[int, Formula] = {}
        self.temp_symbols: dict[int, frozenset[str]] = {}
        self.views: dict[str, Snapshot] = {}
        self.path: list[Formula] = []
        self.path_symbols: list[frozenset[str]] = []
        self.branches: list[Formula] = []
        """The conditions of `when` so far; in a round of a loop, those of the round."""
        self.binders: list[tuple[type[Term], Formula]] = []
        self.many: set[str] = set()
        """The counts of which many elements change at once, in the `each` that is being run."""
        fresh = [] if beside is not None else [self.universe.fresh(name_of(p), type(p)) for p in action.params]
        self.args: list[Formula] = fresh if beside is None else beside.args
        self.env = {number_of(p): a for p, a in zip(action.params, self.args, strict=True)}
        self.env_symbols = {number: constant(a) for number, a in self.env.items()}
        self.context = Context(None, self._known_at_first())
        self.first = self.possible = self.context

    # ------------------------------------------------------------------------------------------- knowledge and goals

    def _known_at_first(self) -> list[Fact]:
        facts = [*self.begun.facts]
        for p, a in zip(self.action.params, self.args, strict=True):
            inside = self.universe.is_element(type(p), a)
            facts.append(Fact.of(f"type of {name_of(p)}", constant(a), inside))
        return facts

    def _known_of(self, state: Snapshot, moment: str) -> list[Fact]:
        """What is known of any state of the machine."""
        return _known_of(self.symbolic, state, moment, assumed=self.assumed)

    def _goal(
        self,
        name: str,
        rule: str,
        line: Line,
        symbols: frozenset[str],
        build: Callable[[], Formula],
        prop: Property | None = None,
        *,
        of_value: bool = False,
    ) -> None:
        """Note something to prove here; ``of_value``: also where nothing but values is asked for."""
        if self.judged is True or (self.judged and of_value):
            states = self.start, self.now.copy()
            self.goals.append(Goal(name, rule, self.context, line, build, symbols, prop, tuple(self.branches), states))

    def _on_this_path(self, name: str, rule: str, line: Line, symbols: frozenset[str], formula: Formula) -> None:
        """Something has a value, on this way through the branches and for the element of `each` at hand.

        What comes after it may rely on it: it is asked where nothing of that is known yet.
        """
        condition = self._here(formula)
        if condition is not True and self.judged:
            spoken = symbols.union(*self.path_symbols)
            self._goal(name, rule, line, spoken, lambda: condition, of_value=True)
            self._learn_formula(f"{name} at {line}", spoken, condition)

    def _here(self, formula: Formula) -> Formula:
        """The formula holds on this way through the branches, for the element of `each` at hand."""
        inside = [self.universe.is_element(k, c) for k, c in self.binders]
        return limplies(land(*inside, *self.path), formula)

    def _learn(self, *facts: Fact) -> None:
        """From here on these are known."""
        self.context = Context(self.context, list(facts))

    def _learn_formula(self, label: str, symbols: frozenset[str], formula: Formula) -> None:
        if formula is not True:
            self._learn(Fact.of(label, symbols, formula, is_local=True))

    def _invariants(self, label: str, moment: str) -> None:
        """The inductive invariants, to be proved of the present state."""
        self._learn(*counting(self.symbolic, self.now, moment))
        state = self.now.copy()
        for prop in self.model.inductive:
            # Where nothing that the invariant looks at was written, it says what it said before, and that is known.
            if all(self._is_untouched(name) for name in reads_of(prop.formula).names):
                self.untouched.append((label, prop))
            else:
                self._claims(label, prop, state, {}, {}, {})

    def _is_untouched(self, name: str) -> bool:
        return name in self.symbolic.params or self.now.functions[name] is self.start.functions[name]

    def _claims(
        self,
        label: str,
        prop: Property,
        now: Snapshot,
        views: dict[str, Snapshot],
        env: dict[int, Formula],
        env_symbols: dict[int, frozenset[str]],
    ) -> None:
        """One goal for each of the smaller formulas that a property is made of."""
        clauses = self.symbolic.clauses(prop.binders, prop.formula)
        for number, clause in enumerate(clauses, 1):
            part = f" ({number} of {len(clauses)})" if len(clauses) > 1 else ""
            symbols = self.symbolic.symbols(clause[1], now, views, env=env_symbols)

            def build(clause: tuple[tuple[Term, ...], Term] = clause) -> Formula:
                return self.symbolic.claim(clause, now, views, env)

            self._goal(f"{label}{prop.name}{part}", prop.rule, prop.line, symbols, build, prop)

    # ------------------------------------------------------------------------------------------------ values

    def _value(self, term: Term) -> Formula:
        return self.symbolic.value(term, self.now, self.env, self.views, self.temps)

    def _later(self, term: Term) -> Callable[[], Formula]:
        """Computes the value that the term has now when that is wanted."""
        now, env, views, temps = self.now.copy(), dict(self.env), dict(self.views), dict(self.temps)
        return lambda: self.symbolic.value(term, now, env, views, temps)

    def _as(self, kind: type[Term], term: Term) -> Formula:
        return num(self.symbolic.value(term, self.now, self.env, self.views, self.temps, kind=kind))

    def _symbols(self, *of: Term) -> frozenset[str]:
        """What the values that the terms have now speak of."""
        found: frozenset[str] = frozenset()
        for term in of:
            found |= self.symbolic.symbols(term, self.now, self.views, self.temp_symbols, self.env_symbols)
        return found

    def _asked(self, term: Term, line: Line) -> None:
        """The term has a value: a read where it is made, a division where it is used."""
        if self.judged:
            asks = WellFormed(self.symbolic, self.now, self.views, self.temps, self._is_sure)
            demands = asks.demands(term, self.env)
            if demands is not True:
                self._on_this_path(f"{term!r} has a value", "", line, self._spoken(term), demands)

    def _is_sure(self, count: CountOf) -> bool:
        """Nothing that is counted was written since the invariants were known, and with them that it has a value."""
        read = [name for name in count.reads if name not in self.model.params]
        return all(self._is_untouched(f) for name in read for f in self.symbolic.functions_of(name))

    def _spoken(self, term: Term) -> frozenset[str]:
        """What is spoken of where it is asked for the term's value: what a count counts, too."""
        counts = [self.model.counts[name] for name in reads_of(term).names if name in self.model.counts]
        return self._symbols(term).union(*(self.symbolic.symbols(c.formula, self.now) for c in counts))

    @contextmanager
    def _on_path(self, condition: Formula, symbols: frozenset[str]) -> Iterator[None]:
        self.path.append(condition)
        self.path_symbols.append(symbols)
        yield
        self.path.pop()
        self.path_symbols.pop()


def constant(value: Formula) -> frozenset[str]:
    """The symbol that a constant is."""
    return frozenset([str(value)])
