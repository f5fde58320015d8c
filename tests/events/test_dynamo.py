"""Dynamo's record of what its router heard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvproof.events.arrival import Arrival, Damage
from kvproof.events.checking import Checker
from kvproof.events.reading import read_stream


def line(number: int, data: Any, *, worker: int = 7, rank: int = 0, **more: object) -> str:
    event = {"worker_id": worker, **more, "event": {"event_id": number, "data": data, "dp_rank": rank}}
    return json.dumps({"timestamp": 1000 + number, "event": event} if number % 2 else event)


def stored(*hashes: int, parent: int | None = None) -> Any:
    return {"stored": {"parent_hash": parent, "blocks": [{"block_hash": h, "tokens_hash": h * 3} for h in hashes]}}


def removed(*hashes: int) -> Any:
    return {"removed": {"block_hashes": list(hashes)}}


def checked(path: Path, *lines: str) -> Checker:
    path.write_text("\n".join(lines) + "\n")
    checker = Checker()
    for arrival in read_stream(path):
        checker.take(arrival)
    return checker


CLEAN = [
    line(0, stored(1, 2)),
    line(1, stored(3, parent=2), rank=1, storage_tier="host_pinned"),
    line(0, stored(1), worker=8),
    line(2, removed(2)),
    line(3, "cleared"),
    line(1, removed(1), worker=8),
]


def test_workers_number_the_events_of_all_their_ranks_in_one_row(tmp_path: Path) -> None:
    checker = checked(tmp_path / "r", *CLEAN[:1], *CLEAN[2:])
    assert list(checker.faults.counts) == [("E1", "gap")]
    with_root = CLEAN[1].replace('"parent_hash": 2', '"parent_hash": null')
    checker = checked(tmp_path / "r", CLEAN[0], with_root, *CLEAN[2:])
    assert not checker.faults, checker.faults.first
    assert checker.tally.events == 6
    assert [key for place in checker.belief.places.values() for key in place.held] == [3]


def test_faults_are_found_in_it(tmp_path: Path) -> None:
    assert list(checked(tmp_path / "r", *CLEAN).faults.counts) == [("E3", "parent never stored")]
    counts = checked(tmp_path / "r", line(0, removed(5)), line(1, stored(1, parent=9))).faults.counts
    assert list(counts) == [("E2", "removed without stored"), ("E3", "parent never stored")]
    twice = checked(tmp_path / "r", line(0, stored(1)), line(1, stored(1).__class__(stored=stored(1)["stored"] | {
        "blocks": [{"block_hash": 1, "tokens_hash": 99}]})))  # fmt: skip
    assert list(twice.faults.counts) == [("E3", "two contents")]


def test_lines_that_are_none_are_told_and_the_rest_is_judged(tmp_path: Path) -> None:
    bad = ['{"worker_id": 7}', "{", '{"worker_id":7,"event":{"event_id":"x","data":"cleared"}}', "{" * 200, "[1]"]
    checker = checked(tmp_path / "r", line(0, stored(1)), *bad, line(1, removed(1), colour="red"))
    assert checker.faults.counts == {("E5", "damaged"): len(bad)}
    assert checker.tally.events == 2
    assert checker.tally.unknown == {"router event.colour": 1}


def _ranks(*numbered: tuple[int, int]) -> list[str]:
    """Events of one worker, by rank and number, each of a block of its own."""
    return [line(number, stored(at + 1), rank=rank) for at, (rank, number) in enumerate(numbered)]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (line(1, None), "the data are none of stored, removed and cleared"),
        (line(1, {"moved": {}}), "the data are none of stored, removed and cleared"),
        (line(1, {"removed": {"block_hashes": [1]}, "cleared": {}}), "the data are removed and cleared at once"),
        (line(1, {"stored": [3]}), "the stored is no object"),
        (line(1, {"stored": {"blocks": 3}}), "the blocks are no list"),
        (json.dumps({"worker_id": 7, "event": [1]}), "the event is no object"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_in_words_of_the_record(tmp_path: Path, other: str, said: str) -> None:
    (tmp_path / "r").write_text(line(0, stored(1)) + "\n" + other + "\n")
    _, damage = read_stream(tmp_path / "r")
    assert isinstance(damage, Damage)
    assert damage.text == f"line 2 is no event of a router: {said}"


def test_or_each_rank_has_a_row_of_its_own_where_each_has_a_publisher(tmp_path: Path) -> None:
    """Numbers begin with 1 there. Whatever order the ranks are heard in, nothing is wrong; and a gap is one."""
    for since in (0, 1, 500):
        for order in ((0, 1) * 5, (0,) * 5 + (1,) * 5, (0, 0, 1, 1, 1, 0, 0, 1, 1, 0)):
            numbers = {0: since, 1: since + (3 if since > 1 else 0)}
            told = []
            for rank in order:
                told.append((rank, numbers[rank]))
                numbers[rank] += 1
            checker = checked(tmp_path / "r", *_ranks(*told))
            assert not checker.faults, (since, order, checker.faults.first)
            assert (checker.tally.events, checker.belief.keys) == (10, 10)
            del told[-3]
            assert ("E1", "gap") in checked(tmp_path / "r", *_ranks(*told), *_ranks((0, numbers[0]))).faults.counts


def test_a_record_that_begins_with_number_1_is_whole_and_number_1_begins_anew(tmp_path: Path) -> None:
    counts = checked(tmp_path / "r", line(1, stored(1)), line(2, removed(5))).faults.counts
    assert list(counts) == [("E2", "removed without stored")]
    assert not checked(tmp_path / "r", line(2, stored(1)), line(3, removed(5))).faults
    anew = checked(tmp_path / "r", *_ranks((0, 1), (0, 2), (0, 3)), line(1, stored(9)))
    assert not anew.faults
    assert (anew.tally.restarts, anew.belief.keys) == (1, 1)


def test_what_a_worker_sent_while_nobody_listened_may_be_of_any_of_its_ranks(tmp_path: Path) -> None:
    """One row for all: what is missing before a rank's event may be another rank's."""
    path, earlier = tmp_path / "r", _ranks(*((n % 2, n) for n in range(1, 20)))
    for back in (30, 9):  # Farther on, or begun anew.
        path.write_text("\n".join(earlier) + "\n")
        checker = Checker()
        for arrival in read_stream(path):
            checker.take(arrival)
        path.write_text("\n".join([line(back, stored(99), rank=0), line(back + 1, removed(77), rank=1)]) + "\n")
        for at, arrival in enumerate(read_stream(path)):
            assert isinstance(arrival, Arrival)
            checker.take(arrival._replace(resumed=at == 0))
        assert not checker.faults, checker.faults.first
        assert checker.tally.unjudged.total() == 1
