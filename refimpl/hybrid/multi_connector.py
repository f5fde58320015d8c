"""Several connectors behind one: who is asked, who wins, and what becomes of a load (H5, H6, O11).

A fast store that knows little and a slow one that knows much answer the same lookup; the one whose answer is worth
most loads, and what is computed is stored in all. A request has at most one load per stay::

    matched -> (promised) -> begin_load -> finish_load or expire -> over
                   |                                                 ^
                   +------------------- decline ---------------------+

Once that is over, however it ended, its lookups answer 0 without asking: a request whose load failed recomputes and
does not wait for the same slow store again. ``finished`` and ``preempted`` end the stay.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite
from typing import Literal

from ..errors import RefusedError
from ..pool.manager import RequestId
from .connector import BlockRef, Chain, Connector
from .connector_records import Counters, LoadEnd, LoadSnapshot, MultiSnapshot, Outcome, Phase, RequestSnapshot

Dialect = Literal["weighted", "first"]
"""Who wins (H5). ``weighted``: the most tokens times weight, the first of equals. ``first``: the first that has
anything; and one that has not resolved defers the whole lookup."""

Notice = AbstractSet[RequestId] | Sequence[AbstractSet[RequestId]]
"""Preempted requests, in either of two forms: one set for all children, or each child's own, in their order."""


@dataclass(slots=True)
class _Stay:
    """A request, from its first lookup until it finishes or is preempted."""

    phase: Phase = "open"
    computed: int = 0
    external: int = 0
    promised: int = 0
    child: int | None = None
    counted: bool = False
    job: int | None = None


class MultiConnector:
    """Connectors as one. Each public method but ``poll`` is one step; an illegal call changes nothing.

    Time is an argument: no clock is read. Moments may be of any unit, and an earlier one than was told before counts
    as that (G3). A lookup costs one per child, everything else O(1) per block that it names or load that it ends.
    """

    def __init__(
        self,
        children: Sequence[Connector],
        *,
        hybrid: bool,
        dialect: Dialect = "weighted",
        load_timeout: float = 30.0,
        max_pending: int | None = None,
    ) -> None:
        """Put ``children`` behind one, in order of preference among equals.

        Args:
            children: at least one, each with a name of its own and a finite weight > 0.
            hybrid: whether requests have several groups; then every child must support that.
            dialect: who wins.
            load_timeout: how long a load may take, > 0, in the unit of the moments that are told.
            max_pending: the most loads that one child may have pending; beyond it the child counts as not resolved.

        Raises:
            TypeError: when ``hybrid`` and a child does not support it; the message names all of these.
        """
        names = [child.name for child in children]
        if not names or len(set(names)) != len(names):
            raise RefusedError(f"give at least one connector, each with a name of its own, not {names}")
        if hybrid and (unable := [child.name for child in children if not child.supports_hybrid]):
            raise TypeError(f"requests have several groups, which these do not support: {unable}; replace them")
        if not all(isfinite(child.weight) and child.weight > 0 for child in children):
            raise RefusedError(f"weights are finite and > 0, not {[child.weight for child in children]}")
        if dialect not in ("weighted", "first"):
            raise RefusedError(f"the dialect is 'weighted' or 'first', not {dialect!r}")
        if not load_timeout > 0 or (max_pending is not None and max_pending < 1):
            raise RefusedError(f"nothing can be loaded in {load_timeout} or with {max_pending} loads at a time")
        self.children = tuple(children)
        self.dialect: Dialect = dialect
        self.load_timeout = load_timeout
        self.max_pending = max_pending
        # A float is a fraction too: products compare exactly, so that a tie is one and nothing else is.
        self._weights = [Fraction(child.weight) for child in children]
        self._counters = [Counters() for _ in children]
        self._stays: dict[RequestId, _Stay] = {}
        # All loads have the same time, and moments do not run backward: the order of begin is that of deadlines.
        self._loads: dict[int, LoadSnapshot] = {}
        self._next_job = 0
        self._now = float("-inf")

    # Lookups.

    def matched(self, request: RequestId, chain: Chain, computed: int) -> int | None:
        """Ask all children, choose one, and return how many tokens beyond ``computed`` it promises (H5).

        ``None``: nobody has resolved, ask again later. 0: nothing to load. With an answer, the children that are not
        chosen drop what their lookups hold (O5). A further lookup takes the place of the one before, promise included.
        """
        if computed < 0:
            raise RefusedError(f"{computed} tokens cannot be computed")
        stay = self._stays.setdefault(request, _Stay())
        if stay.phase == "loading":
            raise RefusedError(f"request {request!r} waits for its load: look up before or after")
        if stay.phase == "over":
            return 0
        self._withdraw(stay)
        stay.computed = computed
        busy = [self._is_busy(index) for index in range(len(self.children))]
        answers = [
            None if is_busy else child.matched(request, chain, computed)
            for child, is_busy in zip(self.children, busy, strict=True)
        ]
        if self._is_deferred(answers):
            return None
        winner = self._winner(answers)
        for index, child in enumerate(self.children):
            if index != winner and (busy[index] or answers[index] is not None):
                child.drop(request)
        self._count(stay, answers, winner)
        if winner is None:
            return 0
        stay.phase, stay.child, stay.promised = "promised", winner, answers[winner] or 0
        self._counters[winner].pending_loads += 1
        return stay.promised

    def decline(self, request: RequestId) -> None:
        """Do without the promised load: the request computes. Refused when nothing is promised."""
        stay = self._promised(request)
        assert stay.child is not None
        self.children[stay.child].drop(request)
        self._withdraw(stay)
        stay.phase = "over"

    # Loads.

    def begin_load(self, request: RequestId, blocks: Iterable[BlockRef], tokens: int, now: float) -> int:
        """Let the chosen child load ``tokens`` tokens to ``blocks``, and only that one; return the load's number.

        From now on they count as external. Refused when nothing is promised, or less than that, or
        when a key stands twice.
        """
        stay = self._promised(request)
        assert stay.child is not None
        blocks = tuple(blocks)  # It is read more than once.
        keys = tuple(ref.key for ref in blocks)
        if not 0 < tokens <= stay.promised or not keys or len(set(keys)) != len(keys):
            raise RefusedError(f"load 1 to {stay.promised} tokens, and each key once: got {tokens} with {len(keys)}")
        job = self._next_job
        self.children[stay.child].begin_load(job, request, blocks)
        self._next_job += 1
        self._now = max(self._now, now)
        self._loads[job] = LoadSnapshot(request, stay.child, keys, self._now + self.load_timeout)
        stay.phase, stay.promised, stay.external, stay.job = "loading", 0, tokens, job
        return job

    def finish_load(self, job: int, *, ok: bool) -> LoadEnd | None:
        """Take note that a child is done with a load. Good: its tokens are there. Bad: the request recomputes (O11).

        ``None``, and nothing changed, for a load that ended before: a late or repeated completion (H6).
        """
        if job not in self._loads:
            return None
        if not ok:
            self._counters[self._loads[job].child].failed += 1
        return self._end(job, "loaded" if ok else "failed")

    def expire(self, now: float) -> tuple[LoadEnd, ...]:
        """Cancel the loads whose time is over, in the order in which they began; their requests recompute (H6)."""
        self._now = max(self._now, now)
        late: list[int] = []
        for job, load in self._loads.items():
            if load.deadline > self._now:
                break
            late.append(job)
            self._counters[load.child].expired += 1
        return tuple(self._end(job, "expired") for job in late)

    def poll(self) -> list[LoadEnd]:
        """Collect what the children have completed, and do ``finish_load`` for each: so many steps, not one."""
        reports = [done for child in self.children for done in child.poll()]
        ends = [self.finish_load(done.job, ok=done.ok) for done in reports]
        return [end for end in ends if end is not None]

    # Stores, and requests that leave.

    def store(self, request: RequestId, blocks: Iterable[BlockRef]) -> int:
        """Offer computed blocks to every child (H5); return how many, from the first, are settled with all of them.

        The rest found no room somewhere: offer it again. Whoever has a block already settles it without work.
        """
        blocks = tuple(blocks)
        return min(child.store(request, blocks) for child in self.children)

    def preempted(self, notice: Notice) -> None:
        """Let requests leave for now: loads are cancelled, holds dropped, and every child hears of it (H5).

        Refused when each child's own set is given, and they are not as many as there are children.
        """
        count = len(self.children)
        told: Sequence[AbstractSet[RequestId]] = [notice] * count if isinstance(notice, AbstractSet) else notice
        if len(told) != count:
            raise RefusedError(f"{len(told)} sets of preempted requests are given for {count} connectors")
        for request in dict.fromkeys(request for requests in told for request in requests):
            self._leave(request)
        for child, requests in zip(self.children, told, strict=True):
            child.preempted(requests)

    def finished(self, request: RequestId) -> None:
        """Let a request leave for good, at any moment: its load is cancelled and what is held for it dropped."""
        self._leave(request)

    # For observers.

    def counters(self) -> Mapping[str, Counters]:
        """Return a copy of each child's counters, by name."""
        return {child.name: replace(counts) for child, counts in zip(self.children, self._counters, strict=True)}

    def snapshot(self) -> MultiSnapshot:
        """Collect the whole observable state."""
        return MultiSnapshot(
            now=self._now,
            next_job=self._next_job,
            requests={
                request: RequestSnapshot(
                    stay.phase, stay.computed, stay.external, stay.promised, stay.child, stay.counted
                )
                for request, stay in self._stays.items()
            },
            loads=dict(self._loads),
            counters=tuple(map(replace, self._counters)),
        )

    def _is_busy(self, index: int) -> bool:
        """Tell, and count, that a child has all the loads that it may have: it is not asked, and has not resolved.

        What an earlier lookup holds there stays until this one has an answer: backpressure defers, it drops nothing.
        """
        counters = self._counters[index]
        is_busy = self.max_pending is not None and counters.pending_loads >= self.max_pending
        counters.deferrals += is_busy
        return is_busy

    def _is_deferred(self, answers: Sequence[int | None]) -> bool:
        """Tell whether a lookup has no answer yet."""
        unresolved = [answer is None for answer in answers]
        return any(unresolved) if self.dialect == "first" else all(unresolved)

    def _winner(self, answers: Sequence[int | None]) -> int | None:
        """Return the place of the child that loads; ``None`` when nobody has anything."""
        offers = [index for index, tokens in enumerate(answers) if tokens]
        if not offers or self.dialect == "first":
            return offers[0] if offers else None
        return max(offers, key=lambda index: (answers[index] or 0) * self._weights[index])

    def _count(self, stay: _Stay, answers: Sequence[int | None], winner: int | None) -> None:
        """Count the first lookup of a stay that resolved, at each child that did."""
        if stay.counted:
            return
        stay.counted = True
        for index, (tokens, counters) in enumerate(zip(answers, self._counters, strict=True)):
            counters.queries += tokens is not None
            counters.misses += tokens == 0
            if index == winner:
                counters.hits += 1
                counters.hit_tokens += tokens or 0

    def _promised(self, request: RequestId) -> _Stay:
        """Return a request to which something must be promised."""
        stay = self._stays.get(request)
        if stay is None or stay.phase != "promised":
            raise RefusedError(f"no connector is chosen for request {request!r}: look up first")
        return stay

    def _withdraw(self, stay: _Stay) -> None:
        """Take back a promise, if there is one."""
        if stay.phase == "promised" and stay.child is not None:
            self._counters[stay.child].pending_loads -= 1
            stay.phase, stay.child, stay.promised = "open", None, 0

    def _close(self, job: int) -> _Stay:
        """Take a load out of flight: release exactly what was prepared for it, once (H6)."""
        load = self._loads.pop(job)
        self.children[load.child].release(job, load.keys)
        self._counters[load.child].pending_loads -= 1
        stay = self._stays[load.request]
        stay.phase, stay.child, stay.job = "over", None, None
        return stay

    def _end(self, job: int, outcome: Outcome) -> LoadEnd:
        """End a load; unless it succeeded, its tokens do not count any more (O11)."""
        request = self._loads[job].request
        stay = self._close(job)
        if outcome != "loaded":
            stay.external = 0
        return LoadEnd(job, request, outcome, stay.computed, stay.external)

    def _leave(self, request: RequestId) -> None:
        """End a request's stay."""
        stay = self._stays.get(request)
        if stay is None:
            return
        if stay.job is not None:
            self._close(stay.job)
        self._withdraw(stay)
        del self._stays[request]
        for child in self.children:
            child.drop(request)
