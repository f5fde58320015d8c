"""Cases for the level ``scheduler``: an engine's scheduler with a model worker, driven as its engine core drives it.

What is varied is geometry more than length: small blocks, unequal between groups, windows, hashes finer than blocks,
pools at the release's own minimum, steps in flight, drafts, priorities. A case is 3 to 30 operations.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from packaging.version import Version

from ....judge.judging import Oracle
from ....judge.oracles.freed import FreedOracle
from ....judge.oracles.host_hits import HostHitsOracle
from ....judge.oracles.host_stores import HostStoresOracle
from ....judge.record import Case, World
from ...plays import sized
from .connectors import DISK, MORE, TIER_BELOW, Play, asked, complete, with_connectors, with_disk, with_tier_below
from .geometry import MIXED, Choice, Op, Setup, chunk, plain, takes_events, window, windowed
from .sparse import AMPLE, SPARSE, with_host_pages

__all__ = ["cases", "more_oracles", "profiles", "sound"]

_WIDTH = 8
"""Bytes of an operation: which, and seven that its arguments are made of."""

_BLOCKS_OF_CHUNKS = st.sampled_from([2, 2, 3, 4, 4, 8])
_CHUNK_BLOCKS = st.sampled_from([2, 4])


def more_oracles(_case: Case) -> Callable[[World], list[Oracle]]:
    """Return what makes the oracles of this level's own: what is freed is taken from its end, and what the host has is
    found there, and is not stored again."""
    return lambda world: [FreedOracle(world), HostHitsOracle(world), HostStoresOracle(world)]


def profiles(release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases that a release of vLLM can do, by name."""
    known = Version(release)
    found = {
        "plain": _setups(known, plain()),
        "window": _setups(known, window()),
        "hybrid": _setups(known, _hybrid(equal=True)),
        "unequal": _setups(known, st.one_of(_hybrid(equal=False), _hybrid(equal=False, full=2))),
        "chunk": _setups(known, chunk(_CHUNK_BLOCKS)),
        "asynchronous": _setups(known, st.one_of(plain(), window(), _hybrid()), asynchronous=st.just(True)),
        "stages": _setups(known, st.one_of(plain(), window(), _hybrid()), stages=st.just(2)),
        "spec": _setups(known, st.one_of(plain(), window(), _hybrid()), **_DRAFTS),
        "asynchronous spec": _setups(
            known,
            st.one_of(plain(), window(), _hybrid()),
            **{**_DRAFTS, "asynchronous": st.just(True), "drafter": st.integers(1, 2)},
        ),
        "priority": _setups(known, st.one_of(plain(), window(), _hybrid()), priority=st.just(True)),
        "pressure": _setups(known, st.one_of(plain(), _hybrid()), **_PRESSURE),
        "uncached": _setups(
            known, st.one_of(plain(), window(), _hybrid(), chunk(_CHUNK_BLOCKS)), caching=st.just(False)
        ),
        "adapters": _setups(known, st.one_of(plain(), _hybrid()), adapters=st.integers(1, 2), stages=st.integers(1, 2)),
        "multimodal": _setups(known, st.one_of(plain(), _hybrid()), encoder=st.integers(3, 6), **_SOME_DRAFTS),
        "embeddings": _setups(known, st.one_of(plain(), _hybrid()), **_embeds(known)),
        "mamba": _mambas(known, "align", encoder=st.sampled_from([0, 0, 4, 6])),
        "mamba uncached": _mambas(known, "none"),
    }
    if known < _NULL_COUNTED:
        found["minimum"] = _setups(known, st.one_of(plain(), window(), _hybrid()), spare=st.just(-1))
    if known < Version("0.32"):
        found["mamba all"] = _mambas(known, "all")
    if known >= Version("0.19"):
        found["mamba spec"] = _mambas(known, "align", **{**_DRAFTS, "drafter": st.integers(1, 2)})
    if known >= _FINE_HASHES:
        found["fine hashes"] = _setups(known, _hybrid(), hash_block=st.sampled_from([1, 2]))
        found["mamba fine hashes"] = _mambas(known, "align", hash_block=st.sampled_from([1, 2]))
    room = _setups(known, st.one_of(plain(), window(), _hybrid()), spare=st.integers(12, 24))
    made = {name: cases(setups) for name, setups in found.items()}
    made |= {
        "again": cases(room, often=_AGAIN),
        "resets": cases(found["plain"], often=_RESETS),
        "sessions": cases(_setups(known, st.one_of(plain(), window(), _hybrid()), **_SESSIONS), often=_TALKS),
        "sessions mamba": cases(_mambas(known, "align"), often=_TALKS),
    }
    unconnected = _connected(known)
    connected = {name: with_connectors(release, setups) for name, setups in unconnected.items()}
    made |= {f"{name} connector": cases(setups, MORE, often=_LONG) for name, setups in connected.items()}
    if known >= _CONNECTED_MAMBA:
        # Tails of prompts come back from the host to prompts that go on behind them.
        made["mamba again connector"] = cases(
            connected["mamba fine hashes"], MORE, often=_FORGETFUL, most=60, first=_behind_a_tail
        )
    if known >= TIER_BELOW:
        tiered = st.one_of(unconnected["pressure"], unconnected["mamba fine hashes"])
        for name, files in (("tier below", False), ("files below", True)):
            below = with_tier_below(release, tiered, files)
            made[name] = cases(below, MORE, often=_LONG, most=60)
            made[f"{name} again"] = cases(below, MORE, often=_FORGETFUL, first=_pushed_out)
    if known >= DISK:
        on_disk = with_disk(unconnected["pressure"])
        made["disk"] = cases(on_disk, MORE, often=_LONG, most=60)
        made["disk again"] = cases(on_disk, MORE, often=_FORGETFUL, most=60, first=_loaded_at_once)
    if known >= SPARSE:
        paged = _setups(known, plain(), **_PAGES)
        made["host pages"] = cases(with_host_pages(paged), MORE, often=_LONG, most=40)
        made["host pages again"] = cases(with_host_pages(paged), MORE, often=_AGAIN, most=40)
        made["host pages fetched"] = cases(with_host_pages(paged, fetched=True), MORE, often=_FETCHES, most=40)
    if known >= _PAUSED:
        made["pauses"] = cases(_setups(known, st.one_of(plain(), window(), _hybrid()), **_PRESSURE), often=_PAUSES)
        made["pauses connector"] = cases(connected["pressure"], MORE, often=_PAUSES, most=60)
    return made | {
        "sessions connector": cases(connected["pressure"], MORE, often=_TALKS, most=60),
        "again connector": cases(connected["pressure"], MORE, often=_AGAIN),
        # Few prompts, so that a preempted one finds on the host what another one stored there, and nothing nearer.
        "uncached again connector": cases(connected["uncached"], MORE, often=_AGAIN, most=60),
        "preempted connector": cases(
            st.one_of(connected["pressure"], connected["uncached"]).filter(_keeps_something),
            MORE,
            often=_RESETS,
            most=60,
            first=_cut_short,
        ),
        # What is in flight when all is emptied takes a while to come about.
        "resets connector": cases(connected["pressure"], MORE, often=_RESETS, most=60),
        "crowd connector": cases(connected["pressure"], MORE, often=_CROWD),
    }


def _keeps_something(setup: Setup) -> bool:
    """Whether something is kept where a request that comes back may find it: a remote alone keeps nothing."""
    return bool(setup["connector"]["kind"] != "remote")


def _connected(known: Version) -> dict[str, st.SearchStrategy[Setup]]:
    """The families that are driven with connectors as well. A request fills several blocks: what fills none is neither
    stored nor found."""
    alone = plain(_BLOCKS_OF_CHUNKS)
    groups = alone if known < _CONNECTED_GROUPS else st.one_of(alone, _hybrid())

    def setups(groups: st.SearchStrategy[list[Setup]], **more: Choice) -> st.SearchStrategy[Setup]:
        return _setups(known, groups, max_len=st.sampled_from([16, 24]), **more)

    found = {
        "plain": setups(alone),
        "asynchronous": setups(groups, asynchronous=st.just(True)),
        "stages": setups(groups, stages=st.just(2)),
        "spec": setups(groups, **_DRAFTS),
        "priority": setups(groups, priority=st.just(True)),
        "pressure": setups(groups, **_PRESSURE),
        "embeddings": setups(groups, **_embeds(known)),
        # What a request had on the device is gone once it is preempted: it comes back by what the host has.
        "uncached": setups(groups, **_PRESSURE, caching=st.just(False)),
    }
    if known >= _CONNECTED_GROUPS:
        found["hybrid"] = setups(_hybrid(equal=True))
        found["unequal"] = setups(_hybrid(equal=False))
    if known >= _CONNECTED_MAMBA:
        found["mamba"] = _mambas(known, "align")
        found["mamba fine hashes"] = _mambas(known, "align", hash_block=st.sampled_from([1, 2]))
    return found


def _embeds(known: Version) -> dict[str, Choice]:
    """Prompts that are given as embeddings, of which vLLM's second model runner has none; requests are preempted."""
    some = st.sampled_from([1, 2, 2]) if known >= MIXED else st.just(1)
    return {**_PRESSURE, "embeds": some, "runner": st.just(1), "asynchronous": st.booleans()}


# Setups

_WATERMARK = Version("0.24")
_SECOND_RUNNER = Version("0.24")
_SECOND_RUNNER_DRAFTS = Version("0.32")
_MAMBA_AHEAD = Version("0.17")
_PAUSED = Version("0.17")
_RESERVE = Version("0.19")
_FINE_HASHES = Version("0.22")
_NULL_COUNTED = Version("0.30")
_CONNECTED_GROUPS = Version("0.22")
_CONNECTED_MAMBA = Version("0.22")

_PRESSURE: dict[str, Choice] = {
    "spare": st.integers(0, 2),
    "reserve": st.just(False),
    "asynchronous": st.booleans(),
}
"""Requests are preempted; with steps in flight, before what came of the last one is known."""

_SESSIONS: dict[str, Choice] = {
    "max_len": st.sampled_from([16, 24]),
    "spare": st.integers(0, 4),
    "asynchronous": st.booleans(),
    "spec": st.sampled_from([0, 0, 0, 2]),
    "drafter": st.integers(1, 2),
    "encoder": st.sampled_from([0, 0, 4, 6]),
}
"""Requests in which more is said later; they hold their blocks meanwhile."""

_PAGES: dict[str, Choice] = {
    "max_len": st.sampled_from([16, 24]),
    "spare": st.sampled_from([0, 4, 8, *[AMPLE] * 4]),
    "asynchronous": st.booleans(),
    "caching": st.sampled_from([True, True, True, False]),
    "hash_block": st.sampled_from([0, 0, 0, 1, 2]),
    "spec": st.sampled_from([0, 0, 0, 2]),
    "drafter": st.just(0),
}
"""Pages on the host: with room on the device for those of some requests, or hardly for those of one."""

_DRAFTS: dict[str, Choice] = {"spec": st.integers(1, 3), "drafter": st.integers(0, 2)}
_SOME_DRAFTS: dict[str, Choice] = {"spec": st.sampled_from([0, 0, 1, 3]), "drafter": st.just(2)}
"""Beside something else: a drafter with layers, in half of the cases."""


def _setups(known: Version, groups: st.SearchStrategy[list[Setup]], **more: Choice) -> st.SearchStrategy[Setup]:
    usual: dict[str, Choice] = {
        "groups": groups,
        "spare": st.integers(0, 8),
        "max_len": st.sampled_from([12, 16, 24]),
        "budget": st.sampled_from([4, 8, 12]),
        "max_seqs": st.sampled_from([2, 4]),
        "long_prefill": st.sampled_from([0, 0, 3]),
        "chunked": st.sampled_from([True, True, True, False]),
        "events": st.booleans(),
    }
    if known >= _WATERMARK:
        usual["watermark"] = st.sampled_from([0, 0, 10])
    if known >= _SECOND_RUNNER:
        usual["runner"] = st.sampled_from([1, 2])
    if known >= _RESERVE:
        usual["reserve"] = st.booleans()
    else:
        more.pop("reserve", None)
    return st.fixed_dictionaries(usual | more).map(lambda setup: sound(known, setup))


def sound(known: Version, setup: Setup) -> Setup:
    """The setup without what its release does not take together."""
    found = dict(setup)
    blocks = [group["block"] for group in found["groups"]]
    if not found.get("spec"):
        found.pop("drafter", None)
    if not takes_events(known, found["groups"]):
        found["events"] = False
    if known < _SECOND_RUNNER_DRAFTS and (found.get("drafter", 2) != 2 or found.get("mamba") == "all"):
        found.pop("runner", None)
    if known < _MAMBA_AHEAD and found.get("mamba"):
        found.pop("asynchronous", None)
    if found.get("asynchronous") or found.get("spec"):
        # A drafter's slots come off the budget: of a prompt that just fits, too much is left over.
        found["chunked"] = True
    if not found["chunked"]:
        found["budget"] = found["max_len"]
    if found.get("hash_block") and any(block % found["hash_block"] for block in blocks):
        found["hash_block"] = 1
    if found.get("mamba") == "none":
        found["groups"] = [{**g, "block": found["max_len"]} if g["kind"] == "mamba" else g for g in found["groups"]]
    if found.get("mamba", "none") != "none":
        # A step must be able to fill a block, and a mamba layer's block is the smallest.
        slots = found.get("spec", 0) * found["max_seqs"]
        found["budget"], found["long_prefill"] = max(found["budget"], max(blocks) + slots), 0
    return found


def _hybrid(equal: bool | None = None, full: int = 1) -> st.SearchStrategy[list[Setup]]:
    """Full attention and one or two windows, with blocks of one size or of several; with two kinds of ``full``
    attention, the second one's heads are half as large, so that as many bytes are twice as many tokens."""
    factors, windows = st.just(1) if equal else st.integers(1, 3), st.integers(0, 12)
    return st.builds(
        _hybrid_groups, st.sampled_from([2, 3, 4]), factors, factors, st.integers(1, 12), windows, st.just(full)
    )


def _hybrid_groups(block: int, full: int, windows: int, window: int, second: int, kinds: int) -> list[Setup]:
    found: list[Setup] = [{"kind": "full", "block": block * full * (1 + kind)} for kind in range(kinds)]
    found.append(windowed(block * windows, window))
    return [*found, windowed(block, second)] if second > 8 and second != window else found


def _mambas(known: Version, mode: str, **more: Choice) -> st.SearchStrategy[Setup]:
    """Full attention, one or two mamba groups, perhaps a window."""
    groups = st.builds(
        _mamba_groups, st.sampled_from([4, 8] if "spec" in more else [2, 4, 8]), st.integers(1, 2), st.integers(0, 8)
    )
    settings: dict[str, Choice] = {"mamba": st.just(mode), "caching": st.just(mode != "none")}
    if "spec" not in more:
        settings["asynchronous"] = st.booleans()
    return _setups(known, groups, **settings, **more)


def _mamba_groups(block: int, mambas: int, window: int) -> list[Setup]:
    found: list[Setup] = [{"kind": "full", "block": block}, *[{"kind": "mamba", "block": block}] * mambas]
    return [*found, windowed(block, window)] if window > 5 else found


# Operations


def cases(
    setups: st.SearchStrategy[Setup],
    more: "list[tuple[int, Play]] | None" = None,
    often: "list[tuple[int, Play]] | None" = None,
    most: int = 30,
    first: Callable[[Setup, bytes], list[Op]] | None = None,
) -> st.SearchStrategy[Case]:
    """Return cases of these setups, with up to so many operations; ``more`` are operations beside the usual ones,
    ``often`` instead of them, with how often they come: steps and requests first, which each case must have. They begin
    with what ``first`` says, or with a request."""
    kinds = (often or _OFTEN) + (more or [])
    begin = first or (lambda setup, play: [kinds[1][1](setup, play)])  # Without a request there is nothing to do.
    return st.builds(lambda setup, play: _case(setup, play, kinds, begin), setups, sized(_WIDTH, 4, most + 1))


_TIMES = (1, 1, 3, 0)
"""How much more often than usual a kind of operation comes in a case, one in four each: a case with all kinds in it
seldom has enough of those that some fault needs."""
_NEEDED = 2
"""So many kinds, the first ones, come in every case."""


def _case(setup: Setup, play: bytes, kinds: list[tuple[int, Play]], begin: Callable[[Setup, bytes], list[Op]]) -> Case:
    """The first bytes say how often each kind comes, the others make an operation each."""
    often, *parts = [play[at : at + _WIDTH] for at in range(0, len(play), _WIDTH)]
    plays: list[Play] = []
    for number, (times, kind) in enumerate(kinds):
        more = _TIMES[often[number] % len(_TIMES)]
        plays += [kind] * (times * (max(1, more) if number < _NEEDED else more))
    first, *others = parts
    ops = [*begin(setup, first[1:]), *(plays[part[0] % len(plays)](setup, part[1:]) for part in others)]
    return Case("scheduler", setup, ops)


_STEMS = (0, 0, 1, 2)
"""Prompts begin as one of these does: a token again and again, or (0) all of them in turn."""


def _stem(which: int, position: int) -> int:
    """The token of a stem at a position: stems 0 to 2 repeat a token, stem 3 runs through all."""
    return position % 3 if which == 3 else which


def _add(setup: Setup, play: bytes) -> Op:
    """A request, with what it asks of a connector."""
    return "add", _request(setup, play) | asked(setup, play[5:])


def _request(setup: Setup, play: bytes) -> dict[str, Any]:
    """A prompt that follows a stem, and from some point on another; the longest leave room for one more token."""
    length = 1 + play[1] % (setup["max_len"] - 1)
    turn = play[2] % (length + 1) if play[0] & 4 else length
    tokens = [_stem(play[0] & 3 if n < turn else play[0] >> 6, n) for n in range(length)]
    args: dict[str, Any] = {"tokens": tokens, "max_tokens": 1 + play[3] % 8}
    if play[3] & 32:
        args["stop"] = 1
    if play[3] >= 192:
        # All that it may have: a model's limit comes first.
        args["min"] = args["max_tokens"]
    if setup.get("priority"):
        args["priority"] = play[4] % 3
    if setup.get("adapters"):
        args["adapter"] = play[4] // 3 % 3
        if args["adapter"] and play[4] // 9 % 3 == 2:
            args["moved"] = 1
    if setup.get("embeds"):
        args["embeds"] = play[6] % 5 if setup["embeds"] > 1 else play[6] % 2
    if setup.get("encoder") and play[5] & 3:
        args["items"] = [[play[5] // 4 % length, play[5] >> 7], [play[6] % length, play[6] >> 7]]
    if play[4] >= 200:
        args["salt"] = 1 + play[4] % 2
    elif play[4] >= 190:
        args["skip"] = 1
    return args


def _add_again(setup: Setup, play: bytes) -> Op:
    """One of few prompts, so that each comes again and again."""
    length = max(1, (setup["max_len"] - 1) * (1 + play[1] % 3) // 3)
    tokens = [_stem(play[0] % 4, n) for n in range(length)]
    return "add", {"tokens": tokens, "max_tokens": 1 + play[3] % 4}


def _fetch_again(setup: Setup, play: bytes) -> Op:
    """The same, and all or some of it may be fetched from elsewhere."""
    op, args = _add_again(setup, play)
    return op, args | asked(setup, play[5:])


def _pushed_out(setup: Setup, play: bytes) -> list[Op]:
    """A prompt comes again that the device has forgotten, and whose place on the host another one took: what is left of
    it lies below."""
    length, stem = setup["max_len"] - 2 - play[0] % 3, play[1] % 4
    one, other = ({"tokens": [_stem(s % 4, n) for n in range(length)], "max_tokens": 1} for s in (stem, stem + 1))
    return [("add", one), ("drain", {}), ("add", other), ("drain", {}), ("reset", {}), ("add", dict(one))]


def _loaded_at_once(setup: Setup, play: bytes) -> list[Op]:
    """Two prompts that the device has forgotten come again, one step apart: two loads are under way."""
    length, stem = setup["max_len"] // 2 + play[0] % 3, play[1] % 4
    prompts = [[_stem(s % 4, n) for n in range(length)] for s in (stem, stem + 1)]
    first, again = ([("add", {"tokens": tokens, "max_tokens": 1}) for tokens in prompts] for _ in range(2))
    return [*first, ("drain", {}), ("reset", {}), *(op for add in again for op in (add, ("step", {})))]


def _behind_a_tail(setup: Setup, play: bytes) -> list[Op]:
    """A prompt that ends inside a block goes away, and the device forgets it. A longer one that begins with it fills
    that block, and goes on behind it."""
    block, most, stem = setup["groups"][0]["block"], setup["max_len"] - 2, play[1] % 4
    # The last token is computed anew wherever a prompt comes again: what is kept of a block of it ends before that one.
    short = 2 + play[0] % (block - 1)
    long = min(block + 1 + play[2] % most, most)
    one, other = ({"tokens": [_stem(stem, n) for n in range(length)]} for length in (short, long))
    ops: list[Op] = [("add", {**one, "max_tokens": 1 + play[3] % 2}), ("drain", {}), ("reset", {})]
    return [*ops, ("add", {**other, "max_tokens": 1 + play[4] % 4}), ("drain", {})]


def _cut_short(setup: Setup, play: bytes) -> list[Op]:
    """A prompt comes again, longer by a part, and is preempted twice in the midst of its loads and stores. Some of them
    have ended: when it is back, something of it lies on the host, and something is still on its way there."""
    length, stem = setup["max_len"] - 2, play[1] % 4
    prompt = [_stem(stem, n) for n in range(length)]
    again: Op = ("add", {"tokens": prompt, "max_tokens": 1 + play[2] % 3})
    ops: list[Op] = [("add", {"tokens": prompt[: length // 2 + play[0] % 3], "max_tokens": 1})]
    ops += [("drain", {}), ("reset", {}), again]
    for times, ended in ((play[3], play[4]), (play[3] >> 2, play[4] >> 4)):
        for n in range(1 + times % 4):
            ops.append(("step", {}))
            if ended >> n & 1:
                ops.append(complete(setup, play[5:7]))
        ops += [("reset", {"running": 1}), ("step", {})]
    return ops


def _add_long(setup: Setup, play: bytes) -> Op:
    """A prompt that takes more than half of what a request may have."""
    length = setup["max_len"] - 1
    return _add(setup, bytes((play[0], length // 2 + play[1] % (length - length // 2), *play[2:])))


def _begin(setup: Setup, play: bytes) -> Op:
    """A session, which begins with a short prompt and asks for a short answer; or a request beside them."""
    if play[6] % 4 == 3:
        return _add(setup, play)
    args = _request(setup, bytes((play[0], play[1] % (setup["max_len"] // 3), *play[2:])))
    return "add", {**args, "session": 1, "max_tokens": 1 + args["max_tokens"] % 4}


def _say(setup: Setup, play: bytes) -> Op:
    """More is said in a session, or it is closed; some clients do not count how long it has become."""
    args: dict[str, Any] = {"pick": play[0] % 4}
    if play[1] >= 216:
        return "say", {**args, "close": 1}
    length = 1 + play[2] % (setup["max_len"] // 3)
    args |= {"tokens": [_stem(play[3] & 3, n) for n in range(length)], "max_tokens": 1 + play[4] % 4}
    if play[4] & 32:
        args["stop"] = 1
    if setup.get("encoder") and play[6] & 1:
        args["items"] = [[play[6] // 4 % length, play[6] >> 7]]
    return "say", args | ({"past": 1} if play[5] >= 208 else {})


def _step(setup: Setup, play: bytes) -> Op:
    """A step; an abort that comes while the model runs is rare."""
    args = {"token": play[0] % 6, "ready": play[1] & 1}
    if setup.get("spec"):
        args |= {"accept": play[2] % (setup["spec"] + 1), "fewer": (play[3] % 4 == 3) * (1 + play[3] // 64)}
    if play[4] >= 236:
        args["abort"] = 1 + play[4] % 4
    return "step", {name: value for name, value in args.items() if value}


def _reset(_setup: Setup, play: bytes) -> Op:
    """The caches are emptied; a caller who asks for the connector's too need not know whether there is one."""
    asked = {"running": play[0] >= 128, "connector": play[1] >= 192}
    return "reset", {name: 1 for name, value in asked.items() if value}


def _interrupt(_setup: Setup, play: bytes) -> Op:
    """The engine is paused, or goes on; or a request is aborted."""
    if play[0] >= 176:
        return "abort", {"pick": play[1] % 4}
    return ("pause", {"wait": 1} if play[1] & 1 else {}) if play[0] >= 88 else ("resume", {})


_OFTEN: list[tuple[int, Play]] = [
    (30, _step),
    (13, _add),
    (4, lambda _setup, play: ("abort", {"pick": play[0] % 4})),
    (1, _reset),
    (1, lambda _setup, _play: ("drain", {})),
]
_AGAIN: list[tuple[int, Play]] = [(30, _step), (16, _add_again), (1, _OFTEN[2][1])]
"""The same prompts again and again: they must be found."""
_FETCHES: list[tuple[int, Play]] = [(30, _step), (6, _add_long), (8, _fetch_again), *_OFTEN[2:]]
"""What is fetched from elsewhere comes again, and may be here by then."""
_TALKS: list[tuple[int, Play]] = [(30, _step), (14, _begin), (14, _say), (5, _interrupt), *_OFTEN[3:]]
"""Sessions beside others."""
_PAUSES: list[tuple[int, Play]] = [(24, _step), (13, _add), (10, _interrupt), (3, _reset)]
"""The engine is paused again and again, as for new weights."""
_RESETS: list[tuple[int, Play]] = [(30, _step), (5, _add_long), (5, _add), (1, _OFTEN[2][1]), (6, _OFTEN[3][1])]
"""Caches are emptied at every odd moment, half the times with requests running: long ones are in the midst of much."""
_LONG: list[tuple[int, Play]] = [(30, _step), (6, _add_long), (7, _add), *_OFTEN[2:]]
"""Long prompts in half of the requests: they fill the blocks that connectors deal with."""
_FORGETFUL: list[tuple[int, Play]] = [
    (24, _step),
    (10, _add_again),
    (8, _add_long),
    (5, lambda _setup, _play: ("reset", {})),
    (5, _OFTEN[4][1]),
    _OFTEN[2],
]
"""The same prompts again, and the device forgets them."""
_CROWD: list[tuple[int, Play]] = [(12, _step), (16, _add_long), (2, _OFTEN[2][1])]
"""Many requests at once, with long prompts: what one of them holds another one waits for."""
