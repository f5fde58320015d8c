"""What faults of vLLM may need of the connectors of a case of the level ``scheduler``; each of two may be it."""

from collections.abc import Callable, Iterator
from typing import Any

from ....judge.record import Case
from ...traits import Trait, with_setup
from .connectors import keeps_files
from .geometry import Setup
from .sparse import AMPLE, KIND

__all__ = ["CONNECTORS", "ELSEWHERE", "one_block_to_a_chunk"]

ELSEWHERE = "tokens from elsewhere"
"""What another engine computed, and somebody loads."""


def one_block_to_a_chunk(connector: Setup) -> Setup:
    """The connector as groups with blocks of several sizes take it."""
    found = {**connector, "factor": 1} if "factor" in connector else dict(connector)
    if "children" in found:
        found["children"] = [one_block_to_a_chunk(child) for child in found["children"]]
    return found


def _connector(case: Case) -> Setup:
    found: Setup = case.setup.get("connector", {})
    return found


def _with_connector(case: Case, connector: Setup | None) -> Case:
    rest = {name: value for name, value in case.setup.items() if name != "connector"}
    return with_setup(case, rest if connector is None else {**rest, "connector": connector})


def _parts(case: Case) -> list[Setup]:
    """The connector, or the children of one that has some: each may be what a fault needs."""
    connector = _connector(case)
    children: list[Setup] = connector.get("children", [])
    return children or [connector]


def _with_parts(case: Case, parts: list[Setup]) -> Case:
    """The case with these; one that is left over stands alone."""
    connector = _connector(case)
    if "children" not in connector:
        return _with_connector(case, parts[0] if parts else None)
    if len(parts) == 1:
        return _with_connector(case, {**parts[0], "workers": connector.get("workers", 1)})
    return _with_connector(case, {**connector, "children": parts})


def _several() -> Trait:
    """Two connectors under one roof: either of them may do."""

    def without(case: Case) -> Iterator[Case]:
        yield _with_connector(case, None)
        yield from (_with_parts(case, [part]) for part in _parts(case))

    return Trait("two connectors", lambda case: _connector(case).get("kind") == "multi", without)


def _kind(name: str, kind: str, *others: Callable[[Setup], Setup], like: str = "") -> Trait:
    """A connector of a kind. ``others``: what may stand in its place."""

    def without(case: Case) -> Iterator[Case]:
        parts = _parts(case)
        if rest := [part for part in parts if part.get("kind") != kind]:
            yield _with_parts(case, rest)
        yield _with_connector(case, None)
        for other in others:
            yield _with_parts(case, [other(part) if part.get("kind") == kind else part for part in parts])

    return Trait(name, lambda case: any(part.get("kind") == kind for part in _parts(case)), without, like=like)


def _as_simple(connector: Setup) -> Setup:
    found = {"kind": "simple", "blocks": max(2, connector["blocks"] + 1), "lazy": 0}
    return {**found, "workers": connector["workers"]} if "workers" in connector else found


def _of_connector(name: str, key: str, plain: Any = 0, added: Any = None, like: str = "") -> Trait:
    """An option of a connector."""

    def changed(case: Case, value: Any) -> Case:
        if "children" in _connector(case) and key in _connector(case):  # Both have it from their roof.
            return _with_connector(case, {**_connector(case), key: value})
        parts = _parts(case)
        if not any(key in part for part in parts):
            return case
        return _with_parts(case, [{**part, key: value} if key in part else part for part in parts])

    def without(case: Case) -> Iterator[Case]:
        yield changed(case, plain)

    def has(case: Case) -> bool:
        return any(part.get(key, plain) != plain for part in (_connector(case), *_parts(case)))

    return Trait(name, has, without, None if added is None else lambda case: changed(case, added), like)


def _files(name: str, value: int, like: str = "") -> Trait:
    """A tier below that keeps files, in this way or a plainer one."""

    def without(case: Case) -> Iterator[Case]:
        plainer = [{**part, "files": value - 1} if keeps_files(part) else part for part in _parts(case)]
        yield _with_parts(case, plainer)

    def has(case: Case) -> bool:
        return any(keeps_files(part) and part["files"] >= value for part in _parts(case))

    return Trait(name, has, without, like=like)


def _states_in_chunks() -> Trait:
    """Chunks of several blocks, where a block may be a state: then most blocks of a chunk are null, which is a cause of
    its own, and no circumstance."""
    chunks = _of_connector("several blocks to a chunk", "factor", 1)

    def has(case: Case) -> bool:
        return chunks.has(case) and any(group["kind"] == "mamba" for group in case.setup["groups"])

    return Trait("states in chunks", has, chunks.without)


def _little_room() -> Trait:
    """A device that has hardly room for the pages of one request."""

    def has(case: Case) -> bool:
        return _connector(case).get("kind") == KIND and case.setup.get("spare", 0) < AMPLE

    def without(case: Case) -> Iterator[Case]:
        yield with_setup(case, {**case.setup, "spare": AMPLE})

    return Trait("little room for pages", has, without)


CONNECTORS = (
    _several(),
    _kind("remote connector", "remote", like=ELSEWHERE),
    _kind("offloading connector", "offloading", _as_simple),
    _of_connector("one copy for all workers", "replicated"),
    _of_connector("several workers", "workers", 1, added=2),
    _files("late lookups of files", 2, like="a tier of files"),
    _files("a tier of files", 1),
    _of_connector("a tier below that asks for all chunks", "all_chunks"),
    _of_connector("promotions that fail in part", "in_part"),
    _of_connector("two tiers below", "beside"),
    _of_connector("a tier below", "below"),
    _of_connector("loads at once", "sync"),
    # Whoever loads at once has tokens that others computed: what needs these is not told once more of who loads so.
    _of_connector("tokens loaded at once", "sync", like=ELSEWHERE),
    _of_connector("prompts only", "prompt_only"),
    _of_connector("store threshold", "threshold"),
    _of_connector("events that say what their blocks are", "describes"),
    _of_connector("several blocks to a chunk", "factor", 1, added=2),
    _states_in_chunks(),
    _of_connector("ARC", "policy", "lru", added="arc"),
    _of_connector("failed loads end requests", "fail", "recompute"),
    _of_connector("lazy offload", "lazy"),
    _of_connector("a disk that fails", "bad"),
    _of_connector("a disk in place of the host", "disk"),
    _of_connector("pages fetched to the host", "remote", like=ELSEWHERE),
    _of_connector("decoded pages late on the host", "late"),
    _of_connector("two resident groups", "layers", 1, added=2),
    _little_room(),
    _kind("pages on the host", KIND),
    _kind("simple connector", "simple"),
)
