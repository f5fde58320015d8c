"""One machine, walked and proved: whatever the walk refutes and the prover proves is a false theorem.

A machine has several properties, and one that cannot be proved would hide the others. So what is left open is taken
out of the text, and the rest asked once more, until everything that is left is proved. A statement that may be
ill-formed is taken out too, and what is left is another machine, walked anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from kvproof.checkers.proofs import Proofs
from kvproof.machine import Machine, MachineError

from .loading import is_of_a_text, load
from .machines import MachineText, draw_machine, without_idle
from .proving import Open, open_goals
from .text import Piece
from .walking import Violation, Walk, walk

__all__ = ["Outcome", "compare", "compared"]

Verdict = Literal["refused", "open", "proved", "false theorem"]
"""``open``: a statement or first value cannot be shown to be well-formed. ``proved``: whatever is left of it is."""

REPAIRS = 4
"""So many statements are left out where they cannot be shown to be well-formed."""


@dataclass
class Outcome:
    """What became of one machine."""

    seed: int | str
    verdict: Verdict
    text: MachineText | None = None
    """What is left of the machine: all of it is proved, if something is."""
    violations: list[Violation] = field(default_factory=list)
    """Of what is left."""
    note: str = ""
    """Why it was refused, or what is left open."""
    culprits: list[Piece] = field(default_factory=list)
    """The statement of which that is open, and the properties that are too."""
    theorems: list[str] = field(default_factory=list)
    walk: Walk | None = None


def compare(seed: int, *, proofs: Proofs | None = None) -> Outcome:
    """Draw, walk and prove the machine of this seed; ``proofs``: what was proved before need not be proved again."""
    return compared(draw_machine(seed), proofs=proofs)


def compared(text: MachineText, *, proofs: Proofs | None = None) -> Outcome:
    """Walk and prove a machine, less the statements that cannot be shown to be well-formed."""
    outcome = _once(text, proofs)
    for _ in range(REPAIRS):
        if not outcome.culprits or outcome.text is None:
            break
        repaired = _once(without_idle(outcome.text.without(*outcome.culprits)), proofs)
        if repaired.verdict == "refused":  # what follows needs the statement
            break
        outcome = repaired
    return outcome


def _once(text: MachineText, proofs: Proofs | None) -> Outcome:
    try:
        machine = load(text.source, text.main)
        seen = walk(machine, text.seed)
    except (MachineError, NameError, ZeroDivisionError) as error:
        if isinstance(error, ZeroDivisionError) and not is_of_a_text(error):  # A helper of ``n % n`` is given 0.
            raise
        return Outcome(text.seed, "refused", note=re.sub(r"^.*?: ", "", str(error)))
    return _shaved(text, machine, seen, proofs)


def _shaved(text: MachineText, machine: type[Machine], seen: Walk, proofs: Proofs | None) -> Outcome:
    """Take away what is not proved, until the rest is."""
    refuted = dict(seen.violations)
    while True:
        opened = _first_open(machine, refuted, proofs) or list(open_goals(machine, proofs=proofs))
        if not opened:
            return _all_proved(text, refuted, seen)
        gone = [p for o in opened if (p := _property_of(text, o)) is not None]
        stuck = next((o for o in opened if _property_of(text, o) is None), None)
        if stuck is not None:  # with less beside it, it is no better
            statement = _statement_of(text, stuck)
            culprits = [] if statement is None else [statement, *gone]
            note = f"{stuck.place}: {stuck.goal}"
            return Outcome(text.seed, "open", text, note=note, walk=seen, culprits=culprits)
        names = {p.name for p in gone}
        refuted = {n: v for n, v in refuted.items() if n not in names}
        text = text.without(*gone)
        machine = load(text.source, text.main)


def _all_proved(text: MachineText, refuted: dict[str, Violation], seen: Walk) -> Outcome:
    verdict: Verdict = "false theorem" if refuted else "proved"
    names = [p.name for p in text.of_kind("invariant", "corollary", "step")]
    return Outcome(text.seed, verdict, text, list(refuted.values()), theorems=names, walk=seen)


def _first_open(machine: type[Machine], refuted: dict[str, Violation], proofs: Proofs | None) -> list[Open]:
    """What is open of that which the walk refutes, where it refutes it: the shortest way to see that all is well."""
    opened: list[Open] = []
    for place in {v.place for v in refuted.values()}:
        names = {v.prop for v in refuted.values() if v.place == place}
        opened += open_goals(machine, places={place}, props=names, proofs=proofs)
    return opened


def _property_of(text: MachineText, opened: Open) -> Piece | None:
    """The property or fact of a loop that an open goal is about."""
    name = opened.prop or opened.goal.rpartition(": ")[2]
    return next((p for p in text.of_kind("invariant", "corollary", "step", "fact") if p.name == name), None)


def _statement_of(text: MachineText, opened: Open) -> Piece | None:
    """The statement that an open goal is about: one line of an action, or the whole of it."""
    found = text.at_line(opened.line)
    return None if found is None or found.tag in ("class", "part") else found
