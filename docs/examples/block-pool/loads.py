"""Loads that take time: what the host has is copied back while the request waits, and others go on."""

from collections.abc import Sequence

from offload import Offload
from pool import Pool

__all__ = ["SlowOffload"]


class SlowOffload(Offload):
    """The host tier, in which a load holds the host blocks that it reads until it is done."""

    def __init__(self, pool: Pool, host_blocks: int) -> None:
        """So many host blocks behind this pool, all free."""
        super().__init__(pool, host_blocks)
        self.loading: dict[str, list[int]] = {}

    def begin(self, name: str, hosts: Sequence[int]) -> None:
        """A request loads these host blocks: they stay what they are."""
        for host in hosts:
            if self.ref_cnt[host] == 0:
                self.free.remove(host)
            self.ref_cnt[host] += 1
        self.loading[name] = [*hosts]

    def end(self, name: str) -> None:
        """The load of a request is over."""
        for host in self.loading.pop(name):
            self.ref_cnt[host] -= 1
            if self.ref_cnt[host] == 0:
                self.free.append(host)

    def reset(self) -> bool:
        """Nothing can be found any more. Refused while something is stored or loaded."""
        return not self.loading and super().reset()
