"""The level ``hicache`` of SGLang: its own scheduler over a host tier, whose copies end late, and a storage below that.

All that decides is the release's, as at level ``scheduler``; the tiers are those of `sglang_host` and `sglang_storage`.
"""

from functools import partial

import sglang_setup  # noqa: F401 - before anything of the release
from level import SKIPPED, Refused
from sglang.srt.managers import io_struct as messages
from sglang_drift import ComponentType
from sglang_host import attach
from sglang_release import STATES_BELOW, WINDOWS_BELOW
from sglang_scheduler import Options, SchedulerLevel
from sglang_storage import POLICIES, THREADS, fields

__all__ = ["HicacheLevel"]

_POLICIES = ("write_through", "write_through_selective", "write_back")
_ALL = 99
"""More than there is of anything."""


class _Options(Options):
    """What a setup asks for: ``host_pages``, ``host_window_pages``, ``host_states`` and how the tier is written,
    ``write``; ``storage``, the fewest tokens that a storage below is asked for, if there is one, and ``prefetch``, how
    long requests wait."""

    def __init__(self, setup: dict) -> None:
        self.write = setup.get("write", _POLICIES[0])
        if self.write not in _POLICIES:
            raise Refused(f"a host tier is not written by {self.write}")
        pages = setup.get("host_pages", 1)
        window_pages = setup.get("host_window_pages", pages)
        self.storage, self.prefetch = setup.get("storage", 0), setup.get("prefetch", POLICIES[0])
        if self.prefetch not in POLICIES:
            raise Refused(f"requests do not wait for the storage by {self.prefetch}")
        for kind, driven in (("window", WINDOWS_BELOW), ("states", STATES_BELOW)):
            if setup.get(kind) and not driven:
                raise Refused(f"the host tier of this release is not driven with {kind}")
        sizes = {
            ComponentType.FULL: pages,
            ComponentType.SWA: window_pages,
            ComponentType.MAMBA: setup.get("host_states", setup.get("states", 0)),
        }
        self.host = partial(attach, sizes=sizes, policy=self.write, storage=bool(self.storage))
        own = ("host_pages", "host_window_pages", "host_states", "write", "storage", "prefetch")
        super().__init__({name: value for name, value in setup.items() if name not in own})

    @property
    def fields(self) -> dict:
        """What of it is the release's configuration."""
        tier = {"enable_hierarchical_cache": True, "hicache_write_policy": self.write, "hicache_io_backend": "direct"}
        return super().fields | tier | (fields(self.storage, self.prefetch) if self.storage else {})


class HicacheLevel(SchedulerLevel):
    """A scheduler whose tree has a host tier."""

    options = _Options

    def op_copies(self, args: dict):
        """So many copies to the host (``stores``) and from it (``loads``) come to their end, the oldest first."""
        return self.served.host.finish(args.get("stores", 0), args.get("loads", 0))

    def op_storage(self, args: dict):
        """The storage answers so many ``queries``, and so many ``writes`` and ``reads`` are done, the first of them
        badly where one is ``bad``; of what was read the release hears so many ``acks``."""
        storage = self.served.host.storage
        if storage is None:
            return SKIPPED
        storage.is_bad = bool(args.get("bad"))
        return storage.go(*(args.get(name, 0) for name in THREADS))

    def op_lose(self, args: dict):
        """Somebody removes a file of the storage."""
        storage = self.served.host.storage
        lost = None if storage is None else storage.lose(args["i"])
        return SKIPPED if lost is None else lost

    def op_detach(self, _args: dict):
        """The storage goes, where nothing runs."""
        if self.served.host.storage is None or not self.served.enable_hicache_storage:
            return SKIPPED
        self._say(messages.DetachHiCacheStorageReqInput())
        return not self.served.enable_hicache_storage

    def op_attach(self, _args: dict):
        """It comes back, with the files that it had."""
        if self.served.host.storage is None or self.served.enable_hicache_storage:
            return SKIPPED
        told = fields(self.asked.storage, self.asked.prefetch)
        config = told.pop("hicache_storage_backend_extra_config")
        self._say(messages.AttachHiCacheStorageReqInput(**told, hicache_storage_backend_extra_config_json=config))
        return self.served.enable_hicache_storage

    def op_empty(self, _args: dict):
        """All files are removed."""
        if self.served.host.storage is None or not self.served.enable_hicache_storage:
            return SKIPPED
        self._say(messages.ClearHiCacheReqInput())
        return None

    def rest(self) -> None:
        """What is under way ends."""
        self.op_copies({"stores": _ALL, "loads": _ALL})
        self.op_storage(dict.fromkeys(THREADS, _ALL))

    def under_way(self) -> int:
        """What the storage has to do still."""
        storage = self.served.host.storage
        return 0 if storage is None else storage.pending

    def _rests(self) -> bool:
        return super()._rests() and not self.under_way()
