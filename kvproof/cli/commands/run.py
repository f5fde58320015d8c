"""``kvproof run``: a command of yours, with the sanitizer in every vLLM that it starts."""

import os
import shutil
from pathlib import Path
from typing import Annotated, Final

import typer

from ...engines.vllm import sanitizer
from ...errors import UsageError
from ...version import kit_version
from ..written import check_folder

HOOK: Final = Path(sanitizer.__file__).parent / "hook"
"""The folder that makes an interpreter arm the sanitizer."""


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="What is run, behind two dashes.")],
    every: Annotated[
        int, typer.Option("--every", metavar="N", min=0, help="Check the whole state each N steps; 0: never.")
    ] = 1000,
    incidents: Annotated[Path, typer.Option("--incidents", metavar="DIR", help="Where incidents are written.")] = Path(
        "kvproof-incidents"
    ),
    stop: Annotated[bool, typer.Option("--stop", help="Raise in the engine when a rule is broken.")] = False,
) -> int:
    """Run a command with the sanitizer in the vLLM that it starts; this process becomes the command."""
    check_folder("--incidents", incidents)
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(
            f"there is no program {command[0]}; give one behind two dashes: kvproof run -- vllm serve MODEL"
        )
    environment = {
        **os.environ,
        "KVPROOF_SANITIZE": "stop" if stop else "1",
        "KVPROOF_SANITIZE_EVERY": str(every),
        "KVPROOF_SANITIZE_KIT": kit_version(),
        "KVPROOF_INCIDENTS": str(incidents.absolute()),
        "PYTHONPATH": os.pathsep.join([str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    # It is the command from here on: its signals, its exit status and its terminal are its own.
    try:
        os.execve(program, command, environment)
    except OSError as error:
        raise UsageError(f"{program} cannot be run: {error.strerror}") from error
