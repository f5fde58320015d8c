"""What ``kvproof workload --tiers`` does: replays through tiers in virtual time, as tables, a plot and JSON."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ...workload.replay import Check
from ...workload.requests import Workload
from ...workload.tiers import TierSetting, replay_tiers
from ..output import Output
from .plot import draw_tiers
from .timed_options import parse_bytes, parse_rate
from .timed_report import TierReplays


def parse_setting(
    *,
    block_bytes: str,
    down: str,
    up: str,
    shared: str | None,
    batch: int,
    workers: int,
    concurrency: int,
    block_ms: float,
) -> TierSetting:
    """Return what these options ask for, with one slot and no host: the capacities are known once the file is read.

    Raises:
        UsageError: a size or a rate is none.
    """
    return TierSetting(
        capacity=1,
        host_blocks=0,
        block_bytes=parse_bytes("--block-bytes", block_bytes),
        batch=batch,
        down=parse_rate("--down", down),
        up=parse_rate("--up", up),
        shared=None if shared is None else parse_rate("--shared", shared),
        workers=workers,
        concurrency=concurrency,
        block_seconds=block_ms / 1000,
    )


def replay_through_tiers(
    output: Output,
    file: Path,
    work: Workload,
    settings: Sequence[TierSetting],
    *,
    unlimited: tuple[bool, bool],
    check: Check,
    plot: Path | None,
) -> int:
    """Replay a workload in each of these settings, show that, and return the exit status.

    Args:
        output: where it is shown.
        file: where the workload comes from.
        work: the workload.
        settings: one at least; they differ in capacities only.
        unlimited: whether a capacity without bounds was asked for, on the device and on the host.
        check: how often whole states are judged.
        plot: where to draw it.

    Raises:
        UsageError: the plot or the report cannot be written.
    """
    results = []
    with output.progress(work.name) as advance:
        for setting in settings:
            label = f"{work.name}, {setting.capacity:,} + {setting.host_blocks:,} blocks"
            results.append(replay_tiers(work, setting, check=check, on_progress=partial(advance, label=label)))
    replays = TierReplays(work, results, unlimited=unlimited, check=check)
    replays.show(output)
    if plot is not None:
        draw_tiers(plot, f"{work.name}, {len(work.requests):,} requests", replays.bars())
    output.report(replays.to_json())
    return replays.conclude(output, file)
