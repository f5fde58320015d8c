"""Lists of findings that are no news: `known.toml`.

::

    [[known]]
    engine = "vllm"
    releases = ">=0.19,<0.24"            # as in a requirement; all releases when left out
    rule = "H8"
    oracle = "one block twice in a request"   # optional, as are level and key
    reason = "external blocks of one group are taken before the hits of another are held"
    link = "https://github.com/vllm-project/vllm/issues/44409"
"""

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..judge.record import Case
from ..judge.violation import Violation
from ..untrusted import limits
from ..untrusted.reading import UnreadableError, read_bounded
from ..untrusted.text import one_line

__all__ = ["Known", "KnownError", "expectation", "read_known"]


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

    def fits(self, engine: str, version: str, violation: Violation, level: str) -> bool:
        """Tell whether a violation, seen in this release, is this one."""
        return (
            self.engine == engine
            and self._holds_for(version)
            and self.rule == violation.rule
            and self.oracle in (None, violation.oracle)
            and self.level in (None, level)
            and (self.key is None or tuple(self.key) == violation.key[: len(self.key)])
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
    except (OSError, UnicodeDecodeError) as error:
        raise KnownError(f"{path} cannot be read ({error}); give the path of a known.toml") from error
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


def expectation(known: Sequence[Known], engine: str, version: str) -> Callable[[Violation, Case], str | None]:
    """Return a function that says why a violation of a case is no news, or None."""

    def why(violation: Violation, case: Case) -> str | None:
        for entry in known:
            if entry.fits(engine, version, violation, case.level):
                return f"{entry.reason} ({entry.link})"
        return None

    return why
