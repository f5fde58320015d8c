"""The rules as a page: what docs/rules.md is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from ..spec.faults import FAULTS, Fault
from ..spec.faults import __doc__ as FAULTY
from ..spec.rules import ORIGINS, RULES, SUBJECTS, Origin, Rule
from ..spec.rules import __doc__ as INTRODUCTION
from .keepers import Keepers, keepers

__all__ = ["page"]

_COLUMNS = "| rule | proved | promised | reached | assumed | fuzzed beside it | oracles |"


def page(rules: Sequence[Rule]) -> str:
    """The page of these rules."""
    kept = keepers()
    lines = ["# The rules of KV caching", ""]
    for paragraph in str(INTRODUCTION).strip().split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), 100), ""]
    lines += [
        "`kvproof rules CODE` shows one with the names of all properties.",
        "`kvproof rules --markdown` writes this page.",
        "",
    ]
    for subject, title in SUBJECTS.items():
        mine = [rule for rule in rules if rule.subject == subject]
        if mine:
            lines += [f"## {title}", ""]
            if subject in ORIGINS:
                lines += [f"From {_linked(ORIGINS[subject])}.", ""]
            for rule in mine:
                lines += [*_item(rule), ""]
    lines += ["## What keeps them", "", *_table(rules, kept), "", "## Known faults", ""]
    lines += [*textwrap.wrap(" ".join(str(FAULTY).split()), 100), ""]
    for fault in FAULTS.values():
        lines += _fault(fault)
    return "\n".join(lines) + "\n"


def _linked(origin: Origin) -> str:
    return f"[{origin.name}]({origin.link})" if origin.link else origin.name


def _item(rule: Rule) -> list[str]:
    own = "" if rule.origin == ORIGINS.get(rule.subject) else f" *({rule.origin.name})*"
    more = f" {rule.more}" if rule.more else ""
    return textwrap.wrap(f"- **{rule.code}** {rule.sentence}{more}{own}", 100, subsequent_indent="  ")


def _fault(fault: Fault) -> list[str]:
    where = f"`{fault.where}`" if fault.releases else f"{fault.where}"
    link = f" ([report]({fault.link}))" if fault.link else ""
    releases = f", {fault.releases}" if fault.releases else ""
    text = f"- **{fault.code}** {fault.sentence} Breaks {', '.join(fault.rules)}. *{where}{releases}*{link}"
    return textwrap.wrap(text, 100, subsequent_indent="  ", break_on_hyphens=False)


def _table(rules: Sequence[Rule], kept: Mapping[str, Keepers]) -> Iterator[str]:
    yield _COLUMNS
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for rule in rules:
        row = kept[rule.code]
        counted = map(_counted, (row.proved, row.promised, row.reached, row.assumed))
        judges = [*row.oracles, *(["kvproof events"] if row.streams else [])]
        cells = (*counted, ", ".join(row.levels), ", ".join(judges))
        yield f"| {rule.code} | " + " | ".join(cells) + " |"
    yield ""
    yield f"Of {len(RULES)} rules. A machine that extends another is named for what it adds; a number is that of its"
    yield "properties: those that are proved, those that say what must happen some day, those that say what"
    yield "must be reachable, those that are taken for granted. [matrix.md](matrix.md) says more of them. What"
    yield "the tests keep besides is found by searching them for the code."


def _counted(rows: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{machine} {len(names)}" for machine, names in rows.items())
