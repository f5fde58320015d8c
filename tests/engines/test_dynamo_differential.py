"""Dynamo's mocker against the reference implementation, request by request; and what the mocker does wrong."""

from collections.abc import Iterator
from dataclasses import replace as changed
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kvproof.differential.dynamo import mirror as dynamo_mirror
from kvproof.differential.dynamo.compare import (
    FAMILIES,
    Trace,
    broken_laws,
    cases,
    compare,
    content_hits,
    to_case,
)
from kvproof.differential.dynamo.mirror import Mirror
from kvproof.engines.dynamo.replay import (
    Admission,
    HostTierConfig,
    MockerConfig,
    MockerError,
    Occupancy,
    Replay,
    ReplayedRequest,
    TraceRequest,
    replay,
)
from kvproof.engines.session import Limits, Session
from kvproof.engines.store import StoreError, resolve

RELEASE = "dynamo==1.6.1"

CONFIG = MockerConfig(blocks=4, block_tokens=4, host=HostTierConfig(blocks=8, down=1000.0, up=100.0))
"""A block has 1000 bytes: it takes 1 ms to the host and 10 ms back."""


@pytest.fixture(scope="module")
def mocker() -> Iterator[Session]:
    try:
        engine = resolve(RELEASE, ["dynamo"])
    except StoreError as error:
        pytest.skip(str(error))
    with Session.of(engine, Limits(start=60, operation=20, answer=60)) as session:
        yield session


def requests(*rows: tuple[float, tuple[int, ...], int], block: int = 4) -> Trace:
    """Make a trace of whole blocks: when each request arrives, its blocks, and how many tokens it generates."""
    return tuple(TraceRequest(arrival, blocks, block * len(blocks), output) for arrival, blocks, output in rows)


FLUSHED = requests((0.0, (1, 2), 1), (100.0, (3, 4, 5, 6), 1), (200.0, (1, 2, 7), 1))
"""The first request's blocks leave the device for the second one's; the third one wants them back."""


class TestTheyAgree:
    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("apart", [True, False], ids=["apart", "together"])
    def test_on_every_request(self, mocker: Session, family: str, apart: bool) -> None:
        @settings(suppress_health_check=list(HealthCheck))
        @given(cases(family, apart=apart))
        def agree(case: tuple[MockerConfig, Trace]) -> None:
            outcome = compare(mocker, to_case(*case))
            assert outcome.disagreement is None
            assert outcome.broken == []
            assert outcome.parted is None or family == "shared"

        agree()

    def test_on_a_load_its_time_and_its_source(self, mocker: Session) -> None:
        assert compare(mocker, to_case(CONFIG, FLUSHED)).disagreement is None
        told = replay(mocker, CONFIG, FLUSHED).requests[2]
        assert (told.first_admission_g1_reused_input_tokens, told.first_admission_host_reused_input_tokens) == (0, 8)
        assert (told.first_admit_ms, told.first_token_ms) == (220.0, 224.0)

    @pytest.mark.parametrize(
        ("shared", "first", "second"),
        [(False, 210.0, 220.0), (True, 219.0, 223.0)],  # 223: its load is done at 220, while the first one computes.
        ids=["one after the other", "at once"],
    )
    def test_on_two_loads_on_one_link(self, mocker: Session, shared: bool, first: float, second: float) -> None:
        config = changed(CONFIG, host=HostTierConfig(8, 1000.0, 100.0, shared=shared))
        trace = requests(
            (0.0, (1, 9), 1), (50.0, (2, 9), 1), (100.0, (3, 4, 5, 6), 1), (200.0, (1, 8), 1), (201.0, (2, 8), 1)
        )
        assert compare(mocker, to_case(config, trace)).disagreement is None
        assert [request.first_admit_ms for request in replay(mocker, config, trace).requests[3:]] == [first, second]


class TestItsOwnFigures:
    @settings(suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
    @given(cases("private", apart=True))
    def test_the_same_trace_twice_gives_the_same_report(
        self, mocker: Session, case: tuple[MockerConfig, Trace]
    ) -> None:
        first, second = replay(mocker, *case), replay(mocker, *case)
        assert (first.requests, first.names) == (second.requests, second.names)

    @settings(suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
    @given(cases("private", apart=True), st.integers(1, 4))
    def test_more_blocks_or_a_host_never_mean_fewer_hits(
        self, mocker: Session, case: tuple[MockerConfig, Trace], more: int
    ) -> None:
        config, trace = case
        assert config.host is not None

        def hits(config: MockerConfig) -> int:
            return sum(request.reused_input_tokens for request in replay(mocker, config, trace).requests)

        small = hits(changed(config, host=None))
        assert hits(changed(config, host=None, blocks=config.blocks + more)) >= small
        assert hits(changed(config, host=changed(config.host, down=0.0, up=0.0, latency=0.0))) >= small  # M9

    @settings(suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
    @given(cases("device", apart=True))
    def test_with_unlimited_blocks_the_hits_are_those_of_the_file(
        self, mocker: Session, case: tuple[MockerConfig, Trace]
    ) -> None:
        config, trace = case
        told = replay(mocker, changed(config, blocks=1000), trace)
        hits = content_hits(trace, config.block_tokens)
        assert [request.reused_input_tokens for request in told.requests] == hits
        assert told.hit_rate == pytest.approx(sum(hits) / sum(request.length for request in trace))

    def test_what_it_refuses_is_refused_in_its_words(self, mocker: Session) -> None:
        with pytest.raises(MockerError, match="num_host_blocks must be positive"):
            replay(mocker, changed(CONFIG, host=HostTierConfig(0, 0.0, 0.0)), FLUSHED)

    @pytest.mark.parametrize("arrivals", [(), (1.0,), (0.0, 0.0), (0.0, 2.0, 1.0)])
    def test_a_trace_whose_requests_cannot_be_told_apart_is_refused(self, arrivals: tuple[float, ...]) -> None:
        trace = requests(*((arrival, (1,), 1) for arrival in arrivals))
        with pytest.raises(ValueError, match="arrives at 0, and each other one later"):
            replay(Session(["true"]), CONFIG, trace)


class TestWhatTheMockerDoesWrong:
    """Each with the shortest trace; docs/dynamo.md explains them. A release that mends one fails its test."""

    @pytest.mark.parametrize("shared", [False, True], ids=["private", "shared"])
    def test_a_request_waits_for_a_load_that_it_then_does_not_use(self, mocker: Session, shared: bool) -> None:
        config = changed(CONFIG, host=HostTierConfig(8, 1000.0, 100.0, shared=shared))
        trace = requests((0.0, (1,), 1), (100.0, (2, 3, 4, 5), 1), (200.0, (1,), 1))
        told = replay(mocker, config, trace).requests[2]
        assert (told.reused_input_tokens, told.first_admit_ms) == (0, 210.0)
        without = replay(mocker, changed(config, host=None), trace).requests[2]
        assert (without.reused_input_tokens, without.first_admit_ms) == (0, 200.0)

    @pytest.mark.parametrize(("output", "found"), [(1, 0), (2, 4)])
    def test_a_prompt_that_waited_for_blocks_is_not_stored_if_the_request_ends_at_once(
        self, mocker: Session, output: int, found: int
    ) -> None:
        config = MockerConfig(2, 4, bytes_per_token=1000, host=HostTierConfig(8, 500.0, 0.0))
        second = TraceRequest(5.0, (3,), 4, 2) if output == 2 else TraceRequest(5.0, (3, 4), 8)
        trace = (
            TraceRequest(0.0, (1, 2), 8),
            second,
            TraceRequest(1000.0, (5, 6), 8),
            TraceRequest(2000.0, (3, 4), 8),
        )
        assert replay(mocker, config, trace).requests[3].first_admission_host_reused_input_tokens == found

    def test_a_request_that_can_never_end_takes_the_others_down(self, mocker: Session) -> None:
        trace = requests((0.0, (1, 2, 3, 4), 5), (1.0, (5,), 1))
        with pytest.raises(MockerError, match="effect-free zero-duration pass with 2 in-flight requests"):
            replay(mocker, changed(CONFIG, host=None), trace)

    @pytest.mark.parametrize(
        ("config", "trace"),
        [
            (
                MockerConfig(3, 2, bytes_per_token=2000, host=HostTierConfig(2, 500.0, 100.0)),
                requests(
                    (0.0, (2,), 1),
                    (1.0, (1,), 1),
                    (6.0, (3, 3), 1),
                    (7.0, (2,), 1),
                    (10.0, (2, 3, 4), 1),
                    (15.0, (1,), 1),
                    block=2,
                ),
            ),
            (
                MockerConfig(2, 2, bytes_per_token=2000, host=HostTierConfig(3, 250.0, 500.0, shared=True)),
                (
                    TraceRequest(0.0, (2,), 2),
                    TraceRequest(0.5, (3, 1), 3),
                    TraceRequest(5.0, (1,), 2, 2),
                    TraceRequest(6.0, (2,), 2),
                ),
            ),
        ],
        ids=["private", "shared"],
    )
    def test_a_request_waits_for_blocks_of_one_that_waits_behind_it(
        self, mocker: Session, config: MockerConfig, trace: Trace
    ) -> None:
        assert all(request.length + request.output - 1 <= config.blocks * config.block_tokens for request in trace)
        assert compare(mocker, to_case(config, trace)).counts["stalls of both"] == 1
        assert compare(mocker, to_case(config, trace[:-1])).disagreement is None

    def test_a_request_that_does_not_fit_drives_out_one_that_came_before(self, mocker: Session) -> None:
        config = MockerConfig(6, 2, bytes_per_token=1000, host=HostTierConfig(3, 997.0, 0.0, shared=True))
        trace = requests((0.0, (3,), 1), (2.0, (3, 1, 3), 1), (3.0, (2, 2, 2), 1), (3.125, (3, 1), 1), block=2)
        assert compare(mocker, to_case(changed(config, max_batched_tokens=9), trace)).parted is not None
        told = replay(mocker, changed(config, max_batched_tokens=9), trace).requests
        assert [len(request.admission_history) for request in told] == [1, 1, 2, 1]

    def test_a_setting_of_the_other_scope_is_taken_and_ignored(self, mocker: Session) -> None:
        class Throttled(MockerConfig):
            def engine(self) -> dict[str, Any]:
                engine: dict[str, Any] = super().engine()
                engine["native_host_offload"]["shared_h2d_bandwidth_gbps"] = 1e-9
                return engine

        throttled = Throttled(CONFIG.blocks, CONFIG.block_tokens, host=CONFIG.host)
        assert replay(mocker, throttled, FLUSHED).requests == replay(mocker, CONFIG, FLUSHED).requests


class TestTheComparisonSees:
    """A reference implementation with one fault disagrees, and a report that breaks a law is told of."""

    def test_another_limit_of_a_lookup(self, mocker: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dynamo_mirror, "lookup_limit", lambda tokens, block: tokens // block)
        trace = requests((0.0, (1, 2), 1), (100.0, (1, 2), 1))
        assert "operation 2 (request)" in str(compare(mocker, to_case(CONFIG, trace)).disagreement)

    def test_another_time_of_a_load(self, mocker: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Mirror, "_ends", lambda *_: [])
        slow = changed(CONFIG, host=HostTierConfig(8, 10.0, 0.0))
        trace = requests((0.0, (1, 2, 3), 1), (5.0, (4, 5, 6, 7), 1))
        assert "operation 2 (request)" in str(compare(mocker, to_case(slow, trace)).disagreement)

    @pytest.mark.parametrize(
        ("change", "law"),
        [
            ({"admission_history": (Admission(20.0, 8),)}, "P14: 8 of 8 tokens"),
            ({"first_admission_g1_reused_input_tokens": 4}, "P15: 4 tokens are reused, but 4 from the device and 4"),
            ({"first_admit_ms": 9.0, "arrival_time_ms": 8.0}, r"G2: 1000 bytes are loaded from 8.0 to 9.0 ms"),
            ({"first_token_ms": 19.0}, "G3: arrival, admission, first token and end are not in order"),
            ({"terminal_status": "rejected"}, "L1: it ends as rejected"),
            ({"first_admit_ms": None}, "G3"),
        ],
    )
    def test_a_broken_law(self, change: dict[str, Any], law: str) -> None:
        assert list(broken_laws(CONFIG, TOLD_TRACE, told(TOLD))) == []
        laws = list(broken_laws(CONFIG, TOLD_TRACE, told(msgspec.structs.replace(TOLD, **change))))
        assert any(law in f"{found.rule}: {found.text}" for found in laws)

    def test_a_reuse_of_what_nobody_computed(self) -> None:
        trace = (TOLD_TRACE[0], changed(TOLD_TRACE[1], blocks=(7, 8)))
        assert any(law.rule == "P6" for law in broken_laws(CONFIG, trace, told(TOLD)))

    def test_more_bytes_than_a_link_moves(self) -> None:
        early = msgspec.structs.replace(TOLD, arrival_time_ms=-50.0, first_admit_ms=2.0)
        assert any("are loaded by 2.0 ms" in law.text for law in broken_laws(CONFIG, TOLD_TRACE, told(early)))

    def test_more_blocks_than_there_are(self) -> None:
        full = changed(told(TOLD), occupancy=((30.0, Occupancy(3, 2, 4)),))
        assert any(law.rule == "P1" for law in broken_laws(CONFIG, TOLD_TRACE, full))


TOLD_TRACE = requests((0.0, (1, 2), 1), (5.0, (1, 2), 1))

TOLD = ReplayedRequest(5.0, 20.0, 24.0, 24.0, 8, 1, 4, (Admission(20.0, 4),), "completed", 0, 4)
"""A report of the second request, as it may be: a block from the host."""


def told(second: ReplayedRequest) -> Replay:
    """Return a report of both requests."""
    first = ReplayedRequest(0.0, 0.0, 4.0, 4.0, 8, 1, 0, (Admission(0.0, 0),), "completed", 0, 0)
    return Replay((first, second), ((30.0, Occupancy(0, 2, 4)),), 0.25, ())


def test_hits_of_the_content() -> None:
    trace = (
        TraceRequest(0.0, (1, 2, 3), 10),
        TraceRequest(1.0, (1, 2, 3), 12),
        TraceRequest(2.0, (1, 2, 3), 12),
        TraceRequest(3.0, (2, 1), 8),
    )
    assert content_hits(trace, 4) == [0, 8, 8, 0]
