"""The releases of Transformers: which of them can be driven, and how each is made to run without a GPU.

A release is its wheel, which is pure Python; what it imports is one runtime that all releases share.
"""

from pathlib import Path
from typing import Final

from packaging.version import Version

from ..engine import Recipe

DISTRIBUTIONS: Final = ("transformers",)
"""The names under which package indexes have releases."""

OLDEST: Final = Version("5.20.0")
"""The oldest release that the worker knows: 5.18 has another `PagedAttentionCache.update`."""

TORCH: Final = "torch==2.13.0"
"""The torch that every release imports; its CPU build, where there is one."""

RUNTIME: Final = Path(__file__).with_name("runtime.txt")
"""Everything in the runtime, torch included, one pinned requirement a line."""

MODULES: Final = (
    "transformers.generation.continuous_batching.continuous_api",
    "transformers.generation.continuous_batching.offloading_manager",
)
"""What must import before a release counts as installed."""


def recipes(version: str) -> tuple[Recipe, ...]:
    """Return the ways to build a release: there is one."""
    return (Recipe(what="its wheel", arguments=(f"{DISTRIBUTIONS[0]}=={version}",), environment={}),)
