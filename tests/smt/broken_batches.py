"""Steps, mirrors and releases in another order, and latencies that are no sum (M2, M7): what `prove` must refute."""

from __future__ import annotations

from kvproof.machine import Int, Machine, when
from kvproof.spec.pool import Hash, Request
from kvproof.spec.tiers.batches import Batches


class ReleasesBeforeTheMirror(Batches):
    """What the last step has completed is never mirrored: a finished request leaves at once."""

    def release(self, r: Request) -> None:
        self.require(self.running[r])
        self._leave(r)


class MirrorsBeforeTheStep(Batches):
    """What a step completes is taken for what the mirror before it has seen."""

    def complete(self, r: Request, h: Hash) -> None:
        self.require(self.running[r])
        self.require(~self.holds[r, h])
        self.holds[r, h] = True


class MirrorsNothing(Batches):
    """The mirror is called, and stores nothing."""

    def _keep(self, h: Hash) -> None:
        """Nothing is kept."""


class StoresWithoutATouch(Batches):
    """What is on the host already stays where it stands."""

    def _keep(self, h: Hash) -> None:
        with when(~self.host.has(h) & self.is_full()):
            self.host.remove(self.host.head())
        with when(~self.host.has(h)):
            self.host.push_back(h)


class GivesUpTheLatest(Batches):
    """A full host gives up what it has used last."""

    def _keep(self, h: Hash) -> None:
        is_there = self.host.has(h)
        makes_room = ~is_there & self.is_full()
        with when(is_there):
            self.host.remove(h)
        with when(makes_room):
            self.host.remove(self.host.tail())
        self.host.push_back(h)


class ReleasesToTheHost(Batches):
    """M1: what a request leaves behind is touched on the host once more."""

    def release(self, r: Request) -> None:
        super().release(r)
        with when(~self.host.is_empty()):
            h = self.host.head()
            self.host.remove(h)
            self.host.push_back(h)


class RoundsDown(Batches):
    """A part of a unit of time takes none."""

    def reload(self, r: Request, h: Hash) -> None:
        super().reload(r, h)
        with when(self.block_tokens.value % self.bandwidth.value > 0):
            self.latency.value = self.latency.value - 1


class ReadsWithoutTaking(Batches):
    """Who reads the latency leaves it for the next one, who waits a second time."""

    def read_latency(self) -> Int:
        return self.latency.value


class TellsTheLastOnly(Batches):
    """The latency is that of the last reload, not the sum."""

    def reload(self, r: Request, h: Hash) -> None:
        super().reload(r, h)
        self.latency.value = self.cost()


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (ReleasesBeforeTheMirror, "release", "what_is_left_behind_was_mirrored", "M2"),
    (MirrorsBeforeTheStep, "complete", "what_is_not_owed_was_mirrored", "M2"),
    (MirrorsNothing, "mirror", "what_is_asked_for_is_used_last", "M2"),
    (StoresWithoutATouch, "mirror", "what_is_asked_for_is_used_last", "M2"),
    (GivesUpTheLatest, "mirror", "what_is_asked_for_is_used_last", "M3"),
    (ReleasesToTheHost, "release", "only_mirror_and_reload_touch_the_host", "M1"),
    (RoundsDown, "reload", "the_latency_is_the_sum", "M7"),
    (ReadsWithoutTaking, "read_latency", "who_reads_takes_it_all", "M7"),
    (TellsTheLastOnly, "reload", "the_latency_is_the_sum", "M7"),
]
"""Machine, the action that goes wrong, the property that it breaks, and the rule."""
