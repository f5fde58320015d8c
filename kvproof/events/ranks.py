"""What is known of a rank and its places: what is cached there, what was lost sight of, and what may be left.

Nothing is judged here. A rank is asked what it knows, and says where it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..untrusted import limits
from .fold import Belief, Place
from .memory import Contents, Memory
from .room import check_room
from .wire import DEVICE, Cleared, Hash, Removed, Stored

__all__ = ["Lane", "Named", "Rank", "Ranks", "medium_of", "named"]

_COPIES_REMEMBERED = 100_000
_GONE_REMEMBERED = 1_000_000

Named = tuple[str | None, int | None, str | None]
"""How events name a place: medium, group, and which of several tiers of that medium."""


def named(event: Stored | Removed) -> Named:
    """The place of an event as it names it."""
    return event.medium, event.group_idx, event.ownership


def medium_of(event: Stored | Removed) -> str:
    """The medium as a map has it: a tier that is named is another place than the medium's first."""
    medium = event.medium or DEVICE
    return f"{medium} of {event.ownership}" if event.ownership else medium


class Lane:
    """A place, and what the hashes of one size of blocks name there."""

    __slots__ = ("contents", "held", "place")

    def __init__(self, place: Place[Hash], contents: Contents) -> None:
        self.place, self.held, self.contents = place, place.held, contents


@dataclass
class Rank:
    """What is known of a rank."""

    source: str
    number: int
    complete: bool = True
    """Whether all was heard since nothing was cached."""
    places: dict[Named, Place[Hash]] = field(default_factory=dict)
    lanes: dict[tuple[Named, int], Lane] = field(default_factory=dict)
    """By place and size of blocks, as events name them."""
    lost: bool = False
    """Whether batches were lost since nothing was cached: what was heard before them need not be so any more."""
    _copies: dict[tuple[Place[Hash], Hash], int] = field(default_factory=dict)
    """Keys that were removed from a place though they had been stored there more than once: copies may be left."""
    _gone: set[Hash] = field(default_factory=set)
    """Where batches were lost: what was removed since."""
    _doubted: dict[Place[Hash], set[Hash]] = field(default_factory=dict)
    """What was cached when batches were lost, and not stored since: their removal may be among what was lost."""

    @property
    def who(self) -> tuple[str, int]:
        """Whose places these are."""
        return self.source, self.number

    def lose(self, single: bool) -> None:
        """Batches were lost, or could not be read; ``single``: whether what is stored twice is a fault."""
        self.complete = False
        self.lost = bool(self.lanes)
        self._gone.clear()
        self._copies.clear()
        self._doubted = {place: set(place.held) for place in self.places.values()} if single else {}

    def begin(self, complete: bool = True) -> None:
        """Nothing is cached; ``complete``: all that comes from here on is heard."""
        self.complete, self.lost = complete, False
        self._gone.clear()
        self._copies.clear()
        self._doubted.clear()

    def clear(self, event: Cleared) -> None:
        """What the event names is not cached any more: all of the rank, a medium of it, or a tier."""
        of, tier = event.medium or None, event.ownership or None
        cleared = {
            place
            for (medium, _, owner), place in self.places.items()
            if of in (None, medium or DEVICE) and tier in (None, owner or None)
        }
        for place in cleared:
            place.held.clear()
        self._copies = {name: copies for name, copies in self._copies.items() if name[0] not in cleared}
        if of is None and tier is None:
            self.begin()

    def twice(self, lane: Lane, hashes: Sequence[Hash]) -> set[Hash]:
        """Of what is told stored, what is cached already, and certainly."""
        told, doubted = set(hashes), self._doubted.get(lane.place)
        if not doubted:
            return lane.held.keys() & told
        twice = (lane.held.keys() & told) - doubted
        doubted -= told
        return twice

    def note_gone(self, hashes: Sequence[Hash]) -> None:
        """These were told removed after batches were lost."""
        if len(self._gone) > _GONE_REMEMBERED:
            self._gone.clear()
        self._gone.update(hashes)

    def note_copies(self, place: Place[Hash], key: Hash, copies: int) -> None:
        """A key went that had been stored there so many times: the others may be left."""
        if len(self._copies) < _COPIES_REMEMBERED:
            self._copies[place, key] = copies - 1

    def take_copy(self, place: Place[Hash], key: Hash) -> int:
        """A key is removed that is not there. Return how many copies may have been left until now."""
        copies = self._copies.get((place, key), 0)
        if copies:
            self._copies[place, key] = copies - 1
        return copies

    def knew(self, key: Hash) -> bool:
        """Whether the key was told stored, some time."""
        return any(key in lane.contents for lane in self.lanes.values())

    def may_be_back(self, key: Hash) -> bool:
        """Whether a key that was told stored and is not cached may be so: by what was lost, if it was not told removed
        behind that."""
        return self.lost and key not in self._gone


class Ranks:
    """All ranks that were heard, what is believed of their places, and what hashes name there."""

    def __init__(self, *, counted: bool, single: bool, remembered: int) -> None:
        """Begin.

        ``counted``: whether each copy is told removed for itself; ``single``: whether there is one copy of a hash;
        ``remembered``: how many hashes are remembered with what they name.
        """
        self.all: dict[tuple[str, int], Rank] = {}
        self.belief = Belief[Hash, tuple[str, int]](counted=counted)
        self.memory = Memory(remembered)
        self._single = single

    def new_rank(self, source: str, number: int) -> Rank:
        """A rank of which nothing was heard yet."""
        check_room(len(self.all), limits.EVENT_PLACES, "ranks")
        rank = self.all[source, number] = Rank(source, number)
        return rank

    def of(self, source: str) -> list[Rank]:
        """The ranks of a source."""
        return [rank for (of, _), rank in self.all.items() if of == source]

    def lose(self, ranks: Sequence[Rank]) -> None:
        """Batches of these were lost: what was stored before is not known any more."""
        for rank in ranks:
            rank.lose(self._single)

    def begin(self, ranks: Sequence[Rank], complete: bool) -> None:
        """The publisher of these begins anew, with nothing cached; ``complete``: all since then is heard."""
        for rank in ranks:
            self.belief.cleared(rank.who)
            rank.begin(complete)

    def held(self, rank: Rank) -> int:
        """How many blocks the rank has cached."""
        return sum(len(place.held) for place in self.belief.of(rank.who))

    def new_place(self, event: Stored | Removed, rank: Rank) -> Place[Hash]:
        """The place of an event that names it in a new way."""
        check_room(len(self.belief.places), limits.EVENT_PLACES, "places")
        place = self.belief.at(rank.who, medium_of(event), event.group_idx)
        rank.places[named(event)] = place
        return place

    def new_lane(self, event: Stored, rank: Rank) -> Lane:
        """The lane of an event that names it in a new way."""
        check_room(sum(len(other.lanes) for other in self.all.values()), limits.EVENT_PLACES, "places")
        place, size = self.new_place(event, rank), event.block_size
        # The device is one place, whether an event names it or not.
        known = (lane.contents for (_, of), lane in rank.lanes.items() if lane.place is place and of == size)
        lane = Lane(place, next(known, None) or self.memory.place())
        rank.lanes[named(event), size] = lane
        return lane

    def bound(self) -> None:
        """Keep within bounds what is remembered, and see that what is cached is.

        Raises:
            TooMuchError: it is not.
        """
        self.memory.grow_old()
        check_room(self.belief.keys, limits.EVENT_BLOCKS, "cached blocks")
