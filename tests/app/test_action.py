"""action.yml: it names nothing that is not there, and its steps of shell do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .test_pytest_plugin import suite
from .test_sarif import check

ROOT = Path(__file__).parents[2]
INPUT = re.compile(r"\binputs\.([\w-]+)")


# ------------------------------------------------------------------------------------------------ as much YAML as it is


def read(text: str) -> Any:
    """A document of mappings, lists, one-line scalars and ``|`` blocks; whatever else YAML has is refused."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    node, rest = node_of(lines, 0)
    assert not any(line.strip() for line in rest), rest
    return node


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def node_of(lines: list[str], depth: int) -> tuple[Any, list[str]]:
    """The node that stands at this depth, and the lines behind it."""
    lines = dropped(lines)
    return list_of(lines, depth) if lines[0].lstrip().startswith("- ") else mapping_of(lines, depth)


def dropped(lines: list[str]) -> list[str]:
    while lines and not lines[0].strip():
        lines = lines[1:]
    return lines


def list_of(lines: list[str], depth: int) -> tuple[list[Any], list[str]]:
    items = []
    while (lines := dropped(lines)) and indent(lines[0]) == depth and lines[0].lstrip().startswith("- "):
        item, lines = mapping_of([lines[0].replace("- ", "  ", 1), *lines[1:]], depth + 2)
        items.append(item)
    return items, lines


def mapping_of(lines: list[str], depth: int) -> tuple[dict[str, Any], list[str]]:
    found: dict[str, Any] = {}
    while (lines := dropped(lines)) and indent(lines[0]) == depth:
        match = re.fullmatch(r" *([\w-]+):(?: (.+))?", lines[0])
        assert match is not None, lines[0]
        name, said = match.groups()
        assert name not in found, name
        lines = lines[1:]
        if said is None:
            found[name], lines = node_of(lines, indent(dropped(lines)[0]))
        elif said == "|":
            found[name], lines = block_of(lines, depth)
        else:
            found[name] = scalar(said)
    return found, lines


def block_of(lines: list[str], depth: int) -> tuple[str, list[str]]:
    end = next((n for n, line in enumerate(lines) if line.strip() and indent(line) <= depth), len(lines))
    by = indent(lines[0])
    return "\n".join(line[by:] for line in lines[:end]).rstrip("\n") + "\n", lines[end:]


def scalar(said: str) -> str:
    """Text; what would be anything else in YAML (a comment, a number, a mapping, an anchor) is refused."""
    if said.startswith('"'):
        assert re.fullmatch(r'"[^"\\]*"', said), said
        return said[1:-1]
    assert not re.search(r": | #|^[\[{&*!>|'%@`]", said), said
    return said


@pytest.mark.parametrize("text", ["a: b: c\n", "a: [1]\n", "a: 'b'\n", "a: b # c\n", "a: b\na: c\n", "a: &x b\n"])
def test_what_the_reader_does_not_know_it_refuses(text: str) -> None:
    with pytest.raises(AssertionError):
        read(text)


# ------------------------------------------------------------------------------------------------ what it names

ACTION = read((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]


def test_every_input_is_used_explained_and_on_the_page_and_no_other_is_named() -> None:
    inputs = ACTION["inputs"]
    assert set(INPUT.findall((ROOT / "action.yml").read_text())) == set(inputs)
    assert all(each["description"] for each in inputs.values())
    assert [name for name, each in inputs.items() if each.get("required") == "true"] == ["target"]
    assert all("default" in each for name, each in inputs.items() if name != "target")
    page = (ROOT / "docs" / "ci.md").read_text()
    assert re.findall(r"^\| `([\w-]+)` \|", page.split("| input |")[1], re.MULTILINE) == [*inputs]
    given = page.split("kvproof@REF")[1].split("```")[0]
    assert set(re.findall(r"^ +([\w-]+): ", given, re.MULTILINE)) <= set(inputs)


def test_no_input_becomes_text_of_a_script() -> None:
    shells = [step for step in STEPS if "run" in step]
    assert len(shells) == 3
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in shells)


def test_what_steps_tell_each_other_is_told() -> None:
    text = (ROOT / "action.yml").read_text()
    (fuzz,) = (step for step in STEPS if step.get("id") == "fuzz")
    told = set(re.findall(r'echo "(\w+)=', fuzz["run"]))
    assert set(re.findall(r"steps\.fuzz\.outputs\.(\w+)", text)) == told == {"status", "written"}


# ------------------------------------------------------------------------------------------------ what it does


def shell(step: Mapping[str, Any], folder: Path, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Run a step as GitHub does: its status, what it told other steps, and what it said.

    `python` is this one, but pip and the installing of engines only say what they were asked.
    """
    python = folder / "bin" / "python"
    python.parent.mkdir(exist_ok=True)
    python.write_text(
        f'#!/bin/sh\ncase "$2 $3" in pip*|"kvproof engines") echo "asked: $*";; *) exec {sys.executable} "$@";; esac\n'
    )
    python.chmod(0o755)
    values = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | inputs

    def value(text: str) -> str:
        text = text.replace("${{ github.action_path }}", str(ROOT))
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: str(values[match[1]]), text)

    output = folder / "output"
    output.write_text("")
    surroundings = {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "GITHUB_OUTPUT": str(output),
        **{name: value(text) for name, text in step["env"].items()},
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    told = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return done.returncode, told, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("number", "inputs", "asked"),
    [
        (0, {}, f"-m pip install --quiet {ROOT}"),
        (0, {"version": "1.2"}, "-m pip install --quiet kvproof==1.2"),
        (1, {"target": "vllm==0.33.0"}, "-m kvproof engines install vllm==0.33.0"),
        (1, {"target": "vllm@python"}, None),
        (1, {"target": "exec:run a==b"}, None),
    ],
)
def test_what_is_installed(number: int, inputs: dict[str, str], asked: str | None, tmp_path: Path) -> None:
    status, _, said = shell(STEPS[number], tmp_path, **inputs)
    assert status == 0
    assert said == ("" if asked is None else f"asked: {asked}\n")


@pytest.mark.slow
def test_what_is_found_fails_the_step_and_is_left_for_those_behind_it(tmp_path: Path) -> None:
    asked = {"target": "python:test_mine.py:Wrong", "time": "2", "options": "--examples 40"}
    status, told, said = shell(STEPS[2], suite(tmp_path), **asked)
    assert (status, told) == (1, {"status": "1", "written": "true"}), said
    found = tmp_path / "kvproof-found"
    log = json.loads((found / "findings.sarif").read_text())
    check(log)
    assert len(log["runs"][0]["results"]) == len([*(found / "traces").glob("*.jsonl")]) >= 1
    assert json.loads((found / "report.json").read_text())["findings"]
    known = '[[known]]\nengine = "Wrong"\nrule = "P14"\nreason = "known"\nlink = "-"\n'
    (tmp_path / "known list.toml").write_text(known)
    status, told, said = shell(STEPS[2], tmp_path, **asked, known="known list.toml")
    assert (status, told) == (0, {"status": "0", "written": "true"}), said


def test_a_mistake_of_usage_leaves_nothing_to_upload(tmp_path: Path) -> None:
    (tmp_path / "kvproof-found").mkdir()
    (tmp_path / "kvproof-found" / "findings.sarif").write_text("of an earlier run")
    status, told, said = shell(STEPS[2], tmp_path, target="$(touch here)", options="--examples 2")
    assert (status, told) == (2, {"status": "2"})
    assert "names no engine" in said
    assert not (tmp_path / "here").exists()
