"""Lists of findings that are no news: `known.toml`. Each entry is a cause: how it shows, and what it needs.

::

    [[known]]
    engine = "vllm"
    releases = ">=0.19,<0.24"            # as in a requirement; all releases when left out
    rule = "H8"
    oracle = "one block twice in a request"   # optional, as are level and key
    needs = ["window", "external tokens"]     # nothing when left out
    reason = "external blocks of one group are taken before the hits of another are held"
    link = "https://github.com/vllm-project/vllm/issues/44409"
"""

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..judge.violation import Violation, unnumbered
from ..untrusted import limits
from ..untrusted.reading import UnreadableError, read_bounded
from ..untrusted.text import one_line

__all__ = ["Known", "KnownError", "Listed", "read_known"]


class KnownError(Exception):
    """A list cannot be used. One sentence that says what is wrong and how to mend it."""


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding that is expected."""

    engine: str
    rule: str
    reason: str
    link: str
    releases: str = ""
    oracle: str | None = None
    level: str | None = None
    key: list[str] | None = None
    """Texts that the violation's key must have, in this order, at its beginning."""
    needs: list[str] = []
    """The traits that the cause needs. What needs others is another cause, though it shows alike."""

    @property
    def why(self) -> str:
        """Why it is no news, and where to read of it."""
        return f"{self.reason} ({self.link})"

    def fits(self, engine: str, version: str, violation: Violation, level: str, needs: Collection[str] = ()) -> bool:
        """Tell whether a violation that needs these traits, seen in this release, is this one."""
        return (
            self.engine == engine
            and self._holds_for(version)
            and self.rule == violation.rule
            and self.oracle in (None, violation.oracle)
            and self.level in (None, level)
            and (self.key is None or unnumbered(self.key) == violation.signature[2 : 2 + len(self.key)])
            and set(self.needs) == set(needs)
        )

    def _holds_for(self, version: str) -> bool:
        """Tell whether a version is in the range. A driver's may be any text: then only all releases hold it."""
        try:
            return not self.releases or SpecifierSet(self.releases).contains(Version(version), prereleases=True)
        except InvalidVersion:
            return False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    known: list[Known]


def read_known(path: Path) -> list[Known]:
    """Return the entries of a list.

    Raises:
        KnownError: it cannot be read, or an entry is not as it must be.
    """
    try:
        text = read_bounded(path, limits.KNOWN_BYTES).decode()
    except OSError as error:
        raise KnownError(f"{path} cannot be read ({error.strerror or error}); give a known.toml") from error
    except UnicodeDecodeError as error:
        raise KnownError(f"{path} cannot be read (it is no text); give a known.toml") from error
    except UnreadableError as error:
        raise KnownError(f"{path} is {error}; give the path of a known.toml") from error
    if any(line.count(".") > limits.DOTS for line in text.split("\n")):
        raise KnownError(f"{path} has a line with more than {limits.DOTS} dots; give the path of a known.toml")
    try:
        found = msgspec.convert(tomllib.loads(text), _File).known
    except (ValueError, RecursionError) as error:  # What tomllib raises; a number of any length is a ValueError too.
        what = "nested too deeply" if isinstance(error, RecursionError) else error
        raise KnownError(
            f"{path} is no list of known findings: {what}; each [[known]] has engine, rule, reason, link"
        ) from error
    for entry in found:
        try:
            if len(entry.releases) > limits.RANGE_LETTERS:
                raise InvalidSpecifier(f"longer than {limits.RANGE_LETTERS} letters")
            SpecifierSet(entry.releases)
        except InvalidSpecifier as error:
            shown = one_line(entry.releases, limits.RANGE_LETTERS)
            raise KnownError(f"{path}: releases '{shown}' is no range; write >=0.19,<0.24") from error
    return found


@dataclass(frozen=True)
class Listed:
    """The entries of a list that a release can show."""

    entries: Sequence[Known]
    engine: str
    version: str

    def why(self, violation: Violation, level: str, needs: Collection[str]) -> str | None:
        """Why a violation that needs these traits is no news, or None."""
        for entry in self.entries:
            if entry.fits(self.engine, self.version, violation, level, needs):
                return entry.why
        return None

    def perhaps(self, violation: Violation, level: str, needs: Collection[str], *, sure: bool) -> str | None:
        """What a violation may be, if it needs no more than a part of these traits; of several the one with most.

        Where it is ``sure`` that it needs all of them, it may still be what comes otherwise here; but what needs
        nothing is no part of everything.
        """
        alike = self._alike(violation, level)
        part = [entry for entry in alike if set(entry.needs) < set(needs) and (entry.needs or not sure)]
        nearest = max(part, key=lambda entry: len(entry.needs), default=None)
        return None if nearest is None else nearest.why

    def needs_of(self, violation: Violation, level: str) -> list[frozenset[str]]:
        """What the entries need that show as a violation does."""
        return [frozenset(entry.needs) for entry in self._alike(violation, level)]

    def _alike(self, violation: Violation, level: str) -> list[Known]:
        """The entries that show as a violation does, whatever they need."""
        return [e for e in self.entries if e.fits(self.engine, self.version, violation, level, e.needs)]
