"""How engines are compared with the reference implementation or the specification, by name.

An installed package adds its own by entry points of the groups ``kvproof.locksteps`` and ``kvproof.comparisons``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ..registry import Registry

if TYPE_CHECKING:
    from hypothesis import strategies as st

    from ..checkers.fuzz import FuzzReport
    from ..checkers.target import Target
    from ..engines.build import Build
    from ..engines.session import Session
    from ..judge.record import Case
    from .outcome import Outcome

__all__ = ["COMPARISONS", "LOCKSTEPS", "Comparison", "Lockstep"]


class Lockstep(Protocol):
    """How an engine's block pool goes beside machine P, step by step. A module is one: its functions."""

    def splits(self, version: str, *, caching: bool) -> bool:
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
        session: Session | None = None,
    ) -> FuzzReport:
        """Fuzz a build's block pool, in a session that is open already, or in one of its own.

        Raises:
            UsageError: it cannot be driven, or does not behave as its release is known to.
        """


class Comparison(Protocol):
    """How a part of an engine goes beside the reference implementation, or beside another of its own, case by case.

    A module is one.
    """

    @property
    def LEVEL(self) -> str:
        """The level of the worker that plays the cases."""

    def profiles(self, release: str) -> Mapping[str, st.SearchStrategy[Case]]:
        """Return families of cases, by name: those that a release can do."""

    def compare(self, session: Session, case: Case) -> Outcome:
        """Let both do a case, and compare them."""


def _vllm_pool() -> Lockstep:
    from .vllm import pool

    return pool


def _vllm_offload() -> Comparison:
    from .vllm import offload

    return offload


def _dynamo_mocker() -> Comparison:
    from .dynamo import compare

    return compare


def _sglang_cores() -> Comparison:
    from .sglang import cores

    return cores


LOCKSTEPS: Registry[Lockstep] = Registry("kvproof.locksteps", {"vllm": _vllm_pool})
"""By engine."""

COMPARISONS: Registry[Comparison] = Registry(
    "kvproof.comparisons",
    {"vllm/offload": _vllm_offload, "dynamo/mocker": _dynamo_mocker, "sglang/cores": _sglang_cores},
)
"""By engine and subject."""
