"""A lead where an obligation is neither proved nor refuted."""

from __future__ import annotations

from kvproof.checkers.prove import Obligation, prove
from kvproof.machine import Bool, Int, Machine, Scalar, action, step


class Twice(Machine):
    """Two numbers go up together, and the loop does not say so."""

    a = Scalar(to=Int)
    b = Scalar(to=Int)

    @action("X")
    def go(self, n: Int) -> None:
        self.require(n >= 0)
        with self.loop(n):
            self.a.value = self.a.value + 1
            self.b.value = self.b.value + 1

    @step("X", of="go")
    def together(self, before: Twice) -> Bool:
        return self.a.value - before.a.value == self.b.value - before.b.value


class SaysSo(Twice):
    """With what the lead names as a fact of the loop."""

    @action("X")
    def go(self, n: Int) -> None:
        self.require(n >= 0)
        with self.loop(
            n,
            facts=lambda i, entry: {
                "together": self.a.value - entry.a.value == self.b.value - entry.b.value,
            },
        ):
            self.a.value = self.a.value + 1
            self.b.value = self.b.value + 1


def open_one(machine: type[Machine]) -> Obligation:
    report = prove(machine, jobs=1, timeout=1)
    assert not report.holds
    (left,) = [o for o in report.obligations if o.verdict != "proved"]
    return left


def test_the_lead_names_what_would_settle_it_and_that_settles_it() -> None:
    left = open_one(Twice)
    assert left.verdict == "unknown"
    assert "it would follow if this were known too: together as a fact of the loop at test_leads.py" in left.note
    assert prove(SaysSo, jobs=1, timeout=1).holds


def test_the_lead_shows_a_state_that_is_not_excluded() -> None:
    lines = open_one(Twice).note.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("not excluded by"))
    shown = [line for line in lines[at + 1 :] if "<- changed" in line]
    assert shown  # one of the two went up by itself: no run does that, and nothing says so
