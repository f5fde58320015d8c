"""Where formulas live: uninterpreted sorts of any size, or a few elements of each.

What is proved in `Unbounded` holds for every size. What is found in `Finite` is a whole state that the concrete
interpreter can run.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import z3

from .formulas import Formula, Function, Keyed, address, integer, land, leq, less, lif, limplies, lnot, lor
from .mistakes import MachineError
from .model import Model
from .scope import NONE
from .terms import Bool, Index, Int, Real, Sort, Term

__all__ = ["Finite", "Unbounded", "marked"]


def marked(word: str) -> str:
    """A name that is no word of SMT-LIB, whatever a machine's text calls the thing.

    There a parameter `mod` would look like the rest of a division, and a sort `String` like text: two formulas would
    have one text, by which the store of proofs and cvc5 take the one for the other.
    """
    return f"{word}!"


class Unbounded:
    """Uninterpreted sorts: any number of elements. Counts follow the counting facts, loops their own.

    Names are given in the order in which a machine is run, for each name anew, so that the same step of two machines
    gives the same formulas.
    """

    is_finite = False
    counts_by_law = True
    """Counts are carried from state to state by how one write changes them, instead of being summed up anew."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._sorts: dict[type[Term], z3.SortRef] = {}
        self._constants: dict[tuple[str, object], Formula] = {}
        self._binders: dict[tuple[int, int, type[Term]], z3.ExprRef] = {}
        self._others: dict[type[Sort], list[Formula]] = {}
        """For a sort: what is of a wider one only, and `none`."""
        self._names: Counter[str] = Counter()
        self._depth = 0
        self._log: list[z3.ExprRef] = []
        """The applications in the quantified formulas that are being built."""
        self._binders_in: dict[int, tuple[z3.ExprRef, frozenset[int]]] = {}
        """Which binders an application names, by its id; it is kept alive, so that its id stays its own."""

    def name(self, root: str) -> str:
        """A name that nothing else has."""
        number = self._names[root]
        self._names[root] += 1
        return f"{root}!{number}"

    def names(self) -> Counter[str]:
        """So many names were given of each root."""
        return self._names.copy()

    def give_again(self, names: Counter[str]) -> None:
        """Give once more the names that were given since these: to something that stands beside none of that."""
        self._names = names.copy()

    def sort(self, kind: type[Term]) -> z3.SortRef:
        """The Z3 sort of values of this type."""
        known = self._sorts.get(kind)
        if known is None:
            known = self._sorts[kind] = self._sort(kind)
        return known

    def _sort(self, kind: type[Term]) -> z3.SortRef:
        if issubclass(kind, Sort):
            return z3.DeclareSort(marked(kind.base.__name__))
        return z3.IntSort() if issubclass(kind, Int) else z3.RealSort() if issubclass(kind, Real) else z3.BoolSort()

    def literal(self, kind: type[Term], value: object) -> Formula:
        """A constant; none and extra elements are named constants of the sort."""
        if isinstance(value, bool):
            return value
        if issubclass(kind, Real):
            return z3.RealVal(value)
        if issubclass(kind, Int) and value is None:
            return integer(NONE)
        if isinstance(value, int):
            return integer(value)
        assert issubclass(kind, Sort)
        key = kind.base.__name__, value
        known = self._constants.get(key)
        if known is None:
            name = f"{'none' if value is None else value}!{kind.base.__name__}"
            known = self._constants[key] = z3.Const(name, self.sort(kind))
        return known

    def is_element(self, kind: type[Term], value: Formula) -> Formula:
        """The value belongs to the type: it is not none, nor an extra element of a wider sort."""
        if issubclass(kind, Index):
            natural = less(integer(0), value, strict=False)
            return natural if kind is Index else land(natural, less(value, self.size_of(kind), strict=True))
        if not issubclass(kind, Sort):
            return True
        others = self._others.get(kind)
        if others is None:
            wider = [x for x in self._extras(kind) if x not in kind.extra]
            others = self._others[kind] = [self.literal(kind, x) for x in (None, *wider)]
        return land(*[lnot(leq(value, o)) for o in others])

    def size_of(self, kind: type[Term]) -> Formula:
        """How many values an index has here: any number, but some number."""
        return z3.Int(f"size!{kind.__name__}")

    def is_value(self, kind: type[Term], value: Formula, *, or_none: bool = False) -> Formula:
        """The value may be stored as this type: an index may lie behind the last one, as the length of a table does."""
        inside = less(integer(0), value, strict=False) if issubclass(kind, Index) else self.is_element(kind, value)
        return lor(inside, leq(value, self.literal(kind, None))) if or_none and inside is not True else inside

    def comes_before(self, kind: type[Term], one: Formula, other: Formula) -> Formula:
        """The one element is sure to come before the other in ascending order, extra elements after all others."""
        if issubclass(kind, Bool):
            return land(lnot(one), other)
        if not issubclass(kind, Sort):
            return less(one, other, strict=True)
        last = [self.literal(kind, x) for x in kind.extra]
        return lor(*[land(leq(other, x), *[lnot(leq(one, y)) for y in last[i:]]) for i, x in enumerate(last)])

    def _extras(self, kind: type[Sort]) -> list[str]:
        """Every extra element that some sort with this base has."""
        return [x for k in self.model.sorts.values() if issubclass(k, Sort) and k.base is kind.base for x in k.extra]

    def background(self) -> list[Formula]:
        """Named constants of one sort differ."""
        facts: list[Formula] = [
            less(integer(0), self.size_of(k), strict=True)
            for k in self.model.sorts.values()
            if issubclass(k, Index) and k is not Index
        ]
        for kind in {k.base for k in self.model.sorts.values() if issubclass(k, Sort)}:
            named = [self.literal(kind, None), *(self.literal(kind, x) for x in dict.fromkeys(self._extras(kind)))]
            if len(named) > 1:
                facts.append(z3.Distinct(*named))
        return facts

    def fresh(self, root: str, kind: type[Term]) -> Formula:
        """A new constant."""
        return z3.Const(self.name(root), self.sort(kind))

    def function(self, root: str, kinds: Sequence[type[Term]], to: type[Term]) -> Function:
        """A new uninterpreted function."""
        return self.named(self.name(root), kinds, to)

    def named(self, name: str, kinds: Sequence[type[Term]], to: type[Term]) -> Function:
        """The uninterpreted function of this name."""
        symbols = frozenset([name])
        if not kinds:
            constant = z3.Const(name, self.sort(to))
            return Function(name, symbols, lambda: constant, self._log)
        declared = z3.Function(name, *[self.sort(k) for k in kinds], self.sort(to))

        def apply(*keys: Formula) -> Formula:
            application = declared(*keys)
            self._note(application, keys)
            return application

        return Function(name, symbols, apply, self._log)

    def defined(self, root: str, symbols: frozenset[str], body: Keyed) -> Function:
        """A new function that is computed from others; ``symbols`` are theirs."""
        return Function(self.name(root), symbols, body, self._log)

    def _note(self, application: z3.ExprRef, keys: Sequence[Formula]) -> None:
        """Remember which binders an application names, and that it occurs in the quantifiers that are being built.

        Also where none is being built: what becomes a pattern must not depend on what was built before.
        """
        named: frozenset[int] = frozenset()
        for key in keys:
            if isinstance(key, bool):
                continue
            known = self._binders_in.get(address(key))
            if known is None:
                if isinstance(key, z3.QuantifierRef) or key.num_args():
                    return  # names a binder through an interpreted function: no pattern for the solver
                continue
            named |= known[1]
        self._binders_in[address(application)] = application, named
        if self._depth:
            self._log.append(application)

    def quantify(
        self, op: str, kinds: Sequence[type[Term]], body: Callable[..., Formula], *, of_values: bool = False
    ) -> Formula:
        """For every, or for at least one, element of the sorts; ``of_values``: indices behind the last one too."""
        if not kinds:
            return body()
        belongs = self.is_value if of_values else self.is_element
        binders = [self._binder(i, k) for i, k in enumerate(kinds)]
        for b in binders:
            self._binders_in[address(b)] = b, frozenset([address(b)])
        own = frozenset(address(b) for b in binders)
        start = len(self._log)
        self._depth += 1
        inside = land(*[belongs(k, b) for k, b in zip(kinds, binders, strict=True)])
        inner = body(*binders)
        self._depth -= 1
        applied = [(a, self._binders_in[address(a)][1]) for a in self._log[start:]]
        del self._log[start:]
        self._log += [a for a, named in applied if self._depth and not own & named]
        if op == "exists":
            formula = land(inside, inner)
            return formula if isinstance(formula, bool) else z3.Exists(binders, formula)
        formula = limplies(inside, inner)
        return formula if isinstance(formula, bool) else z3.ForAll(binders, formula, patterns=_patterns(own, applied))

    def _binder(self, number: int, kind: type[Term]) -> z3.ExprRef:
        """Binders are named by how deep they stand: the same formula gets the same text wherever it is built."""
        key = self._depth, number, kind
        known = self._binders.get(key)
        if known is None:
            known = self._binders[key] = z3.Const(f"q{self._depth}.{number}!{self.sort(kind)}", self.sort(kind))
        return known

    def guard_read(
        self,
        default: Formula,  # noqa: ARG002 - for the finite universe
        kinds: Sequence[type[Term]],  # noqa: ARG002
        keys: Sequence[Formula],  # noqa: ARG002
        value: Formula,
    ) -> Formula:
        """What a read gives: outside of the keys' types anything (that it is not done is an obligation)."""
        return value


def _patterns(
    own: frozenset[int], applied: Sequence[tuple[z3.ExprRef, frozenset[int]]]
) -> list[z3.ExprRef | z3.PatternRef]:
    """The terms that make an instance of a quantifier worth a look, once they occur.

    Each application that names all binders is one. Where none does, all binders by applications of one function are, as
    when two elements stand in one queue. Left to itself, Z3 picks one pattern, which need not be of what occurs.
    """
    found = {address(a): (a, named) for a, named in applied if named}
    alone = [a for a, named in found.values() if named == own]
    if alone:
        return list(alone)
    by_function: dict[int, list[tuple[z3.ExprRef, frozenset[int]]]] = {}
    for a, named in found.values():
        if named <= own:
            by_function.setdefault(a.decl().get_id(), []).append((a, named))
    return [
        z3.MultiPattern(*[a for a, _ in several])
        for several in by_function.values()
        if frozenset().union(*[named for _, named in several]) == own
    ]


class Finite(Unbounded):
    """A few elements of each sort, as integers; quantifiers and counts are written out."""

    is_finite = True

    def __init__(self, model: Model, sizes: dict[str, int], *, counts_by_law: bool = False) -> None:
        super().__init__(model)
        self.sizes = sizes
        self.counts_by_law = counts_by_law

    def size(self, kind: type[Term]) -> int:
        """How many values the type has here."""
        if issubclass(kind, Sort):
            return self.sizes[kind.base.__name__] + len(kind.extra)
        return self.sizes[kind.__name__] if issubclass(kind, Index) else 2

    def _sort(self, kind: type[Term]) -> z3.SortRef:
        """Elements are integers here."""
        return super()._sort(kind) if issubclass(kind, Bool | Real) else z3.IntSort()

    def literal(self, kind: type[Term], value: object) -> Formula:
        """A constant: none is -1, extra elements come after the others."""
        if isinstance(value, bool):
            return value
        if value is None:
            return integer(NONE)
        if isinstance(value, str):
            assert issubclass(kind, Sort)
            return integer(self.sizes[kind.base.__name__] + kind.extra.index(value))
        return super().literal(kind, value)

    def is_element(self, kind: type[Term], value: Formula) -> Formula:
        """The value is one of the few that the type has here."""
        if not issubclass(kind, Sort | Index):
            return True
        return land(less(integer(0), value, strict=False), less(value, integer(self.size(kind)), strict=True))

    def comes_before(self, kind: type[Term], one: Formula, other: Formula) -> Formula:
        """Elements are numbers here."""
        return super().comes_before(kind, one, other) if issubclass(kind, Bool) else less(one, other, strict=True)

    def background(self) -> list[Formula]:
        """Nothing: the constants are numbers."""
        return []

    def elements(self, kind: type[Term]) -> list[Formula]:
        """All values of the type."""
        if issubclass(kind, Bool):
            return [False, True]
        if not issubclass(kind, Sort | Index):
            raise MachineError(f"a quantifier over {kind.__name__} cannot be written out; use an Index")
        return [integer(i) for i in range(self.size(kind))]

    def quantify(
        self,
        op: str,
        kinds: Sequence[type[Term]],
        body: Callable[..., Formula],
        *,
        of_values: bool = False,  # noqa: ARG002 - what lies behind the last index is read as a default here
    ) -> Formula:
        """All cases, written out."""
        rounds = [body(*choice) for choice in itertools.product(*[self.elements(k) for k in kinds])]
        return land(*rounds) if op == "forall" else lor(*rounds)

    def guard_read(
        self, default: Formula, kinds: Sequence[type[Term]], keys: Sequence[Formula], value: Formula
    ) -> Formula:
        """What a read gives: outside of the keys' types the default, as in the other interpreters."""
        inside = land(*[self.is_element(k, x) for k, x in zip(kinds, keys, strict=True)])
        return value if inside is True else lif(inside, value, default)
