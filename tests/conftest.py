"""For all tests: Hypothesis profiles, runs that depend on their seed alone, and a store of proofs of their own.

``quick`` is for a desk, ``thorough`` for where ``CI`` is ``true`` (as ``.ci/run`` sets it), ``nightly`` for `make
nightly`, which sets it so: what a change has to pass must be known soon, what is searched for at night may take long.
No test believes what a user has proved before, nor adds to it.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import settings

from kvproof.checkers.fuzz import nothing_from_modules
from kvproof.checkers.heap import rest_for_good, seldom_searched
from kvproof.cli import output, schema

settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("thorough", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("nightly", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(
    {"true": "thorough", "1": "thorough", "nightly": "nightly"}.get(os.environ.get("CI", ""), "quick")
)

seldom_searched()


def pytest_collection_finish() -> None:
    """What is there before the first test stays until after the last: no collection walks it again."""
    rest_for_good()


@pytest.fixture(scope="session", autouse=True)
def same_runs() -> Iterator[None]:
    """What a test draws must not depend on which tests came before it in the same worker."""
    with nothing_from_modules():
        yield


@pytest.fixture(scope="session", autouse=True)
def own_proofs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A run keeps proofs in a file of its own, which its workers share: nothing is proved twice."""
    mine = tmp_path_factory.getbasetemp()
    of_the_run = mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KVPROOF_PROOFS", str(of_the_run / "proofs.sqlite"))
        yield


def keeps_to_the_schema(report: schema.Report, data: dict[str, Any]) -> None:
    """A report has the keys of its type and no others, and their values have their types."""
    assert msgspec.to_builtins(msgspec.convert(data, type(report))) == data


@pytest.fixture(scope="session", autouse=True)
def held_against_the_schema() -> Iterator[None]:
    """Every report that any test writes is."""

    def checked(report: schema.Report) -> dict[str, Any]:
        data = schema.plain(report)
        keeps_to_the_schema(report, data)
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "plain", checked)
        yield
