"""Cases for the level ``scheduler``: clients of a release's own scheduler, and rounds of its event loop.

What is varied is geometry more than length: pools from the smallest that serves a request, pages of several sizes,
chunks, and how clients leave. Prompts are runs of equal tokens and beginnings of earlier requests.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st

from ....judge.oracles.aborts import AbortsOracle
from ....judge.record import Case, World
from ...cases import Op, Setup
from ...plays import Play, drawn, weighted
from ...traits import Traits, argument, naming, operation, option
from ..releases import is_served, page_sizes

__all__ = [
    "DRAFTS", "EAGLE", "HOPEFUL", "PAUSES", "REST", "STATES", "TURNS", "VERIFIED", "WINDOW", "more_oracles", "ordered",
    "profiles", "setups", "sound", "traits",
]  # fmt: skip

_ALL = 99
"""More pages than there are."""

_ORDERS = ("fcfs", "lpm", "dfs-weight", "lof")
_POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru")


def profiles(release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases, by name; none of a release whose scheduler is not driven."""
    if not is_served(release):
        return {}
    made = partial(setups, page=st.sampled_from(page_sizes(release)))
    chunk, overlap = {"chunk": st.integers(1, 4)}, {"overlap": st.just(True)}
    hopeful = HOPEFUL | {"chunk": st.integers(0, 4)}
    tight = hopeful | {"mixed": st.booleans()}
    room = {"pages": st.integers(20, 50)}
    return {
        "plain": _cases(made()),
        "overlap": _cases(made(**overlap)),
        "tight": _cases(made(pages=st.integers(2, 6), overlap=st.booleans())),
        "chunks": _cases(made(**chunk)),
        "chunks overlap": _cases(made(**chunk, **overlap)),
        "mixed": _cases(made(**chunk, mixed=st.just(True), overlap=st.booleans())),
        "priority": _cases(_ranked(made), _RANKED),
        "orders": _cases(made(**chunk, order=st.sampled_from(_ORDERS), overlap=st.booleans())),
        "pauses": _cases(made(**chunk, mixed=st.booleans(), overlap=st.booleans()), _PAUSED),
        "retracts": _cases(made(**tight, overlap=st.booleans(), queue=st.sampled_from([None, None, 1, 2])), _LONG),
        "conversations": _cases(made(**tight, overlap=st.booleans()), _TALK),
        "conversations with room": _cases(
            made(**tight, overlap=st.booleans(), pages=st.integers(24, 40), rows=st.just(8)), _QUIET
        ),
        "events": _cases(made(**chunk, events=st.just(True), overlap=st.booleans())),
        "windows with room": _cases(
            made(**WINDOW | {"window_pages": st.just(_ALL)}, **tight, overlap=st.booleans()), _PAUSED
        ),
        "windows": _cases(made(**WINDOW, **chunk, overlap=st.booleans())),
        "windows whole": _cases(made(**WINDOW, overlap=st.booleans())),
        "windows retracts": _cases(made(**WINDOW, **tight, overlap=st.booleans()), _LONG),
        "windows priority": _cases(_ranked(made, **WINDOW | {"chunk": st.integers(0, 4)}), _RANKED),
        "windows conversations": _cases(made(**WINDOW, **tight, overlap=st.booleans()), _QUIET),
        "windows rust": _cases(made(**WINDOW, **tight, overlap=st.booleans(), core=st.just("rust")), _PAUSED),
        "drafts": _cases(made(**DRAFTS | room, **hopeful, overlap=st.booleans(), events=st.booleans()), _DRAFTED),
        "drafts tight": _cases(made(**DRAFTS, **hopeful, overlap=st.booleans()), _DRAFTED_LONG),
        "drafts conversations": _cases(made(**DRAFTS | room, **hopeful, overlap=st.booleans()), _DRAFTED_TALK),
        "drafts windows": _cases(
            made(**DRAFTS | room | WINDOW | {"window_pages": st.integers(10, _ALL)}, **hopeful, overlap=st.booleans()),
            _DRAFTED,
        ),
        "eagle": _cases(made(**EAGLE | room, **tight, overlap=st.booleans(), events=st.booleans()), _DRAFTED),
        "eagle tight": _cases(made(**EAGLE, **tight, overlap=st.booleans()), _DRAFTED_LONG),
        "eagle conversations": _cases(made(**EAGLE | room, **tight, overlap=st.booleans()), _DRAFTED_TALK),
        "eagle windows": _cases(
            made(**EAGLE | room | WINDOW | {"window_pages": st.integers(10, _ALL)}, **tight, overlap=st.booleans()),
            _DRAFTED,
        ),
        "states": _cases(made(**STATES)),
        "states chunks": _cases(made(**STATES, chunk=st.integers(1, 6), mixed=st.booleans()), _PAUSED),
        "states retracts": _cases(made(**STATES, **HOPEFUL), _LONG),
        "windows and states": _cases(made(**WINDOW | STATES, chunk=st.integers(1, 6)), _PAUSED),
        "all": _cases(
            made(
                **chunk,
                mixed=st.booleans(),
                overlap=st.booleans(),
                **ordered(),
                queue=st.sampled_from([None, None, 2, 3]),
                most=st.sampled_from([None, 1, 2]),
                interval=st.sampled_from([0, 0, 1, 2]),
                budget=st.sampled_from([64, 4, 8]),
                core=st.sampled_from(["python", "rust"]),
            ),
            _PAUSED,
        ),
    }


def more_oracles(_case: Case) -> Callable[[World], list[Any]]:
    """Aborts are not lost (R7)."""
    return lambda world: [AbortsOracle(world)]


def traits(_release: str) -> Traits:
    """What cases may have that a fault needs."""
    return Traits(
        (
            operation("reset", "reset"),
            operation("abort", "abort"),
            operation("abort of all", "abort_all"),
            operation("pause", "pause"),
            argument("pause that retracts", "pause", "retract"),
            naming("salt"),
            argument("priorities", "add", "priority"),
            option("core in Rust", "core", "python"),
            option("prompts in chunks", "chunk", 0),
            option("prompts mixed with decoding", "mixed", False),
            option("overlapping loop", "overlap", False),
            option("pages that are sorted", "sort", False),
            option("KV events", "events", False),
            option("window", "window", 0),
            option("drafts", "drafts", 0),
            option("drafter with layers", "drafter", "ngram"),
            option("states", "states", 0),
            option("window of a prefix given up", "release", False),
            option("order of the queue", "order", "fcfs"),
            option("scheduling by priority", "priority", False),
            option("policy of eviction", "policy", "lru"),
            option("longest queue", "queue", has=lambda value: value is not None),
            option("most prompts at once", "most", has=lambda value: value is not None),
            option("rounds between prompts", "interval", 0),
            option("hopeful admission", "conservative", 1.0),
            operation("conversation", "turn"),
            option("budget of a prefill", "budget", 64),
            option("pages of several tokens", "page", 1),
        ),
        _fitting,
        numbers={
            "page": (1, 2, 3, 4),
            "pages": tuple(range(2, 25)),
            "rows": (8, 3, 2, 1),
            "window": tuple(range(1, 9)),
            "drafts": (2, 3, 4, 5),
            "window_pages": tuple(range(3, 25)),
            "window_interval": (1, 2, 4),
            "states": (3, 6, 9, 12),
        },
        drained=lambda _case: [("round", {"tokens": [0]})],
    )


def _fitting(case: Case) -> Case:
    """The case as a release takes it."""
    setup = sound(case.setup)
    return case if setup == case.setup else Case(case.level, setup, case.ops)


def sound(setup: Setup) -> Setup:
    """Chunks of whole pages, room for one token at least, and no mixing without chunks.

    The window's pool is larger than a window and a page, and no larger than that of full attention.
    """
    page, chunk = setup["page"], setup.get("chunk", 0)
    made = setup | {"pages": max(setup["pages"], -(-8 // page))}
    if setup.get("window"):
        least = setup["window"] // page + 2
        made["pages"] = max(made["pages"], least)
        made["window_pages"] = min(max(setup.get("window_pages", 0), least), made["pages"])
    if chunk:
        made["chunk"] = -(-chunk // page) * page
    if made.get("mixed") and (not chunk or (made.get("drafts") and made.get("drafter", "ngram") == "ngram")):
        made["mixed"] = False
    return made


WINDOW: dict[str, st.SearchStrategy[Any]] = {
    "window": st.integers(1, 8),
    "window_pages": st.integers(3, 16),
    "window_interval": st.sampled_from([1, 2, 4]),
    "release": st.booleans(),
    "events": st.booleans(),
}


HOPEFUL: dict[str, st.SearchStrategy[Any]] = {"conservative": st.sampled_from([0.05, 0.3, 1.0])}
"""How much of what requests may still want is kept free for them."""

DRAFTS: dict[str, st.SearchStrategy[Any]] = {"drafts": st.integers(2, 5)}
"""How many tokens a pass verifies: with n-grams a server mixes no prompts with decoding."""

EAGLE = DRAFTS | {"drafter": st.just("eagle")}
"""A drafter with layers of its own, which read each token with what the model computed of the one before."""

STATES: dict[str, st.SearchStrategy[Any]] = {
    "states": st.sampled_from([3, 6, 9, 12]),
    "page": st.just(1),
    "pages": st.integers(10, 30),
    "events": st.booleans(),
}
"""Without a second buffer a page has one token, and no two passes overlap."""


def setups(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Setup]:
    """Setups with these options, and the usual ones."""
    usual: dict[str, st.SearchStrategy[Any]] = {
        "pages": st.integers(4, 20),
        "rows": st.sampled_from([8, 8, 3, 2, 1]),
        "sort": st.booleans(),
    }
    made = usual | more
    if "chunk" in made:
        # A chunk is some pages.
        return st.fixed_dictionaries(made).map(lambda setup: sound(setup | {"chunk": setup["chunk"] * setup["page"]}))
    return st.fixed_dictionaries(made).map(sound)


def ordered() -> dict[str, st.SearchStrategy[Any]]:
    """Orders of the queue, and of eviction."""
    return {"order": st.sampled_from(_ORDERS), "policy": st.sampled_from(_POLICIES)}


def _ranked(made: Callable[..., st.SearchStrategy[Setup]], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Setup]:
    usual: dict[str, st.SearchStrategy[Any]] = {
        "priority": st.just(True),
        "threshold": st.sampled_from([0, 1]),
        "overlap": st.booleans(),
        "chunk": st.integers(1, 4),
        "queue": st.sampled_from([None, None, 2]),
    }
    return made(**usual | more)


def _cases(setups: st.SearchStrategy[Setup], plays: "list[Play] | None" = None) -> st.SearchStrategy[Case]:
    return drawn("scheduler", setups, plays or _USUAL, most=50)


def _add(a: int, b: int, c: int, d: int) -> Op:
    """A request: what it keeps of an earlier one, two runs of tokens, and how many it wants."""
    runs = [[b % 3, b // 3 % 12]] + [[c % 3, 1 + c // 3 % 4]] * (c > 60)
    args: dict[str, Any] = {"keep": a % 12, "like": a // 12, "runs": runs, "most": 1 + d % 8}
    return "add", args | ({"salt": 1} if d > 230 else {})


def _add_ranked(a: int, b: int, c: int, d: int) -> Op:
    """A request with a priority."""
    name, args = _add(a, b, c, d)
    return name, {**args, "priority": d // 8 % 3}


def _round(a: int, b: int, _c: int, _d: int) -> Op:
    """A round; now and then a text ends."""
    return "round", {"tokens": [-1 if n % 12 == 11 else n % 3 for n in (a, b)]}


def _verified(a: int, b: int, c: int, d: int) -> Op:
    """A round in which so many drafts are right."""
    name, args = _round(a, b, c, d)
    return name, {**args, "accept": c % 5}


def _pause(a: int, _b: int, _c: int, _d: int) -> Op:
    return "pause", {"retract": 1} if a % 2 else {}


_LEAVE: list[tuple[int, Play]] = [
    (6, lambda a, _b, _c, _d: ("abort", {"i": a % 8})),
    (1, lambda _a, _b, _c, _d: ("abort_all", {})),
    (1, lambda _a, _b, _c, _d: ("reset", {})),
]
REST: list[tuple[int, Play]] = [(60, _round), *_LEAVE]
VERIFIED: list[tuple[int, Play]] = [(60, _verified), *_LEAVE]


def _turn(a: int, b: int, c: int, d: int) -> Op:
    """A turn of a conversation."""
    runs = [[b % 3, 1 + b // 3 % 6]] + [[c % 3, 1 + c // 3 % 4]] * (c > 128)
    return "turn", {"i": a % 4, "runs": runs, "most": 1 + d % 12}


def _long(a: int, b: int, c: int, d: int) -> Op:
    """A request that wants much."""
    name, args = _add(a, b, c, d)
    return name, {**args, "most": 6 + d % 20}


_USUAL = weighted((24, _add), *REST)
_RANKED = weighted((24, _add_ranked), *REST)
PAUSES: list[tuple[int, Play]] = [
    (5, _pause),
    (5, lambda _a, _b, _c, _d: ("resume", {})),
    (2, lambda _a, _b, _c, _d: ("reset", {})),
]
_PAUSED = weighted((24, _add), *REST, *PAUSES)
_LONG = weighted((24, _long), *REST, (2, _pause), (3, lambda _a, _b, _c, _d: ("resume", {})))
TURNS: list[tuple[int, Play]] = [
    (24, _turn),
    (3, lambda _a, _b, _c, _d: ("open", {})),
    (3, lambda a, _b, _c, _d: ("close", {"i": a % 4})),
]
_QUIET = weighted(TURNS[1], TURNS[0], (6, _long), *REST, TURNS[2])
_DRAFTED = weighted((24, _add), *VERIFIED, *PAUSES)
_DRAFTED_LONG = weighted((24, _long), *VERIFIED, (2, _pause), (3, lambda _a, _b, _c, _d: ("resume", {})))
_DRAFTED_TALK = weighted(TURNS[1], TURNS[0], (6, _long), *VERIFIED, TURNS[2])
_TALK = [*_QUIET, *weighted((3, _pause), (4, lambda _a, _b, _c, _d: ("resume", {})))]
