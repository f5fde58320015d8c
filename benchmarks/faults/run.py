"""How long does the kit take to find each fault of the benchmark? Appends to a file of results; prints the table.

    kvproof engines install sglang==0.5.23 ...                             # once: the releases of the manifests
    python -m benchmarks.faults.run benchmarks/data/faults.jsonl           # --only sglang, --kind seeded, --seconds 60
    python -m benchmarks.faults.run benchmarks/data/faults.jsonl --table   # the table of docs/faults.md

Cases are drawn at random from all families of the fault's level, each for itself, without any of what a hunt does to be
faster (no bandit, no memory of what is known). Time counts from the moment when the worker is ready. A fault that is
planted is found by the first case that breaks one of its rules; one that a release has by the first case that breaks
the rule of its trace in the same way, or, where it has no trace, one of its rules in its words, and does well on the
first release that is without it.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from benchmarks.faults.manifest import REFERENCE, Engine, Fault, read_all
from kvproof.checkers.fuzz import first_difference
from kvproof.checkers.trace import read_trace
from kvproof.cli.findings import violation_of
from kvproof.engines.cases import Cases
from kvproof.engines.catalog import ENGINES
from kvproof.engines.drawing import DRAWING
from kvproof.engines.session import Limits, Session
from kvproof.engines.store import StoreError, resolve
from kvproof.engines.traits import Traits
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.record import Case
from kvproof.judge.violation import Verdict, Violation
from kvproof.machine import Model

__all__ = ["Measured", "found_in_reference", "main", "read_results", "table"]

ROOT = Path(__file__).parents[2]
LIMITS = Limits(start=600, operation=20, answer=120)
MANY = 1_000_000


class Measured(msgspec.Struct, frozen=True):
    """How long it took to find a fault."""

    id: str
    seconds: float | None
    """None: it was not found."""
    cases: int
    """Cases that were run."""
    limit: float
    """So many seconds were given."""
    seed: int


class _Over(BaseException):
    """Found, or out of time: of another exception Hypothesis says that a case is flaky."""


def main() -> None:
    """Measure what is asked for and not yet there, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="engines, separated by commas; default: all")
    parser.add_argument("--kind", choices=["seeded", "historical"])
    parser.add_argument("--table", action="store_true", help="measure nothing")
    given_now = parser.parse_args()
    path: Path = given_now.results
    engines = read_all()
    known = read_results(path)
    chosen = given_now.only.split(",") if given_now.only else [engine.engine for engine in engines]
    for engine in [] if given_now.table else engines:
        if engine.engine in chosen:
            faults = [f for f in engine.fault if f.id not in known and given_now.kind in (None, f.kind)]
            for measured in _measured(engine, faults, given_now.seconds, given_now.seed):
                known[measured.id] = measured
                with path.open("ab") as sink:
                    sink.write(msgspec.json.encode(measured) + b"\n")
                print(measured, flush=True)
    print("\n".join(table(engines, known)))


def table(engines: list[Engine], known: dict[str, Measured]) -> Iterator[str]:
    """Yield the lines of the table: a fault each."""
    yield "| fault | engine | kind | level | rules | what is seen | found after |"
    yield "|---|---|---|---|---|---|---:|"
    for engine in engines:
        name = engine.engine if engine.engine == REFERENCE else f"{engine.engine} {{}}"
        for fault in engine.fault:
            where = name.format(fault.release)
            rules, after = ", ".join(fault.rules), _said(known.get(fault.id))
            yield f"| {fault.id} | {where} | {fault.kind} | {fault.level} | {rules} | {fault.symptom} | {after} |"


def _said(measured: Measured | None) -> str:
    if measured is None:
        return ""
    if measured.seconds is None:
        return f"not in {measured.limit:.0f} s"
    return f"{measured.seconds:.1f} s"


def read_results(path: Path) -> dict[str, Measured]:
    """What was measured so far, by the names of faults."""
    if not path.exists():
        return {}
    lines = [msgspec.json.decode(line, type=Measured) for line in path.read_bytes().splitlines()]
    return {measured.id: measured for measured in lines}


def _measured(engine: Engine, faults: list[Fault], seconds: float, number: int) -> Iterator[Measured]:
    """Search for each fault in turn; those that nothing here can drive are left out."""
    if engine.engine == REFERENCE:
        for fault in faults:
            yield found_in_reference(fault, seconds, number)
        return
    if engine.engine not in ENGINES:
        return
    sessions: dict[tuple[str, str, str], Session] = {}

    def session(release: str, planted: str, level: str) -> Session:
        wanted = release, planted, level
        return sessions.get(wanted) or sessions.setdefault(wanted, _session(engine.engine, *wanted))

    try:
        for fault in faults:
            cases = ENGINES[engine.engine].cases(fault.level)
            if cases is None:
                continue
            try:
                having = session(fault.release, fault.planted.partition(":")[0], fault.level)
                # What a trace shows is told by that; else a case counts that a release without the fault does well.
                without = None if fault.trace or not fault.absent else session(fault.absent, "", fault.level)
            except StoreError as error:
                print(error)
                continue
            yield _searched(fault, cases, having, without, seconds, number)
    finally:
        for each in sessions.values():
            each.close()


def _session(engine: str, release: str, planted: str, level: str) -> Session:
    """A worker around the release as it is, or around the file that plants faults into it."""
    build = resolve(f"{engine}=={release}")
    if not planted:
        return Session.of(build, LIMITS, [level])
    adapters = str(ENGINES[engine].WORKER.parent)
    environment = {**build.environment(), "KVPROOF_TEST_ADAPTERS": adapters}
    return Session.around(ROOT / planted, build.python, environment, LIMITS, [level])


def _shows(fault: Fault, traits: Traits) -> Callable[[Case, Verdict | None], bool]:
    """What tells whether a verdict of a case is the fault's."""
    wanted: Violation | None = None
    if fault.trace:
        wanted = violation_of(read_trace(ROOT / fault.trace))

    def shows(case: Case, found: Verdict | None) -> bool:
        if found is None or not traits.of(case).issuperset(fault.needs):
            return False
        if wanted is not None:
            return any(v.signature == wanted.signature for v in found.violations)
        return any(v.rule in fault.rules and fault.words in json.dumps([v.key, v.text]) for v in found.violations)

    return shows


def _searched(
    fault: Fault, of: Cases, session: Session, without: Session | None, seconds: float, number: int
) -> Measured:
    """Draw cases until one shows the fault, or the time is over."""
    traits = Traits(()) if of.traits is None else of.traits(fault.release)
    shows, name = _shows(fault, traits), fault.planted.partition(":")[2]
    began, cases, after = 0.0, 0, None

    @seed(number)
    @settings(DRAWING, max_examples=MANY)
    @given(st.one_of(*of.profiles(fault.release).values()))
    def search(case: Case) -> None:
        nonlocal began, cases, after
        began = began or time.monotonic()
        cases += 1
        broken = {**case.setup, "fault": name} if name else case.setup
        whole = close(Case(case.level, broken, case.ops))
        is_shown = shows(whole, verdict(session, whole, of.more_oracles)[0])
        if is_shown and (without is None or not shows(whole, verdict(without, whole, of.more_oracles)[0])):
            after = time.monotonic() - began
            raise _Over
        if time.monotonic() - began > seconds:
            raise _Over

    assert session.hello.levels  # It is ready.
    with suppress(_Over):
        search()
    return Measured(fault.id, after, cases, seconds, number)


def found_in_reference(fault: Fault, seconds: float, number: int) -> Measured:
    """Fuzz the reference implementation with the fault beside its machine; twice as many runs each time."""
    from kvproof.harness.instances import instances
    from kvproof.harness.tree.instances import tree_instances
    from kvproof.spec.pool import Pool
    from kvproof.spec.tree import PrefixTree
    from tests.stateful import mutants, tree_mutants

    name = fault.planted.partition(":")[2]

    def differs(examples: int) -> bool:
        how = {"seed": number, "examples": examples, "steps": 30}
        if fault.level == "tree":
            broken = tree_mutants.MUTANTS[name].kind
            return bool(first_difference(Model.of(PrefixTree), broken, tree_instances(PrefixTree), **how))
        return bool(first_difference(Model.of(Pool), mutants.MUTANTS[name][0], instances(), **how))

    began, cases = time.monotonic(), 25
    while not differs(cases):
        if time.monotonic() - began > seconds:
            return Measured(fault.id, None, cases, seconds, number)
        cases *= 2
    return Measured(fault.id, time.monotonic() - began, cases, seconds, number)


if __name__ == "__main__":
    main()
