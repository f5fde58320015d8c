"""The body of a machine's class: whatever stands in it is read, or refused with its file and line.

Python lets a class body lose things without a word: the second of two methods of one name replaces the first, a
decorator above another may hide it, a subclass may put None in a method's place. A property that is lost so would be
"proved" by silence.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from functools import cache
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from .declarations import Declaration
from .mistakes import Line, MachineError, caller
from .part import Part
from .recorder import is_kind
from .terms import RESULT, Real, Term

__all__ = ["Body", "MachineType", "check_override", "is_abstract", "mark", "mark_of", "own_text", "parameters_of"]

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__kvproof__"

LANGUAGE = frozenset({"require", "each", "loop", "view"})
"""What every machine has from the language."""

TAKEN = LANGUAGE | {"copy", "result"}
"""Names that mean something else to a machine or to its states, and that no part of the state can have."""


class Body(dict[str, Any]):
    """The namespace of a class body that is being run."""

    def __init__(self, name: str, *, is_language: bool = False) -> None:
        super().__init__()
        self.of = name
        self.is_language = is_language
        """It is the body of `Machine` itself."""
        self.marked: list[FunctionType] = []
        """The methods under one of the language's decorators, in order."""
        self.taken_out: list[tuple[str, Line]] = []
        """What was deleted again: Python would say NameError of an exception that is raised there."""

    def __setitem__(self, key: str, value: Any) -> None:
        old = self.get(key)
        if old is not None and _is_part(old) and not _belongs_to(value, old):
            raise MachineError(
                f"{key} stands twice in {self.of}, and the second would replace the first{_place(old)}; "
                "give one of them another name"
            )
        if isinstance(value, Declaration):
            self._check_declaration(key, value)
        elif self._is_language(key) and _is_part(value):
            raise MachineError(f"{key} is part of the language, and no machine can have one of its own")
        super().__setitem__(key, value)

    def _is_language(self, key: str) -> bool:
        return not self.is_language and (key in LANGUAGE or (key.startswith("__") and key.endswith("__")))

    def __delitem__(self, key: str) -> None:
        if _is_part(self.get(key)):
            self.taken_out.append((key, caller()))
        super().__delitem__(key)

    def _check_declaration(self, key: str, value: Declaration) -> None:
        if value.name not in ("?", key) or any(other is value for name, other in self.items() if name != key):
            raise MachineError(f"{key} is the same declaration as {_name_in(self, value)}: declare it anew")
        if key in TAKEN:
            raise MachineError(f"{key} means something else to a machine: give this part of the state another name")


def _name_in(body: Mapping[str, Any], value: Declaration) -> str:
    return next((name for name, other in body.items() if other is value), value.name)


def _is_part(value: object) -> bool:
    """A method, or a part of the state."""
    return isinstance(value, Declaration | Part | staticmethod | classmethod | property) or (
        callable(value) and not isinstance(value, type)
    )


def _belongs_to(new: object, old: object) -> bool:
    """The new value is made of the old one, as a property that gets its setter, or follows an ``@overload``."""
    return (isinstance(new, property) and isinstance(old, property)) or getattr(
        old, "__name__", ""
    ) == "_overload_dummy"


def _place(value: object) -> str:
    if isinstance(value, Declaration):
        return f" (line {value.line.number})"
    code = getattr(_innermost(value), "__code__", None)
    return f" (line {code.co_firstlineno})" if isinstance(code, CodeType) else ""


def _innermost(value: object) -> object:
    """The plain function that is wrapped, as by a property or a decorator."""
    while True:
        inside = getattr(value, "fget", None) or getattr(value, "__wrapped__", None) or getattr(value, "__func__", None)
        if inside is None:
            return value
        value = inside


class MachineType(type):
    """The type of machines: refuses bodies of which something would be lost."""

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **_: Any) -> Body:
        """The namespace in which the body runs."""
        return Body(name, is_language=not bases)

    def __new__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], /, abstract: bool = False, **more: Any
    ) -> MachineType:
        """Make the class, if nothing of its body is lost. ``abstract``: it is a part of the text of others."""
        if isinstance(body, Body):  # and not made by a call of type(…), with a plain dictionary
            for key, line in body.taken_out:
                raise MachineError(f"{key} cannot be taken out of {name} again: leave it out", line)
            for function in body.marked:
                _check_kept(name, function, body)
        made = super().__new__(cls, name, bases, dict(body), **more)
        _abstract[made] = abstract
        for key, value in body.items():
            check_override(made, key, value)
        return made


_abstract: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def is_abstract(machine: type) -> bool:
    """The class is a part of the text of machines that extend it, and none by itself."""
    return _abstract.get(machine, False)


def own_text(machine: type) -> list[type]:
    """The classes in which a machine's own text stands: its own, and the parts into which that is divided."""
    rest = machine.__mro__[1:]
    whole = next((i for i, base in enumerate(rest) if not is_abstract(base)), len(rest))
    return [machine, *rest[:whole]]


def _check_kept(machine: str, function: FunctionType, body: Body) -> None:
    """The method is still there, and nothing else is wrapped around it."""
    kept = next((value for value in body.values() if _innermost(value) is function), None)
    kind = getattr(function, MARK)["name"]
    line = Line(function.__code__.co_filename, function.__code__.co_firstlineno)
    if kept is None:
        raise MachineError(f"{function.__name__} of {machine} is lost, and @{kind} with it: it has no name there", line)
    if kept is not function:
        raise MachineError(f"@{kind} stands over a plain method: put nothing around {function.__name__}", line)


def check_override(machine: type, name: str, value: object) -> None:
    """What a base promises or does, a subclass does too: in its own way, but not less.

    Raises:
        MachineError: the value takes the place of a method of another kind.
    """
    part = next((d for b in machine.__mro__[1:] if isinstance(d := vars(b).get(name), Declaration)), None)
    if part is not None and not isinstance(value, Declaration):
        raise MachineError(
            f"{name} is part of the state of a class that {machine.__name__} extends; a subclass can declare it anew, "
            "and not take it away"
        )
    above = next((m for b in machine.__mro__[1:] if (m := getattr(vars(b).get(name), MARK, None))), None)
    if above is None:
        return
    said = f"{name} is under @{above['name']} in a class that {machine.__name__} extends"
    if not isinstance(value, FunctionType):
        raise MachineError(f"{said}; a subclass can write it anew, and not take it away")
    own = getattr(value, MARK, above)
    if own["kind"] != above["kind"]:
        line = Line(value.__code__.co_filename, value.__code__.co_firstlineno)
        raise MachineError(f"{said}, and under @{own['name']} here: give one of them another name", line)


# ------------------------------------------------------------------------------------------------ decorators


def mark(name: str, kind: str, rule: object, **more: object) -> Callable[[F], F]:
    """A decorator that says what a method is; ``Model.of`` looks for it."""
    if not isinstance(rule, str):
        raise MachineError(f'@{name} names the rule that the method writes down, as in @{name}("P3")')

    def decorate(function: F) -> F:
        if not inspect.isfunction(function):
            raise MachineError(f"@{name} stands over a plain method, not over {function!r}")
        if hasattr(function, MARK):
            raise MachineError(f"{function.__name__} stands under @{name} and @{getattr(function, MARK)['name']}")
        frame = sys._getframe(1)
        line = Line(frame.f_code.co_filename, frame.f_lineno)
        setattr(function, MARK, {"name": name, "kind": kind, "rule": rule, "line": line, **more})
        if isinstance(frame.f_locals, Body):
            frame.f_locals.marked.append(function)
        return function

    return decorate


def mark_of(machine: type, name: str, member: Any) -> dict[str, Any] | None:
    """What the decorator says of a method. An override without a decorator keeps what its original says of it."""
    own: dict[str, Any] | None = getattr(member, MARK, None)
    if own is not None:
        return own
    above = next((m for b in machine.__mro__ if (m := getattr(vars(b).get(name), MARK, None))), None)
    return above and above | {"line": Line(member.__code__.co_filename, member.__code__.co_firstlineno)}


@cache
def _annotated(function: Callable[..., Any]) -> list[tuple[str, inspect.Parameter, Any]]:
    """The parameters of a function, with what their annotations are: many machines inherit it, and ask each time."""
    hints = typing.get_type_hints(function)
    return [(name, declared, hints.get(name)) for name, declared in inspect.signature(function).parameters.items()]


def parameters_of(function: Callable[..., Any], name: str, line: Line, *, skip: int = 0) -> dict[str, type[Term]]:
    """The parameters of a method and their sorts, without the first ones.

    Raises:
        MachineError: one has no sort.
    """
    try:
        parameters = _annotated(function)[skip:]
    except NameError as error:
        raise MachineError(f"unknown sort in the parameters of {name}: {error}", line) from None
    kinds: dict[str, type[Term]] = {}
    for parameter, declared, kind in parameters:
        if declared.kind not in (declared.POSITIONAL_ONLY, declared.POSITIONAL_OR_KEYWORD):
            raise MachineError(
                f"parameter {parameter} of {name} is {declared.kind.description}: name each by itself", line
            )
        if declared.default is not declared.empty:
            raise MachineError(f"parameter {parameter} of {name} has a default, which nothing would use", line)
        # A number of any kind may be what an action returns; nothing chooses an exact number as an argument.
        if not is_kind(kind) and not (parameter == RESULT and kind is Real):
            raise MachineError(
                f"parameter {parameter} of {name} needs a sort, Int or Bool as its annotation, not {kind!r}", line
            )
        kinds[parameter] = cast("type[Term]", kind)
    return kinds
