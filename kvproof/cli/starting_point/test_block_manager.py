"""The block manager of this project, held to the rules of KV caching by kvproof.

``python -m pytest tests/test_block_manager.py`` plays the scheduler around it: one test for each rule. Fill in what
raises below, by calls of your block manager; leave out `lookup` or `commit` where it has nothing like that.

Then let it tell more, each method unlocks rules: `ref_counts`, `free_queue`, `num_free`, `cached`, `block_keys`,
`keys`, `evict`, `reset`, `take_events`. ``help(kvproof.testing.BlockManager)`` says what each returns.
"""

from collections.abc import Sequence

from kvproof.testing import BlockManager, Refused, Request


class TestBlockManager(BlockManager):
    """How kvproof drives it: blocks are numbered from 0, and each method may be ``async def``."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        """Make a fresh manager of so many usable blocks, each of so many tokens."""
        raise Refused("fill in TestBlockManager.__init__: make your block manager there, and keep it in self")

    def lookup(self, request: Request) -> Sequence[int]:
        """Return the blocks in which a prefix of ``request.tokens`` is cached, in order; take hold of nothing yet."""
        raise NotImplementedError("fill in TestBlockManager.lookup: which blocks hold a prefix of the request?")

    def allocate(self, request: Request, tokens: int) -> Sequence[int] | None:
        """Give the request blocks for its first ``tokens`` tokens and return its whole block table; None: no room.

        The first call for a request, and the first one after `free`, also takes hold of ``request.found``, what its
        lookup returned; the table begins with these. A refusal changes nothing.
        """
        raise NotImplementedError("fill in TestBlockManager.allocate: what is the request's block table now?")

    def commit(self, request: Request, tokens: int) -> None:
        """Take note that the request's first ``tokens`` tokens are computed: full blocks may be cached now."""
        raise NotImplementedError("fill in TestBlockManager.commit: register the request's full blocks")

    def free(self, request: Request) -> None:
        """Take the request's blocks back: it has finished, was aborted, or is preempted (and will come again)."""
        raise NotImplementedError("fill in TestBlockManager.free: let go of the request's blocks")
