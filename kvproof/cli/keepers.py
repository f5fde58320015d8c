"""What keeps each rule: which machines prove and explore it, at which levels it is fuzzed, who judges engines by it."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType

from .. import events
from ..harness.levels import LEVELS, machine_at
from ..harness.machines import BESIDE, KNOWN, find_machine
from ..judge import oracles
from ..machine import Model
from ..machine.classbody import own_text
from ..spec.rules import RULES

__all__ = ["Keepers", "codes_in", "keepers"]

_CODE = re.compile(r"\b[A-Z]\d{1,2}\b")


@dataclass
class Keepers:
    """What keeps one rule."""

    proved: dict[str, list[str]] = field(default_factory=dict)
    """By machine: the invariants and properties of steps that write it down."""
    reached: dict[str, list[str]] = field(default_factory=dict)
    """By machine: what must be reachable, so that the rule is about something."""
    assumed: dict[str, list[str]] = field(default_factory=dict)
    """By machine: what it takes for granted of its parameters, which others have to see to."""
    promised: dict[str, list[str]] = field(default_factory=dict)
    """By machine: what it promises to happen some day."""
    levels: list[str] = field(default_factory=list)
    """The levels at which the reference implementation is fuzzed beside such a machine."""
    oracles: list[str] = field(default_factory=list)
    """The oracles that judge engines by it."""
    streams: list[str] = field(default_factory=list)
    """The modules that judge streams of events by it."""

    def row(self, kind: str) -> dict[str, list[str]]:
        """Where properties of a kind stand."""
        return {"sometimes": self.reached, "assume": self.assumed, "initially": self.assumed}.get(kind, self.proved)

    def __bool__(self) -> bool:
        """Whether anything does."""
        return bool(self.proved or self.oracles or self.streams)


def codes_in(text: str) -> list[str]:
    """The codes of rules that a text names, in its order."""
    return list(dict.fromkeys(_CODE.findall(text)))


def keepers() -> Mapping[str, Keepers]:
    """For every rule what keeps it. A machine that extends another is named only for what it adds."""
    found = {code: Keepers() for code in RULES}
    for name in (*KNOWN, *BESIDE):
        model = Model.of(find_machine(name))
        own = {said for part in own_text(model.machine) for said in vars(part)}
        for prop in model.properties.values():
            if prop.name in own:
                for code in codes_in(prop.rule):
                    found[code].row(prop.kind).setdefault(name, []).append(prop.name)
        for promised in model.promises.values():
            if promised.name in vars(model.machine):
                for code in codes_in(promised.rule):
                    found[code].promised.setdefault(name, []).append(promised.name)
    for label in LEVELS:
        for code in _said_by(Model.of(machine_at(label))):
            found[code].levels.append(label)
    for name, codes in _judged_by(oracles):
        for code in codes:
            found[code].oracles.append(name)
    for name, codes in _judged_by(events):
        for code in codes:
            found[code].streams.append(name)
    return found


def _judged_by(room: ModuleType) -> Iterator[tuple[str, list[str]]]:
    """The modules of a room, with the rules that they say were broken."""
    for module in pkgutil.iter_modules(room.__path__):
        text = inspect.getsource(import_module(f"{room.__name__}.{module.name}"))
        yield module.name, list(dict.fromkeys(re.findall(r'"([A-Z]\d{1,2})"', text)))


def _said_by(model: Model) -> Iterable[str]:
    """The rules that a machine writes down, those of the machine that it extends among them."""
    said = [code for prop in model.properties.values() for code in codes_in(prop.rule)]
    return dict.fromkeys(said)
