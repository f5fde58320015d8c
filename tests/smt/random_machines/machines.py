"""Whole random machines: from a seed to a text."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from kvproof.machine import MachineError, Model

from .choices import Draw
from .declarations import Declarations, draw_types, sorts_text
from .expressions import LOOK, Signature
from .loading import load
from .properties import Done, Properties
from .statements import ActionWriter, Helper
from .text import Piece, lines, pieces, replaced_names
from .world import BOOL, INT, Part, Type, World

__all__ = ["MachineText", "draw_machine"]

HEADER = ("from fractions import Fraction", "from kvproof.machine import *", "")


@dataclass
class MachineText:
    """The text of a machine: sorts, a class ``M``, and perhaps a class ``S`` that extends it."""

    seed: int | str
    features: frozenset[str]
    classes: list[Piece]
    sorts: list[str] = field(default_factory=list)

    @property
    def main(self) -> str:
        """The name of the class that the text is about."""
        return self.classes[-1].text.split()[1].split("(")[0]

    @property
    def source(self) -> str:
        """The whole text."""
        body = "\n".join(line for line, _ in lines(self.classes)).replace(LOOK, "self")
        return "\n".join([*HEADER, *self.sorts, "", body, ""])

    def of_kind(self, *tags: str) -> list[Piece]:
        """The pieces of these kinds."""
        return [p for p in pieces(self.classes) if p.tag in tags]

    def at_line(self, number: int) -> Piece | None:
        """The piece that stands in this line of the source, from 1 on."""
        first = len(HEADER) + len(self.sorts) + 2
        for line, (_, piece) in enumerate(lines(self.classes), first):
            if line == number:
                return piece
        return None

    def without(self, *unwanted: Piece) -> MachineText:
        """The same text, less these pieces."""
        gone = set(map(id, unwanted))

        def left(some: list[Piece]) -> list[Piece]:
            kept = [p for p in some if id(p) not in gone]
            return [p if p.inside is None else _with_inside(p, left(p.inside)) for p in kept]

        return MachineText(self.seed, self.features, left(self.classes), self.sorts)


def _listener(event: Part) -> Piece:
    head, *body = event.listener
    return Piece(head, [Piece(line) for line in body], tag="listener", name=event.name)


def _with_inside(piece: Piece, inside: list[Piece]) -> Piece:
    fresh = copy.copy(piece)
    fresh.inside = inside
    return fresh


TRIES = 20
"""As often a machine is drawn for a seed."""


def draw_machine(seed: int | str) -> MachineText:
    """The machine of this seed.

    Another is drawn where a quantifier has a part that does not speak of what it binds, or where nothing is made of a
    condition (`unnamed.py` and `lost.py` refuse that).
    """
    for again in range(TRIES):
        text = without_idle(_without_unread(_Author(Draw(f"{seed}, {again}" if again else seed), seed).write()))
        if _is_refused_for(text, ("of which that does not speak", *_IDLE)) is None:
            break
    return text


_IDLE = ("so what it says would be lost", "is never read again")


def without_idle(text: MachineText) -> MachineText:
    """The text without names that are given what nothing is made of (`lost.py` and `unread.py` refuse that), but where
    such a name is all of a block."""
    while (number := _is_refused_for(text, _IDLE)) is not None:
        piece = text.at_line(number)
        blocks = [p.inside for p in pieces(text.classes) if p.inside is not None and len(p.inside) > 1]
        if piece is None or piece.tag != "let" or not any(piece is each for block in blocks for each in block):
            break
        text = text.without(piece)
    return text


def _without_unread(text: MachineText) -> MachineText:
    """The text without what it gives a name and never uses, but where that is all of a block."""
    names = Counter(re.findall(r"\w+", text.source))
    blocks = [p.inside for p in pieces(text.classes) if p.inside is not None and len(p.inside) > 1]
    unread = [[p for p in block if p.tag == "let" and names[p.text.partition(" ")[0]] == 1][:1] for block in blocks]
    return _without_unread(text.without(*chain.from_iterable(unread))) if any(unread) else text


def _is_refused_for(text: MachineText, said: Sequence[str]) -> int | None:
    """The line that the language refuses, if it says one of these things of it."""
    try:
        Model.of(load(text.source, text.main))
    except MachineError as error:
        return error.line.number if any(each in str(error) for each in said) else None
    except (NameError, ZeroDivisionError):
        return None
    return None


class _Author:
    """Writes one machine."""

    def __init__(self, draw: Draw, seed: int | str) -> None:
        self.draw, self.seed = draw, seed
        self.world = World(draw_types(draw))
        self.declarations = Declarations(draw, self.world)
        self.helpers: list[Helper] = []
        self.done: list[Done] = []
        self.bodies: dict[str, list[Piece]] = {}

    def write(self) -> MachineText:
        self.declarations.everything()
        base = Piece("class M(Machine):", self._state(0), tag="class", name="M")
        assert base.inside is not None
        base.inside += [_listener(p) for p in self.world.of("event") if p.listener]
        if self.draw.has("helper"):
            base.inside += [self._helper() for _ in range(self.draw.number(1, 2))]
        base.inside += [self._action() for _ in range(self.draw.number(1, 3))]
        base.inside += self._properties(6)
        classes = [base]
        if self.draw.has("inherit"):
            classes.append(self._subclass())
        return MachineText(self.seed, self.draw.features, classes, sorts_text(self.world.types))

    def _state(self, first: int) -> list[Piece]:
        return [Piece(f"{p.name} = {p.text}", tag="part", name=p.name) for p in self.world.parts[first:]]

    def _properties(self, most: int) -> list[Piece]:
        return Properties(self.draw, self.world, self.done, "M", can=self.draw.has("can")).everything(most)

    # ------------------------------------------------------------------------------------------------ methods

    def _params(self, most: int) -> dict[str, Type]:
        kinds = [k for k in self.world.keys for _ in range(3)] + [INT, BOOL]
        return {self.draw.name("n"): self.draw.pick(kinds) for _ in range(self.draw.number(0, most))}

    @staticmethod
    def _head(name: str, params: dict[str, Type]) -> str:
        return f"def {name}({', '.join(['self', *(f'{n}: {k.name}' for n, k in params.items())])}):"

    def _helper(self) -> Piece:
        name, params = self.draw.name("help"), self._params(1)
        writer = ActionWriter(self.draw, self.world, params, is_helper=True)
        writer.write_body(2)
        self.helpers.append(Helper(name, params, writer.writes))
        return Piece(self._head(name, params), writer.body, tag="helper", name=name)

    def _action(self) -> Piece:
        name, params = self.draw.name("act"), self._params(2)
        writer = ActionWriter(self.draw, self.world, params, self.helpers)
        if self.draw.chance(0.35):
            condition = writer.condition()
            if condition is not None:
                writer.body.append(Piece(f"{LOOK}.require({condition})", tag="require"))
        writer.write_body()
        self.done.append(Done(Signature(name, tuple(params.items())), writer.writes, writer.result))
        self.bodies[name] = writer.body
        return self._as_action(name, params, writer.body)

    def _as_action(self, name: str, params: dict[str, Type], body: list[Piece]) -> Piece:
        return Piece(self._head(name, params), body, tag="action", name=name, more=['@action("X")'])

    # ------------------------------------------------------------------------------------------------ inheritance

    def _subclass(self) -> Piece:
        first = len(self.world.parts)
        if self.draw.chance(0.6):
            self.declarations.more()
        made = Piece("class S(M):", self._state(first), tag="class", name="S")
        assert made.inside is not None
        for helper in self.helpers:
            if self.draw.chance(0.4):
                made.inside.append(self._other_helper(helper))
        for place in range(len(self.done)):
            if self.draw.chance(0.6):
                made.inside.append(self._other_action(place))
        if self.draw.chance(0.3):
            made.inside.append(self._action())
        made.inside += self._properties(3) if self.draw.chance(0.7) else []
        return made

    def _other_helper(self, helper: Helper) -> Piece:
        writer = ActionWriter(self.draw, self.world, helper.params, is_helper=True)
        above = Piece(f"super().{helper.name}({', '.join(helper.params)})", tag="call")
        if self.draw.chance(0.7):
            writer.body.append(above)
        writer.write_body(2)
        return Piece(self._head(helper.name, helper.params), writer.body, tag="helper", name=helper.name)

    def _other_action(self, place: int) -> Piece:
        """The action once more: with more around it, or with something changed."""
        done = self.done[place]
        name, params = done.signature.name, dict(done.signature.params)
        if self.draw.chance(0.5):
            body = self._changed(copy.deepcopy(self.bodies[name]), params)
            return self._as_action(name, params, body)
        writer = ActionWriter(self.draw, self.world, params, self.helpers)
        if self.draw.chance(0.4) and (condition := writer.condition()) is not None:
            writer.body.append(Piece(f"{LOOK}.require({condition})", tag="require"))
        returned = self.draw.name("v")
        writer.body.append(Piece(f"{returned} = super().{name}({', '.join(params)})", tag="call"))
        writer.has_written = True
        writer.write_statements(2)
        if done.result is not None:
            writer.body.append(Piece(f"return {returned}", tag="result"))
        self.done[place] = Done(done.signature, [*done.writes, *writer.writes], done.result)
        return self._as_action(name, params, writer.body)

    def _changed(self, body: list[Piece], params: dict[str, Type]) -> list[Piece]:
        """The body with something left out, twice, elsewhere or otherwise."""
        draw = self.draw
        for _ in range(draw.number(1, 2)):
            blocks = [body, *(p.inside for p in pieces(body) if p.inside)]
            block = draw.pick(blocks)
            if not block:
                continue
            at = draw.number(0, len(block) - 1)
            change = draw.number(0, 4)
            if change == 0:
                del block[at]
            elif change == 1:
                block.insert(draw.number(0, len(block)), block.pop(at))
            elif change == 2:
                block.insert(at, copy.deepcopy(block[at]))
            elif change == 3:
                number = r"(?<!\d, )\b[012]\b"  # but no denominator, which must not become 0
                block[at].text = re.sub(number, lambda _: draw.pick(("0", "1", "2")), block[at].text, count=1)
            else:
                same = [(a, b) for a, x in params.items() for b, y in params.items() if a != b and x == y]
                if same:
                    a, b = draw.pick(same)
                    block[at].text = replaced_names(block[at].text, {a: b})
        return body
