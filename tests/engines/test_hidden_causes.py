"""What a list expects, and the first release that it says to be without it: there nothing of the kind may show."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.hidden_causes import expected_in, first_without, still_there
from kvproof.checkers.trace import read_trace, write_trace
from kvproof.cli.findings import case_of, violation_of
from kvproof.engines.catalog import ENGINES
from kvproof.engines.known import Known

from .installed import engine

FINDINGS = Path(__file__).parents[2] / "docs/findings"


def listed(path: Path, folder: Path) -> list[Known]:
    """A list that says of a trace that 0.33.0 is without its cause; a copy of it, of 0.22.1, is put into the folder."""
    trace = msgspec.structs.replace(read_trace(path), subject="vllm==0.22.1")
    write_trace(folder / path.name, trace)
    found, case = violation_of(trace), case_of(trace)
    cases = ENGINES["vllm"].cases(case.level)
    assert found is not None
    assert cases is not None
    assert cases.traits is not None
    needs = sorted(cases.traits("0.22.1").of(case))
    return [
        Known(
            "vllm", found.rule, "a cause", "a page", "<0.33", found.oracle, key=list(found.signature[2:]), needs=needs
        )
    ]


@pytest.mark.parametrize(
    ("name", "is_there"), [("load-waits-for-its-draft-slots", True), ("read-though-it-was-not-to-be", False)]
)
def test_a_trace_that_still_shows_where_its_cause_is_said_to_be_gone_is_told(
    name: str, is_there: bool, tmp_path: Path
) -> None:
    (tmp_path / "report.jsonl").write_text("{}\n")  # It is passed over.
    entries, newest = listed(FINDINGS / f"{name}.jsonl", tmp_path), engine("0.33.0")
    (found,) = expected_in([tmp_path], entries, "vllm")
    assert first_without(found, entries, [newest]) == newest
    assert [*still_there(newest, [found])] == [found] * is_there


def test_what_the_list_says_of_all_later_releases_has_no_end(tmp_path: Path) -> None:
    (entry,) = listed(FINDINGS / "load-waits-for-its-draft-slots.jsonl", tmp_path)
    for releases in ("", "<0.33"):
        entries = [msgspec.structs.replace(entry, releases=releases)]
        (found,) = expected_in([tmp_path], entries, "vllm")
        has_end = first_without(found, entries, [engine("0.33.0")]) is not None
        assert has_end == bool(releases)
