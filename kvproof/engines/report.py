"""What a hunt did and found."""

from dataclasses import dataclass, field

from ..judge.activity import Activity
from ..judge.record import Case
from ..judge.sight import Sight
from ..judge.violation import HARMLESS, Verdict, Violation

__all__ = ["Finding", "HuntReport", "Spent", "Way"]


@dataclass(frozen=True)
class Way:
    """A case that shows as a finding does, needs all that it needs, and more."""

    needs: frozenset[str]
    case: Case
    verdict: Verdict


@dataclass(frozen=True)
class Finding:
    """A cause of faults, with the smallest case that shows it."""

    verdict: Verdict
    case: Case
    profile: str
    seconds: float
    """From the start of the hunt to its first sight."""
    steps_until: int
    """Steps that the hunt had done by then."""
    expected: str | None = None
    """Why it is no news, where a list of known findings says so."""
    needs: frozenset[str] = frozenset()
    """The traits that it does not show without."""
    unfinished: bool = False
    """The time was over before each of what it needs had been left out in vain: perhaps it needs less."""
    was: tuple[frozenset[str], ...] = ()
    """What it was told to need while that was unfinished."""
    cost: float = 0.0
    """Seconds that seeing it took at most, with the starts of an engine that is lost."""
    perhaps: str | None = None
    """Of one that is not expected: what on a list of known findings shows so and needs a part of that."""
    bare: bool = False
    """Whether most faults of its level need nothing: then what needs more may be one that does not."""
    circumstances: frozenset[str] = frozenset()
    """What its case has besides: others might do as well."""
    symptoms: tuple[Violation, ...] = ()
    """What else shows of the same cause: other rules, at other levels, and what follows from it."""
    levels: tuple[str, ...] = ()
    """The levels that it was met at besides."""
    cases: int = 1
    """Cases that were taken for this one when they were met."""

    ways: tuple["Way", ...] = ()
    """Cases that show alike and need more. Perhaps these are causes of their own; nothing that was seen says so."""

    @property
    def all_symptoms(self) -> tuple[Violation, ...]:
        """How it shows: the rule that its case breaks first, and the others."""
        return (self.violation, *self.verdict.also, *self.symptoms)

    @property
    def explains(self) -> tuple[Violation, ...]:
        """Those of its symptoms by which other cases are taken for it: what leaves the engine's blocks as they are is
        no cause of what does not."""
        if self.violation.rule not in HARMLESS:
            return self.all_symptoms
        return tuple(v for v in self.all_symptoms if v.rule in HARMLESS)

    @property
    def violation(self) -> Violation:
        """The rule that is broken."""
        return self.verdict.violation


@dataclass
class Spent:
    """Where a hunt's time went, in seconds."""

    started: float = 0.0
    """Until the engine was ready: before the hunt's time begins."""
    searched: float = 0.0
    """Drawing cases, running and judging them."""
    shrunk: float = 0.0
    """Telling causes apart and making their cases small."""
    confirmed: float = 0.0
    """Seeing findings again in fresh workers."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            self.started + other.started,
            self.searched + other.searched,
            self.shrunk + other.shrunk,
            self.confirmed + other.confirmed,
        )

    @property
    def share(self) -> float | None:
        """The part of the hunt's time that went into searching."""
        whole = self.searched + self.shrunk + self.confirmed
        return self.searched / whole if whole else None


@dataclass
class HuntReport:
    """What a hunt did at one level."""

    target: str
    level: str
    examples: int = 0
    steps: int = 0
    skipped: int = 0
    """Operations that had nothing to act on."""
    refused: int = 0
    """Setups that the engine did not take."""
    refusal: str = ""
    """Why it did not take the last of them."""
    profiles: dict[str, int] = field(default_factory=dict)
    """Cases of each family that the engine took."""
    activity: Activity = field(default_factory=Activity)
    coverage: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    astray: list[Finding] = field(default_factory=list)
    """Cases on which the judge itself failed, sorted and made small as findings are: faults of the kit."""
    seconds: float = 0.0
    """From the start of the hunt to its end, whatever was done meanwhile."""
    spent: Spent = field(default_factory=Spent)
    unconfirmed: dict[str, int] = field(default_factory=dict)
    """What was met and not seen again in a fresh worker, and how often: it is not told as a finding."""
    met_once: dict[str, tuple[Case, Verdict]] = field(default_factory=dict)
    """The first case of each of these, and what was wrong with it then."""
    unsorted: int = 0
    """Cases that broke a rule and were not looked at for want of time."""
    left_over: dict[str, tuple[Case, Verdict]] = field(default_factory=dict)
    """One of each kind of these, and what was wrong with it."""
    steady_seconds: float = 0.0
    steady_steps: int = 0
    """What the speed is measured by: all turns but the very first."""
    sight: Sight | None = None
    """Which rules could be judged, where that depends on what the target can tell."""

    @property
    def speed(self) -> float | None:
        """Steps per second with all oracles on, drawing included, shrinking not."""
        return self.steady_steps / self.steady_seconds if self.steady_seconds else None

    def add(self, other: "HuntReport") -> None:
        """Add what another process did at the same level. What it found is left to whoever knows which are the same."""
        self.examples += other.examples
        self.steps += other.steps
        self.skipped += other.skipped
        self.refused += other.refused
        self.refusal = self.refusal or other.refusal
        self.seconds = max(self.seconds, other.seconds)
        self.spent += other.spent
        self.unsorted += other.unsorted
        self.steady_seconds += other.steady_seconds
        self.steady_steps += other.steady_steps
        self.activity.add(other.activity)
        for mine, theirs in (
            (self.profiles, other.profiles),
            (self.coverage, other.coverage),
            (self.unconfirmed, other.unconfirmed),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        self.met_once = other.met_once | self.met_once
        self.left_over = other.left_over | self.left_over
