"""Taking down what the text of a machine does while `Model.of` runs it once.

The recorder is the one place that knows which action or property is being read. What it takes down are statements
(`program.py`); every value that is read from the state is bound where it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar, TypeVar

from . import operations as op
from .asked import refuse_asked
from .lost import Conditions
from .mistakes import Line, MachineError, caller
from .program import Let, Statement, When
from .terms import Bool, Index, Int, Sort, Term, number_of
from .traversal import parts, walk

__all__ = ["GOING", "NOW", "Recorder", "fresh", "is_kind", "recorder", "recording", "variable"]

V = TypeVar("V", bound=Term)

_numbers = itertools.count(1)


def fresh() -> int:
    """A number that nothing else has: of a variable, a temporary, a loop, a block of statements."""
    return next(_numbers)


_PLAIN = ("when", "otherwise")
"""Blocks that are no methods of a machine."""


NOW = "now"
"""The view of the state at hand."""

GOING = "going"
"""The block of what says whether a loop goes on."""

ELSEWHERE = "inside a `when`, `each`, `loop` or quantifier, or in another text, and is used outside of it"


class Recorder:
    """Takes down what the text of one action or property does."""

    current: ClassVar[Recorder | None] = None
    instead: ClassVar[Mapping[str, Callable[[tuple[Term, ...]], Bool]]] = {}
    """For actions of which `can` is to say something else than their texts do: when they are possible."""
    recorded: ClassVar[Mapping[str, Callable[[tuple[Term, ...]], Bool]]] = {}
    """When the actions are possible that have been taken down, as `can` has to say it."""

    def __init__(self, *, of_action: bool, views: Iterable[str] = (NOW,), outer: Recorder | None = None) -> None:
        self.of_action = of_action
        self.views = {*views}
        """The states that the text may look at."""
        self.outer = outer
        """The recorder of the text in whose middle this one runs, such as an action of which loop facts are read."""
        self.blocks: list[list[Statement]] = [[]]
        self.open: list[int] = [0]
        self.depth = 0
        self.written: bool = False
        self.inside: list[str] = []
        self.last_when: When | None = None
        self.last_text: FrameType | None = None
        """The function in which that `when` stands."""
        self.has_read = False
        """Something was read since that `when`."""
        self.waiting: list[tuple[str, Line]] = []
        """Blocks that were made, and not yet entered by a `with`."""
        self.lost: tuple[str, Line] | None = None
        """A block that was left before its end, so that what stands in it was not taken down."""
        self.home: dict[int, int] = {}
        """For variables and temporaries: the block outside of which they have no meaning."""
        self.unbound: dict[int, tuple[Term, int]] = {}
        """By identity: what was read inside a quantifier of an action, which is looked at there, and in which block."""
        self.blocks_of: dict[int, tuple[Term, int]] = {}
        """By identity: the quantified formulas of an action, and in which block what each of them reads was read."""
        self.entries: list[str] = []
        """The states before the loops of an action, of which the facts of a loop may speak."""

    @property
    def body(self) -> list[Statement]:
        """The statements at the top level."""
        return self.blocks[0]

    def add(self, statement: Statement) -> None:
        """Append a statement to the innermost open block."""
        if Conditions.current is not None and not isinstance(statement, Let):
            refuse_asked()
            Conditions.current.note_write()
        self.blocks[-1].append(statement)
        if isinstance(statement, Let):
            self.has_read = True
        else:
            self.last_when = statement if isinstance(statement, When) else None
            self.has_read = False

    def instead_of_last(self, statement: Statement) -> None:
        """Put a statement in the place of the last one of the innermost open block."""
        self.blocks[-1][-1] = statement

    def let(self, value: V, *, block: int | None = None) -> V:
        """Bind a value that was read from the state, unless we are inside a quantifier or a property.

        ``block``: of a quantified formula, the block of what it reads.
        """
        if not self.of_action:
            return value
        if block is not None:
            self.blocks_of[id(value)] = value, block
        if self.depth:
            self.unbound[id(value)] = value, self.open[-1]
            return value
        if isinstance(read := value.operation, op.Read):
            self._check_view(value, read, None)
            self.check(*parts(value))
        else:
            self.check(value)
        return self._bound(value)

    def let_made(self, value: V) -> V:
        """As `let`, for what the language itself has made of what is read here."""
        if not self.of_action:
            return value
        for one in walk(value):
            if isinstance(one.operation, op.Read):
                self.unbound[id(one)] = one, self.open[-1]
        if self.depth:
            return value
        self.check(value)
        return self._bound(value)

    def _bound(self, value: V) -> V:
        number = fresh()
        self.add(Let(number, value, caller()))
        self.home[number] = self.open[-1]
        return type(value)(op.Temporary(number, value), is_optional=value.is_optional)

    def belongs_here(self, *variables: Term) -> None:
        """A parameter, the element of an `each`, the index of a `loop`: it has a meaning in this block only."""
        self.home.update({number_of(v): self.open[-1] for v in variables})

    def check(self, *terms: Term, line: Line | None = None) -> None:
        """Values that were read inside `when`, `each` or `loop` stay there, and so do their elements and indices."""
        for term in terms:
            self._check(term, frozenset(), line, frozenset())

    def may_use(self, term: Term) -> bool:
        """The term has a value where the text is now."""
        below = [term]
        while below:
            one = below.pop().operation
            if isinstance(one, op.Temporary | op.Variable):
                if not self._is_open(one.number):
                    return False
            elif not isinstance(one, op.Quantified):
                below += [part for part in one.values() if isinstance(part, Term)]
        return True

    def _check(self, term: Term, bound: frozenset[int], line: Line | None, inside: frozenset[int]) -> None:
        """``bound``: what the quantifiers around the term bind; ``inside``: their blocks."""
        operation = term.operation
        if isinstance(operation, op.Temporary):
            self._check_home(term, operation.number, bound, "was read", line)
        elif isinstance(operation, op.Variable):
            self._check_home(term, operation.number, bound, "has its meaning", line)
        elif isinstance(operation, op.Forall | op.Exists):
            if id(term) in self.blocks_of:
                inside |= {self.blocks_of[id(term)][1]}
            self._check(operation.body, bound.union(map(number_of, operation.binders)), line, inside)
        else:
            if isinstance(operation, op.Read):
                self._check_read(term, operation, line, inside)
            for part in parts(term):
                self._check(part, bound, line, inside)

    def _check_read(self, term: Term, read: op.Read, line: Line | None, inside: frozenset[int]) -> None:
        """A property looks at states that it is given; an action at nothing but what it has read where it stands."""
        if not self.of_action:
            self._check_view(term, read, line)
        elif not self._is_read_here(term, inside):
            raise MachineError(f"{term!r} was read {ELSEWHERE}", line)

    def _check_view(self, term: Term, read: op.Read, line: Line | None) -> None:
        if read.view not in self.views:
            raise MachineError(f"{term!r} is read of a state that is not at hand here", line)

    def _is_read_here(self, term: Term, inside: frozenset[int]) -> bool:
        if id(term) in self.unbound:
            block = self.unbound[id(term)][1]
            return block in inside or block in self.open
        return self.outer is not None and (not self.outer.of_action or self.outer._is_read_here(term, inside))

    def _check_home(self, term: Term, number: int, bound: frozenset[int], comes: str, line: Line | None) -> None:
        if number not in bound and not self._is_open(number):
            raise MachineError(f"{term!r} {comes} {ELSEWHERE}", line)

    def _is_open(self, number: int) -> bool:
        if number in self.home:
            return self.home[number] in self.open
        return self.outer is not None and self.outer._is_open(number)

    def write(self) -> None:
        """A write is about to be recorded."""
        if not self.of_action:
            raise MachineError("a property only looks at the state; it cannot change it")
        if self.depth:
            raise MachineError("a quantified formula only looks at the state; it cannot change it")
        if GOING in self.inside:
            raise MachineError("what says whether a loop goes on only looks at the state; it cannot change it")
        self.written = True

    def check_whole(self) -> None:
        """Every block was entered and ended as it should.

        Raises:
            MachineError: something was left out of what the text says.
        """
        for kind, line in self.waiting:
            raise MachineError(
                f"`{kind}` opens a block: write `with {'' if kind in _PLAIN else 'self.'}{kind}(…):`", line
            )
        if self.lost or self.inside:
            kind, where = self.lost or (self.inside[-1], None)
            raise MachineError(
                f"a `{kind}` was left before its end, so that what stands in it would be lost: the text of a machine "
                "catches no exceptions that it raises, and ends every block that it opens",
                where,
            )

    @contextmanager
    def block(self, kind: str) -> Iterator[list[Statement]]:
        """Record into a block of its own."""
        statements: list[Statement] = []
        self.blocks.append(statements)
        self.open.append(fresh())
        self.inside.append(kind)
        self.last_when = None
        line = caller()
        try:
            yield statements
        except BaseException:
            self.lost = kind, line
            raise
        finally:
            self.blocks.pop()
            self.open.pop()
            self.inside.pop()

    @contextmanager
    def quantified(self, binders: Iterable[Term]) -> Iterator[int]:
        """Inside a quantifier no value is bound: the formula is one value. Yields the number of its block."""
        self.depth += 1
        self.open.append(fresh())
        self.belongs_here(*binders)
        try:
            yield self.open[-1]
        finally:
            self.depth -= 1
            self.open.pop()


def recorder() -> Recorder:
    """The recorder of the machine text that is being read."""
    if Recorder.current is None:
        raise MachineError("the text of a machine is run by Model.of(machine), not called directly")
    return Recorder.current


@contextmanager
def recording(
    name: str,
    *,
    of_action: bool,
    known: Iterable[Term] = (),
    views: Iterable[str] = (NOW,),
    outer: Recorder | None = None,
) -> Iterator[Recorder]:
    """Run text of a machine and take down what it does.

    ``name`` appears in error messages; ``known`` are the variables that the text may name; ``views`` the states that it
    may look at; ``outer`` is the recorder whose values it may use too.
    """
    before, Recorder.current = Recorder.current, Recorder(of_action=of_action, views=views, outer=outer)
    made = len(MachineError.made)
    Recorder.current.belongs_here(*known)
    label, MachineError.where_in = MachineError.where_in, name
    try:
        yield Recorder.current
        for caught in MachineError.made[made:]:
            raise caught  # whoever caught it would have let Python decide
        Recorder.current.check_whole()
    finally:
        Recorder.current, MachineError.where_in = before, label
        if before is None:
            MachineError.made.clear()


def variable(kind: type[V], name: str, *, is_optional: bool = False) -> V:
    """A parameter, bound variable or loop index: unique, whatever its name."""
    return kind(op.Variable(name, fresh()), is_optional=is_optional)


def is_kind(kind: object) -> bool:
    """Whether this may be the type of a parameter or of something that a map holds."""
    return kind in (Int, Bool) or (
        isinstance(kind, type) and issubclass(kind, Sort | Index) and kind not in (Sort, Index)
    )
