"""The judge: lets the ghost and the oracles see what a worker told, step by step, until a rule is broken."""

import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace as replaced

from .ghost import Ghost
from .ghost.requests import NotTold
from .oracles.answers import AnswersOracle
from .oracles.content import ContentOracle
from .oracles.counters import CountersOracle
from .oracles.counting import CountingOracle
from .oracles.events import EventsOracle
from .oracles.flight import FlightOracle
from .oracles.hits import HitsOracle
from .oracles.outputs import OutputsOracle
from .oracles.refusals import RefusalsOracle
from .oracles.stored import StoredOracle
from .oracles.told_blocks import ToldBlocksOracle
from .oracles.tree import TreeOracle
from .oracles.tree_below import TreeBelowOracle
from .oracles.tree_check_in import CheckInOracle
from .oracles.tree_events import TreeEventsOracle
from .oracles.tree_evictions import EvictionsOracle
from .oracles.tree_from_below import TreeFromBelowOracle
from .oracles.tree_order import OrderOracle
from .oracles.tree_room import RoomOracle
from .oracles.tree_stores import TreeStoresOracle
from .oracles.words import GARBAGE, garbage
from .record import Answer, Error, State, Step, World
from .shapes import problem_of_dialect, problem_of_world, problems
from .violation import HARMLESS, KIT, Violation

__all__ = ["Judge", "Oracle", "faults", "judge"]


class Oracle(Protocol):
    """Judges one kind of rule."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the rules that the step breaks."""


ORACLES: tuple[Callable[[World], Oracle], ...] = (
    CountingOracle,
    TreeOracle,
    CheckInOracle,
    EvictionsOracle,
    OrderOracle,
    RoomOracle,
    TreeStoresOracle,
    TreeBelowOracle,
    TreeFromBelowOracle,
    ContentOracle,
    HitsOracle,  # Before events: a lookup that stops short disagrees with these too.
    EventsOracle,
    ToldBlocksOracle,
    TreeEventsOracle,
    FlightOracle,
    RefusalsOracle,
    StoredOracle,
    AnswersOracle,
    CountersOracle,
    OutputsOracle,
)


_OF_STATES = (CountingOracle, ContentOracle)
"""They compare a state with what happened up to then, whatever was called: where nothing has happened and the state is
the last one, they said what they have to say."""


class Judge:
    """Judges one run."""

    def __init__(self, world: World, more: Callable[[World], Sequence[Oracle]] | None = None) -> None:
        self.ghost = Ghost(world)
        self.oracles: list[Oracle] = [make(world) for make in ORACLES] + [*(more(world) if more else ())]
        self._of_changes = [oracle for oracle in self.oracles if not isinstance(oracle, _OF_STATES)]
        self._last: State | None = None

    def step(self, step: Step) -> list[Violation]:
        """Return the rules that a step breaks: of its effects those up to the first that is wrong, then those of its
        state."""
        oracles = self.oracles if step.effects or step.state is not None else self._of_changes
        ghost, step = self.ghost, self._with_state(step)
        found: list[Violation] = []
        if step.together.get("reset") is True:
            ghost.copies.void()  # It came before whatever is stored anew of what these bring.
        for effect in step.effects:
            broken = ghost.apply(effect)
            if broken is not None:
                found += broken
        for oracle in oracles:
            found += oracle.step(step, ghost)
        if step.op == "reset":
            ghost.copies.void()
        if step.error is not None:
            found.append(self._of_error(step.error))
        return found

    def _with_state(self, step: Step) -> Step:
        """A step that tells no state left the last one as it was: where it should have changed it, that is seen too."""
        if step.state is not None:
            self._last = step.state
        elif self._last is not None and not (step.skipped or step.error or step.digest):
            return replaced(step, state=self._last)
        return step

    def _of_error(self, error: Error) -> Violation:
        """An engine that fails with a request which is longer than any may be fails for that, wherever it does."""
        raised, requests = of_error(error), self.ghost.requests
        r = requests.too_long()
        return raised if r is None else requests.beyond(r, f"{r} has {requests[r].tokens} tokens ({raised.text})")


_SILENT = {"Hang": "it computes, or waits, for longer than an operation may"}
"""What errors say that have no words of their own."""


def of_error(error: Error) -> Violation:
    """An engine that raises on legal calls serves nobody: L2. Faults are told apart by type and by the place in the
    engine."""
    inner = error.where[-1] if error.where else ("?", 0, "?")
    text = f"{error.type}: {error.message or _SILENT.get(error.type, '(no message)')}"
    if error.where:
        text += f" ({inner[0]}:{inner[1]} in {inner[2]})"
    if error.type == "CallsNeverEnd":  # `kvproof/testing/together.py`
        return Violation("L1", "calls that never end", error.message)
    if error.type == "Hang":
        # Where it was when the time ran out is chance; the outermost calls are not.
        inner = error.where[min(2, len(error.where) - 1)] if error.where else inner
        return Violation("L2", "hang", text, (inner[2],))
    return Violation("L2", "exception", text, (error.type, inner[0], inner[2]))


def _of_kit(error: Exception) -> Violation:
    """A fault of the judge, told apart as `of_error` tells apart those of an engine."""
    inner = traceback.extract_tb(error.__traceback__)[-1]
    file = Path(inner.filename).name
    what = f"{type(error).__name__}: {str(error) or '(no message)'} ({file}:{inner.lineno} in {inner.name})"
    text = f"kvproof's own judge fails, {what}: what the engine does here was not judged; please report it"
    return Violation(KIT, "judge", text, (type(error).__name__, file, inner.name))


def judge(
    answer: Answer, more: Callable[[World], list[Any]] | None = None, known: Collection[tuple[str, ...]] = ()
) -> tuple[int, list[Violation]] | None:
    """The first step of an answer that breaks rules, and which; None when all is well.

    Violations with a signature that is ``known`` are passed over, where what comes after them is no consequence.
    """
    for number, found in faults(answer, more):
        broken = [v for v in found if v.rule not in HARMLESS or v.signature not in known]
        if broken:
            return number, broken
    return None


def faults(answer: Answer, more: Callable[[World], list[Any]] | None = None) -> Iterator[tuple[int, list[Violation]]]:
    """Yield each step of an answer that breaks rules, and which.

    What was said once of a case is not said again: a signature comes once. The first step is certain. Later ones are
    judged as if the ghost had what it should have had, and may still be consequences. Where the judge itself fails on
    what is sound, that is told too, and ends it: what was judged before stands.
    """
    if answer.world is None:
        if answer.steps and answer.steps[0].error is not None:
            yield 0, [of_error(answer.steps[0].error)]
        return
    wrong = problem_of_world(answer.world) or problem_of_dialect(answer.world)
    if wrong is not None:
        yield 0, [garbage("world", wrong)]
        return
    judge = Judge(answer.world, more)
    said: set[tuple[str, ...]] = set()
    for number, step in enumerate(answer.steps):
        try:
            found = judge.step(step)
        except Exception as error:
            # What is no effect and no state leads any judge astray, and so does what speaks of tokens that were never
            # told. If nothing is wrong with it, the judge is, or the state was broken before.
            problem = next(problems(answer.world, answer.steps[: number + 1]), None)
            if problem is not None:
                yield number, [garbage(problem.kind, problem.text)]
            elif isinstance(error, NotTold):
                yield number, [garbage("effect", str(error))]
            elif all(rule in HARMLESS for rule, *_ in said):
                yield number, [_of_kit(error)]
            return
        news = {v.signature: v for v in reversed(found) if v.signature not in said}
        if news:
            said.update(news)
            told = (v for v in found if news.get(v.signature) is v)
            yield number, sorted(told, key=lambda v: v.oracle != GARBAGE)  # By what is no word, nothing can be judged.
