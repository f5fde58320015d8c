"""Every obligation of a machine as a file of SMT-LIB 2.6, with an index of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from ...machine import Machine, Model
from ...machine.execution import Goal
from ...machine.universe import Unbounded
from ..deciding import Deciding
from ..obligations import COROLLARIES, INITIALLY, problems_of
from ..solvers import to_smt2
from ..trace import write_atomically
from .setting import one_line

__all__ = ["INDEX", "Written", "write_obligations"]

INDEX = "index.jsonl"
"""The file that names the others, a line for each."""

Progress = Callable[[int, int, str], None]


class Written(msgspec.Struct, frozen=True):
    """One obligation and its file."""

    file: str
    machine: str
    action: str
    """The action, `initially`, or `every state`."""
    goal: str
    rule: str
    line: str
    expected: str = "unsat"
    """What a solver answers where the obligation holds: the goal's opposite contradicts what is known there."""


def write_obligations(
    machine: type[Machine] | Model,
    folder: Path,
    *,
    only: Collection[str] | None = None,
    on_progress: Progress | None = None,
) -> list[Written]:
    """Write what has to be proved of the machine, also what it has from machines that it extends.

    ``only``: of these actions (or ``initially``, or ``every state``).

    Each file has a goal with everything that is known where it stands: the invariants before the step among it, and
    what other files ask at earlier places of the same action. So all of them together say that the properties hold.
    What is no implication (that each action is possible, and what is known no contradiction) has no file, nor has an
    invariant at a place where nothing that it speaks of had been written.

    An index that is there goes first and the new one is written last, so that a folder with an index is whole.

    Raises:
        OSError: the folder or a file cannot be written.
    """
    model = machine if isinstance(machine, Model) else Model.of(machine)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).unlink(missing_ok=True)
    written: list[Written] = []
    places = [p for p in (INITIALLY, *model.actions, COROLLARIES) if only is None or p in only]
    for done, place in enumerate(places, 1):
        # Only the questions are wanted: nothing is asked, so there is no time to be given for it.
        deciding = Deciding(problems_of(model, place, Unbounded(model)), "z3", seconds=0.0)
        for goal in deciding.problems.goals:
            entry = _entry(model, place, goal, len(written) + 1)
            write_atomically(folder / entry.file, _text(entry, to_smt2(deciding.question(goal))).encode())
            written.append(entry)
        if on_progress is not None:
            on_progress(done, len(places), f"{model.name}.{place}")
    index = b"".join(msgspec.json.encode(entry) + b"\n" for entry in written)
    write_atomically(folder / INDEX, index)
    return written


def _entry(model: Model, place: str, goal: Goal, number: int) -> Written:
    """A line of the index. The number keeps names apart that differ in what no name of a file has."""
    file = re.sub(r"[^A-Za-z0-9_-]", "_", f"{model.name}-{number:04d}-{place}") + ".smt2"
    return Written(file, model.name, place, goal.name, goal.rule, str(goal.line))


def _text(entry: Written, question: str) -> str:
    """The file: what it is about, and the question."""
    about = one_line(f"{entry.machine}.{entry.action}: {entry.rule} {entry.goal} ({entry.line})").replace("|", "/")
    head = f"(set-info :smt-lib-version 2.6)\n(set-info :source |{about}|)\n(set-info :status {entry.expected})\n"
    return head + question.replace("(set-info :status unknown)\n", "", 1)
