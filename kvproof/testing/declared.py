"""What a class says of itself in attributes, before anything is done with it: each is of its kind, or one sentence."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import UsageError
from ..untrusted import limits

__all__ = ["check_declared"]

Kind = tuple[Callable[[Any], bool], str]
"""Whether something is of a kind, and what it is called."""


def check_declared(kind: type[Any], base: type[Any]) -> None:
    """Look at all that a class says of itself, in attributes that its base has, and at its methods.

    Raises:
        UsageError: one of them is something else.
    """
    for name in vars(base):
        told, (is_right, words) = getattr(kind, name), _KINDS.get(name, _METHOD)
        if not name.startswith("_") and not is_right(told):
            raise UsageError(f"{kind.__qualname__}.{name} is {reprlib.repr(told)}; it is {words}")


def _is_number(told: Any) -> bool:
    return isinstance(told, int) and not isinstance(told, bool)


def _are_texts(told: Any) -> bool:
    return isinstance(told, tuple | list) and all(isinstance(each, str) for each in told)


def _are_sizes(told: Any) -> bool:
    sizes = isinstance(told, tuple | list) and all(
        _is_number(each) and 0 < each <= limits.BLOCK_TOKENS for each in told
    )
    return sizes and bool(told)


_METHOD: Kind = callable, "a method"
_FLAG: Kind = (lambda told: isinstance(told, bool)), "true or false"
_SIZES: Kind = _are_sizes, f"a tuple of numbers above 0, and of up to {limits.BLOCK_TOKENS:,}"
_WORD: Kind = (lambda told: told is None or isinstance(told, str)), "a word or None"
_NUMBER_OR_NONE: Kind = (lambda told: told is None or _is_number(told)), "a number or None"

_KINDS: Mapping[str, Kind] = {
    "block_sizes": _SIZES,
    "page_sizes": _SIZES,
    "tokens_per_grow": (
        (lambda told: _is_number(told) and 0 < told <= limits.BLOCK_TOKENS),
        f"a number above 0, and up to {limits.BLOCK_TOKENS:,}",
    ),
    "kept_back": ((lambda told: _is_number(told) and told >= 0), "a number of blocks"),
    "null_block": ((lambda told: told is None or (_is_number(told) and told >= 0)), "the number of a block, or None"),
    "window": _NUMBER_OR_NONE,
    "groups": (
        (lambda told: isinstance(told, tuple) and all(each is None or _is_number(each) for each in told)),
        "a tuple of windows, as (None, 128)",
    ),
    "tenants": (_are_texts, 'a tuple of words, as ("salt", "adapter")'),
    "dialect": ((lambda told: isinstance(told, Mapping)), 'a dictionary, as {"keep": "all"}'),
    "cancelled": _WORD,
    "order": _WORD,
    "exact": _FLAG,
    "isolated": _FLAG,
    "eager": _FLAG,
    "in_parts": _FLAG,
    "cuts": _FLAG,
    "overlaps": _FLAG,
    "namespaces": _FLAG,
}
