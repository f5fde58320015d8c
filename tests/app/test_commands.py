"""prove, explore, fuzz, replay and verify as a user runs them: exit statuses, JSON, traces, one-sentence errors."""

import json
import time
from pathlib import Path

import pytest

from kvproof.checkers.lockstep import Call
from kvproof.checkers.script import to_trace
from kvproof.checkers.trace import read_trace, write_trace
from kvproof.cli import main as cli
from kvproof.harness.instances import Instance
from kvproof.harness.tiers.targets import TARGETS
from kvproof.machine import Model
from kvproof.machine.concrete import Concrete
from kvproof.spec.pool.keys import Keys
from kvproof.spec.tiers.tiered import Tiered

from ..marks import slow_but

ROOT = Path(__file__).parents[2]
ALLOC = f"{ROOT}/tests/explore/alloc.py:Alloc"
OPEN = f"{ROOT}/tests/smt/test_leads.py"
BROKEN = f"{ROOT}/tests/smt/broken_pools.py"


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must be refused; return the one sentence."""
    assert cli.run(list(arguments)) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("kvproof: ")
    assert shown.count("\n") == 1
    return shown


def test_prove_gives_json_and_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["prove", "keys", "--fresh", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["obligations"] == report["proved"] > 50
    assert (report["refuted"], report["unknown"], report["gaps"]) == (0, 0, [])
    (machine,) = report["machines"]
    model = Model.of(Keys)
    assert machine["machine"] == "Keys"
    assert machine["actions"] == len(model.actions)
    assert machine["properties"] == len(model.of_kind("invariant")) + len(model.of_kind("step"))
    assert machine["left_to_exploration"] == len(model.of_kind("sometimes"))
    assert machine["untouched"] >= 0
    assert machine["recalled"] < report["obligations"]
    assert 0 < max(o["seconds"] for o in machine["obligations"]) <= machine["seconds"] == report["seconds"]


def test_prove_says_of_how_much_it_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["prove", "keys", "file-store"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Proved for any number of blocks, requests and hashes, in every dialect:")
    columns = "machine actions properties obligations proved refuted unknown slowest computing"
    assert columns in " ".join(shown.split())


@pytest.mark.slow
def test_a_heading_says_what_holds_only_where_all_of_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["prove", "keys", f"{BROKEN}:WriteShared", "--timeout", "2"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 machines are proved for any size; what is refuted has a counterexample below:" in shown
    assert "refuted: WriteShared.write: P6 a_request_reads_its_own_prefix (invariants.py:" in shown
    assert "Proved for any" not in shown
    assert cli.run(["prove", "keys", f"{OPEN}:Twice", "--timeout", "1"]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 machines are proved for any size; the others are not decided:" in shown
    assert "unknown: Twice.go" in shown
    assert "Proved for any" not in shown


@pytest.mark.slow
def test_a_refutation_is_status_1_and_its_trace_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = f"{BROKEN}:EvictKeepsMap"
    assert cli.run(["prove", machine, "--traces", str(tmp_path), "--timeout", "1"]) == 1
    assert "EvictKeepsMap.evict(b=0) breaks P5 the_map_and_the_blocks_agree" in capsys.readouterr().out
    trace = next(p for p in sorted(tmp_path.iterdir()) if "evict" in p.name)
    assert read_trace(trace).subject == "EvictKeepsMap"
    assert cli.run(["replay", str(trace), "--machine", machine]) == 1
    assert "the_map_and_the_blocks_agree" in capsys.readouterr().out
    assert cli.run(["replay", str(trace), "--machine", "pool"]) == 0


def test_explore_counts_the_states_of_a_machine_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    params = tmp_path / "params.json"
    params.write_text('{"number": [0, 1, 2]}')
    sizes = "Block=3,Request=2,Hash=2"
    assert "--params FILE" in error_of(capsys, "explore", ALLOC, "--size", sizes)
    assert cli.run(["explore", ALLOC, "--size", sizes, "--params", str(params), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["states"], report["transitions"] + 1) == (2_106, 19_491)
    assert report["violations"] == []


@pytest.mark.parametrize(
    ("machine", "options", "states"),
    [
        pytest.param(
            "mirror", ["--set", "capacity=2,cost=3", "--free-order", "append"], 25_584, marks=pytest.mark.slow
        ),
        ("pin", ["--size", "Request=1", "--set", "window=2"], 1_423),
        pytest.param(
            "tiered", ["--size", "Request=1", "--no-null-block", "--set", "pinning=0"], 3_872, marks=pytest.mark.slow
        ),
        pytest.param("offload", ["--size", "Request=1", "--set", "lazy=1"], 16_947, marks=pytest.mark.slow),
    ],
)
def test_explore_knows_machines_of_tiers(
    machine: str, options: list[str], states: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["explore", machine, *options, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["states"] == states


EXAMPLES = {"offload": "300"}
"""Where the usual number does not show every action."""


@pytest.mark.parametrize("level", slow_but(["mirror", "pin", "tiered", "offload"], {"mirror"}, {"offload"}))
def test_fuzz_drives_the_reference_implementation_at_each_level(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.run(
            ["fuzz", "refimpl", "--level", level, "--examples", EXAMPLES.get(level, "25"), "--seed", "3", "--json", "-"]
        )
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert (report["target"], report["level"], report["findings"]) == ("refimpl", level, [])


def test_a_trace_of_tiers_replays_beside_the_reference_implementation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance = Instance.from_seed(2, machine=Tiered)
    target = TARGETS["tiered"](instance)
    calls = [Call("admit", (0,)), Call("mirror", (0,)), Call("demote", (1,)), Call("mirror", (1,), probe=True)]
    trace = to_trace(Concrete(instance.scope.model, instance.scope), target, calls, seed=None, note="nothing much")
    write_trace(tmp_path / "trace.jsonl", trace)
    assert cli.run(["replay", str(tmp_path / "trace.jsonl"), "--target", "refimpl"]) == 0
    assert "4 operations on Tiered and refimpl: nothing is wrong" in " ".join(capsys.readouterr().out.split())


def test_explore_writes_the_shortest_trace_of_a_violation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, params = tmp_path / "bug.jsonl", tmp_path / "params.json"
    params.write_text('{"number": [0, 1]}')
    machine = f"{ROOT}/tests/explore/alloc.py:AllocBug"
    options = ["--size", "Block=2,Request=1,Hash=1", "--params", str(params), "--trace", str(path)]
    assert cli.run(["explore", machine, *options]) == 1
    shown = capsys.readouterr().out
    assert STATES in shown
    assert shown.count("1. alloc(r=0)") == 1, "both violations come by the same way, which is shown once"
    assert len(read_trace(path).operations) == 1
    assert cli.run(["replay", str(path), "--machine", machine]) == 1
    assert STATES in capsys.readouterr().out


STATES = """
                 before    after
  number[b1]     1
  ref[b0]        0         1   <- changed
  holds[r0, b0]  False     True   <- changed
  free           [b0, b1]  [b0, b1]
"""
"""What a violation shows, as a proof's counterexample does."""


def test_an_unfinished_exploration_is_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explore", "pool", "--max-states", "50"]) == 3


def test_full_memory_is_status_3_with_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explore", "pool", "--memory", "0.001", "--json", "-"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert (report["stopped"], report["complete"], report["violations"]) == ("memory", False, [])
    assert 1_000 < report["states"] < 259_872
    assert 0 < report["explored_depth"] <= report["depth"] < 25
    assert report["gaps"][0]["mend"] == "give more --memory, or smaller sizes"
    assert "has no room for more in 1.0 MiB; there are perhaps " in report["gaps"][0]["why"]


def test_a_hopeless_scope_is_not_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    params = tmp_path / "params.json"
    params.write_text(json.dumps({"number": list(range(30))}))
    said = error_of(capsys, "explore", ALLOC, "--size", "Block=30,Request=20,Hash=30", "--params", str(params))
    assert "Block=30,Request=20,Hash=30: action cache alone has 18,000" in said
    monkeypatch.setattr("kvproof.checkers.explore._PILOT", range(500, 10**6))
    monkeypatch.setattr("kvproof.checkers.explore._HOPELESS", 1e-9)
    assert cli.run(["explore", "pool"]) == 3
    assert "--anyway to go on" in capsys.readouterr().out
    assert cli.run(["explore", "pool", "--anyway", "--max-states", "2000", "--json", "-"]) == 3
    assert json.loads(capsys.readouterr().out)["stopped"] == "states"


@pytest.mark.slow
def test_fuzz_reports_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["fuzz", "refimpl", "--examples", "250", "--seed", "3", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["findings"] == []
    assert all(c["applied"] > 0 for c in report["coverage"].values())
    assert {"target", "level", "examples", "steps", "seconds"} <= report.keys()


def test_errors_are_one_sentence_that_says_how_to_mend_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "name one of pool" in error_of(capsys, "prove", "nothing")
    assert "has no machine Nobody" in error_of(capsys, "explore", f"{ROOT}/tests/explore/alloc.py:Nobody")
    assert "write it as Block=5" in error_of(capsys, "explore", "pool", "--size", "Block=many")
    assert "Pool has no sort Blob" in error_of(capsys, "explore", "pool", "--size", "Blob=2")
    assert "write it as capacity=2" in error_of(capsys, "explore", "mirror", "--set", "capacity")
    assert "Pool has nothing to set" in error_of(capsys, "explore", "pool", "--set", "capacity=2")
    assert "name one of pool, mirror, pin, tiered" in error_of(capsys, "fuzz", "refimpl", "--level", "scheduler")
    assert "give --level once" in error_of(capsys, "fuzz", "refimpl", "--level", "pin", "--level", "mirror")
    assert "use cpu or cuda" in error_of(capsys, "explore", "pool", "--device", "tpu")
    assert "names no engine" in error_of(capsys, "fuzz", "vllm")
    assert "cannot be read" in error_of(capsys, "replay", str(tmp_path / "missing.jsonl"))
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text('{"some":"thing"}\n')
    error_of(capsys, "replay", str(foreign))
    assert foreign.read_text() == '{"some":"thing"}\n'
    assert "is no file" in error_of(capsys, "verify", "--trace", str(tmp_path / "none.jsonl"))
    (tmp_path / "cut.jsonl").write_text('{"timestamp": 1, "inp')
    began = time.process_time()
    assert "cut.jsonl" in error_of(capsys, "verify", "--trace", str(tmp_path / "cut.jsonl"))
    assert time.process_time() - began < 5, "it is read before anything is proved"


@pytest.mark.slow
def test_the_dialect_blis_is_refuted_with_a_trace_that_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "blis.jsonl"
    sizes = "Block=3,Request=1,Position=3,Hash=3,Content=4"
    options = ["--size", sizes, "--seed", "7", "--free-order", "append", "--trace", str(trace)]
    assert cli.run(["explore", "blis-mirror", *options]) == 1
    assert "M6 a_reload_destroys_nothing_that_is_relied_on" in capsys.readouterr().out
    assert cli.run(["replay", str(trace)]) == 1
    assert "M6 a_lookup_ends_where_it_must" in capsys.readouterr().out.replace("\n", " ")  # the first of the three
