"""Releases that are installed here: `kvproof engines install vllm==...`; a test of one that is not is skipped."""

import atexit
from functools import cache

import pytest

from kvproof.engines.build import Build
from kvproof.engines.session import Limits, Session
from kvproof.engines.store import StoreError, resolve


def engine(version: str, name: str = "vllm") -> Build:
    """A release of the store."""
    try:
        return resolve(f"{name}=={version}")
    except StoreError as error:
        pytest.skip(str(error))


@cache
def session(version: str, name: str = "vllm") -> Session:
    """A session with a release, which the tests share."""
    made = Session.of(engine(version, name), Limits(start=300, operation=20, answer=120))
    atexit.register(made.close)
    return made
