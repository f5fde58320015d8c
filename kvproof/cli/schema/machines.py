"""What the commands about machines write: prove, explore, export."""

from typing import Literal

import msgspec

from ..gaps import Gap
from . import Report

__all__ = [
    "Explore",
    "Export",
    "ExportObligations",
    "JudgedMutant",
    "Leeway",
    "LeftOut",
    "Mutate",
    "Obligation",
    "Open",
    "Prove",
    "ProvedMachine",
    "Violation",
]


class Obligation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that has to be proved."""

    action: str
    """The action that must keep it, or the first state."""
    goal: str
    """The property, or what must be well formed."""
    rule: str
    """The rules that it writes down."""
    verdict: Literal["proved", "refuted", "unknown"]
    """``unknown``: the solver did not decide in time."""
    seconds: float
    """How long that took."""
    line: str
    """Where it stands: file and line."""
    note: str
    """What to look at where it is not proved; empty where it is."""
    counterexample: str | None
    """The smallest step that breaks it, for people."""


class ProvedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, and what was to be proved of it."""

    machine: str
    """Its name."""
    seconds: float
    """Computing time, of all processes."""
    actions: int
    """How many it has."""
    properties: int
    """How many of states and of steps it promises."""
    left_to_exploration: int
    """How many say what must be reachable, which no proof judges."""
    untouched: int
    """Pairs of an action and a property that shares nothing with it, so that nothing had to be asked."""
    recalled: int
    """Obligations that an earlier run had proved."""
    obligations: list[Obligation]
    """All of them."""


class Prove(Report, frozen=True, kw_only=True, tag="prove"):
    """What ``kvproof prove`` writes."""

    obligations: int
    """Of all machines."""
    proved: int
    """How many of them are proved."""
    refuted: int
    """How many have a counterexample."""
    unknown: int
    """How many are not decided."""
    seconds: float
    """Computing time, of all machines and processes."""
    machines: list[ProvedMachine]
    """In the order in which they were named."""
    gaps: list[Gap]
    """What was not judged."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """What does not hold, and a shortest way there."""

    kind: Literal["invariant", "step", "ill-formed"]
    """A property of states, a property of steps, or a step that does what no machine may do. A promise that is
    broken by going round for ever is one of steps, with ``returns_to``."""
    name: str
    """The property, or what the step did."""
    rule: str
    """The rules that it writes down."""
    values: dict[str, int]
    """The values of its parameters for which it fails."""
    trace: list[tuple[str, dict[str, int]]]
    """The actions with their arguments, in order."""
    returns_to: int | None = None
    """Of a cycle: after so many of these actions the state is what it is after the last, and so on for ever."""


class Explore(Report, frozen=True, kw_only=True, tag="explore"):
    """What ``kvproof explore`` writes."""

    machine: str
    """Its name."""
    sizes: dict[str, int]
    """Elements of each sort."""
    states: int
    """Distinct states that were reached."""
    transitions: int
    """Steps that were taken from them: every action with all arguments with which it is possible."""
    properties: int
    """How many were judged."""
    depth: int
    """The number of steps after which the last new state was reached."""
    violations: list[Violation]
    """Of each property that fails the first."""
    unreached: list[str]
    """Properties of what must be reachable that are true in no state that was reached."""
    never: list[str]
    """Actions that are possible in no state that was reached."""
    complete: bool
    """Whether every reachable state was visited."""
    explored_depth: int
    """Whatever can be reached in so many steps was reached, and judged."""
    stopped: Literal["states", "memory", "hopeless"] | None
    """What it stopped for, if it did: ``--max-states``, full memory, or too many states to be expected to go on."""
    expected_states: float | None
    """How many states there may be: a guess, where it stopped."""
    limit_bytes: int | None
    """How much memory the set of visited states could take."""
    peak_bytes: int
    """The most memory that the set of visited states took."""
    seconds: float
    """How long it took."""
    gaps: list[Gap]
    """What was not judged."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A property that the exported model does not check."""

    name: str
    """The property."""
    why: str
    """What the other language cannot say."""


class Export(Report, frozen=True, kw_only=True, tag="export"):
    """What ``kvproof export --to promela`` and ``--to tla`` write."""

    machine: str
    """Its name."""
    to: Literal["promela", "tla"]
    """The language."""
    sizes: dict[str, int]
    """Elements of each sort."""
    files: list[str]
    """What was written; empty where it went to standard output."""
    invariants: list[str]
    """The properties of states that are checked."""
    steps: list[str]
    """The properties of steps that are checked."""
    left_out: list[LeftOut]
    """Those that are not."""


class ExportObligations(Report, frozen=True, kw_only=True, tag="export"):
    """What ``kvproof export --to smt2`` writes."""

    machine: str
    """Its name."""
    to: Literal["smt2"]
    """The language."""
    obligations: int
    """How many files, one for each."""
    folder: str
    """Where they are."""


class JudgedMutant(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, or the reference implementation, with one mistake in it."""

    machine: str
    """The machine, or refimpl."""
    action: str
    """The action that is wrong; of refimpl the last level that was asked, empty where only tests come by."""
    line: str
    """Where the mistake is: folder, file and line."""
    operator: str
    """The kind of mistake."""
    what: str
    """The mistake in the words of the text."""
    fate: Literal["prove", "explore", "fuzz", "equivalent", "survivor", "unknown", "reader"]
    """Who noticed it (fuzz: runs, and where ``test`` names one, a test); or it is proved to be harmless, or nobody did,
    or a proof is not decided."""
    by: str
    """The first thing that it breaks; of a survivor what it does otherwise, where that was found."""
    seconds: float
    """Computing time."""
    test: str | None = None
    """Of refimpl the test that failed, where the level did not notice it at once."""


class Mutate(Report, frozen=True, kw_only=True, tag="mutate"):
    """What ``kvproof mutate`` writes."""

    mutants: int
    """How many there were."""
    noticed: int
    """How many a proof, the explorer, random runs or tests noticed."""
    equivalent: int
    """How many are proved to do what they should."""
    survivors: int
    """How many nobody notices."""
    unknown: int
    """How many are not decided."""
    refused: int
    """How many are no texts of machines: they are not counted in the score."""
    score: float | None
    """The share of noticed ones, of noticed, survivors and unknown; null where there are none."""
    seconds: float
    """Computing time, of all processes."""
    judged: list[JudgedMutant]
    """Each of them."""


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an action could make otherwise, and every promise would be kept."""

    machine: str
    """The machine."""
    action: str
    """The action."""
    name: str
    """The map or queue of which an entry may differ after it; ``result``: what it returns.

    Or ``everything``: no step of the action was found.
    """
    what: str | None
    """The entry, what the text makes of it, and what it may as well be; null where that was not decided in time."""


class Leeway(Report, frozen=True, kw_only=True, tag="leeway"):
    """What ``kvproof leeway`` writes."""

    machines: list[str]
    """Those that were looked at."""
    size: int
    """Elements of each sort."""
    allowed: list[str]
    """Maps and queues that were said to be left open on purpose."""
    left_open: list[Open]
    """What is left open otherwise."""
