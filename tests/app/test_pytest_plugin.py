"""The pytest plugin, as somebody uses it who has a suite of their own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

from kvproof.cli import main as cli
from kvproof.judge.sight import RULES
from kvproof.testing.targets import levels_of

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "block-pool"
FAKE = Path(__file__).parents[1] / "engines" / "fakes" / "requests_driver.py"
MINE = """
from abc import ABC, abstractmethod

import pytest
from kvproof.testing import BlockManager
from pool import Pool
from test_pool import TestPool as Right


class Forgetful(Pool):
    def lookup(self, tokens, salt=None):
        return super().lookup(tokens, salt)[:-1]


@pytest.mark.kvproof(examples=40, seconds=3)
class Wrong(Right):
    kind = Forgetful


class Abstract(BlockManager):
    "Others extend it."


class AbstractMethods(Right, ABC):
    "So do they this."

    @abstractmethod
    def pool_of(self): ...


class _Private(Right):
    "So do they this."


class Disabled(Right):
    __test__ = False


@pytest.mark.kvproof(examples=10, seed=7)
class TestFew(Right):
    pass


def test_of_mine():
    pass
"""


def suite(folder: Path, text: str = MINE) -> Path:
    for name in ("pool.py", "test_pool.py"):
        (folder / name).write_text((EXAMPLE / name).read_text())
    (folder / "test_mine.py").write_text(text)
    return folder


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=folder,
        env={**surroundings, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_managers_are_classes_of_tests(tmp_path: Path) -> None:
    listed = pytest_in(suite(tmp_path), "--collect-only", "test_mine.py").stdout
    classes = {line.split("::")[1] for line in listed.splitlines() if line.startswith("test_mine.py::")}
    assert classes == {"Right", "Wrong", "TestFew", "test_of_mine"}
    assert [line.split("::")[2] for line in listed.splitlines() if "::Wrong::" in line] == [*RULES]


def test_what_pytest_would_run_of_a_manager_is_not_lost_without_a_word(tmp_path: Path) -> None:
    text = """
import pytest
from test_pool import TestPool as Right


class WithTest(Right):
    def test_own(self):
        assert False

    @pytest.fixture(autouse=True)
    def wanted(self): ...

    def setup_method(self): ...


@pytest.mark.parametrize("size", [1, 2])
class WithMark(Right): ...


pytestmark = pytest.mark.usefixtures("tmp_path")
"""
    done = pytest_in(suite(tmp_path, text), "--collect-only", "test_mine.py")
    assert done.returncode == 2, done.stdout
    told = " ".join(done.stdout.split())
    assert "WithTest has setup_method(), test_own(), the fixture wanted: its tests are made by kvproof" in told
    assert "WithMark has the mark parametrize: its tests" in told
    assert "test_mine.py::Right::P1" in told, "a mark of the module is of the tests of others"


def test_fixtures_are_there_while_a_manager_is_driven(tmp_path: Path) -> None:
    """Those that everybody uses, or its class; and one that skips leaves nothing to judge."""
    text = """
import os
import pytest
from test_pool import TestPool as _Pool

BEGUN = []


def setup_module():
    BEGUN.append("module")


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    monkeypatch.setenv("OF_MY_ENGINE", "1")


@pytest.fixture(scope="class")
def device(request):
    request.cls.device = "cpu"


@pytest.fixture
def card():
    pytest.skip("there is no card")


@pytest.mark.usefixtures("device")
class TestHere(_Pool):
    def __init__(self, blocks: int, block_tokens: int) -> None:
        assert (os.environ["OF_MY_ENGINE"], self.device, BEGUN) == ("1", "cpu", ["module"])
        super().__init__(blocks, block_tokens)


@pytest.mark.usefixtures("card")
class TestThere(_Pool): ...
"""
    done = pytest_in(suite(tmp_path, text), "test_mine.py", "-rs", "--kvproof-time", "1")
    assert done.returncode == 0, done.stdout
    assert "there is no card" in done.stdout
    assert "TestHere" not in done.stdout


@pytest.mark.slow
def test_a_broken_rule_is_told_and_chosen_and_comes_first_again(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    options = ["test_mine.py", "-k", "Wrong or TestFew or mine", "-n", "2", "--dist", "loadscope"]
    done = pytest_in(suite(tmp_path), *options, f"--junitxml={report}", "-rs")
    assert done.returncode == 1, done.stdout
    told = done.stdout
    assert "P14 a shorter hit than what is cached: Wrong, level requests" in told
    assert "1 start request=r0" in told
    assert "assert_played(Wrong, {" in told
    assert "hunt.py" not in told, "of a story the calls of the kit say nothing"
    assert "there is no null_block" in told
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert failed == ["P14 (nothing less)"]
    again = pytest_in(tmp_path, "test_mine.py", "--lf", "--kvproof-time", "1")
    assert again.stdout.splitlines()[-1].startswith("1 failed")


def test_nothing_is_imported_before_somebody_asks(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text(
        "import sys\n"
        "def test_of_mine():\n"
        "    assert 'kvproof.testing.plugin' in sys.modules\n"
        "    ours = {name for name in sys.modules if name.startswith('kvproof.')}\n"
        "    assert not {name.split('.')[0] for name in sys.modules} & {'torch', 'z3', 'msgspec', 'numpy'}, ours\n"
        "class Sub(dict):\n"
        "    def test_it(self): ...\n"
        "class TestOld:\n"
        "    def test_it(self): ...\n"
    )
    listed = pytest_in(tmp_path, "-p", "no:hypothesispytest", "-p", "no:xdist")
    assert listed.stdout.splitlines()[-1].startswith("2 passed"), listed.stdout


@pytest.mark.slow
def test_targets_are_tests_too(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text("def test_of_mine(): pass\n")
    wrong = f"exec:{shlex.join([sys.executable, str(FAKE), '--engine-fault', 'short hits'])}"
    right = "python:test_pool.py:TestPool"
    options = ["test_none.py", "--kvproof-time", "1", "--kvproof", wrong]
    done = pytest_in(suite(tmp_path), *options, "--kvproof", right)
    assert done.stdout.splitlines()[-1].startswith("1 failed, 2 passed"), done.stdout
    assert "P14 a shorter hit than what is cached" in done.stdout
    (tmp_path / "known.toml").write_text(
        '[[known]]\nengine = "fake-requests"\nrule = "P14"\nreason = "known"\nlink = "-"\n'
    )
    # What shows another way is made small until it is seen to need no more than what is listed; that takes its time.
    options += ["--kvproof-time", "5", "--kvproof-known", "known.toml", "-m", "kvproof", "-n", "1"]
    done = pytest_in(tmp_path, *options)
    assert done.stdout.splitlines()[-1].startswith("1 passed"), done.stdout


def test_a_target_that_there_is_not_is_a_mistake_of_usage(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "--kvproof", "llama==1")
    assert done.returncode == 4
    assert "--kvproof llama==1 names no target" in done.stderr


@pytest.mark.parametrize("target", ["vllm", "refimpl", "python:"])
def test_what_names_no_target_has_no_levels(target: str) -> None:
    with pytest.raises(pytest.UsageError):
        levels_of(target)


def test_the_levels_of_a_release_are_its_tests() -> None:
    assert set(levels_of("vllm==0.33.0")) == {"pool", "manager", "offload", "scheduler"}
    assert levels_of("exec:./driver") == ("requests",)
    assert levels_of("sglang==0.5.23") == ("scheduler", "hicache", "tree", "allocator")
    assert levels_of("sglang==0.5.19") == ("scheduler", "hicache", "tree", "allocator")
    assert levels_of("sglang==0.5.18") == ("tree", "allocator")
    assert set(levels_of("vllm@/no/such/python")) == {"pool", "manager", "offload", "scheduler"}


def test_the_command_line_drives_a_class_and_a_trace_never_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(suite(tmp_path))
    options = ["--examples", "40", "--time", "4", "--traces", "out", "--json", "report.json"]
    assert cli.run(["fuzz", "python:test_mine:Wrong", *options]) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert {finding["rule"] for finding in report["findings"]} == {"P14"}
    trace = str(min((tmp_path / "out").glob("*.jsonl")))
    assert cli.run(["replay", trace]) == 2
    assert "name it yourself: --target python:test_mine:Wrong" in capsys.readouterr().err
    assert cli.run(["replay", trace, "--target", "python:test_mine:Wrong"]) == 1
    assert cli.run(["replay", trace, "--target", "python:test_pool.py:TestPool"]) == 0
    capsys.readouterr()
    for target, words in {
        "python:test_mine:No": "has no No that extends kvproof.testing.BlockManager",
        "python:nothing:No": "No module named 'nothing'",
    }.items():
        assert cli.run(["fuzz", target, "--time", "1"]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1, said


GIVEN_UP = """
import signal
import pytest
from kvproof.testing import BlockManager
from test_pool import TestPool as Right

made = 0


def given_up(_number, _frame):
    pytest.fail("it took too long")


signal.signal(signal.SIGALRM, given_up)  # As pytest-timeout does, or others.
signal.setitimer(signal.ITIMER_REAL, 1000)


class TestSlow(Right):
    def free(self, request):
        global made
        made += 1
        if made == 50:
            try:
                signal.raise_signal(signal.SIGALRM)
            except BaseException:
                pass
        super().free(request)


class TestNoDevice(Right):
    def __init__(self, blocks, block_tokens):
        global made
        made += 1
        if made > 1:
            pytest.skip("there is no device")
        super().__init__(blocks, block_tokens)


class TestFails(Right):
    def free(self, request):
        pytest.fail("the pool is not whole")
"""


def test_a_run_that_is_given_up_is_told_once_and_not_begun_again_for_each_rule(tmp_path: Path) -> None:
    done = pytest_in(suite(tmp_path, GIVEN_UP), "test_mine.py", "-rs", "-k", "TestNoDevice")
    assert done.stdout.splitlines()[-1].startswith("19 skipped"), done.stdout
    assert "there is no device" in done.stdout
    done = pytest_in(tmp_path, "test_mine.py", "-rs", "-k", "TestSlow")
    assert done.stdout.splitlines()[-1].startswith("1 failed, 18 skipped"), done.stdout
    assert "Failed: it took too long" in done.stdout
    assert "not judged: the run was ended while it was done for P1" in done.stdout


def test_what_a_manager_fails_with_by_itself_is_a_finding(tmp_path: Path) -> None:
    done = pytest_in(suite(tmp_path, GIVEN_UP), "test_mine.py", "-k", "TestFails", "--kvproof-time", "2")
    assert done.stdout.splitlines()[-1].startswith("1 failed"), done.stdout
    assert "Failed: the pool is not whole" in done.stdout
    assert "a test to keep:" in done.stdout
