"""docs/testing.md does what it says: its files are written, its commands run, and its outputs come."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from .test_pytest_plugin import EXAMPLE, pytest_in
from .test_tutorial import BLOCK, plain

TREE = EXAMPLE.parent / "prefix-tree"
ASYNC = EXAMPLE.parent / "async-pool"
PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    for file_of_example in ("pool.py", "test_pool.py", "forks.py", "test_forks.py"):
        shutil.copy(EXAMPLE / file_of_example, tmp_path)
    for file_of_example in ("radix.py", "async_radix.py", "test_async_radix.py"):
        shutil.copy(TREE / file_of_example, tmp_path)
    shutil.copy(ASYNC / "async_pool.py", tmp_path)
    shutil.copy(ASYNC / "test_async_pool.py", tmp_path)
    seen = 0
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            name = re.match(r"# (\w+\.py)(, more)?", text)
            assert name is not None
            file = tmp_path / name[1]
            file.write_text(file.read_text() + text if name[2] else text)
            continue
        command, *lines = text.strip().split("\n")
        output = plain(pytest_in(tmp_path, *shlex.split(command.removeprefix("$ python -m pytest -q"))).stdout)
        for line in lines:
            assert plain(line) in output, (command, line, output)
            seen += 1
    assert seen >= 10


def test_the_adapters_of_the_examples_are_short() -> None:
    assert len((EXAMPLE / "test_pool.py").read_text().splitlines()) <= 60
    assert len((EXAMPLE / "pool.py").read_text().splitlines()) <= 150
    assert "of 145 lines" in PAGE.read_text()
    assert len((TREE / "test_radix.py").read_text().splitlines()) <= 50
