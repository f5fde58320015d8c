"""Hybrid models: several groups of layers over one pool (H4, H8).

A request of a hybrid model has a block table for each group, and all groups take their blocks from one pool. What a
group needs of a cached prefix depends on its kind: full attention needs all of it, a sliding window its last tokens,
mamba the state at its end. Which blocks these are is a parameter here, so what is proved holds for all kinds and sizes.

A hit is of one length for all groups. It is found by asking one group after the other, each of which may only shorten
the candidate, until all agree; that gives the longest there is. After a load groups may disagree again: then what
counts is a length that every group reaches, for the device's own and the loaded tokens together.

While a lookup goes on nothing else happens: what it found is touched before anything is allocated (P8).
"""

from .corollaries import GroupsCorollaries
from .invariants import GroupsInvariants
from .steps import GroupsSteps

__all__ = ["Groups"]


class Groups(GroupsSteps, GroupsCorollaries, GroupsInvariants):
    """The tables of hybrid requests, and the blocks in them."""
