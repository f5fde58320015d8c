"""An incident: what was seen of a pool up to the call or the state that broke a rule, as a trace of the kit.

It holds no token, no text, no hash and no name of a request: blocks are numbers anyway, keys and requests are numbered.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..worker.vllm_reading import told
from .judging import Call, Verdict
from .settings import Settings

__all__ = ["Incident", "filed", "first_line", "sentence_of"]

_OURS = str(Path(__file__).resolve().parent)
_FRAMES = 40
MOST_VALUES: Final = 3_900_000
"""In an incident, so that the kit reads it: somewhat less than the most that it reads of any trace."""


@dataclass(frozen=True)
class Incident:
    """All that is written of one violation."""

    release: str
    settings: Settings
    number: int
    """Which pool of its process it was, counted from 0."""
    steps: int
    pool: Any
    verdict: Verdict
    also: tuple[Verdict, ...]
    """What else is wrong with the state."""
    start: dict[str, Any] | None
    """The pool's state before the first of the calls; None where it is too large to be kept."""
    calls: Sequence[Call]
    state: dict[str, Any] | None
    """The pool's state when the rule was found broken."""
    tables: dict[str, Any]
    holds: list[int]
    exact: bool
    """Whether tables and holds are all holders there are."""
    by_call: bool
    """Whether the last of the calls broke the rule; else the state."""

    def written(self) -> str:
        """Write it into its folder, and return what there is to say of it."""
        lines = self.lines()
        if _values(lines) > MOST_VALUES:
            # Tables of many requests with long prefixes in common: without them the calls can be read at least.
            lines = replace(self, state=None).lines()
        return filed(self.settings, self.verdict, f"block pool {self.number}", str(self.number), lines)

    def lines(self) -> list[dict[str, Any]]:
        """The lines of the trace."""
        grouped, names, null = _numbering(), _naming(), self.pool.null_block.block_id
        first = told(self.start, grouped) if self.start is not None else None
        operations: list[dict[str, Any]] = [{"op": call.op, "args": _arguments(call)} for call in self.calls]
        if self.state is not None:
            last = {
                "pool": told(self.state, grouped),
                "tables": {names(r): [_real(group, null) for group in groups] for r, groups in self.tables.items()},
                "holds": self.holds,
            }
            operations.append({"op": "state", "args": {}, "snapshot": last})
        about = {
            "pool": {
                "number": self.number,
                "kind": type(self.pool).__name__,
                "null": null,
                "caching": bool(self.pool.enable_caching),
                "exact": self.exact,
            }
        }
        header = first_line(
            self.release,
            self.settings,
            self.steps,
            len(self.pool.blocks),
            (self.verdict, *self.also),
            len(self.calls) - 1 if self.by_call else len(operations) - 1,
            about,
        )
        header["initial"] = {"pool": first} if first is not None else None
        return [header, *operations, {"end": True, "operations": len(operations)}]


def first_line(
    release: str,
    settings: Settings,
    steps: int,
    blocks: int,
    verdicts: Sequence[Verdict],
    at: int,
    about: dict[str, Any],
) -> dict[str, Any]:
    """The first line of an incident.

    ``verdicts``: what is wrong, the fault that it is written for first; ``at``: which operation shows that;
    ``about``: whose incident it is.
    """
    verdict, *also = verdicts
    return {
        "format": "kvproof-trace",
        "version": 1,
        "subject": f"vllm=={release}",
        "level": "sanitizer",
        "sizes": {"blocks": blocks},
        "dialect": {
            "sanitizer": 1,
            "violation": {
                "rule": verdict.rule,
                "oracle": verdict.kind,
                "key": [],
                "text": verdict.text,
                "at": at,
                "blocks": list(verdict.blocks),
                "sentence": sentence_of(verdict.rule),
            },
            "also": [{"rule": v.rule, "oracle": v.kind, "text": v.text} for v in also],
            **about,
            "steps": steps,
            "stack": _stack(),
            "versions": {"vllm": release, "python": platform.python_version()},
        },
        "kit": settings.kit,
        "note": f"{verdict.rule} ({verdict.kind}): {verdict.text}",
    }


def filed(settings: Settings, verdict: Verdict, whose: str, suffix: str, lines: Sequence[dict[str, Any]]) -> str:
    """Write an incident, whole or not at all, and return what there is to say of it."""
    what = f"{verdict.rule} is broken in {whose}: {verdict.text}. {sentence_of(verdict.rule)}"
    stem = re.sub(r"[^A-Za-z0-9]+", "-", f"{verdict.rule}-{verdict.kind}").strip("-")
    path = settings.folder / f"{stem}-{os.getpid()}-{suffix}.jsonl"
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
        path = _write(path, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    except OSError as error:
        return f"{what} The incident cannot be written to {settings.folder}: {error.strerror or error}."
    return f"{what} The incident: {path}; see kvproof replay {path}"


def _arguments(call: Call) -> dict[str, Any]:
    """What was seen of a call, without what is as it mostly is."""
    seen = call._asdict()
    del seen["op"]
    return {name: value for name, value in seen.items() if value != Call._field_defaults.get(name, None)}


def sentence_of(rule: str) -> str:
    """The rule in one sentence, as the specification has it; nothing where that is not beside this file."""
    module = sys.modules.get("_kvproof_rules")
    if module is None:
        path = Path(__file__).resolve().parents[3] / "spec" / "rules.py"
        spec = importlib.util.spec_from_file_location("_kvproof_rules", path)
        if spec is None or spec.loader is None or not path.exists():
            return ""
        module = sys.modules["_kvproof_rules"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    found = module.RULES.get(rule)
    return str(found.sentence) if found is not None else ""


def _real(group: Sequence[int], null: int) -> list[int]:
    """A table without null blocks, which stand for what a window has left behind, and are nothing that is held."""
    return [b for b in group if b != null]


def _values(value: Any) -> int:
    """About how many values there are: what the kit counts too, commas and brackets of the trace."""
    if isinstance(value, dict):
        return 1 + sum(map(_values, value.values()))
    if isinstance(value, list | tuple):
        # Most lists are long ones of numbers.
        return 2 + sum(_values(each) if isinstance(each, dict | list | tuple) else 1 for each in value)
    return 1


def _numbering() -> Callable[[Any], tuple[int, int]]:
    """What numbers hash keys in the order in which it meets them."""
    group_of = sys.modules["vllm.v1.core.kv_cache_utils"].get_group_id
    numbers: dict[Any, tuple[int, int]] = {}

    def grouped(key: Any) -> tuple[int, int]:
        return numbers.setdefault(key, (len(numbers), int(group_of(key))))

    return grouped


def _naming() -> Callable[[str], str]:
    numbers: dict[str, str] = {}
    return lambda r: numbers.setdefault(r, f"r{len(numbers)}")


def _stack() -> list[list[Any]]:
    """The engine's calls that led here, outermost first, files by their place in the package."""
    frames = [call for call in traceback.extract_stack() if not call.filename.startswith(_OURS)]
    return [[_short(call.filename), call.lineno or 0, call.name] for call in frames[-_FRAMES:]]


def _short(path: str) -> str:
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        if path.startswith(folder + os.sep):
            return path[len(folder) + 1 :]
    return os.path.basename(path)


def _write(path: Path, text: str) -> Path:
    """Write a new file, whole or not at all, and return its name: this one, or one beside it where it is taken.

    Containers have the same few process numbers again and again, and may share the folder.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # A file system without permissions.
            os.chmod(temporary, 0o644)
        name, number = path, 1
        while not _put(temporary, name):
            number += 1
            name = path.with_name(f"{path.stem}-{number}{path.suffix}")
        return name
    finally:
        Path(temporary).unlink(missing_ok=True)


def _put(temporary: str, name: Path) -> bool:
    """Give a file its name, if no other has it."""
    try:
        os.link(temporary, name)
    except FileExistsError:
        return False
    except OSError:  # A file system without links.
        if name.exists():
            return False
        os.replace(temporary, name)
    return True
