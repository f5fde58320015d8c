"""``--sarif``: what GitHub's code scanning requires is there, and a fault is the same result in every run."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvproof.checkers.fuzz import Difference, FuzzReport
from kvproof.checkers.trace import Operation, Trace
from kvproof.cli import main as cli
from kvproof.cli.sarif import DIFFERS, Found, to_sarif
from kvproof.cli.schema.runs import Finding
from kvproof.spec.rules import RULES

from .test_pytest_plugin import suite


def check(log: dict[str, Any]) -> None:
    """What GitHub's page "SARIF support for code scanning" says is required of a log."""
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "kvproof"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)) > 0
    for rule in driver["rules"]:
        assert all(rule[part]["text"] for part in ("shortDescription", "fullDescription", "help"))
        assert rule.get("helpUri", "https://").startswith("https://")
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "note")
        assert result["message"]["text"]
        assert result["partialFingerprints"]["primaryLocationLineHash"]
        assert 1 <= len(result["locations"]) <= 10
        for location in (*result["locations"], *result.get("relatedLocations", ())):
            physical = location["physicalLocation"]
            assert not physical["artifactLocation"]["uri"].startswith(("/", "file:", ".."))
            assert physical["region"]["startLine"] >= 1
            assert {"startColumn", "endLine", "endColumn"} <= physical["region"].keys()


OF_ENGINE = Finding(oracle="length of a hit", rule="P14", steps=3, trace="…", key=["host"], text="7 of 7", level="pool")
OF_MACHINE = Finding(oracle="free", rule="admit", steps=9, trace="…", report="…", script="…")


def found(*findings: Finding) -> dict[str, Any]:
    return to_sarif("vllm@.venv/bin/python", [Found(each, Path("out/a b.jsonl"), False) for each in findings])


def results(*findings: Finding) -> list[dict[str, Any]]:
    (run,) = found(*findings)["runs"]
    return list(run["results"])


def test_what_was_found_beside_a_machine_and_of_an_engine_has_what_github_requires() -> None:
    log = found(OF_ENGINE, OF_MACHINE)
    check(log)
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [*RULES, DIFFERS.code]
    engine, machine = run["results"]
    assert (engine["ruleId"], machine["ruleId"]) == ("P14", "differs")
    assert engine["message"]["text"] == "P14 length of a hit: 7 of 7 (vllm@.venv/bin/python)"
    assert machine["message"]["text"].startswith("free differs from the machine's after admit, in 9 steps")
    uri = engine["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "out/a%20b.jsonl"


SPOILED: list[Callable[[dict[str, Any], dict[str, Any]], object]] = [
    lambda log, _: log.update(version="2.0.0"),
    lambda log, _: log["runs"][0]["tool"]["driver"].pop("name"),
    lambda log, _: log["runs"][0]["tool"]["driver"]["rules"].pop(0),
    lambda _, result: result.update(ruleId="P99"),
    lambda _, result: result["message"].update(text=""),
    lambda _, result: result["locations"].clear(),
    lambda _, result: result["locations"][0]["physicalLocation"]["artifactLocation"].update(uri="/abs.py"),
    lambda _, result: result["locations"][0]["physicalLocation"]["region"].pop("startLine"),
    lambda _, result: result["partialFingerprints"].clear(),
]


@pytest.mark.parametrize("spoil", SPOILED)
def test_the_check_notices_what_is_missing(spoil: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    log = copy.deepcopy(found(OF_ENGINE))
    spoil(log, log["runs"][0]["results"][0])
    with pytest.raises((AssertionError, KeyError, IndexError)):
        check(log)


def test_a_fingerprint_is_that_of_the_fault_and_not_of_the_run() -> None:
    def prints(**changed: Any) -> str:
        told = {name: getattr(OF_ENGINE, name) for name in OF_ENGINE.__struct_fields__} | changed
        (result,) = results(Finding(**told))
        return str(result["partialFingerprints"]["primaryLocationLineHash"])

    assert prints() == prints(text="4 of 4", steps=11, trace="another", seconds=3.0)
    others = [prints(), prints(rule="P6"), prints(oracle="x"), prints(key=["device"]), prints(level="manager")]
    assert len(set(others)) == len(others)


def test_what_is_no_news_is_suppressed_and_says_why() -> None:
    told = {name: getattr(OF_ENGINE, name) for name in OF_ENGINE.__struct_fields__} | {"expected": "is known"}
    (result,) = results(Finding(**told))
    assert result["level"] == "note"
    assert result["suppressions"] == [{"kind": "external", "justification": "is known"}]
    assert "suppressions" not in results(OF_ENGINE)[0]


def test_a_fault_of_a_class_stands_at_that_class_and_names_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(suite(tmp_path))
    options = ["--examples", "40", "--time", "2", "--traces", "out", "--sarif", "found.sarif"]
    assert cli.run(["fuzz", "python:test_mine.py:Wrong", *options]) == 1
    log = json.loads(Path("found.sarif").read_text())
    check(log)
    result = log["runs"][0]["results"][0]
    assert result["ruleId"] == "P14"
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "test_mine.py"
    line = Path("test_mine.py").read_text().splitlines()[physical["region"]["startLine"] - 1]
    assert line.startswith("class Wrong")
    trace = result["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert cli.run(["replay", trace, "--target", "python:test_mine.py:Wrong"]) == 1
    assert f"again: kvproof replay {trace} --target" in result["message"]["text"]


def test_a_place_that_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none" / "found.sarif"
    assert cli.run(["fuzz", "refimpl", "--examples", "100000", "--sarif", str(path)]) == 2
    assert "--sarif" in capsys.readouterr().err


@pytest.mark.parametrize("differs", [True, False])
def test_a_run_beside_a_machine_has_a_log_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: bool) -> None:
    monkeypatch.chdir(tmp_path)
    run = Trace("refimpl", "pool", [Operation("admit", {})], {})
    report = FuzzReport("refimpl", "pool", examples=1, steps=1)
    if differs:
        report.findings.append(Difference("free", "admit", "the report", run, "pass", 1))
    monkeypatch.setattr("kvproof.cli.commands.fuzz.run", lambda *_, **__: report)
    status = cli.run(["fuzz", "refimpl", "--traces", "out", "--sarif", "found.sarif"])
    assert (status == 1) == differs
    log = json.loads(Path("found.sarif").read_text())
    check(log)
    places = [place for result in log["runs"][0]["results"] for place in result["relatedLocations"]]
    uris = [place["physicalLocation"]["artifactLocation"]["uri"] for place in places]
    assert uris == (["out/refimpl-0.jsonl"] if differs else [])
    assert all(Path(uri).is_file() for uri in uris)
