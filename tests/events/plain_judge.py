"""E1 to E4 and P12 judged in the plainest way: the specification of the checker, which is written for speed.

It remembers everything, contents themselves and not their fingerprints. Each source has one rank here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvproof.events.checking import Dialect, frozen
from kvproof.events.wire import Event, Hash, Removed, Stored, windowed

from .streams import Message

__all__ = ["Told", "judge"]

Told = tuple[str, str, int, int, str]
"""Rule, kind, number of the event, of its batch, source."""

Where = tuple[str, int | None]
"""Medium and group."""


@dataclass
class _Source:
    expected: int | None = None
    applied: dict[int, bytes] = field(default_factory=dict)
    complete: bool = True
    held: dict[Where, Counter[Hash]] = field(default_factory=dict)
    contents: dict[tuple[Where, int], dict[Hash, Any]] = field(default_factory=dict)
    left: dict[tuple[Where, Hash], int] = field(default_factory=dict)
    """Copies that may be left of what was removed."""
    lost: bool = False
    """Whether anything was lost since nothing was cached."""
    gone: set[Hash] = field(default_factory=set)
    """What was removed since then."""
    doubted: set[tuple[Where, Hash]] = field(default_factory=set)
    """What was cached then, and not stored since."""

    def lose(self) -> None:
        self.complete, self.lost = False, True
        self.left, self.gone = {}, set()
        self.doubted = {(where, key) for where, held in self.held.items() for key in held if held[key]}

    def begin(self) -> None:
        self.complete, self.lost, self.left, self.gone, self.doubted = True, False, {}, set(), set()


def judge(messages: Sequence[Message], dialect: Dialect) -> Iterator[Told]:
    """Tell all that is wrong with a stream, in order."""
    sources: dict[str, _Source] = {}
    events = 0
    for message in messages:
        source = sources.setdefault(message.source, _Source())
        for kind in _number(source, message):
            yield "E1", kind, events, message.number, message.source
        if source.expected != message.number + 1 or source.applied[message.number] != b"":
            continue
        source.applied[message.number] = message.payload()
        for event in message.events:
            for rule, kind in _judge(source, event, dialect):
                yield rule, kind, events, message.number, message.source
            events += 1


def _number(source: _Source, message: Message) -> Iterator[str]:
    """Follow the numbers; a batch that is to be applied is noted with nothing as its payload."""
    number, expected = message.number, source.expected
    if expected is None:
        source.complete = number == 0
    elif number > expected:
        source.lose()
        yield "gap"
    elif number < expected and source.applied.get(number) == message.payload():
        yield "applied twice"
        return
    elif number < expected and number == 0:
        source.applied, source.held = {}, {}
        source.begin()
    elif number < expected:
        source.lose()
        yield "late"
        return
    source.expected, source.applied[number] = number + 1, b""


def _judge(source: _Source, event: Event, dialect: Dialect) -> Iterator[tuple[str, str]]:
    if isinstance(event, Stored):
        where = (event.medium or "GPU", event.group_idx)
        yield from _parent(source, event, dialect)
        yield from _content(source, event, where)
        held = source.held.setdefault(where, Counter())
        if dialect.copies == "single":
            known = {key for key in event.block_hashes if held[key] and (where, key) not in source.doubted}
            yield from [("E2", "stored twice") for _ in known]
        source.doubted -= {(where, key) for key in event.block_hashes}
        held.update(event.block_hashes)
    elif isinstance(event, Removed):
        where = (event.medium or "GPU", event.group_idx)
        for key in event.block_hashes:
            yield from _removal(source, key, where, dialect)
            source.gone.add(key)
    else:
        for (medium, _), held in source.held.items():
            if event.medium in (None, medium):
                held.clear()
        source.left = {of: n for of, n in source.left.items() if event.medium not in (None, of[0][0])}
        if event.medium is None:
            source.begin()


def _parent(source: _Source, event: Stored, dialect: Dialect) -> Iterator[tuple[str, str]]:
    parent = event.parent_block_hash
    if parent is None or any(held[parent] for held in source.held.values()):
        return
    if any(parent in known for known in source.contents.values()):
        sure = not source.lost or parent in source.gone
        if sure and dialect.parents == "held" and not windowed(event.kv_cache_spec_kind):
            yield "E3", "parent removed"
    elif source.complete:
        yield "E3", "parent never stored"


def _content(source: _Source, event: Stored, where: Where) -> Iterator[tuple[str, str]]:
    size, keys = event.block_size, event.block_hashes
    known = source.contents.setdefault((where, size), {})
    if len(event.token_ids) != size * len(keys) or not event.token_ids:
        for key in keys:
            known.setdefault(key, None)
        if event.token_ids:
            yield "E3", "tokens"
    else:
        for at, key in enumerate(keys):
            parent = keys[at - 1] if at else event.parent_block_hash
            further = event.extra_keys[at] if event.extra_keys and at < len(event.extra_keys) else None
            adapter = event.lora_name or event.lora_id
            content = (parent, event.token_ids[at * size : (at + 1) * size], adapter, frozen(further) or None)
            known[key] = content if known.get(key) is None else known[key]
            if known[key] != content:
                yield "E3", "two contents"


def _removal(source: _Source, key: Hash, where: Where, dialect: Dialect) -> Iterator[tuple[str, str]]:
    held = source.held.setdefault(where, Counter())
    copies = held.pop(key, 0)
    if copies > 1 and dialect.copies == "counted":
        held[key] = copies - 1
    elif copies > 1 and dialect.copies == "last":
        source.left[where, key] = copies - 1
    elif not copies and source.left.get((where, key)):
        source.left[where, key] -= 1
        yield "P12", "removed before the last copy"
    elif not copies and source.complete:
        yield "E2", "removed without stored"
