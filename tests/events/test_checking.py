"""A clean stream is silent, and each planted fault is found: by its rule, at its event, with what a router believes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvproof.events.checking import Checker, Dialect
from kvproof.events.faults import ROUTER
from kvproof.events.reading import read_stream
from kvproof.events.wire import Cleared, Event, Removed, Stored
from kvproof.spec.rules import RULES

from .streams import Message, PublishingEngine, arrivals, publish, record

UNKNOWN = b"\xff" * 32


def checked(messages: list[Message], dialect: Dialect | None = None) -> Checker:
    checker = Checker(dialect)
    for arrival in arrivals(messages):
        checker.take(arrival)
    return checker


@cache
def _of_two_ranks() -> list[Message]:
    return publish([PublishingEngine(7, rank=rank) for rank in (0, 1)], 400)


def two_ranks() -> list[Message]:
    return deepcopy(_of_two_ranks())


def stored(messages: list[Message], wanted: Callable[[Stored], bool], after: int = 200) -> tuple[int, int, Stored]:
    """The first event of this kind in the later part of a stream."""
    for at, message in enumerate(messages[after:], start=after):
        for place, event in enumerate(message.events):
            if isinstance(event, Stored) and wanted(event):
                return at, place, event
    raise AssertionError("the stream has no such event")


@pytest.mark.parametrize("digests", [True, False], ids=["digests", "numbers"])
@pytest.mark.parametrize("group", [None, 0])
def test_a_clean_stream_is_silent_and_ends_with_what_the_pool_has(digests: bool, group: int | None) -> None:
    engines = [PublishingEngine(3, rank=rank, digests=digests, group=group) for rank in (0, 1)]
    checker = checked(publish(engines, 2000))
    assert not checker.faults, checker.faults.first
    assert not checker.tally.unjudged
    assert checker.tally.events > 2000
    assert checker.tally.clears > 3
    for at, engine in enumerate(engines):
        place = checker.belief.places[(f"tcp://engine:{5557 + at}", at), "GPU", group]
        assert place.held.keys() == engine.cached


# ------------------------------------------------------------------------------------------------ planted faults

Planted = tuple[int, int]
"""Where a fault was planted: the place of the message, and of the event in it."""


def gap(messages: list[Message]) -> Planted:
    del messages[200]
    return 201, 0


def applied_twice(messages: list[Message]) -> Planted:
    messages.insert(202, messages[200])
    return 202, 0


def late(messages: list[Message]) -> Planted:
    messages.insert(204, messages.pop(200))
    return 204, 0


def removed_without_stored(messages: list[Message]) -> Planted:
    messages[200].events.append(Removed([UNKNOWN], "GPU", 0))
    return 200, len(messages[200].events) - 1


def removed_elsewhere(messages: list[Message]) -> Planted:
    """Stored on the device, removed on the host, as the host tier of vLLM 0.19 to 0.28 did the other way round."""
    at, place, event = stored(messages, lambda _: True)
    messages[at].events.insert(place + 1, Removed(event.block_hashes[:1], "CPU", 0))
    return at, place + 1


def parent_never_stored(messages: list[Message]) -> Planted:
    at, place, event = stored(messages, lambda e: e.parent_block_hash is None)
    event.parent_block_hash = UNKNOWN
    return at, place


def parent_removed(messages: list[Message]) -> Planted:
    at, place, event = stored(messages, lambda e: e.parent_block_hash is not None)
    assert event.parent_block_hash is not None
    messages[at].events.insert(place, Removed([event.parent_block_hash], "GPU", 0))
    return at, place + 1


def wrong_tokens(messages: list[Message]) -> Planted:
    at, place, event = stored(messages, lambda _: True)
    event.token_ids = event.token_ids[:-1]
    return at, place


def two_contents(messages: list[Message]) -> Planted:
    known = {h for m in messages[:200] for e in m.events if isinstance(e, Stored) for h in e.block_hashes}
    at, place, event = stored(messages, lambda e: e.block_hashes[0] in known)
    event.token_ids = (event.token_ids[0] + 1, *event.token_ids[1:])
    return at, place


def two_parents(messages: list[Message]) -> Planted:
    known = {h for m in messages[:200] for e in m.events if isinstance(e, Stored) for h in e.block_hashes}
    at, place, event = stored(messages, lambda e: e.block_hashes[0] in known and e.parent_block_hash is not None)
    event.parent_block_hash = None
    return at, place


def clears_another_rank(messages: list[Message]) -> Planted:
    number = messages[200].number
    for message in messages[200:]:
        message.number += message.rank == 0
    messages.insert(200, Message(messages[200].source, number, 1, [Cleared()]))
    return 200, 0


def names_another_rank(messages: list[Message]) -> Planted:
    messages[200].rank = 1
    return 200, 0


def malformed_batch(messages: list[Message]) -> Planted:
    messages[200].raw = messages[200].payload()[:-3]
    return 200, 0


def malformed_event(messages: list[Message]) -> Planted:
    at, place, event = stored(messages, lambda _: True)
    event.block_size = "sixteen"  # type: ignore[assignment]
    return at, place


FAULTS: dict[Callable[[list[Message]], Planted], tuple[str, str]] = {
    gap: ("E1", "gap"),
    applied_twice: ("E1", "applied twice"),
    late: ("E1", "gap"),
    names_another_rank: ("E1", "other rank"),
    removed_without_stored: ("E2", "removed without stored"),
    removed_elsewhere: ("E2", "removed without stored"),
    parent_never_stored: ("E3", "parent never stored"),
    parent_removed: ("E3", "parent removed"),
    wrong_tokens: ("E3", "tokens"),
    two_contents: ("E3", "two contents"),
    two_parents: ("E3", "two contents"),
    clears_another_rank: ("E4", "clears another rank"),
    malformed_batch: ("E5", "malformed"),
    malformed_event: ("E5", "malformed"),
}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found_where_it_is(plant: Callable[[list[Message]], Planted]) -> None:
    messages = two_ranks()
    assert not checked(messages).faults
    at, place = plant(messages)
    rule, kind = FAULTS[plant]
    faults = checked(messages).faults
    first = faults.first[0]
    assert (first.rule, first.kind, first.router) == (rule, kind, ROUTER[kind])
    assert first.rule in RULES
    if plant is not late:  # The gap shows first, where the message should have been.
        assert (first.source, first.number) == (messages[at].source, messages[at].number)
        if rule in ("E2", "E3"):
            assert first.event == sum(len(message.events) for message in messages[:at]) + place
    else:
        assert ("E1", "late") in faults.counts


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_one_fault_is_not_told_as_many(plant: Callable[[list[Message]], Planted]) -> None:
    """What follows from lost batches is not judged; what follows from a removal that was one too many is."""
    messages = two_ranks()
    plant(messages)
    assert checked(messages).faults.total <= 3


def test_a_file_that_ends_within_a_record_is_told_and_the_rest_is_judged(tmp_path: Path) -> None:
    messages = two_ranks()[:60]
    path = record(messages, tmp_path / "stream")
    path.write_bytes(path.read_bytes()[:-7])
    checker = Checker()
    for arrival in read_stream(path):
        checker.take(arrival)
    (fault,) = checker.faults.first
    assert (fault.rule, fault.kind) == ("E5", "truncated")
    assert checker.tally.batches == 59


# ------------------------------------------------------------------------------------------------ copies, windows


def one(events: list[Event], dialect: Dialect | None = None) -> list[tuple[str, str]]:
    return list(checked([Message("x", 0, 0, events)], dialect).faults.counts)


def block(key: int, parent: int | None = None, **more: object) -> Stored:
    return Stored([key], parent, (key, key), 2, medium="GPU", **more)  # type: ignore[arg-type]


def test_a_removal_while_a_copy_is_left_is_found_when_the_copy_goes() -> None:
    """B15, from the stream alone."""
    told: list[Event] = [block(1), block(1), Removed([1], "GPU"), Removed([1], "GPU")]
    assert one(told) == [("P12", "removed before the last copy")]
    assert one(told[:3]) == []
    assert one(told, Dialect("counted")) == []
    assert one([*told, Removed([1], "GPU")], Dialect("counted")) == [("E2", "removed without stored")]
    assert one(told, Dialect("single"))[0] == ("E2", "stored twice")


def test_a_parent_may_be_gone_where_the_group_has_a_window_or_the_engine_evicts() -> None:
    told: list[Event] = [block(1), Removed([1], "GPU"), block(2, 1)]
    assert one(told) == [("E3", "parent removed")]
    assert one(told, Dialect(parents="told")) == []
    assert one([*told[:2], block(2, 1, kv_cache_spec_kind="sliding_window")]) == []
    assert one([*told[:2], block(2, 1, kv_cache_spec_kind="full_attention")]) == [("E3", "parent removed")]


def test_a_parent_that_was_told_without_tokens_was_told() -> None:
    told: list[Event] = [Stored([1], None, (), 2, medium="GPU"), Removed([1], "GPU"), block(2, 1)]
    assert one(told) == [("E3", "parent removed")]
    assert one(told, Dialect(parents="told")) == []
    assert one([*told[:2], block(2, 1, kv_cache_spec_kind="sliding_window")]) == []
    other = Stored([1], None, (3, 4), 2, medium="GPU")
    assert one([told[0], block(1), told[0], block(1)]) == []
    assert one([told[0], block(1), told[0], other]) == [("E3", "two contents")]


def test_a_parent_in_another_group_or_on_another_medium_will_do() -> None:
    assert one([Stored([1], None, (1, 1), 2, medium="CPU", group_idx=3), block(2, 1)]) == []


def test_a_clear_takes_all_media_of_its_rank_or_the_one_that_it_names() -> None:
    host = Stored([2], None, (), 0, medium="CPU")
    removals: list[Event] = [Removed([1], "GPU"), Removed([2], "CPU")]
    assert one([block(1), host, Cleared(), *removals]) == [("E2", "removed without stored")]
    assert one([block(1), host, Cleared("CPU"), removals[0]]) == []
    assert one([block(1), host, Cleared("CPU"), removals[1]]) == [("E2", "removed without stored")]


def test_a_clear_names_nothing_by_an_empty_name() -> None:
    told: list[Event] = [block(1), Cleared("", ""), Removed([1], "GPU")]
    assert one(told) == [("E2", "removed without stored")]


def test_two_tiers_of_one_medium_are_two_places() -> None:
    def at(owner: str | None) -> tuple[Event, Event]:
        return Stored([1], None, (1, 1), 2, medium="CPU", ownership=owner), Removed([1], "CPU", ownership=owner)

    first, second, none = at("kvcr"), at("other"), at(None)
    assert one([first[0], second[0], none[0], none[1], first[1], second[1]]) == []
    assert one([first[0], second[1]]) == [("E2", "removed without stored")]
    assert one([first[0], none[1]]) == [("E2", "removed without stored")]
    both = [first[0], second[0]]
    assert one([*both, Cleared("CPU", "other"), first[1]]) == []
    assert one([*both, Cleared("CPU", "other"), second[1]]) == [("E2", "removed without stored")]
    assert one([*both, Cleared("CPU"), first[1]]) == [("E2", "removed without stored")]


def test_copies_are_counted_where_they_are() -> None:
    twice: list[Event] = [block(1), block(1), Removed([1], "GPU")]
    assert one([*twice, Removed([1], "GPU")]) == [("P12", "removed before the last copy")]
    assert one([*twice, Removed([1], "CPU")]) == [("E2", "removed without stored")]
    assert one([*twice, Removed([1], "GPU", 1)]) == [("E2", "removed without stored")]
    assert one([*twice, Cleared("CPU"), Removed([1], "GPU")]) == [("P12", "removed before the last copy")]


def test_what_a_hash_depends_on_beside_its_tokens_is_its_content() -> None:
    def told(**fields: Any) -> Event:
        return Stored([1], None, (1, 1), 2, medium="GPU", **fields)

    for name, some, other in (
        ("lookahead_token_ids", [[5]], [[6]]),
        ("cache_salt", "mine", "yours"),
        ("lora_name", "a", "b"),
        ("extra_keys", [["image"]], [["another"]]),
    ):
        assert one([told(**{name: some})] * 2) == []
        for changed in (other, None):
            assert one([told(**{name: some}), told(**{name: changed})]) == [("E3", "two contents")]
    assert one([told(), told(lookahead_token_ids=[[]]), told(cache_salt=""), told(lora_name="")]) == []


def test_a_block_that_has_no_further_keys_has_none_however_that_is_written() -> None:
    """vLLM 0.33 writes a list with nothing for each block, others nothing at all, and one block may have keys alone."""
    tokens = tuple(range(8))
    both = Stored([1, 2], None, tokens, 4, extra_keys=[["image"], None])
    nothing: list[list[object] | None] = [None, [None], [[]]]
    second = [Stored([2], 1, tokens[4:], 4, extra_keys=keys) for keys in nothing]
    assert one([both, *second]) == []
    assert one([both, Stored([1], None, tokens[:4], 4, extra_keys=[["image"]])]) == []
    for other in (None, [None], [["another"]]):
        assert one([both, Stored([1], None, tokens[:4], 4, extra_keys=other)]) == [("E3", "two contents")]
    for adapter in ({"lora_id": 0}, {"lora_name": "a"}):
        assert one([both, msgspec.structs.replace(second[0], **adapter)]) == [("E3", "two contents")]


def test_what_was_before_the_listener_came_is_not_judged_until_a_clear() -> None:
    def told(*events: Event, number: int) -> Message:
        return Message("x", number, 0, list(events))

    unsure = [told(Removed([1], "GPU"), block(2, 3), number=5)]
    checker = checked(unsure)
    assert not checker.faults
    assert checker.tally.unjudged.total() == 2
    sure = checked([*unsure, told(Cleared(), Removed([2], "GPU"), number=6)])
    assert list(sure.faults.counts) == [("E2", "removed without stored")]


def test_a_publisher_that_begins_anew_has_nothing_cached() -> None:
    messages = [Message("x", 0, 0, [block(1)]), Message("x", 1, 0, [block(2)]), Message("x", 0, 0, [block(3)])]
    checker = checked(messages)
    assert not checker.faults
    assert checker.tally.restarts == 1
    assert checker.belief.keys == 1


def _sent(numbers: range, made: float, *, first: int) -> list[Message]:
    return [Message("x", n, 0, [block(first + at)], made=made + at) for at, n in enumerate(numbers)]


def test_of_a_publisher_that_begins_anew_the_first_batches_may_be_lost() -> None:
    """A listener takes a moment to find a publisher again: what comes first has an earlier number and a later time."""
    for beyond in (10, 6000):  # Numbers are remembered for a while only.
        checker = checked([*_sent(range(beyond), 1.0, first=1), *_sent(range(3, beyond + 5), 1e6, first=10**6)])
        assert checker.faults.counts == {("E1", "gap"): 1}
        assert "begins anew, and 3 batches are missing: 0 to 2" in checker.faults.first[0].text
        assert (checker.tally.restarts, checker.belief.keys) == (1, beyond + 2)
        late = checked([*_sent(range(beyond), 1.0, first=1), *_sent(range(3, 5), 0.5, first=10**6)])
        assert late.faults.counts == {("E1", "late"): 2}
        assert late.belief.keys == beyond


def _back(path: Path, *sessions: list[Message]) -> Checker:
    """What a recording says that was gone on with."""
    checker = Checker()
    for session in sessions:
        record(session, path)
    for arrival in read_stream(path):
        checker.take(arrival)
    return checker


def test_what_was_sent_while_nobody_listened_is_no_fault_of_the_stream(tmp_path: Path) -> None:
    whole = publish([PublishingEngine(3)], 300)
    gone_on = _back(tmp_path / "gap", whole[:100], whole[150:])
    assert not gone_on.faults, gone_on.faults.first
    assert gone_on.tally.unjudged
    assert not _back(tmp_path / "none", whole[:100], whole[100:]).tally.unjudged
    replayed = _back(tmp_path / "replay", whole[:100], whole[40:])
    assert (replayed.faults.total, replayed.tally.batches) == (0, 300)
    anew = _back(tmp_path / "anew", whole[:100], publish([PublishingEngine(9)], 40)[7:])
    assert not anew.faults, anew.faults.first
    assert anew.belief.keys < 64
    lost = _back(tmp_path / "lost", whole[:100], [*whole[150:200], *whole[201:]])
    assert lost.faults.counts == {("E1", "gap"): 1}


@pytest.mark.parametrize("how", ["lost", "malformed", "away"])
def test_what_may_have_been_in_what_was_lost_is_no_fault_and_what_was_not_is_one(tmp_path: Path, how: str) -> None:
    def rules(before: list[Event], after: list[Event], dialect: Dialect | None = None) -> list[tuple[str, str]]:
        checker, path = Checker(dialect), tmp_path / "stream"
        first, second = [Message("x", 0, 0, before)], [Message("x", 2, 0, after)]
        if how == "malformed":
            second.insert(0, Message("x", 1, 0, raw=msgspec.msgpack.encode([0.5, [{"type": "what"}], 0])))
        for session in (first, second) if how == "away" else (first + second,):
            record(session, path)
        for arrival in read_stream(path):
            checker.take(arrival)
        path.unlink()
        return [kind for kind in checker.faults.counts if kind not in (("E1", "gap"), ("E5", "malformed"))]

    gone = Removed([1], "GPU")
    assert rules([block(1), gone], [block(2, 1)]) == []
    assert rules([block(1)], [gone, block(2, 1)]) == [("E3", "parent removed")]
    assert rules([block(1), gone], [Cleared(), block(2, 1)]) == [("E3", "parent removed")]
    assert rules([block(1), block(1), gone], [gone]) == []
    assert rules([], [block(1), block(1), gone, gone]) == [("P12", "removed before the last copy")]
    single = Dialect("single")
    assert rules([block(1)], [block(1)], single) == []
    assert rules([block(1)], [block(1), block(1)], single) == [("E2", "stored twice")]


def test_a_batch_that_cannot_be_read_is_of_the_rank_that_was_expected_to_send_it() -> None:
    for since in (0, 10):
        messages = [Message("x", since + n, 1, [block(n + 1)]) for n in range(6)]
        messages[3].raw = b"\xc1"
        faults = checked(messages).faults
        assert faults.counts == {("E5", "malformed"): 1}
        assert faults.first[0].rank == 1


def test_nobody_is_blamed_for_the_name_in_a_batch_that_cannot_be_read() -> None:
    """Of two ranks that step together, either may have sent it: the other's number is its own."""
    messages = _of_ranks(*((rank, n) for n in range(8) for rank in (1, 2)))
    for at in (10, 11):  # The batches with number 5.
        unread = deepcopy(messages)
        unread[at].raw, unread[at].rank = b"\xc1", None
        faults = checked(unread).faults.counts
        assert faults == {("E5", "malformed"): 1, **({("E1", "gap"): 1} if at == 10 else {})}


def test_ranks_that_share_a_socket_have_rows_of_their_own() -> None:
    """Through a proxy, or an address to which publishers connect; a lost batch is a gap, though numbers are alike."""
    messages = two_ranks()
    for message in messages:
        message.source = "proxy"
    assert not checked(messages).faults
    lost = messages.pop(201)
    assert lost.rank == 1
    assert list(checked(messages).faults.counts) == [("E1", "gap")]
    late_comer = messages[300:]
    assert not checked(late_comer).faults


def _of_ranks(*numbered: tuple[int, int]) -> list[Message]:
    return [Message("proxy", number, rank, [block(at + 1)]) for at, (rank, number) in enumerate(numbered)]


def test_ranks_that_step_together_have_the_same_numbers_also_where_the_first_of_one_are_lost() -> None:
    for order in ((0, 1), (1, 0)):
        both = [(rank, n) for n in range(5, 30) for rank in order]
        checker = checked(_of_ranks(*((0, n) for n in range(5)), *both))
        assert not checker.faults, checker.faults.first
        assert checker.tally.batches == 55


def test_a_number_that_was_sent_while_nobody_listened_is_no_other_rank_s() -> None:
    before = _of_ranks(*((0, n) for n in range(5)), (1, 5), (1, 6))
    checker = Checker()
    for arrival in arrivals(before):
        checker.take(arrival)
    for arrival in arrivals(_of_ranks((0, 6), (0, 7), (1, 7))):
        checker.take(arrival._replace(resumed=arrival.number == 6))
    assert not checker.faults, checker.faults.first


def test_a_new_rank_that_goes_on_with_the_numbers_of_another_is_told_once() -> None:
    known = [(0, n) for n in range(5)]
    for told in ([(1, 5), (0, 6), (0, 7)], [(1, n) for n in range(5, 20)], [(1, 5), (0, 6), (1, 6), (0, 7)]):
        faults = checked(_of_ranks(*known, *told)).faults
        assert faults.counts == {("E1", "other rank"): 1}
        assert (faults.first[0].number, faults.first[0].rank) == (5, 1)


def test_what_is_remembered_is_bounded() -> None:
    messages = publish([PublishingEngine(5)], 1500)
    checker = checked(messages, Dialect(remembered=400))
    assert checker.remembered <= 500
    assert not checker.faults
    noisy = [Message("x", n, 0, [Removed([n], "GPU")]) for n in range(2000)]
    faults = checked(noisy).faults
    assert faults.total == 2000
    assert len(faults.first) == 3
