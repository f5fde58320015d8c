"""Functions that a text makes and that do not say what they seem to: one that nobody calls, and one that a loop keeps.

A function that is made in a loop looks up what the loop goes through when it is called. One that is called at once, as
under a quantifier, finds what it should; those that are kept in a list all find what the loop ended with. So does a
generator, which calls nothing before somebody goes through it.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import CodeType

from .instructions import (
    CALLS,
    FILLERS,
    MAKERS,
    begun_with,
    call_at,
    is_a_generator,
    names_of,
    numbers_for,
    numbers_of,
    one_of,
    place,
    steps_of,
    user_of,
    with_those_inside,
)
from .overwritten import is_bound_anew

__all__ = ["made_in_vain"]


def made_in_vain(code: CodeType) -> Iterator[tuple[int, str]]:
    """The lines, and what is wrong there; also in what is defined inside."""
    for one in with_those_inside(code):
        if _MADE.search(numbers_of(one)):
            yield from _never_called(one)
            yield from _kept_by_a_loop(one)


_MADE = re.compile(one_of(numbers_for(MAKERS.__contains__)))


def _never_called(code: CodeType) -> Iterator[tuple[int, str]]:
    """Functions that are defined inside, and that nobody names again, or not before another one has that name."""
    steps = steps_of(code)
    read = {name for step in steps if step.opname.startswith(("LOAD_", "DELETE_")) for name in names_of(step)}
    for i, (step, after) in enumerate(pairwise(steps)):
        name = after.argval if step.opname in MAKERS and after.opname == "STORE_FAST" else "_"
        if name.startswith("_"):
            continue
        if name not in read:
            yield place(code, after)[0], f"{name} is a function that is never called: what it says would be lost"
        elif is_bound_anew(steps[i + 2 :], name):
            yield place(code, after)[0], f"{name} is bound anew before anybody calls it: what it says would be lost"


def _kept_by_a_loop(code: CodeType) -> Iterator[tuple[int, str]]:
    """Functions that a loop puts into a list, and that name what it goes through."""
    steps = steps_of(code) if code.co_cellvars else []
    changing = {name for i, step in enumerate(steps) if step.opname == "FOR_ITER" for name in _bound_by(steps, i)}
    for i, step in enumerate(steps):
        late = changing.intersection(step.argval.co_freevars) if isinstance(step.argval, CodeType) else None
        if late and _is_kept(steps, i):
            yield place(code, step)[0], _LATE[is_a_generator(step.argval)].format(name=min(late))


_LATE = (
    "{name} is looked up when this function is called, and is what the loop ended with by then: give the function a "
    "parameter {name}={name}",
    "{name} is looked up when somebody goes through this, and is what the loop ended with by then: make a list of it",
)


def _bound_by(steps: Sequence[dis.Instruction], loop: int) -> Iterator[str]:
    """The names to which a loop gives what it goes through, where functions inside look them up."""
    for step in steps[loop + 1 :]:
        if step.opname == "STORE_DEREF":
            yield step.argval
        elif step.opname != "UNPACK_SEQUENCE" and not step.opname.startswith("STORE_FAST"):
            return


def _is_kept(steps: Sequence[dis.Instruction], i: int) -> bool:
    """The function whose code is named here is put into a list, or the like, be it in what calls it only later."""
    at = next(j for j in range(i + 1, len(steps)) if steps[j].opname in MAKERS)
    while steps[at + 1].opname in MAKERS:
        at += 1
    user = user_of(steps, at)
    while user is not None and (steps[user].opname in ("BUILD_LIST", "BUILD_TUPLE") or _puts_off(steps, user, i)):
        at = call_at(steps, user)
        user = user_of(steps, at)
    if user is None:
        return False
    kept_by = _KEEPERS.difference(_GO_THROUGH) if steps[at].opcode in CALLS else _KEEPERS
    call = steps[call_at(steps, user)]
    if call.opcode not in CALLS:
        return call.opname in kept_by
    return any(s.argval in kept_by for s in begun_with(call, steps) if s.opname in ("LOAD_METHOD", "LOAD_ATTR"))


_KEEPERS = {*FILLERS, "LIST_APPEND", "LIST_EXTEND", "MAP_ADD", "STORE_SUBSCR"}
_GO_THROUGH = {"LIST_EXTEND", "extend", "update"}
"""What takes out of something all that it gives, and so calls at once what that calls."""


def _puts_off(steps: Sequence[dis.Instruction], user: int, i: int) -> bool:
    """What takes the function calls it when it is called itself, or gone through, as a generator is."""
    call = steps[call_at(steps, user)]
    if call.opcode not in CALLS:
        return False
    named = (
        s.argval for s in begun_with(call, steps[:user]) if s.opname in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD")
    )
    return (is_a_generator(steps[i].argval) and not call.arg) or any(name in _LATER for name in named)


_LATER = {"filter", "map", "partial", "starmap"}
