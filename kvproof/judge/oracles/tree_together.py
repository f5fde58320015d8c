"""A prefix tree whose calls overlap, by what they answer: which slots it has, and who has locked them.

Of calls that go on beside each other nobody knows in which order a tree has done them. But what it has of slots follows
from the answers in any order: what an insert adopts it says, and what an eviction frees. So books are kept by slot
(`tree_books.py` keeps them by prefix: there may be two pages of one meanwhile, where the first is being evicted). What
must be so in every order is judged: nothing is freed that is locked, or is not the tree's; nothing is found that is
not the tree's, nor the slots of other tokens; and of what a request has just inserted it finds all. What else a match
or an eviction may have met is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import Effect
from ..violation import Violation
from .tree_books import Books, Page

__all__ = ["Together", "path_of"]


def path_of(ghost: Ghost, r: str, most: int, page: int) -> list[int]:
    """The prefixes that end with a whole page of a request's first tokens; it may have fewer than are named."""
    return ghost.requests[r].line[page : most + 1 : page]


class Together:
    """Judges what was told of one group of calls."""

    def __init__(self, books: Books, page: int, ghost: Ghost) -> None:
        """Begin with what the books say; they are not changed before the end."""
        self._books, self._page, self._ghost = books, page, ghost
        self._prefix_at = {slot: prefix for prefix, each in books.pages.items() for slot in each.slots}
        """The tree's slots, and the prefix whose page each is of."""
        self._above = {prefix: each.above for prefix, each in books.pages.items()}
        self._locks = Counter({slot: each.locks for each in books.pages.values() for slot in each.slots})
        """How many locks each slot has."""
        self._offers: dict[str, dict[int, int]] = {}
        """What inserts that go on may have made the tree's, by request: as `_prefix_at`."""
        self._inserted: dict[str, int] = {}
        """So many tokens each request has inserted just now."""
        self._found: dict[str, list[int]] = {}
        """What was matched for each request last."""
        self._held: dict[str, dict[int, list[int]]] = {}
        """The slots that each request has locked meanwhile, by how many they are."""

    def effect(self, effect: Effect) -> Iterator[Violation]:
        """Yield what is wrong with what was told."""
        match effect:
            case ["offered", r, most, slots]:
                self._offers[r] = dict(self._pages_of(r, most, slots))
            case ["inserted", r, most, slots, had]:
                yield from self._adopted(r, most, slots, had)
            case ["matched", r, most, slots]:
                yield from self._matched(r, most, slots)
            case ["locked", r, most]:
                self._held.setdefault(r, {})[most] = self._found.get(r, [])
                self._locks.update(self._found.get(r, []))
            case ["unlocked", r, most]:
                held = self._held.get(r, {})
                self._locks.subtract(held.pop(most) if most in held else self._held_before(r, most))
            case ["evicted", wanted, slots]:
                yield from self._evicted(wanted, slots)
            case _:
                pass

    def _pages_of(self, r: str, most: int, slots: Sequence[int]) -> Iterator[tuple[int, int]]:
        """These slots of a request's first tokens, each with the prefix whose page it is of."""
        for n, prefix in enumerate(path_of(self._ghost, r, most, self._page)):
            yield from ((slot, prefix) for slot in slots[n * self._page : (n + 1) * self._page])

    def _held_before(self, r: str, most: int) -> list[int]:
        path = path_of(self._ghost, r, most, self._page)
        return self._books.slots_of(self._books.there(path))

    def _adopted(self, r: str, most: int, slots: Sequence[int], had: int) -> Iterator[Violation]:
        """R5: what was not there is the tree's from now on."""
        self._inserted[r] = most
        self._offers.pop(r, None)
        adopted = dict([*self._pages_of(r, most, slots)][had:])
        if twice := adopted.keys() & self._prefix_at.keys():
            text = f"{most} tokens of {r} are inserted at {slots}, and the tree is said to have had {had} of them; it"
            text += f" had slot {min(twice)} already"
            yield Violation("R5", "what an insert is said to find", text, ("less",))
        self._prefix_at |= adopted
        path = path_of(self._ghost, r, most, self._page)
        self._above |= dict(zip(path, [self._ghost.requests[r].line[0], *path], strict=False))

    def _matched(self, r: str, most: int, slots: Sequence[int]) -> Iterator[Violation]:
        """R4: what is found is the tree's, and the request's tokens; of what it has just inserted it is all."""
        self._found[r] = [*slots]
        said = f"of {most} tokens of {r} a match returns {len(slots)}"
        if len(slots) % self._page or len(slots) > most:
            yield Violation("R4", "a match within a page", f"{said}, and a page has {self._page}")
            return
        there = {slot: prefix for offer in self._offers.values() for slot, prefix in offer.items()} | self._prefix_at
        wrong = next(((slot, p) for slot, p in self._pages_of(r, most, slots) if there.get(slot) != p), None)
        if wrong is not None and wrong[0] not in there:
            yield Violation("R4", "a match of what is not there", f"{said}, and slot {wrong[0]} is not the tree's")
        elif wrong is not None:
            text = f"{said}, and slot {wrong[0]} is that of other tokens"
            yield Violation("R4", "slots of something else", text)
        elif len(slots) < most == self._inserted.get(r):
            text = f"{said}, and all of them were inserted just before: nobody evicts what is checked in until it ends"
            yield Violation("R4", "a match stops short", text)

    def _evicted(self, wanted: int, slots: Sequence[int]) -> Iterator[Violation]:
        """R6, R2: what comes free was the tree's, and nobody has locked it."""
        said = f"{wanted} slots are to come free, and an eviction frees"
        strange = next((slot for slot in slots if slot not in self._prefix_at), None)
        if strange is not None or len({*slots}) != len(slots):
            what = f"a slot twice: {slots}" if strange is None else f"slot {strange}, which the tree does not own"
            yield Violation("R2", "freed twice", f"{said} {what}")
        locked = next((slot for slot in slots if self._locks[slot] > 0), None)
        if locked is not None:
            yield Violation("R6", "evicts what is locked", f"{said} slot {locked}, which is locked")
        for slot in slots:
            self._prefix_at.pop(slot, None)

    def close(self) -> Iterator[Violation]:
        """No call is under way any more: write the books anew, and yield what no tree can have come to."""
        slots_of: dict[int, list[int]] = {}
        for slot, prefix in self._prefix_at.items():
            slots_of.setdefault(prefix, []).append(slot)
        before, pages = self._books.pages, dict[int, Page]()
        for prefix, slots in slots_of.items():
            yield from self._wrong(prefix, slots, slots_of)
            last = before[prefix].locked_at if prefix in before else 0
            pages[prefix] = Page(self._above[prefix], tuple(slots), self._locks[slots[0]], last)
        self._books.become(pages)

    def _wrong(self, prefix: int, slots: Sequence[int], slots_of: dict[int, list[int]]) -> Iterator[Violation]:
        above = self._above[prefix]
        if len(slots) > self._page:
            text = f"equal tokens were inserted in the slots {slots}, and each time the tree is said to have had none"
            yield Violation("R5", "what an insert is said to find", text, ("less",))
        elif len(slots) < self._page:
            yield Violation("R1", "a part of a page", f"of a page {slots} are left in the tree, and the rest is freed")
        elif above in self._above and above not in slots_of:
            text = f"the page that {slots} stand below was evicted, and they stay"
            yield Violation("R6", "evicts what has a child", text)
