"""The schema as a page: what docs/json.md is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from msgspec import NODEFAULT
from msgspec import inspect as types

from . import SCHEMA, Report
from .catalog import INTRODUCTION, REPORTS, kinds_in, sentences

__all__ = ["keys_of", "page"]

_HEAD = ("| key | value | meaning |", "| --- | --- | --- |")


def page() -> str:
    """The page of the whole schema."""
    lines = [f"# What --json writes, version {SCHEMA}", ""]
    for paragraph in INTRODUCTION.replace("``", "`").strip().split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), 100), ""]
    lines += [
        "`kvproof schema` writes this as JSON Schema, `kvproof schema --markdown` as this page.",
        "",
        "## Every report",
        "",
        "One JSON object on one line. It begins with these keys, and goes on with those of one of the",
        "objects below.",
        "",
        *_HEAD,
        '| `command` | text | The command that wrote it, as `"engines list"`. |',
        *_rows(Report),
        "",
    ]
    told: set[type] = set()
    for report in REPORTS:
        lines += [f"## {report.__name__}", "", *_table(report)]
        for kind in kinds_in(report):
            if kind not in told and not issubclass(kind, Report):
                lines += [f"### {kind.__name__}", "", *_table(kind)]
                told.add(kind)
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(kind: type) -> Iterator[str]:
    """What a type is, and a row for each key."""
    text = " ".join(str(kind.__doc__).replace("``", "`").split())
    yield from (*textwrap.wrap(text, 100, break_on_hyphens=False, break_long_words=False), "")
    yield from (*_HEAD, *_rows(kind), "")


def _rows(kind: type) -> Iterator[str]:
    said = sentences(kind)
    for key, value in keys_of(kind).items():
        yield f"| `{key}` | {value} | {said[key].replace('``', '`')} |"


def keys_of(kind: type) -> dict[str, str]:
    """The keys of a type, each with its type in words. Those that every report has are none of a report's own."""
    info = types.type_info(kind)
    assert isinstance(info, types.StructType | types.DataclassType)
    head = () if kind is Report or not issubclass(kind, Report) else Report.__struct_fields__
    return {f.encode_name: _words(f.type) + _absence(f) for f in info.fields if f.name not in head}


def _absence(field: types.Field) -> str:
    """What is said of a key that has no meaning in some reports. The inspector shows UNSET as no default at all."""
    has_default = field.default is not NODEFAULT or field.default_factory is not NODEFAULT
    return "" if field.required or has_default else ", or left out"


def _words(kind: types.Type) -> str:
    """A type in words."""
    match kind:
        case types.StructType(cls=cls) | types.DataclassType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})"
        case types.ListType(item_type=item):
            return f"list of {_words(item)}"
        case types.DictType(value_type=item):
            return f"by name: {_words(item)}"
        case types.TupleType(item_types=items):
            return f"[{', '.join(map(_words, items))}]"
        case types.LiteralType(values=values):
            return " or ".join(f'`"{value}"`' for value in values)
        case types.UnionType(types=kinds):
            return _either(kinds)
    return _PLAIN[type(kind)]


_PLAIN = {
    types.IntType: "whole number",
    types.FloatType: "number",
    types.StrType: "text",
    types.BoolType: "true or false",
    types.NoneType: "null",
}


def _either(kinds: Sequence[types.Type]) -> str:
    return " or ".join(dict.fromkeys(map(_words, kinds)))
