"""Mutants of several machines in several processes: who notices each, and what is left.

What is on record is not judged again, unless something has changed that the judgement depends on: the wrong action, a
property that speaks of it, or the kit's own text.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from ...machine import Machine, Model
from ...machine.canonical import Contents
from ...machine.reading import speaking_of
from ...machine.scope import Scope, ScopeError
from ..explore import explore
from ..heap import heap_at_rest
from ..obligations import COROLLARIES
from ..processes import each_by
from ..proofs import place_digest
from .equivalence import WHEN_POSSIBLE
from .judging import Judge
from .mutant import Mutant, shown_line
from .operators import is_inherited, mutants_of, refusal
from .record import Fate, Judged, Record

__all__ = ["By", "How", "judge_mutants"]

By = Literal["prove", "explore", "all"]

Progress = Callable[[int, int, str], None]

CHUNK = 40
"""So many mutants of one action are judged by one process in a row, and the next ones of that action by the same one as
long as there is other work for the others: the right action has to be proved before, and ways into it found."""

STATES = 50_000
"""The explorer gives up after so many."""


@dataclass
class How:
    """How mutants are judged: by whom, how many of them (drawn by the seed), in which scope each machine is explored,
    and where judgements are kept."""

    by: By = "prove"
    sample: int | None = None
    seed: int = 0
    scope: Callable[[type[Machine]], Scope] | None = None
    record: Path | None = None
    jobs: int | None = None
    on_progress: Progress | None = None
    actions: Collection[str] = ()
    """Only mutants of these, if any are named."""


def judge_mutants(machines: Sequence[type[Machine]], how: How) -> list[Judged]:
    """Judge the mutants of these machines, in the order of their texts.

    Mutants that a machine has from one that it extends are left to that one.
    """
    models = [Model.of(machine) for machine in machines]
    mutants = [m for model in models for m in mutants_of(model, how.actions) if not is_inherited(m)]
    keys = _keys(mutants, how.by)
    if how.sample is not None and how.sample < len(mutants):
        chosen = sorted(random.Random(how.seed).sample(range(len(mutants)), how.sample))
        mutants, keys = [mutants[i] for i in chosen], [keys[i] for i in chosen]
    work = _Work(machines, how, mutants)
    record = Record(how.record)
    found = {i: record.known[key] for i, key in enumerate(keys) if key in record.known}
    for i, old in found.items():  # it may have moved within its file
        old.line = shown_line(mutants[i].line)
    chunks = _chunks(mutants, [i for i in range(len(mutants)) if i not in found])
    with heap_at_rest(), each_by(work, how.jobs, most=len(chunks)) as each:
        for done in each(_judge_all, chunks):
            found |= done
            record.keep([(keys[i], judged) for i, judged in done.items()])
            if how.on_progress is not None:
                last = next(iter(done.values()))
                how.on_progress(len(found), len(mutants), f"{last.machine}.{last.action}")
    return [found[i] for i in range(len(mutants))]


@dataclass
class _Work:
    """What all processes share, and what each remembers."""

    machines: Sequence[type[Machine]]
    how: How
    mutants: list[Mutant]
    judge: Callable[[Model], Judge] = field(default_factory=lambda: cache(Judge))


_Chunk = tuple[tuple[str, str], list[int]]
"""A machine and an action, and the numbers of some of its mutants."""


def _chunks(mutants: Sequence[Mutant], rest: Sequence[int]) -> list[_Chunk]:
    """Mutants of one action each, as many as one process judges in a row."""
    found: list[_Chunk] = []
    for i in rest:
        about = mutants[i].original.name, mutants[i].action.name
        if found and found[-1][0] == about and len(found[-1][1]) < CHUNK:
            found[-1][1].append(i)
        else:
            found.append((about, [i]))
    return found


def _judge_all(work: _Work, _about: tuple[str, str], chunk: list[int]) -> dict[int, Judged]:
    return {i: _judge(work, i) for i in chunk}


def _judge(work: _Work, i: int) -> Judged:
    """What becomes of one mutant."""
    mutant, started = work.mutants[i], time.process_time()
    fate, by = _fate(work, mutant)
    seconds = time.process_time() - started
    return Judged(
        mutant.original.name,
        mutant.action.name,
        shown_line(mutant.line),
        mutant.operator,
        mutant.what,
        mutant.number,
        fate,
        by,
        seconds,
    )


def _fate(work: _Work, mutant: Mutant) -> tuple[Fate, str]:
    refused = refusal(mutant)
    if refused is not None:
        return "reader", refused
    judge = work.judge(mutant.original)
    if work.how.by != "explore":
        judgement = judge.judge(mutant)
        if judgement.verdict != "proved":
            return _AS[judgement.verdict], judgement.what
    elif (seen := _explored(work, mutant)) is not None:
        return "explore", seen
    elif judge.is_soon_the_same(mutant):
        return "equivalent", ""
    return _unnoticed(work, judge, mutant)


_AS: dict[str, Fate] = {"refuted": "prove", "equivalent": "equivalent", "unknown": "unknown"}
"""What becomes of a mutant by the judgement of it."""


def _unnoticed(work: _Work, judge: Judge, mutant: Mutant) -> tuple[Fate, str]:
    """A mutant that breaks nothing: it is no mistake, or never happens, or the explorer notices it, or nobody does."""
    difference = judge.difference(mutant)
    if difference is None and judge.is_at_last_the_same(mutant):
        return "equivalent", ""
    if work.how.by != "explore" and difference in (None, WHEN_POSSIBLE):  # otherwise it has been seen to happen
        possible = judge.is_possible(mutant)
        if possible.verdict != "proved":
            return ("prove" if possible.verdict == "refuted" else "unknown"), possible.what
    if work.how.by == "all" and (seen := _explored(work, mutant)) is not None:
        return "explore", seen
    return "survivor", difference or ""


def _explored(work: _Work, mutant: Mutant) -> str | None:
    """The first thing that the explorer notices in the machine's own scope; None where that is nothing."""
    if work.how.scope is None:
        return None
    try:
        report = explore(mutant.model, work.how.scope(mutant.original.machine), max_states=STATES)
    except ScopeError:
        return None
    if report.violations:
        return report.violations[0].name
    reached = _unreached(work, mutant.original)
    missed = [name for name in report.unreached if name not in reached] if report.complete else []
    return f"{missed[0]} is not reached" if missed else None


def _unreached(work: _Work, model: Model) -> Sequence[str]:
    """What the right machine does not reach in its scope."""
    if model not in _reached:
        assert work.how.scope is not None
        report = explore(model, work.how.scope(model.machine), max_states=STATES)
        _reached[model] = report.unreached if report.complete else [p.name for p in model.of_kind("sometimes")]
    return _reached[model]


_reached: dict[Model, Sequence[str]] = {}


# ------------------------------------------------------------------------------------------------ the record


def _keys(mutants: Sequence[Mutant], by: By) -> list[str]:
    """What the judgement of each mutant depends on, beside its place in a file: of those of an action that are said
    alike, at several lines, how many of them come before it."""
    before, keys = Counter[tuple[str, ...]](), []
    for mutant in mutants:
        said = (_depends_on(mutant.original, mutant.action.name), by, mutant.operator, mutant.what)
        before[said] += 1
        keys.append(hashlib.sha256("\0".join((*said, str(before[said]))).encode()).hexdigest())
    return keys


@cache
def _depends_on(model: Model, action: str) -> str:
    """The digest of what the mutants of an action are judged by."""
    spoken = [model.properties[name] for name in speaking_of(model, action)]
    elsewhere = [*model.actions] if any(not p.derived for p in spoken) else []
    contents = Contents(model)
    places = [action, COROLLARIES, *elsewhere]
    return place_digest([c for place in places for c in contents.of_place(place)], model.name, action, _own_text())


@cache
def _own_text() -> str:
    """The digest of how mutants are made and judged."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
