"""The folder of a campaign: what was asked, what was searched, what was found.

Every file is written whole or not at all, once, and never changed: so whoever is ended leaves nothing half done, and
processes side by side tell each other what they found by it. What a campaign knows is what follows from its files.
"""

import os
import re
import secrets
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from ...checkers.trace import write_atomically
from ...engines.folder import Folder
from ...engines.report import Finding
from ...errors import UsageError
from ...judge.record import Case
from ...untrusted import limits
from ...untrusted.reading import UnreadableError, decode_json, read_bounded
from ...untrusted.text import one_line
from ..gaps import Gap
from ..schema import runs as schema
from ..written import check_folder

__all__ = ["Asked", "Difference", "Sighting", "Slice", "Store", "Stretch"]

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a campaign is: with anything else it would be another one."""

    targets: list[str]
    levels: list[str] = []
    """All that a target has when empty."""
    seed: int = 0


class Sighting(msgspec.Struct, frozen=True):
    """A cause of faults, as it was seen in a slice."""

    target: str
    engine: str
    version: str
    after: float
    """Seconds that the campaign had lasted."""
    finding: Finding


class Difference(msgspec.Struct, frozen=True):
    """How a block pool differs from machine P, as it was seen in a slice."""

    target: str
    engine: str
    level: str
    after: float
    finding: schema.Finding


class Stretch(msgspec.Struct, frozen=True):
    """What a slice did at one level."""

    level: str
    examples: int
    steps: int
    refused: int = 0
    not_confirmed: dict[str, int] = {}
    not_looked_at: int = 0
    gaps: list[Gap] = []


class Slice(msgspec.Struct, frozen=True):
    """A slice of time that came to its end."""

    target: str
    levels: tuple[str, ...]
    seconds: float
    """Of searching, sorting and seeing again."""
    wall: float
    """With the start of the engine."""
    brought: float
    stretches: list[Stretch]
    behaviours: list[int] = []
    """What the target was first seen to do."""
    learned: list[tuple[str, str, float, float]] = []
    """By level and family of cases, what it brought, and what that cost."""
    engine: str = ""
    """Whose cases these are."""
    telling: list[Case] = []
    """Those that showed most of what the target was never seen to do."""
    tried: list[str] = []
    """The sightings and slices at other targets whose cases were tried."""


class Store:
    """A campaign's folder. What was read is not read again."""

    def __init__(self, root: Path) -> None:
        """Speak of the folder at ``root``."""
        self.root = root
        self._read: dict[Path, object] = {}

    @staticmethod
    def begun(root: Path, asked: Asked) -> "Store":
        """The folder of a campaign that begins, or goes on.

        Raises:
            UsageError: another campaign's is there, or it cannot be written.
        """
        check_folder("--into", root)
        store, place = Store(root), root / _ASKED
        if not place.exists():
            if root.exists() and any(root.iterdir()):
                raise UsageError(f"{root} holds something else than a campaign; give --into a new folder")
            for name in ("", _SIGHTINGS, _DIFFERENCES, _SLICES):
                (root / name).mkdir(parents=True, exist_ok=True)
            write_atomically(place, msgspec.json.encode(asked))
        elif (there := store.asked) != asked:
            raise UsageError(
                f"{root} is a campaign of {' '.join(there.targets)} (levels {', '.join(there.levels) or 'all'}, seed "
                f"{there.seed}); give the same again, or --into another folder"
            )
        return store

    @staticmethod
    def of(root: Path) -> "Store":
        """The folder of a campaign that is there.

        Raises:
            UsageError: there is none.
        """
        if not (root / _ASKED).is_file():
            raise UsageError(f"{root} holds no campaign; name the folder that kvproof hunt was given with --into")
        return Store(root)

    @property
    def asked(self) -> Asked:
        """What was asked."""
        return self._of(self.root / _ASKED, Asked)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only campaign in the folder.

        Raises:
            UsageError: another one is at work there.
        """

        def taken() -> None:
            raise UsageError(
                f"another kvproof hunt is at work in {self.root}; wait for it, or give --into another folder"
            )

        with Folder(self.root).locked(taken):
            yield

    def new_name(self) -> str:
        """A name for a slice that no other has or had, whoever was ended before it was done."""
        return f"{len(self.slices()):05}-{secrets.token_hex(4)}"

    def slices(self) -> dict[str, Slice]:
        """The slices that came to their end, by their names and in the order of these."""
        return self._all(_SLICES, Slice)

    def sightings(self) -> dict[str, Sighting]:
        """All sightings, by their names."""
        return self._all(_SIGHTINGS, Sighting)

    def differences(self) -> dict[str, Difference]:
        """All differences from machine P, by their names."""
        return self._all(_DIFFERENCES, Difference)

    def finish(self, name: str, done: Slice) -> None:
        """Note a slice that came to its end."""
        self._write(_SLICES, name, done)

    def see(self, name: str, seen: Sighting | Difference) -> None:
        """Note what was seen."""
        self._write(_SIGHTINGS if isinstance(seen, Sighting) else _DIFFERENCES, name, seen)

    def files(self, but: Container[str] = ()) -> dict[str, bytes]:
        """What slices wrote, as it stands in the folder, by names such as ``slices/00001-….json``."""
        there = [f"{folder}/{name}.json" for folder in _KINDS for name in self._names(folder)]
        return {name: (self.root / name).read_bytes() for name in there if name not in but}

    def take(self, name: str, content: bytes) -> None:
        """Put a file here that slices wrote in another folder of the same campaign.

        Raises:
            UsageError: it is none.
        """
        folder, _, rest = name.partition("/")
        if folder not in _KINDS or not _NAME.fullmatch(rest):
            raise UsageError(f"{one_line(name)} is no file of a campaign")
        try:
            decode_json(content, _KINDS[folder])
        except UnreadableError as error:
            raise UsageError(f"{name} is no file of a campaign ({error})") from error
        write_atomically(self.root / name, content)

    def _write(self, folder: str, name: str, content: msgspec.Struct) -> None:
        write_atomically(self.root / folder / f"{name}.json", msgspec.json.encode(content))

    def _all(self, folder: str, kind: type[T]) -> dict[str, T]:
        return {name: self._of(self.root / folder / f"{name}.json", kind) for name in self._names(folder)}

    def _names(self, folder: str) -> list[str]:
        with os.scandir(self.root / folder) as entries:
            return sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json"))

    def _of(self, path: Path, kind: type[T]) -> T:
        if path not in self._read:
            try:
                self._read[path] = decode_json(read_bounded(path, limits.TRACE_BYTES), kind)
            except (OSError, UnreadableError) as error:
                raise UsageError(f"{path} is no file of a campaign ({error}); remove it") from error
        found = self._read[path]
        assert isinstance(found, kind)
        return found


_ASKED = "campaign.json"
_SIGHTINGS, _DIFFERENCES, _SLICES = "sightings", "differences", "slices"
_KINDS: dict[str, type[Sighting | Difference | Slice]] = {
    _SIGHTINGS: Sighting,
    _DIFFERENCES: Difference,
    _SLICES: Slice,
}
_NAME = re.compile(r"[\w-]+\.json")
