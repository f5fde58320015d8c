"""What ``--json`` writes is typed, documented, and stays: see kvproof/cli/schema, docs/json.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvproof.checkers.trace import Operation, Trace, write_trace
from kvproof.cli import main as cli
from kvproof.cli.output import Output
from kvproof.cli.schema import SCHEMA, Report, campaigns, holdings, machines, runs, streams, workloads
from kvproof.cli.schema.catalog import REPORTS, json_schema, kinds_in, sentences
from kvproof.cli.schema.page import keys_of, page
from kvproof.version import kit_version
from tests.conftest import keeps_to_the_schema

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name(f"json_keys_{SCHEMA}.txt")
ALL: tuple[type[Report], ...] = (Report, *REPORTS)
KINDS = list(dict.fromkeys(kind for report in ALL for kind in kinds_in(report)))


def keys() -> list[str]:
    return [f"{kind.__name__}.{key}: {value}" for kind in KINDS for key, value in keys_of(kind).items()]


def test_the_page_is_the_schema() -> None:
    assert (ROOT / "docs" / "json.md").read_text() == page(), "write it anew: kvproof schema --markdown > docs/json.md"


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_documented(kind: type) -> None:
    said = sentences(kind)
    assert [key for key in keys_of(kind) if not said.get(key, "").endswith(".")] == []


def test_no_key_is_ever_removed_or_made_another() -> None:
    """To change or remove one takes a new version of the schema. What is added is added to the list, at its end."""
    kept, now = KEPT.read_text().splitlines(), keys()
    assert [key for key in kept if key not in now] == []
    assert [key for key in now if key not in kept] == [], f"add these to {KEPT.name}"


def test_all_reports_are_in_the_catalog() -> None:
    made = [kind for room in (campaigns, holdings, machines, runs, streams, workloads) for kind in vars(room).values()]
    assert {kind for kind in made if isinstance(kind, type) and issubclass(kind, Report) and kind is not Report} == set(
        REPORTS
    )


def test_every_command_that_takes_json_has_a_report() -> None:
    import typer

    group = typer.main.get_command(cli.app)
    found = set()
    for name, command in vars(group)["commands"].items():
        for child, each in ({"": command} | vars(command).get("commands", {})).items():
            if any("--json" in option.opts for option in each.params):
                found.add(f"{name} {child}".strip())
    assert found == {report.__struct_config__.tag for report in REPORTS}


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    cli.run([*arguments, "--json", "-"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def written(tmp_path: Path) -> dict[type[Report], list[str]]:
    """Cheap commands, by what they write."""
    write_trace(tmp_path / "trace.jsonl", Trace("Keys", "machine", [Operation("nothing", {})], {}))
    (tmp_path / "requests.jsonl").write_text('{"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1,2]}\n')
    return {
        machines.Explore: ["explore", "pool", "--max-states", "9"],
        machines.Export: ["export", "pool", "--to", "promela", "-o", str(tmp_path / "pool.pml")],
        machines.ExportObligations: ["export", "keys", "--to", "smt2", "-o", str(tmp_path / "smt2")],
        runs.Fuzz: ["fuzz", "refimpl", "--examples", "3"],
        workloads.Workload: ["workload", str(tmp_path / "requests.jsonl"), "--capacity", "4", "--host-blocks", "4"],
        workloads.WorkloadTiers: ["workload", str(tmp_path / "requests.jsonl"), "--capacity", "4", "--tiers"],
        holdings.EnginesList: ["engines", "list"],
        holdings.Rules: ["rules", "P6", "B5"],
    }


def test_what_commands_write_is_what_the_schema_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other reports that any test writes are held against it too: see tests/conftest.py."""
    monkeypatch.setenv("KVPROOF_ENGINES", str(tmp_path))
    for kind, arguments in written(tmp_path).items():
        report = shown(capsys, *arguments)
        assert list(report)[:3] == ["command", "schema", "kit"]
        assert (report["schema"], report["kit"]) == (SCHEMA, kit_version())
        assert arguments[0] in report["command"]
        assert msgspec.to_builtins(msgspec.convert(report, kind)) == report


def test_a_key_or_a_value_that_the_schema_does_not_have_is_noticed() -> None:
    report = runs.Replay(trace="t", operations=2, done=2, problem=None)
    keeps_to_the_schema(report, msgspec.to_builtins(report))
    with pytest.raises(AssertionError):
        keeps_to_the_schema(report, msgspec.to_builtins(report) | {"more": 1})
    for data in ({"done": "2"}, {"problem": {"kind": "other", "at": 0, "text": ""}}):
        with pytest.raises(msgspec.ValidationError):
            keeps_to_the_schema(report, msgspec.to_builtins(report) | data)


def test_the_json_schema_says_what_each_key_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == json_schema()
    assert len(schema["anyOf"]) == len(REPORTS)
    for kind in KINDS:
        if kind is not Report:
            described = schema["$defs"][kind.__name__]["properties"]
            assert [key for key in sentences(kind) if "description" not in described[key]] == []


def test_a_report_goes_into_a_file_whole(tmp_path: Path) -> None:
    report = runs.Replay(trace="\udcff", operations=1, done=1, problem=None)
    Output(str(tmp_path / "report.json")).report(report)
    text = (tmp_path / "report.json").read_text()
    assert text.count("\n") == 1
    assert json.loads(text)["trace"] == "\\udcff"
