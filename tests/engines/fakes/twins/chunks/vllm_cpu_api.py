"""In place of the release's chunk managers: one that gives up what was used longest ago, under the same calls."""

from collections import Counter, OrderedDict

__all__ = ["Manager"]


class Manager:
    """Chunks by key, those that were used longest ago first; keys are numbers."""

    name, sightings, ends = "Twin", "offers", "nothing"

    def __init__(self, setup: dict) -> None:
        self.chunks, self.threshold, self.most = setup["chunks"], setup["threshold"], setup["tracker"]
        self.forgets_sightings = setup["policy"] == "arc"
        """Whether a reset does: a manager may, and may not."""
        self.fault = setup.get("fault", "")
        self.seen: OrderedDict[int, int] = OrderedDict()
        self.reset()

    def reset(self) -> bool:
        """Forget everything."""
        self.free = list(range(self.chunks))
        self.entries: OrderedDict[int, int] = OrderedDict()
        self.storing: dict[int, int] = {}
        self.pins: Counter[int] = Counter()
        if self.forgets_sightings:
            self.seen.clear()
        self.told: list[tuple[bool, list[int]]] = []
        return True

    # Requests are their names.

    def context(self, name: str) -> str:
        return name

    def position(self, context: str, keys: list[int]) -> None:
        """Nothing depends on it."""

    def finish(self, context: str) -> None:
        """Nothing is kept of it."""

    # Calls.

    def lookup(self, k: int, context: str) -> bool:
        return k in self.entries

    def prepare_store(self, keys: list[int], context: str) -> tuple[list[int], list[int], list[int]] | None:
        self._see(keys)
        new = [k for k in self.eligible(keys) if k not in self.entries and k not in self.storing]
        needed = max(0, len(new) - len(self.free))
        may_go = [k for k in self.entries if not self.pins[k] and k not in keys]
        if self.fault == "evicts what is read":
            may_go = [k for k in self.entries if k not in keys]
        if needed > len(may_go):
            return None
        evicted = may_go[-needed:] if self.fault == "evicts the newest" and needed else may_go[:needed]
        self.free += [self.entries.pop(k) for k in evicted]
        if evicted and self.fault != "silent removal":
            self.told.append((True, evicted))
        chunks = [self.free.pop() for _ in new]
        self.storing |= dict(zip(new, chunks, strict=True))
        return new, chunks, evicted

    def complete_store(self, keys: list[int], context: str, ok: bool) -> None:
        chunks = [self.storing.pop(k) for k in keys]
        if ok:
            self.entries |= dict(zip(keys, chunks, strict=True))
            self.told.append((False, keys))
        elif self.fault != "a failure keeps its chunks":
            self.free += chunks

    def prepare_load(self, keys: list[int], context: str) -> list[int]:
        self.pins.update(keys)
        return [self.entries[k] for k in keys]

    def complete_load(self, keys: list[int], context: str) -> None:
        self.pins.subtract(keys)

    def touch(self, keys: list[int], context: str) -> None:
        for k in keys:
            if k in self.entries:
                self.entries.move_to_end(k)

    def events(self) -> list[tuple[bool, list[int]]]:
        told, self.told = self.told, []
        return told

    # Reading.

    def eligible(self, keys: list[int]) -> list[int]:
        if self.threshold < 2:
            return keys
        return [k for k in keys if self.seen.get(k, 0) >= self.threshold]

    def read(self) -> tuple[list[int], int, list[tuple[int, int]]]:
        ref = [0] * self.chunks
        for chunk in self.storing.values():
            ref[chunk] = 1
        for k, chunk in self.entries.items():
            ref[chunk] += self.pins[k]
        return ref, len(self.free) + sum(not self.pins[k] for k in self.entries), list(self.entries.items())

    def _see(self, keys: list[int]) -> None:
        """Count keys, as many as may be counted: of others those go that were counted longest ago."""
        for k in keys:
            self.seen[k] = self.seen.pop(k, 0) + 1
            if len(self.seen) > self.most:
                self.seen.popitem(last=False)
