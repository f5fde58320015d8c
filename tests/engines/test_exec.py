"""Targets ``exec:COMMAND``: drivers of users, fuzzed and replayed; the worked example in JavaScript and its faults."""

import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from kvproof.checkers.trace import Operation, Trace, read_trace, write_trace
from kvproof.cli import main as cli
from kvproof.cli.findings import case_of, trace_of
from kvproof.cli.hunting import Plan, hunt_levels
from kvproof.engines import computing
from kvproof.engines.build import StoreError
from kvproof.engines.drawing import DRAWING
from kvproof.engines.driver import conformance, requests
from kvproof.engines.driver.asked import problem_of
from kvproof.engines.driver.command import Driver
from kvproof.engines.known import Known
from kvproof.engines.report import HuntReport
from kvproof.engines.session import Limits, Session, WorkerError
from kvproof.engines.verdicts import verdict
from kvproof.judge.ghost import Ghost
from kvproof.judge.oracles.removals import RemovalsOracle
from kvproof.judge.oracles.requests import RequestsOracle
from kvproof.judge.record import Capabilities, Case, Group, PoolState, State, Step, Tier, World
from kvproof.judge.violation import Violation
from kvproof.spec.rules import RULES
from kvproof.testing import block_cases
from kvproof.testing.telling import tell

from .toys import FAKES

FAKE = (sys.executable, str(FAKES / "requests_driver.py"))
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "mirror-driver"
CASES = Path(__file__).with_name("cases") / "mirror-driver"
"""The case by which each fault of the example shows, as a hunt found it once; ``keep`` writes it anew."""

LIMITS = Limits(start=20, answer=5)

FAULTS = {
    "copies-first-block": {"P6"},
    "double-free": {"P3"},
    "evict-newest": {"M3"},
    "evict-nothing": {"P11"},
    "first-block-only": {"M2"},
    "foreign-reload": {"M4"},
    "frees-to-head": {"P10"},
    "keep-hash": {"P6"},
    "leak": {"P2"},
    "mirror-evicts": {"M2"},
    "mirrors-at-end": {"M1"},
    "never-hits": {"P14"},
    "no-capacity": {"M3"},
    "no-chain": {"P13"},
    "no-salt": {"P13"},
    "one-block-per-hash": {"P5"},
    "refusal-evicts": {"P15"},
    "reload-drops-host": {"M4"},
    "reset-keeps-host": {"O10"},
    "short-hits": {"P14"},
    "stale-claim": {"P6", "P15"},
    "takes-tail": {"P7"},
    "whole-hit": {"P14"},
}
"""What the example does wrong on demand, and the rules that it breaks by that."""


def example(*more: str) -> tuple[str, ...]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the example is in JavaScript")
    return (node, str(EXAMPLE / "driver.js"), *more)


def hunted(command: tuple[str, ...], examples: int = 500, seconds: float = 300, **more: Any) -> HuntReport:
    driver = Driver(command)
    plan = Plan(driver, driver.label, (requests.LEVEL,), 0, seconds, examples=examples, jobs=1, **more)
    (report,) = hunt_levels(plan, lambda _report: None)
    assert isinstance(report, HuntReport)
    return report


def conforms(command: tuple[str, ...]) -> None:
    with Session.of(Driver(command), LIMITS) as session:
        assert conformance.check(session).failed == []


def target(command: tuple[str, ...]) -> str:
    return Driver(command).label


# The example


def test_the_example_conforms() -> None:
    conforms(example())


def test_who_finds_all_of_a_prompt_computes_nothing_and_that_is_no_slip_of_its_driver() -> None:
    conforms(example("--fault", "whole-hit"))


@pytest.mark.slow
def test_nothing_is_found_in_the_right_example() -> None:
    report = hunted(example(), 600, seconds=300)
    assert report.findings == []
    assert report.examples >= 600
    assert report.refused == 0
    assert set(report.coverage) == {*requests.OPERATIONS} - {"fork", "loaded", "cut"}
    assert report.sight is not None
    assert {"P2", "P6", "P15", "P6 (host)", "M1", "M2", "M3", "M4", "M5", "M6", "L1"} <= set(report.sight.judged)
    assert set(report.sight.unjudged) == {"P4", "P12", "E3", "O1 (host counts)", "O3", "O6", "O8", "O9"}


SOON: dict[str, Any] = {"double-free": pytest.mark.slow, "no-salt": (), "refusal-evicts": pytest.mark.slow}
"""Found by any hunt. The cases of all are kept, and ``make nightly`` hunts for all."""


@pytest.mark.parametrize("fault", [pytest.param(f, marks=SOON.get(f, pytest.mark.nightly)) for f in FAULTS])
def test_a_fault_of_the_example_is_found_by_the_rule_it_breaks(fault: str) -> None:
    report = hunted(example("--fault", fault), 200 if fault in SOON else 500)
    told = {finding.violation.rule for finding in report.findings}
    # What is read behind a reload over its own prefix is told with that.
    told |= {each.rule for f in report.findings if f.violation.rule == "M6" for each in f.all_symptoms}
    assert FAULTS[fault] <= told
    assert told <= set(RULES)


@pytest.fixture(scope="module")
def right_example() -> Iterator[Session]:
    with Session.of(Driver(example()), LIMITS) as session:
        yield session


@pytest.mark.parametrize(
    ("fault", "rule"), [(fault, rule) for fault, rules in FAULTS.items() for rule in sorted(rules)]
)
def test_a_kept_case_shows_each_fault_of_the_example(fault: str, rule: str, right_example: Session) -> None:
    case = case_of(read_trace(CASES / f"{fault}.{rule}.jsonl"))
    assert verdict(right_example, case, requests.more_oracles)[0] is None
    with Session.of(Driver(example("--fault", fault)), LIMITS) as session:
        found, _ = verdict(session, case, requests.more_oracles)
    assert found is not None
    assert found.violation.rule == rule


def keep(fault: str) -> None:
    """Hunt for a fault from nothing, and keep the case by which each of its rules shows."""
    report = hunted(example("--fault", fault), 1000)
    for rule in FAULTS[fault]:
        finding = next(finding for finding in report.findings if finding.violation.rule == rule)
        write_trace(CASES / f"{fault}.{rule}.jsonl", trace_of("example", finding.case, finding.verdict))


def test_what_is_copied_into_a_block_that_was_evicted_may_be_found_there() -> None:
    ops: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r1", "prompt": [1, 1]}),
        ("mirror", {"requests": ["r1"]}),
        ("finish", {"request": "r1"}),
        ("evict", {"block": 0}),
        ("start", {"request": "r2", "prompt": [0, 0, 0]}),
        ("start", {"request": "r3", "prompt": [1, 1, 1]}),  # It is refused, when block 0 has been reloaded for it.
        ("finish", {"request": "r2"}),
        ("start", {"request": "r4", "prompt": [1, 1, 1]}),
    ]
    with Session.of(Driver(example("--fault", "stale-claim")), LIMITS) as session:
        case = Case("requests", {"blocks": 3, "block_tokens": 2, "host_blocks": 1}, ops)
        found, answer = verdict(session, case, requests.more_oracles)
    assert ["found", "r4", [[0]], 2] in answer.steps[-1].effects
    assert found is not None
    assert {violation.rule for violation in found.violations} == {"P15"}


def test_all_faults_of_the_example_are_listed() -> None:
    named = set(re.findall(r'fault [!=]== "([a-z-]+)"', (EXAMPLE / "manager.js").read_text()))
    assert named == set(FAULTS)


BLIS: list[tuple[str, dict[str, Any]]] = [
    ("start", {"request": "r0", "prompt": [0, 0, 1, 1, 2, 2]}),
    ("mirror", {"requests": ["r0"]}),
    ("finish", {"request": "r0"}),
    ("start", {"request": "r1", "prompt": [3, 3, 3, 3]}),
    ("finish", {"request": "r1"}),
    ("start", {"request": "r2", "prompt": [0, 0, 1, 1, 2, 2, 0]}),
]
"""The last of three blocks is taken by another request; a third one reloads it, into the block before it: the head."""


def test_a_reload_that_holds_nothing_is_caught_where_it_claims_an_overwritten_block() -> None:
    case = Case("requests", {"blocks": 4, "block_tokens": 2, "host_blocks": 4}, BLIS)
    more = requests.more_oracles
    with Session.of(Driver(example()), LIMITS) as session:
        assert verdict(session, case, more)[0] is None
    with Session.of(Driver(example("--fault", "stale-claim")), LIMITS) as session:
        found, _ = verdict(session, case, more)
    assert found is not None
    assert found.violation.rule == "P6"
    assert found.at == len(BLIS) - 1
    assert "a lookup handed out" in found.violation.text
    assert "M6" in {violation.rule for violation in found.also}


# What the level's own oracle sees where the example cannot go wrong alone


def told(op: str, free: list[int], ref: list[int], tables: dict[str, list[list[int]]], **more: Any) -> Step:
    pool = PoolState(ref, free, len(free), [(0, 0, [1])], [(1, [(0, 0)])])
    return Step(op, {"request": "r0"}, state=State({"device": pool}, tables), **more)


def broken(first: Step, second: Step, **dialect: str) -> set[tuple[str, str]]:
    world = World([Group("full", 2)], {"device": Tier(4)}, 2, notes={"dialect": dialect})
    oracles, ghost = (RequestsOracle(world), RemovalsOracle(world)), Ghost(world)
    assert [violation for oracle in oracles for violation in oracle.step(first, ghost)] == []
    return {(found.rule, found.oracle) for oracle in oracles for found in oracle.step(second, ghost)}


def test_a_refusal_takes_nothing_and_changes_no_table() -> None:
    before = told("start", [2, 3], [1, 1, 0, 0], {"r1": [[0, 1]]}, result=True)
    assert broken(before, told("grow", [2, 3], [1, 1, 0, 0], {"r1": [[0, 1]]}, result=False)) == set()
    taken = told("grow", [3], [1, 1, 1, 0], {"r1": [[0, 1]], "r0": [[2]]}, result=False)
    assert broken(before, taken) == {
        ("P7", "a refused admission takes something"),
        ("P7", "a refused admission changes something"),
    }
    other = told("grow", [2, 3], [1, 1, 0, 0], {"r1": [[1, 0]]}, result=False)
    assert broken(before, other) == {("P15", "a refused admission changes something")}


def test_a_reset_waits_for_all_holders() -> None:
    """A copy is one, which stands in no table."""
    held = told("start", [2, 3], [0, 1, 0, 0], {}, result=True)
    assert broken(held, told("reset", [2, 3], [0, 1, 0, 0], {}, result=False)) == set()
    emptied = Step("reset", {}, result=True, state=State({"device": PoolState([0, 1, 0, 0], [2, 3], 2, [], [])}, {}))
    assert broken(held, emptied) == {("P11", "reset while blocks are held")}
    assert broken(held, emptied, cached="held") == set(), "the cache was the holder"


def test_a_reset_may_end_who_runs() -> None:
    """Transformers' does. What else held their blocks is a holder all the same."""
    running = told("start", [2, 3], [0, 1, 0, 0], {"r0": [[1]]}, result=True)
    shared = told("start", [2, 3], [0, 2, 0, 0], {"r0": [[1]]}, result=True)
    after = State({"device": PoolState([0, 0, 0, 0], [2, 3, 1], 3, [], [])}, {})
    ending = Step("reset", {}, result=True, state=after, effects=[["end", "r0", "finished"]])
    assert broken(running, ending) == set()
    assert broken(shared, ending) == {("P11", "reset while blocks are held")}
    assert broken(running, Step("reset", {}, result=True, state=after)) == {("P11", "reset while blocks are held")}


def test_what_an_evict_answers_names_blocks_in_a_list_alone() -> None:
    """A number says how many they were, as in Transformers."""
    before = told("start", [2, 3], [1, 1, 0, 0], {"r1": [[0, 1]]}, result=True)
    assert before.state is not None
    assert broken(before, Step("evict", {}, result=1, state=before.state)) == set()
    assert broken(before, Step("evict", {}, result=[1], state=before.state)) == {("P11", "evict leaves an entry")}
    assert broken(before, Step("evict", {"block": 1}, state=before.state)) == {("P11", "evict leaves an entry")}


def test_an_evict_and_a_refusal_leave_the_queue_as_it_was() -> None:
    before = told("start", [2, 3], [1, 1, 0, 0], {"r1": [[0, 1]]}, result=True)
    pool = PoolState([1, 1, 0, 0], [3, 2], 2, [(0, 0, [1])], [(1, [(0, 0)])])
    turned = State({"device": pool}, {"r1": [[0, 1]]})
    evict = Step("evict", {"block": 2}, state=turned)
    assert broken(before, evict) == set(), "nobody says that the order decides anything"
    assert broken(before, evict, take="head") == {("P11", "evict removes more than hashes")}
    refused = Step("start", {"request": "r0"}, result=False, state=turned)
    assert broken(before, refused, take="head") == {("P7", "a refused admission changes the queue")}
    freed = told("evict", [2, 3, 1], [1, 0, 0, 0], {"r1": [[0]]})
    assert ("P11", "evict removes more than hashes") in broken(before, Step("evict", {"block": 3}, state=freed.state))


def test_what_is_copied_from_is_held_while_blocks_are_taken() -> None:
    """A hit that ends inside of a block leaves that where it is, or lets it go again."""
    before = told("finish", [2, 3], [1, 1, 0, 0], {"r1": [[0, 1]]})

    def start(free: list[int], *copied: list[Any]) -> Step:
        effects: list[list[Any]] = [["copied", [*copied]], ["table", "r0", 0, 0, [3]]]
        return told("start", free, [1, 1, 0, 1], {"r1": [[0, 1]], "r0": [[3]]}, result=True, effects=effects)

    assert broken(before, start([2], ["device", 2, "device", 3]), take="head") == set()
    taken = {("P7", "taken from the head of the queue")}
    assert broken(before, start([2]), take="head") == taken
    assert broken(before, start([2], ["device", 1, "device", 3]), take="head") == taken


Cached = list[tuple[int, int, list[int]]]


def reloaded(cached: Cached, reloads: dict[int, int], after: Cached, *, tokens: int = 7, op: str = "start") -> set[str]:
    """The rules that an operation breaks which copies keys back into blocks; r0's keys are 0, 1 and 2, the host has 1,
    2 and 5."""
    notes = {"dialect": {"host": "mirror"}}
    world = World([Group("full", 2)], {"device": Tier(6), "host": Tier(8, by_key=True)}, 2, notes=notes)
    oracle, ghost = RequestsOracle(world), Ghost(world)
    host = PoolState(cached=[(k, 0, [k]) for k in (1, 2, 5)])
    before, behind = (State({"device": PoolState(cached=entries), "host": host}, {}) for entries in (cached, after))
    effects: list[list[Any]] = [["request", "r0", {"tokens": [0] * tokens}], ["keys", "r0", 0, [0, 1, 2]]]
    for effect in effects:
        list(ghost.apply(effect) or ())
    list(oracle.step(Step("mirror", {}, state=before), ghost))
    copied = [["copied", [["host", k, "device", block] for k, block in reloads.items()]]]
    step = Step(op, {"request": "r0"}, result=True, effects=copied, state=behind)
    return {violation.rule for violation in oracle.step(step, ghost)}


def test_a_reload_takes_no_block_that_its_own_lookup_found() -> None:
    assert reloaded([(0, 0, [1])], {1: 2}, [(0, 0, [1]), (1, 0, [2])]) == set()
    assert reloaded([(0, 0, [1])], {1: 1}, [(1, 0, [1])]) == {"M6"}
    assert reloaded([(0, 0, [1, 2])], {1: 1}, [(0, 0, [2]), (1, 0, [1])]) == set(), "another block has the key too"
    assert reloaded([(0, 0, [1]), (2, 0, [3])], {1: 3}, [(0, 0, [1]), (1, 0, [3])]) == {"M6"}, "behind a gap"
    assert reloaded([(0, 0, [1]), (2, 0, [3])], {1: 3}, [(0, 0, [1]), (1, 0, [3])], tokens=6) == set(), "not looked for"
    assert reloaded([(1, 0, [3])], {2: 3}, [(2, 0, [3])]) == set(), "the lookup ends at key 0, which is nowhere"


def test_a_reload_is_of_the_own_prefix_and_leaves_one_key() -> None:
    assert reloaded([(7, 0, [3])], {1: 3}, [(1, 0, [3])]) == set()
    assert reloaded([(7, 0, [3])], {1: 3}, [(1, 0, [3]), (7, 0, [3])]) == {"M5"}
    assert reloaded([(7, 0, [3])], {1: 3}, []) == {"M5"}
    assert reloaded([], {5: 3}, [(5, 0, [3])]) == {"M4"}
    assert reloaded([], {1: 3}, [(1, 0, [3])], op="finish") == {"M4"}


def test_freed_blocks_go_where_the_dialect_says() -> None:
    before = told("start", [3], [1, 1, 1, 0], {"r0": [[1, 0, 2]]}, result=True)
    append, split = (told("finish", free, [0] * 4, {}) for free in ([3, 2, 0, 1], [2, 0, 3, 1]))
    for declared, right, wrong in (("append", append, split), ("split", split, append)):
        assert broken(before, right, free=declared) == set()
        assert broken(before, wrong, free=declared) == {("P10", "order of freed blocks")}
    assert broken(before, append) == broken(before, split) == set(), "what is not declared is not judged"


# Targets


def test_fuzz_finds_tells_and_writes_and_replay_shows_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, right = target((*FAKE, "--engine-fault", "keep-hash")), target(FAKE)
    report = tmp_path / "report.json"
    arguments = ["--examples", "200", "--time", "20", "--traces", str(tmp_path), "--json", str(report)]
    assert cli.run(["fuzz", wrong, *arguments]) == 1
    shown = capsys.readouterr().out
    assert "rules judged: P1" in shown
    found = json.loads(report.read_text())
    assert found["levels"][0]["judged"]
    assert "P6" in {finding["rule"] for finding in found["findings"]}
    again = next(line.strip().removeprefix("again: ") for line in shown.splitlines() if "again: " in line)
    assert cli.run(shlex.split(again)[1:]) == 1
    trace = next(path for path in tmp_path.glob("*.jsonl") if "P6" in path.name)
    assert trace.name.startswith("exec-")
    assert cli.run(["replay", str(trace)]) == 2, "a trace never starts the program that it names"
    assert f"name it yourself: --target {shlex.quote(wrong)}" in capsys.readouterr().err
    assert cli.run(["replay", str(trace), "--target", right]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
    assert cli.run(["replay", str(trace), "--target", wrong, "--script", str(tmp_path / "script.py")]) == 2
    assert "there is no script to write: level requests is driven by a program of its own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("op", "args", "said"),
    [
        ("zz", {}, "there is no operation zz"),
        ("start", {"request": "r0", "prompt": [0, 1.5]}, "start has the prompt [0, 1.5]"),
        ("start", {"request": "r0", "prompt": "zz"}, "start has the prompt 'zz'"),
        ("start", {"request": "r0", "prompt": []}, "start has the prompt []"),
        ("start", {"request": None, "prompt": [0]}, "start has the request None"),
        ("start", {"prompt": [0]}, "start has no request"),
        ("start", {"request": "r0", "prompt": [0], "salt": 1}, "start has the salt 1"),
        ("grow", {"request": "r0", "tokens": [True]}, "grow has the tokens [True]"),
        ("drain", {"request": "r0"}, "drain has the request 'r0'"),
        ("begin", {"op": "begin"}, "begin names no operation"),
        ("begin", {"op": "drain"}, "begin names no operation"),
        ("batch", {"order": [1]}, "batch has the order"),
        ("begin", {"op": "step", "request": "r0", "most": -1}, "step has the most -1"),
    ],
)
def test_a_trace_that_asks_what_nobody_asks_is_no_fault_of_a_driver(
    op: str, args: dict[str, object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [Operation("start", {"request": "r9", "prompt": [0]}), Operation(op, args)]
    trace = Trace("exec:none", "requests", operations=asked, dialect={"setup": {"blocks": 2, "block_tokens": 2}})
    write_trace(path := tmp_path / "trace.jsonl", trace)
    assert cli.run(["replay", str(path), "--target", target(FAKE)]) == 2
    assert f"{path}: operation 2: {said}" in capsys.readouterr().err.replace("\n", " ")


IDLE = """
import json, sys
can = {"operations": ["start", "finish", "drain"]}
hello = {"protocol": 1, "engine": "idle", "version": "1", "levels": ["requests"], "capabilities": {"requests": can}}
print(json.dumps({"hello": hello}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if {*asked["setup"]} - {"blocks", "block_tokens"}:
        print(json.dumps({"id": asked["id"], "refused": "no such option"}), flush=True)
        continue
    live, steps = [], []
    for op, args in asked["ops"]:
        step = {"op": op, "args": args, "result": sys.argv[1] == "admits", "effects": []}
        if op == "start":
            live.append(args["request"])
            step["effects"] = [["request", args["request"], {"tokens": args["prompt"]}]]
        elif op == "drain":
            step["result"] = {"left": 0, "pending": 0, "steps": 0}
            step["effects"] = [["end", name, "finished"] for name in live if sys.argv[1] == "admits"]
            live = []
        else:
            step["skipped"] = True
        steps.append(step)
    size = asked["setup"]["block_tokens"]
    world = {"groups": [{"kind": "full", "block": size}], "tiers": {"device": {"blocks": asked["setup"]["blocks"]}}}
    print(json.dumps({"id": asked["id"], "world": {**world, "hash_block": size}, "steps": steps}), flush=True)
"""


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("refuses", 1, "drain left 0 requests, and of 1 no end was told"),
        ("admits", 3, "no effect compute was told; let requests in"),
    ],
)
def test_who_lets_nobody_in_or_computes_nothing_does_not_pass(
    how: str, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "idle.py").write_text(IDLE)
    idle = target((sys.executable, str(tmp_path / "idle.py"), how))
    assert cli.run(["fuzz", idle, "--examples", "20", "--time", "20"]) == status
    assert said in capsys.readouterr().out


def test_what_is_drawn_can_be_asked() -> None:
    operations = [*requests.OPERATIONS, *requests.SEVERAL]
    can = Capabilities(operations, options=["host_blocks"], tenants=["salt", "adapter"])
    asked = set[str]()
    for cases in block_cases.profiles(can).values():

        @settings(DRAWING, max_examples=40)
        @given(cases)
        def each_fits(case: Case) -> None:
            asked.update(op for op, _ in case.ops)
            assert [problem for op, args in case.ops if (problem := problem_of(op, args))] == []

        each_fits()
    assert asked | {"drain"} == {*operations}


def test_events_of_a_driver_are_judged() -> None:
    report = hunted((*FAKE, "--engine-fault", "silent removal"), 200)
    assert "P12" in {finding.violation.rule for finding in report.findings}
    assert report.sight is not None
    assert "P12" in report.sight.judged


def test_nothing_is_found_in_a_right_driver_with_a_null_block() -> None:
    report = hunted(FAKE, 400)
    assert report.findings == []
    assert report.sight is not None
    assert report.sight.unjudged == {}


@pytest.mark.parametrize(("fault", "rule"), [("later tokens", "E3"), ("block before last", "P12")])
def test_what_events_say_of_blocks_is_held_against_what_the_keys_name(fault: str, rule: str) -> None:
    report = hunted((*FAKE, "--engine-fault", fault), 100)
    assert {finding.violation.rule for finding in report.findings} == {rule}


def test_what_is_not_told_is_not_judged_and_is_named() -> None:
    report = hunted((*FAKE, "--fault", "hides hashes"), 100)
    assert report.findings == []
    assert report.sight is not None
    assert report.sight.unjudged == {"P5": "no state shows hashes of the device"}


@pytest.mark.parametrize("told", [(), ("--fault", "promises nothing"), ("--hides-cached",)], ids=str)
@pytest.mark.parametrize("fault", ["never hits", "short hits", "own last"])
def test_lookups_that_stop_short_are_found_soon_by_what_is_shown_or_promised(told: tuple[str, ...], fault: str) -> None:
    findings = hunted((*FAKE, *told, "--engine-fault", fault), 40).findings
    assert findings
    for finding in findings:
        rules = {violation.rule for violation in finding.all_symptoms}
        # Where the map is hidden, and events say what is cached, the lookup's fault is told as theirs, too.
        assert rules == {"P14"} if not told else {"P14"} <= rules <= {"P12", "P14"}
        assert finding.violation.rule == "P14" or told == ("--hides-cached",)


def test_prompts_that_come_again_are_asked_for_with_room() -> None:
    report = hunted(FAKE, 40, profiles=("again",))
    activity = report.activity
    assert report.findings == []
    assert activity.asked_again > 40
    assert activity.hits >= 0.9 * activity.asked_again, "nearly all find what was computed before"


def test_what_happened_is_counted() -> None:
    report = hunted(FAKE, 200)
    counts = report.activity.to_json()
    assert all(counts[name] for name in counts if name != "external_tokens"), counts
    assert report.activity.hits <= report.activity.lookups
    hidden = hunted((*FAKE, "--fault", "promises nothing"), 40, profiles=("uncached",)).activity
    assert (hidden.hits, hidden.evictions) == (0, 0)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("answers another", "is finish, and the answer's step is of abort"),
        ("skips and tells", "is skipped, and has effects all the same: ['zero', 'device', [1]]"),
    ],
)
def test_an_answer_to_another_operation_is_none(fault: str, said: str) -> None:
    report = hunted((*FAKE, "--fault", fault), 40)
    assert report.findings
    assert all(said in finding.violation.text for finding in report.findings)


@pytest.mark.parametrize("fault", ["one step too few", "no world", "refuses and goes on"])
def test_what_is_not_answered_does_not_pass_for_right(fault: str) -> None:
    report = hunted((*FAKE, "--fault", fault), 40)
    assert {finding.violation.key for finding in report.findings} == {("garbage", "answer")}


@pytest.mark.parametrize("fault", ["garbage effect", "blocks below 0", "no groups", "no such dialect"])
def test_words_that_are_none_are_a_finding_and_no_fault_of_the_kit(fault: str) -> None:
    report = hunted((*FAKE, "--fault", fault), 100)
    garbage = [f for f in report.findings if f.violation.key and f.violation.key[0] == "garbage"]
    assert report.findings
    told = ["\n".join(tell("exec:driver", f.case, f.verdict)) for f in garbage]
    assert all("kvproof protocol-check exec:driver says more" in text for text in told)
    assert garbage or fault != "no groups"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("exec:/nonexistent/driver", "cannot be run (No such file or directory)"),
        ("exec:", "names no command"),
        ("exec:a 'b", "close its quotes"),
        (target((*FAKE, "--fault", "other protocol")), "speaks protocol 99, this kit 1"),
        (target((*FAKE, "--fault", "no json")), "first line is no hello: b'Welcome!'"),
        (target((*FAKE, "--fault", "crashes")), "ended with status 3: this engine needs a licence"),
        (target((*FAKE, "--fault", "cannot start")), "does not say that it can start and finish requests"),
        (target((sys.executable, "-c", "")), "ended with status 0"),
    ],
)
def test_a_driver_that_cannot_be_had_is_one_sentence_and_status_2(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["fuzz", command, "--time", "5"], ["protocol-check", command]):
        if "cannot start" in command and arguments[0] == "protocol-check":
            continue  # Its hello can be read: that is what is checked.
        assert cli.run(arguments) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1, said


def test_a_driver_without_a_hello_is_not_waited_for_for_ever() -> None:
    with (
        Session.of(Driver((*FAKE, "--fault", "no hello")), Limits(start=0.5)) as session,
        pytest.raises(WorkerError, match=r"no hello within 0\.5 s"),
    ):
        _ = session.hello


def test_levels_and_profiles_that_a_driver_does_not_have_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["fuzz", target(FAKE), "--level", "scheduler"]) == 2
    assert "has no level scheduler; name one of requests" in capsys.readouterr().err
    assert cli.run(["fuzz", target(FAKE), "--profile", "mirror", "--time", "1"]) == 2
    assert "it has plain, tight, tenants, uncached, forks, again" in capsys.readouterr().err


@pytest.mark.slow
def test_a_driver_that_names_no_level_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["fuzz", target((*FAKE, "--fault", "no levels"))]) == 2
    assert "has no level requests; it has none" in " ".join(capsys.readouterr().err.split())


def test_a_driver_that_hoards_memory_is_ended() -> None:
    limits = Limits(start=20, answer=20, memory=400)
    case = Case("requests", {"blocks": 2, "block_tokens": 2}, [])
    with Session.of(Driver((*FAKE, "--fault", "hoards")), limits) as session:
        runs = [session.run(case) for _ in range(20)]
    failures = [run.failure for run in runs if run.failure is not None]
    assert failures
    assert failures[0].kind == "memory"
    assert "400 are allowed" in failures[0].text


@pytest.mark.parametrize("alone", [False, True])
def test_what_a_driver_started_ends_with_it(tmp_path: Path, alone: bool) -> None:
    """Though it is in a session of its own."""
    pid = tmp_path / "pid"
    script = (
        f"import subprocess, time; p = subprocess.Popen(['sleep', '300'], start_new_session={alone}); "
        f"open({str(pid)!r}, 'w').write(str(p.pid)); print('no hello', flush=True); time.sleep(60)"
    )
    with Session.of(Driver((sys.executable, "-c", script)), LIMITS) as session, pytest.raises(WorkerError):
        _ = session.hello
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _alive(int(pid.read_text())):
        time.sleep(0.05)
    assert not _alive(int(pid.read_text()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
def test_who_becomes_another_program_just_now_is_known_as_soon_as_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started it goes on before its environment is there, and may be ended meanwhile."""
    waits = list[float]()
    process = Path("/proc", str(os.getpid()))
    for name in ("stat", "statm"):
        shutil.copyfile(process / name, tmp_path / name)
    (tmp_path / "exe").symlink_to("/bin/true")
    environment = tmp_path / "environ"
    environment.touch()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            environment.write_bytes(b"TMPDIR=here\0")

    monkeypatch.setattr(time, "sleep", sleep)
    began = int((tmp_path / "stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(time, "clock_gettime", lambda _: began + 1)
    assert computing._environment(tmp_path) == b"TMPDIR=here\0"
    assert len(waits) == 3
    environment.write_bytes(b"")
    monkeypatch.setattr(time, "clock_gettime", lambda _: began + 60)
    assert computing._environment(tmp_path) == b"", "one that has none is not waited for"
    assert len(waits) == 3


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_driver_runs_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FAKES / "requests_driver.py", tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    with Session.of(Driver.of(f"exec:{sys.executable} mine.py"), LIMITS) as session:
        assert session.hello.engine == "fake-requests"


def test_a_command_is_split_as_a_shell_splits_it_and_no_further() -> None:
    assert Driver.of("exec:./d 'a b' $HOME;ls").command == ("./d", "a b", "$HOME;ls")
    assert Driver.of(Driver(("a b", "c")).label).command == ("a b", "c")
    with pytest.raises(StoreError):
        Driver.of("exec:  ")


def test_versions_that_are_no_releases_match_lists_without_a_range_only() -> None:
    violation = Violation("P6", "content", "...")
    assert Known("fake-requests", "P6", "", "").fits("fake-requests", "1 of today", violation, "requests")
    assert not Known("fake-requests", "P6", "", "", ">=1").fits("fake-requests", "1 of today", violation, "requests")


# Cases


def test_a_driver_is_asked_only_for_what_it_can_do() -> None:
    least = Capabilities(["start", "finish"])
    assert set(requests.setups(least)) == {"plain", "again", "tight"}
    assert requests.closing(least) == []
    case = requests.draw(least, "plain", {"blocks": 3, "block_tokens": 2}, bytes(range(200)))
    assert {name for name, _ in case.ops} == {"start", "finish"}
    assert {token for name, args in case.ops if name == "start" for token in args["prompt"]} == {0, 1, 2}


def test_a_tenant_that_nobody_here_knows_is_not_asked_for() -> None:
    report = hunted((*FAKE, "--fault", "tenants of later"), 60, profiles=("tenants",))
    assert report.findings == []
    assert report.steps > 0
    assert set(requests.setups(Capabilities(["start", "finish"], tenants=["moon"]))) == {"plain", "again", "tight"}


def test_a_request_never_has_more_tokens_than_the_device_holds() -> None:
    can = Capabilities(list(requests.OPERATIONS), ["host_blocks"], tokens_per_grow=3)
    for seed in range(50):
        setup = {"blocks": 2, "block_tokens": 2, "host_blocks": 1}
        play = bytes((seed * 31 + n * n * 7) % 256 for n in range(400))
        lengths: dict[str, int] = {}
        for name, args in requests.draw(can, "mirror", setup, play).ops:
            if name == "start":
                assert args["request"] not in lengths
                lengths[args["request"]] = len(args["prompt"])
            elif name == "fork":
                assert args["child"] not in lengths
                lengths[args["child"]] = lengths[args["request"]]
            elif name == "grow":
                lengths[args["request"]] += len(args["tokens"])
        assert max(lengths.values()) <= 4
        assert min(lengths.values()) >= 1


def test_a_part_of_a_block_that_a_fork_lacks_is_noticed() -> None:
    found = hunted((*FAKE, "--engine-fault", "copies no part"), 60).findings
    assert {finding.violation.oracle for finding in found} == {"a fork handed out"}
