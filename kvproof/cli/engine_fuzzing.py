"""``kvproof fuzz`` on a real engine: what comes of a plan, and how it is shown."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from ..checkers.trace import write_trace
from ..engines.causes import merged
from ..engines.known import Known, KnownError, read_known
from ..engines.report import Finding, HuntReport, Spent
from ..errors import UsageError
from ..judge.sight import Sight
from .activity_table import activity_table
from .findings import file_name, may_be, report_to_json, tell, time_to_json, trace_of
from .gaps import Gap, of_fuzz, of_hunt
from .hunting import POOL, Plan, hunt_levels, levels_of
from .output import Output
from .refimpl_fuzzing import coverage_of, finding_of, show, trace_names
from .schema import runs as schema
from .written import writing

if TYPE_CHECKING:
    from ..checkers.fuzz import FuzzReport

__all__ = ["Result", "fuzz_engine", "read_list"]


_NAMED = 6
"""So many families of cases that had no turn are named."""


@dataclass
class Result:
    """What came of it."""

    target: str
    reports: list[HuntReport] = field(default_factory=list)
    pool: "FuzzReport | None" = None
    not_driven: list[Gap] = field(default_factory=list)
    """Levels at which the build cannot be driven."""

    @property
    def news(self) -> bool:
        """Whether something was found that no list of known findings has."""
        found = any(f.expected is None for report in self.reports for f in report.findings)
        return found or bool(self.pool is not None and self.pool.findings)

    @property
    def gaps(self) -> list[Gap]:
        """The levels at which nothing was judged, and why."""
        found = [gap for report in self.reports for gap in of_hunt(report)]
        found += [] if self.pool is None else of_fuzz(self.pool, f"level {POOL}")
        return found + self.not_driven

    def to_json(self) -> schema.FuzzEngine:
        """The result for programs: the totals, and a report per level."""
        levels = [report_to_json(report) for report in self.reports]
        if self.pool is not None:
            levels.append(_pool_to_json(self.pool))
        return schema.FuzzEngine(
            target=self.target,
            level=",".join(level.level for level in levels),
            examples=sum(level.examples for level in levels),
            steps=sum(level.steps for level in levels),
            coverage={level.level: level.coverage for level in levels},
            findings=[finding for level in levels for finding in level.findings],
            seconds=max((level.seconds for level in levels), default=0.0),
            levels=levels,
            gaps=self.gaps,
            time=time_to_json(self.spent),
        )

    @property
    def spent(self) -> Spent:
        """Where the time of all levels and processes went; beside a machine all of it is searching."""
        searched = 0.0 if self.pool is None else self.pool.seconds
        return sum((report.spent for report in self.reports), Spent(searched=searched))

    def found(self) -> Iterator[tuple[schema.Finding, str]]:
        """All findings for programs, each with the name that its trace has in the folder of ``--traces``."""
        for report in self.reports:
            for finding, told in zip(report.findings, report_to_json(report).findings, strict=True):
                yield told, file_name(self.target, finding)
        if self.pool is not None:
            yield from zip(map(finding_of, self.pool.findings), trace_names(self.pool), strict=True)


def _pool_to_json(report: "FuzzReport") -> schema.Level:
    return schema.Level(
        target=report.target,
        level=report.level,
        examples=report.examples,
        steps=report.steps,
        coverage={**coverage_of(report.coverage)},
        reached=report.reached,
        activity={**report.activity.to_json()},
        findings=[finding_of(found) for found in report.findings],
        seconds=report.seconds,
    )


def read_list(path: Path | None) -> tuple[Known, ...]:
    """The known findings that a file lists; none without a file.

    Raises:
        UsageError: the file cannot be used.
    """
    try:
        return () if path is None else tuple(read_known(path))
    except KnownError as error:
        raise UsageError(str(error)) from error


def fuzz_engine(output: Output, plan: Plan, traces: Path | None = None) -> Result:
    """Fuzz as planned, show what was found, and write the trace of each finding to ``traces``.

    Raises:
        UsageError: the engine or a level cannot be used.
    """
    levels = levels_of(plan.build)
    unknown = sorted(set(plan.levels) - set(levels))
    if unknown:
        raise UsageError(f"{plan.target} has no level {unknown[0]}; name one of {', '.join(levels)}")
    result = Result(plan.target)
    seen: dict[str, HuntReport] = {}
    met: list[Finding] = []
    try:
        with output.progress(f"fuzzing {plan.target}") as advance:

            def on_progress(report: HuntReport) -> None:
                seen[report.level] = report
                steps = ", ".join(f"{name} {r.steps:,}" for name, r in seen.items())
                done = min(plan.seconds, max(r.seconds for r in seen.values()))
                advance(round(done), round(plan.seconds), f"fuzzing {plan.target}: steps of {steps}")

            for report in hunt_levels(plan, on_progress, met.append):
                if isinstance(report, HuntReport):
                    result.reports.append(report)
                elif isinstance(report, Gap):
                    result.not_driven.append(report)
                else:
                    result.pool = report
    except KeyboardInterrupt:
        # Who ends this does not end what it found.
        for finding in merged(met, plan.levels):
            _show_finding(output, plan, traces, finding)
        raise
    _show(output, plan, traces, result)
    return result


def _show(output: Output, plan: Plan, traces: Path | None, result: Result) -> None:
    """Print a line per level, and every finding."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("level")
    for column in ("cases", "steps", "steps/s", "setups refused", "findings", "expected", "seconds"):
        table.add_column(column, justify="right")
    for report in result.reports:
        expected = sum(f.expected is not None for f in report.findings)
        speed = report.speed or 0.0
        new = len(report.findings) - expected
        table.add_row(
            report.level, f"{report.examples:,}", f"{report.steps:,}", f"{speed:,.0f}", f"{report.refused:,}",
            f"{new}", f"{expected}", f"{report.seconds:.0f}",
        )  # fmt: skip
    if (pool := result.pool) is not None:
        speed = pool.steps / pool.seconds if pool.seconds else 0.0
        table.add_row(
            POOL, f"{pool.examples:,}", f"{pool.steps:,}", f"{speed:,.0f}", "", f"{len(pool.findings)}", "0",
            f"{pool.seconds:.0f}",
        )  # fmt: skip
    output.tables.print(table)
    _show_time(output, result)
    output.tables.print(activity_table(_activity(result)))
    for report in result.reports:
        _show_families(output, report)
        if report.sight is not None:
            _show_sight(output, report.sight)
    for report in result.reports:
        for finding in (*report.findings, *report.astray):
            _show_finding(output, plan, traces, finding)
        if not report.findings:
            _show_met_once(output, plan, report)
    if result.pool is not None and result.pool.findings:
        show(output, result.pool, traces)


def _show_time(output: Output, result: Result) -> None:
    """Say where the time went, and what was met and is no finding."""
    spent = result.spent
    whole = spent.searched + spent.shrunk + spent.confirmed
    if whole:
        parts = f"{spent.searched / whole:.0%} searching, {spent.shrunk / whole:.0%} telling causes apart and shrinking"
        rest = f"{spent.confirmed / whole:.0%} seeing findings again; before that {spent.started:.0f} s until ready"
        output.line(f"time of all processes: {parts}, {rest}")
    for report in result.reports:
        for what, count in report.unconfirmed.items():
            output.line(f"level {report.level}: no finding, as a fresh worker did not show it again: {what} ({count})")
        if report.unsorted and report.findings:
            output.line(f"level {report.level}: {report.unsorted} more kinds of cases broke a rule; --time gives more")


def _activity(result: Result) -> list[tuple[str, dict[str, int | None]]]:
    """What happened at each level. A block of the level `pool` has one token."""
    rows = [(report.level, report.activity.to_json()) for report in result.reports]
    if result.pool is not None:
        counts: dict[str, int | None] = {**result.pool.activity.to_json()}
        as_tokens = {"hit_tokens": counts.pop("hit_blocks"), "wanted_evicted": counts.pop("stored_again")}
        rows.append((POOL, counts | as_tokens))
    return rows


def _show_families(output: Output, report: HuntReport) -> None:
    """Name the families of cases that had no turn, or of which the engine took none."""
    idle = [name for name, taken in report.profiles.items() if not taken]
    if idle:
        named = ", ".join(idle[:_NAMED]) + (f" and {len(idle) - _NAMED} more" if len(idle) > _NAMED else "")
        text = f"level {report.level}: no case of {named} ({len(idle)} of {len(report.profiles)} families of cases)"
        output.tables.print(f"{text}; --time gives more turns", markup=False, highlight=False, soft_wrap=True)


def _show_sight(output: Output, sight: Sight) -> None:
    """Say which rules were judged, and which were not and why."""
    lines = [f"rules judged: {', '.join(sight.judged)}"]
    lines += [f"not judged: {rule}: {why}" for rule, why in sight.unjudged.items()]
    for line in lines:
        output.line(line)
    output.tables.print("")


def _show_met_once(output: Output, plan: Plan, report: HuntReport) -> None:
    """Tell what was met and not seen again, where there is nothing else to go by: it is no finding, and no silence."""
    once = "met once, and not when a fresh worker was asked for this case alone, so that it is no finding"
    left = "met once, and there was no time to see it again, so that it is no finding yet; give it more with --time"
    met = [(each, once) for each in report.met_once.values()]
    met += [(each, left) for name, each in report.left_over.items() if name not in report.met_once]
    for (case, verdict), why in met[:_NAMED]:
        for line in tell(plan.target, case, verdict):
            output.line(line)
        output.line(f"  {why}")
        output.tables.print("")


def _show_finding(output: Output, plan: Plan, traces: Path | None, finding: Finding) -> None:
    path = None
    if traces is not None:
        place = traces / file_name(plan.target, finding)
        with writing(place):
            traces.mkdir(parents=True, exist_ok=True)
            write_trace(place, trace_of(plan.target, finding.case, finding.verdict, plan.seed))
            path = place  # Nobody is sent to a trace that is not there.
    if finding.expected is not None:
        output.line(f"expected: {finding.violation.rule} {finding.violation.oracle}: {finding.expected}")
        return
    for line in tell(plan.target, finding.case, finding.verdict, None if path is None else str(path)):
        output.line(line)
    if finding.needs:
        besides = f"; here with {', '.join(sorted(finding.circumstances))}" if finding.circumstances else ""
        output.line(f"  it needs: {', '.join(sorted(finding.needs))}{besides}")
    if finding.needs and finding.unfinished:
        output.line(
            "  perhaps it needs less: the time was over before each of that had been left out; give it more --time"
        )
    if finding.perhaps is not None:
        output.line(f"  {may_be(finding.unfinished)}: {finding.perhaps}")
    if finding.ways:
        ways = "; ".join(", ".join(sorted(way.needs - finding.needs)) for way in finding.ways[:_NAMED])
        output.line(f"  other ways there, or other causes that show alike, need more: {ways}")
    for symptom in finding.symptoms[:_NAMED]:
        output.line(f"  it shows as well as {symptom.rule} {symptom.oracle}: {symptom.text}")
    if finding.levels:
        output.line(f"  met at level {' and '.join(finding.levels)} too")
    found = f"  found after {finding.seconds:.1f} s ({finding.steps_until:,} steps) in profile {finding.profile}"
    output.line(found + ("" if path else "; --traces DIR writes its trace"))
    output.tables.print("")
