"""Ghost content: what was written to each block, and by whom.

The engine moves block numbers; the ghost moves the content that real memory would have. It is told what happened
(`docs/protocol.md`, effects) and knows nothing of any policy. It is made of what the requests are (`requests.py`; a
number for each prefix of theirs, `contents.py`), what lies where (`memory.py`), and what reads and writes that: forward
passes and lookups (`passes.py`), copies between tiers (`copies.py`), batches under way (`batches.py`). Where an
engine's memory is real it is not modelled: then what was read is told as stamps (`stamps.py`).
"""

from collections.abc import Callable, Iterator, Sequence

from ..record import Effect, TreeNode, World
from ..violation import Violation
from .batches import Batches
from .contents import Contents
from .copies import Copies
from .memory import Memory
from .passes import Passes
from .requests import Requests
from .stamps import Stamps

__all__ = ["Ghost"]


class Ghost:
    """The contents of all blocks of all tiers, and what the requests are."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.contents = Contents()
        self.tree: tuple[Sequence[TreeNode], list[list[int]]] | None = None
        """The nodes of a state that were asked about last, and what each token of them ends."""
        self.requests = Requests(world, self.contents)
        self.memory = Memory(world.tiers)
        self._batches = batches = Batches()
        self.copies = Copies(world, self.contents, self.memory, batches)
        requests, memory, copies = self.requests, self.memory, self.copies
        passes = Passes(world, requests, memory, copies, batches)
        stamps = Stamps(world, self.contents, requests, memory)
        self._do: dict[str, Callable[..., Iterator[Violation] | None]] = {
            "request": requests.arrives,
            "append": requests.appends,
            "cut": requests.cut,
            "keys": requests.has_keys,
            "table": requests.has_table,
            "state": requests.has_state,
            "lookup": requests.looked_up,
            "processed": requests.processed,
            "preempted": requests.preempted,
            "end": requests.ends,
            "found": passes.found,
            "compute": passes.compute,
            "draft": passes.draft,
            "encoded": passes.has_encoded,
            "computed_outside": passes.computed_outside,
            "copy": copies.copy,
            "copied": copies.copied,
            "rows": copies.rows,
            "zero": self._zero,
            "batch": batches.turn,
            "ran": stamps.ran,
            "read": stamps.read,
            "holds": stamps.holds,
            "output": stamps.output,
        }

    def _zero(self, tier: str, units: Sequence[int]) -> None:
        """Places are cleared, by the batch that began last."""
        self.memory.zero(tier, units)
        if tier == next(iter(self.world.tiers)):
            self._batches.write(units)

    def apply(self, effect: Effect) -> Iterator[Violation] | None:
        """Let an effect happen; what is wrong with it comes back, and must be read before the next one."""
        do = self._do.get(effect[0])
        return None if do is None else do(*effect[1:])
