"""Links, tiers and a shared tier in virtual time, beside the reference implementation: at random, and every transition.

The machines' own proofs are in ``tests/smt``; the implementation's own tests in ``tests/refimpl``.
"""

import functools
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.checkers.explore import explore
from kvproof.checkers.fuzz import Difference, fuzz
from kvproof.checkers.lockstep import Divergence, Lockstep, Specs
from kvproof.checkers.replay import replay, replay_calls, setting_of
from kvproof.checkers.trace import decode_trace, encode_trace, write_trace
from kvproof.checkers.walk import walk_in_lockstep
from kvproof.cli import main as cli
from kvproof.harness.levels import LEVELS, level_for
from kvproof.harness.timed.instances import TimedInstance, timed_instances
from kvproof.machine import Model
from kvproof.machine.concrete import Concrete
from kvproof.machine.scope import Scope
from kvproof.spec.hybrid.planner import Planner
from kvproof.spec.offload import Offload
from kvproof.spec.pool import Pool
from kvproof.spec.timed.links import Links
from kvproof.spec.timed.shared_tier import SharedTier
from kvproof.spec.timed.timed_tiers import TimedTiers

from ..marks import slow_but
from . import timed_mutants
from .scripts import ran, ran_alone
from .timed_mutants import do, links, no, shared, tiers

# As the scripts that findings come with load them.
MUTANTS: dict[str, Any] = runpy.run_path(timed_mutants.__file__)["MUTANTS"]

TIMED = ("links", "timed", "shared")

# Of one link, and blocks of one size, no later copy ends first, and no two end at one time on different links.
UNREACHABLE = {"shared": {"a_later_copy_ends_first", "two_end_at_one_time"}}


@pytest.mark.slow
@pytest.mark.parametrize("level", TIMED)
def test_the_implementation_does_what_the_machine_does(level: str) -> None:
    chosen = LEVELS[level]
    examples = max(300, settings().max_examples)  # what is rare is reached by then
    report = fuzz(chosen.model, chosen.target, chosen.instances(), seed=1, examples=examples)
    assert not report.findings, report.findings[0].report
    assert (report.target, report.level) == ("refimpl", level)
    assert report.untested == []
    # A worker may work at any time.
    assert {name for name, c in report.coverage.items() if not c.refused} <= {"work"}, report.coverage
    assert {name for name, reached in report.reached.items() if not reached} <= UNREACHABLE.get(level, set())


WALKS: dict[str, tuple[str, TimedInstance]] = {
    "links": ("links", links()),
    "links, without a bandwidth": ("links", links(bandwidth=[0, -1])),
    "tiers": ("timed", tiers()),
    "tiers, without a host": ("timed", tiers(capacity=0)),
    "shared": ("shared", shared()),
}


@pytest.mark.parametrize("name", slow_but(WALKS, {"links", "tiers, without a host"}))
def test_every_transition_agrees(name: str) -> None:
    level, instance = WALKS[name]
    target = LEVELS[level].target
    report = walk_in_lockstep(Specs(instance.scope.model, target), target(instance))
    assert report.divergence is None, report
    assert report.complete
    explored = explore(instance.scope.model, instance.scope)
    assert not explored.violations
    assert (report.states, report.transitions) == (explored.states, explored.transitions)
    assert report.refusals > report.transitions


@pytest.mark.slow
@pytest.mark.parametrize(
    "instance",
    [
        tiers(bandwidth=[0, 2]),
        tiers(hashes=2, capacity=2),
    ],
)
def test_every_transition_agrees_further_out(instance: TimedInstance) -> None:
    most = 6 * settings().max_examples
    target = LEVELS["timed"].target
    report = walk_in_lockstep(Specs(instance.scope.model, target), target(instance), max_states=most)
    assert report.divergence is None, report
    assert report.states == most or report.complete


# ---------------------------------------------------------------------------------------------------- instances


@pytest.mark.parametrize("machine", [Links, TimedTiers, SharedTier])
@settings(max_examples=20)
@given(data=st.data())
def test_instances_are_instances_of_the_machine(machine: Any, data: st.DataObject) -> None:
    instance = data.draw(timed_instances(machine))
    spec = Concrete(instance.scope.model, instance.scope)
    assert spec.violations(spec.initial(), "assume") == []
    assert TimedInstance.load(json.loads(json.dumps(instance.describe()))) == instance


def test_what_the_implementation_cannot_be_told_is_no_instance() -> None:
    with pytest.raises(ValueError, match="blocks of one size"):
        shared(bytes=[3, 2])
    with pytest.raises(ValueError, match="an instance of Pool"):
        TimedInstance.load({"machine": "Pool", "sizes": {}, "params": {}})


def test_each_machine_has_its_level() -> None:
    for machine, name in ((Links, "links"), (TimedTiers, "timed"), (SharedTier, "shared"), (Offload, "offload")):
        assert level_for(machine) is LEVELS[name]
    assert level_for(Pool) is LEVELS["pool"]
    with pytest.raises(ValueError, match="no level is compared with Planner"):
        level_for(Planner)


# ---------------------------------------------------------------------------------------------------- refusals


def test_time_that_is_past_is_no_matter_of_what_is_due() -> None:
    """The machine completes first; an implementation that does nothing has refused nothing (G3)."""
    instance = links(bandwidth=[2, 0], time=[0, 1])
    path = [do("start", 0, 1, 0), no("advance", 0), no("advance", 1), no("advance_to_deadline", 0), do("complete", 0)]
    assert (
        replay_calls(instance.scope.model, instance.scope, path, target=LEVELS["links"].target(instance)).problem
        is None
    )


def test_what_means_nothing_without_a_requirement_is_not_tried() -> None:
    """Who has not begun has no link, and so no deadline: that it moves cannot be all that is missing."""
    instance = links()
    target = LEVELS["links"].target
    run = Lockstep(Specs(instance.scope.model, target), target(instance))
    assert run.do("advance", (0,)) is None
    assert run.do("start", (0, 0, 0)) is None
    for number in range(3):
        assert run.near_misses("advance_to_deadline", number) == []
    assert run.near_misses("complete", 1) == [(0,)]


def test_a_shared_tier_has_its_link_for_itself() -> None:
    instance = shared(time=[0, 1, 2])
    full = Scope(Model.of(SharedTier), instance.scope.sizes, instance.scope.params)
    found = replay_calls(full.model, full, [do("start", 0, 0, 0)], target=LEVELS["shared"].target(TimedInstance(full)))
    assert found.problem is not None
    assert "nobody else" in found.problem.text


# ---------------------------------------------------------------------------------------------------- must fail


def noticed(name: str) -> Divergence | None:
    """Where a mutant is noticed, in its own instance; the implementation itself does no wrong on that way."""
    mutant = MUTANTS[name]
    instance: TimedInstance = mutant.instance(**mutant.more)
    model, target = instance.scope.model, LEVELS[mutant.kind.level].target
    if not mutant.path:
        return walk_in_lockstep(Specs(model, mutant.kind), mutant.kind(instance), max_states=3_000).divergence
    assert replay_calls(model, instance.scope, mutant.path, target=target(instance)).problem is None
    found = replay_calls(model, instance.scope, mutant.path, target=mutant.kind(instance))
    assert found.problem is not None
    return found.problem.divergence


@pytest.mark.parametrize("name", MUTANTS)
def test_each_fault_is_noticed(name: str) -> None:
    found = noticed(name)
    assert found is not None
    assert found.oracle in MUTANTS[name].oracles, found


# S13, S14, G3, and G8: what takes a second to find and to shorten. To those with a path of their own the way is long.
QUICK = ("FreesWhatIsStillCopied", "MovesEachAtFullBandwidth", "RunsBackward", "KeepsPrivateLists")
AT_NIGHT = {"MovesEachAtFullBandwidth", "KeepsPrivateLists"}
"""Every mutant is noticed by the walks and paths above; that a random run finds them is seen of these."""


@functools.cache
def finding(name: str) -> Difference:
    """The finding in which the fuzzer notices a mutant."""
    kind = MUTANTS[name].kind
    level = LEVELS[kind.level]
    report = fuzz(level.model, kind, level.instances(), seed=7, examples=400)
    assert report.findings, f"{name} was not noticed"
    return report.findings[0]


@pytest.mark.parametrize("name", slow_but(QUICK, (), AT_NIGHT))
def test_the_fuzzer_notices(name: str) -> None:
    found, kind = finding(name), MUTANTS[name].kind
    level = LEVELS[kind.level]
    trace = decode_trace(encode_trace(found.trace))
    assert (trace.subject, trace.level) == ("refimpl", kind.level)
    setting = setting_of(trace)
    assert setting is not None
    instance = TimedInstance.load(setting)
    again = replay(level.model, trace, kind, instance)
    assert again.problem is not None
    assert again.problem.divergence is not None
    assert (again.problem.divergence.oracle, again.done) == (found.oracle, len(trace.operations) - 1)
    assert replay(level.model, trace, level.target, instance).problem is None


@pytest.mark.slow
def test_a_finding_is_a_script_and_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "FreesWhatIsStillCopied"
    found, level = finding(name), MUTANTS[name].kind.level
    assert ran_alone(found.script, tmp_path)[0] == 1
    target = LEVELS[level].target
    sound = found.script.replace(f"mutants[{name!r}]", target.__name__)
    sound = sound.replace("import runpy\n", f"from {target.__module__} import {target.__name__}\nimport runpy\n")
    status, said = ran(sound, tmp_path)
    assert status == 0, said
    write_trace(tmp_path / "trace.jsonl", found.trace)
    assert cli.run(["replay", str(tmp_path / "trace.jsonl"), "--target", "refimpl"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"operations on {LEVELS[level].model.name} and refimpl: nothing is wrong" in shown


def test_the_levels_are_known_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["fuzz", "refimpl", "--level", "timed", "--examples", "60", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["target"], report["level"], report["findings"]) == ("refimpl", "timed", [])
    assert cli.run(["fuzz", "refimpl", "--level", "timeless"]) == 2
    assert "links, timed, shared" in capsys.readouterr().err
