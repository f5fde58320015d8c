"""Whether what a file says of a machine may be run: sizes, parameters, states and arguments, before any is made.

A file that others made decides how large a machine's state is and where its actions look. What is beyond the limits
would take all memory or all time; what is no element of its sort would be looked up at a wrong place.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..machine import Bool, Index, Int, Model, Sort
from ..machine.scope import Scope, ScopeError
from ..machine.terms import Term, name_of
from ..untrusted import limits
from ..untrusted.reading import small_fraction
from ..untrusted.text import one_line

__all__ = ["check_args", "check_counts", "check_scope", "check_sizes", "check_state", "check_values"]

_NUMBERS = ("Int", "Real")
"""The sizes that are no numbers of elements: how far numbers go."""


def check_sizes(sizes: Mapping[str, Any]) -> None:
    """Make sure that no sort is larger than an interpreter should be asked for.

    Raises:
        ScopeError: one is.
    """
    for name, size in sizes.items():
        most = limits.NUMBER if name in _NUMBERS else limits.ELEMENTS
        if isinstance(size, int) and size > most:
            raise ScopeError(f"the size of {name} is {size:,}, and a file may ask for {most:,} at most")


def check_values(values: Any) -> None:
    """Make sure that exact numbers in parameters or states, which are text, are short ones without exponents.

    Raises:
        ScopeError: one is not.
    """
    for text in _texts(values):
        if not small_fraction(text):
            shown = one_line(text, 40)
            raise ScopeError(f'an exact number is text such as "1/3", of {limits.DIGITS} digits at most, not "{shown}"')


def check_scope(model: Model, scope: Scope) -> None:
    """Make sure that a state has room.

    Raises:
        ScopeError: it has too many entries.
    """
    keyed = [m.kinds for m in model.maps.values()] + [q.kinds for q in model.queues.values()]
    keyed += [tuple(map(type, c.keys)) for c in model.counts.values()]
    entries = sum(_volume(scope, kinds) for kinds in keyed)
    if entries > limits.ENTRIES:
        sizes = ", ".join(f"{name}={size}" for name, size in scope.sizes.items())
        raise ScopeError(f"with {sizes} a state has {entries:,} entries, and a file may ask for {limits.ENTRIES:,}")


def check_counts(scope: Scope) -> None:
    """Make sure that an implementation can be made with the parameters: they may be capacities, lengths, widths.

    Raises:
        ScopeError: one is too large.
    """
    for name, mapping in scope.model.params.items():
        for value in scope.flat(name, mapping, scope.params[name]):
            if mapping.to is Int and not -limits.COUNTED <= value <= limits.COUNTED:
                raise ScopeError(f"the parameter {name} is {value}, and a file may ask for {limits.COUNTED:,} at most")


def check_args(model: Model, scope: Scope, action: str, args: tuple[int, ...]) -> None:
    """Make sure that each argument is an element of its sort; numbers may be any.

    Raises:
        ScopeError: one is not.
    """
    for param, value in zip(model.actions[action].params, args, strict=True):
        kind = type(param)
        if issubclass(kind, Sort | Index | Bool) and not 0 <= value < scope.size(kind):
            raise ScopeError(f"{action}: {name_of(param)}={value} is none of the {scope.size(kind)} of {kind.__name__}")


def check_state(model: Model, scope: Scope, described: Mapping[str, Any]) -> None:
    """Make sure that a state fits the machine: its variables, as many entries as there are, elements of their sorts.

    Raises:
        ScopeError: it does not.
    """
    check_values(described)
    for name, value in described.items():
        if name in model.queues:
            queue = model.queues[name]
            for members in _queues(name, value, len(queue.kinds), _volume(scope, queue.kinds)):
                _check_members(name, members, scope.size(queue.of))
        elif name in model.maps and name not in model.params:
            scope.flat(name, model.maps[name], value)
        else:
            raise ScopeError(f"{model.name} has no variable {name}")


def _queues(name: str, value: Any, depth: int, volume: int) -> list[Any]:
    """The queues of a variable, one after the other."""
    queues = value if depth else [value]
    if not isinstance(queues, list) or len(queues) != volume:
        raise ScopeError(f"{name} is a list of {volume} queues")
    return queues


def _check_members(name: str, members: Any, size: int) -> None:
    if not isinstance(members, list) or not all(type(m) is int and 0 <= m < size for m in members):
        raise ScopeError(f"the queue {name} holds something that is no element")
    if len(set(members)) != len(members):
        raise ScopeError(f"the queue {name} holds an element twice")


def _texts(values: Any) -> Iterator[str]:
    """All text in plain data, names left out."""
    left = [values]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)


def _volume(scope: Scope, kinds: tuple[type[Term], ...]) -> int:
    return math.prod(scope.size(kind) for kind in kinds)
