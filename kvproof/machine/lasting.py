"""What outlives the text of a machine, and may hold something: no text changes it.

The text of an action is run once, and not for each of its steps. What it counts in a variable of the class, in a list
of the module or in an argument's default it counts once, and the next text finds it as this one has left it. An
iterator that is gone through twice has nothing left for the second text: a property that goes through it would say
nothing at all.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from types import CodeType, FunctionType, ModuleType

from .holding import FIXED, held, holds_unseen, is_class_of_text, is_iterator, may_keep
from .instructions import numbers_for, numbers_of, one_of, steps_of, with_those_inside
from .mistakes import Line, MachineError
from .source import is_of_others
from .untold import names_in, texts_of

__all__ = ["Lasting"]

_ABSENT = object()


@dataclass(frozen=True)
class _Root:
    """Something that a text names: how, by what it is held (several may have one name), what it was, and what that
    held."""

    label: str
    place: int
    now: Callable[[], object]
    then: object
    held: tuple[object, ...]

    def is_same(self) -> bool:
        value = self.now()
        if value is not self.then:
            return False
        holds = held(value)
        return len(holds) == len(self.held) and all(map(operator.is_, holds, self.held))


class Lasting:
    """What the texts of a machine find, and share with each other."""

    def __init__(self, machines: Iterable[type], functions: Iterable[FunctionType]) -> None:
        self._functions = [*functions]
        self.texts = [*texts_of(self._functions)]
        self._names = frozenset[str]().union(*(names_in(text.__code__) for text in self.texts))
        roots = chain(*map(_roots_of, self.texts), *map(self._variables_of, machines))
        self._roots = [*{(root.label, root.place): root for root in roots}.values()]
        for root in self._roots:
            if any(map(is_iterator, (root.then, *root.held))):
                self._refuse_iterator(root.label)

    def is_all_seen(self) -> bool:
        """Nothing that the texts name may come to be something else without being seen."""
        return not any(holds_unseen(root.then) for root in self._roots) and all(map(_is_seen, self.texts))

    def _variables_of(self, machine: type) -> Iterator[_Root]:
        """The plain variables of the class that some text may name."""
        for base in machine.__mro__:
            for name, value in vars(base).items():
                if name in self._names and not isinstance(value, FIXED) and _is_plain(value):
                    yield _root(f"{base.__name__}.{name}", base, partial(_variable, base, name))

    def check(self, functions: Iterable[FunctionType] = ()) -> None:
        """All is as it was before these functions were run; left out: any of them.

        Raises:
            MachineError: one of them has changed something.
        """
        for root in self._roots:
            if not root.is_same():
                raise MachineError(
                    f"{root.label} is changed by this text, and outlives it: the text is read once, and not for each "
                    "step; keep it as a part of the state",
                    _use_of(root.label, functions) or _use_of(root.label, self._functions),
                )

    def _refuse_iterator(self, label: str) -> None:
        """Refuse it if a text goes through it."""
        line = _use_of(label, self._functions)
        if line is not None:
            raise MachineError(
                f"{label} is an iterator, or holds one, and whoever goes through it leaves nothing of it for the next "
                "text: make it a tuple",
                line,
            )


def _root(label: str, holder: object, now: Callable[[], object]) -> _Root:
    value = now()
    return _Root(label, id(holder), now, value, held(value))


def _may_change(value: object) -> bool:
    """It is something of the text's own; also a function, or a class that is no machine, for what is noted there."""
    if isinstance(value, type):
        return is_class_of_text(value)
    if isinstance(value, FunctionType):
        return not is_of_others(value.__code__.co_filename)
    return not isinstance(value, ModuleType) and _is_plain(value)


def _is_plain(value: object) -> bool:
    """It is none of the language's own, as a part of the state is, which sees to itself."""
    return not type(value).__module__.startswith(f"{__package__}.")


def _variable(of: type, name: str) -> object:
    return vars(of).get(name, _ABSENT)


def _roots_of(text: FunctionType) -> Iterator[_Root]:
    """What a function finds outside of itself: in its module and in others, around it, and as its defaults."""
    names = names_in(text.__code__)
    for name in names & text.__globals__.keys():
        value = text.__globals__[name]
        if isinstance(value, ModuleType):
            yield from _roots_in(name, value, names)
        elif _may_change(value):
            yield _root(name, text.__globals__, partial(text.__globals__.get, name, _ABSENT))
    for name, cell in zip(text.__code__.co_freevars, text.__closure__ or (), strict=True):
        if _may_change(_content(cell)):
            yield _root(name, cell, partial(_content, cell))
    for value in (*(text.__defaults__ or ()), *(text.__kwdefaults__ or {}).values()):
        if _is_plain(value):
            yield _root(f"a default of {text.__name__}", value, partial(_itself, value))


def _roots_in(name: str, module: ModuleType, names: frozenset[str]) -> Iterator[_Root]:
    """What a module of the text's own holds."""
    file = getattr(module, "__file__", None)
    if file is None or is_of_others(file):
        return
    for inside in names & vars(module).keys():
        if _may_change(vars(module)[inside]):
            yield _root(f"{name}.{inside}", module, partial(vars(module).get, inside, _ABSENT))


_REACHES_FAR = {"__import__", "eval", "exec", "globals", "input", "open", "vars"}
"""What a text calls to find, or to keep, something that it does not name."""

_IMPORTS = re.compile(one_of(numbers_for("IMPORT_NAME".__eq__)))


def _is_seen(text: FunctionType) -> bool:
    """It names nothing that may keep something between its calls, and into which nobody can look."""
    names = names_in(text.__code__)
    if not _REACHES_FAR.isdisjoint(names - text.__globals__.keys()):
        return False
    if any(may_keep(text.__globals__[name]) for name in names & text.__globals__.keys()):
        return False
    return not any(_IMPORTS.search(numbers_of(code)) for code in with_those_inside(text.__code__))


def _itself(value: object) -> object:
    return value


def _content(cell: object) -> object:
    try:
        return cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:  # nothing is in it yet
        return _ABSENT


def _use_of(label: str, functions: Iterable[FunctionType]) -> Line | None:
    """The first line on which one of them, or of those that they call, names it."""
    for text in texts_of(functions):
        if label == f"a default of {text.__name__}":
            return Line(text.__code__.co_filename, text.__code__.co_firstlineno)
        for code in with_those_inside(text.__code__):
            number = _lines_of(code).get(label.rpartition(".")[2])
            if number is not None:
                return Line(code.co_filename, number)
    return None


@cache
def _lines_of(code: CodeType) -> dict[str, int]:
    """By name: the first line on which it is read from outside of the function."""
    found: dict[str, int] = {}
    for step in steps_of(code):
        if step.opname in _READS and step.positions is not None and step.positions.lineno is not None:
            found.setdefault(step.argval, step.positions.lineno)
    return found


_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF", "STORE_ATTR")
