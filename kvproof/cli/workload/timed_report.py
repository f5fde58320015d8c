"""What ``kvproof workload --tiers`` shows of its replays: tables, a report for programs, and what was found."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from ...untrusted.numbers import UNLIMITED, Rate
from ...untrusted.text import one_line
from ...workload.replay import Check
from ...workload.requests import Workload
from ...workload.tiers import TierResult, TierSetting, Waiting
from ..gaps import Gap, conclude, of_replay
from ..output import Output, alarm, show_violation
from ..schema import workloads as schema
from .plot import TierBar

Columns = dict[str, Callable[[TierResult], str | Text]]
"""What a table shows of a replay, by the title of the column."""

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
"""Units of time in seconds, largest first."""


class TierReplays:
    """The replays of one workload."""

    def __init__(
        self,
        workload: Workload,
        results: Sequence[TierResult],
        *,
        unlimited: tuple[bool, bool],
        check: Check,
    ) -> None:
        """Prepare to show them.

        A capacity for everything is shown as unlimited where that was asked for: on the device, on the host.
        """
        self._workload = workload
        self._results = results
        self._everything = workload.total_blocks
        self._unlimited_device, self._unlimited_host = unlimited
        self._check = check

    def show(self, output: Output) -> None:
        """Print hit rates, waiting times, and what was moved."""
        work, setting = self._workload, self._results[0].setting
        output.tables.print(
            f"{one_line(work.name)}: {len(work.requests):,} requests, {work.prompt_tokens:,} prompt tokens,\n"
            f"{work.distinct_blocks:,} different blocks of {setting.block_bytes:,.0f} bytes; {_describe(setting)}\n\n"
            "Hit rate (hit tokens / prompt tokens) by the tier that a block came from:",
            highlight=False,
        )
        self._show_hits(output)
        output.tables.print(
            "Waiting time, of the requests that waited and of all: for blocks from other tiers (blocks), for their\n"
            "turn and for slots (slots):",
            highlight=False,
        )
        self._show_waiting(output)
        output.tables.print("Moved, in GB:", highlight=False)
        self._show_moved(output)

    def to_json(self) -> schema.WorkloadTiers:
        """Return the report for programs: times in seconds, sizes in bytes, rates in bytes per second."""
        return schema.WorkloadTiers(
            file=self._workload.name,
            target="refimpl",
            requests=len(self._workload.requests),
            prompt_tokens=self._workload.prompt_tokens,
            blocks=self._workload.distinct_blocks,
            mode="tiers",
            check=self._check,
            seconds=sum(result.seconds for result in self._results),
            violations=sum(result.violation is not None for result in self._results),
            runs=list(self._results),
            gaps=self._gaps(),
        )

    def bars(self) -> list[TierBar]:
        """Return what is drawn of each replay; those that ended early are left out."""
        return [
            TierBar(
                label=f"{self._device(result)}\n+ {self._host(result)}",
                hit_rates=_drawn_rates(result),
                waiting={
                    "for blocks, mean": result.waited.mean_of_all,
                    "for blocks, p99": result.waited.p99_of_all,
                    "for slots, mean": result.queued.mean_of_all,
                    "for slots, p99": result.queued.p99_of_all,
                },
            )
            for result in self._results
            if result.violation is None
        ]

    def conclude(self, output: Output, file: Path) -> int:
        """Show each violation with the command that shows it again; return the exit status."""
        found = [(result, result.violation) for result in self._results if result.violation is not None]
        for result, violation in found:
            setting = result.setting
            show_violation(
                output,
                violation.rule,
                violation.message,
                f"capacity {setting.capacity:,}, host {setting.host_blocks:,}",
                f"kvproof workload {shlex.quote(str(file))} --tiers {_arguments(setting)} "
                f"--limit {violation.request + 1} --check every",
            )
        return conclude(output, found=bool(found), gaps=self._gaps())

    def _gaps(self) -> list[Gap]:
        """The replays that let no request in."""
        return [
            gap
            for result in self._results
            for gap in of_replay(
                f"{self._device(result)} slots, {self._host(result)} host blocks",
                len(self._workload.requests),
                result.turned_away,
                result.violation is not None,
            )
        ]

    def _show_hits(self, output: Output) -> None:
        """Print the hit rate by tier, and what was judged."""

        def rate(figure: Callable[[TierResult], float]) -> Callable[[TierResult], str]:
            return lambda result: f"{figure(result):.6f}" if result.violation is None else "-"

        columns = self._capacities()
        columns["device"] = rate(lambda result: result.hit_rates.device)
        columns["host"] = rate(lambda result: result.hit_rates.host)
        if any(result.setting.shared is not None for result in self._results):
            columns["shared"] = rate(lambda result: result.hit_rates.shared)
        columns["all"] = rate(lambda result: result.hit_rate)
        if any(result.turned_away for result in self._results):
            columns["too large"] = lambda result: f"{result.turned_away:,}"
        columns["checks"] = lambda result: f"{result.checks:,}"
        columns["violation"] = lambda result: "none" if result.violation is None else alarm(result.violation.rule)
        table = _table(columns)
        for result in self._results:
            table.add_row(*(cell(result) for cell in columns.values()))
        output.tables.print(table)

    def _show_waiting(self, output: Output) -> None:
        """Print the waiting times, two lines a replay."""
        columns = self._capacities()
        table = _table([*columns, "for", "waited", "mean", "p50", "p99", "max", "mean, all", "p50, all", "p99, all"])
        for result in self._results:
            for reason, waiting in (("blocks", result.waited), ("slots", result.queued)):
                table.add_row(*(cell(result) for cell in columns.values()), reason, *_waiting_cells(waiting))
        output.tables.print(table)

    def _show_moved(self, output: Output) -> None:
        """Print the bytes that the links moved."""
        columns = self._capacities()
        titles = {"down": "device to host", "up": "host to device"}
        if any(result.setting.shared is not None for result in self._results):
            titles |= {"stored": "host to shared", "fetched": "shared to host"}
        table = _table([*columns, *titles.values()])
        for result in self._results:
            sizes = (f"{result.moved[name].bytes / 1e9:,.1f}" for name in titles)
            table.add_row(*(cell(result) for cell in columns.values()), *sizes)
        output.tables.print(table)

    def _capacities(self) -> Columns:
        """Return the first two columns of every table."""
        return {"slots": self._device, "host blocks": self._host}

    def _device(self, result: TierResult) -> str:
        """Name the capacity of the device."""
        size = result.setting.capacity
        return UNLIMITED if self._unlimited_device and size == self._everything else f"{size:,}"

    def _host(self, result: TierResult) -> str:
        """Name the capacity of the host."""
        size = result.setting.host_blocks
        return UNLIMITED if self._unlimited_host and size == self._everything else f"{size:,}"


def show_time(seconds: float) -> str:
    """Return a time in the unit in which it is easy to read, to three digits."""
    if seconds == 0:
        return "0"
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), _UNITS[-1])
    number = seconds / size
    return f"{number:,.0f} {unit}" if number >= 100 else f"{number:#.3g} {unit}"


def _drawn_rates(result: TierResult) -> dict[str, float]:
    """Return the hit rate of each tier that there is."""
    rates = {"device": result.hit_rates.device, "host": result.hit_rates.host}
    return rates if result.setting.shared is None else {**rates, "shared tier": result.hit_rates.shared}


def _table(titles: Columns | Sequence[str]) -> Table:
    """Return an empty table with these columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _waiting_cells(waiting: Waiting) -> list[str]:
    """Return the figures of a line about waiting."""
    of_those = (waiting.mean, waiting.p50, waiting.p99, waiting.max)
    of_all = (waiting.mean_of_all, waiting.p50_of_all, waiting.p99_of_all)
    return [f"{waiting.requests:,}", *map(show_time, (*of_those, *of_all))]


def _describe(setting: TierSetting) -> str:
    """Say what the workload was replayed through, besides the capacities."""
    links = f"{_show_rate(setting.down)} down, {_show_rate(setting.up)} up"
    shared = "" if setting.shared is None else f", {_show_rate(setting.shared)} to and from a shared tier"
    workers = "1 worker" if setting.workers == 1 else f"{setting.workers} workers"
    computing = f", {setting.block_seconds * 1000:g} ms of computing a block" if setting.block_seconds else ""
    return (
        f"{links}{shared};\n{workers}, {setting.concurrency} at a time, offloads of {setting.batch} blocks at most"
        f"{computing}"
    )


def _show_rate(rate: Rate) -> str:
    """Return a rate as people write it."""
    return rate if isinstance(rate, str) else f"{rate / 1e9:,g} GB/s"


def _arguments(setting: TierSetting) -> str:
    """Return the options that ask for a setting."""
    arguments = {
        "capacity": str(setting.capacity),
        "host-blocks": str(setting.host_blocks),
        "block-bytes": _plain(setting.block_bytes) + "B",
        "down": _rate_argument(setting.down),
        "up": _rate_argument(setting.up),
        "batch": str(setting.batch),
        "workers": str(setting.workers),
        "concurrency": str(setting.concurrency),
    }
    if setting.shared is not None:
        arguments["shared"] = _rate_argument(setting.shared)
    if setting.block_seconds:
        arguments["block-ms"] = repr(setting.block_seconds * 1000)
    return " ".join(f"--{name} {value}" for name, value in arguments.items())


def _rate_argument(rate: Rate) -> str:
    """Return a rate as the command line takes it."""
    return rate if isinstance(rate, str) else f"{_plain(rate)}B/s"


def _plain(number: float) -> str:
    """Return a number without an exponent."""
    return f"{number:.9f}".rstrip("0").rstrip(".")
