"""Which mistakes in a user's own block manager does the kit tell? Mutants of its module, behind its adapter.

    python -m benchmarks.engine_mutants.managers docs/examples/block-pool/test_pool.py:TestPool pool OUT

The module stands beside the adapter, and is named as the adapter imports it. All runs in this process, on the cases
that `kvproof.testing` draws for the adapter; what *told*, *same* and *missed* are, `run.py` says.
"""

import argparse
import importlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks.engine_mutants.driving import Bench, Subject, asked_for, by_the_judge, drawn, keep, last_of
from kvproof.checkers.heap import heap_at_rest
from kvproof.engines.session import WorkerError
from kvproof.testing.session import InProcess
from kvproof.testing.subjects import Adapter, subject_of

_SECONDS = 1.0
"""So long an operation may take."""


@dataclass(frozen=True)
class Place:
    """An adapter, and the module beside it that is mutated."""

    folder: Path
    adapter: str
    kind: str
    module: str

    @classmethod
    def of(cls, target: str, module: str) -> "Place":
        """Read ``FILE:CLASS``, and let the file's folder be on the path."""
        file, _, kind = target.rpartition(":")
        path = Path(file).resolve()
        sys.path.insert(0, str(path.parent))
        return cls(path.parent, path.stem, kind, module)

    @property
    def source(self) -> str:
        """The module's text as it is."""
        return (self.folder / f"{self.module}.py").read_text()

    def adapter_around(self, source: str) -> Adapter:
        """The adapter, around a module of this text: whatever stands beside it is imported anew."""
        for file in self.folder.glob("*.py"):
            sys.modules.pop(file.stem, None)
        module = sys.modules[self.module] = ModuleType(self.module)
        exec(compile(source, f"{self.module}.py", "exec"), module.__dict__)
        found: Adapter = getattr(importlib.import_module(self.adapter), self.kind)
        return found

    @contextmanager
    def opened(self, source: str) -> Iterator[InProcess]:
        """The adapter as what runs cases."""
        try:
            session = InProcess(self.adapter_around(source), _SECONDS)
        except Exception as error:
            raise WorkerError(f"{type(error).__name__}: {error}") from error
        yield session


def main() -> None:
    """Run the mutants that are not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adapter", metavar="FILE:CLASS")
    parser.add_argument("module")
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=4.0, help="of cases for a mutant; default: 4")
    parser.add_argument("--again", action="store_true", help="run what was missed, and nothing else")
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    place = Place.of(told.adapter, told.module)
    ran, level = _bench(place, told.seconds, told.seed), place.kind
    chosen = asked_for(ran.mutants(), told.results, place.module, level, again=told.again)
    print(f"{len(ran.cases)} cases, {len(ran.known)} known symptoms, {len(chosen)} mutants", flush=True)
    for mutant in chosen:
        with heap_at_rest():
            outcome = ran.outcome(mutant, place.opened)
        keep(outcome, told.results)
    print(dict(Counter(outcome.came for outcome in last_of(told.results, place.module, level))))


def _bench(place: Place, seconds: float, number: int) -> Bench:
    kind = place.adapter_around(place.source)
    subject, can = subject_of(kind), InProcess(kind).hello.capabilities
    of_level = can[subject.level]
    cases = drawn(subject.profiles(of_level), number, subject.closing(of_level))
    judged = partial(by_the_judge, subject.more_oracles)
    about = Subject(place.module, place.kind, place.source, judged, subject.traits(of_level))
    with tempfile.TemporaryDirectory() as folder:
        return Bench(about, cases, place.opened, Path(folder) / "lines", seconds)


if __name__ == "__main__":
    main()
