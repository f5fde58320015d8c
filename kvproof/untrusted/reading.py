"""Reading what others send: whole, bounded, and as data only. Nothing here imports, opens or runs what it reads."""

import json
import os
import re
from collections import Counter
from typing import TypeVar

import msgspec

from . import limits
from .opening import open_untrusted
from .text import one_line

__all__ = ["UnreadableError", "check_json", "decode_json", "read_bounded", "small_fraction", "values_in"]

T = TypeVar("T")

# Without backtracking, and up to the end where a string has none: linear for whatever is sent.
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (limits.DIGITS + 1))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_FRACTION = re.compile(rf"[+-]?[0-9]{{1,{limits.DIGITS}}}([/.][0-9]{{1,{limits.DIGITS}}})?", re.ASCII)


class UnreadableError(ValueError):
    """What was sent is too much, or not what it should be. The message completes the sentence "it is ..."."""


def _once(pairs: list[tuple[str, object]]) -> None:
    """Make sure that no key of an object stands there twice. Nothing is made of it: what was read is not kept."""
    if len(pairs) < 2 or len({key for key, _ in pairs}) == len(pairs):
        return
    (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
    raise UnreadableError(f"an object in which the key {one_line(repr(twice), 60)} stands twice")


_KEYS = json.JSONDecoder(object_pairs_hook=_once, strict=False)
"""Reads JSON that was decoded before, to see its keys: some 30 % of the time that decoding and its limits take."""


def read_bounded(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a file, a pipe or a device, of which never more than ``most`` bytes are read.

    Raises:
        OSError: it cannot be read.
        UnreadableError: it has more.
    """
    with open_untrusted(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UnreadableError(f"larger than {_bytes(most)}, the most that is read")
    return data


def decode_json(data: bytes, kind: type[T], *, values: int = limits.VALUES, once: bool = True) -> T:
    """Return JSON as a value of this type.

    Args:
        data: the JSON, which need not be any.
        kind: the type.
        values: how many values it may have.
        once: whether a key must stand once in its object. Of two that are the same the decoder takes the last, and says
            nothing: half of what was sent would be judged, and the other half be neither seen nor missed.

    Raises:
        UnreadableError: it is none, or is beyond the limits of any JSON.
    """
    check_json(data, values=values)
    try:
        decoded = msgspec.json.decode(data, type=kind)
        if once:
            _KEYS.decode(data.decode())
        return decoded
    except UnreadableError:
        raise
    except RecursionError as error:
        raise UnreadableError("nested too deeply") from error
    except (msgspec.MsgspecError, ValueError) as error:  # A ValueError: bytes that are no text, numbers of any length.
        what = str(error) or type(error).__name__
        raise UnreadableError(what if what[1:2].isupper() else what[0].lower() + what[1:]) from error


def check_json(data: bytes, *, values: int = limits.VALUES, digits: bool = True) -> None:
    """Make sure that JSON can be decoded and walked without harm, before it is: every look is a scan of the bytes.

    Args:
        data: the JSON, which need not be any.
        values: how many values it may have.
        digits: whether long numbers are looked for too: the slowest of the looks.

    Raises:
        UnreadableError: it is too deep, has too many values, or a number with too many digits.
    """
    if values_in(data) > values:
        raise UnreadableError(f"more than {values:,} values")
    # What texts hold is left out only where it seems to matter: that look costs more than the others together.
    if _is_deep(data) and _is_deep(_STRINGS.sub(b"", data)):
        raise UnreadableError(f"nested more than {limits.DEPTH} deep")
    if digits and _LONG_NUMBER.search(data) and _LONG_NUMBER.search(_STRINGS.sub(b"", data)):
        raise UnreadableError(f"a number of more than {limits.DIGITS} digits")


def values_in(data: bytes) -> int:
    """Return at least how many values JSON has: each stands behind a comma or a bracket, and so does some text."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def small_fraction(text: str) -> bool:
    """Tell whether a text is an exact number of a sensible length, such as ``1/3`` or ``0.5``.

    Python reads ``1e999999999`` as an exact number too, and takes hours and all memory to write it out.
    """
    return _FRACTION.fullmatch(text) is not None


def _is_deep(data: bytes) -> bool:
    """Whether brackets are nested deeper than they may be: in each round the innermost ones are taken away."""
    left = data.translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(limits.DEPTH):
        if not left:
            return False
        left = left.replace(b"[]", b"")
    # What is left of fewer brackets has no counterpart: that is no JSON, as its decoder will say.
    return b"[]" in left or left.count(b"[") > limits.DEPTH


def _bytes(number: int) -> str:
    return f"{number // 2**20:,} MiB" if number >= 2**20 else f"{number:,} bytes"
