"""The tutorial does what it says: its files are written, its commands run, and its outputs come."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> Iterator[tuple[str, str]]:
    yield from BLOCK.findall(PAGE.read_text())


def plain(text: str) -> str:
    """In single spaces, so that the width of a column is of no matter."""
    return " ".join(text.split())


class Reader:
    """Somebody who does what the page says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.surroundings = {**os.environ, "KVPROOF_PROOFS": str(folder / "proofs.sqlite"), "NO_COLOR": "1"}
        self.surroundings["PYTEST_ADDOPTS"] = "-p no:cacheprovider"

    def writes(self, text: str) -> None:
        first, rest = text.split("\n", 1)
        name, _, how = first.removeprefix("# ").partition(", ")
        file = self.folder / name
        if not how:
            file.write_text(text)
        elif how == "mended":
            file.write_text(file.read_text().replace("        self.require(self.ref_cnt[b] >= 1)\n", rest))
        else:
            assert how == "more"
            words = "Machine, Map, Sort, action, forall, implies, invariant, sometimes, step"
            file.write_text(file.read_text().replace("Machine, Map, Sort, action, invariant", words) + "\n" + rest)

    def runs(self, command: str) -> str:
        words = command.split()
        tool = [sys.executable, "-m", "kvproof"] if words[0] == "kvproof" else [sys.executable]
        done = subprocess.run(
            [*tool, *words[1:]],
            cwd=self.folder,
            env=self.surroundings,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return done.stdout + done.stderr


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    reader, seen = Reader(tmp_path), 0
    for kind, text in blocks():
        if kind == "python":
            reader.writes(text)
            continue
        command, *lines = text.strip().split("\n")
        output = plain(reader.runs(command.removeprefix("$ ")))
        for line in lines:
            assert plain(line) in output, (command, line, output)
            seen += 1
    assert seen >= 10


def test_what_the_tutorial_says_at_its_end_mends_the_code(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for kind, text in blocks():
        if kind == "python":
            reader.writes(text)
    file, page = tmp_path / "blocks.py", plain(PAGE.read_text())
    mended = "if not self.ref_cnt[block] or block in self.tables.get(request, ())"
    assert mended in page
    file.write_text(file.read_text().replace("if not self.ref_cnt[block]:", f"{mended}:"))
    assert "2 passed" in reader.runs("python -m pytest -q test_blocks.py")


def test_the_first_machine_is_short() -> None:
    _, first = next(blocks())
    assert len([line for line in first.splitlines() if line.strip()]) <= 40
