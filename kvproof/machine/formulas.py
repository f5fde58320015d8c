"""Small formulas for Z3 that keep plain truths plain: what is decided at once never reaches the solver.

Formulas are built by the tens of thousands, and Z3's own Python layer checks and coerces each operand. The encoder
knows the sorts of what it combines, so the operations here call Z3's C interface directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cache
from typing import Any

import z3
from z3 import z3core

__all__ = [
    "Formula",
    "Function",
    "Keyed",
    "add",
    "address",
    "has_quantifier",
    "integer",
    "key_of",
    "land",
    "leq",
    "less",
    "lif",
    "limplies",
    "lnot",
    "lor",
    "num",
    "occurs",
    "real",
    "replaced",
    "sub",
]

Formula = Any
"""A Z3 expression, or a Python bool where the truth is plain."""

Keyed = Callable[..., Formula]
"""From keys to a formula."""

_CONTEXT = z3.main_ctx()
_REF = _CONTEXT.ref()


def _truth(ast: Any) -> z3.BoolRef:
    return z3.BoolRef(ast, _CONTEXT)


def address(a: z3.ExprRef) -> int:
    """Where Z3 has a formula: as long as it is alive, the same for the same text only."""
    found: int = a.ast.value
    return found


def _operands(parts: Sequence[Formula]) -> Any:
    return (z3core.Ast * len(parts))(*[p.ast for p in parts])


def land(*parts: Formula) -> Formula:
    """Conjunction that keeps plain truths plain."""
    rest = []
    for part in parts:
        if part is False:
            return False
        if part is not True:
            rest.append(part)
    if len(rest) < 2:
        return rest[0] if rest else True
    return _truth(z3core.Z3_mk_and(_REF, len(rest), _operands(rest)))


def lor(*parts: Formula) -> Formula:
    """Disjunction that keeps plain truths plain."""
    rest = []
    for part in parts:
        if part is True:
            return True
        if part is not False:
            rest.append(part)
    if len(rest) < 2:
        return rest[0] if rest else False
    return _truth(z3core.Z3_mk_or(_REF, len(rest), _operands(rest)))


def lnot(a: Formula) -> Formula:
    """Negation that keeps plain truths plain."""
    return not a if isinstance(a, bool) else _truth(z3core.Z3_mk_not(_REF, a.ast))


def limplies(a: Formula, b: Formula) -> Formula:
    """Implication that keeps plain truths plain."""
    if isinstance(a, bool) or isinstance(b, bool):
        return lor(lnot(a), b)
    return _truth(z3core.Z3_mk_implies(_REF, a.ast, b.ast))


def lif(c: Formula, a: Formula, b: Formula) -> Formula:
    """Choice that keeps plain truths plain."""
    if isinstance(c, bool):
        return a if c else b
    if isinstance(a, bool):
        return lor(c, b) if a else land(lnot(c), b)
    if isinstance(b, bool):
        return lor(lnot(c), a) if b else land(c, a)
    if address(a) == address(b):
        return a
    return _like(a, z3core.Z3_mk_ite(_REF, c.ast, a.ast, b.ast))


def _like(a: z3.ExprRef, ast: Any) -> z3.ExprRef:
    """An expression of the same sort."""
    if isinstance(a, z3.BoolRef):
        return _truth(ast)
    return z3.ArithRef(ast, _CONTEXT) if isinstance(a, z3.ArithRef) else z3.ExprRef(ast, _CONTEXT)


def leq(a: Formula, b: Formula) -> Formula:
    """Equality, decided at once where both sides are the same text or two different constants."""
    if isinstance(a, bool) or isinstance(b, bool):
        if isinstance(a, bool) and isinstance(b, bool):
            return a == b
        plain, other = (a, b) if isinstance(a, bool) else (b, a)
        return other if plain else lnot(other)
    if address(a) == address(b):
        return True
    if isinstance(a, z3.IntNumRef) and isinstance(b, z3.IntNumRef):
        return bool(_value(a) == _value(b))
    if isinstance(a, z3.RatNumRef) and isinstance(b, z3.RatNumRef):
        return bool(a.as_fraction() == b.as_fraction())
    return _truth(z3core.Z3_mk_eq(_REF, a.ast, b.ast))


@cache
def integer(value: int) -> z3.IntNumRef:
    """An integer as a Z3 term; it knows its value, which Z3 would have to be asked for."""
    made = z3.IntVal(value)
    made.known = value
    return made


def num(value: Formula) -> Formula:
    """An integer as a Z3 term."""
    return integer(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _value(number: z3.IntNumRef) -> int:
    known: int | None = getattr(number, "known", None)
    return number.as_long() if known is None else known


def real(value: Formula) -> Formula:
    """An integer as an exact number."""
    return z3.RealVal(_value(value)) if isinstance(value, z3.IntNumRef) else z3.ToReal(value)


def less(a: Formula, b: Formula, *, strict: bool) -> Formula:
    """Order of numbers, decided at once between constants."""
    a, b = num(a), num(b)
    if isinstance(a, z3.IntNumRef) and isinstance(b, z3.IntNumRef):
        return bool(_value(a) < _value(b) if strict else _value(a) <= _value(b))
    if isinstance(a, z3.RatNumRef) and isinstance(b, z3.RatNumRef):
        return bool(a.as_fraction() < b.as_fraction() if strict else a.as_fraction() <= b.as_fraction())
    return _truth((z3core.Z3_mk_lt if strict else z3core.Z3_mk_le)(_REF, a.ast, b.ast))


def add(a: Formula, b: Formula) -> Formula:
    """The sum of two numbers; adding 0 changes nothing."""
    if isinstance(a, z3.IntNumRef) and _value(a) == 0:
        return b
    if isinstance(b, z3.IntNumRef) and _value(b) == 0:
        return a
    if isinstance(a, z3.IntNumRef) and isinstance(b, z3.IntNumRef):
        return integer(_value(a) + _value(b))
    return z3.ArithRef(z3core.Z3_mk_add(_REF, 2, _operands((a, b))), _CONTEXT)


def sub(a: Formula, b: Formula) -> Formula:
    """The difference of two numbers; taking 0 away changes nothing."""
    if isinstance(b, z3.IntNumRef) and _value(b) == 0:
        return a
    return z3.ArithRef(z3core.Z3_mk_sub(_REF, 2, _operands((a, b))), _CONTEXT)


def key_of(keys: Iterable[Formula]) -> tuple[Any, ...]:
    """What makes two argument tuples the same text."""
    return tuple(k if isinstance(k, bool) else address(k) for k in keys)


class Function:
    """A function from keys to formulas, computed once for each argument text.

    ``name`` tells it from all others of a universe, and is the same whenever the same machine is run. ``symbols`` are
    the names of the uninterpreted functions that its values may speak of. ``log`` takes down the applications that
    stand in what it gives, also when that was computed before (`Unbounded.quantify` makes patterns of them).
    """

    __slots__ = ("_body", "_known", "_log", "name", "symbols")

    def __init__(self, name: str, symbols: frozenset[str], body: Keyed, log: list[z3.ExprRef]) -> None:
        self.name, self.symbols = name, symbols
        self._body, self._log = body, log
        self._known: dict[tuple[Any, ...], tuple[Formula, tuple[Formula, ...], tuple[z3.ExprRef, ...]]] = {}

    def __call__(self, *keys: Formula) -> Formula:
        """The value for these keys."""
        place = key_of(keys)
        known = self._known.get(place)
        if known is None:
            start = len(self._log)
            value = self._body(*keys)
            # The keys stay alive, so that their ids stay theirs.
            self._known[place] = value, keys, tuple(self._log[start:])
            return value
        self._log += known[2]
        return known[0]


def replaced(formula: Formula, pairs: Sequence[tuple[Formula, Formula]]) -> Formula:
    """The formula with parts replaced; what becomes plain is a plain truth.

    Z3 itself does not go by the names of bound variables, and its text does: where one is named as something that comes
    to stand inside of it, it gets another name. Else two formulas would have one text, by which the store of proofs and
    cvc5 take the one for the other.
    """
    if not pairs or not isinstance(formula, z3.ExprRef):
        return formula
    new = [z3.BoolVal(b) if isinstance(b, bool) else b for _, b in pairs]
    entering = {name for part in new for name in _constants(part)}
    if entering and not entering.isdisjoint(_bound(formula)):
        formula = _bound_apart(formula, entering.union(_constants(formula)))
    result = z3.substitute(formula, *[(a, b) for (a, _), b in zip(pairs, new, strict=True)])
    return True if z3.is_true(result) else False if z3.is_false(result) else result


def _constants(formula: Formula) -> Iterator[str]:
    """The names of the constants in the formula, and so of what quantifiers around it may bind."""
    return (p.decl().name() for p in _parts(formula) if z3.is_const(p) and p.decl().kind() == z3.Z3_OP_UNINTERPRETED)


def _bound(formula: Formula) -> Iterator[str]:
    """The names of what quantifiers in the formula bind."""
    return (p.var_name(i) for p in _parts(formula) if isinstance(p, z3.QuantifierRef) for i in range(p.num_vars()))


def _bound_apart(formula: z3.ExprRef, taken: Set[str]) -> z3.ExprRef:
    """The same formula, in which no quantifier binds one of these names, nor one that is bound around it."""
    renamed = [(q, _renamed(q, taken)) for q in _outermost(formula)]
    return z3.substitute(formula, *renamed) if renamed else formula


def _renamed(quantifier: z3.QuantifierRef, taken: Set[str]) -> z3.ExprRef:
    own: list[z3.ExprRef] = []
    for i in range(quantifier.num_vars()):
        name = quantifier.var_name(i)
        while name in taken:
            name += "!"
        taken = taken | {name}
        own.append(z3.Const(name, quantifier.var_sort(i)))

    def freed(part: z3.ExprRef) -> z3.ExprRef:
        return z3.substitute_vars(part, *reversed(own))

    # Z3 does not keep the terms of a pattern alive: they stand here until it has made the quantifier.
    patterns = [[*map(freed, quantifier.pattern(i).children())] for i in range(quantifier.num_patterns())]
    return (z3.ForAll if quantifier.is_forall() else z3.Exists)(
        own,
        _bound_apart(freed(quantifier.body()), taken),
        patterns=[z3.MultiPattern(*terms) for terms in patterns],
    )


def _outermost(formula: z3.ExprRef) -> list[z3.QuantifierRef]:
    """The quantifiers that stand in no other one."""
    found: list[z3.QuantifierRef] = []
    seen: set[int] = set()
    rest = [formula]
    while rest:
        part = rest.pop()
        if part.get_id() in seen:
            continue
        seen.add(part.get_id())
        if isinstance(part, z3.QuantifierRef):
            found.append(part)
        else:
            rest += part.children()
    return found


def occurs(part: Formula, formula: Formula) -> bool:
    """Whether the part stands somewhere in the formula."""
    return any(address(p) == address(part) for p in _parts(formula))


def has_quantifier(formula: Formula) -> bool:
    """Whether something in the formula is said of all or of some elements."""
    return any(z3.is_quantifier(p) for p in _parts(formula))


def _parts(formula: Formula) -> Iterator[z3.ExprRef]:
    """Everything that the formula is made of, each text once."""
    seen: set[int] = set()
    rest = [formula] if isinstance(formula, z3.ExprRef) else []
    while rest:
        part = rest.pop()
        if part.get_id() not in seen:
            seen.add(part.get_id())
            yield part
            rest += part.children()
