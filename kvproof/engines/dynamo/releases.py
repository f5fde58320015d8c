"""The releases of Dynamo: which of them can be replayed, and how each is made to run without a GPU.

What is used is the compiled mocker in the wheel of the runtime. It imports without anything else, so a release is the
wheel alone, and its runtime an empty environment.
"""

from typing import Final

from packaging.version import Version

from ..engine import Recipe

DISTRIBUTIONS: Final = ("ai-dynamo-runtime",)
"""The names under which the package index has releases."""

OLDEST: Final = Version("1.6.0")
"""The oldest release that the worker knows how to configure. That of 1.3 and 1.4 takes a host tier and has none."""

TORCH: Final = None
"""No torch is imported."""

RUNTIME: Final = None
"""Nothing is shared by releases but the interpreter."""

MODULES: Final = ("dynamo._core",)
"""What must import before a release counts as installed."""


def recipes(version: str) -> tuple[Recipe, ...]:
    """Return the ways to build a release: there is one."""
    return (Recipe(what="the wheel of the runtime", arguments=(f"{DISTRIBUTIONS[0]}=={version}",), environment={}),)
