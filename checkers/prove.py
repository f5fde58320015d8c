"""prove: a machine's properties hold for any number of blocks, requests and hashes.

Each obligation is given to a solver together with everything that is known at its place. `unknown` is never a pass: an
obligation that is not proved is searched for its smallest counterexample (`counterexample.py`), and is refuted if there
is one.

What a machine has unchanged from one that it extends is not asked again (`heritage.py`): who proves a machine proves
its bases too.

A proof about a machine that cannot move proves nothing, so every action must also be possible in some state, with an
end in which all invariants hold; and in a small scope the counts that the proofs carry along must equal the sums.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Literal

import z3

from ..machine import Machine, Model
from ..machine.execution import Run, Settled
from ..machine.formulas import Formula, leq, lnot
from ..machine.scope import Scope
from ..machine.symbolic import Symbolic
from ..machine.universe import Finite, Unbounded
from .counterexample import Counterexample, find
from .heritage import Heritage, heritage, settled_formulas
from .obligations import COROLLARIES, INITIALLY, Problems, corollaries, initially, known_in, of_action, together
from .solvers import Attempt, Verdict, ask, is_trivial, to_smt2

__all__ = ["Obligation", "ProveReport", "prove"]

Progress = Callable[[int, int, str], None]


@dataclass
class Obligation:
    """One obligation and what became of it."""

    action: str
    goal: str
    rule: str
    verdict: Verdict
    seconds: float
    line: str = ""
    counterexample: Counterexample | None = None
    note: str = ""


@dataclass
class ProveReport:
    """All obligations of one machine."""

    machine: str
    obligations: list[Obligation] = field(default_factory=list)
    seconds: float = 0.0
    inherited: int = 0
    """What holds as in the bases, for the same reasons, and was not asked again."""
    bases: set[str] = field(default_factory=set)
    """The machines on whose proofs that rests."""

    def count(self, verdict: Verdict) -> int:
        """How many obligations have this verdict."""
        return sum(o.verdict == verdict for o in self.obligations)

    @property
    def slowest(self) -> float:
        """Seconds of the slowest obligation."""
        return max((o.seconds for o in self.obligations), default=0.0)


def prove(
    machine: type[Machine],
    *,
    solver: Literal["z3", "cvc5"] = "z3",
    timeout: float = 10.0,
    smt2: Path | None = None,
    jobs: int | None = None,
    only: Collection[str] | None = None,
    alone: bool = False,
    on_progress: Progress | None = None,
) -> ProveReport:
    """Prove everything that the machine promises; ``only``: of these actions (or ``initially``, or ``every state``).

    ``timeout`` bounds one obligation, in seconds of computing; ``smt2`` names a directory that gets every obligation as
    SMT-LIB text; ``jobs`` is the number of processes (the default: one for each core). With ``alone`` everything is
    asked, also what is inherited from the machines that this one extends.
    """
    start = time.perf_counter()
    model = Model.of(machine)
    places = [p for p in (*model.actions, INITIALLY, COROLLARIES) if only is None or p in only]
    places.sort(key=lambda p: -len(model.actions[p].loops) if p in model.actions else 0)
    report = ProveReport(model.name)
    task = _Task(machine, solver, timeout, smt2, {} if alone else _settled(model))
    for place, inherited in task.inherited.items():
        if place in places:
            report.inherited += len(inherited.settled.properties) + len(inherited.settled.facts)
            report.bases.update(inherited.of)
    for done, (place, obligations) in enumerate(_each_place(task, places, jobs), 1):
        report.obligations += obligations
        if on_progress is not None:
            on_progress(done, len(places), f"{model.name}.{place}")
    order = {p: i for i, p in enumerate([INITIALLY, *model.actions, COROLLARIES])}
    report.obligations.sort(key=lambda o: order[o.action])
    report.seconds = time.perf_counter() - start
    return report


@dataclass
class _Task:
    """What all places of a machine have in common."""

    machine: type[Machine]
    solver: str
    timeout: float
    smt2: Path | None
    inherited: dict[str, Heritage]

    def settled(self, place: str) -> Settled:
        """What need not be asked there."""
        return self.inherited[place].settled if place in self.inherited else Settled()


def _settled(model: Model) -> dict[str, Heritage]:
    """What each place has from the machines that this one extends."""
    formulas = settled_formulas(model)
    return {**heritage(model), INITIALLY: formulas, COROLLARIES: formulas}


def _each_place(task: _Task, places: list[str], jobs: int | None) -> Iterator[tuple[str, list[Obligation]]]:
    """The obligations place by place, in several processes where there are several cores."""
    workers = min(jobs or os.cpu_count() or 1, len(places))
    if workers == 1 or "fork" not in multiprocessing.get_all_start_methods():
        for place in places:
            yield place, _prove_place(task, place)
        return
    # Forked processes share the machine's class, which need not be importable (a test's own machine), and its text.
    context = multiprocessing.get_context("fork")
    global _shared
    _shared = task
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = {pool.submit(_prove_shared, place): place for place in places}
        for future in as_completed(futures):
            yield futures[future], future.result()


_shared: _Task | None = None


def _prove_shared(place: str) -> list[Obligation]:
    assert _shared is not None
    return _prove_place(_shared, place)


def _prove_place(task: _Task, place: str) -> list[Obligation]:
    """All obligations of one action, of the first state, or of any state."""
    z3.z3.Z3_DEBUG = False  # the Python layer's own type checks; the encoder's types make them superfluous
    model = Model.of(task.machine)
    universe = Unbounded(model)
    settled = task.settled(place)
    if place == INITIALLY:
        problems = initially(model, universe, settled)
    elif place == COROLLARIES:
        problems = corollaries(model, universe, settled)
    else:
        problems = of_action(model, place, universe, settled=settled)
    obligations = _decide(model, place, problems, task.solver, task.timeout)
    if task.smt2 is not None:
        _write(task.smt2, model, place, problems)
    return obligations + (_not_vacuous(model, place) if place in model.actions else _parameters_exist(model, place))


GROUP = 8
"""So many goals of one place are asked at once at first. Most of the time that an easy goal takes is spent on reading
what is known, and nine in ten are easy."""

LADDER = (
    Attempt(depth=2, effort=0.2),
    Attempt(depth=3, seed=2, effort=0.2),
    Attempt(depth=2, seed=6, lemmas=True, nearby=False, effort=0.2),
    Attempt(depth=6, seed=11, lemmas=True, nearby=False, effort=0.2),
    Attempt(depth=2, seed=12, relevancy=1, effort=0.2),
    Attempt(depth=2, seed=13, cases=True, effort=0.2),
    Attempt(depth=2, seed=14, cases=True, relevancy=1, effort=0.2),
    Attempt(depth=1, seed=3, effort=0.2),
    Attempt(depth=1, seed=7, lemmas=True, nearby=False, effort=0.2),
    Attempt(depth=3, seed=5, lemmas=True, relevancy=1, effort=0.2),
    Attempt(depth=2, seed=4, lemmas=True, cases=True, effort=0.2),
    Attempt(depth=3, seed=8, lemmas=True, nearby=False),
    Attempt(depth=2, seed=10),
    Attempt(depth=4, seed=9, lemmas=True, nearby=False, effort=3.0),
)
"""Ways to ask, tried in turn. Whether a proof is found within a bound on depth also depends on which case is split
first, so another way to ask is worth more than more depth, and many short tries more than a long one. Nine goals in ten
need the first."""

PATIENT = tuple(
    Attempt(depth=depth, seed=seed, lemmas=True, nearby=nearby, cases=cases, relevancy=relevancy, effort=5.0)
    for seed in range(20, 25)
    for relevancy, cases in product((1, 2), (False, True))
    for depth, nearby in ((2, True), (2, False), (3, False), (6, False))
)
"""Asked for what the ladder left open and what has no counterexample. A single try succeeds for the worst goals about
every second time, as the order of cases depends on the numbers that Z3 gives to terms; eighty fail together never."""

PATIENCE = 6
"""They may take so many times as long as the ladder."""


class _Place:
    """The problems of one place while they are worked on: each alone at first, then with what was proved before.

    ``seconds`` is the time that this process computed for each, so that what else runs on the machine changes nothing.
    """

    def __init__(self, problems: Problems, solver: str, timeout: float) -> None:
        self.problems = problems.problems
        self.solver = solver
        self.timeout = timeout
        self.proved: set[int] = set()
        self.seconds = [0.0] * len(self.problems)

    def ask_patiently(self, i: int) -> None:
        """Problem ``i`` in many ways, with time of its own for it."""
        until = self.seconds[i] + PATIENCE * self.timeout
        for attempt in PATIENT:
            self._attempt(i, attempt, until)

    def ask_in_groups(self, attempt: Attempt) -> None:
        """Several problems of one place at once: where their conjunction is proved, each of them is."""
        for group in self._groups():
            started = time.process_time()
            verdict = ask(together([self.problems[i] for i in group]), [], attempt, solver="z3", timeout=self.timeout)
            if verdict == "proved":
                self.proved.update(group)
            for i in group:
                self.seconds[i] += (time.process_time() - started) / len(group)

    def _groups(self) -> Iterator[list[int]]:
        by_place: dict[int, list[int]] = {}
        for i, problem in enumerate(self.problems):
            if not is_trivial(problem.formula):
                by_place.setdefault(problem.place, []).append(i)
        for numbers in by_place.values():
            groups = (numbers[at : at + GROUP] for at in range(0, len(numbers), GROUP))
            yield from (group for group in groups if len(group) > 1)

    def climb_together(self, attempts: Collection[Attempt]) -> None:
        """Every problem by the first attempt, the rest by the second, and so on: what is easy helps what is hard."""
        for attempt in attempts:
            for i in range(len(self.problems)):
                self._attempt(i, attempt, self.timeout)

    def _attempt(self, i: int, attempt: Attempt, until: float) -> None:
        if i in self.proved or self.seconds[i] >= until:
            return
        started = time.process_time()
        lemmas = self._proved_beside(i) if attempt.lemmas else []
        if ask(self.problems[i], lemmas, attempt, solver=self.solver, timeout=self.timeout) == "proved":
            self.proved.add(i)
        self.seconds[i] += time.process_time() - started

    def _proved_beside(self, i: int) -> list[Formula]:
        place = self.problems[i].place
        return [p.formula for j, p in enumerate(self.problems) if j in self.proved and p.place == place]


def _decide(model: Model, place: str, problems: Problems, solver: str, timeout: float) -> list[Obligation]:
    """Each problem: proved, or refuted by its smallest counterexample, or asked once more with patience."""
    work = _Place(problems, solver, timeout)
    if solver == "z3":
        work.ask_in_groups(LADDER[0])
    work.climb_together(LADDER if solver == "z3" else (LADDER[0], LADDER[-1]))
    found = {
        i: find(model, place, problem.goal, seconds=2 * timeout)
        for i, problem in enumerate(problems.problems)
        if i not in work.proved
    }
    if solver == "z3" and not any(found.values()):  # where something is wrong, the rest may well be unprovable too
        for i in found:
            work.ask_patiently(i)
    return [
        _verdict(
            Obligation(place, p.goal, p.rule, "unknown", work.seconds[i], str(p.line)), i in work.proved, found.get(i)
        )
        for i, p in enumerate(problems.problems)
    ]


def _verdict(obligation: Obligation, is_proved: bool, found: Counterexample | None) -> Obligation:
    obligation.counterexample = found
    if is_proved:
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


# ----------------------------------------------------------------------------------- the proofs are about something


def _small(model: Model, size: int) -> dict[str, int]:
    return {Scope.root(k): size for k in model.sorts.values()}


def _parameters_exist(model: Model, place: str) -> list[Obligation]:
    """The machine's assumptions can be met at all."""
    if place != INITIALLY:
        return []
    started = time.perf_counter()
    for size in (1, 2, 3):
        symbolic = Symbolic(model, Finite(model, _small(model, size)))
        _, facts = symbolic.first()
        solver = z3.Solver()
        solver.add(*[f for f in (*symbolic.about_params(), *facts) if f is not True])
        if solver.check() == z3.sat:
            return [Obligation(place, "some first state exists", "", "proved", time.perf_counter() - started)]
    return [
        Obligation(
            place,
            "some first state exists",
            "",
            "refuted",
            time.perf_counter() - started,
            note="the assumptions contradict each other",
        )
    ]


def _not_vacuous(model: Model, place: str) -> list[Obligation]:
    """The action is possible under the invariants, some end satisfies them, and counts are carried rightly."""
    line = str(model.actions[place].line)
    started = time.perf_counter()
    answers = {"possible": z3.unsat, "consistent": z3.unsat}
    for size in (1, 2, 3):
        symbolic = Symbolic(model, Finite(model, _small(model, size)))
        run = Run(symbolic, model.actions[place], rounds=1 if size == 1 else 2, judged=False)
        solver = z3.Solver()
        solver.set("timeout", 10_000)
        solver.add(*[f for f in (*symbolic.definitions, *known_in(run.possible)) if f is not True])
        answers["possible"] = solver.check()
        if answers["possible"] != z3.sat:
            continue
        solver.add(*[f for f in known_in(run.context) if f is not True])
        solver.add(*[f for p in model.inductive if (f := symbolic.universally(p, run.now, None, {})) is not True])
        answers["consistent"] = solver.check()
        if answers["consistent"] == z3.sat:
            break
    seconds = time.perf_counter() - started
    notes = {
        "possible": f"no state of up to 3 of each sort enables {place} (line {line}): "
        "its requirements contradict the invariants",
        "consistent": f"no end of {place} (line {line}) satisfies all invariants, with up to 3 of each sort",
    }
    obligations = [
        _about_something(place, line, f"{place} is {what}", answers[what], notes[what], seconds / 2) for what in answers
    ]
    return [*obligations, _counts_agree(model, place, line)] if model.counts else obligations


def _about_something(
    place: str, line: str, goal: str, answer: z3.CheckSatResult, note: str, seconds: float
) -> Obligation:
    verdict: Verdict = "proved" if answer == z3.sat else "refuted" if answer == z3.unsat else "unknown"
    return Obligation(place, goal, "", verdict, seconds, line, note="" if verdict == "proved" else note)


def _counts_agree(model: Model, place: str, line: str) -> Obligation:
    """In a small scope: counts carried by their law equal the sums, before and after."""
    started = time.perf_counter()
    universe = Finite(model, _small(model, 2), counts_by_law=True)
    symbolic = Symbolic(model, universe)
    run = Run(symbolic, model.actions[place], rounds=1, judged=False, assumed=False)
    solver = z3.Solver()
    solver.set("timeout", 10_000)
    solver.add(*[f for f in (*symbolic.definitions, *known_in(run.context)) if f is not True])
    wrong = []
    for count in model.counts.values():
        kinds = [type(k) for k in count.keys]
        before, after = symbolic.written_out(count, run.before), symbolic.written_out(count, run.now)
        first, last = run.before.functions[count.name], run.now.functions[count.name]
        solver.add(universe.quantify("forall", kinds, lambda *k, f=first, g=before: leq(f(*k), g(*k))))
        if last is not first and count.name not in run.unknown_counts:
            wrong.append(lnot(universe.quantify("forall", kinds, lambda *k, f=last, g=after: leq(f(*k), g(*k)))))
    verdict: Verdict = "proved"
    if any(w is not False for w in wrong):
        solver.add(z3.Or(*[w for w in wrong if w is not False]))
        answer = solver.check()
        verdict = "proved" if answer == z3.unsat else "refuted" if answer == z3.sat else "unknown"
    note = (
        "" if verdict == "proved" else "a count is not carried as its law says: an error of the kit, please report it"
    )
    return Obligation(
        place, "counts are what the laws say", "", verdict, time.perf_counter() - started, line, note=note
    )


def _write(directory: Path, model: Model, place: str, problems: Problems) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for i, problem in enumerate(problems.problems):
        path = directory / f"{model.name}-{place.replace(' ', '_')}-{i:03d}.smt2"
        path.write_text(f"; {model.name}.{place}: {problem.goal}\n{to_smt2(problem)}", encoding="utf-8")
