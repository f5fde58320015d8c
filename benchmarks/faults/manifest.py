"""Faults of block managers, as data: which engine has each, how it is put in, what it breaks and how that shows.

One file ``ENGINE.toml`` per engine, read strictly: a word that is not known is refused. Nothing in it is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

__all__ = ["FOLDER", "Engine", "Fault", "ManifestError", "read_all", "read_engine"]

FOLDER = Path(__file__).parent

REFERENCE = "refimpl"
"""The reference implementation of this kit: its release is this checkout."""


class ManifestError(Exception):
    """A manifest is not well-formed. The message says where, and what is wrong."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One fault."""

    id: str
    """Its name, once in all engines: small letters, digits and hyphens."""
    kind: Literal["seeded", "historical"]
    """``seeded``: planted by us. ``historical``: a release has it."""
    level: str
    """The level at which the kit drives it; others may find it anywhere."""
    rules: list[str]
    """The rules that it may be seen to break, by code."""
    symptom: str
    """What is seen, in a sentence."""
    code: str = ""
    """Its code among the known faults of the specification (``spec/faults.py``), if it has one."""
    release: str = ""
    """The release that has it, or into which it is put; empty: that of the file."""
    planted: str = ""
    """Of a seeded one ``FILE:NAME``: the file of this repository that puts it in, and its name there."""
    trace: str = ""
    """A trace that shows it, as a file of this repository."""
    words: str = ""
    """Of a historical one, what the text or the key of a finding must hold besides."""
    needs: list[str] = []
    """Of a historical one, traits that its case must have."""
    absent: str = ""
    """The first release that is said to be without it."""


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The faults of one engine."""

    engine: str
    release: str
    """Of all that name none; ``checkout`` for the reference implementation."""
    fault: list[Fault]


def read_all(folder: Path = FOLDER) -> list[Engine]:
    """Read every manifest, in the order of their names.

    Raises:
        ManifestError: one of them is not well-formed, or two faults have one name.
    """
    engines = [read_engine(path) for path in sorted(folder.glob("*.toml"))]
    seen: set[str] = set()
    for each in (fault.id for engine in engines for fault in engine.fault):
        if each in seen:
            raise ManifestError(f"two faults are called {each}: give one of them another name")
        seen.add(each)
    return engines


def read_engine(path: Path) -> Engine:
    """Read one manifest.

    Raises:
        ManifestError: it is not well-formed.
    """
    try:
        engine = msgspec.toml.decode(path.read_bytes(), type=Engine)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path.name}: {error}") from error
    for fault in engine.fault:
        problem = _problem(fault)
        if problem:
            raise ManifestError(f"{path.name}: {fault.id} {problem}")
    return msgspec.structs.replace(
        engine, fault=[msgspec.structs.replace(f, release=f.release or engine.release) for f in engine.fault]
    )


def _problem(fault: Fault) -> str:
    """What is wrong with an entry; empty where nothing is."""
    if not fault.id or not set(fault.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-"):
        return "is no name: small letters, digits and hyphens"
    if not fault.rules:
        return "breaks no rule: name one at least"
    if (fault.kind == "seeded") != bool(fault.planted):
        return "must say where it is planted if it is seeded, and only then"
    if fault.planted and fault.planted.count(":") != 1:
        return "is planted as FILE:NAME"
    if not fault.symptom.endswith("."):
        return "needs a symptom, which is a sentence"
    return ""
