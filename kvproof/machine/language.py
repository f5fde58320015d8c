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

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, Self, TypeVar, overload

from . import operations as op
from .blocks import block
from .called import to_be_called
from .classbody import MachineType, mark, mark_of, parameters_of
from .connectives import all_of
from .declarations import Count, Declaration, Event, Map, Param, Queue, Scalar, Sum, Tally, element_kinds
from .fitting import is_surely
from .lost import Conditions
from .mistakes import (
    MachineError,
    MissingPartError,
    caller,
    calling_frame,
    is_asked_by_a_text,
    is_tool,
    refuse_keeping,
)
from .program import Each, Let, Loop, Require, When
from .recorder import GOING, NOW, Recorder, fresh, recorder, recording, variable
from .source import parameters
from .terms import TRUE, Bool, Index, Int, Term, as_bool, as_int, as_term, has_type
from .traversal import inlined

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
T2 = TypeVar("T2", bound=Term)
T3 = TypeVar("T3", bound=Term)
F = TypeVar("F", bound=Callable[..., Any])


# ------------------------------------------------------------------------------------------------ formulas


def _quantify(quantifier: type[op.Quantified], kinds: tuple[type[Term], ...], body: Callable[..., Bool]) -> Bool:
    element_kinds(kinds, "a quantifier runs over sorts")
    names = parameters(body, given=len(kinds))
    if len(names) != len(kinds):
        raise MachineError(
            f"the function under {quantifier.__name__.lower()} takes {len(names)} arguments for {len(kinds)} sorts"
        )
    binders = tuple(variable(kind, name) for kind, name in zip(kinds, names, strict=True))
    rec = recorder()
    with rec.quantified(binders) as block:
        inner = as_bool(body(*binders))
    return rec.let(Bool(quantifier(binders, inner)), block=block)


def forall(*args: Any) -> Bool:
    """``forall(Block, lambda b: …)``, ``forall(Block, Hash, lambda b, h: …)``: for every element."""
    return _quantify(op.Forall, args[:-1], args[-1])


def exists(*args: Any) -> Bool:
    """``exists(Block, lambda b: …)``: for at least one element."""
    return _quantify(op.Exists, args[:-1], args[-1])


@block
def when(condition: Bool) -> Iterator[None]:
    """The statements inside happen only where the condition holds."""
    rec = recorder()
    rec.write()
    rec.check(as_bool(condition))
    line, text = caller(), calling_frame()
    with rec.block("when") as then:
        yield
    rec.add(When(as_bool(condition), then, [], line))
    rec.last_text = text


@block
def otherwise() -> Iterator[None]:
    """Right after a `when`: the statements inside happen where its condition does not hold."""
    rec = recorder()
    matching, has_read = rec.last_when, rec.has_read
    if matching is None or matching.otherwise:
        raise MachineError("`otherwise` stands right after a `when`")
    _refuse_strange(rec.last_text)
    line = caller()
    with rec.block("otherwise") as statements:
        yield
    if has_read:  # What was read in between is a value of its own, taken before these statements.
        rec.add(When(~matching.condition, statements, [], line))
    else:
        rec.instead_of_last(replace(matching, otherwise=statements))
    rec.last_when = None


def _refuse_strange(text: FrameType | None) -> None:
    """The `when` stands where its `otherwise` does, or in a block of the text's own, which was entered there.

    Raises:
        MachineError: it was the last that another function has done, and what stands in view is another one.
    """
    if text is not None and text is not calling_frame() and not text.f_code.co_flags & inspect.CO_GENERATOR:
        name = text.f_code.co_name
        raise MachineError(
            f"`otherwise` stands right after a `when`, and the last one here stands in {name}(…), which was called "
            "between the two"
        )


def can(act: Callable[..., object], *args: Term | int) -> Bool:
    """The action is possible with these arguments: all that it requires holds.

    It speaks of the action as the machine has it: one that extends another may require something else.
    """
    outer, given = recorder(), tuple(map(as_term, args))
    name, kinds = _action_of(act)
    if len(kinds) != len(given):
        raise MachineError(f"{name} takes {len(kinds)} arguments ({', '.join(kinds)}), not {len(given)}")
    for parameter, kind, term in zip(kinds, kinds.values(), given, strict=True):
        if not has_type(term, kind):
            raise MachineError(f"{parameter} of {name} is a {kind.__name__}; {term!r} is a {type(term).__name__}")
    outer.check(*given)
    if Conditions.current is not None:
        Conditions.current.use(*given)
    with Conditions.unheard():
        with recording(name, of_action=True, outer=outer) as rec:
            act(*given)
        # An action is possible for elements only: what may be none, or an index behind the last, is none of them.
        present = [
            _is_an_element(kind, term)
            for kind, term in zip(kinds.values(), given, strict=True)
            if not is_surely(term, kind) and kind not in (Int, Bool)
        ]
        if name in rec.instead:
            return outer.let_made(all_of(*present, rec.instead[name](given)))
        required = all_of(*[s.condition for s in rec.body if isinstance(s, Require)])
        _check_same(act, given, required)
        condition = all_of(*present, required)
    # Nothing is written before a requirement: what the action has read for it is read of the state at hand.
    return outer.let_made(inlined(condition, rec.home))


def _check_same(act: Callable[..., object], given: tuple[Term, ...], required: Bool) -> None:
    """The text of an action requires now what it required when it was taken down."""
    name = act.__name__
    recorded = Recorder.recorded.get(name)
    is_own = getattr(act, "__func__", None) is getattr(type(getattr(act, "__self__", None)), name, None)
    if recorded is not None and is_own and repr(recorded(given)) != repr(required):
        raise MachineError(
            f"{name} requires {required!r} here, and required {recorded(given)!r} when it was read: its text says "
            "something else each time, so it depends on more than the state"
        )


def _is_an_element(kind: type[Term], term: Term) -> Bool:
    """The value is one of the elements: not none, and no index behind the last."""
    return exists(kind, lambda element: element == term)


def _action_of(act: Callable[..., object]) -> tuple[str, dict[str, type[Term]]]:
    """The name of the action that a method of a machine is, and its parameters."""
    machine, name = getattr(act, "__self__", None), getattr(act, "__name__", "")
    if isinstance(machine, Machine) and machine.view != "now":
        raise MachineError(f"`can` speaks of the present state: write can(self.{name}, …)")
    said = mark_of(type(machine), name, act) if isinstance(machine, Machine) else None
    if said is None or said["kind"] != "action":
        raise MachineError(f"`can` speaks of an action of the machine, as in can(self.finish, r); {act!r} is none")
    return name, parameters_of(act, name, said["line"])


# ------------------------------------------------------------------------------------------------ machines


class Machine(metaclass=MachineType):
    """Base of all machines. Subclasses declare state, actions and properties; a subclass of a machine extends it.

    A long text is divided: ``class PoolState(Machine, abstract=True)`` is a part of the machines that extend it, and
    none by itself.
    """

    __slots__ = ("view",)  # which state it looks at is out of reach of `vars`

    def __init__(self, view: str = "now") -> None:
        self.view = view

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__" and is_asked_by_a_text():
            raise MachineError(
                "a state has no dict: what is put into one is written to no part of it; write self.x.value"
            )
        return to_be_called(object.__getattribute__(self, name), type(self))

    def __getattr__(self, name: str) -> Any:
        raise MissingPartError(f"{type(self).__name__} has no {name}")

    def __setattr__(self, name: str, value: object) -> None:
        is_own = name == "view" and is_tool(sys._getframe(1).f_code.co_filename)
        if not is_own and not isinstance(getattr(type(self), name, None), Declaration | property):
            raise MissingPartError(f"{type(self).__name__} has no {name} that could be written; declare it")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        if is_asked_by_a_text():
            raise MachineError("Python cannot compare two states: compare what they hold, as in forall")
        return self is other

    def __hash__(self) -> int:
        refuse_keeping("a state")
        return object.__hash__(self)

    def __bool__(self) -> bool:
        if is_asked_by_a_text():
            raise MachineError("a state is neither true nor false: ask for something that it holds")
        return True

    def require(self, condition: Bool) -> None:
        """The action is possible only where the condition holds. All requirements come before the first write."""
        rec = recorder()
        if not rec.of_action:
            raise MachineError("`require` belongs into actions")
        if rec.inside:
            raise MachineError(
                f"`require` inside `{rec.inside[-1]}`: an action is possible or not as a whole; require it before"
            )
        if rec.depth:
            raise MachineError("`require` inside a quantified formula: require the whole of it, as require(forall(…))")
        if rec.written:
            raise MachineError(
                "`require` after a write: an action that is not possible changes nothing; require it before"
            )
        rec.check(as_bool(condition))
        rec.add(Require(as_bool(condition), caller()))

    @overload
    def each(self, kind: type[V], /) -> Any: ...
    @overload
    def each(self, kind: type[V], other: type[T2], /) -> Any: ...
    @overload
    def each(self, kind: type[V], other: type[T2], third: type[T3], /) -> Any: ...
    @block
    def each(self, *kinds: type[Term]) -> Iterator[Any]:
        """``with self.each(Hash) as h:`` the statements inside, for every element at once."""
        rec = recorder()
        rec.write()
        element_kinds(kinds, "`each` runs over sorts")
        binders = tuple(variable(kind, kind.__name__.lower()[:1]) for kind in kinds)
        line = caller()
        with rec.block("each") as body:
            rec.belongs_here(*binders)
            yield binders[0] if len(binders) == 1 else binders
        rec.add(Each(binders, body, line))

    @block
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
        line, number = caller(), fresh()
        index = variable(Index, "i")
        noted = {} if facts is None else self._noted(facts, index, number)
        with rec.block(GOING) as lets:
            rec.belongs_here(index)
            condition = as_bool(going(index)) if going is not None else TRUE
            rec.check(condition)
        handle = LoopHandle(index, Int(op.Temporary((result := fresh()), index)))
        outer, rec.home[result] = rec.open[-1], fresh()  # it has no value before the loop has ended
        with rec.block("loop") as body:
            rec.belongs_here(index)
            for let in lets:
                if isinstance(let, Let):
                    rec.home[let.name] = rec.open[-1]
            yield handle
        rec.home[result] = outer
        rec.add(Loop(number, index, total, lets, condition, body, noted, result, line))

    def _seen_in(self, view: str) -> Self:
        """The machine as it looks at another state."""
        return type(self)(view)

    def _noted(self, facts: Callable[[Index, Self], dict[str, Bool]], index: Index, number: int) -> dict[str, Bool]:
        """The facts of a loop, each as one formula over the state and the one before the first round."""
        outer, entry = recorder(), f"entry:{number}"
        outer.entries.append(entry)
        views = (NOW, *outer.entries)
        with recording(MachineError.where_in, of_action=False, known=[index], views=views, outer=outer) as rec:
            noted = facts(index, self._seen_in(entry))
            if not isinstance(noted, dict):
                raise MachineError(f"the facts of a loop are a dict of names and conditions, not {noted!r}")
            formulas = {str(name): as_bool(fact) for name, fact in noted.items()}
            rec.check(*formulas.values())
        return formulas


@dataclass(eq=False, frozen=True)
class LoopHandle:
    """``index``: the round, counted from 0, inside the loop; ``rounds``: how many there were, after it."""

    index: Index
    rounds: Int

    def __eq__(self, other: object) -> bool:
        if is_asked_by_a_text():
            raise MachineError("a loop is no number: compare its `index`, or its `rounds`")
        return self is other

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        if is_asked_by_a_text():
            raise MachineError("a loop is neither true nor false: ask for its `rounds`")
        return True


def action(rule: str) -> Callable[[F], F]:
    """Something that the machine can do. ``rule`` names the rule (or rules) that it writes down."""
    return mark("action", "action", rule)


def invariant(rule: str) -> Callable[[F], F]:
    """What holds in every state, for all values of the method's parameters."""
    return mark("invariant", "invariant", rule)


def corollary(rule: str) -> Callable[[F], F]:
    """An invariant that follows from the others: proved once, of any state in which they hold, not for each action."""
    return mark("corollary", "invariant", rule, derived=True)


def step(rule: str, *, of: tuple[str, ...] | str = (), unless: tuple[str, ...] | str = ()) -> Callable[[F], F]:
    """What holds of every step; of those of the actions named in ``of``; or of all but those named in ``unless``.

    The method takes the state before as its first argument; it may also take, by name and sort, parameters that all the
    actions named in ``of`` have, and ``result``, what they return. Its other parameters are universally quantified.

    ``unless`` is for what stays as it is: an action that comes later, here or in a machine that extends this one, has
    to keep it, or be named.
    """
    return mark("step", "step", rule, of=_names(of), unless=_names(unless))


def _names(names: tuple[str, ...] | str) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def sometimes(rule: str) -> Callable[[F], F]:
    """What must be reachable, for some values of the method's parameters: no proof about a machine that never moves."""
    return mark("sometimes", "sometimes", rule)


def assume(rule: str) -> Callable[[F], F]:
    """What is known of the parameters, for all values of the method's parameters."""
    return mark("assume", "assume", rule)


def initially(rule: str) -> Callable[[F], F]:
    """What is known of the first state, where parameters describe it, as in "this block stands behind that one"."""
    return mark("initially", "initially", rule)
