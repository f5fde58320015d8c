"""Machine R: the prefix tree, in the manner of SGLang's radix cache (rules R1 to R8)."""

from .sorts import Page, Position, Prefix, Request, Slot
from .steps import TreeSteps

__all__ = ["Page", "Position", "Prefix", "PrefixTree", "Request", "Slot"]


class PrefixTree(TreeSteps):
    """The prefix tree over its allocator."""
