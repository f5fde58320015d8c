"""States of a machine for people: before and after a step side by side, in the machine's words, changes marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..machine.concrete import Concrete, IllFormed, State
from ..machine.model import Model
from ..machine.scope import ScopeError
from ..machine.terms import Bool, Index, Int, Sort, Term

__all__ = ["names_of", "side_by_side", "step_of"]

Names = Mapping[str, Sequence[str]]
"""For each map and queue, what stands before its keys and entries: b, r; nothing before numbers."""

_EMPTY = ("none", "0", "False", "[]")


def names_of(model: Model) -> dict[str, tuple[str, ...]]:
    """For each map and queue, how its keys and entries are shown."""
    names = {n: tuple(_short(k) for k in (*m.kinds, m.to)) for n, m in model.maps.items()}
    return names | {n: tuple(_short(k) for k in (*q.kinds, q.of)) for n, q in model.queues.items()}


def side_by_side(
    names: Names,
    params: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None,
    titles: tuple[str, str] = ("before", "after"),
) -> list[str]:
    """What differs from an empty state, in two states side by side, changes marked; of one state where it stands alone.

    Args:
        names: how keys and entries are shown.
        params: the machine's parameters.
        before: a state as `Concrete.describe` gives it.
        after: the state after it; None where there is none.
        titles: what stands above them.
    """
    rows = [("", titles[0] if after is not None else "state", titles[1] if after is not None else "")]
    for name, value in params.items():
        rows += [(place, shown, "") for place, shown in _cells(names, name, value)]
    for name, value in before.items():
        new = dict(_cells(names, name, value if after is None else after.get(name, value), full=True))
        for place, shown in _cells(names, name, value, full=True):
            if shown != new[place]:
                rows.append((place, shown, f"{new[place]}   <- changed"))
            elif shown not in _EMPTY:
                rows.append((place, shown, new[place] if after is not None else ""))
    width, middle = max(len(r[0]) for r in rows), max(len(r[1]) for r in rows)
    return [f"  {a:<{width}}  {b:<{middle}}  {c}".rstrip() for a, b, c in rows]


def step_of(spec: Concrete, state: State, calls: Sequence[tuple[str, tuple[int, ...]]]) -> list[str]:
    """The machine's states around the last of these calls, side by side; what is not possible changes nothing."""
    before, after = spec.describe(state), None
    for action, args in calls:
        before, after = spec.describe(state), None
        try:
            if spec.is_enabled(state, action, args):
                state, _ = spec.after(state, action, args)
                after = spec.describe(state)
        except (IllFormed, ScopeError):
            break  # It has no end.
    return side_by_side(names_of(spec.model), _shown_params(spec), before, after)


def _shown_params(spec: Concrete) -> dict[str, Any]:
    return {name: value for name, value in spec.scope.params.items() if name in spec.model.maps}


def _cells(names: Names, name: str, value: Any, *, full: bool = False) -> Iterator[tuple[str, str]]:
    """The entries of a map or queue, named as the machine names them."""
    kinds = names.get(name, ())
    depth, kind = len(kinds) - 1, kinds[-1] if kinds else ""
    shapes = [value]
    places: list[tuple[int, ...]] = [()]
    for _ in range(depth):
        places = [(*p, i) for p, v in zip(places, shapes, strict=True) for i in range(len(v))]
        shapes = [x for v in shapes for x in v]
    for place, cell in zip(places, shapes, strict=True):
        shown = _named(kind, cell)
        if full or shown not in _EMPTY:
            keys = ", ".join(_named(k, i) for k, i in zip(kinds, place, strict=False))
            yield (f"{name}[{keys}]" if keys else name), shown


def _named(kind: str, value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_named(kind, v) for v in value) + "]"
    if value is None:
        return "none"
    if isinstance(value, bool) or not kind or kind in ("Int", "Bool"):
        return str(value)
    return f"{kind}{value}"


def _short(kind: type[Term]) -> str:
    """How elements of a sort are shown: b0, r1; indices and numbers plainly."""
    if kind is Bool or issubclass(kind, Index | Int):
        return ""
    return kind.__name__[0].lower() if issubclass(kind, Sort) else ""
