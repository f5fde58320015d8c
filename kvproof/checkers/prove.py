"""prove: a machine's properties hold for any number of blocks, requests and hashes.

Each obligation is given to a solver together with what is known at its place. `unknown` is never a pass: an obligation
that is not proved is searched for its smallest counterexample (`counterexample.py`), and is refuted if there is one.
A proof about a machine that cannot move proves nothing, so that is asked too (`vacuity.py`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import z3

from ..errors import UsageError
from ..machine import Machine, Model
from ..machine.universe import Unbounded
from .beginnings import Beginnings
from .counterexample import Search
from .deciding import Deciding, Decision
from .heap import heap_at_rest
from .hints import Hints
from .leads import lead
from .obligations import COROLLARIES, INITIALLY, problems_from, problems_of
from .processes import each_by, each_here
from .proofs import Proofs
from .records import Obligation, Record, Whole, whole_digest
from .shown import Counterexample
from .sketches import Sketch, Sketches
from .sketching import sketched
from .solvers import Solver, Verdict
from .texts import Text
from .vacuity import not_vacuous

__all__ = ["How", "Obligation", "ProveReport", "prove", "prove_machines"]

Progress = Callable[[int, int, str], None]


@dataclass
class ProveReport:
    """All obligations of one machine."""

    machine: str
    obligations: list[Obligation] = field(default_factory=list)
    seconds: float = 0.0
    """Of computing, in all processes."""
    recalled: int = 0
    """Obligations that were proved before, by the store of proofs."""
    actions: int = 0
    properties: int = 0
    """The invariants, corollaries and properties of steps: what a proof can be asked for."""
    left_to_exploration: int = 0
    """The properties that say what must be reachable; of these a proof says nothing."""
    sketches: dict[str, dict[str, list[Sketch | None]]] = field(default_factory=dict)
    """By place: what was needed for what was slow, where that was asked for."""
    untouched: int = 0
    """Invariants at places where nothing that they speak of had been written since they were known to hold."""

    def count(self, verdict: Verdict) -> int:
        """How many obligations have this verdict."""
        return sum(o.verdict == verdict for o in self.obligations)

    @property
    def slowest(self) -> float:
        """Seconds of the slowest obligation."""
        return max((o.seconds for o in self.obligations), default=0.0)

    @property
    def holds(self) -> bool:
        """There was something to prove, and all of it is proved."""
        return bool(self.properties and self.actions) and all(o.verdict == "proved" for o in self.obligations)


def prove(
    machine: type[Machine],
    *,
    solver: Solver = "z3",
    timeout: float = 10.0,
    jobs: int | None = None,
    only: Collection[str] | None = None,
    proofs: Proofs | None = None,
) -> ProveReport:
    """Prove everything that a machine promises: `prove_machines` of one."""
    how = How(solver, timeout, proofs)
    (report,) = prove_machines([machine], how, jobs=jobs, only=only)
    return report


@dataclass
class How:
    """How is proved.

    ``timeout`` bounds one obligation, in seconds of computing; ``proofs`` is what Z3 has proved before (none: what is
    proved now serves within this run only; so does what cvc5 proves). ``perturbed`` gives Z3 other random seeds and
    other numbers of terms, by which it breaks ties: no verdict may depend on them (`benchmarks/prove_stability.py`).
    ``sketching``: sketches that are there are left aside, and new ones made (`sketches.py`). ``text``: what machines
    are made of, where that is known: one whose text is as it was need not be read (`texts.py`).
    """

    solver: Solver = "z3"
    timeout: float = 10.0
    proofs: Proofs | None = None
    perturbed: int = 0
    sketching: bool = False
    text: Text | None = None


def prove_machines(
    machines: Sequence[type[Machine]],
    how: How,
    *,
    jobs: int | None = None,
    apart: bool = False,
    only: Collection[str] | None = None,
    on_progress: Progress | None = None,
) -> list[ProveReport]:
    """Prove everything that the machines promise; ``only``: of these actions (or ``initially``, or ``every state``).

    ``jobs`` is the number of processes (the default: one for each core). A single one is this one, unless it is to be
    ``apart``: then an interruption ends it at once. (Here Python may lose it, in a destructor of a formula.)

    Raises:
        SketchError: a file beside a machine holds no sketches.
        UsageError: ``only`` names what no machine has, of which nothing would be asked.
    """
    with tempfile.TemporaryDirectory() as folder, heap_at_rest():
        # What Z3 has proved is no opinion of cvc5's.
        kept = how.proofs if how.solver == "z3" else None
        proofs = kept or Proofs(Path(folder, "proofs.sqlite"))
        sketches = [Sketches() if how.sketching else Sketches.of(machine) for machine in machines]
        work = _Work([*machines], replace(how, proofs=proofs), kept is not None, only, sketches)
        # Forked processes share the machines' classes, which need not be importable (a test's own machine).
        with each_by(work, jobs, apart=apart) as each:
            begun: dict[int, _Places | None] = {n: _unread(work, n) for n in range(len(machines))}
            unknown = [number for number, known in begun.items() if known is None]
            # A single machine is read here: the processes that prove it are forked later, and have it.
            read = each if len(unknown) > 1 else each_here(work)
            begun |= dict(read(_begin, [(number,) for number in unknown]))
            # A mistake in a machine's text is raised here, where it can be told.
            places = [begun[number] or _begun(work, number) for number in range(len(machines))]
            _check_only(only, places)
            tasks = [(number, place) for number, of_machine in enumerate(places) for place in of_machine.left]
            total = sum(len(of_machine.order) for of_machine in places)
            for done, found in enumerate(each(_at_place, tasks), 1 + total - len(tasks)):
                places[found.machine].take(found)
                if on_progress is not None:
                    on_progress(done, total, f"{places[found.machine].report.machine}.{found.place}")
        reports = [of_machine.whole() for of_machine in places]
        for number in unknown:
            _keep_whole(work, number, places[number])
    return reports


def _check_only(only: Collection[str] | None, places: Sequence[_Places]) -> None:
    absent = {*(only or ())}.difference(*(of_machine.order for of_machine in places))
    if absent or (only is not None and not only):
        named = " and ".join(of_machine.report.machine for of_machine in places)
        what = f"{named} has no action {min(absent)}" if absent else f"nothing of {named} is named"
        raise UsageError(f"{what}, and nothing would be asked of it: name actions, `{INITIALLY}` or `{COROLLARIES}`")


@dataclass
class _Work:
    """What all places have in common."""

    machines: list[type[Machine]]
    how: How
    is_on_record: bool
    """There is a store that outlives this run: what is proved at a place is kept there as a whole, and recalled."""
    only: Collection[str] | None
    sketches: list[Sketches]
    hints: Hints = field(default_factory=Hints)
    """What proofs needed so far, in this process."""
    begun: Beginnings = field(default_factory=Beginnings)
    """What they begin with, in this process."""


@dataclass
class _Found:
    """What came of one place of a machine, in so many seconds of computing."""

    machine: int
    place: str
    obligations: list[Obligation]
    untouched: list[str]
    seconds: float = 0.0
    recalled: int = 0
    sketches: dict[str, list[Sketch | None]] = field(default_factory=dict)


@dataclass
class _Places:
    """The places of one machine, and what came of them."""

    report: ProveReport
    order: list[str]
    """As the machine's text has them."""
    left: list[str]
    """Those that nothing is known of; what takes longest comes first."""
    untouched: dict[str, list[str]] = field(default_factory=dict)
    """By place of which something came: the invariants that were not touched."""

    def take(self, found: _Found) -> None:
        """Add what came of a place."""
        report = self.report
        report.obligations += found.obligations
        report.untouched += len(found.untouched)
        report.seconds += found.seconds
        report.recalled += found.recalled
        report.sketches |= {found.place: found.sketches} if found.sketches else {}
        self.untouched[found.place] = found.untouched

    def whole(self) -> ProveReport:
        """The report, once everything came."""
        lost = [_not_asked(place, place, "", "", "") for place in self.order if place not in self.untouched]
        self.report.obligations += lost
        self.report.obligations.sort(key=lambda o: self.order.index(o.action))
        return self.report


def _kept_whole(work: _Work, number: int) -> str | None:
    """Under which digest all that is proved of this machine is kept; None: it is not."""
    how = work.how
    if how.proofs is None or how.text is None or not work.is_on_record or work.only is not None:
        return None
    text = how.text.of(work.machines[number])
    return None if text is None else whole_digest(text, how.solver)


def _unread(work: _Work, number: int) -> _Places | None:
    """What is known of a machine that need not be read; None: nothing."""
    digest = _kept_whole(work, number)
    known = None if digest is None or work.how.proofs is None else work.how.proofs.place(digest, Whole)
    if known is None:
        return None
    report = ProveReport(
        known.machine,
        actions=known.actions,
        properties=known.properties,
        left_to_exploration=known.left_to_exploration,
    )
    places = _Places(report, [*known.places], [])
    for place in places.order:
        proved = known.at(place)
        if proved is None:
            places.left.append(place)
        else:
            places.take(_Found(number, place, *proved, recalled=len(proved[0])))
    return places


def _keep_whole(work: _Work, number: int, of_machine: _Places) -> None:
    """Keep what was proved of a machine, if all of it was."""
    digest, report = _kept_whole(work, number), of_machine.report
    if digest is None or work.how.proofs is None or not report.holds:
        return
    places = {
        place: (
            [(o.goal, o.rule, o.line, o.prop) for o in report.obligations if o.action == place],
            of_machine.untouched[place],
        )
        for place in of_machine.order
    }
    kept = Whole(report.machine, report.actions, report.properties, report.left_to_exploration, places)
    work.how.proofs.keep_place(digest, kept)


def _begin(work: _Work, number: int) -> tuple[int, _Places | None]:
    """A machine is read, and what is known of it recalled; None: its text has a mistake."""
    try:
        return number, _begun(work, number)
    except (Exception, SystemExit):
        return number, None


def _begun(work: _Work, number: int) -> _Places:
    started = time.process_time()
    model = Model.of(work.machines[number])
    promised = [p for p in model.properties.values() if p.kind in ("invariant", "step")]
    left = len(model.of_kind("sometimes"))
    report = ProveReport(model.name, actions=len(model.actions), properties=len(promised), left_to_exploration=left)
    order = [p for p in (INITIALLY, *model.actions, COROLLARIES) if work.only is None or p in work.only]
    places = _Places(report, order, [])
    for place in order:
        found = _recalled(work, number, place)
        if found is None:
            places.left.append(place)
        else:
            places.take(found)
    places.left.sort(key=lambda p: (-len(model.actions[p].loops) if p in model.actions else 0, p == INITIALLY))
    report.seconds = time.process_time() - started
    return places


def _recalled(work: _Work, number: int, place: str) -> _Found | None:
    """What was proved of a place before, where all of it was."""
    model, how = Model.of(work.machines[number]), work.how
    if how.proofs is None or not work.is_on_record:
        return None
    known = Record.of(model, place, how.solver).recall(how.proofs)
    if known is None:
        return None
    obligations, untouched = known
    found = _Found(number, place, obligations, untouched, recalled=len(obligations))
    found.obligations += _missing(model, found)
    return found


def _missing(model: Model, found: _Found) -> list[Obligation]:
    """Whatever the machine promises at a place and nobody has asked for: there must be nothing of that kind."""
    place = found.place
    if place == COROLLARIES:
        due = [p for p in model.of_kind("invariant") if p.derived]
    else:
        due = [*model.inductive, *(model.steps_for(place) if place in model.actions else [])]
    asked = {o.prop for o in found.obligations}.union(found.untouched)
    return [_not_asked(place, p.name, p.rule, str(p.line), p.name) for p in due if p.name not in asked]


def _not_asked(place: str, goal: str, rule: str, line: str, prop: str) -> Obligation:
    note = "it was not asked: an error of the kit, please report it"
    return Obligation(place, goal, rule, "unknown", 0.0, line, note=note, prop=prop)


def _at_place(work: _Work, number: int, place: str) -> _Found:
    """All obligations of one action, of the first state, or of any state are asked."""
    started = time.process_time()
    model, how = Model.of(work.machines[number]), work.how
    found = _asked(model, number, place, work)
    found.obligations += _missing(model, found)
    if how.proofs is not None and work.is_on_record and all(o.verdict == "proved" for o in found.obligations):
        Record.of(model, place, how.solver).keep(how.proofs, found.obligations, found.untouched)
    found.seconds = time.process_time() - started
    return found


def _asked(model: Model, number: int, place: str, work: _Work) -> _Found:
    how = work.how
    z3.z3.Z3_DEBUG = False  # the Python layer's own type checks; the encoder's types make them superfluous
    ballast = [z3.Int(f"ballast {i}") for i in range(how.perturbed * 997 % 10_007)]
    begun = work.begun
    if place == INITIALLY:
        problems = problems_of(model, place, Unbounded(model))
    else:
        problems = problems_from(begun.unbounded(model), place)
    sketches = [*work.sketches[number].at(place, problems.goals)]
    deciding = Deciding(problems, how.solver, how.timeout, how.proofs, work.hints, how.perturbed, sketches)
    deciding.decide()
    obligations = _judged(model, place, deciding)
    deciding.keep()
    del ballast
    for finding in not_vacuous(model, place, how.timeout, how.solver, how.proofs, begun):
        line = str(model.actions[place].line) if place in model.actions else ""
        obligations.append(
            Obligation(place, finding.goal, "", finding.verdict, finding.seconds, line, note=finding.note)
        )
    recalled = sum(d.is_recalled for d in deciding.decisions)
    found = _Found(number, place, obligations, [p.name for _, p in deciding.problems.untouched], recalled=recalled)
    found.sketches = sketched(deciding) if how.sketching else {}
    return found


LEADS = 5
"""So many open obligations of one place get a lead: what is missing for one is seldom missing for it alone."""


def _judged(model: Model, place: str, deciding: Deciding) -> list[Obligation]:
    """Each goal: proved, or refuted by its smallest counterexample, or asked once more with patience."""
    search = Search(model, place, seconds=2 * deciding.seconds)
    found = {id(d): search.find(d.goal.name) for d in deciding.decisions if not d.is_proved}
    if deciding.solver == "z3" and not any(found.values()):  # where something is wrong, the rest may be unprovable too
        for decision in deciding.decisions:
            if not decision.is_proved:
                deciding.be_patient(decision)
    judged = [_obligation(place, d, found.get(id(d))) for d in deciding.decisions]
    pairs = zip(deciding.decisions, judged, strict=True)
    dark = [(d, o) for d, o in pairs if o.verdict == "unknown" and o.counterexample is None]
    for decision, obligation in dark[:LEADS]:
        more = lead(model, place, deciding, decision, seconds=deciding.seconds)
        obligation.note = "\n".join(filter(None, (obligation.note, more)))
    return judged


def _obligation(place: str, decision: Decision, found: Counterexample | None) -> Obligation:
    goal = decision.goal
    obligation = Obligation(place, goal.name, goal.rule, "unknown", decision.seconds, str(goal.line))
    obligation.prop = "" if goal.prop is None else goal.prop.name
    obligation.counterexample = found
    if decision.is_proved:
        obligation.verdict = "proved"
    elif found is None:
        obligation.note = (
            "not proved, and no counterexample in small scopes: perhaps an invariant or a loop fact is missing"
        )
    elif not found.replayed:
        obligation.note = "the concrete interpreter does not confirm the counterexample"
    else:
        obligation.verdict = "refuted"
    return obligation
