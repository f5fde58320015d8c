"""What goes to a worker and what comes back: the messages of `docs/protocol.md`, typed.

Nothing that a worker says is trusted: a message that does not fit these types is refused as a whole.
"""

from typing import Any

import msgspec

__all__ = [
    "BATCH",
    "KINDS",
    "SEVERAL",
    "TOGETHER",
    "Answer",
    "Capabilities",
    "Case",
    "Error",
    "Group",
    "Hello",
    "PoolState",
    "State",
    "Step",
    "Tier",
    "TreeNode",
    "TreePart",
    "TreeState",
    "World",
]

TOGETHER = "together"
"""The operation in which calls of a manager overlap: what it tells happened between call and answer, nobody knows when.
Its result says what came of each."""

BATCH = "batch"
"""The operation in which several requests share a forward pass: each is given its blocks before any of them is
processed. Its result says what came of each."""

SEVERAL = (TOGETHER, BATCH)
"""The operations that are several others."""

PROTOCOL = 1
"""The version of the protocol that this kit speaks."""

# What comes in thousands is kept from the garbage collector (``gc=False``): it never refers to itself.

Effect = list[Any]
"""An array that begins with the kind of what happened."""


class Case(msgspec.Struct, frozen=True):
    """A setup and what is done to it: all that is needed to see a run again."""

    level: str
    setup: dict[str, Any]
    ops: list[tuple[str, dict[str, Any]]]


class Capabilities(msgspec.Struct):
    """What a driver can do at a level of whole requests, and what it can tell."""

    operations: list[str]
    """The operations that it has; no others are asked of it."""
    options: list[str] = []
    """The options of a setup that it takes beside ``blocks`` and ``block_tokens``."""
    tenants: list[str] = []
    """What its hash keys depend on beside tokens: ``adapter``, ``salt``."""
    visible: dict[str, list[str]] = {}
    """Per tier, the fields of the pool's state that it can tell."""
    block_tokens: tuple[int, ...] = (2, 3, 4)
    """Sizes of a block that make sense for it."""
    tokens_per_grow: int = 1
    """How many tokens one ``grow`` may add at most."""


class Hello(msgspec.Struct):
    """What a worker says of itself."""

    protocol: int
    engine: str
    version: str
    levels: list[str]
    capabilities: dict[str, Capabilities] = {}
    """Per level, where the level's cases depend on them."""


KINDS = ("full", "window", "chunk", "mamba")
"""What layers a group may be of."""


class Group(msgspec.Struct, gc=False):
    """A KV-cache group."""

    kind: str
    """One of ``KINDS``."""
    block: int
    """Tokens per block."""
    window: int | None = None
    """Tokens of the window or of the chunk."""

    @property
    def slots(self) -> int:
        """Places of a block: one for each token, or one for a state."""
        return 1 if self.kind == "mamba" else self.block


class Tier(msgspec.Struct, gc=False):
    """A pool of blocks: device, host, ..."""

    blocks: int
    null: int | None = None
    split: int = 1
    """Units, each as large as a device block, that one block of this tier holds."""
    by_key: bool = False
    """The tier has no blocks of its own numbering: an entry's place is the number of its key."""
    persists: bool = False
    """It lies below another tier and has all from that; a reset leaves it as it is."""


class World(msgspec.Struct):
    """What a setup became."""

    groups: list[Group]
    tiers: dict[str, Tier]
    hash_block: int
    exact: bool = False
    """Whether `holds` and `tables` of the states are all holders there are."""
    notes: dict[str, Any] = {}

    @property
    def dialect(self) -> dict[str, Any]:
        """What the notes name of the engine's policies and promises; nothing where that is no map."""
        said = self.notes.get("dialect")
        return said if isinstance(said, dict) else {}

    def place(self, block: int) -> tuple[str, int]:
        """The tier and the number there of a block as block tables name it.

        Where attention reads another tier too (the note ``reads``), that one's blocks are numbered behind the device's.
        """
        device, beyond = next(iter(self.tiers)), self.notes.get("reads")
        behind = block - self.tiers[device].blocks
        return (device, block) if beyond is None or behind < 0 else (beyond, behind)


class PoolState(msgspec.Struct, gc=False):
    """The state of one tier's block pool, as the engine's own objects have it; None is what it does not show."""

    ref: list[int] | None = None
    free: list[int] | None = None
    num_free: int | None = None
    cached: list[tuple[int, int, list[int]]] | None = None
    hashes: list[tuple[int, list[tuple[int, int]]]] | None = None


class TreeNode(msgspec.Struct, gc=False, array_like=True):
    """A node of a prefix tree: an edge below its parent. The root is no node."""

    parent: int
    """The place of its parent among the nodes, which stands before it; -1: the root."""
    tenant: tuple[str | None, str | None]
    """Adapter and salt, as `Ghost` has them of requests."""
    tokens: list[int]
    """Of its edge."""
    slots: list[int]
    """Where their KV stands: slot s of block b is ``b x tokens per block + s``."""
    lock: int | None
    """Its lock_ref; None: it shows none."""
    parts: list[tuple[list[int], int | None]] = []
    """Of each further group what it has, slots or blocks of a state, and how often that is locked. Nothing: a
    tombstone."""
    host: list[tuple[list[int], int | None]] = []
    """Of each group what it has on the second tier, and how often that is locked there. Where the tree has such a tier,
    a node may have no slots on the device."""
    behind: int | None = None
    """The token behind its edge, where keys are of each token and the next one."""


class TreePart(msgspec.Struct, gc=False):
    """What a tree counts of one further group, in tokens or states."""

    evictable: int | None = None
    protected: int | None = None
    locks: dict[str, int] = {}
    """Per request where its lock stands, of those that hold this group too."""
    anchors: dict[str, int] | None = None
    """Per copy which node it holds on the second tier, of a group of states; None: it is not told."""


class TreeState(msgspec.Struct, gc=False):
    """The state of a prefix tree over the device; None is what is not shown."""

    nodes: list[TreeNode] | None = None
    slots: list[int] | None = None
    """All that it has, where its nodes are not shown."""
    evictable: int | None = None
    """Tokens that nobody locks, by the engine's own counter."""
    protected: int | None = None
    """The others."""
    own: dict[str, list[int]] = {}
    """Per request the blocks that are its own, and not the tree's."""
    locks: dict[str, int] = {}
    """Per request where its lock stands; -1: at the root."""
    parts: list[TreePart] = []
    """What it counts of each further group of the world; none: it has the first group only."""
    anchors: dict[str, int] = {}
    """Per load from the second tier, or copy between that and one below, the node that it holds there."""


class State(msgspec.Struct, gc=False):
    """The state after an operation."""

    pools: dict[str, PoolState]
    tables: dict[str, list[list[int]]] = {}
    holds: dict[str, list[int]] = {}
    waiting: int = 0
    running: int = 0
    pending: int = 0
    tree: TreeState | None = None


class Error(msgspec.Struct, gc=False):
    """How the engine ended an operation."""

    type: str
    message: str
    where: list[tuple[str, int, str]] = []
    """File, line and function of each call, outermost first."""


class Step(msgspec.Struct, gc=False):
    """One operation and what happened."""

    op: str
    args: dict[str, Any]
    skipped: bool = False
    result: Any = None
    effects: list[Effect] = []
    state: State | None = None
    digest: str | None = None
    error: Error | None = None

    @property
    def together(self) -> dict[str, Any]:
        """What came of each operation, by its name, where one is several; nothing where none is."""
        return self.result if self.op in SEVERAL and isinstance(self.result, dict) else {}


class Answer(msgspec.Struct):
    """A worker's answer to a case."""

    id: int
    world: World | None = None
    steps: list[Step] = []
    refused: str | None = None
