"""What the documents name is there."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from kvproof.harness.machines import KNOWN, find_machine
from kvproof.machine import Model

ROOT = Path(__file__).parents[2]
TESTS = {name for path in ROOT.glob("tests/**/test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}


@functools.cache
def properties() -> set[str]:
    """The properties of all machines, which takes seconds to read."""
    models = [Model.of(find_machine(machine)) for machine in KNOWN]
    return {f"{model.name}.{name}" for model in models for name in model.properties}


def rows() -> list[str]:
    text = (ROOT / "docs/mirror-and-pin.md").read_text()
    return [line for line in text.splitlines() if re.search(r"\| [A-Z]\d(, [A-Z]\d)* \|", line)]


def test_every_requirement_of_the_seeds_is_in_the_table() -> None:
    assert len(rows()) >= 40


@pytest.mark.parametrize("row", rows())
def test_what_answers_a_requirement_exists(row: str) -> None:
    cited = re.findall(r"`(\w+\.\w+|test_\w+)`", row.rsplit("|", 2)[1])
    of_machines = [c for c in cited if "." in c and not c.endswith(".py")]
    assert cited or "benchmarks/" in row or "`blis-mirror`" in row
    assert [c for c in of_machines if c not in properties()] == []
    assert [c for c in cited if c.startswith("test_") and c not in TESTS] == []


def test_what_the_table_of_offload_faults_names_exists() -> None:
    text = (ROOT / "docs/offload.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("|")]
    of_machine = {c for line in table[2:] for c in re.findall(r"`([a-z]+(?:_[a-z]+){3,})`", line)}
    names = {p.split(".")[1] for p in properties() if p.startswith(("Offload.", "Reports."))} | TESTS
    assert len(of_machine) >= 10
    assert of_machine <= names


REQUIREMENTS = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in (ROOT / "docs/requirements.md").read_text().splitlines()
    if re.search(r"\| [A-Z]\d+(, [A-Z]\d+)* \|", line)
]
"""What is required, the rules that say it, and what keeps it."""

CODE = {
    name
    for folder in ("refimpl", "spec", "tests/smt", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    for name in (
        path.stem,
        path.relative_to(ROOT).as_posix(),
        *re.findall(r"^\s*(?:def|class) (\w+)", path.read_text(), re.MULTILINE),
    )
}


@pytest.mark.parametrize("rule", [f"G{n}" for n in range(1, 9)] + [f"H{n}" for n in range(1, 10)])
def test_every_rule_of_tiers_and_groups_is_required_by_somebody(rule: str) -> None:
    assert any(rule in rules.split(", ") for _, rules, _ in REQUIREMENTS)


@pytest.mark.parametrize(("required", "kept"), [(required, kept) for required, _, kept in REQUIREMENTS])
def test_what_keeps_a_requirement_exists(required: str, kept: str) -> None:
    cited = re.findall(r"`([^`]+)`", kept)
    names = {name.split(".")[1] for name in properties()}
    assert cited, required
    assert [c for c in cited if c not in TESTS | names | CODE | {"kvproof workload --tiers"}] == []


# ------------------------------------------------------------------------------------------------ pages and paths

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PLACES = ("kvproof", "spec", "refimpl", "kernels", "tests", "benchmarks", "docs")
PATH = re.compile(rf"(?<![\w/.-])((?:{'|'.join(PLACES)})/[\w./-]*[\w/])")


def linked(page: Path) -> set[Path]:
    """The files of the repository that a page links."""
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    return {(page.parent / target).resolve() for target in targets if "://" not in target}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_links_or_names_is_there(page: Path) -> None:
    assert [str(target) for target in linked(page) if not target.exists()] == []
    named = {path for path in PATH.findall(page.read_text()) if "..." not in path}
    made = {"spec/yours.py"}  # what a reader is told to write
    assert sorted(path for path in named - made if not (ROOT / path).exists()) == []


def test_every_page_is_reached_from_the_index() -> None:
    reached, found = set[Path](), [ROOT / "docs" / "index.md"]
    while found:
        page = found.pop()
        if page.suffix == ".md" and page not in reached:
            reached.add(page)
            found += linked(page)
    assert {page for page in PAGES if page not in reached} == set()


def test_the_rooms_of_the_architecture_name_files_that_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    files = {path.name for place in PLACES for path in (ROOT / place).rglob("*.py")}
    named = set(re.findall(r"`([a-z_]\w*\.py)`", text))
    assert len(named) > 50
    assert named - files == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_wrapped(page: Path) -> None:
    """At 100 columns, but for tables, text that is shown as it is, and words that are longer than half a line."""
    is_shown, long = False, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        is_shown ^= line.lstrip().startswith("```")
        is_bound = is_shown or line.startswith("|") or max(map(len, line.split()), default=0) > 50
        if len(line) > 100 and not is_bound:
            long.append(number)
    assert long == []


def test_the_page_of_commands_names_every_machine() -> None:
    text = (ROOT / "docs/commands.md").read_text()
    (listed,) = re.findall(r"^MACHINE is (.*?), or your own", text, re.MULTILINE | re.DOTALL)
    assert re.findall(r"`([^`]+)`", listed) == list(KNOWN)
