"""Cases for the level ``tree``: a radix cache and the requests that it serves, called as its scheduler calls it.

What is varied is how requests share prefixes, how tight the memory is, and what happens between a forward pass and its
result. Prompts are runs of equal tokens and beginnings of earlier requests.
"""

from functools import partial
from typing import Any

from hypothesis import strategies as st
from packaging.version import Version

from ....judge.record import Case
from ...cases import Op, Setup
from ...plays import LEAST, Play, drawn, weighted
from ...traits import Traits, argument, naming, operation, option
from ..releases import has_two_cores, older_trees, page_sizes, tells_events

__all__ = ["profiles", "traits"]

_ALL = 99
"""More tokens than any request has."""

_POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru", "tlru")

_TTL = Version("0.5.21")
"""The first with the last of them."""


def profiles(release: str, *, least: int = LEAST, most: int = 60) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases, by name, with so many operations a case."""
    made = partial(_setup, page=st.sampled_from(page_sizes(release)))
    policies = st.sampled_from(_POLICIES if Version(release) >= _TTL else _POLICIES[:-1])
    roomy: dict[str, st.SearchStrategy[Any]] = {"pages": st.integers(16, 32), "policy": policies}
    families: dict[str, tuple[st.SearchStrategy[Setup], list[Play]]] = {
        "tokens": (made(page=st.just(1)), _USUAL),
        "pages": (made(), _USUAL),
        "tight": (made(pages=st.integers(2, 5)), _USUAL),
        "events": (made(events=st.just(True)), _USUAL),
        "tenants": (made(events=st.booleans()), _NAMED),
        "policies": (made(policy=policies), _RANKED),
        "again": (made(pages=st.integers(16, 32)), _AGAIN),
        "order": (st.one_of(made(**roomy), made(**_WINDOW | roomy)), _RANKED),
        "windows": (made(**_WINDOW), _PARTS),
        "states": (made(**_STATES), _PARTS),
        "windows and states": (made(**_WINDOW | _STATES), _PARTS),
        "rust": (made(core=st.just("rust"), policy=policies, events=st.booleans()), _RANKED),
        "rust windows": (made(core=st.just("rust"), **_WINDOW), _PARTS),
        "rust states": (made(core=st.just("rust"), **_STATES), _PARTS),
    }
    older: dict[str, tuple[str, tuple[st.SearchStrategy[Setup], list[Play]]]] = {
        "plain": ("plain tree", (made(tree=st.just("plain"), policy=policies, events=st.booleans()), _RANKED)),
        "windows": ("plain windows", (made(tree=st.just("windows"), **_WINDOW), _PARTS)),
        "sessions": ("sessions", (made(**_SESSIONS), _TALKS)),
    }
    families |= dict(older[kind] for kind in older_trees(release))
    if not has_two_cores(release):
        families = {name: family for name, family in families.items() if not name.startswith("rust")}
    if not tells_events(release):
        del families["events"]
        families = {name: (cases.map(_silent), plays) for name, (cases, plays) in families.items()}
    first = {"order": _used_again}
    return {
        name: drawn("tree", setups, plays, least=least, most=most, first=first.get(name))
        for name, (setups, plays) in families.items()
    }


def traits(_release: str) -> Traits:
    """What cases may have that a fault needs."""
    return Traits(
        (
            operation("reset", "reset"),
            operation("retraction", "retract"),
            operation("abort", "abort"),
            operation("probe of the queue", "probe"),
            operation("eviction by hand", "evict"),
            naming("adapter"),
            naming("salt"),
            naming("label"),
            argument("priorities", "add", "priority"),
            argument("prompt in chunks", "add", "most"),
            option("window", "window", 0),
            option("states", "states", 0),
            option("a tree of its own", "tree", "unified"),
            argument("session", "add", "session"),
            operation("end of a session", "close"),
            option("window of a prefix given up", "release", False),
            option("core in Rust", "core", "python"),
            option("passes that overlap", "overlap", False),
            option("pages that are sorted", "sort", False),
            option("KV events", "events", False),
            option("policy of eviction", "policy", "lru"),
            option("pages of several tokens", "page", 1),
        ),
        numbers={
            "page": (1, 2, 3, 4),
            "pages": tuple(range(2, 33)),
            "window": tuple(range(1, 9)),
            "window_pages": tuple(range(2, 17)),
            "states": (3, 6, 9, 12),
            "interval": (1, 2, 4),
        },
        drained=lambda _case: [("finish", {"i": 0}), ("process", {})],
    )


_WINDOW: dict[str, st.SearchStrategy[Any]] = {
    "window": st.integers(1, 8),
    "window_pages": st.integers(3, 16),
    "interval": st.sampled_from([1, 2, 4]),
    "release": st.booleans(),
    "events": st.booleans(),
}

_STATES: dict[str, st.SearchStrategy[Any]] = {
    "states": st.sampled_from([3, 6, 9, 12]),
    "page": st.just(1),
    "pages": st.integers(4, 24),
    "overlap": st.just(False),
    "events": st.booleans(),
}
"""Without a second buffer a state is that of the sequence's end: a page has one token, and no two passes overlap."""


_SESSIONS: dict[str, st.SearchStrategy[Any]] = {
    "tree": st.just("plain"),
    "policy": st.just("priority"),  # A server with sessions is to have this one.
    "sessions": st.just(True),
    "events": st.booleans(),
}


def _setup(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Setup]:
    usual: dict[str, st.SearchStrategy[Any]] = {
        "pages": st.integers(3, 16),
        "sort": st.booleans(),
        "events": st.just(False),
        "overlap": st.booleans(),
    }
    return st.fixed_dictionaries(usual | more)


def _silent(setup: Setup) -> Setup:
    """The setup without events, but of a tree that tells them."""
    return setup if "tree" in setup else {**setup, "events": False}


def _add(a: int, b: int, c: int, d: int) -> Op:
    """A request: what it keeps of an earlier one, and two runs of tokens."""
    runs = [[b % 3, b // 3 % 10]] + [[c % 3, 1 + c // 3 % 4]] * (c > 60)
    return "add", {"keep": a % 12, "like": a // 12, "runs": runs, "most": d % 7 if d > 128 else 0}


def _used_again(a: int, b: int, c: int, d: int) -> list[Op]:
    """Three prompts that share nothing, one of which is asked for again; then some of it all is evicted."""
    ops: list[Op] = []
    for n in range(3):
        runs = [[n, 1 + (a >> 2 * n) % 4], [(n + 1) % 3, 1 + (b >> 2 * n) % 4]]
        ops += [("add", {"keep": 0, "like": 0, "runs": runs, "most": 0}), ("process", {}), ("finish", {"i": 0})]
    ops += [("add", {"keep": _ALL, "like": c % 3, "runs": [], "most": 0}), ("process", {})]
    return [*ops, ("finish" if c & 4 else "abort", {"i": 0}), ("evict", {"tokens": 1 + d % 6})]


def _add_again(a: int, b: int, c: int, d: int) -> Op:
    """A request with the tokens of an earlier one, or one of its own."""
    if a % 4:
        return "add", {"keep": _ALL, "like": a // 4, "runs": [], "most": d % 4}
    return "add", {"keep": 0, "like": 0, "runs": [[b % 3, 2 + b // 3 % 8], [c % 3, c // 3 % 4]], "most": d % 4}


def _add_named(a: int, b: int, c: int, d: int) -> Op:
    """A request with an adapter, a salt or a label, all named from one alphabet."""
    name, args = _add(a, b, 0, d)
    return name, {**args, "adapter": c % 3, "salt": c // 3 % 3, "label": c // 9 % 3}


def _add_ranked(a: int, b: int, c: int, d: int) -> Op:
    """A request with a priority."""
    name, args = _add(a, b, c, d)
    return name, {**args, "priority": d % 3}


def _add_session(a: int, b: int, c: int, d: int) -> Op:
    """A request of a session, or of none."""
    name, args = _add(a, b, c, d)
    return name, {**args, "priority": d % 3} | ({"session": c % 4} if c % 4 else {})


def _pick(name: str) -> Play:
    return lambda a, _b, _c, _d: (name, {"i": a % 8})


def _run(a: int, b: int, c: int, _d: int) -> Op:
    return "run", {"i": a % 8, "token": c % 3} | ({"most": b % 6} if b > 128 else {})


def _process(_a: int, _b: int, _c: int, _d: int) -> Op:
    return "process", {}


_REST: list[tuple[int, Play]] = [
    (34, _run),
    (16, _process),
    (12, _pick("finish")),
    (4, _pick("retract")),
    (3, _pick("abort")),
    (3, _pick("probe")),
    (3, lambda a, _b, _c, _d: ("evict", {"tokens": 1 + a % 12})),
    (1, lambda _a, _b, _c, _d: ("reset", {})),
]


_USUAL = weighted((24, _add), *_REST)
_NAMED = weighted((28, _add_named), *_REST)
_RANKED = weighted((24, _add_ranked), *_REST)
_PARTS = weighted(
    (24, _add), *_REST, (4, lambda a, b, c, _d: ("evict", {"tokens": a % 4, "window": b % 9, "states": c % 3}))
)
_TALKS = weighted((24, _add_session), *_REST, (6, lambda a, _b, _c, _d: ("close", {"session": 1 + a % 3})))
_AGAIN = weighted((24, _add_again), (34, _run), (16, _process), (14, _pick("finish")))
