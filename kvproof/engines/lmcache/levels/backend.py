"""What levels over the backend in CPU memory have in common: how much memory there is, and what has to go first."""

from typing import Any

from hypothesis import strategies as st

from ...traits import option

__all__ = ["POLICIES", "UNITS", "backend"]

UNITS = (8, 12, 16, 24, 32, 48)
"""Units of memory, the fewest first."""

POLICIES = (
    option("LFU", "policy", "LRU", has=lambda policy: policy == "LFU"),
    option("MRU", "policy", "LRU", has=lambda policy: policy == "MRU"),
    option("FIFO", "policy", "LRU", has=lambda policy: policy == "FIFO"),
)
"""What a fault may need: a policy other than the usual one."""


def backend() -> dict[str, st.SearchStrategy[Any]]:
    """Setups of the backend."""
    return {"policy": st.sampled_from(["LRU", "LFU", "FIFO", "MRU"]), "units": st.sampled_from(UNITS)}
