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
import multiprocessing
import os
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.engine_mutants.driving import (
    Bench,
    Opens,
    Outcome,
    Subject,
    asked_for,
    by_the_judge,
    drawn,
    keep,
    last_of,
)
from benchmarks.engine_mutants.mutating import Mutant
from kvproof.checkers.trace import read_trace
from kvproof.cli.commands.run import HOOK
from kvproof.engines.build import Build
from kvproof.engines.cases import Cases
from kvproof.engines.catalog import ENGINES
from kvproof.engines.session import Limits, Run, Session
from kvproof.engines.store import resolve
from kvproof.engines.traits import Traits
from kvproof.engines.verdicts import Runs
from kvproof.engines.vllm.sanitizer.settings import EVERY, FOLDER, SWITCH
from kvproof.judge.record import Answer, Case
from kvproof.judge.violation import Violation

LIMITS = Limits(start=120, operation=5, answer=20)


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

    def write(self, source: str) -> None:
        """Let the module be this text; nothing compiled of another one stays."""
        for compiled in (self.module.parent / "__pycache__").glob(f"{self.module.stem}.*.pyc"):
            compiled.unlink()
        self.module.write_text(source)

    @contextmanager
    def opened(self, level: str, source: str) -> Iterator[Session]:
        """A worker around the copy, with this text as the module."""
        self.write(source)
        with Session.of(self.build, LIMITS, [level]) as session:
            assert session.hello.levels
            yield session

    @contextmanager
    def watched(self, level: str, source: str) -> Iterator["Watched"]:
        """The same, with the sanitizer in the worker."""
        self.write(source)
        incidents = self.build.path[0].with_suffix(".incidents")
        environment = {**self.build.environment(), SWITCH: "1", EVERY: "1", FOLDER: str(incidents)}
        environment["PYTHONPATH"] = os.pathsep.join((str(HOOK), environment["PYTHONPATH"]))
        worker = ENGINES[self.build.name].WORKER
        with Session.around(worker, self.build.python, environment, LIMITS, [level]) as session:
            assert session.hello.levels
            yield Watched(session, incidents)


@dataclass
class Watched:
    """A worker with the sanitizer."""

    session: Session
    incidents: Path

    def run(self, case: Case) -> Run:
        """Do a case."""
        return self.session.run(case)

    def told(self) -> list[Violation]:
        """What the sanitizer wrote since this was asked last."""
        found = []
        for path in sorted(self.incidents.glob("*")):
            said = read_trace(path).dialect["violation"]
            found.append(Violation(said["rule"], said["oracle"], said["text"]))
            path.unlink()
        return found


def by_the_sanitizer(session: Runs, case: Case) -> tuple[Sequence[Violation], Answer]:
    """What the sanitizer says of a case, and nothing else."""
    assert isinstance(session, Watched)
    answer = session.run(case).answer
    return session.told(), answer


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
    parser.add_argument("--only", default="", help="no cases of families whose name has not this")
    parser.add_argument("--sanitize", action="store_true", help="ask the sanitizer, in place of the judge")
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    build = resolve(told.target)
    of = ENGINES[build.name].cases(told.level)
    assert of is not None, f"{build.name} has no level {told.level}"
    with tempfile.TemporaryDirectory() as folder:
        ran = _bench(build, of, told, Path(folder))
        left = asked_for(ran.mutants(), told.results, told.module, told.level, again=told.again)
        chosen = [m for m in left if not told.within or re.search(told.within, m.function)]
        chosen = random.Random(told.seed).sample(chosen, round(told.share * len(chosen)))
        print(f"{len(ran.cases)} cases, {len(ran.known)} known symptoms, {len(chosen)} mutants", flush=True)
        forked = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(told.jobs, forked, _begin, (ran, build, told, Path(folder))) as pool:
            for outcome in pool.map(_outcome, chosen):
                keep(outcome, told.results)
    print(dict(Counter(outcome.came for outcome in last_of(told.results, told.module, told.level))))


def _bench(build: Build, of: Cases, told: argparse.Namespace, folder: Path) -> Bench:
    cell = Cell.of(build, told.module, folder / "as it is")
    traits = of.traits(build.version) if of.traits else Traits(())
    judged = by_the_sanitizer if told.sanitize else partial(by_the_judge, of.more_oracles)
    subject = Subject(told.module, told.level, cell.module.read_text(), judged, traits)
    families = of.profiles(build.version).items()
    profiles = {
        name: cases for name, cases in families if told.only in name and (not told.without or told.without not in name)
    }
    return Bench(subject, drawn(profiles, told.seed), _opens(cell, told), folder / "lines", told.seconds)


def _opens(cell: Cell, told: argparse.Namespace) -> Opens:
    return partial(cell.watched if told.sanitize else cell.opened, told.level)


def _begin(ran: Bench, build: Build, told: argparse.Namespace, folder: Path) -> None:
    """Begin as one of the processes that run mutants: each has a copy of the release."""
    global _RAN
    _RAN = ran, _opens(Cell.of(build, told.module, folder / str(os.getpid())), told)


_RAN: tuple[Bench, Opens]


def _outcome(mutant: Mutant) -> Outcome:
    ran, opens = _RAN
    return ran.outcome(mutant, opens)


if __name__ == "__main__":
    main()
