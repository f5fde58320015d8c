"""Scopes of machines M, D and O, and of M and D together."""

from __future__ import annotations

from typing import Any

from kvproof.harness.machines import find_machine
from kvproof.machine import Model
from kvproof.machine.scope import Scope

PLAIN: dict[str, Any] = {
    "capacity": 1,
    "cost": 2,
    "pinning": True,
    "window": 1,
    "min_drop": 1,
    "lazy": False,
    "driver": 0,
}


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
    hosts: int = 1,
    workers: int = 1,
    slots: int = 1,
    numbers: int = 2,
    **more: Any,
) -> Scope:
    """Requests with the same prompt, a chain of blocks of a token or more; ``more`` is what differs from `PLAIN`."""
    model = Model.of(find_machine(machine))
    plain = PLAIN | {"owner": [s % workers for s in range(slots)]}
    params: dict[str, Any] = {
        "null": 0 if null else None,
        "caching": True,
        "split": split,
        "kv": [[h * slots + s for s in range(slots)] for h in range(hashes)],
        "parent": [None, *range(hashes - 1)],
        "prompt": [[min(i, hashes - 1) for i in range(positions)]] * requests,
        "limit": [limit] * requests,
        "need": [positions] * requests,
        **{name: value for name, value in (plain | more).items() if name in model.params or name not in plain},
    }
    more_sizes = {"HostBlock": hosts, "Worker": workers, "Number": numbers}
    sizes = {
        "Block": blocks + null,
        "Request": requests,
        "Hash": hashes,
        "Slot": slots,
        "Content": hashes * slots,
        "Position": positions,
        # A host block may be held by a load into each block, and by each lookup.
        "Int": (blocks + requests if "HostBlock" in model.sorts else positions) + 1,
        **{name: size for name, size in more_sizes.items() if name in model.sorts},
    }
    return Scope(model, sizes, params)
