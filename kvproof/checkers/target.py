"""What the checkers drive: an implementation, seen through the actions and the state variables of a machine.

A target is an adapter. It turns an action of the machine into calls of the implementation, and the implementation's
own state into the machine's variables. It never computes that state from the calls that were made: a target that did
would prove itself.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from ..machine import Machine, Model
from ..machine.concrete import State
from ..machine.scope import NONE, Scope

__all__ = ["NONE", "UNKNOWN", "Answer", "Args", "Instance", "Setting", "Target", "nested", "observable"]

Args = tuple[int, ...]
"""Arguments of an action: elements by number, integers, truth values."""

Fields = dict[str, list[Any]]
"""State variables: flat lists for maps, a list of elements for a queue, a list of such lists for a keyed queue."""

UNKNOWN = -2
"""Stands, in what a target observes, for something that the machine has no name for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the implementation answered to one action."""

    result: object = None
    """The machine's result of the action; ``None`` where it has none."""
    events: tuple[tuple[Any, ...], ...] = ()
    """The events reported meanwhile, oldest first: the name, then the arguments."""
    refused: str | None = None
    """Why the implementation refused, in its own words; ``None`` when it did not."""


class Setting(Protocol):
    """One instance of a machine's parameters, with what an implementation needs to be made for it."""

    @property
    def scope(self) -> Scope:
        """The instance, for the machine."""

    def worthwhile(self, state: State, action: str, possible: list[Args]) -> list[Args]:
        """Those of the possible arguments that lead somewhere, as real use would choose them; fuzzers prefer these."""

    def describe(self) -> dict[str, Any]:
        """Everything that is needed to make the setting again, as JSON values; ``sizes`` is one of them."""

    @staticmethod
    def load(described: Any, /) -> Any:
        """The opposite of `describe`."""


@dataclass(frozen=True)
class Instance:
    """A setting that is a scope and nothing more. A subclass names its machine; any step is as good as another."""

    machine: ClassVar[type[Machine]]

    scope: Scope

    def worthwhile(self, state: State, action: str, possible: list[Args]) -> list[Args]:  # noqa: ARG002
        """All of the possible arguments."""
        return possible

    def describe(self) -> dict[str, Any]:
        """The sizes and the parameters."""
        return {"sizes": dict(self.scope.sizes), "params": dict(self.scope.params)}

    @classmethod
    def load(cls, described: Mapping[str, Any], /) -> Self:
        """The opposite of `describe`."""
        return cls(Scope(Model.of(cls.machine), dict(described["sizes"]), dict(described["params"])))


class Target(ABC):
    """One run of an implementation, from its initial state on."""

    name: str = "target"
    """What is driven, as reports and traces call it."""

    level: str = "machine"
    """Which of the implementation's calls the actions become."""

    fields: ClassVar[tuple[str, ...]] = ()
    """The machine's variables that the implementation shows, in the order in which differences are reported."""

    kept_for: ClassVar[Mapping[str, str]] = {}
    """Fields of which only some entries are compared: those whose first key stands in a queue of the machine. Of others
    a ghost goes on saying what was, and an implementation has nothing."""

    unjudged: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Per action, the requirements that are the caller's duty: the implementation need not notice that they are broken.
    Each is given by its text in the machine, or by a variable or parameter that it reads. Requirements that read a
    variable outside of ``fields`` are among them anyway."""

    ignored: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Per action, the requirements that the implementation may answer with doing nothing, instead of refusing."""

    weights: ClassVar[Mapping[str, int]] = {}
    """How much more often than others an action is tried at random: those that take many steps to lead anywhere."""

    reports: ClassVar[bool] = True
    """Whether the implementation's events are told. Where they are not, they are not compared."""

    lookups: ClassVar[frozenset[str]] = frozenset()
    """The actions that look something up, and whose result says how much was found: reports count them."""

    essential: ClassVar[frozenset[str]] = frozenset()
    """The actions without which nothing happens: no run is made without them."""

    def __init__(self, setting: Setting) -> None:
        """Be in the machine's initial state for ``setting``."""
        self.setting = setting
        self.scope = setting.scope

    @abstractmethod
    def apply(self, action: str, args: Args) -> Answer:
        """Do an action. What the implementation refuses comes back as an answer, not as an exception."""

    def refuse(self, action: str, args: Args) -> Answer:
        """Try an action that is not possible in the machine. A target may try it differently than a possible one."""
        return self.apply(action, args)

    def strays(self) -> Sequence[str]:
        """Make calls that name what is not there, as no call of the machine can: a block beyond the last, a negative
        count. Return those that were not refused, as a user would write them; by default none is made."""
        return ()

    @abstractmethod
    def flat(self) -> Fields:
        """The implementation's own state, in the machine's terms: every one of ``fields``."""

    def residue(self) -> object:
        """What the implementation remembers beyond ``fields``; compared only with itself, around a refusal."""
        return None

    def observe(self) -> dict[str, Any]:
        """The state as `Concrete.describe` gives it, restricted to ``fields``."""
        return nested(self.scope, self.flat())

    def fork(self) -> Self:
        """A second run in the same state, that goes its own way from here on."""
        return copy.deepcopy(self)

    def close(self) -> None:  # noqa: B027 - most targets hold nothing that needs it
        """The run is over."""

    def spell(self, action: str, args: Args) -> str:
        """The action as the call that a user of the implementation would write."""
        return f"{action}({', '.join(map(str, args))})"

    def preamble(self) -> str:
        """Python text that makes a fresh run of this target, ``target``, from its setting as described, ``setting``."""
        kind, instance = type(self), type(self.setting)
        imports = (f"from {needed.__module__} import {needed.__qualname__}\n" for needed in (instance, kind))
        return f"{''.join(imports)}\ntarget = {kind.__qualname__}({instance.__qualname__}.load(setting))"


def observable(kind: type[Target], scope: Scope, state: State) -> Fields:
    """The machine's side of what is compared with targets of this kind."""
    queues = scope.model.queues
    fields: Fields = {}
    for name in kind.fields:
        value = state.__dict__[name]
        if name in queues and queues[name].kinds:
            fields[name] = [list(q) for q in value]
        elif name in kind.kept_for:
            members = state.__dict__[kind.kept_for[name]]
            size = len(value) // scope.size(scope.model.maps[name].kinds[0])
            fields[name] = [v if at // size in members else NONE for at, v in enumerate(value)]
        else:
            fields[name] = list(value)
    return fields


def nested(scope: Scope, fields: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Variables as plain data: nested lists for maps, lists of elements for queues; None is none."""
    maps = scope.model.maps
    return {name: scope.nested(maps[name], value) if name in maps else value for name, value in fields.items()}
