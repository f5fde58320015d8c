"""Hunts in several processes: what becomes of those that fail."""

import subprocess
import sys
from pathlib import Path

NOT_DRIVEN = """
from pathlib import Path

from kvproof.cli.hunting import Plan, hunt_levels, levels_of
from kvproof.engines.build import Build
from kvproof.errors import UsageError

if __name__ == "__main__":
    build = Build("vllm", "0.33.0", Path("/bin/false"))
    try:
        hunt_levels(Plan(build, build.label, levels_of(build), 0, 5.0, jobs=2), lambda report: None)
    except UsageError as error:
        print(error)
"""


def test_processes_that_cannot_drive_the_engine_end_in_one_sentence(tmp_path: Path) -> None:
    script = tmp_path / "hunt.py"
    script.write_text(NOT_DRIVEN)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert "vllm==0.33.0 cannot be driven: the worker did not start" in done.stdout
