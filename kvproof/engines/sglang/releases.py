"""The releases of SGLang: which of them can be driven, and how each is made to run without a GPU.

A release is its wheel alone, in a folder for ``PYTHONPATH``; what it imports is one runtime that all releases share.
"""

from pathlib import Path
from typing import Final

from packaging.version import Version

from ..engine import Recipe

DISTRIBUTIONS: Final = ("sglang",)
"""The names under which package indexes have releases."""

OLDEST: Final = Version("0.5.12")
"""The oldest release that the adapters know: before, others than the unified cache serve windows and states."""

_SERVED: Final = Version("0.5.19")
"""The oldest whose own scheduler is driven, and its host tier."""

_WINDOWS_BELOW: Final = Version("0.5.20")
"""The oldest whose host tier is driven with windows."""

_STATES_BELOW: Final = Version("0.5.21")
"""The oldest whose host tier is driven with states; those before were not tried."""

_ANY_PAGE: Final = Version("0.5.22")
"""Since then pages may have any number of tokens; before, kernels find them that know powers of two only."""

TORCH: Final = "torch==2.13.0"
"""The torch that every release imports; its CPU build, where there is one."""

RUNTIME: Final = Path(__file__).with_name("runtime.txt")
"""Everything in the runtime, torch included, one pinned requirement a line."""

MODULES: Final = ("sglang_setup", "sglang.srt.mem_cache.allocator", "sglang.srt.mem_cache.unified_radix_cache")
"""What must import before a release counts as installed: first what stands in for what it would import."""


def recipes(version: str) -> tuple[Recipe, ...]:
    """Return the ways to build a release: there is one."""
    return (Recipe(what="its wheel", arguments=(f"{DISTRIBUTIONS[0]}=={version}",), environment={}),)


_TWO_CORES: Final = Version("0.5.19")
"""The oldest whose tree has a core in Rust."""


def has_two_cores(version: str) -> bool:
    """Tell whether a release's tree has a core in Rust besides the one in Python."""
    return Version(version) >= _TWO_CORES


_UNIFIED: Final = (Version("0.5.16"), Version("0.5.19"))
"""From when on a server takes the unified tree by default: for windows, and for all models."""

_EVENTS: Final = Version("0.5.13")
"""Since then the unified tree tells KV events, as the older trees did before."""

_SESSIONS: Final = (Version("0.5.15"), Version("0.5.17"))
"""From when on sessions are the tree's, and since when their end frees nothing."""


def older_trees(version: str) -> tuple[str, ...]:
    """Return the trees besides the unified one that a release serves with by default, and ``sessions`` where one has
    sessions that give up at their end what is theirs."""
    release = Version(version)
    (windows, all_models), (first, unmarked) = _UNIFIED, _SESSIONS
    sessions = first <= release < unmarked
    return tuple(["plain"] * (release < all_models) + ["windows"] * (release < windows) + ["sessions"] * sessions)


def tells_events(version: str) -> bool:
    """Tell whether a release's unified tree tells KV events."""
    return Version(version) >= _EVENTS


def is_served(version: str) -> bool:
    """Tell whether a release's own scheduler is driven, and its host tier."""
    return Version(version) >= _SERVED


def has_windows_below(version: str) -> bool:
    """Tell whether the host tier of a release is driven with windows."""
    return Version(version) >= _WINDOWS_BELOW


def has_states_below(version: str) -> bool:
    """Tell whether the host tier of a release is driven with states."""
    return Version(version) >= _STATES_BELOW


def page_sizes(version: str) -> tuple[int, ...]:
    """Return how many tokens a page of a release may have, as far as cases go."""
    return (1, 2, 4, 3) if Version(version) >= _ANY_PAGE else (1, 2, 4)
