"""What cases of a driver are made smaller by: the numbers of their setup, and operations that still fit them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...judge.record import TOGETHER, Capabilities, Case
from ..cases import Op
from ..traits import Trait, Traits, argument

__all__ = ["of_requests"]

_BLOCKS = tuple(range(1, 17))
"""Numbers of blocks that cases are drawn with, on the device and on the host."""


def of_requests(capabilities: Capabilities) -> Traits:
    """The sizes of a setup. What tells causes apart here is how they show: nothing else is known of a driver."""
    sizes = tuple(sorted(capabilities.block_tokens))
    overlapping = (_CANCELLED, _OVERLAPPING) if TOGETHER in capabilities.operations else ()
    return Traits(overlapping, _fitting, {"blocks": _BLOCKS, "host_blocks": _BLOCKS, "block_tokens": sizes})


def _one_by_one(case: Case) -> Iterator[Case]:
    """What was begun is done where it was begun, and each to its end."""
    ops: list[Op] = []
    for name, args in case.ops:
        if name == "begin":
            ops.append((args["op"], {key: value for key, value in args.items() if key != "op"}))
        elif name != TOGETHER:
            ops.append((name, args))
    yield msgspec.structs.replace(case, ops=ops)


_CANCELLED = argument("a cancelled call", TOGETHER, "cancel")

_OVERLAPPING = Trait("overlapping calls", lambda case: any(op == TOGETHER for op, _ in case.ops), _one_by_one)


def _fitting(case: Case) -> Case:
    """The case as far as its setup has room: no request has more tokens than the device, no block is one too many."""
    size, blocks = case.setup["block_tokens"], case.setup["blocks"]
    left: dict[str, int] = {}
    ops: list[Op] = []
    for begun, args in case.ops:
        fitted: dict[str, Any] = dict(args)
        request = args.get("request", "")
        name = args.get("op", "") if begun == "begin" else begun
        if name == "start":
            fitted["prompt"] = args["prompt"][: size * blocks]
            left[request] = size * blocks - len(fitted["prompt"])
        elif name == "grow" and request in left:
            fitted["tokens"] = args["tokens"][: left[request]]
            left[request] -= len(fitted["tokens"])
            if not fitted["tokens"]:
                continue
        elif name == "fork" and request in left:
            left[args.get("child", "")] = left[request]
        elif name == "evict" and "block" in args:
            fitted["block"] = min(args["block"], blocks)
        if "most" in args:
            fitted["most"] = min(args["most"], 2 * size)
        ops.append((begun, fitted))
    return msgspec.structs.replace(case, ops=ops)
