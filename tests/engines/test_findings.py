"""The findings that `docs/findings.md` reports are there to be seen: each trace shows its fault on the release it
names."""

from dataclasses import replace
from pathlib import Path

import pytest

from kvproof.checkers.trace import read_trace
from kvproof.cli.engine_replay import outcome_in
from kvproof.cli.findings import case_of, violation_of
from kvproof.cli.hunting import more_oracles
from kvproof.engines.catalog import ENGINES
from kvproof.engines.causes import shown
from kvproof.engines.known import Listed, read_known

from .installed import engine, session

DOCS = Path(__file__).parents[2] / "docs"
TRACES = sorted((DOCS / "findings").glob("*.jsonl"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_reported_finding_is_seen_again_and_is_on_the_list(path: Path) -> None:
    trace = read_trace(path)
    name, _, release = trace.subject.partition("==")
    recorded, case = violation_of(trace), case_of(trace)
    assert recorded is not None
    build = engine(release, name)
    outcome = outcome_in(session(release, name), build, case, recorded, more_oracles(case.level, build))
    assert outcome.kind == "same", outcome.words
    assert outcome.violation is not None
    cases = ENGINES[name].cases(case.level)
    assert cases is not None
    assert cases.traits is not None
    listed = Listed(read_known(DOCS / "known.toml"), name, release)
    assert listed.why(outcome.violation, case.level, cases.traits(release).of(case)) is not None


def test_every_trace_is_explained() -> None:
    text = (DOCS / "findings.md").read_text()
    assert TRACES
    assert [path.stem for path in TRACES if f"findings/{path.name}" not in text] == []


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_what_is_known_is_known_by_all_that_tells_it_from_others(path: Path) -> None:
    trace = read_trace(path)
    name, _, release = trace.subject.partition("==")
    recorded = violation_of(trace)
    assert recorded is not None
    alike = Listed(read_known(DOCS / "known.toml"), name, release)
    assert alike.needs_of(recorded, trace.level)
    for told in shown(recorded)[2:]:  # What stands in the key, but for tiers.
        other = replace(recorded, key=tuple("elsewhere" if part == told else part for part in recorded.key))
        assert alike.needs_of(other, trace.level) == []


def test_no_entry_takes_every_exception_or_hang_for_known() -> None:
    entries = read_known(DOCS / "known.toml")
    assert [entry for entry in entries if entry.oracle in (None, "exception", "hang") and not entry.key] == []
