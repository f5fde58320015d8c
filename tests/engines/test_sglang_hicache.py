"""SGLang's host tier: what its level tells of a release, and that oracles see the release broken in one way."""

from typing import Any

import pytest
from hypothesis import given, settings

from kvproof.engines.sglang.levels import hicache
from kvproof.engines.verdicts import close
from kvproof.judge.record import Answer, Case

from .test_sglang_scheduler import (
    DRIVEN,
    NEWEST,
    QUICK,
    Answers,
    Op,
    add,
    answers,
    broken,
    effects,
    judged,
    rounds,
    unlisted,
)

WITH_WINDOWS = DRIVEN[:-1]
WITH_STATES = DRIVEN[:-2]

SETUP = {"page": 4, "pages": 8, "host_pages": 12}
BACK = {**SETUP, "write": "write_back"}
STORED: Op = ("copies", {"stores": 9})
FIRST = [add([1, 20]), *rounds(0), STORED, *rounds(0)]
"""A request leaves five pages, and they are on the host."""
PUSHED = [*FIRST, add([2, 24]), *rounds(0)]
"""Another one takes their place on the device."""
BEHIND = [*PUSHED, STORED, *rounds(0), add([1, 20], [2, 3], most=2), *rounds(0)]
"""A third one begins with them."""


@pytest.fixture(scope="module", params=DRIVEN)
def answer(request: pytest.FixtureRequest) -> Answers:
    """What a release does, which breaks no rule."""
    return answers("hicache", request.param)


@pytest.fixture(scope="module", params=WITH_WINDOWS)
def with_windows(request: pytest.FixtureRequest) -> Answers:
    """What a release does that is driven with windows over a host, which breaks no rule."""
    return answers("hicache", request.param)


@pytest.fixture(scope="module", params=WITH_STATES)
def with_states(request: pytest.FixtureRequest) -> Answers:
    """What a release does that is driven with states over a host, which breaks no rule."""
    return answers("hicache", request.param)


def pairs(told: Answer, number: int) -> list[list[Any]]:
    return next(where for n, phase, where in effects(told, "copy") if n == number and phase == "begin")


def test_what_is_checked_in_is_stored_and_locked_until_it_is(answer: Answers) -> None:
    told = answer(SETUP, add([1, 20]), *rounds(0, 0), STORED, *rounds(0))
    assert pairs(told, 1) == [["device", 1 + n, "host", n] for n in range(5)]
    held, free = told.steps[2].state, told.steps[4].state
    assert held is not None
    assert free is not None
    assert held.tree is not None
    assert list(held.tree.locks.values()) == [0]
    assert held.pools["host"].cached == []
    assert [key for key, _, _ in free.pools["host"].cached or ()] == [0, 1, 2, 3, 4]


def test_what_was_given_up_is_loaded_before_the_pass_that_reads_it(answer: Answers) -> None:
    told = answer(SETUP, *BEHIND)
    assert pairs(told, 3) == [["host", n, "device", 1 + n] for n in range(5)]
    kinds = [effect[0] for effect in told.steps[-3].effects]
    assert kinds.index("copy") < kinds.index("compute")
    assert effects(told, "found", "r002")[0][2] == 20


def test_written_back_is_what_must_go(answer: Answers) -> None:
    told = answer(BACK, add([1, 20]), *rounds(0, 0), add([2, 24]), *rounds(0))
    assert not any(effect[0] == "copy" for step in told.steps[:4] for effect in step.effects)
    assert [effect[:3] for effect in told.steps[4].effects[:3] if effect[0] == "copy"] == [
        ["copy", 1, "begin"],
        ["copy", 1, "end"],
    ]


STATED = {"page": 1, "pages": 28, "states": 6, "rows": 2, "host_pages": 48, "host_states": 16}
WITH_STATE = [add([1, 10]), *rounds(0), STORED, *rounds(0)]
"""A request leaves ten tokens and the state behind them, and they are on the host."""
REST_PUSHED = [op for run in ([2, 11], [0, 12]) for op in (add(run), *rounds(0), STORED, *rounds(0))]
STATE_PUSHED = [*WITH_STATE, *REST_PUSHED]
"""Two others take their place on the device."""
STATE_BEHIND = [*STATE_PUSHED, add([1, 10], [2, 3], most=2), *rounds(0)]


@pytest.mark.parametrize("write", ["write_through", "write_back"])
def test_a_state_comes_back_to_its_node_and_to_who_goes_on_from_it(with_states: Answers, write: str) -> None:
    told = with_states({**STATED, "write": write}, *STATE_BEHIND)
    load = next(pairs for _, phase, pairs in effects(told, "copy") if phase == "begin" and pairs[0][0] == "host")
    _, _, own, left = effects(told, "state", "r003")[0]
    assert left == [[own, 13]]
    (place,) = (pair[1] for pair in load if pair[3] == own)
    assert len({pair[3] for pair in load if pair[1] == place}) == 2


WINDOWED = {**SETUP, "window": 5, "window_pages": 8, "window_interval": 4, "host_window_pages": 12}

WAITS = {"storage": 1, "prefetch": "wait_complete"}
KEPT = {**SETUP, **WAITS}
ALL: Op = ("storage", dict.fromkeys(("queries", "writes", "reads", "acks"), 9))
ON_HOST = [add([1, 20]), ALL, *rounds(0), STORED, *rounds(0)]
"""A request for which there is nothing yet leaves five pages, and they are on the host."""
WRITTEN = [*ON_HOST, ALL, *rounds(0), ("reset", {})]
"""Five pages are in the storage, and nowhere else."""
ASKED = [*WRITTEN, add([1, 20], [2, 3], most=2), ("storage", {"queries": 9}), *rounds(0)]
"""A request waits for them."""
READ: Op = ("storage", {"reads": 9, "acks": 9})


def copied(told: Answer, tier: str) -> list[list[Any]]:
    return [pair for (pairs,) in effects(told, "copied") for pair in pairs if pair[0] == tier]


def test_what_is_on_the_host_is_written_to_the_storage_and_read_back_for_who_waits(answer: Answers) -> None:
    told = answer(KEPT, *ASKED, READ, *rounds(0, 0))
    assert copied(told, "host")[:5] == [["host", n, "storage", n] for n in range(5)]
    assert copied(told, "storage") == [["storage", n, "host", n] for n in range(5)]
    waits, read = told.steps[len(ASKED) - 1].state, told.steps[len(ASKED) + 1].state
    assert waits is not None
    assert read is not None
    assert (waits.waiting, waits.holds) == (1, {"host": [0, 1, 2, 3, 4]})
    assert (read.waiting, read.holds) == (0, {"host": []})
    assert effects(told, "found", "r001")[-1][2] == 20


def test_a_state_goes_to_the_storage_and_comes_from_it(with_states: Answers) -> None:
    first: list[Op] = [add([1, 10]), ALL, *rounds(0), STORED, *rounds(0), ALL, *rounds(0), ("reset", {})]
    asked: list[Op] = [add([1, 10], [2, 3], most=2), ("storage", {"queries": 9}), *rounds(0)]
    told = with_states({**STATED, "storage": 1, "prefetch": "wait_complete"}, *first, *asked, READ, *rounds(0, 0))
    state = STATED["host_pages"]
    ((_, _, _, place),) = (pair for pair in copied(told, "host") if pair[1] == state)
    assert ["storage", place, "host", state] in copied(told, "storage")
    reading = told.steps[len(first) + 2].state
    assert reading is not None
    assert reading.holds == {"host": [*range(10), state]}
    assert effects(told, "found", "r001")[-1][2] == 10


def test_where_a_drafter_has_layers_the_last_page_has_no_key_yet(answer: Answers) -> None:
    """What stands behind it is not known: of five pages four are stored, written and read back."""
    told = answer({**KEPT, "pages": 16, "drafts": 3, "drafter": "eagle"}, *ASKED, READ, *rounds(0, 0))
    assert copied(told, "host")[:4] == [["host", n, "storage", n] for n in range(4)]
    assert copied(told, "storage") == [["storage", n, "host", n] for n in range(4)]
    assert effects(told, "found", "r001")[-1][2] == 16


def test_who_does_not_wait_gives_back_what_was_to_be_read(answer: Answers) -> None:
    told = answer({**KEPT, "prefetch": "best_effort"}, *ASKED, READ, *rounds(0, 0))
    assert copied(told, "storage") == []
    assert effects(told, "found", "r001")[-1][2] == 0


@pytest.mark.parametrize(
    "ops",
    [
        [*WRITTEN, ("lose", {"i": 2}), add([1, 20], [2, 3], most=2), ALL, *rounds(0)],
        [*ASKED, ("lose", {"i": 3}), READ, *rounds(0)],
        [*ASKED, ("storage", {"reads": 1, "bad": 1}), *rounds(0), READ, *rounds(0)],
        [*ASKED, ("abort", {"i": 0}), *rounds(0), READ, *rounds(0)],
        [*ASKED, ("storage", {"reads": 1}), ("abort", {"i": 0}), *rounds(0), READ, *rounds(0)],
        [*ON_HOST, ("storage", {"writes": 1, "bad": 1}), *rounds(0)],
    ],
    ids=["lost", "lost under a read", "bad read", "abort before the read", "abort behind the read", "bad write"],
)
@pytest.mark.parametrize("prefetch", ["wait_complete", "best_effort"])
def test_nothing_is_lost_where_the_storage_fails_or_a_client_goes(
    answer: Answers, ops: list[Op], prefetch: str
) -> None:
    told = answer({**KEPT, "prefetch": prefetch}, *ops)
    assert told.steps[-2].result["left"] == told.steps[-2].result["pending"] == 0


def test_a_storage_that_comes_back_has_its_files(answer: Answers) -> None:
    away: list[Op] = [("detach", {}), add([1, 20], [2, 3]), *rounds(0, 0), ("drain", {}), ("reset", {}), ("attach", {})]
    told = answer(KEPT, *WRITTEN, *away, *ASKED[len(WRITTEN) :], READ, *rounds(0, 0))
    assert [step.result for step in told.steps if step.op in ("detach", "attach")] == [True, True]
    assert len(copied(told, "storage")) == 5
    emptied = answer(KEPT, *WRITTEN, ("empty", {}), *ASKED[len(WRITTEN) :], READ, *rounds(0, 0))
    assert copied(emptied, "storage") == []


def test_a_storage_that_goes_takes_pages_along_that_are_read_for_nobody() -> None:
    """Finding 79."""
    served = [*ASKED, *rounds(0, 0), STORED, *rounds(0), ("storage", {"writes": 9}), *rounds(0), ("detach", {})]
    found, _ = judged(close(Case("hicache", {**KEPT, "prefetch": "best_effort"}, served)))
    assert found is not None
    assert (found.violation.rule, found.violation.oracle) == ("R2", "a page that is nobody's")


FOUND: list[Op] = [("storage", {"queries": 9}), *rounds(0), READ, *rounds(0)]
BELOW = [add([1, 20]), ("drain", {}), ("reset", {}), add([1, 20], [2, 3]), *FOUND]
"""A request is served again when what it left is in the storage alone."""
BELOW_STATE = [add([1, 10]), ("drain", {}), ("reset", {}), add([1, 10], [2, 3]), *FOUND]


def left(*runs: list[int]) -> list[Op]:
    """Requests leave these tokens, one after the other, and they are on the host."""
    return [op for run in runs for op in (add(run), *rounds(0), STORED, *rounds(0))]


SMALL = {**SETUP, "host_pages": 6}
CROWDED = left([0, 8], [1, 8], [2, 8], [0, 9], [1, 16], [2, 20])
"""The host has room for no more than three of them: what comes later takes the place of what came before."""
HELD = [*ON_HOST, add([2, 24]), ("storage", {"queries": 9}), *rounds(0, 0), STORED, *rounds(0, 0)]
"""The host has no room for the second request but in the place of the first, which the storage is still to read."""


FAULTS: dict[str, tuple[dict[str, Any], list[Op], tuple[str, str]]] = {
    "early ack": (SETUP, [add([1, 20]), *rounds(0)], ("P6", "content of a cached block")),
    "no wait": (SETUP, BEHIND, ("P6", "a lookup handed out")),
    "host leak": ({**SETUP, "host_pages": 6}, [*PUSHED, STORED, *rounds(0)], ("R2", "a page that is nobody's")),
    "crossed copies": (SETUP, FIRST, ("P6", "content of a cached block")),
    "forgotten copy": (SETUP, PUSHED, ("R10", "a node that is nowhere")),
    "lost load": (SETUP, BEHIND, ("L2", "locked for ever")),
    "lost anchor": (SETUP, BEHIND, ("R3", "locks on the host")),
    "unloaded state": (STATED, STATE_BEHIND, ("P6", "a state was taken")),
    "unstored state": (STATED, WITH_STATE, ("O9", "stored without its parts")),
    "unstored window": (WINDOWED, FIRST, ("O9", "stored without its parts")),
    "unwritten": (KEPT, ON_HOST, ("O9", "not handed on to the tier below")),
    "unwritten state": ({**STATED, "storage": 1}, WITH_STATE, ("O9", "not handed on to the tier below")),
    "unwritten window": ({**WINDOWED, "storage": 1}, FIRST, ("O9", "not handed on to the tier below")),
    "unread": (KEPT, BELOW, ("O6", "what the tier below has is not found")),
    "unread state": ({**STATED, **WAITS}, BELOW_STATE, ("O6", "what the tier below has is not found")),
    "unread window": ({**WINDOWED, **WAITS}, BELOW, ("O6", "what the tier below has is not found")),
    "takes too much": (
        {**BACK, "host_pages": 8}, left([0, 8], [1, 8], [2, 24], [0, 17]), ("R6", "evicts too much"),
    ),
    "stops early": (SMALL, CROWDED, ("R6", "an eviction that stops early")),
    "tells less": (SMALL, CROWDED, ("R6", "what an eviction says")),
    "unlisted state": ({**STATED, "host_states": 2}, STATE_BEHIND, ("R6", "an eviction that stops early")),
    "unlisted window": (
        {**WINDOWED, "host_window_pages": 4}, left([0, 20], [1, 20]), ("R6", "an eviction that stops early"),
    ),
    "takes what is held": ({**KEPT, "host_pages": 6}, HELD, ("R6", "evicts what is in use")),
    "hasty state": (
        STATED,
        [*STATE_PUSHED, add([1, 10], [2, 3], most=2), add([1, 10], [0, 3], most=2), *rounds(0)],
        ("P6", "a state was taken"),
    ),
    "state of a half": (
        STATED,
        [*WITH_STATE, add([1, 5], [2, 3]), *rounds(0, 0), STORED, *rounds(0)],
        ("P6", "a state was taken"),
    ),
    "state freed twice": ({**STATED, "host_states": 2}, STATE_BEHIND, ("R2", "a page in two places")),
    "kept state": ({**STATED, "host_states": 2}, STATE_BEHIND, ("R2", "a page that is nobody's")),
    "state left locked": (STATED, STATE_BEHIND, ("R9", "lock_ref and locks")),
    "state left anchored": (STATED, STATE_BEHIND, ("R3", "locks on the host")),
    "kept tail": (KEPT, [*ASKED, ("abort", {"i": 0}), *rounds(0), READ], ("R2", "a page that is nobody's")),
    "crossed reads": (KEPT, [*ASKED, READ, *rounds(0)], ("P6", "a lookup handed out")),
    "freed under a read": (KEPT, [*ASKED, ("abort", {"i": 0}), *rounds(0), READ], ("R2", "a page in two places")),
    "unheld write": (KEPT, [*ON_HOST, ALL, *rounds(0)], ("R3", "locks on the host")),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str) -> None:
    setup, ops, expected = FAULTS[fault]
    assert judged(close(Case("hicache", setup, ops)))[0] is None
    found, _ = judged(close(Case("hicache", {**setup, "fault": fault}, ops)))
    assert found is not None
    assert (found.violation.rule, found.violation.oracle) == expected, found.violation


@pytest.mark.parametrize(
    "setup",
    [{**KEPT, "prefetch": "timeout"}, {**SETUP, "host_pages": 0}, {**SETUP, "states": 3}, {**SETUP, "write": "never"}],
)
def test_a_setup_that_no_server_would_start_with_is_refused(setup: dict[str, Any]) -> None:
    assert broken(NEWEST).run(Case("hicache", setup, [])).answer.refused is not None


@pytest.mark.parametrize(
    ("release", "kind", "setup"),
    [
        (DRIVEN[-1], "windows", {**SETUP, "window": 1, "window_pages": 6}),
        (DRIVEN[-1], "states", STATED),
        (DRIVEN[-2], "states", STATED),
    ],
)
def test_what_is_not_driven_over_a_host_of_a_release_is_refused(release: str, kind: str, setup: dict[str, Any]) -> None:
    assert not any(kind in name for name in hicache.profiles(release))
    assert broken(release).run(Case("hicache", setup, [])).answer.refused is not None


def test_a_window_that_is_stored_is_no_prefix_that_is_stored() -> None:
    """Finding 38: the events say so of the nodes above a leaf that is written back."""
    setup = {**BACK, "page": 2, "pages": 9, "window": 5, "window_pages": 9, "window_interval": 4, "events": True}
    ops = [add([0, 10], most=8), add([0, 1], [2, 2]), *rounds(*[0] * 6)]
    found, _ = judged(close(Case("hicache", setup, ops)))
    assert found is not None
    assert (found.violation.rule, found.violation.key) == ("P12", ("host", "reported, not cached"))


def test_a_window_that_is_stored_once_more_leaves_what_is_on_the_host_there(with_windows: Answers) -> None:
    """It was told as not cached (P12), as its node has a store under way."""
    window = {"window": 1, "window_pages": 6, "window_interval": 1, "host_window_pages": 14}
    setup = {"page": 1, "pages": 11, "host_pages": 16, "events": True, **window}
    again = [add([1, 2], keep=2, most=2), add([0, 1], keep=1), *rounds(0), ("copies", {"stores": 1}), *rounds(0)]
    with_windows(setup, add([1, 2], most=0), *rounds(0), STORED, *rounds(0), ("reset", {}), *again)


def test_what_is_loaded_of_the_window_alone_holds_that_alone(with_windows: Answers) -> None:
    """It was told as a lock that is missing (R3): its node came to the host behind the load."""
    window = {"window": 7, "window_pages": 9, "window_interval": 1, "host_window_pages": 8}
    setup = {"page": 2, "pages": 11, "host_pages": 24, "storage": 4, "prefetch": "wait_complete", **window}
    asked: Op = ("storage", {"queries": 3})
    written: list[Op] = [asked, *rounds(0), STORED, *rounds(0), ("storage", {"writes": 3}), *rounds(0), ("reset", {})]
    others = [add([2, 6], keep=7, most=0), add([0, 4], keep=10, like=1, most=2)]
    read: list[Op] = [("storage", {"reads": 1, "acks": 1}), *rounds(0), ("storage", {"acks": 2}), *rounds(0)]
    told = with_windows(
        setup, add([2, 3], [2, 5], most=0), *written, add([2, 3], [2, 5], keep=5, most=0), asked, *others,
        *rounds(0), *read,
    )  # fmt: skip
    assert any(pair[0] == "host" for _, _, pairs in effects(told, "copy") for pair in pairs)


@pytest.mark.parametrize("profile", hicache.profiles(NEWEST))
def test_generated_calls_break_no_rule_but_as_is_told(profile: str) -> None:
    """What is found where the pool of a window is tight, of its events, and of write-back and conversations over a
    storage, docs/findings.md tells."""

    @settings(QUICK, max_examples=6)
    @given(hicache.profiles(NEWEST)[profile])
    def silent(case: Case) -> None:
        assert unlisted(close(case)) is None

    silent()
