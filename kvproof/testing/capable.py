"""What a `BlockManager` can do and tell, by what its class overrides and says of itself; and what makes no sense."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from ..engines.driver.requests import IN_BATCHES, OVERLAPPING
from ..errors import UsageError
from ..judge.record import World
from ..judge.shapes import problem_of_dialect
from .declared import check_declared
from .host_side import STATE as HOST_STATE
from .manager import BlockManager

__all__ = ["STATE", "capabilities", "has", "overlaps"]

STATE = {
    "ref": "ref_counts",
    "free": "free_queue",
    "num_free": "num_free",
    "cached": "cached",
    "hashes": "block_keys",
}
"""The fields of a pool's state, and who tells them."""

_ALWAYS = ("start", "resume", "step", "grow", "finish", "abort", "preempt", "cut")
_WHERE_THERE_ARE = ("fork", "loaded", "evict", "reset")
"""Operations that some managers have a method for, of the same name."""


def has(kind: type[BlockManager], method: str) -> bool:
    """Tell whether a manager overrides a method."""
    return getattr(kind, method) is not getattr(BlockManager, method)


def overlaps(kind: type[BlockManager]) -> bool:
    """Tell whether its calls are overlapped: it is asynchronous, and does not say that it must not be."""
    return kind.overlaps and inspect.iscoroutinefunction(kind.allocate)


def capabilities(kind: type[BlockManager]) -> dict[str, Any]:
    """What a manager can do and tell, as a hello says it.

    Raises:
        UsageError: it lacks what every manager has, or says what makes no sense.
    """
    check_declared(kind, BlockManager)
    for check in (_of_methods, _of_words, _of_windows, _of_the_host):
        if problem := next(check(kind), None):
            raise UsageError(f"{kind.__qualname__}{problem}")
    host = _takes(kind, "host_blocks")
    told = {"events": has(kind, "take_events"), "host_blocks": host, "caching": _takes(kind, "caching")}
    not_asked = {"cut": not kind.cuts, "step": not (kind.in_parts or has(kind, "loaded"))}
    always = [name for name in _ALWAYS if not not_asked.get(name)]
    operations = [*always, *(["mirror"] if host else []), *(name for name in _WHERE_THERE_ARE if has(kind, name))]
    tiers = {"device": STATE, "host": HOST_STATE} if host else {"device": STATE}
    return {
        "operations": [*operations, "drain", *_several(kind)],
        "options": [name for name, is_there in told.items() if is_there],
        "tenants": list(kind.tenants),
        "visible": {
            tier: [name for name, method in state.items() if has(kind, method)] for tier, state in tiers.items()
        },
        "block_tokens": list(kind.block_sizes),
        "tokens_per_grow": kind.tokens_per_grow,
    }


def _several(kind: type[BlockManager]) -> tuple[str, ...]:
    """How several operations go on together, if they do."""
    if not kind.overlaps:
        return ()
    return OVERLAPPING if overlaps(kind) else IN_BATCHES


def _takes(kind: type[BlockManager], option: str) -> bool:
    return option in inspect.signature(kind.__init__).parameters


def _of_methods(kind: type[BlockManager]) -> Iterator[str]:
    for method in ("allocate", "free"):
        if not has(kind, method):
            yield f" has no {method}(); kvproof.testing.BlockManager says what it must do"
    if overlaps(kind) and inspect.iscoroutinefunction(kind.take_copies):
        yield (
            ".take_copies() is async def; where calls overlap nobody may come between an allocate and the copies that "
            "it wants: make it a plain method"
        )


def _of_words(kind: type[BlockManager]) -> Iterator[str]:
    if wrong := set(kind.tenants) - {"salt", "adapter"}:
        yield f".tenants names {min(wrong)}; there are salt and adapter"
    if kind.cancelled not in ("undone", "freed", None):
        yield f".cancelled is {kind.cancelled!r}; there are undone, freed and None"
    if wrong_words := problem_of_dialect(World([], {}, 1, notes={"dialect": dict(kind.dialect)})):
        yield f": {wrong_words}"
    if "cached" in kind.dialect and not has(kind, "cached"):
        yield " says that what is cached is held; then cached() tells what that is"
    for word, method in (("evicts", "cached"), ("host_evicts", "host_cached")):
        if word in kind.dialect and not has(kind, method):
            yield f" says by {word} what goes first; then {method}() tells what there is"


def _of_windows(kind: type[BlockManager]) -> Iterator[str]:
    gives_up = kind.null_block is not None and has(kind, "table")
    if kind.window is not None and (kind.window < 1 or not gives_up):
        yield (
            f".window is {kind.window}; it is a number of tokens above 0, a null_block stands for what is behind it, "
            "and table() tells where"
        )
    windows = [window for window in kind.groups if window is not None]
    if min(windows, default=1) < 1 or (kind.groups and kind.window is not None):
        yield (
            f".groups is {kind.groups!r}; it has, for each group, its window, a number of tokens above 0, or None, "
            "instead of a window for all"
        )
    if windows and not gives_up:
        yield ".groups has a window; a null_block stands for what is behind it, and table() tells where"


def _of_the_host(kind: type[BlockManager]) -> Iterator[str]:
    if (
        _takes(kind, "host_blocks") != has(kind, "store")
        or has(kind, "host_lookup") != has(kind, "load")
        or (has(kind, "load") and not has(kind, "lookup"))
    ):
        yield (
            " has a host tier by halves: __init__ takes host_blocks, and there is store(); host_lookup() comes with "
            "load(), and with lookup()"
        )
    if has(kind, "loaded") and not (has(kind, "load") and has(kind, "stored")):
        yield " has loaded(); it comes with load(), and with stored()"
