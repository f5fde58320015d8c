"""The level ``workload`` of vLLM: its `KVCacheManager` with one group, one call for a whole prompt."""

from level import Level
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.request import RequestStatus
from vllm_common import Keys, hasher, kv_cache_config, make_request, pool_state, taken

__all__ = ["WorkloadLevel"]


class WorkloadLevel(Level):
    """A manager of ``capacity`` usable blocks of ``block`` tokens; token t of block number i is ``block i + t``."""

    def __init__(self, setup: dict) -> None:
        super().__init__()
        self.block, blocks = setup["block"], setup["capacity"] + 1
        self.manager = taken(
            KVCacheManager,
            {"scheduler_block_size": self.block},
            kv_cache_config=kv_cache_config([{"kind": "full", "block": self.block}], blocks),
            max_model_len=setup["max_len"],
            hash_block_size=self.block,
            enable_caching=True,
        )
        self.hasher = hasher(self.block)
        self.keys = Keys()
        self.requests: dict[int, object] = {}
        self.world = {
            "groups": [{"kind": "full", "block": self.block}],
            "tiers": {"device": {"blocks": blocks, "null": self.manager.block_pool.null_block.block_id}},
            "hash_block": self.block,
        }

    def state(self) -> dict:
        """Return the pool's state."""
        return {"pools": {"device": pool_state(self.manager.block_pool, self.keys)}}

    def op_start(self, args: dict):
        """Look a prompt up, take room for all of it, and compute it: hit blocks, table and keys; null if refused."""
        number, manager = args["request"], self.manager
        request = self.requests.get(number) or self._made(number, args["blocks"], args["length"])
        self.requests[number] = request
        found, hit, *_ = manager.get_computed_blocks(request)
        new = request.num_tokens - hit
        if manager.allocate_slots(request, new, num_new_computed_tokens=hit, new_computed_blocks=found) is None:
            return None
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, request.num_tokens
        (table,) = manager.get_block_ids(request.request_id)
        args.clear()
        return [hit // self.block, list(table), [self.keys.number(key) for key in request.block_hashes]]

    def op_finish(self, args: dict):
        """A request leaves."""
        self.manager.free(self.requests.pop(args["request"]))

    def op_look(self, _args: dict):
        """Nothing is done: for the sake of the state."""

    def _made(self, number: int, blocks: list[int], length: int):
        size = self.block
        tokens = [size * block + t for block in blocks for t in range(size)][:length]
        return make_request(f"r{number}", tokens, block_hasher=self.hasher)
