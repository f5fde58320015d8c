"""The body of a machine's class: whatever stands in it is read, or refused with its file and line.

Python lets a class body lose things without a word: the second of two methods of one name replaces the first, a
decorator above another may hide it, a subclass may put None in a method's place. A property that is lost so would be
"proved" by silence.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, partial, partialmethod
from types import CodeType, FrameType, FunctionType, MethodType, NoneType
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from .declarations import Declaration
from .fitting import is_within
from .mistakes import Line, MachineError, caller, is_asked_by_a_text
from .part import Part
from .recorder import is_kind
from .terms import RESULT, Real, Term

__all__ = [
    "Body",
    "MachineType",
    "annotated",
    "check_loose",
    "check_override",
    "check_returned",
    "check_said",
    "is_abstract",
    "is_read",
    "machines_loaded",
    "mark",
    "mark_of",
    "note_read",
    "own_text",
    "parameters_of",
    "what_is_returned",
]

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__kvproof__"

MARKED = "__kvproof_marked__"
"""In the namespace of a class, be it a machine or none: the methods that its body has put under a decorator."""

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
        self.taken_out: list[tuple[str, Line]] = []
        """What was deleted again: Python would say NameError of an exception that is raised there."""

    def __setitem__(self, key: str, value: Any) -> None:
        old = self.get(key)
        if old is not None and _is_part(old) and not _belongs_to(value, old):
            raise MachineError(
                f"{key} stands twice in {self.of}, and the second would replace the first{_place(old)}; "
                "give one of them another name"
            )
        if isinstance(value, Declaration | Part):
            self._check_declaration(key, value)
        elif not self.is_language and _is_language(key) and _is_part(value):
            raise MachineError(f"{key} is part of the language, and no machine can have one of its own")
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        if _is_part(self.get(key)):
            self.taken_out.append((key, caller()))
        super().__delitem__(key)

    def _check_declaration(self, key: str, value: Declaration | Part) -> None:
        if value.name not in ("?", key) or any(other is value for name, other in self.items() if name != key):
            raise MachineError(f"{key} is the same declaration as {_name_in(self, value)}: declare it anew")
        if key in TAKEN:
            raise MachineError(f"{key} means something else to a machine: give this part of the state another name")


def _name_in(body: Mapping[str, Any], value: Declaration | Part) -> str:
    return next((name for name, other in body.items() if other is value), value.name)


def _is_language(key: str) -> bool:
    """What a machine has from the language, or Python looks for by itself."""
    return key in LANGUAGE or (key.startswith("__") and key.endswith("__"))


def _is_part(value: object) -> bool:
    """A method, or a part of the state."""
    said = (Declaration, Part, staticmethod, classmethod, property, partialmethod, cached_property)
    return isinstance(value, said) or (callable(value) and not isinstance(value, type))


def _belongs_to(new: object, old: object) -> bool:
    """The new value is made of the old one, as a property that gets its setter, or follows an ``@overload``."""
    if isinstance(new, property) and isinstance(old, property):
        return new.fget is old.fget
    return getattr(old, "__name__", "") == "_overload_dummy"


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
        for function in body.get(MARKED, ()):
            _check_kept(name, function, body)
        made = super().__new__(cls, name, bases, dict(body), **more)
        _abstract[made] = abstract
        for key, value in body.items():
            check_override(made, key, value)
        return made

    def __setattr__(cls, name: str, value: object) -> None:
        """What a class says is said by its body; something new may be added until it is read."""
        cls._check_said(name, vars(cls).get(name) is value)
        if is_asked_by_a_text() and not name.startswith("__"):  # those are what Python notes for itself
            raise MachineError(
                f"{cls.__name__}.{name} outlives this text, which is read once and not for each step, and is bound "
                "anew by it: keep it as a part of the state"
            )
        if _is_part(value) and _is_language(name):
            raise MachineError(f"{name} is part of the language, and {cls.__name__} cannot have one of its own")
        if _is_part(value) and cls in _read:
            raise MachineError(f"{cls.__name__} has been read, and would not be read again for {name}: say it before")
        super().__setattr__(name, value)
        if isinstance(value, Part):  # Of what stands in the body Python tells it its name.
            value.__set_name__(cls, name)

    def __delattr__(cls, name: str) -> None:
        cls._check_said(name, False)
        super().__delattr__(name)

    def _check_said(cls, name: str, is_same: bool) -> None:
        if _is_part(vars(cls).get(name)) and not is_same:
            raise MachineError(f"{name} stands in the body of {cls.__name__}, and cannot be taken out of it afterwards")


_abstract: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


_read: WeakSet[type] = WeakSet()


def note_read(machine: type) -> None:
    """The text of the machine, and so of all that it extends, is taken down: what would be added later is refused."""
    _read.update(base for base in machine.__mro__ if isinstance(base, MachineType))


def is_read(base: type) -> bool:
    """The class was part of a machine that was read: it was found to be in order then, and has not changed since."""
    return base in _read


def machines_loaded() -> list[type]:
    """All machines, and parts of their texts, that there are."""
    return [*_abstract]


def is_abstract(machine: type) -> bool:
    """The class is a part of the text of machines that extend it, and none by itself."""
    return _abstract.get(machine, False)


def own_text(machine: type) -> list[type]:
    """The classes in which a machine's own text stands: its own, and the parts into which that is divided."""
    rest = machine.__mro__[1:]
    whole = next((i for i, base in enumerate(rest) if not is_abstract(base)), len(rest))
    return [machine, *rest[:whole]]


def check_said(base: type) -> None:
    """What the body of a class has put under a decorator is still there, and nothing else has such a method inside it.

    Raises:
        MachineError: something of it would never be read.
    """
    said = vars(base)
    for function in said.get(MARKED, ()):
        _check_kept(base.__name__, function, said)
    for name, value in said.items():
        if name == MARKED:
            continue
        function = next(_marked_inside(value), None)
        if function is not None and value is not function:
            raise MachineError(
                f"{function.__name__} is under @{getattr(function, MARK)['name']} and stands inside of {name} in "
                f"{base.__name__}, where it is never read: let it be a method of the class itself",
                _line_of(function),
            )
        if function is not None and name.startswith("__"):
            raise MachineError(f"{name} is a name of Python's own: give this method another one", _line_of(function))
        if not isinstance(base, MachineType) and _is_language(name) and _is_part(value):
            raise MachineError(
                f"{name} of {base.__name__} is part of the language, and no machine can have one of its own",
                _line_of(value) if isinstance(value, FunctionType) else None,
            )


def check_loose(machine: type) -> None:
    """No method stands beside the classes in the file of a machine, as one does that is not indented as it should be.

    Raises:
        MachineError: one is in no class, and would never be read.
    """
    for module in dict.fromkeys(base.__module__ for base in machine.__mro__):
        names = vars(sys.modules[module]) if module in sys.modules else {}
        for value in [*names.values()]:
            if isinstance(value, FunctionType) and hasattr(value, MARK) and value.__globals__ is names:
                _check_adopted(value)


def _check_adopted(function: FunctionType) -> None:
    classes = {base for machine in _abstract for base in machine.__mro__}
    if not any(value is function for base in classes for value in vars(base).values()):
        kind = getattr(function, MARK)["name"]
        raise MachineError(
            f"{function.__name__} is under @{kind} and in no machine: indent it as the other methods are",
            _line_of(function),
        )


def _marked_inside(value: object, depth: int = 3) -> Iterator[FunctionType]:
    """The methods under a decorator in a value: itself, or in what is wrapped around it, or that holds it."""
    if isinstance(value, FunctionType) and hasattr(value, MARK):
        yield value
    elif depth:
        for inside in _held(value):
            yield from _marked_inside(inside, depth - 1)


def _held(value: object) -> Iterable[object]:
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, type):  # a class inside the class; a machine is read by itself
        return () if isinstance(value, MachineType) else vars(value).get(MARKED, ())
    wrappers = (staticmethod, classmethod, partial, partialmethod, cached_property, MethodType)
    inside = getattr(value, "__func__", None) or getattr(value, "func", None)
    return (inside,) if isinstance(value, wrappers) else ()


def _line_of(function: FunctionType) -> Line:
    return Line(function.__code__.co_filename, function.__code__.co_firstlineno)


def _check_kept(machine: str, function: FunctionType, body: Mapping[str, Any]) -> None:
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
    if not isinstance(rule, str) or not rule.isprintable():
        raise MachineError(f'@{name} names the rule that the method writes down, as in @{name}("P3")')

    def decorate(function: F) -> F:
        if not inspect.isfunction(function):
            raise MachineError(f"@{name} stands over a plain method, not over {function!r}")
        if hasattr(function, MARK):
            raise MachineError(f"{function.__name__} stands under @{name} and @{getattr(function, MARK)['name']}")
        if MachineError.where_in:
            raise MachineError(
                f"@{name} stands inside another text: {function.__name__} belongs into the body of a class"
            )
        frame = sys._getframe(1)
        line = Line(frame.f_code.co_filename, frame.f_lineno)
        setattr(function, MARK, {"name": name, "kind": kind, "rule": rule, "line": line, **more})
        body = _body_around(frame)
        if body is not None:
            body.setdefault(MARKED, []).append(function)
        return function

    return decorate


def _body_around(frame: FrameType | None) -> dict[str, Any] | None:
    """The namespace of the class body that is being run, be it that it has called a function; None: there is none."""
    while frame is not None and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame = frame.f_back
    return frame.f_locals if frame is not None and "__qualname__" in frame.f_locals else None


def mark_of(machine: type, name: str, member: Any) -> dict[str, Any] | None:
    """What the decorator says of a method. An override without a decorator keeps what its original says of it."""
    own: dict[str, Any] | None = getattr(member, MARK, None)
    if own is not None:
        return own
    above = next((m for b in machine.__mro__ if (m := getattr(vars(b).get(name), MARK, None))), None)
    return above and above | {"line": Line(member.__code__.co_filename, member.__code__.co_firstlineno)}


_hints = cache(typing.get_type_hints)
"""What the annotations of a function are: many machines inherit it, and ask each time."""


@cache
def annotated(function: Callable[..., Any]) -> list[tuple[str, inspect.Parameter, Any]]:
    """The parameters of a function, with what their annotations are."""
    hints = _hints(function)
    return [(name, declared, hints.get(name)) for name, declared in inspect.signature(function).parameters.items()]


def check_returned(function: Callable[..., Any], name: str, returned: type[Term] | None, line: Line) -> None:
    """A method returns what its annotation says, where it has one.

    Raises:
        MachineError: it returns something else.
    """
    said = _hints(function).get("return")
    if not isinstance(said, type) or not issubclass(said, (Term, NoneType)):
        return
    # What is returned may be of a narrower type than is said, and of no wider one.
    if not is_within(NoneType if returned is None else returned, said):
        promised, found = what_is_returned(said), what_is_returned(returned)
        raise MachineError(f"{name} says that it returns {promised}, and returns {found}", line)


def what_is_returned(kind: type | None) -> str:
    """What is returned, as it is said."""
    return "nothing" if kind is None or kind is NoneType else f"a {kind.__name__}"


def parameters_of(function: Callable[..., Any], name: str, line: Line, *, skip: int = 0) -> dict[str, type[Term]]:
    """The parameters of a method and their sorts, without the first ones.

    Raises:
        MachineError: one has no sort.
    """
    try:
        parameters = annotated(function)
    except NameError as error:
        raise MachineError(f"unknown sort in the parameters of {name}: {error}", line) from None
    if len(parameters) < skip:
        first = ("self", "the state before the step")[:skip]
        raise MachineError(f"{name} lacks a parameter: it begins with {' and '.join(first)}", line)
    if skip > 1 and is_kind(parameters[1][2]):
        raise MachineError(f"the second parameter of {name} is the state before the step, and none of a sort", line)
    if skip > 1 and (parameters[0][0] == "before" or parameters[1][0] in ("self", "after")):
        raise MachineError(
            f"{name} gets the state after the step first, and then that before: write `def {name}(self, before, …)`",
            line,
        )
    kinds: dict[str, type[Term]] = {}
    for parameter, declared, kind in parameters[skip:]:
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
