"""Who interrupts a command has an answer at once, and no process is left behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvproof.cli import changes, engine_fuzzing, hunting, main
from kvproof.cli.hunting import Plan
from kvproof.engines.report import Finding
from kvproof.testing.ended import heeding


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


def computed(group: int) -> float:
    """For how many seconds its processes have computed, however busy the machine is."""
    ticks = 0
    for process in left_of(group):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def proving(jobs: str, proofs: Path) -> subprocess.Popen[str]:
    """A proof from nothing that is under way."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kvproof", "prove", "offload", "tiered", "--fresh", "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Who starts the tests in the background of a script has made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "KVPROOF_PROOFS": str(proofs)},
    )
    while computed(process.pid) < 3.5:  # to start takes two of them
        assert process.poll() is None
        time.sleep(0.1)
    return process


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize(
    ("whole", "jobs"),
    [(True, "2"), (False, "2"), (True, "1")],
    ids=["from a terminal", "of one process", "there is but one"],
)
def test_an_interrupted_proof_ends_at_once(jobs: str, whole: bool, tmp_path: Path) -> None:
    with proving(jobs, tmp_path / "proofs.sqlite") as process:
        began = time.monotonic()
        (os.killpg if whole else os.kill)(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert time.monotonic() - began < 5  # a second on a quiet machine
    assert process.returncode == 130
    *progress, last = said.splitlines()
    assert last == "kvproof: interrupted"
    assert all(re.fullmatch(r"\w+\..+, \d+ of \d+, \d+ s", line) for line in progress), progress
    time.sleep(0.3)
    assert left_of(process.pid) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
def test_who_is_told_twice_says_it_once(tmp_path: Path) -> None:
    """As `timeout` tells a command, and once more its group."""
    with proving("2", tmp_path / "proofs.sqlite") as process:
        for _ in range(20):
            process.terminate()
            time.sleep(0.01)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert said.splitlines()[-1] == "kvproof: ended"
    assert "Traceback" not in said
    time.sleep(0.3)
    assert left_of(process.pid) == []


ROOT = Path(main.__file__).parent.parent.parent
"""Of the kit."""

DRIVER = """
import json, os, sys, time
can = {"operations": ["start", "finish"], "visible": {"device": ["free", "ref"]}}
hello = {"protocol": 1, "engine": "sleeper", "version": "1", "levels": ["requests"], "capabilities": {"requests": can}}
print(json.dumps({"hello": hello}), flush=True)
sys.stdin.readline()
with open(os.environ["PIDS"], "a") as file:
    file.write(f"{os.getpid()}\\n")
while True:
    time.sleep(1)
"""
"""A driver that never answers, and does not care that nobody listens."""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_hunt_that_is_ended_takes_its_driver_along(number: int, status: int, tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    pids = tmp_path / "pids"
    command = [sys.executable, "-m", "kvproof", "fuzz", f"exec:{sys.executable} {tmp_path / 'driver.py'}"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PIDS": str(pids)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        until = time.monotonic() + 60
        while not pids.exists() and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.2)
        (driver,) = map(int, pids.read_text().split())
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert said.splitlines()[-1] == ("kvproof: ended" if number == signal.SIGTERM else "kvproof: interrupted")
    with pytest.raises(ProcessLookupError):
        os.kill(driver, 0)


SAME = """
from kvproof.testing import BlockManager

class Same(BlockManager):
    def __init__(self, blocks, block_tokens):
        self.size = block_tokens

    def allocate(self, request, tokens):
        return [0] * -(-tokens // self.size)

    def free(self, request):
        pass
"""
"""A manager that gives everybody the same block."""


def test_who_ends_a_hunt_does_not_end_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hunt, traces = hunting.hunt_levels, tmp_path / "traces"

    def ended(plan: Plan, on_progress: Any, on_finding: Callable[[Finding], None]) -> list[Any]:
        def found(finding: Finding) -> None:
            on_finding(finding)
            raise KeyboardInterrupt

        return hunt(plan, on_progress, found)

    monkeypatch.setattr(engine_fuzzing, "hunt_levels", ended)
    (tmp_path / "same.py").write_text(SAME)
    assert main.run(["fuzz", f"python:{tmp_path / 'same.py'}:Same", "--time", "8", "--traces", str(traces)]) == 130
    told = capsys.readouterr()
    assert told.err.splitlines()[-1] == "kvproof: interrupted"
    (trace,) = traces.iterdir()
    assert f"{trace}" in told.out
    assert "rule H8" in told.out or "rule P6" in told.out


ENDED = """
import os, signal
from kvproof.testing import fuzzing

hunt = fuzzing.hunt

def ended(*args, share, **how):
    def found(findings):
        share(findings)
        if findings:
            os.kill(os.getpid(), signal.SIGINT)
        return []
    return hunt(*args, share=found, **how)

fuzzing.hunt = ended
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
"""What ends a suite once something was found."""

RIGHT = """

class Right(Same):
    dialect = {"keep": "none"}

    def __init__(self, blocks, block_tokens):
        super().__init__(blocks, block_tokens)
        self.free_ones, self.of = list(range(blocks)), {}

    def allocate(self, request, tokens):
        of = self.of.setdefault(request.name, [])
        more = -(-tokens // self.size) - len(of)
        if more > len(self.free_ones):
            return None
        of += [self.free_ones.pop() for _ in range(more)]
        return list(of)

    def free(self, request):
        self.free_ones += self.of.pop(request.name, [])
"""
"""One that gives everybody its own."""


@pytest.mark.parametrize("when", ["the hunt", "the other side", "what is no fault"])
def test_who_ends_a_check_of_a_change_does_not_end_what_it_found(
    when: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hunt, traces = hunting.hunt_levels, tmp_path / "traces"

    def interrupted(*_args: Any, **_named: Any) -> Any:
        raise KeyboardInterrupt

    def ended(plan: Plan, on_progress: Any, on_finding: Callable[[Finding], None]) -> list[Any]:
        def found(finding: Finding) -> None:
            on_finding(finding)
            interrupted()

        return hunt(plan, on_progress, found)

    if when == "the hunt":
        monkeypatch.setattr(changes, "hunt_levels", ended)
    else:
        monkeypatch.setattr(changes, "outcome_in" if when == "the other side" else "compare_behaviour", interrupted)
    path = tmp_path / "sides.py"
    path.write_text(SAME + RIGHT)
    command = ["check-change", "--base", f"python:{path}:Right", "--head", f"python:{path}:Same"]
    assert main.run([*command, "--time", "8", "--examples", "30", "--traces", str(traces)]) == 130
    told = capsys.readouterr()
    assert told.err.splitlines()[-1] == "kvproof: interrupted"
    written = [*traces.iterdir()]
    assert written
    assert all(str(trace) in told.out and trace.name.startswith("head-") for trace in written)
    assert "rule H8" in told.out or "rule P6" in told.out
    if when == "what is no fault":
        assert "broken by the change: " in told.out
        assert "not asked" not in told.out
    else:
        assert f"found, and the other side was not asked yet: {len(written)}" in told.out


SUITES = [
    "from same import Same\nclass TestSame(Same): pass\n",
    "import kvproof.testing, same\ndef test_it(): kvproof.testing.assert_fuzzed(same.Same, seconds=60)\n",
]


def ended_suite(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A suite that ends itself: the signal comes from within, as from without nobody knows when."""
    (folder / "same.py").write_text(SAME)
    (folder / "test_same.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kvproof-time", "25", *options]
    return subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=150, check=False, cwd=ROOT)


@pytest.mark.parametrize(("name", "status"), [("SIGINT", pytest.ExitCode.INTERRUPTED), ("SIGTERM", 143)])
@pytest.mark.parametrize("suite", SUITES, ids=["a class", "an assertion"])
def test_who_ends_a_suite_does_not_end_what_it_found(suite: str, name: str, status: int, tmp_path: Path) -> None:
    """The signal comes as soon as something is sure."""
    done = ended_suite(tmp_path, ENDED.replace("SIGINT", name, 1) + suite)
    assert done.returncode == status, done.stdout
    assert "KeyboardInterrupt" in done.stdout
    assert "found before the interruption:" in done.stdout
    assert "a test to keep:" in done.stdout
    assert "rule H8" in done.stdout or "rule P6" in done.stdout
    assert "not played again yet" not in done.stdout


LOST = """
import os, signal, same

signal.signal(signal.SIGINT, signal.default_int_handler)
calls = 0

class TestSame(same.Same):
    def allocate(self, request, tokens):
        global calls
        calls += 1
        if calls == 300:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                pass
        return super().allocate(request, tokens)
"""
"""A manager in whose calls an interruption gets lost, before there was time to play anything again."""


def test_an_interruption_that_a_manager_swallows_is_heeded_and_what_was_seen_is_told(tmp_path: Path) -> None:
    done = ended_suite(tmp_path, LOST)
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert "found before the interruption:" in done.stdout
    assert "rule H8" in done.stdout or "rule P6" in done.stdout
    assert "not played again yet, and not made small" in done.stdout


def test_a_worker_of_a_suite_tells_what_it_found_where_nobody_hears_it_any_more(tmp_path: Path) -> None:
    done = ended_suite(tmp_path, ENDED + SUITES[0], "-n", "1", "--dist", "loadscope", "--max-worker-restart", "0")
    assert "found before the interruption:" in done.stderr


def test_what_a_timer_of_others_raises_is_raised_again_where_it_was_lost() -> None:
    def given_up(_number: int, _frame: object) -> None:
        pytest.fail("too late")

    before = signal.signal(signal.SIGALRM, given_up)
    try:
        with pytest.raises(pytest.fail.Exception, match="too late"), heeding(), contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGALRM)
        assert signal.getsignal(signal.SIGALRM) is given_up
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_copy_of_a_suite_that_is_told_to_end_ends_as_it_would() -> None:
    """As a worker of a manager's own, which that terminates."""
    with heeding():
        if not (copy := os.fork()):
            with contextlib.suppress(BaseException):
                signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(copy, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM


_AT_ITS_END = """
import atexit, multiprocessing, time
from kvproof.cli.campaign.slices import work
atexit.register(lambda: (print("leaving", flush=True), time.sleep(1), print("left", flush=True)))
here, there = multiprocessing.Pipe()
here.close()
work(there)
"""


def test_a_process_of_a_campaign_that_is_at_its_end_is_not_interrupted() -> None:
    """As torch unloads: who hangs up on it ends it as well, and what it says of that is no news to anybody."""
    with subprocess.Popen([sys.executable, "-c", _AT_ITS_END], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"leaving\n"
        child.terminate()
        assert child.communicate(timeout=60) == (b"left\n", b"")
    assert child.returncode == 0


def test_what_a_timer_of_a_manager_tells_itself_ends_nothing() -> None:
    def late(_number: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    try:
        with heeding(), contextlib.suppress(TimeoutError):
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_handlers_of_others_hear_their_signals() -> None:
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with heeding():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_a_suite_of_an_engine_does_not_end_what_it_found(number: int, tmp_path: Path) -> None:
    """The command that hunts for it is told, and not killed."""
    said = "import time\ntry:\n    print('up', flush=True)\n    time.sleep(60)\nfinally:\n    print('a finding')\n"
    (tmp_path / "hunts.py").write_text(
        f"import signal\nsignal.signal(signal.SIGTERM, signal.default_int_handler)\n{said}"
    )
    script = "from kvproof.testing.targets import _done; from pathlib import Path; import sys\n"
    script += f"_done([sys.executable, {str(tmp_path / 'hunts.py')!r}], Path('.'))"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        time.sleep(3)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert "\nfound before the interruption:\nup\na finding" in errors


def test_an_interruption_within_a_lock_is_no_fault_of_the_kit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `threading.Condition` may end when the signal comes while it is given back."""

    def waits(**_: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise RuntimeError("release unlocked lock")  # noqa: B904 # Python does not name its cause either.

    monkeypatch.setattr(main, "app", waits)
    assert main.run([]) == 130
    assert capsys.readouterr().err == "kvproof: interrupted\n"


ASIDE = """
import multiprocessing, time
from multiprocessing.managers import SyncManager
from kvproof.checkers.processes import end_with_the_parent
from kvproof.cli.ending import heed_the_end

def work():
    heed_the_end()
    end_with_the_parent(2.0)
    to_say = ["begun"]
    while True:
        try:
            while to_say:  # The interruption may come as soon as this is read, before the call of print has ended.
                print(to_say.pop(), flush=True)
            time.sleep(1)
        except KeyboardInterrupt:  # As who waits for more to do once the first thing is broken off.
            print("told", flush=True)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    manager = SyncManager(ctx=context)
    manager.start(end_with_the_parent)
    context.Process(target=work).start()
    time.sleep(1000)
"""


FORKED = """
import os, time
from kvproof.checkers.processes import forked

def work():
    os.write(1, b"begun\\n")  # Whole, where print writes a line's end by itself if PYTHONUNBUFFERED is set.
    while True:
        time.sleep(1)

with forked(2) as pool:
    for _ in range(2):
        pool.submit(work)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize(
    ("text", "begun", "there", "last"), [(ASIDE, 1, 4, "told\n"), (FORKED, 2, 3, "")], ids=["spawned", "forked"]
)
def test_processes_end_with_the_one_that_began_them_however_it_ends(
    text: str, begun: int, there: int, last: str, tmp_path: Path
) -> None:
    """The first may end by itself; of it there are also the manager, and who keeps track of what they share."""
    script = tmp_path / "script.py"
    script.write_text(text)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            assert [process.stdout.readline() for _ in range(begun)] == ["begun\n"] * begun
            _wait_for(there, process.pid)
        finally:  # Nothing else ends it.
            process.kill()
        said, _ = process.communicate(timeout=60)
    assert said == last
    _wait_for(0, process.pid)


def _wait_for(processes: int, group: int) -> None:
    """Until so many of a group are there."""
    until = time.monotonic() + 60
    while len(there := left_of(group)) != processes:
        assert time.monotonic() < until, there
        time.sleep(0.1)
