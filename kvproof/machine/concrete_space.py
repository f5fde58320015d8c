"""What the text of the concrete interpreter may name: the operations that are more than one of Python's own."""

from __future__ import annotations

from collections import OrderedDict
from fractions import Fraction
from functools import cache
from types import CodeType
from typing import Any

from .scope import ScopeError

__all__ = ["HELPERS", "IllFormed", "space"]


class IllFormed(Exception):
    """The machine did what no machine may do, such as pushing an element that already stands in the queue."""


HELPERS = """
NOTHING = OrderedDict()
def ratio(a, b):
    if not b: raise IllFormed("a number is divided by 0")
    return Fraction(a) / b
def whole(a, b):
    if b <= 0: raise IllFormed(f"{a} is divided by {b}, which is not positive")
    return a // b
def rest(a, b):
    return a - whole(a, b) * b
def single(x, size):
    return (x,) if 0 <= x < size else ()
def stored(name, kind, value, least, size):
    if value < least or (size is not None and value >= size):
        raise IllFormed(f"{name} gets {value}, which is no {kind}")
    return value
def copied(s):
    return s.copy(tuple(n for n, v in s.__dict__.items() if isinstance(v, (list, OrderedDict))))
def missing(name, keys, sizes, default):
    if any(k < 0 or (n is not None and k >= n) for k, n in zip(keys, sizes)):
        raise IllFormed(f"{name} is read at {keys}, where nothing is")
    return default
def head(q):
    if not q: raise IllFormed("the head of an empty queue")
    return next(iter(q))
def tail(q):
    if not q: raise IllFormed("the tail of an empty queue")
    return next(reversed(q))
def precedes(q, a, b):
    if a == b or a not in q or b not in q: return False
    for x in q:
        if x == a: return True
        if x == b: return False
def remove(q, x):
    if x not in q: raise IllFormed(f"element {x} does not stand in the queue that it is removed from")
    del q[x]
def push_back(q, x):
    if x in q: raise IllFormed(f"element {x} already stands in the queue that it is pushed to")
    q[x] = None
def push_front(q, x):
    push_back(q, x)
    q.move_to_end(x, last=False)
def push_before(q, anchor, x):
    if anchor not in q: raise IllFormed(f"element {anchor} does not stand in the queue")
    order = list(q)
    push_back(q, x)
    for y in order[order.index(anchor):]: q.move_to_end(y)
def out_of_range(name, keys, sizes):
    if any(k < 0 or (n is not None and k >= n) for k, n in zip(keys, sizes)):
        raise IllFormed(f"{name} is written at {keys}, where nothing is")
    raise ScopeError(f"{name} is written at {keys}, outside of the scope; give its sorts a greater size")
"""


def space() -> dict[str, Any]:
    """What the written text may name."""
    space: dict[str, Any] = {
        "OrderedDict": OrderedDict,
        "IllFormed": IllFormed,
        "ScopeError": ScopeError,
        "Fraction": Fraction,
    }
    exec(_compiled(HELPERS), space)  # our own text
    return space


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<helpers>", "exec")
