"""Running a program with all that it says in a log."""

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["ProcessError", "run"]

TAIL_LINES = 15
"""How many lines of a failed program are worth showing."""


class ProcessError(Exception):
    """A program did not end well. The message is the end of what it said."""


def run(
    command: Sequence[str | Path], environment: Mapping[str, str], log: Path, on_line: Callable[[str], None]
) -> None:
    """Run a program to its end; append what it says to ``log`` and hand over each line.

    However this function is left, the program and what it started have ended.

    Raises:
        ProcessError: it ended with a status other than 0.
        OSError: it cannot be started, or the log cannot be written.
    """
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with log.open("a", encoding="utf-8") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment,
            start_new_session=True,  # A group of its own, so that it can be ended with all its children.
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                sink.write(line)
                tail.append(line.rstrip())
                on_line(line.rstrip())
            status = process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            process.stdout.close()
    if status:
        raise ProcessError("\n".join(tail))
