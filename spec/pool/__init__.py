"""Machine P: the block pool and its prefix cache.

A pool owns a fixed number of blocks of KV memory. A running request holds blocks in its block table, one for each
position. A block is free when nobody holds it; the free queue keeps free blocks in the order in which they will be
taken again, and a free block keeps its content, and the hashes that name this content, until it is taken. A new request
whose prompt begins with known hashes finds these blocks and shares them instead of computing them again.

The rules P1 to P12, P14, L1 and L2 stand here as actions and properties. Statistics (P15) extend this machine in
`statistics.py`; what makes two hashes equal (P13) is a machine of its own in `keys.py`.
"""

from .corollaries import PoolCorollaries
from .invariants import PoolInvariants
from .state import Block, Content, Hash, Position, Request, Slot
from .steps import PoolSteps

__all__ = ["Block", "Content", "Hash", "Pool", "Position", "Request", "Slot"]


class Pool(PoolSteps, PoolCorollaries, PoolInvariants):
    """The block pool and its prefix cache (machine P)."""
