"""What ``kvproof hunt`` writes."""

import msgspec

from ..gaps import Gap
from . import Report
from .runs import Finding, Symptom

__all__ = ["CampaignTarget", "Cause", "Hunt", "Parting", "Sighting"]


class CampaignTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign did at one target."""

    target: str
    """What was driven."""
    slices: int
    """Slices of time that it had, and that came to their end."""
    seconds: float
    """Their time, all together."""
    examples: dict[str, int]
    """By level, cases."""
    steps: dict[str, int]
    """By level, steps of all cases."""
    not_confirmed: dict[str, int]
    """What broke a rule and was not seen again in a fresh worker, and how often. It is no finding."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A cause as one target shows it."""

    target: str
    """The release, the environment or the driver."""
    version: str
    """What it says its release is."""
    level: str
    """At which level."""
    steps: int
    """Operations of the shortest case."""
    expected: str | None
    """Why it is no news there, where the list of ``--known`` says so."""
    perhaps: str | None
    """What that list has that shows so with less, where it does not have this."""
    trace: str
    """The file of its trace, below the folder; kvproof replay takes it."""
    script: str | None
    """The file of a script that shows it without kvproof, below the folder; null where there can be none."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of faults, with every target that shows it."""

    title: str
    """In a few words."""
    engine: str
    """Whose it is."""
    rule: str
    """The rule that is broken."""
    rule_text: str
    """What that says."""
    oracle: str
    """Who noticed."""
    key: list[str]
    """What tells it apart from other findings of this oracle."""
    text: str
    """What was seen, for people."""
    needs: list[str]
    """The traits that it does not show without."""
    unfinished: bool
    """The time was over before each of its needs had been left out in vain; perhaps it needs less, and then it may be
    one cause with another that shows alike."""
    circumstances: list[str]
    """What the case has besides. Other circumstances may do as well."""
    symptoms: list[Symptom]
    """How else it shows."""
    levels: list[str]
    """Where it was met."""
    seconds: float
    """From the start of the campaign to its first sight."""
    story: list[str]
    """Setup, operations, histories and the states around the fault, line by line, for people."""
    seen: list[Sighting]
    """Where it was seen."""


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which block pools differ from machine P, step by step."""

    targets: list[str]
    """Those that do."""
    finding: Finding
    """The shortest run that shows it."""


class Hunt(Report, frozen=True, kw_only=True, tag="hunt"):
    """What ``kvproof hunt`` writes: of a campaign, so far."""

    folder: str
    """Where it is."""
    targets: list[CampaignTarget]
    """What was hunted, in the order of the command."""
    seconds: float
    """How long processes were at work, all together."""
    lost: int
    """Processes of this run that ended without a word; what they had found is kept."""
    causes: list[Cause]
    """What was found, each cause once."""
    partings: list[Parting]
    """What differs from machine P."""
    gaps: list[Gap]
    """What was not judged."""
