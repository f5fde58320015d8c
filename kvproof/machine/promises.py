"""Promises: what must happen some day, under a named assumption of who is served.

    @eventually("L1")
    def every_request_ends(self, r: Request) -> Promise:
        oldest = self.waiting.head()
        return promise(
            goal=~self.waiting.has(r),
            fair=[steps(self.finish, oldest), steps(self.allocate, oldest, such_as(1))],
            only=[steps(self.preempt, Request, where=lambda q: q != oldest)],
            measure=[self.ahead[r], self.need[oldest] - self.length[oldest]],
        )

What is assumed of the scheduler: of an action under ``only`` it takes no other steps than those; and it is weakly fair
to the ``fair`` steps together: never is one of them possible at every moment from some moment on, and none ever taken.
Then the goal is reached from every state, for all values of the method's parameters, if

- ``NAME_possible``: as long as it is not reached, some fair step is possible that may be taken;
- what such a step writes lies within the scope: of one that leaves it nothing is said, so it would be no help;
- ``NAME_bounded``: until then no part of the measure is negative;
- ``NAME_lowered_by_ACTION``: a fair step lowers the measure, in the order of dictionaries, or reaches the goal; the
  action's other steps do not raise it;
- ``NAME_kept``, ``NAME_kept_by_ACTION``: nor do those of other actions, unless they reach the goal.

These are properties as any other. The explorer judges the promise itself, without the measure: in no scope may a cycle
have fair steps, and the goal nowhere (`checkers/cycles.py`). docs/trust.md says why the four suffice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from . import operations as op
from .classbody import mark, mark_of, parameters_of
from .connectives import all_of, any_of, implies, ite
from .declared import check_sorts
from .language import Machine, can, exists
from .lost import Conditions
from .mistakes import Line, MachineError, caller
from .model import Model, Promised, Property
from .recorder import NOW, Recorder, is_kind, recording, variable
from .source import parameters
from .tallies import check_reads_none
from .terms import TRUE, Bool, Int, Term, as_bool, as_int, as_term, has_type, name_of
from .traversal import walk

__all__ = ["Promise", "Steps", "SuchAs", "eventually", "promise", "properties_of", "steps", "such_as"]

F = TypeVar("F", bound=Callable[..., Any])


def eventually(rule: str) -> Callable[[F], F]:
    """What must happen some day, for all values of the method's parameters; the method returns a `promise`."""
    return mark("eventually", "promise", rule)


class _Said:
    """Something that a promise says: Python takes it for true, and would leave out what an `or` has behind it."""

    def __bool__(self) -> bool:
        raise MachineError("steps, and what is promised, are neither true nor false: name each of them by itself")


@dataclass(frozen=True)
class SuchAs(_Said):
    """Any number, and one of those with which the action is possible."""

    number: Int


def such_as(number: Int | int) -> SuchAs:
    """An argument that may be any number: where one has to be named with which the step is possible, this one."""
    return SuchAs(as_int(number))


@dataclass(frozen=True)
class Steps(_Said):
    """Some of an action's steps."""

    action: str
    args: tuple[Any, ...]
    where: Callable[..., Bool] | None
    kinds: dict[str, type[Term]]
    line: Line


def steps(act: Callable[..., object], *args: object, where: Callable[..., Bool] | None = None) -> Steps:
    """The steps of this action with these arguments.

    ``args``: for each parameter a value; or a sort, for any of its elements; or `such_as` a number, for any number.
    ``where``: only those steps for which this holds, of the parameters and the state before the step.
    """
    machine, name = getattr(act, "__self__", None), getattr(act, "__name__", "")
    said = mark_of(type(machine), name, act) if isinstance(machine, Machine) else None
    if said is None or said["kind"] != "action":
        raise MachineError(f"`steps` speaks of an action of the machine, as in steps(self.finish, r); {act!r} is none")
    kinds = parameters_of(act, name, said["line"])
    if len(kinds) != len(args):
        raise MachineError(f"{name} takes {len(kinds)} arguments ({', '.join(kinds)}), not {len(args)}")
    given = tuple(_argument(a, f"{p} of {name}", kind) for a, (p, kind) in zip(args, kinds.items(), strict=True))
    if where is not None and (wanted := len(parameters(where, given=len(kinds)))) != len(kinds):
        raise MachineError(f"`where` takes what {name} takes, {len(kinds)} arguments, not {wanted}")
    return Steps(name, given, where, kinds, caller())


def _argument(given: object, parameter: str, kind: type[Term]) -> object:
    if isinstance(given, SuchAs):
        if not issubclass(kind, Int):
            raise MachineError(f"{parameter} is a {kind.__name__}, and `such_as` stands for any number")
        return given
    if isinstance(given, type) and is_kind(given):
        if given is not kind:
            raise MachineError(f"{parameter} is a {kind.__name__}, not a {given.__name__}")
        if given is Int:
            raise MachineError(f"{parameter} may be any integer: name one that is possible, as in such_as(1)")
        return given
    term = as_term(given)
    if not has_type(term, kind):
        raise MachineError(f"{parameter} is a {kind.__name__}; {term!r} is a {type(term).__name__}")
    return term


@dataclass(frozen=True)
class Promise(_Said):
    """A goal, the steps that are not put off for ever, all that are taken, and what they lower."""

    goal: Bool
    fair: tuple[Steps, ...]
    only: tuple[Steps, ...]
    measure: tuple[Int, ...]


def promise(
    *, goal: Bool, fair: Sequence[Steps], measure: Sequence[Int | Bool | int], only: Sequence[Steps] = ()
) -> Promise:
    """The goal is reached some day, if the fair steps are not put off for ever.

    ``only``: of an action that is named here, no other steps are taken; of the others, any.

    ``measure``: integers, the weightiest first; a condition counts 1 where it holds. As long as the goal is not
    reached none is negative, a fair step lowers the measure, and no other step raises it.
    """
    if not fair:
        raise MachineError("a promise names the steps that are not put off for ever: without any, nothing need happen")
    for each in (*fair, *only):
        if not isinstance(each, Steps):
            raise MachineError(f"a promise speaks of steps, as in steps(self.finish, r); {each!r} is none")
    if not measure:
        raise MachineError("a promise has a measure, which fair steps lower")
    return Promise(as_bool(goal), tuple(fair), tuple(only), tuple(map(_natural, measure)))


def _natural(part: object) -> Int:
    """A part of a measure; what falls in ever smaller steps would be no measure."""
    term = as_term(part)
    if isinstance(term, Bool):
        return ite(term, as_int(1), as_int(0))
    if not isinstance(term, Int):
        raise MachineError(f"a measure is made of integers, of which none falls for ever; {term!r} is none")
    return as_int(term)


# ------------------------------------------------------------------------------------------------ read


def properties_of(
    model: Model, name: str, function: Callable[..., Any], said: dict[str, Any]
) -> Iterator[Property | Promised]:
    """The promise, and the properties that it follows from.

    Raises:
        MachineError: the text has a mistake.
    """
    yield from _Reading(model, name, function, said["rule"], said["line"]).read()


class _Reading:
    """One promise that is being read."""

    def __init__(self, model: Model, name: str, function: Callable[..., Any], rule: str, line: Line) -> None:
        self.model, self.name, self.function, self.rule, self.line = model, name, function, rule, line
        self.doc = inspect.getdoc(function) or ""
        kinds = parameters_of(function, name, line, skip=1)
        if Int in kinds.values():
            raise MachineError(f"{name} promises something for every integer: declare an index of your own", line)
        check_sorts(model, kinds.values(), line)
        self.binders = tuple(variable(kind, n) for n, kind in kinds.items())
        self.texts: set[str] = set()
        """What the method says, whatever state it looks at: one text."""

    def read(self) -> Iterator[Property | Promised]:
        yield self._promised()
        yield self._property("pending", "sometimes", lambda: ~self._said("now").goal)
        yield self._property("possible", "invariant", self._possible, derived=True)
        yield self._property("bounded", "invariant", self._bounded, derived=True)
        with self._recording():
            said = self._said("now")
        served, bound = _named(said.fair), _named(said.only)
        for act in served:
            yield self._of_step(f"lowered_by_{act}", (act,), act)
        for act in bound:
            if act not in served:
                yield self._of_step(f"kept_by_{act}", (act,), act)
        others = tuple(act for act in self.model.actions if act not in (*served, *bound))
        if others:
            yield self._of_step("kept", others, None)

    def _recording(self, *known: Term, views: Sequence[str] = (NOW,)) -> AbstractContextManager[Recorder]:
        return recording(f"promise {self.name}", of_action=False, known=[*self.binders, *known], views=views)

    def _said(self, view: str) -> Promise:
        """What the method says of the state, or of that before a step."""
        with Conditions.noted() as made:
            said = self.function(self.model.machine(view), *self.binders)
            if not isinstance(said, Promise):
                raise MachineError(f"{self.name} returns a promise(goal=…, fair=…, measure=…), not {said!r}", self.line)
            taken = [[(step.action, step.args, _where(step)) for step in some] for some in (said.fair, said.only)]
        if isinstance(said.goal.operation, op.Constant):
            raise MachineError(f"the goal of {self.name} is plainly {said.goal!r}: it promises nothing", self.line)
        made.check([said.goal, *said.measure, *_terms_of(taken)])
        for term in (said.goal, *said.measure, *_terms_of(taken)):
            self._check_view(term, view)
        self.texts.add(_text((said.goal, said.measure, taken)))
        if len(self.texts) > 1:
            raise MachineError(
                f"{self.name} says something else each time its text is run, so it depends on more than the state",
                self.line,
            )
        return said

    def _check_view(self, term: Term, view: str) -> None:
        """A promise speaks of one state: of steps it is asked what it said of the state before them."""
        for part in walk(term):
            if isinstance(read := part.operation, op.Read) and read.view != view:
                raise MachineError(
                    f"{self.name} looks at {part!r} by way of a machine that its text has made or kept: read it of the "
                    "one that the method is given",
                    self.line,
                )

    def _promised(self) -> Promised:
        with self._recording() as rec:
            said = self._said("now")
            rec.check(said.goal, *said.measure, line=self.line)
        made = Promised(self.name, self.rule, self.doc, self.binders, said.goal, said.measure, {}, {}, self.line)
        for kept, some in ((made.fair, said.fair), (made.only, said.only)):
            for act in _named(some):
                params = self._variables_of(act)
                with self._recording(*params) as rec:
                    again = self._said("now")
                    kept[act] = params, _are_among(again.fair if some is said.fair else again.only, act, params)
                    rec.check(kept[act][1], line=self.line)
        for act, (params, _) in made.fair.items():
            with self._recording(*params) as rec:
                made.sure[act] = params, _are_among(self._said("now").fair, act, params, surely=True)
                rec.check(made.sure[act][1], line=self.line)
        taken = [where for _, where in (*made.fair.values(), *made.only.values())]
        for term in (said.goal, *said.measure, *taken):
            check_reads_none(self.model, self.name, term, self.line)
        return made

    def _variables_of(self, act: str) -> tuple[Term, ...]:
        return tuple(variable(type(p), name_of(p)) for p in self.model.actions[act].params)

    def _possible(self) -> Bool:
        said, machine = self._said("now"), self.model.machine()
        return implies(~said.goal, any_of(*[_some_possible(machine, step, said.only) for step in said.fair]))

    def _bounded(self) -> Bool:
        said = self._said("now")
        return implies(~said.goal, all_of(*[part >= 0 for part in said.measure]))

    def _of_step(self, what: str, of: tuple[str, ...], act: str | None) -> Property:
        """What steps do to the measure; ``act``: an action of which some are fair, or not all are taken."""
        params = () if act is None else self._variables_of(act)

        def formula() -> Bool:
            before, now = self._said("before"), self._said("now")
            lower, same = _compared(now.measure, before.measure)
            if act is None:
                return implies(~before.goal, now.goal | lower | same)
            serves, is_taken = _are_among(before.fair, act, params), _may_be_taken(before.only, act, params)
            return implies(~before.goal & is_taken, any_of(now.goal, lower, ~serves & same))

        given = {name_of(p): p for p in params}
        return self._property(what, "step", formula, of=of, given=given, ranks=True)

    def _property(
        self,
        what: str,
        kind: str,
        formula: Callable[[], Bool],
        *,
        of: tuple[str, ...] = (),
        given: dict[str, Term] | None = None,
        derived: bool = False,
        ranks: bool = False,
    ) -> Property:
        name, given = f"{self.name}_{what}", given or {}
        if hasattr(self.model.machine, name):
            raise MachineError(f"{name} is a property of the promise {self.name}: rename the other one", self.line)
        views = (NOW, "before") if kind == "step" else (NOW,)
        with self._recording(*given.values(), views=views) as rec:
            said = formula()
            rec.check(said, line=self.line)
        made = Property(name, kind, self.rule, self.doc, self.binders, said, self.line, of, given, derived)
        return replace(made, promise=self.name, ranks=ranks)


def _text(said: object) -> str:
    """What the method says, without the name of the state that it looks at."""
    return repr(said).replace("before.", "")


def _where(step: Steps) -> Bool | None:
    """Which steps are meant, said of parameters by their own names."""
    if step.where is None:
        return None
    return as_bool(step.where(*(variable(kind, name) for name, kind in step.kinds.items())), step.line)


def _terms_of(said: object) -> Iterator[Term]:
    """What is said of steps: their arguments, and which of them are meant."""
    if isinstance(said, Term):
        yield said
    elif isinstance(said, SuchAs):
        yield said.number
    elif isinstance(said, list | tuple):
        for one in said:
            yield from _terms_of(one)


def _named(some: Sequence[Steps]) -> list[str]:
    """The actions, in order."""
    return list(dict.fromkeys(one.action for one in some))


def _are_among(some: Sequence[Steps], act: str, args: Sequence[Term], *, surely: bool = False) -> Bool:
    """The step of this action with these arguments is one of those; ``surely``: with the numbers that are named."""
    return any_of(*[_is_one(step, args, surely=surely) for step in some if step.action == act])


def _may_be_taken(only: Sequence[Steps], act: str, args: Sequence[Term]) -> Bool:
    return _are_among(only, act, args) if act in _named(only) else TRUE


def _is_one(step: Steps, args: Sequence[Term], *, surely: bool = False) -> Bool:
    said = [a.number if surely and isinstance(a, SuchAs) else a for a in step.args]
    named = [x == a for x, a in zip(args, said, strict=True) if isinstance(a, Term)]
    return all_of(*named, *([] if step.where is None else [as_bool(step.where(*args), step.line)]))


def _some_possible(machine: Machine, step: Steps, only: Sequence[Steps]) -> Bool:
    """One of the fair steps is possible, and may be taken."""
    act = getattr(machine, step.action)
    some = [kind for kind in step.args if isinstance(kind, type)]

    def possible(*elements: Term) -> Bool:
        left = iter(elements)
        args = [next(left) if isinstance(a, type) else a.number if isinstance(a, SuchAs) else a for a in step.args]
        return all_of(_is_one(step, args), _may_be_taken(only, step.action, args), can(act, *args))

    return _exists(some, possible)


def _exists(kinds: Sequence[type[Term]], body: Callable[..., Bool]) -> Bool:
    """For some elements of these sorts, as many as there are."""
    if not kinds:
        return body()
    if len(kinds) == 1:
        return exists(kinds[0], lambda e: body(e))
    return exists(kinds[0], lambda e: _exists(kinds[1:], lambda *more: body(e, *more)))


def _compared(now: Sequence[Int], before: Sequence[Int]) -> tuple[Bool, Bool]:
    """The measure is lower, in the order of dictionaries; it is the same."""
    if len(now) != len(before):
        raise MachineError("a measure has as many parts in every state")
    lower: list[Bool] = []
    same: list[Bool] = []
    for a, b in zip(now, before, strict=True):
        lower.append(all_of(*same, a < b))
        same.append(a == b)
    return any_of(*lower), all_of(*same)
