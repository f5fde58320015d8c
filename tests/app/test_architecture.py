"""ARCHITECTURE.md is true: who is told to open a file finds it, and no module of a room is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
NAMED = set(re.findall(r"(?<![\w/])[a-z_0-9/]+\.py\b", TEXT)) - {"spec/yours.py"}
ROOMS = re.findall(r"^In `(kvproof/\w+)/`:", TEXT, re.MULTILINE)


def test_every_file_that_is_named_is_there() -> None:
    folders = ("kvproof", "spec", "tests")
    there = {path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")}
    assert [name for name in sorted(NAMED) if not any(f"/{path}".endswith(f"/{name}") for path in there)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_of_a_room_is_named(room: str) -> None:
    modules = {path.name for path in (ROOT / room).glob("*.py")} - {"__init__.py", "__main__.py"}
    assert modules - {Path(name).name for name in NAMED} == set()
