"""What can be put into a test suite: for each base class, how it is driven, with which cases, and judged by what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from ..engines.cases import MoreOracles, Op
from ..engines.driver import requests
from ..engines.driver.traits import of_requests
from ..engines.traits import Traits
from ..engines.worker.serving import System as Driven
from ..errors import UsageError
from ..judge.record import Capabilities, Case
from ..judge.sight import OF_HOSTS, OF_TREES, RULES, Sight
from . import block_cases, capable, system, tree_cases, tree_system
from .batches import BatchingSystem
from .manager import BlockManager
from .overlap import OverlappingSystem
from .tree import PrefixTree
from .tree_overlap import OverlappingTree

__all__ = ["Adapter", "Subject", "overrides", "subject_of"]

Adapter = type[BlockManager] | type[PrefixTree]
"""A class of the user's."""


@dataclass(frozen=True)
class Subject:
    """One kind of thing that is fuzzed."""

    base: type
    level: str
    needed: tuple[str, ...]
    """The methods that each has."""
    make: Callable[[Any, dict[str, Any]], Driven]
    """Makes a system of a class and a setup."""
    capabilities: Callable[[Any], dict[str, Any]]
    profiles: Callable[[Capabilities], Mapping[str, st.SearchStrategy[Case]]]
    closing: Callable[[Capabilities], Sequence[Op]]
    traits: Callable[[Capabilities], Traits]
    more_oracles: MoreOracles
    rules: Callable[[Any], tuple[str, ...]]
    """The rules that a class is judged by, in the order in which they are shown."""
    sight: Callable[[], Sight]
    unlocks: Mapping[str, str]
    """What of a class tells what rules need (`judge/sight.py`)."""


_BLOCKS = Subject(
    BlockManager,
    system.LEVEL,
    ("allocate", "free"),
    lambda kind, setup: (OverlappingSystem if capable.overlaps(kind) else BatchingSystem)(kind, setup),
    capable.capabilities,
    block_cases.profiles,
    requests.closing,
    of_requests,
    requests.more_oracles,
    lambda kind: (
        *RULES,
        *(OF_HOSTS if capable.has(kind, "store") else ()),
        *(("O12",) if {"evicts", "host_evicts"} & {*kind.dialect} else ()),
        *(("D7",) if kind.window is not None or any(kind.groups) else ()),
    ),
    Sight,
    {
        "device.ref": "ref_counts()",
        "device.free": "free_queue()",
        "device.cached": "cached()",
        "device.hashes": "block_keys()",
        "kept": "cached()",
        "hits": "cached()",
        "own keys": "keys()",
        "stored": "take_events()",
        "boundary": "take_events()",
        "event tokens": "take_events() with tokens",
        "evict": "evict()",
        "reset": "reset()",
        "host.ref": "host_ref_counts()",
        "host.free": "host_free_queue()",
        "host.cached": "host_cached()",
        "loads": "host_lookup()",
        "eager": "eager",
        "dialect host": 'dialect["host"]',
        "null": "null_block",
        "dialect take": 'dialect["take"]',
        "dialect free": 'dialect["free"]',
    },
)

_TREES = Subject(
    PrefixTree,
    tree_system.LEVEL,
    ("match", "insert"),
    lambda kind, setup: (OverlappingTree if tree_system.overlaps(kind) else tree_system.TreeSystem)(kind, setup),
    tree_system.capabilities,
    tree_cases.profiles,
    requests.closing,
    of_requests,
    tree_cases.more_oracles,
    lambda _: tuple(OF_TREES),
    lambda: Sight(rules=OF_TREES),
    {
        "tree.nodes": "children() and edge()",
        "tree.locks": "evictable_size() or Edge.lock_ref",
        "locks": "lock()",
        "evicted": "evict()",
        "order": "order",
        "checks_in": "check_in()",
        "page stored": "take_events()",
        "tenants": "namespaces",
    },
)


def subject_of(kind: Adapter) -> Subject:
    """Return how this class is driven.

    Raises:
        UsageError: it extends nothing that can be driven.
    """
    for subject in (_BLOCKS, _TREES):
        if isinstance(kind, type) and issubclass(kind, subject.base):
            return subject
    raise UsageError(f"{kind!r} is no class that extends kvproof.testing.BlockManager or PrefixTree")


def overrides(kind: Adapter, method: str) -> bool:
    """Tell whether a class overrides a method of what it extends."""
    base = subject_of(kind).base
    return getattr(kind, method, None) is not getattr(base, method, None)
