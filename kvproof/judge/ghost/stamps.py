"""Stamps: where an engine's memory is real, what its forward passes really read.

A worker that plays a model on the engine's own tensors writes a stamp for each token: which forward pass wrote it, and
for which position. What is read back is told as stamps, and so is what blocks with a hash hold. Nothing is modelled
then: no block table, no copy between tiers.
"""

from collections.abc import Iterator, Sequence

from ..record import World
from ..violation import Violation, of_request
from .contents import Contents
from .memory import Memory
from .passes import first_read
from .requests import Request, Requests

__all__ = ["POSITIONS", "Stamps"]

POSITIONS = 4096
"""A stamp is the number of a forward pass times this, and a position; -1 is none of this layer."""

_READ = "a forward pass read"


class Stamps:
    """What each forward pass wrote, as contents."""

    def __init__(self, world: World, contents: Contents, requests: Requests, memory: Memory) -> None:
        self._world, self._contents, self._requests, self._memory = world, contents, requests, memory
        self._passes: dict[int, tuple[int, list[int]]] = {}
        """Per forward pass: its first position, and the content of each."""
        self._last: dict[str, tuple[int, list[int]]] = {}
        """Per request: where its last forward pass began, and the contents of all its positions then."""
        self._sampled: set[int] = set()
        """Prefixes whose last token was sampled."""

    def ran(
        self, r: str, number: int, start: int, tokens: Sequence[int], sampled: int | None = None
    ) -> Iterator[Violation]:
        """A forward pass, by its number, ran r's positions from ``start`` on with these tokens, and sampled one."""
        line, wrong = self._requests.run(r, start, tokens)
        if wrong is not None:
            yield wrong
        if line is None:
            return
        self._passes[number] = (start, line[start + 1 :])
        self._last[r] = (start, line[1:])
        if sampled is not None:
            self._sampled.add(self._contents.after(line[-1], sampled))

    def read(self, r: str, g: int, stamps: Sequence[int]) -> Iterator[Violation]:
        """The forward pass that ran last read this for r in a layer: the positions up to its last one."""
        if r not in self._last:
            return
        start, line = self._last[r]
        first = first_read(self._world, g, start)
        kind = self._world.groups[g].kind
        if len(stamps) != len(line) - first:
            text = f"{r} at position {start} reads {len(stamps)} tokens in group {g} ({kind}), not {len(line) - first}"
            yield Violation("P6", "a forward pass read another length", text, (kind,), (of_request(r),))
            return
        for position, stamp in enumerate(stamps, start=first):
            if self._content(stamp) != line[position]:
                text = (
                    f"{_READ} for position {position} of {r} in group {g} ({kind}), from position {start} on, "
                    f"{self._said(stamp)}"
                )
                yield Violation("P6", _READ, text, (kind,), (of_request(r),))
                return

    def holds(self, tier: str, pages: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        """Blocks with a hash hold this: block, group, stamps."""
        for unit, g, stamps in pages:
            self._memory.put(tier, unit, (g, [self._content(stamp) for stamp in stamps]))

    def output(
        self, r: str, prompt: int, most: int, stop: int | None, given: Sequence[int], made: Sequence[int], *_counts: int
    ) -> Iterator[Violation]:
        """A client was told that r is over: prompt and continuation. It had asked for so many tokens at most."""
        request = self._requests[r]
        line = self._requests.line_of(r, [*given, *made])
        if len(given) != prompt or line[: prompt + 1] != request.line[: prompt + 1]:
            text = f"the output of {r} has another prompt than was asked for"
            yield Violation("P6", "another prompt", text, about=(of_request(r),))
            return
        if not min(1, most) <= len(made) <= most or (len(made) < most and made[-1] != stop):
            text = f"the output of {r} ends after {len(made)} tokens; {most} were asked for"
            yield Violation("L1", "an output that ends at the wrong place", text, about=(of_request(r),))
        wrong = next((at for at in range(len(made)) if not self._was_sampled(request, line, prompt + at + 1)), None)
        if wrong is not None:
            text = f"token {wrong} of the output of {r} was never sampled behind the tokens before it"
            yield Violation("P6", "an output that was not computed", text, about=(of_request(r),))

    def _was_sampled(self, request: Request, line: Sequence[int], end: int) -> bool:
        """Whether the token that ends so much of an output was sampled there. Where memory is not real, a request's
        tokens are those that it was told to have."""
        return line[end] in self._sampled if self._passes else line[end : end + 1] == request.line[end : end + 1]

    def _content(self, stamp: int) -> int | None:
        number, position = divmod(stamp, POSITIONS)
        if number not in self._passes:
            return None
        start, contents = self._passes[number]
        return contents[position - start] if 0 <= position - start < len(contents) else None

    def _said(self, stamp: int) -> str:
        content = self._content(stamp)
        return "what no forward pass wrote there" if content is None else "the KV of other tokens"
