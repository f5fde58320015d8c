"""What happened to the blocks, keys and requests of a finding is told with it, and in its order."""

from collections.abc import Iterator

import msgspec
import pytest

from kvproof.engines.reduce import Reduction
from kvproof.engines.session import Session
from kvproof.engines.traits import Traits
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.history import history
from kvproof.judge.record import Case
from kvproof.judge.violation import Verdict, of_block, of_key, of_request
from kvproof.testing.telling import tell

from .test_oracles import COMPLETE, FAULTS, FINISH, FULL, STORE, add
from .toys import toy

COUNTED = {"P15", "counts twice", "counts refused", "hits of nobody", "more hits than queries"}
OF_NOBODY = COUNTED | {"stuck", "counter", "reset refused", "reset leaves", "reset keeps host", "refused reset clears"}
"""Faults of a pool as a whole, and requests that never end, of which the toy says that they ended."""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with toy() as session:
        yield session


def found(session: Session, fault: str) -> tuple[Case, Verdict]:
    _, ops = FAULTS[fault]
    case = close(Case("toy", {**FULL.get(fault, {}), "fault": fault}, ops))
    wrong, _ = verdict(session, case)
    assert wrong is not None
    return case, wrong


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_finding_is_about_has_a_history(session: Session, fault: str) -> None:
    case, wrong = found(session, fault)
    assert bool(wrong.violation.about) == (fault not in OF_NOBODY)
    for thing in wrong.violation.about[fault == "parent" :]:  # That parent is no key at all.
        told = history(wrong.answer, wrong.at, thing)
        assert told, thing
        assert [number for number, _ in told] == sorted({number for number, _ in told})
        assert told[-1][0] <= wrong.at
    lines = [*tell("toy", case, wrong)]
    assert bool(wrong.violation.about) == any(line.startswith("  history of ") for line in lines)


def test_the_history_of_a_block_names_who_wrote_shared_and_freed_it(session: Session) -> None:
    _, wrong = found(session, "O8")
    assert wrong.violation.about == (of_block("device", 1), of_request("r3"))
    assert history(wrong.answer, wrong.at, of_block("device", 1)) == [
        (
            0,
            "entry 0 of the table of r0 (group 0); r0 writes its positions 0 to 1 (group 0); "
            "cached as key 0 (group 0); ref_cnt 1",
        ),
        (1, "a copy of it to host 0 begins"),
        (2, "r0, which holds it, is finished; ref_cnt 1 to 0; goes to place 5 of 5 of the free queue"),
        (
            5,
            "entry 2 of the table of r3 (group 0); r3 writes its positions 4 to 5 (group 0); "
            "cached as key 5 (group 0); no longer cached as key 0 (group 0); ref_cnt 0 to 1; leaves the free queue",
        ),
    ]


def test_the_history_of_a_key_tells_its_tokens_and_its_blocks(session: Session) -> None:
    _, wrong = found(session, "removed early")
    assert wrong.violation.about == (of_key(0),)
    assert history(wrong.answer, wrong.at, of_key(0)) == [
        (
            0,
            "names the first 2 tokens of r0: [0, 1]; an event says that it is stored (device, group 0); "
            "cached in block 1 (device, group 0)",
        ),
        (1, "names the first 2 tokens of r1: [0, 1]; cached in block 2 (device, group 0)"),
        (
            2,
            "an event says that it is removed (device, group 0); no longer cached in block 1 (device, group 0)",
        ),
    ]


def test_the_history_of_a_request_tells_what_it_found_and_computed(session: Session) -> None:
    _, wrong = found(session, "truncates")
    assert wrong.violation.about == (of_request("r1"), of_key(0))
    assert history(wrong.answer, wrong.at, of_request("r1")) == [
        (
            2,
            "arrives with 5 tokens; finds 0 tokens here, of at most 4; its table of group 0 becomes [3, 4, 5]; "
            "computes positions 0 to 4",
        )
    ]


def test_garbage_has_a_history_up_to_where_it_can_be_read(session: Session) -> None:
    _, wrong = found(session, "P2")
    steps = [*wrong.answer.steps]
    steps[1] = msgspec.structs.replace(steps[1], effects=[["table", "nobody", 7, "x", None]])
    broken = msgspec.structs.replace(wrong.answer, steps=steps)
    told = history(broken, len(steps) - 1, of_block("device", 1))
    assert [number for number, _ in told] in ([], [0])
    assert history(msgspec.structs.replace(wrong.answer, world=None), 0, of_request("r0")) == []


def test_what_found_nothing_to_do_is_left_out_at_once(session: Session) -> None:
    _, ops = FAULTS["P2"]
    idle = ("complete", {"pick": 0})
    case = close(Case("toy", {"fault": "P2"}, [idle, *ops, idle]))
    wrong, _ = verdict(session, case)
    assert wrong is not None
    asked = []

    def judged(candidate: Case) -> Verdict | None:
        asked.append(candidate)
        return verdict(session, candidate)[0]

    reduction = Reduction(case, wrong, judged, Traits([]), deadline=float("inf"))
    assert reduction.cut()
    assert idle not in reduction.case.ops
    assert len(asked) == 1


def test_a_drain_is_unfolded_where_the_fault_shows_within_it(session: Session) -> None:
    case = close(Case("toy", {"fault": "host content"}, [add(0, 1, 2), STORE]))
    wrong, _ = verdict(session, case)
    assert wrong is not None
    assert case.ops[wrong.at][0] == "drain"
    traits = Traits([], drained=lambda _case: [COMPLETE, FINISH])
    reduction = Reduction(case, wrong, lambda c: verdict(session, c)[0], traits, deadline=float("inf"))
    reduction.unfold()
    assert reduction.case.ops == [add(0, 1, 2), STORE, COMPLETE]


def test_a_drain_stays_where_it_alone_shows_the_fault(session: Session) -> None:
    case = close(Case("toy", {"fault": "stuck"}, [add(0, 1)]))
    wrong, _ = verdict(session, case)
    assert wrong is not None
    traits = Traits([], drained=lambda _case: [COMPLETE, FINISH])
    reduction = Reduction(case, wrong, lambda c: verdict(session, c)[0], traits, deadline=float("inf"))
    reduction.unfold()
    assert reduction.case == case
