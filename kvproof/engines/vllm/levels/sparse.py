"""HiSparse for cases of the level ``scheduler``: sparse attention whose KV lies on the host (`vllm_sparse_plan`)."""

from hypothesis import strategies as st
from packaging.version import Version

from .geometry import Setup

__all__ = ["AMPLE", "KIND", "SPARSE", "with_host_pages"]

SPARSE = Version("0.30")
"""The first release that has it."""

KIND = "hisparse"

AMPLE = 24
"""Blocks of the device beside those that the longest request takes, with which it keeps two steps' pages there, and
what it reads of the host: the longest of our requests in the smallest of our blocks has no need of more."""

_ITS_OWN = ("runner", "reserve", "stages")
"""Options that it leaves no choice of."""


def with_host_pages(setups: st.SearchStrategy[Setup], fetched: bool = False) -> st.SearchStrategy[Setup]:
    """Setups of one group of full attention, as a model whose pages lie on the host; ``fetched``: and come there from
    other engines too."""
    options = {
        "kind": st.just(KIND),
        # A host for little more than one request evicts, and makes others wait.
        "room": st.sampled_from([0, 0, 1, 2, 3, 5, 10]),
        "hot": st.sampled_from([1, 1, 2]),
        "layers": st.sampled_from([1, 1, 2]),
        "late": st.sampled_from([0, 0, 1]),
    }
    if fetched:
        options |= {"remote": st.just(1), "fail": st.sampled_from(["recompute", "fail"])}
    return st.builds(_with_connector, setups, st.fixed_dictionaries(options))


def _with_connector(setup: Setup, connector: Setup) -> Setup:
    return {**{name: value for name, value in setup.items() if name not in _ITS_OWN}, "connector": connector}
