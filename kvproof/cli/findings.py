"""Findings of a hunt: as text that one understands without knowing the kit, as traces, and as JSON."""

import shlex
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from ..checkers.trace import Operation, Trace, TraceError, encode_trace
from ..engines.hunt import Finding, Report
from ..judge.record import Case, State, Step
from ..judge.violation import Verdict, Violation
from ..spec.rules import RULES
from ..untrusted.text import file_stem
from ..version import kit_version
from .schema import runs as schema

__all__ = [
    "case_of",
    "file_name",
    "played",
    "replay_line",
    "report_to_json",
    "short",
    "tell",
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


def file_name(target: str, finding: Finding) -> str:
    """A name for the finding's trace that says what it is:
    ``vllm-0.33.0-scheduler-P6-content-of-a-cached-block-host``."""
    # Of a driver's command, the names of its files; room must be left for what was found.
    name = target
    if target.startswith("exec:"):
        name = "exec-" + "-".join(word.rsplit("/", 1)[-1] for word in target.removeprefix("exec:").split())[:50]
    parts = (name, finding.case.level, *finding.violation.signature)
    return file_stem("-".join(parts).replace("==", "-")) + ".jsonl"


def replay_line(target: str, path: str) -> str:
    """The command that shows a trace's fault again."""
    return f"kvproof replay {shlex.quote(path)} --target {shlex.quote(target)}"


def tell(target: str, case: Case, found: Verdict, path: str | None = None) -> Iterator[str]:
    """Lines that say what is wrong, which rule that breaks, what led there, and how to see it again."""
    violation = found.violation
    yield f"{violation.rule} {violation.oracle}: {target}, level {case.level}"
    yield f"  what: {violation.text}"
    for other in found.also[:3]:
        yield f"  also: {other.rule} {other.oracle}: {other.text}"
    rule = RULES.get(violation.rule)
    yield f"  rule {violation.rule}: {rule.sentence if rule is not None else ''}"
    yield f"  setup: {short(case.setup)}"
    yield from played(case, found)
    yield from _around(found.answer.steps, found.at)
    if path is not None:
        yield f"  again: {replay_line(target, path)}"


def played(case: Case, found: Verdict) -> Iterator[str]:
    """A line for each operation, up to the one after which it shows."""
    steps = found.answer.steps
    for number, (op, asked) in enumerate(case.ops[: found.at + 1]):
        step = steps[number] if number < len(steps) else None
        args = short(asked if step is None else step.args, brackets=False)
        yield f"  {number + 1:3} {op} {args}".rstrip() + _outcome(step)


def _outcome(step: Step | None) -> str:
    if step is None:
        return "   <- not answered"
    if step.skipped:
        return "   (nothing to do)"
    if step.error is not None:
        return f"   <- {step.error.type}"
    return "" if step.result is None else f"  -> {short(step.result)}"


def _around(steps: list[Step], at: int) -> Iterator[str]:
    """What the last operation changed in the engine's state."""
    after = steps[at].state if at < len(steps) else None
    before = next((s.state for s in reversed(steps[:at]) if s.state is not None), None)
    if after is None:
        if before is not None:
            yield "  state before the last operation:"
            yield from (f"    {line}" for line in _lines(before))
        return
    old = dict(line.split(": ", 1) for line in _lines(before)) if before is not None else {}
    yield "  state after the last operation (before it, where that differs):"
    for line in _lines(after):
        name, value = line.split(": ", 1)
        was = old.get(name)
        yield f"    {name}: {value}" + ("" if was in (None, value) else f"   (before: {was})")


def _lines(state: State) -> Iterator[str]:
    for tier, pool in state.pools.items():
        if pool.ref is not None:
            yield f"{tier} ref_cnt: {short(pool.ref)}"
        if pool.free is not None:
            yield f"{tier} free queue: {short(pool.free)}"
        cached = {f"{key}/{group}": blocks for key, group, blocks in pool.cached or ()}
        yield f"{tier} cached (blocks by key/group): {short(cached)}"
    for request, tables in state.tables.items():
        yield f"block tables of {request}: {short(tables)}"
    for tier, blocks in state.holds.items():
        if blocks:
            yield f"{tier} blocks held by transfers and pins: {short(blocks)}"
    yield f"requests and transfers: {state.waiting} waiting, {state.running} running, {state.pending} transfers"


def short(value: Any, *, brackets: bool = True) -> str:
    """Plain data in few characters."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key}={short(item)}" for key, item in value.items() if item not in (None, [], {}))
        return f"{{{inside}}}" if brackets else inside
    return msgspec.json.encode(value).decode().replace(",", ", ").replace('"', "")


def report_to_json(report: Report) -> schema.Level:
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
        findings=[_finding(report.target, finding) for finding in report.findings],
        seconds=report.seconds,
        steps_per_second=report.speed,
        judged=UNSET if sight is None else sight.judged,
        not_judged=UNSET if sight is None else sight.unjudged,
    )


def _finding(target: str, finding: Finding) -> schema.Finding:
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
        trace=encode_trace(trace_of(target, finding.case, finding.verdict)).decode(),
    )


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
