"""Dialects: legitimate differences of policy between an engine's releases, as machine P's parameters have them.

An installed package adds its engine's by an entry point of the group ``kvproof.dialects``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..registry import Registry

if TYPE_CHECKING:
    from .session import Session

__all__ = ["DIALECTS", "Dialect", "DialectError", "Dialects", "dialect_of"]


class DialectError(Exception):
    """What a build does where the rules leave a choice is not known. One sentence that says why."""


@dataclass(frozen=True)
class Dialect:
    """What a release does where the rules leave a choice."""

    split: bool
    """P10: freed blocks without a hash join the head of the free queue."""
    split_uncached: bool
    """P10: the same with caching off, where no block has a hash."""
    null: bool = True
    """P4: the engine keeps a null block, and it is block 0."""
    stores_wait: bool = True
    """Copies to the host come behind the forward pass of their step: what a step writes it may store."""

    def splits(self, *, caching: bool) -> bool:
        """Whether freed blocks without a hash join the head of the free queue (P10), with caching or without."""
        return self.split if caching else self.split_uncached


class Dialects(Protocol):
    """The dialects of an engine. A module is one: its functions."""

    def dialect(self, version: str) -> Dialect:
        """Return the dialect of a release.

        Raises:
            DialectError: that is no version.
        """

    def check_dialect(self, session: Session) -> Dialect:
        """Return the dialect of the build that a session drives, after a look at what it does.

        Raises:
            DialectError: it does something else than its release.
        """


def _vllm() -> Dialects:
    from .vllm import dialect

    return dialect


DIALECTS: Registry[Dialects] = Registry("kvproof.dialects", {"vllm": _vllm})
"""By engine; others are driven in no way that depends on theirs."""


def dialect_of(session: Session) -> Dialect:
    """Return the dialect of the build that a session drives, after a look at what it does.

    Raises:
        DialectError: it does something else than its release, or its engine's dialects are not known.
    """
    engine = session.hello.engine
    if engine not in DIALECTS:
        raise DialectError(f"the dialects of {engine} are not known, only those of {', '.join(DIALECTS)}")
    return DIALECTS[engine].check_dialect(session)
