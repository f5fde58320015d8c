"""Output that reaches nobody: full disks, closed streams, names that are too long. No verdict becomes another one."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kvproof.checkers.trace import Operation, Trace, write_atomically, write_trace
from kvproof.cli import main as cli
from kvproof.untrusted import limits
from kvproof.untrusted.opening import open_untrusted

FULL = Path("/dev/full")

needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    """An incident that breaks a rule."""
    path = tmp_path / "wrong.jsonl"
    seen = {"step": 0, "blocks": [1], "before": [0], "after": [-1], "was": [True], "queued": [True], "free": [1, 1]}
    violation = {"rule": "P9", "oracle": "free without a holder", "text": "?", "at": 0, "blocks": [1]}
    dialect = {"sanitizer": 1, "violation": violation, "pool": {"null": 0, "exact": False}}
    write_trace(path, Trace("vllm==0.33.0", "sanitizer", [Operation("free", seen)], {"blocks": 4}, dialect))
    return str(path)


def ended(command: list[str], streams: str) -> tuple[int, str]:
    """The status of a command whose streams a shell puts elsewhere, and what it says on standard error."""
    line = ["sh", "-c", f'"$@" {streams}', "sh", sys.executable, "-m", "kvproof", *command]
    root = Path(cli.__file__).parent.parent.parent
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, cwd=root)
    return done.returncode, done.stderr


@needs_full
@pytest.mark.parametrize("streams", [">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full", ">&-", "2>&-", ">&- 2>&-"])
def test_a_verdict_stays_what_it_is(wrong: str, streams: str) -> None:
    for more in ([], ["--json", "-"]):
        status, said = ended(["replay", wrong, *more], streams)
        assert status == 1, said
        assert "Traceback" not in said
        assert ("not written: standard output" in said) == (
            streams == ">/dev/full" or (streams == ">&-" and more != [])
        )


@needs_full
@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-", ">/dev/full 2>/dev/full"])
def test_what_cannot_be_done_is_never_a_refutation(tmp_path: Path, streams: str) -> None:
    """Nobody heard why, and the status was 1."""
    assert ended(["replay", str(tmp_path / "no-trace")], streams)[0] == 2


@needs_full
@pytest.mark.parametrize("command", [["rules"], ["rules", "--json", "-"], ["--help"], ["--version"], ["schema"]])
def test_what_nobody_sees_is_no_success_and_no_fault_of_the_kit(command: list[str]) -> None:
    status, said = ended(command, ">/dev/full")
    assert (status, "Traceback" in said) == (2, False)
    assert "No space left on device" in said


# ------------------------------------------------------------------------------------------------------------ names


def test_a_name_that_is_too_long_is_refused_in_a_sentence(
    tmp_path: Path, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    long = str(tmp_path / ("x" * 300))
    commands = [
        ["replay", wrong, "--itf", long],
        ["run", "--incidents", long, "--", "true"],
        ["explore", f"{long}.py:X"],
        ["replay", long],
    ]
    for command in commands:
        assert cli.run(command) == 2
        said = capsys.readouterr().err
        assert "ile name too long" in said
        assert len(said.splitlines()) == 1


def test_the_longest_name_that_there_is_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    write_atomically(path, b"all of it")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"all of it"]


def test_a_file_system_without_permissions_keeps_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_names: object, **_options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", none)
    write_atomically(tmp_path / "file", b"all of it")
    assert (tmp_path / "file").read_bytes() == b"all of it"


def test_a_link_that_leads_nowhere_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It passed, and every incident was lost: no folder can be made where a link stands."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert cli.run(["run", "--incidents", str(tmp_path / "link"), "--", "true"]) == 2
    assert "is no folder that can be written to" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ pipes


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(limits, "WRITER_SECONDS", 0.2)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_pipe_that_nobody_writes_into_is_refused_and_not_waited_for(
    pipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(pipe)
    commands = [
        ["replay", name],
        ["shrink", name, "--to", f"{name}.smaller"],
        ["events", "check", name],
        ["events", "diff", name, name],
        ["explore", "pool", "--params", name],
        ["workload", name],
    ]
    for command in commands:
        assert cli.run(command) == 2
        assert "nobody writes into it" in capsys.readouterr().err, command


def test_a_pipe_is_read_whole_however_slowly_it_comes(pipe: Path) -> None:
    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            for part in (b"", b"one ", b"after ", b"the other"):
                time.sleep(0.3)
                file.write(part)

    writer = threading.Thread(target=write)
    writer.start()
    with open_untrusted(pipe) as file:
        assert file.read() == b"one after the other"
    writer.join()
