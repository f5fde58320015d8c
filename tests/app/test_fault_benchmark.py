"""The benchmark of faults: its manifests are well-formed, name what there is, and some are found."""

import ast
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.faults.manifest import Fault, ManifestError, read_all, read_engine
from benchmarks.faults.run import Measured, found_in_reference, read_results, table
from kvproof.checkers.trace import read_trace
from kvproof.cli.findings import violation_of
from kvproof.engines.catalog import ENGINES
from kvproof.spec.faults import FAULTS
from kvproof.spec.rules import RULES

ROOT = Path(__file__).parents[2]
ALL = read_all()
ENTRIES = [(engine.engine, fault) for engine in ALL for fault in engine.fault]
ENTRY = """
engine = "sglang"
release = "1"
[[fault]]
id = "one"
kind = "seeded"
level = "tree"
rules = ["R1"]
symptom = "It is seen."
planted = "a.py:one"
"""


def planted_in(file: str) -> set[str]:
    """What a file that plants faults calls them: the keys of its FAULTS, or its classes and tests."""
    text = ast.parse((ROOT / file).read_text())
    tables = [
        node.value
        for node in text.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Dict)
        and "FAULTS" in ast.unparse(node.targets[0])
    ]
    if tables:
        return {str(key.value) for key in tables[0].keys if isinstance(key, ast.Constant)}
    names = [node.name for node in ast.walk(text) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    # Where each is a function by its own name, that is what it is called.
    return {*names, *(name.removeprefix("_").replace("_", " ") for name in names if name.startswith("_"))}


def test_there_are_enough_of_them() -> None:
    assert len(ENTRIES) >= 60
    assert {engine for engine, _ in ENTRIES} == {*ENGINES, "refimpl"}
    assert {fault.kind for _, fault in ENTRIES} == {"seeded", "historical"}


@pytest.mark.parametrize(("engine", "fault"), ENTRIES, ids=lambda value: value.id if isinstance(value, Fault) else "")
def test_an_entry_names_what_there_is(engine: str, fault: Fault) -> None:
    assert set(fault.rules) <= RULES.keys()
    assert not fault.code or fault.code in FAULTS
    if fault.planted:
        file, _, name = fault.planted.partition(":")
        assert name in planted_in(file)
    if fault.trace:
        trace = read_trace(ROOT / fault.trace)
        assert trace.level == fault.level
        assert trace.subject.partition("==")[0] == engine


def findings() -> dict[str, set[str]]:
    """The headlines of the findings that are told, each with the traces that it is told with."""
    page = " ".join((ROOT / "docs/findings.md").read_text().split())
    told = re.split(r"(?= \*\*(?:[0-9]+\. )?[^*]+\*\* ·)| #{1,4} ", page)
    heads = ((re.match(r" \*\*(?:[0-9]+\. )?([^*]+)\*\*", part), part) for part in told)
    return {head[1]: set(re.findall(r"\]\((findings/[^)]+)\)", part)) for head, part in heads if head}


def tells_another(fault: Fault) -> bool:
    """Whether a fault is told by the headline of a finding that it is no trace of."""
    traces = findings().get(fault.symptom.removesuffix("."))
    return traces is not None and fault.trace.removeprefix("docs/") not in traces


FOUND = [fault for _, fault in ENTRIES if fault.trace.startswith("docs/findings/")]


@pytest.mark.parametrize("fault", FOUND, ids=lambda fault: fault.id)
def test_what_was_found_has_its_own_rule_and_words(fault: Fault) -> None:
    shown = violation_of(read_trace(ROOT / fault.trace))
    assert shown is not None
    assert shown.rule in fault.rules
    assert not tells_another(fault)


def test_the_words_of_another_finding_are_noticed() -> None:
    by_headline = [fault for fault in FOUND if fault.symptom.removesuffix(".") in findings()]
    assert len(by_headline) > 30
    for one, other in pairwise(by_headline):
        assert tells_another(replace(one, symptom=other.symptom))


def test_no_two_faults_of_a_level_are_told_in_the_same_words() -> None:
    told = Counter((engine, fault.level, fault.symptom) for engine, fault in ENTRIES)
    assert [words for words, times in told.items() if times > 1] == []


@pytest.mark.parametrize(
    "file",
    ["engines/fakes/broken_lmcache.py", "engines/fakes/broken_transformers.py"],
)
def test_what_is_planted_there_is_all_here(file: str) -> None:
    here = {fault.planted.partition(":")[2] for _, fault in ENTRIES if fault.planted.startswith(f"tests/{file}:")}
    missing = planted_in(f"tests/{file}") - here
    assert {
        name for name in missing if not name.startswith("drifted")
    } == set()  # Those are of releases that are refused.


def test_what_was_found_in_releases_is_all_here() -> None:
    here = {fault.trace for _, fault in ENTRIES}
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "docs/findings").glob("*.jsonl")} <= here


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "seeded"', 'kind = "made up"', "made up"),
        ('level = "tree"', 'level = "tree"\nlevels = 2', "unknown field `levels`"),
        ('rules = ["R1"]', "rules = []", "one breaks no rule"),
        ('id = "one"', 'id = "One"', "is no name"),
        ('"a.py:one"', '""', "must say where it is planted"),
        ('"a.py:one"', '"a.py"', "is planted as FILE:NAME"),
        ("seen.", "seen", "needs a symptom"),
        ("engine", "engines", "engines"),
    ],
)
def test_what_is_not_well_formed_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "sglang.toml"
    path.write_text(ENTRY)
    assert read_engine(path).fault[0].release == "1"
    path.write_text(ENTRY.replace(old, new, 1))
    with pytest.raises(ManifestError, match=said):
        read_engine(path)


def test_two_faults_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(ENTRY)
    with pytest.raises(ManifestError, match="two faults are called one"):
        read_all(tmp_path)


CHEAP = ("refimpl-frees-in-table-order", "refimpl-writes-what-is-covered", "refimpl-tree-locks-one-node")


@pytest.mark.parametrize("name", CHEAP)
def test_one_that_is_cheap_is_found(name: str) -> None:
    fault = next(fault for _, fault in ENTRIES if fault.id == name)
    found = found_in_reference(fault, seconds=20, number=0)
    assert found.seconds is not None


def test_the_table_has_a_line_for_each() -> None:
    lines = [*table(ALL, {CHEAP[0]: Measured(CHEAP[0], 1.25, 25, 60, 0), CHEAP[1]: Measured(CHEAP[1], None, 9, 60, 0)})]
    assert len(lines) == 2 + len(ENTRIES)
    assert sum(line.endswith("| 1.2 s |") for line in lines) == 1
    assert sum(line.endswith("| not in 60 s |") for line in lines) == 1


def test_the_page_has_what_was_measured() -> None:
    results = read_results(ROOT / "benchmarks/data/faults.jsonl")
    again = "python -m benchmarks.faults.run benchmarks/data/faults.jsonl --table"
    page = (ROOT / "docs/faults.md").read_text()
    assert page.endswith("\n" + "\n".join(table(ALL, results)) + "\n"), f"write its table anew: {again}"
    assert results.keys() <= {fault.id for _, fault in ENTRIES}
