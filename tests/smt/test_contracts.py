"""CrossHair on the pure parts of the reference implementation: key encoding (P13) and block arithmetic (P14).

CrossHair runs the real functions on symbolic values, path by path, and asks Z3 for an input that breaks the ``post``
of a contract. What a verdict means:

* **confirmed**: every path under the ``pre`` was followed to its end and none breaks the ``post``. For the arithmetic
  that is all integers; for the encoding all inputs *of the sizes that the ``pre`` allows*, which are small. Trusted:
  CrossHair's models of Python's integers, bytes and text, and Z3.
* **searched**: the given number of paths was followed and none breaks the ``post``. That is a search, not a proof: text
  codecs and packed arrays are run on concrete samples, so the paths cannot be exhausted.
* **broken**: an input was found, and CrossHair has called the plain function with it and seen the ``post`` fail.

Nothing here says anything about the digest: that two different encodings have different blake2b digests is assumed.
A search is bounded by a number of paths and not by seconds, so that a slow machine gives the same verdict.
"""

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("crosshair")

from crosshair.core_and_libs import analyze_function, run_checkables
from crosshair.options import AnalysisOptionSet
from crosshair.statespace import MessageType


def load(name: str) -> ModuleType:
    """Import a module beside this one, whatever pytest's import mode makes of this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # CrossHair finds the source of a contract by way of its module.
    spec.loader.exec_module(module)
    return module


holding = load("contracts_refimpl")
broken = load("contracts_refimpl_faults")

PATHS = 60
"""Paths that a search follows: 2 to 4 seconds."""

GIVE_UP_SECONDS = 60.0
"""Never reached on a sane machine; a check that runs into it fails."""

CONFIRMED = [
    holding.limit_leaves_the_last_token,
    holding.blocks_hold_the_tokens_and_no_block_is_idle,
    holding.full_blocks_are_full,
    holding.a_place_leads_back_to_its_token,
    holding.a_slot_is_filled_when_its_token_is_there,
    holding.an_item_enters_the_block_in_which_it_begins,
    holding.tokens_are_read_back,
    holding.parent_and_embeddings_are_read_back,
    holding.kinds_never_collide,
    holding.the_decoder_is_strict,
]
SEARCHED = [holding.names_are_read_back, holding.two_tenants_never_collide]
BROKEN = [
    broken.limit_that_forgets_the_last_token,
    broken.limit_that_gives_one_block_away,
    broken.blocks_with_one_too_many,
    broken.place_with_position_and_slot_of_different_blocks,
    broken.item_that_enters_two_blocks,
    broken.names_without_tags,
    broken.names_without_lengths,
    broken.decoder_that_ignores_what_is_left,
    broken.offset_that_is_left_out,
]

Contract = Callable[..., object]


def analyse(contract: Contract, paths: int) -> tuple[MessageType, str, int]:
    """Return CrossHair's verdict, its words, and how many paths it followed."""
    stats: Counter[str] = Counter()
    options = AnalysisOptionSet(
        report_all=True,
        max_iterations=paths,
        max_uninteresting_iterations=sys.maxsize,
        per_condition_timeout=GIVE_UP_SECONDS,
        per_path_timeout=GIVE_UP_SECONDS,
        stats=stats,
    )
    messages = run_checkables(analyze_function(contract, options))
    assert len(messages) == 1, [message.message for message in messages]
    return messages[0].state, messages[0].message, stats["num_paths"]


def name_of(contract: Contract) -> str:
    return contract.__name__


LONG = [holding.kinds_never_collide, holding.parent_and_embeddings_are_read_back, *SEARCHED]
"""Those that take seconds."""


def some_slow(contracts: list[Contract]) -> list[Any]:
    return [pytest.param(c, marks=pytest.mark.slow if c in LONG else ()) for c in contracts]


@pytest.mark.parametrize("contract", some_slow(CONFIRMED), ids=name_of)
def test_confirmed_over_all_paths(contract):
    state, message, _ = analyse(contract, sys.maxsize)
    assert state == MessageType.CONFIRMED, message


@pytest.mark.parametrize("contract", some_slow(SEARCHED), ids=name_of)
def test_no_counterexample_among_the_paths_searched(contract):
    state, message, paths = analyse(contract, PATHS)
    assert state == MessageType.CANNOT_CONFIRM, message
    assert paths >= PATHS


@pytest.mark.parametrize("contract", BROKEN, ids=name_of)
def test_a_mistake_is_found(contract):
    state, message, _ = analyse(contract, 2000)
    assert state == MessageType.POST_FAIL, message
    assert f"{contract.__name__}(" in message


def test_every_contract_is_checked():
    """A contract that nobody runs would look like one that holds."""
    for module, listed in [(holding, CONFIRMED + SEARCHED), (broken, BROKEN)]:
        contracts = [
            function
            for name, function in vars(module).items()
            if callable(function) and getattr(function, "__module__", None) == module.__name__ and name[0] != "_"
        ]
        assert contracts == listed
