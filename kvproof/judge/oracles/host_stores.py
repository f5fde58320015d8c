"""What the host has is not stored again: O3. What is being stored is the ghost's affair."""

from collections.abc import Container, Iterator, Mapping, Set

from ..ghost import Ghost
from ..record import SEVERAL, State, Step, World
from ..violation import Violation, of_block
from .begun import begun_by

__all__ = ["DEVICE", "HOST", "HostStoresOracle", "cached", "stored_again"]

DEVICE, HOST = "device", "host"
Key = tuple[int, int]


def stored_again(
    step: Step, names: Mapping[int, Set[Key]], there: Set[Key], planned: Container[int]
) -> Iterator[Violation]:
    """O3: no copy begins of a device block all of whose keys (``names``) the host has all the time (``there``).

    ``planned``: host blocks of copies that were planned earlier, and may begin now.
    """
    for effect in step.effects:
        if effect[0] != "copy" or effect[2] != "begin":
            continue
        for source, block, to, destination in effect[3]:
            keys = names.get(block)
            if (source, to) == (DEVICE, HOST) and destination not in planned and keys and keys <= there:
                text = f"device block {block} is stored, though the host has its keys {sorted(keys)}"
                yield Violation("O3", "stored though on the host", text, about=(of_block(DEVICE, block),))


class HostStoresOracle:
    """Judges stores that are planned and begin at once."""

    def __init__(self, world: World) -> None:
        self._split = world.tiers[HOST].split if HOST in world.tiers else 1
        self._last: State | None = None

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield the copies of a step that bring what the host had before and has behind it, in a block left alone."""
        last, state = self._last, step.state
        self._last = state if state is not None else last
        if last is None or state is None or step.error is not None or HOST not in last.pools:
            return
        copies = (pair for effect in step.effects for pair in begun_by(effect))
        written = {unit // self._split for _, _, tier, unit in copies if tier == HOST}
        before, after = cached(last, HOST), cached(state, HOST)
        there = {key for key, blocks in before.items() if key in after and written.isdisjoint(blocks)}
        if step.op in ("drain", *SEVERAL):  # Many steps: what was dropped may have come again, elsewhere.
            there = {key for key in there if before[key] & after[key]}
        names = _names(state)
        for block in _handed_on(step):
            names.pop(block, None)
        # What copies held before was planned earlier: then the host need not have had it.
        # And what comes under another key is not stored again: that it is the wrong block is a matter of content.
        held = {*last.holds.get(HOST, ()), *(at for key, blocks in after.items() if key not in there for at in blocks)}
        yield from stored_again(step, names, there, {at * self._split + n for at in held for n in range(self._split)})


def _handed_on(step: Step) -> Iterator[int]:
    """The device blocks that stand in a table behind a copy of theirs: they may be others' by the end of the step."""
    copied: set[int] = set()
    for effect in step.effects:
        copied |= {block for tier, block, _, _ in begun_by(effect) if tier == DEVICE}
        if effect[0] == "table":
            yield from copied.intersection(effect[4])


def _names(state: State) -> dict[int, set[Key]]:
    """The keys of each device block, by the map."""
    names: dict[int, set[Key]] = {}
    for key, blocks in cached(state, DEVICE).items():
        for block in blocks:
            names.setdefault(block, set()).add(key)
    return names


def cached(state: State, tier: str) -> dict[Key, set[int]]:
    """The blocks of each key, in the map of a tier."""
    return {(k, g): set(blocks) for k, g, blocks in state.pools[tier].cached or () if blocks}
