"""The specification itself as a target: machine P in the concrete interpreter, driven by the requests of a trace.

It answers as a block manager would, from the machine's own actions and state, and shares no code with the reference
implementation. Its cost grows with the distinct prefixes of the trace for each block that it moves: it is for the
beginning of a trace.
"""

from collections.abc import Iterator, Sequence
from itertools import compress, islice
from typing import Any, Literal

from ..errors import UsageError
from ..machine import Model
from ..machine.concrete import Concrete, Result
from ..machine.scope import NONE, Scope
from ..spec.pool import Pool
from .requests import Request, Workload
from .target import MapEvent, Started, View

NULL_BLOCK = 0
"""The number of the null block, as the reference implementation has it."""

SLOT = 0
"""A block is one slot here: whole blocks are written, and a hash names a whole block."""

MOST_ENTRIES = 10_000_000
"""The most entries of the machine's largest map, blocks by prefixes or requests by positions."""


class NotEnabledError(Exception):
    """The machine does not allow an action with which a request goes on."""


class SpecTarget:
    """Machine P over the requests of a workload.

    A hash is a prefix of full blocks, equal for equal tokens from the start; it names the one content that such tokens
    have. Requests that the pool could never hold have none: they are not let in, so nothing asks for theirs.
    """

    name = "spec"

    def __init__(self, workload: Workload, capacity: int, *, free_order: Literal["append", "split"] = "split") -> None:
        """Make one with ``capacity`` usable blocks, and a null block besides, for the requests of ``workload``.

        Raises:
            UsageError: the machine would become too large.
        """
        self.usable = capacity
        self.null_block = NULL_BLOCK
        self.free_order = free_order
        requests = workload.requests
        fitting = [request for request in requests if len(request.blocks) <= capacity]
        prefixes: dict[tuple[int | None, int], int] = {}
        self._prompts = {request.index: _chain(request, prefixes) for request in fitting}
        hashes = max(1, len(prefixes))
        positions = max((len(request.blocks) for request in fitting), default=1)
        if max((capacity + 1) * hashes, len(requests) * positions) > MOST_ENTRIES:
            raise UsageError(
                f"the specification is too slow for {len(requests):,} requests with {hashes:,} prefixes at "
                f"{capacity:,} blocks; use --limit for fewer requests, or a smaller --capacity"
            )
        parents = [parent for parent, _ in prefixes] or [None]
        self._foreign = hashes
        scope = Scope(
            Model.of(Pool),
            {
                "Block": capacity + 1,
                "Request": len(requests),
                "Hash": hashes,
                "Slot": 1,
                # One more than there are hashes: what a partly filled block holds, which no hash names.
                "Content": hashes + 1,
                "Position": positions,
            },
            {
                "null": NULL_BLOCK,
                "caching": True,
                "split": free_order == "split",
                "kv": [[h] for h in range(hashes)],
                "parent": parents,
                "prompt": [_filled(self._prompts.get(request.index, []), positions) for request in requests],
                "limit": [request.lookup_limit for request in requests],
                "need": [len(request.blocks) for request in requests],
            },
        )
        self.machine = Concrete(scope.model, scope)
        self.state = self.machine.initial()
        self._hashes, self._positions = hashes, positions
        self._events: list[MapEvent] = []

    # A target of a replay.

    def start(self, request: Request) -> Started | None:
        """Admit a request, hit, allocate the rest of its table, write what was not hit, register what is full."""
        r, need, full = request.index, len(request.blocks), request.full_blocks
        if not self.is_enabled("admit", r):
            return None
        # Hits take at most as many blocks out of the queue as they save: only with fewer can the rest be refused.
        before = self.machine.copy(self.state) if len(vars(self.state)["free"]) < need else None
        self.perform("admit", r)
        hits = int(self.perform("hit", r) or 0)
        if not self.is_enabled("allocate", r, need - hits):
            assert before is not None
            self.state = before
            return None
        self.perform("allocate", r, need - hits)
        for position in range(hits, need):
            self.write(r, position)
        for position in range(hits, full):
            self.perform("register", r, position, self._prompts[r][position])
        return Started(hits, self.table(r), tuple(self._prompts[r]))

    def finish(self, request: Request) -> None:
        """Let a request leave."""
        self.perform("finish", request.index)

    def take_events(self) -> Sequence[MapEvent]:
        """Return what the actions reported since the last call."""
        events, self._events = self._events, []
        return events

    def view(self) -> View:
        """Return the machine's state."""
        now = vars(self.state)
        return View(
            free=tuple(now["free"]),
            num_free=len(now["free"]),
            ref_cnt=tuple(now["ref_cnt"]),
            keys=dict(self._carried(now["hashes"])),
            copies={h: tuple(blocks) for h, blocks in enumerate(now["cached"]) if blocks},
        )

    # Action by action.

    def is_enabled(self, action: str, *args: int) -> bool:
        """Tell whether the machine allows an action now."""
        return self.machine.is_enabled(self.state, action, args)

    def perform(self, action: str, *args: int) -> Result:
        """Do an action and return its result.

        Raises:
            NotEnabledError: the machine does not allow it.
        """
        if not self.is_enabled(action, *args):
            raise NotEnabledError(f"{action}{args} is not enabled")
        outcome = self.machine.apply(self.state, action, args)
        self._events.extend(map(_map_event, outcome.events))
        return outcome.result

    def write(self, r: int, position: int) -> None:
        """Compute the block at a position: the content that its hash names, or one that no hash names."""
        prompt = self._prompts[r]
        self.perform("write", r, position, SLOT, prompt[position] if position < len(prompt) else self._foreign)

    def prompt(self, r: int) -> Sequence[int]:
        """Return the hashes of the full blocks of a request that fits the pool."""
        return tuple(self._prompts[r])

    def parent(self, h: int) -> int | None:
        """Return the hash before a hash."""
        parent: int = vars(self.state)["parent"][h]
        return None if parent == NONE else parent

    def table(self, r: int) -> tuple[int, ...]:
        """Return the block table of a request."""
        now, start = vars(self.state), r * self._positions
        return tuple(now["table"][start : start + now["length"][r]])

    def _carried(self, hashes: list[bool]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Return the hashes of each block that has any."""
        for block in range(self.usable + 1):
            row = hashes[block * self._hashes : (block + 1) * self._hashes]
            if any(row):
                yield block, tuple(compress(range(self._hashes), row))


def _chain(request: Request, prefixes: dict[tuple[int | None, int], int]) -> list[int]:
    """Return the number of each leading prefix of full blocks; new ones are numbered on."""
    numbers: list[int] = []
    parent: int | None = None
    for block in islice(request.blocks, request.full_blocks):
        parent = prefixes.setdefault((parent, block), len(prefixes))
        numbers.append(parent)
    return numbers


def _filled(numbers: list[int], length: int) -> list[int]:
    """Return the numbers with zeros behind; no lookup gets that far."""
    return numbers + [0] * (length - len(numbers))


def _map_event(event: tuple[Any, ...]) -> MapEvent:
    """Return an event of the machine in the neutral form."""
    match event:
        case ("stored", h, parent):
            return MapEvent("stored", h, None if parent == NONE else parent)
        case ("removed", h):
            return MapEvent("removed", h)
        case ("cleared",):
            return MapEvent("cleared")
    raise ValueError(f"machine P has no event {event!r} about the map")
