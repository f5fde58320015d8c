"""Scopes of machines M and D and of both together."""

from __future__ import annotations

from typing import Any

from kvproof.machine import Model
from kvproof.machine.scope import Scope
from kvproof.machines import find_machine

PLAIN: dict[str, Any] = {"capacity": 1, "cost": 2, "pinning": True, "window": 1, "min_drop": 1}


def scope(
    machine: str,
    *,
    blocks: int,
    requests: int,
    hashes: int,
    positions: int = 2,
    limit: int = 1,
    null: bool = False,
    split: bool = False,
    **more: Any,
) -> Scope:
    """Requests with the same prompt, a chain of blocks of one token; ``more`` is what differs from `PLAIN`."""
    model = Model.of(find_machine(machine))
    params: dict[str, Any] = {
        "null": 0 if null else None,
        "caching": True,
        "split": split,
        "kv": [[h] for h in range(hashes)],
        "parent": [None, *range(hashes - 1)],
        "prompt": [[min(i, hashes - 1) for i in range(positions)]] * requests,
        "limit": [limit] * requests,
        "need": [positions] * requests,
        **{name: value for name, value in (PLAIN | more).items() if name in model.params or name not in PLAIN},
    }
    sizes = {
        "Block": blocks + null,
        "Request": requests,
        "Hash": hashes,
        "Slot": 1,
        "Content": hashes,
        "Position": positions,
        "Int": positions + 1,
    }
    return Scope(model, sizes, params)
