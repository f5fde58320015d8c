"""What became of mutants, and a record of it that a later run goes on from."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, get_args

import msgspec

__all__ = ["FATES", "NOTICED", "Fate", "Judged", "Record", "RecordError", "score"]

Fate = Literal["prove", "explore", "fuzz", "tests", "equivalent", "survivor", "unknown", "reader"]
"""Who noticed a mutant (a proof, the explorer, random runs beside the machine, tests, the reader of machines), or why
nobody did: it is proved to do the same, or it is not noticed though it may do something else, or a proof is not
decided."""

FATES: tuple[Fate, ...] = get_args(Fate)

NOTICED: tuple[Fate, ...] = ("prove", "explore", "fuzz", "tests")
"""Whoever notices mutants that can be read at all."""


class RecordError(Exception):
    """A record cannot be used; the message says what to do."""


@dataclass
class Judged:
    """What became of a mutant of a machine's action, or of a text that a level drives. ``seconds`` are of computing."""

    machine: str
    action: str
    line: str
    operator: str
    what: str
    number: int
    fate: Fate
    by: str = ""
    """The first thing that the mutant breaks; of a survivor what it does otherwise, where that was found."""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.line} {self.action}: {self.what}"


def score(judged: Iterable[Judged]) -> float | None:
    """The share of mutants that were noticed, of those that can be read and are not proved to do the same; None: of
    nothing."""
    fates = Counter(j.fate for j in judged)
    noticed = sum(fates[f] for f in NOTICED)
    wrong = noticed + fates["survivor"] + fates["unknown"]
    return noticed / wrong if wrong else None


class Record:
    """Judgements in a file of JSON lines, by keys that say what they depend on. Without a file nothing is kept.

    Raises:
        RecordError: the file is something else, or cannot be read.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, Judged] = {}
        self._end: int | None = None
        """Where the whole lines end, if half a line stands behind them: what an end in the midst of writing left."""
        try:
            data = b"" if path is None or not path.exists() else path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data) and b'{"key":"'.startswith(data[whole : whole + 8]):
                self._end, data = whole, data[:whole]
            for line in data.splitlines():
                kept = msgspec.json.decode(line, type=_Kept)
                self.known[kept.key] = kept.judged
        except (OSError, msgspec.MsgspecError) as error:
            raise RecordError(f"{path} is no record of mutants ({error}); name another file, or remove it") from error

    def keep(self, judged: Sequence[tuple[str, Judged]]) -> None:
        """Add these to the file, all of them or none.

        Raises:
            RecordError: they cannot be written; what was there is.
        """
        if self.path is None:
            return
        lines = b"".join(msgspec.json.encode(_Kept(key, one)) + b"\n" for key, one in judged)
        try:
            with self.path.open("ab", buffering=0) as file:
                if self._end is not None:
                    file.truncate(self._end)
                    self._end = None
                _append(file, lines)
        except OSError as error:
            why = error.strerror or error
            raise RecordError(
                f"{self.path} cannot be written ({why}); mend that, and run it again: it goes on"
            ) from error


def _append(file: IO[bytes], data: bytes) -> None:
    """Write whole at the end of a file.

    Raises:
        OSError: it cannot be; then nothing of it is there.
    """
    end = file.seek(0, os.SEEK_END)
    try:
        written = file.write(data)
        if written != len(data):
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")
    except OSError:
        file.truncate(end)
        raise


@dataclass
class _Kept:
    """A line of the record."""

    key: str
    judged: Judged
