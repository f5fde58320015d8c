"""SGLang's levels ``hicache`` and ``scheduler`` over the reference implementation of a tree, wrong on demand.

Right, they are the clean twins of these levels: the same cases, the same oracles, and nothing is found.
"""

from level import Refused
from radix_hicache import Hicache
from radix_scheduler import Scheduler

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


LEVELS = {"hicache": Hicache, "scheduler": Scheduler}
