"""Who interrupts a command has an answer at once, and no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def left_of(group: int) -> list[str]:
    """The processes of a group that are there."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = folder.joinpath("stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(state[2]) == group and state[0] != "Z":
            found.append(folder.name)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("whole", [True, False], ids=["from a terminal", "of one process"])
def test_an_interrupted_proof_ends_at_once(jobs: str, whole: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kvproof", "prove", "offload", "tiered", "--fresh", "--jobs", jobs]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Who starts the tests in the background of a script has made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "KVPROOF_PROOFS": str(tmp_path / "proofs.sqlite")},
    ) as process:
        time.sleep(6)
        assert process.poll() is None
        began = time.monotonic()
        (os.killpg if whole else os.kill)(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert time.monotonic() - began < 5  # a second on a quiet machine
    assert process.returncode == 130
    assert said == "kvproof: interrupted\n"
    time.sleep(0.3)
    assert left_of(process.pid) == []
