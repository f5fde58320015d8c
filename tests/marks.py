"""What a desk leaves to CI: of parameters that one test has, the few that stand for the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["rows_but", "slow_but"]


def slow_but(names: Iterable[str], often: Collection[str], at_night: Collection[str] = ()) -> list[Any]:
    """Names as parameters: some are tried by every run, some at night, the others have the mark of what is slow.

    A fault of the kind that the others notice is noticed by one of those that are tried often, in most cases.
    """
    every = [*names]
    strangers = {*often, *at_night} - set(every)
    assert not strangers, f"{strangers} are no names of these"
    others = {name: pytest.mark.nightly if name in at_night else pytest.mark.slow for name in every}
    return [name if name in often else pytest.param(name, marks=others[name]) for name in every]


def rows_but(rows: Iterable[tuple[Any, ...]], often: Collection[str]) -> list[Any]:
    """The same of rows that begin with a machine, by its name."""
    named = {row[0].__name__: row for row in rows}
    marked = {name: [] if name in often else [pytest.mark.slow] for name in named}
    assert set(often) <= named.keys(), f"{set(often) - named.keys()} are no machines of these"
    return [pytest.param(*row, marks=marked[name], id=name) for name, row in named.items()]
