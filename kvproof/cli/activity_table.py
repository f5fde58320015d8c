"""What happened in a run, as a small table: hits, evictions, refusals, reuse under pressure."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

__all__ = ["activity_table"]

_TITLES = {
    "lookups": "lookups",
    "hits": "hits",
    "hit_tokens": "hit tokens",
    "hit_blocks": "hit blocks",
    "external_tokens": "elsewhere",
    "evictions": "evicted",
    "wanted_evicted": "wanted again",
    "stored_again": "stored again",
    "tight_hits": "hits when full",
    "refusals": "refused",
    "preemptions": "preempted",
}
"""The counts that are shown, in their order: those of an engine, or those of runs beside a machine."""


def activity_table(rows: Sequence[tuple[str, Mapping[str, int | None]]]) -> Table:
    """A line per level; ``-`` stands for what a target tells nothing of."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what happened", no_wrap=True)
    shown = [name for name in _TITLES if any(name in counts for _, counts in rows)]
    for name in shown:
        table.add_column(_TITLES[name], justify="right", no_wrap=True)
    for label, counts in rows:
        table.add_row(label, *(_number(counts.get(name)) for name in shown))
    return table


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
