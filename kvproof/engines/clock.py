"""The clock of a hunt: it goes on where a manager's test lets the time stand still, as freezegun does.

Such a test puts something else in the place of `time.monotonic`, which would never let a hunt end.
"""

import time

__all__ = ["monotonic"]


def monotonic() -> float:
    """What `time.monotonic` is of itself."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
