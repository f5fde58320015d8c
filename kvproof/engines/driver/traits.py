"""What cases of a driver may have, by which its causes are told apart, and how they are made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...judge.record import BATCH, SEVERAL, TOGETHER, Capabilities, Case
from ..cases import Op
from ..traits import Trait, Traits, argument, operation, option

__all__ = ["of_requests"]

_BLOCKS = tuple(range(1, 17))
"""Numbers of blocks that cases are drawn with, on the device and on the host."""


def of_requests(capabilities: Capabilities) -> Traits:
    """What a case may have beyond requests that come, are computed at once, and finish; and the sizes of a setup."""
    sizes = tuple(sorted(capabilities.block_tokens))
    asked = {*capabilities.operations, *capabilities.options, *capabilities.tenants}
    of = _OF if "grow" in asked else {**_OF, "step": [_AT_ONCE]}
    had = [trait for name, traits in of.items() if name in asked for trait in traits]
    numbers = {"blocks": _BLOCKS, "host_blocks": _BLOCKS, "block_tokens": sizes}
    drained = _one_at_a_time if "resume" in asked else lambda _case: ()
    return Traits(had, _fitting, numbers, bare=True, drained=drained)


def _one_at_a_time(case: Case) -> list[Op]:
    """Who runs finishes, the oldest first; then who waits is admitted, and finishes."""
    names = [args["child" if op == "fork" else "request"] for op, args in case.ops if op in ("start", "fork")]
    finished: list[Op] = [("finish", {"request": name}) for name in names]
    admitted: list[Op] = [(op, {"request": name}) for name in names for op in ("resume", "finish")]
    return [*finished, *admitted]


def _asked(name: str, op: str) -> Trait:
    """An operation that no case is closed with."""
    return operation(name, op, closes=False)


def _ending(name: str, op: str) -> Trait:
    """Requests that end in an unusual way: without that, they go on, or finish."""
    left_out = _asked(name, op)

    def without(case: Case) -> Iterator[Case]:
        yield from left_out.without(case)
        yield msgspec.structs.replace(case, ops=[("finish" if o == op else o, a) for o, a in case.ops])

    return Trait(name, left_out.has, without)


def _come_later(case: Case) -> Iterator[Case]:
    """Who was to be admitted later comes later: who was refused at first, or preempted, is not there before."""
    yield from _LEFT_OUT.without(case)
    later = {args["request"] for op, args in case.ops if op == "resume"}
    arrivals = {args["request"]: args for op, args in case.ops if op == "start" and args["request"] in later}
    ops: list[Op] = []
    for op, args in case.ops:
        name = args.get("request")
        if op == "resume" and name in arrivals:
            ops.append(("start", arrivals.pop(name)))
        elif name not in arrivals:
            ops.append((op, args))
    yield msgspec.structs.replace(case, ops=ops)


def _one_by_one(case: Case) -> Iterator[Case]:
    """What was begun is done where it was begun, and each to its end."""
    ops: list[Op] = []
    for name, args in case.ops:
        if name == "begin":
            ops.append((args["op"], {key: value for key, value in args.items() if key != "op"}))
        elif name not in SEVERAL:
            ops.append((name, args))
    yield msgspec.structs.replace(case, ops=ops)


_AT_ONCE = argument("a prompt in parts", "start", "most")


def _grown(case: Case) -> Iterator[Case]:
    """Prompts are computed at once; or they end where they were to be computed first, and grow by the rest."""
    yield from _AT_ONCE.without(case)
    left: dict[str, list[int]] = {}
    ops: list[Op] = []
    for op, args in case.ops:
        name, most = args.get("request", ""), args.get("most") or None
        if op == "start" and most is not None:
            left[name] = args["prompt"][most:]
            ops.append((op, {**args, "prompt": args["prompt"][:most], "most": 0}))
        elif op == "step" and name in left:
            ops += [("grow", {"request": name, "tokens": [token]}) for token in left[name][:most]]
            left[name] = [] if most is None else left[name][most:]
        else:
            ops.append((op, args))
    yield msgspec.structs.replace(case, ops=ops)


_LEFT_OUT = _asked("a later admission", "resume")

_OVERLAPPING = Trait("overlapping calls", lambda case: any(op == TOGETHER for op, _ in case.ops), _one_by_one)
_IN_BATCHES = Trait("several in a forward pass", lambda case: any(op == BATCH for op, _ in case.ops), _one_by_one)

_OF = {
    TOGETHER: [argument("a cancelled call", TOGETHER, "cancel"), _OVERLAPPING],
    BATCH: [_IN_BATCHES],
    "loaded": [_asked("loads that wait", "loaded")],
    "mirror": [_asked("a mirror", "mirror")],
    "host_blocks": [option("a host tier", "host_blocks")],
    "fork": [_asked("a fork", "fork")],
    "evict": [_asked("an eviction by name", "evict")],
    "reset": [operation("a reset", "reset")],
    "resume": [Trait("a later admission", _LEFT_OUT.has, _come_later)],
    "cut": [_asked("a step whose result nobody waits for", "cut")],
    "preempt": [_ending("a preemption", "preempt")],
    "abort": [_ending("an abort", "abort")],
    "salt": [argument("a salt", "start", "salt")],
    "adapter": [argument("an adapter", "start", "adapter")],
    "step": [Trait("a prompt in parts", _AT_ONCE.has, _grown)],
    "grow": [_asked("growth", "grow")],
    "events": [option("events", "events", added=True)],
    "caching": [option("no caching", "caching", plain=True)],
}
"""By the operation, option or tenant that it takes, in the order in which they are taken away."""


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
