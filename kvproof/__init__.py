"""kvproof: a verification kit for the KV-cache block managers of LLM inference engines.

What stands in ``__all__`` is the public door: it changes only with a version that says so in CHANGELOG.md. Everything
else may change at any time. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checkers.explore import ExploreReport, explore
    from .checkers.fuzz import FuzzReport, fuzz
    from .checkers.prove import ProveReport, prove
    from .checkers.replay import Replay, replay
    from .checkers.target import Answer, Instance, Target
    from .checkers.trace import Trace, read_trace, write_trace
    from .checkers.walk import WalkReport, lockstep
    from .machine import (
        Bool,
        Count,
        Event,
        Index,
        Int,
        Machine,
        MachineError,
        Map,
        Model,
        Param,
        Part,
        Promise,
        Queue,
        Real,
        Scalar,
        Sort,
        Sum,
        Tally,
        action,
        all_of,
        any_of,
        assume,
        can,
        corollary,
        eventually,
        exists,
        forall,
        iff,
        implies,
        initially,
        invariant,
        ite,
        none,
        optional,
        otherwise,
        promise,
        sometimes,
        step,
        steps,
        such_as,
        when,
    )
    from .machine.scope import Scope, ScopeError
    from .workload.replay import replay_at
    from .workload.requests import read_workload
    from .workload.target import RefimplTarget

__all__ = [
    "Answer",
    "Bool",
    "Count",
    "Event",
    "ExploreReport",
    "FuzzReport",
    "Index",
    "Instance",
    "Int",
    "Machine",
    "MachineError",
    "Map",
    "Model",
    "Param",
    "Part",
    "Promise",
    "ProveReport",
    "Queue",
    "Real",
    "RefimplTarget",
    "Replay",
    "Scalar",
    "Scope",
    "ScopeError",
    "Sort",
    "Sum",
    "Tally",
    "Target",
    "Trace",
    "WalkReport",
    "action",
    "all_of",
    "any_of",
    "assume",
    "can",
    "corollary",
    "eventually",
    "exists",
    "explore",
    "forall",
    "fuzz",
    "iff",
    "implies",
    "initially",
    "invariant",
    "ite",
    "lockstep",
    "none",
    "optional",
    "otherwise",
    "promise",
    "prove",
    "read_trace",
    "read_workload",
    "replay",
    "replay_at",
    "sometimes",
    "step",
    "steps",
    "such_as",
    "when",
    "write_trace",
]

_ROOMS = {
    "checkers.explore": ("ExploreReport", "explore"),
    "checkers.fuzz": ("FuzzReport", "fuzz"),
    "checkers.walk": ("WalkReport", "lockstep"),
    "checkers.prove": ("ProveReport", "prove"),
    "checkers.replay": ("Replay", "replay"),
    "checkers.target": ("Answer", "Instance", "Target"),
    "checkers.trace": ("Trace", "read_trace", "write_trace"),
    "machine.scope": ("Scope", "ScopeError"),
    "workload.replay": ("replay_at",),
    "workload.requests": ("read_workload",),
    "workload.target": ("RefimplTarget",),
}
"""Where a name is made; what is named nowhere here is a word of the language."""

_HOME = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    """A name of the door, from the room where it is made."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f".{_HOME.get(name, 'machine')}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """What the door has."""
    return sorted({*globals(), *__all__})
