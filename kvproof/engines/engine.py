"""What the kit has to know of an engine: a module `kvproof/engines/NAME/engine.py`, or an installed package's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from packaging.version import Version

if TYPE_CHECKING:
    from .cases import Cases

__all__ = ["SAME", "Engine", "Recipe"]

SAME: Final = {
    "HF_HUB_OFFLINE": "1",
    "PYTHONHASHSEED": "0",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
}
"""Environment variables with which a Python engine is the same in every run: off the network, without a GPU, with the
hashes that it had before."""


@dataclass(frozen=True)
class Recipe:
    """A way to build a release."""

    what: str
    """What is built or taken, as progress and errors name it."""
    arguments: tuple[str, ...]
    """What ``pip install --no-deps --target FOLDER`` is told besides."""
    environment: dict[str, str]
    """What the build is told besides."""


class Engine(Protocol):
    """An engine. A module is one: its constants and its functions."""

    # Which releases there are, and how they come into the store.

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
        """What must import before a release counts as installed, modules beside `WORKER` included."""

    def recipes(self, version: str) -> tuple[Recipe, ...]:
        """Return the ways to build a release, the best first."""

    # How a build of it is driven.

    @property
    def VARIABLES(self) -> tuple[str, ...]:
        """How the environment variables begin that change what it is or does. Those of the user's are kept from it."""

    @property
    def WORKER(self) -> Path:
        """The file ``NAME_engine.py`` that the worker imports: its ``LEVELS`` and its ``version()``."""

    @property
    def LEVELS(self) -> tuple[str, ...]:
        """The levels that `kvproof fuzz` drives, in the order in which it shows them; none if only comparisons do."""

    def environment(self, cache: Path) -> Mapping[str, str]:
        """Return the environment variables with which it is the same in every run.

        ``cache`` is a folder for what a release keeps from one run to the next.
        """

    def cases(self, level: str) -> Cases | None:
        """Return what a level is hunted with; none for one that is compared with a machine step by step."""
