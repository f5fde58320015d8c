"""Judges a stream of KV events by the rules E1 to E5 and P12, event by event, in bounded memory.

What cannot be known is not judged, and counted instead: a listener that came later than the publisher, or lost batches,
does not know what was stored before, so that a removal or a parent that it never heard of is no fault of the stream.
A clear or a restart of the publisher makes it know again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import length_hint
from typing import Any

import msgspec

from ..untrusted import limits
from ..untrusted.text import one_line
from .arrival import Arrival, Damage
from .decoding import Decoded, Decoder
from .faults import ROUTER, Fault, Faults
from .fold import Place
from .memory import Contents
from .numbering import Order
from .ranks import Lane, Rank, Ranks, medium_of, named
from .room import TooMuchError
from .rows import USUAL, Rows, Step
from .wire import Event, Hash, Removed, Stored, windowed

__all__ = ["Checker", "Dialect", "Tally", "TooMuchError", "shown"]

Found = Callable[[Fault], None]


@dataclass(frozen=True)
class Dialect:
    """Legitimate differences between engines."""

    copies: str = "last"
    """``last``: a removal is told when the last copy of a hash goes (P12). ``counted``: each copy is told stored and
    removed for itself. ``single``: there is one copy of a hash, and it is stored once."""
    parents: str = "held"
    """``held``: a parent that is named is cached. ``told``: it was, at some time (P12: an evict or a reset may have
    removed it since)."""
    remembered: int = 2_000_000
    """Hashes whose content is remembered (E3)."""


@dataclass
class Tally:
    """What was looked at, and how much of it is held."""

    events: int = 0
    batches: int = 0
    clears: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)
    """What could not be judged, since the listener does not know what was before."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Fields that the kit does not know."""
    restarts: int = 0
    replayed: int = 0
    """Batches that had been lost and were asked for again."""


_BETWEEN_BOUNDS = 16
"""Batches after which the bounds of memory are looked at."""


class Checker:
    """A listener that believes what it is told, and says where that cannot be so."""

    def __init__(self, dialect: Dialect | None = None, found: Found | None = None) -> None:
        """Begin. ``found`` is called with the first faults of each kind as they are met."""
        self.dialect = dialect or Dialect()
        self.faults = Faults()
        self.tally = Tally()
        self._single, self._held_parents = self.dialect.copies == "single", self.dialect.parents == "held"
        counted = self.dialect.copies == "counted"
        self._known = Ranks(counted=counted, single=self._single, remembered=self.dialect.remembered)
        self.belief = self._known.belief
        self._rows = Rows()
        self._found = found
        self._decoders: dict[str, Decoder] = {}
        self._at: Arrival | None = None
        self._rank: int | None = None
        self._left: Iterator[Event] | None = None
        self._size = 0

    @property
    def ranks(self) -> list[tuple[str, int]]:
        """The sources and ranks that were heard."""
        return list(self._known.all)

    @property
    def remembered(self) -> int:
        """How many hashes are remembered with what they name."""
        return self._known.memory.size

    def take(self, arrival: Arrival | Damage) -> None:
        """Hear a message.

        Raises:
            TooMuchError: the stream says that more is cached than is followed.
        """
        if isinstance(arrival, Damage):
            self._damaged(arrival)
            return
        self._at, batch = arrival, arrival.batch
        if batch is None:
            decoder = self._decoders.get(arrival.source)
            if decoder is None:
                decoder = self._decoders[arrival.source] = Decoder()
            batch = decoder(arrival.payload)
        if batch.rank is None and batch.malformed:
            batch.rank = self._rows.likely_rank(arrival)
        number = self._rank = batch.rank or 0
        rank = self._known.all.get((arrival.source, number)) or self._known.new_rank(arrival.source, number)
        step = self._rows.follow(arrival, batch, number)
        self.tally.replayed += arrival.replayed
        if step is not USUAL and not self._odd(step, arrival, batch, rank):
            return
        if batch.malformed or batch.unknown:
            self._oddities(batch, rank)
        self._events(batch.events, rank)
        if not self.tally.batches % _BETWEEN_BOUNDS:
            self._known.bound()

    # -------------------------------------------------------------------------------------------- E1, E4: numbers

    def _odd(self, step: Step, arrival: Arrival, batch: Decoded, rank: Rank) -> bool:
        """Say what is odd about the number of a batch. Return whether the batch is to be applied."""
        for fault in step.settled:
            self._tell_of(fault)
        if step.another is not None:
            fault = self._of_another_rank(step.another, batch, rank)
            if step.claim is None:
                self._tell_of(fault)
            else:
                self._rows.keep(arrival, step.claim, fault)
        return step.order is Order.NEXT or self._odd_order(step, arrival, rank)

    def _of_another_rank(self, another: int, batch: Decoded, rank: Rank) -> Fault:
        """What is wrong with a batch that continues the numbers of another rank."""
        said = f"the batch continues the numbers of rank {another} and names rank {rank.number}"
        if batch.clears:
            held = _blocks(self._known.held(rank))
            text = f"{said}: AllBlocksCleared takes {held} of rank {rank.number}, and may clear its own only"
            return self._fault_of("E4", "clears another rank", text)
        return self._fault_of("E1", "other rank", said)

    def _tell_of(self, fault: Fault) -> None:
        self._tell(fault)
        self._unsure(fault.source)

    def _odd_order(self, step: Step, arrival: Arrival, rank: Rank) -> bool:
        """Say what is odd about a number that is not the next one. Return whether the batch is to be applied."""
        order, missing, number = step.order, step.missing, arrival.number
        meant = self._known.of(arrival.source) if step.of_all else [rank]
        if order is Order.FIRST:
            self._known.lose(meant)
            return True
        if order is Order.GAP:
            lost = f"{number - missing}" if missing == 1 else f"{number - missing} to {number - 1}"
            self._fault("E1", "gap", f"{missing:,} batches are missing before it: {lost}")
            self._unsure(arrival.source)
            return True
        if order in (Order.RESTART, Order.ANEW):
            self.tally.restarts += order is Order.RESTART
            self._known.begin(meant, complete=not missing and (order is Order.RESTART or number == 0))
            if missing:
                lost = "0" if missing == 1 else f"0 to {missing - 1}"
                self._fault("E1", "gap", f"the publisher begins anew, and {missing:,} batches are missing: {lost}")
            return True
        if order is Order.KNOWN:
            return False
        if order is Order.AGAIN:
            text = "this number, with the same content, was there before; it is not applied twice"
            self._fault("E1", "applied twice", text)
        else:
            text = "it is older than what was there before it, or its number was there with another content"
            self._fault("E1", "late", f"{text}; it is not applied")
            self._unsure(arrival.source)
        return False

    def _unsure(self, source: str) -> None:
        """Batches of a source were lost: what was stored before is not known any more."""
        self._known.lose(self._known.of(source))

    # -------------------------------------------------------------------------------------------- E5: forms

    def _oddities(self, batch: Decoded, rank: Rank) -> None:
        for name in batch.unknown:
            if name in self.tally.unknown or len(self.tally.unknown) < limits.NAMES:
                self.tally.unknown[name] += 1
        for text in batch.malformed:
            self._fault("E5", "malformed", text)
        if batch.malformed:
            self._known.lose([rank])

    def _damaged(self, damage: Damage) -> None:
        kind = "truncated" if damage.final else "damaged"
        fault = Fault("E5", kind, damage.text, self.tally.events, None, None, damage.source, ROUTER[kind])
        self._tell(fault)
        if damage.source:
            self._unsure(damage.source)

    # -------------------------------------------------------------------------------------------- E2 to E4: events

    def _events(self, events: Sequence[Event], rank: Rank) -> None:
        """Judge a batch in one loop: the cheap question first, and a call only where the answer may be a fault.

        A call for each event, and one for each block, would take a twelfth of the time. Events of a batch are of one
        place, most often: to ask whether this one is of the last one's takes less time than to look for its place. By
        identity, where that is None or a small number most often; of two that are equal the place is looked for anew.
        """
        left = iter(events)
        self._left, self._size = left, len(events)
        single, lost = self._single, rank.lost
        size_before: int | None = None
        place: Place[Hash] | None = None
        medium = group = owner = stored_on = stored_in = stored_of = None
        for event in left:
            if isinstance(event, Stored):
                hashes, parent, size = event.block_hashes, event.parent_block_hash, event.block_size
                if (
                    size != size_before
                    or event.medium != stored_on
                    or event.group_idx is not stored_in
                    or event.ownership is not stored_of
                ):
                    size_before = size
                    stored_on, stored_in, stored_of = where = named(event)
                    lane = rank.lanes.get((where, size)) or self._known.new_lane(event, rank)
                    held, first_told, old = lane.held, lane.contents.young.setdefault, lane.contents.old
                if parent is not None and parent not in held:
                    self._parent(event, rank)
                twice = rank.twice(lane, hashes) if single else None
                tokens, extra = event.token_ids, event.extra_keys
                if (
                    not tokens
                    or len(tokens) != size * len(hashes)
                    or event.lora_id is not None
                    or event.lora_name
                    or (extra is not None and any(extra))
                    or event.lookahead_token_ids
                    or event.cache_salt
                ):
                    self._stored_otherwise(event, lane)
                else:  # Of all that is done, this takes longest.
                    start = 0
                    for key in hashes:
                        end = start + size
                        content = hash((parent, tokens[start:end]))
                        if first_told(key, old.get(key, content) if old else content) != content:
                            self._two_contents(key, parent, content, lane.contents)
                        if key in held:
                            held[key] += 1
                        else:
                            held[key] = 1
                        parent, start = key, end
                if twice:
                    self._stored_twice(twice, event)
            elif isinstance(event, Removed):
                if (
                    place is None
                    or event.medium != medium
                    or event.group_idx is not group
                    or event.ownership is not owner
                ):
                    medium, group, owner = event.medium, event.group_idx, event.ownership
                    place = rank.places.get((medium, group, owner)) or self._known.new_place(event, rank)
                    pop = place.held.pop
                for key in event.block_hashes:
                    if (copies := pop(key, 0)) != 1 and not place.kept(key, copies):
                        self._removed_oddly(key, copies, place, event, rank)
                if lost:
                    rank.note_gone(event.block_hashes)
            else:
                rank.clear(event)
                lost = rank.lost
                self.tally.clears += 1
        self.tally.events += len(events)
        self.tally.batches += 1
        self._left = None

    def _event_number(self) -> int:
        """Which event is being judged: nothing is counted event by event, since that would take a tenth of the time."""
        if self._left is None:
            return self.tally.events
        return self.tally.events + self._size - length_hint(self._left) - 1

    # -------------------------------------------------------------------------------------------- what is wrong

    def _stored_twice(self, keys: set[Hash], event: Stored) -> None:
        for key in keys:
            self._fault("E2", "stored twice", f"{shown(key)} is stored again while it is cached ({_at(event)})")

    def _removed_oddly(self, key: Hash, copies: int, place: Place[Hash], event: Removed, rank: Rank) -> None:
        """A removal took away a key that was not there, or one that had been told stored more than once."""
        if not copies:
            self._without_stored(key, place, event, rank)
        elif not self._single:
            rank.note_copies(place, key, copies)

    def _without_stored(self, key: Hash, place: Place[Hash], event: Removed, rank: Rank) -> None:
        copies = rank.take_copy(place, key)
        if copies:
            text = f"{shown(key)} is removed again ({_at(event)}): it was told stored {copies + 1} times before"
            self._fault("P12", "removed before the last copy", text)
        elif rank.complete:
            text = f"{shown(key)} is removed and was not stored ({_at(event)})"
            self._fault("E2", "removed without stored", text)
        else:
            self.tally.unjudged["removals of blocks that may have been stored before"] += 1

    def _parent(self, event: Stored, rank: Rank) -> None:
        parent = event.parent_block_hash
        assert parent is not None
        if self.belief.holds(rank.who, parent):
            return
        of = f"{shown(event.block_hashes[0])} is " if event.block_hashes else "no block is "
        of += f"stored ({_at(event)}) below {shown(parent)}"
        if rank.knew(parent):
            if not self._held_parents or windowed(event.kv_cache_spec_kind):
                return
            if rank.may_be_back(parent):
                self.tally.unjudged["parents that may have been stored again in what was lost"] += 1
            else:
                self._fault("E3", "parent removed", f"{of}, which was removed before")
        elif rank.complete and not self._known.memory.forgot:
            self._fault("E3", "parent never stored", f"{of}, which was never stored")
        else:
            self.tally.unjudged["parents that may have been stored before"] += 1

    def _stored_otherwise(self, event: Stored, lane: Lane) -> None:
        """Hear of blocks whose tokens are not told, or too many or too few; or of hashes that depend on more."""
        tokens, contents = event.token_ids, lane.contents
        if tokens and len(tokens) == event.block_size * len(event.block_hashes):
            self._contents_with_keys(event, contents)
        else:
            if tokens:
                self._tokens(event)
            for key in event.block_hashes:  # That they were stored is remembered: a child may name them.
                contents.young.setdefault(key, contents.old.get(key))
        lane.place.stored(event.block_hashes)

    def _tokens(self, event: Stored) -> None:
        blocks, tokens = len(event.block_hashes), len(event.token_ids)
        text = f"{tokens:,} tokens for {_blocks(blocks)} of {event.block_size}"
        self._fault("E3", "tokens", text)

    def _contents_with_keys(self, event: Stored, contents: Contents) -> None:
        """Hold blocks against what their hashes were first told to name, where they depend on more than tokens."""
        parent, tokens, size, start = event.parent_block_hash, event.token_ids, event.block_size, 0
        further = _further_keys(event)
        for key in event.block_hashes:
            end = start + size
            content = hash((parent, tokens[start:end]))
            if more := next(further):
                content = hash((content, more))
            if contents.young.setdefault(key, contents.old.get(key, content)) != content:
                self._two_contents(key, parent, content, contents)
            parent, start = key, end

    def _two_contents(self, key: Hash, parent: Hash | None, content: int, contents: Contents) -> None:
        """A key does not name what is remembered: it names something else, or was told without tokens before."""
        if contents.young[key] is None:
            contents.young[key] = content
            return
        below = "at the start of a prompt" if parent is None else f"below {shown(parent)}"
        self._fault("E3", "two contents", f"{shown(key)} {below} names other tokens, parent or keys than before")

    def _fault(self, rule: str, kind: str, text: str) -> None:
        self._tell(self._fault_of(rule, kind, text))

    def _fault_of(self, rule: str, kind: str, text: str) -> Fault:
        assert self._at is not None
        at = self._at
        return Fault(rule, kind, text, self._event_number(), at.number, self._rank, at.source, ROUTER[kind])

    def _tell(self, fault: Fault) -> None:
        if self.faults.add(fault) and self._found is not None:
            self._found(fault)


def _further_keys(event: Stored) -> Iterator[Any]:
    """Block by block and without end, what a hash depends on beside parent and tokens; None where that is nothing."""
    adapter, salt = event.lora_name or event.lora_id, event.cache_salt or None
    further = (frozen(more) or None for more in chain(event.extra_keys or (), repeat(None)))
    if event.lookahead_token_ids:
        behind = map(frozen, chain(event.lookahead_token_ids, repeat(None)))
        further = ((tokens, more) if tokens else more for tokens, more in zip(behind, further, strict=False))
    return further if adapter is salt is None else ((adapter, salt, more) for more in further)


def shown(key: Hash) -> str:
    """A hash as it is shown."""
    return key.hex()[:16] if isinstance(key, bytes) else f"{key & (2**64 - 1):016x}"


def frozen(value: Any, depth: int = 0) -> Any:
    """A value of a message as one that has a hash, equal for equal values."""
    if depth > limits.DEPTH:
        return None
    if isinstance(value, list | tuple):
        return tuple(frozen(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return tuple(sorted((repr(key), repr(frozen(item, depth + 1))) for key, item in value.items()))
    if isinstance(value, msgspec.msgpack.Ext):  # It shows the place of its bytes in memory, and not the bytes.
        return value.code, bytes(value.data)
    return value if isinstance(value, str | bytes | int | None) else repr(value)


def _at(event: Stored | Removed) -> str:
    medium, group = one_line(medium_of(event)), event.group_idx
    return medium if group is None else f"{medium}, group {group}"


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count:,} blocks"
