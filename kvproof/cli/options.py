"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

LONGEST = 10_800_000.0
"""Seconds, four months: a time without an end is no time that could be divided."""

JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON too; - for standard output.")
]
"""``--json FILE``, the same in every command."""

MachineArgument = Annotated[str, typer.Argument(metavar="MACHINE", help="A machine by name, or FILE.py:CLASS.")]
"""One machine."""

SizeOption = Annotated[
    str | None, typer.Option("--size", metavar="SORT=N[,...]", help="Elements per sort, as in Block=5,Request=2.")
]
FreeOrderOption = Annotated[
    Literal["append", "split"], typer.Option("--free-order", help="Dialect of P10 (machines of the pool).")
]
NullBlockOption = Annotated[
    bool | None,
    typer.Option(
        "--null-block/--no-null-block", help="Whether the pool keeps a null block. Default: where windows move."
    ),
]
CachingOption = Annotated[bool, typer.Option("--caching/--no-caching", help="Whether blocks are registered.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Chooses the requests' token sequences.")]
SetOption = Annotated[
    str | None,
    typer.Option(
        "--set",
        metavar="NAME=N[,...]",
        help="Machines of tiers: capacity, cost (host); capacity (chunks, batches); pinning (0 or 1), window, min_drop"
        " (pinned queue); lazy (0 or 1; offload); target, host_room (lazy-walk); slots (stalls); block_bytes, "
        "batch (timed-tiers); weighted, most_pending, patience (connectors); hash_block, chunk (planner); block "
        "(aligned-split).",
    ),
]
ParamsOption = Annotated[
    Path | None,
    typer.Option(
        "--params",
        metavar="FILE",
        help="JSON: the value of each parameter, in place of the scope that the machine has.",
    ),
]
"""The scope of a machine, the same in every command that looks at one; `scopes.asked_scope` reads them."""
