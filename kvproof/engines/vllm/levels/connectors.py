"""Connectors for cases of the level ``scheduler``: setups that a release takes, and what requests ask of them.

What each release knows is stated here, so that cases are not wasted on refusals: which connectors there are, which of
them take several groups of layers, and which options they have. Sizes are small: a host tier of a few blocks evicts.
"""

from collections.abc import Callable
from functools import lru_cache

from hypothesis import strategies as st
from packaging.version import Version

from .geometry import Choice, Op, Setup

__all__ = [
    "DISK", "MORE", "TIER_BELOW", "Play", "asked", "complete", "connectors", "keeps_files", "with_connectors",
    "with_disk", "with_tier_below",
]  # fmt: skip

Play = Callable[[Setup, bytes], Op]

TIER_BELOW = Version("0.22")
"""The first release with tiers below the host."""
DISK = Version("0.28")
"""The first release whose simple connector has a disk in place of the host."""

_SIMPLE = Version("0.19")
_THRESHOLD = Version("0.19")
_LOADS_OF_SEVERAL_GROUPS = Version("0.19")
_HYBRID = Version("0.22")
_PROMPT_ONLY = Version("0.24")
_DESCRIBES = Version("0.24")
_ALL_CHUNKS = Version("0.25")
_IN_PART = Version("0.28")
_REPLICATED = Version("0.31")
_SYNCHRONOUS = Version("0.33")


def connectors(
    release: str, groups: list[Setup], caching: bool = True, alike: bool = False
) -> st.SearchStrategy[Setup]:
    """Return the connectors that a release takes for these groups (their setup is `vllm_connectors`), with its prefix
    cache on or off; ``alike``: all its workers may have the same KV.

    Raises
    ------
    ValueError
        The release takes none for these groups.
    """
    return _connectors(release, tuple(group["kind"] for group in groups), _are_equal(groups), caching, alike)


@lru_cache(256)
def _connectors(
    release: str, kinds: tuple[str, ...], equal: bool, caching: bool, alike: bool
) -> st.SearchStrategy[Setup]:
    """The connectors for groups of these kinds, with blocks of one size or not. Made once: that takes longer than to
    draw from them."""
    known = Version(release)
    alone = _alone(known, kinds, equal, alike)
    if not caching:
        alone.pop("simple", None)  # It does nothing without, and says so.
    found = [st.builds(_with_workers, one, st.sampled_from([1, 1, 1, 2, 3])) for one in alone.values()]
    if alone.keys() - {"remote"} and len(alone) > 1 and (known >= _HYBRID or kinds == _PLAIN):
        found.append(st.builds(_with_workers, _several(alone), st.integers(1, 2)))
    if not found:
        raise ValueError(f"vLLM {release} has no connector for these groups")
    return st.one_of(found)


def with_connectors(release: str, setups: st.SearchStrategy[Setup]) -> st.SearchStrategy[Setup]:
    """Return setups with connectors that the release takes for them."""
    return _joined(setups, lambda setup: _taken(release, setup))


def _taken(release: str, setup: Setup) -> st.SearchStrategy[Setup]:
    """The connectors that a release takes for a setup."""
    return connectors(release, setup["groups"], setup.get("caching", True), _may_be_alike(setup))


def with_tier_below(release: str, setups: st.SearchStrategy[Setup], files: bool) -> st.SearchStrategy[Setup]:
    """Return setups with the offloading connector and a tier below its host, which releases from `TIER_BELOW` on
    have: the release's own tier of files, or another one."""
    return _joined(setups, lambda setup: _tiered(release, _are_equal(setup["groups"]), _may_be_alike(setup), files))


def with_disk(setups: st.SearchStrategy[Setup]) -> st.SearchStrategy[Setup]:
    """Return setups with the simple connector over a disk, which releases from `DISK` on have. One that fails is rare:
    all that is under way then ends with it."""
    connector = _options(
        kind=st.just("simple"),
        blocks=st.sampled_from([2, 3, 4, 6, 8, 12, 16]),
        lazy=st.sampled_from([0, 0, 1]),
        disk=st.sampled_from([1, 2, 2, 3]),
        bad=st.sampled_from([0, 0, 0, 0, 1]),
        workers=st.sampled_from([1, 1, 2]),
    )
    return _joined(setups, lambda _setup: connector)


def _joined(
    setups: st.SearchStrategy[Setup], connectors_of: Callable[[Setup], st.SearchStrategy[Setup]]
) -> st.SearchStrategy[Setup]:
    """Setups, each with one of its connectors."""

    @st.composite
    def connected(draw: st.DrawFn) -> Setup:
        setup = draw(setups)
        connector = draw(connectors_of(setup))
        return {**setup, "connector": _within(connector, setup["max_len"] // 2 // setup["groups"][0]["block"])}

    return connected()


def _are_equal(groups: list[Setup]) -> bool:
    """Whether the blocks of all groups have one size."""
    return len({group["block"] for group in groups}) == 1


def _may_be_alike(setup: Setup) -> bool:
    """Whether all workers may have the same KV: states of mamba layers are parted among them, and so are layers among
    stages."""
    return setup.get("stages", 1) == 1 and all(group["kind"] != "mamba" for group in setup["groups"])


# Operations, made of bytes as those of `scheduler`


def complete(setup: Setup, play: bytes) -> Op:
    """A copy ends: the oldest of a stream, all of a stream, all there are, or badly where that can be; or a file is
    lost, or another engine writes some."""
    connector = setup.get("connector", {})
    has_files = any(map(keeps_files, (connector, *connector.get("children", ()))))
    hows = (0, 0, 1, 2, 2, 3, 4, 4, 5, 5) if has_files else (0, 0, 0, 1, 2, 3, 3)
    return "complete", {"pick": play[0] % 6, "how": hows[play[1] % len(hows)]}


def reset(_setup: Setup, play: bytes) -> Op:
    """The caches are emptied, the connector's among them."""
    return "reset", {"connector": 1, "running": play[0] & 1}


def asked(setup: Setup, play: bytes) -> Setup:
    """What a new request asks of a remote or of an offloading connector (its ``kv_transfer_params``); empty without
    one. Of the latter few ask for anything: how many tokens may be loaded, or stored, for them, or from which tiers
    below the host they may come."""
    connector = setup.get("connector", {})
    if connector.get("kind") == "offloading" and play[0] % 8 < len(_CAPS):
        return {_CAPS[play[0] % 8]: play[1] % 25}
    if connector.get("below") and play[0] % 8 == len(_CAPS):
        return {"load_tiers": play[1] % 3}
    kinds = (connector.get("kind"), *(child["kind"] for child in connector.get("children", ())))
    if "remote" not in kinds and not connector.get("remote"):
        return {}
    told = {"remote": play[0] % 25, "later": (0, 0, 1, 2)[play[1] % 4], "send": play[1] >> 7}
    return {name: value for name, value in told.items() if value}


def keeps_files(connector: Setup) -> bool:
    """Whether a tier below this connector's host keeps files."""
    return bool(connector.get("below") and connector.get("files"))


MORE: list[tuple[int, Play]] = [(16, complete), (1, reset)]
"""What is done to a scheduler with a connector beside the usual, and how often."""


_CAPS = ("max_load_tokens", "max_offload_tokens")

# Setups. Most options are plain in most cases: a fault needs few of them, and others stand in its way.

_PLAIN = ("full",)
"""The kinds of groups of a model with full attention alone."""

_FEW = st.sampled_from([1, 2, 2, 3, 3, 4, 4, 5, 6, 8, 11])
"""Blocks of a host tier: mostly fewer than one request fills."""


_PLACES_BELOW = (3, 6, 12)
"""Chunks of a tier below the host: about as many, or several times as many."""


def _alone(known: Version, kinds: tuple[str, ...], equal: bool, alike: bool) -> dict[str, st.SearchStrategy[Setup]]:
    """The connectors for these groups, each by itself and without workers."""
    found = {}
    if known >= _SIMPLE and "full" in kinds:
        # One of its blocks is the null block.
        blocks = _FEW.map(lambda few: few + 1)
        found["simple"] = _options(kind=st.just("simple"), blocks=blocks, lazy=st.integers(0, 1))
    if known >= _HYBRID or kinds == _PLAIN:
        found["offloading"] = _offloading(known, equal, alike)
    if {*kinds} <= {"full", "window"} and (known >= _LOADS_OF_SEVERAL_GROUPS or len(kinds) == 1):
        found["remote"] = _options(
            kind=st.just("remote"), sync=st.integers(0, 1), fail=st.sampled_from(["recompute", "fail"])
        )
    return found


def _offloading(known: Version, equal: bool, alike: bool) -> st.SearchStrategy[Setup]:
    """The offloading connector, for blocks of one size or not; ``alike``: all ranks of a model may have the same KV."""
    options: dict[str, Choice] = {
        "kind": st.just("offloading"),
        "blocks": _FEW,
        "policy": st.sampled_from(["lru", "arc"]),
    }
    if equal:
        options["factor"] = st.sampled_from([1, 1, 1, 2, 3])
    if known >= _THRESHOLD:
        options["threshold"] = st.sampled_from([0, 0, 0, 2])
    if known >= TIER_BELOW:
        options["below"] = st.sampled_from([0, 0, 0, 0, *_PLACES_BELOW])
        options["files"] = st.sampled_from([0, 0, 1, 2])
        options["beside"] = st.sampled_from([0, 0, 0, *_PLACES_BELOW])
    if known >= _ALL_CHUNKS:
        options["all_chunks"] = st.sampled_from([0, 0, 1])
    if known >= _IN_PART:
        options["in_part"] = st.sampled_from([0, 0, 1])
    if known >= _PROMPT_ONLY:
        options["prompt_only"] = st.integers(0, 1)
    if known >= _DESCRIBES:
        options["describes"] = st.sampled_from([0, 0, 1])
    if known >= _REPLICATED and alike:
        options["replicated"] = st.integers(0, 1)
    if known >= _SYNCHRONOUS:
        options["sync"] = st.sampled_from([0, 0, 2, 8])
    return _options(**options).map(_that_go_together)


@lru_cache(256)
def _tiered(release: str, equal: bool, alike: bool, files: bool) -> st.SearchStrategy[Setup]:
    """The offloading connector with a tier below, for blocks of one size or not. Made once, as `_connectors`."""
    places, workers = st.sampled_from(_PLACES_BELOW), st.sampled_from([1, 1, 2])
    kinds = st.sampled_from([1, 2] if files else [0])
    return st.builds(_with_tier, _offloading(Version(release), equal, alike), places, kinds, workers)


def _with_tier(offloading: Setup, places: int, files: int, workers: int) -> Setup:
    return _with_workers(_that_go_together({**offloading, "below": places, "files": files}), workers)


def _that_go_together(offloading: Setup) -> Setup:
    """With a tier below releases take no threshold; only there are files, and only a tier of others asks for more."""
    without = ["threshold"] if offloading.get("below") else ["files", "beside", "replicated"]
    if not offloading.get("below") or offloading.get("files"):
        without += ["all_chunks", "in_part"]
    return {**offloading, **{name: 0 for name in without if name in offloading}}


def _several(alone: dict[str, st.SearchStrategy[Setup]]) -> st.SearchStrategy[Setup]:
    """Two connectors under one roof, in either order; only one of them may fetch from other engines."""
    tiered = st.one_of([one for kind, one in alone.items() if kind != "remote"])
    children = st.tuples(tiered, st.one_of(list(alone.values())))
    return st.builds(_roof, children, st.booleans())


def _roof(children: tuple[Setup, Setup], turned: bool) -> Setup:
    return {"kind": "multi", "children": list(reversed(children) if turned else children)}


def _within(connector: Setup, most: int) -> Setup:
    """The connector with no more than so many blocks to a chunk: a request shall fill some."""
    if "children" in connector:
        return {**connector, "children": [_within(child, most) for child in connector["children"]]}
    factor = {"factor": max(1, min(connector["factor"], most))} if "factor" in connector else {}
    return {**connector, **factor}


def _with_workers(connector: Setup, workers: int) -> Setup:
    return {**connector, "workers": workers}


def _options(**options: Choice) -> st.SearchStrategy[Setup]:
    return st.fixed_dictionaries(options)
