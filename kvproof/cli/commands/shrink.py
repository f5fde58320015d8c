"""``kvproof shrink``: an incident of the sanitizer with what concerns its fault, and nothing else."""

from pathlib import Path
from typing import Annotated

import typer

from ...errors import ExitStatus, UsageError
from ..output import Output
from ..written import check_file


def shrink(
    incident: Annotated[Path, typer.Argument(metavar="INCIDENT", help="What the sanitizer wrote.")],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Where the smaller one is written.")],
) -> int:
    """Leave out of an incident the calls that do not concern the blocks that its fault is about."""
    output = Output(None)
    check_file("--to", to)
    from ...checkers.trace import read_trace, write_trace
    from ...testing.incidents import LEVEL, shrunk

    recorded = read_trace(incident)
    if recorded.level != LEVEL:
        raise UsageError(f"{incident} is no incident of the sanitizer; kvproof fuzz shrinks its findings by itself")
    smaller = shrunk(recorded, str(incident))
    write_trace(to, smaller)
    output.line(f"{to}: {len(smaller.operations)} of {len(recorded.operations)} operations show the same fault")
    return ExitStatus.HOLDS
