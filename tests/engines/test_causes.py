"""One finding for each cause: what is one, what is two, what is none."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.cli.findings import file_name
from kvproof.engines.causes import Causes, gathered, merged
from kvproof.engines.collecting import Collector, Ground, Memory
from kvproof.engines.driver import requests
from kvproof.engines.driver.traits import of_requests
from kvproof.engines.hunt import hunt, looked_up
from kvproof.engines.known import Known, Listed
from kvproof.engines.reduce import Reduction
from kvproof.engines.report import Finding, HuntReport
from kvproof.engines.schedule import Schedule
from kvproof.engines.session import Limits, Session
from kvproof.engines.sorting import GRACE
from kvproof.engines.traits import Traits, argument, naming, operation, option
from kvproof.engines.verdicts import judged_in, verdict
from kvproof.engines.vllm.levels import traits as vllm
from kvproof.judge.judging import faults, judge
from kvproof.judge.oracles.content import UNSURE
from kvproof.judge.record import Answer, Capabilities, Case
from kvproof.judge.violation import Verdict, Violation

from .toys import cases, toy


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with toy(Limits(start=30, operation=2, answer=10)) as session:
        yield session


# What is one cause


def found(needs: set[str], rule: str = "L1", oracle: str = "requests that never end", level: str = "top") -> Finding:
    violation = Violation(rule, oracle, "...", ("device",))
    case = Case(level, {}, [("step", {})])
    return Finding(Verdict(violation, 0, Answer(0)), case, "family", 1.0, 10, needs=frozenset(needs))


def told(*findings: Finding) -> list[tuple[str, list[str], int]]:
    return [
        (f.violation.rule, sorted(f.needs), len(f.ways)) for f in merged(findings, ("top", "bottom"))
    ]  # fmt: skip


def test_two_causes_with_one_symptom_are_two() -> None:
    assert told(found({"mamba", "fine hashes"}), found({"window", "drafts"})) == [
        ("L1", ["fine hashes", "mamba"], 0),
        ("L1", ["drafts", "window"], 0),
    ]


def test_one_cause_at_two_levels_and_on_two_tiers_is_one() -> None:
    host = found({"window"}, level="bottom")
    host = msgspec_replace(host, Violation("L1", "requests that never end", "...", ("device", "host")))
    one = merged([host, found({"window"})], ("top", "bottom"))
    assert [(f.case.level, f.levels, len(f.symptoms)) for f in one] == [("top", ("bottom",), 1)]


def test_what_needs_more_is_another_way_but_nothing_is_no_part_of_everything() -> None:
    assert told(found({"window"}), found({"window", "drafts"})) == [("L1", ["window"], 1)]
    assert told(found({"window", "drafts"}), found({"window"})) == [("L1", ["window"], 1)]
    assert len(told(found(set()), found({"window"}))) == 2


def test_what_needs_all_that_two_causes_do_makes_no_one_of_them() -> None:
    one, other, both = found({"drafts", "window"}), found({"drafts", "steps"}), found({"drafts", "steps", "window"})
    for order in permutations([one, other, both]):
        causes = Causes()
        for each in order:
            causes.add(each)
        assert {f.needs for f in causes.findings} == {one.needs, other.needs}


def test_groups_of_two_kinds_are_one_cause_where_it_needs_the_same() -> None:
    """What is overwritten may be a state of a mamba layer, or a block of full attention."""
    full, mamba = (
        msgspec_replace(found({"mamba", "runner 2"}), Violation("P6", "content of a cached block", "...", ("host", k)))
        for k in ("full", "mamba")
    )
    assert told(full, mamba) == [("P6", ["mamba", "runner 2"], 0)]
    assert len(told(full, replace(mamba, needs=frozenset({"mamba", "reset"})))) == 2


@pytest.mark.parametrize(
    ("said", "causes"), [("it was never written", 1), (UNSURE, 1), ("group 0 wrote to it since", 2)]
)
def test_groups_of_two_kinds_are_one_cause_where_the_same_is_wrong_and_one_needs_more(said: str, causes: int) -> None:
    """The state that is written too early needs a window, to be the one that is stored."""
    full, mamba = (
        msgspec_replace(found({"mamba", *more}), Violation("P6", "content of a cached block", text, ("host", kind)))
        for kind, more, text in (
            ("full", (), "block 1 (host) is cached under key 1 in group 0 (full), but it was never written"),
            ("mamba", ("window",), f"block 3 (host) is cached under key 7 in group 2 (mamba), but {said}"),
        )
    )
    assert len(told(full, mamba)) == len(told(mamba, full)) == causes


def test_what_is_harmless_beside_two_causes_makes_no_one_of_them() -> None:
    counted = found({"window"}, "P15", "a lookup counts more than once")
    both = Verdict(found(set()).violation, 0, Answer(0), also=(counted.violation,))
    content = Finding(both, counted.case, "", 0.0, 0, needs=counted.needs)
    assert len(told(counted, content)) == 2


@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from("abc")),
            st.lists(st.sampled_from(["L1", "P6", "P15", "O3"]), min_size=1, max_size=3, unique=True),
        ),
        max_size=8,
    )
)
def test_each_finding_is_of_a_cause_that_is_told(drawn: list[tuple[set[str], list[str]]]) -> None:
    """Whatever else the steps broke: a hunt looks up what it meets among the causes that it tells, and each of these
    was met."""
    findings = []
    for needs, rules in drawn:
        violation, *also = (found(needs, rule).violation for rule in rules)
        verdict = Verdict(violation, 0, Answer(0), also=tuple(also))
        findings.append(Finding(verdict, found(needs).case, "", 0.0, 0, needs=frozenset(needs)))
    causes = Causes(merged(findings, ["top"]))
    seen = []
    for finding in findings:
        cause = causes.cause_of(finding.violation, finding.needs)
        assert cause is not None
        assert cause.needs <= finding.needs
        seen.append(id(cause))
    assert {*seen} == {*map(id, causes.findings)}


def test_each_finding_is_told_once_whatever_it_was_told_to_need_before() -> None:
    """A case may be made smaller with another connector in the place of the one that it had."""
    one = replace(found({"simple connector"}), was=(frozenset({"abort", "offloading connector"}),))
    before = replace(found({"abort", "offloading connector"}), unfinished=True)
    for order in permutations([one, before, found({"simple connector", "window"})]):
        ((cause, those),) = gathered(order, ["top"])
        assert cause.needs == one.needs
        assert {*map(id, those)} == {*map(id, order)}
        assert all(Causes([cause]).cause_of(each.violation, each.needs) is cause for each in those)


def test_other_symptoms_are_other_causes_unless_one_step_shows_both() -> None:
    content = found({"window"}, "P6", "a forward pass read")
    assert len(told(found({"window"}), content)) == 2
    both = Verdict(content.violation, 0, Answer(0), also=(found(set()).violation,))
    assert len(told(found({"window"}), Finding(both, content.case, "", 0.0, 0, needs=content.needs))) == 1


def test_the_traces_of_two_causes_have_two_names() -> None:
    one, other = found({"mamba", "fine hashes"}), found({"window"})
    assert file_name("vllm==0.33.0", one) != file_name("vllm==0.33.0", other)
    assert file_name("vllm==0.33.0", one).endswith("device-fine-hashes-mamba.jsonl")
    long = [found({need}, "L2", "exception" * 15) for need in ("a", "b")]
    assert len({file_name("vllm==0.33.0", each) for each in long}) == 2


def test_a_consequence_is_noted_at_its_cause() -> None:
    causes = Causes()
    causes.add(found({"window"}))
    later = Violation("P6", "content of a cached block", "...", ("host",))
    causes.consequence(found({"window"}).violation, later)
    assert causes.findings[0].symptoms == (later,)


def msgspec_replace(finding: Finding, violation: Violation) -> Finding:
    return Finding(Verdict(violation, 0, Answer(0)), finding.case, "", 0.0, 0, needs=finding.needs)


# What a cause needs

TRAITS = Traits(
    (
        option("events", "events", plain=False),
        option("host", "host"),
        operation("abort", "abort"),
        argument("salt", "add", "salt"),
    )
)


def needing(*names: str) -> Any:
    """Shows a fault in cases that have these traits."""

    def judged(case: Case) -> Verdict | None:
        if not set(names) <= TRAITS.of(case):
            return None
        return Verdict(Violation("P6", "toy", "..."), len(case.ops) - 1, Answer(0))

    return judged


@pytest.mark.parametrize("needs", [(), ("events",), ("host", "salt"), ("events", "abort")])
def test_what_is_left_of_a_case_is_what_the_fault_needs(needs: tuple[str, ...]) -> None:
    ops: list[tuple[str, dict[str, Any]]] = [("add", {"salt": 1}), ("abort", {}), ("step", {}), ("step", {})]
    case = Case("toy", {"events": True, "host": 4}, ops)
    judged = needing(*needs)
    first = judged(case)
    assert first is not None
    reduction = Reduction(case, first, judged, TRAITS, 1e12)
    reduction.strip()
    reduction.shorten()
    assert reduction.finished
    assert reduction.needs == set(needs)


@pytest.mark.parametrize(
    "prompts",
    [
        ({"tokens": [0, 1], "salt": 1}, {"tokens": [0, 1]}),
        ({"runs": [[0, 2]]}, {"keep": 2, "runs": [], "salt": 2}),
    ],
)
@pytest.mark.parametrize("told_by_salts", [False, True])
def test_who_is_told_apart_by_a_salt_may_be_by_tokens(prompts: tuple[dict[str, Any], ...], told_by_salts: bool) -> None:
    """A fault that needs two contents needs no salt for them."""

    def contents(case: Case) -> list[Any]:
        runs = [args.get("runs", [[token, 1] for token in args.get("tokens", ())]) for _, args in case.ops]
        kept = [runs[0] if args.get("keep") else [] for _, args in case.ops]
        salts = [args.get("salt", 0) for _, args in case.ops]
        return salts if told_by_salts else [[*a, *b, s] for a, b, s in zip(kept, runs, salts, strict=True)]

    def judged(case: Case) -> Verdict | None:
        each = contents(case)
        return found(set()).verdict if len(each) == 2 and each[0] != each[1] else None

    case = Case("toy", {}, [("add", dict(args)) for args in prompts])
    traits = Traits((naming("salt"),))
    first = judged(case)
    assert first is not None
    reduction = Reduction(case, first, judged, traits, 1e12)
    reduction.strip()
    assert reduction.needs == ({"salt"} if told_by_salts else set())


def test_a_case_of_which_nothing_but_the_setup_is_left_can_be_varied() -> None:
    """What is built of a setup may fail before any operation."""
    case = Case("toy", {"events": True, "host": 4}, [])
    judged = needing("host")
    first = judged(case)
    assert first is not None
    reduction = Reduction(case, first, judged, TRAITS, 1e12)
    assert reduction.doubt(frozenset({"host"}), seed=1)
    assert not reduction.doubt(frozenset(), seed=1)


@pytest.mark.parametrize("in_time", [True, False])
def test_a_finding_says_whether_there_was_time_to_see_what_it_needs(
    session: Session, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    if not in_time:
        monkeypatch.setattr(Reduction, "strip", lambda _: None)
    traits = Traits((option("note", "note"), operation("store", "store")))
    leaking = {"toy": cases(fault="leak", note="of no consequence")}
    report = hunt(judged_in(session), "fake==1.0", "toy", leaking, seconds=60, examples=60, traits=traits)
    assert [finding.unfinished for finding in report.findings] == [not in_time]
    assert (report.findings[0].needs == set()) == in_time


def test_what_others_had_no_time_to_finish_is_gone_on_with(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is told as what came of it, to who tells the findings of all of them."""
    traits = Traits((option("note", "note"), operation("store", "store")))
    leaking = {"toy": cases(fault="leak", note="of no consequence")}

    def hunted(heard: list[Finding]) -> tuple[list[Finding], list[Finding]]:
        told: list[Finding] = []

        def share(news: list[Finding]) -> list[Finding]:
            told.extend(news)
            others, heard[:] = heard[:], []
            return others

        how: dict[str, Any] = {"seconds": 60, "examples": 60, "traits": traits, "share": share}
        return hunt(judged_in(session), "fake==1.0", "toy", leaking, **how).findings, told

    with monkeypatch.context() as patched:
        patched.setattr(Reduction, "strip", lambda _: None)
        _, (unfinished,) = hunted([])
    assert unfinished.unfinished
    assert "note" in unfinished.needs
    (finding,), told = hunted([unfinished])
    assert (finding.needs, finding.unfinished, finding.ways) == (frozenset(), False, ())
    assert {f.needs for f in told} == {frozenset()}
    assert told[-1].was == (unfinished.needs,)
    assert [f.needs for f in merged([unfinished, *told], ["toy"])] == [frozenset()]
    assert hunted([*told])[1] == [], "nothing is left to be done"


def test_what_came_of_an_unfinished_finding_is_told_in_its_place() -> None:
    """Though it needs nothing, which is no part of everything, and though another one was seen to need that already."""
    before = replace(found({"window", "drafts"}), unfinished=True)
    for needs in map(frozenset, (set[str](), {"drafts"}, {"window", "drafts"})):
        after = replace(found({*needs}), was=(before.needs,))
        for order in permutations([before, after, found({*needs})]):
            causes = Causes()
            for each in order:
                causes.add(each)
            (one,) = causes.findings
            assert (one.needs, one.unfinished, one.ways) == (needs, False, ())
            assert merged(order, ("top",))[0].needs == needs
    elsewhere = replace(found({"drafts"}), was=(frozenset({"drafts", "steps"}),))
    assert len(told(before, replace(elsewhere, needs=frozenset({"steps"})))) == 2


def test_what_may_need_less_may_be_what_is_listed() -> None:
    entries = [
        Known("fake", "L1", "whatever it needs", "#1"),
        Known("fake", "L1", "drafts", "#2", needs=["drafts"]),
        Known("fake", "L1", "all of it", "#3", needs=["drafts", "events", "window"]),
        Known("fake", "L2", "another rule", "#4", needs=["drafts", "window"]),
    ]
    listed = Listed(entries, "fake", "1.0")

    def seen(needs: set[str], *, unfinished: bool) -> tuple[str | None, str | None]:
        finding = looked_up(replace(found(needs), unfinished=unfinished), listed)
        return finding.expected, finding.perhaps

    assert seen({"drafts", "window"}, unfinished=True) == (None, "drafts (#2)")
    assert seen({"drafts", "window"}, unfinished=False) == (None, "drafts (#2)")
    assert seen({"window"}, unfinished=False) == (None, None)
    assert seen({"window"}, unfinished=True) == (None, "whatever it needs (#1)")
    assert seen({"drafts"}, unfinished=True) == ("drafts (#2)", None)


# What lies behind a fault


def test_a_case_is_judged_behind_its_first_fault(session: Session) -> None:
    """A block of which nobody was told that it was written is told of once: later reads of it are not to blame."""
    ops: list[tuple[str, dict[str, Any]]] = [("add", {"tokens": [1, 1, 1]}), ("add", {"tokens": [1, 1, 1]})]
    answer = session.run(Case("toy", {}, [*ops, ("drain", {})])).answer
    first = answer.steps[0]
    first.effects = [effect for effect in first.effects if effect[0] != "compute"]
    answer.steps[2].effects.append(["counts", {"hits": -1}])
    signatures = [[v.signature[:2] for v in violations] for _, violations in faults(answer)]
    assert signatures == [[("P6", "content of a cached block")], [("P15", "counter goes back")]]
    before = judge(answer)
    assert before is not None
    assert before[0] == 0


# What is no finding


def worn(after: int) -> st.SearchStrategy[Case]:
    return st.builds(
        lambda case: msgspec.structs.replace(case, ops=[*case.ops, ("worn", {"after": str(after)})]), cases()
    )  # fmt: skip


def test_what_no_fresh_worker_shows_is_not_told(session: Session) -> None:
    session.renew()
    report = hunt(
        judged_in(session), "fake==1.0", "toy", {"toy": worn(20)}, seconds=60, examples=60, renew=session.renew
    )
    assert report.findings == []
    assert report.unconfirmed["L2 exception"] > 0
    session.renew()
    twin = hunt(judged_in(session), "fake==1.0", "toy", {"toy": worn(20)}, seconds=60, examples=60)
    assert [f.violation.rule for f in twin.findings] == ["L2"], "the same worker shows it again and again"


def test_a_renewed_worker_has_done_nothing(session: Session) -> None:
    case = Case("toy", {}, [("worn", {"after": "1"})])
    assert session.hello.levels, "it is started, also where this test comes first"
    session.renew()
    starts = session.starts
    assert verdict(session, case)[0] is None
    assert verdict(session, case)[0] is not None
    session.renew()
    assert verdict(session, case)[0] is None
    assert session.starts == starts, "it is a copy of the one that was started"


# What is searched


def test_families_get_turns_by_what_they_bring() -> None:
    schedule = Schedule(["rich", "poor", "dry"], seed=0)
    turns = Counter[str]()
    for turn in range(200):
        arm = schedule.next(schedule.arms)
        turns[arm] += 1
        # The rich one brings much all the time, the dry one did so at first.
        schedule.reward(arm, {"rich": 20, "poor": 1, "dry": 100 if turn < 10 else 0}[arm], 1.0)
    assert turns["rich"] > 120
    assert min(turns.values()) >= 1, "none is given up unseen"
    assert turns["poor"] + turns["dry"] > 2, "none is given up for ever"


def test_a_first_turn_that_is_lost_is_owed() -> None:
    schedule = Schedule(["lost", "rich"], seed=0)
    assert [schedule.next(schedule.arms) for _ in range(2)] == ["lost", "rich"]
    schedule.reward("rich", 1000, 1.0)
    schedule.forfeit("lost")
    assert [schedule.next(schedule.arms) for _ in range(2)] == ["lost", "rich"]


def brought(causes: Causes, verdict: Verdict | None = None) -> float:
    """What a turn of a family brings, each case of which shows the same."""
    shows = found(set()).verdict if verdict is None else verdict
    drawn = st.integers(1, 5).map(lambda steps: Case("top", {}, [("step", {})] * steps))
    ground = Ground("top", {"family": drawn}, closing=())
    collector = Collector(
        lambda _case, _known: (shows, Answer(0)), causes, lambda _report, _more, _until: False,
        lambda _answer: None, [ground], 0, Memory(), timed=False,
    )  # fmt: skip
    return collector.turn(HuntReport("fake==1.0", "top"), ground, "family", 0, 1.0)


def test_a_family_that_only_meets_consequences_of_a_known_cause_brings_nothing() -> None:
    read = found(set(), "P6", "a forward pass read")
    before = replace(found(set()).verdict, later=((1, read.violation),))
    assert brought(Causes([found(set())]), before) == 0
    assert brought(Causes([read]), before) > 0, "what comes first is not known"
    known = found({"window"})
    behind = replace(read.verdict, behind=known.violation)
    causes, traits = Causes([known]), {"window", "drafts"}
    assert causes.accounts_for(behind, "top", traits)
    assert not causes.accounts_for(behind, "top", {"drafts"}), "its cases have no window"
    assert not causes.accounts_for(replace(behind, behind=None), "top", traits)


def test_a_family_that_only_meets_a_known_cause_brings_nothing() -> None:
    assert brought(Causes([found(set())])) == 0
    assert brought(Causes([found({"window"})])) > 0, "its cases have no window"
    assert brought(Causes()) > 0


def test_most_of_the_time_is_searched(session: Session) -> None:
    report = hunt(judged_in(session), "fake==1.0", "toy", {"toy": cases(fault="P13")}, seconds=5, renew=session.renew)
    assert report.spent.share is not None
    assert report.spent.share >= 0.8
    assert report.seconds <= 5 * 1.1 + GRACE


# ------------------------------------------------------------------------------------------------ drivers


def test_the_sizes_of_a_driver_s_case_become_smaller_and_its_requests_fit_them() -> None:
    ops: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0] * 9, "most": 8}),
        ("grow", {"request": "r0", "tokens": [1, 1]}),
        ("evict", {"block": 5}),
    ]
    case = Case("requests", {"blocks": 6, "block_tokens": 4, "caching": True}, ops)
    smaller = [*of_requests(Capabilities(["start", "finish"])).simpler(case)]
    assert [c.setup for c in smaller] == [
        *({**case.setup, "blocks": n} for n in range(1, 6)),
        *({**case.setup, "block_tokens": n} for n in (2, 3)),
    ]
    assert smaller[0].ops == [("start", {"request": "r0", "prompt": [0] * 4, "most": 8}), ("evict", {"block": 1})]
    assert smaller[2].ops == [*ops[:2], ("evict", {"block": 3})]
    assert smaller[5].ops[0] == ("start", {"request": "r0", "prompt": [0] * 9, "most": 4})


ARRIVES: tuple[str, dict[str, Any]] = ("start", {"request": "r0", "prompt": [0, 1, 2]})
EVERYTHING = Capabilities(
    [*requests.OPERATIONS], options=["host_blocks", "caching", "events"], tenants=["salt", "adapter"]
)


@pytest.mark.parametrize(
    ("name", "setup", "ops", "plain"),
    [
        ("a host tier", {"host_blocks": 2}, [], []),
        ("no caching", {"caching": False}, [], []),
        ("a fork", {}, [("fork", {"request": "r0", "child": "r1"})], []),
        ("a mirror", {"host_blocks": 2}, [("mirror", {"requests": ["r0"]})], []),
        ("an eviction by name", {}, [("evict", {"block": 1})], []),
        ("loads that wait", {"host_blocks": 2}, [("loaded", {"pick": 0, "failed": 0})], []),
        ("growth", {}, [("grow", {"request": "r0", "tokens": [1]})], []),
        ("an abort", {}, [("abort", {"request": "r0"})], [("finish", {"request": "r0"})]),
        ("a preemption", {}, [("preempt", {"request": "r0"})], [("finish", {"request": "r0"})]),
    ],
)
def test_what_a_driver_s_case_may_have_can_be_taken_away(name: str, setup: Any, ops: list[Any], plain: Any) -> None:
    traits = of_requests(EVERYTHING)
    usual = {"blocks": 4, "block_tokens": 2}
    case = Case("requests", {**usual, **setup}, [ARRIVES, *ops, ("drain", {})])
    assert name in traits.of(case)
    (trait,) = (trait for trait in traits.all if trait.name == name)
    ways = [*traits.without(case, trait)]
    assert all(name not in traits.of(way) for way in ways)
    if plain:
        assert [way.ops for way in ways] == [[ARRIVES, ("drain", {})], [ARRIVES, *plain, ("drain", {})]]
    assert traits.of(traits.avoiding(case, name)) == traits.of(case) - {name}


def test_who_is_admitted_later_comes_later() -> None:
    traits = of_requests(EVERYTHING)
    ops: list[tuple[str, dict[str, Any]]] = [
        ARRIVES,
        ("start", {"request": "r1", "prompt": [1]}),
        ("preempt", {"request": "r0"}),
        ("finish", {"request": "r1"}),
        ("resume", {"request": "r0"}),
        ("finish", {"request": "r0"}),
    ]
    (later,) = (trait for trait in traits.all if trait.name == "a later admission")
    at_once, moved = traits.without(Case("requests", {"blocks": 4, "block_tokens": 2}, ops), later)
    assert at_once.ops == [op for op in ops if op[0] != "resume"]
    assert moved.ops == [ops[1], ops[3], ARRIVES, ops[5]]


def test_a_prompt_in_parts_is_computed_at_once_or_grows() -> None:
    traits = of_requests(EVERYTHING)
    ops: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0, 1, 2, 0], "most": 1}),
        ("step", {"request": "r0", "most": 1}),
        ("step", {"request": "r0", "most": 0}),
        ("step", {"request": "r0", "most": 0}),
    ]
    (parts,) = (trait for trait in traits.all if trait.name == "a prompt in parts")
    at_once, grown = traits.without(Case("requests", {"blocks": 4, "block_tokens": 2}, ops), parts)
    assert at_once.ops == [("start", {"request": "r0", "prompt": [0, 1, 2, 0]}), *ops[1:]]
    assert grown.ops == [
        ("start", {"request": "r0", "prompt": [0], "most": 0}),
        *(("grow", {"request": "r0", "tokens": [token]}) for token in (1, 2, 0)),
    ]


def test_a_driver_is_asked_for_nothing_that_it_has_not_where_its_cases_become_smaller() -> None:
    can = Capabilities(["start", "step", "finish", "drain"])
    ops: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0, 1, 2, 0], "most": 1}),
        ("step", {"request": "r0", "most": 0}),
        ("drain", {}),
    ]
    case, traits = Case("requests", {"blocks": 4, "block_tokens": 2}, ops), of_requests(can)
    assert traits.of(case) == {"a prompt in parts"}
    ways = [way for trait in traits.all for way in traits.without(case, trait)]
    assert {op for way in ways for op, _ in [*way.ops, *traits.drained(way)]} <= {*can.operations}


def test_scenes_ask_for_nothing_that_a_driver_has_not() -> None:
    can = Capabilities(["start", "finish", "loaded"], options=["host_blocks"])
    asked: set[str] = set()

    @given(requests.profiles(can)["loads"])
    def see(case: Case) -> None:
        asked.update(op for op, _ in case.ops)

    see()
    assert asked == {*can.operations}


def test_a_drain_of_a_driver_is_unfolded_into_whole_requests() -> None:
    ops: list[tuple[str, dict[str, Any]]] = [ARRIVES, ("fork", {"request": "r0", "child": "r1"}), ("drain", {})]
    case = Case("requests", {"blocks": 4, "block_tokens": 2}, ops)
    assert [(op, args["request"]) for op, args in of_requests(EVERYTHING).drained(case)] == [
        *(("finish", name) for name in ("r0", "r1")),
        *((op, name) for name in ("r0", "r1") for op in ("resume", "finish")),
    ]


def test_of_whole_requests_what_needs_nothing_may_be_what_needs_more() -> None:
    causes = Causes([replace(found(set()), bare=True)])
    assert causes.cause_of(found({"growth"}).violation, frozenset({"growth"})) is not None
    causes.add(replace(found({"growth"}), bare=True))
    (one,) = causes.findings
    assert [way.needs for way in one.ways] == [frozenset({"growth"})]
    causes = Causes([replace(found({"a fork"}), bare=True)])
    causes.add(replace(found({"growth"}), bare=True))
    assert len(causes.findings) == 2


# What is behind another fault


def _two(first: str, second: str) -> Verdict:
    at_last = Violation(second, "second", "...")
    return Verdict(Violation(first, "first", "..."), 1, Answer(0), later=((3, at_last),))


def test_which_of_two_connectors_it_is_and_on_which_host_tells_no_two_causes_apart() -> None:
    lazy, remote = {"kind": "simple", "blocks": 4, "lazy": 1}, {"kind": "remote", "sync": 0}
    setup = {"groups": [{"kind": "full", "block": 2}], "budget": 8, "max_len": 12, "chunked": True}
    two = {**setup, "connector": {"kind": "multi", "children": [remote, lazy], "workers": 1}}
    traits, case = vllm.of_scheduler("0.33.0"), Case("scheduler", two, [("step", {})])
    needs = {"lazy offload", "simple connector"}
    assert traits.of(case) == needs | {"two connectors", "tokens from elsewhere"}
    assert traits.only(case, needs).setup["connector"] == {**lazy, "workers": 1}
    assert traits.avoiding(case, "lazy offload").setup["connector"]["children"] == [remote, {**lazy, "lazy": 0}]
    at_once = {**setup, "connector": {"kind": "offloading", "blocks": 4, "sync": 2}}
    assert traits.of(Case("scheduler", at_once, [])) == {
        "offloading connector",
        "loads at once",
        "tokens from elsewhere",
    }


@pytest.mark.parametrize(("one", "other"), [("host", "host2"), ("below", "below2")])
def test_a_fault_is_the_same_at_whichever_connectors_tier(one: str, other: str) -> None:
    first, second = (Violation("O9", "never stored", "", (tier,)) for tier in (one, other))
    assert first.signature == second.signature
    assert first.signature != Violation("O9", "never stored", "", ("device",)).signature
    assert Known("fake", "O9", "", "", key=[other]).fits("fake", "1", first, "toy")


def test_a_step_shorter_than_drafts_is_what_a_fault_may_need() -> None:
    setup = {"groups": [{"kind": "full", "block": 4}], "budget": 4, "max_len": 16, "chunked": True}
    traits = vllm.of_scheduler("0.33.0")
    cases = [Case("scheduler", {**setup, "spec": 3, "drafter": drafter}, []) for drafter in (0, 1, 2)]
    assert ["steps shorter than drafts" in traits.of(case) for case in cases] == [False, True, False]
    assert traits.avoiding(cases[1], "steps shorter than drafts").setup["budget"] == 12


def test_a_fault_of_the_smallest_pool_is_told_from_one_of_loads_in_a_larger_pool() -> None:
    traits = vllm.of_scheduler("0.22.1")
    setup = {"groups": [{"kind": "full", "block": 4}], "budget": 8, "max_len": 16, "chunked": True, "spare": -1}
    smallest = Case("scheduler", setup, [("step", {})])
    assert traits.of(smallest) == {"smallest pool"}
    assert traits.avoiding(smallest, "smallest pool").setup["spare"] == 0
    assert len(told(found({"smallest pool"}), found({"tokens from elsewhere"}))) == 2
    loads = Case("scheduler", {**setup, "spare": 1, "connector": {"kind": "remote"}}, [("step", {})] * 3)

    def halts(case: Case) -> Verdict | None:
        verdict = found(set()).verdict
        return verdict if case.setup["spare"] < 0 or "connector" in case.setup else None

    reduction = Reduction(loads, found(set()).verdict, halts, traits, time.monotonic() + 60)
    assert not reduction.doubt(frozenset(), 0), "no variation leads from one to the other"


def test_what_a_crowd_shows_in_a_larger_pool_as_well_does_not_need_the_smallest() -> None:
    setup = {"groups": [{"kind": "full", "block": 4}], "budget": 8, "max_len": 16, "chunked": True, "spare": -1}

    def crowded(case: Case) -> Verdict | None:
        adds = sum(op == "add" for op, _ in case.ops)
        return found(set()).verdict if adds >= 3 + case.setup["spare"] else None

    case = Case("scheduler", setup, [("add", {}), ("add", {}), ("step", {})])
    reduction = Reduction(case, found(set()).verdict, crowded, vllm.of_scheduler("0.22.1"), time.monotonic() + 60)
    reduction.strip()
    assert reduction.needs == frozenset()


def test_what_comes_behind_a_harmless_fault_is_no_consequence_of_it() -> None:
    behind_harm = _two("P3", "P6").about(("P6", "second"))
    behind_none = _two("P15", "P6").about(("P6", "second"))
    assert behind_harm is not None
    assert behind_none is not None
    assert behind_harm.behind == Violation("P3", "first", "...")
    assert behind_none.behind is None
    assert behind_none.at == 3


def test_a_fault_between_a_harmless_one_and_another_is_what_that_is_behind() -> None:
    two = _two("P12", "P2")
    three = replace(two, later=(*two.later, (5, Violation("P6", "third", "..."))))
    found = three.about(("P6", "third"))
    assert found is not None
    assert found.behind == Violation("P2", "second", "...")


@pytest.mark.parametrize("hides", [True, False])
def test_what_a_drain_hid_is_told_and_what_it_brings_about_is_not(hides: bool) -> None:
    first, second = Violation("M6", "own prefix", "..."), Violation("P14", "short", "...")

    def judged(case: Case, _known: Any) -> tuple[Verdict | None, Answer]:
        answer, ops = Answer(0), [op for op, _ in case.ops]
        if "drain" in ops:
            return Verdict(second, ops.index("drain"), answer), answer
        if "resume" not in ops:
            return None, answer
        at = ops.index("resume")
        short = (ops.index("finish", at), second) if "finish" in ops[at:] else None
        if hides:
            return Verdict(first, at, answer, later=() if short is None else (short,)), answer
        return None if short is None else Verdict(second, short[0], answer), answer

    traits = Traits((), drained=lambda _case: [("resume", {}), ("finish", {})])
    drawn = {"plain": st.just(Case("toy", {}, [("start", {}), ("start", {}), ("drain", {})]))}
    report = hunt(judged, "fake==1.0", "toy", drawn, seconds=20, examples=20, closing=[], traits=traits)
    (finding,) = report.findings
    assert finding.violation == (first if hides else second)
    assert finding.symptoms == ((second,) if hides else ())
    assert "drain" not in [op for op, _ in finding.case.ops]


def test_what_needs_nothing_and_what_was_thought_to_need_something_are_united() -> None:
    causes = Causes()
    special, general = found({"window"}), found(set())
    causes.add(special)
    causes.add(general)
    assert causes.alike() == [(special, general)]
    causes.unite(general, special)
    (one,) = causes.findings
    assert one.needs == frozenset()
    assert [way.needs for way in one.ways] == [frozenset({"window"})]
    assert one.cases == special.cases + general.cases


def test_a_harmless_fault_does_not_explain_what_shows_beside_it() -> None:
    beside = Violation("P6", "content of a cached block", "...", ("device",))
    harmless = found(set(), "P15", "a lookup counts more than once")
    harmless = replace(harmless, verdict=replace(harmless.verdict, also=(beside,)))
    causes = Causes()
    causes.add(harmless)
    assert beside in harmless.all_symptoms
    assert causes.of(beside, "top") == []
    assert causes.cause_of(beside, frozenset()) is None
    assert causes.of(harmless.violation, "top") == [frozenset()]
    alone = found(set(), "P6", "content of a cached block")
    causes.add(alone)
    assert len(causes.findings) == 2
