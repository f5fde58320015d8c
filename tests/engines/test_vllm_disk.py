"""The disk of vLLM's simple connector: its own back end, over a disk in memory, on real releases."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvproof.engines.vllm.levels.scheduler import profiles
from kvproof.engines.vllm.worker.vllm_disk import Disk
from kvproof.judge.judging import judge
from kvproof.judge.record import Answer, Case, Step

from .installed import broken_vllm, session
from .test_vllm_connectors import FULL, STEP, Op, add, complete, copies, effects, run, simple, well

RELEASES = ["0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"]


def disk(buffers: int = 2, **more: Any) -> dict[str, Any]:
    return simple(blocks=8, disk=buffers, **more)


STORED: list[Op] = [
    op for token in (0, 1) for op in [add([token] * 9, max_tokens=3), STEP, STEP, complete(how=3), *[STEP] * 3]
]
"""Two requests have come and gone, and of each the disk has two blocks."""
LOADS: list[Op] = [*STORED, ("reset", {}), add([0] * 9), STEP, add([1] * 9), STEP]
"""The device has forgotten them, they come again, and two loads are under way."""
LOADED: list[Op] = [*LOADS, complete(), STEP, complete(), STEP, STEP, ("drain", {})]


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("release", RELEASES[2:])
def test_what_was_written_is_read(release: str, buffers: int) -> None:
    """Their forward passes read what is told to be there, so a wrong slot or buffer would be a finding."""
    steps = well(release, disk(buffers), LOADED)
    begun = [[pair[::2] for pair in copy[3]] for copy in copies(steps)]
    assert begun == [[["device", "host"]] * 2] * 2 + [[["host", "device"]] * 2] * 2
    assert not [copy for copy in effects(steps, "copy") if copy[2] == "fail"]
    assert [lookup[2:] for lookup in effects(steps, "lookup")][-2:] == [[0, 8, 9]] * 2


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("release", RELEASES[:2])
def test_a_load_was_read_over_the_one_before(release: str, buffers: int) -> None:
    """vllm#51667: what the device had not yet taken out of the buffers of one load was overwritten by the next."""
    answer = run(release, disk(buffers), LOADED)
    found = judge(answer)
    assert found is not None
    assert [(violation.rule, violation.oracle) for violation in found[1]] == [("P6", "a forward pass read")]
    brought = [pair for _, pairs in effects(answer.steps, "copied") for pair in pairs]
    assert [pair[1] for pair in brought] == ([1, 3] if buffers == 1 else [3, 4])


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("", None),
        ("reads the slot beside", "P6"),
        ("reads half the layers", "P6"),
        ("writes what has not come", "P6"),
        ("reads over what has not gone", "P6"),
        ("slots turned round", "P6"),
        ("told when it is asked for", "P6"),
    ],
)
def test_what_is_broken_is_told(fault: str, rule: str | None, workers: int) -> None:
    setup = {"groups": FULL, "spare": 6, "max_len": 16, "budget": 16, "connector": disk(workers=workers)}
    answer = broken_vllm().run(Case("scheduler", {**setup, "fault": fault}, LOADED)).answer
    assert answer.refused is None
    found = judge(answer)
    assert (None if found is None else found[1][0].rule) == rule


def left(steps: list[Step]) -> tuple[int, int]:
    return steps[-1].result["left"], steps[-1].result["pending"]


def of_bad(ops: list[Op], **more: Any) -> Answer:
    return run("0.33.0", disk(bad=1, **more), [*ops, ("drain", {})])


def test_a_read_that_fails_ends_the_thread_and_its_requests_wait_for_ever() -> None:
    """vllm#56032."""
    answer = of_bad([*LOADS, complete(how=2), STEP, complete(), STEP])
    assert [copy[1:3] for copy in effects(answer.steps, "copy") if copy[2] == "fail"] == [
        ["host load 0", "fail"], ["host load 1", "fail"]
    ]  # fmt: skip
    assert left(answer.steps) == (2, 2)
    found = judge(answer)
    assert found is not None
    assert [violation.rule for violation in found[1]] == ["L1"]


def test_a_write_that_fails_ends_the_thread_and_holds_its_blocks_for_ever() -> None:
    """vllm#56032. What is to be stored from then on holds blocks as well, until requests find none."""
    first: list[Op] = [add([0] * 9, max_tokens=3), STEP, STEP, complete(how=2), *[STEP] * 3]
    answer = of_bad([*first, add([1] * 9, max_tokens=3), STEP, STEP, complete(), STEP, STEP])
    assert left(answer.steps) == (0, 2)
    found = judge(answer)
    assert found is not None
    assert [violation.rule for violation in found[1]] == ["L2"]
    full = of_bad([*first, *[op for n in (1, 2, 3) for op in (add([n % 3, n, *[1] * 12], max_tokens=2), *[STEP] * 4)]])
    assert left(full.steps)[0] > 0


def test_a_disk_that_is_not_said_to_be_bad_does_not_fail() -> None:
    answer = run("0.33.0", disk(), [*LOADS, complete(how=2), STEP, complete(how=2), STEP, STEP, ("drain", {})])
    assert judge(answer) is None
    assert left(answer.steps) == (0, 0)


def test_releases_without_a_disk_are_refused() -> None:
    assert "has no disk for blocks" in str(run("0.22.1", disk(), [STEP]).refused)
    assert not [name for name in profiles("0.27.0") if "disk" in name]


@settings(suppress_health_check=[*HealthCheck], deadline=None)
@given(st.data())
def test_generated_cases_are_taken(data: st.DataObject) -> None:
    families = profiles("0.33.0")
    name = data.draw(st.sampled_from([name for name in families if "disk" in name]))
    answer = session("0.33.0").run(data.draw(families[name])).answer
    assert answer.refused is None


def test_the_disk_reads_and_writes_in_parts_at_a_place() -> None:
    device = Disk()
    made = device.open("slots", device.O_RDWR | device.O_CREAT | device.O_EXCL | device.O_NOFOLLOW, 0o600)
    device.ftruncate(made, 12)
    assert device.pwritev(made, [memoryview(b"ab"), memoryview(b"cd")], 4) == 4
    assert device.files["slots"] == b"\0\0\0\0abcd\0\0\0\0"
    parts = [bytearray(2), bytearray(2)]
    assert device.preadv(made, [memoryview(part) for part in parts], 4) == 4
    assert parts == [b"ab", b"cd"]
    device.go_bad(0, 1)
    assert device.pwritev(made, [memoryview(b"efgh")], 8) == 2
    assert device.files["slots"][8:] == b"ef\0\0"
    device.go_bad(1, 0)
    device.preadv(made, [memoryview(parts[0])], 0)
    with pytest.raises(OSError, match="Input/output"):
        device.preadv(made, [memoryview(parts[0])], 0)
    device.go_bad(0, 0)
    with pytest.raises(OSError, match="No space"):
        device.pwritev(made, [memoryview(b"x")], 0)
    device.unlink("slots")
    with pytest.raises(FileNotFoundError):
        device.unlink("slots")
