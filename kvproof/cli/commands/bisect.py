"""``kvproof bisect``: a trace over released versions of an engine: where does what it shows begin, and where does it
end."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from ...errors import UsageError
from ..options import JsonOption
from ..output import Output
from ..schema import runs as schema


def bisect(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace that kvproof fuzz wrote for an engine.")],
    releases: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="The releases to run it on; default: all that are installed."),
    ] = None,
    install: Annotated[bool, typer.Option("--install", help="Install the named releases that are missing.")] = False,
    json: JsonOption = None,
) -> int:
    """Run a trace on released versions and name those in which its behaviour changed."""
    output = Output(json)
    from rich import box
    from rich.table import Table

    from ...checkers.trace import read_trace
    from ...engines import store
    from ...engines.catalog import driven
    from ...untrusted.text import one_line
    from ..engine_replay import UNDRIVEN, Outcome, gaps_of
    from ..engine_replay import bisect as run
    from ..findings import case_of, violation_of
    from ..gaps import conclude

    recorded = read_trace(trace)
    case, wanted = case_of(recorded, str(trace)), violation_of(recorded)
    name = store.engine_of(recorded.subject) or driven()[0]
    try:
        if releases is None:
            engines = store.installed(name)
        else:
            versions = [release.strip().removeprefix(f"{name}==") for release in releases.split(",")]
            targets = [f"{name}=={version}" for version in versions]
            if install:
                with output.progress("installing") as advance:
                    for target in targets:
                        store.install(target, lambda step, _detail: advance(0, None, step))
            engines = [store.resolve(target) for target in targets]
    except store.StoreError as error:
        raise UsageError(str(error)) from error
    if not engines:
        raise UsageError(f"{name}: no release is installed; name --releases, or run kvproof engines install {name}==X")
    with output.progress("bisecting") as advance:

        def tell(outcome: Outcome) -> None:
            advance(0, len(engines), f"bisecting: {outcome.build.label}")

        outcomes = run(case, wanted, engines, tell)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("release", no_wrap=True)
    table.add_column("the trace shows")
    for outcome in outcomes:
        table.add_row(outcome.build.label, one_line(outcome.words))
    output.tables.print(table)
    # Releases that do not take the setup, or do nothing with it, say nothing about when it changed.
    told = [outcome for outcome in outcomes if outcome.kind not in UNDRIVEN]
    missing = list(gaps_of(outcomes))
    changes = [(a, b) for a, b in pairwise(told) if a.kind != b.kind]
    for before, after in changes:
        what = {"same": "shows it", "other": "shows another fault", "none": "does not show it"}
        text = (
            f"changed between {before.build.label} ({what[before.kind]}) and {after.build.label} ({what[after.kind]})"
        )
        output.tables.print(text, markup=False, highlight=False)
    if told and not changes:
        output.tables.print("the same on all releases that take its setup", markup=False, highlight=False)
    output.report(
        schema.Bisect(
            trace=str(trace),
            releases=[schema.OnRelease(release=o.build.label, outcome=o.kind, what=o.words) for o in outcomes],
            changes=[(a.build.label, b.build.label) for a, b in changes],
            gaps=missing,
        )
    )
    return conclude(output, found=any(o.violation is not None for o in outcomes), gaps=missing)
