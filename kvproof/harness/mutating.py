"""The reference implementation with one mistake in its text: which of its levels' runs notice it.

Each mutant runs in a process of its own, which reads the implementation anew with the wrong text in one place, and is
ended when it hangs. A mistake is made only where a level comes by; of what no level reaches nothing is said here.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import multiprocessing
import os
import random
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from ..checkers.mutation.record import Fate, Judged, Record
from ..checkers.mutation.sources import SourceMutant, source_mutants
from ..checkers.processes import forked

if TYPE_CHECKING:
    from .levels import RefimplLevel

__all__ = ["FOLDER", "SourceRun", "Wrong", "judge_sources"]

FOLDER = (Path(__file__).resolve().parent.parent / "refimpl").resolve()
PACKAGE = f"{__package__.rpartition('.')[0]}.refimpl"
READ_ANEW = (PACKAGE, __package__)
"""What a process imports again: the implementation, and whatever drives it."""

EXAMPLES, STEPS = 100, 40
"""Runs of a level, and their steps at most."""

LOOKED_AT = 20
"""So many runs tell which lines a level comes by."""

LIMIT = 60.0
"""Seconds after which a mutant hangs; the right implementation needs one or two."""


@dataclass
class SourceRun:
    """How mutants of the implementation are judged: at which levels, how many of them, and where that is kept."""

    levels: Sequence[str]
    sample: int | None = None
    seed: int = 0
    record: Path | None = None
    jobs: int | None = None
    on_progress: Callable[[int, int, str], None] | None = None


def judge_sources(how: SourceRun) -> list[Judged]:
    """Judge the mutants of all that the levels reach, in the order of the texts.

    Raises:
        RuntimeError: the right implementation differs at one of the levels.
    """
    reached = {level: _in_child(_reached_by, level, limit=10 * LIMIT) for level in how.levels}
    mutants = [(m, _levels_at(m, reached)) for m in _mutants(reached)]
    if how.sample is not None and how.sample < len(mutants):
        chosen = random.Random(how.seed).sample(range(len(mutants)), how.sample)
        mutants = [mutants[i] for i in sorted(chosen)]
    record = Record(how.record)
    text = _text_of_all()
    keys = [hashlib.sha256(f"{text}\0{m.file}\0{i}\0{m}".encode()).hexdigest() for i, (m, _) in enumerate(mutants)]
    found = {i: record.known[key] for i, key in enumerate(keys) if key in record.known}
    global _mutants_at_hand
    _mutants_at_hand = mutants
    rest = [i for i in range(len(mutants)) if i not in found]
    with forked(min(how.jobs or os.cpu_count() or 1, max(1, len(rest)))) as pool:
        for done in as_completed([pool.submit(_judge, i) for i in rest]):
            i, judged = done.result()
            found[i] = judged
            record.keep([(keys[i], judged)])
            if how.on_progress is not None:
                how.on_progress(len(found), len(mutants), judged.line)
    return [found[i] for i in range(len(mutants))]


_mutants_at_hand: list[tuple[SourceMutant, list[str]]] = []


def _mutants(reached: dict[str, dict[str, set[int]]]) -> Iterator[SourceMutant]:
    """The mutants of every module, in lines that some level comes by."""
    for file in sorted(FOLDER.rglob("*.py")):
        name = file.relative_to(FOLDER.parent).as_posix()
        lines = frozenset().union(*[at.get(name, ()) for at in reached.values()])
        yield from source_mutants(file.read_text(encoding="utf-8"), name, lines)


def _levels_at(mutant: SourceMutant, reached: dict[str, dict[str, set[int]]]) -> list[str]:
    return [level for level, at in reached.items() if mutant.line in at.get(mutant.file, ())]


def _text_of_all() -> str:
    """The digest of the implementation and of all that drives it."""
    digest = hashlib.sha256()
    for folder in (FOLDER, Path(__file__).parent, Path(__file__).parent.parent / "checkers", FOLDER.parent / "spec"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _judge(i: int) -> tuple[int, Judged]:
    """What becomes of one mutant: the first level that notices it, and by what."""
    mutant, levels = _mutants_at_hand[i]
    started = _spent()
    level, said = "", ""
    for level in levels:
        said = _in_child(_notices, level, mutant)
        if said:
            break
    seconds = _spent() - started
    line = f"{mutant.file}:{mutant.line}"
    fate: Fate = "fuzz" if said else "survivor"
    return i, Judged("refimpl", level, line, mutant.operator, mutant.what, 1, fate, said, seconds)


def _spent() -> float:
    """What the children of this process have computed so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ------------------------------------------------------------------------------------------------ in a child


def _in_child(task: Callable[..., Any], *args: Any, limit: float = LIMIT) -> Any:
    """What the task returns in a process of its own; a process that hangs or dies notices the mistake by that."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_send, args=(theirs, task, *args))
    child.start()
    theirs.close()
    try:
        if not ours.poll(limit):
            return "it hangs"
        answer = ours.recv()
    except EOFError:
        return "the process dies"
    finally:
        child.kill()
        child.join()
        ours.close()
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def _send(to: Connection, task: Callable[..., Any], *args: Any) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    to.send(task(*args))
    to.close()


def _read_anew() -> Any:
    """The levels, of an implementation that is read from now on."""
    for name in list(sys.modules):
        if any(name == package or name.startswith(f"{package}.") for package in READ_ANEW) and name != __name__:
            del sys.modules[name]
    return importlib.import_module(f"{__package__}.levels").LEVELS


def _reached_by(name: str) -> Any:
    """By file, the lines of the implementation that the runs of this level come by, if nothing differs in them."""
    lines: dict[str, set[int]] = {}

    @cache
    def name_of(file: str) -> str:
        """A file of the implementation, as its mutants name it; empty for others."""
        path = Path(file).resolve()
        return path.relative_to(FOLDER.parent).as_posix() if path.is_relative_to(FOLDER) else ""

    def local(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            lines.setdefault(name_of(frame.f_code.co_filename), set()).add(frame.f_lineno)
        return local

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        return local if name_of(frame.f_code.co_filename) else None

    level = _read_anew()[name]
    sys.settrace(enter)
    differs = _differs(level, examples=LOOKED_AT)
    sys.settrace(None)
    return RuntimeError(f"refimpl differs at level {name} as it is: {differs}") if differs else lines


def _notices(name: str, mutant: SourceMutant) -> str:
    """What the level notices of the mutant; empty where that is nothing."""
    sys.meta_path.insert(0, Wrong(mutant))
    try:
        return _differs(_read_anew()[name])
    except BaseException as error:
        return type(error).__name__


def _differs(level: RefimplLevel, examples: int = EXAMPLES) -> str:
    """What differs at this level in random runs; empty where nothing does."""
    from ..checkers.fuzz import first_difference

    instances = level.instances()
    return first_difference(level.model, level.target, instances, seed=0, examples=examples, steps=STEPS) or ""


class Wrong(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module of the implementation with a mistake in its text."""

    def __init__(self, mutant: SourceMutant) -> None:
        self.mutant, self.file = mutant, str(FOLDER.parent / mutant.file)
        self.name = ".".join([PACKAGE, *Path(mutant.file).with_suffix("").parts[1:]])

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:  # noqa: ARG002
        """The module, if it is the wrong one."""
        if name != self.name:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=self.file)

    def exec_module(self, module: ModuleType) -> None:
        """Run the wrong text."""
        module.__file__ = self.file
        exec(compile(self.mutant.tree, self.file, "exec"), module.__dict__)  # our own text, with a mistake
