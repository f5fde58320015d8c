"""``kvproof workload``: real requests, replayed with the invariants checked."""

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...errors import UsageError
from ...untrusted import limits
from ...untrusted.numbers import UNLIMITED, parse_capacities
from .. import gaps
from ..options import JsonOption
from ..output import Output
from ..workload.timed_options import (
    BatchOption,
    BlockBytesOption,
    BlockMsOption,
    ConcurrencyOption,
    DownOption,
    SharedOption,
    TiersOption,
    UpOption,
    WorkersOption,
    check_shared,
    check_together,
)

if TYPE_CHECKING:
    from ...engines.session import Session
    from ...workload.replay import Result

DEFAULT_CAPACITIES = f"1000,10000,50000,{UNLIMITED}"
"""The capacities to replay at where none are named."""


def workload(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A block-hash trace, one request a line.")],
    capacity: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]",
            help="Usable blocks of 512 tokens, or unlimited; several for a table.",
        ),
    ] = DEFAULT_CAPACITIES,
    host_blocks: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N...]",
            help="Blocks of a host tier that mirrors the device, 0 for none, or unlimited; several for a table. With "
            "--tiers: of a host that gets what the device evicts; unlimited by default.",
        ),
    ] = None,
    base_latency: Annotated[
        int, typer.Option(min=0, metavar="TIME", help="With --host-blocks: time units that each reload costs.")
    ] = 0,
    bandwidth: Annotated[
        str,
        typer.Option(metavar="TOKENS", help="With --host-blocks: tokens reloaded per time unit, such as 0.3 or 64."),
    ] = "1",
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg|png",
            help="With --host-blocks: draw hit rate over host blocks; with --tiers: by tier, and waiting (matplotlib).",
        ),
    ] = None,
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
    tiers: TiersOption = False,
    block_bytes: BlockBytesOption = "64MiB",
    down: DownOption = "25GB/s",
    up: UpOption = "25GB/s",
    shared: SharedOption = None,
    batch: BatchOption = 16,
    workers: WorkersOption = 1,
    concurrency: ConcurrencyOption = 1,
    block_ms: BlockMsOption = 0.0,
    json: JsonOption = None,
) -> int:
    """Replay real requests on the reference implementation, the specification or an engine, and check the invariants.

    Prints hit rate (hit tokens / prompt tokens) and speed by capacity; with a host tier, by both capacities. With
    --tiers, hit rate by tier and waiting time, in virtual time.
    """
    check_together(context, tiers=tiers, target=target)
    output = Output(json)
    asked = parse_capacities(capacity)
    hosts_asked = [None if tiers else 0] if host_blocks is None else parse_hosts(host_blocks)
    rate = parse_bandwidth(bandwidth)
    if plot is not None:
        from ..workload.plot import check_plot

        if host_blocks is None and not tiers:
            raise UsageError("--plot shows hit rate over host blocks; give those with --host-blocks 0,1000,10000")
        check_plot(plot)
    setting = None
    if tiers:
        from ..workload.timed_command import parse_setting

        setting = parse_setting(
            block_bytes=block_bytes,
            down=down,
            up=up,
            shared=shared,
            batch=batch,
            workers=workers,
            concurrency=concurrency,
            block_ms=block_ms,
        )
        check_shared(setting.shared, hosts_asked)
    if target != "refimpl" and hosts_asked != [0]:
        raise UsageError(f"--target {target} has no host tier to replay with; leave out --host-blocks")

    from ...engines.dialects import DialectError
    from ...engines.session import WorkerError
    from ...workload.engine_target import EngineFailedError
    from ...workload.replay import replay_at
    from ...workload.requests import read_workload
    from ...workload.target import RefimplHostTarget, RefimplTarget, ReplayTarget
    from ..workload.tables import draw_tiers, show, show_tiers, show_violations, to_json

    work = read_workload(file, limit=limit)
    capacities = [work.total_blocks if size is None else size for size in asked]
    hosts = [work.total_blocks if size is None else size for size in hosts_asked]
    _check_sizes("--capacity", [workers * size for size in capacities])
    _check_sizes("--host-blocks", hosts)

    if setting is not None:
        from ..workload.timed_command import replay_through_tiers

        unlimited = None in asked, None in hosts_asked
        settings = [setting.at(size, host) for size in capacities for host in hosts]
        return replay_through_tiers(output, file, work, settings, unlimited=unlimited, check=check, plot=plot)

    session = None if target in ("refimpl", "spec") else open_session(target)

    def make_target(size: int, host: int) -> ReplayTarget:
        if session is not None:
            from ...workload.engine_target import EngineTarget

            return EngineTarget(session, work, size)
        if target == "spec":
            from ...workload.spec_target import SpecTarget

            return SpecTarget(work, size, free_order=free_order)
        if host:
            return RefimplHostTarget(size, host, free_order=free_order, base_latency=base_latency, bandwidth=rate)
        return RefimplTarget(size, free_order=free_order)

    results: list[Result] = []
    with output.progress(work.name) as advance:

        def on_progress(size: int, done: int, total: int) -> None:
            advance(done, total, f"{work.name}, {size:,} blocks")

        try:
            for size in capacities:
                for host in hosts:
                    results += replay_at(
                        work,
                        partial(make_target, host=host),
                        [size],
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
    unlimited_device = work.total_blocks if None in asked else None
    if host_blocks is None:
        show(output, work, results, unlimited=unlimited_device, overlap=overlap)
    else:
        unlimited_host = work.total_blocks if None in hosts_asked else None
        show_tiers(output, work, results, unlimited=unlimited_device, unlimited_host=unlimited_host, overlap=overlap)
    if plot is not None:
        draw_tiers(plot, work, results, unlimited=unlimited_device)
    written = to_json(work, results, check=check, overlap=overlap)
    output.report(written)
    more = "" if target == "refimpl" else f" --target {target}"
    more += " --free-order append" if free_order == "append" else ""
    more += f" --token-ms {token_ms!r}" if overlap else ""
    more += f" --base-latency {base_latency}" if base_latency else ""
    more += f" --bandwidth {bandwidth}" if rate != 1 else ""
    show_violations(output, file, results, overlap=overlap, more=more)
    return gaps.conclude(output, found=any(result.violation for result in results), gaps=written.gaps)


def _check_sizes(option: str, sizes: list[int]) -> None:
    """Make sure that nothing is made that is too large.

    Raises:
        UsageError: something is.
    """
    if max(sizes) > limits.BLOCKS:
        raise UsageError(f"{option} {max(sizes)} is more than {limits.BLOCKS} blocks; use {UNLIMITED}")


def parse_hosts(text: str) -> list[int | None]:
    """Return the host capacities of ``0,1000,unlimited``; ``None`` stands for unlimited.

    Raises:
        UsageError: a part is neither a number nor ``unlimited``.
    """
    sizes: list[int | None] = []
    for part in (piece.strip() for piece in text.split(",")):
        if part != UNLIMITED and not (part.isascii() and part.isdigit() and len(part) <= 12):
            raise UsageError(f"--host-blocks {text}: '{part}' is no number of blocks; write 0,1000 or unlimited")
        sizes.append(None if part == UNLIMITED else int(part))
    return sizes


def parse_bandwidth(text: str) -> Fraction:
    """Return the tokens per time unit that ``0.3``, ``64`` or ``1/3`` says, exactly (M7).

    Raises:
        UsageError: it is no number above 0.
    """
    try:
        rate = Fraction(text) if len(text) <= 40 and "e" not in text.lower() else Fraction(0)
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if rate <= 0:
        raise UsageError(f"--bandwidth {text} is no number of tokens above 0; write 64 or 0.3")
    return rate


def open_session(target: str) -> "Session":
    """Return a worker for the engine that is named.

    Raises:
        UsageError: there is no such target, or it is not installed.
    """
    from ...engines.session import Limits, Session
    from ..hunting import open_build

    # A large pool takes its time to be made, and to be shown.
    return Session.of(open_build(target), Limits(operation=120.0, answer=300.0))
