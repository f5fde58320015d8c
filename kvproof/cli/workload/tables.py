"""What ``kvproof workload`` shows of its replays: tables, a report for programs, and what was found."""

import shlex
from collections.abc import Callable
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from ...untrusted.numbers import UNLIMITED
from ...untrusted.text import one_line
from ...workload.replay import Check, Result
from ...workload.requests import Workload
from .. import gaps
from ..output import Output, alarm, show_violation
from ..schema import workloads as schema
from .plot import draw

__all__ = ["draw_tiers", "show", "show_tiers", "show_violations", "to_json"]


def show(output: Output, work: Workload, results: list[Result], *, unlimited: int | None, overlap: bool) -> None:
    """Print the table."""

    output.tables.print(
        f"{one_line(work.name)}: {len(work.requests):,} requests, {work.prompt_tokens:,} prompt tokens,\n"
        f"{work.distinct_blocks:,} different blocks, {'overlapping' if overlap else 'serial'}",
        highlight=False,
    )
    columns: dict[str, Callable[[Result], str | Text]] = {
        "capacity": lambda result: UNLIMITED if result.capacity == unlimited else f"{result.capacity:,}",
        "hit rate": lambda result: f"{result.hit_rate:.6f}" if result.violation is None else "-",
        "blocks moved": lambda result: f"{result.block_operations:,}",
        "block ops/s": lambda result: f"{result.operations_per_second:,.0f}",
    }
    _show_each(output, columns, results, overlap=overlap)


def _show_each(
    output: Output, columns: dict[str, Callable[[Result], str | Text]], results: list[Result], *, overlap: bool
) -> None:
    """Print a line a replay: these columns, then what every replay shows."""
    if any(result.turned_away for result in results):
        columns["too large"] = lambda result: f"{result.turned_away:,}"
    if overlap:
        columns["at once"] = lambda result: f"{result.most_running:,}"
        columns["waits"] = lambda result: f"{result.waits:,}"
    columns["checks"] = lambda result: f"{result.checks:,}"
    columns["violation"] = lambda result: "none" if result.violation is None else alarm(result.violation.rule)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        table.add_row(*(cell(result) for cell in columns.values()))
    output.tables.print(table)


def show_tiers(
    output: Output,
    work: Workload,
    results: list[Result],
    *,
    unlimited: int | None,
    unlimited_host: int | None,
    overlap: bool,
) -> None:
    """Print the hit rate by both capacities, then what else each replay showed."""

    def device_name(size: int) -> str:
        return UNLIMITED if size == unlimited else f"{size:,}"

    def host_name(size: int) -> str:
        return UNLIMITED if size == unlimited_host else f"{size:,}"

    def hit_rate(result: Result) -> str | Text:
        return f"{result.hit_rate:.6f}" if result.violation is None else alarm(result.violation.rule)

    output.tables.print(
        f"{one_line(work.name)}: {len(work.requests):,} requests, {work.prompt_tokens:,} prompt tokens,\n"
        f"{work.distinct_blocks:,} different blocks, {'overlapping' if overlap else 'serial'}\n\n"
        "Hit rate by device blocks (rows) and host blocks (columns):",
        highlight=False,
    )
    hosts = list(dict.fromkeys(host_capacity(result) for result in results))
    rates = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("", *map(host_name, hosts)):
        rates.add_column(title, justify="right", no_wrap=True)
    for size in dict.fromkeys(result.capacity for result in results):
        row = {host_capacity(result): hit_rate(result) for result in results if result.capacity == size}
        rates.add_row(device_name(size), *(row[host] for host in hosts))
    output.tables.print(rates)

    columns: dict[str, Callable[[Result], str | Text]] = {
        "device": lambda result: device_name(result.capacity),
        "host": lambda result: host_name(host_capacity(result)),
        "reloaded": lambda result: f"{result.host.reloaded:,}" if result.host else "-",
        "evicted": lambda result: f"{result.host.evictions:,}" if result.host else "-",
        "thrash": lambda result: f"{result.host.thrash_rate:.6f}" if result.host else "-",
        "latency": lambda result: f"{result.host.latency:,}" if result.host else "-",
        "ops/s": lambda result: f"{result.operations_per_second:,.0f}",
    }
    _show_each(output, columns, results, overlap=overlap)


def draw_tiers(path: Path, work: Workload, results: list[Result], *, unlimited: int | None) -> None:
    """Draw hit rate over host blocks, one line for each device capacity; replays that ended early are left out."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        name = UNLIMITED if result.capacity == unlimited else f"{result.capacity:,}"
        if result.violation is None:
            lines.setdefault(name, []).append((host_capacity(result), result.hit_rate))
    draw(path, f"{work.name}, {len(work.requests):,} requests", {name: sorted(line) for name, line in lines.items()})


def host_capacity(result: Result) -> int:
    """Return the blocks of the host tier of a replay, 0 without one."""
    return 0 if result.host is None else result.host.capacity


def to_json(work: Workload, results: list[Result], *, check: Check, overlap: bool) -> schema.Workload:
    """Return the report for programs. The figures at the top are those of the largest capacities."""
    largest = max(results, key=lambda result: (result.capacity, host_capacity(result)))
    return schema.Workload(
        file=work.name,
        target=largest.target,
        requests=len(work.requests),
        prompt_tokens=work.prompt_tokens,
        blocks=work.distinct_blocks,
        mode="overlap" if overlap else "serial",
        check=check,
        hit_rate=largest.hit_rate,
        operations_per_second=largest.operations_per_second,
        seconds=sum(result.seconds for result in results),
        violations=sum(result.violation is not None for result in results),
        runs=results,
        gaps=gaps_of(results),
    )


def gaps_of(results: list[Result]) -> list[gaps.Gap]:
    """Return the replays that let no request in."""
    return [
        gap
        for result in results
        for gap in gaps.of_replay(
            f"capacity {result.capacity:,}", result.requests, result.turned_away, result.violation is not None
        )
    ]


def show_violations(output: Output, file: Path, results: list[Result], *, overlap: bool, more: str = "") -> None:
    """Show each violation with the command that shows it again, with ``more`` options."""
    found = [result for result in results if result.violation is not None]
    for result in found:
        assert result.violation is not None
        tiers = f", host {host_capacity(result):,}" if result.host is not None else ""
        host = f" --host-blocks {host_capacity(result)}" if result.host is not None else ""
        show_violation(
            output,
            result.violation.rule,
            result.violation.message,
            f"capacity {result.capacity:,}{tiers}",
            f"kvproof workload {shlex.quote(str(file))} --capacity {result.capacity}{host} "
            f"--limit {result.violation.request + 1} --check every{' --overlap' if overlap else ''}{more}",
        )
