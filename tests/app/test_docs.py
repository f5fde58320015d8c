"""What the documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvproof.machine import Model
from kvproof.machines import KNOWN, find_machine

ROOT = Path(__file__).parents[2]
TESTS = {name for path in ROOT.glob("tests/**/test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
PROPERTIES = {
    f"{model.name}.{name}"
    for machine in KNOWN
    for model in [Model.of(find_machine(machine))]
    for name in model.properties
}


def rows() -> list[str]:
    text = (ROOT / "docs/mirror-and-pin.md").read_text()
    return [line for line in text.splitlines() if re.search(r"\| [A-Z]\d(, [A-Z]\d)* \|", line)]


def test_every_requirement_of_the_seeds_is_in_the_table() -> None:
    assert len(rows()) >= 40


@pytest.mark.parametrize("row", rows())
def test_what_answers_a_requirement_exists(row: str) -> None:
    cited = re.findall(r"`(\w+\.\w+|test_\w+)`", row.rsplit("|", 2)[1])
    properties = [c for c in cited if "." in c and not c.endswith(".py")]
    assert cited or "benchmarks/" in row or "`blis-mirror`" in row
    assert [c for c in properties if c not in PROPERTIES] == []
    assert [c for c in cited if c.startswith("test_") and c not in TESTS] == []


def test_what_the_table_of_offload_faults_names_exists() -> None:
    text = (ROOT / "docs/offload.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("|")]
    of_machine = {c for line in table[2:] for c in re.findall(r"`([a-z]+(?:_[a-z]+){3,})`", line)}
    names = {p.split(".")[1] for p in PROPERTIES if p.startswith("Offload.")} | TESTS
    assert len(of_machine) >= 10
    assert of_machine <= names
