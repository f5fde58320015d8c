"""The clean twins: nothing is told of one that is right, and something of the same with a fault in it."""

import pytest

from benchmarks.clean_pool import RELEASES, beside_machine_p
from benchmarks.clean_twins import NAMES, TWINS, silence_of, table
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.record import Case


@pytest.mark.parametrize(
    "name",
    [
        "toy",
        "allocator",
        "backend",
        "batches",
        "block pool",
        "cache",
        "chunk engine",
        "chunks",
        "hicache",
        "leases",
        "manager",
        "pages",
        "rounds",
        "scheduler",
        pytest.param("tree", marks=pytest.mark.slow),
    ],
)
def test_a_twin_is_silent(name: str) -> None:
    clean = silence_of(name, seconds=1, number=0)
    assert clean.told == ""
    assert clean.cases > 10 * clean.refused  # Of unknown kinds of groups there are few.


@pytest.mark.parametrize(
    ("name", "fault", "rule"),
    [
        ("toy", "leak", "P2"),
        ("allocator", "keeps a page", "R2"),
        ("allocator", "group twice", "P3"),
        ("allocator", "hands out twice", "R2"),
        ("backend", "partial allocation", "P2"),
        ("backend", "evicts a layer", "P5"),
        ("backend", "evicts what is used", "O12"),
        ("backend", "stays pinned", "P2"),
        ("batches", "forgets who is preempted", "L1"),
        ("batches", "goes on behind", "P6"),
        ("batches", "keeps what is cancelled", "L1"),
        ("batches", "the wrong way round", "P6"),
        ("batches", "keeps copies", "P2"),
        ("block pool", "finds the newest", "hit"),
        ("block pool", "keeps a hash", "allocate"),
        ("block pool", "queues what is held", "hit"),
        ("block pool", "queues it twice", "finish"),
        ("block pool", "resets what is held", "reset"),
        ("cache", "adopts without a count", "P2"),
        ("cache", "copies one layer", "P6"),
        ("cache", "keeps the duplicate", "P2"),
        ("cache", "reads one too few", "P6"),
        ("cache", "refuses the last block", "P7"),
        ("chunk engine", "any prefix", "P13"),
        ("chunk engine", "clears a layer", "P11"),
        ("chunk engine", "pins some layers", "P2"),
        ("chunk engine", "lets go twice", "P2"),
        ("chunks", "evicts what is read", "O8"),
        ("chunks", "evicts the newest", "O12"),
        ("chunks", "silent removal", "P12"),
        ("chunks", "a failure keeps its chunks", "P1"),
        ("hicache", "filed before it comes", "P6"),
        ("hicache", "files what was not read", "P6"),
        ("hicache", "frees under a load", "R10"),
        ("hicache", "keeps what is loaded", "R3"),
        ("hicache", "silent removal", "P12"),
        ("leases", "discards a store", "P5"),
        ("leases", "chooses what is locked", "O12"),
        ("leases", "forgets who crashed", "O12"),
        ("leases", "deletes what is read", "P2"),
        ("leases", "keeps what was got", "P2"),
        ("manager", "filed too late", "P14"),
        ("manager", "filed too early", "P6"),
        ("manager", "hits the whole prompt", "P14"),
        ("manager", "holds the last block", "P2"),
        ("pages", "finds the whole prompt", "P14"),
        ("pages", "keeps what is dropped", "P11"),
        ("pages", "frees what is shared", "P3"),
        ("pages", "shares the last block", "P6"),
        ("rounds", "forgets who goes", "R7"),
        ("rounds", "forgets who is retracted", "L1"),
        ("rounds", "keeps its last page", "R2"),
        ("rounds", "stays locked", "R3"),
        ("rounds", "stops a page short", "P14"),
        ("scheduler", "filed too late", "P14"),
        ("scheduler", "holds the last block", "P2"),
        ("scheduler", "counts refusals", "P15"),
        ("scheduler", "forgets who is preempted", "L1"),
        pytest.param("tree", "split unlocks", "R3", marks=pytest.mark.slow),
    ],
)
def test_a_twin_that_is_broken_is_told_of(name: str, fault: str, rule: str) -> None:
    assert silence_of(name, seconds=120, number=0, fault=fault).told.startswith(f"{rule} (")


def test_beside_a_machine_every_action_is_done_in_each_order_of_freeing() -> None:
    reports = [*beside_machine_p(seconds=1, number=0)]
    assert [report.target for report in reports] == [f"vllm=={release}" for release in RELEASES]
    assert not any(report.untested for report in reports)


def test_blocks_of_who_is_over_within_the_round_that_it_came_in_are_told() -> None:
    """Within one drain all is evicted, and the same is cached again at the same block, by such a request."""
    twin = TWINS["batches"]()
    setup = {"layers": ["full"], "page": 4, "blocks": 3, "batch": 32, "requests": 1}
    again = ("add", {"tokens": [2] * 9, "most": 1})
    ops = [again, ("drain", {}), ("add", {"tokens": [0] * 5, "most": 1}), again, ("drain", {})]
    with twin.session:
        found, told = verdict(twin.session, close(Case("scheduler", setup, ops), twin.closing), twin.more)
    assert not any(effect[2] for step in told.steps for effect in step.effects if effect[0] == "lookup")
    assert found is None


def test_what_is_on_record_is_ten_minutes_of_each(pytestconfig: pytest.Config) -> None:
    _, _, *rows = table(pytestconfig.rootpath / "benchmarks/data/clean_twins.jsonl")
    cells = (row.split("|") for row in rows)
    long = {name for _, name, seconds, *_ in cells if float(seconds) >= 600}
    assert {name.strip() for name in long} == {*NAMES}
    assert all(row.endswith("| nothing |") for row in rows)
