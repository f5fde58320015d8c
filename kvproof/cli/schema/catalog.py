"""The schema as a whole: every report by its command, what its text says of each key, and the same as JSON Schema."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import inspect as types

from . import SCHEMA, Report, __doc__, campaigns, holdings, machines, runs, streams, workloads

__all__ = ["INTRODUCTION", "REPORTS", "json_schema", "kinds_in", "sentences"]

INTRODUCTION = str(__doc__)
"""What holds of all reports."""

REPORTS: tuple[type[Report], ...] = (
    machines.Prove,
    machines.Explore,
    machines.Mutate,
    machines.Leeway,
    machines.Export,
    machines.ExportObligations,
    runs.Fuzz,
    runs.FuzzEngine,
    campaigns.Hunt,
    runs.Compare,
    runs.Replay,
    runs.ReplayEngine,
    runs.ReplayIncident,
    runs.Bisect,
    runs.CheckChange,
    runs.ProtocolCheck,
    workloads.Workload,
    workloads.WorkloadTiers,
    workloads.Verify,
    streams.EventsCheck,
    streams.EventsDiff,
    holdings.EnginesInstall,
    holdings.EnginesList,
    holdings.EnginesRemove,
    holdings.Rules,
)
"""In their order on the page."""


def kinds_in(kind: type) -> Iterator[type]:
    """The types with keys of their own that stand in a report, each once, itself first."""
    found: dict[type, None] = {}
    waiting: list[types.Type] = [types.type_info(kind)]
    while waiting:
        match waiting.pop(0):
            case types.StructType(cls=cls, fields=fields) | types.DataclassType(cls=cls, fields=fields):
                if cls not in found:
                    found[cls] = None
                    waiting += [field.type for field in fields]
            case types.ListType(item_type=item):
                waiting.append(item)
            case types.DictType(value_type=item):
                waiting.append(item)
            case types.TupleType(item_types=items) | types.UnionType(types=items):
                waiting += items
    yield from found


def sentences(kind: type) -> dict[str, str]:
    """What the text of a type says of each of its keys: the string below it."""
    found: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if not (is_dataclass(cls) or (issubclass(cls, msgspec.Struct) and cls is not msgspec.Struct)):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in pairwise(tree.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = " ".join(said.split())
    return found


def json_schema() -> dict[str, Any]:
    """All reports as one JSON Schema, for programs that check what they read."""
    reports, parts = msgspec.json.schema_components(REPORTS, ref_template="#/$defs/{name}")
    for kind in {part for report in REPORTS for part in kinds_in(report)}:
        properties = parts[kind.__name__]["properties"]
        for key, said in sentences(kind).items():
            properties[key]["description"] = said
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"What kvproof writes with --json, version {SCHEMA}",
        "anyOf": list(reports),
        "$defs": parts,
    }
