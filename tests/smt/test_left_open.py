"""Each action is held to what its text does: nothing else would be proved. What is left open is named here, and why."""

from __future__ import annotations

from typing import Self

import pytest

from kvproof.checkers.left_open import EVERYTHING, LeftOpen, left_open
from kvproof.harness.machines import find_machine
from kvproof.machine import Bool, Machine, Map, Model, action, iff, implies, step
from kvproof.spec.hybrid.connectors import Job
from kvproof.spec.hybrid.partial_loads import PartialLoads
from kvproof.spec.hybrid.planner import Tokens
from kvproof.spec.pool import Block, Request
from kvproof.spec.timed.links import Links, Transfer

from ..marks import slow_but

OPEN: dict[str, set[str]] = {
    "pool": set(),
    "calls": set(),
    "statistics": set(),
    "served": set(),
    "deferred": set(),
    "keys": {"tag", "string"},
    "mirror": {"reported", "kept"},
    "batches": set(),
    "pin": {"marked", "picked"},
    "offload": {"free"},
    "reports": {"free"},
    "lazy-walk": set(),
    "chunks": set(),
    "links": set(),
    "stalls": set(),
    "timed-tiers": set(),
    "shared-tier": set(),
    "planner": set(),
    "groups": set(),
    "aligned-split": set(),
    "connectors": set(),
    "partial-loads": set(),
    "file-store": set(),
    "tree": set(),
}
"""By machine, maps and queues of which something may be left open.

A ``string`` behind the last of an encoding, and its ``tag``, are read by nobody; so is what is ``kept`` of a hash that
the host has no longer. What a lookup with a host may have ``reported`` is known where it is found only. Of ``marked``
and ``picked`` a drop may leave one out that it counted, or count one that was marked before. In which order a load
that failed puts blocks behind each other that go to the same end of ``free`` is true of its text, and not proved.
"""

UNDECIDED = {key: {"advance_to_deadline: now"} for key in ("links", "timed-tiers")}
"""Where exact numbers are multiplied, which takes more than the time there is."""

AT_ONCE = ("links", "aligned-split", "file-store", "batches", "chunks", "planner")
"""Those that take a second or few."""


class Door(Machine):
    """Its only action needs three blocks."""

    walked = Map(Block, to=Bool)

    @action("X")
    def walk(self, a: Block, b: Block, c: Block) -> None:
        self.require((a != b) & (b != c) & (a != c))
        self.walked[a] = True


def looked_at(machine: type[Machine], actions: tuple[str, ...] = ()) -> list[LeftOpen]:
    model = Model.of(machine)
    return [o for a in actions or model.actions for o in left_open(model, a)]


def opened(machine: type[Machine], actions: tuple[str, ...] = ()) -> dict[str, str]:
    return {f"{o.action}: {o.name}": str(o) for o in looked_at(machine, actions) if o.what is not None}


@pytest.mark.parametrize("name", slow_but(OPEN, {"aligned-split", "planner"}, OPEN.keys() - set(AT_ONCE)))
def test_an_action_does_what_it_says_and_nothing_else(name: str) -> None:
    found = [o for o in looked_at(find_machine(name)) if o.name not in OPEN[name]]
    assert [str(o) for o in found if o.what is not None] == []
    assert {f"{o.action}: {o.name}" for o in found if o.what is None} <= UNDECIDED.get(name, set())


class SaysLess(Links):
    """Of a transfer only the link is promised, not how large it is, nor when it began and ended."""

    @step("G2, G3")
    def what_a_transfer_is_it_stays(self, before: Self, t: Transfer) -> Bool:
        """Its link."""
        begins = self.moving[t] & ~before.moving[t]
        return begins | (self.link[t] == before.link[t])


class SaysNothingOfTheResult(PartialLoads):
    """Whether somebody waited for a piece is not promised."""

    @step("H5, O7", of="hear")
    def a_piece_is_heard_once(self, before: Self, j: Job, t: Tokens, ok: Bool, r: Request, result: Bool) -> Bool:
        """It has come, or it has not."""
        is_heard = self.told[r, t] & iff(self.came[r, t], ok)
        return implies(before._awaits(r, j, t), is_heard) & (result | ~result)


def test_what_nobody_promises_is_found() -> None:
    found = opened(SaysLess, ("complete",))
    assert {"complete: size", "complete: begun", "complete: mark", "complete: ended"} <= set(found)
    assert "complete: link" not in found


def test_a_result_that_nobody_promises_is_found() -> None:
    assert "hear: result" in opened(SaysNothingOfTheResult, ("hear",))
    assert "hear: result" not in opened(PartialLoads, ("hear",))


def test_where_there_is_no_step_nothing_passes_for_held() -> None:
    (found,) = left_open(Model.of(Door), "walk")
    assert found.name == EVERYTHING
    assert "no step of it was found" in str(found)
    assert [o.name for o in left_open(Model.of(Door), "walk", size=3)] == ["walked"]


def test_what_is_not_decided_in_time_is_said() -> None:
    found = [o for o in left_open(Model.of(SaysLess), "complete", seconds=0.001) if o.what is None]
    assert found
