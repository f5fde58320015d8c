"""E3, P12: what a stored event says of its blocks is what they are: how many tokens, which, and behind which block.

The listener knows no request. What it is told is held against what the engine's own keys name; where an event tells no
tokens, nothing is judged, nor is a key that the engine never named. What beside its tokens a key is made of nobody else
tells: of one key, and as many tokens, it is the same in all events.
"""

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import Effect, Step, World
from ..violation import Violation, of_key

__all__ = ["ToldBlocksOracle", "has_judged_parent", "tells_tokens"]


class ToldBlocksOracle:
    """Reads each stored event by itself, but for what it tells a key to be made of beside its tokens."""

    def __init__(self, _world: World) -> None:
        self._further: dict[tuple[int, int], tuple[str, str]] = {}
        """Per key and tokens of a block, what was told first that it is made of beside these, and of which tier."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with the events of a step."""
        for effect in step.effects:
            if tells_tokens(effect):
                _, tier, _, keys, parent, tokens, size, *further = effect
                yield from _wrong_with(ghost, tier, keys, parent, tokens, size)
                of_keys = further[0] if further else None
                if of_keys is not None and len(of_keys) == len(keys) and len(tokens) == size * len(keys):
                    yield from self._two_contents(ghost, tier, keys, size, of_keys)

    def _two_contents(
        self, ghost: Ghost, tier: str, keys: Sequence[int], size: int, further: Sequence[str]
    ) -> Iterator[Violation]:
        """A listener that knows blocks by their contents takes one key for two."""
        for key, here in zip(keys, further, strict=True):
            there, of = self._further.setdefault((key, size), (here, tier))
            if here != there and key not in ghost.requests.others:
                said = [f"{what or 'nothing'} ({where})" for what, where in ((there, of), (here, tier))]
                text = f"events tell two things that key {key} is made of beside its tokens: {' and '.join(said)}"
                yield Violation(
                    "E3",
                    "further keys of stored blocks",
                    text,
                    ("one tier" if of == tier else "two tiers",),
                    (of_key(key),),
                )
                return


def tells_tokens(effect: Effect) -> bool:
    """Whether it is an event that tells the tokens of what is stored."""
    return effect[:1] == ["stored"] and len(effect) > 6 and None not in effect[5:7]


def has_judged_parent(effect: Effect, ghost: Ghost) -> bool:
    """Whether it is an event whose parent is judged here, by the contents that its keys name."""
    named = (effect[3][0], *(parent for parent in effect[4:5] if parent is not None))
    return tells_tokens(effect) and None not in (_named(ghost, key) for key in named)


def _wrong_with(
    ghost: Ghost, tier: str, keys: Sequence[int], parent: int | None, tokens: Sequence[int], size: int
) -> Iterator[Violation]:
    if len(tokens) != size * len(keys):
        text = f"an event tells {len(tokens)} tokens of {len(keys)} blocks of {size} ({tier})"
        yield Violation("E3", "tokens of stored blocks", text, ("how many",), tuple(map(of_key, keys)))
        return
    for n, key in enumerate(keys):
        told, own = [*tokens[n * size : (n + 1) * size]], _tokens_of(ghost, key, size)
        if own is not None and own != told:
            text = f"an event tells tokens {told} of the block of key {key} ({tier}), which names {own}"
            yield Violation("E3", "tokens of stored blocks", text, ("which",), (of_key(key),))
            return
    if keys and (behind := _wrong_parent(ghost, keys[0], parent, size)):
        text = f"key {keys[0]} is reported ({tier}) {behind}"
        about = (of_key(keys[0]),) if parent is None else (of_key(parent), of_key(keys[0]))
        yield Violation("P12", "parent of a stored block", text, (tier, "another"), about)


def _tokens_of(ghost: Ghost, key: int, size: int) -> list[int] | None:
    """The tokens of the block of a key; None where it is not known that it names one content."""
    named = _named(ghost, key)
    return None if named is None else ghost.contents.tokens(named[0], min(size, named[1]))


def _wrong_parent(ghost: Ghost, key: int, parent: int | None, size: int) -> str | None:
    """What is wrong with what is told to stand before a block of so many tokens."""
    named = _named(ghost, key)
    if named is None:
        return None
    content, start = named[0], named[1] - size
    if parent is None:
        return f"without a parent, and begins behind {start} tokens" if start else None
    before = _named(ghost, parent)
    if before is None or before == (ghost.contents.positions(content, size + 1)[0], start):
        return None
    return f"with parent {parent}, which is not what stands before its block"


def _named(ghost: Ghost, key: int) -> tuple[int, int] | None:
    """Which content a key names, and of how many tokens; None where that is not sure."""
    requests = ghost.requests
    return None if key in requests.others else requests.named.get(key)
