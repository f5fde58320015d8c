"""Which rules a call of the chunk manager breaks, by what was seen of it and by books of what is in flight.

Which entry goes when room is needed is the policy's own affair. All else follows from the calls and their answers: the
books say what is there, in which chunk, and what is under way. Plain data in, verdicts out: the engine's process judges
with it, and so does the kit when it replays an incident. A verdict names chunks, never a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from .judging import Verdict

__all__ = ["STORING", "Books", "ChunkCall", "ChunkState", "Entry", "judge_chunk_call", "judge_chunks"]

STORING: Final = -1
"""The count of an entry whose store is in flight."""

Entry = tuple[int, int] | None
"""What the manager has for a key: its chunk, and the loads in flight or `STORING`. None: nothing."""

_LOST: Final = {
    STORING: ("O2", "a store lost its chunk", "is being stored"),
    0: ("P5", "an entry is lost", "was stored"),
    1: ("O5", "a load lost its chunk", "is being loaded"),
}
"""What it is that an entry is gone, by its count."""
_COUNTERS: Final = ("chunks that hold nothing", "chunks that can be evicted", "chunks that are being written")


class ChunkCall(NamedTuple):
    """One call of a chunk manager. What has an entry per key has it in the order of ``keys``."""

    op: str
    """``offer`` and ``stored`` (a store begins and ends), ``load`` and ``loaded``, ``reset``."""
    step: int
    """The step of the scheduler that it came in."""
    keys: tuple[Any, ...]
    before: tuple[Entry, ...]
    """What the manager had for them before the call."""
    after: tuple[Entry, ...]
    counters: tuple[int, int, int]
    """The manager's own counters after it: chunks that hold nothing, that can be evicted, that are being written."""
    chunks: tuple[int, ...] = ()
    """offer, load: the chunks that were answered."""
    stored: tuple[Any, ...] = ()
    """offer: the keys that are to be stored."""
    evicted: tuple[Any, ...] = ()
    """offer: the keys that made room."""
    left: tuple[Entry, ...] = ()
    """offer: what the manager has for the evicted keys after the call; reset: for any key."""
    ok: bool = True
    """stored: whether the store went well; offer: whether it was not refused."""
    wanted: int = 0
    """offer: how many chunks it needs, for what is not there and was seen often enough."""
    error: str = ""
    """What was raised: its type and its words."""


class ChunkState(NamedTuple):
    """All of a chunk manager."""

    entries: Sequence[tuple[Any, int, int]]
    """Key, chunk and count of each entry."""
    free: Sequence[int]
    """The chunks that were given back."""
    begun: int
    """How many chunks were ever handed out: the first ones."""
    counters: tuple[int, int, int]
    """As in a `ChunkCall`."""


class Books:
    """What a chunk manager must have, by the calls that were seen."""

    def __init__(self, chunks: int, entries: Iterable[tuple[Any, int, int]] = ()) -> None:
        self.chunks = chunks
        self.chunk_of: dict[Hashable, int] = {}
        self.key_in: dict[int, Hashable] = {}
        self.storing: set[Hashable] = set()
        """The keys whose store is in flight."""
        self.loads: dict[Hashable, int] = {}
        """How many loads of a key are in flight; at least one."""
        for key, chunk, count in entries:
            self._put(key, chunk)
            if count < 0:
                self.storing.add(key)
            elif count:
                self.loads[key] = count

    def entry(self, key: Hashable) -> Entry:
        """What the manager must have for a key."""
        chunk = self.chunk_of.get(key)
        if chunk is None:
            return None
        return chunk, STORING if key in self.storing else self.loads.get(key, 0)

    def entries(self) -> list[tuple[Any, int, int]]:
        """Key, chunk and count of each entry."""
        return [(key, *found) for key in self.chunk_of if (found := self.entry(key)) is not None]

    def counters(self) -> tuple[int, int, int]:
        """What the manager's counters must say."""
        there, written = len(self.chunk_of), len(self.storing)
        return self.chunks - there, there - written - len(self.loads), written

    def enter(self, call: ChunkCall) -> None:
        """Take note of a call."""
        if call.op == "offer":
            for key in call.evicted:
                self._drop(key)
            for key, chunk in zip(call.stored, call.chunks, strict=False):
                self._put(key, chunk)
                self.storing.add(key)
        elif call.op == "stored":
            for key in call.keys:
                self.storing.discard(key)
                if not call.ok:
                    self._drop(key)
        elif call.op == "load":
            for key in call.keys:
                self.loads[key] = self.loads.get(key, 0) + 1
        elif call.op == "loaded":
            for key in call.keys:
                self.loads[key] -= 1
                if not self.loads[key]:
                    del self.loads[key]
        else:
            for each in (self.chunk_of, self.key_in, self.storing, self.loads):
                each.clear()

    def _put(self, key: Hashable, chunk: int) -> None:
        self.chunk_of[key] = chunk
        self.key_in[chunk] = key

    def _drop(self, key: Hashable) -> None:
        chunk = self.chunk_of.pop(key, None)
        if chunk is not None and self.key_in.get(chunk) == key:
            del self.key_in[chunk]


# ------------------------------------------------------------------------------------------------------------ calls


def judge_chunk_call(books: Books, call: ChunkCall) -> Verdict | None:
    """Return the first rule that a call breaks; where there is none, the call is entered in the books."""
    found = _compared(books, call.keys, call.before, f"before {call.op}") or _JUDGES[call.op](books, call)
    if found is None and call.error:
        return Verdict("L2", "exception", f"{call.op} raised {call.error}", _places(call.before))
    if found is not None:
        return found
    if not call.ok and call.op == "offer":
        return _refused(books, call)
    books.enter(call)
    seen = _compared(books, (*call.keys, *call.evicted), (*call.after, *call.left), f"after {call.op}")
    return seen or _counted(books, call.counters)


def _offer(books: Books, call: ChunkCall) -> Verdict | None:
    """O3, O9, O12, and P6, P7 for the chunks that are handed out."""
    if len(call.chunks) != len(call.stored):
        return Verdict("P7", "chunks for keys", f"{len(call.chunks)} chunks are handed out for {len(call.stored)} keys")
    offered = set(call.keys)
    for key in call.evicted:
        if wrong := _not_evictable(books, key, offered):
            chunk = books.chunk_of.get(key)
            where = "a key" if chunk is None else f"the entry in chunk {chunk}"
            return Verdict("O12", wrong[0], f"an offer evicts {where}, {wrong[1]}", () if chunk is None else (chunk,))
    if not offered.issuperset(call.stored) or len(set(call.stored)) != len(call.stored):
        return Verdict(
            "O12", "stores what was not offered", "an offer stores a key that it does not name, or one twice"
        )
    if call.ok and len(call.stored) < call.wanted:
        text = f"an offer stores {len(call.stored)} keys, and {call.wanted} of those that it names are not there"
        return Verdict("O9", "left out of an offer", text)
    gone = {books.chunk_of[key] for key in call.evicted}
    used: set[int] = set()
    for key, chunk in zip(call.stored, call.chunks, strict=False):
        if key in books.chunk_of:
            held = books.chunk_of[key]
            how = "being stored" if key in books.storing else "there"
            return Verdict("O3", "stored again", f"what is {how}, in chunk {held}, is to be stored again", (held,))
        if not 0 <= chunk < books.chunks or chunk in used or (chunk in books.key_in and chunk not in gone):
            text = f"chunk {chunk} is handed out, and is in use or none of {books.chunks}"
            return Verdict("P6", "chunk in use handed out", text, (chunk,) if 0 <= chunk < books.chunks else ())
        used.add(chunk)
    return None


def _not_evictable(books: Books, key: Any, offered: Collection[Any]) -> tuple[str, str] | None:
    """Why a key must not be evicted by an offer; None where it may."""
    if key in offered:
        return "evicts a key of its own", "which it names"
    if key in books.storing:
        return "evicts an entry in flight", "whose store is in flight"
    if key not in books.chunk_of:
        return "evicts what is not there", "which is not there"
    return ("evicts a pinned entry", "which a load in flight pins") if key in books.loads else None


def _refused(books: Books, call: ChunkCall) -> Verdict | None:
    """O12: only with too little that can go, and nothing changes."""
    needed = call.wanted - (books.chunks - len(books.chunk_of))
    named = books.chunk_of.keys() & set(call.keys)
    can_go = books.counters()[1] - len(named - books.storing - books.loads.keys())
    if needed <= can_go:
        text = f"an offer is refused that needs {max(needed, 0)} evictions, and {can_go} entries can go"
        return Verdict("O12", "refused with enough evictable", text)
    if call.after != call.before or call.counters != books.counters():
        return Verdict("O12", "a refusal changes something", "a refused offer changes entries or counters")
    return None


def _stored(books: Books, call: ChunkCall) -> Verdict | None:
    """O7: what ends was in flight, and ends once."""
    if all(key in books.storing for key in call.keys):
        return None
    text = "a store ends that is not in flight: it ended before, or never began (the caller's error)"
    return Verdict("O7", "ends what is not in flight", text, _places(call.before))


def _load(books: Books, call: ChunkCall) -> Verdict | None:
    """P6: what is loaded is there, and is read where it was stored."""
    if any(key not in books.chunk_of or key in books.storing for key in call.keys):
        text = "a load names what is not stored, or not yet (the caller's error)"
        return Verdict("P6", "loaded and not stored", text, _places(call.before))
    for key, chunk in zip(call.keys, call.chunks, strict=False):
        if books.chunk_of[key] != chunk:
            text = f"chunk {chunk} is to be loaded for a key that was stored to chunk {books.chunk_of[key]}"
            return Verdict("P6", "loaded from another chunk", text, _places(call.before))
    if call.error or len(call.chunks) == len(call.keys):
        return None
    return Verdict("P7", "chunks for keys", f"{len(call.chunks)} chunks are answered for a load of {len(call.keys)}")


def _loaded(books: Books, call: ChunkCall) -> Verdict | None:
    """O7, as for stores."""
    if all(books.loads.get(key, 0) >= times for key, times in Counter(call.keys).items()):
        return None
    text = "a load ends that is not in flight: it ended before, or never began (the caller's error)"
    return Verdict("O7", "ends what is not in flight", text, _places(call.before))


def _reset(_books: Books, call: ChunkCall) -> Verdict | None:
    """O10: nothing is left."""
    if call.error or not call.left:
        return None
    return Verdict("O10", "reset", f"{len(call.left)} entries are left after a reset", _places(call.left))


_JUDGES: Final = {"offer": _offer, "stored": _stored, "load": _load, "loaded": _loaded, "reset": _reset}


def _compared(books: Books, keys: Sequence[Any], entries: Sequence[Entry], when: str) -> Verdict | None:
    for key, found in zip(keys, entries, strict=False):
        due = books.entry(key)
        if found != due:
            return _differing(due, found, when)
    return None


def _differing(due: Entry, found: Entry, when: str) -> Verdict:
    """What is wrong with an entry that is not as the books have it."""
    if due is None:
        assert found is not None
        text = f"an entry in chunk {found[0]} has no store that went well, nor one in flight, {when}"
        return Verdict("P5", "entry without a store", text, (found[0],))
    chunk, count = due
    if found is None or found[0] != chunk:
        rule, kind, what = _LOST[min(count, 1)]
        return Verdict(rule, kind, f"what {what} in chunk {chunk} is there no longer, {when}", (chunk,))
    if found[1] < STORING:
        return Verdict("P2", "negative count", f"chunk {chunk} has a ref_cnt of {found[1]} {when}", (chunk,))
    if count == STORING:
        text = f"chunk {chunk} counts as stored, and its store is in flight, {when}"
        return Verdict("P5", "stored before its store ended", text, (chunk,))
    if found[1] == STORING:
        text = f"chunk {chunk} was stored, and counts as being stored, {when}"
        return Verdict("P5", "stored and cannot be loaded", text, (chunk,))
    text = f"chunk {chunk} has a ref_cnt of {found[1]} {when}, and {count} loads in flight"
    return Verdict("P2", "references of chunks", text, (chunk,))


def _counted(books: Books, counters: Sequence[int]) -> Verdict | None:
    """P1, by the manager's own counters."""
    for name, count, due in zip(_COUNTERS, counters, books.counters(), strict=False):
        if count != due:
            kind = "negative counter" if count < 0 else f"counter of {name}"
            return Verdict("P1", kind, f"the manager counts {count} {name}; there are {due}")
    return None


def _places(entries: Iterable[Entry]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(entry[0] for entry in entries if entry is not None))


# ----------------------------------------------------------------------------------------------------------- states


def judge_chunks(books: Books, state: ChunkState) -> Iterator[Verdict]:
    """Yield the rules that the state of a chunk manager breaks."""
    there = {key: (chunk, count) for key, chunk, count in state.entries}
    keys = list(dict.fromkeys((*books.chunk_of, *there)))
    if found := _compared(books, keys, [there.get(key) for key in keys], "in the state"):
        yield found
    if found := _counted(books, state.counters):
        yield found
    times = Counter(chunk for _, chunk, _ in state.entries)
    if shared := [chunk for chunk, keys in times.items() if keys > 1]:
        yield Verdict("P6", "one chunk for two keys", f"two keys have chunk {shared[0]}", (shared[0],))
    used, free = times.keys(), set(state.free)
    if len(free) != len(state.free):
        yield Verdict("P3", "chunk free twice", "a chunk stands twice among those that were given back")
    if both := sorted(used & free):
        yield Verdict("P3", "held and free", f"chunk {both[0]} has an entry and was given back", (both[0],))
    placed = used | free
    if len(placed) != state.begun or state.begun > books.chunks or any(not 0 <= c < state.begun for c in placed):
        text = f"{len(used)} chunks are in use and {len(free)} were given back, of {state.begun} handed out"
        yield Verdict("P1", "conservation", text)
