"""Cases for the level ``hicache``: clients of a release's own scheduler, over a host tier whose copies end late.

A release loads nothing back that is shorter than ten tokens, so prompts are longer than at level ``scheduler`` and
share more; the device's pool is small beside them, so that what they leave is given up and comes back.
"""

from functools import partial
from typing import Any

from hypothesis import strategies as st

from ....judge.record import Case
from ...cases import Op, Setup
from ...plays import Play, drawn, weighted
from ...traits import Traits, argument, operation, option
from ..releases import has_states_below, has_windows_below, is_served, page_sizes
from . import scheduler

__all__ = ["more_oracles", "profiles", "traits"]

more_oracles = scheduler.more_oracles

STORAGE = "storage"
"""A tier below the host. When it goes on, and whether requests wait for it, brings its faults about in one way or
another."""

_ALL = 99
"""More copies than there are."""

_WORTH, _ROOMY = 12, 20
"""So many tokens are worth a load, in pages of any size; and some more behind them."""

_POOLS = ("pages", "host_pages", "window_pages", "host_window_pages")
"""The pools of whole pages that a setup may have."""

_SIZES = tuple(range(24, 0, -1))
"""Pages of the host, the simplest first: with room for all, nothing has to go."""


def profiles(release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases, by name; none of a release whose host tier is not driven."""
    if not is_served(release):
        return {}
    first, *others = page_sizes(release)
    made = partial(_setup, page=st.sampled_from([*others, first]))
    chunk, overlap = {"chunk": st.integers(1, 4)}, {"overlap": st.booleans()}
    through, back = {"write": st.just("write_through")}, {"write": st.just("write_back")}
    selective = {"write": st.just("write_through_selective")}
    tight = scheduler.HOPEFUL | {"pages": st.integers(6, 10)}
    families = {
        "through": _cases(made(**through)),
        "through overlap": _cases(made(**through, overlap=st.just(True))),
        "through chunks": _cases(made(**through, **chunk, **overlap)),
        "selective": _cases(made(**selective, **overlap)),
        "back": _cases(made(**back)),
        "back overlap": _cases(made(**back, overlap=st.just(True))),
        "back chunks": _cases(made(**back, **chunk, **overlap)),
        "tight host": _cases(made(**_ANY, **overlap, host_pages=st.integers(1, 6))),
        "retracts": _cases(made(**_ANY, **overlap, **tight), _LONG),
        "pauses": _cases(made(**_ANY, **chunk, **overlap), _PAUSED),
        "conversations": _cases(made(**_ANY, **overlap, rows=st.just(8)), _TALK),
        "events": _cases(made(**_ANY, **overlap, events=st.just(True))),
        "windows": _cases(made(**_ANY, **scheduler.WINDOW, **chunk, **overlap)),
        "windows back": _cases(made(**back, **scheduler.WINDOW, **overlap)),
        "windows retracts": _cases(made(**_ANY, **scheduler.WINDOW, **tight | overlap), _LONG),
        "drafts": _cases(made(**_ANY, **scheduler.DRAFTS, **_ROOM, **chunk, **overlap), _DRAFTED),
        "eagle": _cases(made(**_ANY, **scheduler.EAGLE, **_ROOM, **chunk, **overlap), _DRAFTED),
        "eagle retracts": _cases(made(**_ANY, **scheduler.EAGLE, **scheduler.HOPEFUL, **chunk, **overlap), _DRAFTED),
        "eagle windows": _cases(
            made(**_ANY, **scheduler.EAGLE, **scheduler.WINDOW, **_ROOM, **chunk, **overlap), _DRAFTED
        ),
        "policies": _cases(made(**_ANY, **overlap, **scheduler.ordered())),
        "states": _cases(made(**through, **_STATES, **chunk), _GOES_ON),
        "states selective": _cases(made(**selective, **_STATES, **chunk), _GOES_ON),
        "states back": _cases(made(**back, **_STATES, **chunk), _GOES_ON),
        "states tight": _cases(made(**_ANY, **_TIGHT_STATES, **chunk)),
        "states tight host": _cases(made(**_ANY, **_STATES | _TIGHT_HOST), _GOES_ON),
        "states retracts": _cases(made(**_ANY, **_STATES, **scheduler.HOPEFUL, **chunk), _GOES_ON_LONG),
        "states pauses": _cases(made(**_ANY, **_STATES, **chunk, mixed=st.booleans()), _GOES_ON_PAUSED),
        "windows and states": _cases(made(**_ANY, **scheduler.WINDOW | _STATES | _WIDE, **chunk), _GOES_ON),
        "storage": _cases(made(**through, **_STORAGE, **chunk, **overlap), _STORED).map(_from_below),
        "storage eagle": _cases(
            made(**through, **_STORAGE, **scheduler.EAGLE, **_ROOM, **overlap), _DRAFTED_STORED
        ).map(_from_below),
        "storage tight": _cases(made(**through, **_STORAGE, **overlap, host_pages=st.integers(2, 8)), _STORED),
        "storage any": _cases(made(**_ANY, **_STORAGE, **chunk, **overlap), _STORED),
        "storage retracts": _cases(made(**_ANY, **_STORAGE, **tight | overlap), _STORED_LONG),
        "storage windows": _cases(made(**through, **_STORAGE, **scheduler.WINDOW, **overlap), _STORED).map(_from_below),
        "storage states": _cases(made(**through, **_STORAGE, **_STATES), _GOES_ON_STORED).map(_from_below),
        "storage states any": _cases(made(**_ANY, **_STORAGE, **_STATES, **chunk), _GOES_ON_STORED),
        "storage comes and goes": _cases(made(**through, **_STORAGE, **overlap), _COMES).map(_from_below),
        "storage conversations": _cases(made(**through, **_STORAGE, **overlap, rows=st.just(8)), _TALK_STORED),
    }
    if not has_windows_below(release):
        families = {name: family for name, family in families.items() if "windows" not in name}
    if not has_states_below(release):
        families = {name: family for name, family in families.items() if "states" not in name}
    return families


def traits(release: str) -> Traits:
    """What cases may have that a fault needs."""
    of_scheduler = scheduler.traits(release)
    return Traits(
        (
            operation("copies that end by themselves", "copies"),
            operation("a lost file", "lose"),
            operation("storage that comes and goes", "attach", "detach", "empty"),
            argument("a file that goes bad", "storage", "bad"),
            operation("storage that goes on by itself", "storage", like=STORAGE),
            option(
                "requests that wait for the storage",
                "prefetch",
                has=lambda value: value == "wait_complete",
                like=STORAGE,
            ),
            option(STORAGE, "storage"),
            option("write-back", "write", has=lambda value: value == "write_back"),
            option("selective write-through", "write", has=lambda value: value == "write_through_selective"),
            *of_scheduler.all,
        ),
        _fitting,
        numbers={**of_scheduler.numbers, "host_pages": _SIZES, "host_window_pages": _SIZES, "host_states": _SIZES},
        drained=lambda case: [
            ("round", {"tokens": [0]}), ("copies", {"stores": _ALL, "loads": _ALL}),
            *([("storage", dict.fromkeys(_THREADS, _ALL))] if case.setup.get("storage") else []),
        ],
    )  # fmt: skip


def _fitting(case: Case) -> Case:
    """The case as a release takes it."""
    own = {name: case.setup[name] for name in _OWN if name in case.setup}
    setup = scheduler.sound({name: value for name, value in case.setup.items() if name not in own}) | own
    return case if setup == case.setup else Case(case.level, setup, case.ops)


_OWN = ("write", "host_pages", "host_window_pages", "host_states", "storage", "prefetch")
"""Options beside those of level ``scheduler``."""

_THREADS = ("queries", "writes", "reads", "acks")
"""What threads of a release do for its storage, each so many times."""

_STORAGE: dict[str, st.SearchStrategy[Any]] = {
    "storage": st.sampled_from([1, 1, 4]),
    "prefetch": st.sampled_from(["best_effort", "wait_complete"]),
}

_ROOM = scheduler.HOPEFUL | {"pages": st.integers(14, 30)}

_STATES = scheduler.STATES | {
    "states": st.sampled_from([6, 6, 9, 12]),
    "rows": st.sampled_from([1, 1, 2, 3]),
    "pages": st.integers(20, 28),
    "host_states": st.integers(2, 12),
}
"""A store locks the state that it reads: with as few states as rows need there is soon none left."""

_WIDE = {"window_pages": st.integers(14, 28), "host_window_pages": st.integers(2, 28)}
_TIGHT_STATES = _STATES | {"states": st.sampled_from([3, 6]), "rows": st.just(8)}
_TIGHT_HOST = {"host_pages": st.integers(1, 12), "host_states": st.integers(1, 3)}

_ANY: dict[str, st.SearchStrategy[Any]] = {
    "write": st.sampled_from(["write_through", "write_back", "write_through_selective"])
}


def _from_below(case: Case) -> Case:
    """The case, whose first request was served before and is in the storage alone, where its release has found it.

    Of most it is a prompt that is worth a load in whole pages of any size, all pools have room for it, and who comes
    then goes on behind its end: there a state is of use. Some of these have all that is read before others come.
    """
    first, *rest = case.ops
    again, setup = first, case.setup
    found: list[Op] = [("storage", {"queries": _ALL}), ("round", {"tokens": [0]})]
    if first[0] != "add" or first[1]["most"] % 2 == 0:
        first = ("add", {"runs": [[1, _WORTH]], "most": 1})
        again = ("add", {"keep": _WORTH, "runs": [[2, 1]], "most": 2})
        setup = _with_at_least(2 + -(-_ROOMY // setup["page"]), setup, *_POOLS)
        found += [("storage", dict.fromkeys(_THREADS, _ALL)), ("round", {"tokens": [0]})] * (len(rest) % 2)
    return Case(case.level, setup, [first, ("drain", {}), ("reset", {}), again, *found, *rest])


def _setup(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Setup]:
    usual: dict[str, st.SearchStrategy[Any]] = {
        "pages": st.integers(6, 16),
        "host_pages": st.integers(4, 24),
    }
    if "window" in more:
        usual["host_window_pages"] = st.integers(2, 16)
    return scheduler.setups(**usual | more).map(_roomy)


def _roomy(setup: Setup) -> Setup:
    """Room on the device for what a release finds worth loading, and a token more."""
    return _with_at_least(-(-_ROOMY // setup["page"]), setup, "pages")


def _with_at_least(pages: int, setup: Setup, *pools: str) -> Setup:
    return scheduler.sound({**setup, **{name: max(setup[name], pages) for name in pools if name in setup}})


def _cases(setups: st.SearchStrategy[Setup], plays: "list[Play] | None" = None) -> st.SearchStrategy[Case]:
    return drawn("hicache", setups, plays or _USUAL, most=50)


def _add(a: int, b: int, c: int, d: int) -> Op:
    """A request: what it keeps of an earlier one, two runs of tokens, and how many it wants."""
    kept = (0, 10, 12, 14, 16, 20, 24, 40)[a % 8]
    runs = [[b % 3, b // 3 % (6 if kept else 24)]] + [[c % 3, 1 + c // 3 % 6]] * (c > 60)
    args: dict[str, Any] = {"keep": kept, "like": a // 8, "runs": runs, "most": 1 + d % 6}
    return "add", args | ({"salt": 1} if d > 240 else {})


def _long(a: int, b: int, c: int, d: int) -> Op:
    """A request that wants much."""
    name, args = _add(a, b, c, d)
    return name, {**args, "most": 6 + d % 20}


def _again(a: int, b: int, c: int, d: int) -> Op:
    """A request of its own, or one with all of an earlier one: that one's end is where a state is to go on from."""
    return _add(a // 8 * 8 + 7 * (a % 4 > 0), b, c, d)


def _all_stored(_a: int, _b: int, _c: int, _d: int) -> Op:
    return "copies", {"stores": _ALL}


def _copies(a: int, b: int, _c: int, _d: int) -> Op:
    return "copies", {"stores": (1, 2, 1, _ALL, 0)[a % 5], "loads": (0, 1, 0, _ALL)[b % 4]}


def _storage(a: int, b: int, c: int, d: int) -> Op:
    counts = ((0, 1, 1, 2, _ALL)[x % 5] for x in (a, b, c, d))
    return "storage", dict(zip(_THREADS, counts, strict=True)) | ({"bad": 1} if a > 235 else {})


def _lose(a: int, _b: int, _c: int, _d: int) -> Op:
    return "lose", {"i": a % 8}


_OURS: list[tuple[int, Play]] = [*scheduler.REST, (14, _copies)]
_USUAL = weighted((24, _add), *_OURS)
_LONG = weighted((24, _long), *_OURS)
_STATED: list[tuple[int, Play]] = [*_OURS, (20, _all_stored)]
"""Beside stores that end late: states that they lock are soon too few, and that is where a case ends."""
_GOES_ON = weighted((24, _again), *_STATED)
_GOES_ON_STORED = weighted((24, _again), *_STATED, (16, _storage), (2, _lose))
_GOES_ON_LONG = weighted((18, _again), (6, _long), *_STATED)
_GOES_ON_PAUSED = weighted((24, _again), *_STATED, *scheduler.PAUSES)
_STORED = weighted((24, _add), *_OURS, (16, _storage), (2, _lose))
_STORED_LONG = weighted((24, _long), *_OURS, (16, _storage), (2, _lose))
_VERIFIED: list[tuple[int, Play]] = [*scheduler.VERIFIED, (14, _copies)]
_DRAFTED = weighted((24, _add), *_VERIFIED)
_DRAFTED_STORED = weighted((24, _add), *_VERIFIED, (16, _storage), (2, _lose))
_PAUSED = weighted((24, _add), *_OURS, *scheduler.PAUSES)
_COMES = weighted(
    (16, _add), *_OURS, (16, _storage), (3, lambda *_: ("drain", {})),
    (6, lambda *_: ("detach", {"storage": 1})), (10, lambda *_: ("attach", {"storage": 1})),
    (2, lambda *_: ("empty", {"storage": 1})),
)  # fmt: skip
_TALK_STORED = weighted((6, _add), *_OURS, (8, _storage), (1, _lose), *scheduler.TURNS, *scheduler.TURNS)
_TALK = weighted((16, _add), *_OURS, *scheduler.TURNS)
