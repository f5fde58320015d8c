"""The toy engine as tests use it."""

import os
import sys
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from kvproof.engines.session import Limits, Session
from kvproof.judge.record import Case

FAKES = Path(__file__).with_name("fakes")


def toy(limits: Limits | None = None) -> Session:
    """A session with the toy engine; a fresh worker costs next to nothing."""
    return Session.around(FAKES / "fake_engine.py", Path(sys.executable), os.environ, limits or Limits(), ["toy"])


def cases(**setup: Any) -> st.SearchStrategy[Case]:
    """Random legal sequences for the toy."""
    small = st.integers(0, 5)
    # Half of the prompts begin alike, so that requests share blocks.
    alike = st.integers(1, 7).map(lambda n: [0, 1, 2, 0, 1, 2, 0][:n])
    tokens = st.one_of(alike, st.lists(st.integers(0, 2), min_size=1, max_size=7))
    op = st.one_of(
        st.builds(lambda t, s: ("add", {"tokens": t, "salt": s}), tokens, st.sampled_from([None, "a"])),
        *(
            st.builds(lambda p, name=name: (name, {"pick": p}), small)
            for name in ("finish", "evict", "store", "complete", "more")
        ),
    )
    ops = st.integers(1, 20).flatmap(lambda n: st.lists(op, min_size=n, max_size=n))
    return st.builds(lambda o: Case("toy", setup, o), ops)
