"""A tier of files below the host memory of vLLM's offloading connector: the release's own, over a disk in memory."""

import os
from typing import Any

import pytest

from kvproof.engines.vllm.worker.vllm_disk import Disk
from kvproof.judge.judging import faults, judge
from kvproof.judge.record import Step

from .test_vllm_connectors import PUSHED_OUT, STEP, Op, add, complete, copies, effects, offloading, run, well

RELEASES = ["0.22.0", "0.23.0", "0.24.0", "0.26.0", "0.27.0", "0.28.0", "0.30.0", "0.33.0"]
LOOKED_UP: list[Op] = [*PUSHED_OUT, STEP, STEP, STEP]
"""Two chunks are files, the host has others, the device has forgotten all, and a copy to the host has begun."""


def files(**more: Any) -> dict[str, Any]:
    return offloading(blocks=2, below=6, files=1, **more)


def cached(step: Step, tier: str) -> int:
    assert step.state is not None
    return len(step.state.pools[tier].cached or ())


@pytest.mark.parametrize("release", RELEASES)
def test_what_was_written_to_files_is_read_from_them(release: str) -> None:
    """Its forward pass reads what is told to be in the files, so a wrong file or chunk would be a finding."""
    answer = run(release, files(), [*LOOKED_UP, complete(how=3), STEP, complete(how=3), STEP, STEP, ("drain", {})])
    found = judge(answer)
    assert found is None or {violation.rule for violation in found[1]} <= {"P15", "L2"}, found
    steps = answer.steps
    last = copies(steps[len(PUSHED_OUT) :])
    assert [(copy[3][0][0], copy[3][0][2], len(copy[3])) for copy in last[:2]] == [
        ("below", "host", 2), ("host", "device", 2)
    ]  # fmt: skip
    assert effects(steps, "lookup")[-1][2:] == [0, 8, 9]


def test_chunks_of_embeddings_are_told_as_chunks_too() -> None:
    """Their events tell no tokens of the requests'; that they are of one chunk was told by these alone (P12)."""
    connector = offloading(blocks=3, below=12, files=1, factor=3, describes=1)
    setup = {"events": True, "embeds": 1, "groups": [{"kind": "full", "block": 3}], "max_len": 24, "spare": 8}
    ends = [STEP, complete(), STEP, complete(), STEP]
    well("0.33.0", connector, [add([0] * 8, max_tokens=2, embeds=0), STEP, STEP, *ends], **setup)


def test_a_late_lookup_is_answered_some_steps_later() -> None:
    late = well("0.33.0", files() | {"files": 2}, [*PUSHED_OUT, *[STEP] * 6])
    soon = well("0.33.0", files(), [*PUSHED_OUT, *[STEP] * 6])
    first = [next(n for n, step in enumerate(steps[6:]) if copies([step])) for steps in (soon, late)]
    assert first[0] < first[1]


def test_a_drain_waits_for_one_late_lookup_after_the_other() -> None:
    """Each group asks by itself: for longer than a drain goes on where nothing is under way (L1)."""
    groups = [{"kind": "full", "block": 4}, {"kind": "mamba", "block": 4}]
    more = {"groups": groups, "mamba": "align", "hash_block": 2, "max_len": 12, "budget": 12}
    connector = offloading(blocks=6, below=6, files=2)
    steps = well("0.33.0", connector, [add([0, 1, 2, 0, 1, 2, 0]), ("drain", {})], **more)
    assert steps[-1].result["left"] == 0


def test_what_was_read_before_a_read_failed_is_kept() -> None:
    """The second of three chunks cannot be read."""
    longer = [
        add([0] * 13),
        ("drain", {}),
        add([1] * 13),
        ("drain", {}),
        ("reset", {}),
        add([0] * 13),
        STEP,
        STEP,
        STEP,
    ]
    steps = well(
        "0.33.0", offloading(blocks=3, below=6, files=1), [*longer, complete(how=2), STEP, STEP, ("drain", {})]
    )
    failed = next(n for n, step in enumerate(steps) if any(copy[2] == "fail" for copy in effects([step], "copy")))
    (told,) = effects([steps[failed]], "copied")
    assert len(told[1]) == cached(steps[failed + 1], "host")
    assert 0 < len(told[1]) < 3
    assert steps[-1].result["left"] == 0


def test_a_file_that_is_lost_is_computed_again() -> None:
    ops = [*PUSHED_OUT, complete(how=4), complete(how=4), *[STEP] * 4, ("drain", {})]
    steps = well("0.33.0", files(), ops)
    assert [step.result for step in steps if step.op == "complete"] == [{"lost": ["below 0"]}, {"lost": ["below 1"]}]
    assert steps[-1].result["left"] == 0


ELSEWHERE: list[Op] = [add([0] * 9), complete(how=5), *[STEP] * 3, complete(how=3), *[STEP] * 2, complete(how=3), STEP]
"""Another engine that shares the folder has computed the prompt."""


@pytest.mark.parametrize("release", RELEASES)
def test_what_another_engine_wrote_is_read(release: str) -> None:
    answer = run(release, files(), [*ELSEWHERE, ("drain", {})])
    assert {violation.rule for _, found in faults(answer) for violation in found} <= {"P15"}
    assert answer.steps[1].result == {"had": ["below 0", "below 1"]}
    assert effects(answer.steps, "lookup")[-1][2:] == [0, 8, 9]
    last = copies(answer.steps)
    assert [(copy[3][0][0], copy[3][0][2], len(copy[3])) for copy in last[:2]] == [
        ("below", "host", 2), ("host", "device", 2)
    ]  # fmt: skip
    # What it wrote is judged: were it the KV of other tokens, the forward pass would read these.
    _, second = effects(answer.steps, "computed_outside")
    second[3][0][2] = 0
    assert "P6" in {violation.rule for _, found in faults(answer) for violation in found}


def test_another_engine_may_have_computed_a_part_and_writes_what_has_no_file() -> None:
    ops = [add([0] * 9), complete(how=5, pick=1), complete(how=5), complete(how=5), ("drain", {})]
    steps = well("0.33.0", files(), ops)
    had = [step.result for step in steps if step.op == "complete"]
    assert had == [{"had": ["below 0"]}, {"had": ["below 1"]}, None]


def test_no_room_on_the_disk_loses_what_was_to_be_written() -> None:
    ops = [add([1] * 9), ("drain", {}), add([0] * 9), *[STEP] * 3, complete(how=3), STEP, complete(how=2), STEP]
    steps = well("0.33.0", files(), [*ops, ("drain", {})])
    assert "fail" in {copy[2] for copy in effects(steps, "copy")}
    assert cached(steps[-1], "below") == 2 + len([pair for _, pairs in effects(steps, "copied") for pair in pairs])


@pytest.mark.parametrize("release", ["0.24.0", "0.27.0"])
def test_a_load_that_failed_was_tried_for_ever(release: str) -> None:
    """vllm#49176: what a lookup found stays found, whatever becomes of the file."""
    answer = run(release, files(), [*LOOKED_UP, complete(how=2), ("drain", {})])
    assert judge(answer) is not None
    assert answer.steps[-1].result["left"] == 1


def test_a_write_that_was_to_fail_fails_where_the_first_file_is_there_already() -> None:
    """It was told as failed, and the file was there: the second of two was to fail, of which one was written."""
    first: list[Op] = [add([1] * 5), ("drain", {}), ("reset", {"connector": 1}), add([1] * 9, skip=1), *[STEP] * 2]
    steps = well("0.33.0", files(), [*first, complete(how=3), STEP, complete(how=2), STEP, ("drain", {})])
    assert len([copy for copy in effects(steps, "copy") if copy[2] == "fail"]) == 1


def test_the_disk_does_what_a_disk_does() -> None:
    disk, data = Disk(), memoryview(b"12345678")
    new = disk.O_CREAT | disk.O_EXCL | disk.O_WRONLY
    written = disk.open("a.tmp", new)
    assert disk.write(written, data) == 8
    with pytest.raises(FileExistsError):
        disk.open("a.tmp", new)
    disk.close(written)
    disk.replace("a.tmp", "a")
    assert (disk.path.exists("a"), disk.path.exists("a.tmp")) == (True, False)
    room = bytearray(8)
    assert disk.readv(disk.open("a", disk.O_RDONLY), [memoryview(room)]) == 8
    assert bytes(room) == bytes(data)
    disk.remove("a")
    for missing in (disk.remove, lambda path: disk.open(path, os.O_RDONLY)):
        with pytest.raises(FileNotFoundError):
            missing("a")


@pytest.mark.parametrize("how", [0, 1, 2])
def test_one_read_goes_bad_in_each_way(how: int) -> None:
    disk, room = Disk(), bytearray(4)
    disk.files |= {"a": b"1234", "b": b"1234", "c": b"1234"}
    disk.go_bad(1, how)
    read: list[int | str] = []
    for path in "abc":
        try:
            read.append(disk.readv(disk.open(path, disk.O_RDONLY), [memoryview(room)]))
        except OSError as error:
            read.append(type(error).__name__)
    assert read == [4, ["OSError", "FileNotFoundError", 2][how], 4]
    assert ("b" in disk.files) == (how != 1)
