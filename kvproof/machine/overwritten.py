"""What a text says, and what something else takes the place of before anybody reads it.

Python lets a name be bound anew, and a key stand twice in a dict, without a word. Of two claims that are both named
``ok``, or both stand under one name of a loop's facts, the first would be lost.
"""

from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import CodeType

from .instructions import CALLS, names_of, numbers_for, numbers_of, place, steps_of, with_those_inside

__all__ = ["is_bound_anew", "keys_that_stand_twice", "overwritten_values"]


def keys_that_stand_twice(code: CodeType) -> Iterator[tuple[int, str]]:
    """The lines, and what is wrong there; also in what is defined inside."""
    for one in with_those_inside(code):
        if _DICT in numbers_of(one):
            for keys, made in pairwise(steps_of(one)):
                twice = _twice(keys.argval) if made.opname == _DICT_MAKER else ()
                for key in twice:
                    text = f"{key!r} stands twice in this dict, and the second would replace the first: give it another"
                    yield place(one, made)[0], text


_DICT_MAKER = "BUILD_CONST_KEY_MAP"
"""What has keys that are plain text; Python 3.14 makes such dicts as any others, and they are not looked at."""

_DICT = dis.opmap.get(_DICT_MAKER, 0)


def _twice(keys: Sequence[object]) -> list[object]:
    return [key for key, number in Counter(keys).items() if number > 1]


def overwritten_values(code: CodeType) -> Iterator[tuple[int, str]]:
    """The same of names in a property, of which something is to be returned."""
    for one in with_those_inside(code):
        steps = steps_of(one)
        for i, (step, after) in enumerate(pairwise(steps)):
            if not after.opname.startswith("STORE_FAST") or step.opcode not in _VALUES:
                continue
            name, *read = names_of(after)  # Python 3.13 reads another name in the same instruction
            if name in read or str(name).startswith("_"):
                continue
            if is_bound_anew(steps[i + 2 :], name):
                yield place(one, after)[0], f"{name} is bound anew before anybody reads it: what it says would be lost"
            elif _is_kept_by_a_loop(steps, i + 1):
                text = f"of {name} a loop keeps the last alone: put them into a list, as for `all_of`"
                yield place(one, after)[0], text


_VALUE_MAKERS = ("COMPARE_OP", "CONTAINS_OP", "BINARY_OP", "BINARY_SUBSCR", "UNARY_INVERT")
_VALUES = numbers_for(_VALUE_MAKERS.__contains__) + CALLS


def is_bound_anew(behind: Sequence[dis.Instruction], name: object) -> bool:
    """The name is bound anew right on the way, where the code does not branch, before anybody reads it."""
    for step in behind:
        if step.is_jump_target or "JUMP" in step.opname or step.opname == "FOR_ITER":
            return False
        if "_FAST" in step.opname and name in names_of(step):
            return step.opname.startswith("STORE_FAST") and name not in names_of(step)[1:]
    return False


def _is_kept_by_a_loop(steps: Sequence[dis.Instruction], i: int) -> bool:
    """The name that is bound here is bound in each round of a loop without branches, and read behind it only."""
    name, loop = names_of(steps[i])[0], _loop_around(steps, i)
    if loop is None:
        return False
    end = steps[loop].argval
    inside = [step for step in steps[loop + 1 :] if step.offset < end]
    branches = [step for step in inside[:-1] if "JUMP" in step.opname or step.opname in ("FOR_ITER", "RETURN_VALUE")]
    reads = [step.offset for step in steps if "_FAST" in step.opname and name in _read_by(step)]
    is_read_inside = any(inside[0].offset <= offset < end for offset in reads)
    return not branches and not is_read_inside and any(offset >= end for offset in reads)


def _read_by(step: dis.Instruction) -> tuple[object, ...]:
    names = names_of(step)
    return names[1:] if step.opname.startswith("STORE") else names


def _loop_around(steps: Sequence[dis.Instruction], i: int) -> int | None:
    """The innermost loop in which this instruction stands."""
    loops = [j for j in range(i) if steps[j].opname == "FOR_ITER" and steps[i].offset < steps[j].argval]
    return loops[-1] if loops else None
