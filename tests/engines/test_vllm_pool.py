"""The level `pool`: vLLM's block pool beside machine P."""

import re
from typing import Any

import pytest

from kvproof.cli import main as cli
from kvproof.differential.vllm.pool import SIZES, fuzz_pool
from kvproof.differential.vllm.pool_target import PoolLink, VllmPoolTarget
from kvproof.engines.vllm.dialect import check_dialect, dialect
from kvproof.harness.instances import Instance
from kvproof.judge.record import Case

from .installed import engine, session

NEWEST = "0.33.0"


@pytest.mark.parametrize(
    "version", ["0.16.0", "0.20.2", "0.22.1", "0.23.0", "0.24.0", "0.26.0", "0.27.1", "0.28.0", NEWEST]
)
def test_builds_have_the_dialect_of_their_release(version: str) -> None:
    assert check_dialect(session(version)) == dialect(version)


def test_the_order_of_freed_blocks_changed_in_0_24_and_of_a_pool_that_caches_nothing_in_0_27_and_0_28() -> None:
    releases = ("0.16.0", "0.23.0", "0.24.0", "0.26.0", "0.27.1", "0.28.0", "0.33.0")
    orders = [tuple(dialect(version).splits(caching=caching) for caching in (True, False)) for version in releases]
    assert orders == [(False, False)] * 2 + [(True, True)] * 2 + [(True, False)] + [(True, True)] * 2


def test_a_pool_of_another_order_costs_no_finding_of_other_levels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine(NEWEST)
    monkeypatch.setattr("kvproof.engines.vllm.dialect.dialect", lambda _: dialect("0.20.2"))
    levels = ["--level", "pool", "--level", "manager"]
    assert cli.run(["fuzz", f"vllm=={NEWEST}", *levels, "--examples", "2", "--jobs", "1"]) == 3
    out = capsys.readouterr().out
    assert "not judged: level pool: vllm==0.33.0 cannot be driven: this build of vLLM 0.33.0 frees blocks" in out
    assert re.search(r"^ *manager +2 ", out, re.MULTILINE)
    # Of the only level nothing is left to tell.
    assert cli.run(["fuzz", f"vllm=={NEWEST}", *levels[:2], "--examples", "2", "--jobs", "1"]) == 2


def test_a_kept_pool_goes_on() -> None:
    driven = session(NEWEST)
    setup = {"blocks": 4, "requests": 1, "keys": 1}
    assert driven.more([("reset", {})]).answer.refused or driven.run(Case("pool", setup, []), keep=True)
    driven.run(Case("pool", setup, [("take", {"r": 0, "n": 2})]), keep=True)
    step = driven.more([("free", {"r": 0, "n": 1})]).answer.steps[0]
    assert step.state is not None
    assert step.state.pools["device"].ref == [0, 1, 0, 0]
    driven.run(Case("pool", setup, []))
    assert driven.more([("reset", {})]).answer.refused == "no system was kept"


def test_two_runs_take_turns() -> None:
    link = PoolLink(session(NEWEST))
    instance = Instance.make(SIZES[1], split=True, null=True)
    target = VllmPoolTarget(instance, link)
    target.apply("allocate", (0, 2))
    mutant = target.fork()
    mutant.apply("trim", (0, 1))
    target.apply("allocate", (1, 1))
    assert mutant.flat()["ref_cnt"] == [0, 1, 0, 0, 0]
    assert target.flat()["ref_cnt"] == [0, 1, 1, 1, 0]


@pytest.mark.parametrize(("version", "free", "count"), [("0.22.1", [2, 3, -1], 4), ("0.24.0", [2, 3, 1], 3)])
def test_a_block_named_twice_is_queued_twice_until_0_24(version: str, free: list[int], count: int) -> None:
    """B7: in 0.22 the block is linked to itself."""
    take: list[tuple[str, dict[str, Any]]] = [
        ("take", {"r": 0, "n": 1}),
        ("register", {"r": 0, "at": 0, "key": 0}),
        ("free", {"r": 0, "n": 1}),
    ]
    ops: list[tuple[str, dict[str, Any]]] = [*take, ("hit", {"r": 0, "keys": [0, 0]}), ("free", {"r": 0, "n": 2})]
    answer = session(version).run(Case("pool", {"blocks": 4, "requests": 1, "keys": 1}, ops)).answer
    state = answer.steps[-1].state
    assert state is not None
    assert (state.pools["device"].free, state.pools["device"].num_free) == (free, count)


def test_the_newest_release_does_what_the_machine_does() -> None:
    report = fuzz_pool(engine(NEWEST), f"vllm=={NEWEST}", 1, 100, 50, 60.0)
    assert not report.findings
    assert not report.untested
