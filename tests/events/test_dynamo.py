"""Dynamo's record of what its router heard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
