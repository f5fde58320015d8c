"""What a command shows fits the terminal, and nothing of it is lost."""

from __future__ import annotations

import re

import pytest
from rich import box
from rich.table import Table

from kvproof.cli import main as cli
from kvproof.cli.output import Output


def table() -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("machine", no_wrap=True)
    for column in ("actions", "properties", "obligations", "proved", "refuted", "unknown", "slowest", "computing"):
        made.add_column(column, justify="right", no_wrap=True)
    made.add_row("TimedTiers", "23,456", "57,891", "149,012", "149,013", "123,456", "654,321", "10.82 s", "20.84 s")
    return made


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40])
def test_a_table_loses_no_digit(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Output(None)
    monkeypatch.setattr(output.tables, "width", width)
    output.tables.print(table())
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    given = "23,45657,891149,012149,013123,456654,32110.8220.84"
    digits = re.compile(r"\d")
    assert sorted(digits.findall(shown)) == sorted(digits.findall(given))


def test_without_a_terminal_progress_is_a_line_every_few_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("kvproof.cli.output.time.monotonic", lambda: clock[0])
    with Output(None).progress("counting") as advance:
        for second in range(13):
            clock[0] = 100.0 + second
            advance(second, None if second < 7 else 20, f"counting {'x' * 200}\x1b[2J: {second}")
    said = capsys.readouterr().err.splitlines()
    assert [line.rsplit(": ", 1)[-1] for line in said] == ["5, 5 s", "10, 10 of 20, 10 s"]
    assert "\x1b" not in "".join(said)


def test_what_takes_no_time_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Output(None).progress("counting") as advance:
        advance(1, 2)
    assert capsys.readouterr().err == ""


def test_a_long_line_is_broken_between_words_on_a_terminal_and_nowhere_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "explore takes a machine of which " + "nobody has heard yet " * 9
    output = Output(None)
    output.line(long)
    assert capsys.readouterr().out == f"{long}\n"
    monkeypatch.setattr(output.tables, "_force_terminal", True)
    monkeypatch.setattr(output.tables, "_width", 60)
    output.line(long)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()) == " ".join(long.split())
    output.line(f"  again: kvproof replay {'x' * 90} --target vllm==0.33.0")
    assert capsys.readouterr().out.count("\n") == 1


def test_what_is_wrong_is_broken_between_words_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert cli.run(["explore", "nothing"]) == 2
    whole = capsys.readouterr().err
    assert whole.startswith("kvproof: nothing is no machine; ")
    assert whole.count("\n") == 1
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cli.run(["explore", "nothing"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") > 3
    assert max(map(len, said.splitlines())) <= 60
    assert said.split() == whole.split()
