"""Facts of loops, right and wrong ones: what is said to hold before every round and at the end."""

from __future__ import annotations

from collections.abc import Callable

from .choices import Draw
from .expressions import LOOK, Expressions
from .text import Piece, replaced_names
from .world import INT, REAL, Part, World
from .writes import Write

__all__ = ["loop_facts"]

NOW, ENTRY = LOOK, "entry"


def loop_facts(draw: Draw, world: World, writes: list[Write], index: str, expressions: Expressions) -> list[Piece]:
    """Some facts of a loop whose rounds write this; ``i`` is the number of rounds done."""
    texts: list[str] = []
    for write in {w.part.name: w for w in writes}.values():
        mine = [w for w in writes if w.part is write.part]
        for _ in range(draw.number(1, 2)):
            if (text := _about(draw, world, mine, index)) is not None:
                texts.append(text)
    if draw.chance(0.3):
        inside = Expressions(
            draw,
            world,
            {"i": INT},
            allowed=lambda p: True,
            views=(NOW, NOW, ENTRY),
            quantifiers=expressions.quantifiers,
        )
        if (text := inside.condition(2)) is not None:
            texts.append(text)
    return [Piece(f'"{(name := draw.name("fact"))}": {t},', tag="fact", name=name) for t in dict.fromkeys(texts)]


def _about(draw: Draw, world: World, writes: list[Write], index: str) -> str | None:
    """Something about what the rounds do to one part of the state."""
    write, part = writes[-1], writes[-1].part
    options: list[tuple[float, Callable[[], str | None]]] = [(1.0, lambda: _unchanged(draw, part))]
    if part.to in (INT, REAL) and part.form != "queue":
        options.append((2.0, lambda: _in_steps(draw, part, writes)))
        options.append((1.0, lambda: _compared(draw, part, draw.pick((">=", "<=")))))
    if write.kind == "assign":
        options.append((2.0, lambda: _after_one(draw, write, index)))
        options.append((1.0, lambda: _written_so_far(draw, write, index)))
    counts = [c for c in world.of("count") if part.name in c.reads]
    if counts:
        options.append((1.5, lambda: _unchanged(draw, draw.pick(counts))))
    return draw.weighted(options)


def _entries(draw: Draw, part: Part) -> tuple[list[str], str]:
    """Names for any entry, and the start of the text that says so."""
    kinds = [*part.keys, *([part.to] if part.form == "queue" else [])]
    names = [draw.name("q") for _ in kinds]
    start = f"forall({', '.join(k.name for k in kinds)}, lambda {', '.join(names)}: " if kinds else "("
    return names, start


def _unchanged(draw: Draw, part: Part) -> str:
    names, start = _entries(draw, part)
    return f"{start}{_same(part, names)})"


def _same(part: Part, names: list[str]) -> str:
    if part.form == "queue":
        now, then = (f"{part.at(view, names[:-1])}.has({names[-1]})" for view in (NOW, ENTRY))
        return f"iff({now}, {then})"
    return f"{part.at(NOW, names)} == {part.at(ENTRY, names)}"


def _compared(draw: Draw, part: Part, sign: str) -> str:
    names, start = _entries(draw, part)
    return f"{start}{part.at(NOW, names)} {sign} {part.at(ENTRY, names)})"


def _in_steps(draw: Draw, part: Part, writes: list[Write]) -> str:
    """It grows by the same in every round."""
    names, start = _entries(draw, part)
    by = draw.pick(("+ i", "+ i", "- i", "+ 2 * i", "+ i + 1"))
    return f"{start}{part.at(NOW, names)} == {part.at(ENTRY, names)} {by})"


def _after_one(draw: Draw, write: Write, index: str) -> str | None:
    """After the first round the entry is what every round writes there."""
    texts = (*write.keys, write.value, *write.path)
    if any(index in t for t in texts) or write.binders:
        return None
    guard = draw.pick(("i > 0", "i > 0", "i >= 0"))
    seen = write.value.replace(LOOK, draw.pick((NOW, ENTRY)))
    condition = " & ".join([guard.join("()"), *(f"({c})".replace(LOOK, ENTRY) for c in write.path)])
    return f"implies({condition}, {write.part.at(NOW, [k.replace(LOOK, ENTRY) for k in write.keys])} == {seen})"


def _written_so_far(draw: Draw, write: Write, index: str) -> str | None:
    """The entries below the round's number are written."""
    spots = [n for n, k in enumerate(write.keys) if k == index]
    if not spots or write.binders:
        return None
    kind = write.part.keys[spots[0]]
    j = draw.name("q")
    renamed = [replaced_names(k, {index: j}).replace(LOOK, ENTRY) for k in write.keys]
    value = replaced_names(write.value, {index: j}).replace(LOOK, ENTRY)
    sign = draw.pick(("<", "<", "<="))
    return f"forall({kind.name}, lambda {j}: implies({j} {sign} i, {write.part.at(NOW, renamed)} == {value}))"
