"""What the commands about what there is write: engines, rules."""

import msgspec
from msgspec import UNSET, UnsetType

from . import Report

__all__ = [
    "EnginesInstall",
    "EnginesList",
    "EnginesRemove",
    "Fault",
    "Held",
    "Installed",
    "Origin",
    "Rule",
    "Rules",
]


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A release that was installed."""

    engine: str
    """Engine and version."""
    path: str
    """Where it is."""


class EnginesInstall(Report, frozen=True, kw_only=True, tag="engines install"):
    """What ``kvproof engines install`` writes."""

    installed: list[Installed]
    """In the order in which they were named."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Something in the store."""

    python: str
    """Its version of Python."""
    path: str
    """Where it is."""
    bytes: int
    """What it takes on disk."""
    engine: str | UnsetType = UNSET
    """Engine and version; left out of what releases share."""


class EnginesList(Report, frozen=True, kw_only=True, tag="engines list"):
    """What ``kvproof engines list`` writes."""

    store: str
    """The folder."""
    engines: list[Held]
    """The releases."""
    runtimes: list[Held]
    """What they share."""
    bytes: int
    """What all of it takes on disk."""


class EnginesRemove(Report, frozen=True, kw_only=True, tag="engines remove"):
    """What ``kvproof engines remove`` writes."""

    removed: list[str]
    """Engine and version of each release, the name of what was shared."""
    bytes: int
    """What that took on disk."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rule comes from."""

    name: str
    """An engine's source, a change that was reviewed, or this kit."""
    link: str | None
    """Where to read it."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, and what keeps it."""

    code: str
    """Its name, as P6."""
    sentence: str
    """What must hold."""
    more: str | None
    """What else belongs to it."""
    origin: Origin
    """Where it comes from."""
    proved: dict[str, list[str]]
    """By machine: the properties that write it down."""
    reached: dict[str, list[str]]
    """By machine: what must be reachable."""
    assumed: dict[str, list[str]]
    """By machine: what is taken for granted."""
    levels: list[str]
    """The levels at which the reference implementation is fuzzed beside such a machine."""
    oracles: list[str]
    """The oracles that judge engines by it."""
    streams: bool
    """Whether streams of events are judged by it."""
    promised: dict[str, list[str]]
    """What must happen some day, by machine."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A known fault of a real block manager."""

    code: str
    """Its name, as B5."""
    where: str
    """The function or the part that had it."""
    sentence: str
    """What was wrong."""
    rules: list[str]
    """The rules that it breaks."""
    releases: str
    """The first and the last release with it, and the first without; empty if in none."""
    link: str
    """Where to read of it; empty if nowhere."""


class Rules(Report, frozen=True, kw_only=True, tag="rules"):
    """What ``kvproof rules`` writes."""

    rules: list[Rule]
    """Those that were asked for."""
    faults: list[Fault]
    """Known faults that were asked for."""
    of: int
    """How many rules there are."""
