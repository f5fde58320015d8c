"""A recording is read as it was written, and each record is there whole or not at all."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from kvproof.errors import UsageError
from kvproof.events.arrival import Arrival, Damage, checksum
from kvproof.events.reading import read_stream
from kvproof.events.recording import MAGIC, Recorder, RecordingError


def message(number: int, source: str = "tcp://a:1", **more: object) -> Arrival:
    payload = b"payload %d" % number
    return Arrival(source, b"kv", number, payload, checksum(payload), at=0.5 * number, **more)  # type: ignore[arg-type]


def write(path: Path, *arrivals: Arrival) -> Path:
    with Recorder(path) as recorder:
        for arrival in arrivals:
            recorder.write(arrival)
    return path


def whole_ones(path: Path) -> list[Arrival]:
    return [arrival for arrival in read_stream(path) if isinstance(arrival, Arrival)]


SENT = [message(0), message(1, "ipc:///b"), message(2, replayed=True), message(3, "ipc:///b")]


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert list(read_stream(write(tmp_path / "r", *SENT))) == SENT


def test_it_is_gone_on_with(tmp_path: Path) -> None:
    for arrival in SENT:
        write(tmp_path / "r", arrival)
    later = [arrival._replace(resumed=True) for arrival in SENT[2:]]
    assert list(read_stream(tmp_path / "r")) == [*SENT[:2], *later]


def test_of_a_later_session_the_first_message_of_a_source_says_so(tmp_path: Path) -> None:
    write(tmp_path / "r", message(0))
    later = [message(5), message(6), message(0, "tcp://new:1")]
    assert [came.resumed for came in whole_ones(write(tmp_path / "r", *later))] == [False, True, False, False]


def test_wherever_it_is_cut_what_is_whole_is_read_and_the_rest_is_cut_off_before_more_is_written(
    tmp_path: Path,
) -> None:
    whole = write(tmp_path / "r", *SENT[:2]).read_bytes()
    for cut in range(1, len(whole)):
        path = tmp_path / "cut"
        path.write_bytes(whole[:cut])
        read = list(read_stream(path))
        kept = [arrival for arrival in read if isinstance(arrival, Arrival)]
        damage = [arrival for arrival in read if isinstance(arrival, Damage)]
        assert kept == SENT[: len(kept)]
        assert all(told.final and "ends within" in told.text for told in damage)
        if cut % 7 == 0:
            write(path, SENT[3])
            assert [arrival._replace(resumed=False) for arrival in whole_ones(path)] == [*kept, SENT[3]]


def test_what_is_behind_a_damage_is_never_cut_off(tmp_path: Path) -> None:
    whole = write(tmp_path / "r", *SENT).read_bytes()
    refused = 0
    for at in range(len(MAGIC), len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1
        path = tmp_path / "f"
        path.write_bytes(flipped)
        try:
            Recorder(path).close()
        except RecordingError:
            refused += 1
        left = path.read_bytes()
        # What is left of a last record that seems to go on behind the end of the file is what a crash leaves.
        assert left == flipped or (len(left) > len(whole) - 2**12 and flipped.startswith(left)), at
    assert refused > 100


def test_a_flipped_bit_is_told_and_never_taken_for_a_message(tmp_path: Path) -> None:
    whole = write(tmp_path / "r", *SENT[:2]).read_bytes()
    for at, bit in zip(range(len(MAGIC), len(whole)), itertools.cycle((0, 7, 3)), strict=False):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << bit
        (tmp_path / "f").write_bytes(flipped)
        read = list(read_stream(tmp_path / "f"))
        assert any(isinstance(arrival, Damage) for arrival in read)
        assert all(
            isinstance(told, Damage) or told._replace(source="") in [s._replace(source="") for s in SENT]
            for told in read
        )


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("my notes")
    with pytest.raises(RecordingError, match="no recording"):
        Recorder(path)
    assert path.read_text() == "my notes"
    with pytest.raises(UsageError, match="no recording of events"):
        list(read_stream(path))


def test_two_do_not_write_one_file(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r"), pytest.raises(RecordingError, match="another process"):
        Recorder(tmp_path / "r")
