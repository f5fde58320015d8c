"""Blocks of a machine's text: `when`, `otherwise`, `each` and `loop`, which a `with` opens and ends.

The text is run once, for all states. So a block is entered, and it is left at its end only: what stands behind a
`return` out of a `when` would be lost for the other way too.
"""

from __future__ import annotations

import ast
import dis
import operator
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from types import CodeType, FrameType, TracebackType
from typing import ParamSpec, TypeVar

from .holding import FIXED, held
from .mistakes import Line, MachineError, caller, is_tool
from .recorder import Recorder, recorder
from .source import WITH, does, function_of
from .terms import Term

__all__ = ["block"]

P = ParamSpec("P")
R = TypeVar("R")


class _Block(AbstractContextManager[R]):
    """A block that has to be entered."""

    def __init__(self, name: str, inside: AbstractContextManager[R], rec: Recorder) -> None:
        self._inside, self._rec, self._note = inside, rec, (name, caller())
        rec.waiting.append(self._note)

    def __bool__(self) -> bool:
        raise MachineError(
            f"`{self._note[0]}` is neither true nor false, and `and` and `or` would leave one of two blocks out: put a "
            "comma between them, or & or | between their conditions"
        )

    def __iter__(self) -> Iterator[R]:
        raise MachineError(f"Python cannot go through `{self._note[0]}`: write `with self.{self._note[0]}(…) as …:`")

    def __enter__(self) -> R:
        if self._note in self._rec.waiting:
            self._rec.waiting.remove(self._note)
        _refuse_early_exits(self._note[0])
        self._entered = self._inside.__enter__()
        self._around = [_Moment.of(frame) for frame in _texts()]
        return self._entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        done = self._inside.__exit__(kind, error, trace)
        if error is None:
            for moment in self._around:
                self._refuse_names(moment)
        return done

    def _refuse_names(self, before: _Moment) -> None:
        """No name is bound inside the block that has another value outside of it, where the block is not run.

        Raises:
            MachineError: the text goes on with what was bound inside.
        """
        frame, name = before.frame, self._note[0]
        for bound, value in _names_in(frame).items():
            is_new = bound not in before.names
            is_same = before.is_same(bound, value) and not _is_advanced(frame, bound, value, since=before.at)
            if value is self._entered or is_same or self._has_home(value):
                continue
            used = _first_use(frame.f_code, bound, after=frame.f_lasti)
            if used is None and name in ("each", "loop") and not is_new:
                used = _first_use(frame.f_code, bound, after=before.at)
            if used is not None:
                how = "bound" if is_new or before.names[bound] is not value else "changed"
                raise MachineError(
                    f"{bound} is {how} inside a `{name}`, and would be the same outside of it, or in its next round, "
                    "in every state: the text is read once for all of them; use `ite`, or a part of the state",
                    Line(frame.f_code.co_filename, used),
                )

    def _has_home(self, value: object) -> bool:
        """It is a value that was read inside: whatever uses it outside is refused for that."""
        return isinstance(value, Term) and not self._rec.may_use(value)


@dataclass(frozen=True)
class _Moment:
    """A function that is being run: where it was, and what its names were."""

    frame: FrameType
    at: int
    names: dict[str, object]
    held: dict[str, tuple[object, ...]]
    """What those of them hold that may come to hold something else."""

    @staticmethod
    def of(frame: FrameType) -> _Moment:
        names = _names_in(frame)
        return _Moment(frame, frame.f_lasti, names, {name: held(value) for name, value in names.items()})

    def is_same(self, name: str, value: object) -> bool:
        """The name stands for what it stood for then, and that holds what it held."""
        if name not in self.names or self.names[name] is not value:
            return False
        then, now = self.held[name], held(value)
        return len(then) == len(now) and all(map(operator.is_, then, now))


def _names_in(frame: FrameType) -> dict[str, object]:
    """What the names of a function stand for, those of its module too that it uses."""
    module = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
    return {name: value for name, value in module.items() if not isinstance(value, FIXED)} | frame.f_locals


@cache
def _uses(code: CodeType) -> dict[str, list[tuple[int, int, bool]]]:
    """For each name of a function: where it stands in the code, in which line, and whether it is bound there."""
    found: dict[str, list[tuple[int, int, bool]]] = {}
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        line = line if step.positions is None or step.positions.lineno is None else step.positions.lineno
        if step.opname.startswith(_NAMED) and step.opname != "LOAD_FAST_AND_CLEAR":  # that puts a name aside
            names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            for name, word in zip(names, _WORDS.findall(step.opname), strict=True):  # two, in newer releases of Python
                found.setdefault(name, []).append((step.offset, line, word == "STORE"))
    return found


_NAMED = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_GLOBAL", "STORE_FAST", "STORE_DEREF", "STORE_GLOBAL")
_WORDS = re.compile("LOAD|STORE")


def _first_use(code: CodeType, name: str, *, after: int) -> int | None:
    """The line on which the name is used next behind this place; None: it is bound anew before that, or not used."""
    for offset, line, is_bound in _uses(code).get(name, ()):
        if offset > after:
            return None if is_bound else line
    return None


def _is_advanced(frame: FrameType, name: str, value: object, *, since: int) -> bool:
    """It is an iterator, and stands in the block: whoever goes through it leaves it elsewhere than it was."""
    stands_there = (since < offset <= frame.f_lasti for offset, _, _ in _uses(frame.f_code).get(name, ()))
    return hasattr(type(value), "__next__") and any(stands_there)


def block(statements: Callable[P, Iterator[R]]) -> Callable[P, AbstractContextManager[R]]:
    """A block of the language from what happens around its statements."""
    inside = contextmanager(statements)

    @wraps(statements)
    def make(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[R]:
        rec = recorder()
        try:
            begun = inside(*args, **kwargs)
        except TypeError as error:  # nothing of it has been run: Python has found that the call is not as it should be
            raise MachineError(f"{error}: {_WRITTEN.get(statements.__name__, 'see docs/guide.md')}") from None
        return _Block(statements.__name__, begun, rec)

    return make


_WRITTEN = {
    "when": "write `with when(condition):`",
    "otherwise": "write `with otherwise():`, right after the `when` whose condition does not hold",
    "each": "write `with self.each(Block) as b:`",
    "loop": "write `with self.loop(n) as loop:`",
}

_READERS = ("read", "reported", "speaking_of", "with_action")
"""The functions of `reading.py` that run the text of a machine: what called them is no part of it."""


def _refuse_early_exits(name: str) -> None:
    """Refuse `return`, `break` and `continue` out of a block in the text that is being read.

    Raises:
        MachineError: there is one in a function in which the block is opened, be it by way of a helper.
    """
    for frame in _texts():
        code = frame.f_code
        for number, word, called in _early_exits(code):
            raise MachineError(
                f"`{word}` leaves a `{called or name}` before its end: the text is read once for all states, so "
                "whatever stands behind it would be lost; say it with conditions",
                Line(code.co_filename, number),
            )


def _texts() -> Iterator[FrameType]:
    """The functions of the text that is being read, from the innermost on."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if not is_tool(frame.f_code.co_filename):
            yield frame
        elif frame.f_code.co_name in _READERS:
            return


@cache
def _early_exits(code: CodeType) -> tuple[tuple[int, str, str], ...]:
    """The exits out of any `with`, or out of a `try` that ends one: line, word, and the block by its own name."""
    if not does(code, WITH):
        return ()
    function = function_of(code)
    if function is None:
        raise MachineError(
            f"{code.co_name} opens a block, and its source is not at hand, so that nothing shows whether that is left "
            "before its end: put the text into a file",
            Line(code.co_filename, code.co_firstlineno),
        )
    return tuple(_exits(function.body, None, in_loop=False))


def _exits(body: list[ast.stmt], block: str | None, *, in_loop: bool) -> Iterator[tuple[int, str, str]]:
    """``block``: the one in which these statements stand; ``in_loop``: in a loop of Python, within it."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if block is not None and isinstance(node, ast.Return):
            yield node.lineno, "return", block
        if block is not None and isinstance(node, ast.Break | ast.Continue) and not in_loop:
            yield node.lineno, type(node).__name__.lower(), block
        here, loop = block, in_loop or isinstance(node, ast.For | ast.While)
        if isinstance(node, ast.With):
            here, loop = _called(node), False
        elif isinstance(node, ast.Try) and node.finalbody:
            here, loop = block or "", loop and block is not None
        for part in ("body", "orelse", "finalbody"):
            yield from _exits(getattr(node, part, []), here, in_loop=loop)
        for branch in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            yield from _exits(branch.body, here, in_loop=loop)


def _called(node: ast.With) -> str:
    """The block of the language that the `with` opens by its own name, or nothing."""
    for item in node.items:
        called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if name in ("when", "otherwise", "each", "loop"):
            return name
    return ""
