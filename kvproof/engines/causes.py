"""Causes: which findings are one.

A cause is told by how it shows and by what it needs: the traits that its case cannot do without. Two findings are one
when they show alike and need the same, whatever level they were met at. Faults that show alike and need different
things are two. Where one needs all that the other does and more, nothing says that it is a cause of its own, and it is
noted there as another way.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from ..judge.oracles.content import UNSURE
from ..judge.record import KINDS
from ..judge.violation import HARMLESS, Verdict, Violation
from .known import Listed
from .report import Finding, Way

__all__ = ["Causes", "Shown", "gathered", "merged", "shown"]

Shown = tuple[str, ...]
"""How a cause shows: a violation's signature, whatever the tier."""

_TIER = re.compile(r"device|host[0-9]*|below[0-9]*|disk|remote")
_GROUP = re.compile(rf"\b({'|'.join(KINDS)})\b")
_NUMBER = re.compile(r"[0-9]+")


def shown(violation: Violation) -> Shown:
    """How a violation shows, whatever the tier."""
    return tuple(part for part in violation.signature if not _TIER.fullmatch(part))


@dataclass
class Causes:
    """The causes that a hunt knows of."""

    findings: list[Finding] = field(default_factory=list)
    listed: Listed | None = None
    """Those of a list of known findings."""
    _needs: dict[tuple[tuple[str, ...], str], list[frozenset[str]]] = field(default_factory=dict, init=False)
    """What `of` answered, by signature and level, for these findings: each of some thousand samples asks it."""
    _needs_for: list[Finding] = field(default_factory=list, init=False)

    @property
    def hiding(self) -> list[Finding]:
        """The found ones that others may hide behind, where they need something: what is broken behind them may be
        their consequence."""
        return [finding for finding in self.findings if finding.needs and finding.violation.rule not in HARMLESS]

    def of(self, violation: Violation, level: str) -> list[frozenset[str]]:
        """What the known causes that show so need, those that need least first."""
        if len(self._needs_for) != len(self.findings) or not all(map(is_, self._needs_for, self.findings)):
            self._needs, self._needs_for = {}, [*self.findings]
        asked = violation.signature, level
        if asked not in self._needs:
            self._needs[asked] = self._all_of(violation, level)
        return self._needs[asked]

    def _all_of(self, violation: Violation, level: str) -> list[frozenset[str]]:
        found = [f.needs for f in self.findings if shown(violation) in map(shown, f.explains)]
        if self.listed is not None:
            found += self.listed.needs_of(violation, level)
        return sorted(dict.fromkeys(found), key=lambda needs: (len(needs), sorted(needs)))

    def explains(self, violation: Violation, level: str, traits: Collection[str]) -> bool:
        """Whether a known cause shows so and needs nothing but these traits."""
        return any(needs.issubset(traits) for needs in self.of(violation, level))

    def accounts_for(self, verdict: Verdict, level: str, traits: Collection[str]) -> bool:
        """Whether a known cause explains what is wrong, or what was wrong before, of which it may be a consequence."""
        shows = (verdict.violation, *([] if verdict.behind is None else [verdict.behind]))
        return any(self.explains(violation, level, traits) for violation in shows)

    def cause_of(self, violation: Violation, needs: frozenset[str]) -> Finding | None:
        """The finding that shows so and needs just that, or else the one that needs least of it."""
        found = [f for f in self.findings if _covers(f, needs)]
        return _nearest([f for f in found if shown(violation) in map(shown, f.explains)], violation, needs)

    def lists(self, violation: Violation, level: str, needs: frozenset[str]) -> bool:
        """Whether a list of known findings has it."""
        return self.listed is not None and self.listed.why(violation, level, needs) is not None

    def add(self, finding: Finding) -> None:
        """Take in a finding: one more, or one with others, of which the one that needs least is told.

        What needs all that two causes do makes no one of them: it is told with the one that needs less. What was told
        before there was time to see what it needs is told with what came of it.
        """
        for known in [each for each in self.findings if each.unfinished and _came_of(finding, each)]:
            self.findings.remove(known)
            finding = _joined(finding, known)
        alike = [known for known in self.findings if _same(known, finding)]
        told = [f for f in alike if f.needs <= finding.needs or finding.needs in f.was]
        less = _nearest(told, finding.violation, finding.needs)
        for known in alike if less is None else [less]:
            self.findings.remove(known)
            finding = _joined(finding, known) if less is None else _joined(known, finding)
        self.findings.append(finding)

    def alike(self) -> list[tuple[Finding, Finding]]:
        """Pairs of findings that show alike, and need something in common and different things besides; or one of which
        needs nothing."""
        found = self.findings
        pairs = [(a, b) for n, a in enumerate(found) for b in found[n + 1 :]]
        return [(a, b) for a, b in pairs if (a.needs & b.needs or not (a.needs and b.needs)) and _share_a_way(a, b)]

    def unite(self, general: Finding, special: Finding) -> None:
        """Take one finding for the other, which was seen without what this one needs more."""
        self.findings = [f for f in self.findings if f is not general and f is not special]
        self.findings.append(_joined(general, special))

    def consequence(self, of: Violation, symptom: Violation) -> None:
        """Note what shows only behind a cause that is known."""
        for number, known in enumerate(self.findings):
            if shown(of) in map(shown, known.explains):
                if shown(symptom) not in map(shown, known.all_symptoms):
                    self.findings[number] = replace(known, symptoms=(*known.symptoms, symptom))
                return

    def met(self, finding: Finding, way: Way, level: str) -> None:
        """Count a case that is taken for a known cause, and note what it needs more."""
        known = [finding.needs, *(each.needs for each in finding.ways)]
        ways = finding.ways if way.needs in known else (*finding.ways, way)
        met = replace(finding, cases=finding.cases + 1, levels=_levels(finding, [level]), ways=ways)
        self.findings = [met if f is finding else f for f in self.findings]


def merged(findings: Iterable[Finding], levels: Sequence[str]) -> list[Finding]:
    """Findings of several processes, each cause once, by the case that needs least, at the level that stands first."""
    return [cause for cause, _ in gathered(findings, levels)]


def gathered(findings: Iterable[Finding], levels: Sequence[str]) -> list[tuple[Finding, list[Finding]]]:
    """The same, each with those of the findings that are told as this one."""
    causes, told = Causes(), dict[int, list[Finding]]()
    for finding in sorted(findings, key=lambda f: (len(f.needs), levels.index(f.case.level), f.seconds)):
        before = [*causes.findings]
        causes.add(finding)
        left = {*map(id, causes.findings)}
        joined = [each for known in before if id(known) not in left for each in told.pop(id(known))]
        told[id(causes.findings[-1])] = [*joined, finding]
    return [(cause, told[id(cause)]) for cause in causes.findings]


def _nearest(findings: Iterable[Finding], violation: Violation, needs: frozenset[str]) -> Finding | None:
    """The finding that needs just that, or else least; of several the one that shows so first, and not only besides."""

    def distance(finding: Finding) -> tuple[bool, int, bool]:
        return finding.needs != needs, len(finding.needs), shown(finding.violation) != shown(violation)

    return min(findings, key=distance, default=None)


def _same(a: Finding, b: Finding) -> bool:
    """Whether two findings are told as one: nothing says that there are two causes where one needs all that the other
    does. Nothing does either if it is only groups of two kinds that they show in, where both need the same or say the
    same of a block, or one cannot tell what is in it."""
    if a.needs and a.needs == b.needs:
        return not _groupless(_first_ways(a)).isdisjoint(_groupless(_first_ways(b)))
    return (_covers(a, b.needs) or _covers(b, a.needs)) and (_share_a_way(a, b) or _say_the_same(a, b))


def _covers(finding: Finding, needs: frozenset[str]) -> bool:
    """Whether what needs this may be a finding that needs no more. What needs nothing is no part of everything, but
    where most faults need nothing."""
    less = finding.needs < needs and bool(finding.needs or finding.bare)
    return finding.needs == needs or less or needs in finding.was


def _came_of(finding: Finding, known: Finding) -> bool:
    """Whether a finding is what another one was made to, that needed more then or was not seen to its end."""
    return known.needs in finding.was and _share_a_way(finding, known)


def _share_a_way(a: Finding, b: Finding) -> bool:
    """Whether two findings show alike."""
    return not _first_ways(a).isdisjoint(_first_ways(b))


def _say_the_same(a: Finding, b: Finding) -> bool:
    """Whether two findings show alike first, and the same is said of them, whatever the numbers and the group's kind.
    Where a copy may have written a block, and may not, that says no other thing than what is said of it elsewhere."""
    first, second = a.violation, b.violation
    if _groupless([shown(first)]) != _groupless([shown(second)]):
        return False
    texts = {_GROUP.sub("", _NUMBER.sub("", text)) for text in (first.text, second.text)}
    return len(texts) == 1 or any(text.endswith(UNSURE) for text in texts)


def _first_ways(finding: Finding) -> set[Shown]:
    """How a finding shows in its own case, in whatever groups it was seen: what leaves the engine's blocks as they are
    tells nothing of what does not."""
    first, harmless = (finding.violation, *finding.verdict.also), finding.violation.rule in HARMLESS
    ways = {shown(violation) for violation in first if (violation.rule in HARMLESS) == harmless}
    alike = _groupless(ways)
    return ways | {way for way in map(shown, finding.symptoms) if not _groupless([way]).isdisjoint(alike)}


def _groupless(ways: Iterable[Shown]) -> set[Shown]:
    """Ways to show, whatever the group's kind."""
    return {tuple(part for part in way if not _GROUP.fullmatch(part)) for way in ways}


def _joined(a: Finding, b: Finding) -> Finding:
    """One finding of two: the first one's case, the symptoms of both."""
    known = {v.signature for v in a.all_symptoms}
    news = {v.signature: v for v in b.all_symptoms if v.signature not in known}
    was = tuple(dict.fromkeys((*a.was, *b.was)))
    return replace(
        a,
        symptoms=(*a.symptoms, *news.values()),
        levels=_levels(a, [b.case.level, *b.levels]),
        cases=a.cases + b.cases,
        ways=tuple(way for way in _joined_ways(a, b) if way.needs not in was),
        expected=a.expected or b.expected,
        unfinished=a.unfinished and (b.unfinished or b.needs != a.needs),
        was=was,
        seconds=min(a.seconds, b.seconds),
    )


def _joined_ways(a: Finding, b: Finding) -> tuple[Way, ...]:
    ways = {way.needs: way for way in (*a.ways, Way(b.needs, b.case, b.verdict), *b.ways) if way.needs != a.needs}
    return tuple(ways.values())


def _levels(finding: Finding, more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(level for level in (*finding.levels, *more) if level != finding.case.level))
