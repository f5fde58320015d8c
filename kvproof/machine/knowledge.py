"""What is known of a machine's states, as facts for a solver.

A fact is a formula that is built when it is first wanted: of the hundreds that hold at some place of an action, a proof
needs two or three. Before it is built, a fact is known by its label, and by the uninterpreted functions that it speaks
of.

What is trusted here, beside the encoding: the counting facts (`counting`, `same_members`, `compared`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from .fitting import may_misfit
from .formulas import Formula, Function, add, land, leq, less, limplies, lnot, lor
from .model import CountOf, Property
from .symbolic import Snapshot, Symbolic
from .terms import Real, Term

__all__ = [
    "Context",
    "Fact",
    "background",
    "bounded",
    "compared",
    "counting",
    "invariants",
    "of_first_state",
    "of_first_values",
    "of_parameters",
    "rested",
    "said_of_first_state",
    "same_members",
    "typing",
]


@dataclass(eq=False)
class Fact:
    """Something that is known.

    ``name`` says what is known, ``moment`` of which of the states on the way, such as " after"; both are the same
    whenever the same step of the same machine is proved. ``symbols`` are the uninterpreted functions that it may speak
    of.
    """

    name: str
    symbols: frozenset[str]
    build: Callable[[], Formula]
    is_local: bool = False
    """It was learned on the way, such as what the action requires."""
    subjects: frozenset[str] = frozenset()
    """For a law, those of its symbols that it is about: a law about the number of holders says something of a table
    only to who asks for that number."""
    moment: str = ""

    @staticmethod
    def of(name: str, symbols: frozenset[str], formula: Formula, *, is_local: bool = False) -> Fact:
        """A fact whose formula is there already."""
        return Fact(name, symbols, lambda: formula, is_local=is_local)

    @property
    def label(self) -> str:
        """What is known, and of which state."""
        return self.name + self.moment

    @property
    def about(self) -> frozenset[str]:
        """The symbols that make it worth a look: those of a goal, or of another fact that is looked at."""
        return self.subjects or self.symbols

    @cached_property
    def formula(self) -> Formula:
        """The fact itself."""
        return self.build()


@dataclass(eq=False)
class Context:
    """What is known at a place of an action, on top of what an outer context knows."""

    outer: Context | None
    facts: list[Fact]

    def chain(self) -> list[Context]:
        """The contexts that it stands in, the outermost first, and itself."""
        chain: list[Context] = []
        at: Context | None = self
        while at is not None:
            chain.append(at)
            at = at.outer
        return chain[::-1]

    def all_facts(self) -> list[Fact]:
        """Everything that is known there, what was known first at the front."""
        return [fact for context in self.chain() for fact in context.facts]


# ------------------------------------------------------------------------------------------------ parameters


def background(symbolic: Symbolic) -> list[Fact]:
    """Named elements of one sort differ, and there is an index of each kind."""
    facts = symbolic.universe.background()
    return [Fact.of(f"background {i}", frozenset(), f) for i, f in enumerate(facts)]


def of_parameters(symbolic: Symbolic) -> list[Fact]:
    """Types of the parameters, and what the machine assumes of them."""
    facts = [_typed(symbolic, name, symbolic.params[name], "") for name in symbolic.model.params]
    for prop in symbolic.model.of_kind("assume"):
        facts += _claims(symbolic, prop, Snapshot({}), "")
    return facts


def _typed(symbolic: Symbolic, name: str, function: Function, moment: str) -> Fact:
    """What a map holds has its type.

    Also what is read behind the last index: it is the default (`Unbounded.guard_read`).
    """
    u, mapping = symbolic.universe, symbolic.model.maps[name]

    def typed(*keys: Formula) -> Formula:
        return u.is_value(mapping.to, function(*keys), or_none=mapping.is_optional)

    def build() -> Formula:
        return u.quantify("forall", mapping.kinds, typed, of_values=True)

    return Fact(f"type of {name}", function.symbols, build, moment=moment)


# ------------------------------------------------------------------------------------------------ states


def typing(symbolic: Symbolic, state: Snapshot, moment: str, *, leaving_out: Collection[str] = ()) -> list[Fact]:
    """Values have their types; members of a queue have different ranks between its bounds."""
    model, facts = symbolic.model, []
    for name, mapping in model.maps.items():
        if not mapping.is_param and name not in leaving_out:
            facts.append(_typed(symbolic, name, state.functions[name], moment))
    for name in model.queues:
        facts += _ranks(symbolic, name, state, moment)
    return facts


def _ranks(symbolic: Symbolic, name: str, state: Snapshot, moment: str) -> list[Fact]:
    u, queue = symbolic.universe, symbolic.model.queues[name]
    has, rank, lo, hi = (state.functions[f"{name}.{x}"] for x in ("has", "rank", "lo", "hi"))
    n = len(queue.kinds)

    def within(*k: Formula) -> Formula:
        r = rank(*k)
        return limplies(has(*k), land(less(lo(*k[:n]), r, strict=True), less(r, hi(*k[:n]), strict=True)))

    def apart(*k: Formula) -> Formula:
        a, b = (*k[:n], k[n]), (*k[:n], k[n + 1])
        return limplies(land(has(*a), has(*b), leq(rank(*a), rank(*b))), leq(k[n], k[n + 1]))

    def bounds(*k: Formula) -> Formula:
        return less(lo(*k), hi(*k), strict=True)

    order, ranks = has.symbols | rank.symbols, rank.symbols & symbolic.subjects
    one, two = (*queue.kinds, queue.of), (*queue.kinds, queue.of, queue.of)
    return [
        Fact(f"{name} {said}", about, partial(u.quantify, "forall", kinds, law), subjects=subjects, moment=moment)
        for said, about, kinds, law, subjects in (
            ("within", order, one, within, ranks),
            ("apart", order, two, apart, ranks),
            ("bounds", lo.symbols | hi.symbols, queue.kinds, bounds, frozenset()),
        )
    ]


def invariants(symbolic: Symbolic, state: Snapshot, moment: str) -> list[Fact]:
    """The inductive invariants hold."""
    return [f for prop in symbolic.model.inductive for f in _claims(symbolic, prop, state, moment)]


def _claims(symbolic: Symbolic, prop: Property, state: Snapshot, moment: str) -> Iterator[Fact]:
    for number, clause in enumerate(symbolic.clauses(prop.binders, prop.formula), 1):
        yield Fact(
            f"{prop.name} ({number})",
            symbolic.symbols(clause[1], state),
            lambda clause=clause: symbolic.claim(clause, state),  # type: ignore[misc]
            moment=moment,
        )


def rested(symbolic: Symbolic, state: Snapshot, moment: str) -> list[tuple[str, Fact]]:
    """Scratch maps have their first values."""
    facts = []
    for name, mapping in symbolic.model.maps.items():
        if mapping.scratch:
            keys, term = symbolic.model.inits[name]

            def same(*v: Formula, name: str = name, keys: tuple[Term, ...] = keys, term: Term = term) -> Formula:
                return leq(state.functions[name](*v), symbolic.start_value(name, keys, term, state, v))

            def build(kinds: tuple[type[Term], ...] = mapping.kinds, same: Callable[..., Formula] = same) -> Formula:
                return symbolic.universe.quantify("forall", kinds, same)

            symbols = state.functions[name].symbols | symbolic.symbols(term, state)
            facts.append((name, Fact(f"{name} at rest", symbols, build, moment=moment)))
    return facts


def of_first_state(symbolic: Symbolic, state: Snapshot) -> list[Fact]:
    """Everything that is known of a first state."""
    return [*of_first_values(symbolic, state), *said_of_first_state(symbolic, state)]


def of_first_values(symbolic: Symbolic, state: Snapshot) -> list[Fact]:
    """What is known of first values, before the machine says more of the state that they are."""
    return [*background(symbolic), *of_parameters(symbolic), *_first_values(symbolic, state)]


def said_of_first_state(symbolic: Symbolic, state: Snapshot) -> list[Fact]:
    """What the machine says of its first state."""
    return [f for prop in symbolic.model.of_kind("initially") for f in _claims(symbolic, prop, state, "")]


def _first_values(symbolic: Symbolic, state: Snapshot) -> list[Fact]:
    """What is known of the values themselves.

    That first values have their types is known where their texts say so; of others it has to be proved.
    """
    model = symbolic.model
    unsure = {
        name
        for name, mapping in model.maps.items()
        if not mapping.is_param and may_misfit(model.inits[name][1], mapping.to, is_optional=mapping.is_optional)
    }
    facts = typing(symbolic, state, "", leaving_out=unsure)
    for name, queue in model.queues.items():
        keys, term = model.inits[name]
        has = state.functions[f"{name}.has"]

        def start(*v: Formula, name: str = name, keys: tuple[Term, ...] = keys, term: Term = term) -> Formula:
            return leq(state.functions[f"{name}.has"](*v), symbolic.start_value(name, keys, term, state, v))

        def build(
            kinds: tuple[type[Term], ...] = (*queue.kinds, queue.of), start: Callable[..., Formula] = start
        ) -> Formula:
            return symbolic.universe.quantify("forall", kinds, start)

        facts.append(Fact(f"{name} at first", has.symbols | symbolic.symbols(term, state), build))
        facts.append(_ascending(symbolic, name, state))
    return [*facts, *counting(symbolic, state, ""), *same_members(symbolic, state)]


def _ascending(symbolic: Symbolic, name: str, state: Snapshot) -> Fact:
    """Whoever stands in a queue at first stands there in ascending order."""
    u, queue = symbolic.universe, symbolic.model.queues[name]
    has, rank = (state.functions[f"{name}.{x}"] for x in ("has", "rank"))
    n = len(queue.kinds)

    def in_order(*k: Formula) -> Formula:
        a, b = (*k[:n], k[n]), (*k[:n], k[n + 1])
        both = land(has(*a), has(*b), u.comes_before(queue.of, k[n], k[n + 1]))
        return limplies(both, less(rank(*a), rank(*b), strict=True))

    def build() -> Formula:
        return u.quantify("forall", (*queue.kinds, queue.of, queue.of), in_order)

    return Fact(f"{name} in order at first", has.symbols | rank.symbols, build)


# ------------------------------------------------------------------------------------------------ counts


def counting(symbolic: Symbolic, state: Snapshot, moment: str, names: Iterable[str] | None = None) -> list[Fact]:
    """The counting facts: trusted, and true of the number of members of any finite set.

    It is not negative; with a member it is at least 1, with two different ones at least 2; where it is at least 1
    there is a member. A sum, likewise: at least the weight of any member, and of any two together; where it is more
    than 0, some weight is.
    """
    if not symbolic.universe.counts_by_law:
        return []
    counts = symbolic.model.counts
    return [f for n in (counts if names is None else names) for f in _counting(symbolic, counts[n], state, moment)]


def _counting(symbolic: Symbolic, count: CountOf, state: Snapshot, moment: str) -> list[Fact]:
    u, total = symbolic.universe, state.functions[count.name]
    over, by = [type(e) for e in count.elements], [type(k) for k in count.keys]
    n = len(over)

    def one(*v: Formula) -> Formula:
        enough = less(symbolic.weight(count, state, v[:n], v[n:]), total(*v[n:]), strict=False)
        return limplies(symbolic.member(count, state, v[:n], v[n:]), enough)

    def two(*v: Formula) -> Formula:
        a, b, keys = v[:n], v[n : 2 * n], v[2 * n :]
        differ = lor(*[lnot(leq(x, y)) for x, y in zip(a, b, strict=True)])
        both = land(symbolic.member(count, state, a, keys), symbolic.member(count, state, b, keys), differ)
        together = add(symbolic.weight(count, state, a, keys), symbolic.weight(count, state, b, keys))
        return limplies(both, less(together, total(*keys), strict=False))

    def some() -> Formula:
        witness = [u.named(f"member {i} of {total.name}", by, kind) for i, kind in enumerate(over)]

        def there(*keys: Formula) -> Formula:
            is_member = symbolic.member(count, state, [w(*keys) for w in witness], keys)
            nothing, one = u.literal(count.to, 0), u.literal(count.to, 1)
            is_some = less(nothing if count.to is Real else one, total(*keys), strict=count.to is Real)
            return land(less(nothing, total(*keys), strict=False), limplies(is_some, is_member))

        return u.quantify("forall", by, there)

    laws = {
        "one": lambda: u.quantify("forall", (*over, *by), one),
        "two": lambda: u.quantify("forall", (*over, *over, *by), two),
        "some": some,
    }
    symbols, subjects = total.symbols | _counted(symbolic, count, state), total.symbols & symbolic.subjects
    return [Fact(f"{count.name}: {law}", symbols, laws[law], subjects=subjects, moment=moment) for law in laws]


def _counted(symbolic: Symbolic, count: CountOf, state: Snapshot) -> frozenset[str]:
    """What the property that is counted speaks of."""
    weight = frozenset() if count.weight is None else symbolic.symbols(count.weight, state)
    return weight | symbolic.symbols(count.formula, state)


def same_members(symbolic: Symbolic, state: Snapshot) -> list[Fact]:
    """Where every element counts as much in both, two counts are equal."""
    if not symbolic.universe.counts_by_law:
        return []
    pairs = itertools.combinations(symbolic.model.counts.values(), 2)
    return [compared(symbolic, a, state, b, state, equal=True) for a, b in pairs if _are_alike(a, b)]


def _are_alike(a: CountOf, b: CountOf) -> bool:
    """They count the same kinds of elements for the same kinds of keys."""
    return [type(e) for e in a.elements] == [type(e) for e in b.elements] and [type(k) for k in a.keys] == [
        type(k) for k in b.keys
    ]


def bounded(symbolic: Symbolic, count: CountOf, before: Snapshot, after: Snapshot) -> list[Fact]:
    """What is known of a count when many of its elements have changed at once.

    Where no element counts more than it did, or than it does in another count, the count is no greater; and where none
    counts less, it is no smaller.
    """
    facts = []
    for other in symbolic.model.counts.values():
        if not _are_alike(count, other) or count.to is not other.to:
            continue
        for state in [before] if other is count else [before, after]:
            facts += [
                compared(symbolic, count, after, other, state),
                compared(symbolic, other, state, count, after),
            ]
    return facts


def compared(symbolic: Symbolic, a: CountOf, at: Snapshot, b: CountOf, then: Snapshot, *, equal: bool = False) -> Fact:
    """Where no element counts more in one (in some state) than in the other, the one is no greater; or equal alike."""
    u = symbolic.universe
    over, by = [type(e) for e in a.elements], [type(k) for k in a.keys]
    first, second = at.functions[a.name], then.functions[b.name]

    def ordered(x: Formula, y: Formula) -> Formula:
        return leq(x, y) if equal else less(x, y, strict=False)

    def no_more(*keys: Formula) -> Formula:
        def each(*e: Formula) -> Formula:
            return ordered(symbolic.amount(a, at, e, keys), symbolic.amount(b, then, e, keys))

        return limplies(u.quantify("forall", over, each), ordered(first(*keys), second(*keys)))

    symbols = first.symbols | second.symbols | _counted(symbolic, a, at) | _counted(symbolic, b, then)
    label = f"{first.name} {'=' if equal else '<='} {second.name}"
    subjects = (first.symbols | second.symbols) & symbolic.subjects
    return Fact(label, symbols, lambda: u.quantify("forall", by, no_more), subjects=subjects)
