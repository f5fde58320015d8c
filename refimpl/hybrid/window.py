"""Requests with a sliding window of attention: what the window has left behind is dropped, step by step (D4, D7)."""

from ..errors import RefusedError
from ..pool.blocks import blocks_behind_window, blocks_for
from ..pool.manager import KVCacheManager, RequestId
from ..pool.request_flow import RequestFlow


class WindowFlow(RequestFlow):
    """A ``RequestFlow`` for layers in which the query at token p reads tokens p - window_tokens + 1 to p only.

    After each ``compute`` the blocks that no later query reads are dropped. In a pool that pins, a drop of ``min_drop``
    blocks or more pins its newest ones, one window's worth: a later request that wants to go on from there needs just
    these. Hits are those of the base: a prefix from its first block on.
    """

    def __init__(self, manager: KVCacheManager, *, window_tokens: int, min_drop: int = 16) -> None:
        """Drive ``manager``, whose pool has a null block; nobody else may."""
        super().__init__(manager)
        if manager.pool.null_block is None:
            raise RefusedError("the pool has no null block to stand for dropped positions")
        if window_tokens < 1 or min_drop < 0:
            raise RefusedError(f"a window of {window_tokens} tokens and drops of {min_drop} blocks mean nothing")
        self.window_tokens = window_tokens
        self.window_blocks = blocks_for(window_tokens, manager.block_tokens)
        self.min_drop = min_drop

    def compute(self, request_id: RequestId, num_tokens: int | None = None) -> int:
        """Compute as the base does, then drop what is behind the window of all further tokens.

        The drop counts computed tokens, not those that have room: a step that is scheduled and not yet processed
        still reads the window of its first token (D7).
        """
        computed = super().compute(request_id, num_tokens)
        before = self._positions_behind(request_id)
        self.manager.drop(request_id, before, window_blocks=self.window_blocks, min_drop=self.min_drop)
        return computed

    def mismatches(self, request_id: RequestId, start: int = 0) -> list[int]:
        """Return the computed tokens that are wrong, as the base does, in the blocks that a later query reads (P6)."""
        kept = self._positions_behind(request_id) * self.manager.block_tokens
        return super().mismatches(request_id, max(start, kept))

    def _positions_behind(self, request_id: RequestId) -> int:
        """Return how many leading positions of a request no later query reads."""
        return blocks_behind_window(self.num_computed(request_id), self.window_tokens, self.manager.block_tokens)
