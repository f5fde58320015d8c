"""The sanitizer over the chunk manager of a release: what it finds, what it writes, and each thing that it looks at."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvproof.checkers.trace import TraceError, read_trace, write_trace
from kvproof.cli import main as cli
from kvproof.engines.vllm.sanitizer.chunk_judging import (
    STORING,
    Books,
    ChunkCall,
    ChunkState,
    judge_chunk_call,
    judge_chunks,
)
from kvproof.spec.rules import RULES
from kvproof.testing.chunk_incidents import chunk_incident_of, judged_chunks

from .test_sanitizer import Played, a_release, all_faults, under

CHILD = Path(__file__).with_name("fakes") / "sanitized_chunks.py"

FOUND = {
    "none": None,
    "store ends twice": ("O7", "ends what is not in flight"),
    "load ends twice": ("O7", "ends what is not in flight"),
    "ready at once": ("P5", "stored before its store ended"),
    "same chunk": ("P6", "chunk in use handed out"),
    "evicts anything": ("O12", "evicts a pinned entry"),
    "load without pin": ("P2", "references of chunks"),
    "load loses chunk": ("O5", "a load lost its chunk"),
    "store loses chunk": ("O2", "a store lost its chunk"),
    "negative": ("P2", "negative count"),
    "failed store stays": ("P5", "entry without a store"),
    "chunk is not given back": ("P1", "counter of chunks that hold nothing"),
    "wrong chunk is given back": ("P6", "chunk in use handed out"),
    "refuses": ("O12", "refused with enough evictable"),
    "reset leaves": ("O10", "reset"),
}
"""What each fault of the child must be found by first."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return all_faults(CHILD, "0.33.0", tmp_path_factory.mktemp("incidents"), every=4)


def test_each_fault_is_found_by_its_rule_and_a_clean_run_is_silent(played: Played) -> None:
    assert played.status == 0, played.errors
    assert "the sanitizer watches the chunk managers of vLLM 0.33.0" in played.errors
    for fault, expected in FOUND.items():
        found = played.incidents(fault)
        if expected is None:
            assert not found
            continue
        violation = read_trace(found[0]).dialect["violation"]
        assert (violation["rule"], violation["oracle"]) == expected, fault
        assert violation["sentence"] == RULES[expected[0]].sentence
    assert "the sanitizer failed" not in played.errors


def test_an_incident_shows_the_same_rule_at_the_same_operation_again(
    played: Played, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for fault in FOUND:
        for path in played.incidents(fault):
            recorded = read_trace(path)
            assert "\\x" not in path.read_text(), "no hash of a key is quoted"
            incident = chunk_incident_of(recorded, fault)
            outcome, found = judged_chunks(incident)
            assert (outcome, found and found[0]) == ("same", incident.at), path
    (path, *_) = played.incidents("load loses chunk")
    assert cli.run(["replay", str(path), "--json", str(tmp_path / "report.json")]) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["outcome"], report["problem"]["rule"], report["problem"]["blocks"]) == ("same", "O5", [0])
    said = " ".join(capsys.readouterr().out.split())
    assert RULES["O5"].sentence in said
    assert "load key 0 (chunk 0 ref_cnt 0 → chunk 0 ref_cnt 1)" in said
    assert cli.run(["shrink", str(path), "--to", str(tmp_path / "smaller.jsonl")]) == 2
    assert "it cannot be made smaller" in capsys.readouterr().err


def test_it_stops_the_engine_only_when_told_to(played: Played) -> None:
    assert "stopped ViolationError O7" in played.said


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("keys", [[1]]),
        ("keys", ["no"]),
        ("after", []),
        ("before", [[1]]),
        ("beside", 1),
        ("counters", [1]),
        ("op", "lookup"),
    ],
)
def test_an_incident_that_cannot_be_is_refused(played: Played, tmp_path: Path, field: str, value: Any) -> None:
    trace = read_trace(played.incidents("refuses")[0])
    operation = trace.operations[-1]
    if field == "op":
        operation.op = value
    else:
        operation.args[field] = value
    write_trace(tmp_path / "incident.jsonl", trace)
    with pytest.raises(TraceError, match="no readable incident"):
        chunk_incident_of(read_trace(tmp_path / "incident.jsonl"), "it")


FAKE_MANAGER = """
class CPUOffloadingManager:
    def prepare_store(self, keys, req_context): return len(keys)
    def complete_store(self, keys, req_context, {last}=True): pass
    def _prepare_load(self, keys, req_context, *, record_access): pass
    def complete_load(self, keys, req_context): pass
    def reset_cache(self): pass
"""


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("well", "runs on unchanged: CPUOffloadingManager.complete_store of vLLM 0.33.0 is not as it knows it"),
        ("success", "a CPUOffloadingManager without _policy is not as it knows it"),
    ],
)
def test_an_unknown_shape_is_refused_in_a_sentence_and_runs_on(tmp_path: Path, last: str, why: str) -> None:
    release = a_release(tmp_path / "site", "0.33.0")
    package = release / "vllm" / "v1" / "kv_offload" / "cpu"
    package.mkdir(parents=True)
    (package / "manager.py").write_text(FAKE_MANAGER.format(last=last))
    program = "from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager as M; print(M().prepare_store([1], 0))"
    done = subprocess.run(
        under(tmp_path, sys.executable, "-c", program),
        env={**os.environ, "PYTHONPATH": str(release)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "1"
    assert why in done.stderr.splitlines()[-1]


# ------------------------------------------------------------------------------------------------------- judging

FIRST = ((0, 0, 0), (1, 1, 2), (2, 2, STORING))
"""Of four chunks the first three have entries: one at rest, one with two loads in flight, one being stored."""


def test_each_thing_that_is_seen_of_a_call_counts() -> None:
    """A call that is right, and each way to make it wrong: no field is looked at in vain."""
    offer = ChunkCall("offer", 0, (3, 4), (None, None), ((3, -1), (0, -1)), (0, 0, 3), (3, 0), (3, 4), (0,), (None,))
    refused = ChunkCall("offer", 0, (3, 4, 5), (None,) * 3, (None,) * 3, (1, 1, 1), ok=False, wanted=3)
    stored = ChunkCall("stored", 0, (2,), ((2, -1),), ((2, 0),), (1, 2, 0))
    failed = ChunkCall("stored", 0, (2,), ((2, -1),), (None,), (2, 1, 0), ok=False)
    load = ChunkCall("load", 0, (0, 1), ((0, 0), (1, 2)), ((0, 1), (1, 3)), (1, 0, 1), (0, 1))
    loaded = ChunkCall("loaded", 0, (1,), ((1, 2),), ((1, 1),), (1, 1, 1))
    reset = ChunkCall("reset", 0, (), (), (), (4, 0, 0))
    wrong = {
        "O12": [
            offer._replace(keys=(3, 4, 0), before=(None, None, (0, 0)), after=((3, -1), (0, -1), None)),
            offer._replace(evicted=(1,)),
            offer._replace(evicted=(2,)),
            offer._replace(evicted=(9,)),
            offer._replace(stored=(3, 9)),
            offer._replace(stored=(3, 3)),
            refused._replace(wanted=2),
            refused._replace(after=(None, None, (3, -1))),
            refused._replace(counters=(1, 0, 1)),
        ],
        "O3": [
            offer._replace(keys=(3, 1), before=(None, (1, 2)), stored=(3, 1)),
            offer._replace(keys=(3, 2), before=(None, (2, -1)), stored=(3, 2)),
        ],
        "P7": [offer._replace(chunks=(3,)), load._replace(chunks=(0,))],
        "P6": [
            offer._replace(chunks=(3, 3)),
            offer._replace(chunks=(3, 1)),
            offer._replace(chunks=(3, 4)),
            load._replace(chunks=(1, 0)),
            load._replace(keys=(0, 2), before=((0, 0), (2, -1))),
            load._replace(keys=(0, 7), before=((0, 0), None), error="AssertionError: not found"),
        ],
        "P5": [
            offer._replace(after=((3, 0), (0, -1))),
            offer._replace(left=((0, 0),)),
            stored._replace(after=((2, -1),)),
            failed._replace(after=((2, 0),)),
            load._replace(before=(None, (1, 2))),
            offer._replace(before=((3, 0), None)),
        ],
        "P2": [
            load._replace(after=((0, 0), (1, 3))),
            loaded._replace(after=((1, 2),)),
            loaded._replace(after=((1, -2),)),
            loaded._replace(before=((1, 1),)),
        ],
        "P1": [
            offer._replace(counters=(1, 0, 3)),
            stored._replace(counters=(1, 2, -1)),
            loaded._replace(counters=(1, 2, 1)),
            reset._replace(counters=(3, 0, 0)),
        ],
        "O2": [offer._replace(after=((3, -1), None)), stored._replace(before=(None,))],
        "O5": [loaded._replace(after=(None,)), loaded._replace(before=((3, 2),))],
        "O7": [
            stored._replace(keys=(0,), before=((0, 0),)),
            stored._replace(keys=(7,), before=(None,)),
            loaded._replace(keys=(0,), before=((0, 0),), error="AssertionError: ref_cnt is already 0"),
            loaded._replace(keys=(1, 1, 1), before=((1, 2),) * 3),
        ],
        "O10": [reset._replace(left=((0, 0),))],
        "O9": [offer._replace(stored=(3,), chunks=(3,), wanted=2)],
        "L2": [loaded._replace(error="RuntimeError: ?"), offer._replace(error="RuntimeError: ?")],
    }
    for right in (offer, offer._replace(wanted=2), refused, stored, failed, load, loaded, reset):
        assert judge_chunk_call(Books(4, FIRST), right) is None, right
    for rule, calls in wrong.items():
        for call in calls:
            verdict = judge_chunk_call(Books(4, FIRST), call)
            assert verdict is not None, call
            assert verdict.rule == rule, (call, verdict)


def test_each_part_of_a_state_counts() -> None:
    right = ChunkState(FIRST, (3,), 4, (1, 1, 1))

    def rules(**changed: Any) -> set[str]:
        return {verdict.rule for verdict in judge_chunks(Books(4, FIRST), right._replace(**changed))}

    assert rules() == set()
    assert rules(free=(), begun=3) == set()
    assert rules(entries=(*FIRST, (9, 3, 0)), free=()) == {"P5"}
    assert rules(entries=FIRST[:2]) == {"O2", "P1"}
    assert rules(entries=((0, 0, 0), (1, 0, 2), (2, 2, STORING)), free=(3, 1)) == {"O5", "P6"}
    assert rules(counters=(1, 1, 0)) == {"P1"}
    assert rules(free=(3, 3)) == {"P3"}
    assert rules(free=(3, 2)) == {"P3"}
    assert rules(free=()) == rules(begun=5) == rules(free=(4,)) == {"P1"}
