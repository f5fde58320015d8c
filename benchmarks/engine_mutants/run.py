"""Which mistakes in an engine's own code does the kit tell? Mutants of a released module, driven by the same cases.

    kvproof engines install vllm==0.33.0                                    # once
    python -m benchmarks.engine_mutants.run vllm==0.33.0 manager vllm/v1/core/block_pool.py OUT

A mutant has one thing wrong: a statement dropped, a condition turned, a number one too large. Cases are drawn once,
from all families of the level, and judged as a hunt judges them. A mutant is *told* by the first case that breaks a
rule in a way in which the release as it is breaks none, or none without something that this case has not. It is
*refused* where it refuses what the release takes: nothing is driven then, and a hunt says so. Of the others, one
answers all cases as the release does: *same* (it changes nothing, or nothing that these cases reach). What is left is
*missed*: it answers otherwise and nothing is said. Some of these are legal (another order, another policy); each is
worth a look.

With --sanitize the sanitizer watches the worker (`kvproof run`), and only what it writes of a case tells a mutant.

OUT (JSON lines) keeps what was found of each mutant; those that are in it are run again only where one asks for it.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from benchmarks.engine_mutants.mutating import Mutant, mutants, traced
from kvproof.checkers.trace import read_trace
from kvproof.cli.commands.run import HOOK
from kvproof.engines.build import Build
from kvproof.engines.cases import Cases
from kvproof.engines.catalog import ENGINES
from kvproof.engines.drawing import DRAWING
from kvproof.engines.session import Limits, Session, WorkerError
from kvproof.engines.store import resolve
from kvproof.engines.traits import Traits
from kvproof.engines.verdicts import close, verdict
from kvproof.engines.vllm.sanitizer.settings import EVERY, FOLDER, SWITCH
from kvproof.judge.record import Answer, Case
from kvproof.judge.violation import Violation

LIMITS = Limits(start=120, operation=5, answer=20)

Signature = tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True):
    """What came of a mutant."""

    module: str
    level: str
    line: int
    column: int
    function: str
    what: str
    came: str
    """``told``, ``start`` (the worker does not start), ``refused``, ``same`` or ``missed``."""
    seconds: float
    cases: int
    by: list[str] = []
    """The signature of what told it."""
    text: str = ""
    first: int = -1
    """The number of the first case that it answers otherwise."""


@dataclass
class Cell:
    """A copy of the release, of which one module is written anew for each mutant."""

    build: Build
    module: Path

    @classmethod
    def of(cls, build: Build, module: str, folder: Path) -> "Cell":
        """Copy a release of the store."""
        copied = folder / build.path[0].name
        shutil.copytree(build.path[0], copied, symlinks=True)
        return cls(replace(build, path=(copied, *build.path[1:])), copied / module)

    @property
    def incidents(self) -> Path:
        """Where the sanitizer writes."""
        return self.build.path[0].with_suffix(".incidents")

    def told(self) -> list[Violation]:
        """What the sanitizer wrote since this was asked last."""
        found = []
        for path in sorted(self.incidents.glob("*")):
            said = read_trace(path).dialect["violation"]
            found.append(Violation(said["rule"], said["oracle"], said["text"]))
            path.unlink()
        return found

    def write(self, source: str) -> None:
        """Let the module be this text; nothing compiled of another one stays."""
        for compiled in (self.module.parent / "__pycache__").glob(f"{self.module.stem}.*.pyc"):
            compiled.unlink()
        self.module.write_text(source)

    def session(self, level: str, *, sanitized: bool = False) -> Session:
        """A worker around the copy; the sanitizer watches it besides, if that is wanted."""
        if not sanitized:
            return Session.of(self.build, LIMITS, [level])
        environment = {**self.build.environment(), SWITCH: "1", EVERY: "1", FOLDER: str(self.incidents)}
        environment["PYTHONPATH"] = os.pathsep.join((str(HOOK), environment["PYTHONPATH"]))
        return Session.around(ENGINES[self.build.name].WORKER, self.build.python, environment, LIMITS, [level])


def main() -> None:
    """Run the mutants that are not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("level")
    parser.add_argument("module", help="its path below the release's folder")
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0, help="of cases for a mutant; default: 8")
    parser.add_argument("--share", type=float, default=1.0, help="the part of the mutants that is run, by chance")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--within", help="only functions in whose name this pattern is found")
    parser.add_argument("--again", action="store_true", help="run what was missed, and nothing else")
    parser.add_argument("--without", help="no cases of families whose name has this: those that go around the module")
    parser.add_argument("--sanitize", action="store_true", help="ask the sanitizer, in place of the judge")
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    build = resolve(told.target)
    of = ENGINES[build.name].cases(told.level)
    assert of is not None, f"{build.name} has no level {told.level}"
    with tempfile.TemporaryDirectory() as folder:
        drawn = _drawn(of, build.version, told.seed, told.without)
        ran = Bench(build, told.level, of, drawn, told.module, Path(folder), told.seconds, told.sanitize)
        came = {(o.line, o.column, o.what): o.came for o in _of(told.results, told.module, told.level)}
        wanted = "missed" if told.again else None
        left = [m for m in ran.mutants() if came.get((m.line, m.column, m.what)) == wanted]
        chosen = [m for m in left if not told.within or re.search(told.within, m.function)]
        chosen = random.Random(told.seed).sample(chosen, round(told.share * len(chosen)))
        print(f"{len(ran.cases)} cases, {len(ran.known)} known symptoms, {len(chosen)} mutants", flush=True)
        forked = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(told.jobs, forked, _begin, (ran, build, told.module, Path(folder))) as pool:
            for outcome in pool.map(_outcome, chosen):
                with told.results.open("ab") as sink:
                    sink.write(msgspec.json.encode(outcome) + b"\n")
                where = f"{outcome.line:4} {outcome.function}"
                print(f"{outcome.came:6} {where}: {outcome.what}  {outcome.text[:90]}", flush=True)
    print(dict(Counter(outcome.came for outcome in _of(told.results, told.module, told.level))))


def _begin(ran: "Bench", build: Build, module: str, folder: Path) -> None:
    """Begin as one of the processes that run mutants: each has a copy of the release."""
    global _RAN
    _RAN = ran, Cell.of(build, module, folder / str(os.getpid()))


_RAN: tuple["Bench", Cell]


def _outcome(mutant: Mutant) -> Outcome:
    ran, cell = _RAN
    return ran.outcome(mutant, cell)


def outcomes(path: Path) -> list[Outcome]:
    """What was found so far."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Outcome) for line in path.read_bytes().splitlines()]


def _of(path: Path, module: str, level: str) -> list[Outcome]:
    """What was found last of each mutant of a module, at a level."""
    found = [outcome for outcome in outcomes(path) if (outcome.module, outcome.level) == (module, level)]
    return [*{(outcome.line, outcome.column, outcome.what): outcome for outcome in found}.values()]


class Bench:
    """The cases, and what the release as it is answers."""

    def __init__(
        self,
        build: Build,
        level: str,
        of: Cases,
        drawn: Iterator[Case],
        module: str,
        folder: Path,
        seconds: float,
        sanitized: bool = False,
    ) -> None:
        """Take cases and run them against the release, twice: what it answers differently by itself says nothing."""
        self.level, self.of, self.module, self.seconds, self.sanitized = level, of, module, seconds, sanitized
        self.cases: list[Case] = []
        self.traits = of.traits(build.version) if of.traits else Traits(())
        self.known: dict[Signature, frozenset[str]] = {}
        """The symptoms of the release as it is, each with what all cases have that show it."""
        self.refused: set[int] = set()
        """The numbers of the cases that the release as it is refuses."""
        self.lines: set[int] = set()
        """The lines of the module that the cases reach."""
        cell, sink = Cell.of(build, module, folder / "as it is"), folder / "lines"
        self._source = cell.module.read_text()
        with cell.session(level, sanitized=sanitized) as session:
            first = [*self._answered(session, cell, drawn, keep=True)]
        cell.write(traced(self._source, str(sink)))
        with cell.session(level, sanitized=sanitized) as session:
            again = [*self._answered(session, cell, iter(self.cases))]
        self._digests = [one if one == other else "" for one, other in zip(first, again, strict=True)]
        self.lines = {int(line) for line in sink.read_text().split()}

    def _judged(self, session: Session, cell: Cell, case: Case) -> tuple[Sequence[Violation], Answer]:
        """What is wrong with a case, as the judge or the sanitizer says, and what the engine told."""
        found, answer = verdict(session, case, self.of.more_oracles)
        if self.sanitized:
            return cell.told(), answer
        return () if found is None else found.violations, answer

    def _answered(self, session: Session, cell: Cell, cases: Iterator[Case], *, keep: bool = False) -> Iterator[str]:
        assert session.hello.levels
        until = time.monotonic() + self.seconds * 1.5
        for case in cases:
            found, answer = self._judged(session, cell, case)
            if keep:
                if answer.refused is not None:
                    self.refused.add(len(self.cases))
                self.cases.append(case)
            traits = self.traits.of(case)
            for violation in found:
                self.known[violation.signature] = traits & self.known.get(violation.signature, traits)
            yield _digest(answer)
            if len(self.cases) == 1:
                until = time.monotonic() + self.seconds * 1.5  # The first waits for the engine's import.
            if keep and time.monotonic() > until:
                return

    def mutants(self) -> list[Mutant]:
        """The mutants of what the cases reach."""
        return [*mutants(self._source, self.lines)]

    def outcome(self, mutant: Mutant, cell: Cell) -> Outcome:
        """Drive a mutant by the cases until one tells it, or the time is over."""
        cell.write(mutant.source)
        outcome = Outcome(
            self.module, self.level, mutant.line, mutant.column, mutant.function, mutant.what, "start", 0.0, 0
        )  # fmt: skip
        with cell.session(self.level, sanitized=self.sanitized) as session:
            try:
                assert session.hello.levels
                return self._driven(session, cell, outcome)
            except WorkerError as error:
                return replaced(outcome, text=str(error))

    def _news(self, case: Case, found: Sequence[Violation]) -> Violation | None:
        """The first that the release as it is does not show, or not without something that the case has not."""
        known, traits = self.known, self.traits.of(case)
        return next((v for v in found if v.signature not in known or not known[v.signature] <= traits), None)

    def _driven(self, session: Session, cell: Cell, outcome: Outcome) -> Outcome:
        began, first, cases = time.monotonic(), -1, 0
        for case, digest in zip(self.cases, self._digests, strict=True):
            found, answer = self._judged(session, cell, case)
            seconds, cases = round(time.monotonic() - began, 2), cases + 1
            new = self._news(case, found)
            if new is not None:
                said, by = f"{new.rule}: {new.text}", [*new.signature]
                return replaced(outcome, came="told", seconds=seconds, cases=cases, by=by, text=said)
            if answer.refused is not None and cases - 1 not in self.refused:
                return replaced(outcome, came="refused", seconds=seconds, cases=cases, text=answer.refused)
            if first < 0 and digest not in ("", _digest(answer)):
                first = cases - 1
            if cases == 1:
                began = time.monotonic()  # The first waits for the engine's import.
            elif seconds > self.seconds:
                break
        came = "same" if first < 0 else "missed"
        return replaced(outcome, came=came, seconds=seconds, cases=cases, first=first)


def _drawn(of: Cases, release: str, number: int, without: str | None) -> Iterator[Case]:
    """Cases of all families in turn, but for those whose name has this, without end."""
    profiles = [drawn for name, drawn in of.profiles(release).items() if not without or without not in name]
    for turn in range(1_000_000):
        yield from _a_few(profiles[turn % len(profiles)], number * 1_000_003 + turn)


def _a_few(family: st.SearchStrategy[Case], number: int) -> list[Case]:
    cases: list[Case] = []

    def keep(case: Case) -> None:
        cases.append(close(case))

    seed(number)(settings(DRAWING, max_examples=6)(given(family)(keep)))()
    return cases


def _digest(answer: Answer) -> str:
    return hashlib.blake2b(msgspec.json.encode([answer.steps, answer.refused]), digest_size=8).hexdigest()


if __name__ == "__main__":
    main()
