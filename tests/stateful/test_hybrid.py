"""Machines of hybrid models beside the reference implementation: connectors, files, steps of mamba, the planner."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvproof.checkers.fuzz import fuzz
from kvproof.checkers.lockstep import Divergence, Specs, interpreter
from kvproof.checkers.target import Target
from kvproof.checkers.walk import walk_in_lockstep
from kvproof.harness.hybrid.connectors_target import ConnectorsTarget
from kvproof.harness.hybrid.files_target import FileStoreTarget
from kvproof.harness.hybrid.instances import HybridInstance, hybrid_instances, model_of
from kvproof.machine import Machine, Model
from kvproof.machine.concrete import Concrete, State
from kvproof.machine.scope import Scope
from kvproof.refimpl.hybrid.aligned_split import new_blocks, next_tokens
from kvproof.refimpl.hybrid.planner import Group, HybridPlanner
from kvproof.spec.hybrid.aligned_split import AlignedSplit
from kvproof.spec.hybrid.connectors import Connectors
from kvproof.spec.hybrid.file_store import FileStore
from kvproof.spec.hybrid.planner import Planner

from .file_mutants import FILES
from .hybrid_mutants import CONNECTORS, ONE, PLANNERS, TWO

TARGETS: dict[str, tuple[type[Machine], type[Target]]] = {
    "connectors": (Connectors, ConnectorsTarget),
    "file-store": (FileStore, FileStoreTarget),
}
"""The machine, and the target."""

# Nothing of these is the implementation's to refuse: they are what the instance does.
INSTANCE = {"resolve", "store", "write_back", "write_back_names", "damage", "crash"}


@pytest.mark.slow
@pytest.mark.parametrize("level", TARGETS)
def test_the_implementation_does_what_the_machine_does(level: str) -> None:
    machine, target = TARGETS[level]
    assert target.level == level
    instances = hybrid_instances(machine)
    report = fuzz(model_of(machine), target, instances, seed=1, examples=max(200, settings().max_examples))
    assert not report.findings, report.findings[0].report
    assert report.untested == []
    assert {name for name, c in report.coverage.items() if not c.refused} == INSTANCE & set(report.coverage)
    assert all(report.reached.values()), report.reached


@pytest.mark.parametrize("level", TARGETS)
@settings(max_examples=15)
@given(data=st.data())
def test_instances_are_instances_of_the_machine(level: str, data: st.DataObject) -> None:
    machine, _ = TARGETS[level]
    instance = data.draw(hybrid_instances(machine))
    spec = interpreter(instance.scope.model, instance.scope)
    assert spec.violations(spec.initial(), "assume") == []
    assert HybridInstance.load(instance.describe()).scope == instance.scope


def test_a_instance_of_another_machine_is_none() -> None:
    with pytest.raises(ValueError, match="none of Connectors, FileStore"):
        HybridInstance.load({"machine": "Pool", "sizes": {}, "params": {}})


def connectors(**more: Any) -> HybridInstance:
    values = ONE | more
    sizes = values.pop("sizes")
    return HybridInstance(Scope(model_of(Connectors), dict(sizes), values))


@pytest.mark.parametrize(
    ("more", "reason"), [({"count": 0}, "at least one"), ({"wanted": [[False]]}, "reads something")]
)
def test_what_the_implementation_cannot_be_told_is_no_instance(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        connectors(**more)


def files(hashes: int, pages: int) -> HybridInstance:
    return HybridInstance(Scope(model_of(FileStore), {"Hash": hashes, "Page": pages}))


# Instances, then states and transitions.
WALKS: dict[str, tuple[type[Target], HybridInstance, int, int]] = {
    "one file of two pages": (FileStoreTarget, files(1, 2), 160, 929),
    "two connectors": (ConnectorsTarget, connectors(), 468, 2_422),
    "two connectors, the first wins": (ConnectorsTarget, connectors(weighted=False), 456, 2_362),
}


@pytest.mark.parametrize("name", WALKS)
def test_every_transition_agrees(name: str) -> None:
    kind, instance, states, transitions = WALKS[name]
    report = walk_in_lockstep(Specs(instance.scope.model, kind), kind(instance))
    assert report.divergence is None, report
    assert report.complete
    assert (report.states, report.transitions) == (states, transitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "instance"),
    [
        (FileStoreTarget, files(2, 1)),
        (FileStoreTarget, files(2, 2)),
        (ConnectorsTarget, connectors(**TWO)),
        (ConnectorsTarget, connectors(**TWO, weighted=False, most_pending=2)),
    ],
    ids=["two files", "two files of two pages", "two requests", "two requests, two loads"],
)
def test_every_transition_agrees_further_out(kind: type[Target], instance: HybridInstance) -> None:
    most = 6 * settings().max_examples
    report = walk_in_lockstep(Specs(instance.scope.model, kind), kind(instance), max_states=most)
    assert report.divergence is None, report
    assert report.states == most or report.complete


# ---------------------------------------------------------------------------------------------------- must fail


def noticed(kind: type[Target], instance: HybridInstance) -> Divergence | None:
    return walk_in_lockstep(Specs(instance.scope.model, kind), kind(instance), max_states=2_000).divergence


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_walk_notices_each_fault_of_connectors(name: str) -> None:
    kind, more, oracles = CONNECTORS[name]
    found = noticed(kind, connectors(**more))
    assert found is not None
    assert found.oracle in oracles, found


@pytest.mark.parametrize("name", FILES)
def test_a_walk_notices_each_fault_of_files(name: str) -> None:
    kind, oracles = FILES[name]
    found = noticed(kind, files(1, 2))
    assert found is not None
    assert found.oracle in oracles, found


# ------------------------------------------------------------------------------------------------ steps of mamba


def split(block: int, total: int, tokens: int) -> Concrete:
    """One request on its way, in steps and demands of up to so many tokens."""
    model = Model.of(AlignedSplit)
    return interpreter(model, Scope(model, {"Request": 1, "Tokens": tokens}, {"block": block, "total": [total]}))


def step_agrees(spec: Concrete, state: State, budget: int) -> None:
    now = vars(state)
    after, _ = spec.after(state, "schedule", (0, budget))
    taken = next_tokens(
        computed=now["computed"][0],
        external=now["external"][0],
        total=now["total"][0],
        budget=budget,
        block=now["block"][0],
        loading=now["loading"][0],
    )
    assert vars(after)["computed"][0] == now["computed"][0] + taken
    after, _ = spec.after(state, "grow", (0, budget))
    assert vars(after)["held"][0] == now["held"][0] + new_blocks(budget, now["held"][0], now["block"][0])


def reachable(spec: Concrete) -> Iterator[State]:
    """Every state of a request."""
    queue, seen = [spec.initial()], {spec.key(spec.initial())}
    while queue:
        state = queue.pop()
        yield state
        for name in spec.model.actions:
            for args in spec.enabled(state, name):
                after, _ = spec.after(state, name, args)
                if spec.key(after) not in seen:
                    seen.add(spec.key(after))
                    queue.append(after)


@pytest.mark.parametrize("block", [1, 2, 3])
def test_h7_steps_of_small_requests_are_those_of_the_machine(block: int) -> None:
    for total in range(6):
        spec = split(block, total, 6)
        for state in reachable(spec):
            for budget in range(6):
                step_agrees(spec, state, budget)


@given(data=st.data(), block=st.integers(1, 600), total=st.integers(0, 10_000), loading=st.booleans())
def test_h7_steps_of_large_requests_are_those_of_the_machine(
    data: st.DataObject, block: int, total: int, loading: bool
) -> None:
    spec = split(block, total, 6)
    computed = data.draw(st.integers(0, total))
    described = {
        "computed": [computed],
        "external": [data.draw(st.integers(0, total - computed))],
        "loading": [loading],
        "held": [data.draw(st.integers(0, 30))],
    }
    step_agrees(spec, spec.state(described), data.draw(st.integers(0, 12_000)))


# ---------------------------------------------------------------------------------------------------- the planner

CHUNKS = 5


def plan_agrees(planner: HybridPlanner) -> None:
    """Every answer about a few chunks is the machine's, and the machine's assumptions hold of the planner's numbers."""
    groups, chunks, tokens = range(len(planner.groups)), range(CHUNKS), range(CHUNKS * planner.chunk)
    model = Model.of(Planner)
    pieces = [[planner.covered(g, k) // planner.units[g] for k in chunks] for g in groups]
    params = {
        "hash_block": planner.hash_block,
        "chunk": planner.chunk,
        "block": [group.block for group in planner.groups],
        "is_mamba": [group.kind == "mamba" for group in planner.groups],
        "a_group": 0,
        "is_boundary": [t % planner.boundary == 0 for t in tokens],
        "grain": planner.boundary,
        "pieces": pieces,
    }
    spec = interpreter(model, Scope(model, {"Group": len(groups), "Tokens": len(tokens), "Chunks": CHUNKS}, params))
    state = spec.initial()
    assert spec.violations(state, "assume") == []
    for t in tokens:
        k = planner.chunks_for(t)
        assert spec.is_enabled(state, "measure", (t, k)), (t, k)
        if k < CHUNKS:
            spec.apply(state, "measure", (t, k))
    for k in chunks:
        p = planner.prefix(k)
        assert spec.is_enabled(state, "plan", (k, p)), (k, p)
        spec.apply(state, "plan", (k, p))
    assert spec.violations(state) == []
    for t in tokens:
        assert planner.can_store(t) == (planner.prefix(planner.chunks_for(t)) > 0)


def small_planners(kind: type[HybridPlanner]) -> Iterator[HybridPlanner]:
    """Two groups, each of attention or of mamba, and all sizes up to four hash blocks."""
    kinds: tuple[Any, ...] = ("full", "mamba")
    for chunk, first, second in product(range(1, 4), range(1, 5), range(1, 5)):
        for one, other in product(kinds, kinds):
            yield kind(1, chunk, [Group(first, one), Group(second, other)])


def small_plans_agree(kind: type[HybridPlanner]) -> None:
    for planner in small_planners(kind):
        plan_agrees(planner)


def test_h2_small_planners_answer_as_the_machine_does() -> None:
    small_plans_agree(HybridPlanner)


@settings(max_examples=40)
@given(
    hash_block=st.integers(1, 4),
    chunk=st.integers(1, 6),
    groups=st.lists(
        st.tuples(st.integers(1, 12), st.sampled_from(["full", "window", "mamba"])), min_size=1, max_size=3
    ),
)
def test_h2_planners_answer_as_the_machine_does(hash_block: int, chunk: int, groups: list[tuple[int, Any]]) -> None:
    assume(chunk * hash_block <= 16)
    made = [Group(blocks * hash_block, kind, 3 if kind == "window" else 0) for blocks, kind in groups]
    plan_agrees(HybridPlanner(hash_block, chunk * hash_block, made))


@pytest.mark.parametrize("kind", PLANNERS)
def test_h2_each_fault_of_a_planner_is_noticed(kind: type[HybridPlanner]) -> None:
    with pytest.raises(AssertionError):
        small_plans_agree(kind)
