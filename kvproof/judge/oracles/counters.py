"""What an engine counts of its lookups (P15): a request counts once, when it is scheduled, and for what it found.

Judged are the counters ``requests``, ``queries`` (tokens that were asked for) and ``hits`` (tokens that were found) of
requests that come for the first time, and with ``external_`` before the name those of tokens from elsewhere;
``external_hits_from_S`` are those hits by where they came from, one of the world's ``sources``. Of others, and of those
that begin with ``preempted_``, only that they never go back.

Who counts at all has counted a request by the time that it is told the result of a step which was begun behind it.
"""

from collections import Counter
from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Effect, Step, World
from ..violation import Violation

__all__ = ["CountersOracle"]


class CountersOracle:
    """Compares an engine's counters with what was told of its requests."""

    def __init__(self, world: World) -> None:
        self._counts: dict[str, float] = {}
        self._most: dict[str, tuple[int, int]] = {}
        """Per request that has arrived, the most tokens that a lookup found: here, and elsewhere."""
        self._sources: list[str] | None = world.notes.get("sources")
        self._least = _Least() if world.dialect.get("keep") != "none" else None

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield which counters say what cannot be."""
        told: list[dict[str, float]] = []
        for effect in step.effects:
            kind = effect[0]
            if kind == "request":
                self._most[effect[1]] = (0, 0)
            elif kind == "lookup":
                _, r, local, external, _ = effect
                here, elsewhere = self._most.get(r, (0, 0))
                self._most[r] = max(here, local), max(elsewhere, external)
            elif kind == "counts":
                told.append(effect[1])
            if self._least is not None and kind in _FOLLOWED:
                self._least.follow(effect)
        for counts in told:
            yield from self._never_back(counts)
        if told:
            yield from self._bounded("", sum(here for here, _ in self._most.values()), ghost)
            yield from self._bounded("external_", sum(elsewhere for _, elsewhere in self._most.values()), ghost)
            yield from self._by_source()
        if self._least is not None and self._counts and step.error is None:
            yield from self._too_few(self._least)

    def _never_back(self, counts: dict[str, float]) -> Iterator[Violation]:
        for name, value in counts.items():
            if value < (before := self._counts.get(name, 0)):
                text = f"the counter {name} went from {before} to {value}"
                yield Violation("P15", "counter goes back", text, (name,))
            self._counts[name] = value

    def _bounded(self, of: str, found: int, ghost: Ghost) -> Iterator[Violation]:
        """What counts once is no more than what was told; ``of`` begins the counters' names."""
        requests, queries, hits = (self._counts.get(of + name, 0) for name in ("requests", "queries", "hits"))
        tokens = sum(ghost.requests[r].most for r in self._most)
        if requests > len(self._most):
            why = f"{of}requests is {requests}, and only {len(self._most)} have arrived"
        elif queries > tokens:
            why = f"{of}queries is {queries}, and all requests together have {tokens} tokens"
        elif hits > found:
            why = f"{of}hits is {hits}, and the lookups of all requests found {found} tokens"
        elif hits > queries and of + "queries" in self._counts:
            why = f"{of}hits is {hits}, of {queries} {of}queries"
        else:
            return
        yield Violation("P15", "a lookup counts more than once", why, (of + "lookups",))

    def _by_source(self) -> Iterator[Violation]:
        """Hits by where they came from are all the hits, and come from where there is something."""
        by = {name.removeprefix(_FROM): value for name, value in self._counts.items() if name.startswith(_FROM)}
        if not by:
            return
        if sum(by.values()) != (hits := self._counts.get("external_hits", 0)):
            text = f"external_hits is {hits}, and by where they came from they are {by}"
            yield Violation("P15", "hits by source do not add up", text, ("external_hits",))
        there = by if self._sources is None else self._sources
        for source, tokens in by.items():
            if tokens and source not in there:
                text = f"{tokens:g} tokens came from {source}, and no tier has that name"
                yield Violation("P15", "hits from nowhere", text, (source,))

    def _too_few(self, least: "_Least") -> Iterator[Violation]:
        counts_elsewhere = any(name.startswith("external_") for name in self._counts)
        for name, due in least.due.items():
            if (value := self._counts.get(name, 0)) < due and (counts_elsewhere or not name.startswith("external_")):
                text = f"{name} is {value}, and requests whose steps have ended make {due}"
                yield Violation("P15", "a lookup is not counted", text, (name,))


_FROM = "external_hits_from_"

_FOLLOWED = ("request", "lookup", "preempted", "end", "compute", "batch")


class _Least:
    """What is to be counted at least: of each request its prompt, and what each of its lookups found up to when it was
    scheduled first, whichever of them counts: here, and elsewhere of what was not found here. Not of those that ask
    that nothing be read for them."""

    def __init__(self) -> None:
        self.due = Counter[str]()
        """Of requests that were scheduled before a step whose result was told."""
        self._scheduled = Counter[str]()
        self._prompts: dict[str, int] = {}
        """How many tokens have the requests that were not scheduled yet."""
        self._found: dict[str, tuple[int, int, int]] = {}
        """The least that a lookup found here, and elsewhere, and the most that one found here."""

    def follow(self, effect: Effect) -> None:
        """Let an effect happen."""
        match effect:
            case ["request", str(r), dict(what)] if not what.get("skip"):
                self._prompts[r] = len(what["tokens"])
            case ["lookup", str(r), int(local), int(external), *_]:
                least, elsewhere, most = self._found.get(r, (local, external, local))
                self._found[r] = min(local, least), min(external, elsewhere), max(local, most)
            case ["preempted" | "end", str(r), *_]:
                self._prompts.pop(r, None)
            case ["compute", str(r), *_] if r in self._prompts and r in self._found:
                (here, elsewhere, most), prompt = self._found[r], self._prompts.pop(r)
                self._scheduled.update(requests=1, queries=prompt, hits=here)
                self._scheduled.update(external_requests=1, external_queries=prompt - most, external_hits=elsewhere)
            case ["batch", "end"]:
                self.due = self._scheduled.copy()
