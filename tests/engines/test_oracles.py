"""Every oracle is seen to fail once: the toy engine is right, or wrong in one way."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from kvproof.engines.session import Session
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.ghost import Ghost
from kvproof.judge.ghost.requests import NotTold
from kvproof.judge.judging import Judge, faults
from kvproof.judge.oracles.content import ContentOracle
from kvproof.judge.oracles.events import EventsOracle
from kvproof.judge.oracles.flight import FlightOracle
from kvproof.judge.oracles.stored import StoredOracle
from kvproof.judge.oracles.told_blocks import ToldBlocksOracle
from kvproof.judge.record import Answer, Case, Effect, Error, Group, PoolState, State, Step, Tier, World
from kvproof.judge.shapes import problem_of_dialect, problem_of_world
from kvproof.spec.rules import RULES

from .toys import toy

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with toy() as session:
        yield session


Op = tuple[str, dict[str, Any]]


def add(*tokens: int, **more: object) -> Op:
    return "add", {"tokens": list(tokens), **more}


FINISH: Op = ("finish", {"pick": 0})
STORE: Op = ("store", {"pick": 0})
COMPLETE: Op = ("complete", {"pick": 0})
MORE: Op = ("more", {"pick": 0})
EVICT: Op = ("evict", {"pick": 0})
FULL: dict[str, dict[str, Any]] = {"D7": {"window": True}, "O9": {"eager": True}, "registers nothing": {"keep": "all"}}
"""What a setup needs beside the fault, so that it can be seen."""
SHARED = [add(0, 1, 2), FINISH, add(0, 1, 2, 2, 1)]

FAULTS: dict[str, tuple[str, list[Op]]] = {
    "P2": ("P2", SHARED),
    "P4": ("P4", [add(0, 1), FINISH]),
    "P5": ("P5", [add(0, 1, 2)]),
    "P6": ("P6", [add(0, 1, 2), FINISH, add(1, 1, 1, 1, 1, 1, 1), FINISH, add(2, 2, 2, 2, 2, 2, 2, 2)]),
    "P8": ("H8", [add(0, 1, 2), FINISH, add(1, 1, 1, 1, 1, 1), FINISH, add(0, 1, 2, 2, 2, 2, 2, 2)]),
    "P13": ("P13", [add(0, 1, 2, salt="a"), add(0, 1, 2, salt="b")]),
    "P14": ("P14", [add(0, 1), FINISH, add(0, 1)]),
    "P15": ("P15", [add(0, 1)]),
    "counts twice": ("P15", [add(0, 1)]),
    "counts refused": ("P15", [add(0, 1)]),
    "hits of nobody": ("P15", [add(0, 1)]),
    "more hits than queries": ("P15", SHARED),
    "refuses": ("P7", [add(0, 1)]),
    "never hits": ("P14", SHARED),
    "never asks": ("P14", SHARED),
    "truncates": ("P14", SHARED),
    "own last": ("P14", [add(0, 1, 2), FINISH, add(2, 2, 2), FINISH, add(0, 1, 2)]),
    "registers nothing": ("P14", SHARED),
    "D7": ("D7", [add(0, 1, 2, 2, late=True), MORE]),
    "O3": ("O3", [add(0, 1, 2), STORE]),
    "O9": ("O9", [add(0, 1, 2, 2)]),
    "O8": ("O8", [add(0, 1, 2), STORE, FINISH, add(1, 1, 1, 1), FINISH, add(2, 2, 2, 2, 2, 2, 2, 2)]),
    "wrong table": ("P6", [add(0, 1, 2, 2)]),
    "host content": ("P6", [add(0, 1, 2), STORE, COMPLETE]),
    "queued twice": ("P3", [add(0, 1), FINISH]),
    "not queued": ("P3", [add(0, 1), FINISH]),
    "negative": ("P2", [add(0, 1), FINISH]),
    "counter": ("P3", [add(0, 1)]),
    "unreported": ("P12", [add(0, 1, 2)]),
    "parent": ("P12", [add(0, 1, 2)]),
    "removed early": ("P12", [add(0, 1), add(0, 1), EVICT]),
    "leak": ("P2", [add(0, 1), FINISH]),
    "stuck": ("L1", [add(0, 1)]),
    "reset refused": ("L2", [add(0, 1), FINISH]),
    "reset leaves": ("O10", [add(0, 1), add(1, 1)]),
    "reset keeps host": ("O10", [add(0, 1), STORE, COMPLETE, FINISH, ("reset", {"connector": 1})]),
    "refused reset clears": ("O10", [add(0, 1), ("reset", {})]),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed_by_the_rule_it_breaks_and_its_absence_is_silent(session: Session, fault: str) -> None:
    rule, ops = FAULTS[fault]
    setup = FULL.get(fault, {})
    right, answer = verdict(session, close(Case("toy", setup, ops)))
    assert right is None, right
    assert not any(step.error for step in answer.steps)
    wrong, _ = verdict(session, close(Case("toy", {**setup, "fault": fault}, ops)))
    assert wrong is not None
    assert wrong.violation.rule == rule, wrong.violation


@pytest.mark.parametrize("fault", ["never hits", "never asks", "truncates", "own last", "registers nothing"])
def test_without_a_map_to_see_a_short_hit_is_noticed_where_keeping_is_promised(session: Session, fault: str) -> None:
    rule, ops = FAULTS[fault]
    for keep, noticed in (("all", {rule}), (None, set())):
        setup = {"hidden": True, "keep": keep, "fault": fault}
        found, _ = verdict(session, close(Case("toy", setup, ops)))
        assert ({found.violation.rule} if found else set()) == noticed
        right, _ = verdict(session, close(Case("toy", setup | {"fault": None}, ops)))
        assert right is None


def test_every_rule_that_a_violation_names_has_its_sentence() -> None:
    assert {rule for rule, _ in FAULTS.values()} <= set(RULES)


@pytest.mark.parametrize(("notes", "told"), [({}, ["D7"]), ({"dialect": {"reuse": "ordered"}}, [])])
def test_a_block_may_be_free_under_a_pass_where_who_writes_to_it_waits_for_that(
    notes: dict[str, Any], told: list[str]
) -> None:
    world = World([Group("window", 2, 2)], {"device": Tier(3)}, 2, notes=notes)
    assert problem_of_world(world) is None
    assert problem_of_dialect(world) is None
    ghost = Ghost(world)
    for effect in (["request", "r", {"tokens": [0, 1]}], ["table", "r", 0, 0, [1]], ["compute", "r", 0, [0, 1]]):
        assert not [*(ghost.apply(effect) or ())]
    step = Step("process", {}, state=State({"device": PoolState(free=[0, 1, 2])}))
    assert [violation.rule for violation in FlightOracle(world).step(step, ghost)] == told


ENGINE = World([Group("full", 2)], {"device": Tier(3)}, 2)


def told(world: World, *effects: Effect) -> list[tuple[str, str]]:
    """What the ghost has to say of these."""
    ghost = Ghost(world)
    return [(found.rule, found.oracle) for effect in effects for found in ghost.apply(effect) or ()]


def test_a_session_runs_the_tokens_that_are_left_and_those_that_came_and_no_others() -> None:
    session: list[Effect] = [["request", "r", {"tokens": [0, 1]}], ["table", "r", 0, 0, [0, 1]]]
    session += [["compute", "r", 0, [0, 1]], ["append", "r", [2]], ["cut", "r", 2], ["append", "r", [1]]]
    assert told(ENGINE, *session, ["compute", "r", 2, [1]]) == []
    assert told(ENGINE, *session, ["compute", "r", 2, [2]]) == [("P6", "other tokens were run")]
    with pytest.raises(NotTold, match="first 4 tokens are left, and it has 3"):
        told(ENGINE, *session, ["cut", "r", 4])


def test_a_key_of_tokens_that_a_session_gave_up_does_not_name_those_that_came() -> None:
    session: list[Effect] = [["request", "r", {"tokens": [0]}], ["append", "r", [2]], ["keys", "r", 0, [7]]]
    session += [["cut", "r", 1], ["append", "r", [1]]]
    assert told(ENGINE, *session, ["keys", "r", 0, [8]]) == []
    assert told(ENGINE, *session, ["keys", "r", 0, [7]]) == [("P13", "one key, two contents")]


@pytest.mark.parametrize(
    ("notes", "said"), [({}, []), ({"sampled": "processed"}, [("P6", "an answer to other tokens")])]
)
def test_what_is_sampled_behind_other_tokens_is_no_answer(notes: dict[str, Any], said: list[tuple[str, str]]) -> None:
    """A pass that was under way when a session went on brings a token behind what is no more."""
    world = World([Group("full", 2)], {"device": Tier(4)}, 2, notes=notes)
    session: list[Effect] = [["request", "r", {"tokens": [0, 1]}], ["table", "r", 0, 0, [0, 1, 2]]]
    session += [["compute", "r", 0, [0, 1]], ["compute", "r", 2, [2]], ["processed", "r", 2], ["append", "r", [2]]]
    assert told(world, *session, ["processed", "r", 3], ["append", "r", [1]]) == []
    assert told(world, *session, ["preempted", "r"], ["append", "r", [1]]) == []
    session += [["cut", "r", 2], ["append", "r", [0, 0]]]
    assert told(world, *session, ["processed", "r", 3], ["append", "r", [1]]) == said
    ran: Effect = ["compute", "r", 2, [0, 0]]
    assert told(world, *session, ran, ["processed", "r", 3], ["processed", "r", 4], ["append", "r", [1]]) == []


def test_an_item_that_comes_later_stands_where_it_was_told_to() -> None:
    item: list[Effect] = [["request", "r", {"tokens": [0]}], ["append", "r", [3, 3], [[1, 2, "a"]]]]
    other: list[Effect] = [["request", "s", {"tokens": [0]}], ["append", "s", [3, 3]]]
    assert told(ENGINE, *item, ["keys", "r", 0, [7]], *other, ["keys", "s", 0, [7]]) == [
        ("P13", "one key, two contents")
    ]


@pytest.mark.parametrize(("longest", "said"), [(None, []), (3, []), (2, ["a position behind the longest request"])])
def test_nothing_is_computed_behind_the_longest_request(longest: int | None, said: list[str]) -> None:
    world = World([Group("full", 2)], {"device": Tier(3)}, 2, notes={"longest": longest})
    ran: list[Effect] = [["request", "r", {"tokens": [0, 1, 2]}], ["table", "r", 0, 0, [0, 1]]]
    assert problem_of_dialect(world) is None
    assert [oracle for _, oracle in told(world, *ran, ["compute", "r", 0, [0, 1, 2]])] == said


@pytest.mark.parametrize(("running", "waiting", "rules"), [(0, 0, []), (1, 0, ["L2"]), (0, 1, ["L2"])])
def test_nobody_is_in_the_engine_when_all_have_ended(running: int, waiting: int, rules: list[str]) -> None:
    judge = Judge(World([Group("full", 2)], {"device": Tier(3)}, 2))
    state = State({"device": PoolState()}, running=running, waiting=waiting)
    drained = Step("drain", {}, result={"left": 0, "pending": 0}, state=state)
    assert [found.rule for found in judge.step(drained)] == rules


@pytest.mark.parametrize(("tokens", "ends", "rule"), [(2, False, "L2"), (3, False, "P6"), (3, True, "L2")])
def test_who_fails_with_a_request_longer_than_any_fails_for_that(tokens: int, ends: bool, rule: str) -> None:
    judge = Judge(World([Group("full", 2)], {"device": Tier(3)}, 2, notes={"longest": 2}))
    arrives: list[Effect] = [["request", "r", {"tokens": [0] * tokens}], *([["end", "r", "aborted"]] if ends else [])]
    failed = Step("step", {}, error=Error("IndexError", "list index out of range", [("block_pool.py", 329, "cache")]))
    assert [found.rule for found in judge.step(Step("add", {}, effects=arrives)) + judge.step(failed)] == [rule]


@pytest.mark.parametrize(
    ("note", "said", "problem"),
    [
        ("longest", "long", "the longest request is long, and must be a number of tokens"),
        ("encodings", -1, "there is room for encodings of -1, and that must be a number of tokens"),
        ("sampled", "proccessed", "the note sampled is proccessed; what can be said is processed"),
        ("keys", True, "the note keys is True; what can be said is tokens"),
        ("eager", ["host"], "the eager tiers are ['host'], and must be a list of names of tiers"),
        ("eager", "device", "the eager tiers are device, and must be a list of names of tiers"),
        ("parts", ["host"], "the parts tiers are ['host'], and must be a list of names of tiers"),
        ("below", ["host", "storage"], "the below tiers are ['host', 'storage'], and must be a list of names of tiers"),
        ("below", ["device"], "the below tiers are ['device'], and must be two: the upper one and the lower one"),
        ("waits", [10], "what is waited for is [10], and must be two numbers of tokens"),
        ("eager", 5, "the eager tiers are 5, and must be a list of names of tiers"),
        ("sources", ["host", 3], "the sources of hits are ['host', 3], and must be a list of names"),
        ("kept_back", -4, "so many blocks are kept back: -4, and that must be a number of blocks"),
        ("dialect", "head", "the dialect is head, and no object of names"),
    ],
)
def test_a_note_in_words_that_are_none_is_told(note: str, said: Any, problem: str) -> None:
    world = World([Group("full", 2)], {"device": Tier(3)}, 2, notes={note: said})
    assert problem_of_dialect(world) == problem
    [(step, [violation])] = faults(Answer(0, world, [Step("start", {})]))
    assert (step, violation.key, violation.text) == (0, ("garbage", "world"), problem), "nobody is held to it"


def test_every_word_of_a_dialect_that_is_documented_or_judged_can_be_said() -> None:
    page = (ROOT / "docs/protocol.md").read_text().partition('{"dialect": {')[2].partition("}}")[0]
    words = dict(re.findall(r'"(\w+)":\s+([^,}]+)', page))
    judged = "".join(path.read_text() for path in (ROOT / "kvproof/judge").rglob("*.py"))
    assert set(re.findall(r'(?:dialect\.get\(|_tokens_said\(world, )"(\w+)"', judged)) <= set(words)
    assert {"keep", "drop", "leaves", "evicts"} <= set(words)
    for word, values in words.items():
        for value in [2] if values == "tokens" else values.replace('"', "").split("｜"):
            world = World([Group("full", 2)], {"device": Tier(3)}, 2, notes={"dialect": {word: value}})
            assert problem_of_dialect(world) is None


def test_what_is_wrong_with_a_million_blocks_is_told_once() -> None:
    pool = PoolState(ref=[0] * 1_000_000, free=[])
    world = World([Group("full", 2)], {"device": Tier(1_000_000)}, 2, exact=True)
    held = Judge(world).step(Step("start", {}, state=State({"device": pool})))
    assert [found.text for found in held] == ["block 0 (device) has ref_cnt 0 and is not in the free queue"]
    pool = PoolState(ref=[2] * 1_000_000)
    held = Judge(world).step(Step("start", {}, state=State({"device": pool})))
    assert [found.text for found in held] == ["block 0 (device) has ref_cnt 2 and 0 holders"]


@pytest.mark.parametrize(("blocks", "told"), [([0, 1], []), ([0, 2], ["P6"]), ([1], []), ([2, 1], ["P6"])])
def test_under_a_key_of_two_contents_either_may_be_cached_and_nothing_else(blocks: list[int], told: list[str]) -> None:
    ghost, said = Ghost(ENGINE), []
    for block, (r, tokens) in enumerate({"r": [0, 1], "s": [1, 0], "other": [1, 1]}.items()):
        for effect in (["request", r, {"tokens": tokens}], ["table", r, 0, 0, [block]], ["compute", r, 0, tokens]):
            assert not [*(ghost.apply(effect) or ())]
        if r != "other":
            said += [violation.rule for violation in ghost.apply(["keys", r, 0, [7]]) or ()]
    assert said == ["P13"]
    step = Step("step", {}, state=State({"device": PoolState(cached=[(7, 0, blocks)])}))
    assert [violation.rule for violation in ContentOracle(ENGINE).step(step, ghost)] == told


ITEM: list[Effect] = [
    ["request", "r", {"tokens": [0, 0, 0, 0], "items": [[2, 2, "a"]]}],
    ["table", "r", 0, 0, [1]],
    ["encoded", []],
]


@pytest.mark.parametrize(
    ("effects", "told"),
    [
        ([["compute", "r", 0, [0, 0]]], []),
        ([["compute", "r", 0, [0, 0]], ["draft", "r", 2, 0]], ["an item without its encoding"]),
        ([["encoded", ["a"]], ["draft", "r", 2, 0]], []),
        ([["table", "r", 0, 0, [1, 2]], ["compute", "r", 0, [0, 0, 0]]], ["an item without its encoding"]),
        ([["draft", "r", 1, 1]], []),
        ([["draft", "r", 1, 2]], ["a draft without a block"]),
        ([["table", "r", 0, 0, [1, 0]], ["draft", "r", 1, 2]], ["a draft without a block"]),
    ],
)
def test_who_drafts_has_blocks_for_it_and_who_reads_an_item_has_its_encoding(
    effects: list[Effect], told: list[str]
) -> None:
    ghost = Ghost(World([Group("full", 2)], {"device": Tier(3, null=0)}, 2))
    said = [violation.oracle for effect in ITEM + effects for violation in ghost.apply(effect) or ()]
    assert said == told


@pytest.mark.parametrize(
    ("room", "names", "told"),
    [
        (3, ["a"], []),
        (3, ["b"], []),
        (3, ["a", "b"], ["M3"]),
        (5, ["a", "b"], []),
        (3, ["b", "c"], []),
        (None, ["a", "b"], []),
    ],
)
def test_no_more_is_encoded_than_there_is_room_for(room: int | None, names: list[str], told: list[str]) -> None:
    """An item of which two requests say how long it is takes as much as the one that says less."""
    world = World([Group("full", 2)], {"device": Tier(3, null=0)}, 2, notes={} if room is None else {"encodings": room})
    ghost = Ghost(world)
    for r, items in {"r": [[0, 2, "a"], [2, 4, "b"]], "s": [[1, 3, "b"]]}.items():
        assert not [*(ghost.apply(["request", r, {"tokens": [0] * 6, "items": items}]) or ())]
    assert [violation.rule for violation in ghost.apply(["encoded", names]) or ()] == told


def heard(*cached: int, told: list[Any]) -> Step:
    """A step of which this is told, after which these keys are cached, each in a block."""
    pool = PoolState(cached=[(key, 0, [block]) for block, key in enumerate(cached)])
    return Step("step", {}, effects=[*told, ["boundary", "device"]], state=State({"device": pool}))


@pytest.mark.parametrize("group", [0, None])
def test_who_was_told_too_much_is_told_what_goes_also_where_events_name_no_group(group: int | None) -> None:
    """A removal of one copy (B15) left the listener with nothing but what it was shown, and that names a group."""
    listener, ghost = EventsOracle(ENGINE), Ghost(ENGINE)
    assert not [*listener.step(heard(1, told=[["stored", "device", group, [1]]]), ghost)]
    (violation,) = listener.step(heard(1, told=[["removed", "device", group, [1]]]), ghost)
    assert violation.key == ("device", "cached, not reported")
    gone = [["removed", "device", group, [1]], ["stored", "device", group, [2]]]
    assert not [*listener.step(heard(2, told=gone), ghost)]
    (violation,) = listener.step(heard(2, told=[["stored", "device", group, [3]]]), ghost)
    assert violation.key == ("device", "reported, not cached")


def test_a_window_and_a_chunk_that_are_given_up_too_early_show_alike() -> None:
    def shown_by(kind: Literal["window", "chunk"]) -> list[tuple[str, ...]]:
        world = World([Group(kind, 2, 4)], {"device": Tier(9, null=0)}, 2)
        ghost, oracle = Ghost(world), FlightOracle(world)
        effects: list[Effect] = [
            ["request", "r0", {"tokens": [0] * 6}], ["table", "r0", 0, 0, [1, 2, 3]], ["compute", "r0", 0, [0] * 6],
        ]  # fmt: skip
        for effect in effects:
            assert not list(ghost.apply(effect) or ())
        freed = Step("step", {}, effects=[], state=State({"device": PoolState(free=[4, 1])}))
        return [wrong.signature for wrong in oracle.step(freed, ghost)]

    # One count is to blame, whatever it counts for.
    assert shown_by("window") == shown_by("chunk") == [("D7", "freed under a scheduled step")]


def test_a_block_that_is_cached_and_was_never_told_is_no_removal_that_was_told_too_early() -> None:
    """One fault of a release is the second; who took the first for it would hear of no lost event any more."""
    listener, ghost = EventsOracle(ENGINE), Ghost(ENGINE)
    (violation,) = listener.step(heard(1, told=[]), ghost)
    assert violation.key == ("device", "stored, not reported")
    both = listener.step(heard(1, 2, told=[["removed", "device", 0, [1]]]), ghost)
    assert [violation.key[1] for violation in both] == ["cached, not reported", "stored, not reported"]
    assert not [*listener.step(heard(1, 2, 3, told=[["stored", "device", 0, [3]]]), ghost)]
    told = [["removed", "device", 0, [1, 2, 3]], ["stored", "device", 0, [4]], ["removed", "device", 0, [4]]]
    (violation,) = listener.step(heard(4, told=told), ghost)
    assert violation.key == ("device", "cached, not reported")


PROMPT: list[Effect] = [["request", "r", {"tokens": [5, 6, 7, 8, 9]}], ["keys", "r", 0, [0, 1]]]
"""Blocks of two tokens: key 0 names the first of them, key 1 both."""


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        ([[0, 1], None, [5, 6, 7, 8], 2], None),
        ([[1], 0, [7, 8], 2], None),
        ([[1], None, [5, 6, 7, 8], 4], None),
        ([[1], 0], None),
        ([[1], 3, None, 2], None),
        ([[1], 0, [5, 6, 7, 8], 2], ("E3", "how many")),
        ([[], 0, [7, 8], 2], ("E3", "how many")),
        ([[1], 0, [5, 6], 2], ("E3", "which")),
        ([[0, 1], None, [5, 6, 8, 7], 2], ("E3", "which")),
        ([[1], None, [7, 8], 2], ("P12", "another")),
        ([[0], 1, [5, 6], 2], ("P12", "another")),
        ([[1], 1, [7, 8], 2], ("P12", "another")),
        ([[7], 1, [1, 2], 2], None),
    ],
)
def test_an_event_says_of_its_blocks_what_they_are(event: list[Any], wrong: tuple[str, str] | None) -> None:
    told: list[Effect] = [*PROMPT, ["stored", "device", 0, *event]]
    ghost = Ghost(ENGINE)
    assert not [violation for effect in told for violation in ghost.apply(effect) or ()]
    found = [*ToldBlocksOracle(ENGINE).step(Step("step", {}, effects=told), ghost)]
    assert [(violation.rule, violation.key[-1]) for violation in found] == ([wrong] if wrong else [])


@pytest.mark.parametrize(("between", "told"), [([], ["a state of the same step"]), ([["batch", "begin"]], [])])
def test_a_state_is_not_taken_in_the_step_that_leaves_it(between: list[Effect], told: list[str]) -> None:
    ghost = Ghost(World([Group("mamba", 2)], {"device": Tier(5, null=0)}, 2))
    effects: list[Effect] = [
        ["request", "r0", {"tokens": [1, 1, 1]}], ["request", "r1", {"tokens": [1, 1, 1]}], ["batch", "begin"],
        ["state", "r0", 0, None, [[1, 2]]], ["compute", "r0", 0, [1, 1]], *between,
        ["state", "r1", 0, 1, [[2, 3]]], ["compute", "r1", 2, [1]],
    ]  # fmt: skip
    assert [violation.oracle for effect in effects for violation in ghost.apply(effect) or ()] == told
    own: list[Effect] = [["state", "r1", 0, 2, [[2, 3]]], ["compute", "r1", 2, [1]]]
    assert "a state of the same step" not in [v.oracle for effect in own for v in ghost.apply(effect) or ()]


def test_who_is_said_to_have_computed_more_than_it_has_keys_is_judged_by_these() -> None:
    """As a session is whose drafts were accepted behind the end of its answer: no oracle looks for further keys."""
    world = World([Group("full", 2)], {"device": Tier(4), "host": Tier(4)}, 2, notes={"eager": ["host"]})
    effects: list[Effect] = [
        ["request", "r0", {"tokens": [0, 1, 2]}],
        ["keys", "r0", 0, [7]],
        ["processed", "r0", 4],
        ["end", "r0", "finished"],
    ]
    ghost = Ghost(world)
    for effect in effects:
        assert not [*(ghost.apply(effect) or ())]

    def rules(on_host: list[tuple[int, int, list[int]]]) -> list[str]:
        state = State({"device": PoolState(cached=[(7, 0, [0])]), "host": PoolState(cached=on_host)})
        step = Step("drain", {}, result={"left": 0, "pending": 0}, effects=effects, state=state)
        return [violation.rule for violation in StoredOracle(world).step(step, ghost)]

    assert rules([]) == ["O9"]
    assert rules([(7, 0, [0])]) == []
    # Its block 0 was cached for somebody else: a copy that nobody cached need not be stored.
    effects.insert(2, ["table", "r0", 0, 0, [1]])
    assert rules([]) == []
    effects[2][4] = [0]
    assert rules([]) == ["O9"]
    listener = EventsOracle(world)
    stored: list[Effect] = [["stored", "device", 0, [7]], ["boundary", "device"]]
    found: list[Effect] = [["lookup", "r0", 4, 0, 4]]
    for told in (stored, found):
        step = Step("step", {}, effects=told, state=State({"device": PoolState()}))
        assert not [*listener.step(step, ghost)]


@pytest.mark.parametrize(
    ("tier", "tokens", "size", "further", "told"),
    [
        ("host", [0, 1], 2, ["salt"], []),
        ("host", [0, 1], 2, [""], [("E3", ("two tiers",))]),
        ("device", [0, 1], 2, ["item"], [("E3", ("one tier",))]),
        ("device", [1], 1, [""], []),  # The block of the same key in another group, which begins behind the salt.
        ("host", None, None, None, []),
        ("host", [0, 1], 2, None, []),
        ("host", [0, 1, 0, 1], 2, ["", ""], [("E3", ("how many",))]),
    ],
)
def test_events_tell_one_thing_of_what_a_key_is_made_of(
    tier: str, tokens: list[int] | None, size: int | None, further: list[str] | None, told: list[tuple[str, object]]
) -> None:
    world = World([Group("full", 2)], {"device": Tier(3), "host": Tier(3)}, 1)
    ghost, listener = Ghost(world), ToldBlocksOracle(world)
    for effect in (["request", "r", {"tokens": [0, 1], "salt": "salt"}], ["keys", "r", 0, [6, 7]]):
        assert not [*(ghost.apply(effect) or ())]
    first: Effect = ["stored", "device", 0, [7], None, [0, 1], 2, ["salt"]]
    assert not [*listener.step(Step("step", {}, effects=[first]), ghost)]
    again: Effect = ["stored", tier, 0, [7], None if size == 2 else 6, tokens, size, further]
    assert [(wrong.rule, wrong.key) for wrong in listener.step(Step("step", {}, effects=[again]), ghost)] == told
