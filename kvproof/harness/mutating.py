"""The reference implementation with one mistake in its text: which of its levels notice it, and which of its tests.

Each mutant runs in a process of its own, which reads the implementation anew with the wrong text in one place, and is
ended when it hangs. A mistake is made only where a level comes by, or a test; of all other lines nothing is said here.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkers.mutation.record import Fate, Judged, Record
from ..checkers.mutation.sources import SourceMutant, source_mutants
from ..checkers.mutation.wrong_text import Lines, Text, Wrong, in_child
from ..checkers.processes import forked

if TYPE_CHECKING:
    from ..checkers.mutation.tests import Tests
    from .levels import RefimplLevel

__all__ = ["FOLDER", "REFIMPL", "SourceRun", "judge_sources"]

FOLDER = (Path(__file__).resolve().parent.parent / "refimpl").resolve()
REFIMPL = Text(FOLDER, f"{__package__.rpartition('.')[0]}.refimpl", (__package__,))
"""The implementation, and what drives it."""

EXAMPLES, STEPS = 100, 100
"""Runs of a level, and their steps at most."""

FIRST, BESIDE = 2, 20
"""So many of them come before the tests, where there are any, and so many in all: hardly a run behind these ever
noticed what the tests had let pass."""

LOOKED_AT = 20
"""So many runs tell which lines a level comes by."""

LIMIT, LEAST = 30.0, 5.0
"""Seconds of computing after which a mutant hangs in all runs of a level, where the right implementation needs one; in
a part of them after as large a part of these, and not after fewer than that."""


@dataclass
class SourceRun:
    """How mutants of the implementation are judged: at which levels, how many of them, and where that is kept."""

    levels: Sequence[str]
    sample: int | None = None
    seed: int = 0
    record: Path | None = None
    jobs: int | None = None
    on_progress: Callable[[int, int, str], None] | None = None
    tests: Path | None = None
    """The folder of the tests that are asked, too."""

    @property
    def processes(self) -> int:
        """As many as were asked for; one for each processor, if none were."""
        return self.jobs or os.cpu_count() or 1


def judge_sources(how: SourceRun) -> list[Judged]:
    """Judge the mutants of all that the levels and the tests reach, in the order of the texts.

    Raises:
        RuntimeError: the right implementation differs at one of the levels.
        TestsError: the tests fail as they are, or there are none.
    """
    global _at_hand
    _read_once(how.levels)
    _at_hand = _at_hand_for(how)
    mutants, record = _at_hand.mutants, Record(how.record)
    found = {i: judged for i in range(len(mutants)) if (judged := _on_record(i, record)) is not None}
    rest = [(i, record.known.get(mutants[i].key)) for i in range(len(mutants)) if i not in found]
    random.Random(how.seed).shuffle(rest)  # What a run that is cut short has judged is a fair sample too.
    with forked(min(how.processes, max(1, len(rest)))) as pool:
        for done in as_completed([pool.submit(_judge, i, before) for i, before in rest]):
            i, kept = done.result()
            found[i] = kept[-1][1]
            record.keep(kept)
            if how.on_progress is not None:
                how.on_progress(len(found), len(mutants), found[i].line)
    return [found[i] for i in range(len(mutants))]


@dataclass(frozen=True)
class _Mutant:
    """One mistake, where it is seen, and what its judgements are called: by the levels, and by the tests too."""

    wrong: SourceMutant
    levels: tuple[str, ...]
    key: str
    key_with_tests: str


@dataclass(frozen=True)
class _AtHand:
    """What the processes have from the first."""

    mutants: Sequence[_Mutant] = ()
    tests: Tests | None = None


_at_hand = _AtHand()


def _at_hand_for(how: SourceRun) -> _AtHand:
    tests = None
    if how.tests is not None:
        from ..checkers.mutation.tests import look_at_tests

        tests = look_at_tests(how.tests.resolve(), REFIMPL, how.processes)
    with forked(how.processes) as pool:
        looks = {level: pool.submit(in_child, _reached_by, level, limit=10 * LIMIT) for level in how.levels}
        by_level: dict[str, Lines] = {level: look.result() for level, look in looks.items()}
    mutants = list(_mutants([*by_level.values(), *([tests.lines()] if tests else [])]))
    if how.sample is not None and how.sample < len(mutants):
        chosen = random.Random(how.seed).sample(range(len(mutants)), how.sample)
        mutants = [mutants[i] for i in sorted(chosen)]
    text, digest = _text_of_all(), tests.digest if tests else ""
    found: list[_Mutant] = []
    for wrong, number in mutants:
        levels = tuple(level for level, at in by_level.items() if wrong.line in at.get(wrong.file, ()))
        keys = [f"{text}\0{wrong}\0{number}\0{' '.join(levels)}\0{tests is None}\0{more}" for more in ("", digest)]
        found.append(_Mutant(wrong, levels, *[hashlib.sha256(key.encode()).hexdigest() for key in keys]))
    return _AtHand(found, tests)


def _mutants(reached: Sequence[Lines]) -> Iterator[tuple[SourceMutant, int]]:
    """The mutants of every module, in lines that somebody comes by; those of one line that look alike by number."""
    for file in sorted(FOLDER.rglob("*.py")):
        name = file.relative_to(FOLDER.parent).as_posix()
        lines = frozenset[int]().union(*[at.get(name, ()) for at in reached])
        alike = Counter[str]()
        for mutant in source_mutants(file.read_text(encoding="utf-8"), name, lines):
            alike[str(mutant)] += 1
            yield mutant, alike[str(mutant)]


def _text_of_all() -> str:
    """The digest of the implementation and of all that drives it."""
    digest = hashlib.sha256()
    checkers = Path(__file__).parent.parent / "checkers"
    for folder in (FOLDER, Path(__file__).parent, checkers, FOLDER.parent / "spec"):
        for file in sorted(folder.rglob("*.py")):
            if file.parent != checkers / "mutation":
                digest.update(file.read_bytes())
    return digest.hexdigest()


def _on_record(i: int, record: Record) -> Judged | None:
    """What became of a mutant, if there is nobody more to be asked."""
    mutant = _at_hand.mutants[i]
    by_levels = record.known.get(mutant.key)
    if _at_hand.tests is None or (by_levels is not None and by_levels.fate != "survivor"):
        return by_levels
    return record.known.get(mutant.key_with_tests)


def _judge(i: int, by_levels: Judged | None) -> tuple[int, list[tuple[str, Judged]]]:
    """What becomes of one mutant, and what is to be kept of it; ``by_levels``: that none of them notices it is known.

    Where there are tests, they are asked after the first runs: those that come by one line take a tenth of what all
    runs take, and notice more.
    """
    mutant, tests, started = _at_hand.mutants[i], _at_hand.tests, _spent()
    wrong = mutant.wrong

    def judged(by: Fate, level: str, said: str) -> Judged:
        """A judgement: somebody said something, or the mutant survives."""
        fate: Fate = by if said else "survivor"
        place, seconds = f"{wrong.file}:{wrong.line}", _spent() - started
        return Judged("refimpl", level, place, wrong.operator, wrong.what, 1, fate, said, seconds)

    if tests is not None:
        level, said = _noticed_by(mutant, FIRST) if by_levels is None else ("", "")
        if said:
            return i, [(mutant.key, judged("fuzz", level, said))]
        said = tests.noticed_by(wrong)
        if said:
            return i, [(mutant.key_with_tests, judged("tests", level, said))]
    kept: list[tuple[str, Judged]] = []
    if by_levels is None:
        by_levels = judged("fuzz", *_noticed_by(mutant, EXAMPLES if tests is None else BESIDE))
        kept = [(mutant.key, by_levels)]
    if tests is not None and by_levels.fate == "survivor":
        kept.append((mutant.key_with_tests, by_levels))
    return i, kept


def _noticed_by(mutant: _Mutant, examples: int) -> tuple[str, str]:
    """The first level that notices it in so many runs, or the last that does not; and by what, if so."""
    level, said = "", ""
    for level in mutant.levels:
        limit = max(LEAST, LIMIT * examples / EXAMPLES)
        said = in_child(_notices, level, mutant.wrong, examples, limit=limit)
        if said:
            break
    return level, said


def _spent() -> float:
    """What the children of this process have computed so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read_once(levels: Sequence[str]) -> None:
    """What every process would read again, it has from here: the machines, and the packages of others."""
    from .levels import LEVELS

    for level in levels:
        LEVELS[level].instances()


# ------------------------------------------------------------------------------------------------ in a child


def _read_anew() -> Any:
    """The levels, of an implementation that is read from now on."""
    REFIMPL.forget(but=[__name__])
    return importlib.import_module(f"{__package__}.levels").LEVELS


def _reached_by(name: str) -> Any:
    """By file, the lines of the implementation that the runs of this level come by, if nothing differs in them."""
    level = _read_anew()[name]
    with REFIMPL.lines_come_by() as taken:
        differs = _differs(level, examples=LOOKED_AT)
        lines = taken()
    return RuntimeError(f"refimpl differs at level {name} as it is: {differs}") if differs else lines


def _notices(name: str, mutant: SourceMutant, examples: int = EXAMPLES) -> str:
    """What the level notices of the mutant in so many runs; empty where that is nothing."""
    sys.meta_path.insert(0, Wrong(mutant, REFIMPL))
    try:
        return _differs(_read_anew()[name], examples)
    except BaseException as error:
        return type(error).__name__


def _differs(level: RefimplLevel, examples: int = EXAMPLES) -> str:
    """What differs at this level in random runs; empty where nothing does."""
    from ..checkers.fuzz import first_difference

    instances = level.instances()
    return first_difference(level.model, level.target, instances, seed=0, examples=examples, steps=STEPS) or ""
