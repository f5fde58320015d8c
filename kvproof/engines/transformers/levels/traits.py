"""What cases may have that a fault needs, level by level."""

from collections.abc import Iterator

from ....judge.record import Case
from ...traits import Trait, Traits, argument, operation, option, with_setup

__all__ = ["of_cache", "of_scheduler"]


def _layers() -> Iterator[Trait]:
    """Which layers there are: full ones alone are the simplest."""

    def only(case: Case, *kinds: str) -> Iterator[Case]:
        yield with_setup(case, {**case.setup, "layers": list(kinds)})

    def both(case: Case) -> bool:
        return len(set(case.setup["layers"])) > 1

    def one_each(case: Case) -> Iterator[Case]:
        yield from only(case, *dict.fromkeys(case.setup["layers"]))

    def several(case: Case) -> Case:
        return next(only(case, case.setup["layers"][0], *case.setup["layers"]))

    yield Trait(
        "full and window layers", both, lambda case: (c for kind in ("full", "window") for c in only(case, kind))
    )
    yield Trait("window layers", lambda case: set(case.setup["layers"]) == {"window"}, lambda case: only(case, "full"))
    yield Trait(
        "several layers of a kind",
        lambda case: len(case.setup["layers"]) > len(set(case.setup["layers"])),
        one_each,
        several,
    )


def _fitting(case: Case) -> Case:
    """The case without a window that no layer has."""
    if "window" in case.setup["layers"]:
        return case if "window" in case.setup else with_setup(case, {**case.setup, "window": 6})
    return with_setup(case, {name: value for name, value in case.setup.items() if name != "window"})


_NUMBERS = {"page": (4, 5, 8), "blocks": (6, 5, 4, 3, 2, 1), "batch": (16, 8, 4, 3, 2), "requests": (8, 2, 1)}


def of_scheduler(_release: str) -> Traits:
    """The traits of cases of the level ``scheduler``."""
    return Traits(
        (
            *_layers(),
            option("several sequences", "sequences", has=lambda count: count > 1),
            option("host tier", "host"),
            option("asynchronous batching", "asynchronous"),
            option("prefill first", "scheduler", has=lambda name: name != "fifo", added="prefill_first"),
            option("no sharing", "sharing", has=lambda value: value is False),
            option("safety margin", "margin", has=lambda value: value is not None),
            argument("hard stop", "stop", "hard"),
            operation("stop", "stop"),
            operation("cancel", "cancel"),
            argument("stop token", "add", "stop"),
        ),
        _fitting,
        _NUMBERS,
        lambda _case: [("step", {"token": 0})],
    )


def of_cache(_release: str) -> Traits:
    """The traits of cases of the levels ``manager`` and ``pool``."""
    return Traits(
        (
            *_layers(),
            option("no sharing", "sharing", has=lambda value: value is False),
            operation("fork", "fork"),
            argument("freed for good", "finish", "drop"),
            operation("eviction", "evict"),
            operation("tidying", "tidy"),
            operation("reset", "reset"),
        ),
        _fitting,
        _NUMBERS,
    )
