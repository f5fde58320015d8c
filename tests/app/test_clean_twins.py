"""The clean twins: nothing is told of one that is right, and something of the same with a fault in it."""

import pytest

from benchmarks.clean_twins import TWINS, silence_of, table


@pytest.mark.parametrize(
    ("name", "fault", "rule"),
    [("toy", "leak", "P2"), pytest.param("tree", "split unlocks", "R3", marks=pytest.mark.slow)],
)
def test_a_twin_is_silent_until_it_is_broken(name: str, fault: str, rule: str) -> None:
    assert name in TWINS
    clean = silence_of(name, seconds=1, number=0)
    assert clean.cases > clean.refused == 0
    assert clean.told == ""
    assert silence_of(name, seconds=30, number=0, fault=fault).told.startswith(f"{rule} (")


def test_what_is_on_record_is_ten_minutes_of_each(pytestconfig: pytest.Config) -> None:
    _, _, *rows = table(pytestconfig.rootpath / "benchmarks/data/clean_twins.jsonl")
    cells = (row.split("|") for row in rows)
    long = {name for _, name, seconds, *_ in cells if float(seconds) >= 600}
    assert {name.strip() for name in long} == TWINS.keys()
    assert all(row.endswith("| nothing |") for row in rows)
