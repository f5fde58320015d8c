"""Tiers in virtual time: device blocks, a host tier behind them, and copies that last (G1, G4 to G7).

Here a copy takes its time, and what it moves is out of reach meanwhile. A device block is exactly one of: free, used,
idle (nobody uses it, but it can be found under its hash), gathered (evicted, waiting for its batch to be full) or
copying. An evicted block is not free until its copy has ended: no copy in flight makes room (G1).

Evicted blocks go down to the host in batches, one transfer each. A request whose prefix is on the host, behind what is
on the device, waits for one transfer that brings it up, and is promoted when that is done. What such a transfer reads
stays on the host meanwhile.

Who shares a used block, and what stands in it, are matters of machine P; here a block is used or not.
"""

from .corollaries import TimedTiersCorollaries
from .invariants import TimedTiersInvariants
from .steps import TimedTiersSteps

__all__ = ["TimedTiers"]


class TimedTiers(TimedTiersSteps, TimedTiersCorollaries, TimedTiersInvariants):
    """The device and the host of one worker."""
