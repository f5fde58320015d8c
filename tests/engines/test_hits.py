"""P14 from below: how much a lookup must find, by hand: windows, chunks, states, limits, and what excuses less."""

from typing import Any

import pytest

from kvproof.judge.ghost import Ghost
from kvproof.judge.judging import Judge
from kvproof.judge.oracles.hits import HitsOracle
from kvproof.judge.record import Effect, Group, PoolState, State, Step, Tier, World
from kvproof.judge.violation import Violation, of_key, of_request

FULL = Group("full", 2)
TOKENS = [0, 1, 2, 0, 1, 2, 0, 1, 2]
"""Nine: a lookup may find eight of them, four blocks of two."""

Cached = dict[tuple[int, int], list[int]]
"""Blocks by key and group."""


def world(*groups: Group, **dialect: Any) -> World:
    return World([*groups], {"device": Tier(40, null=0), "host": Tier(9)}, 2, notes={"dialect": dialect})


def state(cached: Cached) -> State:
    return State({"device": PoolState(cached=[(k, g, blocks) for (k, g), blocks in cached.items()])})


def judged(world: World, *steps: Step) -> list[Violation]:
    """What the oracle says of these steps."""
    oracle, ghost = HitsOracle(world), Ghost(world)
    found: list[Violation] = []
    for step in steps:
        for effect in step.effects:
            list(ghost.apply(effect) or ())
        found += oracle.step(step, ghost)
    return found


def arrives(tokens: list[int] = TOKENS, r: str = "r0", **more: Any) -> list[Effect]:
    """A request with keys 0, 1, 2, ... for its prefixes: the keys of all requests whose tokens are these."""
    return [["request", r, {"tokens": tokens, **more}], ["keys", r, 0, [*range(len(tokens) // 2)]]]


def looked_up(world: World, cached: Cached, found: int, tokens: list[int] = TOKENS, **more: Any) -> list[Violation]:
    """A lookup that finds so much, where this was cached before and after it."""
    lookup: Effect = ["lookup", "r0", found, 0, len(tokens) - 1]
    first = Step("first", {}, state=state(cached))
    return judged(world, first, Step("start", {}, effects=[*arrives(tokens, **more), lookup], state=state(cached)))


def entries(*blocks: int, g: int = 0) -> Cached:
    """The request's blocks of these numbers, in a group."""
    return {(i, g): [1 + i + 10 * g] for i in blocks}


WINDOW, CHUNK, MAMBA = Group("window", 2, 4), Group("chunk", 2, 4), Group("mamba", 2)
LARGE = Group("full", 4)

CASES: dict[str, tuple[World, Cached, int]] = {
    "a run of blocks": (world(FULL), entries(0, 1, 2), 6),
    "up to the last token": (world(FULL), entries(0, 1, 2, 3), 8),
    "up to the last but one, where it leaves two": (world(FULL, leaves=2), entries(0, 1, 2, 3), 6),
    "a gap ends it": (world(FULL), entries(0, 2, 3), 2),
    "nothing": (world(FULL), {}, 0),
    "a window needs what it sees": (world(WINDOW), entries(2, 3), 8),
    "of a window, the start": (world(WINDOW), entries(0, 3), 2),
    "a chunk needs its own": (world(CHUNK), entries(2), 8),
    "a state": (world(MAMBA), entries(1), 4),
    "all groups agree": (world(FULL, WINDOW), entries(0, 1, 2, 3) | entries(0, 1, g=1), 4),
    "a state beside blocks": (world(FULL, MAMBA), entries(0, 1, 2) | entries(1, 3, g=1), 4),
    "whole blocks of all": (world(FULL, LARGE), entries(0, 1, 2) | {(1, 1): [11], (3, 1): [12]}, 4),
    "a part of a block": (world(LARGE), {(1, 0): [1], (2, 0): [2]}, 6),
    "no part where all before it is not there": (world(LARGE), {(2, 0): [2]}, 0),
    "a state within a block": (world(LARGE, Group("mamba", 4)), {(1, 0): [1], (2, 0): [2], (2, 1): [12]}, 6),
    "no part where blocks are of several sizes": (
        world(FULL, LARGE),
        entries(0, 1, 2) | {(1, 1): [11], (2, 1): [12]},
        4,
    ),
    "what a drafter gives up": (world(FULL, drop=2), entries(0, 1, 2), 4),
    "and no more than there is": (world(FULL, drop=2), entries(0), 0),
}
"""What is cached of nine tokens in blocks of two, and how much of that must be found."""


@pytest.mark.parametrize("name", CASES)
def test_a_lookup_finds_what_is_there_and_one_block_less_is_noticed(name: str) -> None:
    world, cached, most = CASES[name]
    assert looked_up(world, cached, most) == []
    if most:
        (found,) = looked_up(world, cached, most - min(most, max(group.block for group in world.groups)))
        assert (found.rule, found.oracle) == ("P14", "a shorter hit than what is cached")
        assert f"the first {most} tokens of r0 are cached" in found.text


@pytest.mark.parametrize(("group", "key"), [(FULL, 1), (WINDOW, 3)])
def test_with_a_shorter_hit_it_is_told_what_was_missed(group: Group, key: int) -> None:
    """The first block behind what was found; of a window, which may have given up that one, the last."""
    (found,) = looked_up(world(group), entries(0, 1, 2, 3), 2)
    assert found.about == (of_request("r0"), of_key(key))


@pytest.mark.parametrize(("local", "external", "told"), [(4, 4, 0), (4, 3, 0), (4, 2, 1), (4, 0, 1), (0, 8, 1)])
def test_a_part_of_a_block_may_be_given_up_for_more_that_comes_from_elsewhere(
    local: int, external: int, told: int
) -> None:
    """Of six tokens that are cached two stand in a block that a load fills as a whole; it has to bring more."""
    here, cached = world(LARGE), {(1, 0): [1], (2, 0): [2]}
    first, lookup = Step("first", {}, state=state(cached)), ["lookup", "r0", local, external, 8]
    found = judged(here, first, Step("start", {}, effects=[*arrives(), lookup], state=state(cached)))
    assert len(found) == told


def test_the_last_token_is_never_asked_for() -> None:
    assert looked_up(world(FULL), entries(0, 1), 2, tokens=TOKENS[:4]) == []
    assert looked_up(world(FULL), entries(0, 1), 2, tokens=TOKENS[:5]) != []


CUT: list[Effect] = [["cut", "r0", 5], ["append", "r0", [2]], ["keys", "r0", 0, [0, 1, 9]]]
"""A session gives up all but its first five tokens, and goes on with another one: its third block has another key."""


@pytest.mark.parametrize(("found", "told"), [(4, 0), (2, 1)])
def test_of_a_session_that_goes_on_otherwise_what_it_still_is_must_be_found(found: int, told: int) -> None:
    cached, lookup = entries(0, 1, 2, 3), ["lookup", "r0", found, 0, 5]
    start = Step("start", {}, effects=[*arrives(), *CUT, lookup], state=state(cached))
    assert len(judged(world(FULL), Step("first", {}, state=state(cached)), start)) == told


@pytest.mark.parametrize(("cut", "told"), [([], 1), ([["cut", "r0", 3]], 0)])
def test_what_was_under_way_behind_a_cut_need_not_be_found_again(cut: list[Effect], told: int) -> None:
    run: list[Effect] = [["table", "r0", 0, 0, [1, 2]], ["compute", "r0", 0, [0, 1, 2, 0]], *cut]
    again: list[Effect] = [["append", "r0", [0]], ["processed", "r0", 4], ["end", "r0", "finished"]]
    first = Step("start", {}, effects=[["request", "r0", {"tokens": TOKENS[:4]}], *run, *again])
    found = judged(
        world(FULL, keep="all"), first, Step("ask", {}, effects=[*arrives(r="r1"), ["lookup", "r1", 2, 0, 8]])
    )
    assert len(found) == told


@pytest.mark.parametrize(("keep", "found", "told"), [("all", 2, 1), ("tree", 2, 0), ("tree", 0, 1)])
def test_in_a_tree_what_stands_behind_a_block_that_has_gone_need_not_come_back(
    keep: str, found: int, told: int
) -> None:
    def done(r: str, tokens: list[int], *blocks: int) -> list[Effect]:
        run: list[Effect] = [["table", r, 0, 0, [*blocks]], ["compute", r, 0, tokens], ["processed", r, len(tokens)]]
        return [["request", r, {"tokens": tokens}], *run, ["end", r, "finished"]]

    both, other, again = done("r0", TOKENS[:4], 1, 2), done("r1", [2, 2], 1), done("r2", TOKENS[:2], 3)
    asks: list[Effect] = [*arrives(r="r3"), ["lookup", "r3", found, 0, 8]]
    steps = [Step("start", {}, effects=effects) for effects in (both, other, again, asks)]
    assert len(judged(world(FULL, keep=keep), *steps)) == told


def test_a_request_that_asked_for_no_hit_gets_none() -> None:
    assert looked_up(world(FULL), entries(0, 1), 0) != []
    assert looked_up(world(FULL), entries(0, 1), 0, skip=True) == []


@pytest.mark.parametrize("r", ["r0", "r1"])
def test_what_is_cached_under_a_key_of_two_tenants_may_be_the_others(r: str) -> None:
    cached, lookup = entries(0, 1), ["lookup", r, 0, 0, 8]
    others: list[tuple[dict[str, Any], int]] = [({"salt": "a"}, 0), ({}, 1)]
    for other, found in others:
        steps = [
            Step("first", {}, effects=arrives(), state=state(cached)),
            Step("second", {}, effects=[*arrives(r="r1", **other), lookup], state=state(cached)),
        ]
        assert len(judged(world(FULL), *steps)) == found


def test_keys_that_came_behind_the_lookup_were_not_there() -> None:
    cached = entries(0, 1, 2)
    told: list[Effect] = [["request", "r0", {"tokens": TOKENS}], ["keys", "r0", 0, [0]], ["lookup", "r0", 2, 0, 8]]
    first = Step("first", {}, state=state(cached))
    assert judged(world(FULL), first, Step("start", {}, effects=[*told, ["keys", "r0", 1, [1, 2]]])) == []
    assert judged(world(FULL), first, Step("start", {}, effects=[told[0], ["keys", "r0", 0, [0, 1]], told[2]])) != []


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ({(0, 0): [1]}, {}, []),
        ({}, {(0, 0): [1]}, []),
        ({(0, 0): [1]}, {(0, 0): [2]}, []),
        ({(0, 0): [1]}, {(0, 0): [1]}, [["table", "r0", 0, 0, [1]]]),
    ],
    ids=["evicted meanwhile", "registered meanwhile", "at another block", "handed out meanwhile"],
)
def test_what_was_not_cached_all_the_while_need_not_be_found(before: Cached, after: Cached, more: list[Effect]) -> None:
    start = Step("start", {}, effects=[*arrives(), ["lookup", "r0", 0, 0, 8], *more], state=state(after))
    assert judged(world(FULL), Step("first", {}, state=state(before)), start) == []


@pytest.mark.parametrize("phase", ["begin", "end", "copied"])
def test_what_was_loaded_to_its_old_block_meanwhile_was_not_there_all_the_while(phase: str) -> None:
    pairs = [["host", 0, "device", 1]]
    copy: Effect = ["copied", pairs] if phase == "copied" else ["copy", 0, phase, pairs]
    lookup: Effect = ["lookup", "r0", 0, 0, len(TOKENS) - 1]
    first = Step("first", {}, state=state(entries(0)))
    told = judged(world(FULL), first, Step("drain", {}, effects=[*arrives(), lookup, copy], state=state(entries(0))))
    assert len(told) == (phase == "end")  # Where it began before, the block was not another one's meanwhile.


# What an engine promises to keep, without any state


def computed(r: str, blocks: list[int], tokens: list[int] = TOKENS, found: int = 0) -> list[Effect]:
    """A request is admitted to these blocks, with so much found, and computed whole."""
    return [
        *arrives(tokens, r),
        ["lookup", r, found, 0, len(tokens) - 1],
        ["found", r, [blocks[: found // 2]], found],
        ["table", r, 0, 0, blocks],
        ["compute", r, found, tokens[found:]],
        ["processed", r, len(tokens)],
    ]


def promised(*steps: Step, again: int, of: Group = FULL) -> list[str]:
    """Whether it is noticed that the same prompt, asked for behind these steps, finds so much."""
    last = Step("start", {}, effects=[*arrives(r="again"), ["lookup", "again", again, 0, 8]])
    return [violation.oracle for violation in judged(world(of, keep="all"), *steps, last)]


FIRST = Step("start", {}, effects=computed("r0", [1, 2, 3, 4, 5]))
END = Step("finish", {}, effects=[["end", "r0", "finished"]])
OTHER = [2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("steps", "most"),
    [
        ([], 8),
        ([END], 8),
        ([END, Step("start", {}, effects=computed("r1", [2, 6, 7], OTHER))], 2),
        ([END, Step("start", {}, effects=computed("r1", [2, 6, 7], OTHER)[:-2])], 2),
        ([END, Step("evict", {"block": 3})], 4),
        ([END, Step("evict", {"block": 3}, skipped=True)], 8),
        ([END, Step("evict", {"pick": 3})], 0),
        ([END, Step("reset", {}, result=True)], 0),
        ([END, Step("reset", {}, result=False)], 8),
        ([END, Step("start", {}, effects=computed("r1", [1, 2, 3, 4, 6], found=8))], 8),
        ([END, Step("store", {}, effects=[["copied", [["device", 1, "host", 1]]]])], 8),
        ([END, Step("load", {}, effects=[["copied", [["device", 9, "device", 1]]]])], 0),
        ([END, Step("step", {}, state=State({}, {"loading": [[4]]}))], 6),
    ],
    ids=[
        "beside it", "behind it", "a block was taken", "and is not written yet", "a block was evicted",
        "none was evicted", "some were evicted", "reset", "a refused reset", "found by others", "read by a copy",
        "written by a copy", "taken by a load",
    ],
)  # fmt: skip
def test_what_is_kept_is_found_and_nothing_else_is_asked_for(steps: list[Step], most: int) -> None:
    assert promised(FIRST, *steps, again=most) == []
    if most:
        assert promised(FIRST, *steps, again=most - 2) == ["what was computed is not found again"]


def test_a_forward_pass_without_a_result_keeps_nothing() -> None:
    assert promised(Step("start", {}, effects=FIRST.effects[:-1]), again=0) == []
    first_half: Effect = ["processed", "r0", 4]
    assert promised(Step("start", {}, effects=[*FIRST.effects[:-1], first_half]), again=4) == []
    assert promised(Step("start", {}, effects=[*FIRST.effects[:-1], first_half]), again=2) != []
    lost = Step("preempt", {}, effects=[["preempted", "r0"], ["processed", "r0", 9]])
    assert promised(Step("start", {}, effects=FIRST.effects[:-1]), lost, again=0) == []


def test_what_is_found_may_be_told_before_the_table_or_behind_it() -> None:
    hit = computed("r1", [1, 2, 3, 4, 6], found=8)
    behind = [*hit[:3], hit[4], hit[3], *hit[5:]]
    unsaid = [*hit[:3], *hit[4:]]
    for effects in (hit, behind, unsaid):
        assert promised(FIRST, END, Step("start", {}, effects=effects), again=8) == []
        assert promised(FIRST, END, Step("start", {}, effects=effects), again=6) != []


def test_what_a_drafter_gives_up_is_not_promised() -> None:
    again = [*arrives(r="again"), ["lookup", "again", 6, 0, 8]]
    assert judged(world(FULL, keep="all", drop=2), FIRST, Step("start", {}, effects=again)) == []
    assert judged(world(FULL, keep="all"), FIRST, Step("start", {}, effects=again)) != []


def test_nothing_is_asked_of_an_engine_that_promises_nothing() -> None:
    last = Step("start", {}, effects=[*arrives(r="again"), ["lookup", "again", 0, 0, 8]])
    for promise in ({}, {"keep": "none"}, {"keep": "most"}):
        assert judged(world(FULL, **promise), FIRST, END, last) == []
    assert promised(FIRST, END, again=0, of=Group("mamba", 2)) == [], "states are kept now and then"


@pytest.mark.parametrize(("behind", "most"), [([], 8), ([1], 8), ([3], 4), ([0], 8)])
def test_what_a_window_gave_up_is_found_until_somebody_has_it_also_the_same_request(
    behind: list[int], most: int
) -> None:
    """Its fifth block behind the prompt is one that it had before; a hit sees four tokens back."""
    goes_on = Step("step", {}, effects=[["table", "r0", 0, 5, behind]])
    assert promised(FIRST, goes_on, again=most, of=WINDOW) == []
    assert promised(FIRST, goes_on, again=most - 2, of=WINDOW) == ["what was computed is not found again"]


def test_the_null_block_in_a_table_keeps_nothing() -> None:
    slid = Step("start", {}, effects=computed("r0", [0, 0, 3, 4, 5]))
    assert promised(slid, again=8, of=WINDOW) == []
    assert promised(slid, again=6, of=WINDOW) == ["what was computed is not found again"]
    assert promised(Step("start", {}, effects=computed("r0", [0, 0, 0, 4, 5])), again=0, of=WINDOW) == []


def test_what_was_found_before_a_preemption_is_not_of_the_table_behind_it() -> None:
    first, second = [1, 2, 6], [1, 2]  # Behind the preemption the same blocks are taken anew.
    hit: list[Effect] = [["table", "r1", 0, 0, first], ["lookup", "r1", 4, 0, 4], ["found", "r1", [[1, 2]], 4]]
    anew: list[Effect] = [["preempted", "r1"], ["table", "r1", 0, 0, second], ["lookup", "r1", 0, 0, 4]]
    asks = [*arrives(r="again"), ["lookup", "again", 0, 0, 8]]

    def told(*effects: Effect) -> list[str]:
        step = Step("drain", {}, effects=[*arrives(TOKENS[:5], "r1"), *effects, *asks])
        return [violation.oracle for violation in judged(world(FULL, keep="all"), FIRST, END, step)]

    assert told(*hit) == ["what was computed is not found again"]
    assert told(*hit, *anew) == []
    # Nor is what a later lookup finds, of a table that it got before.
    found: list[Effect] = [["table", "r1", 0, 0, first], ["lookup", "r1", 4, 0, 4]]
    assert told(*found) == ["what was computed is not found again"]
    assert told(*anew[1:], ["preempted", "r1"], ["lookup", "r1", 4, 0, 4]) == []


@pytest.mark.parametrize("shown", [True, False], ids=["by states", "by effects"])
@pytest.mark.parametrize("evicted", [True, False])
def test_what_is_evicted_under_its_holder_need_not_be_cached_again(evicted: bool, shown: bool) -> None:
    """A load was bad, say: the block is evicted, and then its last token is computed."""
    held = State({}, {"r0": [[1, 2]]}) if shown else None
    grows: list[Effect] = [["append", "r0", TOKENS[3:5]], ["keys", "r0", 1, [1]]]
    again: list[Effect] = [["table", "r0", 0, 0, [1, 2]], ["compute", "r0", 3, TOKENS[3:4]], ["processed", "r0", 4]]
    steps = [
        Step("start", {}, effects=computed("r0", [1, 2], TOKENS[:3]), state=held),
        Step("evict", {"block": 2}, skipped=not evicted, state=held),
        Step("step", {}, effects=[*grows, *again], state=held),
    ]
    assert (promised(*steps, again=2) == []) == evicted
    end = Step("finish", {}, effects=[["end", "r0", "finished"]], state=State({}, {}) if shown else None)
    anew = Step("start", {}, effects=computed("r1", [1, 2], TOKENS[:5]), state=None)
    assert promised(*steps, end, anew, again=2) != [], "whoever has the block next caches it"


@pytest.mark.parametrize("told_first", ["copy", "table"])
def test_what_is_computed_beside_a_loaded_block_need_not_be_cached_again(told_first: str) -> None:
    """A pool with one block for each key keeps the loaded one; that is taken, and the other was never cached."""
    copied: Effect = ["copied", [["host", 1, "device", 1]]]
    table: Effect = ["table", "r0", 0, 0, [1, 2]]
    filled = [copied, table] if told_first == "copy" else [table, copied]
    asks = arrives(TOKENS[:3], "r0")
    load = [*asks, ["lookup", "r0", 0, 2, 2], *filled, ["compute", "r0", 2, TOKENS[2:3]], ["processed", "r0", 3]]
    end = Step("finish", {}, effects=[["end", "r0", "finished"]])
    again = Step("start", {}, effects=[*computed("r1", [3, 4], TOKENS[:3]), ["end", "r1", "finished"]])
    taken = Step("start", {}, effects=computed("r2", [1, 5], OTHER[:3]))
    assert promised(Step("start", {}, effects=load), end, again, taken, again=0) == []
    # Once the loaded block is another's, what is computed is kept as ever.
    anew = Step("start", {}, effects=computed("r3", [6, 7], TOKENS[:3]))
    assert promised(Step("start", {}, effects=load), end, taken, anew, again=0) != []


def test_a_drafter_finds_nothing_behind_which_nothing_is_cached() -> None:
    drops = world(FULL, drop=2)
    assert looked_up(drops, entries(0, 1, 2), 4) == []
    assert [each.oracle for each in looked_up(drops, entries(0, 1, 2), 6)] == ["the end of a hit is not given up"]
    assert looked_up(world(FULL), entries(0, 1, 2), 6) == [], "who has no drafter finds all"
    # What a step registers before it looks up may be lost by the time that it is shown.
    first, shown = Step("first", {}, state=state(entries(0, 1, 2))), state(entries(0, 1, 2))
    befores: list[Effect] = [["processed", "r0", 2], ["compute", "r1", 0, [0]]]
    for before in befores:
        effects = [*arrives([0, 1], "r1"), *arrives(), before, ["lookup", "r0", 6, 0, 8]]
        assert judged(drops, first, Step("drain", {}, effects=effects, state=shown)) == []


@pytest.mark.parametrize(
    ("cached", "found", "told"),
    [
        ((0, 1, 2), 4, False),
        ((0, 1, 2), 6, True),
        ((0, 1, 2, 3), 6, False),
        ((0, 1, 2, 3), 8, True),
        ((0,), 2, True),
        ((0,), 0, False),
    ],
    ids=["one is behind", "none is behind", "the last is behind", "no key is behind", "the first only", "no hit"],
)
def test_the_judge_tells_of_a_hit_whose_end_a_drafter_cannot_compute_again(
    cached: tuple[int, ...], found: int, told: bool
) -> None:
    judge, shown = Judge(world(FULL, drop=2)), state(entries(*cached))
    lookup: Effect = ["lookup", "r0", found, 0, 8]
    list(judge.step(Step("first", {}, state=shown)))
    said = judge.step(Step("start", {}, effects=[*arrives(), lookup], state=shown))
    assert (("P14", "the end of a hit is not given up") in {(each.rule, each.oracle) for each in said}) == told


@pytest.mark.parametrize(("more", "said"), [({}, True), ({"skip": True}, False)])
def test_who_never_looked_up_what_is_computed_found_nothing(more: dict[str, Any], said: bool) -> None:
    first, shown = Step("first", {}, state=state(entries(0, 1))), state(entries(0, 1))
    runs: list[Effect] = [["table", "r0", 0, 0, [7, 8, 9]], ["compute", "r0", 0, TOKENS[:5]]]
    goes_on: list[Effect] = [["compute", "r0", 0, TOKENS[:1]]]
    steps = [
        first,
        Step("start", {}, effects=[*arrives(**more), *runs], state=shown),
        Step("step", {}, effects=goes_on, state=shown),
    ]
    assert [each.oracle for each in judged(world(FULL), *steps)] == ["a shorter hit than what is cached"] * said
    together = [first, Step("together", {}, effects=[*arrives(**more), *runs], state=shown)]
    assert judged(world(FULL), *together) == [], "nobody knows when it would have asked"


@pytest.mark.parametrize(("computed", "told"), [(2, 0), (4, 1)])
def test_what_fills_no_block_of_each_group_need_not_be_cached(computed: int, told: int) -> None:
    """Of blocks of two and of four tokens an engine may cache four at once: no hit is shorter, where all that it is of
    is one request's."""
    tokens = TOKENS[:5]
    first: list[Effect] = [
        *arrives(tokens), ["lookup", "r0", 0, 0, 4], ["table", "r0", 0, 0, [1, 2, 5]], ["table", "r0", 1, 0, [3, 4]],
        ["compute", "r0", 0, tokens], ["processed", "r0", 5], ["end", "r0", "finished"],
    ]  # fmt: skip
    other: list[Effect] = [
        ["request", "r1", {"tokens": [0, 1, 1, 1, 1]}], ["keys", "r1", 0, [0, 9]], ["lookup", "r1", 0, 0, 4],
        ["table", "r1", 0, 0, [1, 6][: computed // 2]], ["table", "r1", 1, 0, [7]],
        ["compute", "r1", 0, [0, 1, 1, 1][:computed]], ["processed", "r1", computed],
    ]  # fmt: skip
    again: list[Effect] = [*arrives(tokens, "r2"), ["lookup", "r2", 0, 0, 4]]
    steps = [Step(op, {}, effects=effects) for op, effects in (("a", first), ("b", other), ("c", again))]
    assert len(judged(world(FULL, LARGE, keep="all"), *steps)) == told
