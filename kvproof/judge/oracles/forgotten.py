"""O10, P11: no lookup finds what was emptied or evicted. It is judged by what lookups hand out, so that a manager which
does not show its prefix map is held to a reset too.
"""

from collections.abc import Iterable, Iterator

from ..ghost import Ghost
from ..record import SEVERAL, Effect, Step, World
from ..violation import Violation, of_block, of_request
from .pools import evicted_by

__all__ = ["ForgottenOracle"]

_ENDS = ("end", "preempted")


class ForgottenOracle:
    """Follows which blocks of the device cannot be cached, since nothing of who holds them was computed, or given
    back, after they were emptied. Who gives a block back may cache then what he had computed before.

    Where calls overlap, nobody knows what was cached before an evict and what behind it, so all is forgiven there.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._device, *others = world.tiers
        device = world.tiers[self._device]
        self._all = {*range(device.blocks)} - {device.null}
        self._forgotten: dict[int, tuple[str, str]] = {}
        """The blocks that nothing is cached in, and the rule and the operation that say so."""
        self._host = next((name for name in others[:1] if world.tiers[name].blocks), None)
        self._is_host_empty = False
        """Whether nothing was copied to the host since it was emptied."""
        self._tables: dict[str, dict[int, list[int]]] = {}
        self._local: dict[str, int] = {}

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield the first block of each lookup that was to be found no more."""
        if step.error is not None or step.op in SEVERAL:
            self._forgotten.clear()
            self._is_host_empty = False
        for effect in step.effects:
            if effect[0] == "lookup" and effect[3] and self._is_host_empty:
                self._is_host_empty = False
                text = (
                    f"the lookup of {effect[1]} finds {effect[3]} tokens on the host behind a reset that answered true"
                )
                yield Violation("O10", "found though it was forgotten", text, ("host",), (of_request(effect[1]),))
            if effect[0] == "found":
                yield from self._found(effect[1], effect[2])
            else:
                self._follow(effect)
        if step.skipped or step.error is not None:
            return
        if step.op == "reset" and step.result is True:
            self._forgotten = dict.fromkeys(self._all, ("O10", "a reset that answered true"))
            self._is_host_empty = self._host is not None and not self.world.tiers[self._host].persists
        elif step.op == "evict":
            self._forgotten |= dict.fromkeys(self._all.intersection(evicted_by(step) or ()), ("P11", "its evict"))

    def _found(self, r: str, tables: list[list[int]]) -> Iterator[Violation]:
        for group, table in zip(self.world.groups, tables, strict=False):
            whole = table[: self._local.get(r, 0) // group.block]
            block = next((block for block in whole if block in self._forgotten), None)
            if block is not None:
                rule, behind = self._forgotten.pop(block)
                text = f"the lookup of {r} finds block {block} behind {behind}, and nothing was computed there since"
                about = (of_block(self._device, block), of_request(r))
                yield Violation(rule, "found though it was forgotten", text, about=about)
                return

    def _brought(self, pairs: Iterable[tuple[str, int, str, int]] | None) -> None:
        """What is copied into a block may be cached there; where the places are not told, nothing is known of it."""
        for _, _, tier, unit in pairs or ():
            if tier == self._device:
                self._forgotten.pop(unit // self.world.tiers[tier].split, None)

    def _follow(self, effect: Effect) -> None:
        kind = effect[0]
        if kind == "lookup":
            self._local[effect[1]] = effect[2]
        elif kind == "copied":
            self._is_host_empty = self._is_host_empty and all(tier != self._host for _, _, tier, _ in effect[1])
            self._brought(effect[1])
        elif kind == "copy":  # It may have begun before the reset: what it brings is not judged here.
            self._is_host_empty = False
            self._brought(effect[3] if len(effect) > 3 else None)
        elif kind == "table":
            _, r, g, at, blocks = effect
            self._tables.setdefault(r, {}).setdefault(g, [])[at:] = blocks
        elif kind == "processed" or kind in _ENDS:
            tables = self._tables.get(effect[1], {})
            for block in (block for table in tables.values() for block in table):
                self._forgotten.pop(block, None)
            if kind in _ENDS:
                self._tables.pop(effect[1], None)
