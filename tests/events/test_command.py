"""``kvproof events`` as a user runs it: exit statuses, reports, maps, sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvproof.cli import main as cli
from kvproof.events.recording import MAGIC

from .streams import PublishingEngine, publish, record


def stream(path: Path, seed: int = 3, batches: int = 100) -> Path:
    return record(publish([PublishingEngine(seed)], batches), path)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.run(["events", *map(str, arguments)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("kvproof: ")
    assert said.count("\n") == 1
    return said


def test_a_clean_recording_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["events", str(stream(tmp_path / "s")), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["batches"] == 100
    assert (report["faults"], report["counts"], report["gaps"]) == ([], [], [])
    assert report["held"][0]["blocks"] > 0


def test_a_fault_is_status_1_with_what_a_router_believes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = publish([PublishingEngine(3)], 100)
    del messages[50]
    assert cli.run(["events", str(record(messages, tmp_path / "s")), "--json", str(tmp_path / "r")]) == 1
    said = capsys.readouterr()
    assert "sequence number 51, rank 0 of tcp://engine:5557: 1 batches are missing before it: 50" in said.err
    assert "a router now has missing entries for what the lost batches stored, stale entries" in said.err
    assert "E1 gap: 1" in said.out
    (fault,) = json.loads((tmp_path / "r").read_text())["faults"]
    assert (fault["rule"], fault["number"], fault["rank"]) == ("E1", 51, 0)


def test_nothing_read_is_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").touch()
    assert cli.run(["events", str(tmp_path / "s")]) == 3
    assert "not judged: the stream: no event was read" in capsys.readouterr().out
    assert cli.run(["events", "zmq://127.0.0.1:9", "--for", "0.1"]) == 3


def test_damaged_lines_before_the_first_event_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = {"event_id": 0, "data": {"removed": {"block_hashes": []}}}
    lines = ['{"model": "m"}', json.dumps({"worker_id": 1, "event": event})]
    (tmp_path / "r").write_text("\n".join(lines))
    assert cli.run(["events", str(tmp_path / "r")]) == 1
    assert "E5 damaged: 1" in capsys.readouterr().out


def test_what_cannot_be_followed_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be read" in refused(capsys, tmp_path / "nothing")
    assert "cannot be read" in refused(capsys, tmp_path)
    (tmp_path / "notes").write_text("notes")
    assert "is no recording of events" in refused(capsys, tmp_path / "notes")
    (tmp_path / "other").write_text('{"model": "m"}\n{"blocks": 3}\n' + "\n" * 9)
    assert "is no router's record: line 1 is no event of a router" in refused(capsys, tmp_path / "other")
    (tmp_path / "long").write_text('{"model": "m"}\n' * 3000)
    assert "is no router's record" in refused(capsys, tmp_path / "long")
    assert "give zmq://HOST:PORT" in refused(capsys, tmp_path / "notes", "--record", tmp_path / "r")
    assert "at once" in refused(capsys, tmp_path / "notes", "zmq://127.0.0.1:9")
    assert "no recording of events" in refused(capsys, "zmq://127.0.0.1:9", "--record", tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "notes"
    assert "folder that exists" in refused(capsys, tmp_path / "notes", "--map", tmp_path / "none" / "m")


def test_more_than_is_followed_ends_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvproof.untrusted.limits.EVENT_BLOCKS", 20)
    assert "names more than 20 cached blocks" in refused(capsys, stream(tmp_path / "s"))


def test_two_streams_and_maps_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, cached = stream(tmp_path / "a"), stream(tmp_path / "b", seed=4), tmp_path / "map"
    assert cli.run(["events", "diff", str(one), str(one)]) == 0
    assert cli.run(["events", str(one), "--map", str(cached)]) == 0
    assert cli.run(["events", "diff", str(one), str(cached)]) == 0
    capsys.readouterr()
    assert cli.run(["events", "diff", str(one), str(other), "--json", "-"]) == 1
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    assert difference["only_first"]
    assert difference["only_second"]
    (tmp_path / "none").write_text('{"blocks": []}')
    assert cli.run(["events", "diff", str(tmp_path / "none"), str(tmp_path / "none")]) == 3
    (tmp_path / "bad").write_text('{"blocks": [{"rank": 0}]}')
    assert "is no map of cached blocks" in refused(capsys, "diff", one, tmp_path / "bad")


@pytest.mark.parametrize("key", ["zz", "", "0x", "a b", 2**64, -(2**63) - 1])
def test_what_is_no_hash_is_no_difference_of_two_maps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: object
) -> None:
    (tmp_path / "bad").write_text(json.dumps({"blocks": [{"hashes": [1, key]}]}))
    assert f"{key!r} is no hash; write numbers" in refused(capsys, "diff", tmp_path / "bad", tmp_path / "bad")


def test_a_number_may_be_written_in_hexadecimal(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_text('{"blocks": [{"hashes": [171, -1]}]}')
    (tmp_path / "texts").write_text('{"blocks": [{"hashes": ["0xAB", "0xffffffffffffffff"]}]}')
    assert cli.run(["events", "diff", str(tmp_path / "numbers"), str(tmp_path / "texts")]) == 0


def test_between_two_recordings_nobody_listened_and_each_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = publish([PublishingEngine(3)], 100)
    one, other = record(whole[:40], tmp_path / "one"), record(whole[60:], tmp_path / "other")
    assert cli.run(["events", str(one), str(other)]) == 0
    assert "blocks held" in capsys.readouterr().out
    assert "one is named twice" in refused(capsys, one, other, tmp_path / "." / "one")
    lost = record([*whole[60:70], *whole[71:]], tmp_path / "lost")
    assert cli.run(["events", str(one), str(lost)]) == 1
    router = [tmp_path / "r1", tmp_path / "r2"]
    for path, numbers in zip(router, ((1, 2), (5, 6)), strict=True):
        events = [{"event_id": n, "data": {"removed": {"block_hashes": []}}} for n in numbers]
        path.write_text("\n".join(json.dumps({"worker_id": 1, "event": event}) for event in events))
    assert cli.run(["events", *map(str, router)]) == 0


def test_a_publisher_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("zmq")
    address = "zmq://127.0.0.1:9"
    for twice in ([address, address], [address, f"{address}?topic=a"], [f"{address}?topic=ab", f"{address}?topic=a"]):
        assert "tcp://127.0.0.1:9 is named twice" in refused(capsys, *twice)
    assert cli.run(["events", f"{address}?topic=a", f"{address}?topic=b", "--for", "0"]) == 3


def test_what_is_neither_a_stream_nor_a_map_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut, whole = tmp_path / "cut", stream(tmp_path / "s")
    cut.write_text('{"event": {"stor')
    assert "cut is no router's record: line 1" in refused(capsys, "diff", cut, whole)
    cut.write_bytes(MAGIC[:3])
    assert "cut is no stream and no map: the file ends" in refused(capsys, "diff", cut, whole)


def test_of_a_stream_with_faults_that_is_said_and_where_it_is_cut_its_end_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = stream(tmp_path / "s"), tmp_path / "cut"
    cut.write_bytes(whole.read_bytes()[:-3])
    assert cli.run(["events", "diff", str(cut), str(cut)]) == 3
    said = capsys.readouterr()
    assert f"{cut} has 1 faults (E5 truncated)" in said.err
    assert f"not judged: the end of {cut}: the file ends within a record" in said.out
    assert cli.run(["events", "diff", str(whole), str(whole)]) == 0
    assert "faults" not in capsys.readouterr().err
    monkeypatch.setattr("kvproof.untrusted.limits.EVENT_BLOCKS", 20)
    assert "names more than 20 cached blocks" in refused(capsys, "diff", whole, whole)


@pytest.mark.parametrize("every", ["inf", "1e12"])
def test_however_long_nothing_is_said_it_ends_when_it_should(every: str) -> None:
    pytest.importorskip("zmq")
    assert cli.run(["events", "zmq://127.0.0.1:9", "--for", "0.1", "--every", every]) == 3


def test_a_map_may_say_less_than_a_stream(tmp_path: Path) -> None:
    """Without groups, and with numbers in place of text."""
    engine = PublishingEngine(3, digests=False)
    path = record(publish([engine], 100), tmp_path / "s")
    told = {"blocks": [{"hashes": sorted(engine.cached)}]}
    (tmp_path / "map").write_text(json.dumps(told))
    assert cli.run(["events", "diff", str(path), str(tmp_path / "map")]) == 0
    told["blocks"][0]["hashes"].pop()
    (tmp_path / "map").write_text(json.dumps(told))
    assert cli.run(["events", "diff", str(path), str(tmp_path / "map")]) == 1
