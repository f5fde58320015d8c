"""``kvproof hunt``: a campaign over several releases or drivers and all their levels, which can be interrupted."""

from pathlib import Path
from typing import Annotated

import typer

from ...errors import UsageError
from ..gaps import Gap, conclude
from ..options import LONGEST, JsonOption
from ..output import Output

__all__ = ["hunt"]


def hunt(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET...", help="What is hunted: releases, environments or drivers, as of fuzz."),
    ] = None,
    hours: Annotated[
        float | None, typer.Option(min=0, max=LONGEST / 3600, metavar="H", help="How long, all interruptions left out.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, max=LONGEST / 60, metavar="M", help="The same in minutes; both add up.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Processes that hunt at once; 0: one for each processor.")] = 0,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Hunt on the machines of this Ray cluster: auto, HOST:PORT, or ray://HOST:PORT.",
        ),
    ] = None,
    into: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the campaign is kept: what was searched and found.")
    ] = Path("kvproof-hunt"),
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL", help="Only this level, of the targets that have it; may be given again."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the cases.")] = 0,
    known: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A known.toml: findings in it are told apart as no news.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Hunt nothing: write the summary of a campaign anew.")
    ] = None,
    json: JsonOption = None,
) -> int:
    """Hunt several releases for hours; the same command goes on after an interruption."""
    from ..campaign import summary
    from ..campaign.hunting import Wanted, hunted
    from ..campaign.store import Asked, Store
    from ..engine_fuzzing import read_list

    output = Output(json)
    listed = read_list(known)
    if report is not None:
        if targets:
            raise UsageError("--report takes the folder alone; leave the targets out, or --report to go on hunting")
        store, lost, gaps = Store.of(report), 0, list[Gap]()
    else:
        if not targets:
            raise UsageError("name what is hunted, as vllm==0.33.0, or --report FOLDER for what was found so far")
        seconds = 3600 * (hours or 0.0) + 60 * (minutes or 0.0)
        if seconds <= 0:
            raise UsageError("say how long: --hours H or --minutes M")
        asked = Asked([*dict.fromkeys(targets)], level or [], seed)
        store, lost, gaps = hunted(output, Wanted(into, asked, seconds, jobs, listed, ray))
    told = summary.summary(store, listed, gaps, lost)
    summary.show(output, told)
    summary.write(store, told, listed)
    output.report(told)
    news = any(seen.expected is None for cause in told.causes for seen in cause.seen)
    return conclude(output, found=news or bool(told.partings), gaps=told.gaps)
