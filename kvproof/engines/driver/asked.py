"""Whether an operation of the level ``requests`` is one that a scheduler may ask: a case that somebody wrote, or a file
that was damaged, must not be held against who is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...judge.record import BATCH, TOGETHER
from ...untrusted.text import one_line
from .requests import BEGUN

__all__ = ["problem_of"]

Is = Callable[[Any], bool]


def _is_text(told: Any) -> bool:
    return isinstance(told, str)


def _is_count(told: Any) -> bool:
    return type(told) is int and told >= 0


def _are_counts(told: Any) -> bool:
    return isinstance(told, list) and all(map(_is_count, told))


def _are_tokens(told: Any) -> bool:
    return _are_counts(told) and bool(told)


def _are_texts(told: Any) -> bool:
    return isinstance(told, list) and all(map(_is_text, told))


def _is_tenant(told: Any) -> bool:
    return told is None or _is_text(told)


def _is_nothing(_told: Any) -> bool:
    return False


_NEEDED: Mapping[str, Mapping[str, Is]] = {
    "start": {"request": _is_text, "prompt": _are_tokens},
    "resume": {"request": _is_text},
    "step": {"request": _is_text, "most": _is_count},
    "grow": {"request": _is_text, "tokens": _are_tokens},
    "fork": {"request": _is_text, "child": _is_text},
    "finish": {"request": _is_text},
    "abort": {"request": _is_text},
    "preempt": {"request": _is_text},
    "cut": {"request": _is_text, "tokens": _are_tokens},
    "mirror": {"requests": _are_texts},
    "loaded": {"pick": _is_count, "failed": _is_count},
    "evict": {"block": _is_count},
    "reset": {},
    "drain": {},
    TOGETHER: {"order": _are_counts},
    BATCH: {},
}
"""The arguments that each has in any case (docs/protocol.md, Operations)."""

_MORE: Mapping[str, Mapping[str, Is]] = {
    "start": {"most": _is_count, "adapter": _is_tenant, "salt": _is_tenant},
    TOGETHER: {"cancel": _are_counts},
}


def problem_of(op: str, args: Mapping[str, Any]) -> str | None:
    """What is wrong with an operation, in words; None where it can be asked."""
    if op == "begin":
        begun, rest = args.get("op"), {name: value for name, value in args.items() if name != "op"}
        is_one = isinstance(begun, str) and begun in BEGUN
        return problem_of(str(begun), rest) if is_one else "begin names no operation that it begins"
    if op not in _NEEDED:
        return f"there is no operation {one_line(op, 40)}"
    needed, more = _NEEDED[op], _MORE.get(op, {})
    for name, fits in needed.items():
        if name not in args:
            return f"{op} has no {name}"
        if not fits(args[name]):
            return f"{op} has the {name} {one_line(repr(args[name]), 60)}"
    for name, value in args.items():
        if name not in needed and not more.get(name, _is_nothing)(value):
            return f"{op} has the {one_line(name, 40)} {one_line(repr(value), 60)}"
    return None
