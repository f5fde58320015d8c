"""The level ``pool`` of vLLM: its `BlockPool` alone, call by call.

Requests are block tables, no more: what the pool's caller must know. Keys are given by number; a block has one token.
"""

import hashlib

from level import Level, Refused
from vllm.v1.core.block_pool import BlockPool
from vllm_common import DIGEST, Keys, event_effects, make_request, pool_state, taken

__all__ = ["PoolLevel"]


class PoolLevel(Level):
    """A block pool, and who holds which of its blocks."""

    def __init__(self, setup: dict) -> None:
        super().__init__()
        unknown = sorted(set(setup) - {"blocks", "requests", "keys", "caching", "events"})
        if unknown:
            raise Refused(f"the pool has no option {', '.join(unknown)}")
        self.events = bool(setup.get("events"))
        self.pool = taken(
            BlockPool,
            num_gpu_blocks=setup["blocks"],
            enable_caching=setup.get("caching", True),
            hash_block_size=1,
            enable_kv_cache_events=self.events,
        )
        self.numbers = Keys()
        self.keys = [hashlib.sha256(b"key %d" % number).digest()[:DIGEST] for number in range(setup["keys"])]
        for key in self.keys:
            self.numbers.number(key)
        self.tables: list[list] = [[] for _ in range(setup["requests"])]
        self.world = {
            "groups": [{"kind": "full", "block": 1}],
            "tiers": {"device": {"blocks": setup["blocks"], "null": self.pool.null_block.block_id}},
            "hash_block": 1,
            "exact": True,
        }

    def do(self, op: str, args: dict):
        """Do an operation, and tell the events that it caused."""
        result = super().do(op, args)
        if self.events:
            event_effects(self, self.numbers, self.pool.take_events())
            self.tell("boundary", "device")
        return result

    def state(self) -> dict:
        """Return the pool's state, and the tables that the calls' answers make."""
        tables = {f"r{r}": [[block.block_id for block in table]] for r, table in enumerate(self.tables)}
        return {"pools": {"device": pool_state(self.pool, self.numbers)}, "tables": tables}

    def op_hit(self, args: dict):
        """Look keys up, one by one until one is not found; what was found is held."""
        found: list = []
        for key in args["keys"]:
            blocks = self.pool.get_cached_block(self.keys[key], [0])
            if not blocks:
                break
            found += blocks
        self.pool.touch(found)
        self.tables[args["r"]] += found
        return len(found)

    def op_take(self, args: dict):
        """Take blocks; the result is false when there are too few."""
        try:
            blocks = self.pool.get_new_blocks(args["n"])
        except ValueError:
            return False
        self.tables[args["r"]] += blocks
        return [block.block_id for block in blocks]

    def op_skip(self, args: dict):
        """A position gets the null block."""
        self.tables[args["r"]].append(self.pool.null_block)

    def op_register(self, args: dict):
        """Register a request's block under a key; ``parent`` is the key of the block before."""
        at, table = args["at"], self.tables[args["r"]]
        request = make_request("r", [0] * (at + 1))
        parent = args.get("parent")
        request.block_hashes = [bytes(DIGEST)] * (at + 1)
        request.block_hashes[at] = self.keys[args["key"]]
        if at and parent is not None:
            request.block_hashes[at - 1] = self.keys[parent]
        self.pool.cache_full_blocks(request, table, at, at + 1, 1, 0)

    def op_free(self, args: dict):
        """A request gives back its last blocks in one call, last one first."""
        table = self.tables[args["r"]]
        kept = len(table) - args["n"]
        blocks = table[kept:][::-1]
        del table[kept:]
        self.pool.free_blocks(blocks)

    def op_evict(self, args: dict):
        """A block leaves the prefix cache."""
        self.pool.evict_blocks({args["block"]})

    def op_reset(self, _args: dict):
        """The prefix cache is to be emptied."""
        return self.pool.reset_prefix_cache()

    def op_drain(self, _args: dict):
        """All requests give back all that they hold."""
        for r, table in enumerate(self.tables):
            self.op_free({"r": r, "n": len(table)})
        return {"left": 0, "pending": 0, "steps": 1}
