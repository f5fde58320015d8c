"""An independent account of a replay, against which a target is checked.

The ledger is told what the target was asked and what it answered, and from that alone knows who holds which block,
what each block contains, and which blocks must be found under which prefix. It knows nothing of how a target works:
its rules are the universal ones of machine P.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NoReturn

from .requests import Request
from .target import Key, MapEvent, Started, View


class Violation(Exception):
    """A rule that the target broke: its name in SEMANTICS.md, and what was seen."""

    def __init__(self, rule: str, message: str) -> None:
        """Say which rule was broken and how it shows."""
        super().__init__(f"{rule}: {message}")
        self.rule = rule
        self.message = message


@dataclass(slots=True)
class Ledger:
    """What must be true of a target with ``usable`` blocks after the requests that it was told of."""

    usable: int
    null_block: int | None
    free_order: str | None
    holders: dict[int, int] = field(default_factory=dict)
    """Holders of each held block."""
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The table of each request inside."""
    prefix_of: dict[int, int] = field(default_factory=dict)
    """Which prefix each cached block holds the end of."""
    blocks_of: dict[int, list[int]] = field(default_factory=dict)
    """The blocks of each cached prefix, in order of registration."""
    reported: set[Key] | None = None
    """The keys that the events so far leave; ``None`` from a target that reports none."""
    _prefixes: dict[tuple[int, int], int] = field(default_factory=dict)
    _keys: dict[int, Key] = field(default_factory=dict)
    _prefix_of_key: dict[Key, int] = field(default_factory=dict)

    # Answers: cheap, judged for every request.

    def expected_hits(self, request: Request) -> list[int]:
        """Return the blocks that a lookup for ``request`` must find: the first copy of each leading prefix."""
        found: list[int] = []
        prefix = -1
        for block in islice(request.blocks, request.lookup_limit):
            prefix = self._prefixes.get((prefix, block), -2)
            copies = self.blocks_of.get(prefix)
            if copies is None:
                break
            found.append(copies[0])
        return found

    def refused(self, request: Request) -> None:
        """Judge a refusal: right only if the blocks do not suffice (P7)."""
        hits = self.expected_hits(request)
        free = self.usable - len(self.holders) - sum(block not in self.holders for block in hits)
        fresh = len(request.blocks) - len(hits)
        if fresh <= free:
            raise Violation("P7", f"{_name(request)} was refused although it needs {fresh} blocks and {free} are free")

    def started(self, request: Request, answer: Started) -> None:
        """Judge the answer to a request that was let in, and take it into the account."""
        expected = self.expected_hits(request)
        table = tuple(answer.table)
        hits, fresh = table[: answer.hits], table[answer.hits :]
        if len(table) != len(request.blocks):
            raise Violation("P2", f"{_name(request)} of {len(request.blocks)} blocks got a table of {len(table)}")
        if not 0 <= answer.hits <= request.lookup_limit:
            raise Violation(
                "P14", f"{_name(request)} hit {answer.hits} blocks where {request.lookup_limit} are allowed"
            )
        if hits != tuple(expected):
            self._judge_hits(request, hits, expected)
        if self.null_block in table:
            raise Violation("P4", f"{_name(request)} got the null block {self.null_block}")
        if set(fresh) & set(hits):
            raise Violation("P8", f"{_name(request)} was given block {min(set(fresh) & set(hits))}, which it also hit")
        for block in fresh:
            if block in self.holders:
                raise Violation("P3", f"{_name(request)} was given block {block}, which another request holds")
        if len(set(fresh)) != len(fresh):
            raise Violation("P7", f"{_name(request)} was given one block twice among {list(fresh)}")
        self.tables[request.index] = table
        for block in table:
            self.holders[block] = self.holders.get(block, 0) + 1
        for block in fresh:
            self._forget(block)
        self._register(request, answer)

    def finished(self, request: Request) -> None:
        """Take into the account that a request left."""
        for block in self.tables.pop(request.index):
            left = self.holders.pop(block) - 1
            if left:
                self.holders[block] = left

    def events(self, events: Iterable[MapEvent] | None) -> None:
        """Follow the events about the map, and judge the order in which they come (P12)."""
        if events is None:
            return
        reported = self.reported = set() if self.reported is None else self.reported
        for kind, key, parent in events:
            if kind == "cleared":
                reported.clear()
            elif kind == "removed":
                if key not in reported:
                    raise Violation("P12", f"key {_show(key)} was reported removed but is not reported as stored")
                reported.discard(key)
            else:
                if key in reported:
                    raise Violation("P12", f"key {_show(key)} was reported stored twice")
                if parent is not None and parent not in reported:
                    raise Violation("P12", f"key {_show(key)} names a parent {_show(parent)} that is not stored")
                reported.add(key)

    # States: linear in the pool, judged as often as was asked for.

    def check_view(self, view: View) -> None:
        """Judge a whole state: P1, P2, P3, P4, P5 (with P6 by content), and P12."""
        held = {block: count for block, count in enumerate(view.ref_cnt) if count}
        if self.null_block is not None:
            held.pop(self.null_block, None)
            if self.null_block in view.keys or self.null_block in view.free:
                raise Violation("P4", f"the null block {self.null_block} is cached or in the free queue")
        if held != self.holders:
            block = min(b for b in held.keys() | self.holders.keys() if held.get(b) != self.holders.get(b))
            raise Violation(
                "P2",
                f"block {block} has ref_cnt {held.get(block, 0)} and {self.holders.get(block, 0)} holders",
            )
        free = set(view.free)
        if len(free) != len(view.free):
            raise Violation("P3", "a block stands in the free queue more than once")
        if len(free) != view.num_free:
            raise Violation("P3", f"the free queue has {len(free)} blocks and its counter says {view.num_free}")
        if both := free & held.keys():
            raise Violation("P3", f"block {min(both)} is in the free queue and has {held[min(both)]} holders")
        if len(free) + len(held) != self.usable:
            raise Violation("P1", f"{len(free)} free and {len(held)} held blocks are not the {self.usable} usable ones")
        self._check_map(view)
        if self.reported is not None and self.reported != view.copies.keys():
            key = next(iter(self.reported ^ view.copies.keys()))
            state = (
                "is stored by the events but not found" if key in self.reported else "is found but not by the events"
            )
            raise Violation("P12", f"key {_show(key)} {state}")

    def check_started(self, before: View, after: View, answer: Started) -> None:
        """Judge the step of a request that was let in: P8 for what it hit, P7 for what it was given."""
        hits = set(answer.table[: answer.hits])
        fresh = list(answer.table[answer.hits :])
        rest = [block for block in before.free if block not in hits]
        if rest[: len(fresh)] != fresh:
            raise Violation("P7", f"blocks {fresh} were given, but the free queue began with {rest[: len(fresh)]}")
        if list(after.free) != rest[len(fresh) :]:
            raise Violation("P8", "a hit block stayed in the free queue, or other blocks left it or changed places")

    def check_refused(self, before: View, after: View) -> None:
        """Judge a refusal: nothing changed (P7, P15)."""
        if before != after:
            raise Violation("P15", "a refused request changed the state")

    def check_finished(self, before: View, after: View, table: Sequence[int]) -> None:
        """Judge the step of a request that left: P9, and P10 where the dialect is known. ``finished`` comes first."""
        reached = [block for block in reversed(table) if block not in self.holders]
        old = list(before.free)
        keyed = [block for block in reached if block in self.prefix_of]
        bare = [block for block in reached if block not in self.prefix_of]
        new = list(after.free)
        if sorted(new) != sorted(chain(old, reached)):
            raise Violation("P9", f"blocks {reached} lost their last holder, and the free queue grew by others")
        orders = {"append": [*old, *reached], "split": [*bare, *old, *keyed]}
        if self.free_order is not None and new != orders[self.free_order]:
            raise Violation(
                "P10", f"the free queue is not in the order '{self.free_order}' after blocks {reached} left"
            )

    def _judge_hits(self, request: Request, hits: Sequence[int], expected: Sequence[int]) -> NoReturn:
        """Say which rule the blocks of a lookup break that are not the expected ones."""
        prefixes = self._chain(request)
        for position, block in enumerate(hits):
            if self.prefix_of.get(block) != prefixes[position]:
                raise Violation(
                    "P6", f"{_name(request)} hit block {block} at position {position}, which holds another content"
                )
        if len(hits) == len(expected):
            raise Violation(
                "P5", f"{_name(request)} hit blocks {list(hits)}, but the first copies are {list(expected)}"
            )
        raise Violation("P5", f"{_name(request)} hit {len(hits)} blocks where {len(expected)} are cached")

    def _check_map(self, view: View) -> None:
        """Judge the map in both directions against the account (P5)."""
        for key, blocks in view.copies.items():
            prefix = self._prefix_of_key.get(key, -1)
            if list(blocks) != self.blocks_of.get(prefix):
                raise Violation(
                    "P5", f"key {_show(key)} finds blocks {list(blocks)} and must find {self.blocks_of.get(prefix, [])}"
                )
        if len(view.copies) != len(self.blocks_of):
            raise Violation("P5", f"{len(view.copies)} keys can be found and {len(self.blocks_of)} must be")
        for block, keys in view.keys.items():
            prefix = self.prefix_of.get(block, -1)
            if len(keys) != 1 or self._prefix_of_key.get(keys[0], -2) != prefix:
                raise Violation("P5", f"block {block} carries keys {[_show(key) for key in keys]}, not its own")
        if len(view.keys) != len(self.prefix_of):
            raise Violation("P5", f"{len(view.keys)} blocks carry keys and {len(self.prefix_of)} must")

    def _chain(self, request: Request) -> list[int]:
        """Return the number of each leading prefix of full blocks: equal numbers, equal tokens from the start."""
        numbers: list[int] = []
        prefix = -1
        for block in islice(request.blocks, request.full_blocks):
            prefix = self._prefixes.setdefault((prefix, block), len(self._prefixes))
            numbers.append(prefix)
        return numbers

    def _register(self, request: Request, answer: Started) -> None:
        """Take into the account that all full blocks of a request are cached, under which keys (P13)."""
        prefixes = self._chain(request)
        if len(answer.keys) != len(prefixes):
            raise Violation("P13", f"{_name(request)} of {len(prefixes)} full blocks has {len(answer.keys)} keys")
        for position, (prefix, key) in enumerate(zip(prefixes, answer.keys, strict=True)):
            if self._keys.setdefault(prefix, key) != key or self._prefix_of_key.setdefault(key, prefix) != prefix:
                raise Violation("P13", f"{_name(request)} has the key {_show(key)} at position {position}, not its own")
            if position >= answer.hits:
                block = answer.table[position]
                self.prefix_of[block] = prefix
                self.blocks_of.setdefault(prefix, []).append(block)

    def _forget(self, block: int) -> None:
        """Take into the account that a block was handed out anew and so lost its content (P7)."""
        prefix = self.prefix_of.pop(block, None)
        if prefix is None:
            return
        copies = self.blocks_of[prefix]
        copies.remove(block)
        if not copies:
            del self.blocks_of[prefix]


def _name(request: Request) -> str:
    """Return what messages call a request."""
    return f"request {request.index} (line {request.index + 1})"


def _show(key: Key) -> str:
    """Return a key as messages show it."""
    return key.hex()[:16] if isinstance(key, bytes) else repr(key)
