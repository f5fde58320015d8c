"""The releases of SGLang: which of them can be driven, and how each is made to run without a GPU.

A release is its wheel alone, in a folder for ``PYTHONPATH``; what it imports is one runtime that all releases share.
"""

from pathlib import Path
from typing import Final

from packaging.version import Version

from ..engine import Recipe

DISTRIBUTIONS: Final = ("sglang",)
"""The names under which package indexes have releases."""

OLDEST: Final = Version("0.5.19")
"""The oldest release that the adapters know: before, requests know themselves what they hold, and events differ."""

_SERVED: Final = Version("0.5.22")
"""The oldest whose own scheduler is driven, and its host tier."""

TORCH: Final = "torch==2.13.0"
"""The torch that every release imports; its CPU build, where there is one."""

RUNTIME: Final = Path(__file__).with_name("runtime.txt")
"""Everything in the runtime, torch included, one pinned requirement a line."""

MODULES: Final = ("sglang_setup", "sglang.srt.mem_cache.allocator", "sglang.srt.mem_cache.unified_radix_cache")
"""What must import before a release counts as installed: first what stands in for what it would import."""


def recipes(version: str) -> tuple[Recipe, ...]:
    """Return the ways to build a release: there is one."""
    return (Recipe(what="its wheel", arguments=(f"{DISTRIBUTIONS[0]}=={version}",), environment={}),)


def is_served(version: str) -> bool:
    """Tell whether a release's own scheduler is driven, and its host tier. Of those before, pages are found by kernels
    that know powers of two only."""
    return Version(version) >= _SERVED
