"""Every obligation of a machine as a file of SMT-LIB 2.6, with an index of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ...machine import Machine, Model
from ...machine.execution import Settled
from ...machine.universe import Unbounded
from ..obligations import COROLLARIES, INITIALLY, Problem, corollaries, initially, of_action
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
    machine: type[Machine] | Model, folder: Path, *, on_progress: Progress | None = None
) -> list[Written]:
    """Write what has to be proved of the machine, also what it has from machines that it extends, and the index last.

    What is no implication (that each action is possible, that counts are carried rightly) is not among it.

    Raises:
        OSError: the folder or a file cannot be written.
    """
    model = machine if isinstance(machine, Model) else Model.of(machine)
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Written] = []
    places = [INITIALLY, *model.actions, COROLLARIES]
    for done, place in enumerate(places, 1):
        for number, problem in enumerate(_problems(model, place)):
            file = f"{_plain(f'{model.name}-{place}')}-{number:03d}.smt2"
            entry = Written(file, model.name, place, problem.goal, problem.rule, str(problem.line))
            write_atomically(folder / file, _text(entry, problem).encode())
            written.append(entry)
        if on_progress is not None:
            on_progress(done, len(places), f"{model.name}.{place}")
    index = b"".join(msgspec.json.encode(entry) + b"\n" for entry in written)
    write_atomically(folder / INDEX, index)
    return written


def _problems(model: Model, place: str) -> Iterator[Problem]:
    """All obligations of one place: nothing counts as settled elsewhere."""
    universe = Unbounded(model)
    if place == INITIALLY:
        yield from initially(model, universe, Settled()).problems
    elif place == COROLLARIES:
        yield from corollaries(model, universe, Settled()).problems
    else:
        yield from of_action(model, place, universe, settled=Settled()).problems


def _text(entry: Written, problem: Problem) -> str:
    """The file: what it is about, and the question."""
    about = one_line(f"{entry.machine}.{entry.action}: {entry.rule} {entry.goal} ({entry.line})").replace("|", "/")
    head = f"(set-info :smt-lib-version 2.6)\n(set-info :source |{about}|)\n(set-info :status {entry.expected})\n"
    return head + to_smt2(problem).replace("(set-info :status unknown)\n", "", 1)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
