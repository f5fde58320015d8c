"""The chunk manager (`CPUOffloadingManager`): O3, O12, and P1, P2, P5, P6, P11 as they read for chunks.

Which entries go when room is needed is the policy's own affair, but that one called LRU keeps what was used last for
certain (`offload_uses.py`). All else follows from the calls and their answers: what is there, in which chunk, and how
often it was pinned and seen. The oracle keeps that in books of its own, and compares.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..ghost import Ghost
from ..record import PoolState, Step, World
from ..violation import Violation
from .offload_uses import Sightings, Uses

__all__ = ["OffloadManagerOracle"]

TIER = "host"


class OffloadManagerOracle:
    """Judges a run of the level ``offload`` whose setup has ``kind`` = ``manager``."""

    def __init__(self, world: World, setup: dict[str, Any]) -> None:
        self._chunks = world.tiers[TIER].blocks
        self._policy: str = setup["policy"]
        self._ready: dict[int, int] = {}
        """The chunk of each key that can be loaded."""
        self._storing: dict[int, int] = {}
        """The chunk of each key whose store is in flight."""
        self._pins: Counter[int] = Counter()
        """How many loads of each key are in flight."""
        self._first: list[tuple[str, dict[str, Any], Any]] | None = [] if setup["again"] else None
        """Where all is played again after a reset: what was answered before it."""
        self._second: int | None = None
        self._uses = Uses(ends=world.notes.get("finish") == "use")
        self._sightings: Sightings | None = None
        if setup["threshold"] >= 2 and world.notes.get("sightings") == "offers":
            self._sightings = Sightings(setup["threshold"], setup["tracker"])

    def step(self, step: Step, _ghost: Ghost | None = None) -> Iterator[Violation]:
        """Yield what is wrong with an answer, then with the state."""
        if step.skipped or step.error is not None:
            return
        self._uses.called(step.op, step.args.get("request"), step.args.get("keys", ()))
        judged = getattr(self, "_" + step.op, None)
        if judged is not None:
            yield from judged(step.args, step.result)
        if step.state is not None:
            yield from self._compared(step.op, step.result, step.state.pools[TIER])
        if self._first is not None:
            yield from self._as_before(self._first, step)

    # -------------------------------------------------------------------------------------------------- operations

    def _offer(self, args: dict[str, Any], result: dict[str, Any]) -> Iterator[Violation]:
        """O12, O3: what an offer may evict, store and refuse, and where it may write."""
        offered: list[int] = args["keys"]
        eligible: list[int] = result["eligible"]
        if self._sightings is not None:
            eligible = self._sightings.offered(offered, eligible)
        if result.get("refused"):
            yield from self._refused(offered, eligible)
            return
        store, chunks, evicted = result["store"], result["chunks"], result["evicted"]
        yield from self._enough(offered, eligible, store, evicted)
        for k in evicted:
            wrong = self._not_evictable(k, offered)
            if wrong:
                yield self._violation("O12", wrong[0], f"the offer of {offered} evicts key {k}, {wrong[1]}")
            self._ready.pop(k, None)
        again = [k for k in store if k in self._ready or k in self._storing]
        if again:
            text = f"key {again[0]} is to be stored, but it is {'there' if again[0] in self._ready else 'being stored'}"
            yield self._violation("O3", "stored again", text)
        if not set(store) <= set(offered) or len(set(store)) != len(store):
            yield self._violation("O12", "stores what was not offered", f"of {offered}, {store} are to be stored")
        if len(chunks) != len(store):
            text = f"{len(chunks)} chunks are handed out for {len(store)} keys"
            yield self._violation("P7", "chunks for keys", text)
        used = {chunk: k for k, chunk in (*self._ready.items(), *self._storing.items())}
        for k, chunk in zip(store, chunks, strict=False):
            if chunk in used or not 0 <= chunk < self._chunks:
                text = f"key {k} is to be written to chunk {chunk}, where key {used.get(chunk)} is"
                yield self._violation("P6", "chunk in use handed out", text)
            used[chunk] = k
            self._storing[k] = chunk
        self._uses.stored(args["request"], store)

    def _enough(
        self, offered: list[int], eligible: list[int], store: list[int], evicted: list[int]
    ) -> Iterator[Violation]:
        """O9, O12: all is stored that was seen often enough and is not there, and no more evicted than that needs."""
        new = self._new(eligible)
        left_out = [k for k in new if k not in store]
        if left_out:
            text = f"the offer of {offered} is taken, and key {left_out[0]}, which is not there, is not to be stored"
            yield self._violation("O9", "leaves out what was offered", text)
        early = [k for k in store if k in offered and k not in eligible]
        if early:
            text = f"key {early[0]} is to be stored, and was not seen as often as that takes"
            yield self._violation("O12", "stores what was not seen often enough", text)
        needed = max(0, self._needed(store))
        if len(evicted) > needed:
            text = f"the offer of {offered} evicts {evicted}, and needs {needed} chunks more than are free"
            yield self._violation("O12", "evicts more than it needs", text)
        if evicted and self._policy == "lru":
            yield from self._in_order(offered, evicted)

    def _in_order(self, offered: list[int], evicted: list[int]) -> Iterator[Violation]:
        """O12: by LRU nothing goes that was certainly used after something that stays."""
        stay = [k for k in self._ready if not self._pins[k] and k not in offered and k not in evicted]
        older = [(k, other) for other in evicted for k in stay if self._uses.was_used_before(k, other)]
        if older:
            text = (
                f"the offer of {offered} evicts key {older[0][1]}, which was used after key {older[0][0]}, which stays"
            )
            yield self._violation("O12", "evicts what was used later", text)

    def _new(self, eligible: list[int]) -> list[int]:
        """Of keys that may be stored those that are not there, and not on their way."""
        return [k for k in eligible if k not in self._ready and k not in self._storing]

    def _needed(self, new: list[int]) -> int:
        """How many chunks must come free for new keys."""
        return len(new) - (self._chunks - len(self._ready) - len(self._storing))

    def _not_evictable(self, k: int, offered: list[int]) -> tuple[str, str] | None:
        """Why a key must not be evicted by this offer; None when it may."""
        if k in offered:
            return "evicts a key of its own", "which it names"
        if k in self._storing:
            return "evicts an entry in flight", "whose store is in flight"
        if k not in self._ready:
            return "evicts what is not there", "which is not there"
        if self._pins[k]:
            return "evicts a pinned entry", "which a load in flight pins"
        return None

    def _refused(self, offered: list[int], eligible: list[int]) -> Iterator[Violation]:
        """O12: refused exactly when fewer entries are evictable than needed."""
        needed = self._needed(self._new(eligible))
        evictable = [k for k in self._ready if not self._pins[k] and k not in offered]
        if needed <= len(evictable):
            text = (
                f"the offer of {offered} is refused: it needs {max(needed, 0)} evictions, "
                f"and {len(evictable)} entries are evictable: {evictable}"
            )
            yield self._violation("O12", "refused with enough evictable", text)

    def _touch(self, args: dict[str, Any], _result: None) -> Iterator[Violation]:
        self._uses.touched(k for k in args["keys"] if k in self._ready or k in self._storing)
        yield from ()

    def _load(self, args: dict[str, Any], result: dict[str, Any]) -> Iterator[Violation]:
        yield from self._lookup(args, result)
        for k, chunk in zip(result["hits"], result["chunks"], strict=False):
            if self._ready.get(k) != chunk:
                text = f"key {k} is loaded from chunk {chunk}, but it was stored to chunk {self._ready.get(k)}"
                yield self._violation("P6", "loaded from another chunk", text)
            self._pins[k] += 1
        self._uses.loaded(args["request"], result["hits"])

    def _lookup(self, args: dict[str, Any], result: dict[str, Any]) -> Iterator[Violation]:
        """P5: a lookup finds what is there, and nothing else."""
        expected = [k for k in args["keys"] if k in self._ready]
        if result["hits"] != expected:
            text = f"of the keys {args['keys']}, {result['hits']} are found; {expected} are there"
            yield self._violation("P5", "a lookup finds what is there", text)

    def _stored(self, args: dict[str, Any], _result: None) -> Iterator[Violation]:
        for k in args["keys"]:
            chunk = self._storing.pop(k)
            if args["ok"]:
                self._ready[k] = chunk
        yield from ()

    def _loaded(self, args: dict[str, Any], _result: None) -> Iterator[Violation]:
        self._pins.subtract(args["keys"])
        yield from ()

    def _drain(self, _args: dict[str, Any], _result: dict[str, Any]) -> Iterator[Violation]:
        self._uses.called("drain", None, {*self._storing, *self._pins})
        self._ready |= self._storing
        self._storing.clear()
        self._pins.clear()
        yield from ()

    def _reset(self, _args: dict[str, Any], _result: bool) -> Iterator[Violation]:
        self._uses.forget()
        if self._sightings is not None:
            self._sightings.reset()
        self._ready.clear()
        self._storing.clear()
        self._pins.clear()
        yield from ()

    # ------------------------------------------------------------------------------------------------------- state

    def _compared(self, op: str, result: Any, pool: PoolState) -> Iterator[Violation]:
        """The manager's entries, references and counters are those of the books."""
        refused = op == "offer" and result.get("refused")
        found = {k: blocks[0] for k, _, blocks in pool.cached or ()}
        if found != self._ready:
            k = min(k for k in found.keys() | self._ready.keys() if found.get(k) != self._ready.get(k))
            text = f"key {k} is in chunk {found.get(k)}, and should be in {self._ready.get(k)} (None: nowhere)"
            if refused:
                yield self._violation("O12", "a refusal changes something", text)
            else:
                yield self._violation("P5", "entries are what was stored and not evicted", text)
        ref = [0] * self._chunks
        for chunk in self._storing.values():
            ref[chunk] += 1
        for k, chunk in self._ready.items():
            ref[chunk] += self._pins[k]
        if pool.ref != ref:
            text = f"the chunks have {pool.ref} references, and should have {ref}"
            yield self._violation("P2", "references of chunks", text)
        elif pool.num_free != ref.count(0):
            text = f"{ref.count(0)} chunks have no reference; by its counters the manager can have {pool.num_free}"
            yield self._violation("P1", "chunks that can be had", text)

    def _as_before(self, first: list[tuple[str, dict[str, Any], Any]], step: Step) -> Iterator[Violation]:
        """P11: after a reset everything goes as it went the first time, for as long as the same is done."""
        if step.op == "reset":
            self._second = 0 if self._second is None else len(first)
        elif self._second is None:
            first.append((step.op, step.args, step.result))
        elif self._second < len(first):
            op, args, result = first[self._second]
            same = (op, args) == (step.op, step.args)
            self._second = self._second + 1 if same else len(first)
            if same and result != step.result:
                text = f"played again after a reset, {op} {args} gives {step.result}; the first time it gave {result}"
                yield self._violation("P11", "a reset leaves a trace", text)

    def _violation(self, rule: str, oracle: str, text: str) -> Violation:
        return Violation(rule, oracle, text, (self._policy,))
