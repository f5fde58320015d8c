"""Every reachable state of a small scope with all its steps, one at a time, from the concrete interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..machine import Machine, Model
from ..machine.concrete import Concrete, Outcome, State
from ..machine.scope import Scope

__all__ = ["Edge", "Visit", "transitions"]

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Edge:
    """A step that is possible in a state: the action, what it reports, and the key of the state after it."""

    action: str
    args: tuple[int, ...]
    outcome: Outcome
    successor: Key


@dataclass(frozen=True)
class Visit:
    """A distinct reachable state, the steps that are possible in it, and a shortest way to it."""

    key: Key
    state: dict[str, Any]
    edges: list[Edge]
    path: list[tuple[str, tuple[int, ...]]]


def transitions(machine: type[Machine] | Model, scope: Scope, *, max_states: int | None = None) -> Iterator[Visit]:
    """Every distinct reachable state in breadth-first order, with all its transitions, from the concrete interpreter.

    For driving an implementation through every transition of a small scope: replay ``path`` (or restore ``state``),
    do the edge's action, and compare with its outcome and with the state of key ``successor``.
    """
    model = machine if isinstance(machine, Model) else Model.of(machine)
    concrete = Concrete(model, scope)
    start = concrete.initial()
    origin: dict[Key, tuple[Key, str, tuple[int, ...]] | None] = {concrete.key(start): None}
    level = [start]
    visited = 0
    while level:
        following: list[State] = []
        for state in level:
            key, edges = concrete.key(state), []
            for action in model.actions:
                for args in concrete.enabled(state, action):
                    after, outcome = concrete.after(state, action, args)
                    successor = concrete.key(after)
                    edges.append(Edge(action, args, outcome, successor))
                    if successor not in origin:
                        origin[successor] = (key, action, args)
                        following.append(after)
            yield Visit(key, concrete.describe(state), edges, _way(origin, key))
            visited += 1
            if max_states is not None and visited >= max_states:
                return
        level = following


def _way(origin: dict[Key, tuple[Key, str, tuple[int, ...]] | None], key: Key) -> list[tuple[str, tuple[int, ...]]]:
    path: list[tuple[str, tuple[int, ...]]] = []
    while (step := origin[key]) is not None:
        key = step[0]
        path.append(step[1:])
    return path[::-1]
