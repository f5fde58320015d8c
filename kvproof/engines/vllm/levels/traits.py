"""What faults of vLLM may need, level by level. A trait that two levels have has one name: a cause is one over levels.

The order counts: what is rare and costly is taken away first, and where one thing can stand for another, the one that
is left over is always the same.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from packaging.version import Version

from ....judge.record import Case
from ...traits import Trait, Traits, argument, naming, operation, option, with_setup
from .connector_traits import CONNECTORS, ELSEWHERE, one_block_to_a_chunk
from .geometry import Setup, windowed
from .manager import sound as sound_manager
from .scheduler import sound

__all__ = ["of_manager", "of_offload", "of_scheduler"]


_DRAFTS = "drafts"
_LAYERS = "drafter with layers"
"""It looks ahead of the tokens that are there, and has blocks for that."""
_SESSIONS = "sessions"


# Groups of layers


_Change = Callable[[list[Setup]], list[Setup]]


def _is_said(value: Any) -> bool:
    """Whether an argument is there: 0 is one too."""
    return value is not None


def _of_groups(
    name: str, has: Callable[[list[Setup]], bool], *changes: _Change, added: _Change | None = None, like: str = ""
) -> Trait:
    def without(case: Case) -> Iterator[Case]:
        for change in changes:
            groups = change([dict(group) for group in case.setup["groups"]])
            if groups and groups != case.setup["groups"]:
                yield with_setup(case, {**case.setup, "groups": groups})

    def had(case: Case) -> bool:
        # Chunk managers have a number of groups, of no kind.
        return isinstance(case.setup.get("groups"), list) and has(case.setup["groups"])

    def put(case: Case) -> Case:
        groups = case.setup.get("groups")
        if added is None or not isinstance(groups, list):
            return case
        return with_setup(case, {**case.setup, "groups": added([dict(group) for group in groups]) or groups})

    return Trait(name, had, without, None if added is None else put, like)


def _count(groups: list[Setup], kind: str) -> int:
    return sum(group["kind"] == kind for group in groups)


def _fewer(kind: str) -> Callable[[list[Setup]], list[Setup]]:
    """The groups without the last of a kind; full attention takes its place where nothing else is left."""

    def change(groups: list[Setup]) -> list[Setup]:
        last = max(n for n, group in enumerate(groups) if group["kind"] == kind)
        left = groups[:last] + groups[last + 1 :]
        return left if _count(left, "full") else [{"kind": "full", "block": groups[last]["block"]}, *left]

    return change


def _as_window(groups: list[Setup]) -> list[Setup]:
    return [windowed(g["block"], g["window"] - 1) if g["kind"] == "chunk" else g for g in groups]


def _equal(groups: list[Setup]) -> list[Setup]:
    return [{**group, "block": groups[0]["block"]} for group in groups]


def _equal_smallest(groups: list[Setup]) -> list[Setup]:
    return [{**group, "block": min(g["block"] for g in groups)} for group in groups]


def _unequal(groups: list[Setup]) -> list[Setup]:
    return [*groups[:-1], {**groups[-1], "block": 2 * groups[-1]["block"]}]


def _unequal_full(groups: list[Setup]) -> list[Setup]:
    return [{**groups[0], "block": 2 * groups[0]["block"]}, *groups[1:]]


def _with_full(groups: list[Setup]) -> list[Setup]:
    return [{"kind": "full", "block": groups[0]["block"]}, *groups]


def _without_full(groups: list[Setup]) -> list[Setup]:
    return [group for group in groups if group["kind"] not in ("full", "mamba")]


def _twice(kind: str) -> _Change:
    def change(groups: list[Setup]) -> list[Setup]:
        first = next((group for group in groups if group["kind"] == kind), None)
        if first is None:
            return groups
        return [*groups, {**first, "window": first["window"] + 1} if kind == "window" else first]

    return change


_GROUPS = (
    _of_groups("two kinds of full attention", lambda groups: _count(groups, "full") > 1, _fewer("full")),
    _of_groups("two mamba groups", lambda groups: _count(groups, "mamba") > 1, _fewer("mamba"), added=_twice("mamba")),
    _of_groups("mamba", lambda groups: _count(groups, "mamba") > 0, _fewer("mamba")),
    _of_groups("two windows", lambda groups: _count(groups, "window") > 1, _fewer("window"), added=_twice("window")),
    _of_groups(
        "chunked attention", lambda groups: _count(groups, "chunk") > 0, _fewer("chunk"), _as_window, like="window"
    ),
    _of_groups("window", lambda groups: _count(groups, "window") > 0, _fewer("window")),
    _of_groups(
        "unequal blocks",
        lambda groups: len({g["block"] for g in groups}) > 1,
        _equal,
        _equal_smallest,
        added=_unequal,
    ),
    _of_groups(
        "larger blocks of full attention",
        lambda groups: groups[0]["block"] > groups[-1]["block"],
        _equal,
        added=_unequal_full,
    ),
    _of_groups("no full attention", lambda groups: not _count(groups, "full"), _with_full, added=_without_full),
)
"""Window and mamba groups stand before the sizes: without a second group all are equal."""


def _other_copies(case: Case) -> Iterator[Case]:
    """Copies go well, all of them."""
    ops = [(op, {**a, "how": 0} if op == "complete" and a.get("how") == 2 else a) for op, a in case.ops]
    yield msgspec.structs.replace(case, ops=ops)


_FAILED = Trait(
    "failed copies", lambda case: any(op == "complete" and a.get("how") == 2 for op, a in case.ops), _other_copies
)


def _by_others(name: str, how: int, like: str) -> Trait:
    """What others do to files."""

    def does(op: str, args: dict[str, Any]) -> bool:
        return op == "complete" and args.get("how") == how

    def without(case: Case) -> Iterator[Case]:
        yield msgspec.structs.replace(case, ops=[(op, a) for op, a in case.ops if not does(op, a)])

    return Trait(name, lambda case: any(does(op, a) for op, a in case.ops), without, like=like)


_LOST = _by_others("lost files", 4, like=_FAILED.name)
"""Whose file is lost has its copy fail."""

_SHARED = _by_others("files of another engine", 5, like=ELSEWHERE)


def _drafters() -> Iterator[Trait]:
    """Drafts, and who makes them: of three drafters n-grams are the simplest, since they have no layers. Whoever has a
    drafter has drafts: so what needs drafts alone is not told once more of a drafter with layers."""

    def others(case: Case) -> Iterator[Case]:
        yield from (with_setup(case, {**case.setup, "drafter": drafter}) for drafter in (0, 1))

    yield Trait("EAGLE", lambda case: case.setup.get("drafter") == 2, others, like=_LAYERS)
    yield option("draft model", "drafter", 0, lambda drafter: drafter == 1, like=_LAYERS)

    def without(case: Case) -> Iterator[Case]:
        yield with_setup(case, {n: v for n, v in case.setup.items() if n not in ("spec", "drafter")})

    yield Trait(_DRAFTS, lambda case: bool(case.setup.get("spec")), without)


def _drafts_of_manager() -> Trait:
    """The same of a manager alone, which may have the slots and the drop of a drafter, and no drafts."""
    options = ("drafts", "eagle", "lookahead")

    def without(case: Case) -> Iterator[Case]:
        plain = {name: False for name in ("eagle", "lookahead") if name in case.setup}
        yield with_setup(case, {n: v for n, v in case.setup.items() if n != "drafts"} | plain)

    return Trait(_DRAFTS, lambda case: any(case.setup.get(name) for name in options), without)


def _steps_shorter_than_drafts() -> Trait:
    """A request that decodes takes a token, its drafts, and a draft model's slot; a step may have fewer."""

    def has(case: Case) -> bool:
        drafts = case.setup.get("spec", 0)
        return bool(drafts) and case.setup["budget"] < 1 + drafts + (case.setup.get("drafter") == 1)

    def longer(case: Case) -> Iterator[Case]:
        yield with_setup(case, {**case.setup, "budget": 12})

    return Trait("steps shorter than drafts", has, longer)


def _smallest_pool() -> Trait:
    """A pool of the release's own minimum, where that forgets the null block."""

    def larger(case: Case) -> Iterator[Case]:
        found = with_setup(case, {**case.setup, "spare": 0})
        yield found
        # What needs a crowd and no such pool shows in a larger one among more requests.
        yield msgspec.structs.replace(found, ops=[op for op in case.ops for _ in range(1 + (op[0] == "add"))])

    return Trait("smallest pool", lambda case: case.setup.get("spare", 0) < 0, larger)


def of_scheduler(release: str) -> Traits:
    """The traits of cases of the level ``scheduler``."""
    known = Version(release)
    return Traits(
        (
            *CONNECTORS[:3],
            *_drafters(),
            _steps_shorter_than_drafts(),
            *_GROUPS,
            *CONNECTORS[3:],
            _LOST,
            _SHARED,
            _FAILED,
            option("multimodal", "encoder"),
            naming("embeds", option("prompt embeddings", "embeds")),
            option("adapters", "adapters"),
            option("runner 2", "runner", 1),
            option("pipeline stages", "stages", 1),
            option("asynchronous scheduling", "asynchronous", plain=False),
            option("priorities", "priority", plain=False),
            option("fine hashes", "hash_block"),
            _smallest_pool(),
            option("watermark", "watermark", 0, added=10),
            option("admission without reserve", "reserve", plain=True, added=False),
            option("long prefills limited", "long_prefill", 0, added=3),
            option("prefills not chunked", "chunked", plain=True),
            option("prefix caching off", "caching", plain=True),
            option("KV events", "events", plain=False),
            argument("abort during a step", "step", "abort"),
            operation("abort", "abort"),
            argument("reset with requests running", "reset", "running"),
            argument("reset of the connector", "reset", "connector"),
            operation("reset", "reset"),
            naming("salt"),
            argument("another adapter of a name", "add", "moved"),
            naming("adapter"),
            argument("multimodal items", "add", "items"),
            argument("cache not read", "add", "skip"),
            argument("more said than fits", "say", "past"),
            operation("pause", "pause"),
            operation("more said in a session", "say", like=_SESSIONS),
            argument("session", "add", "session", like=_SESSIONS),
            argument("stop token", "add", "stop"),
            argument("stop token later", "say", "stop", like="stop token"),
            argument("multimodal items later", "say", "items", like="multimodal items"),
            argument("least tokens", "add", "min"),
            argument("sends to a remote engine", "add", "send"),
            argument("a limit of what is loaded", "add", "max_load_tokens", _is_said),
            argument("a limit of what is stored", "add", "max_offload_tokens", _is_said),
            argument("tiers that may be asked", "add", "load_tiers", _is_said),
            argument("loads later", "add", "later", like=ELSEWHERE),
            argument("remote prefill", "add", "remote", like=ELSEWHERE),
        ),
        lambda case: with_setup(case, sound(known, _fitting(case.setup))),
        {"spare": (8, 6, 4, 3, 2, 1, 0, -1), "max_seqs": (4, 2), "budget": (12, 8, 4), "max_len": (12, 16, 24)},
        lambda _case: [("complete", {"pick": 0, "how": 1}), ("complete", {"pick": 0, "how": 1}), ("step", {})],
    )


def _fitting(setup: Setup) -> Setup:
    """The setup without what its groups and its connector do not take together."""
    found, groups = dict(setup), setup["groups"]
    if not _count(groups, "mamba"):
        found.pop("mamba", None)
    elif setup.get("mamba", "none") == "none":  # Where no states are kept, nothing is cached.
        found["caching"] = False
    connector = setup.get("connector")
    if connector is not None:
        if not _count(groups, "full"):
            found["groups"] = _with_full(groups)
        if len({group["block"] for group in groups}) > 1:
            found["connector"] = one_block_to_a_chunk(connector)
    return found


def of_manager(release: str) -> Traits:
    """The traits of cases of the level ``manager``."""
    known = Version(release)
    return Traits(
        (
            option("EAGLE", "eagle", plain=False, like=_LAYERS),
            option("look-ahead slots", "lookahead", plain=False, like=_LAYERS),
            option("hashes ahead", "ahead"),
            _drafts_of_manager(),
            *_GROUPS,
            option("asynchronous scheduling", "asynchronous", plain=False),
            option("steps in flight", "flight", 1, added=2),
            option("fine hashes", "match_unit"),
            option("admission without reserve", "fit", plain=True, added=False),
            option("prefix caching off", "caching", plain=True),
            option("KV events", "events", plain=False),
            argument("external tokens later", "run", "later", like=ELSEWHERE),
            argument("external tokens", "run", "outside", like=ELSEWHERE),
            argument("preempted for good", "preempt", "drop"),
            operation("preemption", "preempt"),
            operation("eviction by name", "evict"),
            operation("reset", "reset"),
            naming("salt"),
            argument("another adapter of a name", "add", "moved"),
            naming("adapter"),
            argument("multimodal items", "add", "items"),
            naming("embeds", option("prompt embeddings", "embeds", plain=False)),
        ),
        lambda case: with_setup(case, sound_manager(known, case.setup)),
        {"spare": (6, 4, 2, 1, 0), "budget": (12, 8, 4), "max_len": (12, 16, 24, 40)},
    )


def _failed_stores(case: Case) -> Iterator[Case]:
    yield msgspec.structs.replace(case, ops=[(op, {**a, "ok": 1} if op == "stored" else a) for op, a in case.ops])


def of_offload(_release: str) -> Traits:
    """The traits of cases of the level ``offload``: chunk managers, and the simple connector with its host pool."""

    def simple(case: Case) -> bool:
        return case.setup.get("kind") == "simple"

    return Traits(
        (
            Trait("simple connector", simple, lambda _case: iter(())),
            *_GROUPS[2:],
            option("several workers", "workers", 1),
            option("lazy offload", "lazy", plain=False),
            option("ARC", "policy", "lru"),
            option("store threshold", "threshold", 0),
            option("two groups", "groups", 1, lambda groups: groups == 2),
            option("KV events", "events", plain=False),
            Trait("failed copies", lambda c: any(op == "stored" and not a["ok"] for op, a in c.ops), _failed_stores),
            operation("preemption", "preempt"),
            operation("abort", "abort"),
            operation("repeated completion", "repeat"),
            operation("probe", "probe"),
            argument("reset with requests running", "reset", "running"),
            argument("reset of the connector", "reset", "connector"),
            operation("reset", "reset"),
        ),
        _sound_offload,
        {"host": (12, 6, 40, 8, 4, 80), "budget": (16, 12, 8, 4)},
        lambda case: (
            [("work", {"which": 0, "all": 1}), ("step", {"most": 16, "sample": 0, "stop": 0})]
            if simple(case)
            else [("stored", {"which": 0, "ok": 1}), ("loaded", {"which": 0})]
        ),
    )


def _sound_offload(case: Case) -> Case:
    """Groups of chunk managers are a number; a device holds at least one request of the greatest length."""
    setup = case.setup
    if setup.get("kind") != "simple":
        return case
    least = 1 + sum(-(-setup["max_len"] // group["block"]) + 1 for group in setup["groups"])
    return with_setup(case, {**setup, "blocks": max(setup["blocks"], least)})
