"""What is believed at the end of a stream, as a map in JSON; and how two of them differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..errors import UsageError
from ..untrusted import limits
from ..untrusted.reading import UnreadableError, decode_json, read_bounded
from ..untrusted.text import one_line
from .checking import Checker
from .wire import Hash

__all__ = ["CacheMap", "Difference", "Row", "differences", "final_map", "is_map", "key_text", "read_map"]


_HEXADECIMAL = re.compile("(0[xX])?[0-9a-fA-F]+")

_DIGITS = 16
"""Hexadecimal digits of a number of 64 bits."""


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """What one place has cached."""

    hashes: list[int | str]
    """Numbers, or digests in hexadecimal."""
    rank: int = 0
    medium: str = "GPU"
    group: int | None = None
    source: str | None = None


class CacheMap(msgspec.Struct):
    """What is cached, by place: what ``--map`` writes, and what a driver of an engine may tell for itself."""

    blocks: list[Row]


@dataclass(frozen=True)
class Difference:
    """A place in which two maps differ."""

    source: str | None
    """None where sources are not told apart."""
    rank: int
    medium: str
    group: int | None
    only_first: list[str]
    only_second: list[str]


def key_text(key: Hash) -> str:
    """A hash as text that is the same for a number with a sign and without one."""
    return key.hex() if isinstance(key, bytes) else f"{key & (2**64 - 1):016x}"


def final_map(checker: Checker) -> CacheMap:
    """What is believed by now."""
    rows = []
    for (who, medium, group), place in checker.belief.places.items():
        source, rank = who
        rows.append(Row([key_text(key) for key in place.held], rank, medium, group, source))
    return CacheMap(rows)


def is_map(path: Path) -> bool:
    """Whether the file begins as a map does, and not as a router's record: with nothing but its blocks."""
    if not path.is_file():
        return False  # A pipe can be read once.
    try:
        with path.open("rb") as file:
            return re.match(rb'\s*\{\s*"blocks"\s*:', file.read(256)) is not None
    except OSError:
        return False  # Whoever reads it says so.


def read_map(path: Path) -> CacheMap:
    """Read what an engine says that it has cached.

    Raises:
        UsageError: the file is no such map.
    """
    try:
        cache = decode_json(read_bounded(path, limits.EVENT_MAP_BYTES), CacheMap, values=limits.EVENT_BLOCKS)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error})") from error
    except UnreadableError as error:
        form = '{"blocks": [{"rank": 0, "medium": "GPU", "group": 0, "hashes": [...]}]}'
        raise UsageError(f"{path} is no map of cached blocks: it is {error}; write it as {form}") from error
    wrong = next((key for row in cache.blocks for key in row.hashes if not _is_hash(key)), None)
    if wrong is not None:
        what = one_line(repr(wrong), 60)
        raise UsageError(
            f"{path} is no map of cached blocks: {what} is no hash; write numbers of 64 bits, or digests in hexadecimal"
        )
    return cache


def _is_hash(key: int | str) -> bool:
    """Whether this can be a hash: what cannot would be a difference that is none of the caches."""
    return -(2**63) <= key < 2**64 if isinstance(key, int) else _HEXADECIMAL.fullmatch(key) is not None


Place = tuple[str | None, int, str, int | None]


def differences(first: CacheMap, second: CacheMap) -> Iterator[Difference]:
    """Where two maps differ, by rank, medium and group.

    Sources are told apart where both maps have several: addresses change from run to run. Groups are not told apart
    where one of the maps does not name them.
    """
    sources = all(len({row.source for row in cache.blocks}) > 1 for cache in (first, second))
    ungrouped = {(r.rank, r.medium) for cache in (first, second) for r in cache.blocks if r.hashes and r.group is None}
    one, other = (_by_place(cache, sources, ungrouped) for cache in (first, second))
    for place in sorted(one.keys() | other.keys(), key=str):
        left, right = one.get(place, set()), other.get(place, set())
        if left != right:
            yield Difference(*place, sorted(left - right), sorted(right - left))


def _by_place(cache: CacheMap, sources: bool, ungrouped: set[tuple[int, str]]) -> dict[Place, set[str]]:
    found: dict[Place, set[str]] = defaultdict(set)
    for row in cache.blocks:
        group = None if (row.rank, row.medium) in ungrouped else row.group
        found[row.source if sources else None, row.rank, row.medium, group].update(map(_text, row.hashes))
    return found


def _text(key: int | str) -> str:
    if not isinstance(key, str):
        return key_text(key)
    digits = key.lower()
    # With this prefix a number may be written, which has all its digits here; a digest has them in any case.
    return digits[2:].zfill(_DIGITS) if digits.startswith("0x") else digits
