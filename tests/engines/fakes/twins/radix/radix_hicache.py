"""The level ``hicache``: the scheduler over a tree with a host tier, whose copies end late, and a storage below."""

from level import SKIPPED
from radix_host import Host
from radix_requests import Request
from radix_scheduler import Scheduler
from radix_storage import PLACES, Storage

__all__ = ["Hicache"]

_ALL = 99
"""More than there is of anything."""

_THREADS = ("queries", "writes", "reads", "acks")


class Hicache(Scheduler):
    """A scheduler whose tree has a host tier, as SGLang's level ``hicache`` drives its own."""

    def __init__(self, setup: dict) -> None:
        super().__init__(setup)
        pages = setup["host_pages"]
        newest_first = bool(setup.get("sort"))  # Of pages that are sorted nothing is to be seen here.
        self.host = Host(self.device, pages, setup["write"], newest_first, self.tell, self._hear, self.fault)
        self.world["tiers"]["host"] = {"blocks": pages}
        self.storage: Storage | None = None
        self.waits = setup.get("prefetch") == "wait_complete"
        if setup.get("storage"):
            self.storage = Storage(self.host, setup["storage"], self.page, self.tell)
            self.world["tiers"]["storage"] = {"blocks": PLACES, "persists": True}

    def state(self):
        state = super().state()
        if self.storage is not None:
            files = self.storage.files.items()
            state["pools"]["storage"] = {"cached": [[self._number(key), 0, [place]] for key, place in files]}
        return state

    # Operations

    def op_copies(self, args):
        """So many copies to the host, and so many from it, come to their end."""
        return self.host.finish(args.get("stores", 0), args.get("loads", 0))

    def op_storage(self, args):
        """The storage answers, writes and reads so often, and so many answers are heard of."""
        if self.storage is None:
            return SKIPPED
        return self.storage.go(*(args.get(name, 0) for name in _THREADS), bad=bool(args.get("bad")))

    def op_lose(self, args):
        """Somebody removes a file."""
        lost = None if self.storage is None else self.storage.lose(args["i"])
        return SKIPPED if lost is None else lost

    def op_detach(self, _args):
        """The storage goes, where nothing runs."""
        if self.storage is None or not self.storage.enabled:
            return SKIPPED
        if self.requests or self.steps:
            return False
        self.storage.detach()
        return True

    def op_attach(self, _args):
        """It comes back, with the files that it had."""
        if self.storage is None or self.storage.enabled:
            return SKIPPED
        self.storage.enabled = True
        return True

    def op_empty(self, _args):
        """All files are removed."""
        if self.storage is None or not self.storage.enabled:
            return SKIPPED
        self.storage.files.clear()
        return None

    def rest(self) -> None:
        """What is under way ends."""
        self.op_copies({"stores": _ALL, "loads": _ALL})
        self.op_storage(dict.fromkeys(_THREADS, _ALL))

    def under_way(self) -> int:
        """What has not ended."""
        copies = len(self.host.stores) + len(self.host.loads)
        return copies + (0 if self.storage is None else self.storage.pending)

    # Requests

    def waiting(self) -> list[Request]:
        """Those that may be admitted: where they wait for the storage, not before that has read."""
        found = super().waiting()
        return [x for x in found if x.read is None or x.read.is_over] if self.waits else found

    def comes(self, x: Request) -> None:
        """What is below is looked for when a request comes."""
        if self.storage is not None:
            keys = self.wanted(x)
            x.read = self.storage.want(keys, len(self.device.tree.match(keys)[1]))

    def goes(self, x: Request) -> None:
        """A request waits no longer."""
        if x.read is not None and self.storage is not None:
            self.storage.cut(x.read)

    def settle(self) -> None:
        """What is under way ends, and what is written."""
        super().settle()
        if self.storage is not None:
            self.storage.go(0, _ALL, 0, 0)

    def held(self) -> list[int]:
        """The pages of the host that copies have."""
        return self.host.held() + ([] if self.storage is None else self.storage.held())

    def anchors(self) -> dict[str, bytes | None]:
        """What locks the host's tree."""
        return self.host.anchors() | ({} if self.storage is None else self.storage.anchors())
