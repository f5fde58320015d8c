"""Exit statuses, and the one exception that the command line turns into a sentence."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """What the exit status of a command says."""

    HOLDS = 0
    """Everything that was asked holds."""
    REFUTED = 1
    """Something was refuted or found."""
    UNUSABLE = 2
    """The command line, a file or the environment does not allow an answer."""
    UNDECIDED = 3
    """Nothing was refuted, but something was not decided either."""


class UsageError(Exception):
    """The command cannot run. The message is one sentence that says what is wrong and how to mend it."""
