"""The releases of LMCache: which of them can be driven, and how each is made to run without a GPU.

A release is its wheel. What it has compiled for CUDA is not loaded where there is no GPU; its memory management is
Python. What it imports is one runtime that all releases share.
"""

from pathlib import Path
from typing import Final

from packaging.version import Version

from ..engine import Recipe

DISTRIBUTIONS: Final = ("lmcache",)
"""The names under which package indexes have releases."""

OLDEST: Final = Version("0.5.2")
"""The oldest release that the worker knows: 0.5.1 has its allocators elsewhere."""

_STAGED: Final = Version("0.5.6")

TORCH: Final = "torch==2.13.0"
"""The torch that every release imports; its CPU build, where there is one."""

RUNTIME: Final = Path(__file__).with_name("runtime.txt")
"""Everything in the runtime, torch included, one pinned requirement a line."""

MODULES: Final = ("lmcache.v1.storage_backend.local_cpu_backend", "lmcache.v1.memory_allocators.mixed_memory_allocator")
"""What must import before a release counts as installed."""


def stages(version: str) -> bool:
    """Tell whether a release's `L1Manager` writes a key beside what is there, under a tag: one that writes in the place
    of what is there is not driven."""
    return Version(version) >= _STAGED


def recipes(version: str) -> tuple[Recipe, ...]:
    """Return the ways to build a release: there is one."""
    return (Recipe(what="its wheel", arguments=(f"{DISTRIBUTIONS[0]}=={version}",), environment={}),)
