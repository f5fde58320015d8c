"""One block pool under watch: its last calls, the state that they began in, and what was found."""

from __future__ import annotations

from typing import Any, Final

from ..worker.vllm_reading import deferred, raw_state, tables
from .incident import Incident
from .judging import Call, Verdict, judge_call, judge_state
from .ring import Ring
from .saying import say
from .settings import Settings
from .short_way import called

__all__ = ["ViolationError", "Watch"]

MOST_BLOCKS: Final = 100_000
"""In larger pools states are checked, but not kept."""
MOST_INCIDENTS: Final = 10
"""A pool whose bookkeeping is wrong breaks rule after rule; the first ones say why."""
_ALL: Final = len(Call._fields)


class ViolationError(RuntimeError):
    """A rule is broken, and the engine was to be stopped."""


class Watch:
    """The watch of one pool."""

    def __init__(self, pool: Any, settings: Settings, release: str, number: int) -> None:
        self.steps = 0
        self.alive = True
        """False once the sanitizer itself failed: it then stays out of the engine's way."""
        self._settings = settings
        self._release = release
        self._number = number
        self._ring = Ring(_weight)
        self._since = 0
        self._kept = len(pool.blocks) <= MOST_BLOCKS
        self._start = raw_state(pool) if self._kept else None
        self._told: set[tuple[str, str]] = set()

    def saw(self, pool: Any, fields: tuple[Any, ...]) -> None:
        """Take note of a call, and judge it; ``fields`` are those of a `Call`, or what is kept of one that is as due.

        Raises:
            ViolationError: it breaks a rule, and the engine is to be stopped.
        """
        full = self._ring.add(fields)
        if len(fields) == _ALL and (verdict := judge_call(Call(*fields))) is not None:
            self._report(pool, verdict, {}, (), False, by_call=True)
        if full:
            # Within a step the tables may lag behind the pool: its holders are left out.
            self._check(pool, {}, (), False)

    def stepped(self, pool: Any, scheduler: Any | None) -> None:
        """A step of the scheduler was processed; check the whole state where it is time.

        ``scheduler``: the one whose requests hold this pool's blocks; None for a pool of another tier.

        Raises:
            ViolationError: as `saw`.
        """
        self.steps += 1
        self._since += 1
        if not self._settings.every or self._since < self._settings.every:
            return
        if scheduler is None:
            self._check(pool, {}, (), False)
            return
        manager = scheduler.kv_cache_manager
        managers = getattr(manager.coordinator, "single_type_managers", ())
        shared = all(getattr(each, "block_pool", pool) is pool for each in managers)
        # A connector, and sinks that never enter the queue, hold blocks that no table shows.
        exact = shared and scheduler.connector is None and not any(hasattr(each, "sink_blocks") for each in managers)
        requests = scheduler.requests if shared else ()
        self._check(pool, tables(manager, requests), deferred(scheduler) if shared else (), exact)

    def _check(self, pool: Any, of_requests: dict[str, Any], holds: Any, exact: bool) -> None:
        state = raw_state(pool)
        null = pool.null_block.block_id
        verdicts = list(judge_state(state, null, of_requests, holds, exact))
        if verdicts:
            self._report(pool, verdicts[0], of_requests, holds, exact, tuple(verdicts[1:]))
        # What comes next begins here, broken or not.
        self._start = state if self._kept else None
        self._ring, self._since = Ring(_weight), 0

    def _report(
        self,
        pool: Any,
        verdict: Verdict,
        of_requests: dict[str, Any],
        holds: Any,
        exact: bool,
        also: tuple[Verdict, ...] = (),
        by_call: bool = False,
    ) -> None:
        """Write an incident, once for each kind of fault."""
        if (verdict.rule, verdict.kind) not in self._told and len(self._told) < MOST_INCIDENTS:
            self._told.add((verdict.rule, verdict.kind))
            incident = Incident(
                release=self._release,
                settings=self._settings,
                number=self._number,
                steps=self.steps,
                pool=pool,
                verdict=verdict,
                also=also,
                start=self._start,
                calls=list(map(called, self._ring.calls())),
                state=raw_state(pool) if self._kept else None,
                tables=of_requests,
                holds=list(holds),
                exact=exact,
                by_call=by_call,
            )
            say(incident.written())
        if self._settings.stop:
            raise ViolationError(f"{verdict.rule}: {verdict.text}")


def _weight(fields: tuple[Any, ...]) -> int:
    """About how many numbers a call takes up in a trace: as many for each block."""
    return 12 + 5 * len(fields[2])
