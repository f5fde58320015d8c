"""What a request holds, in the words of the newest releases: their own record of it, or one made of what it says."""

from sglang.srt.managers import schedule_batch

__all__ = ["record_of"]

_ROWS_BY_RECORD = hasattr(schedule_batch, "ReqKvInfo")
"""Since 0.5.16 a request has a record of its row, while it has a row; before, it says itself how long that is."""


class _Record:
    """What a request of before 0.5.19 holds: most of it is the request's own."""

    def __init__(self, req) -> None:
        object.__setattr__(self, "_req", req)

    @property
    def holds_kv(self) -> bool:
        """It has a row."""
        return self._req.req_pool_idx is not None

    @property
    def holds_mamba(self) -> bool:
        """It has a state."""
        return self._req.mamba_pool_idx is not None

    def __getattr__(self, name: str):
        return getattr(self._where(name), name)

    def __setattr__(self, name: str, value) -> None:
        setattr(self._where(name), name, value)

    def _where(self, name: str):
        """Return what has a name: with a record of its row, how much is allocated is there."""
        req = self._req
        if not _ROWS_BY_RECORD or name != "kv_allocated_len":
            return req
        if req.kv is None:
            req.kv = schedule_batch.ReqKvInfo(kv_allocated_len=0, swa_evicted_seqlen=0)  # As its first pass makes it.
        return req.kv


def record_of(req):
    """Return the record of what a request holds: its row, its states, and how much of the row the tree protects."""
    kv = getattr(req, "kv", None)
    return kv if hasattr(kv, "holds_kv") else _Record(req)
