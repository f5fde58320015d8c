"""Hunters on the machines of a Ray cluster.

Each is an actor: a relay beside a hunter that is a process of the actor's machine, with a folder there. What that one
writes the relay hands on word for word, twice a second, and the campaign reads it as it reads any file; what others
found is handed to it with each slice. So a machine that is lost loses at most what it found in its last half second.

Ray trusts whoever speaks to it, and so does this: a cluster is one's own. The releases that are hunted, and this
version of kvproof, are installed on all its machines.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...untrusted.text import one_line
from ...version import kit_version
from ..ending import heed_the_end
from ..hunting import open_target
from .hunters import MOMENT, Arm, Hunter, HunterProcess
from .slices import Order, Told
from .store import Asked, Store

__all__ = ["Cluster", "Heard", "Relay", "cluster"]

_PATIENCE = 5.0
"""Seconds in which relays that are told to end do so."""


@dataclass(frozen=True)
class Heard:
    """What a hunter on another machine said, and the files that it wrote before."""

    told: list[Told]
    files: dict[str, bytes]
    is_alive: bool
    how_lost: str


class Relay:
    """An actor: a hunter of its machine, with a folder of its own there."""

    def __init__(self, arm: Arm, asked: Asked, kit: str) -> None:
        """Begin; ``kit`` is the version of whoever asks."""
        self._folder = tempfile.TemporaryDirectory(prefix="kvproof-hunt-")
        self._store = Store.begun(Path(self._folder.name, "campaign"), asked)
        self._kit = kit
        self._handed_on: set[str] = set()
        self._failed: list[Told] = []
        self._hunter = HunterProcess(arm)

    def begin(self, order: Order, files: Mapping[str, bytes]) -> None:
        """Begin a slice. The build is this machine's own, of the same name."""
        try:
            if self._kit != kit_version():
                raise UsageError(f"kvproof is {kit_version()} there and {self._kit} here")
            for name, content in files.items():
                self._store.take(name, content)
            self._handed_on.update(files)
            plan = replace(order.plan, build=open_target(order.plan.target))
            self._hunter.send(replace(order, folder=self._store.root, plan=plan))
        except UsageError as error:
            self._failed.append(Told(failed=f"on {socket.gethostname()}: {error}"))

    def hear(self) -> Heard:
        """What was said and written since this was asked last; it is waited for a moment."""
        is_alive = self._hunter.is_alive and not self._failed
        if is_alive and not self._hunter.line.poll(MOMENT):
            is_alive = self._hunter.is_alive
        told = [*self._hunter.told(), *self._failed]
        # What is told to be over was written before: the folder is read behind.
        files = self._store.files(but=self._handed_on)
        self._handed_on.update(files)
        return Heard(told, files, is_alive, self._hunter.how_lost)

    def end(self) -> None:
        """End the hunter, and leave nothing behind."""
        self._hunter.end()
        self._folder.cleanup()


class _Far:
    """A hunter of another machine."""

    def __init__(self, cluster: Cluster, arm: Arm, store: Store) -> None:
        self._cluster, self._arm, self._store = cluster, arm, store
        made = cluster.ray.remote(Relay).options(num_cpus=1, scheduling_strategy="SPREAD")
        self._actor = made.remote(arm, store.asked, kit_version())
        self._there: set[str] = set()
        """The files that its machine has."""
        self.next_word: Any = None
        self._lost = ""
        self._has_ended = False

    @property
    def arm(self) -> Arm:
        return self._arm

    @property
    def is_alive(self) -> bool:
        return not self._has_ended

    @property
    def how_lost(self) -> str:
        return self._lost

    def send(self, order: Order) -> None:
        files = self._store.files(but=self._there)
        self._there.update(files)
        self._actor.begin.remote(order, files)
        if self.next_word is None:
            self.next_word = self._actor.hear.remote()

    def told(self) -> list[Told]:
        ray = self._cluster.ray
        if self.next_word is None or not ray.wait([self.next_word], timeout=0)[0]:
            return []
        try:
            heard: Heard = ray.get(self.next_word)
            for name, content in heard.files.items():
                self._store.take(name, content)
        except (ray.exceptions.RayError, UsageError) as error:
            self._has_ended, self._lost, self.next_word = True, _why(error), None
            return []
        self._there.update(heard.files)
        self._has_ended, self._lost = not heard.is_alive, heard.how_lost
        self.next_word = self._actor.hear.remote() if heard.is_alive else None
        return heard.told

    def end(self) -> None:
        self._cluster.ending.append(self._actor.end.remote())
        self._actor.__ray_terminate__.remote()


@dataclass
class Cluster:
    """The machines of a cluster. Each hunter has one of their processors for itself, also while it waits."""

    ray: Any
    asked: int
    """So many shall hunt at once, where there are as many processors; 0: one for each."""
    ending: list[Any] = field(default_factory=list)
    """The ends of hunters that were asked for."""

    @property
    def jobs(self) -> int:
        """No more than there are processors now: machines come and go, and who has none would wait for ever."""
        there = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        return min(self.asked or there, there)

    @property
    def most(self) -> int:
        """No more than hunt: who waits keeps a processor from others."""
        return self.jobs

    def new(self, arm: Arm, store: Store) -> Hunter:
        """Start one, wherever there is room."""
        return _Far(self, arm, store)

    def wait(self, hunters: Sequence[Hunter]) -> None:
        """Wait for a word of one of these, or for a moment."""
        words = [each.next_word for each in hunters if isinstance(each, _Far) and each.next_word is not None]
        if words:
            self.ray.wait(words, timeout=MOMENT)
        else:
            time.sleep(MOMENT)


@contextmanager
def cluster(address: str, jobs: int) -> Iterator[Cluster]:
    """The cluster at an address, as Ray writes it; ``jobs``: so many hunt at once (0: one for each processor).

    Raises:
        UsageError: there is none, or Ray is not installed.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise UsageError("--ray needs ray, which is not installed here: pip install 'kvproof[ray]'") from error
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"--ray {address}: no cluster answers there ({_why(error)}); start one with ray start --head, or leave "
            "--ray out"
        ) from error
    heed_the_end()  # Ray has its own way to be told to end.
    made = Cluster(ray, jobs)
    try:
        yield made
    finally:
        if made.ending:
            ray.wait(made.ending, num_returns=len(made.ending), timeout=_PATIENCE)
        ray.shutdown()


def _knock(address: str) -> None:
    """See whether anybody listens there: Ray would try for minutes.

    Raises:
        OSError: nobody does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _why(error: BaseException) -> str:
    """What an error of Ray's comes to: the last line of it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return one_line(lines[-1].strip())
