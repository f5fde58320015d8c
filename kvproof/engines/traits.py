"""Traits of cases: the features of a setup and the unusual operations that a fault may need.

A level says which there are and what a case is without each of them. One list serves three ends: a case is made small
by taking traits away, a cause is told by the traits that it needs, and the search leaves alone what is known by drawing
cases without them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ..judge.record import Case
from .cases import Op, Setup

__all__ = ["Trait", "Traits", "argument", "naming", "operation", "option", "with_setup"]

_APART = 10
"""More than the tokens that are drawn: what is added to tokens that no other request shall have."""


@dataclass(frozen=True)
class Trait:
    """Something that a case may have."""

    name: str
    has: Callable[[Case], bool]
    without: Callable[[Case], Iterator[Case]]
    """Cases that are as this one but for the trait, the simplest first; or with one in its place that stands later in
    the list."""
    added: Callable[[Case], Case] | None = None
    """The case with it. Only of circumstances: what brings a cause about in one way or another, and tells none from
    others."""
    like: str = ""
    """The trait that it counts as when causes are told apart: this one itself, where nothing is said."""


@dataclass(frozen=True)
class Traits:
    """The traits of a level, in the order in which they are taken away: the order makes the outcome the same."""

    all: Sequence[Trait]
    legal: Callable[[Case], Case] = lambda case: case
    """The case, changed where a release does not take together what it has."""
    numbers: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Options of a setup that have no name as traits, with their values, the simplest first."""
    drained: Callable[[Case], Sequence[Op]] = lambda _case: ()
    """What a drain does in one round, in single operations; nothing, where it cannot be said so."""
    bare: bool = False
    """Whether most faults need none of these."""

    def of(self, case: Case) -> frozenset[str]:
        """What a case has by which causes are told apart."""
        return frozenset(trait.like or trait.name for trait in self.all if trait.added is None and trait.has(case))

    def circumstances(self, case: Case) -> frozenset[str]:
        """What it has besides."""
        return frozenset(trait.name for trait in self.all if trait.added is not None and trait.has(case))

    def without(self, case: Case, trait: Trait) -> Iterator[Case]:
        """Cases without a trait, the simplest first."""
        yield from map(self.legal, trait.without(case))

    def avoiding(self, case: Case, name: str) -> Case:
        """The case without a trait, in the simplest way."""
        return self.only(case, self.of(case) - {name})

    def only(self, case: Case, names: Collection[str]) -> Case:
        """The case without all traits but these and circumstances, as far as one can take them away one by one.

        Where there are several ways, it is the one that leaves most of these.
        """
        for trait in self.all:
            if trait.added is None and (trait.like or trait.name) not in names and trait.has(case):
                ways = self.without(case, trait)
                case = max(ways, key=lambda way: len(self.of(way) & set(names)), default=case)
        return case

    def simpler(self, case: Case) -> Iterator[Case]:
        """Cases with a simpler number in their setup."""
        for name, values in self.numbers.items():
            now = case.setup.get(name)
            for value in values[: values.index(now)] if now in values else ():
                yield self.legal(with_setup(case, {**case.setup, name: value}))


def with_setup(case: Case, setup: Setup) -> Case:
    """The case with another setup."""
    return msgspec.structs.replace(case, setup=setup)


def option(
    name: str,
    key: str,
    plain: Any = None,
    has: Callable[[Any], bool] | None = None,
    added: Any = None,
    like: str = "",
) -> Trait:
    """An option of a setup that is not as it is when nobody speaks of it; left out, where ``plain`` is None.

    A circumstance has a value ``added`` that may be set.
    """
    is_set = has or ((lambda value: bool(value)) if plain is None else (lambda value: value != plain))

    def without(case: Case) -> Iterator[Case]:
        rest = {name: value for name, value in case.setup.items() if name != key}
        yield with_setup(case, rest if plain is None else {**case.setup, key: plain})

    def put(case: Case) -> Case:
        return with_setup(case, {**case.setup, key: added}) if key in case.setup else case

    return Trait(
        name, lambda case: key in case.setup and is_set(case.setup[key]), without, None if added is None else put, like
    )


def operation(name: str, *ops: str, like: str = "", closes: bool = True) -> Trait:
    """Operations that a case may have; ``closes``: cases may be closed with them."""

    def without(case: Case) -> Iterator[Case]:
        yield msgspec.structs.replace(case, ops=[op for op in case.ops if op[0] not in ops])

    def had(case: Case) -> bool:
        # A plain operation at the end is how every case is closed.
        last = len(case.ops) - closes
        return any(op in ops and (at < last or any(a.values())) for at, (op, a) in enumerate(case.ops))

    return Trait(name, had, without, like=like)


def argument(name: str, op: str, key: str, has: Callable[[Any], bool] = bool, like: str = "") -> Trait:
    """An argument that operations may have."""

    def without(case: Case) -> Iterator[Case]:
        ops = [(o, {k: v for k, v in a.items() if k != key} if o == op and has(a.get(key)) else a) for o, a in case.ops]
        yield msgspec.structs.replace(case, ops=ops)

    return Trait(name, lambda case: any(o == op and has(a.get(key)) for o, a in case.ops), without, like=like)


def naming(key: str, trait: Trait | None = None) -> Trait:
    """A trait of arrivals, of which an argument tells requests with equal tokens apart: tokens of their own may do the
    same. It is the argument itself, where no other trait is named that goes with it."""
    plain = trait or argument(key, "add", key)

    def without(case: Case) -> Iterator[Case]:
        yield from plain.without(case)
        for by in (1, 2):
            ops = [(op, _with_own_tokens(a, by) if op == "add" and a.get(key) else a) for op, a in case.ops]
            yield from plain.without(msgspec.structs.replace(case, ops=ops))

    return replace(plain, without=without)


def _with_own_tokens(args: Mapping[str, Any], by: int) -> dict[str, Any]:
    """A request with as many tokens, which are others from the first one on."""
    if "tokens" in args:
        return {**args, "tokens": [token + by * _APART for token in args["tokens"]]}
    kept, runs = args.get("keep", 0), [[token + by, count] for token, count in args["runs"]]
    return {**args, "keep": 0, "runs": [[by, kept], *runs] if kept else runs}
