"""A host block pool behind the device's (`SimpleCPUOffloadScheduler`): O3, O7, O9, and P15 for lookups in vain.

What the pools must be by themselves, and what is in them, other oracles judge: the host tier is a pool like any other.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ..ghost import Ghost
from ..record import State, Step, World
from ..violation import Violation

__all__ = ["HostPoolOracle"]

DEVICE, HOST = "device", "host"
Key = tuple[int, int]


class HostPoolOracle:
    """Judges a run of the level ``offload`` whose setup has ``kind`` = ``simple``."""

    def __init__(self, world: World, setup: dict[str, Any]) -> None:
        self._last: State | None = None
        self._kept = None if setup["lazy"] else _Kept(world)

    def step(self, step: Step, _ghost: Ghost | None = None) -> Iterator[Violation]:
        """Yield what is wrong with the stores that began and with what the operation changed."""
        if step.error is not None or step.state is None:
            return
        last, state = self._last, step.state
        if last is not None and not step.skipped:
            if step.op in ("step", "abort"):
                yield from _again(step, last, state)
            yield from _unchanged(step.op, last, state)
        if self._kept is not None:
            yield from self._kept.step(step, last)
        self._last = state


def _again(step: Step, last: State, state: State) -> Iterator[Violation]:
    """O3: what the host has all the time is not stored again."""
    before, after = _cached(last, HOST), _cached(state, HOST)
    there = {key for key, blocks in before.items() if blocks & after.get(key, set())}
    names = dict(state.pools[DEVICE].hashes)
    for effect in step.effects:
        if effect[0] != "copy" or effect[2] != "begin":
            continue
        for source, block, to, _ in effect[3]:
            keys = names.get(block)
            if (source, to) == (DEVICE, HOST) and keys and there.issuperset(keys):
                text = f"device block {block} is stored, though the host has its keys {keys}"
                yield Violation("O3", "stored though on the host", text)


def _unchanged(op: str, last: State, state: State) -> Iterator[Violation]:
    """O7, P15: what must not change anything."""
    if op == "repeat" and last != state:
        yield Violation(
            "O7", "a repeated completion changes something", "a completion that was repeated is not ignored"
        )
    elif op == "probe":
        if last.tables != state.tables:
            text = "a lookup that admits nobody changes a block table"
            yield Violation("P15", "a refused admission changes something", text, ("tables",))
        for tier in (DEVICE, HOST):
            if _cached(last, tier) != _cached(state, tier):
                text = f"a lookup that admits nobody changes the prefix map ({tier})"
                yield Violation("P15", "a refused admission changes something", text, (tier,))


class _Kept:
    """O9: at rest, the full blocks that a finished request computed are on the host, were there, or met a full host."""

    def __init__(self, world: World) -> None:
        self._full = [(g, group.block) for g, group in enumerate(world.groups) if group.kind == "full"]
        self._hash_block = world.hash_block
        self._keys: defaultdict[str, list[int]] = defaultdict(list)
        self._computed: dict[str, int] = {}
        self._excused: set[str] = set()
        """Requests that saw a reset, or a host without room."""
        self._owed: list[tuple[str, Key]] = []
        self._ever: set[Key] = set()

    def step(self, step: Step, last: State | None) -> Iterator[Violation]:
        """Note what is owed, and demand it at rest."""
        state = step.state
        assert state is not None
        for effect in step.effects:
            if effect[0] == "keys":
                _, r, first, keys = effect
                self._keys[r][first:] = keys
            elif effect[0] == "processed":
                self._computed[effect[1]] = effect[2]
            elif effect[0] == "preempted":
                self._computed[effect[1]] = 0
        self._ever.update(_cached(state, HOST))
        if step.op == "reset" or (last is not None and not self._has_room(step, last, state)):
            self._excused.update(self._keys)
        if step.op == "step" and not step.skipped:
            on_device = _cached(state, DEVICE)
            for r in step.result["ended"]:
                self._owed += [(r, key) for key in self._of(r) if key in on_device]
        if step.op == "drain" and not step.result["left"] and not step.result["pending"]:
            yield from self._demand()

    def _of(self, r: str) -> Iterator[Key]:
        """The keys of the full blocks that a request computed or found computed."""
        keys = self._keys[r]
        for g, size in self._full:
            for tokens in range(size, self._computed.get(r, 0) + 1, size):
                yield keys[tokens // self._hash_block - 1], g

    def _has_room(self, step: Step, last: State, state: State) -> bool:
        """Whether an unreferenced host block was left all through the step, as far as can be seen."""
        taken = {
            unit
            for effect in step.effects
            if effect[0] == "copy" and effect[2] == "begin"
            for a, source, b, destination in effect[3]
            for tier, unit in ((a, source), (b, destination))
            if tier == HOST
        }
        pinned = set(state.holds.get(HOST, ())) - set(last.holds.get(HOST, ()))
        return state.pools[HOST].num_free > 0 and last.pools[HOST].num_free > len(taken | pinned)

    def _demand(self) -> Iterator[Violation]:
        for r, key in self._owed:
            if key not in self._ever and r not in self._excused:
                text = (
                    f"{r} finished and nothing is under way, but its full block with key {key[0]} (group {key[1]}) "
                    "was never stored, though the host always had room"
                )
                yield Violation("O9", "computed block never stored", text)
                break
        self._owed.clear()


def _cached(state: State, tier: str) -> dict[Key, set[int]]:
    return {(k, g): set(blocks) for k, g, blocks in state.pools[tier].cached if blocks}
