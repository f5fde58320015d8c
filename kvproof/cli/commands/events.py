"""``kvproof events``: streams of KV-cache events, recorded or live."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from ...checkers.trace import write_atomically
from ...errors import UsageError
from ...untrusted.text import one_line
from ..gaps import Gap, conclude
from ..options import JsonOption
from ..output import Output, alarm
from ..schema import streams as schema
from ..written import check_file, writing

if TYPE_CHECKING:
    from ...events.arrival import Arrival
    from ...events.checking import Checker, Dialect
    from ...events.faults import Fault
    from ...events.live import Listener
    from ...events.maps import CacheMap, Difference
    from ...events.recording import Recorder

CopiesOption = Annotated[
    Literal["last", "counted", "single"],
    typer.Option(
        "--copies",
        help="How copies of a hash are told: removed when the last goes (P12), each for itself, or there is only one.",
    ),
]
ParentsOption = Annotated[
    Literal["held", "told"],
    typer.Option("--parents", help="Whether a parent must be cached, or need only have been, at some time."),
]


class _CheckByDefault(typer.core.TyperGroup):
    """``kvproof events FILE`` is ``kvproof events check FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["check", *args]
        return super().parse_args(ctx, args)


events = typer.Typer(
    name="events",
    cls=_CheckByDefault,
    no_args_is_help=True,
    help="Check a stream of KV-cache events (FILE or zmq://HOST:PORT), or compare what two of them leave.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@events.command()
def check(
    streams: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | zmq://HOST:PORT[?replay=PORT&topic=TEXT]...",
            help="A recording, a router's record, or the publishers to listen to, one for each rank.",
        ),
    ],
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Live: write down what comes; a recording is gone on with."),
    ] = None,
    map_file: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="Write what a router believes at the end, as JSON.")
    ] = None,
    copies: CopiesOption = "last",
    parents: ParentsOption = "held",
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, metavar="SECONDS", help="Live: how long. Default: until Ctrl-C.")
    ] = None,
    every: Annotated[
        float, typer.Option("--every", min=1, metavar="SECONDS", help="Live: how often to say what is held.")
    ] = 60,
    json: JsonOption = None,
) -> int:
    """Check a stream: numbers (E1), what is cached (E2, P12), parents and tokens (E3), clears (E4), forms (E5)."""
    output = Output(json)
    from ...events.checking import Checker, Dialect, TooMuchError
    from ...events.live import is_live

    check_file("--map", map_file)
    live = [stream for stream in streams if is_live(stream)]
    if live and len(live) < len(streams):
        raise UsageError("files and live streams cannot be followed at once; give either")
    if record is not None and not live:
        raise UsageError("--record writes down live streams; give zmq://HOST:PORT")
    checker = Checker(Dialect(copies, parents), lambda fault: _show(output, fault))
    try:
        if live:
            _follow(output, checker, live, record, seconds, every)
        else:
            _read(output, checker, [Path(stream) for stream in streams])
    except TooMuchError as error:
        raise UsageError(f"{error}; follow fewer publishers at once") from error
    if map_file is not None:
        from ...events.maps import final_map

        with writing(map_file):
            write_atomically(map_file, msgspec.json.encode(final_map(checker)) + b"\n")
    gaps = list(_gaps(checker))
    _summary(output, checker)
    output.report(_report(streams, checker, gaps))
    return conclude(output, found=bool(checker.faults), gaps=gaps)


def _read(output: Output, checker: Checker, paths: Sequence[Path]) -> None:
    from ...events.reading import read_streams

    with output.progress("reading") as advance:
        for arrival in read_streams(paths):
            checker.take(arrival)
            if not checker.tally.batches % 1024:
                advance(checker.tally.events, None)


def _follow(
    output: Output, checker: Checker, streams: Sequence[str], record: Path | None, seconds: float | None, every: float
) -> None:
    """Listen until the time is over, or until an interruption: that is how a follower ends."""
    from ...events.live import Listener, check_each_once, parse_endpoint

    endpoints = [parse_endpoint(stream) for stream in streams]
    check_each_once(endpoints)
    until = None if seconds is None else time.monotonic() + seconds
    with ExitStack() as stack:
        recorder = None if record is None else stack.enter_context(_recorder(record))
        listener = stack.enter_context(Listener(endpoints))
        output.notes.print(f"listening to {', '.join(streams)}", markup=False, highlight=False, soft_wrap=True)
        try:
            while until is None or time.monotonic() < until:
                span = every if until is None else min(every, until - time.monotonic())
                recorder = _listen(listener, span, checker, recorder)
                output.notes.print(_held(checker), markup=False, highlight=False, soft_wrap=True)
        except KeyboardInterrupt:
            pass
        if listener.unanswered:
            text = f"{listener.unanswered:,} times a replay was asked for, and not answered to its end"
            output.notes.print(text, markup=False, highlight=False, soft_wrap=True)


def _listen(listener: Listener, seconds: float, checker: Checker, recorder: Recorder | None) -> Recorder | None:
    """Listen for a while. Return the recorder, as long as it can be written to."""
    from ...events.arrival import Arrival

    for arrival in listener.arrivals(seconds):
        if recorder is not None and isinstance(arrival, Arrival):
            recorder = _recorded(recorder, arrival)
        checker.take(arrival)
    return recorder


def _recorded(recorder: Recorder, arrival: Arrival) -> Recorder | None:
    written = False
    with writing(recorder.path):
        recorder.write(arrival)
        written = True
    return recorder if written else None


def _recorder(path: Path) -> Recorder:
    from ...events.recording import Recorder, RecordingError

    check_file("--record", path)
    try:
        return Recorder(path)
    except (OSError, RecordingError) as error:
        what = f"it is {error}" if isinstance(error, RecordingError) else error.strerror or error
        raise UsageError(f"--record {path} cannot be written ({what}); name a new file, or a recording") from error


@events.command()
def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A recording, a router's record, or a map in JSON.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The same; such a map may come from an engine's driver.")],
    copies: CopiesOption = "last",
    json: JsonOption = None,
) -> int:
    """Compare what is cached at the end of two streams, or at the end of one and by an engine's own map."""
    output = Output(json)
    from ...events.checking import Dialect
    from ...events.maps import differences

    dialect = Dialect(copies)
    gaps: list[Gap] = []
    one, other = (_map_of(output, path, dialect, gaps) for path in (first, second))
    found = list(differences(one, other))
    for difference in found:
        _show_difference(output, difference, first, second)
    blocks = [sum(len(row.hashes) for row in cache.blocks) for cache in (one, other)]
    if not found:
        output.line(f"the same {blocks[0]:,} blocks are cached")
    if not any(blocks):
        gaps.append(Gap("the comparison", "neither says that anything is cached", "give streams of a busy engine"))
    output.report(
        schema.EventsDiff(
            first=str(first),
            second=str(second),
            blocks=blocks,
            differences=[schema.MapDifference(**asdict(difference)) for difference in found],
            gaps=gaps,
        )
    )
    return conclude(output, found=bool(found), gaps=gaps)


_SHOWN = 5
"""Hashes that are shown of a difference."""


def _map_of(output: Output, path: Path, dialect: Dialect, gaps: list[Gap]) -> CacheMap:
    """What is cached at the end of a stream, or by a map; where the end cannot be read, that is a gap.

    Raises:
        UsageError: it is none, or holds more than is followed.
    """
    from ...events.checking import Checker, TooMuchError
    from ...events.maps import final_map, is_map, read_map
    from ...events.reading import read_stream

    if is_map(path):
        return read_map(path)
    checker = Checker(dialect)
    try:
        for arrival in read_stream(path):
            checker.take(arrival)
    except TooMuchError as error:
        raise UsageError(f"{path}: {error}; compare streams of fewer publishers") from error
    faults = checker.faults
    if faults and not checker.tally.events:
        raise UsageError(f"{path} is no stream and no map: {faults.first[0].text}; name a recording or a map")
    for fault in faults.first:
        if fault.kind == "truncated":
            gaps.append(Gap(f"the end of {path}", fault.text, "name a whole recording"))
    if faults:
        kinds = ", ".join(f"{rule} {kind}" for rule, kind in sorted(faults.counts))
        text = f"{path} has {faults.total:,} faults ({kinds}): see kvproof events {path}"
        output.notes.print(alarm(one_line(text)), soft_wrap=True)
    return final_map(checker)


def _show_difference(output: Output, difference: Difference, first: Path, second: Path) -> None:
    group = "" if difference.group is None else f", group {difference.group}"
    place = f"rank {difference.rank}, {difference.medium}{group}"
    for path, only in ((first, difference.only_first), (second, difference.only_second)):
        if only:
            more = "" if len(only) <= _SHOWN else ", …"
            output.line(f"{place}: {len(only):,} only by {path}: {', '.join(only[:_SHOWN])}{more}")


def _show(output: Output, fault: Fault) -> None:
    output.notes.print(alarm(one_line(str(fault))), soft_wrap=True)


def _held(checker: Checker) -> str:
    tally, faults = checker.tally, checker.faults.total
    held = f"{checker.belief.keys:,} blocks held, {checker.remembered:,} remembered"
    return f"{tally.events:,} events in {tally.batches:,} batches, {held}, {faults:,} faults"


def _summary(output: Output, checker: Checker) -> None:
    tally, faults = checker.tally, checker.faults
    output.line(f"{_held(checker)}, {len(checker.ranks):,} ranks")
    for (rule, kind), count in sorted(faults.counts.items()):
        output.line(f"  {rule} {kind}: {count:,}")
    for what, count in (
        ("restarts of a publisher", tally.restarts),
        ("batches that were asked for again", tally.replayed),
        *((f"not judged: {name}", count) for name, count in sorted(tally.unjudged.items())),
        *((f"a field that is not known, {name}", count) for name, count in sorted(tally.unknown.items())),
    ):
        if count:
            output.line(f"  {what}: {count:,}")


def _gaps(checker: Checker) -> Iterator[Gap]:
    if not checker.tally.events and not checker.faults:
        mend = "let the engine publish events (kv-events-config of vLLM and SGLang), and send it requests"
        yield Gap("the stream", "no event was read", mend)


def _report(streams: list[str], checker: Checker, gaps: list[Gap]) -> schema.EventsCheck:
    """All of it for programs."""
    tally, faults = checker.tally, checker.faults
    return schema.EventsCheck(
        streams=streams,
        events=tally.events,
        batches=tally.batches,
        ranks=[schema.Publisher(source=source, rank=rank) for source, rank in checker.ranks],
        held=[
            schema.HeldBlocks(source=who[0], rank=who[1], medium=medium, group=group, blocks=len(place.held))
            for (who, medium, group), place in checker.belief.places.items()
        ],
        remembered=checker.remembered,
        faults=[schema.StreamFault(**asdict(fault)) for fault in faults.first],
        counts=[schema.FaultCount(rule=rule, kind=kind, count=n) for (rule, kind), n in faults.counts.items()],
        restarts=tally.restarts,
        replayed=tally.replayed,
        unjudged=dict(tally.unjudged),
        unknown=dict(tally.unknown),
        gaps=gaps,
    )
