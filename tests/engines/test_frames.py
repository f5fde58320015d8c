"""Frames have room: no call of a worker or of the command line is slow by how deep it stands."""

import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parents[2] / "kvproof/engines/worker"

CODE = """
import sys, time
sys.path.insert(0, sys.argv[1])
from frames import with_room

def leaf():
    pass

def hot():
    started = time.process_time()
    for _ in range(2000):
        leaf()
    return time.process_time() - started

def deep(n):
    return hot() if n == 0 else deep(n - 1)

def slowest():
    # The quickest of three tries: other work on the machine is no frame that has no room.
    taken = [min(deep(n) for _ in range(3)) for n in range(400)]
    return max(taken) / sorted(taken)[200]

print(slowest() > 20, with_room(slowest) > 20)
"""


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="chunks of frames are CPython's")
def test_a_call_at_the_end_of_a_chunk_is_as_quick_as_any_other() -> None:
    ran = subprocess.run([sys.executable, "-c", CODE, str(WORKER)], capture_output=True, text=True, check=True)
    without, with_it = ran.stdout.split()
    assert with_it == "False"
    assert without == "True", "Python's frames have room by themselves now: with_room is not needed any more"
