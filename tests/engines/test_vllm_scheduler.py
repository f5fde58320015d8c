"""The level `scheduler`: what it tells of releases of vLLM, by hand-made cases and by random ones."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvproof.engines.verdicts import close, verdict
from kvproof.engines.vllm.levels.scheduler import profiles
from kvproof.judge.judging import judge
from kvproof.judge.record import Answer, Case, Step

from .installed import broken_vllm, engine, session

OLDEST, NEWEST = "0.16.0", "0.33.0"
RELEASES = [OLDEST, "0.22.1", NEWEST]

Op = tuple[str, dict[str, Any]]

FULL = {"kind": "full", "block": 4}
MAMBA = {"kind": "mamba", "block": 4}


def answer(version: str, setup: dict[str, Any], *ops: Op) -> Answer:
    return session(version).run(Case("scheduler", setup, list(ops))).answer


def fault(version: str, setup: dict[str, Any], *ops: Op) -> tuple[str, str] | None:
    """The rule that the closed case breaks, and what noticed."""
    found, told = verdict(session(version), close(Case("scheduler", setup, list(ops))))
    assert told.refused is None, told.refused
    return None if found is None else (found.violation.rule, found.violation.oracle)


def add(*tokens: int, **more: Any) -> Op:
    return "add", {"tokens": list(tokens), **more}


def step(**args: Any) -> Op:
    return "step", args


def effects(told: Answer, *kinds: str) -> list[Any]:
    return [effect for one in told.steps for effect in one.effects if effect[0] in kinds]


# What is told


@pytest.mark.parametrize("version", RELEASES)
def test_a_step_is_told_as_the_worker_does_it(version: str) -> None:
    told = answer(version, {"groups": [FULL], "spare": 4}, add(0, 1, 2, 0, 1, max_tokens=3), step(), step(token=1))
    assert effects(told, "table", "compute", "processed", "append", "keys") == [
        ["keys", "r0", 0, [0]],
        ["table", "r0", 0, 0, [1, 2]],
        ["compute", "r0", 0, [0, 1, 2, 0, 1]],
        ["processed", "r0", 5],
        ["append", "r0", [0]],
        ["compute", "r0", 5, [0]],
        ["processed", "r0", 6],
        ["append", "r0", [1]],
    ]


@pytest.mark.parametrize("version", RELEASES)
def test_what_a_lookup_hands_out_stands_before_its_forward_pass(version: str) -> None:
    told = answer(version, {"groups": [FULL], "spare": 4}, add(*[1] * 9), step(), add(*[1] * 9), step())
    last = [effect for effect in told.steps[-1].effects if effect[1] == "r1"]
    assert ["lookup", "r1", 8, 0, 8] in last
    found, compute = last.index(["found", "r1", [[1, 2]], 8]), last.index(["compute", "r1", 8, [1]])
    assert found < compute


@pytest.mark.parametrize(("version", "every"), [(OLDEST, 1), ("0.22.1", 1), (NEWEST, 1), (NEWEST, 2)])
def test_a_prompt_of_embeddings_is_found_by_one_of_the_same_alone(version: str, every: int) -> None:
    setup = {"groups": [FULL], "spare": 8, "embeds": 2}
    asked = [add(*[1] * 9), step(), *[add(*[1] * 9, embeds=every), step()] * 2]
    told = answer(version, setup, *asked)
    assert [effect[1:4] for effect in effects(told, "lookup")] == [["r0", 0, 0], ["r1", 0, 0], ["r2", 8, 0]]
    given = [[101] * 9, [101, 101, 1, 1, 101, 101, 1, 1, 101]][every - 1]
    assert [effect[3] for effect in effects(told, "compute")] == [[1] * 9, given, given[8:]]
    assert fault(version, setup, *asked) is None


def test_what_a_worker_got_of_a_prompt_is_kept_when_its_request_comes_back() -> None:
    """The scheduler tells noughts in place of embeddings when a request is resumed."""
    setup = {"groups": [FULL], "spare": 0, "max_len": 16, "reserve": False, "embeds": 1, "caching": False}
    both = [add(*[1] * 7, embeds=1, max_tokens=8), add(*[1] * 7, embeds=1, max_tokens=8)]
    ops = [*both, *[step()] * 12, ("drain", {})]
    told = answer(NEWEST, setup, *ops)
    (who, *_) = [effect[1] for effect in effects(told, "preempted")]
    again = [effect[3][:7] for effect in effects(told, "compute") if effect[1:3] == [who, 0]]
    assert again == [[101] * 7] * 2
    assert fault(NEWEST, setup, *ops) is None


@pytest.mark.parametrize("version", RELEASES)
def test_two_steps_overlap_when_scheduling_is_asynchronous(version: str) -> None:
    setup = {"groups": [FULL], "spare": 4, "asynchronous": True}
    told = answer(version, setup, add(0, 0, 0, max_tokens=4), step(), step(token=1), step(token=2))
    kinds = [[effect[0] for effect in one.effects if effect[0] in ("compute", "processed")] for one in told.steps[1:]]
    assert kinds == [["compute"], ["compute", "processed"], ["compute", "processed"]]
    assert effects(told, "compute")[-1] == ["compute", "r0", 4, [1]]


@pytest.mark.parametrize("version", RELEASES)
def test_rejected_drafts_are_computed_again_where_the_worker_is(version: str) -> None:
    setup = {"groups": [FULL], "spare": 4, "asynchronous": True, "spec": 2, "drafter": 1}
    told = answer(version, setup, add(0, 0, 0, max_tokens=8), step(), step(accept=1), step(), step())
    passes = [effect[2:] for effect in effects(told, "compute")]
    assert [(start, len(tokens)) for start, tokens in passes] == [(0, 3), (3, 3), (5, 3), (6, 3)]
    assert effects(told, "append") == [["append", "r0", [0]], ["append", "r0", [2, 0]], ["append", "r0", [0]]]


def test_a_mamba_state_is_copied_to_the_block_that_runs() -> None:
    setup = {"groups": [FULL, MAMBA], "mamba": "align", "spare": 4}
    told = answer(NEWEST, setup, add(0, 0, 0, max_tokens=3), step(), step(), step())
    assert effects(told, "state", "copied") == [
        ["state", "r0", 1, None, [[2, 3]]],
        ["state", "r0", 1, 2, [[2, 4]]],
        ["copied", [["device", 2, "device", 4]]],
        ["state", "r0", 1, 4, [[4, 5]]],
    ]


@pytest.mark.parametrize("version", RELEASES)
def test_an_abort_while_the_model_runs_comes_before_the_result(version: str) -> None:
    told = answer(version, {"groups": [FULL], "spare": 4}, add(0, 0), step(abort=1))
    assert [effect[0] for effect in told.steps[-1].effects if effect[0] in ("compute", "end", "append")] == [
        "compute",
        "end",
    ]


def say(*tokens: int, **more: Any) -> Op:
    return "say", {"tokens": list(tokens), **more}


@pytest.mark.parametrize("version", RELEASES)
def test_a_session_goes_on_behind_all_but_the_last_token_of_the_answer(version: str) -> None:
    begin = [add(0, 1, max_tokens=2, session=1), step(), step(token=1)]
    told = answer(version, {"groups": [FULL], "spare": 4}, *begin, say(2, 2), step())
    assert effects(told, "table", "compute", "append", "cut", "end")[3:] == [
        ["compute", "r0", 2, [0]],
        ["append", "r0", [1]],
        ["cut", "r0", 3],
        ["append", "r0", [2, 2]],
        ["table", "r0", 0, 0, [1, 2]],
        ["compute", "r0", 3, [2, 2]],
        ["append", "r0", [0]],
    ]


@pytest.mark.parametrize("version", RELEASES)
def test_what_is_said_before_the_answer_is_there_comes_behind_it_and_then_the_end(version: str) -> None:
    begin = [add(0, 1, session=1), say(2), ("say", {"close": 1})]
    told = answer(version, {"groups": [FULL], "spare": 4}, *begin, step(), step())
    assert [one.result for one in told.steps[:3]] == ["r0"] * 3
    assert effects(told, "append", "cut", "end") == [
        ["append", "r0", [0]],
        ["cut", "r0", 2],
        ["append", "r0", [2]],
        ["append", "r0", [0]],
        ["end", "r0", "finished"],
    ]


def test_of_what_is_said_a_client_who_counts_says_no_more_than_fits() -> None:
    setup = {"groups": [FULL], "max_len": 12, "spare": 4}
    begin = add(*[0] * 6, max_tokens=2, session=1)
    told = answer(NEWEST, setup, begin, say(*[1] * 9), say(1), say(1, past=1))
    assert told.steps[1].args["tokens"] == [1] * 3
    assert told.steps[2].skipped
    assert told.steps[3].args["tokens"] == [1]


def test_a_pass_that_was_under_way_when_a_session_went_on_brings_nothing() -> None:
    setup = {"groups": [FULL], "spare": 4, "asynchronous": True}
    begin = [add(0, 1, max_tokens=3, session=1, stop=1), step(), step(token=2)]
    told = answer(NEWEST, setup, *begin, say(0, 0), step(), step(), ("drain", {}))
    assert effects(told, "compute", "processed", "append", "cut") == [
        ["compute", "r0", 0, [0, 1]],
        ["compute", "r0", 2, [0]],
        ["processed", "r0", 2],
        ["append", "r0", [0]],
        ["compute", "r0", 3, [2]],
        ["processed", "r0", 3],
        ["append", "r0", [2]],
        ["cut", "r0", 3],
        ["append", "r0", [0, 0]],
        ["compute", "r0", 3, [0, 0]],
        ["processed", "r0", 3],
        ["processed", "r0", 5],
        ["append", "r0", [0]],
    ]


@pytest.mark.parametrize("wait", [0, 1])
def test_a_pause_lets_nothing_be_scheduled_or_nobody_be_admitted(wait: int) -> None:
    setup = {"groups": [FULL], "spare": 4}
    runs, comes = add(0, 1, max_tokens=9), add(1, 1)
    told = answer(NEWEST, setup, runs, step(), ("pause", {"wait": wait}), comes, step(), ("resume", {}), step())
    assert [one.skipped for one in told.steps[2:]] == [False, False, not wait, False, False]
    assert [effect[1] for effect in effects(told, "compute")] == ["r0"] * (1 + wait) + ["r0", "r1"]


@pytest.mark.parametrize(
    ("version", "setup", "why"),
    [
        (NEWEST, {"groups": [FULL], "colour": 1}, "no option colour"),
        (NEWEST, {"groups": [FULL], "blocks": 5}, "max seq len"),
        (OLDEST, {"groups": [FULL], "watermark": 10}, "no option watermark"),
        (NEWEST, {"groups": [FULL, {**MAMBA, "block": 8}], "mamba": "align"}, "block is 4 tokens"),
        (NEWEST, {"groups": [FULL], "spec": 2, "asynchronous": True}, "ngram"),
        (NEWEST, {"groups": [FULL], "budget": 2, "max_seqs": 4}, "max_num_seqs"),
    ],
)
def test_what_the_release_would_not_start_with_is_refused(version: str, setup: dict[str, Any], why: str) -> None:
    refused = answer(version, setup).refused
    assert refused is not None
    assert why in refused


def test_numbers_set_on_a_copy_make_the_configuration_that_is_made_of_them() -> None:
    code = (
        "import sys; sys.path[:0] = ['kvproof/engines/worker', 'kvproof/engines/vllm/worker']\n"
        "import vllm_settings as s\n"
        "for spec in (0, 2):\n"
        "    o = s.Options(max_len=24, budget=12, max_seqs=2, long_prefill=3, priority=True, watermark=10, spec=spec,"
        " drafter=1, reserve=False)\n"
        "    made, copied = s._make_settings(o, hybrid=False), s.settings_for(o, 1)\n"
        "    for part in ('scheduler_config', 'model_config', 'cache_config'):\n"
        "        a, b = vars(getattr(made, part)), vars(getattr(copied, part))\n"
        "        differ = {k for k in a if isinstance(a[k], (int, float, str)) and a[k] != b[k]}\n"
        "        differ -= {'max_num_encoder_input_tokens', 'encoder_cache_size'}\n"
        "        assert not differ, (part, differ)\n"
    )
    target = engine(NEWEST)
    environment = {**target.environment(), "PYTHONSAFEPATH": ""}
    subprocess.run([target.python, "-c", code], check=True, env=environment, timeout=120)


# Known faults, and where they are gone


P6_LOOKUP = ("P6", "a lookup handed out")
KNOWN: list[tuple[str, str, dict[str, Any], list[Op], tuple[str, str]]] = [
    (
        "0.30.0", NEWEST, {"groups": [FULL], "spare": 4, "adapters": 1},
        [add(1, 1, 1, 1, 1, salt=1), add(1, 1, 1, 1, 1, adapter=1)], ("P13", "one key, two contents"),
    ),
    (
        "0.25.1", NEWEST, {"groups": [FULL, MAMBA], "mamba": "align", "spare": 5, "spec": 3, "drafter": 2},
        [add(0, 1, 2, 0, max_tokens=1), add(0, 1, 2, 0, 1, max_tokens=3)], P6_LOOKUP,
    ),
    (
        "0.31.0", NEWEST, {"groups": [FULL], "spare": 4},
        [add(0, 0, 0, session=1), step(token=1), say(2)], ("P13", "one key, two contents"),
    ),
    (
        "0.25.1", NEWEST, {"groups": [FULL], "spare": 4, "asynchronous": True},
        [add(0, 1, max_tokens=3, session=1, stop=1), step(), step(token=2), say(0, 0), step(), step()],
        ("P6", "an answer to other tokens"),
    ),
    (
        "0.28.0", NEWEST, {"groups": [FULL], "spare": -1, "max_len": 16},
        [add(*[0] * 13, max_tokens=3)], ("L1", "requests that never end"),
    ),
    (
        "0.25.1", NEWEST,
        {"groups": [{"kind": "window", "block": 4, "window": 3}], "asynchronous": True, "spec": 3, "drafter": 1,
         "max_seqs": 2, "max_len": 16, "spare": 2},
        [add(*[1] * 7, max_tokens=4), step(token=2, accept=3), step(token=1), step(token=2)],
        ("D7", "freed under a scheduled step"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "setup", "ops", "rule"), KNOWN)
def test_a_known_fault_is_found_where_it_is(
    old: str, new: str, setup: dict[str, Any], ops: list[Op], rule: tuple[str, str]
) -> None:
    assert fault(old, setup, *ops) == rule
    if setup.get("spare", 0) >= 0:
        assert fault(new, setup, *ops) is None


# Random cases


def random_cases(version: str) -> st.SearchStrategy[Case]:
    """Cases of all families without connectors."""
    connected = ("connector", "below", "pages", "disk")
    return st.one_of([c for name, c in profiles(version).items() if not any(word in name for word in connected)])


@pytest.mark.parametrize("version", RELEASES)
def test_random_cases_are_told_consistently(version: str) -> None:
    """Tables told are the engine's own, computation is without gaps, and a case leaves nothing behind."""

    @settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    @given(random_cases(version))
    def consistent(case: Case) -> None:
        told = session(version).run(close(case)).answer
        if told.refused is None:
            for problem in problems(told):
                raise AssertionError(problem)

    consistent()


def problems(told: Answer) -> Iterator[str]:
    """What is wrong with an answer, whatever the engine did."""
    tables: dict[str, dict[int, list[int]]] = {}
    computed: dict[str, int | None] = {}
    rejected: dict[str, int] = {}
    for one in told.steps:
        for effect in one.effects:
            if effect[0] == "table":
                _, r, g, at, blocks = effect
                table = tables.setdefault(r, {}).setdefault(g, [])
                if at > len(table):
                    yield f"the table of {r} has a gap"
                if at == 0:
                    computed[r] = None
                table[at:] = blocks
            elif effect[0] == "compute":
                _, r, start, tokens = effect
                before = computed.get(r)
                if before is not None and not before - rejected.get(r, 0) <= start <= before:
                    yield f"{r} is computed up to {before}, then from {start} on"
                computed[r], rejected[r] = start + len(tokens), max(0, len(tokens) - 1)
        yield from table_problems(one, tables)


def table_problems(one: Step, tables: dict[str, dict[int, list[int]]]) -> Iterator[str]:
    """Where the engine's own block tables are not those that were told: null blocks aside, which nobody reads."""
    if one.state is None or one.error is not None:
        return
    for r, own in one.state.tables.items():
        for g, table in enumerate(own):
            worker = tables[r][g]
            if len(worker) != len(table) or any(a not in (0, b) for a, b in zip(table, worker, strict=True)):
                yield f"{r} has {table} in group {g}, its worker {worker}"


@pytest.mark.parametrize(("fault", "rules"), [("", []), ("tells of no eviction", ["M3"])])
def test_the_model_worker_is_told_which_items_make_room_for_others(fault: str, rules: list[str]) -> None:
    """A cache of four tokens: an item of two goes where one of three comes."""
    setup = {"groups": [{"kind": "full", "block": 4}], "encoder": 4, "fault": fault}
    adds = [("add", {"tokens": [0] * 5, "items": [[0, which]], "max_tokens": 1}) for which in (0, 1)]
    ops = [op for add in adds for op in (add, ("drain", {}))]
    answer = broken_vllm().run(Case("scheduler", setup, ops)).answer
    assert answer.refused is None
    found = judge(answer)
    assert [violation.rule for violation in (found or (0, []))[1]] == rules


@pytest.mark.parametrize(
    ("fault", "rules"),
    [
        ("", []),
        ("tells all as cached", [("P15", "what a client is told was found")]),
        ("loses the last token", [("L1", "an output that ends at the wrong place")]),
    ],
)
def test_what_a_client_gets_is_looked_at(fault: str, rules: list[tuple[str, str]]) -> None:
    """Two prompts of two blocks, the second one half found; it is preempted by nobody."""
    setup = {"groups": [{"kind": "full", "block": 4}], "fault": fault}
    adds = [("add", {"tokens": [0] * 4 + [n] * 3, "max_tokens": 3}) for n in (0, 1)]
    answer = broken_vllm().run(Case("scheduler", setup, [op for add in adds for op in (add, ("drain", {}))])).answer
    assert answer.refused is None
    told = [effect for step in answer.steps for effect in step.effects if effect[0] == "output"]
    assert len(told) == 2
    if not fault:
        assert [(len(effect[6]), effect[7]) for effect in told] == [(3, 0), (3, 4)]
    found = judge(answer)
    assert [(violation.rule, violation.oracle) for violation in (found or (0, []))[1]] == rules
