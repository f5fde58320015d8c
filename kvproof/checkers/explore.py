"""Exploration: all reachable states of a machine in one scope, breadth first.

Batches of states go through the batched interpreter; what it finds is confirmed by the concrete one before it is
reported (`confirming.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from ..machine import Int, Machine, Model
from ..machine.batched import Batched, Instance
from ..machine.concrete import Concrete, IllFormed
from ..machine.scope import Scope, ScopeError
from .confirming import Confirming, Disagreement, ErrorTrace
from .cycles import Lasso, lassos, step_between
from .growth import available_bytes, expected
from .states import names_of, side_by_side
from .visited import Full, StateSet

__all__ = ["ExploreReport", "explore"]

Stop = Literal["states", "memory", "hopeless"]
"""``max_states`` was reached, the memory is full, or more states are to be expected than could ever be visited."""

Progress = Callable[[int, int, int], None]
"""Called with the numbers of states, transitions and levels so far."""

_PILOT = range(200_000, 2_000_000)
"""After a level that ends with so many states it is judged whether there is any hope. Before, nothing can be said of
it; later, memory decides."""

_HOPELESS = 100
"""So many times more states than there is room for are hopeless: how many there will be is only a guess."""

_TABLE_BYTES = 16
"""What a state takes in the table, on average."""

_ROWS = {"cpu": 1 << 15, "cuda": 1 << 21}
"""States expanded at once. On a CPU their columns fit the cache, and are too small for torch to call other threads.

On a card each call costs the host 7 microseconds to queue, whatever its size: the more at once, the better.
"""

_ROOM_TO_EXPAND = 8 << 10
"""Bytes of a card's free memory for each state expanded at once; wide machines have taken a tenth of it."""


@dataclass
class ExploreReport:
    """What an exploration found."""

    machine: str
    sizes: dict[str, int]
    states: int = 0
    """Distinct reachable states."""
    transitions: int = 0
    """Steps from all of them: every action with every choice of arguments with which it is possible."""
    depth: int = 0
    """The number of steps after which the last new state was reached."""
    properties: int = 0
    """How many properties of states and of steps, and promises, were judged."""
    violations: list[ErrorTrace] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    """The `sometimes` properties that are true in no state."""
    never: list[str] = field(default_factory=list)
    """The actions that are possible in no state."""
    numbered: bool = False
    """Whether any of these is given a number: no negative one is ever tried."""
    given_numbers: bool = False
    """Whether any action of the machine is."""
    seconds: float = 0.0
    peak_bytes: int = 0
    """The most memory that the set of visited states took."""
    complete: bool = True
    """Every reachable state was visited. False after a violation, or where it stopped."""
    explored_depth: int = 0
    """Whatever can be reached in so many steps was reached, and judged."""
    stopped: Stop | None = None
    """What it stopped for, if it did."""
    expected: float | None = None
    """How many states there may be, where it stopped and that can be guessed; infinite where nothing bounds it."""
    limit_bytes: int | None = None
    """How much memory the set of visited states could take."""

    @property
    def generated(self) -> int:
        """Transitions as TLC and Spin count them: the initial state is generated too."""
        return self.transitions + 1


def explore(
    machine: type[Machine] | Model,
    scope: Scope,
    *,
    device: str = "cpu",
    check: bool = True,
    steps: bool = True,
    max_states: int | None = None,
    max_bytes: int | None = None,
    anyway: bool = True,
    on_progress: Progress | None = None,
) -> ExploreReport:
    """Visit all reachable states.

    With ``check`` invariants are judged in every state, and `sometimes` properties looked for; with ``steps`` the
    properties of steps are judged on every transition. A violation ends the exploration; of each property the first
    is reported. Where there is none, and every state was visited, promises are judged too: by cycles, and not by what
    steps do to their measures.

    It stops with what it knows where there are ``max_states``, where these take ``max_bytes`` of memory (half of what
    is free, if that is not given), and unless ``anyway`` where it is hopeless to begin.

    Raises:
        ScopeError: a value left the scope, or the parameters break an assumption of the machine.
        Disagreement: the concrete interpreter does not confirm what the batched one found.
    """
    model = machine if isinstance(machine, Model) else Model.of(machine)
    with _one_thread():
        limits = _Limits(max_states, max_bytes, anyway)
        return _Search(model, scope, device, check, check and steps, limits, on_progress).run()


@contextmanager
def _one_thread() -> Iterator[None]:
    """On small tensors torch's threads mostly wait for each other; with busy cores, for milliseconds a call."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_start(concrete: Concrete) -> None:
    """What is assumed holds of the parameters, and what a machine begins with of its first state."""
    name = concrete.model.name
    try:
        broken = concrete.unassumed()
    except IllFormed as error:
        raise ScopeError(f"what {name} assumes has no value for these parameters: {error}") from None
    try:
        broken = broken or concrete.violations(concrete.initial(), "initially")
    except IllFormed as error:
        raise ScopeError(f"the first state of {name} has no value: {error}") from None
    if broken:
        raise ScopeError(f"the parameters break an assumption of {name}: {broken[0]}")


@dataclass(frozen=True)
class _Limits:
    """Where an exploration stops."""

    states: int | None = None
    bytes: int | None = None
    anyway: bool = True


class _Search:
    """One exploration."""

    def __init__(
        self,
        model: Model,
        scope: Scope,
        device: str,
        check: bool,
        steps: bool,
        limits: _Limits,
        on_progress: Progress | None,
    ) -> None:
        self.started = time.perf_counter()
        self.model, self.scope, self.check = model, scope, check
        self.limits, self.on_progress = limits, on_progress
        concrete = Concrete(model, scope)
        self.confirming = Confirming(concrete)
        _check_start(concrete)
        self.batched = Batched(model, scope, device=device, steps=steps)
        self.rows = _ROWS.get(self.batched.device.type, _ROWS["cpu"])
        free = available_bytes(self.batched.device)
        if free is not None and self.batched.device.type == "cuda":
            self.rows = max(1, min(self.rows, free // _ROOM_TO_EXPAND))
        room = limits.bytes if limits.bytes is not None or free is None else free // 2
        self.seen = StateSet(self.batched.layout.words, device=self.batched.device, limit=room)
        self.levels: list[int] = [0]
        ranked = {p.name for p in model.of_kind("step") if p.ranks}
        judged = (len(model.of_kind("invariant")) + len(model.promises)) * check
        judged += (len(model.of_kind("step")) - len(ranked)) * steps
        self.ranked = ranked
        self.report = ExploreReport(model.name, dict(scope.sizes), properties=judged, limit_bytes=room)
        self.found: dict[str, ErrorTrace] = {}
        self.unreached = [p.name for p in model.of_kind("sometimes")] if check else []
        self.never = dict.fromkeys(model.actions)

    def run(self) -> ExploreReport:
        """Explore level by level."""
        report, seen = self.report, self.seen
        seen.add(self.batched.initial())
        while seen.count > self.levels[-1] and not self.found:
            self.levels.append(seen.count)
            if self.check:
                self._judge(self.levels[-2], self.levels[-1])
            if self.found or report.stopped:  # What the last level was left with is judged too.
                break
            report.explored_depth = len(self.levels) - 2
            if self._stops():
                break
            self._expand(self.levels[-2], self.levels[-1])
            report.depth = len(self.levels) - (1 if seen.count > self.levels[-1] else 2)
        if report.stopped:
            report.expected = self._expected()
        if self.check and not (report.stopped or self.found):
            self._judge_promises()
        report.states, report.peak_bytes = seen.count, seen.peak_bytes
        report.violations, report.unreached = [self._shown(f) for f in self.found.values()], self.unreached
        report.never = list(self.never)
        report.given_numbers = any(type(p) is Int for act in self.model.actions.values() for p in act.params)
        report.numbered = any(type(p) is Int for a in self.never for p in self.model.actions[a].params)
        report.complete = not report.stopped and not self.found
        report.seconds = time.perf_counter() - self.started
        return report

    def _shown(self, found: ErrorTrace) -> ErrorTrace:
        """With the states around its last step."""
        states = [found.initial, *(step.state for step in found.trace)]
        before, after = states[-2:] if found.trace else (found.initial, None)
        names = names_of(self.model)
        return replace(found, around=tuple(side_by_side(names, self.scope.params, before or {}, after)))

    def _stops(self) -> bool:
        """Whether it is to stop here, between two levels or within one."""
        if self.limits.states is not None and self.seen.count >= self.limits.states:
            self.report.stopped = "states"
        elif self.seen.count == self.levels[-1] and self._is_hopeless():
            self.report.stopped = "hopeless"
        return self.report.stopped is not None

    def _is_hopeless(self) -> bool:
        """Whether far more states are to be expected than there is room for, or were asked for."""
        limit, most = self.report.limit_bytes, self.limits.states
        if self.limits.anyway or limit is None or self.levels[-1] not in _PILOT:
            return False
        room = limit / (8 * self.batched.layout.words + _TABLE_BYTES)
        return most is None and (self._expected() or 0) > _HOPELESS * room

    def _expected(self) -> float | None:
        """How many states there may be, by the levels that were visited as a whole."""
        bits = sum(field.width for field in self.batched.layout.fields)
        return expected(
            self.levels[: self.report.explored_depth + 2], math.ldexp(1.0, bits) if bits < 1000 else math.inf
        )

    def _chunks(self, start: int, end: int) -> Iterator[torch.Tensor]:
        for begin in range(start, end, self.rows):
            yield self.seen.states(begin, min(begin + self.rows, end))

    def _judge(self, start: int, end: int) -> None:
        """Look at new states."""
        for words in self._chunks(start, end):
            for name, rows in self.batched.broken(words):
                if name not in self.found:
                    self.found[name] = self._confirmed(words[:, rows[0]], None, name)
            self.unreached = [n for n in self.unreached if not self.batched.reaches(words, n)]

    def _expand(self, start: int, end: int) -> None:
        """Take all steps from the states of a level."""
        begin = start
        while begin < end:
            words = self.seen.states(begin, min(begin + self.rows, end))
            try:
                transitions, after, faults = self._steps(words)
            except torch.OutOfMemoryError:  # A card's: what a machine takes for a state is known when it is too much.
                if self.rows == 1:
                    self.report.stopped = "memory"
                    return
                self.rows = max(1, self.rows // 2)
                continue
            begin += words.shape[1]
            self.report.transitions += transitions
            for name, before, instance in faults:
                if name not in self.found and name not in self.ranked:
                    self.found[name] = self._confirmed(before, instance, name)
            if self.found:
                return
            if after and not self._has_room(torch.cat(after, dim=1)):
                return
            if self.on_progress is not None:
                self.on_progress(self.seen.count, self.report.transitions, len(self.levels) - 1)
            if self._stops():
                return

    def _steps(self, words: torch.Tensor) -> tuple[int, list[torch.Tensor], list[tuple[str, torch.Tensor, Instance]]]:
        """How many steps there are from these states, the states after them, and of each property that a step breaks
        the state before it."""
        transitions = 0
        after: list[torch.Tensor] = []
        faults: list[tuple[str, torch.Tensor, Instance]] = []
        for moves in self.batched.moves(words):
            transitions += len(moves.parents)
            self.never.pop(moves.instance.action, None)
            after.append(moves.words)
            faults += [(name, words[:, moves.parents[rows[0]]], moves.instance) for name, rows in moves.faults]
        return transitions, after, faults

    def _judge_promises(self) -> None:
        """Look for ways to go round for ever without reaching what is promised."""
        if self.model.promises:
            for lasso in lassos(self.batched, self.seen, self.rows):
                self.found[lasso.promise] = self._confirmed_cycle(lasso)

    def _confirmed_cycle(self, lasso: Lasso) -> ErrorTrace:
        """The cycle with the shortest way to it."""
        number = self.batched.promises.index((lasso.promise, lasso.values))
        words = [self.seen.states(n, n + 1) for n in lasso.states]
        around = [
            step_between(self.batched, a, b, promise=number, fair=i == 0)
            for i, (a, b) in enumerate(zip(words, [*words[1:], words[0]], strict=True))
        ]
        nearest = lasso.states.index(min(lasso.states))
        stem = self._path(words[nearest].squeeze(1))
        return self.confirming.cycle(lasso, stem, around[nearest:] + around[:nearest])

    def _has_room(self, states: torch.Tensor) -> bool:
        """Put states in, as far as there is room for them."""
        try:
            self.seen.add(states)
        except (Full, torch.OutOfMemoryError, MemoryError):
            self.report.stopped = "memory"
        return self.report.stopped is None

    # ------------------------------------------------------------------------------------------------ traces

    def _path(self, target: torch.Tensor) -> list[Instance]:
        """A shortest way to a state, found backwards: of each level only the states are kept."""
        path: list[Instance] = []
        level = next(i for i in range(len(self.levels) - 1) if self._stands_in(target, i))
        while level > 0:
            level -= 1
            target, instance = self._parent(target, level)
            path.append(instance)
        return path[::-1]

    def _stands_in(self, target: torch.Tensor, level: int) -> bool:
        words = self.seen.states(self.levels[level], self.levels[level + 1])
        return bool((words == target[:, None]).all(0).any())

    def _parent(self, target: torch.Tensor, level: int) -> tuple[torch.Tensor, Instance]:
        for words in self._chunks(self.levels[level], self.levels[level + 1]):
            for moves in self.batched.moves(words):
                rows = (moves.words == target[:, None]).all(0).nonzero()
                if len(rows):
                    return words[:, moves.parents[rows[0, 0]]], moves.instance
        raise Disagreement("a state that was reached has no predecessor in the level before")

    def _confirmed(self, words: torch.Tensor, last: Instance | None, name: str) -> ErrorTrace:
        """What a state breaks, or the step that comes last."""
        path, reached = self._path(words), self.batched.describe(words)
        if last is None:
            return self.confirming.state(path, reached, name)
        return self.confirming.step(path, reached, last, name)
