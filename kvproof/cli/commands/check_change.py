"""``kvproof check-change``: what a change to a block manager breaks, and what it mends."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import gaps
from ..options import LONGEST, JsonOption
from ..output import Output
from ..written import check_folder, writing

if TYPE_CHECKING:
    from ...engines.report import Finding, HuntReport
    from ..behaviour import Behaviour
    from ..changes import Change, Changes, Side, SoFar

HEADINGS = {
    "broken": "broken by the change",
    "mended": "mended by the change",
    "both": "wrong on both sides",
    "unlike": "wrong, and the other side says nothing of it",
}
"""What is told of each fate."""

_KINDS = 3
"""Of so many kinds of differences a case is shown."""

HUNT_SECONDS = 120.0
"""For both sides together, when nothing else is said."""


def check_change(
    base: Annotated[
        str, typer.Option(metavar="TARGET", help="Before the change: vllm==VERSION, vllm@PYTHON, exec:…, python:….")
    ],
    head: Annotated[str, typer.Option(metavar="TARGET", help="With it.")],
    level: Annotated[
        list[str] | None, typer.Option(metavar="LEVEL", help="Only this level; may be given again. Default: all.")
    ] = None,
    profile: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this family of cases; may be given again.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the cases, the same on both sides.")] = 0,
    examples: Annotated[int | None, typer.Option(min=1, help="How many cases per level and side.")] = None,
    time: Annotated[
        float, typer.Option(min=0.1, max=LONGEST, metavar="SECONDS", help="For both sides together.")
    ] = HUNT_SECONDS,
    known: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A known.toml: findings in it are told apart as no news.")
    ] = None,
    traces: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the trace of each finding there.")] = None,
    json: JsonOption = None,
) -> int:
    """Let both sides of a change do the same, and say what the change breaks and what it mends."""
    output = Output(json)
    check_folder("--traces", traces)
    from dataclasses import replace

    from ..changes import SoFar, check_sides, common_levels
    from ..engine_fuzzing import read_list
    from ..hunting import Plan, open_target

    before, after = open_target(base), open_target(head)
    plan = Plan(
        build=before,
        target=base,
        levels=common_levels(before, after, level or ()),
        seed=seed,
        seconds=time / 2,
        examples=examples,
        known=read_list(known),
        profiles=tuple(profile or ()),
    )
    so_far = SoFar()
    try:
        with output.progress("checking the change") as advance:

            def on_progress(side: str, report: "HuntReport") -> None:
                words = f"{side}, level {report.level}: {report.steps:,} steps"
                advance(round(report.seconds), round(time / 2), words)

            found = check_sides(plan, replace(plan, build=after, target=head), on_progress, so_far)
    except KeyboardInterrupt:
        # Who ends this does not end what it found.
        _show_unfinished(output, so_far, traces)
        raise
    _show(output, found, traces)
    output.report(found.to_json())
    return gaps.conclude(output, found=found.has("broken"), gaps=found.gaps, undecided=found.has("unlike"))


def _show(output: Output, found: "Changes", traces: Path | None) -> None:
    """Say what both sides did, and of each fault what the change has to do with it."""
    for side in (found.base, found.head):
        cases, steps = (sum(counts) for counts in zip(*((r.examples, r.steps) for r in side.reports), strict=True))
        output.line(f"{side.name} {side.plan.target}: {cases:,} cases, {steps:,} steps, {', '.join(side.plan.levels)}")
    for fate, heading in HEADINGS.items():
        changes = [change for change in found.changes if change.fate == fate]
        output.line(f"{heading}: {len(changes)}")
        for change in changes:
            _show_one(output, change, traces)
            if found.shows_otherwise(change):
                other = "base" if change.side.name == "head" else "head"
                output.line(
                    f"  {other} breaks the rule in the same way in other cases: see whether it is the same fault"
                )
    for behaviour in found.behaviour:
        _show_behaviour(output, behaviour)


def _show_unfinished(output: Output, so_far: "SoFar", traces: Path | None) -> None:
    """Say what was found until the command was ended: of some of it nobody knows what the change has to do with it."""
    for fate, heading in HEADINGS.items():
        if changes := [change for change in so_far.changes if change.fate == fate]:
            output.line(f"{heading}: {len(changes)}")
        for change in changes:
            _show_one(output, change, traces)
    if so_far.unasked:
        output.line(f"found, and the other side was not asked yet: {len(so_far.unasked)}")
    for side, finding in so_far.unasked:
        for line in _told(side, finding, traces):
            output.line(line)
        output.line(f"  found on {side.name}")


def _show_one(output: Output, change: "Change", traces: Path | None) -> None:
    """Tell a fault, and what the other side does in the same case."""
    told = _told(change.side, change.finding, traces)
    if change.finding.expected is None and change.fate in ("mended", "both"):
        told = told[:2]
    for line in told:
        output.line(line)
    output.line(f"  {'base' if change.side.name == 'head' else 'head'}, the same case: {change.elsewhere.words}")


def _told(side: "Side", finding: "Finding", traces: Path | None) -> list[str]:
    """A finding of a side as text; its trace is written, if that is wanted."""
    from ...checkers.trace import write_trace
    from ..findings import file_name, tell, trace_of

    target, path = side.plan.target, None
    if traces is not None:
        place = traces / f"{side.name}-{file_name(target, finding)}"
        with writing(place):
            traces.mkdir(parents=True, exist_ok=True)
            write_trace(place, trace_of(target, finding.case, finding.verdict, side.plan.seed))
            path = place  # Nobody is sent to a trace that is not there.
    told = list(tell(target, finding.case, finding.verdict, None if path is None else str(path)))
    return told if finding.expected is None else [f"expected: {told[0]}: {finding.expected}"]


def _show_behaviour(output: Output, behaviour: "Behaviour") -> None:
    """Say what both sides do differently at a level, and of each kind the shortest case that shows it."""
    from ..findings import played, short

    if not behaviour.cases:
        output.line(
            f"different and no fault, level {behaviour.level}: not compared: no case went right on both sides in time"
        )
        return
    different = behaviour.kinds.total()
    what = f"different and no fault, level {behaviour.level}: {different:,} of {behaviour.cases:,} cases in which "
    output.line(f"{what}nothing is wrong on either side")
    for kind, count in behaviour.kinds.most_common(_KINDS):
        found = behaviour.shortest[kind]
        output.line(f"  {kind}, in {count:,} of them; the shortest: setup {short(found.case.setup)}")
        for line in played(found.case, found.answer, found.at):
            output.line(f"  {line}")
        output.line(f"    then {kind} is {short(found.base)} on base, {short(found.head)} on head")
