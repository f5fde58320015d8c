"""Must-fail: for everything that is compared, an implementation that is wrong in it, and the fuzzer that notices."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from kvproof.checkers.fuzz import Difference, fuzz
from kvproof.checkers.replay import calls_of, replay, setting_of
from kvproof.checkers.target import Target
from kvproof.checkers.trace import Trace, decode_trace, encode_trace
from kvproof.harness.instances import Instance, instances
from kvproof.harness.pool.target import PoolTarget
from kvproof.machine import Model
from kvproof.spec.pool import Pool

from .kept import shows_again, sought
from .scripts import Ran, ran, ran_alone

MUTANTS: dict[str, tuple[type[PoolTarget], str]] = runpy.run_path(str(Path(__file__).with_name("mutants.py")))[
    "MUTANTS"
]
MODEL = Model.of(Pool)
COMPARED = {*PoolTarget.fields, "result", "events", "refusal", "stray", "residue", "crash"}

# Left out is a fault that takes thousands of runs to meet; the exhaustive walk in test_lockstep.py meets it at once.
NAMES = [name for name in MUTANTS if name != "WritesWhatIsShared"]

_found: dict[str, Difference] = {}


def finding(name: str) -> Difference:
    """The finding in which a mutant must be noticed."""
    if name not in _found:
        kind, oracle = MUTANTS[name]
        report = fuzz(Pool, kind, instances(), seed=7, examples=400, steps=30)
        by_oracle = {f.oracle: f for f in report.findings}
        assert oracle in by_oracle, f"{name} was noticed in {list(by_oracle)} only"
        _found[name] = by_oracle[oracle]
    return _found[name]


def test_there_is_a_mutant_for_everything_that_is_compared() -> None:
    assert {oracle for _, oracle in MUTANTS.values()} == COMPARED


KEPT = NAMES
SOUGHT = ("FreesInTableOrder", "WritesWhatIsCovered", "ReportsEveryCopy", "ForgetsSecondHolder")
"""These the fuzzer finds anew in every run of the tests."""


def found(name: str) -> Trace:
    """The way on which the fuzzer notices a mutant."""
    return finding(name).trace


@pytest.mark.parametrize("name", KEPT)
def test_a_fault_shows_where_it_was_found(name: str) -> None:
    kind, oracle = MUTANTS[name]
    assert shows_again(name, kind, PoolTarget, MODEL, Instance.load).oracle == oracle


@pytest.mark.parametrize("name", sought(KEPT, SOUGHT))
def test_the_fuzzer_notices(name: str) -> None:
    found = finding(name)
    assert found.oracle == MUTANTS[name][1]
    assert found.steps == len(found.trace.operations) <= 12
    assert found.oracle in found.report.splitlines()[0]
    assert "specification:" in found.report
    assert "implementation:" in found.report
    assert "the machine around the last:" in found.report


@pytest.mark.parametrize("name", sought(KEPT, SOUGHT))
def test_the_trace_shows_it_again(name: str) -> None:
    kind, oracle = MUTANTS[name]
    trace = decode_trace(encode_trace(finding(name).trace))
    setting = setting_of(trace)
    assert setting is not None
    again = replay(MODEL, trace, kind, Instance.load(setting))
    assert again.problem is not None
    assert again.problem.divergence is not None
    assert (again.problem.divergence.oracle, again.done) == (oracle, len(trace.operations) - 1)
    assert replay(MODEL, trace, PoolTarget, Instance.load(setting)).problem is None
    assert replay(MODEL, trace).problem is None
    assert len(calls_of(MODEL, trace)) == len(trace.operations)


@pytest.mark.parametrize(
    ("name", "run"),
    [
        pytest.param("FreesInTableOrder", ran_alone, marks=pytest.mark.slow),
        ("FreesInTableOrder", ran),
        pytest.param("WritesWhatIsCovered", ran, marks=pytest.mark.slow),
        pytest.param("ReportsEveryCopy", ran, marks=pytest.mark.slow),
    ],
)
def test_the_script_fails_again(name: str, run: Callable[[str, Path], Ran], tmp_path: Path) -> None:
    found = finding(name)
    assert run(found.script, tmp_path)[0] == 1
    sound = found.script.replace(f"mutants[{name!r}]", "PoolTarget")
    sound = sound.replace("import runpy\n", "from kvproof.harness.pool.target import PoolTarget\nimport runpy\n")
    status, said = run(sound, tmp_path)
    assert status == 0, said
    assert f"manager.{found.rule}(" in said


def test_one_seed_finds_one_thing() -> None:
    kind: type[Target] = MUTANTS["ForgetsSecondHolder"][0]
    first, second = (fuzz(Pool, kind, instances(), seed=11, examples=200) for _ in range(2))
    assert [f.script for f in first.findings] == [f.script for f in second.findings] != []
    assert (first.steps, first.coverage) == (second.steps, second.coverage)
