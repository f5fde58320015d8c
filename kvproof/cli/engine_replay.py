"""A trace of a real engine once more: on one release (``kvproof replay``), or on many (``kvproof bisect``).

A trace never chooses what is run, beyond an installed release: commands and interpreters come from the command line.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.version import Version

from ..checkers.trace import Trace, write_atomically, write_itf
from ..engines.build import Build
from ..engines.cases import MoreOracles
from ..engines.driver.asked import problem_of
from ..engines.driver.command import Driver, is_driver
from ..engines.driver.requests import LEVEL
from ..engines.session import Session, WorkerError
from ..engines.store import names_release
from ..engines.verdicts import verdict
from ..errors import ExitStatus, UsageError
from ..judge.record import Case
from ..judge.violation import HARMLESS, KIT, Verdict, Violation
from . import standalone
from .findings import case_of, tell, title_of, violation_of
from .gaps import Gap
from .hunting import more_oracles, open_target
from .output import Output
from .schema import runs as schema
from .written import writing

__all__ = ["UNDRIVEN", "Outcome", "bisect", "gaps_of", "outcome_in", "outcome_on", "replay_engine"]


UNDRIVEN = ("refused", "idle")
"""Kinds of outcomes that say nothing about a release."""


@dataclass(frozen=True)
class Outcome:
    """What a case does on a release."""

    build: Build | Driver
    kind: Literal["same", "other", "none", "refused", "idle"]
    """``same`` fault as recorded, ``other`` fault, ``none``; ``refused``: the release does not take the setup;
    ``idle``: it takes the setup, and none of the operations has anything to act on."""
    violation: Violation | None = None
    verdict: Verdict | None = None
    why: str = ""
    """Why nothing can be said."""

    @property
    def words(self) -> str:
        """The outcome in a few words."""
        if self.violation is not None:
            return f"{self.violation.rule} {self.violation.oracle}: {self.violation.text}"
        return f"not driven: {self.why}" if self.kind in UNDRIVEN else "nothing is wrong"


def outcome_on(
    build: Build | Driver, case: Case, recorded: Violation | None, more: MoreOracles | None = None
) -> Outcome:
    """Run a case on a release, in a worker of its own.

    Raises:
        UsageError: the release cannot be driven at all.
    """
    try:
        with Session.of(build) as session:
            return outcome_in(session, build, case, recorded, more)
    except WorkerError as error:
        raise UsageError(f"{build.label} cannot be driven: {error}") from error


def outcome_in(
    session: Session,
    build: Build | Driver,
    case: Case,
    recorded: Violation | None,
    more: MoreOracles | None = None,
) -> Outcome:
    """Run a case in a session with a release.

    Raises:
        WorkerError: no worker can be started.
    """
    if case.level not in session.hello.levels:
        return Outcome(build, "refused", why=f"there is no level {case.level}")
    found, answer = verdict(session, case, more)
    passed: set[tuple[str, ...]] = set()
    # What was recorded may stand behind faults that do no harm to it, as it did when it was found.
    while found is not None and recorded is not None and _hides(found.violation, recorded):
        passed.add(found.violation.signature)
        later, _ = verdict(session, case, more, passed)
        if later is None:
            break
        found = later
    if answer.refused is not None:
        return Outcome(build, "refused", why=answer.refused)
    if found is None and all(step.skipped for step in answer.steps):
        return Outcome(build, "idle", why=f"none of its {len(case.ops)} operations had anything to act on")
    if found is None:
        return Outcome(build, "none")
    # An exception may move within the source from release to release: its rule and type are what stays.
    same = recorded is None or (found.violation.rule, found.violation.oracle) == (recorded.rule, recorded.oracle)
    return Outcome(build, "same" if same else "other", found.violation, found)


def _hides(violation: Violation, recorded: Violation) -> bool:
    return violation.rule in HARMLESS and violation.signature != recorded.signature


def replay_engine(
    output: Output, name: str, recorded: Trace, target: str | None, itf: Path | None, script: Path | None = None
) -> int:
    """Replay an engine's trace and tell what is wrong now; as a script, too, where one is asked for.

    Raises:
        UsageError: the engine cannot be used, the trace names one that only the command line may name, or there are no
            scripts for what drives it.
    """
    case, wanted = case_of(recorded), violation_of(recorded)
    _check_operations(name, case)
    target = _own_target(name, recorded.subject) if target is None else target
    if itf is not None:
        with writing(itf):
            write_itf(itf, recorded)
    build = open_target(target)
    if script is not None and (isinstance(build, Driver) or not standalone.can_be(build.name, case.level)):
        raise UsageError(f"there is no script to write: {standalone.why_not(case.level)}; leave --script out")
    outcome = outcome_on(build, case, wanted, more_oracles(case.level, build))
    if outcome.verdict is not None:
        for line in tell(target, case, outcome.verdict):
            output.line(line)
        if outcome.kind == "other" and wanted is not None:
            output.line(f"  the trace was recorded for another fault: {wanted.rule} {wanted.oracle}: {wanted.text}")
    else:
        output.line(f"{name}: {len(case.ops)} operations on {target}: {outcome.words}")
    if script is not None:
        output.line(_written(script, target, case, outcome))
    found = outcome.violation
    output.report(
        schema.ReplayEngine(
            trace=name,
            target=target,
            operations=len(case.ops),
            outcome=outcome.kind,
            problem=None
            if found is None
            else schema.EngineProblem(rule=found.rule, oracle=found.oracle, text=found.text),
            why=outcome.why or None,
        )
    )
    if outcome.kind in UNDRIVEN:
        return ExitStatus.UNDECIDED
    if found is not None and found.rule == KIT:
        return ExitStatus.UNUSABLE
    return ExitStatus.HOLDS if outcome.violation is None else ExitStatus.REFUTED


def _check_operations(name: str, case: Case) -> None:
    """See that the trace asks what can be asked: what is damaged would be told as a fault of who is asked.

    Raises:
        UsageError: it does not.
    """
    for number, (op, args) in enumerate(case.ops if case.level == LEVEL else (), start=1):
        if problem := problem_of(op, args):
            raise UsageError(f"{name}: operation {number}: {problem}, which nobody asks; record the trace again")


def _written(script: Path, target: str, case: Case, outcome: Outcome) -> str:
    """Write what an engine did as a script, and say so, or why there is none."""
    if outcome.verdict is None or isinstance(outcome.build, Driver):
        return "no script was written, since there is no fault to show"
    release = (outcome.build.name, outcome.build.version)
    text = standalone.script(title_of(outcome.verdict.violation), target, release, case, outcome.verdict)
    with writing(script):
        write_atomically(script, text.encode())
        return f"a script that shows it without kvproof, for the engine's own interpreter: {script}"
    return "no script was written"


def _own_target(name: str, subject: str) -> str:
    """The target that a trace may choose by itself: a release, of which only installed ones are run.

    Raises:
        UsageError: it names anything else; the message says what to give on the command line.
    """
    if names_release(subject):
        return subject
    if is_driver(subject) or "@" in subject:
        raise UsageError(
            f"{name} was recorded on {subject}, and a trace never starts a program of its own choice; if you know that "
            f"program and trust it, name it yourself: --target {shlex.quote(subject)}"
        )
    raise UsageError(
        f"{name} was recorded on {subject}, which is no release; name what it is replayed on: --target vllm==VERSION, "
        "--target vllm@PYTHON, --target exec:COMMAND or --target python:MODULE:CLASS"
    )


def bisect(
    case: Case, recorded: Violation | None, builds: Sequence[Build], tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Run a case on releases, the oldest first, and return what it does on each."""
    outcomes: list[Outcome] = []
    for build in sorted(builds, key=lambda build: Version(build.version)):
        outcomes.append(outcome_on(build, case, recorded, more_oracles(case.level, build)))
        tell(outcomes[-1])
    return outcomes


def gaps_of(outcomes: Sequence[Outcome]) -> Iterator[Gap]:
    """What a trace over releases did not show: where every release refuses it, or nothing is done."""
    if any(outcome.kind not in UNDRIVEN for outcome in outcomes):
        return
    why = "; ".join(f"{outcome.build.label}: {outcome.why}" for outcome in outcomes)
    yield Gap("the trace", f"no release drove it ({why})", "name others with --releases")
