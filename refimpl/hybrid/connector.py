"""What a connector is: a store of KV outside the device, as the scheduler sees it (H5, H6).

Content is named by keys alone: the key of a block of a group, distinct for distinct groups (H8). What a request can
use of a store is not simply a longest run of keys: a full-attention group needs all blocks up to a length, a window or
mamba group only what stands right before it. So a lookup is asked with a *chain of boundaries*, the lengths at which
the request could go on, each with the keys that it takes.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from ..pool.manager import RequestId


@dataclass(frozen=True, slots=True)
class Boundary:
    """A length at which every group of a request has a usable state, if its keys are there (H4)."""

    tokens: int
    """The length, in tokens from the request's first one."""
    through: tuple[bytes, ...]
    """Keys that this boundary and every later one needs, those of earlier boundaries left out: full attention."""
    at: tuple[bytes, ...] = ()
    """Keys that this boundary needs and later ones need not: the blocks of a window, the state of a mamba group."""


Chain = Sequence[Boundary]
"""Boundaries by ascending length. The caller bounds it: at most all tokens but the last (P14, O6)."""


@dataclass(frozen=True, slots=True)
class BlockRef:
    """Content and where it lies on the device."""

    key: bytes
    """What the content is called."""
    block: int
    """The physical block. One pool serves all groups, so its id says where (H8)."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A connector is done with a load: it will write nothing more for it."""

    job: int
    """The load."""
    ok: bool
    """Whether all of it was written. If not, what the blocks hold means nothing."""


class Connector(Protocol):
    """A store of KV outside the device. Each method is one step and returns at once; copies end when ``poll`` says so.

    What a lookup finds is *held* for the request, so that it is still there when the load begins: until then, or
    until the request's next lookup, or ``drop`` (O5).
    """

    @property
    def name(self) -> str:
        """What it is called, in counters and messages."""

    @property
    def weight(self) -> float | Fraction:
        """How much a token from here is worth, finite and > 0 (H5). Fractions compare exactly, and so do floats."""

    @property
    def supports_hybrid(self) -> bool:
        """Whether it can keep what a request with several groups needs."""

    def matched(self, request: RequestId, chain: Chain, computed: int) -> int | None:
        """Return how many tokens beyond ``computed`` it could load, or ``None``: not known yet, ask again (H5)."""

    def drop(self, request: RequestId) -> None:
        """Give up what a lookup holds for this request, if anything."""

    def begin_load(self, job: int, request: RequestId, blocks: Sequence[BlockRef]) -> None:
        """Begin to write content to these blocks; what the lookup holds beyond them is given up.

        Refused, and nothing changed, for a key that the lookup of this request does not hold.
        """

    def release(self, job: int, keys: Sequence[bytes]) -> None:
        """End the hold of a load on its keys, each named once. Comes once per load, when it ended or is given up (H6).

        From this call on nothing is written for the load: its blocks may belong to somebody else.
        """

    def store(self, request: RequestId, blocks: Sequence[BlockRef]) -> int:
        """Keep the content of these blocks; return how many of them, from the first, were taken or were there.

        What is taken was read when this returns. The rest found no room now: offer it again (backpressure, H5).
        """

    def preempted(self, requests: AbstractSet[RequestId]) -> None:
        """Hear that these requests lost their blocks. Their loads were released before."""

    def poll(self) -> list[Completion]:
        """Write what has arrived, and return the loads that ended since the last call, released ones left out."""


def longest_match(chain: Chain, computed: int, has: Callable[[bytes], bool]) -> Boundary | None:
    """Return the greatest boundary beyond ``computed`` all of whose keys are there, ``None`` if there is none."""
    best = None
    for boundary in chain:
        if boundary.tokens <= computed:
            continue
        if not all(map(has, boundary.through)):
            break
        if all(map(has, boundary.at)):
            best = boundary
    return best


def needed_keys(chain: Chain, computed: int, tokens: int) -> tuple[bytes, ...]:
    """Return the keys that a load takes from ``computed`` to the boundary ``tokens`` further, each once.

    Raises:
        ValueError: when that is no boundary of the chain.
    """
    target = computed + tokens
    beyond = [boundary for boundary in chain if computed < boundary.tokens <= target]
    if not beyond or beyond[-1].tokens != target:
        raise ValueError(f"{target} tokens is no boundary beyond {computed}: load up to what the lookup answered")
    keys = [key for boundary in beyond for key in boundary.through]
    return tuple(dict.fromkeys((*keys, *beyond[-1].at)))
