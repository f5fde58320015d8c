"""Mistakes in the text of the reference implementation: which are made, and that the runs of a level notice them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kvproof.checkers.mutation.sources import SOURCE_OPERATORS, source_mutants
from kvproof.checkers.mutation.tests import TestsError, look_at_tests
from kvproof.checkers.mutation.wrong_text import Text, ends_after, in_child
from kvproof.harness.mutating import FOLDER, SourceRun, _notices, judge_sources

TEXT = '''
from collections import deque

class Shelf:
    """Not changed."""

    size: int = 3

    def take(self, boxes: deque[int], least: int = 0) -> int:
        """Nor is this."""
        for box in boxes:
            if box < least and box != 7:
                break
        while not all(boxes):
            boxes.append(least + 1)
        try:
            self.open = True
        except OSError:
            self.size = 4
        assert all(a < b for a, b in zip(boxes, boxes, strict=True))
        return list(zip(boxes, boxes, strict=True))[0] if self.size > 2 else boxes.popleft() if boxes else least

    def __repr__(self) -> str:
        return "Shelf"
'''


def test_every_kind_of_mistake_is_made_where_something_happens() -> None:
    found = list(source_mutants(TEXT, "shelf.py"))
    assert {m.operator for m in found} == set(SOURCE_OPERATORS)
    assert {m.line for m in found} == {12, 13, 14, 15, 17, 19, 21}
    for mutant in found:
        compile(mutant.tree, "shelf.py", "exec")
    told = {f"{m.line}: {m.what}" for m in found}
    assert "12: `box <= least` in place of `box < least`" in told
    assert "13: `continue` in place of `break`" in told
    assert "15: `boxes.appendleft` in place of `boxes.append`" in told
    assert "17: forgets `self.open = True`" in told
    assert "19: `5` in place of `4`" in told
    assert not any("strict=False" in one for one in told)  # that is an assertion
    assert len(told) == len(found)


def test_only_lines_that_are_reached_are_changed() -> None:
    assert {m.line for m in source_mutants(TEXT, "shelf.py", frozenset([12, 99]))} == {12}


@pytest.mark.slow
def test_a_level_notices_what_is_wrong_and_nothing_else() -> None:
    text = (FOLDER / "hybrid" / "file_store.py").read_text(encoding="utf-8")
    mutants = [m for m in source_mutants(text, "refimpl/hybrid/file_store.py") if m.operator == "forget statement"]
    found = [in_child(_notices, "file-store", m, limit=60.0) for m in mutants[:6]]
    assert any(found)
    assert not all(found)  # what no level reaches is noticed by nobody


@pytest.mark.slow
def test_a_sample_of_the_implementation_is_judged_and_kept(tmp_path: Path) -> None:
    how = SourceRun(["file-store"], sample=4, seed=2, record=tmp_path / "record.jsonl")
    first = judge_sources(how)
    assert len(first) == 4
    assert {j.fate for j in first} <= {"fuzz", "survivor"}
    assert [j.what for j in judge_sources(how)] == [j.what for j in first]
    assert len((tmp_path / "record.jsonl").read_text().splitlines()) == 4


SHELF = """
def take(boxes, least):
    if not boxes:
        raise ValueError("none")
    first = boxes.pop(0)
    return first if first > least else least


def put(boxes, box):
    boxes.append(box)
"""

TESTS = """
import pytest
from shelf_of_tests.shelf import take

def test_none():
    with pytest.raises(ValueError):
        take([], 1)

def test_some():
    boxes = [3, 2]
    assert take(boxes, 1) == 3
    assert boxes == [2]
"""


def test_what_computes_without_end_hangs_and_what_waits_does_not() -> None:
    def computes() -> None:
        while True:
            pass

    def waits() -> str:
        time.sleep(1.5)
        return "done"

    assert in_child(computes, limit=0.5) == "it hangs"
    assert in_child(waits, limit=0.5) == "done"
    assert in_child(sys.exit, limit=0.5) == "the process dies"


def test_a_part_that_hangs_ends_a_task_that_may_take_long() -> None:
    def computes() -> None:
        with ends_after(0.2):
            time.sleep(0.5)
        with ends_after(0.2):
            while True:
                pass

    def waits() -> None:
        with ends_after(0.02):
            time.sleep(1000)

    def takes_its_time_behind_it() -> str:
        with ends_after(0.2):
            pass
        while time.process_time() < 0.5:
            pass
        return "done"

    assert in_child(computes, limit=1000.0) == "it hangs"
    assert in_child(waits, limit=1000.0) == "it hangs"
    assert in_child(takes_its_time_behind_it, limit=1000.0) == "done"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Text:
    """A package with tests."""
    (tmp_path / "shelf_of_tests").mkdir()
    (tmp_path / "shelf_of_tests" / "shelf.py").write_text(SHELF)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_shelf.py").write_text(TESTS)
    monkeypatch.syspath_prepend(tmp_path)
    return Text(tmp_path / "shelf_of_tests", "shelf_of_tests")


def test_tests_notice_what_they_look_at(shelf: Text, tmp_path: Path) -> None:
    tests = look_at_tests(tmp_path / "tests", shelf)
    file = "shelf_of_tests/shelf.py"
    assert tests.lines() == {file: {2, 3, 4, 5, 6, 9}}, "what runs in them, and what does when they are read"
    mutants = source_mutants(SHELF, file, frozenset(tests.lines()[file]))
    said = {f"{m.line}: {m.what}": tests.noticed_by(m) for m in mutants}
    assert said["4: forgets `raise ValueError('none')`"] == "test_shelf.py::test_none"
    assert said["5: `1` in place of `0`"] == "test_shelf.py::test_some"
    assert len(said) == 6
    assert [what for what, by in said.items() if not by] == ["6: `first >= least` in place of `first > least`"]


def test_what_a_file_of_tests_makes_when_it_is_read_its_tests_look_at(shelf: Text, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_shelf.py").write_text(
        "from shelf_of_tests.shelf import take\n\nTAKEN = take([5], 1)\n\ndef test_it():\n    assert TAKEN == 5\n"
    )
    tests, file = look_at_tests(tmp_path / "tests", shelf), "shelf_of_tests/shelf.py"
    wrong = next(m for m in source_mutants(SHELF, file) if m.operator == "negate condition" and m.line == 6)
    assert tests.noticed_by(wrong) == "test_shelf.py::test_it"


def test_a_test_that_hangs_is_not_waited_for_as_long_as_all_of_them_may_take(
    shelf: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvproof.checkers.mutation.tests.STARTING", 1000.0)
    monkeypatch.setattr("kvproof.checkers.mutation.tests.EACH", 0.2)
    counting = "def count(n):\n    while n:\n        n -= 1\n    return n\n"
    (shelf.folder / "shelf.py").write_text(counting)
    (tmp_path / "tests" / "test_shelf.py").write_text(
        "from shelf_of_tests.shelf import count\n\ndef test_it_ends():\n    assert count(3) == 0\n"
    )
    tests = look_at_tests(tmp_path / "tests", shelf)
    (endless,) = (m for m in source_mutants(counting, "shelf_of_tests/shelf.py") if m.what == "forgets `n -= 1`")
    assert tests.noticed_by(endless) == "it hangs"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (f"{TESTS}\ndef test_wrong():\n    assert take([1], 0) == 2\n", r"test_shelf\.py::test_wrong"),
        ("def test_nothing():\n    pass\n", "no tests that come by shelf_of_tests"),
        ("import nothing_of_this_name\n", r"test_shelf\.py"),
    ],
)
def test_tests_that_cannot_judge_are_refused(shelf: Text, tmp_path: Path, more: str, why: str) -> None:
    (tmp_path / "tests" / "test_shelf.py").write_text(more)
    with pytest.raises(TestsError, match=why):
        look_at_tests(tmp_path / "tests", shelf)


FILE_TESTS = """
import pytest
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.hybrid.lru_index import LruIndex

def test_room():
    with pytest.raises(RefusedError):
        LruIndex(0)
    assert LruIndex(1).fits(1)
"""


@pytest.mark.slow
def test_tests_are_asked_for_what_the_first_runs_let_pass_and_all_runs_once(tmp_path: Path) -> None:
    tests, record = tmp_path / "tests", tmp_path / "record.jsonl"
    tests.mkdir()
    (tests / "test_file.py").write_text(FILE_TESTS)
    how = SourceRun(["file-store"], sample=12, seed=1, record=record, tests=tests)
    judged = judge_sources(how)
    fates = Counter(j.fate for j in judged)
    assert fates["tests"]
    assert fates["tests"] + fates["fuzz"] + fates["survivor"] == 12
    lines = record.read_text().splitlines()
    assert len(lines) == 12 + fates["survivor"]  # these by all runs, and by the tests
    assert [j.by for j in judge_sources(how)] == [j.by for j in judged]
    assert record.read_text().splitlines() == lines
    (tests / "test_file.py").write_text(f"{FILE_TESTS}\n# more")
    judge_sources(how)
    # The runs are not made again for what survived all of them.
    assert len(record.read_text().splitlines()) == len(lines) + fates["tests"] + fates["survivor"]
