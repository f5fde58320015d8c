"""Whether the text that machines are made of is as it was: then what was said of them need not be read again.

A machine is what its module's text makes of it, and what the texts make that this one imports. So the digest of all of
these says which machine it is, where it is sure that the text on the disk is the text that was imported.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..machine import Machine

__all__ = ["Text", "imported_text"]


class Text:
    """The text of some packages that import nothing but one another and the standard library."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages, self.digest = packages, ""
        """Empty as long as it is not known that just this text was imported."""

    def of(self, machine: type[Machine]) -> str | None:
        """Tells this machine from all others; None: it is not sure that it is made of this text."""
        is_here = all(self._has(base) for base in machine.__mro__ if base is not object)
        return f"{machine.__module__}.{machine.__qualname__} {self.digest}" if is_here and self.digest else None

    def _has(self, kind: type) -> bool:
        """The class is what a module of these packages calls by its name, and not one that somebody made of it."""
        name = kind.__module__
        is_inside = any(name == package or name.startswith(f"{package}.") for package in self.packages)
        return is_inside and getattr(sys.modules.get(name), kind.__qualname__, None) is kind


@contextmanager
def imported_text(*packages: str) -> Iterator[Text]:
    """The text of these packages, which are imported while this is open.

    Where some of it was imported before, or the files change meanwhile, it is not known which text that was.
    """
    text = Text(packages)
    loaded = [name for name in sys.modules if any(name == p or name.startswith(f"{p}.") for p in packages)]
    before = _digest(packages)
    yield text
    if not loaded and _digest(packages) == before:
        text.digest = before


def _digest(packages: Sequence[str]) -> str:
    """That of everything in the packages' folders, and of the Python that runs it."""
    digest = hashlib.sha256(f"{sys.version} {sys.flags}".encode())
    for package in packages:
        found = find_spec(package)
        for folder in (found.submodule_search_locations or ()) if found is not None else ():
            home = Path(folder).resolve()
            for file in sorted(home.rglob("*.py")):
                text = file.read_bytes()
                digest.update(f"{package} {file.relative_to(home)} {len(text)} ".encode() + text)
    return digest.hexdigest()
