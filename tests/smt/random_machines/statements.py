"""Random actions: what they require, read and write, and a note of each write for the properties that speak of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .choices import Draw
from .expressions import LOOK, Expressions, is_constant, literal
from .facts import loop_facts
from .text import Piece, replaced_names
from .world import BOOL, INT, REAL, Part, Type, World, bare
from .writes import Write

__all__ = ["ActionWriter", "Helper"]


@dataclass
class Helper:
    """A method that actions call, and what it writes, in terms of its parameters."""

    name: str
    params: dict[str, Type]
    writes: list[Write]


@dataclass
class ActionWriter:
    """Writes the body of one action (or helper)."""

    draw: Draw
    world: World
    params: dict[str, Type]
    helpers: list[Helper] = field(default_factory=list)
    is_helper: bool = False
    body: list[Piece] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    result: tuple[str, Type] | None = None

    def __post_init__(self) -> None:
        self.names = dict(self.params)
        self.block = self.body
        self.path: list[str] = []
        self.binders: dict[str, Type] = {}
        self.definitions: dict[str, str] = {}
        self.has_written = self.is_helper
        self.inside = ""
        """``when``, ``each`` or ``loop``: the outermost block."""
        self.closed: frozenset[str] = frozenset()
        """What a round of `each` writes, which no other round may look at."""

    # ------------------------------------------------------------------------------------------------ the whole body

    def write_body(self, most: int = 4) -> None:
        """Statements, and now and then a result."""
        self.write_statements(most)
        for name in [p.name for p in self.world.parts if p.scratch and not self.is_helper]:
            if self.draw.chance(0.85) and any(w.part.name == name for w in self.writes):
                self._reset(self.world.part(name))
        if self.draw.has("result") and not self.is_helper and self.draw.chance(0.6):
            self._return()

    def write_statements(self, most: int) -> None:
        """A few statements."""
        for _ in range(self.draw.number(1, most)):
            self.statement()

    def condition(self) -> str | None:
        """Something that the action may require."""
        text = self._expressions().condition(2)
        return None if text is None or LOOK not in text else text

    def _reset(self, part: Part) -> None:
        """Scratch is back at its first value."""
        if part.init is None:
            return
        if not part.keys:
            self._put_assign(part, [], part.init)
            return
        with self._each(part.keys) as binders:
            self._put_assign(part, binders, part.init)

    def _return(self) -> None:
        kind = self.draw.pick([BOOL, INT, *[t for t in self.world.types if t.family in ("sort", "index")]])
        rounds = [n for n in self.names if n.endswith(".rounds")]
        text = self.draw.pick(rounds) if rounds and self.draw.chance(0.5) else self._expressions().of(kind, 2)
        if text is None or is_constant(text):
            return
        if text in rounds:
            kind = INT
        name = self._local(text, kind)
        self.body.append(Piece(f"return {name}", tag="result"))
        self.result = (self.definitions[name], kind)

    # ------------------------------------------------------------------------------------------------ statements

    def statement(self, depth: int = 2) -> None:
        """One statement of any kind."""
        draw = self.draw
        options: list[tuple[float, Callable[[], None]]] = [(5.0, self.assign)]
        if any(p.scratch for p in self.world.parts):
            options.append((1.5, lambda: self.assign(scratch=True)))
        if self.world.of("queue") and not self.closed:
            options.append((4.0, self.queue_operation))
        if depth:
            options.append((1.5, lambda: self.when(depth - 1)))
            if draw.has("each") and self.inside in ("", "loop") and not self.closed:
                options.append((2.5, self.each))
            if draw.has("loop") and not self.inside and not self.is_helper:
                options.append((2.5, lambda: self.loop(depth - 1)))
        if self.world.of("tally") and not self.closed:
            options.append((1.5, self.tally))
        if self.world.of("event"):
            options.append((1.0, self.emit))
        if self.helpers and not self.closed and not self.is_helper:
            options.append((3.0, self.call))
        options.append((0.7, self.let))
        draw.weighted(options)

    def let(self) -> None:
        """A value that is read now and used later."""
        kind = self.draw.pick([BOOL, INT, INT, *self.world.sorts])
        text = self._expressions().of(kind, 1)
        if text is not None and not is_constant(text) and LOOK in text:
            self._local(text, kind)

    def assign(self, *, scratch: bool = False) -> None:
        """Write one entry of a map."""
        parts = [p for p in self.world.of("map") if p.scratch == scratch and not p.heard]
        if not parts:
            return
        part = self.draw.pick(parts)
        keys, conditions = self._keys(part.keys)
        if keys is None:
            return
        value = self._value(part, keys)
        if value is None:
            return
        text, more = value
        with self._under([*conditions, *more]):
            self._put_assign(part, keys, text)

    def _put_assign(self, part: Part, keys: list[str], value: str) -> None:
        self._put(Piece(f"{part.at(LOOK, keys)} = {value}", tag="assign"))
        self._note("assign", part, keys, value)

    def queue_operation(self) -> None:
        """Put something into a queue, or take something out."""
        draw, queue = self.draw, self.draw.pick(self.world.of("queue"))
        keys, conditions = self._keys(queue.keys)
        if keys is None:
            return
        named = queue.at(LOOK, keys)
        if draw.chance(0.25):
            self._take_end(queue, named, keys, conditions)
            return
        element, more = self._key(queue.to)
        if element is None or element.isdigit():  # a number is no element of a queue
            return
        conditions = [*conditions, *more]
        if draw.chance(0.4):
            with self._under([*conditions, f"{named}.has({element})"]):
                self._put(Piece(f"{named}.remove({element})", tag="remove"))
                self._note("remove", queue, keys, element)
            return
        conditions.append(f"~{named}.has({element})")
        where = draw.pick(("back", "back", "front", "before"))
        anchor, more = self._key(queue.to) if where == "before" else ("", [])
        if anchor is None or anchor.isdigit():
            return
        if where == "before":
            conditions += [*more, f"{named}.has({anchor})"]
        given = f"{anchor}, {element}" if anchor else element
        with self._under(conditions):
            self._put(Piece(f"{named}.push_{where}({given})", tag=where))
            self._note(where, queue, keys, element, anchor)

    def _take_end(self, queue: Part, named: str, keys: list[str], conditions: list[str]) -> None:
        """The head or tail, and what is done with it."""
        end = self.draw.pick(("head", "tail"))
        with self._under([*conditions, f"~{named}.is_empty()"]):
            name = self._local(f"{named}.{end}()", queue.to)
            if self.draw.chance(0.7):
                self._put(Piece(f"{named}.remove({name})", tag="remove"))
                self._note("remove", queue, keys, name)
                if self.draw.chance(0.3):
                    self._put(Piece(f"{named}.push_back({name})", tag="back"))
                    self._note("back", queue, keys, name)
            else:
                self.assign()

    def tally(self) -> None:
        """Count something more."""
        part = self.draw.pick(self.world.of("tally"))
        keys, conditions = self._keys(part.keys)
        amount = self.draw.pick(("1", "1", "2")) if self.draw.chance(0.8) else self._expressions().integer(1)
        if keys is None or amount is None:
            return
        with self._under(conditions):
            self._put(Piece(f"{LOOK}.{part.name}.add({', '.join([amount, *keys])})", tag="tally"))
            self._note("tally", part, keys, amount)

    def emit(self) -> None:
        """Report an event."""
        part = self.draw.pick(self.world.of("event"))
        args = [self._expressions().of(k, 1) for k in part.keys]
        if all(a is not None for a in args):
            self._put(Piece(f"{LOOK}.{part.name}({', '.join(a for a in args if a is not None)})", tag="emit"))

    def call(self) -> None:
        """A helper does it."""
        helper = self.draw.pick(self.helpers)
        args: dict[str, str] = {}
        for name, kind in helper.params.items():
            text = self._expressions().element(kind, 0) if kind.family in ("sort", "index") else None
            text = text or self._expressions().of(kind, 1)
            if text is None:
                return
            args[name] = text
        self._put(Piece(f"{LOOK}.{helper.name}({', '.join(args.values())})", tag="call"))
        plain = {n: f"({self._plain(a)})" for n, a in args.items()}
        for w in helper.writes:
            self.writes.append(
                w.renamed(plain, path=[self._plain(c) for c in self.path], in_loop=self.inside == "loop")
            )

    # ------------------------------------------------------------------------------------------------ blocks

    def when(self, depth: int) -> None:
        """Both ways of a condition; sometimes something is read in between."""
        condition = self._expressions().condition(1)
        if condition is None or condition in ("True", "False"):
            return
        with self._when(condition):
            self._several(depth, self.draw.number(1, 2))
        if not self.draw.chance(0.45):
            return
        if self.draw.chance(0.3):
            self.let()
        with self._block(Piece("with otherwise():", [], tag="otherwise")), self._on_path(f"~({condition})"):
            self._several(depth, 1)

    def _several(self, depth: int, number: int) -> None:
        for _ in range(number):
            self.statement(depth)

    def each(self) -> None:
        """Something for every element at once: mostly entries that are each round's own."""
        draw = self.draw
        parts = [p for p in self.world.of("map") if p.keys and not p.heard]
        if not parts:
            return
        main = draw.pick(parts)
        if draw.looks_back and draw.chance(0.5):
            (queue,) = self.world.of("queue")
            main = next(p for p in parts if p.keys == queue.keys)
        number = len(main.keys) if len(main.keys) == 2 and draw.chance(0.5) else 1
        spots = sorted(draw.random.sample(range(len(main.keys)), number))
        with self._each(tuple(main.keys[i] for i in spots)) as binders:
            keys: list[str] = []
            for i, kind in enumerate(main.keys):
                known = binders[spots.index(i)] if i in spots else None
                if known is None and draw.chance(0.25) and kind in self.binders.values():
                    known = next(n for n, k in self.binders.items() if k == kind)  # the diagonal
                text = known if known is not None and draw.chance(0.97) else self._expressions().key(kind)
                if text is None:
                    return
                keys.append(text)
            self.closed = frozenset([main.name]) if draw.chance(0.9) else frozenset(["?"])
            condition = self._expressions().condition(1) if draw.chance(0.5) else None
            if condition is not None and LOOK in condition:
                with self._when(condition):
                    self._own_write(main, keys)
            else:
                self._own_write(main, keys)
            if draw.looks_back and draw.chance(0.7):
                self._read_back(main, keys)
                self._own_write(main, keys)
            others = [p for p in self.world.of("map") if p.keys == main.keys and p is not main and not p.heard]
            if others and draw.chance(0.4):
                other = draw.pick(others)
                self.closed |= {other.name}
                self._own_write(other, keys)
            self._each_queue(binders)

    def _own_write(self, part: Part, keys: list[str]) -> None:
        value = self._value(part, keys)
        if value is not None:
            text, conditions = value
            with self._under(conditions):
                self._put_assign(part, keys, text)

    def _read_back(self, part: Part, keys: list[str]) -> None:
        """What this round has written has a name, and may be used from here on."""
        written = [w for w in self.writes if w.part is part]
        if not written:
            return
        name = self._local(part.at(LOOK, keys), part.to, stem="back")
        if not written[-1].path or self.draw.chance(0.2):  # properties say of it what was written
            self.definitions[name] = f"({written[-1].value})"

    def _each_queue(self, binders: list[str]) -> None:
        """A queue of its own for each key, or all members taken out."""
        queues = [q for q in self.world.of("queue") if self.draw.chance(0.9 if self.draw.looks_back else 0.3)]
        if not queues or len(binders) != 1:
            return
        queue, (binder,) = self.draw.pick(queues), binders
        kind = self.binders[binder]
        if queue.keys and queue.keys[0] == kind:
            element, more = self._key(queue.to)
            if element is not None and not element.isdigit():
                named = queue.at(LOOK, [binder])
                with self._under([*more, f"~{named}.has({element})"]):
                    self._put(Piece(f"{named}.push_back({element})", tag="back"))
                    self._note("back", queue, [binder], element)
                    if self.draw.looks_back:
                        self._ask_back(queue, named, binder, element)
        elif not queue.keys and queue.to == kind:
            with self._under([f"{queue.at(LOOK)}.has({binder})"]):
                self._put(Piece(f"{queue.at(LOOK)}.remove({binder})", tag="remove"))
                self._note("remove", queue, [], binder)

    def _ask_back(self, queue: Part, named: str, binder: str, element: str) -> None:
        """The round asks its own queue, into which it has pushed, and perhaps takes something out and asks again."""
        draw = self.draw
        if draw.chance(0.3):
            out = draw.pick((element, self._local(f"{named}.head()", queue.to)))
            self._put(Piece(f"{named}.remove({out})", tag="remove"))
            self._note("remove", queue, [binder], out)
        asked = {f"{named}.size": INT, f"{named}.has({element})": BOOL, f"{named}.is_first({element})": BOOL}
        text = draw.pick(list(asked))
        name = self._local(text, asked[text], stem="back")
        if asked[text] == INT:
            self.definitions[name] = f"({self._plain(text)} {draw.pick(('+ 1', '+ 1', '- 1', '+ 0'))})"
        keys = (self.binders[binder],)
        for part in [p for p in self.world.of("map") if p.keys == keys and p.to == asked[text] and not p.heard][:2]:
            self.closed |= {part.name}
            self._put_assign(part, [binder], name)

    def loop(self, depth: int) -> None:
        """Rounds, one after the other, and what is said to hold between them."""
        draw = self.draw
        count = draw.pick(("1", "2", "2", "3")) if draw.chance(0.6) else self._expressions().integer(1)
        if count is None:
            return
        name, facts = draw.name("loop"), draw.name("facts")
        more: list[str] = []
        if draw.chance(0.3):
            i = draw.name("q")
            going = self._expressions().knowing(**{i: Type("Index", "index")}).condition(1)
            if going is not None and (LOOK in going or i in going):
                more.append(f", going=lambda {i}: {going}")
        table = Piece(f"{facts} = lambda i, entry: {{", [], closing="}", tag="facts")
        opened = Piece(f"with {LOOK}.loop({count}{''.join(more)}, facts={facts}) as {name}:", [], tag="loop")
        self.block.append(table)
        first = len(self.writes)
        outer, self.inside = self.inside, "loop"
        with self._block(opened):
            self.names[f"{name}.index"] = Type("Index", "index")
            self._several(depth, draw.number(1, 3))
        self.inside = outer
        self.names[f"{name}.rounds"] = INT
        table.inside = loop_facts(draw, self.world, self.writes[first:], f"{name}.index", self._expressions())

    # ------------------------------------------------------------------------------------------------ keys and values

    def _keys(self, kinds: tuple[Type, ...]) -> tuple[list[str] | None, list[str]]:
        keys: list[str] = []
        conditions: list[str] = []
        for kind in kinds:
            key, more = self._key(kind)
            if key is None:
                return None, []
            keys.append(key)
            conditions += more
        return keys, conditions

    def _key(self, kind: Type) -> tuple[str | None, list[str]]:
        """A key, and the conditions under which it is one."""
        draw, expressions = self.draw, self._expressions()
        names = [n for n, t in self.names.items() if kind.takes(t)]
        if names and draw.chance(0.7):
            return draw.pick(names), []
        loose = [p for p in self.world.parts if expressions.allowed(p) and p.is_value and kind.may_take(p.to)]
        if loose and draw.chance(0.7) and kind.family in ("sort", "index"):
            part = draw.pick(loose)
            text = expressions.read(part, 0)
            if text is not None:
                return self._fitted(text, part.to, kind)
        if names:
            return draw.pick(names), []
        return expressions.key(kind), []

    def _fitted(self, text: str, given: Type, wanted: Type) -> tuple[str, list[str]]:
        """A value under a name, and the conditions under which it fits."""
        name = self._local(text, given)
        conditions = []
        if given.optional and not wanted.optional:
            conditions.append(f"{name} != none")
            self.names[name] = bare(given)
        if set(given.extra) - set(wanted.extra):
            conditions += [f'{name} != {given.name}.named("{x}")' for x in given.extra]
        if wanted.family == "index" and given.family == "int":
            conditions.append(f"{name} >= 0")
        return name, conditions

    def _value(self, part: Part, keys: list[str]) -> tuple[str, list[str]] | None:
        """What is written, and the conditions under which it may be."""
        draw, old, to = self.draw, part.at(LOOK, keys), part.to
        expressions = self._expressions(also=part.name if self.closed and draw.chance(0.3) else "")
        if to in (INT, REAL) and draw.chance(0.45):
            amount = str(literal(draw, to)) if draw.chance(0.3) else "1"
            return f"{old} {draw.pick(('+', '+', '-'))} {amount}", []
        if to == BOOL:
            constant = draw.pick(("True", "False"))
            text = draw.weighted(
                [(3.0, lambda: constant), (0.6, lambda: f"~{old}"), (2.0, lambda: expressions.condition(2))]
            )
            return None if text is None else (text, [])
        if to.family == "index" and draw.chance(0.4):
            if to.optional:
                name, conditions = self._fitted(old, to, bare(to))
                return f"{name}", conditions
            return draw.pick(((f"{old} + 1", []), (f"{old} - 1", [f"{old} > 0"])))
        loose = [p for p in self.world.parts if expressions.allowed(p) and p.is_value and to.may_take(p.to)]
        loose = [p for p in loose if not to.takes(p.to) or to.family not in ("sort", "index")]
        if loose and to.family in ("sort", "index") and draw.chance(0.4):
            source = draw.pick(loose)
            read = expressions.read(source, 0)
            if read is not None:
                return self._fitted(read, source.to, to)
        text = expressions.of(to, 2)
        return None if text is None else (text, [])

    # ------------------------------------------------------------------------------------------------ small tools

    def _expressions(self, *, also: str = "") -> Expressions:
        closed = self.closed - {also}

        def allowed(part: Part) -> bool:
            return part.form != "tally" and part.name not in closed and not (part.reads & closed)

        return Expressions(self.draw, self.world, self.names, allowed=allowed)

    def _put(self, piece: Piece) -> None:
        self.block.append(piece)
        self.has_written = True

    def _note(self, kind: str, part: Part, keys: list[str], value: str, anchor: str = "") -> None:
        self.writes.append(
            Write(
                kind,
                part,
                tuple(map(self._plain, keys)),
                self._plain(value),
                self._plain(anchor),
                tuple(map(self._plain, self.path)),
                dict(self.binders),
                self.inside == "loop",
            )
        )

    def _local(self, text: str, kind: Type, *, stem: str = "v") -> str:
        name = self.draw.name(stem)
        self.block.append(Piece(f"{name} = {text}", tag="let"))
        self.definitions[name] = f"({self._plain(text)})"
        self.names[name] = kind
        return name

    def _plain(self, text: str) -> str:
        """The text without names of values: each is what it was read from."""
        return replaced_names(text, self.definitions)

    @contextmanager
    def _under(self, conditions: list[str]) -> Iterator[None]:
        """Where the conditions hold, or require them; now and then one is forgotten."""
        wanted = [c for c in conditions if self.draw.chance(0.95)]
        if not wanted:
            yield
            return
        text = " & ".join(f"({c})" for c in wanted)
        if not self.has_written and not self.inside and self.draw.chance(0.6):
            self.block.append(Piece(f"{LOOK}.require({text})", tag="require"))
            yield
            return
        with self._when(text):
            yield

    @contextmanager
    def _when(self, condition: str) -> Iterator[None]:
        with self._block(Piece(f"with when({condition}):", [], tag="when")), self._on_path(condition):
            yield

    @contextmanager
    def _on_path(self, condition: str) -> Iterator[None]:
        self.path.append(condition)
        yield
        self.path.pop()

    @contextmanager
    def _block(self, piece: Piece) -> Iterator[None]:
        """Statements inside of a block: what is read there has no name outside."""
        self._put(piece)
        outer, names, inside = self.block, dict(self.names), self.inside
        self.inside = self.inside or "when"
        assert piece.inside is not None
        self.block = piece.inside
        yield
        self.block, self.names, self.inside = outer, names, inside

    @contextmanager
    def _each(self, kinds: tuple[Type, ...]) -> Iterator[list[str]]:
        binders = [self.draw.name("b") for _ in kinds]
        shown = f"({', '.join(binders)})" if len(binders) > 1 else binders[0]
        piece = Piece(f"with {LOOK}.each({', '.join(k.name for k in kinds)}) as {shown}:", [], tag="each")
        with self._block(piece):
            known = dict(zip(binders, kinds, strict=True))
            outer, closed = self.binders, self.closed
            self.binders = {**outer, **known}
            self.names = {**self.names, **known}
            inside, self.inside = self.inside, self.inside if self.inside == "loop" else "each"
            yield binders
            self.binders, self.closed, self.inside = outer, closed, inside
