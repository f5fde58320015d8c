"""A Promela file while it is written: its variables, its lines, its assertions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...machine import Index, Int, Map, Property, Real
from ...machine.mistakes import Line
from ...machine.terms import Term, number_of
from .bounded import NONE, TRUE, Expr, TooLarge, both, constant
from .promela_terms import Array, Cells, Fixed, Store, Terms
from .setting import Names, Refused, Setting, one_line

__all__ = ["PromelaFile", "narrowest", "refusing", "said"]

LARGEST = 64_000_000
"""Characters of a model. More is no text that Spin and a C compiler would come to an end with."""


class PromelaFile:
    """What a file has so far."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.lines: list[str] = []
        self.length = 0
        self.names = Names()
        self.declared: dict[str, tuple[str, list[Expr]]] = {}
        """Each variable: its type, and its first values."""
        self.beside: dict[str, str] = {}
        """What the variables that are no part of a state are called."""
        self.temporaries: list[tuple[int, int]] = []
        """The least and the greatest value of each."""
        self.state = Store(self._variables())

    def put(self, line: str) -> None:
        """Add a line.

        Raises:
            Refused: there are too many.
        """
        self.length += len(line)
        if self.length > LARGEST:
            raise Refused(
                f"{self.setting.model.name} takes more than {LARGEST:,} characters in this scope, when all is written "
                "out; give smaller sizes"
            )
        self.lines.append(line)

    # ------------------------------------------------------------------------------------------------ variables

    def _variables(self) -> dict[str, Cells]:
        """Where everything is read that is not in the middle of a step."""
        setting, model = self.setting, self.setting.model
        cells: dict[str, Cells] = {name: Fixed(self.first(name)) for name in model.maps}
        for name in setting.state():
            mapping = model.maps[name]
            kind = narrowest(*self.widest(mapping))
            cells[name] = self._declare(f"s_{name}", kind, self.first(name), *self.bounds(mapping))
        for name, queue in model.queues.items():
            capacity, queues = setting.scope.size(queue.of), setting.first[name]
            self._check_size(queue.of, capacity)
            places = [p for q in queues for p in (*map(constant, q), *[NONE] * (capacity - len(q)))]
            sizes = [constant(len(q)) for q in queues]
            cells[name] = self._declare(f"s_{name}", "byte", places, 0, NONE.hi)
            cells[f"{name}.size"] = self._declare(f"s_{name}_n", "byte", sizes, 0, capacity)
        return cells

    def _declare(self, wanted: str, kind: str, values: list[Expr], lo: int, hi: int) -> Array:
        name = self.names.new(wanted)
        self.declared[name] = (kind, values)
        return Array(name, lo, hi, len(values))

    def rest(self, wanted: str, kind: str, values: list[Expr], lo: int, hi: int) -> Array:
        """A variable beside the state, the same for every step. It has these values whenever a step begins."""
        if wanted not in self.beside:
            self.beside[wanted] = self._declare(wanted, kind, values, lo, hi).name
        return Array(self.beside[wanted], lo, hi, len(values))

    def array(self, name: str) -> Array:
        """The variable of a map or queue that is part of the state."""
        array = self.state.cells[name]
        assert isinstance(array, Array)
        return array

    def first(self, name: str) -> list[Expr]:
        """The first values of a map."""
        is_optional = self.setting.model.maps[name].is_optional
        return [NONE if is_optional and v == -1 else constant(v) for v in self.setting.first[name]]

    def _check_size(self, kind: type[Term], size: int) -> None:
        """None is no element."""
        if size > NONE.lo:
            raise Refused(f"{kind.__name__} has {size} elements in this scope, and {NONE.lo} are covered; give fewer")

    def bounds(self, mapping: Map[Any]) -> tuple[int, int]:
        """Between which numbers an entry lies in a state. None is one of them where that may be."""
        lo, hi = self.setting.bounds(mapping)
        if not mapping.is_optional:
            return lo, hi
        self._check_size(mapping.to, hi + 1)
        return 0, NONE.hi

    def widest(self, mapping: Map[Any]) -> tuple[int, int]:
        """Between which numbers an entry may lie in the middle of a step. What leaves them fails an assertion."""
        lo, hi = self.bounds(mapping)
        if mapping.to in (Int, Real) or (issubclass(mapping.to, Index) and not mapping.is_optional):
            return -4 * hi - 255, 4 * hi + 255
        return lo, hi

    # ------------------------------------------------------------------------------------------------ assertions

    def judge(self, prop: Property, terms: Terms, given: Mapping[str, Expr], indent: str) -> None:
        """Assert a property for all values of its parameters; some are given."""
        terms.variables.update({number_of(v): given[name] for name, v in prop.given.items()})
        value = terms.universally(prop.binders, prop.formula)
        self.require(value.exact, f"{prop.name} is judged of a number that is no multiple of 1/Real", indent)
        self.require(both(value.proper, value.expr), f"{prop.rule} {prop.name}", indent)

    def require(self, condition: Expr, what: str, indent: str) -> None:
        """An assertion; a replay prints what it says."""
        if condition != TRUE:
            says = f'printf("BROKEN {said(what)}\\n"); assert(false)'
            self.put(f"{indent}if :: {condition.text} -> skip :: else -> {says} fi;")


def said(text: str) -> str:
    """Text that Promela's printf prints as it stands."""
    return one_line(text).replace("%", " percent")


@contextmanager
def refusing(what: str, line: Line) -> Iterator[None]:
    """Say where it was that something is too large."""
    try:
        yield
    except TooLarge as error:
        raise Refused(f"{what} ({line}): {error}; give smaller sizes") from error


def narrowest(lo: int, hi: int) -> str:
    """The narrowest type that holds these numbers."""
    if lo >= 0 and hi <= 255:
        return "byte"
    return "short" if lo >= -(2**15) and hi < 2**15 else "int"
