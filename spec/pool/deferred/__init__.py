"""Machine P with steps under way: what a request leaves behind while they read it waits for their end.

With asynchronous scheduling the next step is scheduled before the last one is processed. So a request may be over
(complete, preempted, aborted) while steps that were scheduled for it still read and write its blocks. Its table is
empty from then on, and it may come back at once; but what it leaves behind is nobody's to take before the last of these
steps is processed. Until then that step holds it (P2, D7), and then gives it back in one free call, last block first
(P9, P10).

Steps are processed in the order in which they were scheduled. One step here is what a scheduled forward pass does for
one request; a batch is that many of them.
"""

from .actions import Pass
from .corollaries import DeferredCorollaries
from .invariants import DeferredInvariants
from .steps import DeferredSteps

__all__ = ["Deferred", "Pass"]


class Deferred(DeferredSteps, DeferredCorollaries, DeferredInvariants):
    """The block pool, and blocks that wait for steps under way."""
