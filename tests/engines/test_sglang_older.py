"""SGLang before 0.5.19: what was reported of these releases is seen in them, and not where it is mended."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvproof.checkers.trace import read_trace
from kvproof.cli import main as cli
from kvproof.engines.sglang.levels import tree
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.record import Answer, Case

from .installed import engine, session
from .test_sglang import PROCESS, SETUP, Op, add, effects

FINDINGS = Path(__file__).parents[2] / "docs/findings"

EVENTS = {**SETUP, "events": True}
SESSIONS = {**EVENTS, "tree": "plain", "sessions": True, "policy": "priority"}
WINDOW = {"page": 1, "pages": 8, "window": 1, "window_pages": 8, "interval": 1}

SALTS: list[Op] = [add([1, 5]), add([1, 5], salt=1), PROCESS]
TALK: list[Op] = [add([1, 5], session=1), PROCESS, ("finish", {"i": 0}), ("close", {"session": 1})]
PREFIX: list[Op] = [add([1, 6]), add([0, 1], keep=1), PROCESS]

LOCKED_WINDOW = {"page": 1, "pages": 17, "window": 1, "window_pages": 9, "interval": 1}
NEXT: Op = ("run", {"i": 0})
LOCKED: list[Op] = [add([0, 5], [0, 4]), NEXT, NEXT, NEXT, add([1, 7], [1, 2], keep=1, most=5), NEXT]
"""A request decodes and holds a tombstone, which the second one has computed too when it checks in."""


def told(release: str, setup: dict[str, Any], *ops: Op) -> Answer:
    answer = session(release, "sglang").run(Case("tree", setup, list(ops))).answer
    assert answer.refused is None, answer.refused
    return answer


@pytest.mark.parametrize(
    ("release", "setup", "ops", "rules"),
    [
        *((release, EVENTS, SALTS, {"P13"}) for release in ("0.5.15", "0.5.16", "0.5.17")),
        ("0.5.18", EVENTS, SALTS, None),
        *((release, SESSIONS, TALK, {"P12", "R8"}) for release in ("0.5.15", "0.5.16")),
        ("0.5.18", WINDOW, PREFIX, {"R2", "P6"}),
        ("0.5.19", WINDOW, PREFIX, None),
        ("0.5.17", WINDOW, PREFIX, None),
        *((release, LOCKED_WINDOW, LOCKED, {"H8"}) for release in ("0.5.13", "0.5.14")),
        ("0.5.15", LOCKED_WINDOW, LOCKED, None),
    ],
)
def test_a_reported_fault_is_found_where_it_is_and_nowhere_else(
    release: str, setup: dict[str, Any], ops: list[Op], rules: set[str] | None
) -> None:
    found, _ = verdict(session(release, "sglang"), close(Case("tree", setup, ops)))
    assert (found is None) == (rules is None), found
    assert found is None or found.violation.rule in (rules or ()), found.violation


@pytest.mark.parametrize("release", ["0.5.15", "0.5.16"])
def test_a_session_that_ends_gives_up_what_it_alone_has_and_its_name_begins_anew(release: str) -> None:
    quiet = {**SESSIONS, "events": False}
    ops = [add([1, 5], session=1), add([1, 5], session=2), PROCESS, ("finish", {"i": 0}), ("finish", {"i": 0})]
    close_both: list[Op] = [("close", {"session": 1}), ("close", {"session": 2}), ("close", {"session": 1})]
    answer = told(release, quiet, *ops, *close_both)
    # The two have both their nodes in common, which go with the last.
    assert [step.result for step in answer.steps if step.op == "close"] == [0, 2, 0]
    state = answer.steps[-1].state
    assert state is not None
    assert state.pools["device"].num_free == 8


@pytest.mark.parametrize("release", ["0.5.15", "0.5.17"])
def test_what_a_server_joins_is_one_namespace(release: str) -> None:
    """Before 0.5.18 a salt is written in front of the label: who has it as the one or the other shares."""
    answer = told(release, SETUP, add([1, 5], salt=1), PROCESS, ("finish", {"i": 0}), add([1, 5], label=1))
    assert [request["salt"] for _, request in effects(answer, "request")] == ["a", "a"]
    assert effects(answer, "lookup")[1] == ["r1", 4, 0, 4]


@pytest.mark.parametrize(
    "setup", [{"core": "rust"}, {"tree": "plain", **WINDOW}, {"tree": "windows"}, {"tree": "of another kind"}]
)
def test_a_tree_that_there_is_not_is_refused(setup: dict[str, Any]) -> None:
    answer = session("0.5.18", "sglang").run(Case("tree", {**SETUP, **setup}, [])).answer
    assert answer.refused is not None
    assert "there is no" in answer.refused or "has no tree core" in answer.refused


def test_a_tree_that_tells_no_events_is_not_asked_for_them() -> None:
    answer = session("0.5.12", "sglang").run(Case("tree", EVENTS, [])).answer
    assert answer.refused == "the unified tree of this release tells no events"


def test_sessions_are_refused_where_there_are_none() -> None:
    answer = session("0.5.14", "sglang").run(Case("tree", SESSIONS, [])).answer
    assert answer.refused == "this release has no sessions"


def test_sessions_are_refused_where_a_server_would_refuse_them() -> None:
    answer = session("0.5.16", "sglang").run(Case("tree", {**SESSIONS, "policy": "lru"}, [])).answer
    assert answer.refused == "a server with sessions wants the policy priority"


def test_each_release_is_hunted_with_the_trees_that_it_serves_with() -> None:
    of = {
        release: set(tree.profiles(release))
        for release in ("0.5.12", "0.5.13", "0.5.14", "0.5.15", "0.5.16", "0.5.18", "0.5.19")
    }
    assert of["0.5.13"] - of["0.5.12"] == {"events"}
    assert of["0.5.15"] - of["0.5.14"] == {"sessions"}
    assert {"plain tree", "plain windows", "sessions"} < of["0.5.15"]
    assert of["0.5.15"] - of["0.5.16"] == {"plain windows"}
    assert of["0.5.16"] - of["0.5.18"] == {"sessions"}
    assert of["0.5.18"] - of["0.5.19"] == {"plain tree"}
    assert of["0.5.19"] - of["0.5.18"] == {"rust", "rust windows", "rust states"}


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("0.5.12", "locked-tombstone-recovered-windows"),
        ("0.5.19", "prefix-lost-at-check-in"),
    ],
)
def test_a_script_shows_a_finding_where_a_kernel_must_be_interpreted(release: str, name: str, tmp_path: Path) -> None:
    """Scripts are begun by no adapter: what a release needs before it is imported stands in what they import."""
    build, script = engine(release, "sglang"), tmp_path / "script.py"
    trace = FINDINGS / f"{name}.jsonl"
    assert cli.run(["replay", str(trace), "--target", build.label, "--script", str(script)]) == 1
    packages = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, build.path))}
    shown = subprocess.run([build.python, script], env=packages, capture_output=True, text=True, check=False)
    assert shown.returncode == 1, shown.stderr
    assert f"The fault shows: {read_trace(trace).dialect['violation']['text']}" in shown.stdout
