"""The engines that the store can hold, and what it has to know of each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from .dynamo import releases as dynamo_releases
from .vllm import releases as vllm_releases
from .vllm.releases import Recipe

__all__ = ["DRIVEN", "ENGINES", "Releases"]


class Releases(Protocol):
    """The releases of an engine. A module is one: its constants and its function."""

    @property
    def DISTRIBUTIONS(self) -> tuple[str, ...]:
        """The names under which package indexes have releases; the first one knows all versions."""

    @property
    def OLDEST(self) -> Version:
        """The oldest release that is of use."""

    @property
    def TORCH(self) -> str | None:
        """The torch that every release imports, if any."""

    @property
    def RUNTIME(self) -> Path | None:
        """A file with everything that releases import, one pinned requirement a line; none if they import nothing."""

    @property
    def MODULES(self) -> tuple[str, ...]:
        """What must import before a release counts as installed."""

    def recipes(self, version: str) -> tuple[Recipe, ...]:
        """Return the ways to build a release, the best first."""


ENGINES: Mapping[str, Releases] = {"vllm": vllm_releases, "dynamo": dynamo_releases}
"""The engines by name."""

DRIVEN = "vllm"
"""The engine that commands drive, operation by operation. Others can be installed, and compared as a whole."""
