"""What commands write: looked at before the work, and no reason to hide what was found."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvproof.checkers import trace as traces
from kvproof.checkers.mutation.record import Judged, Record, RecordError
from kvproof.cli import engine_replay, standalone
from kvproof.cli import main as cli
from kvproof.engines.build import Build
from kvproof.judge.record import Answer, Case
from kvproof.judge.violation import Verdict, Violation

ROOT = Path(__file__).parents[2]
BROKEN = """
from kvproof import Bool, Machine, Scalar, action, invariant

class Broken(Machine):
    lit = Scalar(to=Bool)

    @action("X1")
    def switch(self) -> None:
        self.lit.value = True

    @invariant("X1")
    def it_is_dark(self) -> Bool:
        return ~self.lit.value
"""


@pytest.fixture
def broken(tmp_path: Path) -> str:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    return f"{file}:Broken"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has become full since the command began."""

    def write(path: str | os.PathLike[str], data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    from kvproof.cli import output

    for module in (traces, output):
        monkeypatch.setattr(module, "write_atomically", write)


Asked = Callable[[Path, str], list[str]]


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        (lambda there, machine: ["prove", machine, "--traces", str(there)], "--traces"),
        (lambda there, machine: ["prove", machine, "--smt2", str(there)], "--smt2"),
        (lambda there, machine: ["explore", machine, "--trace", str(there / "t.jsonl")], "--trace"),
        (lambda there, machine: ["explore", machine, "--json", str(there / "t.json")], "--json"),
        (lambda there, machine: ["fuzz", "refimpl", "--traces", str(there)], "--traces"),
        (lambda there, machine: ["fuzz", "exec:nothing", "--traces", str(there)], "--traces"),
    ],
)
def test_where_nothing_can_be_written_no_work_begins(
    tmp_path: Path, broken: str, capsys: pytest.CaptureFixture[str], asked: Asked, option: str
) -> None:
    there = tmp_path / "file"
    there.write_text("mine")
    assert cli.run(asked(there, broken)) == 2
    said = capsys.readouterr()
    assert option in said.err
    assert said.out == ""
    assert there.read_text() == "mine"


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(
    "asked",
    [
        lambda there, machine: ["prove", machine, "--fresh", "--traces", str(there)],
        lambda there, machine: ["explore", machine, "--trace", str(there / "t.jsonl")],
        lambda there, machine: ["explore", machine, "--json", str(there / "t.json")],
    ],
)
def test_a_verdict_is_told_though_its_file_cannot_be_written(
    tmp_path: Path, broken: str, capsys: pytest.CaptureFixture[str], asked: Asked
) -> None:
    assert cli.run(asked(tmp_path, broken)) == 1
    said = capsys.readouterr()
    assert "it_is_dark" in said.out
    assert "kvproof: not written: " in said.err
    assert "No space left on device" in said.err


@pytest.mark.usefixtures("full")
def test_what_was_asked_for_and_not_written_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["prove", "statistics", "--json", str(tmp_path / "report.json")]
    assert cli.run(asked) == 2
    assert "not written" in capsys.readouterr().err
    assert cli.run(["rules", "P6"]) == 0  # and the next command begins anew


def test_a_folder_is_made_where_there_is_something_to_write(tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "new" / "traces"
    assert cli.run(["prove", broken, "--fresh", "--traces", str(folder)]) == 1
    (trace,) = folder.glob("*.jsonl")
    assert cli.run(["replay", str(trace), "--machine", broken]) == 1


def test_a_record_of_mutants_outlives_an_end_in_the_midst_of_a_line_and_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run had refused all of it, for the half line behind it."""
    one = Judged("Pool", "take", "pool.py:1", "forget", "a line is left out", 1, "prove")
    path = tmp_path / "record.jsonl"
    Record(path).keep([("first", one)])
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    record = Record(path)
    assert [*record.known] == ["first"]
    record.keep([("second", one)])
    assert [*Record(path).known] == ["first", "second"]
    kept = path.read_bytes()

    script = "import resource, sys; from kvproof.checkers.mutation.record import Record, RecordError\n"
    script += f"from pathlib import Path\nrecord = Record(Path({str(path)!r}))\n"
    script += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(kept) + 20}, {len(kept) + 20}))\n"
    script += (
        "try:\n    record.keep([('third', record.known['first'])])\nexcept RecordError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "cannot be written" in done.stdout
    assert path.read_bytes() == kept
    path.write_text("something else")
    with pytest.raises(RecordError):
        Record(path)


SAME = """
from kvproof.testing import BlockManager

class Same(BlockManager):
    dialect = {"keep": "none"}

    def __init__(self, blocks, block_tokens):
        self.size, self.blocks, self.of = block_tokens, list(range(blocks)), {}

    def allocate(self, request, tokens):
        return [0] * -(-tokens // self.size)

    def free(self, request):
        pass

class Right(Same):
    def allocate(self, request, tokens):
        of = self.of.setdefault(request.name, [])
        more = -(-tokens // self.size) - len(of)
        if more > len(self.blocks):
            return None
        of += [self.blocks.pop() for _ in range(more)]
        return list(of)

    def free(self, request):
        self.blocks += self.of.pop(request.name, [])
"""


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("change", [False, True])
def test_nobody_is_sent_to_a_trace_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: bool
) -> None:
    (tmp_path / "same.py").write_text(SAME)
    same, right = (f"python:{tmp_path / 'same.py'}:{name}" for name in ("Same", "Right"))
    command = ["check-change", "--base", right, "--head", same] if change else ["fuzz", same]
    where = tmp_path / "traces"
    assert cli.run([*command, "--time", "4", "--examples", "40", "--traces", str(where)]) == 1
    said = capsys.readouterr()
    assert "rule H8" in said.out or "rule P6" in said.out
    assert str(where) not in said.out
    (first, *_) = (line for line in said.err.splitlines() if "not written" in line)
    assert first.count(str(where)) == 1, "and its name is told once"


@pytest.mark.usefixtures("full")
def test_a_script_that_is_not_there_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_replay, "write_atomically", traces.write_atomically)
    monkeypatch.setattr(standalone, "script", lambda *_: "pass")
    found = Verdict(Violation("P6", "an oracle", "what is wrong"), 0, Answer(0))
    outcome = engine_replay.Outcome(Build("vllm", "0.33.0", Path("python")), "same", verdict=found)
    path = tmp_path / "script.py"
    assert engine_replay._written(path, "vllm==0.33.0", Case("pool", {}, []), outcome) == "no script was written"
