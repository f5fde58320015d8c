"""Promela expressions that know between which numbers their value lies. What is constant is computed here.

Truth values are the numbers 0 and 1. A number that might not fit into 32 bits is refused, since Promela would cut it
off without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "FALSE",
    "NONE",
    "TRUE",
    "Expr",
    "TooLarge",
    "add",
    "at_most",
    "both",
    "choose",
    "constant",
    "divided",
    "either",
    "equal",
    "every",
    "less",
    "negate",
    "remainder",
    "some",
    "sub",
    "times",
    "total",
]

GREATEST = 2**31 - 1
"""The greatest number that Promela computes with."""

LONGEST = 1_000_000
"""Characters of one expression. A longer one is no text that anything would read."""


class TooLarge(Exception):
    """A number, or an expression, that is too large; the message says which."""


@dataclass(frozen=True)
class Expr:
    """An expression, and the least and the greatest value that it can have."""

    text: str
    lo: int
    hi: int

    @property
    def value(self) -> int | None:
        """The value, where it is known."""
        return self.lo if self.lo == self.hi else None

    def within(self, lo: int, hi: int) -> Expr:
        """The same, where it is known from elsewhere that it lies between these."""
        lo, hi = max(self.lo, lo), min(self.hi, hi)
        return self if lo > hi or self.value is not None else _bounded(self.text, lo, hi)


def constant(number: int) -> Expr:
    """A number."""
    return _bounded("", number, number)


def _bounded(text: str, lo: int, hi: int) -> Expr:
    """An expression; a number where only one is possible, since no expression changes anything."""
    if max(-lo, hi) > GREATEST:
        raise TooLarge(f"a number may become {hi if hi > -lo else lo:,}, and Promela computes with 32 bits")
    if len(text) > LONGEST:
        raise TooLarge(f"a formula takes more than {LONGEST:,} characters when it is written out")
    if lo == hi:
        text = str(lo) if lo >= 0 else f"({lo})"
    return Expr(text, lo, hi)


FALSE, TRUE = constant(0), constant(1)

NONE = Expr("none", 255, 255)
"""What stands for none, and behind the last element of a queue: no number of an element. Promela's lists of first
values take no negative numbers."""


def _truth(text: str) -> Expr:
    return _bounded(text, 0, 1)


# ------------------------------------------------------------------------------------------------ truth values


def negate(a: Expr) -> Expr:
    """It does not hold."""
    if a.value is not None:
        return constant(1 - a.lo)
    return _truth(a.text[2:-1] if a.text.startswith("(!") else f"(!{a.text})")


def every(conditions: Iterable[Expr]) -> Expr:
    """All of them hold. One is looked at only where those before it hold."""
    return _joined(conditions, "&&", FALSE, TRUE)


def some(conditions: Iterable[Expr]) -> Expr:
    """One of them holds. One is looked at only where none before it holds."""
    return _joined(conditions, "||", TRUE, FALSE)


def _joined(conditions: Iterable[Expr], sign: str, deciding: Expr, neutral: Expr) -> Expr:
    texts: dict[str, None] = {}
    for c in conditions:
        if c == deciding:
            return deciding
        if c != neutral:
            texts[c.text] = None
    if not texts:
        return neutral
    return _truth(next(iter(texts)) if len(texts) == 1 else f"({f' {sign} '.join(texts)})")


def both(a: Expr, b: Expr) -> Expr:
    """The first, and then the second."""
    return every((a, b))


def either(a: Expr, b: Expr) -> Expr:
    """The first, or else the second."""
    return some((a, b))


def equal(a: Expr, b: Expr) -> Expr:
    """The two are the same number."""
    if a.hi < b.lo or b.hi < a.lo:
        return FALSE
    if (a.value is not None and a.value == b.value) or a.text == b.text:
        return TRUE
    for x, y in ((a, b), (b, a)):
        if y.value in (0, 1) and (x.lo, x.hi) == (0, 1):
            return x if y.value else negate(x)
    return _truth(f"({a.text} == {b.text})")


def less(a: Expr, b: Expr) -> Expr:
    """The first is less."""
    if a.hi < b.lo:
        return TRUE
    return FALSE if a.lo >= b.hi or a.text == b.text else _truth(f"({a.text} < {b.text})")


def at_most(a: Expr, b: Expr) -> Expr:
    """The first is less, or the same."""
    if a.hi <= b.lo or a.text == b.text:
        return TRUE
    return FALSE if a.lo > b.hi else _truth(f"({a.text} <= {b.text})")


def choose(condition: Expr, a: Expr, b: Expr) -> Expr:
    """One or the other. Only the one that is chosen is looked at."""
    if condition.value is not None:
        return a if condition.value else b
    if a.text == b.text:
        return _bounded(a.text, min(a.lo, b.lo), max(a.hi, b.hi))
    if (a, b) == (TRUE, FALSE):
        return condition
    if (a, b) == (FALSE, TRUE):
        return negate(condition)
    return _bounded(f"({condition.text} -> {a.text} : {b.text})", min(a.lo, b.lo), max(a.hi, b.hi))


# ------------------------------------------------------------------------------------------------ numbers


def add(a: Expr, b: Expr) -> Expr:
    """The sum."""
    if a.value == 0 or b.value == 0:
        return b if a.value == 0 else a
    return _bounded(f"({a.text} + {b.text})", a.lo + b.lo, a.hi + b.hi)


def sub(a: Expr, b: Expr) -> Expr:
    """The difference."""
    return a if b.value == 0 else _bounded(f"({a.text} - {b.text})", a.lo - b.hi, a.hi - b.lo)


def times(a: Expr, b: Expr) -> Expr:
    """The product."""
    if a.value == 1 or b.value == 1:
        return b if a.value == 1 else a
    ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return _bounded(f"({a.text} * {b.text})", min(ends), max(ends))


def total(numbers: Iterable[Expr]) -> Expr:
    """The sum of all."""
    known = 0
    open_: list[Expr] = []
    for n in numbers:
        if n.value is None:
            open_.append(n)
        else:
            known += n.value
    if not open_:
        return constant(known)
    texts = [n.text for n in open_] + ([constant(known).text] if known else [])
    lo, hi = known + sum(n.lo for n in open_), known + sum(n.hi for n in open_)
    return _bounded(f"({' + '.join(texts)})" if len(texts) > 1 else texts[0], lo, hi)


def divided(a: Expr, b: Expr) -> Expr:
    """The quotient, rounded down, where the divisor is positive; C rounds towards 0. Anything where it is not."""
    if b.hi < 1:
        return constant(0)
    lo, hi = _quotients(a, b)
    if a.value is not None and b.value is not None:
        return constant(a.value // b.value)
    down = f"({a.text} / {b.text})"
    if a.lo < 0:
        _bounded(down, 0, b.hi - 1 - a.lo)
        down = f"({a.text} >= 0 -> {down} : (0 - (({b.text} - 1 - {a.text}) / {b.text})))"
    return _bounded(down, lo, hi)


def _quotients(a: Expr, b: Expr) -> tuple[int, int]:
    ends = [x // y for x in (a.lo, a.hi) for y in (max(b.lo, 1), b.hi)]
    return min(ends), max(ends)


def remainder(a: Expr, b: Expr) -> Expr:
    """What is left by that division."""
    if b.hi < 1:
        return constant(0)
    if a.value is not None and b.value is not None:
        return constant(a.value % b.value)
    rest = f"({a.text} % {b.text})"
    if a.lo < 0:
        _bounded(rest, 0, 2 * b.hi)
        rest = f"(({rest} + {b.text}) % {b.text})"
    return _bounded(rest, 0, min(b.hi - 1, a.hi) if a.lo >= 0 else b.hi - 1)
