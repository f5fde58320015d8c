"""The differential at the level `offload`: a release and the reference implementation, state by state."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kvproof.differential.outcome import Outcome
from kvproof.differential.vllm.offload import PROFILES, cases, compare
from kvproof.judge.record import Case

from .installed import session

NEWEST = "0.33.0"
OLD = "0.20.2"

SIMPLE = {"kind": "simple", "groups": [{"kind": "full", "block": 2}], "blocks": 12, "host": 12, "lazy": False,
          "workers": 1, "budget": 8, "max_len": 16, "events": False}  # fmt: skip

KNOWN = {("P12", "events and map"), ("O10", "refused reset changes something")}
"""What the universal oracles say of the newest release: docs/findings.md, 10, 12 and 13."""

Op = tuple[str, dict[str, Any]]


def add(shared: int, own: int = 0, most: int = 1) -> Op:
    return "add", {"family": 0, "shared": shared, "own": own, "tail": 1, "most": most}


STEP: Op = ("step", {"most": 16, "sample": 0, "stop": 0})
WORK: Op = ("work", {"which": 0, "all": 1})
PROBE: Op = ("probe", {"which": 0})
ABORT: Op = ("abort", {"which": 0})
DRAIN: Op = ("drain", {})


def reset(connector: bool, running: int = 0) -> Op:
    return "reset", {"connector": connector, "running": running}


def play(version: str, *ops: Op, **more: Any) -> Outcome:
    return compare(session(version), Case("offload", {**SIMPLE, **more}, list(ops)))


def outcomes(version: str, profile: str, examples: int) -> list[Outcome]:
    """What came of seeded cases."""
    engine = session(version)
    found: list[Outcome] = []

    @seed(1)
    @settings(max_examples=examples, database=None, deadline=None, phases=(Phase.generate,),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def sweep(data: st.DataObject) -> None:
        found.append(compare(engine, data.draw(cases(NEWEST, profile))))

    sweep()
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_the_newest_release_agrees(profile: str) -> None:
    found = outcomes(NEWEST, profile, 120)
    assert [str(outcome.disagreement) for outcome in found if outcome.disagreement] == []
    assert {(v.rule, v.oracle) for outcome in found for v in outcome.broken[:1]} <= KNOWN
    # Nothing of this is worth much if little was compared.
    assert sum(outcome.compared for outcome in found) > 0.5 * sum(outcome.steps for outcome in found)
    assert sum(outcome.counts["blocks stored"] for outcome in found) > 200
    assert sum(outcome.counts["blocks loaded"] for outcome in found) > 20


def test_old_releases_disagree() -> None:
    found = outcomes(OLD, "simple-eager", 60)
    seen = Counter(outcome.disagreement.what for outcome in found if outcome.disagreement)
    assert seen.keys() == {"holds.device", "copies"}
    assert seen.total() > len(found) / 2


@pytest.mark.parametrize(("version", "there"), [(OLD, True), ("0.22.1", False), (NEWEST, False)])
def test_a_block_stored_twice_at_once_is_a_disagreement(version: str, there: bool) -> None:
    """Neither request ends: what is never stored cannot be the cause."""
    outcome = play(version, add(4, 2, most=4), STEP, STEP, add(4, 2, most=4), STEP, STEP, STEP)
    found = outcome.disagreement
    assert (found is not None and found.what == "copies") is there
    if found is not None and there:
        assert found.reference == []
        assert found.engine == [[["device", 1, "host", 4], ["device", 2, "host", 5]]]


@pytest.mark.parametrize(("version", "there"), [("0.21.0", True), ("0.22.0", False), (NEWEST, False)])
def test_a_lookup_that_holds_nothing_is_a_disagreement_and_breaks_no_rule(version: str, there: bool) -> None:
    kept = add(10, 2, most=4)
    outcome = play(version, kept, STEP, STEP, WORK, STEP, STEP, WORK, STEP, DRAIN, reset(False), add(10, 1), PROBE)
    found = outcome.disagreement
    assert outcome.broken == []
    assert (found is not None) is there
    if found is not None:
        assert (found.what, found.engine, found.reference) == ("holds.host", [], [1, 2, 3, 4, 5])


UNWRITTEN = "block 1 (host) is cached under key 0 in group 0 (full), but it was never written"


@pytest.mark.parametrize(("version", "there"), [("0.22.1", True), ("0.23.0", True), ("0.24.0", False), (NEWEST, False)])
def test_what_a_step_still_writes_is_a_disagreement_where_copies_do_not_wait(version: str, there: bool) -> None:
    """Two requests of one step: the second one hits what is computed for the first. Neither ends.

    Up to 0.23 the copy waits for nothing, so that the host keeps what was never written: no difference of policy.
    """
    outcome = play(version, add(4, 1, most=3), add(4, 2, most=3), STEP)
    found = outcome.disagreement
    assert (found is not None and found.what == "copies") is there
    assert [v.text for v in outcome.broken[:1] if v.rule == "P6"] == ([UNWRITTEN] if there else [])
    if found is not None and there:
        assert (found.at, found.reference) == (2, [])
        assert found.engine == [[["device", 1, "host", 1], ["device", 2, "host", 2]]]


@pytest.mark.parametrize(("version", "there"), [(OLD, True), ("0.28.0", True), ("0.30.0", False), (NEWEST, False)])
def test_a_last_block_that_is_never_stored_is_a_disagreement(version: str, there: bool) -> None:
    found = play(version, add(2), STEP).disagreement
    assert (found is not None) is there
    if found is not None:
        assert (found.at, found.what, found.engine, found.reference) == (1, "holds.device", [], [1])


def test_a_whole_life_agrees() -> None:
    found = play(NEWEST, add(6, 1, most=3), STEP, STEP, WORK, STEP, STEP, DRAIN, reset(False), add(6, 2, most=2), STEP,
                 ("preempt", {"which": 0}), WORK, STEP, STEP, DRAIN, reset(True))  # fmt: skip
    assert found.disagreement is None
    assert found.parted is None
    assert found.broken == []
    assert found.compared == found.steps
    assert (found.counts["blocks stored"], found.counts["blocks loaded"]) == (5, 3)


FAR = [add(10, 2, most=1), STEP, STEP, WORK, STEP, DRAIN, reset(False)]
"""After this the host has five or six blocks of a family, and the device none."""


@pytest.mark.parametrize(
    ("why", "ops", "more"),
    [
        ("a reset that is refused", [add(4), STEP, reset(True)], {}),
        ("pins that are dropped", [*FAR, add(10, 1), PROBE, ABORT], {}),
        ("a block that was on the host", [add(12), STEP, STEP, WORK, STEP, DRAIN, reset(False), add(0, 3, most=2),
                                          STEP, DRAIN, add(12, 2), STEP, STEP, WORK, STEP], {"host": 6}),
    ],
)  # fmt: skip
def test_where_policies_part_the_comparison_ends(why: str, ops: list[Op], more: dict[str, Any]) -> None:
    found = play(NEWEST, *ops, **more)
    assert found.disagreement is None
    assert found.parted is not None
    assert found.parted.startswith(why)
    assert found.compared < found.steps
