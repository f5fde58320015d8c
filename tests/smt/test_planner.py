"""The planner is proved for all sizes; the one proposed for vLLM is refuted, by sizes that are checked by hand here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import pytest
import z3

from kvproof.checkers.counterexample import Search
from kvproof.checkers.obligations import Problems, problems_of
from kvproof.checkers.prove import prove
from kvproof.checkers.shown import Counterexample
from kvproof.machine import Machine, Model
from kvproof.machine.formulas import Formula
from kvproof.machine.universe import Unbounded
from kvproof.spec.hybrid.planner import Chunks, Planner, ProposedPlanner, Tokens

from ..proofs import of_this_run
from .test_tiers import open_ends


def test_the_planner_is_proved() -> None:
    assert open_ends(prove(Planner, proofs=of_this_run())) == []
    promised = [p for p in Model.of(Planner).properties.values() if p.kind in ("invariant", "assume")]
    assert {r for p in promised for r in re.findall(r"[A-Z]\d+", p.rule)} == {"H1", "H2", "H3"}


# ------------------------------------------------------------------------------------------------ plain arithmetic


def units(shown: Counterexample) -> list[int]:
    """The tokens of a stored piece of each group."""
    chunk, blocks = shown.params["chunk"], shown.params["block"]
    return [block if block <= chunk or block % chunk else chunk for block in blocks]


def covered(shown: Counterexample, chunks: int) -> list[int]:
    """What each group's whole pieces cover of so many chunks."""
    return [chunks * shown.params["chunk"] // unit * unit for unit in units(shown)]


def prefix(shown: Counterexample, chunks: int) -> int:
    """The longest prefix that all groups can use."""
    needed = zip(units(shown), shown.params["is_mamba"], strict=True)
    grain = math.lcm(shown.params["hash_block"], *(unit for unit, is_mamba in needed if is_mamba))
    return min(covered(shown, chunks)) // grain * grain


def are_legal(shown: Counterexample) -> bool:
    """The sizes are positive, chunks and blocks multiples of the hash block."""
    h, sizes = shown.params["hash_block"], [shown.params["chunk"], *shown.params["block"]]
    return h > 0 and all(size > 0 and size % h == 0 for size in sizes)


def smallest(machine: type[Machine], action: str, prop: str) -> Counterexample:
    model = Model.of(machine)
    goals = [g.name for g in problems_of(model, action, Unbounded(model)).goals if g.name.startswith(prop)]
    search = Search(model, action, seconds=10.0)
    found = next((step for goal in goals if (step := search.find(goal))), None)
    assert found is not None
    assert found.replayed
    assert are_legal(found)
    assert "H2" in found.rule
    return found


# ------------------------------------------------------------------------------------------------ as proposed


def test_the_proposal_counts_a_chunk_that_is_not_full() -> None:
    """S19: one chunk for no tokens at all."""
    shown = smallest(ProposedPlanner, "measure", "a_chunk_counts_when_it_is_full")
    tokens, counted = shown.args["t"], shown.args["k"]
    assert (shown.params["hash_block"], shown.params["chunk"], shown.params["block"]) == (1, 2, [3])
    assert (tokens, counted) == (0, 1)
    assert counted != tokens // shown.params["chunk"]
    # It is what the proposal says: the prefix of one chunk is within 0 tokens, and two chunks are never asked.
    assert min(covered(shown, counted)) <= tokens


class _Unlucky:
    """A solver that finds models of this kind wherever it knows of any."""

    def __init__(self, solver: z3.Solver, kind: z3.BoolRef) -> None:
        self.solver, self.kind = solver, kind
        self.add, self.assertions = solver.add, solver.assertions
        self.found = solver.model()
        self.check()

    def check(self, *wished: z3.BoolRef) -> z3.CheckSatResult:
        for asked in (wished, (*wished, self.kind)):
            answer = self.solver.check(*asked)
            if answer == z3.sat:
                self.found = self.solver.model()
            elif asked is wished:
                return answer
        return z3.sat

    def model(self) -> z3.ModelRef:
        return self.found


class _Slow(_Unlucky):
    """One that, on a machine this slow, does not come to know more in its time."""

    def check(self, *wished: z3.BoolRef) -> z3.CheckSatResult:
        super().check()
        return z3.unknown if wished else z3.sat


@pytest.mark.parametrize("asked", [_Unlucky, _Slow])
def test_its_numbers_are_the_least_whatever_the_solver_found_first(
    asked: type[_Unlucky], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Z3 finds first, and in what time, depends on all that it was asked before: in CI it was once a chunk of 3,
    and once nothing."""
    satisfied = Search._satisfied

    def unlucky(search: Search, problems: Problems, wanted: Iterable[Formula]) -> Any:
        solver = satisfied(search, problems, wanted)
        return None if solver is None else asked(solver, problems.symbolic.params["chunk"]() >= 3)

    monkeypatch.setattr(Search, "_satisfied", unlucky)
    shown = smallest(ProposedPlanner, "measure", "a_chunk_counts_when_it_is_full")
    assert (shown.params["hash_block"], shown.params["chunk"], shown.params["block"]) == (1, 2, [3])


@pytest.mark.slow
def test_the_proposal_plans_a_prefix_that_is_no_boundary() -> None:
    shown = smallest(ProposedPlanner, "plan", "a_prefix_is_usable")
    chunks, planned = shown.args["k"], shown.args["p"]
    mamba = [unit for unit, is_mamba in zip(units(shown), shown.params["is_mamba"], strict=True) if is_mamba]
    assert planned == min(covered(shown, chunks))
    assert any(planned % unit for unit in (shown.params["hash_block"], *mamba))
    assert planned > prefix(shown, chunks)


@pytest.mark.nightly
def test_the_proposal_is_not_proved() -> None:
    report = prove(ProposedPlanner, timeout=2)
    refuted = {o.goal.split(" (")[0]: o for o in report.obligations if o.verdict == "refuted"}
    assert {"a_chunk_counts_when_it_is_full", "a_prefix_is_usable"} <= refuted.keys()
    assert {o.action for o in refuted.values()} == {"measure", "plan", "every state"}
    assert all(o.counterexample is not None and o.counterexample.replayed for o in refuted.values())


# ------------------------------------------------------------------------------------------------ other mistakes


class CountsTheLastChunk(Planner):
    """S19: a chunk counts from its first token on."""

    def measure(self, t: Tokens, k: Chunks) -> None:
        """Ask how many chunks t tokens fill, rounded up."""
        self.require(k == (t + self.chunk.value - 1) // self.chunk.value)
        self.count[t] = k


class CountsInHashBlocks(Planner):
    """What is counted are hash blocks."""

    def measure(self, t: Tokens, k: Chunks) -> None:
        """Ask how many chunks t tokens fill."""
        self.require(k == t // self.hash_block.value)
        self.count[t] = k


class PlansTooShort(Planner):
    """Any prefix that can be used, not the longest."""

    def plan(self, k: Chunks, p: Tokens) -> None:
        """Ask for a prefix."""
        self.require(self.is_usable(p, k))
        self.prefix[k] = p


class PlansWhatIsNotCovered(Planner):
    """A boundary, wherever the chunks end."""

    def plan(self, k: Chunks, p: Tokens) -> None:
        """Ask for the last boundary within the chunks."""
        end = k * self.chunk.value
        self.require(self.is_boundary[p])
        self.require((p <= end) & (end < p + self.grain.value))
        self.prefix[k] = p


MISTAKES = [
    (CountsTheLastChunk, "measure", "a_chunk_counts_when_it_is_full"),
    (CountsInHashBlocks, "measure", "a_chunk_counts_when_it_is_full"),
    (PlansTooShort, "plan", "the_next_boundary_is_not"),
    (PlansTooShort, "plan", "a_prefix_is_the_longest"),
    pytest.param(PlansWhatIsNotCovered, "plan", "a_prefix_is_usable", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("machine", "action", "prop"), MISTAKES, ids=lambda x: getattr(x, "__name__", x))
def test_each_mistake_is_refuted(machine: type[Machine], action: str, prop: str) -> None:
    shown = smallest(machine, action, prop)
    if action == "measure":
        assert shown.args["k"] != shown.args["t"] // shown.params["chunk"]
    else:
        assert shown.args["p"] != prefix(shown, shown.args["k"])
