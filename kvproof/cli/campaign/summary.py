"""What a campaign found, ready to be filed: a page, the same for programs, a trace and a script for each sighting."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.table import Table

from ...checkers.trace import encode_trace, write_atomically
from ...engines.known import Known
from ...spec.rules import RULES
from .. import standalone
from ..findings import file_name, may_be, tell, trace_of
from ..gaps import Gap
from ..output import Output, as_json
from ..schema import campaigns as schema
from ..schema import plain
from ..schema.runs import Symptom
from ..written import writing
from .causes import Cause, Parting, Seen, causes_of, partings_of
from .live import duration
from .store import Slice, Store

__all__ = ["show", "summary", "write"]

_PAGE, _JSON, _TRACES, _SCRIPTS = "summary.md", "summary.json", "traces", "scripts"


def summary(store: Store, known: Sequence[Known], gaps: Sequence[Gap], lost: int) -> schema.Hunt:
    """All that a campaign did and found so far."""
    slices = [*store.slices().values()]
    targets = store.asked.targets
    return schema.Hunt(
        folder=str(store.root),
        targets=[_target(target, [done for done in slices if done.target == target]) for target in targets],
        seconds=round(sum(done.wall for done in slices), 3),
        lost=lost,
        causes=[_cause(cause) for cause in causes_of(store, known)],
        partings=[_parting(parting) for parting in partings_of(store)],
        gaps=[*gaps, *_gaps(store)],
    )


def _target(target: str, slices: list[Slice]) -> schema.CampaignTarget:
    examples, steps, lost = dict[str, int](), dict[str, int](), dict[str, int]()
    for stretch in [stretch for done in slices for stretch in done.stretches]:
        examples[stretch.level] = examples.get(stretch.level, 0) + stretch.examples
        steps[stretch.level] = steps.get(stretch.level, 0) + stretch.steps
        for what, count in stretch.not_confirmed.items():
            lost[what] = lost.get(what, 0) + count
    seconds = round(sum(done.seconds for done in slices), 3)
    return schema.CampaignTarget(
        target=target, slices=len(slices), seconds=seconds, examples=examples, steps=steps, not_confirmed=lost
    )


def _gaps(store: Store) -> Iterator[Gap]:
    """What no slice judged: what one of them judged is no gap."""
    slices, asked = store.slices().values(), store.asked
    for target in asked.targets:
        of_target = [done for done in slices if done.target == target]
        if not of_target:
            yield Gap(target, "no slice of time came to its end", "give it more with --hours or --minutes")
        stretches = [stretch for done in of_target for stretch in done.stretches]
        judged = {s.level for s in stretches if all(gap.fault for gap in s.gaps)}
        last = {s.level: s for s in stretches}
        faults = {gap.why: gap for s in stretches for gap in s.gaps if gap.fault}
        unjudged = [gap for level, s in last.items() if level not in judged for gap in s.gaps if not gap.fault]
        for gap in (*unjudged, *faults.values()):
            yield replace(gap, part=_part(gap.part, target), mend=_mend(gap))


def _part(part: str, target: str) -> str:
    return part if part.startswith(target) else f"{target}, {part}"


def _mend(gap: Gap) -> str:
    """What to do about a gap of a single hunt, in the words of a campaign."""
    return "give it more with --hours or --minutes" if "--time" in gap.mend else gap.mend


def _cause(cause: Cause) -> schema.Cause:
    finding, violation = cause.finding, cause.finding.violation
    rule = RULES.get(violation.rule)
    seen = [*cause.seen.values()]
    return schema.Cause(
        title=cause.title,
        engine=cause.engine,
        rule=violation.rule,
        rule_text="" if rule is None else rule.sentence,
        oracle=violation.oracle,
        key=list(violation.key),
        text=violation.text,
        needs=sorted(finding.needs),
        unfinished=finding.unfinished,
        circumstances=sorted(finding.circumstances),
        symptoms=[
            Symptom(rule=v.rule, oracle=v.oracle, text=v.text) for v in (*finding.verdict.also, *finding.symptoms)
        ],
        levels=[*dict.fromkeys((*(each.finding.case.level for each in seen), *finding.levels))],
        seconds=round(cause.after, 3),
        story=[*tell(seen[0].sighting.target, seen[0].finding.case, seen[0].finding.verdict)],
        seen=[_sighting(each) for each in seen],
    )


def _sighting(seen: Seen) -> schema.Sighting:
    sighting, case = seen.sighting, seen.finding.case
    name = file_name(sighting.target, seen.finding).removesuffix(".jsonl")
    there = standalone.can_be(sighting.engine, case.level)
    return schema.Sighting(
        target=sighting.target,
        version=sighting.version,
        level=case.level,
        steps=len(case.ops),
        expected=seen.expected,
        perhaps=seen.perhaps,
        trace=f"{_TRACES}/{name}.jsonl",
        script=f"{_SCRIPTS}/{name}.py" if there else None,
    )


def _parting(parting: Parting) -> schema.Parting:
    return schema.Parting(targets=[*parting.seen], finding=parting.first.finding)


def write(store: Store, told: schema.Hunt, known: Sequence[Known]) -> None:
    """Write the page, the same for programs, the traces and the scripts into the folder."""
    with writing(store.root):
        for name in (_TRACES, _SCRIPTS):
            (store.root / name).mkdir(exist_ok=True)
        for cause, written in zip(causes_of(store, known), told.causes, strict=True):
            for seen, names in zip(cause.seen.values(), written.seen, strict=True):
                _write_sighting(store.root, cause, seen, names)
        write_atomically(store.root / _JSON, as_json(plain(told)))
        write_atomically(store.root / _PAGE, "\n".join(_page(told)).encode())


def _write_sighting(root: Path, cause: Cause, seen: Seen, names: schema.Sighting) -> None:
    sighting, finding = seen.sighting, seen.finding
    write_atomically(root / names.trace, encode_trace(trace_of(sighting.target, finding.case, finding.verdict)))
    if names.script is not None:
        of_release = (sighting.engine, sighting.version)
        script = standalone.script(cause.title, sighting.target, of_release, finding.case, finding.verdict)
        write_atomically(root / names.script, script.encode())


def _page(told: schema.Hunt) -> Iterator[str]:
    """The campaign as a page in Markdown."""
    yield from ("# What a campaign found", "")
    yield from ("| target | slices | time | cases | steps |", "| --- | --- | --- | --- | --- |")
    for each in told.targets:
        cases, steps = sum(each.examples.values()), sum(each.steps.values())
        yield f"| {_cell(each.target)} | {each.slices} | {duration(each.seconds)} | {cases:,} | {steps:,} |"
    yield ""
    yield from ("| cause | needs | seen at |", "| --- | --- | --- |")
    for number, cause in enumerate(told.causes, 1):
        seen = ", ".join(f"{each.target}{' (known)' if each.expected else ''}" for each in cause.seen)
        yield f"| {number}. {_cell(cause.title)} | {_cell(_needs(cause))} | {_cell(seen)} |"
    for number, cause in enumerate(told.causes, 1):
        yield from _of_cause(number, cause)
    for parting in told.partings:
        yield from ("", f"## Beside machine P: {parting.finding.oracle} after {parting.finding.rule}", "")
        yield from (f"Seen at {', '.join(parting.targets)}.", "")
        yield from ("```", *str(parting.finding.report or "").splitlines(), "```")
    for gap in told.gaps:
        yield from ("", _text(str(gap)))
    yield ""


def _of_cause(number: int, cause: schema.Cause) -> Iterator[str]:
    yield from ("", f"## {number}. {_text(cause.title)}", "")
    yield from (_text(cause.text), "")
    yield f"- Rule {cause.rule}: {_text(cause.rule_text)}"
    for each in cause.seen:
        known = f"; known: {_text(each.expected)}" if each.expected else ""
        known += f"; {may_be(cause.unfinished)}: {_text(each.perhaps)}" if each.perhaps else ""
        yield f"- {_text(each.target)} ({_text(each.version)}), level {each.level}, {each.steps} operations{known}"
        yield f"  - trace: [{each.trace}]({each.trace})"
        if each.script is None:
            yield f"  - no script without kvproof: {standalone.why_not(each.level)}"
        else:
            yield f"  - script without kvproof, for the engine's own interpreter: [{each.script}]({each.script})"
    if cause.needs:
        yield f"- It needs: {_text(_needs(cause))}"
    if cause.circumstances:
        yield f"- Here with: {_text(', '.join(cause.circumstances))}"
    for symptom in cause.symptoms:
        yield f"- It shows as well as {symptom.rule} {_text(symptom.oracle)}: {_text(symptom.text)}"
    yield from ("", "```", *(_fenced(line) for line in cause.story), "```")


def _needs(cause: schema.Cause) -> str:
    """What it does not show without; where that was not seen to its end, it may be another's cause that needs less."""
    return ", ".join(cause.needs) + (" (perhaps less)" if cause.needs and cause.unfinished else "")


def _cell(text: str) -> str:
    return _text(text).replace("|", "｜")


def _text(text: str) -> str:
    """Text of others as a part of a page: one line, no markup."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#" else c for c in " ".join(text.split()))


def _fenced(line: str) -> str:
    return line.replace("```", "'''")


def show(output: Output, told: schema.Hunt) -> None:
    """Print a line for each target and each cause, and where the rest is."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("target", "levels"):
        table.add_column(column)
    for column in ("slices", "time", "cases", "steps"):
        table.add_column(column, justify="right")
    for each in told.targets:
        cases, steps = sum(each.examples.values()), sum(each.steps.values())
        levels = ", ".join(each.examples)
        table.add_row(each.target, levels, f"{each.slices}", duration(each.seconds), f"{cases:,}", f"{steps:,}")
    output.tables.print(table)
    causes = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("cause", "needs", "seen at", "first after"):
        causes.add_column(column)
    for cause in told.causes:
        seen = ", ".join(f"{each.target}{' (known)' if each.expected else ''}" for each in cause.seen)
        causes.add_row(cause.title, _needs(cause), seen, duration(cause.seconds))
    for parting in told.partings:
        title = f"beside machine P: {parting.finding.oracle} after {parting.finding.rule}"
        causes.add_row(title, "", ", ".join(parting.targets), "")
    if told.causes or told.partings:
        output.tables.print(causes)
    output.line(f"{len(told.causes) + len(told.partings)} causes; {told.folder}/{_PAGE} has each ready to be filed")
