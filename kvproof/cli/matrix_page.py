"""The rules and the machines as one table: what docs/matrix.md is."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..checkers.mutation.record import NOTICED, Judged
from ..harness.levels import LEVELS
from ..harness.machines import BESIDE, KNOWN, find_machine
from ..machine import Model
from ..machine.classbody import own_text
from ..spec.rules import RULES, Rule
from .keepers import codes_in

__all__ = ["matrix"]

_COLUMNS = (
    "rule",
    "machine",
    "proved: never",
    "proved: does its job",
    "proved: some day",
    "explored",
    "compared with the implementation",
    "mutants",
)

_SAID = (
    "For each rule the machines that write it down. A machine that extends another is named for what it adds, and "
    "keeps what that one keeps.",
    "*Never*: invariants, of every state. *Does its job*: properties of what a step must have done. *Some day*: "
    "promises, under an assumption of who is served (docs/trust.md). All of them are proved for any size by `kvproof "
    "prove`, and judged in every state, step and cycle of a small scope by `kvproof explore`. *Explored*: how many "
    "situations of the rule must be reached there, so that it is about something; *yes* where none is named. "
    "*Compared*: the levels at which the reference implementation is driven beside the machine, or beside one that "
    "extends it. *Mutants*: of {mutants} mistakes in the machines' texts that were drawn and that some proof noticed, "
    "those whose first broken property is one of the rule's.",
    "`kvproof rules --matrix --record benchmarks/data/mutants.jsonl` writes this page; the record is what `kvproof "
    "mutate --record` keeps.",
)


@dataclass
class _Cell:
    """What one machine has of one rule."""

    never: int = 0
    job: int = 0
    live: int = 0
    reached: int = 0
    mutants: int = 0
    levels: list[str] = field(default_factory=list)


def matrix(rules: Sequence[Rule], judged: Iterable[Judged]) -> str:
    """The page of these rules; ``judged`` are mutants whose fate is known."""
    noticed = [one for one in judged if one.fate in NOTICED]
    cells = {rule.code: dict[str, _Cell]() for rule in RULES.values()}
    names: dict[str, str] = {}
    for name in (*KNOWN, *BESIDE):
        model = Model.of(find_machine(name))
        names[model.name] = name
        for code, kind in _said_by(model):
            cell = cells[code].setdefault(name, _Cell(levels=_levels(model)))
            setattr(cell, kind, getattr(cell, kind) + 1)
    for (machine, code), number in Counter(_keys(noticed)).items():
        for name in _saying(cells[code], names.get(machine, "")):
            cells[code][name].mutants += number
    lines = ["# Rules and machines", ""]
    for paragraph in _SAID:
        lines += [*textwrap.wrap(paragraph.format(mutants=f"{len(noticed):,}"), 100, break_on_hyphens=False), ""]
    lines += [f"| {' | '.join(_COLUMNS)} |", f"| {' | '.join('---' for _ in _COLUMNS)} |"]
    for rule in rules:
        lines += _rows(rule.code, cells[rule.code])
    return "\n".join(lines) + "\n"


def _said_by(model: Model) -> Iterator[tuple[str, str]]:
    """The rules of what a machine says itself, each with the column in which it counts."""
    own = {said for part in own_text(model.machine) for said in vars(part)}
    for prop in model.properties.values():
        kind = {"invariant": "never", "step": "job", "sometimes": "reached"}.get(prop.kind)
        if kind is not None and prop.name in own:
            yield from ((code, kind) for code in codes_in(prop.rule))
    for promised in model.promises.values():
        if promised.name in own:
            yield from ((code, "live") for code in codes_in(promised.rule))


def _levels(model: Model) -> list[str]:
    return [label for label, level in LEVELS.items() if issubclass(level.model.machine, model.machine)]


def _keys(noticed: Iterable[Judged]) -> Iterator[tuple[str, str]]:
    """For each mutant its machine, and the rules of what it breaks first."""
    models = {m.name: m for name in (*KNOWN, *BESIDE) for m in [Model.of(find_machine(name))]}
    for one in noticed:
        broken = one.by.split(": ")[-1].removeprefix("before ").split(" (")[0].split(" ")[0]
        model = models.get(one.machine)
        if model is not None and broken in model.properties:
            yield from ((one.machine, code) for code in codes_in(model.properties[broken].rule))


def _saying(row: dict[str, _Cell], name: str) -> list[str]:
    """The machine itself, if it says something of the rule; or the nearest that it extends, which does."""
    if not name:
        return []
    order = find_machine(name).__mro__
    return sorted((n for n in row if find_machine(n) in order), key=lambda n: order.index(find_machine(n)))[:1]


def _rows(code: str, row: dict[str, _Cell]) -> Iterator[str]:
    if not row:
        yield f"| {code} | *no machine: see [rules.md](rules.md)* | | | | | | |"
    for name, cell in row.items():
        explored = f"yes, {cell.reached} reached" if cell.reached else "yes"
        numbers = [str(n) if n else "" for n in (cell.never, cell.job, cell.live)]
        yield f"| {' | '.join((code, name, *numbers, explored, ', '.join(cell.levels), str(cell.mutants or '')))} |"
