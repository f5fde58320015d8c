"""What the commands that run something write: fuzz, compare, replay, bisect, protocol-check."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..gaps import Gap
from . import Report

__all__ = [
    "BehaviourChange",
    "Bisect",
    "Broken",
    "Changed",
    "CheckChange",
    "Compare",
    "Coverage",
    "Disagreement",
    "DriverCheck",
    "EngineProblem",
    "Finding",
    "Fuzz",
    "FuzzEngine",
    "Level",
    "MachineProblem",
    "OnRelease",
    "ProtocolCheck",
    "Replay",
    "ReplayEngine",
    "ReplayIncident",
    "SeenProblem",
    "Symptom",
    "Time",
    "Way",
]


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How often an action was tried."""

    attempted: int
    """In all."""
    applied: int
    """It was possible, and target and machine agreed."""
    refused: int
    """It was not possible, and the target refused."""


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """How a cause shows."""

    rule: str
    """The rule that is broken."""
    oracle: str
    """Who noticed."""
    text: str
    """What was seen, for people."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """A case that shows as a finding does, and needs more."""

    needs: list[str]
    """The traits that it does not show without."""
    steps: int
    """Operations of the run."""
    trace: str
    """The run as a trace file, which kvproof replay takes."""


class Time(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a hunt went, all processes together."""

    started: float
    """Until the engine was ready, before the hunt's own time."""
    searched: float
    """Drawing cases, running and judging them."""
    shrunk: float
    """Telling causes apart, and making their cases small."""
    confirmed: float
    """Seeing findings again in fresh workers."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a run found, with the shortest run that shows it."""

    oracle: str
    """Who noticed. Beside a machine: the variable that differs first, or result, events, refusal, stray (a call that
    names what is not there, and was done), residue, crash."""
    rule: str
    """The rule that is broken; beside a machine: the action after which the two differ."""
    steps: int
    """Operations of the run."""
    trace: str
    """The run as a trace file, which kvproof replay takes."""
    report: str | UnsetType = UNSET
    """Beside a machine: both values and the way there, for people."""
    script: str | UnsetType = UNSET
    """Beside a machine: Python text that shows it without the machine."""
    key: list[str] | UnsetType = UNSET
    """Of engines: what tells it apart from other findings of this oracle."""
    text: str | UnsetType = UNSET
    """Of engines: what was seen, for people."""
    level: str | UnsetType = UNSET
    """Of engines: the level that it was found at."""
    profile: str | UnsetType = UNSET
    """Of engines: the family of cases that it was found in."""
    seconds: float | UnsetType = UNSET
    """Of engines: from the start of the hunt to its first sight."""
    expected: str | UnsetType | None = UNSET
    """Of engines: why it is no news, where the list of ``--known`` says so."""
    needs: list[str] | UnsetType = UNSET
    """Of engines: the traits that it does not show without. With how it shows they tell its cause from others."""
    unfinished: bool | UnsetType = UNSET
    """Of engines: the time was over before each of its needs had been left out in vain; perhaps it needs less."""
    perhaps: str | UnsetType | None = UNSET
    """Of engines, of one that is not expected: what the list of ``--known`` has that shows so and needs less."""
    circumstances: list[str] | UnsetType = UNSET
    """Of engines: what the run has besides. Other circumstances may do as well."""
    symptoms: list[Symptom] | UnsetType = UNSET
    """Of engines: how else the same cause shows."""
    ways: list[Way] | UnsetType = UNSET
    """Of engines: cases that show alike and need more; perhaps causes of their own. They were not made small."""
    levels: list[str] | UnsetType = UNSET
    """Of engines: the other levels that it was met at."""
    cases: int | UnsetType = UNSET
    """Of engines: how many of the cases that were looked at showed it."""


class Fuzz(Report, frozen=True, kw_only=True, tag="fuzz"):
    """What ``kvproof fuzz refimpl`` writes."""

    target: str
    """What was driven."""
    level: str
    """At which level."""
    examples: int
    """Runs."""
    steps: int
    """Steps of all runs."""
    coverage: dict[str, Coverage]
    """By action."""
    reached: dict[str, bool]
    """Which of the machine's properties of what must be reachable were true in some state."""
    activity: dict[str, int]
    """What happened, by name: lookups, hits, evictions, refusals and others."""
    findings: list[Finding]
    """What differs."""
    seconds: float
    """How long it took."""
    gaps: list[Gap]
    """What was not judged."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """What a hunt at one level of an engine did and found."""

    target: str
    """What was driven."""
    level: str
    """At which level."""
    examples: int
    """Cases."""
    steps: int
    """Steps of all cases."""
    coverage: dict[str, int | Coverage]
    """By operation, how often; of level pool by action."""
    activity: dict[str, int | None]
    """What happened, by name; null where nothing was told of it."""
    findings: list[Finding]
    """What is wrong."""
    seconds: float
    """How long it took."""
    refused: int | UnsetType = UNSET
    """Setups that the engine did not take."""
    skipped: int | UnsetType = UNSET
    """Operations that had nothing to act on."""
    profiles: dict[str, int] | UnsetType = UNSET
    """Cases of each family that the engine took."""
    steps_per_second: float | UnsetType | None = UNSET
    """With all oracles on; null where too little was done to tell."""
    judged: list[str] | UnsetType = UNSET
    """Of drivers: the rules that could be judged."""
    not_judged: dict[str, str] | UnsetType = UNSET
    """Of drivers: the others, and why."""
    time: Time | UnsetType = UNSET
    """Where its time went; not of level pool, which does nothing but search."""
    not_confirmed: dict[str, int] | UnsetType = UNSET
    """What broke a rule and was not seen again in a fresh worker, and how often. It is no finding."""
    not_looked_at: int | UnsetType = UNSET
    """Cases that broke a rule, may be news, and were not looked at for want of time."""
    reached: dict[str, bool] | UnsetType = UNSET
    """Of level pool: which properties of what must be reachable were true in some state."""


class FuzzEngine(Report, frozen=True, kw_only=True, tag="fuzz"):
    """What ``kvproof fuzz`` writes of an engine or a driver."""

    target: str
    """What was driven."""
    level: str
    """The levels, with commas."""
    examples: int
    """Cases of all levels."""
    steps: int
    """Steps of all levels."""
    coverage: dict[str, dict[str, int | Coverage]]
    """By level, then as in the level."""
    findings: list[Finding]
    """Those of all levels."""
    seconds: float
    """Of the level that took longest."""
    levels: list[Level]
    """Each by itself."""
    gaps: list[Gap]
    """What was not judged."""
    time: Time
    """Where the time of all levels and processes went."""


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that the engine broke on the way."""

    rule: str
    """Its code."""
    oracle: str
    """Who noticed."""
    text: str
    """What was seen first."""


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """A case in which the two do not do the same."""

    what: str
    """What differs."""
    text: str
    """Both values, for people."""
    profile: str
    """The family of cases that it was found in."""
    steps: int
    """Operations of the case."""
    trace: str
    """The case as a trace file, which kvproof compare --case takes."""


class Compare(Report, frozen=True, kw_only=True, tag="compare"):
    """What ``kvproof compare`` writes."""

    target: str
    """The engine."""
    subject: str
    """Which part of it."""
    examples: int
    """Cases."""
    profiles: dict[str, int]
    """Cases of each family that the engine took."""
    steps: int
    """Operations that did something."""
    compared: int
    """Those of them after which both were compared and agreed."""
    counts: dict[str, int]
    """What was compared that could have differed."""
    parted: dict[str, int]
    """Why a comparison ended before its case did, and how often."""
    broken: list[Broken]
    """The rules that the engine broke on the way."""
    disagreements: list[Disagreement]
    """What was found."""
    seconds: float
    """How long it took."""
    gaps: list[Gap]
    """What was not judged."""


class MachineProblem(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing that is wrong in a replay of a machine's trace."""

    kind: Literal["impossible", "result", "snapshot", "violation", "ill-formed", "divergence"]
    """The machine cannot do it, gives another result or state than was recorded, breaks a property, does what no
    machine may do; or the target differs from it."""
    at: int
    """After how many operations; 0 is the first state."""
    text: str
    """What was seen, for people."""


class Replay(Report, frozen=True, kw_only=True, tag="replay"):
    """What ``kvproof replay`` writes of a machine's trace."""

    trace: str
    """The file."""
    operations: int
    """How many it has."""
    done: int
    """How many were done without a problem."""
    problem: MachineProblem | None
    """What is wrong, if anything is."""


class EngineProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in a replay of an engine's trace."""

    rule: str
    """The rule that is broken."""
    oracle: str
    """Who noticed."""
    text: str
    """What was seen, for people."""


class ReplayEngine(Report, frozen=True, kw_only=True, tag="replay"):
    """What ``kvproof replay`` writes of an engine's trace."""

    trace: str
    """The file."""
    target: str
    """What it was replayed on."""
    operations: int
    """How many it has."""
    outcome: Literal["same", "other", "none", "refused", "idle"]
    """The fault that was recorded, another one, none; the engine does not take the setup, or had nothing to do."""
    problem: EngineProblem | None
    """What is wrong, if anything is."""
    why: str | None
    """Why nothing can be said, where that is so."""


class SeenProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with what was seen of a running engine."""

    rule: str
    """The rule that is broken."""
    kind: str
    """How, in a word or two."""
    text: str
    """What was seen, for people."""
    at: int
    """Which operation breaks it, counted from 0; the last one may be the state at the end."""
    blocks: list[int]
    """The blocks that it is about."""


class ReplayIncident(Report, frozen=True, kw_only=True, tag="replay"):
    """What ``kvproof replay`` writes of an incident of the sanitizer."""

    trace: str
    """The file."""
    subject: str
    """The release that it was seen of."""
    operations: int
    """How many calls it has, with the state at its end."""
    outcome: Literal["same", "other", "none"]
    """The fault that was recorded, another one, none."""
    problem: SeenProblem | None
    """What is wrong, if anything is."""
    unseen: list[str]
    """What changed between two calls of the block pool, which the engine may do."""


class OnRelease(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace shows on one release."""

    release: str
    """Engine and version."""
    outcome: Literal["same", "other", "none", "refused", "idle"]
    """As in replay."""
    what: str
    """The same, for people."""


class Bisect(Report, frozen=True, kw_only=True, tag="bisect"):
    """What ``kvproof bisect`` writes."""

    trace: str
    """The file."""
    releases: list[OnRelease]
    """The oldest first."""
    changes: list[tuple[str, str]]
    """Neighbours that do not show the same."""
    gaps: list[Gap]
    """What was not judged."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that one side of a change shows, and what the other side does in the same case."""

    fate: Literal["broken", "mended", "both", "unlike"]
    """The change brings it, takes it away, or neither; unlike: the other side says nothing of it."""
    found_on: Literal["base", "head"]
    """The side that shows it."""
    finding: Finding
    """What is wrong there."""
    elsewhere: Literal["same", "other", "none", "refused", "idle"]
    """The outcome on the other side, as in replay."""
    what: str
    """The same, for people."""


class BehaviourChange(msgspec.Struct, frozen=True, kw_only=True):
    """What both sides of a change did in the same cases of a level, in which neither broke a rule."""

    level: str
    """The level."""
    cases: int
    """The cases that were compared."""
    different: dict[str, int]
    """In how many of them the sides part, by what differs first."""


class CheckChange(Report, frozen=True, kw_only=True, tag="check-change"):
    """What ``kvproof check-change`` writes."""

    base: str
    """What was driven before the change."""
    head: str
    """What was driven with it."""
    levels: list[str]
    """At which levels."""
    seed: int
    """What chose the cases."""
    examples: dict[str, int]
    """Cases, by side."""
    steps: dict[str, int]
    """Steps of all cases, by side."""
    changes: list[Changed]
    """What is wrong on one side or on both."""
    behaviour: list[BehaviourChange]
    """What is different and no fault, by level."""
    seconds: float
    """How long the hunts took."""
    gaps: list[Gap]
    """What was not judged."""


class DriverCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a driver."""

    name: str
    """Its name."""
    asks: str
    """What must hold."""
    verdict: str
    """passed, failed, not applicable or not asked."""
    detail: str | None
    """What was seen, or why it does not apply."""
    mend: str | None
    """How to mend it, where it failed."""


class ProtocolCheck(Report, frozen=True, kw_only=True, tag="protocol-check"):
    """What ``kvproof protocol-check`` writes."""

    target: str
    """The driver."""
    engine: str
    """What it says that it drives."""
    version: str
    """Of which version."""
    checks: list[DriverCheck]
    """All checks, in order."""
    failed: int
    """How many failed."""
    can_be_judged: list[str]
    """The rules that can be judged by what the driver tells."""
    cannot_be_judged: dict[str, str]
    """The others, and why."""
    messages: int
    """Messages that were sent."""
    seconds: float
    """How long it took."""
    gaps: list[Gap]
    """What was not judged."""
