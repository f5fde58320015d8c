"""The releases of SGLang: which of them can be driven, and how each is made to run without a GPU.

A release is its wheel alone, in a folder for ``PYTHONPATH``; what it imports is one runtime that all releases share.
"""

from pathlib import Path
from typing import Final

from packaging.version import Version

from ..engine import Recipe

DISTRIBUTIONS: Final = ("sglang",)
"""The names under which package indexes have releases."""

OLDEST: Final = Version("0.5.22")
"""The oldest release that the adapters know: the caches of those before have other calls."""

TORCH: Final = "torch==2.13.0"
"""The torch that every release imports; its CPU build, where there is one."""

RUNTIME: Final = Path(__file__).with_name("runtime.txt")
"""Everything in the runtime, torch included, one pinned requirement a line."""

MODULES: Final = ("sglang.srt.mem_cache.allocator",)
"""What must import before a release counts as installed. The trees need a stand-in that only the worker has."""


def recipes(version: str) -> tuple[Recipe, ...]:
    """Return the ways to build a release: there is one."""
    return (Recipe(what="its wheel", arguments=(f"{DISTRIBUTIONS[0]}=={version}",), environment={}),)
