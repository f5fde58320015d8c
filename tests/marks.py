"""What a desk leaves to CI: of parameters that one test has, the few that stand for the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["slow_but"]


def slow_but(names: Iterable[str], often: Collection[str]) -> list[Any]:
    """Names as parameters: these are tried by every run, the others have the mark of what is slow.

    A fault of the kind that the others notice is noticed by one of these, in most cases; CI tries all of them.
    """
    every = [*names]
    assert set(often) <= set(every), f"{set(often) - set(every)} are no names of these"
    return [name if name in often else pytest.param(name, marks=pytest.mark.slow) for name in every]
