"""Scripts that show a finding in the engine's own environment, without kvproof.

A script plays the operations of the case on the release's own classes. It holds what of the worker's files that needs:
they know how releases differ. Each operation is printed with what the engine did, and at the end whether the engine
did what was found; so nothing of the judges is needed.
"""

import ast
import pprint
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ..engines.catalog import ENGINES, driven
from ..engines.session import WORKER
from ..judge.record import Case, Step
from ..judge.violation import Verdict
from ..untrusted.text import visible
from .findings import tell

__all__ = ["can_be", "script", "why_not"]

_CACHE = "CACHE"
"""Stands for a folder that the script makes."""


def can_be(engine: str, level: str) -> bool:
    """Whether there is a script for findings of a level."""
    return engine in driven() and level in _makers(engine)


def why_not(level: str) -> str:
    """Why there is none, in a sentence without its end."""
    return f"level {level} is driven by a program of its own, which shows the fault when it is given the trace"


def script(title: str, target: str, release: tuple[str, str], case: Case, found: Verdict) -> str:
    """The text of a script for a case of a level that can have one, and for what a release (engine, version) did."""
    engine, version = release
    module, kind = _makers(engine)[case.level]
    steps = found.answer.steps
    last = steps[found.at] if found.at < len(steps) else None
    values = {
        "ENGINE": f"{ENGINES[engine].DISTRIBUTIONS[0]}=={version}",
        "ENVIRONMENT": dict(ENGINES[engine].environment(Path(_CACHE))),
        "LEVEL": (module, kind),
        "SETUP": case.setup,
        "OPERATIONS": [(op, args) for op, args in case.ops[: found.at + 1]],
        "WRONG": found.violation.text,
        "SEEN": None if last is None else _seen(last),
    }
    story = [f"# {line}".rstrip() for text in tell(target, case, found) for line in _lines(text)]
    return "\n".join([
        f"# {_lines(title)[0]}",
        "#",
        *story,
        "#",
        "# Run it with an interpreter that has the engine, and nothing else: its status is 1 where the fault shows.",
        "",
        *(f"{name} = {pprint.pformat(value, width=110, sort_dicts=False)}" for name, value in values.items()),
        _PLAYER,
        *_sources(engine, module),
        "if __name__ == '__main__':",
        "    sys.exit(main())",
        "",
    ])  # fmt: skip


def _lines(text: str) -> list[str]:
    return visible(text).splitlines() or [""]


def _seen(step: Step) -> dict[str, Any]:
    """What a step did, as the script compares it."""
    if step.error is not None:
        return {"error": step.error.type}
    told: dict[str, Any] = msgspec.to_builtins({"result": step.result, "effects": step.effects, "state": step.state})
    return told


@cache
def _makers(engine: str) -> Mapping[str, tuple[str, str]]:
    """By level, the module and the name of what makes it: as the adapter's text has it, which is not run here."""
    text = ENGINES[engine].WORKER.read_text(encoding="utf-8")
    for statement in ast.parse(text).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="LEVELS")], value=ast.Dict(keys=keys, values=values)):
                return dict(_made(keys, values))
    return {}


def _made(keys: list[ast.expr | None], values: list[ast.expr]) -> Iterator[tuple[str, tuple[str, str]]]:
    for key, value in zip(keys, values, strict=True):
        match key, value:
            case ast.Constant(value=str(level)), ast.Call(
                args=[ast.Constant(value=str(module)), ast.Constant(value=str(kind))]
            ):
                yield level, (module, kind)


def _sources(engine: str, module: str) -> Iterator[str]:
    """The files that a module needs, as assignments."""
    folders = (WORKER, ENGINES[engine].WORKER.parent)
    there = {path.stem: path for folder in folders for path in sorted(folder.glob("*.py"))}
    wanted, waiting = dict[str, str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in wanted and name in there:
            wanted[name] = there[name].read_text(encoding="utf-8")
            waiting += _named(wanted[name])
    for name, text in sorted(wanted.items()):
        quoted = f"r'''{text}'''" if "'''" not in text else repr(text)
        yield f"FILES[{name!r}] = {quoted}\n"


def _named(text: str) -> Iterator[str]:
    """The modules that a file may import, be it by a text that names one."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(name)) | ast.Constant(value=str(name)):
                yield name


_PLAYER = '''
import importlib
import importlib.abc
import importlib.util
import json
import os
import sys
import tempfile

FILES = {}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the files below, which drive the engine."""

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in FILES else None

    def exec_module(self, module):
        exec(compile(FILES[module.__name__], module.__name__ + ".py", "exec"), module.__dict__)


def bare(value):
    """Plain data without what is left out or empty."""
    if isinstance(value, dict):
        kept = {str(key): bare(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, 0, [], {}, False)}
    if not isinstance(value, (list, tuple)):
        return value
    items = [bare(item) for item in value]
    while items and items[-1] in (None, []):  # of a record that is written as a list the end may be left out
        items.pop()
    return items


def main():
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items() if value != "CACHE"):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})
    for name in [name for name, value in ENVIRONMENT.items() if value == "CACHE"]:
        os.environ[name] = tempfile.mkdtemp()
    sys.meta_path.insert(0, Finder())
    module, kind = LEVEL
    system = getattr(importlib.import_module(module), kind)(SETUP)
    seen = None
    if SEEN is None:
        print("The engine was not seen to return from the last of these: it crashed there, or computed for ever.")
    for number, (op, args) in enumerate(OPERATIONS, 1):
        print(f"{number}. {op} {json.dumps(args)}", flush=True)
        try:
            result = system.do(op, args)
            seen = {"result": None if result is system.SKIPPED else result, "state": system.state()}
            seen["effects"] = system.take_effects()
        except Exception as error:
            print(f"   {type(error).__name__}: {error}")
            seen = {"error": type(error).__name__}
            break
        print(f"   {json.dumps(seen)}")
    shows = json.dumps(bare(seen), sort_keys=True) == json.dumps(bare(SEEN), sort_keys=True)
    print()
    print(f"The fault shows: {WRONG}" if shows else f"The engine did not do what {ENGINE} was seen to do.")
    return 1 if shows else 0

'''
