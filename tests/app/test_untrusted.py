"""What others send is never run, and what it asks for is bounded: one test for each kind of file and of attack."""

import io
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text

from kvproof.checkers.bounds import check_state
from kvproof.checkers.lockstep import Call, Divergence
from kvproof.checkers.replay import replay
from kvproof.checkers.script import to_script
from kvproof.checkers.trace import Trace, TraceError, read_trace, to_itf
from kvproof.cli import main as cli
from kvproof.cli import output
from kvproof.cli.findings import file_name
from kvproof.cli.schema import Report
from kvproof.engines.report import Finding
from kvproof.harness.instances import Instance
from kvproof.harness.levels import LEVELS
from kvproof.harness.pool.target import PoolTarget
from kvproof.judge.record import Answer, Case
from kvproof.judge.violation import Verdict, Violation
from kvproof.machine import Model
from kvproof.machine.concrete import Concrete
from kvproof.machine.scope import ScopeError
from kvproof.spec.pool import Pool

from .hostile import ESCAPES, POOL_PARAMS, POOL_SIZES, SETUP, admit, an_instance, refusal, run, trace_text
from .test_workload import make_lines, write_lines

ROOT = Path(__file__).parents[2]
FINDINGS = sorted((ROOT / "docs" / "findings").glob("*.jsonl"))


# ------------------------------------------------------------------------------------------------ nothing is run


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that is there once something hostile was run."""
    return tmp_path / "marker"


@pytest.fixture
def evil(tmp_path: Path, marker: Path) -> Path:
    """A program that leaves the marker; it passes for an interpreter, a driver and a machine file."""
    program = tmp_path / "evil.py"
    program.write_text(f"#!{sys.executable}\nopen({str(marker)!r}, 'w')\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("command", ["replay", "bisect"])
@pytest.mark.parametrize(
    "subject",
    [
        "exec:{evil}",
        "exec:sh -c {evil}",
        " exec:{evil}",
        "vllm@{evil}",
        "vllm@evil.py",
        "vllm==0.33.0@{evil}",
        "dynamo@{evil}",
        "python:evil",
        "{evil}",
        "{evil}:Machine",
        "../evil.py:Machine",
    ],
)
def test_a_trace_never_chooses_a_program(
    tmp_path: Path,
    marker: Path,
    evil: Path,
    subject: str,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("KVPROOF_ENGINES", str(tmp_path / "engines"))
    named = subject.format(evil=evil)
    (tmp_path / "trace.jsonl").write_text(trace_text(subject=named, level="requests", dialect=SETUP))
    said = refusal(capsys, command, "trace.jsonl")
    assert not marker.exists()
    if command == "replay":
        assert f"was recorded on {named}" in said
        assert "--target " in said


@pytest.mark.parametrize("subject", ["exec:a 'b' $(c)", "vllm@/path to/python"])
def test_the_message_says_what_to_give(tmp_path: Path, subject: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.jsonl").write_text(trace_text(subject=subject, level="requests", dialect=SETUP))
    said = refusal(capsys, "replay", str(tmp_path / "trace.jsonl"))
    assert shlex.split(said.partition("name it yourself: ")[2]) == ["--target", subject]


@pytest.mark.parametrize("field", ["subject", "level", "machine"])
def test_a_trace_never_chooses_a_machine_file(
    tmp_path: Path, marker: Path, evil: Path, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = f"{evil}:Machine"
    header = {"subject": "nobody", "level": "nowhere"}
    if field == "machine":
        header |= {"dialect": POOL_PARAMS | {"machine": named}}  # type: ignore[dict-item]
    else:
        header[field] = named
    (tmp_path / "trace.jsonl").write_text(trace_text(header))
    said = refusal(capsys, "replay", str(tmp_path / "trace.jsonl"))
    assert "name it with --machine FILE.py:CLASS" in said
    assert not marker.exists()


def test_a_trace_may_choose_an_installed_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.jsonl").write_text(trace_text(subject="vllm==99.0", level="scheduler", dialect=SETUP))
    assert "vllm==99.0 is not installed" in refusal(capsys, "replay", str(tmp_path / "trace.jsonl"))


@pytest.mark.parametrize(
    "record",
    [
        {"runtime": "../elsewhere"},
        {"runtime": "elsewhere"},
        {"runtime": "runtime-x/../../elsewhere"},
        {"runtime": "{elsewhere}"},
        {"version": "0.32.0", "runtime": "runtime-real"},
        {"name": "dynamo", "runtime": "runtime-real"},
        {"name": "../../vllm", "runtime": "runtime-real"},
    ],
)
def test_the_record_of_a_release_names_a_runtime_of_the_store_alone(
    tmp_path: Path,
    marker: Path,
    record: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = tmp_path / "engines"
    monkeypatch.setenv("KVPROOF_ENGINES", str(root))
    for place in (tmp_path / "elsewhere", root / "elsewhere", root / "runtime-real", root / "runtime-x"):
        (place / "bin").mkdir(parents=True)
        (place / "bin" / "python").write_text(f"#!/bin/sh\ntouch {marker}\n")
        (place / "bin" / "python").chmod(0o755)
    (root / "vllm-0.33.0").mkdir()
    values = {"name": "vllm", "version": "0.33.0"} | dict(record)
    values["runtime"] = values["runtime"].format(elsewhere=tmp_path / "elsewhere")
    (root / "vllm-0.33.0" / "kvproof.json").write_text(json.dumps(values))
    (tmp_path / "trace.jsonl").write_text(trace_text(subject="vllm==0.33.0", level="scheduler", dialect=SETUP))
    assert "is not installed" in refusal(capsys, "replay", str(tmp_path / "trace.jsonl"))
    assert not marker.exists()


def test_no_text_of_others_becomes_a_script() -> None:
    """What a target says stands in a finding's script; it is a literal there, and no more."""
    instance = Instance.from_seed(1)
    target = PoolTarget(instance)
    marked = '"""\nimport os; os.abort()  # \\'
    for text in (marked, "\x00", "coding: utf-7", "\u2028import os", "{0.__class__}", "'''\\"):
        found = Divergence("crash", Call("reset", ()), text, text)
        script = to_script(Concrete(Model.of(Pool), instance.scope), target, instance, [Call("reset", ())], found)
        assert [line for line in script.split("\n") if line.startswith("import")] == []
        space: dict[str, Any] = {}
        head = script.partition("\ndef call(")[0]
        exec(compile(head, "script", "exec"), space)
        assert space["found"] == str(found).splitlines()[0]
        assert all(c.isprintable() or c == "\n" for c in script)


@pytest.mark.parametrize(
    "text", ["../../x", "/etc/passwd", "..", ".", "", "-rf", ".hidden", "a\x00b", "a/b\\c", "é" * 300]
)
def test_no_text_of_others_becomes_a_path(text: str) -> None:
    case = Case(text, {}, [])
    finding = Finding(Verdict(Violation(text, text, "", (text,)), 0, Answer(0)), case, "plain", 0.0, 0)
    for target in (f"exec:{text}", f"vllm@{text}"):
        name = file_name(target, finding)
        assert Path(name).name == name
        assert not name.startswith((".", "-"))
        assert len(name) < 200
        assert name.isascii()


# ------------------------------------------------------------------------------------------------ traces


BIG = 10**9
DEEP = '{"op":"admit","args":{"r":0},"snapshot":{"x":' + "[" * 70 + "]" * 70 + "}}"
TRACES: Mapping[str, tuple[str, str]] = {
    "a size": (trace_text(sizes=POOL_SIZES | {"Block": BIG}), "the size of Block is 1,000,000,000"),
    "all sizes": (trace_text(sizes=dict.fromkeys(POOL_SIZES, 1000)), "parameter"),
    "a negative size": (trace_text(sizes=POOL_SIZES | {"Block": -BIG}), "positive integer"),
    "Int": (trace_text(sizes=POOL_SIZES | {"Int": 10**30}), "the size of Int"),
    "a huge number": (trace_text(sizes=POOL_SIZES | {"Int": 10**50}), "a number of more than 40 digits"),
    "a number of any length": (trace_text(seed=1).replace('"seed": 1', f'"seed": {"9" * 9000}'), "more than 40 digits"),
    "infinity": (trace_text(sizes=POOL_SIZES).replace('"Int": 3', '"Int": Infinity'), "this is not a kvproof trace"),
    "a float": (trace_text(sizes=POOL_SIZES | {"Int": 1e308}), "expected `int`"),
    "an overflow": (trace_text().replace('"Int": 3', '"Int": 1e999'), "number out of range"),
    "operations": (trace_text(operations=[json.dumps(admit())] * 100_001), "more than 100,000 operations"),
    "lines": (trace_text() + "\n" * 200_000, "more than 100,000 operations"),
    "values": (trace_text(operations=[f'{{"op":"admit","args":{{"r":[{"0," * 4_000_001}0]}}}}']), "4,000,000 values"),
    "depth": (trace_text(operations=[DEEP]), "line 2: nested more than 64 deep"),
    "depth of the header": (trace_text(dialect={"x": json.loads("[" * 70 + "]" * 70)}), "nested more than 64 deep"),
    "depth without end": (trace_text(operations=['{"op":' + "[" * 200_000]), "line 2: nested more than 64 deep"),
    "depth behind text": (trace_text(operations=['{"op":"\\"[",' + '"a":{' * 900]), "line 2: nested more than 64 deep"),
    "half a character": (trace_text(operations=['{"op":"\\ud800","args":{}}']), "line 2"),
    "no text": (trace_text(operations=['{"op":"\udcff","args":{}}']), "line 2: 'utf-8' codec can't decode"),
    "an argument below": (trace_text(operations=[admit(-1)]), "r=-1 is none of the 1 of Request"),
    "an argument above": (trace_text(operations=[admit(BIG)]), "is none of the 1 of Request"),
    "an argument of text": (trace_text(operations=[{"op": "admit", "args": {"r": "0"}}]), "admit takes a number as r"),
    "an argument of truth": (trace_text(operations=[{"op": "admit", "args": {"r": True}}]), "as r, not true"),
    "no argument": (trace_text(operations=[{"op": "admit", "args": {}}]), "operation 1: admit is given no r; record"),
    "an argument too many": (trace_text(operations=[{"op": "admit", "args": {"r": 0, "q": 0}}]), "no parameter q"),
    "a name of Python": (trace_text(operations=[{"op": "__init__", "args": {}}]), "which is no action of Pool"),
    "a parameter of text": (trace_text(dialect=POOL_PARAMS | {"need": ["f()"]}), "an exact number is text"),
    "parameters that are none": (trace_text(dialect={"params": [1]}), "are no mapping"),
    "a state too short": (trace_text(initial={"ref_cnt": [0]}), "does not have the sizes of the scope"),
    "a state out of range": (trace_text(initial={"table": [[7]]}), "has only"),
    "a queue out of range": (trace_text(initial={"free": [99, -5]}), "something that is no element"),
    "a queue of text": (trace_text(initial={"free": "012"}), "something that is no element"),
    "a queue with a double": (trace_text(initial={"free": [0, 0]}), "an element twice"),
    "a state of parameters": (trace_text(initial={"need": [0]}), "has no variable need"),
    "a state of nothing": (trace_text(initial={"__class__": [0]}), "has no variable __class__"),
    "a key twice": (trace_text(operations=['{"op":"admit","op":"free","args":{"r":0}}']), "line 2: an object in which"),
    "a key twice, deep": (trace_text(operations=['{"op":"admit","args":{"r":0,"\\u0072":0}}']), "'r' stands twice"),
    "a key twice, of the header": (trace_text(seed=1).replace('"seed": 1', '"seed":1,"seed":2'), "'seed' stands twice"),
    "a key twice, at the end": (trace_text().replace('"end": true', '"end": true, "end": true'), "'end' stands twice"),
    "escapes": (trace_text(operations=[{"op": ESCAPES, "args": {}}]), "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\u202e"),
    "escapes in a subject": (trace_text(subject=ESCAPES, level="none"), "[red]x[/blue][/] :bomb:\\u200b\\nkvproof"),
    "escapes in a field": (trace_text({ESCAPES: 1}), "\\x1b]0;owned"),
}  # fmt: skip
"""Traces of machine P that are refused, and what is said of each."""


@pytest.mark.parametrize("name", TRACES)
def test_a_hostile_trace_is_refused_with_a_sentence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, said = TRACES[name]
    path = tmp_path / "trace.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    sentence = refusal(capsys, "replay", str(path))
    assert said in sentence
    assert sentence.startswith(f"kvproof: {path}"), "a message begins with what it is about"


def test_the_trace_that_attacks_are_made_of_is_a_good_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(trace_text(operations=[admit()]))
    assert run(capsys, "replay", str(path))[0] == 0
    assert run(capsys, "replay", str(path), "--target", "refimpl")[0] == 0


def test_an_exact_number_is_never_written_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes, more = {"Link": 1, "Transfer": 1, "Moment": 1, "Int": 5, "Real": 1}, {"bytes": [1], "time": [1]}
    path = tmp_path / "trace.jsonl"
    for number in ("1e999999999", "1" * 50, "1/" + "3" * 50, "1_0", "١", " 1"):
        path.write_text(trace_text(subject="Links", sizes=sizes, dialect={"bandwidth": [number], **more}))
        assert "an exact number is text" in refusal(capsys, "replay", str(path))
        path.write_text(json.dumps({"bandwidth": [number], **more}))
        given = ("--size", "Link=1,Transfer=1,Moment=1", "--params", str(path))
        assert "an exact number is text" in refusal(capsys, "explore", "links", *given)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"sizes": POOL_SIZES | {"Block": BIG}, "params": POOL_PARAMS}, "the size of Block"),
        ({"sizes": POOL_SIZES, "params": POOL_PARAMS | {"need": [10**9]}}, "the parameter need"),
        ({"sizes": POOL_SIZES, "params": POOL_PARAMS | {"need": ["1e9"]}}, "an exact number"),
        ({"sizes": [["Block", 3]], "params": POOL_PARAMS}, "no sizes or no params"),
        ({"sizes": POOL_SIZES, "params": {"evil": 1}}, "no instances for a machine with the parameters evil"),
        ({"sizes": POOL_SIZES, "params": POOL_PARAMS, "keys": ["zz"]}, "non-hexadecimal"),
        ({"sizes": POOL_SIZES, "params": POOL_PARAMS, "keys": []}, "a key of its own for each hash"),
        ({"sizes": POOL_SIZES, "params": POOL_PARAMS, "keys": [[1]]}, "argument must be str"),
        ({"sizes": POOL_SIZES, "params": POOL_PARAMS, "digests": []}, "a digest of 64 bits"),
        ({"sizes": POOL_SIZES, "params": POOL_PARAMS, "digests": [10**30]}, "a digest of 64 bits"),
        ({"sizes": POOL_SIZES, "params": POOL_PARAMS, "digests": ["x"]}, "a digest of 64 bits"),
    ],
)
def test_a_hostile_setting_makes_no_target(
    tmp_path: Path, setting: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    described = {"keys": ["00"], "digests": [1], **setting}
    path.write_text(trace_text(operations=[admit()], dialect=POOL_PARAMS | {"setting": described}))
    assert said in refusal(capsys, "replay", str(path), "--target", "refimpl")


def test_a_note_is_shown_and_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(trace_text(operations=[admit(), admit()], note=ESCAPES))
    status, out, _ = run(capsys, "replay", str(path))
    assert status == 1
    shown = next(line for line in out.splitlines() if "recorded with the note" in line)
    assert shown.endswith("[red]x[/blue][/] :bomb:\\u200b\\nkvproof: all holds")


def test_what_is_ill_formed_is_a_problem_of_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine that does what none may do ended in a traceback."""
    file = tmp_path / "machine.py"
    file.write_text(
        "from kvproof.machine import Machine, Queue, Sort, action\n\n\nclass B(Sort):\n    pass\n\n\n"
        "class Pushes(Machine):\n    queue = Queue(B, init=False)\n\n"
        '    @action("A")\n    def push(self, b: B) -> None:\n        self.queue.push_back(b)\n'
    )
    path = tmp_path / "trace.jsonl"
    push = {"op": "push", "args": {"b": 0}}
    path.write_text(trace_text(subject="Pushes", sizes={"B": 2}, dialect={}, operations=[push, push]))
    status, out, _ = run(capsys, "replay", str(path), "--machine", f"{file}:Pushes")
    assert status == 1
    assert "1 of 2 operations on Pushes, then:\n  ill-formed: element 0 already stands in the queue" in out


@pytest.mark.parametrize("option", ["--itf", "--json", "--script"])
def test_where_nothing_can_be_written_a_sentence_says_so(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(trace_text(operations=[admit() | {"snapshot": {"x": 1}}]))
    assert "cannot be written" in refusal(capsys, "replay", str(path), option, str(tmp_path / "no" / "file"))


def test_a_trace_that_no_engine_is_asked_for_has_no_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, script = tmp_path / "trace.jsonl", tmp_path / "script.py"
    path.write_text(trace_text(operations=[admit()]))
    assert "leave --script out" in refusal(capsys, "replay", str(path), "--script", str(script))
    assert not script.exists()


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("level", LEVELS)
def test_every_variable_of_a_state_is_held_against_the_scope(level: str) -> None:
    """Tallies were left out at first: one that is too short ended in an IndexError."""
    chosen = LEVELS[level]
    setting = an_instance(level)
    spec = Concrete(chosen.model, setting.scope)
    state = spec.describe(spec.initial())
    check_state(chosen.model, setting.scope, state)
    assert len(state) > 5
    for name, value in state.items():
        is_queue = name in chosen.model.queues
        wrong: list[Any] = [[], {}, [[value]]] if not isinstance(value, list) else [None, "x", {}, 3, [*value, [[[]]]]]
        if isinstance(value, list) and value:
            wrong += [[*value, value[-1]], *([] if is_queue and not chosen.model.queues[name].kinds else [value[:-1]])]
        for other in wrong:
            with pytest.raises(ScopeError):
                check_state(chosen.model, setting.scope, {name: other})


def test_a_viewer_s_own_names_are_not_taken() -> None:
    trace = Trace("Pool", "machine", [], initial={"#meta": {"index": 7}, "free": []})
    with pytest.raises(TraceError, match="keeps for itself"):
        to_itf(trace)


def test_a_device_is_not_read_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "larger than 64 MiB" in refusal(capsys, "replay", "/dev/zero")
    assert "longer than 1,048,576 bytes" in refusal(capsys, "workload", "/dev/zero")
    assert "larger than 262,144 bytes" in refusal(capsys, "fuzz", "exec:true", "--known", "/dev/zero")
    assert "larger than 16 MiB" in refusal(capsys, "explore", "planner", "--params", "/dev/zero")


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_whole_findings_are_within_the_limits(path: Path) -> None:
    assert read_trace(path).operations


def test_real_traces_replay(capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted((ROOT / "tests" / "stateful" / "traces").glob("*.jsonl")):
        assert run(capsys, "replay", str(path))[0] == 0
    assert replay(Model.of(Pool), Trace("Pool", "machine", [], POOL_SIZES, POOL_PARAMS)).problem is None


# ------------------------------------------------------------------------------------------------ other files


LINE = {"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]}


def workload_line(**more: Any) -> str:
    return json.dumps(LINE | more) + "\n"


WORKLOADS: Mapping[str, tuple[str, str]] = {
    "a prompt": (workload_line(input_length=2**31), "expected `int` <="),
    "an answer": (workload_line(output_length=2**63 - 1), "expected `int` <="),
    "a moment": (workload_line(timestamp=2**63 - 1), "expected `int` <="),
    "a hash": (workload_line(hash_ids=[10**50]), "a number of more than 40 digits"),
    "infinity": (workload_line().replace("[0]", "[Infinity]"), "invalid character"),
    "depth": (workload_line().replace("[0]", '[0],"x":' + "[" * 200_000), "nested more than 64 deep"),
    "a line": (workload_line(hash_ids=list(range(300_000))), "longer than 1,048,576 bytes"),
    "no text": (workload_line() + '{"\udcff":1}\n', "line 2"),
    "a pickle": ("\x80\x04cos\nsystem\n", "line 1"),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_hostile_workload_is_refused_with_a_sentence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, said = WORKLOADS[name]
    path = tmp_path / "workload.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert said in refusal(capsys, "workload", str(path), "--capacity", "10")


def test_the_name_of_a_workload_is_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("\x1b[2J[red]$\\x$.jsonl", "a\nkvproof: b", "\udcff"):
        path = write_lines(tmp_path / "small.jsonl", make_lines(1)).rename(tmp_path / name)
        status, out, _ = run(capsys, "workload", str(path), "--capacity", "30", "--json", str(tmp_path / "out.json"))
        assert status == 0
        assert out.startswith(name.encode("unicode_escape").decode().replace("\\\\x$", "\\x$"))
        assert json.loads((tmp_path / "out.json").read_text())["file"]


KNOWN = '[[known]]\nengine = "x"\nrule = "y"\nreason = "{}"\nlink = "z"\nreleases = "{}"\n'
KNOWN_LISTS: Mapping[str, tuple[str, str]] = {
    "depth": ("known = " + "[" * 5000, "nested too deeply"),
    "depth of tables": ("known = " + "{a=" * 5000, "nested too deeply"),
    "a number": ("known = " + "9" * 9000, "is no list of known findings"),
    "a key": ("a." * 60_000 + "a = 1", "more than 64 dots"),
    "a quoted key": ('"\u2028".' * 10_000 + "a = 1", "more than 64 dots"),
    "a range": (KNOWN.format("r", ">=1," + "<2," * 500), "is no range"),
    "escapes": (KNOWN.format("r", "\\u001b[2J\\u202e"), "releases '\\x1b[2J\\u202e' is no range"),
    "no text": ("\udcff", "cannot be read"),
    "infinity": ("known = inf", "is no list of known findings"),
    "a date": ("known = 1979-05-27", "is no list of known findings"),
    "size": ("#" * 300_000, "larger than 262,144 bytes"),
}


@pytest.mark.parametrize("name", KNOWN_LISTS)
def test_a_hostile_list_is_refused_with_a_sentence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, said = KNOWN_LISTS[name]
    path = tmp_path / "known.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert said in refusal(capsys, "fuzz", "exec:true", "--known", str(path))


PARAMS: Mapping[str, tuple[str, str]] = {
    "depth": ('{"a":' + "[" * 5000 + "]" * 5000 + "}", "nested more than 64 deep"),
    "a number": ('{"a":' + "9" * 9000 + "}", "a number of more than 40 digits"),
    "values": ('{"a":[' + "0," * 4_000_001 + "0]}", "more than 4,000,000 values"),
    "infinity": ('{"a":Infinity}', "invalid character"),
    "a list": ("[]", "expected `object`"),
    "no text": ('{"\udcff":1}', "can't decode"),
    "code": ('{"hash_block":"__import__(\'os\')"}', "an exact number is text"),
}


@pytest.mark.parametrize("name", PARAMS)
def test_hostile_parameters_are_refused_with_a_sentence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, said = PARAMS[name]
    path = tmp_path / "params.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert said in refusal(capsys, "explore", "planner", "--params", str(path))


# ------------------------------------------------------------------------------------------------ what is shown


STYLES = re.compile("\x1b\\[[0-9;]*m")


def on_terminal(made: Any) -> str:
    """What a terminal gets of something that is printed."""
    console = output._HarmlessConsole(file=io.StringIO(), force_terminal=True, markup=False, emoji=False, width=400)
    console.print(made)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_whatever_is_printed_is_harmless_on_a_terminal() -> None:
    table = Table(ESCAPES, title=ESCAPES)
    table.add_row(ESCAPES)
    table.add_row(Text(ESCAPES, "red"))
    for made in (ESCAPES, Text(ESCAPES), Text.from_ansi("\x1b[31mred"), table, output.alarm(ESCAPES)):
        shown = STYLES.sub("", on_terminal(made))  # Our own colours.
        assert [c for c in shown if not c.isprintable() and c != "\n"] == []
    shown = STYLES.sub("", on_terminal(ESCAPES))
    assert "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\u202e\\u2066[red]x[/blue][/] :bomb:\\u200b" in shown
    assert "\x1b[31m" in on_terminal(output.alarm("P6"))


class Anything(Report, frozen=True, kw_only=True, tag="anything"):
    said: Any


def test_a_report_on_a_terminal_is_harmless_and_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    said = {ESCAPES: [ESCAPES, "\U000e0001\ud7ff", 1.5, None]}
    output.Output("-").report(Anything(said=said))
    shown = capsys.readouterr().out
    assert [c for c in shown if not c.isprintable() and c != "\n"] == []
    assert shown.count("\n") == 1
    assert json.loads(shown)["said"] == said
    output.Output("-").report(Anything(said={"path": "\udcff", "number": float("inf")}))
    assert json.loads(capsys.readouterr().out)["said"] == {"path": "\\udcff", "number": None}


def test_a_fault_of_the_kit_is_shown_harmlessly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise ValueError(ESCAPES)

    monkeypatch.setattr(cli, "app", fail)
    assert cli.run([]) == 2
    assert [c for c in capsys.readouterr().err if not c.isprintable() and c not in "\n\t"] == []
