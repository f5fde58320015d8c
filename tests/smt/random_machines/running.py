"""Many machines: ranges of seeds over several processes, and what became of them."""

from __future__ import annotations

import json
import multiprocessing
import re
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvproof.checkers.heap import seldom_searched
from kvproof.checkers.proofs import Proofs
from kvproof.machine import model, reading  # noqa: F401 - all processes use the text that the first one has read

from .comparing import Outcome, compared
from .constructs import constructs
from .machines import MachineText, draw_machine
from .shrinking import shrunk

__all__ = ["Finding", "Tally", "recorded", "run", "run_range", "smallest", "tidy"]

CHUNK = 50
"""So many seeds are done by one process, which then gives its memory back."""
RECALLED = 4
"""Of every so many machines one is proved with the store of proofs, which all of a range share."""
PATIENCE = 120
"""Seconds after which a machine is left."""


@dataclass
class Finding:
    """A false theorem, or a crash."""

    seed: int
    kind: str
    what: str
    source: str


@dataclass
class Tally:
    """What became of the machines of a range of seeds."""

    first: int
    count: int
    verdicts: dict[str, int] = field(default_factory=dict)
    refuted: int = 0
    """Machines of which the walk refutes something."""
    states: int = 0
    steps: int = 0
    theorems: int = 0
    seconds: float = 0.0
    drawn: dict[str, int] = field(default_factory=dict)
    """By construct: machines that use it."""
    proved: dict[str, int] = field(default_factory=dict)
    """By construct: machines that use it and are proved, with some property."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The seed behind the last one."""
        return self.first + self.count

    def add(self, other: Tally) -> None:
        """Take in what another says."""
        for name in ("verdicts", "drawn", "proved"):
            total = Counter(getattr(self, name))
            total.update(getattr(other, name))
            setattr(self, name, dict(total))
        for name in ("count", "refuted", "states", "steps", "theorems", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.findings += other.findings


def run_range(first: int, count: int) -> Tally:
    """The machines of these seeds, one after the other."""
    tally = Tally(first, count)
    verdicts: Counter[str] = Counter()
    started = time.perf_counter()
    proofs = Proofs(Path(":memory:"))
    for seed in range(first, first + count):
        verdicts[_one(seed, tally, None if seed % RECALLED else proofs)] += 1
        model._known.clear()  # nothing is asked twice of these machines
    tally.verdicts, tally.seconds = dict(verdicts), time.perf_counter() - started
    return tally


def _one(seed: int, tally: Tally, proofs: Proofs | None) -> str:
    text = draw_machine(seed)
    try:
        with _limited(PATIENCE):
            outcome = compared(text, proofs=proofs)
    except TimeoutError:
        return "left"
    except Exception as error:
        tally.findings.append(Finding(seed, "crash", _described(error), text.source))
        return "crash"
    _note(outcome, text.source, tally)
    return outcome.verdict


def _note(outcome: Outcome, source: str, tally: Tally) -> None:
    seen = outcome.walk
    if seen is None:
        return
    tally.refuted += bool(seen.violations)
    tally.states += seen.states
    tally.steps += seen.steps
    if outcome.verdict == "false theorem":
        what = "\n".join(map(str, outcome.violations))
        assert outcome.text is not None
        tally.findings.append(Finding(int(outcome.seed), "false theorem", what, outcome.text.source))
    for what in seen.disagreements:
        tally.findings.append(Finding(int(outcome.seed), "disagreement", what, source))
    tally.drawn = dict(Counter(tally.drawn) + Counter(constructs(source)))
    if outcome.verdict == "proved" and outcome.theorems and outcome.text is not None:
        tally.proved = dict(Counter(tally.proved) + Counter(constructs(outcome.text.source)))
        tally.theorems += len(outcome.theorems)


def smallest(finding: Finding) -> str:
    """A small machine that shows what the finding shows."""
    found = shrunk(draw_machine(finding.seed), lambda text: _shows(text, finding))
    return found.source


def _shows(text: MachineText, finding: Finding) -> bool:
    try:
        outcome = compared(text)
    except Exception as error:
        return finding.kind == "crash" and _described(error) == finding.what
    if finding.kind == "disagreement":
        return outcome.walk is not None and bool(outcome.walk.disagreements)
    return finding.kind == outcome.verdict


def _described(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+|[0-9]+', 'N', str(error))[:100]} in {frame.name}"


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def late(_signal: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ------------------------------------------------------------------------------------------------ many


def run(
    first: int, count: int, *, jobs: int, record: Path | None = None, on_progress: Callable[[Tally], None] | None = None
) -> Tally:
    """The machines of these seeds in several processes; what ``record`` has of an earlier run is not done again."""
    total = Tally(first, 0)
    done = [] if record is None else recorded(record)
    for known in done:
        if first <= known.first and known.end <= first + count:
            total.add(known)
    ranges = [(at, min(CHUNK, first + count - at)) for at in range(first, first + count, CHUNK)]
    left = [r for r in ranges if not any(known.first <= r[0] and sum(r) <= known.end for known in done)]
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        for tally in pool.imap_unordered(_run_range, left):
            total.add(tally)
            if record is not None:
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(tally)) + "\n")
            if on_progress is not None:
                on_progress(total)
    return total


def _run_range(of: tuple[int, int]) -> Tally:
    seldom_searched()
    return run_range(*of)


def recorded(record: Path) -> list[Tally]:
    """What a record tells, in the order of the seeds; ranges that meet are one.

    Ranges with findings are left out: they are tried again, once what was found is mended.
    """
    if not record.exists():
        return []
    found = [t for t in map(_read, record.read_text(encoding="utf-8").splitlines()) if not t.findings]
    joined: list[Tally] = []
    for tally in sorted(found, key=lambda t: t.first):
        if joined and joined[-1].end == tally.first:
            joined[-1].add(tally)
        else:
            joined.append(tally)
    return joined


def _read(line: str) -> Tally:
    data: dict[str, Any] = json.loads(line)
    data["findings"] = [Finding(**f) for f in data["findings"]]
    return Tally(**data)


def tidy(record: Path) -> None:
    """Write a record anew, a line for each stretch of seeds without findings."""
    beside = record.with_name(f"{record.name}.new")
    beside.write_text("".join(json.dumps(asdict(t)) + "\n" for t in recorded(record)), encoding="utf-8")
    beside.replace(record)
