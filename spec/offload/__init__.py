"""Machine O: asynchronous offload. Blocks are copied to a host pool and back while requests come and go.

Behind the device's pool stands another one in host memory, a block pool of its own (O1): what machine P does with free
blocks, counts and hashes it does there too, by the same text. Two kinds of copies run between them. A *store* copies a
full device block to a host block, which can be found there once the copy is complete. A *load* brings host blocks that
a lookup found into fresh device blocks of a request, which waits for them.

Copies take time, and nobody waits for them: while one runs its request may finish, be preempted or aborted, and come
back. Nobody knows when a copy reads. It may read each slot at a moment of its own, anywhere between the beginning of
the transfer and its completion; whichever moments these are, what can be found on either tier must be what its hash
names. So a transfer is a holder like any other: it holds the block that it reads and the block that it writes from the
beginning to the end (O2), and no block is handed out, overwritten or forgotten under it (O8).

Several workers, each with its own part of every block, copy at their own pace. A transfer is complete when each of them
has reported its part, in any order, and this happens once (O7); what is reported once more, or late, is machine
`reports`. A transfer has failed if any part failed; but others may copy until the last one has reported, so a failed
transfer holds its blocks as long as a good one (O8).

The rules O1 to O12 stand here but for two: that a lookup asks for no more than a request may get (O6) is P14, by the
same `limit` (where that comes from says machine `lengths`); and a call that offers many blocks (O12) is here that many
offers of one block each: what such a call promises as a whole says machine `chunks`.
"""

from .copies import OffloadCopies
from .corollaries import OffloadCorollaries
from .invariants import OffloadInvariants
from .state import HostBlock, Worker
from .steps import OffloadSteps

__all__ = ["HostBlock", "Offload", "Worker"]


class Offload(OffloadSteps, OffloadCopies, OffloadCorollaries, OffloadInvariants):
    """The block pool with asynchronous copies to and from a host pool."""
