"""The table of engines, levels and rules: its page is as the data is, and what it is made by sees what is judged."""

import json
from pathlib import Path

from benchmarks.judged import checks, reached, table
from kvproof.engines.catalog import ENGINES
from kvproof.judge.judging import judge
from kvproof.judge.record import Answer, Group, PoolState, State, Step, Tier, World
from kvproof.spec.rules import RULES

ROOT = Path(__file__).parents[2]
DATA = json.loads((ROOT / "benchmarks/data/judged.json").read_text())
WORLD = World([Group("full", 2)], {"device": Tier(3, 0)}, 2)


def told(pool: PoolState) -> Answer:
    """A run of one operation, whose state shows so much of the pool."""
    state = State({"device": pool})
    return Answer(1, WORLD, [Step("drain", {}, result={"left": 0, "pending": 0}, state=state)])


def test_the_page_is_current() -> None:
    again = "python -m benchmarks.judged benchmarks/data/judged.json --table"
    assert "\n".join(table(DATA)) in (ROOT / "docs/engines.md").read_text(), f"write its table anew: {again}"


def test_levels_that_were_watched_are_hunted_with_cases_and_have_rules() -> None:
    hunted = {
        (name, level) for name, engine in ENGINES.items() for level in engine.LEVELS if engine.cases(level) is not None
    }
    watched = {(name, level) for name, levels in DATA.items() for level in levels}
    assert watched <= hunted
    assert {("sglang", level) for level in ENGINES["sglang"].LEVELS} <= watched  # Others may not have been watched yet.
    assert all(rules and set(rules) <= RULES.keys() for levels in DATA.values() for rules in levels.values())


def test_a_check_is_reached_where_something_is_told() -> None:
    with reached() as without:
        assert judge(told(PoolState())) is None
    with reached() as with_counts:
        assert judge(told(PoolState(ref=[0, 0, 0], free=[1, 2]))) is None
    assert without < with_counts
    assert {"P2", "P3"} <= with_counts - without


def test_every_rule_that_the_judge_raises_is_one() -> None:
    assert {rule for _, _, rule in checks()} <= RULES.keys()
