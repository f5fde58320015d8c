"""Promises in a small scope: no reachable cycle has fair steps, and the goal nowhere.

A run breaks a promise in one of two ways. It comes to a state in which the goal is not reached and no fair step is
possible: that is an invariant (``NAME_possible``), which the explorer judges as any other. Or it goes round for ever
where the goal is not reached, and takes fair steps on the way. Such a cycle is looked for here, in the graph of all
reachable states, and without the measure by which the promise is proved.

The states from which one can go on for ever so, taking a fair step again and again, are what is left when all others
are taken away, over and over (Emerson and Lei): those from which no fair step can be reached by way of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..machine.batched import Batched, Instance
from .visited import StateSet

__all__ = ["Lasso", "lassos"]

_MOST = 62
"""So many promises, each with one choice of values, are looked at together: one bit each."""


@dataclass(frozen=True)
class Lasso:
    """A promise that is broken: states that follow each other, and from the last of which the first is reached again.

    The first step is a fair one. ``states`` are numbers of states, the first the one that it is taken from.
    """

    promise: str
    values: tuple[int, ...]
    states: tuple[int, ...]


@dataclass
class _Edges:
    """Steps between states: from where, and to where; and for which promises the goal is reached in neither, so that
    the step goes on, and it is one that is taken; and for which of these it is a fair one."""

    source: torch.Tensor
    target: torch.Tensor
    taken: torch.Tensor
    fair: torch.Tensor

    def where(self, kept: torch.Tensor) -> _Edges:
        return _Edges(self.source[kept], self.target[kept], self.taken[kept], self.fair[kept])


def lassos(batched: Batched, seen: StateSet, rows: int) -> Iterator[Lasso]:
    """One for each promise that is broken; ``seen`` holds all reachable states, ``rows`` of which are expanded at once.

    Of a promise about several elements the first values are told for which it is broken.
    """
    broken: set[str] = set()
    for first in range(0, len(batched.promises), _MOST):
        some = range(first, min(first + _MOST, len(batched.promises)))
        is_open, edges = _graph(batched, seen, rows, some)
        for number in some:
            name, values = batched.promises[number]
            if name not in broken:
                bit = 1 << (number - first)
                found = _lasso(is_open & bit != 0, edges, bit)
                if found is not None:
                    broken.add(name)
                    yield Lasso(name, values, found)


def _graph(batched: Batched, seen: StateSet, rows: int, some: range) -> tuple[torch.Tensor, _Edges]:
    """For each state the promises whose goal is not reached there, as bits; and the steps between such states."""
    shifts = torch.arange(len(some), device=batched.device)[:, None]

    def bits(flags: torch.Tensor) -> torch.Tensor:
        return (flags[some.start : some.stop].long() << shifts).sum(0)

    is_open = torch.cat(
        [bits(batched.open(seen.states(a, min(a + rows, seen.count)))) for a in range(0, seen.count, rows)]
    )
    empty = torch.empty(0, dtype=torch.int32, device=batched.device)
    parts = [_Edges(empty, empty, empty.long(), empty.long())]
    for begin in range(0, seen.count, rows):
        waiting = is_open[begin : begin + rows].nonzero().squeeze(1)
        words = seen.states(begin, min(begin + rows, seen.count)).index_select(1, waiting)
        for moves in batched.moves(words) if len(waiting) else ():
            source, target = (begin + waiting[moves.parents]).int(), seen.numbers(moves.words)
            before = words.index_select(1, moves.parents)
            taken = is_open[source] & is_open[target] & bits(batched.allows(before, moves.instance))
            fair = taken & bits(batched.serves(before, moves.instance))
            parts.append(_Edges(source, target, taken, fair).where(taken != 0))
    return is_open, _Edges(*(torch.cat([getattr(p, f) for p in parts]) for f in _Edges.__match_args__))


def _lasso(alive: torch.Tensor, edges: _Edges, bit: int) -> tuple[int, ...] | None:
    """A cycle through a fair step among states where the goal is not reached, if there is one."""
    edges = edges.where(edges.taken & bit != 0)
    while True:
        reach = _reaching(edges, bit, alive)
        kept = reach[edges.source] & reach[edges.target]
        if bool(kept.all()) and torch.equal(reach, alive):
            break
        alive, edges = reach, edges.where(kept)
    return _cycle(edges, bit) if len(edges.source) else None


def _reaching(edges: _Edges, bit: int, alive: torch.Tensor) -> torch.Tensor:
    """The states from which a fair step can be reached."""
    reach = torch.zeros_like(alive)
    reach[edges.source[edges.fair & bit != 0]] = True
    source, target = edges.source, edges.target
    while True:
        open_ = ~reach[source]
        source, target = source[open_], target[open_]
        found = source[reach[target]]
        if not len(found):
            return reach
        reach[found] = True


def _cycle(edges: _Edges, bit: int) -> tuple[int, ...]:
    """Where one can go on for ever: a way from fair step to fair step, until one comes round."""
    fair = edges.where(edges.fair & bit != 0)
    number = torch.zeros(int(edges.source.max()) + 1, dtype=torch.bool, device=edges.source.device)
    number[fair.source] = True
    passed: list[tuple[int, int]] = []
    at = int(edges.source.min())  # States are numbered as they were found: the nearest to the first one.
    while True:
        way = _way(edges, at, number)
        begin = way[-1]
        if any(begin == source for source, _ in passed):
            break
        at = int(fair.target[fair.source == begin][0])
        passed.append((begin, at))
    begin, after = next(step for step in passed if step[0] == begin)
    back = torch.zeros_like(number)
    back[begin] = True
    return (begin, *_way(edges, after, back)[:-1])


def _way(edges: _Edges, start: int, goal: torch.Tensor) -> list[int]:
    """A shortest way from a state to one of those, both included."""
    if bool(goal[start]):
        return [start]
    level = torch.zeros(max(len(goal), int(edges.target.max()) + 1), dtype=torch.bool, device=goal.device)
    level[start] = True
    fronts: list[_Edges] = []
    while True:
        leaving = level[edges.source]
        front, edges = edges.where(leaving), edges.where(~leaving)
        front = front.where(~level[front.target])
        fronts.append(front)
        level[front.target] = True
        ends = front.target[goal[front.target]]
        if len(ends):
            return _back(fronts, start, int(ends[0]))


def _back(fronts: Sequence[_Edges], start: int, end: int) -> list[int]:
    """The way by which a state was found, level by level."""
    way = [end]
    for front in reversed(fronts):
        way.append(int(front.source[front.target == way[-1]][0]))
    assert way[-1] == start
    return way[::-1]


def step_between(batched: Batched, words: torch.Tensor, after: torch.Tensor, *, promise: int, fair: bool) -> Instance:
    """A step from one state to the other, one that is taken, or fair, as the promise of this number has it."""
    for moves in batched.moves(words):
        if not bool((moves.words == after).all()) or not bool(batched.allows(words, moves.instance)[promise]):
            continue
        if not fair or bool(batched.serves(words, moves.instance)[promise]):
            return moves.instance
    raise LookupError("two states of a cycle that no step joins")
