"""Random sorts and state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .choices import Draw
from .expressions import LOOK, Expressions, literal
from .world import BOOL, INT, REAL, Part, Type, World

__all__ = ["Declarations", "draw_types", "sorts_text"]

WIDE = ("TOP", "END")


def draw_types(draw: Draw) -> list[Type]:
    """The sorts and indices, and Bool where it is used as a key."""
    types = [Type("A", "sort")]
    if draw.has("second_sort"):
        types.append(Type("B", "sort"))
    if draw.has("wide_sort"):
        types.append(Type("W", "sort", extra=WIDE[: draw.number(1, 2)]))
    if draw.has("index"):
        types.append(Type("I", "index"))
        if draw.chance(0.15):
            types.append(Type("J", "index"))
    if draw.has("boolean_key"):
        types.append(BOOL)
    return types


def sorts_text(types: list[Type]) -> list[str]:
    """Their declarations."""
    lines = []
    for t in types:
        if t.family == "sort":
            above = "A" if t.extra else "Sort"
            extra = f", extra=({''.join(f'{x!r}, ' for x in t.extra)})" if t.extra else ""
            lines.append(f"class {t.name}({above}{extra}): ...")
        elif t.family == "index":
            lines.append(f"class {t.name}(Index): ...")
    return lines


@dataclass
class Declarations:
    """Draws parts of the state, and adds them to the world."""

    draw: Draw
    world: World

    def everything(self) -> None:
        """The state of a machine."""
        draw = self.draw
        if draw.has("param"):
            for _ in range(draw.number(1, 2)):
                self.param()
        for _ in range(draw.number(1, 3)):
            self.map()
        self.scalar()
        for _ in range(draw.number(0, 2)):
            self.scalar()
        if draw.has("queue"):
            self.queue()
        if draw.looks_back:  # of each queue something can be noted
            keys = self.world.parts[-1].keys
            self._add(Part(draw.name("m"), "map", keys, INT, self._call("Map", keys, INT), init="0"))
        if draw.has("scratch"):
            self.scalar(scratch=True) if draw.chance(0.6) else self.map(scratch=True)
        if draw.has("tally"):
            self.tally()
        self.counts()
        if draw.looks_behind:
            self.counts_by_index()
        if draw.has("event"):
            self.event()

    def more(self) -> None:
        """What a machine that extends another has beside."""
        for _ in range(self.draw.number(0, 2)):
            self.map() if self.draw.chance(0.5) else self.scalar()
        if self.draw.has("count") and self.draw.chance(0.4):
            self.counts()

    def counts(self) -> None:
        """Counts and sums over what is there."""
        if self.draw.has("count"):
            for _ in range(self.draw.number(1, 2)):
                self.count()
        if self.draw.has("sum"):
            self.count(weighted=True)

    # ------------------------------------------------------------------------------------------------ events

    def event(self) -> None:
        """What is reported; often somebody keeps what they make of it."""
        draw, name = self.draw, self.draw.name("e")
        kinds = tuple(draw.pick([INT, *_elements(self.world)]) for _ in range(draw.number(1, 2)))
        text = ", ".join(k.name for k in kinds)
        if not draw.hears:
            self._add(Part(name, "event", kinds, BOOL, f"Event({text})"))
            return
        given = ", ".join("ab"[: len(kinds)])
        call = f"heard=lambda m, {given}: m.hear_{name}({given})"
        method = (f"def hear_{name}(self, {given}):", *self._hearing(kinds))
        self._add(Part(name, "event", kinds, BOOL, f"Event({text}, {call})", listener=method))

    def _hearing(self, kinds: tuple[Type, ...]) -> list[str]:
        """A map or scalar that only the event writes, and how: the lines of the listener."""
        draw, name = self.draw, self.draw.name("h")
        at = next((i for i, k in enumerate(kinds) if k != INT), None)
        keys = () if at is None else (kinds[at],)
        to = draw.pick((BOOL, INT))
        part = Part(name, "map", keys, to, self._call("Map" if keys else "Scalar", keys, to), heard=True)
        self._add(part)
        entry = part.at("self", () if at is None else ("ab"[at],))
        numbers = ["1", *(x for x, k in zip("ab", kinds, strict=False) if k == INT)]
        values = ("True", f"~{entry}") if to == BOOL else (draw.pick(numbers), f"{entry} + {draw.pick(numbers)}")
        write = f"{entry} = {draw.pick(values)}"
        if draw.chance(0.7):
            return [write]
        return [f"with when({entry if to == BOOL else f'{entry} < 1'}):", f"    {write}"]

    # ------------------------------------------------------------------------------------------------ maps

    def param(self) -> None:
        """Something fixed."""
        keys = self._keys(self.draw.pick((0, 0, 1)))
        to = self._to()
        self._add(Part(self.draw.name("p"), "param", keys, to, self._call("Param", keys, to)))

    def map(self, *, scratch: bool = False) -> None:
        """A map with one or two keys."""
        keys = self._keys(2 if self.draw.has("two_keys") and self.draw.chance(0.6) else 1)
        self._variable("Map", self.draw.name("m"), keys, scratch)

    def scalar(self, *, scratch: bool = False) -> None:
        """A single value."""
        self._variable("Scalar", self.draw.name("s" if scratch else "x"), (), scratch)

    def _variable(self, word: str, name: str, keys: tuple[Type, ...], scratch: bool) -> None:
        to = self._to()
        init, constant = self._init(keys, to)
        more = (f", init={init}" if init else "") + (", scratch=True" if scratch else "")
        text = self._call(word, keys, to)[:-1] + more + ")"
        self._add(Part(name, "map", keys, to, text, scratch, init=constant))

    @staticmethod
    def _call(word: str, keys: tuple[Type, ...], to: Type) -> str:
        return f"{word}({''.join(k.name + ', ' for k in keys)}to={to.text})"

    def _keys(self, number: int) -> tuple[Type, ...]:
        weighted = [t for t in self.world.keys for _ in range(1 if t == BOOL else 3)]
        return tuple(self.draw.pick(weighted) for _ in range(number))

    def _to(self) -> Type:
        draw, world = self.draw, self.world
        options: list[tuple[float, Callable[[], Type]]] = [(3.0, lambda: BOOL), (4.0, lambda: INT)]
        if draw.has("real"):
            options.append((2.0, lambda: REAL))
        if elements := [t for t in world.types if t.family in ("sort", "index")]:
            options.append(
                (3.0, lambda: replace(draw.pick(elements), optional=draw.has("optional") and draw.chance(0.7)))
            )
        return draw.weighted(options)

    def _init(self, keys: tuple[Type, ...], to: Type) -> tuple[str | None, str | None]:
        """The first value as the declaration writes it, and as a constant where it is one."""
        draw = self.draw
        needed = to.family == "sort" and not to.optional
        if not needed and draw.chance(0.5):
            return None, {"bool": "False", "real": "Fraction(0)"}.get(to.family, "none" if to.optional else "0")
        params = self.world.of("param")
        if params and draw.chance(0.5):
            names = {draw.name("k"): k for k in keys}
            inside = Expressions(draw, self.world, names, allowed=lambda p: p.form == "param", quantifiers=False)
            text = inside.integer(2) if to.family == "index" and draw.chance(0.3) else inside.of(to, 2)
            if text is not None:
                return f"lambda {', '.join(['m', *names])}: {text.replace(LOOK, 'm')}", None
        constant = literal(draw, to)
        if constant is not None and constant != "-1":
            return constant, constant
        fitting = [p for p in params if to.may_take(p.to) and not p.keys and not p.to.optional]
        if not fitting:
            found = Part(draw.name("p"), "param", (), replace(to, optional=False), f"Param(to={to.name})")
            self._add(found)
            fitting = [found]
        return f"lambda {', '.join(['m', *[draw.name('k') for _ in keys]])}: {draw.pick(fitting).at('m')}", None

    def tally(self) -> None:
        """A counter that properties of steps look at."""
        keys = self._keys(self.draw.number(0, 1))
        self._add(Part(self.draw.name("t"), "tally", keys, INT, f"Tally({', '.join(k.name for k in keys)})"))

    def queue(self) -> None:
        """A queue, or one for each key."""
        draw = self.draw
        of = draw.pick(
            [t for t in self.world.types if t.family == "sort" or (t.family == "index" and draw.chance(0.3))]
        )
        keys = self._keys(1) if draw.has("keyed_queue") else ()
        by = f", by={keys[0].name}" if keys else ""
        names = [draw.name("k") for _ in range(len(keys) + 1)]
        full = {f", init=lambda m, {', '.join(names)}: True": None, ", init=True": "True", "": "False"}
        init = draw.pick(list(full)[0 if keys else 1 :])
        self._add(Part(draw.name("l"), "queue", keys, of, f"Queue({of.name}{by}{init})", init=full[init]))

    # ------------------------------------------------------------------------------------------------ counts

    def counts_by_index(self) -> None:
        """A map of which one key is an index, and counts of it."""
        index = next(t for t in self.world.types if t.family == "index")
        self._variable("Map", self.draw.name("m"), (self.world.types[0], index), False)
        made = self.world.parts[-1:]
        for weighted in (False, True)[: self.draw.number(1, 2)]:
            self.count(weighted=weighted, of=made)

    def count(self, *, weighted: bool = False, of: Sequence[Part] = ()) -> None:
        """A count or sum of elements of which something is kept."""
        draw = self.draw
        candidates = [p for p in of or self.world.of("map", "queue") if self._places(p)]
        if not candidates:
            return
        main = draw.pick(candidates)
        places = self._places(main)
        both = main.form == "map" and len(main.keys) == 2 and draw.chance(0.3)
        over = [draw.name("k") for _ in range(2 if both else 1)]
        spots = (0, 1) if both else (draw.pick(places),)
        kinds = [*main.keys, *([main.to] if main.form == "queue" else [])]
        names = {draw.name("k") if i not in spots else over[spots.index(i)]: k for i, k in enumerate(kinds)}
        elements = {n: names[n] for n in over}
        by = {n: k for n, k in names.items() if n not in over}
        text = self._entry(main, list(names))
        kind = BOOL if main.form == "queue" else main.to
        if kind.family in ("sort", "index") and draw.chance(0.4) and kind.family == "sort":
            key = draw.name("k")
            by[key] = replace(kind, optional=False)
            formula = f"{text} == {key}"
        else:
            formula = self._judged(text, kind, elements)
        second = [p for p in self.world.of("map", "param") if self._fits(p, elements) and p is not main]
        reads = {main.name}
        if second and draw.chance(0.4):
            other = draw.pick(second)
            reads |= {other.name} if other.form == "map" else set()
            shown = self._entry(other, [self._name_for(k, elements) for k in other.keys])
            formula = (
                f"{self._parenthesized(formula)} {draw.pick(('&', '|'))} ({self._judged(shown, other.to, elements)})"
            )
        elif draw.chance(0.2) and len(by) == 1 and len(over) == 1 and len(kinds) == 2:
            key = draw.name("k")
            (known,) = by.values()
            by[key] = known
            again = self._entry(main, [n if n in over else key for n in names])
            formula = f"{self._parenthesized(formula)} & ({self._judged(again, kind, elements)})"
        self._put_count(elements, by, formula, self._weight(text, kind, formula) if weighted else None, reads)

    def _put_count(
        self, over: dict[str, Type], by: dict[str, Type], formula: str, weight: tuple[str, Type] | None, reads: set[str]
    ) -> None:
        kinds = ", ".join(k.name for k in over.values())
        keyed = f", by=({''.join(k.name + ', ' for k in by.values())})" if by else ""
        names = ", ".join(["m", *over, *by])
        to = INT if weight is None else weight[1]
        word, what = ("Count", f"where=lambda {names}: {formula}")
        if weight is not None:
            word, what = "Sum", f"of=lambda {names}: {weight[0]}, to={weight[1].name}"
        text = f"{word}(({kinds},), {what}{keyed})".replace(LOOK, "m")
        name = self.draw.name("c")
        self._add(Part(name, "count", tuple(by.values()), to, text, reads=frozenset(reads)))

    def _weight(self, text: str, kind: Type, formula: str) -> tuple[str, Type]:
        if kind in (INT, REAL) and self.draw.chance(0.7):
            return text, kind
        amount = self.draw.pick(("1", "2"))
        if self.draw.has("real") and self.draw.chance(0.4):
            return f"ite({formula}, Fraction({amount}, 2), Fraction(0))", REAL
        return f"ite({formula}, {amount}, 0)", INT

    def _judged(self, text: str, kind: Type, elements: dict[str, Type]) -> str:
        """A condition on a value."""
        draw = self.draw
        if kind.family == "bool":
            return draw.pick((text, text, f"~{text}"))
        if kind.family in ("int", "real"):
            return f"{text} {draw.pick(('==', '>', '<=', '>='))} {draw.pick(('0', '0', '1', '2'))}"
        if kind.optional:
            return f"{text} {draw.pick(('!=', '=='))} none"
        if kind.family == "index":
            return f"{text} {draw.pick(('==', '>', '<'))} {draw.pick(('0', '1'))}"
        same = [n for n, k in elements.items() if kind.may_take(k)]
        if same:
            return f"{text} {draw.pick(('==', '!='))} {draw.pick(same)}"
        constant = literal(draw, kind)
        return f"{text} == {constant if constant is not None else text}"

    @staticmethod
    def _parenthesized(formula: str) -> str:
        return f"({formula})"

    def _entry(self, part: Part, names: list[str]) -> str:
        if part.form != "queue":
            return part.at(LOOK, names)
        return f"{part.at(LOOK, names[:-1])}.has({names[-1]})"

    @staticmethod
    def _places(part: Part) -> list[int]:
        """The keys over which can be counted."""
        kinds = [*part.keys, *([part.to] if part.form == "queue" else [])]
        return [i for i, k in enumerate(kinds) if k.family in ("sort", "index")]

    @staticmethod
    def _fits(part: Part, elements: dict[str, Type]) -> bool:
        names = list(part.keys)
        return bool(names) and sorted(k.name for k in names) == sorted(k.name for k in elements.values())

    @staticmethod
    def _name_for(kind: Type, elements: dict[str, Type]) -> str:
        return next(n for n, k in elements.items() if k.name == kind.name)

    def _add(self, part: Part) -> None:
        self.world.parts.append(part)


def _elements(world: World) -> list[Type]:
    """The types of elements."""
    return [t for t in world.types if t.family in ("sort", "index")]
