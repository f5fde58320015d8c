"""Mistakes in a machine file of the user's: one sentence with file and line, status 2, never a fault of kvproof."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kvproof.cli import main as cli
from kvproof.harness.machines import find_machine
from kvproof.spec.pool import Pool

from .hostile import refusal, run, trace_text

GOOD = '''from kvproof.machine import Int, Machine, Map, Sort, action, invariant


class Cell(Sort):
    """A place."""


class Counter(Machine):
    """Counts."""

    count = Map(Cell, to=Int, init=0)

    @action("A")
    def add(self, c: Cell) -> None:
        self.count[c] = self.count[c] + 1

    @invariant("I")
    def never_below_zero(self, c: Cell):
        return self.count[c] >= 0
'''
ADD = "self.count[c] = self.count[c] + 1"
HOLDS = "return self.count[c] >= 0"

OF_STEPS = GOOD.replace("import Int,", "import Int, step,").replace("@invariant", "@step")

WITH_PART = (
    GOOD
    + """
from kvproof.machine import Part
class Counter(Counter):
    up = {}
"""
)
PROMISING = (
    GOOD
    + """
from kvproof.machine import eventually, promise, steps
class Counter(Counter):
    @eventually("L1")
    def it_grows(self, c: Cell):
        return promise(goal=self.count[c] > 0, fair=[{}], measure=[{}])
"""
)

IMPORTING: Mapping[str, tuple[str, int, str]] = {
    "an end of the program": ("import sys\nsys.exit(0)\n", 2, "SystemExit"),
    "an end with words": ("raise SystemExit('all holds')\n", 1, "SystemExit"),
    "an exit that is an exception": ("import typer\nraise typer.Exit(0)\n", 2, "Exit"),
    "no Python": ("x = 1\ndef f(:\n", 2, "invalid syntax"),
    "a wrong indent": ("x = 1\n  y = 2\n", 2, "unexpected indent"),
    "an unknown encoding": ("# -*- coding: utf-9 -*-\n", 1, "unknown encoding"),
    "a wrong encoding": ("x = 1\ny = '\udcff\udcfe'\n", 2, "can't decode byte"),
    "a zero byte": ("x = 1\n\nx = '\0'\n", 3, "a zero byte"),
    "an absent module": ("\nimport does_not_exist\n", 2, "No module named 'does_not_exist'"),
    "an absent name": ("from kvproof.machine import Machin\n", 1, "cannot import name 'Machin'"),
    "a fault": ("\n\nx = 1 / 0\n", 3, "ZeroDivisionError: division by zero"),
    "a fault in a library": ("import json\n\njson.loads('{')\n", 3, "JSONDecodeError"),
    "a fault in a function": ("def f():\n    return [][0]\n\nf()\n", 2, "IndexError"),
    "a fault in a text that is run": ("exec('1 / 0')\n", 1, "ZeroDivisionError"),
    "no end": ("def f():\n    return f()\n\nf()\n", 2, "RecursionError"),
    "too many brackets": ("x = " + "(" * 5000 + ")" * 5000 + "\n", 1, "too many nested parentheses"),
    "an exception of its own": ("class A(BaseException):\n    pass\n\nraise A('\\x1b[2J')\n", 4, "A: \\x1b[2J"),
    "an exception without words": ("class A(Exception):\n    def __str__(self):\n        1 / 0\n\nraise A\n", 5, "A"),
    "a group": ("raise ExceptionGroup('both', [ValueError('a'), KeyError('b')])\n", 1, "ExceptionGroup: both"),
    "all memory": ("raise MemoryError\n", 1, "MemoryError"),
    "a declaration": (GOOD.replace("init=0", "first=0"), 11, "unexpected keyword argument 'first'"),
    "a sort that is none": (GOOD.replace("Map(Cell", "Map(3"), 11, "3 is not a sort"),
    "a rule that cannot be shown": (GOOD.replace('"I"', r'"\ud800"'), 17, "@invariant names the rule"),
    "a generator": ("class Odd(GeneratorExit):\n    pass\n\nraise Odd('left')\n", 4, "Odd: left"),
}  # fmt: skip
"""Texts that fail while they are imported: the text, the line, and what is said."""

READING: Mapping[str, tuple[str, int, str]] = {
    "an absent variable": (GOOD.replace(ADD, "self.nothing[c] = 1"), 15, "Counter has no nothing"),
    "a wrong call": (GOOD.replace(ADD, "len(3)"), 15, "has no len()"),
    "the length of a value": (GOOD.replace(ADD, "len(self.count[c])"), 15, "Python cannot go through it"),
    "a wrong key": (GOOD.replace(ADD, "self.count[3] = 1"), 15, "count is keyed by Cell"),
    "an end of the program": (GOOD.replace(ADD, "raise SystemExit(0)"), 15, "SystemExit"),
    "no end": (GOOD.replace(HOLDS, "return self.never_below_zero(c)"), 19, "RecursionError"),
    "a property that is none": (GOOD.replace(HOLDS, "return self.count[c].high"), 19, "no attribute 'high'"),
    "a property that branches": (GOOD.replace(HOLDS, "return bool(self.count[c] >= 0)"), 19, "Python cannot branch"),
    "a property of nothing": (GOOD.replace(HOLDS, "pass"), 17, "a condition is expected here"),
    "an absent sort": (GOOD.replace("c: Cell) -> None", "c: Nothing) -> None"), 14, "name 'Nothing' is not defined"),
    "a first value": (GOOD.replace("init=0", "init=lambda self, c: c.high"), 11, "no attribute 'high'"),
    "a number that nobody can write": (GOOD.replace(ADD, "self.count[c] = 10**6000"), 15, "more than 1,000 digits"),
    "a fraction that nobody can write": (
        "from fractions import Fraction\n"
        + GOOD.replace(HOLDS, "return self.count[c] >= Fraction(1, 10**6000)"), 20, "more than 1,000 digits",
    ),
    "an action without self": (GOOD.replace("add(self, c: Cell)", "add()"), 13, "it begins with self"),
    "a property without self": (GOOD.replace("zero(self, c: Cell)", "zero()"), 17, "it begins with self"),
    "an action that returns another sort": (
        GOOD.replace("c: Cell) -> None", "c: Cell) -> Cell").replace(ADD, "return self.count[c]"),
        13, "says that it returns a Cell, and returns a Int",
    ),
    "an action that returns something": (GOOD.replace(ADD, "return c"), 13, "returns nothing, and returns a Cell"),
    "an action that returns nothing": (
        GOOD.replace("c: Cell) -> None", "c: Cell) -> Cell"), 13, "returns a Cell, and returns nothing",
    ),
    "an action that returns none": (
        "from kvproof.machine import none\n" + GOOD.replace(ADD, "return none"), 14, "is none and of no sort",
    ),
    "a step without a state before": (
        OF_STEPS, 17, "is the state before the step, and none of a sort",
    ),
    "a step of nothing": (
        OF_STEPS.replace("zero(self, c: Cell)", "zero(self)"),
        17, "it begins with self and the state before the step",
    ),
    "a part that is a text": (WITH_PART.format("Part('Counter')"), 23, "the machine 'Counter': it is none"),
    "a part that is a number": (WITH_PART.format("Part(int)"), 23, "it is none"),
    "a part of two names": (WITH_PART.format("Part(Counter)\n    down = up"), 24, "down is the same declaration as up"),
    "a part without its state": (
        WITH_PART.format("1\nCounter.other = Part(Counter, count=1)"), 24, "other gives count a value",
    ),
    "a fair step that is an action": (PROMISING.format("self.add", "1"), 25, "a promise speaks of steps"),
    "a fair step of no condition": (
        PROMISING.format("steps(self.add, Cell, where=lambda c: 'x')", "1"), 25, "a condition is expected here",
    ),
    "an exception of its own": (GOOD.replace(ADD, "raise type('Stop', (BaseException,), {})"), 15, "Stop"),
}  # fmt: skip
"""Texts that fail while their machine is read."""


def named(name: str) -> str:
    return name.replace(" ", "_")


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


@pytest.mark.parametrize("name", [*IMPORTING, *(f"read: {name}" for name in READING)], ids=named)
def test_a_mistake_is_one_sentence_with_file_and_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, line, said = READING[name[6:]] if name.startswith("read: ") else IMPORTING[name]
    path = written(tmp_path, text)
    shown = refusal(capsys, "prove", f"{path}:Counter")
    assert f"mine.py:{line} " in shown or f"mine.py:{line}:" in shown or f"{path}, line {line}: " in shown
    assert said in shown
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.py"], "nothing is written beside it"


@pytest.mark.parametrize("name", ["a fault", "an end of the program", "no Python"], ids=named)
@pytest.mark.parametrize("command", ["prove", "explore", "replay"])
def test_every_command_says_so(tmp_path: Path, name: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text, line, said in (IMPORTING[name], READING["an absent variable"]):
        machine = f"{written(tmp_path, text)}:Counter"
        trace = tmp_path / "trace.jsonl"
        trace.write_text(trace_text(subject="Counter", sizes={"Cell": 2}, dialect={}))
        arguments = ("replay", str(trace), "--machine", machine) if command == "replay" else (command, machine)
        shown = refusal(capsys, *arguments)
        assert re.search(rf"mine\.py(, line |:){line}\b", shown)
        assert said in shown


def test_a_mistake_in_what_the_file_uses_is_named_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    helper = tmp_path / "a_helper_of_mine.py"
    helper.write_text("def more(value):\n    return value == {}['high']\n")
    text = f"import sys\n\nsys.path.insert(0, {str(tmp_path)!r})\nfrom a_helper_of_mine import more\n"
    path = written(tmp_path, text + GOOD.replace(HOLDS, "return more(self.count[c])"))
    assert f"{helper}, line 2: KeyError" in refusal(capsys, "prove", f"{path}:Counter")
    sys.path.remove(str(tmp_path))


def test_an_interruption_is_the_user_s_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "raise KeyboardInterrupt\n")
    done = subprocess.run(
        [sys.executable, "-c", "from kvproof.cli.main import main; main()", "prove", f"{path}:Counter"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode not in (0, 1, 2, 3)
    assert "a fault of kvproof" not in done.stderr


def test_a_machine_without_a_mistake_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "prove", f"{written(tmp_path, GOOD)}:Counter", "--jobs", "1")
    assert status == 0
    assert "Counter" in out


SEVERAL = (
    GOOD + "\n\nclass Other(Machine):\n    pass\n\n\nAlias = Other\nNumber = 3\nfrom kvproof.spec.pool import Pool\n"
)


def test_what_is_no_machine_names_those_that_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SEVERAL)
    both = f"name {path}:Counter or {path}:Other\n"
    for wrong in ("Nobody", "Number", "Cell", "Machine", "Counter.add", "__doc__", ""):
        shown = refusal(capsys, "prove", f"{path}:{wrong}")
        assert shown.endswith(both) if wrong else "names no machine" in shown or shown.endswith(both)
    assert refusal(capsys, "explore", str(path)).endswith(both)
    path = written(tmp_path, "x = 1\n")
    assert "name a subclass of kvproof.machine.Machine" in refusal(capsys, "prove", f"{path}:Counter")
    assert "has no machine Nobody" in refusal(capsys, "prove", f"{path}:Nobody")


def test_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in refusal(capsys, "prove", f"{tmp_path}/none.py:Counter")
    (tmp_path / "folder.py").mkdir()
    assert "Is a directory" in refusal(capsys, "prove", f"{tmp_path}/folder.py:Counter")
    assert "nothing:Counter is no machine" in refusal(capsys, "prove", "nothing:Counter")


def test_a_machine_of_the_kit_may_be_named_by_an_own_file(tmp_path: Path) -> None:
    assert find_machine(f"{written(tmp_path, SEVERAL)}:Pool") is Pool
    assert find_machine(f"{written(tmp_path, SEVERAL)}:Alias").__name__ == "Other"


def test_a_fault_of_the_kit_beside_a_good_machine_is_still_the_kit_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvproof.cli.commands.explore.show", None)
    assert (
        cli.run(["explore", f"{written(tmp_path, GOOD)}:Counter", "--size", "Cell=1,Int=1", "--max-states", "1"]) == 2
    )
    assert "a fault of kvproof itself (TypeError)" in capsys.readouterr().err


def test_what_is_compiled_beside_a_file_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that was sent may hold compiled text that says something else than the file."""
    import importlib.util
    import py_compile

    path = written(tmp_path, "raise SystemExit(0)  # " + "x" * (len(GOOD) - 23) + "\n")
    compiled = py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert compiled == importlib.util.cache_from_source(str(path))
    written(tmp_path, GOOD)
    assert run(capsys, "explore", f"{path}:Counter", "--size", "Cell=1,Int=1", "--max-states", "1")[0] == 3
