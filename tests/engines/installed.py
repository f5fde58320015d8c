"""Releases that are installed here: `kvproof engines install vllm==...`; a test of one that is not is skipped."""

import atexit
from functools import cache
from pathlib import Path

import pytest

from kvproof.engines.build import Build
from kvproof.engines.session import Limits, Session
from kvproof.engines.store import StoreError, resolve

from .toys import FAKES


def engine(version: str, name: str = "vllm") -> Build:
    """A release of the store."""
    try:
        return resolve(f"{name}=={version}")
    except StoreError as error:
        pytest.skip(str(error))


LIMITS = Limits(start=300, operation=20, answer=120)
WORKERS = Path(__file__).parents[2] / "kvproof/engines"


@cache
def session(version: str, name: str = "vllm") -> Session:
    """A session with a release, which the tests share."""
    made = Session.of(engine(version, name), LIMITS)
    atexit.register(made.close)
    return made


@cache
def broken_session(version: str, name: str, *levels: str) -> Session:
    """A session with a release, broken as a setup says: not at all where it says nothing. The tests share it."""
    build = engine(version, name)
    environment = {**build.environment(), "KVPROOF_TEST_ADAPTERS": str(WORKERS / name / "worker")}
    made = Session.around(FAKES / f"broken_{name}.py", build.python, environment, LIMITS, levels)
    atexit.register(made.close)
    return made


def broken_vllm() -> Session:
    """The newest vLLM with its scheduler, broken as a setup says."""
    return broken_session("0.33.0", "vllm", "scheduler")
