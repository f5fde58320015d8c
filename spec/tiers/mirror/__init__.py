"""Machine M: a host tier that mirrors the device, and from which a lookup reloads.

Device memory is small. Host memory is larger and far away: a copy costs time, computing the KV again costs more. So
after each step the full blocks of the batch are copied to a host tier, an LRU cache of blocks by their hashes. Nothing
moves when a request releases its blocks: they stay on the device, findable, until they are taken for something else.
When a later request looks for a prefix that the device has lost in part, the lost blocks come back from the host.

The difficulty is that a reloaded block needs room, and the room is taken from the very queue in which free blocks of
the same prefix may stand. So a lookup first holds everything of its prefix that is on the device, also what stands
behind a gap (`_claim`); only then does it fill the gaps, and each block that it fills is the request's at once
(`_fill`); what it could not reach for lack of room it lets go again (`_let_go`). No reload can so destroy what it, or
the lookup that it serves, relies on (M6).

The rules M1 to M8 stand here; `blis_mirror.py` is the historical way, which breaks M6 and P6. That a host tier never
lowers the hits (M9) is a statement about two whole runs: `docs/mirror-and-pin.md`.
"""

from .corollaries import MirrorCorollaries
from .invariants import MirrorInvariants
from .steps import MirrorSteps

__all__ = ["Mirror"]


class Mirror(MirrorSteps, MirrorCorollaries, MirrorInvariants):
    """The block pool with a host tier behind it."""
