"""Machine P and the reference implementation, side by side."""

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings

from kvproof.checkers.fuzz import fuzz
from kvproof.checkers.lockstep import Call, Lockstep, Specs
from kvproof.checkers.replay import replay_calls
from kvproof.checkers.target import Answer, Args, Fields, Setting, Target
from kvproof.harness.instances import SIZES, Instance, instances
from kvproof.harness.pool.target import PoolTarget
from kvproof.machine import Model
from kvproof.machine.concrete import Concrete
from kvproof.machine.scope import Scope
from kvproof.spec.pool import Pool

MODEL = Model.of(Pool)


def test_the_implementation_does_what_the_machine_does() -> None:
    seen: list[tuple[int, int]] = []
    examples = max(400, settings().max_examples)
    report = fuzz(Pool, PoolTarget, instances(), seed=1, examples=examples, on_progress=lambda *n: seen.append(n))
    assert not report.findings, report.findings[0].report
    assert report.untested == []
    # Everything can be refused somewhere, and was.
    assert all(c.refused for c in report.coverage.values()), report.coverage
    assert all(c.attempted == c.applied + c.refused for c in report.coverage.values())
    assert all(report.reached.values()), report.reached
    assert report.examples >= examples
    assert report.steps > 20 * examples
    assert seen[-1] == (report.examples, report.steps)


def test_the_time_is_kept() -> None:
    report = fuzz(Pool, PoolTarget, instances(), seed=1, examples=10**6, seconds=0.2)
    assert report.seconds < 20
    assert report.examples < 1000


def test_seeds_differ() -> None:
    one, same, other = (fuzz(Pool, PoolTarget, instances(), seed=s, examples=20).coverage for s in (1, 1, 2))
    assert one == same != other


def test_a_seed_gives_the_same_run_whatever_was_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fuzz(Pool, PoolTarget, instances(), seed=1, examples=20).coverage
    (tmp_path / "numbers_of_ours.py").write_text(f"NUMBERS = {[3 * n for n in range(300)]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("numbers_of_ours")
    assert fuzz(Pool, PoolTarget, instances(), seed=1, examples=20).coverage == before


class Itself(Target):
    """The machine's own interpreter as the target: every variable can be observed, ghosts included."""

    name = "machine"
    fields = tuple(n for n, m in MODEL.maps.items() if not m.is_param and not m.scratch) + tuple(MODEL.queues)

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.spec = Concrete(MODEL, setting.scope)
        self.state = self.spec.initial()

    def apply(self, action: str, args: Args) -> Answer:
        if not self.spec.is_enabled(self.state, action, args):
            return Answer(refused="not possible")
        outcome = self.spec.apply(self.state, action, args)
        return Answer(outcome.result, outcome.events)

    def flat(self) -> Fields:
        values = vars(self.state)
        keyed = [n for n, q in MODEL.queues.items() if q.kinds]
        return {n: [list(q) for q in values[n]] if n in keyed else list(values[n]) for n in self.fields}


def test_a_machine_does_what_it_does_itself() -> None:
    report = fuzz(Pool, Itself, instances(), seed=3, examples=60)
    assert not report.findings, report.findings[0].report
    # Nothing is left to the caller here: also what an implementation cannot notice is refused.
    assert report.coverage["register"].refused
    target = Itself(Instance.from_seed(4))
    assert target.observe() == target.spec.describe(target.state)


@given(instance=instances())
def test_instances_are_instances_of_the_machine(instance: Instance) -> None:
    spec = Concrete(MODEL, instance.scope)
    state = spec.initial()
    assert spec.violations(state, "assume") == []
    assert spec.violations(state) == []
    params, slots = instance.scope.params, instance.block_tokens
    assert len(set(instance.keys)) == len(instance.keys) == instance.scope.sizes["Hash"]
    assert len(set(instance.digests)) == len(instance.digests) == instance.scope.sizes["Content"]
    for h, parent in enumerate(params["parent"]):
        assert params["kv"][h][: instance.covered[h]] == [c for c in params["kv"][h] if c is not None]
        assert 1 <= instance.covered[h] <= slots
        assert parent is None or instance.covered[parent] == slots
    for r, limit in enumerate(params["limit"]):
        found = params["prompt"][r][:limit]
        assert all(instance.covered[h] == slots for h in found)
        assert [params["parent"][h] for h in found] == [None, *found][: len(found)]
    assert Instance.load(instance.describe()) == dataclasses.replace(instance, writes=frozenset())


@pytest.mark.slow
def test_instances_are_the_same_everywhere() -> None:
    text = "from kvproof.harness.instances import Instance; print(Instance.from_seed(5).describe())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == str(Instance.from_seed(5).describe())
    assert {Instance.from_seed(s).scope.sizes["Block"] for s in range(60)} >= {2, 3, 4, 5, 7}


def test_instances_share_prefixes_between_requests() -> None:
    shared = partial = tenants = 0
    for seed in range(100):
        instance = Instance.make(SIZES[5], seed=seed)
        prompts, limits = instance.scope.params["prompt"], instance.scope.params["limit"]
        first = [p[0] for p, limit in zip(prompts, limits, strict=True) if limit]
        shared += len(set(first)) < len(first)
        tenants += len(set(first)) > 1
        partial += min(instance.covered) < instance.block_tokens
    assert min(shared, partial) >= 90
    assert tenants >= 10


def test_any_scope_of_the_machine_is_a_instance() -> None:
    instance = Instance.from_seed(8)
    made = Instance.of_scope(instance.scope)
    assert len(set(made.keys)) == len(made.keys)
    report = fuzz(Pool, PoolTarget, instances().map(lambda w: Instance.of_scope(w.scope)), seed=2, examples=30)
    assert not report.findings


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"null": 1}, "null block"), ({"kv": [[None, 0], [1, None], [2, None], [0, 1]]}, "first slot")],
)
def test_a_scope_without_blocks_is_no_instance(changed: dict[str, Any], message: str) -> None:
    scope = Instance.make(SIZES[1], seed=1).scope
    scope = Scope(MODEL, scope.sizes, {**scope.params, **changed})
    with pytest.raises(ValueError, match=message):
        Instance.of_scope(scope)


def test_a_target_that_misspells_the_machine_is_told() -> None:
    class ShowsTooMuch(PoolTarget):
        fields = (*PoolTarget.fields, "weight")

    class RefusesNothingSuch(PoolTarget):
        ignored: ClassVar = {"hit": frozenset({"prayers"})}

    class KnowsOtherActions(PoolTarget):
        unjudged: ClassVar = {"pray": frozenset({"caching"})}

    for kind, message in ((ShowsTooMuch, "weight"), (RefusesNothingSuch, "prayers"), (KnowsOtherActions, "pray")):
        with pytest.raises(ValueError, match=message):
            Specs(MODEL, kind)


def test_replay_names_what_is_wrong() -> None:
    instance = Instance.make(SIZES[0])
    target = PoolTarget(instance)
    calls = [Call("admit", (0,)), Call("allocate", (0, 1)), Call("admit", (0,))]
    stopped = replay_calls(MODEL, instance.scope, calls, target=target)
    assert (stopped.done, stopped.operations) == (2, 3)
    assert stopped.problem is not None
    assert (stopped.problem.kind, stopped.problem.at) == ("impossible", 3)
    calls[2] = Call("admit", (0,), probe=True)
    assert replay_calls(MODEL, instance.scope, calls, target=PoolTarget(instance)).problem is None
    calls[2] = Call("allocate", (0, 1), probe=instance.scope.params["need"][0] == 1)
    run = Lockstep(Specs(MODEL, PoolTarget), PoolTarget(instance))
    assert run.do("admit", (0,)) is None
    run.target.apply("allocate", (0, 1))
    found = run.do("admit", (1,))
    assert found is not None
    assert (found.oracle, found.also) == ("length", ("table", "ref_cnt", "free"))
    assert "implementation:" in str(found)
