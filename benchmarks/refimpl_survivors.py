"""Which mutants of the reference implementation that no level notices are noticed by its tests (docs/mutation.md).

    kvproof mutate refimpl --level links --sample 40 --record links.jsonl
    python benchmarks/refimpl_survivors.py links.jsonl

Each survivor on record is run once, in a process of its own that reads the implementation with the mistake, with those
tests in `tests/refimpl` that name its module, until one fails.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import re
import sys
from pathlib import Path

import pytest

from kvproof.checkers.mutation.record import Judged, Record
from kvproof.checkers.mutation.sources import SourceMutant, source_mutants
from kvproof.harness.mutating import FOLDER, Wrong

TESTS = Path(__file__).resolve().parent.parent / "tests" / "refimpl"

LIMIT = 300.0
"""Seconds after which a mutant hangs."""


def main() -> int:
    """Ask about the survivors of these records; 1 where one is left, else 0."""
    records = [Record(Path(name)) for name in sys.argv[1:]]
    survivors = {(j.line, j.what): j for record in records for j in record.known.values() if j.fate == "survivor"}
    left = 0
    for judged in survivors.values():
        mutant = _mutant(judged)
        said = "it is another text now" if mutant is None else noticed_by(mutant)
        left += not said
        print(f"{judged.line} {judged.what}: {said or 'nobody notices'}", flush=True)
    print(f"{len(survivors)} survivors, {left} of which no test notices")
    return int(left > 0)


def _mutant(judged: Judged) -> SourceMutant | None:
    """The mutant that was judged, of the text as it is."""
    file, _, line = judged.line.rpartition(":")
    text = (FOLDER.parent / file).read_text(encoding="utf-8")
    return next((m for m in source_mutants(text, file, frozenset([int(line)])) if m.what == judged.what), None)


def noticed_by(mutant: SourceMutant) -> str:
    """The first test that fails with the mistake; empty where none does."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_run, args=(mutant, theirs))
    child.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(LIMIT) else "it hangs"
    finally:
        child.kill()
        child.join()


def _run(mutant: SourceMutant, to: multiprocessing.connection.Connection) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    asked = _Asked(Wrong(mutant))
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *_tests_of(Path(mutant.file).stem)], plugins=[asked])
    read = sys.modules.get(asked.wrong.name)
    assert read is not None, f"no test reads {asked.wrong.name}"
    assert read.__spec__ is not None
    assert read.__spec__.loader is asked.wrong, "the tests read the right text"
    to.send(asked.first or ("" if status == 0 else f"pytest ends with {int(status)}"))


def _tests_of(module: str) -> list[str]:
    """The tests that import something of the module: its own first, then those of the fewest other modules."""
    names = re.compile(rf"^from kvproof\.refimpl.*\b{module} import ", re.M)
    texts = {file: file.read_text(encoding="utf-8") for file in TESTS.glob("test_*.py")}
    found = [file for file, text in texts.items() if names.search(text) or module in file.stem]
    found.sort(key=lambda file: (module not in file.stem, texts[file].count("from kvproof.")))
    return list(map(str, found))


class _Asked:
    """Gives the tests the wrong text, and remembers what fails first."""

    def __init__(self, wrong: Wrong) -> None:
        self.wrong, self.first = wrong, ""

    def pytest_configure(self) -> None:
        """Before pytest's own finder, which reads the modules of a plugin's package, as kvproof is, by itself."""
        sys.meta_path.insert(0, self.wrong)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, or what it needs."""
        if report.failed and not self.first:
            self.first = report.nodeid.rpartition("/")[2]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file of tests that cannot be read."""
        if report.failed and not self.first:
            self.first = report.nodeid.rpartition("/")[2]


if __name__ == "__main__":
    sys.exit(main())
