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
from .fold import Belief, Place
from .memory import Contents, Memory
from .numbering import Numbering, Order, WorkerNumbering
from .wire import DEVICE, Cleared, Event, Hash, Removed, Stored, windowed

__all__ = ["Checker", "Dialect", "Tally", "TooMuchError", "shown"]

Found = Callable[[Fault], None]


class TooMuchError(ValueError):
    """The stream says that more is cached than is followed. The message is a sentence."""


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


class _Lane:
    """A place as events name it, and what the hashes of one size of blocks name there."""

    __slots__ = ("contents", "group", "held", "medium", "owner", "place", "size")

    def __init__(self, place: Place[Hash], contents: Contents, event: Stored) -> None:
        self.place, self.held, self.contents = place, place.held, contents
        self.medium, self.group, self.owner = _named(event)
        self.size = event.block_size


_Named = tuple[str | None, int | None, str | None]
"""How events name a place: medium, group, and which of several tiers of that medium."""


@dataclass
class _Rank:
    """What is known of a rank."""

    source: str
    number: int
    complete: bool = True
    """Whether all was heard since nothing was cached."""
    places: dict[_Named, Place[Hash]] = field(default_factory=dict)
    lanes: dict[tuple[_Named, int], _Lane] = field(default_factory=dict)
    copies: dict[tuple[Place[Hash], Hash], int] = field(default_factory=dict)
    """Keys that were removed from a place though they had been stored there more than once: copies may be left."""
    lost: bool = False
    """Whether batches were lost since nothing was cached: what was heard before them need not be so any more."""
    gone: set[Hash] = field(default_factory=set)
    """Where batches were lost: what was removed since."""
    doubted: dict[Place[Hash], set[Hash]] = field(default_factory=dict)
    """What was cached when batches were lost, and not stored since: their removal may be among what was lost."""

    def lose(self, single: bool) -> None:
        """Batches were lost, or could not be read; ``single``: whether what is stored twice is a fault."""
        self.complete = False
        self.lost = bool(self.lanes)
        self.gone.clear()
        self.copies.clear()
        self.doubted = {place: set(place.held) for place in self.places.values()} if single else {}

    def begin(self, complete: bool = True) -> None:
        """Nothing is cached; ``complete``: all that comes from here on is heard."""
        self.complete, self.lost = complete, False
        self.gone.clear()
        self.copies.clear()
        self.doubted.clear()

    @property
    def who(self) -> tuple[str, int]:
        """Whose places these are."""
        return self.source, self.number


_COPIES_REMEMBERED = 100_000
_GONE_REMEMBERED = 1_000_000
_SILENT = 8
"""Batches of a new rank that continue the numbers of another, after which that one would have been heard."""
_PUBLISHERS = 10_000
_BETWEEN_BOUNDS = 16
"""Batches after which the bounds of memory are looked at."""


class Checker:
    """A listener that believes what it is told, and says where that cannot be so."""

    def __init__(self, dialect: Dialect | None = None, found: Found | None = None) -> None:
        """Begin. ``found`` is called with the first faults of each kind as they are met."""
        self.dialect = dialect or Dialect()
        self.faults = Faults()
        self.tally = Tally()
        self.belief = Belief[Hash, tuple[str, int]](counted=self.dialect.copies == "counted")
        self._memory = Memory(self.dialect.remembered)
        self._found = found
        self._ranks: dict[tuple[str, int], _Rank] = {}
        self._numberings: dict[tuple[str, bytes], dict[int | None, Numbering]] = {}
        self._workers: dict[str, WorkerNumbering] = {}
        self._claims: dict[tuple[str, bytes, int | None], tuple[int | None, Fault]] = {}
        """Numbers of a rank that were first heard in the name of a rank that was new: which, and what is wrong if the
        number was not its own. Ranks that step together have the same numbers."""
        self._decoders: dict[str, Decoder] = {}
        self._at: Arrival | None = None
        self._rank: int | None = None
        self._left: Iterator[Event] | None = None
        self._size = 0
        self._single, self._held_parents = self.dialect.copies == "single", self.dialect.parents == "held"

    @property
    def ranks(self) -> list[tuple[str, int]]:
        """The sources and ranks that were heard."""
        return list(self._ranks)

    @property
    def remembered(self) -> int:
        """How many hashes are remembered with what they name."""
        return self._memory.size

    def take(self, arrival: Arrival | Damage) -> None:
        """Hear a message.

        Raises:
            TooMuchError: the stream says that more is cached than is followed.
        """
        self._at, self._rank = (arrival, None) if isinstance(arrival, Arrival) else (None, None)
        if isinstance(arrival, Damage):
            self._damaged(arrival)
            return
        batch = arrival.batch
        if batch is None:
            decoder = self._decoders.get(arrival.source)
            if decoder is None:
                decoder = self._decoders[arrival.source] = Decoder()
            batch = decoder(arrival.payload)
        if batch.rank is None and batch.malformed:
            batch.rank = self._likely_rank(arrival)
        number = batch.rank or 0
        self._rank = number
        rank = self._ranks.get((arrival.source, number)) or self._new_rank(arrival.source, number)
        if not self._in_order(arrival, batch, rank):
            return
        if batch.malformed or batch.unknown:
            self._oddities(batch, rank)
        self._events(batch.events, rank)
        if not self.tally.batches % _BETWEEN_BOUNDS:
            self._bound()

    # -------------------------------------------------------------------------------------------- E1, E4: numbers

    def _likely_rank(self, arrival: Arrival) -> int | None:
        """Whose batch this is that cannot be read: that of the only rank that is expected to send this number."""
        rows = self._numberings.get((arrival.source, arrival.topic), {})
        expecting = [rank for rank, row in rows.items() if row.expected == arrival.number]
        return expecting[0] if len(expecting) == 1 else None

    def _in_order(self, arrival: Arrival, batch: Decoded, rank: _Rank) -> bool:
        """Follow the numbers. Return whether the batch is to be applied."""
        if arrival.of_worker:
            return self._of_worker(arrival, rank)
        rows = self._numberings.get((arrival.source, arrival.topic))
        if rows is None:
            self._check_room(len(self._numberings), _PUBLISHERS, "publishers")
            rows = self._numberings[arrival.source, arrival.topic] = {}
        if arrival.resumed:
            self._was_away(arrival.source)
        key = batch.rank
        row = rows.get(key)
        if self._claims:
            self._settle(arrival, rows, key)
        if row is None or row.expected != arrival.number:
            other = self._row_of_another(rows, key, arrival.number, batch)
            of_another = other is not None and other.rank != rank.number
            if other is not None and (row is not None or not of_another):
                if of_another:
                    self._tell_of(self._of_another_rank(other, batch, rank))
                row = other
            elif row is None:
                row = rows[key] = Numbering(rank=rank.number)
                if other is not None:
                    whose = next(named for named, known in rows.items() if known is other)
                    claimed = (arrival.source, arrival.topic, whose)
                    self._claims[claimed] = (key, self._of_another_rank(other, batch, rank))
        order, missing = row.take(arrival.number, arrival.check, batch.made)
        self.tally.replayed += arrival.replayed
        if order is Order.NEXT:
            return True
        return self._odd_order(order, missing, arrival, rank)

    def _of_worker(self, arrival: Arrival, rank: _Rank) -> bool:
        """Follow the numbers of a worker of Dynamo's."""
        worker = self._workers.get(arrival.source)
        if worker is None:
            self._check_room(len(self._workers), _PUBLISHERS, "workers")
            worker = self._workers[arrival.source] = WorkerNumbering()
        if arrival.resumed:
            worker.was_away()
        order, missing = worker.take(rank.number, arrival.number, arrival.check)
        return order is Order.NEXT or self._odd_order(order, missing, arrival, rank, of_all=not worker.by_rank)

    def _was_away(self, source: str) -> None:
        """Nobody listened to a source for a while: what it sent meanwhile was not lost by the stream."""
        for (of, _), rows in self._numberings.items():
            for row in rows.values() if of == source else ():
                row.away = True

    @staticmethod
    def _row_of_another(
        rows: dict[int | None, Numbering], key: int | None, number: int, batch: Decoded
    ) -> Numbering | None:
        """The row of another rank that this number continues, where it is not likelier the batch's own.

        Ranks that step together have numbers that are alike: a batch behind a gap of its own rank's may continue
        another's by chance, and so may the first that is heard of a rank.
        """
        if number == 0:
            return None
        own = rows.get(key)
        if own is not None and own.away:
            return None
        behind_a_gap = own is not None and own.expected is not None and number > own.expected
        if behind_a_gap and not _clears(batch):
            return None
        others = (row for other, row in rows.items() if other != key and row.expected == number)
        return next((row for row in others if own is not None or row.whole), None)

    def _settle(self, arrival: Arrival, rows: dict[int | None, Numbering], key: int | None) -> None:
        """Say whether the first batch that was heard of a rank was another's: it is, where the other's next number is
        the one behind it, or where that one is silent while the numbers go on."""
        for claimed, (claimant, fault) in [*self._claims.items()]:
            source, topic, whose = claimed
            if (source, topic) != (arrival.source, arrival.topic) or key not in (whose, claimant):
                continue
            assert fault.number is not None
            ahead = arrival.number - fault.number
            if key == whose and ahead == 1:
                rows[whose].expected = arrival.number
                self._tell_of(fault)
            elif key == claimant and ahead >= _SILENT:
                self._tell_of(fault)
            elif key == claimant:
                continue
            del self._claims[claimed]

    def _of_another_rank(self, row: Numbering, batch: Decoded, rank: _Rank) -> Fault:
        """What is wrong with a batch that continues the numbers of another rank."""
        said = f"the batch continues the numbers of rank {row.rank} and names rank {rank.number}"
        if _clears(batch):
            held = sum(len(place.held) for place in self.belief.of(rank.who))
            text = f"{said}: AllBlocksCleared takes {_blocks(held)} of rank {rank.number}, and may clear its own only"
            return self._fault_of("E4", "clears another rank", text)
        return self._fault_of("E1", "other rank", said)

    def _tell_of(self, fault: Fault) -> None:
        self._tell(fault)
        self._unsure(fault.source)

    def _odd_order(self, order: Order, missing: int, arrival: Arrival, rank: _Rank, *, of_all: bool = False) -> bool:
        """What is odd about a number; ``of_all``: it is one of all ranks of the source. Return whether to apply it."""
        number = arrival.number
        if order is Order.FIRST:
            rank.lose(self._single)
            return True
        if order is Order.GAP:
            lost = f"{number - missing}" if missing == 1 else f"{number - missing} to {number - 1}"
            self._fault("E1", "gap", f"{missing:,} batches are missing before it: {lost}")
            self._unsure(arrival.source)
            return True
        if order in (Order.RESTART, Order.ANEW):
            self.tally.restarts += order is Order.RESTART
            for other in self._of_source(arrival.source):
                if of_all or other is rank:
                    self._forget(other)
            if missing:
                lost = "0" if missing == 1 else f"0 to {missing - 1}"
                self._fault("E1", "gap", f"the publisher begins anew, and {missing:,} batches are missing: {lost}")
            rank.begin(complete=not missing and (order is Order.RESTART or number == 0))
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

    # -------------------------------------------------------------------------------------------- E5: forms

    def _oddities(self, batch: Decoded, rank: _Rank) -> None:
        for name in batch.unknown:
            if name in self.tally.unknown or len(self.tally.unknown) < limits.NAMES:
                self.tally.unknown[name] += 1
        for text in batch.malformed:
            self._fault("E5", "malformed", text)
        if batch.malformed:
            rank.lose(self._single)

    def _damaged(self, damage: Damage) -> None:
        kind = "truncated" if damage.final else "damaged"
        fault = Fault("E5", kind, damage.text, self.tally.events, None, None, damage.source, ROUTER[kind])
        self._tell(fault)
        if damage.source:
            self._unsure(damage.source)

    # -------------------------------------------------------------------------------------------- E2 to E4: events

    def _events(self, events: Sequence[Event], rank: _Rank) -> None:
        """Judge a batch in one loop: the cheap question first, and a call only where the answer may be a fault.

        A call for each event, and one for each block, would take a twelfth of the time. Events of a batch are of one
        place, most often: to ask whether this one is of the last one's takes less time than to look for its place.
        """
        left = iter(events)
        self._left, self._size = left, len(events)
        lane: _Lane | None = None
        place: Place[Hash] | None = None
        medium = group = owner = None
        for event in left:
            if isinstance(event, Stored):
                hashes, parent, size = event.block_hashes, event.parent_block_hash, event.block_size
                if (
                    lane is None
                    or event.medium != lane.medium
                    or event.group_idx != lane.group
                    or size != lane.size
                    or event.ownership != lane.owner
                ):
                    lane = rank.lanes.get((_named(event), size)) or self._new_lane(event, rank)
                    held, first_told, old = lane.held, lane.contents.young.setdefault, lane.contents.old
                if parent is not None and parent not in held:
                    self._parent(event, rank)
                twice = self._twice(lane, hashes, rank) if self._single else None
                tokens, extra = event.token_ids, event.extra_keys
                if (
                    not tokens
                    or len(tokens) != size * len(hashes)
                    or event.lora_id is not None
                    or event.lora_name
                    or (extra and any(extra))
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
                            self._two_contents(key, parent)
                        if key in held:
                            held[key] += 1
                        else:
                            held[key] = 1
                        parent, start = key, end
                if twice:
                    self._stored_twice(twice, lane)
            elif isinstance(event, Removed):
                if place is None or event.medium != medium or event.group_idx != group or event.ownership != owner:
                    medium, group, owner = event.medium, event.group_idx, event.ownership
                    place = rank.places.get((medium, group, owner)) or self._place(event, rank)
                    pop = place.held.pop
                for key in event.block_hashes:
                    if (copies := pop(key, 0)) != 1 and not place.kept(key, copies):
                        self._removed_oddly(key, copies, place, event, rank)
                if rank.lost:
                    self._gone(event, rank)
            else:
                self._cleared(event, rank)
        self.tally.events += len(events)
        self.tally.batches += 1
        self._left = None

    def _event_number(self) -> int:
        """Which event is being judged: nothing is counted event by event, since that would take a tenth of the time."""
        if self._left is None:
            return self.tally.events
        return self.tally.events + self._size - length_hint(self._left) - 1

    def _cleared(self, event: Cleared, rank: _Rank) -> None:
        cleared = {
            place
            for (medium, _, owner), place in rank.places.items()
            if event.medium in (None, medium or DEVICE) and event.ownership in (None, owner)
        }
        for place in cleared:
            place.held.clear()
        rank.copies = {name: copies for name, copies in rank.copies.items() if name[0] not in cleared}
        self.tally.clears += 1
        if event.medium is None and event.ownership is None:
            rank.begin()

    # -------------------------------------------------------------------------------------------- what is wrong

    def _twice(self, lane: _Lane, hashes: Sequence[Hash], rank: _Rank) -> set[Hash]:
        """What of this is cached already, and certainly."""
        told, doubted = set(hashes), rank.doubted.get(lane.place)
        if not doubted:
            return lane.held.keys() & told
        twice = (lane.held.keys() & told) - doubted
        doubted -= told
        return twice

    @staticmethod
    def _gone(event: Removed, rank: _Rank) -> None:
        if len(rank.gone) > _GONE_REMEMBERED:
            rank.gone.clear()
        rank.gone.update(event.block_hashes)

    def _stored_twice(self, keys: set[Hash], lane: _Lane) -> None:
        medium = lane.medium or DEVICE
        for key in keys:
            self._fault("E2", "stored twice", f"{shown(key)} is stored again while it is cached ({medium})")

    def _removed_oddly(self, key: Hash, copies: int, place: Place[Hash], event: Removed, rank: _Rank) -> None:
        """A removal took away a key that was not there, or one that had been told stored more than once."""
        if not copies:
            self._without_stored(key, place, event, rank)
        elif len(rank.copies) < _COPIES_REMEMBERED and not self._single:
            rank.copies[place, key] = copies - 1

    def _without_stored(self, key: Hash, place: Place[Hash], event: Removed, rank: _Rank) -> None:
        copies = rank.copies.get((place, key), 0)
        if copies:
            rank.copies[place, key] = copies - 1
            text = f"{shown(key)} is removed again ({_at(event)}): it was told stored {copies + 1} times before"
            self._fault("P12", "removed before the last copy", text)
        elif rank.complete:
            text = f"{shown(key)} is removed and was not stored ({_at(event)})"
            self._fault("E2", "removed without stored", text)
        else:
            self.tally.unjudged["removals of blocks that may have been stored before"] += 1

    def _parent(self, event: Stored, rank: _Rank) -> None:
        parent = event.parent_block_hash
        assert parent is not None
        if self.belief.holds(rank.who, parent):
            return
        of = f"{shown(event.block_hashes[0])} is " if event.block_hashes else "no block is "
        of += f"stored ({_at(event)}) below {shown(parent)}"
        if any(parent in other.contents for other in rank.lanes.values()):
            if not self._held_parents or windowed(event.kv_cache_spec_kind):
                return
            if not rank.lost or parent in rank.gone:
                self._fault("E3", "parent removed", f"{of}, which was removed before")
            else:
                self.tally.unjudged["parents that may have been stored again in what was lost"] += 1
        elif rank.complete and not self._memory.forgot:
            self._fault("E3", "parent never stored", f"{of}, which was never stored")
        else:
            self.tally.unjudged["parents that may have been stored before"] += 1

    def _stored_otherwise(self, event: Stored, lane: _Lane) -> None:
        """Hear of blocks whose tokens are not told, or too many or too few; or of hashes that depend on more."""
        if event.token_ids:
            if len(event.token_ids) != event.block_size * len(event.block_hashes):
                self._tokens(event)
            else:
                self._contents_with_keys(event, lane.contents)
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
                self._two_contents(key, parent)
            parent, start = key, end

    def _two_contents(self, key: Hash, parent: Hash | None) -> None:
        below = "at the start of a prompt" if parent is None else f"below {shown(parent)}"
        self._fault("E3", "two contents", f"{shown(key)} {below} names other tokens, parent or keys than before")

    # -------------------------------------------------------------------------------------------- bookkeeping

    def _new_rank(self, source: str, number: int) -> _Rank:
        self._check_room(len(self._ranks), limits.EVENT_PLACES, "ranks")
        rank = self._ranks[source, number] = _Rank(source, number)
        return rank

    def _place(self, event: Stored | Removed, rank: _Rank) -> Place[Hash]:
        self._check_room(len(self.belief.places), limits.EVENT_PLACES, "places")
        place = self.belief.at(rank.who, _medium(event), event.group_idx)
        rank.places[_named(event)] = place
        return place

    def _new_lane(self, event: Stored, rank: _Rank) -> _Lane:
        self._check_room(sum(len(other.lanes) for other in self._ranks.values()), limits.EVENT_PLACES, "places")
        place, size = self._place(event, rank), event.block_size
        # The device is one place, whether an event names it or not.
        known = (lane.contents for (_, of), lane in rank.lanes.items() if lane.place is place and of == size)
        lane = _Lane(place, next(known, None) or self._memory.place(), event)
        rank.lanes[_named(event), size] = lane
        return lane

    def _of_source(self, source: str) -> Iterator[_Rank]:
        return (rank for (of, _), rank in self._ranks.items() if of == source)

    def _unsure(self, source: str) -> None:
        """Batches of a source were lost: what was stored before is not known any more."""
        for rank in self._of_source(source):
            rank.lose(self._single)

    def _forget(self, rank: _Rank) -> None:
        """The publisher of a rank begins anew, with nothing cached."""
        self.belief.cleared(rank.who)
        rank.begin()

    def _bound(self) -> None:
        self._memory.grow_old()
        self._check_room(self.belief.keys, limits.EVENT_BLOCKS, "cached blocks")

    @staticmethod
    def _check_room(have: int, most: int, what: str) -> None:
        if have >= most:
            raise TooMuchError(f"the stream names more than {most:,} {what}, the most that are followed")

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


def _clears(batch: Decoded) -> bool:
    return any(isinstance(event, Cleared) for event in batch.events)


def _named(event: Stored | Removed) -> _Named:
    return event.medium, event.group_idx, event.ownership


def _medium(event: Stored | Removed) -> str:
    """The medium as a map has it: a tier that is named is another place than the medium's first."""
    medium = event.medium or DEVICE
    return f"{medium} of {event.ownership}" if event.ownership else medium


def _at(event: Stored | Removed) -> str:
    medium, group = one_line(_medium(event)), event.group_idx
    return medium if group is None else f"{medium}, group {group}"


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count:,} blocks"
