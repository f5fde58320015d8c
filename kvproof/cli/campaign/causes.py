"""The causes of a campaign: each once, with every target that shows it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...engines.causes import gathered
from ...engines.hunt import looked_up
from ...engines.known import Known, Listed
from ...engines.report import Finding
from ..findings import title_of
from .store import Difference, Sighting, Store

__all__ = ["Cause", "Parting", "Seen", "causes_of", "partings_of"]


@dataclass(frozen=True)
class Seen:
    """A cause at one target: the sighting with the shortest case."""

    name: str
    """Of the sighting."""
    sighting: Sighting
    expected: str | None
    """Why it is no news there, where a list of known findings says so."""
    perhaps: str | None
    """What such a list has that shows so with less."""

    @property
    def finding(self) -> Finding:
        """What was seen."""
        return self.sighting.finding


@dataclass
class Cause:
    """A cause of faults, and where it was seen."""

    finding: Finding
    """All that was seen of it, by the case that needs least."""
    engine: str
    after: float
    """Seconds until it was first seen."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """By target."""

    @property
    def expected(self) -> bool:
        """Whether it is no news at any target."""
        return all(seen.expected is not None for seen in self.seen.values())

    @property
    def title(self) -> str:
        """In a few words."""
        return title_of(self.finding.violation)


@dataclass
class Parting:
    """A way in which block pools differ from machine P, and at which targets."""

    first: Difference
    seen: dict[str, Difference] = field(default_factory=dict)


def causes_of(store: Store, known: Sequence[Known] = ()) -> list[Cause]:
    """The causes that were seen, in the order in which they were met.

    Which findings are one is said by `kvproof.engines.causes`, as within a single hunt.
    """
    found: list[Cause] = []
    everything = store.sightings()
    for engine in dict.fromkeys(sighting.engine for sighting in everything.values()):
        sightings = {name: s for name, s in everything.items() if s.engine == engine}
        levels = list(dict.fromkeys(s.finding.case.level for s in sightings.values()))
        found += _of_engine(engine, sightings, levels, known)
    return sorted(found, key=lambda cause: cause.after)


def _of_engine(engine: str, sightings: dict[str, Sighting], levels: list[str], known: Sequence[Known]) -> list[Cause]:
    name_of = {id(sighting.finding): name for name, sighting in sightings.items()}
    found = []
    for finding, told in gathered((s.finding for s in sightings.values()), levels):
        those = {name: sightings[name] for name in sorted(name_of[id(each)] for each in told)}
        cause = Cause(finding, engine, min(sighting.after for sighting in those.values()))
        for target in dict.fromkeys(sighting.target for sighting in those.values()):
            of_target = {name: s for name, s in those.items() if s.target == target}
            cause.seen[target] = _seen(finding, of_target, known)
        found.append(cause)
    return found


def _seen(finding: Finding, sightings: dict[str, Sighting], known: Sequence[Known]) -> Seen:
    """What was seen of a cause at a target, by the shortest case. It is no news where a list has the cause, or all that
    was seen of it there: it may need more in this release than in another one."""
    name, first = min(sightings.items(), key=lambda item: len(item[1].finding.case.ops))
    listed = Listed(known, first.engine, first.version)
    told = looked_up(finding, listed)
    if told.expected is not None:
        return Seen(name, first, told.expected, None)
    here = [looked_up(sighting.finding, listed).expected for sighting in sightings.values()]
    return Seen(name, first, here[0], None) if all(here) else Seen(name, first, None, told.perhaps)


def partings_of(store: Store) -> list[Parting]:
    """The ways in which block pools were seen to differ from machine P: by what differs first, after which action."""
    found: dict[tuple[str, str, str], Parting] = {}
    for difference in sorted(store.differences().values(), key=lambda d: (d.finding.steps, d.after)):
        place = (difference.engine, difference.finding.rule, difference.finding.oracle)
        found.setdefault(place, Parting(difference)).seen.setdefault(difference.target, difference)
    return [*found.values()]
