"""The level `manager`: what it tells of releases of vLLM, by hand-made cases whose answers are known."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from kvproof.engines.known import Listed, read_known
from kvproof.engines.verdicts import close, verdict
from kvproof.engines.vllm.levels.manager import more_oracles, profiles
from kvproof.judge.judging import faults
from kvproof.judge.record import Answer, Case, State

from .installed import session

NEWEST = "0.33.0"

LISTED = Listed(read_known(Path(__file__).parents[2] / "docs" / "known.toml"), "vllm", NEWEST)

FULL = {"kind": "full", "block": 4}


def answer(version: str, setup: dict[str, Any], *ops: tuple[str, dict[str, Any]]) -> Answer:
    return session(version).run(Case("manager", setup, list(ops))).answer


def fault(version: str, setup: dict[str, Any], *ops: tuple[str, dict[str, Any]]) -> tuple[str, str] | None:
    """The rule that the closed case breaks, and what noticed."""
    found, told = verdict(session(version), close(Case("manager", setup, list(ops))))
    assert told.refused is None, told.refused
    return None if found is None else (found.violation.rule, found.violation.oracle)


def add(*runs: list[int], **more: Any) -> tuple[str, dict[str, Any]]:
    return "add", {"runs": list(runs), **more}


def run(i: int = 0, n: int = 0, **more: Any) -> tuple[str, dict[str, Any]]:
    return "run", {"i": i, "n": n, **more}


def effects(told: Answer, kind: str) -> list[Any]:
    return [effect[1:] for step in told.steps for effect in step.effects if effect[0] == kind]


def test_a_pass_that_is_over_says_nothing_of_those_behind_it() -> None:
    """It was told with the positions of all that were under way, and what these fill counted as cached."""
    setup = {"groups": [FULL], "spare": 6, "budget": 8, "flight": 3, "asynchronous": True}
    told = answer(NEWEST, setup, add([1, 9], most=3), run(), run(), run(), *[("process", {})] * 3)
    assert effects(told, "processed") == [["r0", 8], ["r0", 9], ["r0", 10]]


def test_a_prefix_is_found_and_the_rest_computed() -> None:
    told = answer(NEWEST, {"groups": [FULL], "spare": 4, "budget": 8}, add([1, 10], most=3), run(), run(), run(),
                  add([1, 9], [2, 2], most=3), run(1), ("finish", {"i": 1}))  # fmt: skip
    assert told.world is not None
    assert told.world.hash_block == 4
    assert effects(told, "lookup") == [["r0", 0, 0, 9], ["r1", 8, 0, 10]]
    first, second = effects(told, "table")[0], effects(told, "table")[-1]
    assert first == ["r0", 0, 0, [1, 2]]
    assert second[3][:2] == [1, 2]
    assert effects(told, "compute") == [
        ["r0", 0, [1] * 8], ["r0", 8, [1, 1]], ["r0", 10, [1]], ["r1", 8, [1, 2, 2]]
    ]  # fmt: skip
    assert effects(told, "append")[0] == ["r0", [1]]
    assert effects(told, "end") == [["r1"]]
    state = told.steps[-1].state
    assert state is not None
    assert (state.pools["device"].ref or [])[:4] == [0, 1, 1, 1]


def test_an_overlapping_step_is_computed_at_once_and_told_later() -> None:
    setup = {"groups": [FULL], "spare": 4, "flight": 2, "asynchronous": True}
    told = answer(NEWEST, setup, add([1, 3], most=3), run(), run(), ("process", {}))
    assert effects(told, "compute") == [["r0", 0, [1, 1, 1]], ["r0", 3, [0]]]
    assert effects(told, "processed") == [["r0", 3]]
    assert [bool(step.effects) for step in told.steps] == [True, True, True, True]


@pytest.mark.parametrize("version", ["0.16.0", NEWEST])
def test_rejected_drafts_are_computed_again(version: str) -> None:
    setup = {"groups": [FULL], "spare": 4, "drafts": 2}
    told = answer(version, setup, add([1, 3], most=7), run(), run(accept=1), run())
    tokens = effects(told, "append")
    assert [len(each[1]) for each in tokens] == [1, 2, 1]
    starts = [(each[1], len(each[2])) for each in effects(told, "compute")]
    assert starts == [(0, 3), (3, 3), (5, 3)]


def test_tokens_from_outside_are_cached_when_their_load_is_done() -> None:
    setup = {"groups": [FULL], "spare": 4}
    told = answer(NEWEST, setup, add([1, 10]), run(outside=2, later=1), ("load_done", {}), run())
    assert effects(told, "computed_outside") == [["r0", 0, [["device", 1, 0, 4], ["device", 2, 4, 4]]]]
    before, after = told.steps[1].state, told.steps[2].state
    assert before is not None
    assert after is not None
    assert (before.pools["device"].cached, len(after.pools["device"].cached or ())) == ([], 2)
    assert effects(told, "compute") == [["r0", 8, [1, 1]]]


def test_what_is_evicted_is_gone_and_nothing_else_is() -> None:
    """The answers of a sound release, and the same with a state behind the evict as a broken one would have it."""
    setup = {"groups": [FULL], "spare": 4, "budget": 12}
    case = Case("manager", setup, [add([1, 9], most=3), run(), ("evict", {"blocks": [0]}), ("reset", {})])
    told = session(NEWEST).run(case).answer
    run_, evict = told.steps[1], told.steps[2]
    assert evict.result == [1]
    assert run_.state is not None
    assert evict.state is not None

    def broken(behind: State) -> list[tuple[int, str]]:
        steps = [*told.steps[:2], structs.replace(evict, state=behind, digest=None), *told.steps[3:]]
        found = faults(structs.replace(told, steps=steps), more_oracles(case))
        return [(at, violation.oracle) for at, violations in found for violation in violations]

    assert broken(evict.state) == []
    assert (2, "evict leaves an entry") in broken(run_.state)
    pool = evict.state.pools["device"]
    freed = structs.replace(pool, ref=[0 if n == 1 else count for n, count in enumerate(pool.ref or ())])
    assert (2, "evict removes more than hashes") in broken(
        structs.replace(evict.state, pools={**evict.state.pools, "device": freed})
    )


def test_a_setup_that_a_release_does_not_have_is_refused() -> None:
    assert "look ahead" in (answer("0.16.0", {"groups": [FULL], "ahead": 1}).refused or "")
    assert "no option" in (answer(NEWEST, {"groups": [FULL], "colour": 1}).refused or "")


def test_events_are_of_one_group_where_a_release_makes_one_of_all_layers() -> None:
    """Up to 0.19 the configuration of KV events turns the groups off; an event there names none."""
    setup = {"groups": HYBRID, "max_len": 12, "budget": 4, "events": True}
    assert "one group" in (answer("0.19.0", setup).refused or "")
    assert answer("0.20.2", setup).refused is None


@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_early_releases_are_asked_for_events_of_one_group(data: st.DataObject) -> None:
    setup = data.draw(profiles("0.19.0")["events"]).setup
    assert not setup["events"] or len(setup["groups"]) == 1


def test_a_drain_lets_nobody_keep_out_others_with_what_one_token_was_loaded_to() -> None:
    """Who was loaded whole and has one token counts as having computed nothing, and holds a block."""
    setup = {"groups": [{"kind": "full", "block": 8}], "max_len": 16, "budget": 8, "spare": 0}
    loads = [("run", {"i": i, "outside": 1, "later": 2}) for i in (1, 1)]
    assert fault(NEWEST, setup, *[add([0, 1])] * 3, *loads, ("drain", {})) is None


HYBRID = [{"kind": "full", "block": 2}, {"kind": "window", "block": 2, "window": 2}]


def test_a_window_block_is_freed_under_a_scheduled_step_until_0_26() -> None:
    """B2."""
    case = ({"groups": HYBRID, "max_len": 12, "budget": 4, "flight": 2}, add([0, 5]), run(), run())
    assert fault("0.19.0", *case) == ("D7", "freed under a scheduled step")
    assert fault("0.24.0", *case) == ("D7", "freed under a scheduled step")
    assert fault(NEWEST, *case) is None


def test_an_adapter_and_a_salt_make_one_key_until_0_32() -> None:
    """B5."""
    case = ({"groups": [FULL]}, add([0, 8], adapter=1), add([0, 8], salt=1))
    assert fault("0.30.0", *case) == ("P13", "one key, two contents")
    assert fault("0.32.0", *case) is None


def test_a_long_prompt_behind_a_window_is_never_admitted_in_0_19() -> None:
    """B6."""
    case = ({"groups": [HYBRID[1]], "max_len": 24, "budget": 4}, add([0, 20]))
    assert fault("0.19.0", *case) == ("L1", "requests that never end")
    assert fault(NEWEST, *case) is None


def test_a_removal_is_reported_while_a_copy_remains() -> None:
    """B15."""
    setup = {"groups": [{"kind": "full", "block": 2}], "max_len": 12, "budget": 4, "events": True}
    assert fault(NEWEST, setup, add([0, 7]), add([0, 11])) == ("P12", "events and map")


@pytest.mark.parametrize("family", ["plain", "keys", "spec", "ahead", "mamba", "uncached"])
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_general_play_finds_nothing_that_is_not_known(family: str, data: st.DataObject) -> None:
    """An adapter that errs would make findings here."""
    case = data.draw(profiles(NEWEST)[family])
    case.setup["events"] = False
    found, _ = verdict(session(NEWEST), close(case))
    if found is not None:  # Some of what the release itself does wrong needs no events.
        assert LISTED.needs_of(found.violation, "manager"), found.violation


def test_the_same_case_gives_the_same_answer() -> None:
    case = ({"groups": HYBRID, "events": True, "flight": 2}, add([0, 9], most=3), run(), run(), add([0, 9]), run(1))
    first, second = answer(NEWEST, *case), answer(NEWEST, *case)
    assert (first.world, first.steps) == (second.world, second.steps)


@pytest.mark.parametrize("version", ["0.20.2", NEWEST])
def test_keys_tell_embeddings_apart(version: str) -> None:
    """What is given as an embedding is another content than a token, and equal embeddings are one content."""
    told = answer(version, {"groups": [FULL], "spare": 9, "embeds": True}, add([1, 9], embeds=1), add([1, 9]),
                  add([1, 9], embeds=1), add([2, 9], embeds=1))  # fmt: skip
    assert [tokens["tokens"][0] for _, tokens in effects(told, "request")] == [101, 1, 101, 102]
    assert [keys for _, _, keys in effects(told, "keys")] == [[0, 1], [2, 3], [0, 1], [4, 5]]


def test_a_prompt_may_be_tokens_and_embeddings_by_turns() -> None:
    told = answer(NEWEST, {"groups": [FULL], "spare": 9, "embeds": True}, add([1, 9], embeds=2), add([1, 9], embeds=4),
                  add([1, 9], embeds=2))  # fmt: skip
    assert effects(told, "request")[0][1]["tokens"] == [101, 101, 1, 1, 101, 101, 1, 1, 101]
    assert [keys for _, _, keys in effects(told, "keys")] == [[0, 1], [2, 3], [0, 1]]
    assert fault(NEWEST, {"groups": [FULL], "spare": 9, "embeds": True}, add([1, 9], embeds=2), run(), run()) is None
