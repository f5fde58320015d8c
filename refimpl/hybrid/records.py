"""What is to be known about a ``HybridCache``: what it shows to observers."""

from dataclasses import dataclass

from ..pool.block_pool import PoolSnapshot
from ..pool.manager import RequestId


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """All that is known of one request inside."""

    need: int
    """The most tokens that its tables may ever cover."""
    tables: tuple[tuple[int, ...], ...]
    """The block table of each group; the null block where nothing is needed."""
    computed: int
    """Tokens found here or computed here."""
    external: int
    """Tokens loaded from elsewhere. Together they are the leading tokens whose KV is there."""
    filed: int
    """Tokens up to which full blocks were filed, or found."""


@dataclass(frozen=True, slots=True)
class HybridSnapshot:
    """The whole observable state of a hybrid cache, collected by walking its own structures and its pool's."""

    pool: PoolSnapshot
    """The state of the pool."""
    requests: dict[RequestId, RequestSnapshot]
    """The requests inside, in order of admission."""
