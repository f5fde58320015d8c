"""Small scopes in which a prompt of two blocks is mirrored, lost in part and looked up again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope

CHAIN: dict[str, Any] = {
    "null": None,
    "caching": True,
    "split": False,
    "kv": [[0], [1]],
    "parent": [None, 0],
    "capacity": 2,
    "cost": 3,
    "pinning": True,
    "window": 1,
    "min_drop": 2,
}
"""Blocks of one token; the second hash builds upon the first."""


def alone(model: Model, prop: str) -> Model:
    """The machine with this property and no other, so that nothing else is told before it."""
    return replace(model, properties={prop: model.properties[prop]})


def chain(
    machine: type[Machine], *, blocks: int = 3, requests: int = 1, need: int = 3, hashes: int = 2, **changed: Any
) -> Scope:
    """Requests with the same prompt of two blocks, and one position more to compute."""
    model = Model.of(machine)
    values = CHAIN | {"prompt": [[0, 1, 1]] * requests, "limit": [2] * requests, "need": [need] * requests} | changed
    sizes = {"Block": blocks, "Request": requests, "Hash": hashes, "Slot": 1, "Content": 2, "Position": 3, "Int": 4}
    return Scope(model, sizes, {k: v for k, v in values.items() if k in model.params})
