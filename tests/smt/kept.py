"""Steps by which mutants are refuted, as traces: the search found each from nothing once, and it was kept.

That a step breaks a property is seen in milliseconds; to find the smallest one takes seconds. So every run of the tests
takes these steps, and ``make nightly`` finds each anew. ``python -m tests.smt.kept`` writes them anew, as is needed
where a machine's state has changed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import z3

from kvproof.checkers.lockstep import interpreter
from kvproof.checkers.obligations import Problems, problems_of
from kvproof.checkers.replay import calls_of, scope_of
from kvproof.checkers.trace import Trace, read_trace, write_trace
from kvproof.machine import Machine, Model
from kvproof.machine.formulas import Formula
from kvproof.machine.scope import NONE
from kvproof.machine.universe import Finite

from . import broken_offload, broken_tiers, broken_timed, broken_tree, careless_machines, idle_machines, idle_tiers

__all__ = ["KEPT", "is_refuted_again", "properties_broken_again", "sought"]

STEPS = Path(__file__).with_name("steps")

ALL: list[tuple[Any, ...]] = [
    *((*row, "")[:4] for row in (*broken_tiers.BROKEN, *broken_timed.BROKEN, *broken_offload.BROKEN)),
    *((*row, "") for row in (*broken_tree.BROKEN, *broken_tree.IDLE, *idle_machines.IDLE, *idle_tiers.IDLE)),
    *((*row, "") for row in careless_machines.CARELESS),
]

LONG = {
    *("FreesWhatIsTheTrees", "LocksTheNodeOnly", "SplitForgetsLocks", "StoresWithoutAParent"),
    *("HandsOutAPageTwice", "LooksAtNothing", "SizesStayWithLocks"),
    *("DemotesTheYoungest", "EvictsTheMostRecent", "PinsByReference", "PinsWhatCannotBeFound", "StoresBeyondItsRoom"),
    *("GathersMoreThanABatch", "KeepsMoreThanItsCapacity", "LandsWhatComesUp", "LeavesWithoutAWord", "NeverLands"),
    *("PaysForOneBlock", "ShipsUpwards", "FindsWithoutPinning"),
    *("FindsNothingThatCameUp", "MirrorsInAnyOrder", "MirrorsNothing", "ReloadsNothing", "StopsEarly"),
    *("AdoptsWhatIsThere", "FreesAndReads", "MatchOvershoots"),
    *("FindsTheLastReloadFirst", "ForgetsTheChain", "ForgetsWhoComputes", "LoadsWhatItNeverCopied"),
    "MirrorsWhatItReloads",
}
"""Those for which the search computes more than a second."""

KEPT = {f"{row[0].__name__}.{row[1]}.{row[2]}": row for row in ALL if row[0].__name__ in LONG}
"""The machine, the action that shows it, the property that it breaks, and the property's rule where that is said."""


QUICK = {
    # of O, and of tiers
    *("FailureCountsAsSuccess", "LetsBeFoundWhileItLoads", "LoadsIntoARunningStep", "RefusesWithoutDemoting"),
    # of chunks, and of the tree
    *("FindsWhatFailed", "ForgetsWhatIsOnItsWay", "ReadsWhatMayGo", "EvictsNothing", "EvictsSilently", "LeavesALock"),
    # of links and tiers in time
    *("CountsIdsPerLink", "EntersInPart", "LandsWhenItBegins", "LooksByItsOwnClock", "RunsAheadOfWorkers"),
    *("RunsBackward", "SeesWhatIsDue", "StallsBesideACopy", "StartsInThePast", "TimePassesTheReady"),
    # of loads, files and plans
    *("CountsWhatWasGivenUp", "DeclinesInSilence", "ForgetsAfterARestart", "GivesUpEarly", "KeepsWhatFailed"),
    *("LateReportsCount", "LoadsUnchecked", "RenamesBeforeItSyncs", "ReportsWhatIsDamaged", "ServesWhatItRemoved"),
    *("TakesNegativeBlocks", "WritesInPlace"),
    # of those who do less than their job, or more
    *("AllocatesNothing", "AnswersNothing", "BreaksEveryPromise", "CountsAStayTwice", "DropsNothing", "SeeksNothing"),
    *("ForgetsEverything", "LosesItsBlocks", "RegistersNothing", "SeesNothing", "StandsStill"),
}
"""Those that are refuted in a tenth of a second or two: what a desk tries of each machine, where CI tries all."""


def sought(row: tuple[Any, ...]) -> Any:
    """A mutant whose step is searched for from nothing: by ``make nightly`` where one is kept, else by CI or always."""
    machine, action, prop, *_ = row
    is_kept = f"{machine.__name__}.{action}.{prop}" in KEPT
    marks = pytest.mark.nightly if is_kept else () if machine.__name__ in QUICK else pytest.mark.slow
    return pytest.param(*row, marks=marks, id=machine.__name__)


def properties_broken_again(name: str, machine: type[Machine]) -> set[str]:
    """The properties that a machine breaks by a kept step, from a state in which all of it holds; none if it refuses.

    Of a step, not of the states within its loops.
    """
    model, trace = Model.of(machine), read_trace(STEPS / f"{name}.jsonl")
    (call,) = calls_of(model, trace)
    spec = interpreter(model, scope_of(model, trace))
    assert trace.initial is not None
    before, after = spec.state(trace.initial), spec.state(trace.initial)
    wrong = [*spec.violations(before, "assume"), *(v for v in spec.violations(before) if not v.prop.derived)]
    assert wrong == []
    if not spec.is_enabled(before, call.action, call.args):
        return set()
    result = spec.apply(after, call.action, call.args).result
    broken = [*spec.violations(after), *spec.step_violations(before, after, call.action, call.args, result)]
    return {violation.prop.name for violation in broken}


def is_refuted_again(name: str, machine: type[Machine]) -> bool:
    """Whether what a machine has to be proved of is false of a kept step, as the prover's formulas see it."""
    model, trace, prop = Model.of(machine), read_trace(STEPS / f"{name}.jsonl"), KEPT[name][2]
    (call,) = calls_of(model, trace)
    problems = problems_of(model, call.action, Finite(model, scope_of(model, trace).sizes))
    step = [*_kept(problems, trace), *(f == v for f, v in zip(problems.args, call.args, strict=True))]
    goals = [goal for goal in problems.goals if goal.name.split(": ")[-1].startswith(prop)]
    return any(_can_be([*problems.failure(goal), *step]) for goal in goals)


def _can_be(formulas: Iterable[Formula]) -> bool:
    solver = z3.Solver()
    solver.add(*formulas)
    return bool(solver.check() == z3.sat)


def _kept(problems: Problems, trace: Trace) -> Iterator[Formula]:
    """Parameters and state are those of the trace."""
    symbolic, model = problems.symbolic, problems.symbolic.model
    assert isinstance(symbolic.universe, Finite)
    elements = symbolic.universe.elements
    values = {**trace.dialect, **(trace.initial or {})}
    for name, mapping in model.maps.items():
        if not mapping.scratch:
            function = symbolic.params[name] if mapping.is_param else problems.before.functions[name]
            for keys, value in _entries(values[name], [elements(kind) for kind in mapping.kinds]):
                number = z3.RealVal(value) if isinstance(value, str) else NONE if value is None else value
                yield function(*keys) == number
    for name, queue in model.queues.items():
        has, rank = (problems.before.functions[f"{name}.{of}"] for of in ("has", "rank"))
        members = elements(queue.of)
        for keys, order in _entries(values[name], [elements(kind) for kind in queue.kinds]):
            yield from (has(*keys, member) == (number in order) for number, member in enumerate(members))
            yield from (rank(*keys, members[a]) < rank(*keys, members[b]) for a, b in itertools.pairwise(order))


def _entries(value: Any, kinds: list[list[Formula]], *keys: Formula) -> Iterator[tuple[tuple[Formula, ...], Any]]:
    """Each entry of a table, with its keys."""
    if not kinds:
        yield keys, value
        return
    for key, inner in zip(kinds[0], value, strict=True):
        yield from _entries(inner, kinds[1:], *keys, key)


def main() -> None:
    """Search all anew, or those that are named."""
    from .test_tiers import step_that_breaks

    STEPS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or KEPT:
        found = step_that_breaks(*KEPT[name][:3])
        assert found is not None, name
        write_trace(STEPS / f"{name}.jsonl", found.trace)
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main()
