"""``kvproof engines``: the releases of engines that are installed here, each with an interpreter of its own."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import UNSET

from ...errors import ExitStatus, UsageError
from ..options import JsonOption
from ..output import Advance, Output
from ..schema import holdings as schema

if TYPE_CHECKING:
    from ...engines.store import Holding

engines = typer.Typer(
    name="engines",
    help="Install, list and remove releases of engines. They lie in the cache folder, or where KVPROOF_ENGINES says.",
    no_args_is_help=True,
)

LONGEST_DETAIL = 60
"""How much of what a tool says is shown beside the bar."""


@engines.command()
def install(
    releases: Annotated[
        list[str],
        typer.Argument(metavar="RELEASE", help="What is installed: vllm==0.33.0, dynamo==1.6.1, sglang==0.5.23."),
    ],
    json: JsonOption = None,
) -> int:
    """Install releases, no GPU needed: the first takes minutes and 1.5 GB, each further one seconds and 100 MB."""
    from ...engines import store

    output = Output(json)
    with _told(output):
        for release in releases:
            store.check(release)
        found = []
        for release in releases:
            with output.progress(release) as advance:
                found.append(store.install(release, _Reporter(output, advance, release)))
            engine = found[-1]
            output.line(f"{engine.label} is installed in {engine.path[0]}")
    installed = [schema.Installed(engine=engine.label, path=str(engine.path[0])) for engine in found]
    output.report(schema.EnginesInstall(installed=installed))
    return ExitStatus.HOLDS


@engines.command("list")
def list_(json: JsonOption = None) -> int:
    """Show what is installed, where, and what it takes on disk."""
    from ...engines import store

    output = Output(json)
    with _told(output):
        store.tidy()
        held = store.holdings()
    show(output, held)
    output.report(
        schema.EnginesList(
            store=str(store.location()),
            engines=[_held(h) for h in held if h.build is not None],
            runtimes=[_held(h) for h in held if h.build is None],
            bytes=sum(h.size for h in held),
        )
    )
    return ExitStatus.HOLDS


@engines.command()
def remove(
    releases: Annotated[
        list[str] | None, typer.Argument(metavar="RELEASE", help="What is removed: vllm==0.33.0.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all releases and what they share.")] = False,
    json: JsonOption = None,
) -> int:
    """Remove releases; what they share goes with the last one."""
    from ...engines import store

    output = Output(json)
    if bool(releases) == everything:
        raise UsageError("engines remove takes releases or --all; name a release such as vllm==0.33.0, or give --all")
    with _told(output):
        before = {h.path: h for h in store.holdings()}
        reporter = _Reporter(output)
        if everything:
            store.clear(reporter)
        for release in releases or ():
            store.remove(release, reporter)
        left = {h.path for h in store.holdings()}
    gone = [h for path, h in before.items() if path not in left]
    freed = sum(h.size for h in gone)
    names = [h.build.label if h.build else h.path.name for h in gone]
    output.tables.print(
        f"{', '.join(names) if names else 'nothing'} removed, {freed / 2**20:,.0f} MiB freed", highlight=False
    )
    output.report(schema.EnginesRemove(removed=names, bytes=freed))
    return ExitStatus.HOLDS


def show(output: Output, held: "list[Holding]") -> None:
    """Print the store as a table."""
    from rich import box
    from rich.table import Table

    if not held:
        output.tables.print("no engine is installed; install one with: kvproof engines install vllm==0.33.0")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("release")
    table.add_column("Python")
    table.add_column("disk", justify="right")
    table.add_column("where", overflow="fold")
    for h in held:
        name = h.build.label if h.build else "what they share"
        table.add_row(name, h.python, f"{h.size / 2**20:,.0f} MiB", str(h.path))
    output.tables.print(table)


def _held(h: "Holding") -> schema.Held:
    label = UNSET if h.build is None else h.build.label
    return schema.Held(engine=label, python=h.python, path=str(h.path), bytes=h.size)


class _Reporter:
    """Shows what an installation is doing: a line for each task, and beside the bar what its tool says."""

    def __init__(self, output: Output, advance: Advance | None = None, label: str = "") -> None:
        """Report beside the bar that ``advance`` moves, if there is one."""
        self._output = output
        self._advance = advance
        self._label = label
        self._task = ""

    def __call__(self, task: str, said: str) -> None:
        """Take what is being done now, and what the tool says."""
        if task != self._task:
            self._task = task
            self._output.notes.print(task, markup=False, highlight=False, soft_wrap=True)
        if self._advance is not None:
            self._advance(0, None, f"{self._label} {said[:LONGEST_DETAIL]}")


@contextmanager
def _told(output: Output) -> Iterator[None]:
    """Turn what the store refuses into a sentence, after the words of the tool that failed; end in order on SIGTERM."""
    from ...engines.store import StoreError

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    # As on Ctrl-C, the tools at work are ended and what they built is removed.
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except StoreError as error:
        if error.said:
            output.notes.print(error.said, markup=False, highlight=False, style="dim", soft_wrap=True)
        raise UsageError(str(error)) from error
    finally:
        signal.signal(signal.SIGTERM, before)
