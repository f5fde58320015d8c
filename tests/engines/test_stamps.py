"""Memory that is real: what forward passes read back is judged by the stamps in it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvproof.engines.session import Limits, Session
from kvproof.engines.verdicts import verdict
from kvproof.judge.record import Case

from .toys import FAKES

Op = tuple[str, dict[str, Any]]
CASE: list[Op] = [
    ("add", {"tokens": [0, 1, 1, 0, 1]}), ("more", {}), ("more", {}), ("more", {}), ("finish", {}),
    ("add", {"tokens": [1, 1]}), ("more", {}), ("finish", {}),
]  # fmt: skip

FAULTS = {
    "other layer": ("P6", "a forward pass read"),
    "other position": ("P6", "a forward pass read"),
    "small ring": ("P6", "a forward pass read"),
    "short window": ("P6", "a forward pass read another length"),
    "wrong page": ("P6", "content of a cached block"),
    "other token": ("P6", "other tokens were run"),
    "other prompt": ("P6", "another prompt"),
    "other output": ("P6", "an output that was not computed"),
    "ends early": ("L1", "an output that ends at the wrong place"),
    "false hit": ("P15", "what a client is told was found"),
    "one more": ("P15", "what a client is told was made"),
}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    adapter = FAKES / "fake_stamps.py"
    with Session.around(adapter, Path(sys.executable), os.environ, Limits(), []) as session:
        yield session


def test_what_is_read_back_right_is_silent(session: Session) -> None:
    found, told = verdict(session, Case("stamps", {}, CASE))
    assert found is None, found
    assert not any(step.error for step in told.steps)
    assert {"ran", "read", "holds", "output"} <= {effect[0] for step in told.steps for effect in step.effects}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_read_back_wrong_is_noticed(session: Session, fault: str) -> None:
    found, _ = verdict(session, Case("stamps", {"fault": fault}, CASE))
    assert found is not None
    assert (found.violation.rule, found.violation.oracle) == FAULTS[fault], found.violation
