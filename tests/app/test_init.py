"""``kvproof init``: what it writes runs, says what to fill in, and passes once that is done."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from kvproof.checkers import trace
from kvproof.cli import main as cli
from kvproof.cli.commands.init import STARTS, WORKFLOW, Kind
from kvproof.judge.sight import RULES

from .test_pytest_plugin import EXAMPLE, pytest_in

TEST = STARTS[Kind.POOL].test

FILLED = {
    "__init__": "self.pool = Pool(blocks, block_tokens)",
    "lookup": "return self.pool.lookup(request.tokens)",
    "allocate": "return given(self.pool, request, tokens)",
    "commit": "self.pool.computed(request.name, request.tokens[:tokens])",
    "free": "self.pool.release(request.name)",
}
"""What the example's pool has for each method."""

FILLED_TREE = {
    "__init__": "self.tree = Radix(page_tokens)",
    "match": "return self.tree.match(tokens)",
    "insert": "return self.tree.insert(tokens, slots)",
    "lock": "self.tree.lock(node)",
    "unlock": "self.tree.unlock(node)",
    "evict": "return self.tree.evict(tokens)",
}
"""What the example's tree has for each method."""

GIVEN = """
from pool import Pool

def given(pool, request, tokens):
    name = request.name
    done = pool.extend(name, tokens) if name in pool.tables else pool.admit(name, request.found, tokens)
    return pool.tables[name] if done else None
"""


def filled(text: str, by: dict[str, str] = FILLED, more: str = GIVEN) -> str:
    """The skeleton with each line that raises replaced."""
    lines = text.split("\n")
    (cls,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    for method in cls.body:
        if isinstance(method, ast.FunctionDef):
            last = method.body[-1]
            assert isinstance(last, ast.Raise)
            assert last.lineno == last.end_lineno
            lines[last.lineno - 1] = " " * last.col_offset + by[method.name]
    return "\n".join(lines) + more


def test_what_is_written_says_what_to_fill_in_and_passes_when_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLE / "pool.py", tmp_path)
    assert cli.run(["init", str(tmp_path)]) == 0
    assert "what to do next" in capsys.readouterr().out
    empty = pytest_in(tmp_path, str(TEST), "-k", "P6 or L2")
    assert empty.returncode == 1, empty.stdout
    assert "fill in TestBlockManager.__init__: make your block manager there" in empty.stdout
    assert "1 failed, 1 skipped" in empty.stdout, "one sentence is enough"
    test = tmp_path / TEST
    test.write_text(filled(test.read_text()))
    done = pytest_in(tmp_path, str(TEST), "--kvproof-time", "0.4")
    assert done.returncode == 0, done.stdout
    passed, skipped = (int(words.split()[0]) for words in done.stdout.splitlines()[-1].split(" in ")[0].split(", "))
    assert passed >= 3
    assert passed + skipped == len(RULES)


@pytest.mark.slow
def test_a_tree_has_a_starting_point_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(EXAMPLE.parent / "prefix-tree" / "radix.py", tmp_path)
    assert cli.run(["init", str(tmp_path), "--kind", "tree"]) == 0
    assert "six calls of your prefix tree" in capsys.readouterr().out
    start = STARTS[Kind.TREE]
    assert f"python -m pytest {start.test} --kvproof-time 60" in (tmp_path / WORKFLOW).read_text()
    test = tmp_path / start.test
    assert "fill in TestPrefixTree.__init__" in pytest_in(tmp_path, str(start.test), "-k", "R4").stdout
    test.write_text(filled(test.read_text(), FILLED_TREE, "\nfrom radix import Radix\n"))
    done = pytest_in(tmp_path, str(start.test), "--kvproof-time", "0.4")
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


FILLED_OFFLOAD = FILLED | {
    "__init__": "self.pool = Pool(blocks, block_tokens); self.offload = Offload(self.pool, host_blocks)",
    "store": "return [offered(self, request) for request in requests]",
    "stored": "self.offload.stored(job)",
    "host_lookup": "return self.offload.lookup(keys(self, request)[len(request.found) :])",
    "load": "return [*zip(request.on_host, request.table[len(request.found) :])]",
}
"""What the example's host tier has for each method."""

GIVEN_OFFLOAD = (
    GIVEN
    + """
from offload import Offload

def offered(it, request):
    full = request.computed // it.pool.block_tokens
    return it.offload.store(it.pool.keys(request.tokens)[:full], request.table)

def keys(it, request):
    return it.pool.keys(request.tokens)[: it.pool.most(request.tokens)]
"""
)


@pytest.mark.slow
def test_a_host_tier_has_a_starting_point_too(tmp_path: Path) -> None:
    for name in ("pool.py", "offload.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    assert cli.run(["init", str(tmp_path), "--kind", "offload"]) == 0
    test = tmp_path / STARTS[Kind.OFFLOAD].test
    test.write_text(filled(test.read_text(), FILLED_OFFLOAD, GIVEN_OFFLOAD))
    done = pytest_in(tmp_path, str(test), "--kvproof-time", "1", "-k", "O3 or O8 or P14 or O10")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("4 passed, 1 skipped"), done.stdout


def test_a_mistake_in_what_was_filled_in_is_found(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "pool.py", tmp_path)
    assert cli.run(["init", str(tmp_path)]) == 0
    test = tmp_path / TEST
    wrong = filled(test.read_text()).replace("request.tokens[:tokens])", "request.tokens[:0])")
    test.write_text(wrong)
    done = pytest_in(tmp_path, str(TEST), "--kvproof-time", "0.4")
    assert done.returncode == 1
    assert "TestBlockManager::P14 (nothing less)" in done.stdout


@pytest.mark.parametrize(
    ("has", "installed"),
    [
        ("pyproject.toml", "pytest kvproof ."),
        ("requirements.txt", "pytest kvproof -r requirements.txt"),
        ("x", "pytest kvproof"),
    ],
)
def test_the_workflow_installs_the_project_and_runs_the_test(tmp_path: Path, has: str, installed: str) -> None:
    (tmp_path / has).touch()
    assert cli.run(["init", str(tmp_path)]) == 0
    commands = [line.split("run: ")[1] for line in (tmp_path / WORKFLOW).read_text().splitlines() if "run: " in line]
    assert commands == [f"python -m pip install {installed}", f"python -m pytest {TEST} --kvproof-time 60"]


@pytest.mark.parametrize("there", [TEST, WORKFLOW])
def test_nothing_is_overwritten_and_then_nothing_written(
    tmp_path: Path, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / there).parent.mkdir(parents=True)
    (tmp_path / there).write_text("mine")
    assert cli.run(["init", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "is there already, and nothing is overwritten" in said
    assert said.count("\n") == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / there]
    assert (tmp_path / there).read_text() == "mine"


def test_where_nothing_can_be_written_nothing_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".github").touch()
    for folder, words in {tmp_path / "none": "is no folder", tmp_path: "can be written to"}.items():
        assert cli.run(["init", str(folder)]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
    assert not (tmp_path / "tests").exists()


def test_half_of_it_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = trace.write_atomically

    def full(path: Path, data: bytes) -> None:
        if path.name == WORKFLOW.name:
            raise OSError(28, "No space left on device")
        whole(path, data)

    monkeypatch.setattr(trace, "write_atomically", full)
    assert cli.run(["init", str(tmp_path)]) == 2
    assert "cannot be written (No space left on device); nothing was" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
