"""The reference implementation as a target for the machine of links in virtual time."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import inf, nan
from typing import Any, ClassVar, Protocol, Self

from ...checkers.target import NONE, UNKNOWN, Answer, Args, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.timed.links import ActiveTransfer, Completion, LinkModel, LinksSnapshot
from ..forking import forked
from ..strays import Stray, TargetWithStrays
from .instances import TimedInstance

__all__ = ["Clock", "LinksTarget", "chosen"]


class Clock(Protocol):
    """Whatever moves the time: links alone, or the tier that they belong to."""

    def deadline(self) -> Fraction | None:
        """When the next transfer is done."""

    def due(self) -> int | None:
        """The transfer that is to be completed now."""

    def move(self, to: Fraction) -> None:
        """Let time pass."""


class LinksTarget(TargetWithStrays):
    """A `LinkModel` on exact numbers.

    What is on its way comes from the model's own snapshot. What has ended it forgets: of that there are the completions
    which it told of, and the marks which it showed until then.
    """

    name = "refimpl"
    level = "links"
    owner: ClassVar[str] = "links"
    """Whose calls the actions are, as scripts and reports call it."""
    fields: ClassVar[tuple[str, ...]] = (
        "now",
        "issued",
        "link",
        "size",
        "moving",
        "begun",
        "mark",
        "given",
        "ended",
        "completed",
    )
    # Which id a transfer gets, the implementation decides; whether it is the next one is seen when it has it.
    unjudged: ClassVar[Mapping[str, frozenset[str]]] = {"start": frozenset({"issued"})}
    weights: ClassVar[Mapping[str, int]] = {"start": 3, "advance_to_deadline": 2, "complete": 3}
    essential: ClassVar[frozenset[str]] = frozenset({"start", "complete"})

    links_kind: type[LinkModel[Fraction]] = LinkModel
    """The links that are driven."""

    def __init__(self, setting: TimedInstance) -> None:
        """Idle links, at time 0."""
        super().__init__(setting)
        self.instance = setting
        self._time, self._bytes = setting.numbers("time"), setting.numbers("bytes")
        self._bandwidth = setting.numbers("bandwidth")
        self.links = self.links_kind(self._bandwidth, now=Fraction(0))
        self._ended: list[tuple[Completion[Fraction], Fraction]] = []

    @property
    def clock(self) -> Clock:
        """What moves the time here."""
        return self.links

    # ------------------------------------------------------------------------------------------------ driving

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call that the action is."""
        return self._call(getattr(self, f"_{action}"), args)

    def refuse(self, action: str, args: Args) -> Answer:
        """Try what is not possible: as ``_try_…`` says, where the call leaves a choice to the implementation."""
        return self._call(getattr(self, f"_try_{action}", getattr(self, f"_{action}")), args)

    def _call(self, call: Callable[..., object], args: Args) -> Answer:
        try:
            result, refused = call(*args), None
        except RefusedError as error:
            result, refused = None, str(error)
        return Answer(result, self._heard(), refused)

    def _heard(self) -> tuple[tuple[Any, ...], ...]:
        """The events since the last call, in the machine's words."""
        return ()

    def _start(self, t: int, x: int, m: int) -> str | None:
        return chosen(t, self.links.start(x, self._bytes[t], self._time[m]))

    def _advance(self, m: int) -> None:
        self.clock.move(self._time[m])

    def _try_advance(self, m: int) -> None:
        """To move to where time has been does nothing, whatever is due (G3); the machine does that with nothing due."""
        is_past = self._time[m] <= self.links.now
        self.clock.move(self._time[m])
        if is_past:
            raise RefusedError("nothing happens")

    def _advance_to_deadline(self, _t: int) -> None:
        deadline = self.clock.deadline()
        if deadline is None:
            raise RefusedError("no transfer is active")
        self.clock.move(deadline)

    def _try_advance_to_deadline(self, t: int) -> None:
        """No call names a transfer whose deadline is meant: here it is computed from what the links show."""
        snapshot = self.links.snapshot()
        transfer = next((shown for shown in snapshot.active if shown.id == t), None)
        if transfer is None or self.clock.due() is not None:
            raise RefusedError("it has no deadline, or something is due now, which no call asks to wait for")
        active, bandwidth = self.links.active(transfer.link), self._bandwidth[transfer.link]
        self.clock.move(snapshot.now + transfer.remaining * active / bandwidth)

    def _complete(self, t: int) -> str | None:
        shown, due = self.links.snapshot(), self.clock.due()
        if due is not None and due != t:
            raise RefusedError(f"transfer {due} is due first")
        completion = self._complete_first()
        marks = {active.id: _mark(shown, active) for active in shown.active}
        self._ended.append((completion, marks.get(completion.id, Fraction(UNKNOWN))))
        return chosen(t, completion.id)

    def _complete_first(self) -> Completion[Fraction]:
        return self.links.complete()

    def _stray_calls(self) -> Iterator[Stray]:
        """Links, transfers, sizes and moments that there are not."""
        links, shown = self.links, self.links.snapshot()
        for link in (-1, len(shown.received)):
            yield links.start, (link, Fraction(1))
            yield links.active, (link,)
        for size in (Fraction(-1), inf, nan):
            yield links.start, (0, size)
        yield links.start, (0, Fraction(1), shown.now + 1)
        for moment in (inf, -inf, nan):
            yield self.clock.move, (moment,)
            yield links.advance, (moment,)
        for transfer in (-1, shown.issued):
            yield links.remaining, (transfer,)

    # ------------------------------------------------------------------------------------------------ observing

    def flat(self) -> Fields:
        """The links' own snapshot, and what was heard of transfers that ended."""
        return self._fields_of(self.links.snapshot())

    def _fields_of(self, links: LinksSnapshot[Fraction]) -> Fields:
        transfers, nowhere = range(self.scope.sizes["Transfer"]), Fraction(0)
        active = {shown.id: shown for shown in links.active}
        ended = {completion.id: completion for completion, _ in self._ended}
        marks = {completion.id: mark for completion, mark in self._ended}
        marks |= {name: _mark(links, shown) for name, shown in active.items()}
        known = [active.get(t, ended.get(t)) for t in transfers]
        return {
            "now": [links.now],
            "issued": [links.issued, *self._miscounted(links)],
            "link": [NONE if shown is None else shown.link for shown in known],
            "size": [nowhere if shown is None else shown.size for shown in known],
            "moving": [t in active for t in transfers],
            "begun": [nowhere if shown is None else shown.begun for shown in known],
            "mark": [marks.get(t, nowhere) for t in transfers],
            "given": list(links.received),
            "ended": [ended[t].done if t in ended else nowhere for t in transfers],
            "completed": [completion.id for completion, _ in self._ended],
        }

    def _miscounted(self, links: LinksSnapshot[Fraction]) -> list[str]:
        """The links that say they have other numbers of transfers than they show."""
        shown = Counter(active.link for active in links.active)
        said = {link: self.links.active(link) for link in range(len(links.received))}
        return [f"link {link} says it has {n}, and shows {shown[link]}" for link, n in said.items() if n != shown[link]]

    def residue(self) -> object:
        """What is asked in between: when the next transfer is done, and which is due."""
        return self.clock.deadline(), self.clock.due()

    # ------------------------------------------------------------------------------------------------ the rest

    def fork(self) -> Self:
        """A second run in the same state; only what can change is copied."""
        other = copy.copy(self)
        other._ended = self._ended[:]
        other._fork_implementation()
        return other

    def _fork_implementation(self) -> None:
        self.links = forked(self.links)

    def spell(self, action: str, args: Args) -> str:
        """The call on the implementation."""
        spelled = self._spelled().get(action)
        return f"{self.owner}.{action}({', '.join(map(str, args))})" if spelled is None else spelled(*args)

    def _spelled(self) -> Mapping[str, Callable[..., str]]:
        """The calls that have other arguments than the action."""
        bytes_of, time = self._bytes, self._time
        clock = self.owner
        return {
            "start": lambda t, x, m: f"links.start({x}, {bytes_of[t]}, at={time[m]})  # transfer {t}",
            "advance": lambda m: f"{clock}.move({time[m]})",
            "advance_to_deadline": lambda t: f"{clock}.move({clock}.deadline())  # that of transfer {t}",
            "complete": lambda t: f"{clock}.complete()  # transfer {t}",
        }


def _mark(links: LinksSnapshot[Fraction], shown: ActiveTransfer[Fraction]) -> Fraction:
    """How much its link has to have given to each for an active transfer to be done."""
    return links.received[shown.link] + shown.remaining


def chosen(wanted: int, by_itself: int) -> str | None:
    """What the implementation chose by itself, as a result: none, as the machine has it, where both chose alike."""
    return None if by_itself == wanted else f"{by_itself}, not {wanted}"
