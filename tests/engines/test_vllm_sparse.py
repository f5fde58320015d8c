"""HiSparse of vLLM at the level ``scheduler``: what is told of its pages, on real releases."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvproof.engines.vllm.levels.scheduler import profiles
from kvproof.engines.vllm.levels.sparse import AMPLE
from kvproof.judge.judging import judge
from kvproof.judge.record import Answer, Case, Step

from .installed import broken_vllm, session

PROMPT = [0, 1, 2, 0, 1, 2, 0, 1, 2, 1]
Op = tuple[str, dict[str, Any]]
STEP: Op = ("step", {})
ALL: Op = ("complete", {"how": 3})


def add(tokens: list[int], most: int = 1, **more: Any) -> Op:
    return "add", {"tokens": tokens, "max_tokens": most, **more}


def run(
    ops: list[Op], *, version: str = "0.33.0", block: int = 4, more: dict[str, Any] | None = None, **setup: Any
) -> Answer:
    connector = {"kind": "hisparse", "hot": 1, **(more or {})}
    groups = [{"kind": "full", "block": block}]
    made = {"groups": groups, "spare": AMPLE, "max_len": 16, "budget": 16, "connector": connector, **setup}
    return session(version).run(Case("scheduler", made, ops)).answer


def well(ops: list[Op], **more: Any) -> list[Step]:
    """The steps of a case that breaks no rule."""
    answer = run(ops, **more)
    assert answer.refused is None
    assert judge(answer) is None
    return answer.steps


def told(steps: list[Step], kind: str) -> list[list[Any]]:
    return [effect for step in steps for effect in step.effects if effect[0] == kind]


def test_what_is_computed_goes_to_the_host_slot_by_slot_and_is_cached_there_when_its_page_has_come() -> None:
    steps = well([add(PROMPT), STEP, STEP, ALL, STEP])
    slots = [span for effect in told(steps, "rows") for span in effect[1]]
    assert [span[3] for span in slots] == ["host"] * len(PROMPT)
    cached = [len(step.state.pools["host"].cached or ()) for step in steps if step.state is not None]
    assert cached == [0, 0, 0, 0, 2]


def test_what_decoding_writes_goes_there_late_page_by_page() -> None:
    ops: list[Op] = [add(PROMPT[:7], 4), STEP, STEP, STEP, ALL, STEP]
    late, early = (well(ops, more={"late": late}) for late in (1, 0))
    assert len(told(late, "rows")) == 1
    assert len(told(early, "rows")) == 4
    assert not told(early, "copied")
    assert [pair[::2] for effect in told(late, "copied") for pair in effect[1]] == [["device", "host"]] * 2


CROWD: list[Op] = [add([n % 3] * 20, 3) for n in range(2)]
TIGHT: dict[str, Any] = {"spare": 0, "max_len": 24, "budget": 4}
"""A device that has no room for all pages of two prompts."""


def reads_the_host(steps: list[Step]) -> bool:
    state = steps[0].state
    assert state is not None
    device = len(state.pools["device"].ref or ())
    return any(block >= device for effect in told(steps, "table") if effect[2] == 0 for block in effect[4])


@pytest.mark.parametrize("version", ["0.31.0", "0.33.0"])
def test_pages_that_the_device_lost_are_read_on_the_host(version: str) -> None:
    steps = well([*CROWD, ("drain", {})], version=version, block=2, **TIGHT)
    assert steps[-1].result["left"] == 0
    assert reads_the_host(steps)
    assert not reads_the_host(well([*CROWD, ("drain", {})], version=version, **{**TIGHT, "spare": 60}))


@pytest.mark.parametrize(
    ("fault", "late", "rule"),
    [
        ("", 0, None),
        ("", 1, None),
        ("a row less", 0, "P6"),  # Late, a whole page comes behind.
        ("keeps a lost page", 1, "P6"),
        ("tells of no lost page", 1, "P6"),
        ("holds no page that is copied", 1, "P2"),
        ("never lets go", 1, "P2"),
        ("published at once", 1, "P6"),
    ],
)
def test_what_is_broken_is_told(fault: str, late: int, rule: str | None) -> None:
    setup = {"groups": [{"kind": "full", "block": 2}], "connector": {"kind": "hisparse", "late": late}, **TIGHT}
    ops = [*CROWD, *[STEP] * 14, ("drain", {}), *CROWD, ("drain", {})]
    answer = broken_vllm().run(Case("scheduler", {**setup, "fault": fault}, ops)).answer
    assert answer.refused is None
    found = judge(answer)
    assert (None if found is None else found[1][0].rule) == rule


def test_a_release_that_has_drifted_is_refused_and_not_misjudged() -> None:
    setup = {"groups": [{"kind": "full", "block": 4}], "connector": {"kind": "hisparse"}}
    drifted = broken_vllm().run(Case("scheduler", {**setup, "fault": "drifted"}, [STEP])).answer
    assert "not as this driver knows it: TypeError" in str(drifted.refused)
    assert broken_vllm().run(Case("scheduler", setup, [STEP])).answer.refused is None


def test_what_is_fetched_goes_to_the_host_and_its_last_page_to_the_device() -> None:
    steps = well([add(PROMPT, remote=10), STEP, ALL, STEP, STEP, STEP, ("drain", {})], more={"remote": 1})
    begun = [pair for effect in told(steps, "copy") if effect[2] == "begin" for pair in effect[3]]
    assert [pair[2] for pair in begun] == ["host"] * 3 + ["device"] * 3
    assert [pair[::2] for effect in told(steps, "copied") for pair in effect[1]] == [["host", "device"]]
    assert [effect[2] for effect in told(steps, "compute")] == [9]


def test_requests_that_fetch_wait_for_each_others_pages() -> None:
    """Seen where it was: nothing of the host is kept for what is to be computed behind what was fetched."""
    ops = [add([0] * 15, remote=12), add([1] * 5, 8, remote=5), STEP, ALL, STEP, ALL, STEP, ("drain", {})]
    broken = judge(run(ops, block=2, more={"remote": 1}))
    assert broken is not None
    assert [violation.rule for violation in broken[1]] == ["L1"]


@pytest.mark.parametrize(
    ("why", "setup"),
    [
        ("full attention", {"groups": [{"kind": "window", "block": 4, "window": 5}]}),
        ("one stage", {"stages": 2}),
        ("admits whole requests", {"reserve": False}),
    ],
)
def test_what_it_does_not_take_is_refused(why: str, setup: dict[str, Any]) -> None:
    assert why in str(run([STEP], **setup).refused)


def test_earlier_releases_have_none() -> None:
    assert "no HiSparse" in str(run([STEP], version="0.22.1").refused)
    assert not [name for name in profiles("0.29.0") if "host pages" in name]


@settings(suppress_health_check=[*HealthCheck], deadline=None)
@given(st.data())
def test_generated_cases_are_taken(data: st.DataObject) -> None:
    families = profiles("0.33.0")
    name = data.draw(st.sampled_from([name for name in families if "host pages" in name]))
    answer = session("0.33.0").run(data.draw(families[name])).answer
    assert answer.refused is None
