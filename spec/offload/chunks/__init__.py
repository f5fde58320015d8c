"""Chunks by key: a host tier to which several blocks are offered at once (O12).

A chunk manager knows no device blocks and no tables: it keeps entries by key, in so many chunks of host memory, and
which entry has which chunk is nobody's business. A call offers a list of keys. What is there, or on its way there, is
not stored again (O3); all else that the offer names is stored, or nothing is. So the whole list is looked at before
anything is done: how much is missing, how much is free, and how much may go. May go what can be found, what nobody
reads, and what the offer itself does not name; else a call could drop one of its keys for another and leave the prefix
with a hole. Fewer than needed: the offer is refused, and has changed nothing.

What an offer names counts as used by it, also what is there already. Then what goes is the least recently used of all,
and stands at the head. Which entries go is a policy, and a release may have another (ARC); that nothing is named, read
or on its way is the rule.

In machine O such a call is that many offers of one block each, which keeps O12 for each of them, and not for the call.
"""

from .invariants import ChunksInvariants
from .state import Load, Offer
from .steps import ChunksSteps

__all__ = ["Chunks", "Load", "Offer"]


class Chunks(ChunksSteps, ChunksInvariants):
    """Entries by key: stored as they are offered, many at once; read and given up one by one."""
