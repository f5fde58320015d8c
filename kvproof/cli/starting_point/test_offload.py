"""The block manager of this project with its host tier, held to the rules of KV caching by kvproof.

``python -m pytest tests/test_offload.py`` plays the scheduler around it: one test for each rule. Fill in what raises
below, by calls of your block manager and of what offloads its blocks; leave out `stored` where copies take no time, and
add `loaded` where requests wait for what they load.

Then let it tell more, each method unlocks rules: `host_cached` and `cached` first, `host_ref_counts`,
`host_free_queue`, `ref_counts`, `free_queue`, `keys`, `reset`; ``eager = True`` promises that all is stored.
``help(kvproof.testing.BlockManager)`` says what each returns.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kvproof.testing import BlockManager, Refused, Request


class TestOffload(BlockManager):
    """How kvproof drives it: blocks are numbered from 0, and each method may be ``async def``."""

    def __init__(self, blocks: int, block_tokens: int, host_blocks: int = 0) -> None:
        """Make a fresh manager of so many blocks, each of so many tokens; with 0 host blocks without a host tier."""
        raise Refused("fill in TestOffload.__init__: make your block manager there, and keep it in self")

    def lookup(self, request: Request) -> Sequence[int]:
        """Return the blocks in which a prefix of ``request.tokens`` is cached, in order; take hold of nothing yet."""
        raise NotImplementedError("fill in TestOffload.lookup: which blocks hold a prefix of the request?")

    def allocate(self, request: Request, tokens: int) -> Sequence[int] | None:
        """Give the request blocks for its first ``tokens`` tokens and return its whole block table; None: no room.

        The first call for a request, and the first one after `free`, also takes hold of ``request.found``, what its
        lookup returned; the table begins with these. A refusal changes nothing.
        """
        raise NotImplementedError("fill in TestOffload.allocate: what is the request's block table now?")

    def commit(self, request: Request, tokens: int) -> None:
        """Take note that the request's first ``tokens`` tokens are computed: full blocks may be cached now."""
        raise NotImplementedError("fill in TestOffload.commit: register the request's full blocks")

    def free(self, request: Request) -> None:
        """Take the request's blocks back: it has finished, was aborted, or is preempted (and will come again)."""
        raise NotImplementedError("fill in TestOffload.free: let go of the request's blocks")

    def store(self, requests: Sequence[Request]) -> Iterable[tuple[Any, Iterable[tuple[int, int]]]]:
        """Begin to copy to the host what is worth it: jobs, each with its copies (device block, host block)."""
        raise NotImplementedError("fill in TestOffload.store: which blocks are copied to which host blocks?")

    def stored(self, job: Any) -> None:
        """The copies of a job are done: its blocks can be found on the host."""
        raise NotImplementedError("fill in TestOffload.stored: let the host have the blocks of the job")

    def host_lookup(self, request: Request) -> Sequence[int]:
        """Return the host blocks that hold what follows ``request.found``, short of the last token."""
        raise NotImplementedError("fill in TestOffload.host_lookup: which host blocks go on where the device ends?")

    def load(self, request: Request) -> Iterable[tuple[int, int]]:
        """Copy ``request.on_host`` into the blocks of ``request.table`` behind ``request.found``: the copies."""
        raise NotImplementedError("fill in TestOffload.load: which host blocks are copied to which blocks?")
