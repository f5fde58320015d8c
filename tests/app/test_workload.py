"""Replaying real requests: hit rates against an independent script, and each rule against a target that breaks it."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.errors import UsageError
from kvproof.workload.replay import Replay, Result
from kvproof.workload.requests import BLOCK_TOKENS, Request, Workload, read_workload
from kvproof.workload.target import MapEvent, RefimplTarget, Started, View

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SECOND_SCRIPT = Path(__file__).with_name("hit_rate_from_file.py")


def make_lines(seed: int, requests: int = 60) -> list[dict[str, Any]]:
    """Requests that share prefixes, in the format of the real files; some prompts end with a full block."""
    dice = random.Random(seed)
    known: list[list[int]] = [[]]
    fresh = iter(range(10_000))
    lines = []
    for number in range(requests):
        base = dice.choice(known)
        ids = base[: dice.randint(0, len(base))] + [next(fresh) for _ in range(dice.randint(1, 5))]
        known.append(ids)
        cut = dice.choice([0, 0, 1, dice.randrange(BLOCK_TOKENS)])
        length = max(1, len(ids) * BLOCK_TOKENS - cut)
        again = dice.choice([True, False])
        lines.append({"timestamp": number * 100, "input_length": length, "output_length": 7, "hash_ids": ids})
        if again:
            lines.append({**lines[-1], "timestamp": number * 100 + 50})
    return lines


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "small.jsonl", make_lines(1))


def replay(work: Workload, target: RefimplTarget, **options: Any) -> Result:
    return Replay(work, target, check=options.pop("check", "every")).run(**options)


def second_opinion(path: Path) -> str:
    done = subprocess.run([sys.executable, str(SECOND_SCRIPT), str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("seed", range(5))
def test_unlimited_hit_rate_is_that_of_the_file(tmp_path: Path, seed: int) -> None:
    path = write_lines(tmp_path / "trace.jsonl", make_lines(seed))
    work = read_workload(path)
    result = replay(work, RefimplTarget(work.total_blocks))
    assert result.violation is None
    assert f"{result.hit_rate:.6f}" == second_opinion(path)
    assert result.hit_tokens > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "requests", "tokens", "hit_rate"),
    [
        ("conversation_trace.jsonl", 12_031, 144_793_823, "0.373380"),
        ("synthetic_trace.jsonl", 3_993, 61_194_628, "0.650431"),
    ],
)
def test_real_trace_at_unlimited_capacity(name: str, requests: int, tokens: int, hit_rate: str) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the published trace {name} does not lie beside the repository")
    work = read_workload(path)
    assert (len(work.requests), work.prompt_tokens) == (requests, tokens)
    result = replay(work, RefimplTarget(work.total_blocks), check="sampled")
    assert result.violation is None
    assert f"{result.hit_rate:.6f}" == hit_rate == second_opinion(path)


@pytest.mark.slow
def test_real_trace_where_eviction_is_constant() -> None:
    path = DATA / "conversation_trace.jsonl"
    if not path.exists():
        pytest.skip("the published conversation trace does not lie beside the repository")
    work = read_workload(path, limit=1500)
    for overlap in (False, True):
        result = replay(work, RefimplTarget(1000), overlap=overlap)
        assert result.violation is None
        assert result.checks > 2 * len(work.requests)


@given(
    seed=st.integers(0, 1000),
    spare=st.integers(0, 40),
    order=st.sampled_from(["append", "split"]),
    token_ms=st.sampled_from([None, 0.0, 20.0, 300.0]),
)
def test_no_violation_at_any_capacity(seed: int, spare: int, order: Any, token_ms: float | None) -> None:
    lines = make_lines(seed, requests=12)
    work = workload_of(lines)
    target = RefimplTarget(work.largest_request + spare, free_order=order)
    options: dict[str, Any] = {} if token_ms is None else {"overlap": True, "token_ms": token_ms}
    result = replay(work, target, **options)
    assert result.violation is None
    assert result.turned_away == 0
    assert target.view().num_free == target.usable


def workload_of(lines: list[dict[str, Any]]) -> Workload:
    return Workload(
        "made",
        tuple(
            Request(index, line["timestamp"], line["input_length"], line["output_length"], tuple(line["hash_ids"]))
            for index, line in enumerate(lines)
        ),
    )


def test_more_room_never_hurts_here_and_unlimited_is_a_fixed_point(small: Path) -> None:
    work = read_workload(small)
    rates = [replay(work, RefimplTarget(size)).hit_rate for size in (20, work.total_blocks, 2 * work.total_blocks)]
    assert rates[0] < rates[1] == rates[2]


def test_requests_overlap_and_wait(small: Path) -> None:
    work = read_workload(small)
    result = replay(work, RefimplTarget(work.largest_request), overlap=True, token_ms=1000.0)
    assert result.violation is None
    assert result.waits > 0
    roomy = replay(work, RefimplTarget(work.total_blocks), overlap=True, token_ms=1000.0)
    assert roomy.waits == 0
    assert roomy.most_running > 1


def test_too_large_requests_are_turned_away(small: Path) -> None:
    work = read_workload(small)
    result = replay(work, RefimplTarget(work.largest_request - 1))
    assert result.violation is None
    assert result.turned_away > 0


def test_sampled_judges_the_same_steps_every_time(small: Path) -> None:
    work = read_workload(small)
    checks = {replay(work, RefimplTarget(50), check="sampled").checks for _ in range(2)}
    assert len(checks) == 1
    assert replay(work, RefimplTarget(50), check="end").checks == 1


def test_tokens_are_the_same_for_the_same_hash_id() -> None:
    one = Request(0, 0, 1000, 0, (3, 4)).tokens()
    other = Request(1, 0, 1024, 0, (3, 9)).tokens()
    assert len(one) == 4 * 1000
    assert one[: 4 * 512] == other[: 4 * 512]
    assert one[4 * 512 :] != other[4 * 512 : 4 * 1000]
    assert int.from_bytes(one[:4], "little") == 3 * 512


# Each rule bites: a target that breaks it is found out by that rule.


class Broken(RefimplTarget):
    """A reference implementation whose answers or state are spoilt from some request on."""

    spoil_answer: Callable[[Started], Started] | None = None
    spoil_view: Callable[[View], View] | None = None

    def start(self, request: Request) -> Started | None:
        answer = super().start(request)
        if answer is None or self.spoil_answer is None or request.index < 20:
            return answer
        return self.spoil_answer(answer)

    def view(self) -> View:
        view = super().view()
        return view if self.spoil_view is None else self.spoil_view(view)


def changed(view: View, **fields: Any) -> View:
    kept = {name: getattr(view, name) for name in ("free", "num_free", "ref_cnt", "keys", "copies")}
    return View(**{**kept, **fields})


def without_first(mapping: Any) -> Any:
    return dict(list(mapping.items())[1:])


VIEW_FAULTS: dict[str, tuple[str, Callable[[View], View]]] = {
    "a holder too many": ("P2", lambda v: changed(v, ref_cnt=[*v.ref_cnt[:-1], v.ref_cnt[-1] + 1])),
    "counter off by one": ("P3", lambda v: changed(v, num_free=v.num_free + 1)),
    "block queued twice": ("P3", lambda v: changed(v, free=[*v.free, v.free[0]])),
    "block lost": ("P1", lambda v: changed(v, free=v.free[1:], num_free=v.num_free - 1)),
    "null block queued": ("P4", lambda v: changed(v, free=[*v.free, 0], num_free=v.num_free + 1)),
    "null block cached": ("P4", lambda v: changed(v, keys={**v.keys, 0: (b"k",)})),
    "map entry lost": ("P5", lambda v: changed(v, copies=without_first(v.copies)) if v.copies else v),
    "block forgets its key": ("P5", lambda v: changed(v, keys=without_first(v.keys)) if v.keys else v),
    "map entry points elsewhere": (
        "P5",
        lambda v: changed(v, copies={**v.copies, next(iter(v.copies)): (1, 2, 3)}) if v.copies else v,
    ),
    "queue turned round": ("P8", lambda v: changed(v, free=v.free[::-1] if v.keys else v.free)),
}


@pytest.mark.parametrize("fault", VIEW_FAULTS)
def test_a_spoilt_state_is_found(small: Path, fault: str) -> None:
    rule, spoil = VIEW_FAULTS[fault]
    target = Broken(80)
    target.spoil_view = spoil
    result = replay(read_workload(small), target)
    assert result.violation is not None
    assert result.violation.rule == rule


ANSWER_FAULTS: dict[str, tuple[str, Callable[[Started], Started]]] = {
    "short table": ("P2", lambda a: a._replace(table=a.table[1:])),
    "hit beyond the limit": ("P14", lambda a: a._replace(hits=len(a.table) + 1)),
    "hit with another content": (
        "P6",
        lambda a: a._replace(table=(a.table[1], a.table[0], *a.table[2:])) if a.hits > 1 else a,
    ),
    "hit not taken": ("P5", lambda a: a._replace(hits=a.hits - 1) if a.hits else a),
    "null block handed out": ("P4", lambda a: a._replace(table=(*a.table[:-1], 0))),
    "hit block handed out": ("P8", lambda a: a._replace(table=(*a.table[:-1], a.table[0])) if a.hits else a),
    "one block twice": (
        "P7",
        lambda a: a._replace(table=(*a.table[:-1], a.table[-2])) if len(a.table) > a.hits + 1 else a,
    ),
    "other key": ("P13", lambda a: a._replace(keys=(b"other", *a.keys[1:])) if a.hits else a),
    "no keys": ("P13", lambda a: a._replace(keys=()) if a.keys else a),
}


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
def test_a_spoilt_answer_is_found(small: Path, fault: str) -> None:
    rule, spoil = ANSWER_FAULTS[fault]
    target = Broken(80)
    target.spoil_answer = spoil
    result = replay(read_workload(small), target, check="end")
    assert result.violation is not None
    assert result.violation.rule == rule


def test_wrong_free_order_is_found(small: Path) -> None:
    target = RefimplTarget(80, free_order="append")
    target.free_order = "split"
    result = replay(read_workload(small), target)
    assert result.violation is not None
    assert result.violation.rule == "P10"


@pytest.mark.parametrize("kind", ["stored", "removed"])
def test_lost_event_is_found(small: Path, kind: str) -> None:
    class Deaf(RefimplTarget):
        def take_events(self) -> list[MapEvent]:
            events = list(super().take_events())
            lost = next((event for event in events if event.kind == kind), None)
            return [event for event in events if event is not lost]

    result = replay(read_workload(small), Deaf(30))
    assert result.violation is not None
    assert result.violation.rule == "P12"


def test_needless_refusal_is_found(small: Path) -> None:
    class Shy(RefimplTarget):
        def start(self, request: Request) -> Started | None:
            return None if request.index == 5 else super().start(request)

    result = replay(read_workload(small), Shy(80))
    assert result.violation is not None
    assert (result.violation.rule, result.violation.request) == ("P7", 5)


def test_crash_is_a_finding(small: Path) -> None:
    class Crashing(RefimplTarget):
        def finish(self, request: Request) -> None:
            if request.index == 3:
                raise AssertionError("broken link")
            super().finish(request)

    result = replay(read_workload(small), Crashing(80))
    assert result.violation is not None
    assert result.violation.rule == "error"
    assert "broken link" in result.violation.message


# Files that are no traces.

GOOD = {"timestamp": 5, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]}


@pytest.mark.parametrize(
    ("second_line", "message"),
    [
        ("{", "line 2: input data was truncated"),
        ("[]", "line 2: expected `object`"),
        (json.dumps({**GOOD, "hash_ids": [1]}), "line 2: 600 prompt tokens need 2 hash ids"),
        (json.dumps({**GOOD, "hash_ids": [1, 1]}), "line 2: a hash id stands twice in one request"),
        (json.dumps({**GOOD, "hash_ids": [1, "2"]}), r"line 2: expected `int`, got `str` - at `\$.hash_ids\[1\]`"),
        (json.dumps({**GOOD, "hash_ids": [1, -2]}), "line 2: expected `int` >= 0"),
        (json.dumps({**GOOD, "input_length": 0}), "line 2: expected `int` >= 1"),
        (json.dumps({**GOOD, "timestamp": 4}), "line 2: earlier than the line before it"),
        (json.dumps({"timestamp": 5}), "line 2: object missing required field `input_length`"),
        ("", "line 2"),
        ("\udcff", "line 2"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, second_line: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + second_line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(UsageError, match=message):
        read_workload(path)
    assert len(read_workload(path, limit=1).requests) == 1


def test_an_empty_file_and_no_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(UsageError, match="holds no requests"):
        read_workload(empty)
    with pytest.raises(UsageError, match="cannot be read"):
        read_workload(tmp_path / "absent.jsonl")
