"""Machine D: blocks that are worth keeping are pinned, and demoted under pressure.

With sliding-window attention a request leaves blocks behind while it goes on. They join the free queue, are soon taken,
and the next request with the same prefix finds nothing. So the newest window of a large drop is marked for retention:
when nobody holds a marked block any more it waits in a second queue, from which allocation does not take. Only when the
free queue runs out are the oldest pinned blocks demoted: they lose their mark, join the free queue, and can still be
found until they are taken.

`ref_cnt` counts users, and nothing else (D1): a pin is a mark of its own. The first design made it one more reference,
and lost blocks for ever. A pin never stands in the way of progress: who would be refused for lack of free blocks gets
pinned ones, exactly as many as are missing (D5).

To machine P a pinned block is one more block that nobody holds and that can be taken, later than all that are free. So
P's own properties hold of both queues together, word for word; `_idle`, `_sooner` and `_room` say what that means. With
pinning off this machine is P, step by step (D6): `pinning_off.py`.
"""

from .corollaries import PinnedCorollaries
from .invariants import PinnedInvariants
from .steps import PinnedSteps

__all__ = ["Pinned"]


class Pinned(PinnedSteps, PinnedCorollaries, PinnedInvariants):
    """The block pool with a second queue, of blocks that are kept as long as there are others."""
