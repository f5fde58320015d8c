"""Has each check of the judge been seen to fail? Says which checks no test has made tell.

    python -m benchmarks.checks_seen tests/engines tests/stateful tests/app     # run these, and say
    python -m benchmarks.checks_seen --noted FOLDER                             # of runs that noted it there

Tests note what they see in the folder that ``KVPROOF_CHECKS_SEEN`` names, if they are run with ``-p
benchmarks.checks_seen``; CI does so. A check is a place in ``kvproof/judge`` that makes a `Violation`. What the kit's
command line does in processes of its own counts for nothing. Exit status 1 where a check was never seen, 2 where tests
fail.
"""

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kvproof.judge import violation

__all__ = ["Check", "checks", "main", "pytest_configure"]

JUDGE = Path(violation.__file__).parent
_SINK = "KVPROOF_CHECKS_SEEN"
"""The folder in which each process notes the places that it has seen."""
_PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.checks_seen", "-p", "no:cacheprovider"]


class Check(NamedTuple):
    """A place of the judge that says that a rule is broken."""

    path: str
    first: int
    last: int
    """Its lines."""
    what: str
    """The rule and the oracle, as they are written there."""


def checks() -> list[Check]:
    """All checks of the judge, by their place in its text."""
    return [check for path in sorted(JUDGE.rglob("*.py")) for check in _of(path)]


def _of(path: Path) -> Iterator[Check]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == violation.Violation.__name__:
            said = [ast.unparse(said) for said in node.args[:2]]
            yield Check(str(path.relative_to(JUDGE)), node.lineno, node.end_lineno or node.lineno, " ".join(said))


def pytest_configure() -> None:
    """Let this process of pytest note which checks tell."""
    folder = os.environ.get(_SINK)
    if folder is None:
        return
    makes, noted = violation.Violation.__init__, set[tuple[str, int]]()

    def noting(made: violation.Violation, *args: Any, **more: Any) -> None:
        makes(made, *args, **more)
        caller = sys._getframe(1)
        place = caller.f_code.co_filename, caller.f_lineno
        if place not in noted:
            noted.add(place)
            with (Path(folder) / str(os.getpid())).open("a") as sink:
                print(*place, sep="\t", file=sink)

    violation.Violation.__init__ = noting  # type: ignore[assignment, method-assign]


def main() -> None:
    """Print what no test has seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noted", type=Path)
    asked, tests = parser.parse_known_args()
    if asked.noted is not None:
        sys.exit(1 if _unseen(asked.noted) else 0)
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([*_PYTEST, *tests], env={**os.environ, _SINK: folder}, check=False)
        unseen = _unseen(Path(folder))
    sys.exit(2 if ran.returncode else 1 if unseen else 0)


def _unseen(folder: Path) -> list[Check]:
    """Print and return the checks of which nothing is noted in a folder."""
    lines = [line.split("\t") for note in folder.iterdir() for line in note.read_text().splitlines()]
    seen = {(Path(path), int(line)) for path, line in lines}
    unseen = [check for check in checks() if not _is_seen(check, seen)]
    print(f"{len(checks()) - len(unseen)} of {len(checks())} checks of the judge were seen to fail")
    print(*(f"never seen: {check.path}:{check.first} {check.what}" for check in unseen), sep="\n")
    return unseen


def _is_seen(check: Check, seen: set[tuple[Path, int]]) -> bool:
    return any((JUDGE / check.path, line) in seen for line in range(check.first, check.last + 1))


if __name__ == "__main__":
    main()
