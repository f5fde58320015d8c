"""Findings of a hunt: as text that one understands without knowing the kit, as traces, and as JSON."""

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET

from ..checkers.trace import Operation, Trace, TraceError, encode_trace
from ..engines.report import Finding, HuntReport, Spent
from ..judge.record import Case
from ..judge.violation import Verdict, Violation
from ..testing.telling import played, replay_line, short, tell
from ..untrusted.text import file_stem
from ..version import kit_version
from .schema import runs as schema

__all__ = [
    "case_of",
    "file_name",
    "finding_to_json",
    "may_be",
    "played",
    "replay_line",
    "report_to_json",
    "short",
    "tell",
    "time_to_json",
    "title_of",
    "trace_of",
    "violation_of",
]


def trace_of(target: str, case: Case, found: Verdict, seed: int | None = None) -> Trace:
    """A case and what is wrong with it: each operation as it was asked for, its result, the states around the fault."""
    violation = found.violation
    steps = dict(enumerate(found.answer.steps))
    operations: list[Operation] = []
    for number, (op, args) in enumerate(case.ops):
        step = steps.get(number)
        near = step is not None and step.state is not None and found.at - 1 <= number <= found.at
        operations.append(
            Operation(
                op,
                args,
                result=UNSET if step is None or step.error is not None else _plain(step.result),
                snapshot=_plain(step.state) if step is not None and near else UNSET,
            )
        )
    return Trace(
        subject=target,
        level=case.level,
        operations=operations,
        dialect={
            "setup": case.setup,
            "violation": {
                "rule": violation.rule,
                "oracle": violation.oracle,
                "key": list(violation.key),
                "text": violation.text,
                "at": found.at,
            },
        },
        kit=kit_version(),
        seed=seed,
        note=f"{violation.rule} ({violation.oracle}): {violation.text}",
    )


def case_of(trace: Trace, name: str = "the trace") -> Case:
    """The case that a trace was recorded from; messages call it by its ``name``.

    Raises:
        TraceError: the trace is none of an engine's level.
    """
    setup = trace.dialect.get("setup")
    if not isinstance(setup, dict):
        raise TraceError(
            f"{name} holds no engine's setup; replay the traces that kvproof fuzz writes for engines, "
            "or name the machine with --machine"
        )
    return Case(trace.level, setup, [(operation.op, operation.args) for operation in trace.operations])


def violation_of(trace: Trace) -> Violation | None:
    """The violation that a trace was written for."""
    found = trace.dialect.get("violation")
    if not isinstance(found, dict):
        return None
    try:
        return Violation(str(found["rule"]), str(found["oracle"]), str(found["text"]), tuple(map(str, found["key"])))
    except (KeyError, TypeError) as error:
        raise TraceError("the trace's violation is not readable; record the trace again") from error


def title_of(violation: Violation) -> str:
    """A violation in a few words: ``P6 content of a cached block (host)``."""
    key = f" ({', '.join(violation.key)})" if violation.key else ""
    return f"{violation.rule} {violation.oracle}{key}"


def may_be(unfinished: bool) -> str:
    """What is said before an entry of a list that shows as a finding does and needs less."""
    return "with less it would be what is listed" if unfinished else "what is listed shows so with less"


def file_name(target: str, finding: Finding) -> str:
    """A name for the finding's trace that says what it is, how it shows and what it needs:
    ``vllm-0.33.0-scheduler-P6-content-of-a-cached-block-host-mamba-runner-2``."""
    # Of a driver's command, the names of its files; room must be left for what was found.
    name = target
    if target.startswith("exec:"):
        name = "exec-" + "-".join(word.rsplit("/", 1)[-1] for word in target.removeprefix("exec:").split())[:50]
    full = "-".join((name, finding.case.level, *finding.violation.signature, *sorted(finding.needs)))
    stem = file_stem(full.replace("==", "-"))
    if len(full) > len(stem) + 2:  # It was cut: two causes may begin alike.
        stem = f"{stem[:110]}-{hashlib.blake2b(full.encode(), digest_size=4).hexdigest()}"
    return stem + ".jsonl"


def report_to_json(report: HuntReport) -> schema.Level:
    """A hunt's report for programs."""
    sight = report.sight
    return schema.Level(
        target=report.target,
        level=report.level,
        examples=report.examples,
        steps=report.steps,
        coverage={**report.coverage},
        refused=report.refused,
        skipped=report.skipped,
        profiles=report.profiles,
        activity=report.activity.to_json(),
        findings=[finding_to_json(report.target, finding) for finding in report.findings],
        seconds=report.seconds,
        steps_per_second=report.speed,
        time=time_to_json(report.spent),
        not_confirmed=report.unconfirmed,
        not_looked_at=report.unsorted,
        judged=UNSET if sight is None else sight.judged,
        not_judged=UNSET if sight is None else sight.unjudged,
    )


def finding_to_json(target: str, finding: Finding) -> schema.Finding:
    """A finding for programs."""
    return schema.Finding(
        oracle=finding.violation.oracle,
        rule=finding.violation.rule,
        key=list(finding.violation.key),
        text=finding.violation.text,
        level=finding.case.level,
        profile=finding.profile,
        steps=len(finding.case.ops),
        seconds=round(finding.seconds, 3),
        expected=finding.expected,
        needs=sorted(finding.needs),
        unfinished=finding.unfinished,
        perhaps=finding.perhaps,
        symptoms=[
            schema.Symptom(rule=v.rule, oracle=v.oracle, text=v.text)
            for v in (*finding.verdict.also, *finding.symptoms)
        ],
        ways=[
            schema.Way(
                needs=sorted(way.needs),
                steps=len(way.case.ops),
                trace=encode_trace(trace_of(target, way.case, way.verdict)).decode(),
            )
            for way in finding.ways
        ],
        levels=list(finding.levels),
        cases=finding.cases,
        trace=encode_trace(trace_of(target, finding.case, finding.verdict)).decode(),
    )


def time_to_json(spent: Spent) -> schema.Time:
    """Where time went, for programs."""
    return schema.Time(
        started=round(spent.started, 3),
        searched=round(spent.searched, 3),
        shrunk=round(spent.shrunk, 3),
        confirmed=round(spent.confirmed, 3),
    )


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
