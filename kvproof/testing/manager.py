"""What a user writes: `BlockManager`, an adapter around a block manager, and the `Request` that it is asked for.

It is imported by test modules and by the pytest plugin, so it imports nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

__all__ = ["BlockManager", "Refused", "Request"]

T = TypeVar("T")

Told: TypeAlias = T | Awaitable[T]
"""An answer: at once, or from an ``async def``."""

Blocks: TypeAlias = Sequence[int] | Sequence[Sequence[int]]
"""Blocks of a request, in order; with `BlockManager.groups` a list of them for each group."""


class Refused(Exception):
    """Raised by the ``__init__`` of a manager that cannot be made like that: it is no finding. The text says why."""


@dataclass(eq=False)
class Request:
    """A request as the kit's scheduler has it. A manager may read all of it, and keep what it likes in ``own``; who
    changes its name, its tokens, its tenant or ``computed`` is told so (L2)."""

    name: str
    """Unique, never used again."""
    tokens: list[int]
    """All its tokens so far: the prompt, and what was sampled since."""
    adapter: str | None = None
    """The LoRA adapter that its KV depends on, for managers whose `BlockManager.tenants` have it."""
    salt: str | None = None
    """The cache salt that it shares its KV under, for managers whose `BlockManager.tenants` have it."""
    found: list[Any] = field(default_factory=list)
    """The blocks that its lookup found; the first `BlockManager.allocate` behind it has to take hold of them."""
    on_host: list[Any] = field(default_factory=list)
    """The host blocks that its lookup found behind these; `BlockManager.load` has to copy them into its table. With
    groups a list for each, which has None for what need not be loaded."""
    cached: int = 0
    """So many of its first tokens need not be computed, since they were found."""
    table: list[Any] = field(default_factory=list)
    """Its block table: what `BlockManager.allocate` returned last."""
    computed: int = 0
    """So many of its first tokens are computed."""
    own: Any = None
    """Whatever an adapter wants to remember of it."""


class BlockManager:
    """Your block manager, as kvproof drives it: subclass it, and call your manager in the methods below.

    One object is made for each run, by ``YourClass(blocks, block_tokens)``. The kit plays the scheduler: requests
    arrive, are looked up, admitted, grow, are preempted, finish. It keeps ghost content, so it knows what every block
    holds, and judges each step by named rules (docs/rules.md). Needed are `__init__`, `allocate` and `free`; whatever
    else you override unlocks more rules, and a run says which were not judged and why. Blocks are numbered from 0.

    In a test module the subclass is collected by pytest, one test for each rule (docs/testing.md).

    An ``__init__`` that also takes ``caching: bool`` is sometimes made with ``caching=False``; one that cannot be made
    like that raises `Refused`. Each method may be ``async def``; with such an ``allocate``, calls of several requests
    overlap (`overlaps`). Any other exception, on these legal calls, is a finding (L2).
    """

    block_sizes: ClassVar[tuple[int, ...]] = (2, 3, 4)
    """Tokens per block that make sense for it; small ones find more."""

    tokens_per_grow: ClassVar[int] = 3
    """How many sampled tokens one step may add, at most: 1 for a manager without speculative decoding."""

    in_parts: ClassVar[bool] = True
    """Whether a prompt may be computed in parts (chunked prefill). False for a manager that registers all of a prompt
    when it is let in: then each is computed at once, up to its end. Only what a load did not bring comes later."""

    cuts: ClassVar[bool] = True
    """Whether a request may give up its blocks between an `allocate` and its `commit`, as where its server does not
    wait for the result of a forward pass. False for a manager whose server always does."""

    tenants: ClassVar[tuple[str, ...]] = ()
    """What its keys depend on beside tokens: ``salt``, ``adapter``. Unlocks requests that have one (P13)."""

    null_block: ClassVar[int | None] = None
    """A block that stands for "nothing here" and is never handed out, if it has one. Then there is one block more than
    it was asked for, all are numbered, and this one is never handed out. Unlocks P4."""

    window: ClassVar[int | None] = None
    """Each token attends to so many, itself counted, where a manager gives up the blocks behind a sliding window: the
    null block stands for them in the tables, and in what `lookup` finds; such a manager tells `table`. None: each token
    attends to all before it."""

    groups: ClassVar[tuple[int | None, ...]] = ()
    """Its groups of layers, where it has several that share its blocks, each with block tables of its own: how many
    tokens one attends to, itself counted, or None for all before it. So ``(None, 128)`` is full attention and a window.

    Then a table is a list of block tables, one for each group, in what `allocate`, `lookup`, `table` and `fork` return,
    and in what the request has; all of `lookup` cover the same tokens. The key of a block is ``(key, group)`` where
    `cached`, `host_cached`, `block_keys` and `take_events` tell it. It is made with as many blocks as the groups need
    together, of the device and of the host."""

    kept_back: ClassVar[int] = 0
    """So many blocks it always keeps back, as a watermark. Then there are so many more than it was asked for, all are
    numbered, and the requests do with the others: whoever is let in must leave as many that nobody holds (P7)."""

    exact: ClassVar[bool] = True
    """Whether what holds blocks is known, which is block tables, and the cache where the dialect says that it does:
    then reference counts must equal that (P2). False for a manager whose counts contain other holders while requests
    run: then they must be at least that. At rest none is left (L2)."""

    dialect: ClassVar[Mapping[str, str | int]] = {"keep": "all"}
    """What it does where the rules leave a choice; it is held to what it says (docs/protocol.md, Dialect).

    ``keep``: ``all``: what was computed is found again until its block is handed out to another, evicted or reset
    (P14); ``tree``: but for what stands behind a block that has gone. ``caches``: it need not be before its request has
    finished (``ended``); or so what was sampled, and a prompt when all of it is computed (``prompts``). ``cached``:
    ``held``: the cache itself is one holder of each block that is cached (P2, L2). ``take``: ``head``: blocks come from
    the head of the free queue (P7). ``free``: ``append`` or ``split``: where freed blocks go (P10). ``copies``:
    ``first``: of several blocks with one key the first registered is found (P5). ``drop``: lookups give up so many
    tokens. ``evicts``, ``host_evicts``: ``lru``: of what is cached on the device, or on the host, and nobody holds,
    what was used last goes last (O12). ``behind``: ``given``: what lies behind a window is given up when its request
    goes on (D7); ``needed``, as where a manager with a window says nothing: at the latest before that is refused more;
    ``kept``: not until it ends. An empty dialect promises nothing else."""

    isolated: ClassVar[bool] = False
    """True for native code, which may crash: each case runs in a copy of the process (a fork), and a crash is a finding
    with its operations. It costs some milliseconds a case."""

    eager: ClassVar[bool] = False
    """Whether every full block that was computed is stored to the host while that has room. Unlocks O9."""

    overlaps: ClassVar[bool] = True
    """Whether what is done for one request may come between the calls for another one. Where ``allocate`` is ``async
    def`` several tasks of a server share it: then calls are made while others are under way, at each ``await`` in an
    order that the case draws. Else requests share forward passes: several `allocate` before the first `commit`. False
    for a manager that is to be called by one task alone, and for one that overlaps nothing its caller holds a lock
    around; and for one that must be told that a request is computed before it is asked for the next one."""

    cancelled: ClassVar[str | None] = "undone"
    """What a call promises that is cancelled while it is overlapped: ``lookup``, ``allocate`` or ``commit``; of a host
    tier ``host_lookup``, or ``store``, which then has begun nothing.

    ``undone``: where it ends with `asyncio.CancelledError`, its request holds what it held before, not a block more.
    ``freed``: what an `allocate` took stays the request's until `free`, which follows at once. None: none is cancelled.
    Whichever it is, one that answers nevertheless has done all."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        """Make a fresh manager of so many usable blocks, each of so many tokens."""

    # ------------------------------------------------------------------------------------------- what it is asked to do

    def lookup(self, request: Request) -> Told[Blocks]:
        """Return the blocks in which a prefix of the request is cached, in order; take hold of nothing yet.

        At most ``(len(request.tokens) - 1) // block_tokens``: the last token is computed, whatever is cached. Unlocks
        P14 and most of P6. A manager that looks up and allocates in one call leaves this out, and sets
        ``request.cached`` in `allocate`.
        """
        raise NotImplementedError

    def allocate(self, request: Request, tokens: int) -> Told[Blocks | None]:
        """Give the request blocks for its first ``tokens`` tokens and return its whole block table; None: no room.

        The first call for a request, and the first one after `free`, also takes hold of ``request.found``, which the
        table begins with. A refusal changes nothing (P7, P15). Where a manager finds nothing before it allocates, it
        sets ``request.cached``, in tokens: whole blocks, and a part of one that it takes over as it is, or copies
        (`take_copies`).
        """
        raise NotImplementedError

    def commit(self, request: Request, tokens: int) -> Told[None]:  # noqa: ARG002
        """Take note that the request's first ``tokens`` tokens are computed: full blocks may be cached now.

        A manager that registers blocks elsewhere leaves this out.
        """
        return None

    def fork(self, request: Request, child: Request) -> Told[Blocks | None]:
        """Let ``child`` go on from where ``request`` is, as another sample or beam of it, and return its whole block
        table; None: no room.

        Both have the same tokens, all of them computed, and share what they can; from then on each grows by itself. Who
        writes to a block that both have needs a copy of it (`take_copies`). A refusal changes nothing (P7, P15).
        Unlocks requests that fork: P6 of what the child is given, P2 of what both hold.
        """
        raise NotImplementedError

    def free(self, request: Request) -> Told[None]:
        """Take the request's blocks back: it has finished, was aborted, or is preempted (and may come again).

        It is told of requests that hold blocks, and of no others: one that is aborted while it waits has none. It may
        come between an `allocate` and its `commit`: then more is taken back than ``request.computed`` says.
        """
        raise NotImplementedError

    def evict(self, block: int) -> Told[None]:
        """Take a block out of the prefix map; whoever holds it goes on holding it. Unlocks P11: with `cached` of all,
        else of what lookups find."""
        raise NotImplementedError

    def reset(self) -> Told[bool]:
        """Empty the prefix map and return true; with blocks held, return false and change nothing. Unlocks O10:
        with `cached` of all, else of what lookups find."""
        raise NotImplementedError

    # ----------------------------------------------------------------------------------------------------- a host tier
    #
    # For a manager whose ``__init__`` also takes ``host_blocks: int`` (0: none). It has `store`, and what of the others
    # there is. Host blocks are numbered from 0 as well.

    def store(self, requests: Sequence[Request]) -> Told[Iterable[tuple[Any, Iterable[tuple[int, int]]]]]:
        """Begin to copy to the host what is worth it of these requests' blocks; return jobs and their copies.

        A copy is a device block, whose content is computed, and a host block. With `stored` the copies take time: it is
        asked after each step of a request, and both blocks must stay as they are until the job is `stored` (O2, O8).
        Left out, all is copied when it returns, and it is asked now and then, for all that runs: a mirror (M2).
        Unlocks the host rules, O1 to O3 and O8 among them.
        """
        raise NotImplementedError

    def stored(self, job: Any) -> Told[None]:
        """The copies of a job are done: its blocks can be found on the host. Jobs end in any order (O7)."""
        raise NotImplementedError

    def host_lookup(self, request: Request) -> Told[Sequence[int] | Sequence[Sequence[int | None]]]:
        """Return the host blocks that hold what follows ``request.found``, in order; together at most as `lookup`.

        With `groups` a list for each group, all as long, in which None stands for what is behind a window.
        `load` follows in the same step, unless the request is refused. Unlocks O6 (M4 of a mirror), and P6 of loads.
        """
        raise NotImplementedError

    def load(self, request: Request) -> Told[Iterable[tuple[int, int]]]:
        """Copy what was found on the host into ``request.table``, behind ``request.found``; return the copies.

        A copy is a host block and a device block. They are done when it returns, or, with `loaded`, take time: the
        request holds its blocks and waits for them.
        """
        raise NotImplementedError

    def loaded(self, request: Request, tokens: int) -> Told[None]:
        """The copies of a load have ended, and so many of the request's first tokens are there now: all that was found,
        or fewer, since copies failed (with `groups` none does); those behind them will be computed.

        Loads and stores end in any order. Until then the host blocks must stay as they are, and nobody may find the
        device blocks (O5, O8). A request that is aborted meanwhile has its blocks until then, and is freed behind this.
        Unlocks loads that are under way, and O11.
        """
        raise NotImplementedError

    def host_cached(self) -> Told[Mapping[Any, int]]:
        """Return the host's map, key to host block; keys as in `keys`. Unlocks P6 of the host, O6, O9, and M1 to M4
        with ``dialect["host"] = "mirror"``."""
        raise NotImplementedError

    def host_ref_counts(self) -> Told[Sequence[int]]:
        """Return how many hold each host block; a copy under way does. Unlocks O1, with `host_free_queue`."""
        raise NotImplementedError

    def host_free_queue(self) -> Told[Sequence[int]]:
        """Return the host blocks that nobody holds, the one that is taken next first."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ what it can tell

    def take_copies(self) -> Told[Iterable[tuple[int, int]]]:
        """Return the copies within the device that are to be done before anything more is computed, oldest first.

        A copy is the block that is read and the one that is written; each is told once. It is asked after each
        `allocate` and `fork`. So a block that is shared can be written to by one of those who share it (P6).
        """
        raise NotImplementedError

    def keys(self, request: Request) -> Told[Sequence[Hashable]]:
        """Return the manager's own hash keys of the request's full blocks, in order. Unlocks P13.

        Left out, the tokens themselves stand for keys: ``(adapter, salt, tuple of all tokens up to the block's end)``.
        """
        raise NotImplementedError

    def table(self, request: Request) -> Told[Blocks]:
        """Return the request's block table from the manager's own books, which may have changed since `allocate`: where
        `commit` puts a cached block in the place of an equal one, or gives one up. Left out: what `allocate` returned.
        """
        return request.table

    def ref_counts(self) -> Told[Sequence[int]]:
        """Return the reference count of each block, in the order of their numbers. Unlocks P1, P2 and P3 with
        `free_queue`, and L2: nothing is held in the end."""
        raise NotImplementedError

    def free_queue(self) -> Told[Sequence[int]]:
        """Return the free blocks, the one that is taken next first; walk the queue. Unlocks P1, P3, P4, P7, P10."""
        raise NotImplementedError

    def num_free(self) -> Told[int]:
        """Return the manager's own counter of free blocks: of all that nobody holds, cached ones too.

        Those that it always keeps back it may leave out throughout. Unlocks more of P3: it is compared with
        `free_queue`; without that with `ref_counts`, or else with the block tables, and then it may leave out those
        that `cached` tells too.
        """
        raise NotImplementedError

    def cached(self) -> Told[Mapping[Any, int | Iterable[int]]]:
        """Return the prefix map: key to block, or to blocks, the first registered first; keys as in `keys`.

        Unlocks P6 for all that is cached, P11, P15 and O10, and the exact half of P14.
        """
        raise NotImplementedError

    def block_keys(self) -> Told[Mapping[int, Any]]:
        """Return the key that each block says it carries, blocks without one left out. Unlocks P5, with `cached`."""
        raise NotImplementedError

    def take_events(self) -> Told[Iterable[tuple[Any, ...]]]:
        """Return the KV events since the last call, oldest first: ``("stored", key)``, ``("stored", key, parent)`` or
        ``("stored", key, parent, tokens)``, ``("removed", key)``, ``("cleared",)``; keys as in `keys`, the tokens those
        of the block. Unlocks P12: of what lookups find, and with `cached` of all that is cached; with tokens E3."""
        raise NotImplementedError
