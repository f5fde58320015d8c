"""Finite scopes for machines that have parameters: real token sequences give machine P's (see `instances`).

Those of machines in virtual time and of the planner are made up: a few sizes and times, so that everything happens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..untrusted.numbers import parse_params, parse_sizes
from . import deadlocks, small_scopes

if TYPE_CHECKING:
    from ..machine import Machine, Model
    from ..machine.scope import Scope

DEFAULT_SIZES = {"Block": 3, "Request": 2, "Position": 2, "Slot": 1, "Hash": 3, "Content": 4}
"""The scope of machine P that is explored where none is named: some hundred thousand states."""

TIER_SIZES = DEFAULT_SIZES | {"Block": 2, "Hash": 2, "Content": 3}
"""That of machines that extend it by more tiers, which have more state."""

PASS_SIZES = DEFAULT_SIZES | {"Block": 2, "Request": 1, "Pass": 2, "Int": 6}
"""That of machine P with steps under way: so many can hold one block, in the request's table and in two steps."""

REPORT_SIZES = TIER_SIZES | {"Request": 1, "Number": 2}
"""That of reports that may be stale: one transfer has ended when the other begins."""

TIER_PARAMS: dict[str, int | bool] = {
    "capacity": 1,
    "cost": 1,
    "pinning": True,
    "window": 1,
    "min_drop": 1,
    "lazy": False,
}
"""What such machines are explored with where nothing else is said: all of it small, so that everything happens."""

NEVER_PINNED = {"pinning": False}
"""What `PinningOff` assumes of them."""

TIMED_SIZES = {"Link": 2, "Transfer": 3, "Moment": 2}
"""The scope of machines in virtual time; their numbers are as fine as copies divide a link."""

TIMED_TIER_SIZES = TIMED_SIZES | {"Moment": 1, "Block": 2, "Hash": 2, "Request": 1, "Position": 2}
"""That of machine G's tiers: some ten thousand states."""

SHARED_TIER_SIZES = TIMED_SIZES | {"Worker": 2, "Hash": 2}
"""That of a tier that workers share."""

STALL_SIZES = TIMED_SIZES | {"Link": 1, "Moment": 1, "Transfer": 2, "Request": 3}
"""That of a device that may stall: of three requests the last never fits."""

STALL_PARAMS: dict[str, int | bool] = {"slots": 2}
"""Its slots; the first request needs one, each further one more."""

TIMED_PARAMS: dict[str, int | bool] = {"block_bytes": 2, "batch": 2, "capacity": 1}
"""What machine G's tiers are explored with where nothing else is said."""

BANDWIDTH = 2
"""The bytes per unit of time of every link. A copy has as many, or twice as many."""

PLANNER_SIZES = {"Group": 2, "Tokens": 9, "Chunks": 5}
"""The scope of the planner: every question that a request of eight tokens can raise."""

PLANNER_PARAMS: dict[str, int | bool] = {"hash_block": 1, "chunk": 2}
"""The tokens of its blocks; the blocks of groups are a little longer than a chunk, and as long, in turn."""

CONNECTOR_SIZES = {"Connector": 2, "Request": 2, "Hash": 1, "Tokens": 2, "Job": 2, "Moment": 2}
"""The scope of several stores: two of which the later is worth more, and a hundred thousand states."""

PIECE_SIZES = CONNECTOR_SIZES | {"Request": 1, "Tokens": 4, "Int": 4}
"""That of loads that come in pieces: three, of which the second may be lost."""

CONNECTOR_PARAMS: dict[str, int | bool] = {"weighted": True, "most_pending": 1, "patience": 1}
"""What they are explored with where nothing else is said."""

GROUP_SIZES = {"Group": 2, "Block": 2, "Request": 2, "Position": 1, "Tokens": 2}
"""The scope of hybrid groups: every group has one block of every request."""

GROUP_KINDS: Sequence[tuple[str, int]] = (("full", 1), ("window", 1), ("mamba", 2))
"""The kinds of groups, in turn, and the tokens of their blocks; a window is one token long."""

SPLIT_SIZES = {"Request": 2, "Tokens": 6}
"""The scope of aligned steps: requests of as many tokens as may be named, and of one fewer, in turn."""

SPLIT_PARAMS: dict[str, int | bool] = {"block": 2}
"""The tokens between two states that are stored."""

TREE_SIZES = {"Page": 3, "Prefix": 3, "Request": 2, "Position": 2, "Slot": 1}
"""The scope of the prefix tree: two sequences that part at their second page."""

FILE_SIZES = {"Hash": 2, "Page": 2}
"""The scope of files that survive a crash."""


def asked_scope(
    machine: type[Machine],
    *,
    size: str | None,
    given: str | None,
    params: Path | None,
    free_order: str,
    null_block: bool | None,
    caching: bool,
    seed: int,
) -> Scope:
    """Return the scope that a command's options name.

    Raises:
        UsageError: they do not fit the machine, or each other.
    """
    sizes = parse_sizes(size) if size else {}
    if params is None:
        return find_scope(
            machine,
            sizes,
            split=free_order == "split",
            null=null_block,
            caching=caching,
            seed=seed,
            given=parse_params(given) if given else None,
        )
    if given is not None:
        raise UsageError("--set has no use beside --params; write the value into the file")
    return scope_of_params(machine, sizes, params)


def smallest_scope(machine: type[Machine]) -> Scope:
    """Return the scope of the machine that is explored where nothing is asked for.

    Raises:
        UsageError: the machine has parameters for which the kit has no values.
    """
    return find_scope(machine, {}, split=True, null=None, caching=True, seed=0)


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
        given: parameters without keys, in place of those in `TIER_PARAMS`, `TIMED_PARAMS`, `PLANNER_PARAMS`,
            `CONNECTOR_PARAMS`, `SPLIT_PARAMS`.

    Raises:
        UsageError: the machine has no such sorts or parameters, or there are no token sequences with such numbers.
    """
    from ..machine import Model
    from ..machine.scope import Scope, ScopeError
    from ..spec.hybrid.file_store import FileStore
    from ..spec.hybrid.planner import Planner
    from ..spec.pool import Pool
    from ..spec.tiers.pinning_off import PinningOff
    from ..spec.timed.links import Links
    from ..spec.tree import PrefixTree

    model, given = Model.of(machine), given or {}
    try:
        if not model.params:
            _settings(model, {}, given)
            return Scope(model, FILE_SIZES | sizes if issubclass(machine, FileStore) else sizes)
        plain = small_scopes.setting_of(machine)
        if plain is not None:
            sizes = plain.sizes | sizes
            return Scope(model, sizes, plain.others(sizes) | _settings(model, plain.settable, given))
        small = deadlocks.setting_of(machine)
        if small is not None:
            return Scope(model, small[0] | sizes, small[1] | given)
        if issubclass(machine, Links):
            return _timed_scope(model, sizes, _settings(model, TIMED_PARAMS | STALL_PARAMS, given))
        if issubclass(machine, Planner):
            return _planner_scope(model, PLANNER_SIZES | sizes, _settings(model, PLANNER_PARAMS, given))
        hybrid = _hybrid_scope(machine, model, sizes, given)
        if hybrid is not None:
            return hybrid
        if issubclass(machine, PrefixTree):
            _settings(model, {}, given)
            sizes = TREE_SIZES | sizes
            return Scope(model, {"Int": sizes["Page"] + sizes["Request"], **sizes}, tree_params(sizes))
        if not issubclass(machine, Pool):
            raise UsageError(
                f"{model.name} has parameters of its own ({', '.join(model.params)}); "
                "give their values with --params FILE"
            )
        more = _settings(model, TIER_PARAMS | NEVER_PINNED if issubclass(machine, PinningOff) else TIER_PARAMS, given)
        null = "window" in more if null is None else null
        tiers = REPORT_SIZES if "Number" in model.sorts else TIER_SIZES
        sizes = (tiers if more else PASS_SIZES if "Pass" in model.sorts else DEFAULT_SIZES) | sizes
        return _pool_scope(model, sizes, more, split=split, null=null, caching=caching, seed=seed)
    except (ScopeError, ValueError) as error:
        raise UsageError(f"--size: {error}") from error


def scope_of_params(machine: type[Machine], sizes: dict[str, int], path: Path) -> Scope:
    """Return the scope with these sizes and the parameters in a JSON file: nested lists in the order of their keys.

    Raises:
        UsageError: the file cannot be read, or does not fit the machine.
    """
    from ..checkers.bounds import check_values
    from ..machine import Model
    from ..machine.scope import Scope, ScopeError
    from ..untrusted import limits
    from ..untrusted.reading import UnreadableError, decode_json, read_bounded

    try:
        values = decode_json(read_bounded(path, limits.PARAMS_BYTES), dict[str, Any])
        check_values(values)
        return Scope(Model.of(machine), sizes, values)
    except OSError as error:
        raise UsageError(f"--params {path} cannot be read ({error.strerror or error}); name a JSON file") from error
    except (UnreadableError, ScopeError) as error:
        raise UsageError(f"--params {path}: {error}") from error


def _settings(model: Model, plain: dict[str, int | bool], given: dict[str, int]) -> dict[str, int | bool]:
    """Return those of the plain values that the machine has, with what is given in their place.

    Raises:
        UsageError: something is given that the machine does not have, or that has keys.
    """
    own = {name: value for name, value in plain.items() if name in model.params}
    for name in given:
        if name not in own:
            raise UsageError(f"--set {name}: {model.name} has {', '.join(own) or 'nothing'} to set")
    return own | given


def _timed_scope(model: Model, sizes: dict[str, int], more: dict[str, int | bool]) -> Scope:
    """Return copies of two sizes on links that are equally fast, and moments between their ends."""
    from ..machine.scope import Scope

    sizes = _timed_sizes(model) | sizes
    params: dict[str, Any] = {
        "bandwidth": [BANDWIDTH] * sizes["Link"],
        "bytes": [BANDWIDTH * (1 + t % 2) for t in range(sizes["Transfer"])],
        "time": [f"{2 * m + 3}/2" for m in range(sizes["Moment"])],
        **more,
    }
    largest = 2 * BANDWIDTH
    if "slots" in model.params:
        params |= {"need": [1 + r for r in range(sizes["Request"])]}
    if "prefix" in model.params:
        params |= {"down": 0, "up": sizes["Link"] - 1, "prefix": _prefixes(sizes)}
        largest = max(largest, int(more["block_bytes"]) * sizes["Block"])
    # Enough for all that is ever moved, and for all the time that passes.
    most = sizes["Transfer"] * largest + sizes["Moment"] + 1
    unit = 2 * math.lcm(*range(1, sizes["Transfer"] + 1))
    return Scope(model, {"Int": most, "Real": unit, **sizes}, params)


def _timed_sizes(model: Model) -> dict[str, int]:
    """Return the sizes of the one of these machines that it is."""
    if "Block" in model.sorts:
        return TIMED_TIER_SIZES
    if "Worker" in model.sorts:
        return SHARED_TIER_SIZES
    return STALL_SIZES if "slots" in model.params else TIMED_SIZES


def _prefixes(sizes: dict[str, int]) -> list[list[int | None]]:
    """Return the same hashes for every request, as many as there are."""
    one = [i if i < sizes["Hash"] else None for i in range(sizes["Position"])]
    return [one] * sizes["Request"]


def _planner_scope(model: Model, sizes: dict[str, int], more: dict[str, int | bool]) -> Scope:
    """Return groups of which every other one is mamba, with blocks that chunks divide and that they do not."""
    from ..machine.scope import Scope

    h, chunk = int(more["hash_block"]), int(more["chunk"])
    if h < 1 or chunk < 1:
        raise UsageError(f"--set hash_block={h},chunk={chunk}: each has one token at least")
    blocks = [chunk + h if g % 2 == 0 else chunk for g in range(sizes["Group"])]
    is_mamba = [g % 2 == 1 for g in range(sizes["Group"])]
    units = [b if b <= chunk or b % chunk else chunk for b in blocks]
    grain = math.lcm(h, *(u for u, m in zip(units, is_mamba, strict=True) if m))
    params: dict[str, Any] = {
        **more,
        "block": blocks,
        "is_mamba": is_mamba,
        "a_group": 0,
        "grain": grain,
        "is_boundary": [t % grain == 0 for t in range(sizes["Tokens"])],
        "pieces": [[k * chunk // unit for k in range(sizes["Chunks"])] for unit in units],
    }
    return Scope(model, sizes, params)


def _hybrid_scope(machine: type[Machine], model: Model, sizes: dict[str, int], given: dict[str, int]) -> Scope | None:
    """Return a scope of one of the machines of hybrid models; None: it is none of them."""
    from ..machine.scope import Scope
    from ..spec.hybrid.aligned_split import AlignedSplit
    from ..spec.hybrid.connectors import Connectors
    from ..spec.hybrid.groups import Groups
    from ..spec.hybrid.partial_loads import PartialLoads

    if issubclass(machine, Connectors):
        sizes = (PIECE_SIZES if issubclass(machine, PartialLoads) else CONNECTOR_SIZES) | sizes
        more = _settings(model, CONNECTOR_PARAMS, given)
        most = max(sizes["Moment"] + int(more["patience"]), sizes["Job"], sizes["Tokens"], sizes["Request"])
        return Scope(model, {"Int": most, **sizes}, connector_params(sizes) | more)
    if issubclass(machine, Groups):
        _settings(model, {}, given)
        sizes = GROUP_SIZES | sizes
        sizes = {"Hash": sizes["Group"] * sizes["Position"], "Int": sizes["Tokens"], **sizes}
        kinds = [GROUP_KINDS[g % len(GROUP_KINDS)] for g in range(sizes["Group"])]
        return Scope(model, sizes, group_params(kinds, sizes))
    if issubclass(machine, AlignedSplit):
        sizes = SPLIT_SIZES | sizes
        more = _settings(model, SPLIT_PARAMS, given)
        total = [max(0, sizes["Tokens"] - 1 - r % 2) for r in range(sizes["Request"])]
        return Scope(model, {"Int": sizes["Tokens"], **sizes}, {**more, "total": total})
    return None


def connector_params(sizes: dict[str, int]) -> dict[str, Any]:
    """Return what stores are explored with: the later ones are worth more; every load reads everything."""
    return {
        "weight": [1 + c for c in range(sizes["Connector"])],
        "count": sizes["Connector"],
        "wanted": [[True] * sizes["Hash"]] * sizes["Request"],
        "time": list(range(sizes["Moment"])),
    }


def group_params(kinds: Sequence[tuple[str, int]], sizes: dict[str, int], *, prompts: int = 1) -> dict[str, Any]:
    """Return what groups of such kinds and blocks need, for requests that have so many different prompts in turn.

    A full group needs all blocks up to a length, a window or mamba group the one that ends there.
    """
    groups, positions = range(sizes["Group"]), range(sizes["Position"])
    boundary = math.lcm(*(block for _, block in kinds))

    def first(kind: str, tokens: int) -> int:
        return 0 if kind == "full" else max(0, tokens - 1)

    def name(g: int, r: int, i: int) -> int:
        return (r % prompts * sizes["Group"] + g) * sizes["Position"] + i

    return {
        "needs": [
            [[first(kind, t) // block <= i < t // block for i in positions] for t in range(sizes["Tokens"])]
            for kind, block in kinds
        ],
        "is_boundary": [t % boundary == 0 for t in range(sizes["Tokens"])],
        "name": [[[name(g, r, i) for i in positions] for r in range(sizes["Request"])] for g in groups],
        "limit": [sizes["Tokens"] - 1] * sizes["Request"],
    }


def tree_params(sizes: dict[str, int]) -> dict[str, Any]:
    """Return what a prefix tree is explored with: sequences that go along a trunk and part from it one after the other.

    The first prefixes are the trunk, each other one is a last page of its own. The last token of a sequence is that of
    its last page, so a match returns one page less.

    Raises:
        ValueError: the trunk alone has more prefixes.
    """
    trunk, prefixes, requests = sizes["Position"], sizes["Prefix"], sizes["Request"]
    if prefixes < trunk:
        raise ValueError(f"a sequence of {trunk} pages has as many prefixes; give at least Prefix={trunk}")
    depth = [*range(trunk), *(trunk - 1 - j % trunk for j in range(prefixes - trunk))]
    lasts = [trunk - 1, *range(trunk, prefixes)]
    paths = [[*range(depth[a]), a] for a in (lasts[r % len(lasts)] for r in range(requests))]
    whole = [len(path) for path in paths]
    return {
        "above": [None if d == 0 else d - 1 for d in depth],
        "depth": depth,
        "path": [path + [0] * (trunk - len(path)) for path in paths],
        "limit": [n - 1 for n in whole],
        "whole": whole,
        "need": whole,
    }


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
    from ..machine.scope import Scope
    from .instances import Instance, Size, host_params, host_sizes

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
    instance = Instance.make(asked, caching=caching, split=split, null=null, seed=seed)
    given = {k: v for k, v in sizes.items() if k == "Int"}
    params = instance.scope.params | more
    counts = sizes | instance.scope.sizes
    if "first_next" in model.params:
        params |= _first_links(instance.scope.sizes["Block"], params["null"])
    if "tokens" in model.params:
        # Of each request the longest that its limit fits: its last block is full.
        params |= {"tokens": [(n + 1) * asked.slots for n in params["limit"]], "block_tokens": asked.slots}
        counts["Int"] = max(counts["Int"], (asked.positions + 1) * asked.slots)
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
