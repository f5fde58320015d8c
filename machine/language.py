"""The modelling language: what the text of a machine is written in.

    class Pool(Machine):
        free = Queue(Block, init=True)
        ref_cnt = Map(Block, to=Int)

        @action("P7")
        def take(self, b: Block) -> None:
            self.require(self.free.is_first(b))
            self.free.remove(b)
            self.ref_cnt[b] = self.ref_cnt[b] + 1

        @invariant("P3")
        def free_exactly_when_unreferenced(self, b: Block) -> Bool:
            return iff(self.free.has(b), self.ref_cnt[b] == 0)

The parameters of an invariant are universally quantified. The methods run once, when `Model.of` reads the machine; what
they do is recorded as statements (`program.py`) and formulas (`terms.py`), which all interpreters share.
"""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, overload

from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from .terms import (
    TRUE,
    Bool,
    Index,
    Int,
    Line,
    MachineError,
    Optional_,
    Real,
    Sort,
    Term,
    all_of,
    as_bool,
    as_int,
    as_number,
    as_term,
    caller,
    make,
    none,
    parts,
    same_type,
)

__all__ = [
    "Count",
    "Event",
    "Machine",
    "Map",
    "Param",
    "Queue",
    "Scalar",
    "Sum",
    "Tally",
    "action",
    "assume",
    "can",
    "corollary",
    "exists",
    "forall",
    "initially",
    "invariant",
    "otherwise",
    "sometimes",
    "step",
    "when",
]

V = TypeVar("V", bound=Term)
N = TypeVar("N", Int, Real)
F = TypeVar("F", bound=Callable[..., Any])

_fresh = itertools.count(1)


# ------------------------------------------------------------------------------------------------ recording


class Recorder:
    """Takes down what the text of one action or property does."""

    current: ClassVar[Recorder | None] = None

    def __init__(self, *, of_action: bool) -> None:
        self.of_action = of_action
        self.blocks: list[list[Statement]] = [[]]
        self.open: list[int] = [0]
        self.depth = 0
        self.written: bool = False
        self.inside: list[str] = []
        self.last_when: When | None = None
        self.home: dict[int, int] = {}

    @property
    def body(self) -> list[Statement]:
        return self.blocks[0]

    def add(self, statement: Statement) -> None:
        """Append a statement to the innermost open block."""
        self.blocks[-1].append(statement)
        if not isinstance(statement, Let):
            self.last_when = statement if isinstance(statement, When) else None

    def let(self, value: V) -> V:
        """Bind a value that was read from the state, unless we are inside a quantifier or a property."""
        if not self.of_action or self.depth:
            return value
        self.check(value)
        number = next(_fresh)
        self.blocks[-1].append(Let(number, value, caller()))
        self.home[number] = self.open[-1]
        return make(type(value), "temp", number, value, is_optional=value.is_optional)

    def belongs_here(self, *variables: Term) -> None:
        """The element of an `each`, or the index of a `loop`, has a meaning only inside it."""
        self.home.update({v.args[1]: self.open[-1] for v in variables})

    def check(self, *terms: Term, line: Line | None = None) -> None:
        """Values that were read inside `when`, `each` or `loop` stay there, and so do their elements and indices."""
        for term in terms:
            if term.op not in ("temp", "var"):
                self.check(*parts(term), line=line)
            elif self.home.get(term.args[0 if term.op == "temp" else 1], 0) not in self.open:
                comes = "was read" if term.op == "temp" else "has its meaning"
                where = "inside a `when`, `each` or `loop` and is used outside of it"
                raise MachineError(f"{term!r} {comes} {where}", line)

    def write(self) -> None:
        """A write is about to be recorded."""
        if not self.of_action:
            raise MachineError("a property only looks at the state; it cannot change it")
        if self.depth:
            raise MachineError("a quantified formula only looks at the state; it cannot change it")
        self.written = True

    @contextmanager
    def block(self, kind: str) -> Iterator[list[Statement]]:
        """Record into a block of its own."""
        statements: list[Statement] = []
        self.blocks.append(statements)
        self.open.append(next(_fresh))
        self.inside.append(kind)
        self.last_when = None
        try:
            yield statements
        finally:
            self.blocks.pop()
            self.open.pop()
            self.inside.pop()

    @contextmanager
    def quantified(self) -> Iterator[None]:
        """Inside a quantifier nothing is bound: the formula is one value."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def recorder() -> Recorder:
    """The recorder of the machine text that is being read."""
    if Recorder.current is None:
        raise MachineError("the text of a machine is run by Model.of(machine), not called directly")
    return Recorder.current


@contextmanager
def recording(name: str, *, of_action: bool) -> Iterator[Recorder]:
    """Run text of a machine and take down what it does; ``name`` appears in error messages."""
    before, Recorder.current = Recorder.current, Recorder(of_action=of_action)
    label, MachineError.where_in = MachineError.where_in, name
    try:
        yield Recorder.current
    finally:
        Recorder.current, MachineError.where_in = before, label


def variable(kind: type[V], name: str) -> V:
    """A parameter, bound variable or loop index: unique, whatever its name."""
    return make(kind, "var", name, next(_fresh))


def is_kind(kind: object) -> bool:
    """Whether this may be the type of a parameter or a key."""
    return isinstance(kind, type) and issubclass(kind, Sort | Int | Bool) and kind is not Sort


# ------------------------------------------------------------------------------------------------ declarations


class Declaration:
    """A named part of a machine's state. Reading it through a machine binds it to that machine's view."""

    name: str = "?"
    view: str = "now"
    line: Line

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """A declaration knows the line on which it stands."""
        made = super().__new__(cls)
        made.line = caller()
        return made

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Machine | None, owner: type | None = None) -> Self:
        if instance is None or instance.view == "now":
            return self
        bound = copy.copy(self)
        bound.view = instance.view
        return bound

    def __set__(self, instance: Machine, value: object) -> None:
        raise MachineError(f"{self.name} cannot be replaced; write self.{self._entry()} = …")

    def __bool__(self) -> bool:
        raise MachineError(f"{self.name} is no value, so Python cannot branch on it; read self.{self._entry()}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Declaration):
            raise MachineError(f"{self.name} is no value that could equal {other!r}; read self.{self._entry()}")
        return self is other

    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[Any]:
        raise MachineError(f"Python cannot go through {self.name}; use forall, exists, `self.each` or `self.loop`")

    def __contains__(self, element: object) -> bool:
        raise MachineError(f"Python cannot look for {element!r} in {self.name}; use self.{self.name}.has({element!r})")

    def __repr__(self) -> str:
        return self.name

    def _entry(self) -> str:
        """How an entry is written."""
        kinds: tuple[type[Term], ...] = getattr(self, "kinds", ())
        return f"{self.name}[{', '.join(k.__name__ for k in kinds)}]" if kinds else f"{self.name}.value"


def _kinds(kinds: tuple[object, ...], what: str) -> tuple[type[Term], ...]:
    for kind in kinds:
        if not is_kind(kind):
            raise MachineError(f"{kind!r} is not a sort; {what} (declare one with `class Name(Sort)`)")
    return cast("tuple[type[Term], ...]", kinds)


def _keys(decl: Declaration, kinds: tuple[type[Term], ...], given: object) -> tuple[Term, ...]:
    keys = given if isinstance(given, tuple) else (given,)
    if len(keys) != len(kinds):
        raise MachineError(
            f"{decl.name} takes {len(kinds)} keys ({', '.join(k.__name__ for k in kinds)}), not {len(keys)}"
        )
    terms = tuple(as_term(k) for k in keys)
    for term, kind in zip(terms, kinds, strict=True):
        if not same_type(term, make(kind, "?")):
            raise MachineError(f"{decl.name} is keyed by {kind.__name__}; {term!r} is a {type(term).__name__}")
    return terms


class Map(Declaration, Generic[V]):
    """A total map from sorts to truth values, integers, exact numbers, elements of a sort, or ``optional`` elements.

    ``init``: the first value of every entry: a constant, or a function of the machine and the keys that reads
    parameters only. Left out it is False, 0 or none. ``scratch``: used inside an action only; back at its first value
    when the action ends.
    """

    is_param = False
    is_tally = False

    def __init__(self, *kinds: type[Term], to: type[V], init: object = None, scratch: bool = False) -> None:
        self.kinds = _kinds(kinds, "a map is keyed by sorts")
        wrapped = cast(object, to)
        self.is_optional = isinstance(wrapped, Optional_)
        self.to = cast("type[V]", wrapped.of if isinstance(wrapped, Optional_) else to)
        can_hold = is_kind(self.to) or self.to is cast(object, Real)
        if not can_hold or (self.is_optional and not issubclass(self.to, Sort | Index)):
            shown = f"optional({self.to.__name__})" if can_hold else repr(self.to)
            raise MachineError(
                f"{shown} is not a type that a map can hold; use Bool, Int, Real, a sort or optional(sort)"
            )
        self.scratch = scratch
        if init is None:
            init = none if self.is_optional else {Bool: False}.get(cast(Any, self.to), 0)
        if isinstance(init, int) and issubclass(self.to, Sort):
            raise MachineError(f"a map to {self.to.__name__} needs init=, or to=optional({self.to.__name__})")
        self.init = init

    def __getitem__(self, keys: object) -> V:
        terms = _keys(self, self.kinds, keys)
        return recorder().let(make(self.to, "get", self.view, self.name, terms, is_optional=self.is_optional))

    def __setitem__(self, keys: object, value: V | Int | int | bool | Fraction) -> None:
        rec = recorder()
        rec.write()
        if self.is_param:
            raise MachineError(f"{self.name} is a parameter: it never changes")
        if self.view != "now":
            raise MachineError(f"{self.view}.{self.name} is of the past: it cannot be changed")
        terms, new = _keys(self, self.kinds, keys), as_number(self.to, as_term(value))
        if not same_type(new, make(self.to, "?")) or (new is none and not self.is_optional):
            missing = " or none" if isinstance(new, Index) and new.is_optional else ""
            raise MachineError(f"{self.name} holds {self.to.__name__}; {new!r} is a {type(new).__name__}{missing}")
        rec.check(*terms, new)
        rec.add(Assign(self.name, terms, new, caller()))


class Scalar(Map[V]):
    """A single value of the state: ``self.cursor.value``."""

    def __init__(self, *, to: type[V], init: object = None, scratch: bool = False) -> None:
        super().__init__(to=to, init=init, scratch=scratch)

    @property
    def value(self) -> V:
        """The value now (or then, in a view of the past)."""
        return self[()]

    @value.setter
    def value(self, value: V | Int | int | bool | Fraction) -> None:
        self[()] = value


class Param(Map[V]):
    """Something fixed for the whole run: capacity, dialect, what a hash names. Without keys, use ``.value``."""

    is_param = True

    def __init__(self, *kinds: type[Term], to: type[V]) -> None:
        super().__init__(*kinds, to=to, init=none)

    @property
    def value(self) -> V:
        """The value of a parameter without keys."""
        return self[()]


class Tally(Map[Int]):
    """A counter, or one for each key, that only properties of steps look at. It is no part of the explored state."""

    is_tally = True

    def __init__(self, *kinds: type[Term]) -> None:
        super().__init__(*kinds, to=Int, init=0)

    def add(self, amount: Int | int, *keys: Term) -> None:
        """Count ``amount`` more, for these keys."""
        total = recorder().let(make(Int, "get", "now", self.name, _keys(self, self.kinds, keys)))
        self[keys] = total + amount

    @property
    def total(self) -> Int:
        """What has been counted, where there are no keys; for properties of steps."""
        return self[()]


class Queue(Declaration, Generic[V]):
    """Elements of a sort in a total order; with ``by``, one such queue for each key.

    ``init=True``: at first every element stands in it, in ascending order; or a function of the machine, the keys and
    the element that says which do.
    """

    def __init__(self, of: type[V], *, by: type[Term] | tuple[type[Term], ...] = (), init: object = False) -> None:
        (self.of,) = cast("tuple[type[V]]", _kinds((of,), "a queue holds elements of a sort"))
        self.kinds = _kinds(by if isinstance(by, tuple) else (by,), "a queue is keyed by sorts")
        self.init = init
        self.at: tuple[Term, ...] = ()

    def __getitem__(self, keys: object) -> Queue[V]:
        """The queue of these keys."""
        chosen = copy.copy(self)
        chosen.at = _keys(self, self.kinds, keys)
        return chosen

    def _ask(self, kind: type[T2], op: str, *elements: Term) -> T2:
        if len(self.at) != len(self.kinds):
            raise MachineError(
                f"{self.name} is one queue for each {', '.join(k.__name__ for k in self.kinds)}: name the key first"
            )
        self._check_elements(elements)
        return recorder().let(make(kind, op, self.view, self.name, self.at, *elements))

    def has(self, element: V) -> Bool:
        """The element stands in the queue."""
        return self._ask(Bool, "has", element)

    def is_first(self, element: V) -> Bool:
        """The element stands at the head."""
        return self._ask(Bool, "first", element)

    def before(self, a: V, b: V) -> Bool:
        """Of two members, ``a`` stands nearer to the head than ``b``."""
        return self._ask(Bool, "before", a, b)

    def head(self) -> V:
        """The first element; the queue must not be empty."""
        return self._ask(self.of, "head")

    def tail(self) -> V:
        """The last element; the queue must not be empty."""
        return self._ask(self.of, "tail")

    def is_empty(self) -> Bool:
        """Nothing stands in the queue."""
        return self._ask(Bool, "empty")

    @property
    def size(self) -> Int:
        """How many elements stand in the queue."""
        return self._ask(Int, "size")

    def _write(self, *terms: Term) -> Recorder:
        rec = recorder()
        rec.write()
        if self.view != "now":
            raise MachineError(f"{self.view}.{self.name} is of the past: it cannot be changed")
        if len(self.at) != len(self.kinds):
            raise MachineError(
                f"{self.name} is one queue for each {', '.join(k.__name__ for k in self.kinds)}: name the key first"
            )
        self._check_elements(terms)
        rec.check(*self.at, *terms)
        return rec

    def _check_elements(self, elements: tuple[Term, ...]) -> None:
        for e in elements:
            if not isinstance(e, Term) or not same_type(e, make(self.of, "?")):
                raise MachineError(f"{self.name} holds {self.of.__name__}; {e!r} is a {type(e).__name__}")

    def push_back(self, element: V) -> None:
        """Put a non-member at the tail."""
        self._write(element).add(Push(self.name, self.at, element, "back", None, caller()))

    def push_front(self, element: V) -> None:
        """Put a non-member at the head."""
        self._write(element).add(Push(self.name, self.at, element, "front", None, caller()))

    def push_before(self, anchor: V, element: V) -> None:
        """Put a non-member right before a member."""
        self._write(anchor, element).add(Push(self.name, self.at, element, "before", anchor, caller()))

    def remove(self, element: V) -> None:
        """Take a member out, wherever it stands."""
        self._write(element).add(Remove(self.name, self.at, element, caller()))


T2 = TypeVar("T2", bound=Term)
T3 = TypeVar("T3", bound=Term)


class Count(Declaration):
    """How many elements have a property, for each key.

    ``where`` is a function of the machine, the elements and the keys. What it reads is derived from it; it may only
    read what is indexed by its elements (or fixed), so that a write to one entry changes the count by at most one for
    each key.
    """

    def __init__(
        self,
        over: type[Term] | tuple[type[Term], ...],
        *,
        where: Callable[..., Bool | Int | Real],
        by: type[Term] | tuple[type[Term], ...] = (),
    ) -> None:
        self.over = _kinds(over if isinstance(over, tuple) else (over,), "a count runs over sorts")
        self.kinds = _kinds(by if isinstance(by, tuple) else (by,), "a count is kept by sorts")
        self.where = where

    def __getitem__(self, keys: object) -> Int:
        terms = _keys(self, self.kinds, keys)
        return recorder().let(make(Int, "count", self.view, self.name, terms))

    @property
    def value(self) -> Int:
        """The count, where it has no key."""
        return self[()]


class Sum(Count, Generic[N]):
    """The sum of a quantity over all elements, for each key; where the quantity is negative it counts as 0.

    ``of`` is a function of the machine, the elements and the keys, with the same restrictions as ``where`` of a count;
    ``to`` is the type of the quantity: Int or Real.
    """

    def __init__(
        self,
        over: type[Term] | tuple[type[Term], ...],
        *,
        of: Callable[..., N],
        to: type[N],
        by: type[Term] | tuple[type[Term], ...] = (),
    ) -> None:
        super().__init__(over, where=of, by=by)
        if to not in (Int, Real):
            raise MachineError(f"{to!r} is no type to sum up in; use Int or Real")
        self.to: type[N] = to

    def __getitem__(self, keys: object) -> N:  # type: ignore[override]
        terms = _keys(self, self.kinds, keys)
        return cast(N, recorder().let(make(cast("type[Term]", self.to), "count", self.view, self.name, terms)))

    @property
    def value(self) -> N:  # type: ignore[override]
        """The sum, where it has no key."""
        return self[()]


class Event(Declaration):
    """Something that the machine reports. ``self.stored(h, parent)`` reports it."""

    def __init__(self, *kinds: type[Term]) -> None:
        self.kinds = tuple(k.of if isinstance(cast(object, k), Optional_) else k for k in cast(Any, kinds))
        _kinds(self.kinds, "an event carries elements of sorts")

    def __call__(self, *args: Term) -> None:
        """Report the event."""
        rec = recorder()
        rec.write()
        terms = _keys(self, self.kinds, args)
        rec.check(*terms)
        rec.add(Emit(self.name, terms, caller()))


# ------------------------------------------------------------------------------------------------ formulas


def _quantify(op: str, kinds: tuple[type[Term], ...], body: Callable[..., Bool]) -> Bool:
    _kinds(kinds, "a quantifier runs over sorts")
    names = list(inspect.signature(body).parameters)
    if len(names) != len(kinds):
        raise MachineError(f"the function under {op} takes {len(names)} arguments for {len(kinds)} sorts")
    binders = tuple(variable(kind, name) for kind, name in zip(kinds, names, strict=True))
    rec = recorder()
    with rec.quantified():
        inner = as_bool(body(*binders))
    return rec.let(make(Bool, op, binders, inner))


def forall(*args: Any) -> Bool:
    """``forall(Block, lambda b: …)``, ``forall(Block, Hash, lambda b, h: …)``: for every element."""
    return _quantify("forall", args[:-1], args[-1])


def exists(*args: Any) -> Bool:
    """``exists(Block, lambda b: …)``: for at least one element."""
    return _quantify("exists", args[:-1], args[-1])


@contextmanager
def when(condition: Bool) -> Iterator[None]:
    """The statements inside happen only where the condition holds."""
    rec = recorder()
    rec.write()
    rec.check(as_bool(condition))
    line = caller()
    with rec.block("when") as then:
        yield
    rec.add(When(as_bool(condition), then, [], line))


@contextmanager
def otherwise() -> Iterator[None]:
    """Right after a `when`: the statements inside happen where its condition does not hold."""
    rec = recorder()
    matching = rec.last_when
    if matching is None or matching.otherwise:
        raise MachineError("`otherwise` stands right after a `when`")
    with rec.block("otherwise") as statements:
        yield
    matching.otherwise.extend(statements)
    rec.last_when = None


def can(act: Callable[..., object], *args: Term | int) -> Bool:
    """In a property: the action is possible with these arguments (all that it requires holds)."""
    with recording(act.__name__, of_action=True) as rec:
        act(*map(as_term, args))
    conditions = [s.condition for s in rec.body if isinstance(s, Require)]
    return all_of(*conditions)


# ------------------------------------------------------------------------------------------------ machines


class Machine:
    """Base of all machines. Subclasses declare state, actions and properties; a subclass of a machine extends it."""

    def __init__(self, view: str = "now") -> None:
        self.view = view

    def require(self, condition: Bool) -> None:
        """The action is possible only where the condition holds. All requirements come before the first write."""
        rec = recorder()
        if not rec.of_action:
            raise MachineError("`require` belongs into actions")
        if rec.inside:
            raise MachineError(
                f"`require` inside `{rec.inside[-1]}`: an action is possible or not as a whole; require it before"
            )
        if rec.written:
            raise MachineError(
                "`require` after a write: an action that is not possible changes nothing; require it before"
            )
        rec.add(Require(as_bool(condition), caller()))

    @overload
    def each(self, kind: type[V], /) -> Any: ...
    @overload
    def each(self, kind: type[V], other: type[T2], /) -> Any: ...
    @overload
    def each(self, kind: type[V], other: type[T2], third: type[T3], /) -> Any: ...
    @contextmanager
    def each(self, *kinds: type[Term]) -> Iterator[Any]:
        """``with self.each(Hash) as h:`` the statements inside, for every element at once."""
        rec = recorder()
        rec.write()
        _kinds(kinds, "`each` runs over sorts")
        binders = tuple(variable(kind, kind.__name__.lower()[:1]) for kind in kinds)
        line = caller()
        with rec.block("each") as body:
            rec.belongs_here(*binders)
            yield binders[0] if len(binders) == 1 else binders
        rec.add(Each(binders, body, line))

    @contextmanager
    def loop(
        self,
        count: Int | int,
        *,
        going: Callable[[Index], Bool] | None = None,
        facts: Callable[[Index, Self], dict[str, Bool]] | None = None,
    ) -> Iterator[LoopHandle]:
        """``with self.loop(n) as loop:`` the statements inside, for ``loop.index`` = 0, 1, … n-1.

        ``going``: stop before the first round where it does not hold. ``facts``: what holds before every round and at
        the end, as a function of the rounds done and of the state before the first round; every invariant of the
        machine belongs to them without being named. Afterwards ``loop.rounds`` is the number of rounds done.
        """
        rec = recorder()
        rec.write()
        if rec.inside:
            raise MachineError(f"a loop stands at the top level of an action, not inside `{rec.inside[-1]}`")
        total = as_int(count)
        rec.check(total)
        line, number = caller(), next(_fresh)
        index = variable(Index, "i")
        noted: dict[str, Bool] = {}
        if facts is not None:
            with recording(MachineError.where_in, of_action=False):
                noted = facts(index, type(self)(f"entry:{number}"))
        with rec.block("loop") as lets:
            rec.belongs_here(index)
            condition = as_bool(going(index)) if going is not None else TRUE
        handle = LoopHandle(index, make(Int, "temp", (result := next(_fresh)), index))
        rec.home[result] = rec.open[-1]
        outer = rec.open[-1]
        with rec.block("loop") as body:
            rec.belongs_here(index)
            for let in lets:
                if isinstance(let, Let):
                    rec.home[let.name] = rec.open[-1]
            yield handle
        rec.home[result] = outer
        rec.add(Loop(number, index, total, lets, condition, body, noted, result, line))


@dataclass(eq=False)
class LoopHandle:
    """``index``: the round, counted from 0, inside the loop; ``rounds``: how many there were, after it."""

    index: Index
    rounds: Int


def _mark(kind: str, rule: str, **more: object) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        function.__kvproof__ = {"kind": kind, "rule": rule, "line": caller(), **more}  # type: ignore[attr-defined]
        return function

    return decorate


def action(rule: str) -> Callable[[F], F]:
    """Something that the machine can do. ``rule`` names the rule (or rules) of SEMANTICS.md that it writes down."""
    return _mark("action", rule)


def invariant(rule: str) -> Callable[[F], F]:
    """What holds in every state, for all values of the method's parameters."""
    return _mark("invariant", rule)


def corollary(rule: str) -> Callable[[F], F]:
    """An invariant that follows from the others: proved once, of any state in which they hold, not for each action."""
    return _mark("invariant", rule, derived=True)


def step(rule: str, *, of: tuple[str, ...] | str = ()) -> Callable[[F], F]:
    """What holds of every step, or of the actions named in ``of``.

    The method takes the state before as its first argument; it may also take, by name and sort, parameters that all the
    named actions have. Its other parameters are universally quantified.
    """
    return _mark("step", rule, of=(of,) if isinstance(of, str) else of)


def sometimes(rule: str) -> Callable[[F], F]:
    """What must be reachable, for some values of the method's parameters: no proof about a machine that never moves."""
    return _mark("sometimes", rule)


def assume(rule: str) -> Callable[[F], F]:
    """What is known of the parameters, for all values of the method's parameters."""
    return _mark("assume", rule)


def initially(rule: str) -> Callable[[F], F]:
    """What is known of the first state, where parameters describe it, as in "this block stands behind that one"."""
    return _mark("initially", rule)
