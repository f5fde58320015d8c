"""``kvproof workload``: real requests, replayed with the invariants checked."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import ExitStatus, UsageError
from ..options import UNLIMITED, JsonOption, parse_capacities
from ..output import Output

if TYPE_CHECKING:
    from ..engines.session import Session
    from ..workload.replay import Result
    from ..workload.requests import Workload

DEFAULT_CAPACITIES = f"1000,10000,50000,{UNLIMITED}"
"""The capacities to replay at where none are named."""

MOST_BLOCKS = 50_000_000
"""The largest pool that is made: some gigabytes of bookkeeping."""


def workload(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A block-hash trace, one request a line.")],
    capacity: Annotated[
        str, typer.Option(metavar="N[,N...]", help="Usable blocks of 512 tokens, or unlimited; several for a table.")
    ] = DEFAULT_CAPACITIES,
    target: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help="refimpl; spec, the specification itself (for the first few hundred requests); or an engine: "
            "vllm==VERSION or vllm@PYTHON.",
        ),
    ] = "refimpl",
    check: Annotated[
        Literal["every", "sampled", "end"],
        typer.Option(help="How often the whole state is judged. Each answer is judged in any case."),
    ] = "sampled",
    limit: Annotated[int | None, typer.Option(min=1, metavar="REQUESTS", help="Only the first requests.")] = None,
    overlap: Annotated[
        bool, typer.Option("--overlap/--serial", help="Requests overlap by their timestamps, or come one by one.")
    ] = False,
    token_ms: Annotated[
        float, typer.Option(min=0.0, metavar="MS", help="With --overlap: how long a request stays per answer token.")
    ] = 20.0,
    free_order: Annotated[
        Literal["append", "split"],
        typer.Option(help="Where freed blocks without a hash go (P10). An engine does as its release does."),
    ] = "split",
    json: JsonOption = None,
) -> int:
    """Replay real requests on the reference implementation, the specification or an engine, and check the invariants.

    Prints hit rate (hit tokens / prompt tokens) and speed by capacity.
    """
    output = Output(json)
    asked = parse_capacities(capacity)

    from ..engines.dialect import DialectError
    from ..engines.session import WorkerError
    from ..workload.replay import replay_at
    from ..workload.requests import read_workload
    from ..workload.target import RefimplTarget, Target
    from ..workload.vllm_target import EngineFailedError

    work = read_workload(file, limit=limit)
    capacities = [work.total_blocks if size is None else size for size in asked]
    if max(capacities) > MOST_BLOCKS:
        raise UsageError(f"--capacity {max(capacities)} is more than {MOST_BLOCKS} blocks; use {UNLIMITED}")

    session = None if target in ("refimpl", "spec") else open_session(target)

    def make_target(size: int) -> Target:
        if session is not None:
            from ..workload.vllm_target import VllmTarget

            return VllmTarget(session, work, size)
        if target == "spec":
            from ..workload.spec_target import SpecTarget

            return SpecTarget(work, size, free_order=free_order)
        return RefimplTarget(size, free_order=free_order)

    with output.progress(work.name) as advance:

        def on_progress(size: int, done: int, total: int) -> None:
            advance(done, total, f"{work.name}, {size:,} blocks")

        try:
            results = replay_at(
                work,
                make_target,
                capacities,
                check=check,
                overlap=overlap,
                token_ms=token_ms,
                on_progress=on_progress,
            )
        except (DialectError, EngineFailedError, WorkerError) as error:
            raise UsageError(f"{target} cannot be driven: {error}") from error
        finally:
            if session is not None:
                session.close()
    show(output, work, results, unlimited=work.total_blocks if None in asked else None, overlap=overlap)
    output.report(to_json(work, results, check=check, overlap=overlap))
    more = "" if target == "refimpl" else f" --target {target}"
    more += " --free-order append" if free_order == "append" else ""
    more += f" --token-ms {token_ms!r}" if overlap else ""
    return conclude(output, file, results, overlap=overlap, more=more)


def open_session(target: str) -> "Session":
    """Return a worker for the engine that is named.

    Raises:
        UsageError: there is no such target, or it is not installed.
    """
    from ..engines.session import Limits, Session
    from ..hunting import open_engine

    # A large pool takes its time to be made, and to be shown.
    return Session.of(open_engine(target), Limits(operation=120.0, answer=300.0))


def show(output: Output, work: "Workload", results: "list[Result]", *, unlimited: int | None, overlap: bool) -> None:
    """Print the table."""
    from rich import box
    from rich.table import Table

    output.tables.print(
        f"{work.name}: {len(work.requests):,} requests, {work.prompt_tokens:,} prompt tokens,\n"
        f"{work.distinct_blocks:,} different blocks, {'overlapping' if overlap else 'serial'}",
        highlight=False,
    )
    columns: dict[str, Callable[[Result], str]] = {
        "capacity": lambda result: UNLIMITED if result.capacity == unlimited else f"{result.capacity:,}",
        "hit rate": lambda result: f"{result.hit_rate:.6f}" if result.violation is None else "-",
        "blocks moved": lambda result: f"{result.block_operations:,}",
        "block ops/s": lambda result: f"{result.operations_per_second:,.0f}",
    }
    if any(result.turned_away for result in results):
        columns["too large"] = lambda result: f"{result.turned_away:,}"
    if overlap:
        columns["at once"] = lambda result: f"{result.most_running:,}"
        columns["waits"] = lambda result: f"{result.waits:,}"
    columns["checks"] = lambda result: f"{result.checks:,}"
    columns["violation"] = lambda result: "none" if result.violation is None else f"[red]{result.violation.rule}[/red]"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        table.add_row(*(cell(result) for cell in columns.values()))
    output.tables.print(table)


def to_json(work: "Workload", results: "list[Result]", *, check: str, overlap: bool) -> dict[str, Any]:
    """Return the report for programs. The figures at the top are those of the largest capacity."""
    import msgspec

    largest = max(results, key=lambda result: result.capacity)
    return {
        "file": work.name,
        "target": largest.target,
        "requests": len(work.requests),
        "prompt_tokens": work.prompt_tokens,
        "blocks": work.distinct_blocks,
        "mode": "overlap" if overlap else "serial",
        "check": check,
        "hit_rate": largest.hit_rate,
        "operations_per_second": largest.operations_per_second,
        "seconds": sum(result.seconds for result in results),
        "violations": sum(result.violation is not None for result in results),
        "runs": [msgspec.to_builtins(result) for result in results],
    }


def conclude(output: Output, file: Path, results: "list[Result]", *, overlap: bool, more: str = "") -> int:
    """Show each violation with the command that shows it again, with ``more`` options; return the exit status."""
    found = [result for result in results if result.violation is not None]
    for result in found:
        assert result.violation is not None
        output.notes.print(f"[bold red]{result.violation.rule}[/bold red] at capacity {result.capacity:,}:", end=" ")
        output.notes.print(result.violation.message, markup=False)
        output.notes.print(
            f"  again: kvproof workload {file} --capacity {result.capacity} --limit {result.violation.request + 1} "
            f"--check every{' --overlap' if overlap else ''}{more}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return ExitStatus.REFUTED if found else ExitStatus.HOLDS
