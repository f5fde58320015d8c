"""Sketches of proofs: which facts a goal needed, beside the machine for the next one who asks.

Of the hundreds of facts that are known where a goal stands, its proof needs two or three, and to find out which takes
many tries. A sketch names them, so that whoever proves the machine anew asks once, with little to look at. A sketch
proves nothing: the goal is asked with these facts, and where it does not follow from them, because the machine is not
what it was, it is asked as if there were no sketch.

They are files, one for each machine, in the nearest folder ``sketches`` at or above the machine's own file; a machine
that extends another uses that one's too. They are parsed and bounded as everything that others may have written is.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ..machine import Machine
from ..machine.execution import Goal
from .slices import without_lines
from .solvers import Way

__all__ = ["WAYS", "Sketch", "SketchError", "Sketches", "file_for", "named"]

WAYS = (
    Way(depth=3, effort=0.1),
    Way(depth=6, effort=0.1),
    Way(depth=2, effort=0.1),
    Way(depth=3, relevancy=1, effort=0.1),
    Way(depth=4, cases=True, relevancy=1, effort=0.1),
    Way(depth=3, models=True, effort=0.1),
)
"""In which of these ways Z3 found a proof is a part of its sketch."""

FOLDER = "sketches"

LARGEST = 8 << 20
"""Bytes of a file that is read."""


class SketchError(Exception):
    """A file of sketches cannot be read; the message says what to do."""


class Sketch(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a goal was proved: the labels of the facts that it needed (without lines), and the way (as in `WAYS`)."""

    needs: tuple[str, ...]
    way: Annotated[int, msgspec.Meta(ge=0, lt=len(WAYS))] = 0


Written = dict[str, dict[str, list[Sketch | None]]]
"""A file's content: by place and goal. A name that several goals of a place have has a sketch, or none, for each."""


@dataclass(frozen=True)
class Sketches:
    """The sketches of one machine, its own first, then those of the machines that it extends."""

    files: Sequence[Written] = ()

    @staticmethod
    def of(machine: type[Machine]) -> Sketches:
        """What is written down beside the machine.

        Raises:
            SketchError: a file is there that holds no sketches.
        """
        bases = (base for base in machine.__mro__ if issubclass(base, Machine) and base is not Machine)
        return Sketches([read(file) for base in bases if (file := file_for(base)) is not None and file.is_file()])

    def at(self, place: str, goals: Iterable[Goal]) -> Iterator[Sketch | None]:
        """The sketch of each goal of a place, in their order."""
        for name, number in named(goals):
            # The nearest machine that says anything of the name: a base's loops need not be this one's.
            found: Sequence[Sketch | None] = next((w[place][name] for w in self.files if name in w.get(place, {})), ())
            yield found[number] if number < len(found) else None


def named(goals: Iterable[Goal]) -> Iterator[tuple[str, int]]:
    """The name of each goal, without the lines of files; and which of that name it is."""
    seen: Counter[str] = Counter()
    for goal in goals:
        name = without_lines(goal.name)
        yield name, seen[name]
        seen[name] += 1


def file_for(machine: type[Machine]) -> Path | None:
    """Where the sketches of a machine are, or go; None for a machine that stands in no file."""
    try:
        home = Path(inspect.getfile(machine)).resolve().parent
    except (TypeError, OSError):
        return None
    above = [home]
    while (above[-1] / "__init__.py").is_file():
        above.append(above[-1].parent)
    folder = next((there / FOLDER for there in above if (there / FOLDER).is_dir()), home / FOLDER)
    return folder / f"{machine.__name__}.json"


def read(file: Path) -> Written:
    """The content of a file.

    Raises:
        SketchError: it holds no sketches.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise SketchError(f"{file} is larger than sketches of proofs can be ({LARGEST >> 20} MiB); remove it")
        return msgspec.json.decode(file.read_bytes(), type=Written)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise SketchError(f"{file} holds no sketches of proofs ({error}); remove it, or write it anew") from error


def as_text(places: Mapping[str, Mapping[str, Sequence[Sketch | None]]]) -> bytes:
    """A file's content, one goal a line, so that a change of one shows as a change of one."""
    lines = []
    for place in sorted(places):
        goals = [f"  {_text(name)}: {_text([*places[place][name]])}" for name in sorted(places[place])]
        lines.append(f" {_text(place)}: {{\n" + ",\n".join(goals) + "\n }")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
