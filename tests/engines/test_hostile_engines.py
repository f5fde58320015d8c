"""What an engine's process says is data too: whatever it is, the kit answers with a finding or a sentence."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvproof.engines.session import Limits, Session, WorkerError
from kvproof.judge.ghost import Ghost
from kvproof.judge.judging import judge
from kvproof.judge.record import Answer, Case, Group, Step, Tier, World
from kvproof.judge.shapes import problem_of_world
from kvproof.untrusted import limits

from ..app.hostile import ESCAPES, guarded, refusal, run
from ..marks import slow_but
from .installed import session

HELLO: dict[str, Any] = {
    "protocol": 1,
    "engine": "e",
    "version": "1",
    "levels": ["requests"],
    "capabilities": {"requests": {"operations": ["start", "finish"]}},
}
WORLD = {"groups": [{"kind": "full", "block": 2}], "tiers": {"device": {"blocks": 3}}, "hash_block": 2}


def hello(capabilities: Mapping[str, Any] = {}, **more: Any) -> bytes:
    """A hello with these fields."""
    can = HELLO["capabilities"]["requests"] | dict(capabilities)
    return json.dumps({"hello": HELLO | {"capabilities": {"requests": can}} | more}).encode()


def driver(folder: Path, first: bytes, answer: str = "b''") -> str:
    """A driver that says this first, and this expression to every message ``m``."""
    script = folder / "driver.py"
    script.write_text(
        "import json, sys\n"
        f"out = sys.stdout.buffer\nout.write({first!r} + b'\\n')\nout.flush()\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        f"    out.write({answer} + b'\\n')\n"
        "    out.flush()\n"
    )
    return f"exec:{shlex.join([sys.executable, str(script)])}"


HELLOS: Mapping[str, tuple[bytes, str]] = {
    "depth": (b'{"hello":{"x":' + b"[" * 100_000, "nested more than 64 deep"),
    "no text": (hello().replace(b'"e"', b'"\xff"'), "can't decode"),
    "half a character": (hello().replace(b'"e"', b'"\\ud800"'), "JSON is malformed"),
    "a long name": (hello(engine="e" * 1000), "names of 200 letters"),
    "levels": (hello(levels=["x"] * 2000), "up to 1,000 names"),
    "operations": (hello({"operations": ["x"] * 2000}), "up to 1,000 names"),
    "a large block": (hello({"block_tokens": [10**9]}), "up to 131,072"),
    "a large growth": (hello({"tokens_per_grow": 10**12}), "up to 131,072"),
    "no block": (hello({"block_tokens": []}), "no block_tokens, or sizes below 1"),
    "a block of nothing": (hello({"block_tokens": [0]}), "no block_tokens, or sizes below 1"),
    "a growth of nothing": (hello({"tokens_per_grow": -1}), "no block_tokens, or sizes below 1"),
    "a number": (hello(protocol=10**50), "more than 40 digits"),
    "escapes": (ESCAPES.encode(), "is no hello"),
}


@pytest.mark.parametrize("name", HELLOS)
def test_a_hostile_hello_is_refused_with_a_sentence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, said = HELLOS[name]
    assert said in refusal(capsys, "fuzz", driver(tmp_path, first), "--examples", "3", "--time", "5")


def told(step: bytes, **world: Any) -> str:
    """An expression for an answer with one step, with these fields."""
    said = {"world": WORLD | world, "steps": ["STEP"]}
    text = json.dumps(said).encode().replace(b'"STEP"', b'{"op":"start","args":{},%s}' % step)
    return f"b'{{\"id\":' + str(m['id']).encode() + b',' + {text[1:]!r}"


ERROR = {"type": "E", "message": ESCAPES, "where": [[ESCAPES, 1, "f"]]}
ANSWERS: Mapping[str, str] = {
    "depth": "b'{\"id\":%d,\"steps\":' % m['id'] + b'[' * 100_000",
    "depth of a result": told(b'"result":' + b"[" * 500 + b"]" * 500),
    "no text": told(b'"result":"\xff"'),
    "a huge table": told(b'"effects":[["request","r0",{"tokens":[1]}],["table","r0",0,1000000000000,[1]]]'),
    "a huge block": told(b'"result":1', groups=[{"kind": "full", "block": 10**12}]),
    "escapes": told(b'"error":' + json.dumps(ERROR).encode()),
}


@pytest.mark.parametrize("name", slow_but(ANSWERS, ANSWERS.keys() - {"depth", "depth of a result", "no text"}))
def test_a_hostile_answer_is_a_finding(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = driver(tmp_path, hello(engine=ESCAPES, version=ESCAPES), ANSWERS[name])
    more = ("--examples", "3", "--time", "5", "--traces", str(tmp_path / "found"))
    status, out, _ = run(capsys, "fuzz", target, *more)
    assert status == 1
    assert "\nkvproof: all holds" not in out
    traces = [path.name for path in (tmp_path / "found").iterdir()]
    assert traces
    assert all(name.isascii() and name.startswith("exec-") for name in traces)
    if name == "escapes":
        assert (
            "E: \\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\u202e\\u2066[red]x[/blue][/] :bomb:\\u200b\\nkvproof: all" in out
        )
    assert run(capsys, "protocol-check", target)[0] == 1


def test_steps_without_end_are_no_answer(tmp_path: Path) -> None:
    """A worker that streams for ever after a failure took the kit with it."""
    step = b'{"step":{"op":"x","args":{}}}\n'
    answer = f"(b'x' if not m.get('stream') else {step!r} * 50_000)"
    command = shlex.split(driver(tmp_path, hello(), answer).removeprefix("exec:"))
    with guarded(), Session(command, limits=Limits(answer=5)) as worker:
        done = worker.run(Case("requests", {}, [("start", {})] * 3))
        assert done.failure is not None
        assert len(done.answer.steps) == 3
        heard = worker.exchange({"stream": True})
        assert heard.failure is not None


NO_OPTIONS = {"groups": [{"kind": "full", "block": 4}], "spare": 4, "max_len": 16, "budget": 16}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model": "/etc/passwd"}, "no option model"),
        ({"connector": {"kind": "this", "blocks": 4}}, "no kind of connector: this"),
        ({"connector": {"kind": "offloading", "blocks": 4, "policy": "Evil"}}, "cache policy"),
        ({"mamba": "../x"}, "mode of mamba layers"),
    ],
)
def test_a_setup_names_no_module_and_no_path(more: dict[str, Any], said: str) -> None:
    """vLLM imports connectors and cache policies from any module that its configuration names: a trace must not."""
    names = ("kv_connector_module_path", "cache_policy_module_path", "spec_module_path")
    if "connector" in more:
        more = {"connector": more["connector"] | dict.fromkeys(names, "this")}
    answer = session("0.33.0").run(Case("scheduler", NO_OPTIONS | more, [])).answer
    assert said in str(answer.refused).replace("Unknown ", "")


def test_an_interpreter_that_is_none_is_a_sentence() -> None:
    with Session(["/dev/null"]) as worker, pytest.raises(WorkerError, match="cannot be run"):
        _ = worker.hello


def test_worlds_are_bounded() -> None:
    group, tier = Group("full", 2), Tier(3)
    assert problem_of_world(World([group], {"device": tier}, 2)) is None
    for groups, tiers, hash_block in (
        ([Group("full", 10**9)], {"device": tier}, 2),
        ([Group("window", 2, 10**9)], {"device": tier}, 2),
        ([group] * 2000, {"device": tier}, 2),
        ([group], {"device": Tier(10**12)}, 2),
        ([group], {"device": Tier(3, split=10**9)}, 2),
        ([group], {"device": tier}, 10**9),
    ):
        world = World(groups, tiers, hash_block)
        assert problem_of_world(world) is not None
        found = judge(Answer(1, world, [Step("start", {})]))
        assert found is not None
        assert found[1][0].oracle == "garbage"


def test_a_table_is_never_made_longer_than_tables_are() -> None:
    ghost = Ghost(World([Group("full", 2)], {"device": Tier(3)}, 2))
    ghost.apply(["request", "r0", {"tokens": [1]}])
    with pytest.raises(ValueError, match="of a block table"):
        ghost.apply(["table", "r0", 0, limits.TABLE + 1, [1]])
