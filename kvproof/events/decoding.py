"""Bytes become typed events (E5): quickly where a batch is written as known, tolerantly where it is not.

Nothing is evaluated, and nothing is believed: sizes and depth are bounded (`kvproof/untrusted/limits.py`), a field of
the wrong type makes its event malformed, and the other events of the batch are taken all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..untrusted import limits
from ..untrusted.text import one_line
from .wire import FORMS, Cleared, Event, Removed, Stored

__all__ = ["Decoded", "Decoder"]

_MALFORMED = (msgspec.MsgspecError, RecursionError, ValueError)
_SHOWN = 200
"""Letters of what is said of a malformed event."""


@dataclass(slots=True)
class Decoded:
    """A batch, as far as it could be read."""

    rank: int | None = None
    """None where the batch names none."""
    events: Sequence[Event] = ()
    unknown: Sequence[str] = ()
    """Fields that the kit does not know, each as often as it came."""
    malformed: Sequence[str] = ()
    """What could not be read, in a sentence each."""
    made: float | None = None
    """When the publisher made it, by its own clock; None where it does not say."""

    @property
    def clears(self) -> bool:
        """Whether one of its events is a clear."""
        return any(isinstance(event, Cleared) for event in self.events)


class Decoder:
    """Reads the batches of one publisher. What form they are written in is learnt from the first."""

    def __init__(self) -> None:
        self._forms = [msgspec.msgpack.Decoder(form) for form in FORMS]
        self._fast = self._forms[0]

    def __call__(self, payload: bytes) -> Decoded:
        """Read a batch. Whatever the bytes are, this returns."""
        if len(payload) > limits.EVENT_BATCH_BYTES:
            return Decoded(malformed=[f"a batch of {len(payload):,} bytes; {limits.EVENT_BATCH_BYTES:,} are read"])
        try:
            return _plain(self._fast.decode(payload))
        except _MALFORMED:
            return self._anew(payload)

    def _anew(self, payload: bytes) -> Decoded:
        """Read what is not written as the last batch was."""
        for form in self._forms:
            try:
                batch = _plain(form.decode(payload))
            except _MALFORMED:
                continue
            self._fast = form
            return batch
        return tolerant(payload)


def _plain(batch: Any) -> Decoded:
    rank = batch.data_parallel_rank
    return Decoded(getattr(batch, "attn_dp_rank", None) if rank is None else rank, batch.events, made=batch.ts)


# ------------------------------------------------------------------------------------------------ event by event

_KINDS: dict[str, type[Event]] = {"BlockStored": Stored, "BlockRemoved": Removed, "AllBlocksCleared": Cleared}
_NAMES = {kind: kind.__struct_fields__ for kind in _KINDS.values()}
_BATCH = ("ts", "events", "data_parallel_rank")


@dataclass
class _Oddities:
    """What is odd in a batch."""

    unknown: list[str] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)


def tolerant(payload: bytes) -> Decoded:
    """Read a batch event by event: fields that are not known are counted, events that cannot be read are told."""
    try:
        batch = msgspec.msgpack.decode(payload)
    except _MALFORMED as error:
        return Decoded(malformed=[f"no batch: {_why(error)}"])
    odd = _Oddities()
    fields = _fields_of(batch, _BATCH, "batch", odd)
    raw = fields.get("events")
    if not isinstance(raw, list):
        return Decoded(malformed=["no batch: neither an array nor a map with a list of events"])
    rank = fields.get("data_parallel_rank")
    if rank is None:
        rank = fields.get("attn_dp_rank")
    if rank is not None and (not isinstance(rank, int) or isinstance(rank, bool)):
        odd.malformed.append(f"a rank that is no number: {one_line(str(rank), _SHOWN)}")
        rank = None
    events = []
    for number, event in enumerate(raw):
        try:
            events.append(_event(event, odd))
        except _MALFORMED as error:
            odd.malformed.append(f"event {number} of the batch: {_why(error)}")
    odd.unknown += [_name("batch", name) for name in fields.keys() - {*_BATCH, "attn_dp_rank"}]
    made = fields.get("ts")
    return Decoded(rank, events, odd.unknown, odd.malformed, float(made) if isinstance(made, int | float) else None)


def _event(raw: Any, odd: _Oddities) -> Event:
    """Make an event of what was sent.

    Raises:
        ValueError, MsgspecError, RecursionError: it is none.
    """
    given: Any
    if isinstance(raw, list) and raw:
        tag, given = raw[0], raw[1:]
    elif isinstance(raw, dict):
        tag, given = raw.get("type"), {name: value for name, value in raw.items() if name != "type"}
    else:
        raise ValueError("neither an array nor a map with a type")
    kind = _KINDS.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise ValueError(f"the type is {one_line(repr(tag), _SHOWN)}, none of {', '.join(_KINDS)}")
    fields = _fields_of(_without_older_fields(kind, given), _NAMES[kind], str(tag), odd)
    odd.unknown += [_name(str(tag), name) for name in fields.keys() - set(_NAMES[kind])]
    known = {name: value for name, value in fields.items() if name in _NAMES[kind]}
    if (successors := _successors(known.get("token_ids"), known.get("block_size"))) is not None:
        known["lookahead_token_ids"] = known.get("lookahead_token_ids") or successors
        known["token_ids"] = [token[0] for token in known["token_ids"]]
    if isinstance(known.get("block_hashes"), list):
        known["block_hashes"] = [_hash(h) for h in known["block_hashes"]]
    if "parent_block_hash" in known:
        known["parent_block_hash"] = _hash(known["parent_block_hash"])
    return msgspec.convert(known, kind)


def _fields_of(given: Any, names: Sequence[str], of: str, odd: _Oddities) -> dict[Any, Any]:
    """Fields by name; those of an array beyond the known ones are told by their places."""
    if isinstance(given, dict):
        return given
    if not isinstance(given, list):
        return {}
    odd.unknown += [f"{of}[{place}]" for place in range(len(names), min(len(given), len(names) + limits.NAMES))]
    return dict(zip(names, given, strict=False))


def _without_older_fields(kind: type[Event], given: Any) -> Any:
    """Arrays of Dynamo's relays have a list of multimodal items before the group, where vLLM's have none."""
    group = _NAMES[Stored].index("group_idx")
    if kind is Stored and isinstance(given, list) and len(given) > group and isinstance(given[group], list):
        return [*given[:group], *given[group + 1 :]]
    return given


def _successors(tokens: Any, size: Any) -> list[list[Any]] | None:
    """What stands behind the last token of each block where each is written with its successor, as SGLang does with
    speculative decoding by EAGLE; None where they are written as numbers."""
    if not isinstance(tokens, list) or not tokens:
        return None
    if not all(isinstance(token, list) and len(token) == 2 for token in tokens):
        return None
    return [[token[1]] for token in tokens[size - 1 :: size]] if isinstance(size, int) and size > 0 else []


def _hash(key: Any) -> Any:
    """A hash that is written as text is taken as its bytes."""
    return key.encode() if isinstance(key, str) else key


def _name(of: str, name: Any) -> str:
    return f"{of}.{one_line(str(name), limits.NAME_LETTERS)}"


def _why(error: BaseException) -> str:
    text = "nested too deeply" if isinstance(error, RecursionError) else str(error) or type(error).__name__
    return one_line(text[0].lower() + text[1:], _SHOWN)
