"""Findings as SARIF 2.1.0, the format in which GitHub and others take what a tool has found in a repository.

Of what the format allows, what GitHub's code scanning reads: rules; results, each with a place and with a fingerprint
that stays from run to run; results that are no news as suppressed ones.
"""

import ast
import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from msgspec import UNSET

from ..checkers.trace import write_atomically
from ..engines.driver.command import EXEC, PYTHON
from ..spec.rules import RULES, Rule
from ..testing.telling import replay_line
from ..untrusted.text import one_line
from ..version import kit_version
from .output import as_json
from .schema import runs as schema
from .written import writing

__all__ = ["Found", "to_sarif", "write_sarif"]

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

DIFFERS: Final = Rule(
    "differs",
    "After every action the target is what the machine beside it is.",
    "The machine's own rules hold; which of them the difference breaks is not told.",
)
"""What a difference from a machine breaks: `schema.Finding.rule` is an action there, and no rule."""

_RULES: Final = [*RULES.values(), DIFFERS]


@dataclass(frozen=True)
class Found:
    """A finding, and the file of its trace."""

    finding: schema.Finding
    trace: Path
    """Where its trace is, or the name that it would have."""
    is_written: bool
    """Whether the trace was written."""


def write_sarif(path: Path, target: str, found: Iterable[Found]) -> None:
    """Write what was found of a target, whole or not at all; that it could not be written is told."""
    with writing(path):
        write_atomically(path, as_json(to_sarif(target, found)))


def to_sarif(target: str, found: Iterable[Found]) -> dict[str, Any]:
    """What was found of a target, as a SARIF log of one run."""
    driver = {"name": "kvproof", "version": kit_version(), "rules": [_descriptor(rule) for rule in _RULES]}
    results = [_result(target, each) for each in found]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _descriptor(rule: Rule) -> dict[str, Any]:
    """A rule. GitHub shows its sentence over each result."""
    whole = f"{rule.sentence} {rule.more}".strip()
    link = {} if rule is DIFFERS or not rule.origin.link else {"helpUri": rule.origin.link}
    shown = "kvproof replay shows it" if rule is DIFFERS else f"kvproof rules {rule.code} says where it comes from"
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.sentence},
        "fullDescription": {"text": whole},
        "help": {"text": f"{whole} ({shown})"},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["kv-cache"], "precision": "very-high"},
        **link,
    }


def _result(target: str, found: Found) -> dict[str, Any]:
    finding = found.finding
    rule = RULES.get(finding.rule, DIFFERS)
    expected = finding.expected or None  # UNSET and None are false
    again = f"; again: {replay_line(target, str(found.trace))}" if found.is_written else ""
    place, line = _place(target, found.trace)
    result: dict[str, Any] = {
        "ruleId": rule.code,
        "ruleIndex": _RULES.index(rule),
        "level": "error" if expected is None else "note",
        "message": {"text": one_line(f"{_what(finding)} ({target}{again})")},
        "locations": [_location(place, line)],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(finding)},
        "properties": {"oracle": finding.oracle, "steps": finding.steps, "target": target},
    }
    if found.is_written:
        text = {"text": "The shortest run that was found to show it, for kvproof replay."}
        result["relatedLocations"] = [{"id": 1, "message": text, **_location(found.trace, 1)}]
    if expected is not None:
        result["suppressions"] = [{"kind": "external", "justification": one_line(str(expected))}]
    return result


def _what(finding: schema.Finding) -> str:
    """What is wrong, in a sentence."""
    if finding.text is not UNSET:
        return f"{finding.rule} {finding.oracle}: {finding.text}"
    return f"{finding.oracle} differs from the machine's after {finding.rule}, in {finding.steps} steps"


def _fingerprint(finding: schema.Finding) -> str:
    """Equal for what a hunt takes for one fault, whatever the run and its seed, and whichever release it is.

    It goes by the one name that GitHub reads.
    """
    key = () if finding.key is UNSET else finding.key
    level = "" if finding.level is UNSET else finding.level
    needs = () if finding.needs is UNSET else finding.needs
    told = "\0".join((level, finding.rule, finding.oracle, *key, *needs))
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:32] + ":1"


def _location(path: Path, line: int) -> dict[str, Any]:
    here = _here(path)
    uri = path.as_uri() if here is None and path.is_absolute() else quote((here or path).as_posix())
    region = {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 2}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _place(target: str, trace: Path) -> tuple[Path, int]:
    """The file of this folder that a target is written in, and a line of it; else that of the trace."""
    if target.startswith(PYTHON):
        module, _, name = target.removeprefix(PYTHON).rpartition(":")
        plain = module.removesuffix(".py") if module.endswith(".py") else module.replace(".", "/")
        files = [path for path in (Path(f"{plain}.py"), Path(plain, "__init__.py")) if _here(path) is not None]
        return (files[0], _line_of(files[0], name)) if files else (trace, 1)
    if target.startswith(EXEC):
        words = shlex.split(target.removeprefix(EXEC))
        return next((Path(word) for word in words if _here(Path(word)) is not None), trace), 1
    return trace, 1


def _here(path: Path) -> Path | None:
    """A file below the current folder, as seen from there: an interpreter that is linked into it is none."""
    whole, folder = path.resolve(), Path.cwd().resolve()
    return whole.relative_to(folder) if whole.is_file() and whole.is_relative_to(folder) else None


def _line_of(path: Path, name: str) -> int:
    """The line in which a class begins, the first where it is not seen. The file is parsed, not run."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return 1
    return next((node.lineno for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name), 1)
