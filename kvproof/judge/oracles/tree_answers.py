"""A prefix tree by what it answers: matches (R4), inserts (R5), eviction (R6, R2), events (R8), and its state (R1, R3).

All that a tree answers follows from what it was asked, but for what it evicts, and that it tells. So the oracle keeps
books (`tree_books.py`) and compares; what the tree shows of its nodes is compared in `tree_nodes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import TOGETHER, Effect, Step, TreeState, World
from ..violation import Violation
from .tree_books import Books
from .tree_nodes import node_sizes, wrong_nodes
from .tree_together import Together, path_of

__all__ = ["TreeAnswersOracle"]


class TreeAnswersOracle:
    """Judges a run of the level ``tree``, up to the first step that breaks a rule: what comes behind is a consequence.

    The world's notes say how many tokens a ``page`` has, which ``order`` of eviction is promised, and whether the tree
    tells ``events`` and moves locks itself (``checks_in``).
    """

    def __init__(self, world: World) -> None:
        self._page: int = world.notes["page"]
        self._order: str | None = world.notes["order"]
        self._events: bool = world.notes["events"]
        self._checks_in: bool = world.notes["checks_in"]
        self._books = Books()
        self._heard: dict[int, tuple[int, int]] = {}
        """What a listener believes: by key, the prefix and the one above it."""
        self._node_of: dict[int, int] = {}
        """For each page that was there when nodes were shown last, and all the time since, how large its node was."""
        self._offered: Sequence[int] = ()
        """The slots that were inserted last in this step."""
        self._perhaps: dict[str, Violation] = {}
        """What evictions of this step did wrong by these books, each in one way, unless the state behind the step shows
        what that comes from: slots that are lost, or a lock that is not released."""
        self._may_have_joined = False
        """Something was evicted in this step, or a lock released: there may be fewer nodes now than were shown."""
        self._is_broken = False

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with the answers of a step, then with its state."""
        if self._is_broken or step.skipped:
            return
        self._offered, self._perhaps, self._may_have_joined = (), {}, False
        found = [*(self._together(step, ghost) if step.op == TOGETHER else self._answers(step, ghost))]
        if not found and step.error is None and step.state is not None and step.state.tree is not None:
            found += self._state(step, step.state.tree, ghost)
        found = found or [*self._perhaps.values()]
        self._is_broken = bool(found)
        yield from found

    def _answers(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        for effect in step.effects:
            match effect:
                case ["matched", r, most, slots]:
                    yield from self._matched(r, most, slots, ghost)
                case ["inserted", r, most, slots, had]:
                    yield from self._inserted(ghost.requests[r].line[0], self._path(ghost, r, most), slots, had, r)
                case ["locked", r, most]:
                    self._books.lock(self._books.there(self._path(ghost, r, most)), +1)
                case ["unlocked", r, most]:
                    self._books.lock(self._books.there(self._path(ghost, r, most)), -1)
                    self._may_have_joined = True
                case ["evicted", wanted, slots]:
                    yield from self._evicted(wanted, slots)
                case ["forgotten"]:
                    self._books = Books()
                case ["page stored" | "page removed" | "pages cleared", *_]:
                    yield from self._hear(effect, ghost)
        if self._events and step.error is None:
            yield from self._believed()

    def _together(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Calls that overlapped: nobody knows in which order they were done, nor what was one node meanwhile."""
        self._node_of.clear()
        together = Together(self._books, self._page, ghost)
        for effect in step.effects:
            yield from together.effect(effect)
            if effect[0] in ("page stored", "page removed", "pages cleared"):
                yield from self._hear(effect, ghost)
        if step.error is None:
            yield from together.close()
        if self._events and step.error is None:
            yield from self._believed()

    def _path(self, ghost: Ghost, r: str, most: int) -> list[int]:
        """The prefixes that end with a whole page of a request's first tokens; it may have fewer than a match names."""
        return path_of(ghost, r, most, self._page)

    # ----------------------------------------------------------------------------------------------- match and insert

    def _matched(self, r: str, most: int, slots: Sequence[int], ghost: Ghost) -> Iterator[Violation]:
        """R4: the longest cached prefix, in whole pages; and its slots."""
        path = self._path(ghost, r, most)
        there = self._books.there(path)
        expected = self._books.slots_of(there)
        said = f"of {most} tokens of {r} a match returns {len(slots)}"
        if len(slots) % self._page:
            yield Violation("R4", "a match within a page", f"{said}, and a page has {self._page}")
        elif len(slots) > len(expected):
            text = f"{said}, and the tree has {len(expected)}"
            owner = self._books.namespace_of(slots[len(expected)])
            if owner not in (None, ghost.requests[r].line[0]):
                yield Violation("P13", "a match in another namespace", text)
            yield Violation("R4", "a match of what is not there", text)
        elif len(slots) < len(expected):
            text = f"{said}, and {len(expected)} were inserted and not evicted since"
            yield Violation("R4", "a match stops short", text)
        elif slots != expected and slots == self._offered[: len(slots)]:
            yield Violation("R5", "adopts what it had", f"{said} at {slots}, which it had at {expected} already")
        elif slots != expected:
            yield Violation("R4", "slots of something else", f"{said} at {slots}, and they were inserted at {expected}")
        self._books.use(there)

    def _inserted(self, root: int, path: Sequence[int], slots: Sequence[int], had: int, r: str) -> Iterator[Violation]:
        """R5: what the tree had is told, the rest is the tree's."""
        there = self._books.there(path)
        if had != len(there) * self._page:
            text = (
                f"the first {len(path) * self._page} tokens of {r} are inserted, and the tree is said to have had "
                f"{had} of them; it had {len(there) * self._page}"
            )
            yield Violation("R5", "what an insert is said to find", text, ("more" if had > len(there) else "less",))
        for prefix in path[len(there) :]:
            self._node_of.pop(prefix, None)
        self._offered = slots
        self._books.adopt(root, path, slots, self._page)
        self._books.use(path)

    # ------------------------------------------------------------------------------------------------------- eviction

    def _evicted(self, wanted: int, slots: Sequence[int]) -> Iterator[Violation]:
        """R6, R2: what comes free was the tree's, unlocked and below nothing; and is enough, and not too much."""
        pages, said = self._books.pages, f"{wanted} slots are to come free, and an eviction frees"
        owner = {slot: prefix for prefix, page in pages.items() for slot in page.slots}
        strange = [slot for slot in slots if slot not in owner]
        if strange or len({*slots}) != len(slots):
            what = f"slot {strange[0]}, which the tree does not own" if strange else f"a slot twice: {slots}"
            yield Violation("R2", "freed twice", f"{said} {what}")
        gone = {owner[slot] for slot in slots if slot in owner}
        partial = [prefix for prefix in gone if not {*pages[prefix].slots} <= {*slots}]
        if partial:
            yield Violation("R1", "a part of a page", f"{said} a part of the page {pages[partial[0]].slots}")
        locked = [prefix for prefix in gone if pages[prefix].locks]
        if locked:
            yield Violation("R6", "evicts what is locked", f"{said} {[*pages[locked[0]].slots]}, which is locked")
        orphan = next((page for prefix, page in pages.items() if prefix not in gone and page.above in gone), None)
        if orphan is not None:
            text = f"{said} {[*pages[orphan.above].slots]}, and {[*orphan.slots]} below it stay"
            yield Violation("R6", "evicts what has a child", text)
        self._check_order(gone, said)
        sizes = [self._node_of.get(prefix, len(slots)) for prefix in gone]
        for prefix in gone:
            del pages[prefix]
        left = self._books.unlocked()
        if len(slots) < wanted and left:
            text = f"{said} {len(slots)}, though {left} more are not locked"
            self._perhaps.setdefault("too little", Violation("R6", "evicts too little", text))
        # What stays may be joined to fewer nodes, and what they are is told behind the step.
        are_as_shown, self._may_have_joined = not self._may_have_joined, True
        if are_as_shown and sizes and len(slots) - max(sizes) >= wanted:
            yield Violation("R6", "evicts too much", f"{said} {len(slots)}: a node less would have done")

    def _check_order(self, gone: set[int], said: str) -> None:
        """R6 of who promises it: a leaf that stays was used later than what goes."""
        if self._order != "lru" or not gone:
            return
        pages, parents = self._books.pages, {page.above for page in self._books.pages.values()}
        youngest = max(gone, key=lambda prefix: pages[prefix].locked_at)
        for prefix, page in pages.items():
            is_leaf = prefix not in parents and prefix not in gone and not page.locks
            if is_leaf and page.used_at < pages[youngest].locked_at:
                text = f"{said} {[*pages[youngest].slots]}, though {[*page.slots]} were used before them and are a leaf"
                self._perhaps.setdefault("order", Violation("R6", "order of eviction", text))
                return

    # --------------------------------------------------------------------------------------------------------- events

    def _hear(self, effect: Effect, ghost: Ghost) -> Iterator[Violation]:
        """R8: parents come before their children and go after them; nothing is told that was known."""
        kind, *rest = effect
        if kind == "pages cleared":
            self._heard.clear()
        elif kind == "page removed":
            (key,) = rest
            if key not in self._heard:
                yield Violation("R8", "removed and not stored", f"key {key} is reported removed, and was not stored")
                return
            prefix, _ = self._heard.pop(key)
            if any(above == prefix for _, above in self._heard.values()):
                yield Violation("R8", "removed before its child", f"key {key} is reported removed before its child")
        else:
            key, parent, tokens, namespace = rest
            if parent is not None and parent not in self._heard:
                yield Violation("R8", "parent of a page", f"key {key} is reported below {parent}, which is not known")
                return
            above = ghost.contents.root(None, namespace) if parent is None else self._heard[parent][0]
            prefix = above
            for token in tokens:
                prefix = ghost.contents.after(prefix, token)
            if key in self._heard:
                yield Violation("R8", "stored twice", f"key {key} is reported stored, and was already")
            self._heard[key] = prefix, above

    def _believed(self) -> Iterator[Violation]:
        """R8: a listener knows what the tree has."""
        heard = {prefix for prefix, _ in self._heard.values()}
        if silent := self._books.pages.keys() - heard:
            slots = self._books.pages[min(silent)].slots
            yield Violation("R8", "events and tree", f"the page {[*slots]} is the tree's, and no event says so")
        elif stale := heard - self._books.pages.keys():
            key = min(key for key, (prefix, _) in self._heard.items() if prefix in stale)
            yield Violation("R8", "events and tree", f"events say that the tree has key {key}, and it has not")

    # ---------------------------------------------------------------------------------------------------------- state

    def _state(self, step: Step, tree: TreeState, ghost: Ghost) -> Iterator[Violation]:
        kinds = {effect[0] for effect in step.effects}
        checks_in = self._checks_in and "inserted" in kinds and step.op != TOGETHER  # There it may be any call's fault.
        of_locks = "R7" if checks_in else "R3"
        if tree.nodes is not None:
            yield from wrong_nodes(tree.nodes, self._books, self._page, ghost, kinds, of_locks)
            self._node_of = node_sizes(tree.nodes, self._page, ghost)
        for name, told, expected in (
            ("evictable", tree.evictable, self._books.unlocked()),
            ("protected", tree.protected, self._books.locked()),
        ):
            if told is not None and told != expected:
                text = f"the tree says that {told} slots are {name}, and {expected} are"
                yield Violation(of_locks, "sizes", text, (name,))
