"""Dynamo: which levels there are. Only its mocker can be driven without a GPU, one trace at a time."""

import importlib.metadata
import os

from level import Refused

__all__ = ["LEVELS", "Refused", "version"]


def version() -> str:
    """Return the installed release."""
    return importlib.metadata.version("ai-dynamo-runtime")


def _replay(setup: dict):
    """Make the level; the mocker is imported here, for its log level is read then."""
    os.environ.setdefault("DYN_LOG", "error")
    from dynamo_replay import ReplayLevel

    return ReplayLevel(setup)


LEVELS = {"replay": _replay}
