"""The trace format: what is written is read back, and nothing else is accepted."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from kvproof.checkers.trace import (
    Operation,
    Trace,
    TraceError,
    decode_trace,
    encode_trace,
    read_trace,
    to_itf,
    write_atomically,
    write_trace,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=3)
OPERATIONS = st.builds(
    Operation, op=TEXT, args=OBJECTS, result=VALUES | st.just(UNSET), snapshot=OBJECTS | st.just(UNSET)
)
TRACES = st.builds(
    Trace,
    subject=TEXT,
    level=TEXT,
    operations=st.lists(OPERATIONS, max_size=4),
    sizes=st.dictionaries(TEXT, st.integers(0, 2**40), max_size=3),
    dialect=OBJECTS,
    kit=TEXT,
    seed=st.none() | st.integers(0, 2**63 - 1),
    note=st.none() | TEXT,
    initial=st.none() | OBJECTS,
)

SAMPLE = Trace(
    subject="Pool",
    level="machine",
    operations=[
        Operation("allocate", {"r": 0, "n": 2}, [1, 2], {"free": [3], "ref": {"1": 1, "2": 1}}),
        Operation("finish", {"r": 0}),
        Operation("lookup", {"h": "h0"}, None, {"free": [3, 2, 1], "ref": {}}),
    ],
    sizes={"Block": 3},
    dialect={"order": "split"},
    kit="0.1.0",
    seed=7,
    initial={"free": [1, 2, 3], "ref": {}},
)


@given(TRACES)
def test_round_trip(trace: Trace) -> None:
    data = encode_trace(trace)
    assert decode_trace(data) == trace
    assert data.count(b"\n") == len(trace.operations) + 2
    assert all(json.loads(line) for line in data.splitlines())


def test_a_file_is_read_back_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    path.write_text("something old")
    path.chmod(0o640)
    write_trace(path, SAMPLE)
    assert read_trace(path) == SAMPLE
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.trace"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    write_trace(link, SAMPLE)
    assert link.is_symlink()
    assert read_trace(target) == SAMPLE


def test_truncation_at_every_byte_is_noticed(tmp_path: Path) -> None:
    whole = encode_trace(SAMPLE)
    path = tmp_path / "cut.trace"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(TraceError, match=r"cut.trace, line \d+: .*(truncated|empty)"):
            read_trace(path)
        assert path.read_bytes() == whole[:length]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(TraceError):
        decode_trace(data)


@given(st.data())
def test_a_changed_byte_never_crashes_the_reader(data: st.DataObject) -> None:
    whole = bytearray(encode_trace(SAMPLE))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(TraceError):
        decode_trace(bytes(whole))


HEADER = '{"format":"kvproof-trace","version":1,"subject":"Pool","level":"pool","sizes":{},"dialect":{},"kit":"0"}'
END = '{"end":true,"operations":0}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%PDF-1.4\n%more\n", "line 1: this is not a kvproof trace"),
        ('{"format":"other","version":1}\n', "line 1: this is not a kvproof trace"),
        ("[]\n", "line 1: this is not a kvproof trace"),
        ("\n", "line 1: this is not a kvproof trace"),
        (HEADER.replace(":1,", ":2,") + "\n", "line 1: the trace is in version 2 .* install a newer kvproof"),
        (HEADER.replace(":1,", ":0,") + "\n", "line 1: invalid enum value 0"),
        (HEADER.replace(":1,", ':"1",') + "\n", "line 1: this is not a kvproof trace"),
        (HEADER.replace('"Pool"', "3") + f"\n{END}\n", r"line 1: expected `str`, got `int` - at `\$.subject`"),
        (HEADER.replace('"sizes":{}', '"sizes":{"B":"3"}') + f"\n{END}\n", "line 1: expected `int`, got `str`"),
        (HEADER.replace('"kit"', '"kid"') + f"\n{END}\n", "line 1: object .* field `kid`"),
        (f'{HEADER}\n{{"op":3,"args":{{}}}}\n{END}\n', "line 2: expected `str`, got `int`"),
        (f'{HEADER}\n{{"op":"a","args":[]}}\n{END}\n', "line 2: expected `object`, got `array`"),
        (f'{HEADER}\n{{"op":"a"}}\n{END}\n', "line 2: object missing required field `args`"),
        (f'{HEADER}\n{{"op":"a","args":{{}},"more":1}}\n{END}\n', "line 2: object contains unknown field `more`"),
        (f"{HEADER}\n\n{END}\n", "line 2"),
        (f'{HEADER}\n{{"op":"a","args":{{"x":{"[" * 100_000}}}\n{END}\n', "line 2"),
        (f"{HEADER}\n{END.replace('0', '1')}\n", "line 2: the closing line counts 1 operations but 0 stand before it"),
        (f"{HEADER}\n{END}\n{END}\n", "line 3: text after the closing line"),
        (f"{HEADER}\n{END}\nmore", "line 3: text after the closing line"),
        (f"{HEADER}\n", "line 2: the trace is truncated"),
    ],
)
def test_foreign_newer_and_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "some.trace"
    path.write_text(text)
    with pytest.raises(TraceError, match=f"some.trace, {message}") as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)
    assert path.read_text() == text


def test_a_file_written_by_hand_is_read() -> None:
    spaced = HEADER.replace(":", ": ").replace(",", ", ")
    data = f'{spaced}\r\n{{ "args": {{}}, "op": "a" }}\r\n{{ "end": true, "operations": 1 }}\r\n'
    assert decode_trace(data.replace("\r\n", "\n").encode()).operations == [Operation("a", {})]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: 2}, b"bytes", {3}, [10**5000], "\ud800", object(), [{"a": (1, {2: 3})}]]
)
def test_what_json_cannot_hold_is_refused_and_nothing_written(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "a.trace"
    path.write_text("old")
    trace = Trace("Pool", "pool", [Operation("a", {}), Operation("b", {"x": value})])
    with pytest.raises(TraceError, match="operation 2"):
        write_trace(path, trace)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.trace"]


def test_deep_values_are_refused() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(TraceError, match="nested more than"):
        encode_trace(Trace("Pool", "pool", [Operation("a", {"x": deep})]))


def test_absent_and_unwritable_paths(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "absent")
    with pytest.raises(TraceError, match="cannot be written"):
        write_trace(tmp_path / "absent" / "a.trace", SAMPLE)
    with pytest.raises(OSError, match="not a regular file"):
        write_atomically(tmp_path, b"")


def test_informal_trace_format() -> None:
    itf = to_itf(SAMPLE)
    assert itf["vars"] == ["free", "ref"]
    assert [state["#meta"]["index"] for state in itf["states"]] == [0, 1, 3]
    assert itf["states"][1]["free"] == [{"#bigint": "3"}]
    assert itf["states"][1]["#meta"] == {"index": 1, "action": "allocate", "args": {"r": 0, "n": 2}, "result": [1, 2]}
    assert json.loads(json.dumps(itf)) == itf


def test_informal_trace_format_needs_equal_snapshots() -> None:
    with pytest.raises(TraceError, match="holds no snapshots"):
        to_itf(Trace("Pool", "pool", [Operation("a", {})]))
    with pytest.raises(TraceError, match="other fields"):
        to_itf(Trace("Pool", "pool", [Operation("a", {}, None, {"x": 1}), Operation("a", {}, None, {"y": 1})]))


def test_the_page_on_the_format_names_its_fields_and_no_others() -> None:
    page = (Path(__file__).parents[2] / "docs" / "traces.md").read_text()
    named = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    trace = Trace("Pool", "machine", [Operation("take", {}, result=1, snapshot={})], seed=1, note="", initial={})
    header, operation, _ = map(json.loads, encode_trace(trace).splitlines())
    assert named == {*header, *operation}
