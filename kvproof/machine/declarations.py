"""The state of a machine: maps, queues, counts and events, as they are declared in the body of its class."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from . import operations as op
from .called import Nothing, or_none, to_be_called
from .mistakes import Line, MachineError, MissingPartError, caller, is_asked_by_a_text, is_tool, refuse_keeping
from .program import Assign, Emit, Push, Remove
from .recorder import Recorder, is_kind, recorder
from .source import parameters
from .terms import Bool, Index, Int, Optional_, Real, Sort, Term, as_number, as_term, has_type, is_none, none

if TYPE_CHECKING:
    from .language import Machine

__all__ = [
    "Count",
    "Declaration",
    "Event",
    "Map",
    "Param",
    "Queue",
    "Scalar",
    "Sum",
    "Tally",
    "element_kinds",
    "kinds_of",
]

V = TypeVar("V", bound=Term)
N = TypeVar("N", Int, Real)


class _DeclarationType(type):
    """The type of declarations: says how one is written that is not written so."""

    if not TYPE_CHECKING:  # a type checker says it by itself

        def __call__(cls, *args: Any, **more: Any) -> Any:
            """Make one, if it is written as such are."""
            try:
                signature(cls.__init__).bind(None, *args, **more)
            except TypeError as error:
                raise MachineError(f"{cls.__name__}(…): {error}; it is written {cls.written}") from None
            return super().__call__(*args, **more)


class Declaration(metaclass=_DeclarationType):
    """A named part of a machine's state. Reading it through a machine binds it to that machine's view."""

    name: str = "?"
    view: str = "now"
    line: Line
    written: ClassVar[str]
    """How such a declaration is written, for whom has it written otherwise."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """A declaration knows the line on which it stands."""
        made = super().__new__(cls)
        made.line = caller()
        return made

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Machine | None, owner: type | None = None) -> Self:
        if instance is None and is_asked_by_a_text():
            raise MachineError(
                f"{self.name} is read of {'a class' if owner is None else owner.__name__}, which is in no state: read "
                f"it of the one at hand, as in self.{self._entry()}"
            )
        if instance is None or instance.view == "now":
            return self
        bound = copy.copy(self)
        bound.view = instance.view
        return bound

    def __set__(self, instance: Machine, value: object) -> None:
        raise MachineError(f"{self.name} cannot be replaced; write self.{self._entry()} = …")

    def __setattr__(self, key: str, value: object) -> None:
        # What the language itself sets is set from here; the text of a machine writes values.
        own = getattr(type(self), key, None)
        if is_tool(sys._getframe(1).f_code.co_filename) or (isinstance(own, property) and own.fset is not None):
            super().__setattr__(key, value)
            return
        if isinstance(own, property):
            raise MachineError(f"{self.name}.{key} follows from other parts of the state: it is read, and not written")
        raise MachineError(f"{self.name} has no {key} that could be written; write self.{self._entry()} = …")

    def __bool__(self) -> bool:
        raise MachineError(f"{self.name} is no value, so Python cannot branch on it; read self.{self._entry()}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Declaration):
            raise MachineError(f"{self.name} is no value that could equal {other!r}; read self.{self._entry()}")
        if is_asked_by_a_text():
            raise MachineError(
                f"Python would compare {self.name} and {other.name} as what they are, and not what they hold: compare "
                "their entries, as in forall"
            )
        return self is other

    def __hash__(self) -> int:
        refuse_keeping(self.name)
        return object.__hash__(self)

    def __iter__(self) -> Iterator[Any]:
        raise MachineError(f"Python cannot go through {self.name}; use forall, exists, `self.each` or `self.loop`")

    def __len__(self) -> int:
        raise MachineError(f"Python cannot count what stands in {self.name}; use a Count, or the size of a queue")

    def __contains__(self, element: object) -> bool:
        raise MachineError(f"Python cannot look for {element!r} in {self.name}; use self.{self.name}.has({element!r})")

    if not TYPE_CHECKING:  # a type checker says it by itself

        def __getattr__(self, key: str) -> Any:
            if key.startswith("__"):  # Python, or a tool, asks whether there is such a thing
                raise AttributeError(key)
            raise MissingPartError(f"{self.name} has no {key}")

    def __repr__(self) -> str:
        return self.name

    def __delattr__(self, key: str) -> None:
        raise MachineError(f"{self.name} cannot lose its {key}: {_NOTHING_GOES}")

    def __delete__(self, instance: Machine) -> None:
        raise MachineError(f"{self.name} cannot be taken out of a state: {_NOTHING_GOES}")

    def __setitem__(self, keys: object, value: Any) -> None:
        raise MachineError(f"{self.name} has no entries that are written: it is a {type(self).__name__.lower()}")

    def __delitem__(self, keys: object) -> None:
        raise MachineError(f"an entry of {self.name} cannot be taken out: {_NOTHING_GOES}")

    def _entry(self) -> str:
        """How an entry is written."""
        kinds: tuple[type[Term], ...] = getattr(self, "kinds", ())
        return f"{self.name}[{', '.join(k.__name__ for k in kinds)}]" if kinds else f"{self.name}.value"


_NOTHING_GOES = "a map has a value for every key; write another one, such as none where that is allowed"


def _computed(declared: Declaration, *_: object) -> Any:
    """Python would compute with the declaration itself, or order it."""
    is_entry = isinstance(declared, Map | Count)
    how = f": read self.{declared._entry()}" if is_entry else ""
    how += ", and write it" if isinstance(declared, Map) else ""
    raise MachineError(f"{declared.name} is no value that Python could compute with{how}")


_COMPUTES = (
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv rfloordiv ifloordiv mod rmod imod "
    "and rand iand or ror ior xor rxor ixor neg pos abs invert lt le gt ge"
)
"""What Python asks of values, and declarations are none."""

for _method in _COMPUTES.split():
    setattr(Declaration, f"__{_method}__", _computed)


def kinds_of(kinds: tuple[object, ...], what: str) -> tuple[type[Term], ...]:
    """The types, where values of these may be handed around.

    Raises:
        MachineError: one is none; ``what`` says what is wanted.
    """
    for kind in kinds:
        if not is_kind(kind):
            raise MachineError(f"{kind!r} is not a sort; {what} (declare one with `class Name(Sort)`)")
    return cast("tuple[type[Term], ...]", kinds)


def element_kinds(kinds: tuple[object, ...], what: str) -> tuple[type[Term], ...]:
    """The types, where something is kept for each value, or said of all.

    Raises:
        MachineError: there is no end of the values of one; ``what`` says what is wanted.
    """
    for kind in kinds:
        if kind in (Int, Index):
            raise MachineError(
                f"{what}, and {cast(type, kind).__name__} has no last value: declare an index of your own with "
                "`class Name(Index)`"
            )
    return kinds_of(kinds, what)


def _keys(
    decl: Declaration, kinds: tuple[type[Term], ...], given: object, *, or_none: bool = False
) -> tuple[Term, ...]:
    keys = given if isinstance(given, tuple) else (given,)
    if len(keys) != len(kinds):
        raise MachineError(
            f"{decl.name} takes {len(kinds)} keys ({', '.join(k.__name__ for k in kinds)}), not {len(keys)}"
        )
    terms = tuple(as_term(k) for k in keys)
    for term, kind in zip(terms, kinds, strict=True):
        if not has_type(term, kind):
            raise MachineError(f"{decl.name} is keyed by {kind.__name__}; {term!r} is a {type(term).__name__}")
        if is_none(term) and not or_none:
            raise MachineError(f"{decl.name} is keyed by {kind.__name__}, and none is no element")
    return terms


class Map(Declaration, Generic[V]):
    """A total map from sorts to truth values, integers, exact numbers, elements of a sort, or ``optional`` elements.

    ``init``: the first value of every entry: a constant, or a function of the machine and the keys that reads
    parameters only. Left out it is False, 0 or none. ``scratch``: used inside an action only; back at its first value
    when the action ends.
    """

    written = "as in Map(Block, to=Int): the sorts of its keys, then what it holds"

    is_param = False
    is_tally = False

    def __init__(self, *kinds: type[Term], to: type[V], init: object = None, scratch: bool = False) -> None:
        self.kinds = element_kinds(kinds, "a map is keyed by sorts")
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
        return recorder().let(self.to(op.Entry(self.view, self.name, terms), is_optional=self.is_optional))

    def __setitem__(self, keys: object, value: V | Int | int | bool | Fraction) -> None:
        rec = recorder()
        rec.write()
        if self.is_param:
            raise MachineError(f"{self.name} is a parameter: it never changes")
        if self.view != "now":
            raise MachineError(f"{self.view}.{self.name} is of the past: it cannot be changed")
        terms, new = _keys(self, self.kinds, keys), as_number(self.to, as_term(value))
        if not has_type(new, self.to) or (new is none and not self.is_optional):
            missing = " or none" if isinstance(new, Index) and new.is_optional else ""
            raise MachineError(f"{self.name} holds {self.to.__name__}; {new!r} is a {type(new).__name__}{missing}")
        rec.check(*terms, new)
        rec.add(Assign(self.name, terms, new, caller()))


class Scalar(Map[V]):
    """A single value of the state: ``self.cursor.value``."""

    written = "as in Scalar(to=Int): what it holds"

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

    written = "as in Param(to=Int) or Param(Block, to=Int): the sorts of its keys, then what it is"

    is_param = True

    def __init__(self, *kinds: type[Term], to: type[V]) -> None:
        super().__init__(*kinds, to=to, init=none)

    @property
    def value(self) -> V:
        """The value of a parameter without keys."""
        return self[()]


class Tally(Map[Int]):
    """A counter, or one for each key, that only properties of steps look at. It is no part of the explored state."""

    written = "as in Tally() or Tally(Block): the sorts of its keys"

    is_tally = True

    def __getattribute__(self, name: str) -> Any:
        return to_be_called(object.__getattribute__(self, name), type(self))

    def __init__(self, *kinds: type[Term]) -> None:
        super().__init__(*kinds, to=Int, init=0)

    def __getitem__(self, keys: object) -> Int:
        """What has been counted; for properties of steps, and facts of loops that these need."""
        if recorder().of_action:
            raise MachineError(f"{self.name} is a tally, which no action looks at: keep a map or a scalar instead")
        return super().__getitem__(keys)

    def add(self, amount: Int | int, *keys: Term) -> None:
        """Count ``amount`` more, for these keys."""
        total = recorder().let(Int(op.Entry("now", self.name, _keys(self, self.kinds, keys))))
        super().__setitem__(keys, total + amount)

    def __setitem__(self, keys: object, value: object) -> None:
        """Refused: what a step counts would depend on where the tally began."""
        raise MachineError(f"{self.name} is a tally, which is added to and never set: {self.name}.add(…), or a map")

    @property
    def total(self) -> Int:
        """What has been counted, where there are no keys; for properties of steps."""
        return self[()]


class Queue(Declaration, Generic[V]):
    """Elements of a sort in a total order; with ``by``, one such queue for each key.

    ``init=True``: at first every element stands in it, in ascending order; or a function of the machine, the keys and
    the element that says which do.
    """

    written = "as in Queue(Block) or Queue(Block, by=Request): what stands in it, and its keys"

    def __init__(self, of: type[V], *, by: type[Term] | tuple[type[Term], ...] = (), init: object = False) -> None:
        (self.of,) = cast("tuple[type[V]]", element_kinds((of,), "a queue holds elements of a sort"))
        self.kinds = element_kinds(by if isinstance(by, tuple) else (by,), "a queue is keyed by sorts")
        self.init = init
        self.at: tuple[Term, ...] = ()

    def __getattribute__(self, name: str) -> Any:
        return to_be_called(object.__getattribute__(self, name), type(self))

    def __getitem__(self, keys: object) -> Queue[V]:
        """The queue of these keys."""
        chosen = copy.copy(self)
        chosen.at = _keys(self, self.kinds, keys)
        return chosen

    def _asked(self, *elements: Term) -> tuple[str, str, tuple[Term, ...]]:
        """The state, the queue and its keys, for a question about these elements."""
        self._check(elements)
        return self.view, self.name, self.at

    def has(self, element: V) -> Bool:
        """The element stands in the queue."""
        return recorder().let(Bool(op.Has(*self._asked(element), element)))

    def is_first(self, element: V) -> Bool:
        """The element stands at the head."""
        return recorder().let(Bool(op.First(*self._asked(element), element)))

    def before(self, a: V, b: V) -> Bool:
        """Of two members, ``a`` stands nearer to the head than ``b``."""
        return recorder().let(Bool(op.Before(*self._asked(a, b), a, b)))

    def head(self) -> V:
        """The first element; the queue must not be empty."""
        return recorder().let(self.of(op.Head(*self._asked())))

    def tail(self) -> V:
        """The last element; the queue must not be empty."""
        return recorder().let(self.of(op.Tail(*self._asked())))

    def is_empty(self) -> Bool:
        """Nothing stands in the queue."""
        return recorder().let(Bool(op.Empty(*self._asked())))

    @property
    def size(self) -> Int:
        """How many elements stand in the queue."""
        return recorder().let(Int(op.Size(*self._asked())))

    def _write(self, *terms: Term) -> Recorder:
        rec = recorder()
        rec.write()
        if self.view != "now":
            raise MachineError(f"{self.view}.{self.name} is of the past: it cannot be changed")
        self._check(terms)
        rec.check(*self.at, *terms)
        return rec

    def _check(self, elements: tuple[Term, ...]) -> None:
        """One queue is meant, and these may stand in it."""
        if len(self.at) != len(self.kinds):
            raise MachineError(
                f"{self.name} is one queue for each {', '.join(k.__name__ for k in self.kinds)}: name the key first"
            )
        for e in elements:
            if not isinstance(e, Term) or not has_type(e, self.of):
                raise MachineError(f"{self.name} holds {self.of.__name__}; {e!r} is a {type(e).__name__}")
            if is_none(e):
                raise MachineError(f"{self.name} holds {self.of.__name__}, and none is no element")

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


class Count(Declaration):
    """How many elements have a property, for each key.

    ``where`` is a function of the machine, the elements and the keys. What it reads is derived from it; it may only
    read what is indexed by its elements (or fixed), so that a write to one entry changes the count by at most one for
    each key.
    """

    written = "as in Count(Block, where=lambda m, b: m.held[b]): what is counted, and which of them"

    def __init__(
        self,
        over: type[Term] | tuple[type[Term], ...],
        *,
        where: Callable[..., Bool | Int | Real],
        by: type[Term] | tuple[type[Term], ...] = (),
    ) -> None:
        self.over = element_kinds(over if isinstance(over, tuple) else (over,), "a count runs over sorts")
        self.kinds = element_kinds(by if isinstance(by, tuple) else (by,), "a count is kept by sorts")
        self.where = where

    def __getitem__(self, keys: object) -> Int:
        terms = _keys(self, self.kinds, keys)
        return recorder().let(Int(op.Total(self.view, self.name, terms)))

    @property
    def value(self) -> Int:
        """The count, where it has no key."""
        return self[()]


class Sum(Count, Generic[N]):
    """The sum of a quantity over all elements, for each key; where the quantity is negative it counts as 0.

    ``of`` is a function of the machine, the elements and the keys, with the same restrictions as ``where`` of a count;
    ``to`` is the type of the quantity: Int or Real.
    """

    written = "as in Sum(Block, of=lambda m, b: m.size[b], to=Int): of what, and in which numbers"

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
        return recorder().let(self.to(op.Total(self.view, self.name, terms)))

    @property
    def value(self) -> N:  # type: ignore[override]
        """The sum, where it has no key."""
        return self[()]


class Event(Declaration):
    """Something that the machine reports. ``self.stored(h, parent)`` reports it.

    ``heard``: what a listener makes of it, as a function of the machine and of what the event carries. What it writes
    (a listener's knowledge, as of what is cached) is written nowhere else: it is the fold of what was reported.
    """

    written = "as in Event(Block): the sorts of what it carries"

    def __init__(self, *kinds: type[Term], heard: Callable[..., None] | None = None) -> None:
        self.kinds = tuple(k.of if isinstance(cast(object, k), Optional_) else k for k in cast(Any, kinds))
        kinds_of(self.kinds, "an event carries elements of sorts")
        self.heard = heard
        self.machine: Machine | None = None
        wanted = 1 + len(self.kinds)
        if heard is not None and (given := len(parameters(heard, given=wanted))) != wanted:
            raise MachineError(f"`heard` takes the machine and {len(self.kinds)} arguments, not {given - 1}")

    def __get__(self, instance: Machine | None, owner: type | None = None) -> Self:
        if instance is None:
            return self
        bound = copy.copy(self)
        bound.view, bound.machine = instance.view, instance
        return bound

    def __call__(self, *args: Term) -> None:
        """Report the event."""
        rec = recorder()
        rec.write()
        if HEARD in rec.inside:
            raise MachineError(f"{self.name} is reported where another event is heard: a listener only listens")
        terms, line = _keys(self, self.kinds, args, or_none=True), caller()
        rec.check(*terms)
        with rec.block(HEARD) as heard:
            if self.heard is not None and or_none(self.heard(self.machine, *terms)) is not None:
                raise MachineError(f"what a listener makes of {self.name} is written, not returned", self.line)
        rec.add(Emit(self.name, terms, heard, line))
        return Nothing(self.name)  # type: ignore[return-value] # it is none, without its truth


HEARD = "heard"
"""The block of what a listener does."""
