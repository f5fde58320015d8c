"""What the tests of one run have proved: whichever comes first asks, the others read it."""

import os
from pathlib import Path

from kvproof.checkers.proofs import Proofs

__all__ = ["of_this_run"]


def of_this_run() -> Proofs:
    """The store that the whole run shares (`conftest.py`). Machines that are broken on purpose need none."""
    return Proofs(Path(os.environ["KVPROOF_PROOFS"]))
