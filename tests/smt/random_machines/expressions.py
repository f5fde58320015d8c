"""Random expressions of the modelling language, as text.

``§`` stands for the state that is looked at: ``self`` in an action, ``before`` or ``self`` where a property speaks of
what an action did. So one text serves for both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .choices import Draw
from .world import BOOL, INT, REAL, Part, Type, World, bare

__all__ = ["LOOK", "Expressions", "Signature", "is_constant", "literal"]

LOOK = "§"


@dataclass(frozen=True)
class Signature:
    """An action, as `can` speaks of it."""

    name: str
    params: tuple[tuple[str, Type], ...]


def literal(draw: Draw, kind: Type) -> str | None:
    """A constant of this type, if it has one."""
    if kind.family == "bool":
        return draw.pick(("True", "False"))
    if kind.family == "int":
        return str(draw.pick((0, 0, 1, 1, 2, 3, -1)))
    if kind.family == "real":
        return draw.pick(("Fraction(1, 2)", "Fraction(0)", "Fraction(1)", "Fraction(-1, 3)", "Fraction(3, 2)"))
    if kind.optional and draw.chance(0.6):
        return "none"
    if kind.family == "index":
        return str(draw.pick((0, 0, 1, 2)))
    if kind.extra:
        return f'{kind.name}.named("{draw.pick(kind.extra)}")'
    return "none" if kind.optional else None


def is_constant(text: str) -> bool:
    """Python computes it: no term is in it."""
    return not re.search(r"[a-zA-Z§]", text.replace("Fraction", ""))


def _is_plain(text: str) -> bool:
    """A number, or none."""
    return text == "none" or text[0].isdigit()


@dataclass
class Expressions:
    """Draws expressions over what is in sight."""

    draw: Draw
    world: World
    names: dict[str, Type]
    """Variables, parameters and values at hand."""
    allowed: Callable[[Part], bool] = lambda _: True
    """Which parts may be read."""
    views: Sequence[str] = (LOOK,)
    actions: Sequence[Signature] = ()
    """Of which `can` may speak."""
    quantifiers: bool = True
    safe: float = 0.93
    """How often something that may have no value is guarded."""

    def knowing(self, **more: Type) -> Expressions:
        """With more names in sight."""
        return replace(self, names={**self.names, **more})

    # ------------------------------------------------------------------------------------------------ by type

    def of(self, kind: Type, depth: int = 2) -> str | None:
        """An expression of this type, or None where nothing of it is at hand."""
        by_family = {"bool": self.condition, "int": self.integer, "real": self.exact}
        if kind.family in by_family:
            return by_family[kind.family](depth)
        return self.element(kind, depth)

    def element(self, kind: Type, depth: int = 1) -> str | None:
        """An element of a sort, or a number used as an index; none where it may be."""
        options: list[tuple[float, Callable[[], str | None]]] = []
        names = [n for n, t in self.names.items() if kind.takes(t)]
        if names:
            options.append((4.0, lambda: self.draw.pick(names)))
        reads = [p for p in self._readable() if kind.takes(p.to)]
        if reads and depth:
            options.append((2.0, lambda: self.read(self.draw.pick(reads), depth - 1)))
        if (constant := literal(self.draw, kind)) is not None:
            options.append((1.0 if names or reads else 3.0, lambda: constant))
        if depth > 1 and self.draw.chance(0.2):
            options.append((1.0, lambda: self._either(kind, depth)))
        return self._try(options)

    def integer(self, depth: int = 2) -> str | None:
        """An integer."""
        number = str(literal(self.draw, INT))
        options: list[tuple[float, Callable[[], str | None]]] = [(1.5, lambda: number)]
        names = [n for n, t in self.names.items() if t == INT or (t.family == "index" and not t.optional)]
        if names:
            options.append((3.0, lambda: self.draw.pick(names)))
        if depth:
            reads = [p for p in self._readable() if p.to == INT or (p.to.family == "index" and not p.to.optional)]
            if reads:
                options.append((4.0, lambda: self.read(self.draw.pick(reads), depth - 1)))
            options.append((1.5, lambda: self._arithmetic(depth)))
            if sized := [p for p in self._queues() if self.quantifiers]:
                options.append((1.0, lambda: self._asked(self.draw.pick(sized), "size", depth - 1)))
            if depth > 1:
                options.append((0.4, lambda: self._either(INT, depth)))
        return self._try(options)

    def exact(self, depth: int = 2) -> str | None:
        """An exact number."""
        constant = str(literal(self.draw, REAL))
        options: list[tuple[float, Callable[[], str | None]]] = [(1.0, lambda: constant)]
        if names := [n for n, t in self.names.items() if t == REAL]:
            options.append((2.0, lambda: self.draw.pick(names)))
        if depth:
            if reads := [p for p in self._readable() if p.to == REAL]:
                options.append((4.0, lambda: self.read(self.draw.pick(reads), depth - 1)))
            options.append((1.5, lambda: self._exact_arithmetic(depth)))
        return self._try(options)

    def condition(self, depth: int = 2) -> str | None:
        """A truth value."""
        options: list[tuple[float, Callable[[], str | None]]] = [(0.15, lambda: self.draw.pick(("True", "False")))]
        if names := [n for n, t in self.names.items() if t == BOOL]:
            options.append((2.0, lambda: self.draw.pick(names)))
        if reads := [p for p in self._readable() if p.to == BOOL]:
            options.append((3.0, lambda: self.read(self.draw.pick(reads), max(depth - 1, 0))))
        options.append((2.0, lambda: self._comparison(depth)))
        if queues := self._queues():
            options.append((2.0, lambda: self._queue_question(self.draw.pick(queues), depth)))
        if any(t.family in ("sort", "index") for t in self.names.values()):
            options.append((2.0, lambda: self._same(depth)))
        if depth:
            options.append((2.5, lambda: self._connected(depth)))
            options.append((1.0, lambda: self._guarded(depth)))
            if self.quantifiers and self.draw.has("quantifier"):
                options.append((1.5, lambda: self._quantified(depth)))
            if self.actions:
                options.append((0.8, lambda: self._can(depth)))
        if indices := [t for t in self.world.types if t.family == "index"]:
            options.append((0.5, lambda: self._within(self.draw.pick(indices), depth)))
        return self._try(options)

    # ------------------------------------------------------------------------------------------------ pieces

    def read(self, part: Part, depth: int, *, view: str | None = None) -> str | None:
        """An entry of a map, parameter or count."""
        keys = [self.key(k, depth) for k in part.keys]
        if any(k is None for k in keys):
            return None
        return part.at(view or self.draw.pick(self.views), [k for k in keys if k is not None])

    def key(self, kind: Type, depth: int = 1) -> str | None:
        """A key of this type, now and then one that may be none."""
        if not self.draw.chance(self.safe):
            loose = [p for p in self._readable() if kind.may_take(p.to) and not p.keys]
            if loose:
                return self.read(self.draw.pick(loose), 0)
        names = [n for n, t in self.names.items() if kind.takes(t)]
        if names and self.draw.chance(0.8):
            return self.draw.pick(names)
        if kind == BOOL:
            return self.draw.pick(("True", "False"))
        return self.element(kind, depth)

    def _readable(self) -> list[Part]:
        return [p for p in self.world.parts if p.is_value and self.allowed(p)]

    def _queues(self) -> list[Part]:
        return [p for p in self.world.of("queue") if self.allowed(p)]

    def _try(self, options: list[tuple[float, Callable[[], str | None]]]) -> str | None:
        for _ in range(4 if options else 0):
            found = self.draw.weighted(options)
            if found is not None and "None" not in found:
                return found
        return None

    def _two(self, make: Callable[[], str | None], joined: Callable[[str, str], str]) -> str | None:
        a, b = make(), make()
        return None if a is None or b is None or (is_constant(a) and is_constant(b)) else joined(a, b)

    def _either(self, kind: Type, depth: int) -> str | None:
        condition = self.condition(0)
        return self._two(lambda: self.of(kind, depth - 1), lambda a, b: f"ite({condition}, {a}, {b})")

    def _arithmetic(self, depth: int) -> str | None:
        if self.draw.has("division") and self.draw.chance(0.3):
            sign = self.draw.pick(("//", "%"))
            by = self.draw.pick(("2", "3")) if self.draw.chance(0.8) else self.integer(depth - 1)
            number = self.integer(depth - 1)
            return None if number is None or is_constant(number) else f"({number} {sign} {by})"
        if self.draw.chance(0.1):
            return None if (number := self.integer(depth - 1)) is None or is_constant(number) else f"(2 * {number})"
        sign = self.draw.pick(("+", "-"))
        return self._two(lambda: self.integer(depth - 1), lambda a, b: f"({a} {sign} {b})")

    def _exact_arithmetic(self, depth: int) -> str | None:
        if self.draw.has("division") and self.draw.chance(0.3):
            by = "2" if self.draw.chance(0.7) else self.exact(depth - 1)
            number = self.exact(depth - 1)
            return None if number is None or is_constant(number) else f"({number} / {by})"
        other = self.exact(depth - 1) if self.draw.chance(0.7) else self.integer(0)
        return f"({self.exact(depth - 1)} {self.draw.pick(('+', '-'))} {other})"

    def _comparison(self, depth: int) -> str | None:
        has_exact = any(p.to == REAL for p in self._readable())
        make = self.exact if has_exact and self.draw.chance(0.5) else self.integer
        sign = self.draw.pick(("==", "==", "<=", "<", ">=", "!="))
        a, b = make(max(depth, 1)), make(max(depth - 1, 0))
        return None if a is None or b is None or (is_constant(a) and is_constant(b)) else f"({a} {sign} {b})"

    def _same(self, depth: int) -> str | None:
        kind = self.draw.pick([t for t in self.world.types if t.family in ("sort", "index")])
        kind = replace(kind, optional=self.draw.chance(0.5))
        sign = self.draw.pick(("==", "!="))
        a, b = self.element(kind, max(depth, 1)), self.element(kind, 1)
        if (
            a is None
            or b is None
            or (_is_plain(a) and _is_plain(b) and not (a == b == "none" and self.draw.chance(0.1)))
        ):
            return None
        return f"({a} {sign} {b})"

    def _connected(self, depth: int) -> str | None:
        joined = self.draw.pick(("({a} & {b})", "({a} | {b})", "implies({a}, {b})", "iff({a}, {b})", "~{a}"))
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        if a is None or b is None or a in ("True", "False"):
            return None
        return joined.format(a=a, b=b)

    def _guarded(self, depth: int) -> str | None:
        """Something that may have no value, behind the condition that it has one."""
        choices: list[tuple[str, str, Type]] = []
        for part in self._readable():
            if part.to.optional and (text := self.read(part, 0)) is not None:
                choices.append((f"{text} != none", text, bare(part.to)))
            elif part.to == INT and self.draw.has("division") and (text := self.read(part, 0)) is not None:
                choices.append((f"{text} > 0", f"(7 // {text})", INT))
        for queue in self._queues():
            if (named := self._named(queue, 0)) is not None:
                end = self.draw.pick(("head()", "tail()"))
                choices.append((f"~{named}.is_empty()", f"{named}.{end}", queue.to))
        if not choices:
            return None
        guard, text, kind = self.draw.pick(choices)
        inner = self.knowing(**{text: kind}).condition(depth - 1)
        if inner is None or not self.draw.chance(self.safe):
            return inner
        return self.draw.pick(("implies({g}, {i})", "(({g}) & {i})")).format(g=guard, i=inner)

    def _quantified(self, depth: int) -> str | None:
        kinds = [t for t in self.world.keys if t != BOOL or self.draw.chance(0.3)]
        chosen = [self.draw.pick(kinds) for _ in range(2 if self.draw.chance(0.25) else 1)]
        names = [self.draw.name("q") for _ in chosen]
        inner = self.knowing(**dict(zip(names, chosen, strict=True))).condition(depth - 1)
        if inner is None:
            return None
        word = self.draw.pick(("forall", "exists"))
        return f"{word}({', '.join(k.name for k in chosen)}, lambda {', '.join(names)}: {inner})"

    def _can(self, depth: int) -> str | None:
        action = self.draw.pick(self.actions)
        args = [self.of(kind, max(depth - 1, 0)) for _, kind in action.params]
        if any(a is None for a in args):
            return None
        return f"can(§.{action.name}{''.join(f', {a}' for a in args)})"

    def _within(self, kind: Type, depth: int) -> str | None:
        number = self.integer(max(depth - 1, 1))
        return None if number is None else f"{kind.name}.has({number})"

    def _named(self, queue: Part, depth: int) -> str | None:
        keys = [self.key(k, depth) for k in queue.keys]
        if any(k is None for k in keys):
            return None
        return queue.at(self.draw.pick(self.views), [k for k in keys if k is not None])

    def _asked(self, queue: Part, question: str, depth: int) -> str | None:
        named = self._named(queue, depth)
        return None if named is None else f"{named}.{question}"

    def _queue_question(self, queue: Part, depth: int) -> str | None:
        named, a, b = self._named(queue, 0), self.element(queue.to, min(depth, 1)), self.element(queue.to, 0)
        if named is None or (a or "").isdigit() or (b or "").isdigit():  # a number is no element of a queue
            return None
        if a is None or self.draw.chance(0.15):
            return f"{named}.is_empty()"
        if b is not None and self.draw.chance(0.25):
            return f"{named}.before({a}, {b})"
        return f"{named}.{self.draw.pick(('has', 'has', 'is_first'))}({a})"
