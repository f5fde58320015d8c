"""An independent account of a replay, against which a target is checked.

The ledger is told what the target was asked and what it answered, and from that alone knows who holds which block,
what each block contains, and which blocks must be found under which prefix. It knows nothing of how a target works:
its rules are the universal ones of machine P.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple, NoReturn

from ..events.fold import Place
from ..judge.oracles.counting import holder_faults, queue_faults
from ..judge.oracles.requests import queue_after
from ..judge.record import PoolState
from ..judge.violation import Violation as Fault
from .host_ledger import HostLedger
from .requests import Request
from .target import HostCounts, Key, MapEvent, Started, View
from .violation import Violation

__all__ = ["Admission", "Ledger", "Violation"]


class Admission(NamedTuple):
    """What a request that was let in did to the blocks, by the account."""

    claimed: Sequence[int]
    """Blocks that the lookup held: those that it hit on the device, and those behind the end of its walk."""
    let_go: Sequence[int]
    """Those of them that it freed again, in that order."""
    given: Sequence[int]
    """Blocks that were handed out, in that order: reloaded ones, then fresh ones."""


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
    told: Place[Key] | None = None
    """What the events so far say of the device; ``None`` from a target that reports none."""
    host: HostLedger | None = None
    """The account of the host tier, if the target has one."""
    _prefixes: dict[tuple[int, int], int] = field(default_factory=dict)
    _keys: dict[int, Key] = field(default_factory=dict)
    _prefix_of_key: dict[Key, int] = field(default_factory=dict)

    # Answers: cheap, judged for every request.

    def expected_hits(self, request: Request) -> list[int | None]:
        """Return what a lookup for ``request`` must find for each leading prefix: the first copy on the device.

        With a host tier, ``None`` stands for a block that is reloaded, and the walk ends where there is no room for
        one (M4, M6).
        """
        return self._walk(request)[0]

    def refused(self, request: Request) -> None:
        """Judge a refusal: right only if the blocks do not suffice (P7)."""
        found = [block for block in self.expected_hits(request) if block is not None]
        free = self.usable - len(self.holders) - sum(block not in self.holders for block in found)
        fresh = len(request.blocks) - len(found)
        if fresh <= free:
            raise Violation("P7", f"{_name(request)} was refused although it needs {fresh} blocks and {free} are free")

    def started(self, request: Request, answer: Started) -> Admission:
        """Judge the answer to a request that was let in, and take it into the account."""
        expected, behind = self._walk(request)
        table = tuple(answer.table)
        hits = table[: answer.hits]
        if len(table) != len(request.blocks):
            raise Violation("P2", f"{_name(request)} of {len(request.blocks)} blocks got a table of {len(table)}")
        if not 0 <= answer.hits <= request.lookup_limit:
            raise Violation(
                "P14", f"{_name(request)} hit {answer.hits} blocks where {request.lookup_limit} are allowed"
            )
        if len(hits) != len(expected) or any(
            want is not None and want != block for want, block in zip(expected, hits, strict=True)
        ):
            self._judge_hits(request, hits, expected)
        if self.null_block in table:
            raise Violation("P4", f"{_name(request)} got the null block {self.null_block}")
        reloaded = [position for position, block in enumerate(expected) if block is None]
        held = {block for block in expected if block is not None}
        given = [*(table[position] for position in reloaded), *table[answer.hits :]]
        if both := {*held, *behind}.intersection(given[: len(reloaded)]):
            raise Violation("M6", f"{_name(request)} reloaded into block {min(both)}, which its lookup relies on")
        if both := held.intersection(given):
            raise Violation("P8", f"{_name(request)} was given block {min(both)}, which it also hit")
        for block in given:
            if block in self.holders:
                raise Violation("P3", f"{_name(request)} was given block {block}, which another request holds")
        if len(set(given)) != len(given):
            raise Violation("P7", f"{_name(request)} was given one block twice among {given}")
        if answer.reloaded != len(reloaded):
            raise Violation("M8", f"{_name(request)} reloaded {len(reloaded)} blocks and counts {answer.reloaded}")
        let_go = [block for block in reversed(behind) if block not in self.holders]
        self.tables[request.index] = table
        for block in table:
            self.holders[block] = self.holders.get(block, 0) + 1
        for block in given:
            self._forget(block)
        self._register(request, answer, reloaded)
        if self.host is not None:
            chain_of_prefixes = self._chain(request)
            self.host.reloaded([chain_of_prefixes[position] for position in reloaded], hits=answer.hits)
        return Admission([*held, *behind], let_go, given)

    def mirrored(self, request: Request) -> None:
        """Take into the account that the full blocks of a request were brought to the host (M2)."""
        if self.host is not None:
            self.host.mirrored(self._chain(request))

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
        told = self.told = self.told or Place[Key]()
        for kind, key, parent in events:
            if kind == "cleared":
                told.held.clear()
            elif kind == "removed":
                if told.removed((key,)):
                    raise Violation("P12", f"key {_show(key)} was reported removed but is not reported as stored")
            else:
                if key in told.held:
                    raise Violation("P12", f"key {_show(key)} was reported stored twice")
                if parent is not None and parent not in told.held:
                    raise Violation("P12", f"key {_show(key)} names a parent {_show(parent)} that is not stored")
                told.stored((key,))

    def check_counts(self, counts: HostCounts, rule: str) -> None:
        """Judge the counters of a target with a host tier after a step; ``rule`` is what the step may do to it."""
        if self.host is not None:
            self.host.check_counts(counts, rule)

    # States: linear in the pool, judged as often as was asked for.

    def check_host(self, keys: Sequence[Key], rule: str) -> None:
        """Judge what is on the host, and in which order, after a step; ``rule`` is what the step may do to it."""
        if self.host is not None:
            self.host.check_order([self._prefix_of_key.get(key, -1) for key in keys], rule)

    def check_view(self, view: View) -> None:
        """Judge a whole state: P1, P2, P3, P4, P5 (with P6 by content), and P12."""
        if self.null_block in view.keys:
            raise Violation("P4", f"the null block {self.null_block} is cached")
        blocks = self.usable + (self.null_block is not None)
        ref = [*view.ref_cnt, *[0] * (blocks - len(view.ref_cnt))]
        pool = PoolState(ref=ref, free=[*view.free], num_free=view.num_free)
        _accept(holder_faults("device", pool, self.holders, self.null_block, exact=True))
        free = len(set(view.free) - {self.null_block})
        if free + len(self.holders) >= self.usable:  # Or a block is lost, which is free for nobody.
            _accept(queue_faults("device", pool, self.null_block))
        if free + len(self.holders) != self.usable:
            raise Violation(
                "P1", f"{free} free and {len(self.holders)} held blocks are not the {self.usable} usable ones"
            )
        self._check_map(view)
        if self.told is not None and self.told.held.keys() != view.copies.keys():
            key = next(iter(self.told.held.keys() ^ view.copies.keys()))
            is_told = key in self.told.held
            state = "is stored by the events but not found" if is_told else "is found but not by the events"
            raise Violation("P12", f"key {_show(key)} {state}")

    def check_started(self, before: View, after: View, admission: Admission) -> None:
        """Judge the step of a request that was let in: P8 for what it hit, P7 and M5 for what it was given."""
        claimed = set(admission.claimed)
        given = list(admission.given)
        rest = [*(block for block in before.free if block not in claimed), *admission.let_go]
        if rest[: len(given)] != given:
            raise Violation("P7", f"blocks {given} were given, but the free queue began with {rest[: len(given)]}")
        if list(after.free) != rest[len(given) :]:
            raise Violation("P8", "a hit block stayed in the free queue, or other blocks left it or changed places")

    def check_mirrored(self, before: View, after: View) -> None:
        """Judge the step in which blocks were brought to the host: the device was only read (M2)."""
        if before != after:
            raise Violation("M2", "mirroring changed the device")

    def check_refused(self, before: View, after: View) -> None:
        """Judge a refusal: nothing changed (P7, P15)."""
        if before != after:
            raise Violation("P15", "a refused request changed the state")

    def check_finished(self, before: View, after: View, table: Sequence[int]) -> None:
        """Judge the step of a request that left: P9, and P10 where the dialect is known. ``finished`` comes first."""
        reached = [block for block in reversed(table) if block not in self.holders]
        old = list(before.free)
        new = list(after.free)
        if sorted(new) != sorted(chain(old, reached)):
            raise Violation("P9", f"blocks {reached} lost their last holder, and the free queue grew by others")
        if self.free_order is not None and new != queue_after(self.free_order, old, reached, self.prefix_of):
            raise Violation(
                "P10", f"the free queue is not in the order '{self.free_order}' after blocks {reached} left"
            )

    def _walk(self, request: Request) -> tuple[list[int | None], list[int]]:
        """Follow a lookup; return what it must find, and the device blocks of the prefix behind its end.

        ``None`` stands for a block that is reloaded. Before the first reload all blocks of the prefix that are on the
        device are held; the room is what is free then (M6).
        """
        found: list[int | None] = []
        prefix = -1
        for block in islice(request.blocks, request.lookup_limit):
            prefix = self._prefixes.get((prefix, block), -2)
            copies = self.blocks_of.get(prefix)
            if copies is None and (self.host is None or prefix not in self.host):
                break
            found.append(None if copies is None else copies[0])
        if self.host is None:
            return found, []
        held = {block for block in found if block is not None}
        room = self.usable - len(self.holders) - sum(block not in self.holders for block in held)
        gaps = [position for position, block in enumerate(found) if block is None]
        end = gaps[room] if room < len(gaps) else len(found)
        return found[:end], [block for block in found[end:] if block is not None]

    def _judge_hits(self, request: Request, hits: Sequence[int], expected: Sequence[int | None]) -> NoReturn:
        """Say which rule the blocks of a lookup break that are not the expected ones."""
        prefixes = self._chain(request)
        for position, block in enumerate(hits):
            is_reload = position < len(expected) and expected[position] is None
            if not is_reload and self.prefix_of.get(block) != prefixes[position]:
                raise Violation(
                    "P6", f"{_name(request)} hit block {block} at position {position}, which holds another content"
                )
        if len(hits) == len(expected):
            raise Violation(
                "P5", f"{_name(request)} hit blocks {list(hits)}, but the first copies are {list(expected)}"
            )
        where = "cached" if self.host is None else "within reach"
        raise Violation(
            "P5" if None not in expected else "M4",
            f"{_name(request)} hit {len(hits)} blocks where {len(expected)} are {where}",
        )

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

    def _register(self, request: Request, answer: Started, reloaded: Sequence[int]) -> None:
        """Take into the account that all full blocks of a request are cached, under which keys (P13)."""
        new = {*reloaded, *range(answer.hits, len(answer.table))}
        prefixes = self._chain(request)
        if len(answer.keys) != len(prefixes):
            raise Violation("P13", f"{_name(request)} of {len(prefixes)} full blocks has {len(answer.keys)} keys")
        for position, (prefix, key) in enumerate(zip(prefixes, answer.keys, strict=True)):
            if self._keys.setdefault(prefix, key) != key or self._prefix_of_key.setdefault(key, prefix) != prefix:
                raise Violation("P13", f"{_name(request)} has the key {_show(key)} at position {position}, not its own")
            if position in new:
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


def _accept(faults: Iterable[Fault]) -> None:
    """Let a replay end with the first of these."""
    for fault in faults:
        raise Violation(fault.rule, fault.text)


def _name(request: Request) -> str:
    """Return what messages call a request."""
    return f"request {request.index} (line {request.index + 1})"


def _show(key: Key) -> str:
    """Return a key as messages show it."""
    return key.hex()[:16] if isinstance(key, bytes) else repr(key)
