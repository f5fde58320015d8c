"""A machine in one scope as a TLA+ module, for TLC.

The state has a variable for each map and queue. Formulas are about records of such states, so that the same text serves
for the state as it is, for the one after an action, and for all that are between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...machine import Bool, Int, Map, Property
from ...machine import operations as op
from ...machine.model import CountOf
from ...machine.terms import Term, name_of, number_of
from .setting import Names, Plan, Setting, one_line
from .tla_actions import TlaAction
from .tla_terms import NEEDS, TlaTerms, Vocabulary, conjunction

__all__ = ["Tla", "tla"]

HOW = (
    "java -cp tla2tools.jar tlc2.TLC -deadlock -workers 1 -config NAME.cfg NAME.tla",
    "`distinct states found` is the number of reachable states, `states generated` that of transitions and one more.",
    "Where a step goes wrong, the invariant nothing_is_wrong fails, and `wrong` says in the last state what it is.",
)

RESERVED = """
ASSUME ASSUMPTION AXIOM CASE CHOOSE CONSTANT CONSTANTS DOMAIN ELSE ENABLED EXCEPT EXTENDS IF IN INSTANCE LAMBDA LET
LOCAL MODULE OTHER SUBSET THEN THEOREM UNCHANGED UNION VARIABLE VARIABLES WITH RECURSIVE TRUE FALSE BOOLEAN STRING
ACTION BY COROLLARY DEFINE DEFS HAVE HIDE LEMMA NEW OBVIOUS OMITTED ONLY PICK PROOF PROPOSITION PROVE QED STATE SUFFICES
TAKE TEMPORAL USE WITNESS
Nat Int Real Infinity Len Head Tail Append Seq SubSeq SelectSeq Cardinality IsFiniteSet Print PrintT Assert JavaTime
TLCGet TLCSet Permutations SortSeq RandomElement Any ToString TLCEval Integers Naturals Sequences FiniteSets TLC
none Now Init Next Has First Before Without PushBefore Total Quotient Divides Only Wrong wrong nothing_is_wrong
q x y f a b d i j go
"""
"""Words of TLA+, of its modules, and of what stands at the head of every module here."""

TOOLS = r"""none == -1
Has(q, x) == \E i \in DOMAIN q : q[i] = x
First(q, x) == q # <<>> /\ q[1] = x
Before(q, a, b) == \E i, j \in DOMAIN q : i < j /\ q[i] = a /\ q[j] = b
Without(q, x) == SelectSeq(q, LAMBDA y : y # x)
PushBefore(q, a, x) ==
  LET i == CHOOSE i \in DOMAIN q : q[i] = a IN SubSeq(q, 1, i - 1) \o <<x>> \o SubSeq(q, i, Len(q))
Total(f) == LET RECURSIVE go(_)
                go(d) == IF d = {} THEN 0 ELSE LET x == CHOOSE x \in d : TRUE IN f[x] + go(d \ {x})
            IN go(DOMAIN f)
Divides(d, a) == IF d > 0 THEN a % d = 0 ELSE IF d < 0 THEN a % (0 - d) = 0 ELSE FALSE
Quotient(a, d) == IF d > 0 THEN a \div d ELSE IF d < 0 THEN (0 - a) \div (0 - d) ELSE 0
Only(q) == CHOOSE x \in q : TRUE"""
"""What every module says with."""


@dataclass(frozen=True)
class Tla:
    """A module and its configuration. The module stands in a file of its own name."""

    name: str
    module: str
    config: str


def tla(setting: Setting) -> Tla:
    """The TLA+ module and TLC's configuration."""
    return _Module(setting).write()


class _Module:
    """One module."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.model = setting, setting.model
        self.names = Names(frozenset(RESERVED.split()))
        self.name = self.names.new(self.model.name)
        self.lines: list[str] = []
        self.state = {n: self.names.new(n) for n in (*setting.state(), *self.model.queues)}
        """The variable of each map and queue that is part of a state."""
        self.beside = [n for n, m in self.model.maps.items() if m.scratch or m.is_tally]
        self.kinds: list[type[Term]] = [*self.model.sorts.values(), Int]
        operators = {
            **{n: self.names.new(f"p_{n}") for n in self.model.params},
            **{n: self.names.new(f"first_{n}") for n in self.beside},
            **{n: self.names.new(f"c_{n}") for n in self.model.counts},
            **self.state,
        }
        sets = {kind.__name__: self.names.new(kind.__name__) for kind in self.kinds}
        fields = {**self.state, **{n: self.names.new(n) for n in self.beside}}
        self.words = Vocabulary(self.names, sets, operators, fields)

    def terms(self, now: str = "Now", before: str = "Now") -> TlaTerms:
        """A translator of terms."""
        return TlaTerms(self.setting, self.words, now, before)

    def write(self) -> Tla:
        """The module and its configuration."""
        self._declarations()
        for count in self.model.counts.values():
            self._count(count)
        invariants = [self._invariant(prop) for prop in self.setting.invariants]
        for prop in self.setting.steps:
            self._step(prop)
        calls = [self._action(self.setting.plan(act)) for act in self.model.actions.values()]
        self._init()
        self.lines += ["", "Next ==", *(f"  \\/ {call}" for call in calls or ["FALSE"]), "===="]
        how = [line.replace("NAME", self.name) for line in HOW]
        head = "".join(f"  {line}".rstrip() + "\n" for line in self.setting.header(how))
        start = f"---- MODULE {self.name} ----\n(*\n{head}*)\nEXTENDS Integers, Sequences, FiniteSets, TLC\n"
        checked = "".join(f"INVARIANT {name}\n" for name in ("nothing_is_wrong", *invariants))
        return Tla(self.name, start + "\n".join(self.lines) + "\n", f"INIT Init\nNEXT Next\n{checked}")

    # ------------------------------------------------------------------------------------------------ declarations

    def _declarations(self) -> None:
        self.lines += [*TOOLS.splitlines(), ""]
        for kind in self.kinds:
            self.lines.append(f"{self.words.sets[kind.__name__]} == 0..{self.setting.scope.size(kind) - 1}")
        for name in (*self.model.params, *self.beside):
            self.lines.append(f"{self.words.operators[name]} == {self._function(self.model.maps[name], name)}")
        self.lines += ["", f"VARIABLES {', '.join([*self.state.values(), 'wrong'])}", ""]
        fields = [f"{field} |-> {self.words.operators[name]}" for name, field in self.words.fields.items()]
        self.lines.append(f'Now == [{", ".join(fields)}, wrong |-> ""]')
        kept = f"UNCHANGED <<{', '.join(self.state.values())}>>"
        self.lines += [f"Wrong(x) == wrong' = x /\\ {kept}", 'nothing_is_wrong == wrong = ""']

    def _function(self, mapping: Map[Any], name: str) -> str:
        """The first value of a map."""
        values = [self._number(mapping, v) for v in self.setting.first[name]]
        return self._nested(mapping.kinds, values)

    def _number(self, mapping: Map[Any], value: int) -> str:
        if mapping.to is Bool:
            return "TRUE" if value else "FALSE"
        return "none" if value == -1 and mapping.is_optional else str(value)

    def _nested(self, kinds: Sequence[type[Term]], values: Sequence[str]) -> str:
        if not kinds:
            return values[0]
        size = self.setting.scope.size(kinds[0])
        stride = len(values) // size
        parts = [self._nested(kinds[1:], values[i * stride : (i + 1) * stride]) for i in range(size)]
        if len(set(parts)) == 1:
            return f"[{self.names.new('k')} \\in {self.words.set_of(kinds[0])} |-> {parts[0]}]"
        keys = ["FALSE", "TRUE"] if issubclass(kinds[0], Bool) else [str(i) for i in range(size)]
        return f"({' @@ '.join(f'{k} :> {p}' for k, p in zip(keys, parts, strict=True))})"

    def _init(self) -> None:
        self.lines += ["", "Init ==", '  /\\ wrong = ""']
        for name, variable in self.state.items():
            if name in self.model.maps:
                first = self._function(self.model.maps[name], name)
            else:
                queues = [f"<<{', '.join(map(str, q))}>>" for q in self.setting.first[name]]
                first = self._nested(self.model.queues[name].kinds, queues)
            self.lines.append(f"  /\\ {variable} = {first}")

    def _count(self, count: CountOf) -> None:
        """The elements that count, or the sum of what they weigh."""
        terms = self.terms(self.names.new("s"))
        keys = []
        for key in count.keys:
            keys.append(self.names.new(name_of(key)))
            terms.variables[number_of(key)] = keys[-1]
        bound = terms.bind(count.elements)
        these = [terms.variables[number_of(e)] for e in count.elements]
        sets = [self.words.set_of(type(e)) for e in count.elements]
        product, tuple_ = " \\X ".join(sets), these[0] if len(these) == 1 else f"<<{', '.join(these)}>>"
        formula = terms.value(count.formula)
        if count.weight is None:
            body = f"Cardinality({{{tuple_} \\in {product} : {formula}}})"
        else:
            body = f"Total([{bound} |-> IF {formula} THEN {terms.value(count.weight)} ELSE 0])"
        self.lines.append(f"{self.words.operators[count.name]}({', '.join([terms.now, *keys])}) == {body}")

    def _invariant(self, prop: Property) -> str:
        """An invariant as an operator; returns its name. It looks at a record that is made once."""
        name = self.names.new(prop.name)
        terms = self.terms(self.names.new("s"))
        self.lines.append(f"{name} == \\A {terms.now} \\in {{Now}} : {self._formula(prop, terms)}")
        return name

    def _step(self, prop: Property) -> None:
        """A property of steps, of the records before and after, and of what is given."""
        self.words.operators[prop.name] = self.names.new(prop.name)
        terms = self.terms(self.names.new("after"), self.names.new("before"))
        terms.variables = {number_of(v): self.names.new(n) for n, v in prop.given.items()}
        parameters = ", ".join([terms.before, terms.now, *terms.variables.values()])
        self.lines.append(f"{self.words.operators[prop.name]}({parameters}) == {self._formula(prop, terms)}")

    @staticmethod
    def _formula(prop: Property, terms: TlaTerms) -> str:
        """A property for all values of its parameters: it has a value, and holds."""
        closed = Bool(op.Forall(prop.binders, prop.formula)) if prop.binders else prop.formula
        return conjunction([*(terms.need(closed, what) for what in NEEDS), terms.value(closed)])

    # ------------------------------------------------------------------------------------------------ actions

    def _action(self, plan: Plan) -> str:
        """The action as an operator; returns its call for every choice of arguments."""
        name = self.names.new(plan.action.name)
        terms = self.terms()
        bound = terms.bind(plan.action.params)
        parameters = [terms.variables[number_of(p)] for p in plan.action.params]
        self.lines += ["", f"\\* {one_line(plan.action.rule)}"]
        call = f"{name}({', '.join(parameters)})" if parameters else name
        self.lines += [f"{call} ==", '  IF wrong # "" THEN FALSE ELSE']
        self.lines += TlaAction(plan, terms, self.state).write()
        return f"\\E {bound} : {call}" if parameters else call
