"""The readers of what others send, fed with arbitrary bytes and with valid files that were changed: a result, or one
sentence, and never anything else."""

import contextlib
import copy
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kvproof.checkers.lockstep import Call
from kvproof.checkers.script import to_trace
from kvproof.checkers.trace import TraceError, decode_trace, encode_trace, to_itf
from kvproof.cli import main as cli
from kvproof.cli.findings import case_of, violation_of
from kvproof.engines.hello import read_hello
from kvproof.engines.known import KnownError, read_known
from kvproof.errors import UsageError
from kvproof.harness.levels import LEVELS
from kvproof.harness.scopes import scope_of_params
from kvproof.judge.record import Answer
from kvproof.machine.concrete import Concrete
from kvproof.spec.timed.links import Links
from kvproof.untrusted import limits
from kvproof.untrusted.reading import UnreadableError, check_json, decode_json, read_bounded, small_fraction
from kvproof.untrusted.text import file_stem, json_text, one_line, visible
from kvproof.workload.requests import read_workload

from ..marks import slow_but
from .hostile import an_instance, guarded, trace_text
from .test_workload import make_lines

UNIQUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(st.characters(codec="utf-8")),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), values),
    max_leaves=12,
)
"""Values of JSON, in which no key stands twice."""

ROOT = Path(__file__).parents[2]
TRACES = [
    *sorted((ROOT / "docs" / "findings").glob("*.jsonl")),
    *sorted((ROOT / "tests" / "stateful" / "traces").glob("*.jsonl")),
]

PATIENT = settings(suppress_health_check=list(HealthCheck), deadline=None)
"""As the profile says, of bodies that take their time and files that are large."""

WHOLE_REPLAYS = settings(PATIENT, max_examples=max(10, settings().max_examples // 4))


# ------------------------------------------------------------------------------------------------ text


@given(st.text())
@example("\x1b[2J\x9b\u202e\n\t\udcff\U000e0001")
def test_visible_text_is_printable_and_harmless_text_is_as_it_was(text: str) -> None:
    shown = visible(text)
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    assert visible(shown) == shown
    assert one_line(text).isprintable()
    if all(c.isprintable() or c in "\n\t" for c in text):
        assert shown == text


def test_a_long_line_is_cut() -> None:
    assert one_line("x" * 100, 10) == "xxxxxxxxxx… (90 letters more)"
    assert len(one_line("\x00" * 10**6)) < 5 * limits.SHOWN_LETTERS


@given(st.text())
def test_a_name_is_one_file_in_its_folder(text: str) -> None:
    name = file_stem(text)
    assert Path(name).name == name
    assert (Path("/folder") / f"{name}.jsonl").parent == Path("/folder")
    assert not name.startswith((".", "-"))


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\x9b\U000e0001")
def test_json_means_the_same_in_printable_characters(text: str) -> None:
    shown = json_text(msgspec.json.encode([text]))
    assert shown.isprintable()
    assert json.loads(shown) == [text]


# ------------------------------------------------------------------------------------------------ any JSON


def nested(depth: int, text: str = "0") -> str:
    return "[" * depth + text + "]" * depth


@given(
    st.recursive(
        st.none() | st.integers() | st.text("[]{}\",\\'0123456789"),
        lambda v: st.lists(v) | st.dictionaries(st.text('[{"\\'), v),
    )
)
def test_brackets_in_texts_are_no_depth(value: Any) -> None:
    check_json(json.dumps(value).encode())


@pytest.mark.parametrize("around", ["{}", '{{"a":{}}}', '["[[[",{}]', '["\\"{{{{",{}]', '{{"{{{{\\\\":{}}}'])
def test_depth_is_counted_exactly(around: str) -> None:
    own = 1 if around != "{}" else 0
    within, beyond = (around.format(nested(limits.DEPTH - own + more)).encode() for more in (0, 1))
    assert decode_json(within, object) is not None
    with pytest.raises(UnreadableError, match="nested more than"):
        decode_json(beyond, object)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 10**6, "nested more than"),
        (b'{"a":' * 10**6, "nested more than"),
        pytest.param(b"[{" * 10**6 + b"}]" * 10**6, "nested more than", marks=pytest.mark.slow),
        (b"]" * 10**6, "malformed"),
        (b'["' + b'\\"' * 10**7, "truncated"),
        (b'"' * 10**7, "trailing"),
        (b"[" + b"0," * (limits.VALUES + 1) + b"0]", "more than 4,000,000 values"),
        (b"[[],[]," + b"[]," * limits.VALUES + b"0]", "more than 4,000,000 values"),
        (b"1" * 41, "more than 40 digits"),
        (b"1." + b"1" * 10**6, "more than 40 digits"),
        (b'["' + b"1" * 10**6 + b'", ' + b"1" * 10**6 + b"]", "more than 40 digits"),
        (b"1e999", "out of range"),
        (b"-Infinity", "malformed"),
        (b"\xff\xfe[\x00]\x00", "malformed"),
        (b'"\xff"', "can't decode"),
        (b'"\\ud800"', "truncated"),
        (b"", "truncated"),
    ],
    ids=lambda value: str(value[:12]) if isinstance(value, bytes) else value,
)
def test_json_that_does_harm_is_refused(data: bytes, said: str) -> None:
    with guarded(), pytest.raises(UnreadableError, match=said):
        decode_json(data, object)


def test_long_numbers_in_texts_are_text() -> None:
    assert decode_json(b'"%s"' % (b"7" * 64), str) == "7" * 64


def test_no_more_is_read_than_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert read_bounded(tmp_path / "file", 10) == b"x" * 10
    with pytest.raises(UnreadableError, match="larger than 9 bytes"):
        read_bounded(tmp_path / "file", 9)
    with pytest.raises(UnreadableError, match="larger than 1 MiB"):
        read_bounded("/dev/zero", 2**20)


def test_exact_numbers_are_short() -> None:
    assert all(map(small_fraction, ("0", "-1/3", "+7", "0.5", "9" * 40)))
    assert not any(map(small_fraction, ("1e9", "1_0", "9" * 41, "1/", "", " 1", "1\n", "١", "0x1", "nan", "1/-3")))


# ------------------------------------------------------------------------------------------------ the readers


def _known(path: Path) -> None:
    read_known(path)


def _params(path: Path) -> None:
    scope_of_params(Links, {"Link": 1, "Transfer": 1, "Moment": 1}, path)


def _trace(path: Path) -> None:
    trace = decode_trace(path.read_bytes())
    encode_trace(trace)
    violation_of(trace)
    case_of(trace)
    to_itf(trace)


def _answer(path: Path) -> None:
    line = path.read_bytes()
    check_json(line, values=limits.ANSWER_VALUES)
    decode_json(line, Answer)


READERS: Mapping[str, tuple[Callable[[Path], object], bytes]] = {
    "trace": (_trace, TRACES[0].read_bytes()),
    "known": (_known, b"[[known]]".join((ROOT / "docs" / "known.toml").read_bytes().split(b"[[known]]")[:4])),
    "workload": (read_workload, "".join(json.dumps(line) + "\n" for line in make_lines(1)[:20]).encode()),
    "params": (_params, b'{"bandwidth": [2], "bytes": ["1/3"], "time": [1]}'),
    "hello": (
        lambda path: read_hello(path.read_bytes()),
        b'{"hello":{"protocol":1,"engine":"e","version":"1","levels":["requests"],"capabilities":{"requests":'
        b'{"operations":["start"],"visible":{"device":["ref"]},"block_tokens":[2,3],"tokens_per_grow":2}}}}',
    ),
    "answer": (
        _answer,
        b'{"id":1,"world":{"groups":[{"kind":"full","block":2}],"tiers":{"device":{"blocks":3}},"hash_block":2},'
        b'"steps":[{"op":"start","args":{"r":0},"effects":[["keys","r0",0,[1]]],"result":true}]}',
    ),
}
"""What reads each kind of file, and a valid one."""

SENTENCES = (TraceError, UsageError, KnownError, UnreadableError)

NASTY = st.sampled_from(
    [b"[" * 1000, b"{" * 70, b'"', b"\\", b"9" * 50, b"1e999", b"-1", b"null", b"Infinity", b"\x00", b"\xff", b"\n",
     b",", b'"\\ud800"', b"\xe2\x80\xae", b"\x1b[2J", b"1e9", b"=", b"a." * 100, b"true", b"[]", b"{}", b"1000000"]
)  # fmt: skip


@st.composite
def changed(draw: st.DrawFn, data: bytes) -> bytes:
    """A valid file of which some pieces are left out, doubled, moved, or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        piece = draw(st.just(b"") | st.just(data[at:end] * 2) | NASTY | st.binary(max_size=8))
        data = data[:at] + piece + data[min(end, at + draw(st.integers(0, 40))) :]
    return data


def _feed(name: str, folder: Path, data: bytes) -> None:
    path = folder / "file"
    path.write_bytes(data)
    with guarded(), contextlib.suppress(*SENTENCES):
        READERS[name][0](path)


@pytest.mark.parametrize("name", READERS)
def test_the_valid_file_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(READERS[name][1])
    READERS[name][0](tmp_path / "file")


@pytest.mark.parametrize("name", READERS)
def test_arbitrary_bytes_are_read_or_refused(name: str, tmp_path: Path) -> None:
    @PATIENT
    @given(st.binary(max_size=300) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))
    def feed(data: bytes) -> None:
        _feed(name, tmp_path, data)

    feed()


@pytest.mark.parametrize("name", READERS)
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    @PATIENT
    @given(changed(READERS[name][1]))
    def feed(data: bytes) -> None:
        _feed(name, tmp_path, data)

    feed()


# ------------------------------------------------------------------------------------------------ whole replays


def _recorded(level: str) -> bytes:
    """A trace as the fuzzer writes it, of a few calls that are possible."""
    chosen, dice = LEVELS[level], random.Random(level)
    setting = an_instance(level)
    spec = Concrete(chosen.model, setting.scope)
    state, calls = spec.initial(), []
    for _ in range(6):
        possible = [(a, args) for a in chosen.model.actions for args in spec.enabled(state, a)]
        action, args = dice.choice(possible)
        spec.apply(state, action, args)
        calls.append(Call(action, args))
    target = chosen.target(setting)
    trace = to_trace(spec, target, calls, seed=None, note="a note", kit="0")
    for operation in trace.operations[:-1]:
        operation.snapshot = msgspec.UNSET  # Else nearly all changes would be in snapshots.
    return encode_trace(trace)


WHOLE = ("pool", "tiered", "offload", "timed", "connectors", "file-store")

VALUES = st.one_of(
    st.sampled_from([None, True, -1, 0, 1, 2, 3, 7, 999, 1001, 10**6, 10**12, 2**63, -(2**70), 0.5]),
    st.sampled_from(["", "1/3", "1e9", "x", [], {}, [[]]]),
    st.lists(st.integers(-2, 5), max_size=4),
    st.text(max_size=4),
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in _places(item, (*path, key)))]


@st.composite
def another(draw: st.DrawFn, data: bytes) -> bytes:
    """A trace in which some values are others: still one in its form, so that what is behind the reader is reached."""
    lines = [json.loads(line) for line in data.splitlines()]
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.sampled_from([0, 0, *range(len(lines) - 1)]))
        place = draw(st.sampled_from(_places(lines[number])[1:]))
        inner = lines[number]
        for key in place[:-1]:
            inner = inner[key]
        if draw(st.integers(0, 5)) == 0:
            del inner[place[-1]]
        else:
            inner[place[-1]] = copy.deepcopy(draw(VALUES))
    if draw(st.integers(0, 3)) == 0:
        lines[0]["initial"] = lines[-2].get("snapshot")
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("target", [(), ("--target", "refimpl")], ids=["alone", "refimpl"])
@pytest.mark.parametrize("level", slow_but(WHOLE, {"pool", "timed", "file-store"}))
def test_a_changed_trace_replays_or_is_refused(
    level: str, target: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    data = _recorded(level)
    path.write_bytes(data)
    assert cli.run(["replay", str(path), *target]) == 0
    capsys.readouterr()

    @WHOLE_REPLAYS
    @given(another(data))
    def feed(data: bytes) -> None:
        path.write_bytes(data)
        with guarded():
            status = cli.run(["replay", str(path), *target])
        out, err = capsys.readouterr()
        assert "a fault of kvproof" not in err, err
        assert status in (0, 1, 2)
        assert (status == 2) == (out == "")

    feed()


def test_the_page_tells_the_limits_as_they_are() -> None:
    """docs/trust.md says how much is read; here that stands beside what the readers go by."""
    page = " ".join((ROOT / "docs" / "trust.md").read_text().split())
    protocol = " ".join((ROOT / "docs" / "protocol.md").read_text().split())
    for said in (
        f"{limits.TRACE_BYTES // 2**20} MiB, {limits.OPERATIONS:,} operations, {limits.VALUES // 10**6} million values",
        f"{limits.ELEMENTS:,} elements of a sort, {limits.ENTRIES:,} entries of a state",
        f"lines of {limits.WORKLOAD_LINE // 2**20} MiB, {limits.REQUESTS // 10**6} million requests, "
        f"{limits.BLOCKS // 10**6} million blocks, prompts of {limits.PROMPT_TOKENS // 2**20} million tokens",
        f"{limits.KNOWN_BYTES // 2**10} KiB, {limits.DOTS} dots in a line",
        f"| {limits.PARAMS_BYTES // 2**20} MiB |",
        f"| {limits.RECORD_BYTES // 2**10} KiB |",
        f"{limits.ANSWER_BYTES // 2**20} MiB and {limits.ANSWER_VALUES // 10**6} million values a line",
        f"{limits.DEPTH} levels of nesting, numbers of {limits.DIGITS} digits",
    ):
        assert said in page
    for said in (
        f"{limits.DEPTH} levels of nesting and {limits.ANSWER_VALUES // 10**6} million values",
        f"up to {limits.NAMES:,} levels, operations, options, groups or tiers",
        f"up to {limits.NAME_LETTERS} letters",
        f"up to {limits.BLOCK_TOKENS:,} tokens, tiers of up to {limits.BLOCKS // 10**6} million blocks",
        f"block tables of up to {limits.TABLE // 10**6} million entries",
    ):
        assert said in protocol
    assert limits.COUNTED == 10**6, "capacities and lengths of a million"


def test_the_header_of_the_samples_is_valid() -> None:
    assert decode_trace(trace_text().encode()).subject == "Pool"


# ------------------------------------------------------------------------------------------------- keys that come twice


@given(UNIQUE, st.booleans())
def test_what_holds_no_key_twice_is_read_as_it_is(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=1)
    assert decode_json(text.encode(), object) == json.loads(text)


@given(st.text(st.characters(codec="utf-8")), UNIQUE, st.data())
def test_a_key_that_stands_twice_is_refused_however_it_is_written(key: str, value: Any, data: st.DataObject) -> None:
    others = [f"{json.dumps(f'{key}{n}')}: {json.dumps(value)}" for n in range(data.draw(st.integers(0, 3)))]
    escaped = "".join(f"\\u{unit:04x}" for unit in memoryview(key.encode("utf-16-le")).cast("H"))
    twice = [f"{json.dumps(key)}: {json.dumps(value)}", f'"{escaped}": {json.dumps(value)}']
    pairs = data.draw(st.permutations([*others, *twice]))
    text = '{"above": [1, {' + ", ".join(pairs) + "}]}"
    assert isinstance(decode_json(text.encode(), object, once=False), dict)
    with pytest.raises(UnreadableError, match="stands twice"):
        decode_json(text.encode(), object)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_hello, '{"hello": {"protocol": 1, "protocol": 1}}'),
        (lambda line: decode_json(line, dict[str, int]), '{"a": 1, "b": 2, "a": 1}'),
    ],
)
def test_whoever_reads_json_of_others_refuses_a_key_that_stands_twice(read: Callable[[bytes], Any], text: str) -> None:
    with pytest.raises((UnreadableError, UsageError), match="stands twice"):
        read(text.encode())


def test_files_with_a_key_that_stands_twice_are_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload, cache, router = tmp_path / "workload.jsonl", tmp_path / "map.json", tmp_path / "router.jsonl"
    workload.write_text('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1], "hash_ids": [2]}\n')
    cache.write_text('{"blocks": [{"rank": 0, "medium": "GPU", "group": 0, "hashes": [1], "hashes": [2]}]}')
    router.write_text('{"worker_id": 1, "worker_id": 2, "event": {"event_id": 0, "data": "cleared"}}\n')
    for command in (
        ["workload", str(workload)],
        ["events", "diff", str(cache), str(cache)],
        ["events", "check", str(router)],
    ):
        assert cli.run(command) in (1, 2)
        said = capsys.readouterr()
        assert "stands twice" in said.err + said.out, command
