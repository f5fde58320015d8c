"""A campaign from its beginning, or from where it was interrupted, to its end."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from ...engines.known import Known
from ...errors import UsageError
from ..gaps import Gap
from ..hunting import Plan, levels_of, open_target
from ..output import Output
from .causes import causes_of, partings_of
from .hunters import Hunters, Processes
from .live import View, duration
from .running import Campaign, Running
from .store import Asked, Store

__all__ = ["Wanted", "hunted"]


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    folder: Path
    asked: Asked
    seconds: float
    jobs: int
    known: tuple[Known, ...]
    ray: str | None = None
    """The address of a Ray cluster, whose machines hunt in place of this one."""


def hunted(output: Output, wanted: Wanted) -> tuple[Store, int, list[Gap]]:
    """Hunt until the time is over; return the folder, how many processes were lost, and what could not be hunted.

    Raises:
        UsageError: a target or the folder cannot be used. Then nothing was written.
    """
    plans = _plans(wanted)
    with _hunters(wanted) as hunters:
        store = Store.begun(wanted.folder, wanted.asked)
        with store.alone(), Campaign(store, plans, wanted.seconds, hunters) as campaign:
            with View(output, campaign, wanted.seconds) as view:
                _seen_to(campaign, view, store, wanted)
            return store, campaign.lost, [*campaign.gaps.values()]


def _seen_to(campaign: Campaign, view: View, store: Store, wanted: Wanted) -> None:
    if campaign.elapsed > 1:
        view.line(f"{wanted.folder} goes on after {duration(campaign.elapsed)}")
    try:
        _watch(campaign, view, store, wanted.known)
    except KeyboardInterrupt:
        view.line(f"the same command goes on; kvproof hunt --report {wanted.folder} tells what was found so far")
        raise


def _hunters(wanted: Wanted) -> AbstractContextManager[Hunters]:
    if wanted.ray is None:
        return nullcontext(Processes(wanted.jobs or os.cpu_count() or 1))
    from .cluster import cluster

    return cluster(wanted.ray, wanted.jobs)


def _plans(wanted: Wanted) -> list[Plan]:
    asked, plans = wanted.asked, []
    for target in asked.targets:
        build = open_target(target)
        levels = tuple(level for level in levels_of(build) if not asked.levels or level in asked.levels)
        if levels:
            plans.append(Plan(build, target, levels, asked.seed, wanted.seconds, known=wanted.known))
    there = {level for plan in plans for level in plan.levels}
    if unknown := sorted(set(asked.levels) - there):
        raise UsageError(f"no target has a level {unknown[0]}; leave --level out for all levels")
    return plans


def _watch(campaign: Campaign, view: View, store: Store, known: Sequence[Known]) -> None:
    """See to a campaign until it is over, and say what is new."""
    causes, partings = causes_of(store, known), partings_of(store)
    found, seen = {cause.after for cause in causes}, len(store.sightings())
    while not campaign.over:
        for ended in campaign.go_on():
            if (said := _said_of(ended, store)) is not None:
                view.line(said)
        partings = partings_of(store)
        if len(store.sightings()) != seen:
            causes, seen = causes_of(store, known), len(store.sightings())
        for cause in causes:
            if cause.after not in found:
                what = "known" if cause.expected else "new"
                view.line(f"{what}: {cause.title}: {', '.join(cause.seen)}, level {cause.finding.case.level}")
        found |= {cause.after for cause in causes}
        stretches = [stretch for done in store.slices().values() for stretch in done.stretches]
        view.show(causes, partings, (sum(s.examples for s in stretches), sum(s.steps for s in stretches)))


def _said_of(ended: Running, store: Store) -> str | None:
    """What there is to say of a slice that ended otherwise than it should."""
    if store.slices().get(ended.order.name) is not None:
        return None
    if ended.failed:
        return f"not hunted: {ended.order.plan.target}: {ended.failed}"
    return (
        f"a process was lost ({ended.hunter.how_lost}) that hunted {ended.order.plan.target}; what it had found is kept"
    )
