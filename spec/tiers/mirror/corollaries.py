"""The corollaries of Mirror (machine M): they follow from the invariants, and no action is asked to keep them."""

from __future__ import annotations

from ....machine import Bool, can, corollary, iff
from ...pool import Request
from .actions import MirrorActions

__all__ = ["MirrorCorollaries"]


class MirrorCorollaries(MirrorActions, abstract=True):
    """What is refused, and what is not."""

    @corollary("M2")
    def whoever_is_inside_can_be_mirrored(self, r: Request) -> Bool:
        """Whatever it holds, and however full the host is."""
        return iff(can(self.mirror, r), self.running[r])
