"""The level ``hicache`` of SGLang: its own scheduler over a host tier, whose copies end late.

All that decides is the release's, as at level ``scheduler``; the tier is that of `sglang_host`.
"""

from functools import partial

import sglang_setup  # noqa: F401 - before anything of the release
from level import Refused
from sglang_host import attach
from sglang_scheduler import Options, SchedulerLevel

__all__ = ["HicacheLevel"]

_POLICIES = ("write_through", "write_through_selective", "write_back")


class _Options(Options):
    """What a setup asks for: ``host_pages``, ``host_window_pages`` and how the tier is written, ``write``."""

    def __init__(self, setup: dict) -> None:
        self.write = setup.get("write", _POLICIES[0])
        if self.write not in _POLICIES:
            raise Refused(f"a host tier is not written by {self.write}")
        pages = setup.get("host_pages", 1)
        window_pages = setup.get("host_window_pages", pages)
        self.host = partial(attach, pages=pages, window_pages=window_pages, policy=self.write)
        own = ("host_pages", "host_window_pages", "write")
        super().__init__({name: value for name, value in setup.items() if name not in own})

    @property
    def fields(self) -> dict:
        """What of it is the release's configuration."""
        tier = {"enable_hierarchical_cache": True, "hicache_write_policy": self.write, "hicache_io_backend": "direct"}
        return super().fields | tier


class HicacheLevel(SchedulerLevel):
    """A scheduler whose tree has a host tier."""

    options = _Options

    def op_copies(self, args: dict):
        """So many copies to the host (``stores``) and from it (``loads``) come to their end, the oldest first."""
        return self.served.host.finish(args.get("stores", 0), args.get("loads", 0))

    def rest(self) -> None:
        """What is under way ends."""
        self.op_copies({"stores": 99, "loads": 99})
