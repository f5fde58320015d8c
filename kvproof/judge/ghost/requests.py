"""What the requests are: their tokens, the contents that these make, their keys and their block tables."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...untrusted import limits
from ..record import World
from ..violation import Violation, of_key, of_request
from .contents import Contents

__all__ = ["NotTold", "Pass", "Request", "Requests"]


class NotTold(ValueError):
    """What was told builds on what was not, and cannot be followed; the message says what."""


@dataclass(frozen=True)
class Pass:
    """A scheduled forward pass of one request."""

    start: int
    tokens: int
    reads: list[tuple[int, int, int]]
    """Group, entry of the block table, block: what it reads and writes in groups that give blocks up as they go."""


@dataclass
class Request:
    """A request as the ghost sees it."""

    tokens: int
    """How many it has for certain: its prompt and what was accepted."""
    line: list[int]
    """The content of its first n tokens, for every n; drafts that were computed stand behind ``tokens``."""
    items: list[tuple[int, int, str]]
    tables: list[list[int]]
    """Its block tables, as the model worker has them."""
    keys: list[int] = field(default_factory=list)
    """The engine's own hash keys of its first tokens, one for each `World.hash_block`."""
    most: int = 0
    """The most tokens that it ever had."""
    is_over: bool = False
    skips: bool = False
    """It asked that nothing cached be read for it."""
    states: dict[int, tuple[int | None, list[tuple[int, int]]]] = field(default_factory=dict)
    """Per mamba group: where the next forward pass takes the state from, and where it leaves which."""
    in_flight: list[Pass] = field(default_factory=list)
    """Forward passes that the engine was not told the result of."""
    told: Pass | None = None
    """The last of them whose result the engine was told, if nothing came of that yet."""
    is_fork: bool = False
    """It goes on from another request, and was not looked up since."""
    goes_on: int = 0
    """By its last lookup it goes on behind so many tokens, those from elsewhere included."""
    handed_nothing: set[tuple[int, int]] = field(default_factory=set)
    """Groups and entries for which its last lookup handed out no block, and should have: what it reads there is of that
    cause."""

    def content(self, r: str, tokens: int) -> int:
        """The content of its first so many tokens.

        Raises:
            NotTold: r, as it is called, has not so many.
        """
        if tokens >= len(self.line):
            raise NotTold(f"the first {tokens} tokens of {r} are spoken of, and it has {len(self.line) - 1}")
        return self.line[tokens]

    def item_at(self, position: int) -> tuple[str, int] | None:
        """The multimodal item that covers a position, and where in it."""
        for offset, length, name in self.items:
            if offset <= position < offset + length:
                return name, position - offset
        return None


class Requests(dict[str, Request]):
    """The requests by name, those that are over too."""

    def __init__(self, world: World, contents: Contents) -> None:
        super().__init__()
        self._world, self._contents = world, contents
        longest = world.notes.get("longest")
        self.longest = longest if isinstance(longest, int) else math.inf
        """The tokens that a request may have."""
        self._sampled = world.notes.get("sampled") == "processed"
        """Whether what is appended behind a result was sampled by that forward pass."""
        self.named: dict[int, tuple[int, int]] = {}
        """Per hash key: the content that it names, and of how many tokens."""
        self.others: dict[int, set[tuple[int, int]]] = {}
        """Per hash key that names other content too, that: what is cached under it may be either (P13 says so)."""
        self.item_sizes: dict[str, int] = {}
        """Per multimodal item the fewest tokens that any request has it take."""

    # ------------------------------------------------------------------------------------------------ as they are told

    def arrives(self, r: str, what: dict[str, Any]) -> None:
        """A request comes, with its prompt."""
        line = [self._contents.root(what.get("adapter"), what.get("salt"))]
        tables: list[list[int]] = [[] for _ in self._world.groups]
        self[r] = Request(0, line, [], tables, skips=bool(what.get("skip")), is_fork=bool(what.get("fork")))
        self._grow(self[r], what["tokens"], what.get("items"))

    def appends(
        self, r: str, tokens: Sequence[int], items: Sequence[Sequence[Any]] | None = None
    ) -> Iterator[Violation] | None:
        """A request has these tokens more, for certain, and these multimodal items."""
        request = self[r]
        before, told, request.told = request.tokens, request.told, None
        self._grow(request, tokens, items)
        if told is None or not self._sampled or told.start < before <= told.start + told.tokens:
            return None
        text = f"{r} is given a token that was sampled behind its first {told.start + told.tokens}, and it has {before}"
        return iter([Violation("P6", "an answer to other tokens", text, about=(of_request(r),))])

    def _grow(self, request: Request, tokens: Sequence[int], items: Sequence[Sequence[Any]] | None) -> None:
        for offset, length, name in items or ():
            request.items.append((offset, length, name))
            self.item_sizes[name] = min(length, self.item_sizes.get(name, length))
        line = request.line[: request.tokens + 1]
        self._extend(request, line, tokens)
        if request.line[: len(line)] != line:  # Else: drafts behind these tokens may still turn out to be right.
            request.line = line
        request.tokens += len(tokens)
        request.most = max(request.most, request.tokens)

    def cut(self, r: str, tokens: int) -> None:
        """Of a request's tokens only the first so many are left, for certain; of its keys, those that name no others.

        Raises:
            NotTold: it has not so many.
        """
        request = self[r]
        if tokens > request.tokens:
            raise NotTold(f"of {r} the first {tokens} tokens are left, and it has {request.tokens}")
        del request.line[tokens + 1 :]
        del request.keys[tokens // self._world.hash_block :]
        request.tokens, request.told = tokens, None

    def has_keys(self, r: str, first: int, keys: Sequence[int]) -> Iterator[Violation]:
        """The engine names the tokens of a request by these keys, from the key of this number on (P13)."""
        request, size = self[r], self._world.hash_block
        del request.keys[first:]
        request.keys += [-1] * (first - len(request.keys)) + [*keys]
        for n, key in enumerate(keys, start=first + 1):
            content = request.content(r, n * size)
            known = self.named.setdefault(key, (content, n * size))
            if known[0] != content:
                self.others.setdefault(key, set()).add((content, n * size))
                text = f"hash key {key} names the first {n * size} tokens of {r} and other KV too"
                yield Violation("P13", "one key, two contents", text, about=(of_key(key), of_request(r)))

    def has_table(self, r: str, g: int, at: int, blocks: Sequence[int]) -> None:
        """The block table of a request in a group is this from an entry on."""
        if at > limits.TABLE:  # No table is that long, and this one would be made.
            raise ValueError(f"entry {at} of a block table")
        table = self[r].tables[g]
        del table[at:]
        table.extend([-1] * (at - len(table)))
        table.extend(blocks)

    def looked_up(self, r: str, local: int, external: int, _limit: int) -> None:
        """A lookup of the request was answered."""
        self[r].goes_on, self[r].is_fork = local + external, False

    def has_state(self, r: str, g: int, source: int | None, leaves: Sequence[Sequence[int]]) -> None:
        """The next forward pass of a request takes the state of a mamba group from there, and leaves these."""
        self[r].states[g] = (source, [(block, n) for block, n in leaves])

    def processed(self, r: str, _n: int) -> None:
        """The engine was told the result of the first forward pass of a request that is in flight."""
        request = self.get(r)
        if request is not None and request.in_flight:
            request.told = request.in_flight.pop(0)

    def preempted(self, r: str) -> None:
        """A request gave up its blocks: what is in flight of it counts no more."""
        self[r].in_flight.clear()
        self[r].told = None

    def ends(self, r: str, _how: str = "") -> None:
        """A request is over."""
        request = self[r]
        request.is_over = True
        request.in_flight.clear()
        request.tables = [[] for _ in self._world.groups]

    def too_long(self) -> str | None:
        """A request that is not over and has more tokens than a request may have, if there is one."""
        return next((r for r, request in self.items() if request.tokens > self.longest and not request.is_over), None)

    def beyond(self, r: str, what: str) -> Violation:
        """What an engine does with more tokens of a request than it may have."""
        text = f"{what}, and a request has {self.longest} tokens at most"
        return Violation("P6", "a position behind the longest request", text, about=(of_request(r),))

    # ------------------------------------------------------------------------------------------------ their contents

    def run(self, r: str, start: int, tokens: Sequence[int]) -> tuple[list[int] | None, Violation | None]:
        """A forward pass runs r's positions from ``start`` on: the content of its first n tokens then, for every n, and
        what is wrong with that."""
        request = self[r]
        if start >= len(request.line):
            text = f"{r} is computed from position {start} on, but has {len(request.line) - 1} tokens there"
            return None, Violation("P6", "position without a token", text, about=(of_request(r),))
        line, known = request.line[: start + 1], request.tokens + 1
        self._extend(request, line, tokens)
        if line[:known] != request.line[: min(known, len(line))]:
            text = f"the forward pass of {r} from position {start} on runs other tokens than the request has"
            return line, Violation("P6", "other tokens were run", text, about=(of_request(r),))
        if len(line) > known:
            request.line = line
        return line, None

    def line_of(self, r: str, tokens: Sequence[int]) -> list[int]:
        """The content of the first n of these tokens, for every n, if they were r's."""
        line = self[r].line[:1]
        self._extend(self[r], line, tokens)
        return line

    def _extend(self, request: Request, line: list[int], tokens: Sequence[int]) -> None:
        """Go on with a line by these tokens."""
        after, items = self._contents.after, request.items
        for token in tokens:
            line.append(after(line[-1], token, request.item_at(len(line) - 1) if items else None))
