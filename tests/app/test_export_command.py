"""`kvproof export`: where it writes, what it says, and what it refuses in one sentence."""

from __future__ import annotations

import errno
import json
from collections import Counter
from pathlib import Path

import pytest

from kvproof.checkers.export import smt2, write_obligations
from kvproof.checkers.prove import prove
from kvproof.checkers.trace import write_atomically
from kvproof.cli import main as cli
from kvproof.harness.machines import find_machine
from kvproof.machine import Model

SMALL = ["--size", "Hash=1"]


def test_promela_goes_to_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["export", "file-store", "--to", "promela", *SMALL]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("/*\n * FileStore, written by kvproof export")
    assert captured.out.endswith("  od\n}\n")
    assert "FileStore, promela: 11 invariants and 18 properties of steps are checked" in captured.err


def test_promela_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, report = tmp_path / "model.pml", tmp_path / "report.json"
    assert cli.run(["export", "file-store", "--to", "promela", "-o", str(target), *SMALL, "--json", str(report)]) == 0
    assert target.read_text().endswith("  od\n}\n")
    assert "left out" in capsys.readouterr().out
    written = json.loads(report.read_text())
    assert (written["machine"], written["to"], written["files"]) == ("FileStore", "promela", [str(target)])
    assert (len(written["invariants"]), len(written["steps"]), len(written["left_out"])) == (11, 18, 3)
    assert written["sizes"] == {"Int": 2, "Hash": 1, "Page": 2}


def test_a_module_and_its_configuration_go_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["export", "file-store", "--to", "tla", "-o", str(tmp_path / "new"), *SMALL, "--json", "-"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert sorted(Path(f).name for f in files) == ["FileStore.cfg", "FileStore.tla"]
    assert all(Path(f).is_file() for f in files)
    assert (tmp_path / "new" / "FileStore.tla").read_text().startswith("---- MODULE FileStore ----\n")


def test_the_scope_is_that_of_explore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    params = tmp_path / "params.json"
    params.write_text('{"null": null, "caching": true, "split": false, "kv": [[0]], "parent": [null], "prompt": [[0]], '
                      '"limit": [0], "need": [1]}')  # fmt: skip
    size = "Block=1,Request=1,Hash=1,Slot=1,Content=1,Position=1"
    assert cli.run(["export", "pool", "--to", "promela", "--size", size, "--params", str(params)]) == 0
    assert " * Parameter need = [1]\n" in capsys.readouterr().out
    assert (
        cli.run(
            [
                "export",
                "mirror",
                "--to",
                "promela",
                "--set",
                "capacity=2",
                "--free-order",
                "append",
                "--size",
                "Request=1",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert " * Parameter capacity = 2\n" in shown
    assert " * Parameter split = false\n" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["export", "pool", "--to", "tla"], "--to tla writes several files; name a folder for them with -o DIR"),
        (["export", "pool", "--to", "smt2"], "--to smt2 writes several files; name a folder for them with -o DIR"),
        (["export", "pool", "--to", "promela", "-o", "."], "-o . is no file in a folder that exists; name one, as in"),
        (
            ["export", "pool", "--to", "promela", "-o", "no/where.pml"],
            "-o no/where.pml is no file in a folder that exi",
        ),
        (["export", "pool", "--to", "promela", "--json", "-"], "the model and --json - cannot both go to standard out"),
        (["export", "pool", "--to", "smt2", "-o", "x", "--size", "Block=2"], "--to smt2 asks of every size at once"),
        (
            ["export", "pinning-off", "--set", "pinning=1", "--to", "promela"],
            "--to promela: the parameters break an assumption of PinningOff",
        ),
        (["export", "nothing", "--to", "promela"], "nothing is no machine; name one of pool"),
        (["export", "keys", "--to", "promela"], "Keys has parameters of its own"),
        (["export", "pool", "--to", "nusmv"], "invalid value for '--to': 'nusmv' is not one of"),
        (["export", "pool"], "missing option '--to'"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"kvproof: {sentence}")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_wanted_where_there_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("mine")
    assert cli.run(["export", "pool", "--to", "tla", "-o", str(tmp_path / "taken")]) == 2
    assert f"-o {tmp_path / 'taken'} is a file, and --to tla writes several; name a folder" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_every_obligation_is_a_file_that_solvers_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    z3 = pytest.importorskip("z3")
    assert cli.run(["export", "file-store", "--to", "smt2", "-o", str(tmp_path), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    index = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text().splitlines()]
    assert report["obligations"] == len(index) > 100
    assert {i["file"] for i in index} == {p.name for p in tmp_path.glob("*.smt2")}
    assert {i["action"] for i in index} >= {"initially", "write", "crash"}
    assert {i["expected"] for i in index} == {"unsat"}
    for entry in index:
        text = (tmp_path / entry["file"]).read_text()
        assert text.startswith("(set-info :smt-lib-version 2.6)\n")
        assert entry["goal"] in text.splitlines()[1]
        assert text.count("(check-sat)") == 1
        assert text.count("(set-info :status ") == 1
        z3.parse_smt2_string(text)
    for entry in index[:: max(1, len(index) // 12)]:
        assert answer_of_cvc5((tmp_path / entry["file"]).read_text()) == "unsat", entry


def test_what_prove_asks_has_a_file_each(tmp_path: Path) -> None:
    """All of it, each once. What is beyond has no file: it is no implication (`vacuity.py`)."""
    machine = find_machine("file-store")
    written = Counter((w.action, w.goal) for w in write_obligations(machine, tmp_path))
    asked = Counter((o.action, o.goal) for o in prove(machine, jobs=1).obligations)
    assert written <= asked
    ways = {f"{name} is {how}" for name in Model.of(machine).actions for how in ("possible", "consistent")}
    assert {goal for _, goal in asked - written} == {"some first state exists", *ways}


def test_a_folder_that_is_half_written_has_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "file-store", "--to", "smt2", "-o", str(tmp_path)]
    assert cli.run(arguments) == 0
    assert (tmp_path / "index.jsonl").is_file()
    left = [None] * 20

    def write(path: Path, data: bytes) -> None:
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        left.pop()
        write_atomically(path, data)

    monkeypatch.setattr(smt2, "write_atomically", write)
    assert cli.run(arguments) == 2
    assert "cannot be written (No space left on device); give another path" in capsys.readouterr().err
    assert not (tmp_path / "index.jsonl").exists()


def answer_of_cvc5(text: str) -> str:
    """What cvc5 says of a file, by its own reader."""
    cvc5 = pytest.importorskip("cvc5")
    engine = cvc5.Solver(cvc5.TermManager())
    engine.setOption("tlimit-per", "20000")
    parser = cvc5.InputParser(engine)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    symbols, answers = parser.getSymbolManager(), ""
    while not (command := parser.nextCommand()).isNull():
        answers += command.invoke(engine, symbols)
    return answers.strip()


def test_an_obligation_that_does_not_hold_is_not_answered_as_expected(tmp_path: Path) -> None:
    """The files ask what they say: that of a mutant with a fault is satisfiable, or at least not refuted."""
    z3 = pytest.importorskip("z3")
    machine = tmp_path / "mutant.py"
    machine.write_text(
        "from kvproof.machine import *\n"
        "class Thing(Sort): pass\n"
        "class Mutant(Machine):\n"
        "    on = Map(Thing, to=Bool)\n"
        "    @action('1')\n"
        "    def flip(self, a: Thing) -> None:\n"
        "        self.on[a] = ~self.on[a]\n"
        "    @invariant('1')\n"
        "    def never(self, a: Thing) -> Bool:\n"
        "        return ~self.on[a]\n"
    )
    assert cli.run(["export", f"{machine}:Mutant", "--to", "smt2", "-o", str(tmp_path / "out")]) == 0
    answers = {}
    for line in (tmp_path / "out" / "index.jsonl").read_text().splitlines():
        entry = json.loads(line)
        solver = z3.Solver()
        solver.from_string((tmp_path / "out" / entry["file"]).read_text())
        answers[entry["action"], entry["goal"]] = str(solver.check())
    assert answers == {("initially", "never"): "unsat", ("flip", "never"): "sat"}
