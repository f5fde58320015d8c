"""How engines are compared with the reference implementation or the specification, by name.

An installed package adds its own by entry points of the groups ``kvproof.locksteps`` and ``kvproof.comparisons``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ..registry import Registry

if TYPE_CHECKING:
    from ..checkers.fuzz import FuzzReport
    from ..checkers.target import Target
    from ..engines.build import Build

__all__ = ["LOCKSTEPS", "Lockstep"]


class Lockstep(Protocol):
    """How an engine's block pool goes beside machine P, step by step. A module is one: its functions."""

    def splits(self, version: str) -> bool:
        """Return whether a release frees blocks without a hash to the head of the queue (P10)."""

    def targets(self, build: Build) -> AbstractContextManager[Callable[[Any], Target]]:
        """Give what makes targets in instances of machine P.

        Raises:
            UsageError: on the way in or later: the engine cannot be driven.
        """

    def fuzz_pool(
        self,
        build: Build,
        target: str,
        seed: int,
        examples: int | None,
        steps: int,
        seconds: float | None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> FuzzReport:
        """Fuzz a build's block pool.

        Raises:
            UsageError: it cannot be driven, or does not behave as its release is known to.
        """


def _vllm_pool() -> Lockstep:
    from .vllm import pool

    return pool


LOCKSTEPS: Registry[Lockstep] = Registry("kvproof.locksteps", {"vllm": _vllm_pool})
"""By engine."""
