"""Random properties: what actions seem to do, said rightly and wrongly, and formulas at random.

Each template says something that is often true of such an action, and has variants that are not. A prover is put to the
test by properties that are nearly true.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .choices import Draw
from .expressions import LOOK, Expressions, Signature, literal
from .text import Piece, replaced_names
from .world import BOOL, INT, Part, Type, World
from .writes import Write

__all__ = ["Done", "Properties"]

THEN, NOW = "before", "self"


@dataclass
class Done:
    """An action, as properties speak of it."""

    signature: Signature
    writes: list[Write]
    result: tuple[str, Type] | None


@dataclass
class Properties:
    """Draws the properties of one machine."""

    draw: Draw
    world: World
    actions: list[Done]
    machine: str
    can: bool = False

    def everything(self, most: int) -> list[Piece]:
        """So many properties at most."""
        draw = self.draw
        made: list[Piece | None] = []
        for _ in range(draw.number(2, max(2, most // 2))):
            made.append(self.invariant())
        for _ in range(draw.number(2, most)):
            if self.actions:
                made.append(self.step(draw.pick(self.actions)))
        if draw.has("assume") and self.world.of("param"):
            made += [self.assumption("assume") for _ in range(draw.number(0, 2))]
            made += [self.assumption("initially") for _ in range(draw.number(0, 1))]
        return [p for p in made if p is not None]

    # ------------------------------------------------------------------------------------------------ as text

    def _property(self, decorator: str, name: str, params: dict[str, Type], body: str, *, tag: str) -> Piece:
        view = ['before: "M"'] if tag == "step" else []
        shown = ", ".join(["self", *view, *(f"{n}: {k.name}" for n, k in params.items())])
        head = f"def {name}({shown}) -> Bool:"
        return Piece(head, [Piece(f"return {body}")], tag=tag, name=name, more=[decorator])

    @staticmethod
    def _used(text: str, params: dict[str, Type]) -> dict[str, Type]:
        """The parameters that the text names."""
        return {n: k for n, k in params.items() if re.search(rf"(?<![\w.]){n}(?!\w)", text)}

    # ------------------------------------------------------------------------------------------------ invariants

    def invariant(self) -> Piece | None:
        """Something about every state."""
        draw = self.draw
        options: list[tuple[float, Callable[[], tuple[dict[str, Type], str] | None]]] = [
            (4.0, self._kept),
            (1.5, self._in_range),
            (2.5, self._related),
            (1.5, self._typed),
            (2.0, self._formula),
        ]
        if self.world.of("queue"):
            options.append((2.0, self._queued))
        if self.world.of("count"):
            options.append((3.0, self._counted))
        if draw.looks_behind and self._by_index():
            options.append((3.0, self._behind))
        found = draw.weighted(options)
        if found is None:
            return None
        params, text = found
        if "None" in text:
            return None
        derived = draw.chance(0.15) or (self.can and "can(" in text and draw.chance(0.7))
        word = "corollary" if derived else "invariant"
        name = draw.name("inv")
        text = text.replace(LOOK, NOW)
        return self._property(f'@{word}("X")', name, self._used(text, params), text, tag=word)

    def _values(self) -> list[Part]:
        return self.world.of("map", "count")

    def _any_entry(self, part: Part) -> tuple[dict[str, Type], str]:
        """Any entry of a part: its keys as parameters, and the text."""
        params = {self.draw.name("a"): k for k in part.keys}
        return params, part.at(LOOK, list(params))

    def _kept(self) -> tuple[dict[str, Type], str] | None:
        """An entry is one constant for ever: its first value, or what is written."""
        draw = self.draw
        maps = [p for p in self.world.of("map") if p.init is not None]
        if not maps:
            return None
        part = draw.pick(maps)
        params, entry = self._any_entry(part)
        constants = [str(part.init)]
        constants += [w.value for a in self.actions for w in a.writes if w.part is part and _is_plain(w.value)]
        value = draw.pick(constants)
        if draw.chance(0.15) and part.to in (INT, BOOL):
            value = literal(draw, part.to) or value
        if part.to == BOOL:
            return params, {"True": entry, "False": f"~{entry}"}.get(value, f"iff({entry}, {value})")
        others = [c for c in constants if c != value]
        if others and draw.chance(0.4):
            return params, f"({entry} == {value}) | ({entry} == {draw.pick(others)})"
        return params, f"{entry} == {value}"

    def _in_range(self) -> tuple[dict[str, Type], str] | None:
        """A number has a least or a greatest value."""
        numbers = [p for p in self._values() if p.to.family in ("int", "real") or p.to.name in ("I", "J")]
        numbers = [p for p in numbers if not p.to.optional]
        if not numbers:
            return None
        params, entry = self._any_entry(self.draw.pick(numbers))
        return (
            params,
            f"{entry} {self.draw.pick(('>=', '<=', '>=', '!='))} {self.draw.pick(('0', '0', '1', '2', '-1'))}",
        )

    def _related(self) -> tuple[dict[str, Type], str] | None:
        """Two parts of the state agree about the same keys."""
        draw = self.draw
        maps = self.world.of("map", "param", "count")
        first = draw.pick(self.world.of("map"))
        second = [p for p in maps if p.keys == first.keys and p is not first]
        if not second:
            return None
        other = draw.pick(second)
        params, a = self._any_entry(first)
        b = other.at(LOOK, list(params))
        conditions = [(self._truth(first, a)), self._truth(other, b)]
        if first.to.family == other.to.family and first.to != BOOL and draw.chance(0.6):
            sign = draw.pick(("==", "<=", ">=")) if first.to.family in ("int", "real") else "=="
            if first.to.may_take(other.to):
                return params, f"{a} {sign} {b}"
        if draw.chance(0.3):
            draw.random.shuffle(conditions)
        return params, draw.pick(("iff({}, {})", "implies({}, {})", "({}) | ({})", "~(({}) & ({}))")).format(
            *conditions
        )

    def _truth(self, part: Part, entry: str) -> str:
        """A condition on an entry."""
        draw, kind = self.draw, part.to
        if kind == BOOL:
            return draw.pick((entry, entry, f"~{entry}"))
        if kind.optional:
            return f"({entry} {draw.pick(('==', '!='))} none)"
        if kind.family in ("int", "real", "index"):
            return f"({entry} {draw.pick(('==', '>', '<=', '!='))} {draw.pick(('0', '0', '1', '2'))})"
        constants = [str(part.init)] if part.init else []
        return f"({entry} == {draw.pick(constants) if constants else entry})"

    def _typed(self) -> tuple[dict[str, Type], str] | None:
        """What is stored is of its type; an element exists; an index is one."""
        draw = self.draw
        maps = [p for p in self.world.of("map", "param") if p.to.family in ("sort", "index")]
        if not maps:
            return None
        part = draw.pick(maps)
        params, entry = self._any_entry(part)
        is_there = f"implies({entry} != none, " if part.to.optional else "("
        if part.to.family == "index":
            if part.to.optional:
                return params, f"{is_there}exists({part.to.name}, lambda z: z == {entry}))"
            return params, draw.pick((f"{entry} >= 0", f"{part.to.name}.has({entry})"))
        if part.to.extra and draw.chance(0.5):
            return params, f'{entry} != {part.to.name}.named("{draw.pick(part.to.extra)}")'
        over = part.to.name if draw.chance(0.7) else "A"
        if over == "A" and part.to.name == "B":
            over = "B"
        return params, f"{is_there}exists({over}, lambda z: z == {entry}))"

    def _queued(self) -> tuple[dict[str, Type], str] | None:
        """Standing in a queue means something; a queue is empty, full, or stays in order."""
        draw = self.draw
        queue = draw.pick(self.world.of("queue"))
        params = {draw.name("a"): k for k in queue.keys}
        named = queue.at(LOOK, list(params))
        element = draw.name("a")
        if draw.chance(0.25):
            return params, draw.pick((f"{named}.is_empty()", f"~{named}.is_empty()", f"{named}.size <= 1"))
        params[element] = queue.to
        has = f"{named}.has({element})"
        maps = [p for p in self.world.of("map") if sorted(k.name for k in p.keys) == [queue.to.name]]
        if maps and draw.chance(0.6):
            part = draw.pick(maps)
            return params, f"{draw.pick(('iff', 'implies'))}({has}, {self._truth(part, part.at(LOOK, [element]))})"
        if draw.chance(0.4):
            return params, draw.pick(("{}", "~{}")).format(has)
        other = draw.name("a")
        params[other] = queue.to
        return params, draw.pick(
            (
                f"~({named}.before({element}, {other}) & {named}.before({other}, {element}))",
                f"implies({named}.is_first({element}) & {named}.has({other}), ~{named}.before({other}, {element}))",
                f"implies({has} & {named}.has({other}), {element} == {other})",
                f"implies({has}, {named}.head() == {element})",
                f"implies({has}, ~{named}.before({named}.tail(), {element}))",
            )
        )

    def _counted(self) -> tuple[dict[str, Type], str] | None:
        """A count is a number that is kept beside it, or another count, or a size."""
        draw = self.draw
        count = draw.pick(self.world.of("count"))
        params, entry = self._any_entry(count)
        same = [p for p in self.world.parts if p.is_value and p.keys == count.keys and p is not count]
        same = [p for p in same if p.to.family in ("int", "real", "index") and not p.to.optional]
        sizes = [q for q in self.world.of("queue") if q.keys == count.keys]
        if sizes and draw.chance(0.3):
            return params, f"{entry} == {draw.pick(sizes).at(LOOK, list(params))}.size"
        sign = draw.pick(("==", "==", "<=", ">="))
        if same and draw.chance(0.7):
            return params, f"{entry} {sign} {draw.pick(same).at(LOOK, list(params))}"
        return params, f"{entry} {sign} {draw.pick(('0', '0', '1', '2'))}"

    def _by_index(self) -> list[Part]:
        """The counts of which some key is an index."""
        return [c for c in self.world.of("count") if any(k.family == "index" for k in c.keys)]

    def _behind(self) -> tuple[dict[str, Type], str]:
        """A count for a number that may lie behind the last index."""
        draw = self.draw
        count = draw.pick(self._by_index())
        params, keys = self._loose_keys(count)
        entry = count.at(LOOK, keys)
        (kind, key) = next((k, key) for k, key in zip(count.keys, keys, strict=True) if k.family == "index")
        return params, draw.pick(
            (
                f"{kind.name}.has({key}) | ({entry} == 0)",
                f"implies({kind.name}.has({key}), {entry} == 0)",
                f"{entry} == 0",
                f"{entry} <= 1",
                f"{entry} >= 0",
                f"implies({entry} > 0, {kind.name}.has({key}))",
            )
        )

    def _loose_keys(self, count: Part) -> tuple[dict[str, Type], list[str]]:
        """Keys of a count: for an index one more than some index, or than a number that the state holds."""
        draw = self.draw
        numbers = [p for p in self.world.of("map", "param") if not p.keys and p.to.family == "index"]
        numbers = [p for p in numbers if not p.to.optional and not p.scratch]
        params: dict[str, Type] = {}
        keys: list[str] = []
        for kind in count.keys:
            if kind.family == "index" and numbers and draw.chance(0.5):
                keys.append(f"({draw.pick(numbers).at(LOOK)} + {draw.pick(('0', '1'))})")
                continue
            name = draw.name("a")
            params[name] = kind
            keys.append(f"({name} + 1)" if kind.family == "index" else name)
        return params, keys

    def _formula(self) -> tuple[dict[str, Type], str] | None:
        """Anything."""
        draw = self.draw
        params = {draw.name("a"): draw.pick(self.world.keys) for _ in range(draw.number(0, 2))}
        can = [a.signature for a in self.actions] if self.can else []
        can = [s for s in can if all(k != INT or True for _, k in s.params)]
        inside = Expressions(draw, self.world, params, allowed=lambda p: p.form != "tally", actions=can)
        text = inside.condition(2)
        return None if text is None or LOOK not in text else (params, text)

    # ------------------------------------------------------------------------------------------------ steps

    def step(self, done: Done) -> Piece | None:
        """Something about what an action does."""
        draw, params = self.draw, dict(done.signature.params)
        plain = [w for w in done.writes if not re.search(r"\bloop\d+\.", " ".join((*w.keys, w.value, *w.path)))]
        options: list[tuple[float, Callable[[], tuple[dict[str, Type], str] | None]]] = [
            (1.5, lambda: self._frame(done)),
            (1.0, lambda: self._any_step(params)),
        ]
        if plain:
            options.append((6.0, lambda: self._effect(draw.pick(plain), params)))
            options.append((2.0, lambda: self._others(draw.pick(plain))))
        numbers = [p for p in self._values() if p.to.family in ("int", "real") and not p.to.optional]
        if numbers:
            options.append((1.5, lambda: self._moves(draw.pick(numbers))))
        moved = [(c, w) for c in self._by_index() for w in done.writes if draw.looks_behind and w.part.name in c.reads]
        if moved:
            options.append((4.0, lambda: self._count_moves(*draw.pick(moved))))
        if done.result is not None:
            result = done.result
            options.append((3.0, lambda: self._result(result, params)))
        found = draw.weighted(options)
        if found is None:
            return None
        binders, text = found
        if "None" in text or LOOK in text:
            return None
        name = draw.name("step")
        of = f', of="{done.signature.name}"'
        known = {**params, **binders}
        if done.result is not None:
            known["result"] = done.result[1]
        return self._property(f'@step("X"{of})', name, self._used(text, known), text, tag="step")

    def _seen(self, text: str) -> str:
        """What the action read, looked at before it; now and then after it, which is mostly wrong."""
        return text.replace(LOOK, THEN if self.draw.chance(0.85) else NOW)

    def _where(self, write: Write, claim: str) -> str:
        """The claim where the write took place; now and then everywhere."""
        conditions = [self._seen(f"({c})") for c in write.path]
        if not conditions or self.draw.chance(0.1):
            return claim
        return f"implies({' & '.join(conditions)}, {claim})"

    def _effect(self, write: Write, params: dict[str, Type]) -> tuple[dict[str, Type], str] | None:
        """What a write leaves behind."""
        if write.kind == "assign":
            claim = self._assigned(write)
        elif write.kind == "tally":
            now, then = (write.part.at(v, [self._seen(k) for k in write.keys]) for v in (NOW, THEN))
            claim = f"{now} == {then} + {self._seen(write.value)}"
        else:
            claim = self._requeued(write)
        binders = dict(write.binders)
        if binders and self.draw.chance(0.25):
            claim, binders = self._for_every_entry(write, claim), binders
        counts = [c for c in self.world.of("count") if write.part.name in c.reads]
        if counts and self.draw.chance(0.4):
            return self._count_moves(self.draw.pick(counts), write)
        return binders, self._where(write, claim)

    def _assigned(self, write: Write) -> str:
        entry = write.part.at(NOW, [self._seen(k) for k in write.keys])
        value = self._seen(write.value)
        if self.draw.chance(0.08) and write.part.to == INT:
            value = f"{value} + 1"
        if write.part.to == BOOL:
            return {"True": entry, "False": f"~{entry}"}.get(value, f"iff({entry}, {value})")
        return f"{entry} == {value}"

    def _for_every_entry(self, write: Write, claim: str) -> str:
        """All entries of the map, not only those that the rounds of `each` write."""
        names = [self.draw.name("z") for _ in write.part.keys]
        if write.kind != "assign" or not names:
            return claim
        value = replaced_names(write.value, dict(zip(write.keys, names, strict=True)))
        kinds = ", ".join(k.name for k in write.part.keys)
        entry = write.part.at(NOW, names)
        said = f"iff({entry}, {self._seen(value)})" if write.part.to == BOOL else f"{entry} == {self._seen(value)}"
        return f"forall({kinds}, lambda {', '.join(names)}: {said})"

    def _requeued(self, write: Write) -> str:
        """Where the element stands now, and how long the queue is."""
        draw, element = self.draw, self._seen(write.value)
        now, then = (write.part.at(v, [self._seen(k) for k in write.keys]) for v in (NOW, THEN))
        z = draw.name("z")
        of = write.part.to.name
        change = {"remove": "- 1"}.get(write.kind, "+ 1")
        anchor = self._seen(write.anchor) if write.anchor else element
        claims = [
            f"{now}.has({element})" if write.kind != "remove" else f"~{now}.has({element})",
            f"{now}.has({element})",
            f"{now}.size == {then}.size {change}",
            f"{now}.tail() == {element}",
            f"{now}.is_first({element})",
            f"{now}.head() == {then}.head()",
            f"forall({of}, lambda {z}: implies({then}.has({z}), {now}.before({z}, {element})))",
            f"forall({of}, lambda {z}: implies({then}.has({z}), {now}.before({element}, {z})))",
            f"forall({of}, lambda {z}: implies({then}.before({z}, {anchor}), {now}.before({z}, {element})))",
            f"forall({of}, {of}, lambda {z}, {z}x: implies({then}.before({z}, {z}x), {now}.before({z}, {z}x)))",
            f"forall({of}, {of}, lambda {z}, {z}x: "
            f"implies({now}.before({z}, {z}x), {then}.before({z}, {z}x) | ({z} == {element}) | ({z}x == {element})))",
            f"forall({of}, lambda {z}: implies({now}.has({z}), {then}.has({z})))",
            f"~{now}.is_empty()",
        ]
        return draw.pick(claims)

    def _count_moves(self, count: Part, write: Write) -> tuple[dict[str, Type], str]:
        """By how much a count changes, for some or all of its keys."""
        draw = self.draw
        binders = {draw.name("a"): k for k in count.keys}
        keys = list(binders)
        if draw.looks_behind:
            binders, keys = self._loose_keys(count)
            keys = [self._seen(k) for k in keys]
        now, then = (count.at(v, keys) for v in (NOW, THEN))
        claim = draw.pick(
            (
                f"{now} == {then}",
                f"{now} >= {then}",
                f"{now} <= {then}",
                f"{now} <= {then} + 1",
                f"{now} == {then} + 1",
                f"{now} == {then} - 1",
                f"({now} == {then}) | ({now} == {then} + 1)",
            )
        )
        guards = []
        for name, kind in binders.items():
            keys = [k for k, t in zip(write.keys, write.part.keys, strict=False) if t == kind]
            if keys and draw.chance(0.7):
                guards.append(f"({name} {draw.pick(('!=', '=='))} {self._seen(draw.pick(keys))})")
        if guards:
            claim = f"implies({draw.pick((' & ', ' | ')).join(guards)}, {claim})"
        kept = dict(write.binders.items())
        return {**binders, **kept}, self._where(write, claim) if draw.chance(0.4) else claim

    def _others(self, write: Write) -> tuple[dict[str, Type], str] | None:
        """Every other entry is what it was."""
        draw, part = self.draw, write.part
        if not part.keys:
            return None
        binders = {draw.name("a"): k for k in part.keys}
        differ = [f"({n} != {self._seen(k)})" for n, k in zip(binders, write.keys, strict=True)]
        if part.form == "queue":
            element = draw.name("a")
            binders[element] = part.to
            names = list(binders)
            now, then = (f"{part.at(v, names[:-1])}.has({names[-1]})" for v in (NOW, THEN))
        else:
            now, then = (part.at(v, list(binders)) for v in (NOW, THEN))
        same = f"iff({now}, {then})" if part.to == BOOL or part.form == "queue" else f"{now} == {then}"
        known = dict(write.binders.items())
        return {**binders, **known}, f"implies({draw.pick((' | ', ' | ', ' & ')).join(differ)}, {same})"

    def _frame(self, done: Done) -> tuple[dict[str, Type], str]:
        """A part of the state is as it was: one that the action leaves alone, mostly."""
        draw = self.draw
        written = {w.part.name for w in done.writes}
        parts = [p for p in self.world.parts if p.form in ("map", "count", "queue", "tally")]
        left = [p for p in parts if not ({p.name} | p.reads) & written]
        part = draw.pick(left if left and draw.chance(0.5) else parts)
        binders = {draw.name("a"): k for k in part.keys}
        now, then = (part.at(v, list(binders)) for v in (NOW, THEN))
        if part.form != "queue":
            return binders, f"iff({now}, {then})" if part.to == BOOL else f"{now} == {then}"
        a, b = draw.name("a"), draw.name("a")
        binders |= {a: part.to, b: part.to}
        question = draw.pick((f"has({a})", f"before({a}, {b})", f"is_first({a})"))
        return binders, f"{draw.pick(('iff', 'implies'))}({then}.{question}, {now}.{question})"

    def _moves(self, part: Part) -> tuple[dict[str, Type], str]:
        """A number never falls, or never rises, or by so much."""
        binders = {self.draw.name("a"): k for k in part.keys}
        now, then = (part.at(v, list(binders)) for v in (NOW, THEN))
        return binders, self.draw.pick(
            (f"{now} >= {then}", f"{now} <= {then}", f"{now} == {then} + 1", f"{now} <= {then} + 1", f"{now} > {then}")
        )

    def _result(self, result: tuple[str, Type], params: dict[str, Type]) -> tuple[dict[str, Type], str] | None:
        """What the action returns."""
        text, kind = result
        if "loop" in text and kind.family == "sort":
            return {}, "result != none"
        if "loop" in text and kind != BOOL:
            return {}, self.draw.pick(("result >= 0", "result <= 2", "result == 2", "result == 0", "result > 0"))
        if kind == BOOL:
            return {}, f"iff(result, {self._seen(text)})"
        if kind.family in ("sort", "index") and self.draw.chance(0.2):
            return {}, "result != none" if kind.family == "sort" else "result >= 0"
        return {}, f"result == {self._seen(text)}"

    def _any_step(self, params: dict[str, Type]) -> tuple[dict[str, Type], str] | None:
        """Anything about the states before and after."""
        draw = self.draw
        binders = {draw.name("a"): draw.pick(self.world.keys) for _ in range(draw.number(0, 1))}
        inside = Expressions(draw, self.world, {**params, **binders}, views=(THEN, NOW))
        text = inside.condition(2)
        return None if text is None or LOOK in text else (binders, text)

    # ------------------------------------------------------------------------------------------------ assumptions

    def assumption(self, kind: str) -> Piece | None:
        """Something that is known of the parameters, or of the first state."""
        draw = self.draw
        params = {draw.name("a"): draw.pick(self.world.keys) for _ in range(draw.number(0, 2))}
        inside = Expressions(
            draw, self.world, params, allowed=lambda p: p.form == "param" if kind == "assume" else p.form != "tally"
        )
        text = inside.condition(1)
        if text is None or LOOK not in text or not any(p.name in text for p in self.world.of("param")):
            return None
        text = text.replace(LOOK, NOW)
        return self._property(f'@{kind}("X")', draw.name(kind), self._used(text, params), text, tag=kind)


def _is_plain(value: str) -> bool:
    """A constant."""
    return LOOK not in value and not re.search(r"\b[a-z]\d+", value) and not re.search(r"loop", value)
