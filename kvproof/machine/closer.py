"""What Python takes together first: `a & b == c` is `(a & b) == c`, where a reader may see `a & (b == c)`.

Of numbers the language tells it, for they are no conditions. Two conditions may be joined as well as compared, so there
what is said would be another thing than what is read, and would be proved. Parentheses say which of the two is meant;
where they stand is known of the instructions.
"""

from __future__ import annotations

import dis
from functools import cache
from types import CodeType, FrameType

from .instructions import place, steps_of
from .mistakes import MachineError, is_tool

__all__ = ["refuse_unclear"]


def refuse_unclear(frame: FrameType) -> None:
    """Refuse the comparison that is made here if what `&` or `|` joins on one side of it has no parentheses around it.

    Raises:
        MachineError: it has none.
    """
    text = None if is_tool(frame.f_code.co_filename) else _unclear(frame.f_code).get(frame.f_lasti)
    if text is not None:
        raise MachineError(
            f"`{text}` compares all that & and | join, for these bind closer than == and !=: put parentheses around "
            "what is to be taken first"
        )


@cache
def _unclear(code: CodeType) -> dict[int, str]:
    """The comparisons of which a side is joined and has no parentheses: where they stand, and their text."""
    steps = steps_of(code)
    joined = [step for step in steps if step.opname == "BINARY_OP" and step.argrepr in ("&", "|")]
    compared = [step for step in steps if step.opname == "COMPARE_OP"]
    return {step.offset: place(code, step)[1] for step in compared if any(_is_a_side(one, step) for one in joined)}


def _is_a_side(joined: dis.Instruction, compared: dis.Instruction) -> bool:
    """It begins where the comparison begins, or ends where that ends: parentheses would stand between."""
    inside, whole = joined.positions, compared.positions
    if inside is None or whole is None:
        return False
    begins = [(at.lineno or 0, at.col_offset or 0) for at in (inside, whole)]
    ends = [(at.end_lineno or 0, at.end_col_offset or 0) for at in (inside, whole)]
    is_within = begins[1] <= begins[0] and ends[0] <= ends[1]
    return is_within and (begins[0] == begins[1]) != (ends[0] == ends[1])
