"""Finite scopes for machines that have parameters: real token sequences give machine P's (see `worlds`)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    from .machine import Machine, Model
    from .machine.scope import Scope

DEFAULT_SIZES = {"Block": 3, "Request": 2, "Position": 2, "Slot": 1, "Hash": 3, "Content": 4}
"""The scope of machine P that is explored where none is named: some hundred thousand states."""

TIER_SIZES = DEFAULT_SIZES | {"Block": 2, "Hash": 2, "Content": 3}
"""That of machines that extend it by more tiers, which have more state."""

TIER_PARAMS: dict[str, int | bool] = {
    "capacity": 1,
    "cost": 1,
    "pinning": True,
    "window": 1,
    "min_drop": 1,
    "lazy": False,
}
"""What such machines are explored with where nothing else is said: all of it small, so that everything happens."""


def find_scope(
    machine: type[Machine],
    sizes: dict[str, int],
    *,
    split: bool,
    null: bool | None,
    caching: bool,
    seed: int,
    given: dict[str, int] | None = None,
) -> Scope:
    """Return a scope of the machine with these sizes; sizes that are left out have the default's.

    Args:
        machine: what is explored.
        sizes: elements per sort.
        split: the dialect of P10.
        null: whether there is a null block; by default where windows move, which leave it behind.
        caching: whether blocks are registered.
        seed: chooses the token sequences.
        given: parameters without keys, in place of those in `TIER_PARAMS`.

    Raises:
        UsageError: the machine has no such sorts or parameters, or there are no token sequences with such numbers.
    """
    from .machine import Model
    from .machine.scope import Scope, ScopeError
    from .spec.pool import Pool

    model = Model.of(machine)
    try:
        if not model.params:
            return Scope(model, sizes)
        if not issubclass(machine, Pool):
            raise UsageError(
                f"{model.name} has parameters of its own ({', '.join(model.params)}); "
                "give their values with --params FILE"
            )
        more = {name: value for name, value in TIER_PARAMS.items() if name in model.params}
        for name in given or {}:
            if name not in more:
                raise UsageError(f"--set {name}: {model.name} has {', '.join(more) or 'nothing'} to set")
        more |= given or {}
        null = "window" in more if null is None else null
        sizes = (TIER_SIZES if more else DEFAULT_SIZES) | sizes
        return _pool_scope(model, sizes, more, split=split, null=null, caching=caching, seed=seed)
    except (ScopeError, ValueError) as error:
        raise UsageError(f"--size: {error}") from error


def scope_of_params(machine: type[Machine], sizes: dict[str, int], path: Path) -> Scope:
    """Return the scope with these sizes and the parameters in a JSON file: nested lists in the order of their keys.

    Raises:
        UsageError: the file cannot be read, or does not fit the machine.
    """
    import msgspec

    from .machine import Model
    from .machine.scope import Scope, ScopeError

    try:
        values = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return Scope(Model.of(machine), sizes, values)
    except OSError as error:
        raise UsageError(f"--params {path} cannot be read ({error.strerror or error}); name a JSON file") from error
    except (msgspec.DecodeError, ScopeError) as error:
        raise UsageError(f"--params {path}: {error}") from error


def _pool_scope(
    model: Model,
    sizes: dict[str, int],
    more: dict[str, int | bool],
    *,
    split: bool,
    null: bool,
    caching: bool,
    seed: int,
) -> Scope:
    from .machine.scope import Scope
    from .worlds import Size, World, host_params, host_sizes

    asked = Size(
        blocks=sizes["Block"],
        requests=sizes["Request"],
        positions=sizes["Position"],
        slots=sizes["Slot"],
        prefixes=max(1, sizes["Content"] - 1),
        hashes=sizes["Hash"],
        host_blocks=sizes.get("HostBlock", 1),
        workers=sizes.get("Worker", 1),
    )
    world = World.make(asked, caching=caching, split=split, null=null, seed=seed)
    given = {k: v for k, v in sizes.items() if k == "Int"}
    params = world.scope.params | more
    counts = dict(world.scope.sizes)
    if "first_next" in model.params:
        params |= _first_links(world.scope.sizes["Block"], params["null"])
    if "owner" in model.params:
        params |= host_params(asked)
        counts |= host_sizes(asked)
    return Scope(model, {**counts, **given}, params)


def _first_links(blocks: int, null: int | None) -> dict[str, list[int | None]]:
    """Return the links of a list of all usable blocks, as its constructor leaves them."""
    head, tail = blocks, blocks + 1
    chain = [head, *(b for b in range(blocks) if b != null), tail]
    ahead: list[int | None] = [None] * (blocks + 2)
    back: list[int | None] = [None] * (blocks + 2)
    for a, b in pairwise(chain):
        ahead[a], back[b] = b, a
    return {"first_next": ahead, "first_prev": back}
