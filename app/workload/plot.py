"""A plot of the hit rate over the capacity of the host tier, one line for each capacity of the device."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..errors import UsageError

FORMATS = (".svg", ".png")


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
    import matplotlib
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
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(title="device blocks")
    is_svg = path.suffix.lower() == ".svg"
    with matplotlib.rc_context({"svg.hashsalt": "kvproof"}):
        try:
            figure.savefig(path, metadata={"Date": None} if is_svg else None)
        except OSError as error:
            raise UsageError(
                f"--plot {path} cannot be written ({error.strerror or error}); give another path"
            ) from error
