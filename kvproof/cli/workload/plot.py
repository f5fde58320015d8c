"""Plots of replays: hit rate over host capacity, or hit rate by tier and waiting time over the tiers' capacities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ...checkers.trace import write_atomically
from ...errors import UsageError
from ...untrusted.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")

BAR_WIDTH = 0.8
"""What the bars of one replay take of its place."""


@dataclass(frozen=True, slots=True)
class TierBar:
    """What is drawn of one replay through tiers in time."""

    label: str
    """Its capacities."""
    hit_rates: Mapping[str, float]
    """By tier; they are stacked."""
    waiting: Mapping[str, float]
    """Seconds, by what they say."""


def check_plot(path: Path) -> None:
    """Make sure that a plot can be drawn to ``path``: found out before the work, not after it.

    Raises:
        UsageError: matplotlib is missing, or the path is none for a plot.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--plot {path} is neither an .svg nor a .png; give it one of these endings")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--plot {path} cannot be written; give a path in a folder that exists")
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib, which is not installed; run pip install 'kvproof[plot]'")


def draw(path: Path, title: str, lines: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    """Draw named lines of (host blocks, hit rate) to ``path``; equal figures give equal files.

    Raises:
        UsageError: the file cannot be written.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in lines.items():
        axes.plot([host for host, _ in points], [rate for _, rate in points], marker="o", label=name)
    sizes = sorted({host for points in lines.values() for host, _ in points})
    positive = [size for size in sizes if size]
    if positive and positive[-1] >= 10 * positive[0]:
        # Zero has its place on this scale: it is linear up to the smallest host.
        axes.set_xscale("symlog", linthresh=positive[0])
    axes.set_xticks(sizes, minor=False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelrotation=30)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("host blocks")
    axes.set_ylabel("hit rate (hit tokens / prompt tokens)")
    axes.set_title(visible(title), parse_math=False)
    axes.grid(alpha=0.3)
    axes.legend(title="device blocks")
    _save(figure, path)


def draw_tiers(path: Path, title: str, bars: Sequence[TierBar]) -> None:
    """Draw hit rate by tier, stacked, and below it waiting times; equal figures give equal files.

    Raises:
        UsageError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(8.0, 1.2 * len(bars)), 8), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    places = list(range(len(bars)))
    bottoms = [0.0] * len(bars)
    for tier in bars[0].hit_rates if bars else ():
        heights = [bar.hit_rates[tier] for bar in bars]
        above.bar(places, heights, BAR_WIDTH, bottom=bottoms, label=tier)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    above.set_ylabel("hit rate (hit tokens / prompt tokens)")
    above.set_title(visible(title), parse_math=False)
    above.set_ylim(0, 1.05 * max(bottoms, default=0) or 1)
    figures = list(bars[0].waiting) if bars else []
    width = BAR_WIDTH / max(1, len(figures))
    for index, name in enumerate(figures):
        lefts = [place - BAR_WIDTH / 2 + index * width for place in places]
        below.bar(lefts, [bar.waiting[name] for bar in bars], width, align="edge", label=name)
    if any(seconds > 0 for bar in bars for seconds in bar.waiting.values()):
        # Who did not wait has no bar.
        below.set_yscale("log")
    below.set_ylabel("waiting time of all requests (s)")
    below.set_xticks(places, [bar.label for bar in bars])
    below.set_xlabel("slots on the device + blocks on the host")
    for axes in (above, below):
        axes.grid(alpha=0.3, axis="y")
        axes.set_axisbelow(True)
        if bars:
            # Beside the bars, not over them.
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    _save(figure, path)


def _save(figure: "Figure", path: Path) -> None:
    """Write a figure to ``path``, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    import matplotlib

    kind = path.suffix.lower().removeprefix(".")
    picture = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "kvproof"}):
        figure.savefig(picture, format=kind, metadata={"Date": None} if kind == "svg" else None)
    try:
        write_atomically(path, picture.getvalue())
    except OSError as error:
        raise UsageError(f"--plot {path} cannot be written ({error.strerror or error}); give another path") from error
