"""``kvproof mutate``: machines, or the reference implementation, with one mistake each, and who notices it."""

from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...errors import ExitStatus, UsageError
from ..options import JsonOption
from ..output import Output
from ..schema.machines import JudgedMutant, Mutate
from ..written import check_file

if TYPE_CHECKING:
    from ...checkers.mutation.record import Judged

IMPLEMENTATION = "refimpl"
"""Stands for the reference implementation, where a machine could be named."""


def mutate(
    machine: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MACHINE]...",
            help="Machines by name, or FILE.py:CLASS; all if none is named. Or refimpl: the reference implementation.",
        ),
    ] = None,
    by: Annotated[
        Literal["prove", "explore", "all"],
        typer.Option(help="Who is to notice mutants of machines; all: prove, and then explore."),
    ] = "prove",
    action: Annotated[
        list[str] | None,
        typer.Option(metavar="ACTION", help="Of machines: only mutants of this action; may be given again."),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL", help="Of refimpl: the level that is to notice them; may be given again."),
    ] = None,
    tests: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Of refimpl: its tests, which are asked too (tests/refimpl)."),
    ] = None,
    sample: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only so many, drawn by the seed.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the sample.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep judgements there, and do not judge again what it has.")
    ] = None,
    json: JsonOption = None,
) -> int:
    """Make one mistake after the other, and show those that nobody notices."""
    output = Output(json)
    if record is not None:
        check_file("--record", record)
    names = machine or []
    if IMPLEMENTATION in names and len(names) > 1:
        raise UsageError("refimpl is judged by other checkers than machines are: name it alone")
    if action and names == [IMPLEMENTATION]:
        raise UsageError("--action names actions of machines; of refimpl, --level names levels")
    if level and names != [IMPLEMENTATION]:
        raise UsageError("--level names levels of refimpl, as in kvproof mutate refimpl --level pool")
    if tests is not None and names != [IMPLEMENTATION]:
        raise UsageError("--tests asks tests of refimpl, as in kvproof mutate refimpl --tests tests/refimpl")
    from ...checkers.mutation.record import RecordError
    from ...checkers.sketches import SketchError

    try:
        with output.progress("mutants") as advance:
            if names == [IMPLEMENTATION]:
                judged = _of_implementation(level or [], tests, sample, seed, record, jobs, advance)
            else:
                judged = _of_machines(names, by, action or [], sample, seed, record, jobs, advance)
    except (RecordError, SketchError) as error:
        raise UsageError(str(error)) from error
    show(output, judged)
    output.report(to_json(judged))
    return _status(judged)


def _of_machines(
    names: list[str],
    by: Literal["prove", "explore", "all"],
    actions: list[str],
    sample: int | None,
    seed: int,
    record: Path | None,
    jobs: int | None,
    advance: Callable[[int, int, str], None],
) -> "list[Judged]":
    from ...checkers.mutation.running import How, judge_mutants
    from ...harness.machines import find_machines
    from ...harness.scopes import smallest_scope
    from ...machine import Model

    machines = find_machines(names)
    there = dict.fromkeys(name for machine in machines for name in Model.of(machine).actions)
    for name in actions:
        if name not in there:
            raise UsageError(f"--action {name}: no machine here has it; name one of {', '.join(there)}")
    return judge_mutants(machines, How(by, sample, seed, smallest_scope, record, jobs, advance, actions))


def _of_implementation(
    levels: list[str],
    tests: Path | None,
    sample: int | None,
    seed: int,
    record: Path | None,
    jobs: int | None,
    advance: Callable[[int, int, str], None],
) -> "list[Judged]":
    from ...harness.levels import LEVELS
    from ...harness.mutating import SourceRun, judge_sources

    for name in levels:
        if name not in LEVELS:
            raise UsageError(f"refimpl has no level {name}; name one of {', '.join(LEVELS)}")
    run = SourceRun(levels or list(LEVELS), sample, seed, record, jobs, advance, tests)
    if tests is None:
        return judge_sources(run)
    if not tests.is_dir():
        raise UsageError(
            f"--tests {tests} is no folder: the tests of refimpl stand in kvproof's repository, and no wheel has them"
        )
    if find_spec("pytest") is None:
        raise UsageError("--tests runs pytest, which is not installed here: pip install pytest")
    from ...checkers.mutation.tests import TestsError

    try:
        return judge_sources(run)
    except TestsError as error:
        raise UsageError(str(error)) from error


def _status(judged: "list[Judged]") -> ExitStatus:
    """A survivor is a finding; what is not decided is not noticed either."""
    fates = Counter(j.fate for j in judged)
    if fates["survivor"]:
        return ExitStatus.REFUTED
    return ExitStatus.UNDECIDED if fates["unknown"] or not judged else ExitStatus.HOLDS


def show(output: Output, judged: "list[Judged]") -> None:
    """Print a line a machine and a line a kind of mistake, and each mutant that nobody noticed."""
    output.tables.print(_heading(judged))
    if judged:
        _table(output, "machine", judged, lambda j: j.machine)
        _table(output, "mistake", judged, lambda j: j.operator)
    for j in judged:
        if j.fate in ("survivor", "unknown"):
            more = f" ({j.by})" if j.by else ""
            output.line(f"{'survives' if j.fate == 'survivor' else 'undecided'}: {j.machine}: {j}{more}")


def _heading(judged: "list[Judged]") -> str:
    left = sum(j.fate == "survivor" for j in judged)
    if not judged:
        return "There is nothing in which a mistake could be made."
    return f"{len(judged):,} mutants, {left:,} of which nobody notices:" if left else f"{len(judged):,} mutants:"


def _table(output: Output, head: str, judged: "list[Judged]", group: "Callable[[Judged], str]") -> None:
    from rich import box
    from rich.table import Table

    from ...checkers.mutation.record import FATES

    fates = [fate for fate in FATES if any(j.fate == fate for j in judged)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(head)
    for column in ("mutants", *fates, "score", "computing"):
        table.add_column(column, justify="right")
    names = list(dict.fromkeys(map(group, judged)))
    for name in [*names, "all"] if len(names) > 1 else names:
        own = judged if name == "all" else [j for j in judged if group(j) == name]
        count = Counter(j.fate for j in own)
        seconds = sum(j.seconds for j in own)
        table.add_row(name, f"{len(own):,}", *(f"{count[f]:,}" for f in fates), _percent(own), f"{seconds:,.1f} s")
    output.tables.print(table)


def _percent(judged: "list[Judged]") -> str:
    from ...checkers.mutation.record import score

    share = score(judged)
    return "-" if share is None else f"{share:.1%}"


def to_json(judged: "list[Judged]") -> Mutate:
    """Return the judgements for programs."""
    from ...checkers.mutation.record import NOTICED, score

    fates = Counter(j.fate for j in judged)
    return Mutate(
        mutants=len(judged),
        noticed=sum(fates[fate] for fate in NOTICED),
        equivalent=fates["equivalent"],
        survivors=fates["survivor"],
        unknown=fates["unknown"],
        refused=fates["reader"],
        score=score(judged),
        seconds=sum(j.seconds for j in judged),
        judged=[_judged(j) for j in judged],
    )


def _judged(one: "Judged") -> JudgedMutant:
    keys = (key for key in JudgedMutant.__struct_fields__ if key != "test")
    said = {key: getattr(one, key) for key in keys}
    return JudgedMutant(**said | {"fate": "fuzz", "test": one.by} if one.fate == "tests" else said)
