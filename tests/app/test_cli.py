"""The command line: exit statuses, one-sentence errors, and JSON."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvproof.checkers.trace import TraceError
from kvproof.cli import main as cli
from kvproof.errors import UsageError
from kvproof.untrusted.numbers import parse_capacities, parse_sizes
from kvproof.workload.target import RefimplTarget, View

from .test_workload import make_lines, write_lines


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "small.jsonl", make_lines(1))


def test_workload_prints_a_table(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["workload", str(trace), "--capacity", "30,unlimited"]) == 0
    shown = capsys.readouterr().out
    assert "small.jsonl" in shown
    assert "unlimited" in shown
    assert "…" not in shown


def test_workload_gives_json_alone_on_standard_output(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["workload", str(trace), "--capacity", "30,unlimited", "--check", "every", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"requests", "blocks", "hit_rate", "operations_per_second", "runs"} <= report.keys()
    assert report["runs"][0]["capacity"] == 30
    assert report["runs"][1]["hit_rate"] == report["hit_rate"] > report["runs"][0]["hit_rate"]
    assert report["violations"] == 0


def test_workload_replays_on_the_specification_too(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = []
    for target in ("spec", "refimpl"):
        assert cli.run(["workload", str(trace), "--target", target, "--capacity", "30", "--json", "-"]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert [report["target"] for report in reports] == ["spec", "refimpl"]
    assert reports[0]["hit_rate"] == reports[1]["hit_rate"] > 0


def test_json_file_is_replaced_whole(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    assert cli.run(["workload", str(trace), "--limit", "5", "--overlap", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert (report["requests"], report["mode"]) == (5, "overlap")


def test_violation_is_status_1_and_says_how_to_see_it_again(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RefimplTarget.view

    def view(self: RefimplTarget) -> View:
        state = whole(self)
        return View(state.free, state.num_free + 1, state.ref_cnt, state.keys, state.copies)

    monkeypatch.setattr(RefimplTarget, "view", view)
    assert cli.run(["workload", str(trace), "--capacity", "40", "--check", "every", "--json", "-"]) == 1
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["violations"] == 1
    assert report["runs"][0]["violation"]["rule"] == "P3"
    assert f"again: kvproof workload {trace} --capacity 40 --limit 1 --check every" in captured.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["workload"], "missing argument 'FILE'; see kvproof workload --help"),
        (["workload", "absent.jsonl"], "absent.jsonl cannot be read"),
        (["workload", "FILE", "--bogus"], "no such option: --bogus; see kvproof workload --help"),
        (["workload", "FILE", "--check", "never"], "'never' is not one of 'every', 'sampled', 'end'"),
        (["workload", "FILE", "--capacity", "0"], "--capacity 0: '0' is no number of blocks"),
        (["workload", "FILE", "--capacity", "5,,6"], "'' is no number of blocks"),
        (["workload", "FILE", "--capacity", "999999999999"], "is more than"),
        (["workload", "FILE", "--target", "spec", "--capacity", "1000000"], "use --limit for fewer requests"),
        (["workload", "FILE", "--limit", "0"], "--limit"),
        (["workload", "FILE", "--json", "FOLDER"], "is not a file"),
        (["workload", "FILE", "--json", "FOLDER/no/report.json"], "cannot be written"),
        (["nonsense"], "no such command 'nonsense'; see kvproof --help"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    trace: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    folder = str(trace.parent)
    filled = [part.replace("FILE", str(trace)).replace("FOLDER", folder) for part in arguments]
    assert cli.run(filled) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kvproof: ")
    assert captured.err.count("\n") == 1
    assert sentence in captured.err
    assert [entry.name for entry in trace.parent.iterdir()] == ["small.jsonl"]


@pytest.mark.parametrize("error", [UsageError("sentence one"), TraceError("sentence two")])
def test_known_errors_are_shown_as_they_are(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert cli.run([]) == 2
    assert capsys.readouterr().err == f"kvproof: {error}\n"


def test_a_fault_of_the_kit_is_never_a_refutation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", fail)
    assert cli.run([]) == 2
    assert "a fault of kvproof itself (ZeroDivisionError)" in capsys.readouterr().err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kvproof ")
    assert cli.run(["workload", "--help"]) == 0
    assert "--capacity" in capsys.readouterr().out
    assert cli.run([]) == 2


def test_the_command_starts_without_the_heavy_libraries() -> None:
    code = "import sys, kvproof.cli.main; print({'torch', 'z3', 'hypothesis', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_sizes_and_capacities() -> None:
    assert parse_sizes("Block=5, Request=2") == {"Block": 5, "Request": 2}
    assert parse_capacities("1000, unlimited") == [1000, None]
    for wrong in ("Block", "Block=", "Block=0", "Block=-1", "=3", "Block=5,Block=6", "Block=5,", "Block=٣"):
        with pytest.raises(UsageError, match="--size"):
            parse_sizes(wrong)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fuzz", "refimpl", "--time"],
        ["hunt", "vllm==0.33.0", "--hours"],
        ["hunt", "vllm==0.33.0", "--minutes"],
        ["compare", "vllm==0.33.0", "--time"],
        ["check-change", "--base", "refimpl", "--head", "refimpl", "--time"],
        ["prove", "pool", "--timeout"],
    ],
    ids=lambda arguments: " ".join((arguments[0], arguments[-1])),
)
@pytest.mark.parametrize("seconds", ["inf", "nan"])
def test_a_time_that_does_not_end_is_refused(
    arguments: list[str], seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be divided among rounds, or given to a solver."""
    assert cli.run([*arguments, seconds]) == 2
    assert f"invalid value for '{arguments[-1]}'" in capsys.readouterr().err
