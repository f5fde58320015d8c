"""The findings that `docs/findings.md` reports are there to be seen: each trace shows its fault on the release it
names."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from kvproof.checkers.trace import read_trace
from kvproof.cli.engine_replay import outcome_in
from kvproof.cli.findings import case_of, violation_of
from kvproof.cli.hunting import more_oracles
from kvproof.engines.catalog import ENGINES
from kvproof.engines.causes import shown
from kvproof.engines.known import Listed, read_known
from kvproof.engines.reduce import Reduction
from kvproof.engines.verdicts import judged_in
from kvproof.engines.vllm.levels.traits import of_scheduler
from kvproof.judge.record import Case
from kvproof.judge.violation import Verdict

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


def test_who_never_ends_for_want_of_room_needs_no_connector() -> None:
    """It was told with each connector that it was met with."""
    trace = read_trace(DOCS / "findings" / "partial-hit-needs-more-than-a-cold-start.jsonl")
    driven, case = session("0.33.0"), case_of(trace)
    store = {"blocks": 3, "factor": 1, "threshold": 0, "policy": "lru", "prompt_only": 0, "below": 12}
    connector = {"kind": "offloading", **store, "workers": 1}
    usual = {"chunked": True, "reserve": True, "events": False, "runner": 1, "asynchronous": False, "caching": True}
    usual |= {"max_seqs": 4, "long_prefill": 0, "watermark": 0}
    case = structs.replace(case, setup={**usual, **case.setup, "connector": connector})

    def judge(tried: Case) -> Verdict | None:
        return judged_in(driven, lambda _: None)(tried, ())[0]

    met = judge(case)
    assert met is not None
    reduction = Reduction(case, met, judge, of_scheduler("0.33.0"), deadline=float("inf"))
    reduction.strip()
    assert reduction.needs == {"fine hashes", "mamba"}
