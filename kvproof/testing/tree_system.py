"""A `PrefixTree` as a system of the level ``tree``: the kit's scheduler and allocator, which tell what was asked.

What happens to the tree is told in effects of its own, since only its oracle reads them. A prefix is named by a request
that has it, and its length:

- ``["matched", r, n, [slots]]``: of r's first n tokens this was found.
- ``["inserted", r, n, [slots], had]``: r's first n tokens stand in these slots; so many were there before.
- ``["offered", r, n, [slots]]``: an insert of r's first n tokens begins, where calls overlap: of a part of these slots
  the tree may say that it has it, until that is answered, or taken back by an offer of none.
- ``["locked", r, n]``, ``["unlocked", r, n]``: a lock where r's first n tokens end.
- ``["evicted", n, [slots]]``: n slots were wanted, these came free. ``["forgotten"]``: a reset.
- ``["page stored", k, parent, [tokens], namespace]``, ``["page removed", k]``, ``["pages cleared"]``: events.
"""

from __future__ import annotations

import inspect
import reprlib
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import fields
from typing import Any

from ..engines.driver.requests import OVERLAPPING
from ..errors import UsageError
from .answers import Keys, listed, number, numbers, parts
from .declared import check_declared
from .manager import Refused, Request
from .scheduler import SKIPPED, Scheduler
from .tree import Edge, PrefixTree

__all__ = ["LEVEL", "TreeSystem", "capabilities", "has", "overlaps"]

LEVEL = "tree"

_ALWAYS = ("start", "resume", "step", "grow", "finish", "abort", "preempt", "drain")
_ACTS = ("match", "match_and_lock", "insert", "lock", "unlock", "check_in", "evict")
_SIZES = ("evictable", "protected")

_EDGE = tuple(field.name for field in fields(Edge))
_MATCH = ("slots", "what lock() takes")
_CHECK_IN = ("how many tokens were there before", *_MATCH)
_EVENTS = "(stored, key, parent, tokens), with a namespace behind them perhaps, (removed, key) and (cleared,)"

_ENDLESS = 40
"""So many times the slots that a case asks for has an allocator that nobody can ask to evict."""


def has(kind: type[PrefixTree], method: str) -> bool:
    """Tell whether a tree overrides a method."""
    return getattr(kind, method) is not getattr(PrefixTree, method)


def overlaps(kind: type[PrefixTree]) -> bool:
    """Tell whether its calls are overlapped: one of them may wait, and it does not say that they must not be."""
    return kind.overlaps and any(inspect.iscoroutinefunction(getattr(kind, method)) for method in _ACTS)


def capabilities(kind: type[PrefixTree]) -> dict[str, Any]:
    """What a tree can do and tell, as a hello says it.

    Raises:
        UsageError: it lacks what every tree has, or says what is no word.
    """
    check_declared(kind, PrefixTree)
    for method in ("match", "insert"):
        if not has(kind, method):
            raise UsageError(f"{kind.__qualname__} has no {method}(); kvproof.testing.PrefixTree says what it must do")
    for one, other in (("lock", "unlock"), ("children", "edge")):
        if has(kind, one) != has(kind, other):
            raise UsageError(f"{kind.__qualname__} has only one of {one}() and {other}(); they come together")
    if has(kind, "match_and_lock") and not has(kind, "lock"):
        raise UsageError(f"{kind.__qualname__} has match_and_lock(); it comes with lock() and unlock()")
    if kind.cancelled not in ("undone", None):
        raise UsageError(f"{kind.__qualname__}.cancelled is {kind.cancelled!r}; there are undone and None")
    if kind.order not in (None, "lru"):
        raise UsageError(f"{kind.__qualname__}.order is {kind.order!r}; it is lru or None")
    return {
        "operations": [
            *(*_ALWAYS, "again"),
            *(name for name in ("evict", "reset") if has(kind, name)),
            *(OVERLAPPING if overlaps(kind) else ()),
        ],
        "tenants": ["salt"] if kind.namespaces else [],
        "block_tokens": list(kind.page_sizes),
        "tokens_per_grow": 3,
    }


class TreeSystem(Scheduler):
    """One tree, the slots around it, and the requests that the kit's scheduler has.

    A request's ``own`` is what its lock is on; ``found`` are the slots of its table that the tree has: the first ones.
    """

    def __init__(self, kind: type[PrefixTree], setup: dict[str, Any]) -> None:
        """Make a tree from a setup.

        Raises:
            Refused: it does not take one like that.
        """
        can = capabilities(kind)
        pages, self._page = _read(setup)
        slots = pages * self._page
        super().__init__(kind(slots, self._page), can["operations"])
        self._locks, self._evicts = has(kind, "lock"), has(kind, "evict")
        self._walks, self._events = has(kind, "children"), has(kind, "take_events")
        self._checks_in, self._locks_found = has(kind, "check_in"), has(kind, "match_and_lock")
        self._sizes = [name for name in _SIZES if has(kind, f"{name}_size")]
        if not self._evicts:
            pages, slots = pages * _ENDLESS, slots * _ENDLESS
        self._slots = slots
        self._free = deque(range(pages))
        self._loose: set[int] = set()
        """Free slots of pages that are not free as a whole."""
        self._keys = Keys()
        self.world: dict[str, Any] = {
            "groups": [{"kind": "full", "block": 1}],
            "tiers": {"device": {"blocks": slots}},
            "hash_block": 1,
            "notes": {
                "keys": "tokens",
                "page": self._page,
                "order": kind.order,
                "events": self._events,
                "locks": self._locks,
                "checks_in": self._checks_in,
            },
        }

    # ----------------------------------------------------------------------------------------------------- the protocol

    def state(self) -> dict[str, Any]:
        """Return what the tree tells of its state."""
        tables = {name: [[*request.table]] for name, request in self._running.items()}
        counts = {"waiting": len(self._waiting), "running": len(self._running), "pending": 0}
        tree: dict[str, Any] = {name: number(self._ask(f"{name}_size"), f"{name}_size") for name in self._sizes}
        if self._walks:
            tree["nodes"] = [*self._walk()]
        return {"pools": {}, "tables": tables, "tree": tree, **counts}

    def _walk(self) -> Iterator[list[Any]]:
        """The nodes, parents first; no more of them than a tree can have, since one that is broken may have a cycle.

        The namespace is that of the root's child: what stands below it says none of its own.
        """
        waiting: deque[tuple[int, str | None, Any]] = deque((-1, None, node) for node in self._children(None))
        place = 0
        while waiting and place <= self._slots:
            parent, namespace, node = waiting.popleft()
            edge = self._ask("edge", node)
            if not all(hasattr(edge, name) for name in _EDGE):
                raise TypeError(f"edge() answered {reprlib.repr(edge)}, which is no kvproof.testing.Edge")
            if parent < 0:
                namespace = edge.namespace
            lock_ref = None if edge.lock_ref is None else number(edge.lock_ref, "edge")
            yield [parent, [None, namespace], numbers(edge.tokens, "edge"), numbers(edge.slots, "edge"), lock_ref]
            waiting += ((place, namespace, child) for child in self._children(node))
            place += 1

    def _children(self, node: Any) -> list[Any]:
        return [*listed(self._ask("children", node), "children", "nodes")]

    # ------------------------------------------------------------------------------------------------------- operations

    def _again(self) -> Any:
        """What is checked in is inserted once more: the tree has all of it."""
        for request in self._running.values():
            if request.found:
                self._insert(request, len(request.found))
        return None if self._running else SKIPPED

    def _evict(self, tokens: int) -> Any:
        return self._make_free(tokens) if self._may_evict() else SKIPPED

    def _reset(self) -> Any:
        if self._running:
            return SKIPPED
        self._ask("reset")
        self._tell("forgotten")
        self._free, self._loose = deque(range(self._slots // self._page)), set()
        return True

    # -------------------------------------------------------------------------------------- what operations are made of

    def _admit(self, request: Request, most: int) -> bool:
        """Match, lock, make room and compute; without room the request waits, and holds nothing."""
        length = len(request.tokens)
        if not self._locks and not self._running:
            self._make_room(-(-length // self._page))  # What is found later could be evicted.
        self._find(request, length - 1)
        until = self._begins(request, most)
        if not self._extend(request, until):
            self._let_go(request)
            self._waiting[request.name] = request
            return False
        self._admitted(request, until)
        self._check_in(request)
        return True

    def _begins(self, request: Request, most: int) -> int:
        """A request runs from now on, behind what was found for it. Up to where it needs slots, to be computed."""
        request.table, request.cached = [*request.found], len(request.found)
        self._running[request.name] = self._waiting.pop(request.name)
        length = len(request.tokens)
        return min(length, request.cached + (most or length))

    def _admitted(self, request: Request, until: int) -> None:
        """It has what it needs, and is computed so far."""
        length = len(request.tokens)
        self._tell("lookup", request.name, request.cached, 0, length - 1)
        self._tell("found", request.name, [[*request.found]], request.cached)
        request.computed = min(request.cached, length)
        self._compute(request, max(until, request.computed))

    def _advance(self, request: Request, until: int) -> bool:
        if not self._extend(request, until):
            return False
        self._compute(request, until)
        self._check_in(request)
        return True

    def _grown(self, request: Request, tokens: list[int]) -> bool:
        if not self._extend(request, len(request.tokens) + len(tokens)):
            return False
        self._goes_on(request, tokens)
        return True

    def _goes_on(self, request: Request, tokens: list[int]) -> None:
        request.tokens += tokens
        self._tell("append", request.name, list(tokens))
        self._compute(request, len(request.tokens))

    def _compute(self, request: Request, until: int) -> None:
        self._tell("table", request.name, 0, 0, [*request.table])
        if request.computed < until:
            self._tell("compute", request.name, request.computed, request.tokens[request.computed : until])
        request.computed = until
        self._tell("processed", request.name, until)

    def _check_in(self, request: Request) -> None:
        """What is computed of whole pages becomes the tree's, duplicates are freed, and the lock moves there.

        The new lock comes first: between the two nothing must be evictable.
        """
        held, old, whole = len(request.found), request.own, self._to_check_in(request)
        if not whole:
            return
        slots = request.table[:whole]
        if self._checks_in:
            had = self._moved(request, whole, slots, self._ask("check_in", *self._of_check_in(request, slots)))
        else:
            had = self._insert(request, whole)
            self._find(request, whole)
            self._unlock(request, old, held)
        self._has_moved(request, slots, held, had)

    def _to_check_in(self, request: Request) -> int:
        """Up to where a request's whole pages are computed; 0 where the tree has all of them."""
        whole = request.computed // self._page * self._page
        return whole if whole > len(request.found) else 0

    def _has_moved(self, request: Request, slots: list[int], held: int, had: int) -> None:
        """Of these slots the tree had a part before: that is free now, and the request goes on in the tree's."""
        self._give_back(slots[held:had])
        request.table[: len(slots)] = request.found
        self._tell("table", request.name, 0, 0, [*request.table])

    def _let_go(self, request: Request, *, finished: bool = False) -> None:
        """The request's lock is released, and what is its own is freed; one that has finished checks in before."""
        if finished:
            self._check_in(request)
        self._unlock(request, request.own, len(request.found))
        self._is_out(request)

    def _is_out(self, request: Request) -> None:
        """A request whose lock is released has nothing any more."""
        self._give_back(request.table[len(request.found) :][::-1])
        del self._running[request.name]
        request.table, request.found, request.own, request.cached, request.computed = [], [], None, 0, 0

    # ------------------------------------------------------------------------------------------------- the tree's part

    def _find(self, request: Request, most: int) -> None:
        """Match so many of a request's tokens, and lock what that finds."""
        what = request.tokens[:most], request.salt
        if self._locks_found:
            self._matched(request, most, self._ask("match_and_lock", *what), "match_and_lock")
        else:
            self._matched(request, most, self._ask("match", *what))
            if self._locks:
                self._ask("lock", request.own)
        self._tell_lock("locked", request, len(request.found))

    def _matched(self, request: Request, most: int, answer: Any, method: str = "match") -> None:
        told, request.own = parts(answer, method, _MATCH)
        request.found = numbers(told, method)
        self._tell("matched", request.name, most, [*request.found])

    def _insert(self, request: Request, most: int) -> int:
        slots = request.table[:most]
        return self._inserted(request, slots, self._ask("insert", *self._of_insert(request, slots)))

    @staticmethod
    def _of_insert(request: Request, slots: list[int]) -> tuple[list[int], list[int], str | None]:
        """What an insert is asked for these slots of a request."""
        return request.tokens[: len(slots)], [*slots], request.salt

    def _inserted(self, request: Request, slots: list[int], answer: Any) -> int:
        had = number(answer, "insert")
        self._tell("inserted", request.name, len(slots), slots, had)
        return had

    @staticmethod
    def _of_check_in(request: Request, slots: list[int]) -> tuple[list[int], list[int], Any, str | None]:
        """What a tree is asked that checks in by itself: it inserts, and moves the lock."""
        return request.tokens[: len(slots)], [*slots], request.own, request.salt

    def _moved(self, request: Request, whole: int, slots: list[int], answer: Any) -> int:
        held = len(request.found)
        before, found, request.own = parts(answer, "check_in", _CHECK_IN)
        had, request.found = number(before, "check_in"), numbers(found, "check_in")
        self._tell("inserted", request.name, whole, slots, had)
        self._tell("matched", request.name, whole, [*request.found])
        self._tell_lock("locked", request, len(request.found))
        self._tell_lock("unlocked", request, held)
        return had

    def _unlock(self, request: Request, node: Any, most: int) -> None:
        if self._locks:
            self._ask("unlock", node)
        self._tell_lock("unlocked", request, most)

    def _tell_lock(self, what: str, request: Request, most: int) -> None:
        """In a tree that has no locks nothing is locked, and so its sizes say."""
        if self._locks:
            self._tell(what, request.name, most)

    def _done(self) -> None:
        """Tell the tree's events."""
        for event in listed(self._ask("take_events"), "take_events", "events") if self._events else ():
            match event:
                case ("stored", key, parent, tokens, *rest) if len(rest) <= 1:
                    above, page = None if parent is None else self._number(parent), numbers(tokens, "take_events")
                    self._tell("page stored", self._number(key), above, page, *(rest or [None]))
                case ("removed", key):
                    self._tell("page removed", self._number(key))
                case ("cleared",):
                    self._tell("pages cleared")
                case _:
                    raise ValueError(f"take_events() told {reprlib.repr(event)}; there are {_EVENTS}")

    def _number(self, key: Hashable) -> int:
        return self._keys.number(key, "take_events")

    # -------------------------------------------------------------------------------------------------------- the slots

    def _extend(self, request: Request, tokens: int) -> bool:
        """Let a request's table have slots for so many tokens, in whole pages; for want of room, evict."""
        self._make_room(self._missing(request, tokens))
        return self._takes(request, tokens)

    def _missing(self, request: Request, tokens: int) -> int:
        """So many pages more a request needs for so many tokens."""
        return -(-tokens // self._page) - len(request.table) // self._page

    def _takes(self, request: Request, tokens: int) -> bool:
        """Let a request have them; where fewer are free, none."""
        pages = self._missing(request, tokens)
        if pages > len(self._free):
            return False
        for page in [self._free.popleft() for _ in range(pages)]:
            request.table += range(page * self._page, (page + 1) * self._page)
        return True

    def _make_room(self, pages: int) -> None:
        """Evict what is missing for so many free pages, where that can be done."""
        if pages > len(self._free) and self._may_evict():
            self._make_free((pages - len(self._free)) * self._page)

    def _may_evict(self) -> bool:
        """A tree without locks would evict what is read."""
        return self._evicts and (self._locks or not self._running)

    def _make_free(self, tokens: int) -> list[int]:
        return self._evicted(tokens, self._ask("evict", tokens))

    def _evicted(self, tokens: int, answer: Any) -> list[int]:
        slots = numbers(answer, "evict")
        self._tell("evicted", tokens, slots)
        self._give_back(slots)
        return slots

    def _give_back(self, slots: Iterable[int]) -> None:
        """Slots are free; a page is when all of its slots are. What never was one is judged, and stays away."""
        for slot in slots:
            page = slot // self._page
            self._loose.add(slot)
            whole = range(page * self._page, (page + 1) * self._page)
            if self._loose.issuperset(whole) and 0 <= slot < self._slots:
                self._loose.difference_update(whole)
                if page not in self._free:
                    self._free.append(page)


def _read(setup: dict[str, Any]) -> tuple[int, int]:
    """The pages, and the tokens of a page.

    Raises:
        Refused: that is no setup.
    """
    if unknown := sorted({*setup} - {"blocks", "block_tokens"}):
        raise Refused(f"there is no option {unknown[0]}")
    pages, size = setup.get("blocks"), setup.get("block_tokens")
    for name, value in (("blocks", pages), ("block_tokens", size)):
        if type(value) is not int or value < 1:
            raise Refused(f"{name} must be a number above 0")
    assert isinstance(pages, int)
    assert isinstance(size, int)
    return pages, size
