"""Which rules are judged at which level of each engine? Runs cases and watches which checks were reached.

    python -m benchmarks.judged benchmarks/data/judged.json --only sglang==0.5.23 ...   # the engines that are installed
    python -m benchmarks.judged benchmarks/data/judged.json --table                     # the table of docs/engines.md

A rule counts as judged at a level where a check that can raise it was reached: the condition before a violation of
that rule, in the text of the judge. So the table says what the judge has looked at, not what a worker promises.
"""

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import kvproof.judge
from kvproof.engines.catalog import ENGINES
from kvproof.engines.session import Limits, Session
from kvproof.engines.store import resolve
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.record import Case

__all__ = ["checks", "main", "reached", "table"]

JUDGE = Path(kvproof.judge.__file__).parent
EXAMPLES = 12
"""Cases of each family."""

Judged = dict[str, dict[str, list[str]]]
"""Per engine and level, the rules that were judged."""


def main() -> None:
    """Watch what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="targets, as ENGINE==VERSION")
    parser.add_argument("--table", action="store_true", help="run nothing")
    asked = parser.parse_args()
    path: Path = asked.data
    found: Judged = json.loads(path.read_text()) if path.exists() else {}
    for target in [] if asked.table else asked.only:
        found[target.partition("==")[0]] = _of_engine(target)
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print("\n".join(table(found)))


def table(found: Mapping[str, Mapping[str, list[str]]]) -> Iterator[str]:
    """Yield the lines of the table: an engine's level each."""
    yield "| engine | level | rules judged |"
    yield "|---|---|---|"
    for engine in sorted(found):
        for level in ENGINES[engine].LEVELS:
            if level in found[engine]:
                yield f"| {engine} | `{level}` | {', '.join(sorted(found[engine][level], key=_order))} |"


def _order(rule: str) -> tuple[str, int]:
    return rule[0], int(rule[1:])


def _of_engine(target: str) -> dict[str, list[str]]:
    build = resolve(target)
    rules: dict[str, list[str]] = {}
    for level in ENGINES[build.name].LEVELS:
        cases = ENGINES[build.name].cases(level)
        if cases is None:
            continue
        session = Session.of(build, Limits(start=600, operation=20, answer=120), [level])
        with session, reached() as rules_reached:
            for drawn in cases.profiles(build.version).values():
                for case in _drawn(drawn):
                    verdict(session, close(case), cases.more_oracles)
        rules[level] = sorted(rules_reached, key=_order)
        print(target, level, rules[level], flush=True)
    return rules


def _drawn(strategy: st.SearchStrategy[Case]) -> list[Case]:
    found: list[Case] = []

    @seed(0)
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def draw(case: Case) -> None:
        found.append(case)

    draw()
    return found


@contextmanager
def reached() -> Iterator[set[str]]:
    """Watch the judge; the set has the rules whose checks were reached, when it is left."""
    lines: dict[str, set[int]] = defaultdict(set)
    rules: set[str] = set()

    def local(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            lines[frame.f_code.co_filename].add(frame.f_lineno)
        return local

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(str(JUDGE)) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield rules
    finally:
        sys.settrace(before)
        for file, line, rule in checks():
            if line in lines[file]:
                rules.add(rule)


def checks(folder: Path = JUDGE) -> Iterator[tuple[str, int, str]]:
    """Yield each check of the judge: its file, the line of its condition, and the rule that it can raise."""
    for path in sorted(folder.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                yield from ((str(path), line, rule) for line, rule in _in(function.body, function.body[0].lineno))


def _in(body: list[ast.stmt], before: int) -> Iterator[tuple[int, str]]:
    """The rules that statements can raise, and the line that is reached where they are looked at."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        inner = [part for name in ("body", "orelse", "finalbody") for part in getattr(statement, name, [])]
        if isinstance(statement, ast.If):
            yield from _in(inner, statement.lineno)
        elif inner:
            yield from _in(inner, before)
        else:
            yield from ((before, rule) for rule in _raised(statement))


def _raised(statement: ast.stmt) -> Iterator[str]:
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and call.args:
            first = call.args[0]
            if isinstance(first, ast.Constant) and re.fullmatch(r"[A-Z]\d+", str(first.value)):
                yield str(first.value)


if __name__ == "__main__":
    main()
