"""A machine as a part of another: its text, run on a part of the other one's state.

::

    class Offload(Pool):
        host_free = Queue(HostBlock, init=True)
        host_ref_cnt = Map(HostBlock, to=Int)
        host = Part(Pool, null=none)

    self.host._take_head()                                # what Pool does with free, done with host_free
    self.host.keeps(Pool.free_exactly_when_unreferenced, c)  # what Pool promises, said of the host

What the other machine's text calls ``free`` is ``host_free`` here, where the state has a part of that name; what is
given a value, as ``null``, is that; all other state (parameters, what both share) is this machine's own. Methods,
properties and plain values are the other machine's, whatever this one has of these names. Sorts may differ, the form
may not: a queue stands for a queue, a map of one key for a map of one key. Where they differ they have no elements in
common: the text that says something for every block names the sort that it was written for, and would be taken for
something said of all host blocks if these were wider. Parts of the other machine, and counts of what is this machine's
own here, are declared in the same way: `host_waiting = Part(…)`, `host_used = Count(…)`.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from .called import to_be_called
from .declarations import Count, Declaration, Event, Map, Queue, Tally
from .mistakes import Line, MachineError, caller, is_asked_by_a_text, refuse_keeping
from .terms import Index, Sort

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from .language import Machine
    from .terms import Bool, Term

__all__ = ["Part", "check_part"]

T = TypeVar("T")

_ABSENT = object()


class Part:
    """A machine as a part of the machine in whose body it stands, on the state whose names begin with its own."""

    def __init__(self, machine: type[Machine], **constants: Any) -> None:
        self.machine = machine
        self.constants = constants
        """What has a fixed value in this part: a scalar of the other machine by its name."""
        self.name = "?"
        self.line: Line = caller()
        self.mixed: dict[type[Machine], dict[str, str]] = {}
        """By machine in which it stands: the counts that would count what is not of the part, and what they read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Machine, owner: type | None = None) -> Seen:
        if instance is None and is_asked_by_a_text():
            of = "a class" if owner is None else owner.__name__
            raise MachineError(f"{self.name} is asked of {of}, which is in no state: write self.{self.name}")
        return Seen(self, instance)


class Seen:
    """A part as the text of its machine sees it."""

    def __init__(self, part: Part, machine: Machine) -> None:
        vars(self).update(_part=part, _machine=machine)

    def __setattr__(self, name: str, value: object) -> None:
        raise MachineError(f"{self._part.name} has no {name} that could be written so; write an entry of its state")

    def __eq__(self, other: object) -> bool:
        if is_asked_by_a_text():
            raise MachineError(f"Python cannot compare what {self._part.name} is: compare what it holds, as in forall")
        return self is other

    def __hash__(self) -> int:
        refuse_keeping(self._part.name)
        return object.__hash__(self)

    def __bool__(self) -> bool:
        if is_asked_by_a_text():
            raise MachineError(f"{self._part.name} is neither true nor false: ask for something that it holds")
        return True

    def _seen_in(self, view: str) -> Seen:
        """The part as it looks at another state: that before the first round of a loop."""
        return Seen(self._part, type(self._machine)(view))

    def keeps(self, rule: Callable[..., Bool], *elements: Term) -> Bool:
        """What an invariant of the part's machine says, said of the part."""
        return rule(self, *elements)

    def __getattr__(self, name: str) -> Any:
        if name in self._part.constants:
            return _Fixed(f"{self._part.name}.{name}", self._part.constants[name])
        mixed = self._part.mixed.get(type(self._machine), {})
        if name in mixed:
            part, counted = self._part.name, mixed[name]
            raise MachineError(
                f"{part}.{name} would count what stands in {counted}, and that is {part}_{counted} here: declare "
                f"{part}_{name}"
            )
        own = f"{self._part.name}_{name}"
        # A method of that name is this machine's: the part's text does not know of it.
        if isinstance(inspect.getattr_static(type(self._machine), own, None), Declaration | Part):
            return getattr(self._machine, own)
        text = inspect.getattr_static(self._part.machine, name, _ABSENT)
        if text is _ABSENT or isinstance(text, Declaration | Part):
            return getattr(self._machine, name)
        # Methods, properties and plain values are the text of its machine, and say of the part what they say there.
        self._refuse_super(text)
        bind = getattr(type(text), "__get__", None)
        return text if bind is None else to_be_called(bind(text, self, self._part.machine), self._part.machine)

    def _refuse_super(self, text: object) -> None:
        """Of what `super()` names Python knows no part, but only the state of the machine by itself."""
        function = getattr(text, "fget", None) or getattr(text, "__func__", None) or text
        if isinstance(function, FunctionType) and "super" in function.__code__.co_names:
            raise MachineError(
                f"{function.__name__} of {self._part.machine.__name__} goes by way of super(), which knows nothing of "
                f"the part {self._part.name}: let the two share a method of another name",
                Line(function.__code__.co_filename, function.__code__.co_firstlineno),
            )


class _Fixed:
    """What has one value in this part, and is written by nobody."""

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value

    @property
    def value(self) -> Any:
        """The value."""
        return self._value

    @value.setter
    def value(self, _: object) -> None:
        raise MachineError(f"{self._name} has a fixed value here, and is written: declare it, as what it is elsewhere")


def check_part(machine: type[Machine], part: Part, counted: Mapping[str, Collection[str]]) -> None:
    """What stands for something of the part's machine has its form; constants stand for scalars, and name some.

    ``counted``: what each count of the part's machine reads.

    Raises:
        MachineError: the part's text would mean something else here.
    """
    part.mixed[machine] = {}
    named, meant = part.machine.__name__, _named(part.machine, Declaration)
    own = _named(machine, Declaration)
    for name in part.constants:
        scalar = meant.get(name)
        if not isinstance(scalar, Map) or scalar.kinds:
            raise MachineError(f"{part.name} gives {name} a value, which is no scalar of {named}", part.line)
        if f"{part.name}_{name}" in own:
            raise MachineError(
                f"{part.name} gives {name} a value, and {part.name}_{name} would stand for it too: leave one out",
                part.line,
            )
    for name, declared in meant.items():
        here = own.get(f"{part.name}_{name}")
        if here is None and name not in part.constants:
            here = own.get(name)
            if here is None:
                raise MachineError(
                    f"{part.name} is a {named} and has no {part.name}_{name}: declare it, or give it a value", part.line
                )
        if here is not None:
            _check_alike(here, declared, f"{named}.{name}")
    for name in _named(part.machine, Part):
        if f"{part.name}_{name}" not in _named(machine, Part):
            raise MachineError(
                f"{part.name} is a {named}, of which {name} is a part, and has no {part.name}_{name}: declare it, as "
                "another part",
                part.line,
            )
    for count, read in counted.items():
        others = [name for name in read if f"{part.name}_{name}" in own or name in part.constants]
        if others and f"{part.name}_{count}" not in own:
            part.mixed[machine][count] = others[0]


def _check_alike(here: Declaration, declared: Declaration, name: str) -> None:
    """What stands for something has its form, and of no sorts that could be taken for those in its text."""
    if _form(here) != _form(declared):
        raise MachineError(
            f"{here.name} is {_form(here)} and stands for {name}, {_form(declared)}: give it that form", here.line
        )
    for kind, written in zip(_sorts(here), _sorts(declared), strict=False):  # counts may have other keys
        if kind is not written and _may_be_mixed(kind, written):
            raise MachineError(
                f"{here.name} is of {kind.__name__} and stands for {name}, of {written.__name__}: what its text says "
                f"for every {written.__name__} would be said of those alone; give it that sort, or one that has "
                "nothing in common with it",
                here.line,
            )


def _sorts(declared: Declaration) -> tuple[type[Term], ...]:
    """The sorts of its keys, and of what it holds."""
    if isinstance(declared, Map):
        return (*declared.kinds, declared.to)
    if isinstance(declared, Queue):
        return (*declared.kinds, declared.of)
    return declared.kinds if isinstance(declared, Count) else ()


def _may_be_mixed(kind: type[Term], other: type[Term]) -> bool:
    """Elements of the one may be given for those of the other: indices are numbers, and a sort may have more of one."""
    if issubclass(kind, Sort) and issubclass(other, Sort):
        return kind.base is other.base
    return issubclass(kind, Index) and issubclass(other, Index)


def _named(machine: type[Machine], kind: type[T]) -> dict[str, T]:
    """What the bodies of the machine and of its bases declare of this kind."""
    found: dict[str, T] = {}
    for base in reversed(machine.__mro__):
        found |= {name: value for name, value in vars(base).items() if isinstance(value, kind)}
    return found


def _form(declared: Declaration) -> str:
    """A declaration without its sorts. A map may be fixed where the other one changes; what events carry may differ."""
    if isinstance(declared, Map | Queue):
        what = "queue" if isinstance(declared, Queue) else "tally" if isinstance(declared, Tally) else "map"
        return f"a {what} of {len(declared.kinds)} keys"
    return f"a{'n' if isinstance(declared, Event) else ''} {type(declared).__name__.lower()}"
