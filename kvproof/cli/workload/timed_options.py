"""The options of ``kvproof workload --tiers``: sizes and rates with units, and what goes with what."""

import re
from typing import Annotated

import typer

from ...errors import UsageError
from ...untrusted.numbers import UNLIMITED, Rate

_UNITS = {prefix + "B": 1000.0**power for power, prefix in enumerate(("", "K", "M", "G", "T"))}
_UNITS |= {prefix + "iB": 1024.0**power for power, prefix in enumerate(("K", "M", "G", "T"), start=1)}

_QUANTITY = re.compile(r"(?P<number>[0-9]{1,12}(\.[0-9]{1,9})?) ?(?P<unit>[KMGT]i?B|B)", re.ASCII)

TiersOption = Annotated[
    bool,
    typer.Option("--tiers", help="Device, host and shared tier in virtual time: hit rate per tier, and waiting time."),
]
BlockBytesOption = Annotated[
    str, typer.Option(metavar="SIZE", help="With --tiers: what 512 tokens take, such as 64MiB (8 billion parameters).")
]
DownOption = Annotated[
    str, typer.Option(metavar="RATE", help="With --tiers: from device to host, such as 25GB/s, or unlimited.")
]
UpOption = Annotated[str, typer.Option(metavar="RATE", help="With --tiers: from host to device.")]
SharedOption = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="With --tiers: a tier without bounds behind the host, for all workers; they share one link of that rate "
        "to it, and each has one back.",
    ),
]
BatchOption = Annotated[int, typer.Option(min=1, metavar="BLOCKS", help="With --tiers: the most in one offload.")]
WorkersOption = Annotated[
    int,
    typer.Option(min=1, max=1024, metavar="N", help="With --tiers: workers with tiers of these sizes each, in turn."),
]
ConcurrencyOption = Annotated[
    int, typer.Option(min=1, metavar="N", help="With --tiers: the most requests that a worker serves at a time.")
]
BlockMsOption = Annotated[
    float, typer.Option(min=0.0, max=1e6, metavar="MS", help="With --tiers: what computing a block takes.")
]

ONLY_WITH_TIERS = ("block_bytes", "down", "up", "shared", "batch", "workers", "concurrency", "block_ms")
"""The options that say something about tiers in time only."""

NOT_WITH_TIERS = {
    "base_latency": "what moving blocks costs follows from --block-bytes, --down and --up",
    "bandwidth": "what moving blocks costs follows from --block-bytes, --down and --up",
    "overlap": "requests come at their timestamps there, and --concurrency says how many are served at a time",
    "token_ms": "--block-ms says how long a request is computed",
    "free_order": "slots that are let go are evicted in the order of their last use there",
}
"""The options that have no meaning there, and why."""


def check_together(context: typer.Context, *, tiers: bool, target: str) -> None:
    """Make sure that the parameters that were given on the command line go together.

    Raises:
        UsageError: one of them has no meaning with ``--tiers``, or none without it.
    """
    given = {name for name in context.params if _is_given(context, name)}
    if not tiers:
        for name in ONLY_WITH_TIERS:
            if name in given:
                raise UsageError(f"{_option(name)} is about tiers in time; add --tiers, or leave it out")
        return
    if target != "refimpl":
        raise UsageError(f"--target {target} has no tiers in time to replay with; leave out --target, or --tiers")
    for name, reason in NOT_WITH_TIERS.items():
        if name in given:
            raise UsageError(f"{_option(name)} does not go with --tiers: {reason}; leave it out")


def check_shared(shared: Rate | None, hosts: list[int | None]) -> None:
    """Make sure that something can get to a shared tier, which takes what the host evicts (G8).

    Raises:
        UsageError: a host has no blocks, or all of them have room for everything.
    """
    if shared is not None and 0 in hosts:
        raise UsageError("--shared is reached through the host; give --host-blocks of 1 or more")
    if shared is not None and all(host is None for host in hosts):
        raise UsageError("--shared gets what the host evicts, and an unlimited one evicts nothing; give --host-blocks")


def parse_bytes(option: str, text: str) -> float:
    """Return the bytes that ``64MiB``, ``2.5MB`` or ``65536`` says.

    Raises:
        UsageError: it is no size of at least a byte.
    """
    size = _quantity(text if not text.isdigit() else f"{text}B")
    if size < 1:
        raise UsageError(f"{option} {text} is no size of a byte or more; write 64MiB, 2.5MB or 65536")
    return size


def parse_rate(option: str, text: str) -> Rate:
    """Return the bytes per second that ``25GB/s`` says, or ``unlimited``.

    Raises:
        UsageError: it is neither.
    """
    if text == UNLIMITED:
        return "unlimited"
    rate = _quantity(text.removesuffix("/s")) if text.endswith("/s") else 0.0
    if rate <= 0:
        raise UsageError(f"{option} {text} is no rate above 0; write 25GB/s, 400MiB/s or unlimited")
    return rate


def _quantity(text: str) -> float:
    """Return the bytes that a number with a unit says; 0 if it is none."""
    match = _QUANTITY.fullmatch(text)
    return 0.0 if match is None else float(match["number"]) * _UNITS[match["unit"]]


def _is_given(context: typer.Context, name: str) -> bool:
    """Tell whether a parameter was given, be it with the value that it has by default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option(name: str) -> str:
    """Return what a parameter is called on the command line."""
    return "--" + name.replace("_", "-")
