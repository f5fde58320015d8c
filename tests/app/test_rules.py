"""The rules have one home: whoever cites one cites what is there, and nothing stands there that nobody checks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvproof.checkers.mutation.record import Record
from kvproof.cli import main as cli
from kvproof.cli.keepers import codes_in, keepers
from kvproof.cli.matrix_page import matrix
from kvproof.cli.rules_page import page
from kvproof.harness.machines import KNOWN, REFUTED, find_machine
from kvproof.machine import Model
from kvproof.spec.faults import FAULTS
from kvproof.spec.rules import ORIGINS, RULES, SUBJECTS

ROOT = Path(__file__).parents[2]
TEXTS = [
    path
    for folder in ("kvproof", "spec", "refimpl", "kernels", "docs", "tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".toml") and "__pycache__" not in path.parts
] + [ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
CODE = re.compile(rf"\b[{''.join(SUBJECTS)}]\d{{1,2}}\b")


def cited(path: Path) -> set[str]:
    return set(CODE.findall(path.read_text()))


def test_every_code_that_is_cited_is_a_rule() -> None:
    assert len(TEXTS) > 400
    unknown = {str(path.relative_to(ROOT)): cited(path) - RULES.keys() for path in TEXTS}
    # Machines of tests have rules of their own, and other things have such names too: ruff's D1, Z3's P7 of a row.
    of_the_kit = {path: codes for path, codes in unknown.items() if codes and not path.startswith("tests/")}
    assert of_the_kit == {}


def test_the_matrix_is_current() -> None:
    record = ROOT / "benchmarks" / "data" / "mutants.jsonl"
    written = (ROOT / "docs" / "matrix.md").read_text()
    again = f"kvproof rules --matrix --record {record.relative_to(ROOT)} > docs/matrix.md"
    assert written == matrix(list(RULES.values()), Record(record).known.values()), f"write it anew: {again}"


def test_every_known_fault_that_is_cited_has_its_place() -> None:
    """Which of the machines' and of the engines' faults are meant: other things have such names too."""
    of_faults = re.compile(r"\b[BS]\d{1,2}\b")
    outside = ("docs/api.md", "tests/machine", "tests/app")
    cited_in = {
        str(path.relative_to(ROOT)): set(of_faults.findall(path.read_text())) - FAULTS.keys()
        for path in TEXTS
        if not str(path.relative_to(ROOT)).startswith(outside)
    }
    assert {path: codes for path, codes in cited_in.items() if codes} == {}


def test_every_known_fault_breaks_rules_and_is_tried_by_some_test() -> None:
    tested = "".join(
        path.read_text()
        for path in TEXTS
        if path.is_relative_to(ROOT / "tests") or path.is_relative_to(ROOT / "benchmarks")
    )
    for code, fault in FAULTS.items():
        assert set(fault.rules) <= RULES.keys(), code
        assert fault.sentence.endswith("."), code
        assert re.search(rf"\b{code}\b", tested), f"{code}: nothing has this fault"
    assert [c for c in FAULTS if c[0] == "B"] == [f"B{n}" for n in range(1, 17)]
    assert [c for c in FAULTS if c[0] == "S"] == [f"S{n}" for n in range(1, 20)]


def test_known_faults_are_shown_with_the_rules_that_they_break(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules", "b5", "P13"]) == 0
    shown = capsys.readouterr().out
    assert "B5: An adapter's name and a cache salt" in shown
    assert "breaks: P13, P6" in shown
    assert "\nP13: " in shown
    assert cli.run(["rules", "S"]) == 0
    assert len(re.findall(r"^S\d+: ", capsys.readouterr().out, re.M)) == 19


def test_every_property_of_the_specification_cites_rules() -> None:
    for name in KNOWN | REFUTED:
        model = Model.of(find_machine(name))
        for prop in model.properties.values():
            assert codes_in(prop.rule), f"{name}.{prop.name}"
            assert set(codes_in(prop.rule)) <= RULES.keys(), f"{name}.{prop.name}"


def test_every_rule_is_checked_by_something() -> None:
    in_tests = set().union(
        *[cited(path) for path in TEXTS if path.is_relative_to(ROOT / "tests") and path != Path(__file__)]
    )
    assert [code for code, kept in keepers().items() if not kept and code not in in_tests] == []


def test_every_rule_is_said_in_a_sentence_and_has_an_origin() -> None:
    numbers: dict[str, list[int]] = {}
    for code, rule in RULES.items():
        assert rule.sentence.endswith("."), code
        assert not rule.more or rule.more.endswith("."), code
        assert rule.origin in ORIGINS.values()
        numbers.setdefault(rule.subject, []).append(int(code[1:]))
    assert numbers.keys() == SUBJECTS.keys()
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())


def test_the_page_is_what_the_rules_say() -> None:
    assert (ROOT / "docs" / "rules.md").read_text() == page(list(RULES.values())), (
        "write it anew: kvproof rules --markdown > docs/rules.md"
    )


def test_one_rule_is_shown_with_what_keeps_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules", "p7", "M"]) == 0
    shown = capsys.readouterr().out
    assert "P7: An allocation is all or nothing" in shown
    assert "proved of pool: " in shown
    assert "oracles answers, requests" in shown or "requests" in shown
    assert [line for line in shown.splitlines() if re.match(r"M\d: ", line)] == [
        f"{code}: {rule.sentence}" for code, rule in RULES.items() if rule.subject == "M"
    ]


def test_all_rules_are_shown_in_a_sentence_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules"]) == 0
    shown = capsys.readouterr().out
    assert all(rule.sentence in shown for rule in RULES.values())


def test_programs_get_them_too(tmp_path: Path) -> None:
    assert cli.run(["rules", "--json", str(tmp_path / "rules.json")]) == 0
    report = json.loads((tmp_path / "rules.json").read_text())
    assert [row["code"] for row in report["rules"]] == list(RULES)
    assert report["rules"][0]["proved"].keys() >= {"pool"}


def test_a_rule_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules", "P6", "Z9"]) == 2
    assert "Z9 is no rule; name one as P6" in capsys.readouterr().err
