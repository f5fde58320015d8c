"""The public door: its names, and an example of each that runs."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import kvproof
import kvproof.testing

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = BLOCK.findall((DOCS / "api.md").read_text())


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as a script, from where the others are."""
    for name, text in EXAMPLES:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVPROOF_PROOFS", str(tmp_path / "proofs.sqlite"))
    monkeypatch.syspath_prepend(str(tmp_path))
    there = set(sys.modules)
    try:
        for name, _ in EXAMPLES:
            runpy.run_path(name, run_name="__main__")
    finally:
        for name in {Path(name).stem for name, _ in EXAMPLES} - there:
            sys.modules.pop(name, None)


def test_every_name_of_the_door_is_used_in_an_example() -> None:
    used = set(re.findall(r"\b\w+\b", " ".join(text for _, text in EXAMPLES)))
    assert set(kvproof.__all__) - used == set()


def test_every_name_for_test_suites_is_used_in_an_example() -> None:
    used = set(re.findall(r"\b\w+\b", dict(EXAMPLES)["stack.py"]))
    assert set(kvproof.testing.__all__) - used == set()
    assert all(getattr(kvproof.testing, name) is not None for name in kvproof.testing.__all__)


def test_every_name_is_there_and_in_order() -> None:
    assert kvproof.__all__ == sorted(kvproof.__all__)
    assert all(getattr(kvproof, name) is not None for name in kvproof.__all__)
    assert set(kvproof.__all__) <= set(dir(kvproof))


def test_the_door_imports_nothing_heavy() -> None:
    text = (
        "import sys, kvproof\n"
        "assert 'kvproof.machine' not in sys.modules\n"
        "from kvproof import Machine, invariant\n"
        "assert 'torch' not in sys.modules and 'hypothesis' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
