"""Instances for the machines of hybrid models: several stores behind one connector, and files that survive a crash."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from ...machine import Bool, Machine, Model, action, forall
from ...machine.concrete import State
from ...spec.hybrid.connectors import Connectors
from ...spec.hybrid.file_store import FileStore
from ...spec.pool import Request
from ...spec.timed.links import Moment
from ..scoped_instance import ScopedInstance, drawn, row

__all__ = ["HybridInstance", "hybrid_instances", "model_of"]


class _OneLateAtATime(Connectors):
    """The machine where one call of ``expire`` ends one load: the implementation's ends all that are late."""

    @action("H6, O11")
    def expire(self, r: Request, m: Moment) -> None:
        """A load has taken too long, and no other has."""
        self.require(forall(Request, lambda q: ~self._is_late_too(q, r, m)))
        super().expire(r, m)

    def _is_late_too(self, q: Request, r: Request, m: Moment) -> Bool:
        return (q != r) & self.loading[q] & (self.deadline[q] <= self.time[m])


def model_of(machine: type[Machine]) -> Model:
    """The machine, as the reference implementation is held against it."""
    return _ONE_LATE if machine is Connectors else Model.of(machine)


# Under the machine's own name: settings, traces and reports are those of Connectors.
_ONE_LATE = dataclasses.replace(Model.of(_OneLateAtATime), name=Model.of(Connectors).name, machine=Connectors)

SIZES: Mapping[type[Machine], Sequence[dict[str, int]]] = {
    Connectors: (
        {"Connector": 2, "Request": 1, "Hash": 1, "Tokens": 3, "Job": 2, "Moment": 2},
        {"Connector": 2, "Request": 2, "Hash": 2, "Tokens": 3, "Job": 4, "Moment": 3},
        {"Connector": 3, "Request": 3, "Hash": 2, "Tokens": 5, "Job": 6, "Moment": 4},
        {"Connector": 4, "Request": 4, "Hash": 3, "Tokens": 4, "Job": 8, "Moment": 5},
    ),
    FileStore: (
        {"Hash": 1, "Page": 1},
        {"Hash": 2, "Page": 2},
        {"Hash": 3, "Page": 3},
    ),
}
"""The sizes that random instances have, the smallest first. They are few because each costs an interpreter."""

WEIGHTS: Sequence[int] = (1, 2, 3, 1, 2)
TIMES: Sequence[int | str] = (1, 2, 3, 5, 8, 13, "1/2", 0)


@dataclass(frozen=True)
class HybridInstance(ScopedInstance):
    """One instance of the parameters of `Connectors`, or of the sizes of `FileStore`."""

    SIZES = SIZES

    def __post_init__(self) -> None:
        """Refuse what the implementation cannot be told."""
        if not issubclass(self.scope.model.machine, Connectors):
            return
        params, connectors = self.scope.params, self.scope.sizes["Connector"]
        if not 1 <= params["count"] <= connectors:
            raise ValueError(f"there is at least one connector: give a count of 1 to {connectors}")
        if not all(map(any, params["wanted"])):
            raise ValueError("a load reads something: give each request a hash that is wanted")

    @staticmethod
    def model_of(machine: type[Machine]) -> Model:
        """The machine, as the reference implementation is held against it."""
        return model_of(machine)

    def steering(self, state: State) -> object:
        """What a server would do, and what leads somewhere."""
        return _Steering(state)


def hybrid_instances(machine: type[Machine]) -> st.SearchStrategy[HybridInstance]:
    """Draws instances of all sizes for this machine; Hypothesis shrinks to the first size and the first numbers."""
    return drawn(HybridInstance, machine, _params)


def _params(machine: type[Machine], size: Mapping[str, int]) -> dict[str, st.SearchStrategy[Any]]:
    """The strategy of each parameter."""
    if machine is not Connectors:
        return {}
    connectors, hashes = size["Connector"], size["Hash"]
    return {
        "weighted": st.sampled_from([True, True, False]),
        "weight": row(st.sampled_from(list(WEIGHTS)), connectors),
        "most_pending": st.sampled_from([2, 1, 3]),
        "count": st.sampled_from([connectors, connectors, connectors - 1]),
        # A load reads something.
        "wanted": row(row(st.booleans(), hashes).filter(any), size["Request"]),
        "patience": st.sampled_from([2, 1, 4]),
        "time": row(st.sampled_from(list(TIMES)), size["Moment"]),
    }


class _Steering:
    """Which of the possible steps lead somewhere, in one state."""

    def __init__(self, state: State) -> None:
        self.now = vars(state)

    def _resolve(self, _c: int, r: int, n: int) -> bool:
        """Before the request has a load; most stores have something."""
        return n > 0 or r == 0

    def _begin_load(self, _r: int, _n: int, _j: int, m: int) -> bool:
        """Soon: later moments are for loads that take too long."""
        ahead = sorted(time for time in self.now["time"] if time >= self.now["now"][0])
        return bool(self.now["time"][m] in ahead[:2])

    def _report_late(self, j: int) -> bool:
        """The latest load, while another is under way."""
        return bool(j + 1 == self.now["issued"][0]) and any(self.now["loading"])

    def _store(self, h: int) -> bool:
        """What is not there yet."""
        return not self.now["kept"][h]

    def _leave(self, r: int) -> bool:
        """When its load is over, or never comes."""
        return bool(self.now["over"][r] or self.now["loading"][r])

    def _write_back(self, h: int, p: int) -> bool:
        """What is not on the disk yet."""
        pages = len(self.now["on_disk"]) // len(self.now["ready"])
        return not self.now["on_disk"][h * pages + p]

    def _write(self, h: int, p: int) -> bool:
        """What is not written yet."""
        pages = len(self.now["written"]) // len(self.now["ready"])
        return not self.now["written"][h * pages + p]

    def _crash(self) -> bool:
        """With something to keep, and something to lose."""
        return any(self.now["ready"]) and any(self.now["temporary"])
