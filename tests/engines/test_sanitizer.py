"""The sanitizer in a release's own process: what it finds, what it writes, and how it stays out of the way."""

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kvproof.checkers.trace import Operation, Trace, TraceError, read_trace, write_trace
from kvproof.cli import main as cli
from kvproof.engines.session import WORKER
from kvproof.engines.vllm.engine import WORKER as ADAPTER
from kvproof.engines.vllm.sanitizer.incident import MOST_VALUES, Incident, filed
from kvproof.engines.vllm.sanitizer.judging import AT_BOTH, IN_MAP, Call, Verdict, judge_call, judge_state
from kvproof.engines.vllm.sanitizer.ring import Ring
from kvproof.engines.vllm.sanitizer.saying import say
from kvproof.engines.vllm.sanitizer.settings import Settings
from kvproof.spec.rules import RULES
from kvproof.testing.chunk_incidents import chunk_incident_of
from kvproof.testing.incidents import incident_of, judged, shrunk
from kvproof.untrusted import limits

from .installed import engine

CHILD = Path(__file__).with_name("fakes") / "sanitized.py"

FOUND = {
    "none": None,
    "forgetful free": ("P3", "freed and not in the queue"),
    "double free": ("P9", "free without a holder"),
    "touch stays": ("P8", "held and queued"),
    "stale entry": ("P5", "in the prefix map only"),
    "order": ("P7", "order"),
    "leak": ("P2", "too many for its holders"),
}
"""What each fault of the child must be found by first."""


@dataclass(frozen=True)
class Played:
    said: str
    errors: str
    status: int
    folder: Path

    def incidents(self, fault: str) -> list[Path]:
        """What was written during a fault, the first one first: as standard error tells."""
        part = self.errors.partition(f"fault {fault}\n")[2].partition("fault ")[0]
        return [Path(line.rpartition(" ")[2]) for line in part.splitlines() if "see kvproof replay" in line]


def under(folder: Path, *command: str, options: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, "-m", "kvproof", "run", "--incidents", str(folder), *options, "--", *command]


def all_faults(child: Path, release: str, folder: Path, *, every: int, how: tuple[str, ...] = ()) -> Played:
    """All faults of a child, one after the other, in one process of a release; the whole state every so many calls."""
    build = engine(release)
    done = subprocess.run(
        under(
            folder,
            *(str(build.python), str(child), str(WORKER), str(ADAPTER.parent), *how),
            options=("--every", str(every)),
        ),
        env=dict(build.environment()),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Played(done.stdout, done.stderr, done.returncode, folder)


@pytest.fixture(scope="module", params=[pytest.param("0.20.2", marks=pytest.mark.nightly), "0.33.0"])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return all_faults(CHILD, request.param, tmp_path_factory.mktemp("incidents"), every=1)


def test_each_fault_is_found_by_its_rule_and_a_clean_run_is_silent(played: Played) -> None:
    assert played.status == 0, played.errors
    for fault, expected in FOUND.items():
        found = played.incidents(fault)
        if expected is None:
            assert not found
            continue
        violation = read_trace(found[0]).dialect["violation"]
        assert (violation["rule"], violation["oracle"]) == expected, fault
        assert violation["sentence"] == RULES[expected[0]].sentence
        assert violation["sentence"] in played.errors
    assert "failed" not in played.errors


def test_an_incident_shows_the_same_rule_at_the_same_operation_again(
    played: Played, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for fault, expected in FOUND.items():
        for path in played.incidents(fault)[:1]:
            recorded = read_trace(path)
            assert cli.run(["replay", str(path), "--json", str(tmp_path / "report.json")]) == 1
            report = json.loads((tmp_path / "report.json").read_text())
            assert report["outcome"] == "same"
            assert report["problem"]["at"] == recorded.dialect["violation"]["at"]
            assert expected is not None
            assert RULES[expected[0]].sentence in " ".join(capsys.readouterr().out.split())
            smaller = shrunk(recorded, str(path))
            assert len(smaller.operations) <= len(recorded.operations)
            assert judged(incident_of(smaller, "smaller")).outcome == "same"


def test_what_breaks_a_state_is_what_the_oracle_of_states_says_too(played: Played) -> None:
    (path,) = played.incidents("leak")
    judgement = judged(incident_of(read_trace(path), "leak"))
    assert judgement.verdict is not None
    assert {rule for rule, _ in judgement.also} == {v.rule for _, v in judgement.found} == {"P2"}


def test_it_holds_no_token_and_no_name_of_a_request(played: Played) -> None:
    (path,) = played.incidents("leak")
    last = read_trace(path).operations[-1].snapshot
    assert isinstance(last, dict)
    assert set(last) == {"pool", "tables", "holds"}
    assert all(name.startswith("r") and name[1:].isdecimal() for name in last["tables"])
    assert "sha256" not in path.read_text()


def test_it_stops_the_engine_only_when_told_to(played: Played) -> None:
    assert "stopped ViolationError P9" in played.said


# ------------------------------------------------------------------------------------------ staying out of the way


def test_where_nobody_can_be_told_the_engine_goes_on_and_incidents_are_written(tmp_path: Path) -> None:
    """Standard error is a log on a full disk: a sentence that cannot be written had ended the engine."""
    done = all_faults(CHILD, "0.33.0", tmp_path, every=1, how=("deaf",))
    assert (done.status, "stopped ViolationError P9" in done.said) == (0, True)
    written = [path.name for path in tmp_path.iterdir()]
    assert all(any(name.startswith(f"{fault[0]}-") for name in written) for fault in FOUND.values() if fault)


def test_standard_error_that_is_closed_or_gone_is_no_reason_to_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    for gone in (None, closed, object()):
        monkeypatch.setattr(sys, "stderr", gone)
        say("nobody hears it")
    assert capsys.readouterr() == ("", "")


def test_the_command_has_its_own_exit_status_and_its_own_signals(tmp_path: Path) -> None:
    seven = under(tmp_path, sys.executable, "-c", "raise SystemExit(7)")
    assert subprocess.run(seven, timeout=60, check=False).returncode == 7
    waits = under(tmp_path, sys.executable, "-c", "import time; print('up', flush=True); time.sleep(300)")
    with subprocess.Popen(waits, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM


FAKE_POOL = """
class BlockPool:
    def __init__(self): self.taken = 0
    def get_new_blocks(self, num_blocks, hurry=False): return num_blocks
"""


def a_release(folder: Path, version: str) -> Path:
    """What looks like an installed vLLM as far as its version goes."""
    package = folder / "vllm" / "v1" / "core"
    package.mkdir(parents=True)
    (package / "block_pool.py").write_text(FAKE_POOL)
    about = folder / f"vllm-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    (folder / "sitecustomize.py").write_text("print('the other sitecustomize')\n")
    return folder


@pytest.mark.parametrize(
    ("version", "why"), [("9.9.1", "vLLM 9.9.1 is no release that it knows"), ("0.33.0", "is not as it knows it")]
)
def test_an_unknown_release_is_refused_in_a_sentence_and_runs_on(tmp_path: Path, version: str, why: str) -> None:
    release = a_release(tmp_path / "site", version)
    program = "from vllm.v1.core.block_pool import BlockPool; print(BlockPool().get_new_blocks(3))"
    done = subprocess.run(
        under(tmp_path, sys.executable, "-c", program),
        env={**os.environ, "PYTHONPATH": str(release)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == ["the other sitecustomize", "3"]
    said = [line for line in done.stderr.splitlines() if line.startswith("kvproof: ")]
    assert len(said) == 1
    assert why in said[0]
    assert "runs on unchanged" in said[0]


def test_settings_that_make_no_sense_are_said_and_the_engine_runs(tmp_path: Path) -> None:
    hook = Path(cli.__file__).parent.parent / "engines" / "vllm" / "sanitizer" / "hook"
    done = subprocess.run(
        [sys.executable, "-c", "print('runs')"],
        env={**os.environ, "PYTHONPATH": str(hook), "KVPROOF_SANITIZE": "1", "KVPROOF_SANITIZE_EVERY": "often"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "runs\n"
    assert "KVPROOF_SANITIZE_EVERY is 'often'" in done.stderr


def test_a_command_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["run", "--incidents", str(tmp_path), "--", "no-such-program"]) == 2
    assert "there is no program no-such-program" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------- judging


def test_each_thing_that_is_seen_of_a_call_counts() -> None:
    """A call that is right, and each way to make it wrong: no field is looked at in vain."""
    take = Call("take", 0, (1, 2), (0, 0), (1, 1), (), (False, False), (0, 0), (5, 3), 2, (1, 2))
    touch = Call("touch", 0, (1, 2), (0, 3), (1, 4), (True, False), (False, False), (AT_BOTH, 0), (5, 4))
    free = Call("free", 0, (1, 2), (1, 2), (0, 1), (False, False), (True, False), (), (5, 6))
    evict = Call("evict", 0, (1,), (1,), (1,), names=(0,), free=(5, 5))
    reset = Call("reset", 0, (), free=(5, 5), wanted=6)
    wrong = {
        "P2": [
            take._replace(after=(1, 2)),
            touch._replace(after=(1, 5)),
            free._replace(after=(0, 2)),
        ],
        "P3": [
            take._replace(before=(0, 1)),
            take._replace(queued=(False, True)),
            take._replace(free=(5, 4)),
            take._replace(head=(1,), before=(0,)),
            touch._replace(was=(False, False)),
            touch._replace(free=(5, 5)),
            free._replace(queued=(False, False)),
            free._replace(queued=(True, True)),
            free._replace(was=(True, False)),
            free._replace(free=(5, 5)),
        ],
        "P4": [take._replace(null="the null block was handed out")],
        "P5": [take._replace(names=(0, IN_MAP)), touch._replace(names=(IN_MAP, 0)), evict._replace(names=(IN_MAP,))],
        "P7": [
            take._replace(blocks=(2, 1)),
            take._replace(free=(1, 0)),
            take._replace(names=(AT_BOTH, 0)),
            take._replace(wanted=9, blocks=(), free=(5, 4), error="ValueError: too few", head=()),
        ],
        "P8": [touch._replace(queued=(True, False))],
        "P9": [free._replace(before=(0, 2)), free._replace(blocks=(2, 2), before=(1, 1))],
        "P11": [
            evict._replace(names=(AT_BOTH,)),
            evict._replace(after=(0,)),
            reset._replace(free=(4, 4)),
            reset._replace(result=False),
            reset._replace(names=(IN_MAP,)),
        ],
        "L2": [touch._replace(error="RuntimeError: ?")],
    }
    for right in (take, touch, free, evict, reset, reset._replace(free=(3, 3), result=False)):
        assert judge_call(right) is None
    refused = take._replace(wanted=9, blocks=(), before=(), free=(5, 5), head=(), error="ValueError: too few")
    assert judge_call(refused) is None
    assert judge_call(free._replace(before=(2, 2), after=(0, 0), blocks=(2, 2), queued=(True, True))) is None
    for rule, calls in wrong.items():
        for call in calls:
            verdict = judge_call(call)
            assert verdict is not None, call
            assert verdict.rule == rule, (call, verdict)


def test_each_part_of_a_state_counts() -> None:
    pool: dict[str, Any] = {
        "ref": [0, 1, 2, 0],
        "free": [3],
        "num_free": 1,
        "cached": [[0, 0, [1]]],
        "hashes": [[1, [[0, 0]]]],
    }
    tables, holds = {"r0": [[1, 2]], "r1": [[2, 0]]}, [3]

    def rules(held: list[int], exact: bool = True, **changed: object) -> set[str]:
        return {verdict.rule for verdict in judge_state({**pool, **changed}, 0, tables, held, exact)}

    assert rules([]) == set()
    assert rules(holds) == {"P2"}
    assert rules([], ref=[0, 1, 3, 0]) == {"P2"}
    assert rules([], ref=[0, 1, 3, 0], exact=False) == set()
    assert rules([], ref=[0, 1, 2, -1], free=[], num_free=0) == {"P1", "P2"}
    assert "P3" in rules([], num_free=2)
    assert "P3" in rules([], free=[3, -1])
    assert {"P1", "P3"} <= rules([], free=[3, 3], num_free=2)
    assert "P4" in rules([], free=[3, 0], num_free=2)
    assert "P4" in rules([], hashes=[*pool["hashes"], [0, [[1, 0]]]], cached=[*pool["cached"], [1, 0, [0]]])
    assert rules([], hashes=[]) == {"P5"} == rules([], cached=[])
    assert rules([], cached=[*pool["cached"], [1, 0, []]]) == {"P5"}


# ------------------------------------------------------------------------------------------- incidents themselves


def test_a_ring_is_full_when_it_holds_what_it_may_however_few_calls_that_are() -> None:
    """Calls of tens of thousands of blocks: an incident of 64 of them is more than the kit reads."""
    ring = Ring(lambda fields: 5 * len(fields[2]))
    small, large = ("free", 0, (1,), (1,), 3), ("free", 0, tuple(range(80_000)), (1,) * 80_000, 3)
    assert not any(ring.add(small) for _ in range(1000))
    assert [ring.add(large) for _ in range(2)] == [True, True]
    kept = list(ring.calls())
    assert (len(kept), kept[0], kept[-1]) == (1002, small, large)


@pytest.mark.parametrize("links", [True, False])
def test_an_incident_takes_the_place_of_none(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process numbers come again: those of containers always do."""

    def none(*_names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", none)
    settings = Settings(stop=False, every=1, folder=tmp_path / "new" / "folder", kit="")
    for number in range(3):
        assert "The incident: " in filed(settings, Verdict("P2", "leak", "?"), "it", "0", [{"number": number}])
    paths = sorted(settings.folder.iterdir())
    assert sorted(json.loads(path.read_text())["number"] for path in paths) == [0, 1, 2]
    assert all(path.suffix == ".jsonl" and path.stat().st_nlink == 1 for path in paths)


def test_where_the_state_is_not_kept_nothing_is_said_to_be_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pool of more blocks than are kept, a fault of the state is in no call."""
    seen = {"step": 0, "blocks": [1], "before": [1], "after": [0], "was": [False], "queued": [True], "free": [1, 2]}
    violation = {"rule": "P3", "oracle": "free and in the queue", "text": "block 7 is wrong", "at": 0, "blocks": [3]}
    dialect = {"sanitizer": 1, "violation": violation, "pool": {"null": 0, "exact": False}}
    path = tmp_path / "incident.jsonl"
    write_trace(path, Trace("vllm==0.33.0", "sanitizer", [Operation("free", seen)], {"blocks": 4}, dialect))
    assert cli.run(["replay", str(path)]) == 3
    said = capsys.readouterr().out
    assert "not judged: it holds no state of the pool" in said
    assert "written for: P3 free and in the queue: block 7 is wrong" in said
    pool = {"ref": [1, 0, 1, 0], "free": [3, 1], "num_free": 2, "cached": [], "hashes": []}
    state = Operation("state", {}, snapshot={"pool": pool, "tables": {}, "holds": []})
    write_trace(path, Trace("vllm==0.33.0", "sanitizer", [Operation("free", seen), state], {"blocks": 4}, dialect))
    assert cli.run(["replay", str(path)]) == 0
    said = capsys.readouterr().out
    assert "nothing is wrong" in said
    assert "written for: P3 free and in the queue: block 7 is wrong" in said


def test_an_incident_is_never_more_than_the_kit_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests with one long prefix, in many groups: their tables are longer than all blocks together."""
    monkeypatch.setitem(sys.modules, "vllm.v1.core.kv_cache_utils", SimpleNamespace(get_group_id=lambda key: 0))
    pool = SimpleNamespace(null_block=SimpleNamespace(block_id=0), enable_caching=True, blocks=[None] * 10)
    state = {"ref": [0] * 10, "free": [*range(1, 10)], "num_free": 9, "cached": [], "hashes": []}
    call = Call("free", 0, (1,), (1,), (0,), (False,), (False,), (0,), (8, 8))
    settings = Settings(stop=False, every=1, folder=tmp_path, kit="")

    def written(tables: dict[str, list[list[int]]]) -> Trace:
        incident = Incident(
            *("0.33.0", settings, 0, 1, pool, Verdict("P3", "freed and not in the queue", "?"), (), state, [call]),
            *(state, tables, [], False, True),
        )
        return read_trace(incident.written().rpartition(" ")[2])

    shared = [1, 2, 3] * 500
    small, large = written({"a": [[0, 0, 1]]}), written({str(r): [shared] * 9 for r in range(300)})
    assert [len(small.operations), len(large.operations)] == [2, 1]
    assert small.operations[-1].snapshot["tables"] == {"r0": [[1]]}  # type: ignore[index]
    assert [judged(incident_of(trace, "it")).outcome for trace in (small, large)] == ["same", "same"]
    assert MOST_VALUES < limits.VALUES


def test_a_file_system_without_permissions_keeps_an_incident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", none)
    said = filed(Settings(stop=False, every=1, folder=tmp_path, kit=""), Verdict("P2", "leak", "?"), "it", "0", [{}])
    assert "The incident: " in said


# ------------------------------------------------------------------------------------------------- hostile files


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("blocks", [99]),
        ("blocks", [-1]),
        ("after", [1, 2, 3]),
        ("before", "no"),
        ("beside", 1),
        ("names", [1, 2, 3, 4]),
    ],
)
def test_an_incident_that_cannot_be_is_refused(tmp_path: Path, field: str, value: object) -> None:
    path = tmp_path / "incident.jsonl"
    args = {"step": 0, "blocks": [1], "before": [1], "after": [0], "was": [False], "queued": [True], "free": [1, 2]}
    violation = {"rule": "P3", "oracle": "?", "text": "?", "at": 0, "blocks": [1]}
    header = {"format": "kvproof-trace", "version": 1, "subject": "vllm==0.33.0", "level": "sanitizer", "kit": ""}
    dialect = {"sanitizer": 1, "violation": violation, "pool": {"null": 0, "exact": False}}
    lines = [{**header, "sizes": {"blocks": 4}, "dialect": dialect}, {"op": "free", "args": args}]
    lines.append({"end": True, "operations": 1})
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert judged(incident_of(read_trace(path), "it")).outcome == "none"
    trace = read_trace(path)
    trace.operations[0].args[field] = value
    write_trace(path, trace)
    with pytest.raises(TraceError, match="no readable incident"):
        incident_of(read_trace(path), "it")


@pytest.mark.parametrize("at", [-2, -1, 1, 2**70])
def test_an_incident_whose_fault_is_not_in_it_is_refused(at: int) -> None:
    """A file of which the end was cut and the closing line mended by hand: nothing would be judged, and all right."""
    seen = {"step": 0, "blocks": [1], "before": [1], "after": [0], "was": [False], "queued": [True], "free": [1, 2]}
    violation = {"rule": "P3", "oracle": "?", "text": "?", "at": at, "blocks": [1]}
    dialect = {"sanitizer": 1, "violation": violation, "pool": {"null": 0, "exact": False}}
    trace = Trace("vllm==0.33.0", "sanitizer", [Operation("free", seen)], {"blocks": 4}, dialect)
    with pytest.raises(TraceError, match="shows its fault, and it has 1"):
        incident_of(trace, "it")
    chunks = {"violation": violation, "chunks": {"number": 0}}
    load = {"step": 0, "keys": [], "before": [], "after": [], "counters": [1, 0, 0]}
    trace = Trace("vllm==0.33.0", "sanitizer", [Operation("load", load)], {"blocks": 4}, chunks)
    with pytest.raises(TraceError, match="shows its fault, and it has 1"):
        chunk_incident_of(trace, "it")


def test_a_take_that_saw_more_of_the_queue_than_it_asked_for_is_refused() -> None:
    seen = {"step": 0, "blocks": [1, 2], "before": [0, 0], "after": [1, 1], "queued": [False, False], "head": [1, 2]}
    violation = {"rule": "P7", "oracle": "?", "text": "?", "at": 0, "blocks": [1]}
    dialect = {"sanitizer": 1, "violation": violation, "pool": {"null": 0, "exact": False}}
    take = Operation("take", {**seen, "wanted": 1, "free": [5, 3]})
    trace = Trace("vllm==0.33.0", "sanitizer", [take], {"blocks": 4}, dialect)
    with pytest.raises(TraceError, match="the head of take is longer than what it asked for"):
        incident_of(trace, "it")
