"""The concrete interpreter: a machine on plain Python values, fast enough to be the oracle of a fuzzer.

Each action and property becomes one Python function. Maps are flat lists, queues ordered dictionaries, elements small
integers, none is -1. What a machine must not do (take the head of an empty queue, push a member, write at none) raises
`IllFormed`.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from .declarations import Map
from .model import RESULT, Action, CountOf, Model, Property
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from .scope import NONE, Scope, ScopeError
from .terms import Bool, Sort, Term, is_surely, make, may_be_none, may_misfit, parts

__all__ = ["Concrete", "IllFormed", "Outcome", "State", "Violation"]

Args = tuple[int, ...]
Reported = tuple[Any, ...]


class IllFormed(Exception):
    """The machine did what no machine may do, such as pushing an element that already stands in the queue."""


class State:
    """One state: an attribute for each map (flat list) and queue (ordered dictionary, or a list of them)."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def copy(self, changing: tuple[str, ...]) -> State:
        """A copy that shares what never changes."""
        fresh = State(**self.__dict__)
        for name in changing:
            value = self.__dict__[name]
            if isinstance(value, OrderedDict):
                fresh.__dict__[name] = value.copy()
            elif value and isinstance(value[0], OrderedDict):
                fresh.__dict__[name] = [q.copy() for q in value]
            else:
                fresh.__dict__[name] = value[:]
        return fresh


@dataclass(frozen=True)
class Outcome:
    """What an action reported: its events in order, and its result."""

    events: tuple[Reported, ...]
    result: int | bool | None
    broken_facts: tuple[str, ...] = ()
    """Where the action was stopped in a loop: the facts of that loop that do not hold there."""


@dataclass(frozen=True)
class Violation:
    """A property that does not hold, and for which values of its parameters."""

    prop: Property
    values: dict[str, int]

    def __str__(self) -> str:
        place = ", ".join(f"{k}={v}" for k, v in self.values.items())
        return f"{self.prop.rule} {self.prop.name}({place})"


class Concrete:
    """A machine in one scope, ready to run.

    ``strict``: reading at none or at a negative index is ill-formed, as it is in proofs, and not False, 0 or none.
    """

    def __init__(self, model: Model, scope: Scope, *, strict: bool = False) -> None:
        self.model, self.scope = model, scope
        self.changing = tuple([n for n, m in model.maps.items() if not m.is_param] + list(model.queues))
        self._constants = self._constant_counts()
        writer = _Writer(model, scope, self._constants, strict=strict)
        self.source = writer.module()
        space = _space() | {f"K_{n.replace('.', '_')}": v for n, v in self._constants.items()}
        exec(compile(self.source, f"<{model.name}>", "exec"), space)  # our own text, written from the model
        self._guard = {n: cast(Callable[..., bool], space[f"guard_{n}"]) for n in model.actions}
        self._apply = {n: cast(Callable[..., Any], space[f"apply_{n}"]) for n in model.actions}
        self._enabled = {n: cast(Callable[..., Iterator[Args]], space[f"enabled_{n}"]) for n in model.actions}
        self._check = {n: cast(Callable[..., Any], space[f"check_{n}"]) for n in model.properties}
        self._initial = cast(Callable[[State], None], space["initial"])

    # ------------------------------------------------------------------------------------------------ running

    def initial(self) -> State:
        """The first state, with the scope's parameters."""
        model, scope = self.model, self.scope
        values: dict[str, Any] = {}
        for name, mapping in model.maps.items():
            if mapping.is_param:
                values[name] = scope.flat(name, mapping, scope.params[name])
            else:
                values[name] = [0] * _volume(scope, mapping.kinds)
        for name, queue in model.queues.items():
            values[name] = [OrderedDict() for _ in range(_volume(scope, queue.kinds))] if queue.kinds else OrderedDict()
        state = State(**values)
        self._initial(state)
        return state

    def is_enabled(self, state: State, action: str, args: Args) -> bool:
        """All that the action requires holds."""
        return self._guard[action](state, *args)

    def enabled(self, state: State, action: str) -> Iterator[Args]:
        """All arguments with which the action is possible."""
        return self._enabled[action](state)

    def apply(self, state: State, action: str, args: Args, *, stop: tuple[int, int] | None = None) -> Outcome:
        """Do the action, in place. The caller has made sure that it is enabled.

        ``stop``: of the loop with this number stop after so many rounds, in the middle of the action, to look at the
        state there (in a strict interpreter).
        """
        events, result, *facts = self._apply[action](state, *args, stop)
        return Outcome(tuple(events), result, *map(tuple, facts))

    def after(self, state: State, action: str, args: Args) -> tuple[State, Outcome]:
        """The state after the action; the state given stays as it is."""
        fresh = self.copy(state)
        return fresh, self.apply(fresh, action, args)

    def copy(self, state: State) -> State:
        """A state that can change without changing this one."""
        return state.copy(self.changing)

    # ------------------------------------------------------------------------------------------------ judging

    def violations(self, state: State, kind: str = "invariant") -> list[Violation]:
        """The invariants (or assumptions) that the state breaks."""
        found = []
        for prop in self.model.of_kind(kind):
            broken = self._check[prop.name](state, state, *([0] * len(prop.given)))
            if broken is not None:
                found.append(Violation(prop, broken))
        return found

    def step_violations(
        self, before: State, after: State, action: str, args: Args, result: int | bool | Fraction | None
    ) -> list[Violation]:
        """The properties of steps that this step, with this result, breaks."""
        names = [p.args[0] for p in self.model.actions[action].params]
        by_name = {**dict(zip(names, args, strict=True)), RESULT: result}
        found = []
        for prop in self.model.steps_for(action):
            broken = self._check[prop.name](after, before, *(by_name[n] for n in prop.given))
            if broken is not None:
                found.append(Violation(prop, broken))
        return found

    def holds_somewhere(self, state: State, name: str) -> bool:
        """Whether a `sometimes` property is true in this state."""
        return self._check[name](state, state) is not None

    # ------------------------------------------------------------------------------------------------ looking

    def key(self, state: State) -> tuple[Any, ...]:
        """What makes two states the same: all but parameters, tallies and scratch."""
        result: list[Any] = [tuple(state.__dict__[n]) for n, m in self.model.variables.items() if not m.scratch]
        for name, queue in self.model.queues.items():
            value = state.__dict__[name]
            result.append(tuple(tuple(q) for q in value) if queue.kinds else tuple(value))
        return tuple(result)

    def describe(self, state: State) -> dict[str, Any]:
        """The state as plain data: nested lists for maps, lists of elements for queues; None is none."""
        result: dict[str, Any] = {}
        for name, mapping in self.model.maps.items():
            if not mapping.is_param and not mapping.scratch:
                result[name] = self.scope.nested(mapping, state.__dict__[name])
        for name, queue in self.model.queues.items():
            value = state.__dict__[name]
            result[name] = [list(q) for q in value] if queue.kinds else list(value)
        return result

    def state(self, described: dict[str, Any]) -> State:
        """The opposite of `describe`; what is left out has its first value."""
        state = self.initial()
        for name, value in described.items():
            if name in self.model.queues:
                queues = value if self.model.queues[name].kinds else [value]
                made = [OrderedDict.fromkeys(q) for q in queues]
                state.__dict__[name] = made if self.model.queues[name].kinds else made[0]
            else:
                state.__dict__[name] = self.scope.flat(name, self.model.maps[name], value)
        return state

    def _constant_counts(self) -> dict[str, list[int]]:
        """Counts that read parameters only are computed once."""
        model, scope = self.model, self.scope
        constants: dict[str, list[int]] = {}
        for name, count in model.counts.items():
            if count.reads:
                continue
            writer = _Writer(model, scope, {})
            body = writer._sum(count, "now")
            ranges = [range(scope.size(type(k))) for k in count.keys]
            names = ", ".join(["s", *(writer.var(k) for k in count.keys)])
            state = {n: scope.flat(n, m, scope.params[n]) for n, m in model.maps.items() if m.is_param}
            function = eval(f"lambda {names}: {body}", _space())  # our own text, written from the model
            constants[name] = [function(State(**state), *keys) for keys in itertools.product(*ranges)]
        return constants


def _volume(scope: Scope, kinds: tuple[type[Term], ...]) -> int:
    volume = 1
    for kind in kinds:
        volume *= scope.size(kind)
    return volume


class _Writer:
    """Writes a machine's actions and properties as Python text."""

    def __init__(self, model: Model, scope: Scope, constants: dict[str, list[int]], *, strict: bool = False) -> None:
        self.model, self.scope, self.constants, self.strict = model, scope, constants, strict
        self.loops: list[Loop] = []
        """The loops of the action that is being written."""
        self.lines: list[str] = []
        self.indent = 0
        self.bound: set[int] = set()

    # ------------------------------------------------------------------------------------------------ text

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def module(self) -> str:
        self._write_initial()
        for act in self.model.actions.values():
            self._write_guard(act)
            self._write_enabled(act)
            self._write_apply(act)
        for prop in self.model.properties.values():
            self._write_check(prop)
        return "\n".join(self.lines) + "\n"

    @staticmethod
    def var(term: Term) -> str:
        return f"{term.args[0]}_{term.args[1]}"

    # ------------------------------------------------------------------------------------------------ terms

    def term(self, t: Term) -> str:
        op, a = t.op, t.args
        if op == "lit":
            return repr(a[0]) if isinstance(a[0], bool | Fraction) else str(self.scope.number(type(t), a[0]))
        if op == "var":
            return self.var(t)
        if op == "temp":
            return f"t{a[0]}"
        if op == "not":
            return f"(not {self.term(a[0])})"
        if op in ("and", "or"):
            return f"({self.term(a[0])} {op} {self.term(a[1])})"
        if op == "implies":
            return f"(not {self.term(a[0])} or {self.term(a[1])})"
        if op in ("eq", "lt", "le", "add", "sub", "mul"):
            sign = {"eq": "==", "lt": "<", "le": "<=", "add": "+", "sub": "-", "mul": "*"}[op]
            return f"({self.term(a[0])} {sign} {self.term(a[1])})"
        if op in ("floordiv", "mod"):
            return f"{'whole' if op == 'floordiv' else 'rest'}({self.term(a[0])}, {self.term(a[1])})"
        if op == "div":
            return f"ratio({self.term(a[0])}, {self.term(a[1])})"
        if op == "real":
            return self.term(a[0])
        if op == "within":
            return f"(0 <= {self.term(a[0])} < {self.scope.size(a[1])})"
        if op == "ite":
            return f"({self.term(a[1])} if {self.term(a[0])} else {self.term(a[2])})"
        if op in ("forall", "exists"):
            loops = " ".join(f"for {self.var(b)} in range({self.scope.size(type(b))})" for b in a[0])
            return f"{'all' if op == 'forall' else 'any'}({self.term(a[1])} {loops})"
        return self._read(t)

    def _read(self, t: Term) -> str:
        op, view, name, keys = t.op, t.args[0], t.args[1], t.args[2]
        state = {"now": "s", "before": "p"}.get(view) or view.replace(":", "_")
        if op == "size":
            return f"len({self._queue(state, name, keys)})"
        if op == "count":
            return self._count(name, keys, view)
        if op == "get":
            mapping = self.model.maps[name]
            default = "False" if mapping.to is Bool else str(NONE) if mapping.is_optional else "0"
            place = self._place(mapping.kinds, keys)
            guard = self._in_range(mapping.kinds, keys)
            text = f"{state}.{name}[{place}]"
            return f"({text} if {guard} else {self._missing(name, mapping.kinds, keys, default)})" if guard else text
        queue = self._queue(state, name, keys)
        elements = [self.term(e) for e in t.args[3:]]
        if op == "has":
            return f"({elements[0]} in {queue})"
        if op == "empty":
            return f"(not {queue})"
        if op == "first":
            return f"(next(iter({queue}), -2) == {elements[0]})"
        if op == "head":
            return f"head({queue})"
        if op == "tail":
            return f"tail({queue})"
        assert op == "before"
        return f"precedes({queue}, {elements[0]}, {elements[1]})"

    def _queue(self, state: str, name: str, keys: tuple[Term, ...]) -> str:
        kinds = self.model.queues[name].kinds
        if not kinds:
            return f"{state}.{name}"
        guard = self._in_range(kinds, keys)
        text = f"{state}.{name}[{self._place(kinds, keys)}]"
        return f"({text} if {guard} else {self._missing(name, kinds, keys, 'NOTHING')})" if guard else text

    def _missing(self, name: str, kinds: tuple[type[Term], ...], keys: tuple[Term, ...], default: str) -> str:
        """What is read where the keys are no elements. Behind the last index everybody may look."""
        if not self.strict:
            return default
        shown = "".join(f"{self.term(k)}, " for k in keys)
        return f"missing({name!r}, ({shown}), ({self._sizes(kinds)}), {default})"

    def _sizes(self, kinds: tuple[type[Term], ...]) -> str:
        """How many elements the sorts have; indices go on behind the last one of a scope."""
        return "".join(f"{self.scope.size(k) if issubclass(k, Sort) else None}, " for k in kinds)

    def _place(self, kinds: tuple[type[Term], ...], keys: tuple[Term, ...]) -> str:
        if not keys:
            return "0"
        text = self.term(keys[0])
        for kind, key in zip(kinds[1:], keys[1:], strict=True):
            text = f"({text}) * {self.scope.size(kind)} + {self.term(key)}"
        return text

    def _in_range(self, kinds: tuple[type[Term], ...], keys: tuple[Term, ...]) -> str:
        """The condition under which the keys are elements; empty where they always are."""
        checks = []
        for kind, key in zip(kinds, keys, strict=True):
            if not is_surely(key, kind):
                checks.append(f"0 <= {self.term(key)} < {self.scope.size(kind)}")
        return " and ".join(checks)

    def _count(self, name: str, keys: tuple[Term, ...], view: str) -> str:
        count = self.model.counts[name]
        kinds = tuple(type(k) for k in count.keys)
        if name in self.constants:
            text = f"K_{name.replace('.', '_')}[{self._place(kinds, keys)}]"
        else:
            text = self._sum(count, view)
            if keys:
                names = ", ".join(self.var(k) for k in count.keys)
                text = f"(lambda {names}: {text})({', '.join(self.term(k) for k in keys)})"
        guard = self._in_range(kinds, keys)
        return f"({text} if {guard} else {self._missing(name, kinds, keys, '0')})" if guard else text

    def _sum(self, count: CountOf, view: str) -> str:
        loops = " ".join(f"for {self.var(e)} in range({self.scope.size(type(e))})" for e in count.elements)
        formula = _in_view(count.formula, view)
        amount = "1" if count.weight is None else self.term(_in_view(count.weight, view))
        return f"sum({amount} {loops} if {self.term(formula)})"

    # ------------------------------------------------------------------------------------------------ functions

    def _write_initial(self) -> None:
        self.put("def initial(s):")
        self.indent += 1
        for name, (keys, value) in self.model.inits.items():
            for key in keys:
                self.put(f"for {self.var(key)} in range({self.scope.size(type(key))}):")
                self.indent += 1
            if name in self.model.queues:
                kinds = self.model.queues[name].kinds
                self.put(
                    f"if {self.term(value)}: {self._queue('s', name, keys[: len(kinds)])}[{self.var(keys[-1])}] = None"
                )
            else:
                mapping = self.model.maps[name]
                self.put(f"s.{name}[{self._place(mapping.kinds, keys)}] = {self._stored(name, value, mapping)}")
            self.indent -= len(keys)
        self.put("return s")
        self.indent -= 1

    def _write_guard(self, act: Action) -> None:
        self._function(f"guard_{act.name}", act.params)
        for statement in _prefix(act):
            if isinstance(statement, Let):
                self._statement(statement)
            elif isinstance(statement, Require):
                self.put(f"if not {self.term(statement.condition)}: return False")
        self.put("return True")
        self._end()

    def _write_enabled(self, act: Action) -> None:
        self._function(f"enabled_{act.name}", ())
        waiting = [s for s in _prefix(act) if isinstance(s, Let | Require)]
        seen: set[int] = set()
        depth = 0
        for param in (None, *act.params):
            if param is not None:
                self.put(f"for {self.var(param)} in range({self.scope.size(type(param))}):")
                self.indent += 1
                depth += 1
                seen.add(param.args[1])
            rest: list[Let | Require] = []
            for s in waiting:
                value = s.value if isinstance(s, Let) else s.condition
                if not _needs(value, self.bound) <= seen:
                    rest.append(s)
                elif isinstance(s, Let):
                    self._statement(s)
                    seen.add(-s.name)
                else:
                    self.put(f"if not {self.term(s.condition)}: {'continue' if depth else 'return'}")
            waiting = rest
        self.put(f"yield ({''.join(self.var(p) + ', ' for p in act.params)})")
        self.indent -= depth
        self._end()

    def _write_apply(self, act: Action) -> None:
        self._function(f"apply_{act.name}", act.params, ", stop=None")
        self.loops = act.loops
        self.put("events = []")
        for statement in act.body:
            self._statement(statement)
        self.put(f"return events, {'None' if act.result is None else self.term(act.result)}")
        self._end()

    def _write_check(self, prop: Property) -> None:
        """Returns None where the property holds, else the values for which it does not (opposite for `sometimes`)."""
        self.put(f"def check_{prop.name}(s, p{''.join(', ' + self.var(v) for v in prop.given.values())}):")
        self.indent += 1
        for binder in prop.binders:
            self.put(f"for {self.var(binder)} in range({self.scope.size(type(binder))}):")
            self.indent += 1
        test = "if" if prop.kind == "sometimes" else "if not"
        values = ", ".join(f"{b.args[0]!r}: {self.var(b)}" for b in prop.binders)
        self.put(f"{test} {self.term(prop.formula)}: return {{{values}}}")
        self.indent -= len(prop.binders)
        self.put("return None")
        self._end()

    def _function(self, name: str, params: tuple[Term, ...], more: str = "") -> None:
        self.bound = set()
        self.put(f"def {name}(s{''.join(', ' + self.var(p) for p in params)}{more}):")
        self.indent += 1
        self.put("p = s")

    def _end(self) -> None:
        self.indent = 0
        self.bound = set()

    # ------------------------------------------------------------------------------------------------ statements

    def _body(self, body: list[Statement]) -> None:
        self.indent += 1
        for statement in body:
            self._statement(statement)
        if not body:
            self.put("pass")
        self.indent -= 1

    def _statement(self, s: Statement) -> None:
        if isinstance(s, Let):
            self.put(f"t{s.name} = {self.term(s.value)}")
            self.bound.add(s.name)
        elif isinstance(s, Assign):
            mapping = self.model.maps[s.name]
            self._demand(mapping.kinds, s.keys, s.name)
            self.put(f"s.{s.name}[{self._place(mapping.kinds, s.keys)}] = {self._stored(s.name, s.value, mapping)}")
        elif isinstance(s, Push | Remove):
            queue = self.model.queues[s.name]
            self._demand((*queue.kinds, queue.of), (*s.keys, s.element), s.name)
            text = self._queue("s", s.name, s.keys)
            element = self.term(s.element)
            if isinstance(s, Remove):
                self.put(f"remove({text}, {element})")
            elif s.where == "before":
                assert s.anchor is not None
                self.put(f"push_before({text}, {self.term(s.anchor)}, {element})")
            else:
                self.put(f"push_{s.where}({text}, {element})")
        elif isinstance(s, Emit):
            self.put(f"events.append(({s.event!r}, {''.join(self.term(a) + ', ' for a in s.args)}))")
            for heard in s.heard:
                self._statement(heard)
        elif isinstance(s, When):
            self.put(f"if {self.term(s.condition)}:")
            self._body(s.then)
            if s.otherwise:
                self.put("else:")
                self._body(s.otherwise)
        elif isinstance(s, Each):
            for b in s.binders:
                self.put(f"for {self.var(b)} in range({self.scope.size(type(b))}):")
                self.indent += 1
            self.indent -= 1
            self._body(s.body)
            self.indent -= len(s.binders) - 1
        elif isinstance(s, Loop):
            self._loop(s)

    def _stored(self, name: str, term: Term, mapping: Map[Any]) -> str:
        """The value, looked at where its type does not say that it is an element (or none, where that may be)."""
        value, to = self.term(term), mapping.to
        if not may_misfit(term, to, is_optional=mapping.is_optional):
            return value
        least = NONE if may_be_none(term, is_optional=mapping.is_optional) else 0
        size = self.scope.size(to) if issubclass(to, Sort) else None
        return f"stored({name!r}, {to.__name__!r}, {value}, {least}, {size})"

    def _loop(self, s: Loop) -> None:
        index, limit, rounds = self.var(s.index), f"n{s.number}", f"t{s.result}"
        self.put(f"{limit} = {self.term(s.count)}; {rounds} = 0")
        if self.strict:
            self.put(f"entry_{s.number} = copied(s)")
        self.put(f"while {rounds} < {limit}:")
        self.indent += 1
        self._stop(s, rounds)
        self.put(f"{index} = {rounds}")
        for let in s.going_lets:
            self._statement(let)
        self.put(f"if not {self.term(s.going)}: break")
        self.indent -= 1
        self._body(s.body)
        self.indent += 1
        self.put(f"{rounds} += 1")
        self.indent -= 1
        self._stop(s, rounds)
        self.bound.add(s.result)

    def _stop(self, s: Loop, rounds: str) -> None:
        """In the middle of the action: to look at the state, and at what is said of the loop."""
        if not self.strict:
            return
        self.put(f"if stop == ({self.loops.index(s)}, {rounds}):")
        self.indent += 1
        self.put(f"{self.var(s.index)} = {rounds}; broken = []")
        for name, fact in s.facts.items():
            self.put(f"if not {self.term(fact)}: broken.append({name!r})")
        self.put("return events, None, broken")
        self.indent -= 1

    def _demand(self, kinds: tuple[type[Term], ...], keys: tuple[Term, ...], name: str) -> None:
        guard = self._in_range(kinds, keys)
        if guard:
            shown = "(" + "".join(self.term(k) + ", " for k in keys) + ")"
            self.put(f"if not ({guard}): out_of_range({name!r}, {shown}, ({self._sizes(kinds)}))")


_HELPERS = """
NOTHING = OrderedDict()
def ratio(a, b):
    if not b: raise IllFormed("a number is divided by 0")
    return Fraction(a) / b
def whole(a, b):
    if b <= 0: raise IllFormed(f"{a} is divided by {b}, which is not positive")
    return a // b
def rest(a, b):
    return a - whole(a, b) * b
def stored(name, kind, value, least, size):
    if value < least or (size is not None and value >= size):
        raise IllFormed(f"{name} gets {value}, which is no {kind}")
    return value
def copied(s):
    return s.copy(tuple(n for n, v in s.__dict__.items() if isinstance(v, (list, OrderedDict))))
def missing(name, keys, sizes, default):
    if any(k < 0 or (n is not None and k >= n) for k, n in zip(keys, sizes)):
        raise IllFormed(f"{name} is read at {keys}, where nothing is")
    return default
def head(q):
    if not q: raise IllFormed("the head of an empty queue")
    return next(iter(q))
def tail(q):
    if not q: raise IllFormed("the tail of an empty queue")
    return next(reversed(q))
def precedes(q, a, b):
    if a == b or a not in q or b not in q: return False
    for x in q:
        if x == a: return True
        if x == b: return False
def remove(q, x):
    if x not in q: raise IllFormed(f"element {x} does not stand in the queue that it is removed from")
    del q[x]
def push_back(q, x):
    if x in q: raise IllFormed(f"element {x} already stands in the queue that it is pushed to")
    q[x] = None
def push_front(q, x):
    push_back(q, x)
    q.move_to_end(x, last=False)
def push_before(q, anchor, x):
    if anchor not in q: raise IllFormed(f"element {anchor} does not stand in the queue")
    order = list(q)
    push_back(q, x)
    for y in order[order.index(anchor):]: q.move_to_end(y)
def out_of_range(name, keys, sizes):
    if any(k < 0 or (n is not None and k >= n) for k, n in zip(keys, sizes)):
        raise IllFormed(f"{name} is written at {keys}, where nothing is")
    raise ScopeError(f"{name} is written at {keys}, outside of the scope; give its sorts a greater size")
"""


def _space() -> dict[str, Any]:
    """What the written text may name."""
    space: dict[str, Any] = {
        "OrderedDict": OrderedDict,
        "IllFormed": IllFormed,
        "ScopeError": ScopeError,
        "Fraction": Fraction,
    }
    exec(_HELPERS, space)  # our own text
    return space


def _prefix(act: Action) -> list[Statement]:
    """The statements up to the last requirement."""
    last = max((i for i, s in enumerate(act.body) if isinstance(s, Require)), default=-1)
    return act.body[: last + 1]


def _needs(term: Term, bound: set[int]) -> set[int]:
    """Variables and temporaries (as negative numbers) that must be known before the term is."""
    if term.op == "temp":
        return {-term.args[0]}
    if term.op == "var":
        return {term.args[1]}
    needs: set[int] = set()
    for part in parts(term):
        needs |= _needs(part, bound)
    if term.op in ("forall", "exists"):
        needs -= {b.args[1] for b in term.args[0]}
    return needs


def _in_view(term: Term, view: str) -> Term:
    """The formula of a count, read in a view of the past."""
    if view == "now":
        return term
    changed: list[Any] = []
    for a in term.args:
        if isinstance(a, Term):
            changed.append(_in_view(a, view))
        elif isinstance(a, tuple):
            changed.append(tuple(_in_view(x, view) for x in a))
        else:
            changed.append(a)
    if term.op in ("get", "has"):
        changed[0] = view
    return make(type(term), term.op, *changed, is_optional=term.is_optional)
