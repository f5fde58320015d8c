"""The command line: ``kvproof COMMAND``. Errors are one sentence, exit statuses those of ``ExitStatus``."""

import shutil
import sys
import textwrap
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from ..checkers.heap import seldom_searched
from ..checkers.trace import TraceError
from ..engines.worker.frames import with_room
from ..errors import ExitStatus, UsageError
from ..harness.blame import blamed, forget_files
from ..untrusted.text import one_line, visible
from ..version import kit_version
from . import written
from .commands.bisect import bisect
from .commands.check_change import check_change
from .commands.compare import compare
from .commands.engines import engines
from .commands.events import events
from .commands.explore import explore
from .commands.export import export
from .commands.fuzz import fuzz
from .commands.hunt import hunt
from .commands.init import init
from .commands.leeway import leeway
from .commands.mutate import mutate
from .commands.protocol_check import protocol_check
from .commands.prove import prove
from .commands.replay import replay
from .commands.rules import rules
from .commands.run import run as run_command
from .commands.schema import schema
from .commands.shrink import shrink
from .commands.verify import verify
from .commands.workload import workload
from .ending import INTERRUPTED, came_of_an_interruption, ended, heed_the_end
from .unheard import aside, of_the_place, silence

app = typer.Typer(
    name="kvproof",
    help="Proves, explores, fuzzes and replays the block managers of LLM inference engines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    verify,
    prove,
    explore,
    mutate,
    leeway,
    export,
    init,
    fuzz,
    hunt,
    check_change,
    compare,
    replay,
    shrink,
    bisect,
    protocol_check,
    workload,
    rules,
    schema,
):
    app.command()(command)
app.command("run")(run_command)
app.add_typer(engines)
app.add_typer(events)


def _show_version(asked: bool) -> None:
    """Print the version and leave, if that was asked."""
    if asked:
        typer.echo(f"kvproof {kit_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and leave.")
    ] = False,
) -> None:
    """Take the options that stand before the command."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    A fault of kvproof itself is status 2, never 1: it must not pass for a refutation. Nor may an exception in a file of
    the user's, whatever it is: one that ends the program would pass for success.
    """
    forget_files()
    written.begin()
    try:
        status = app(args=arguments, prog_name="kvproof", standalone_mode=False)
        if status == INTERRUPTED:  # typer has made a status of it
            return ended()
        return written.status_with(ExitStatus(status or ExitStatus.HOLDS))
    except (UsageError, TraceError) as error:
        return _fail(str(error))
    except typer.TyperException as error:
        return _fail(_sentence(error))
    except BrokenPipeError:
        # The reader left early (`| head`): silence the flush at exit too.
        silence(sys.stdout)
        return ExitStatus.UNUSABLE
    except KeyboardInterrupt:
        return ended()
    except MemoryError:
        return _fail("out of memory; try smaller sizes")
    except BaseException as error:
        if came_of_an_interruption(error):
            return ended()
        if sentence := blamed(error) or _of_machine(error):
            return _fail(sentence)
        if sentence := of_the_place(error):
            silence(sys.stdout)
            return _fail(sentence)
        if not isinstance(error, Exception):
            raise
        aside(visible(traceback.format_exc()).rstrip("\n"))
        return _fail(f"a fault of kvproof itself ({type(error).__name__}); please report it with the lines above")


def main() -> None:
    """Run the command line as a program."""
    heed_the_end()
    seldom_searched()
    try:
        sys.exit(with_room(run))
    except KeyboardInterrupt:  # before the command began, or behind its end
        sys.exit(ended())


def _fail(sentence: str) -> int:
    """Say what is wrong, as one line, and return the status for it."""
    if sentence:
        aside(_wrapped(f"kvproof: {one_line(sentence)}"))
    return ExitStatus.UNUSABLE


def _wrapped(line: str) -> str:
    """A line broken between words where it is longer than the terminal; one line where there is none."""
    if sys.stderr is None or sys.stderr.closed or not sys.stderr.isatty():
        return line
    width = max(40, shutil.get_terminal_size().columns)
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")


def _of_machine(error: BaseException) -> str | None:
    """Return what is wrong with a machine, if that is it."""
    from ..machine import MachineError

    return str(error) if isinstance(error, MachineError) else None


def _sentence(error: typer.TyperException) -> str:
    """Return what the parser has to say as one sentence that tells where to look; nothing when it showed the help."""
    message = " ".join(error.format_message().replace("Value error, ", "").split())
    if not message:
        return ""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "kvproof"
    return f"{message[0].lower()}{message[1:].rstrip('.')}; see {path} --help"
