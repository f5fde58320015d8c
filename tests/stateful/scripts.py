"""The scripts that findings come with, run: alone, as a user does, or in a copy of this process."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path

__all__ = ["Ran", "ran", "ran_alone"]

Ran = tuple[int, str]
"""The exit status of a script, and all that it printed."""


def ran_alone(script: str, folder: Path) -> Ran:
    """Run a script as a user does; most of its time goes to imports."""
    file = _written(script, folder)
    done = subprocess.run(
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    return _judged(done.returncode, done.stdout)


def ran(script: str, folder: Path) -> Ran:
    """Run a script in a fork of this process: what it imports is there, all else is its own."""
    file, said = _written(script, folder), folder / "said.txt"
    child = multiprocessing.get_context("fork").Process(target=_run, args=(file, said))
    child.start()
    child.join(120)
    child.kill()
    child.join()
    assert child.exitcode is not None
    return _judged(child.exitcode, said.read_text(encoding="utf-8"))


def _written(script: str, folder: Path) -> Path:
    file = folder / "failure.py"
    file.write_text(script, encoding="utf-8")
    return file


def _run(file: Path, said: Path) -> None:
    with said.open("w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
    sys.argv = [str(file)]
    status = 0
    try:
        runpy.run_path(str(file), run_name="__main__")
    except Exception:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _judged(status: int, said: str) -> Ran:
    """A script fails by its assertion, and by nothing else."""
    assert status == 0 or "AssertionError" in said, said
    return status, said
