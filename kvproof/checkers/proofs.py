"""What was proved before, by its content: what has not changed need not be asked again.

Two things are kept. Of a goal that was proved: its formula, and the facts that the proof needed; it follows again
wherever the same formula stands beside the same facts, in another action or in a machine that extends this one. And of
a part of a machine of which everything was proved: its content (`canonical.py`) with what was asked of it; nothing of
that has to be looked at again as long as no part of the content changes.

Both are kept by digests, together with those of the prover's own text and of the solver: another version of either
begins anew. Some of what is found again is asked again all the same (`SAMPLE`).
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
import z3
from z3 import z3core

from ..machine.canonical import Content
from ..machine.formulas import Formula

__all__ = ["SAMPLE", "Core", "Proofs", "StoreError", "digest_of", "place_digest"]

SAMPLE = 0.02
"""The share of what is found in the store that is asked again."""

T = TypeVar("T")

Core = tuple[tuple[str, str], ...]
"""What a proof needed: the label and the digest of each fact."""

CORES = 8
"""So many proofs of one goal are looked at."""

_FORMAT = 1
_LAYOUT = """
CREATE TABLE IF NOT EXISTS goals (goal TEXT, core TEXT, PRIMARY KEY (goal, core)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS places (place TEXT PRIMARY KEY, record TEXT) WITHOUT ROWID;
"""

PATIENCE = 60.0
"""Seconds for which another process may be writing."""


class StoreError(Exception):
    """The store cannot be used; the message says what to do."""


class Proofs:
    """A store of proofs in one file, which several processes may use at once.

    Raises:
        StoreError: from every method: the file is something else, or cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: tuple[int, sqlite3.Connection] | None = None
        with self._used() as db:
            db.executescript(f"PRAGMA journal_mode=WAL; {_LAYOUT}")

    @staticmethod
    def digest(formula: Formula) -> str:
        """What stands for a formula in the store."""
        return digest_of(formula)

    def cores(self, goal: str) -> list[Core]:
        """What proofs of this goal needed."""
        with self._used() as db:
            found = db.execute("SELECT core FROM goals WHERE goal = ? LIMIT ?", (goal, CORES)).fetchall()
            return [msgspec.json.decode(core, type=Core) for (core,) in found]

    def keep(self, proofs: Iterable[tuple[str, Core]]) -> None:
        """Keep proofs of goals."""
        rows = [(goal, msgspec.json.encode(core).decode()) for goal, core in proofs]
        with self._used() as db, db:
            db.executemany("INSERT OR IGNORE INTO goals VALUES (?, ?)", rows)

    def place(self, digest: str, kind: type[T]) -> T | None:
        """What was asked, and proved, of a part of a machine with this content; None: nothing is known."""
        with self._used() as db:
            found = db.execute("SELECT record FROM places WHERE place = ?", (digest,)).fetchone()
            return None if found is None else msgspec.json.decode(found[0], type=kind)

    def keep_place(self, digest: str, record: object) -> None:
        """Keep what was asked, and proved, of a part of a machine."""
        with self._used() as db, db:
            db.execute("INSERT OR REPLACE INTO places VALUES (?, ?)", (digest, msgspec.json.encode(record).decode()))

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        """The file, opened by this process: what is open must not be carried into another one."""
        try:
            if self._opened is None or self._opened[0] != os.getpid():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._opened = os.getpid(), _connected(self.path)
            yield self._opened[1]
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
            raise StoreError(f"{self.path} is no store of proofs that can be used ({error}); remove it") from error


def _connected(path: Path) -> sqlite3.Connection:
    """Open the file. It does not wait for the disk: what a crash of the machine loses is proved once more."""
    db = sqlite3.connect(path, timeout=PATIENCE)
    db.execute("PRAGMA synchronous=NORMAL")
    return db


@cache
def kit_digest() -> str:
    """The digest of everything that has a part in a proof, beside the machine: the prover's text, and the solver."""
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256(f"{_FORMAT} {z3.get_full_version()}".encode())
    for folder in (here, here.parent / "machine"):
        for file in sorted(folder.glob("*.py")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@cache
def _alone() -> z3.Context:
    """A context for one formula at a time."""
    return z3.Context()


_SHARED = re.compile(r"[?$]x\d+")


def digest_of(formula: Formula) -> str:
    """The digest of a formula with the signatures of all that it names: equal only for the same formula."""
    if isinstance(formula, bool):
        text = str(formula)
    else:
        # Z3 gives names to what is shared with anything else: so the formula is taken where nothing else is.
        alone = formula.translate(_alone())
        text = z3core.Z3_benchmark_to_smtlib_string(_alone().ref(), "", "", "", "", 0, None, alone.ast)
        # These names have numbers that depend on what was built before.
        names: dict[str, str] = {}
        text = _SHARED.sub(lambda found: names.setdefault(found[0], f"?{len(names)}"), text)
    return hashlib.sha256(f"{kit_digest()} {text}".encode()).hexdigest()


def place_digest(contents: Sequence[Content], *more: str) -> str:
    """The digest of a part of a machine, of how it is asked (``more``), and of the prover."""
    digest = hashlib.sha256(" ".join([kit_digest(), *more]).encode())
    for content in contents:
        digest.update(content.digest)
    return digest.hexdigest()
