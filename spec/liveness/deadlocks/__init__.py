"""Why engines came to a halt: five small machines in which whoever is first in line leaves it, and five that stop.

Each of these faults was seen in a released engine (docs/findings.md, docs/dynamo.md). None breaks a rule of safety:
every block is counted, nobody reads what is not his. What is broken is L1, or L2. So each machine here keeps its
promise, and a subclass differs from it in the one thing that the engine did otherwise; that one is refuted, with the
state or the cycle in which the engine stood.
"""

from .aligned_prefill import AlignedPrefill, PrefillBesideDrafts
from .held_loads import HeldLoads, ReservedLoads
from .lazy_stores import LazyStores, LazyStoresOfAll
from .look_ahead import GrowingRequests, LookAhead
from .partial_hits import HitsInside, HitsInsideAtAnyPrice

__all__ = [
    "AlignedPrefill",
    "GrowingRequests",
    "HeldLoads",
    "HitsInside",
    "HitsInsideAtAnyPrice",
    "LazyStores",
    "LazyStoresOfAll",
    "LookAhead",
    "PrefillBesideDrafts",
    "ReservedLoads",
]
