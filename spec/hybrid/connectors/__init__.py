"""Several stores of KV behind one connector (H5, H6, O11).

A request asks all of them how many tokens they could load. They answer in their own time. Among those that have, the
one whose answer is worth most loads: tokens times weight, the first of equals. Nobody waits for one that has not
resolved, unless nobody has. Only the winner loads; what is computed is stored in all of them.

A load pins what it reads. It ends once: well, badly, or because it took too long; then exactly what it had pinned is
let go. A request whose load did not end well computes what was promised to it, and whatever is reported of that load
later changes nothing.
"""

from .corollaries import ConnectorsCorollaries
from .invariants import ConnectorsInvariants
from .state import Connector, Job
from .steps import ConnectorsSteps

__all__ = ["Connector", "Connectors", "Job"]


class Connectors(ConnectorsSteps, ConnectorsCorollaries, ConnectorsInvariants):
    """Requests, what was promised to them, and the loads that keep the promises."""
