"""A KV-cache manager of vLLM and a `SimpleCPUOffloadScheduler` bound to its block pool, and how releases call them.

The offload manager needs no model: a few values stand for the engine's configuration. What the release's scheduler does
between the two is here under one set of calls.
"""

import functools
from types import SimpleNamespace

from level import Refused
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.outputs import KVConnectorOutput
from vllm_common import VERSION, block_sizes, call, kv_cache_config, since, taken

__all__ = ["System", "scheduled"]

try:
    from vllm.v1.simple_kv_offload.manager import SimpleCPUOffloadScheduler
    from vllm.v1.simple_kv_offload.metadata import SimpleCPUOffloadWorkerMetadata
except ImportError:
    SimpleCPUOffloadScheduler = None


class System:
    """Both managers of one engine."""

    def __init__(self, setup: dict) -> None:
        if SimpleCPUOffloadScheduler is None:
            raise Refused(f"vLLM {VERSION} has no SimpleCPUOffloadScheduler")
        config = kv_cache_config(setup["groups"], setup["blocks"])
        self.block, self.hash_block = block_sizes(config, connector=True)
        self.groups = len(setup["groups"])
        self.manager = taken(
            KVCacheManager,
            {
                "scheduler_block_size": self.block,
                "max_num_batched_tokens": setup["budget"],
                "max_in_flight_tokens": setup["budget"],
            },
            kv_cache_config=config,
            max_model_len=setup["max_len"],
            hash_block_size=self.hash_block,
            enable_caching=True,
            enable_kv_cache_events=setup["events"],
        )
        page = config.kv_cache_tensors[0].size // config.num_blocks
        self.offload = self._offload(setup, config, page)
        self.offload.bind_gpu_block_pool(self.manager.block_pool)
        self._subblock_hits = hasattr(self.manager, "take_kv_cache_block_copies")
        aligned = self.hash_block == self.block or hasattr(KVCacheManager, "truncate_computed_blocks")
        if self._subblock_hits and not aligned:
            raise Refused(f"vLLM {VERSION} finds parts of blocks, and does not align them for a connector")

    def _offload(self, setup: dict, config, page: int):
        settings = SimpleNamespace(
            cache_config=SimpleNamespace(block_size=min(group["block"] for group in setup["groups"])),
            kv_events_config=SimpleNamespace(enable_kv_cache_events=setup["events"]),
            max_in_flight_tokens=setup["budget"],
            model_config=SimpleNamespace(max_model_len=setup["max_len"]),
            num_prefill_lookahead_tokens=0,
            parallel_config=SimpleNamespace(
                decode_context_parallel_size=1, prefill_context_parallel_size=1, world_size=setup["workers"]
            ),
            scheduler_config=SimpleNamespace(max_num_batched_tokens=setup["budget"]),
            speculative_config=None,
        )
        try:
            return taken(
                SimpleCPUOffloadScheduler,
                {"scheduler_block_size": self.block, "hash_block_size": self.hash_block},
                vllm_config=settings,
                kv_cache_config=config,
                cpu_capacity_bytes=page * setup["host"],
                lazy_offload=setup["lazy"],
            )
        except AttributeError as error:
            raise Refused(f"vLLM {VERSION} asks for more of the configuration: {error}") from error

    # ---------------------------------------------------------------------------------------------- what is there

    def lookup(self, request):
        """Ask both managers what is computed; return the device's blocks, its tokens and the host's."""
        blocks, local, *more = self.manager.get_computed_blocks(request)
        if more:
            request.shared_prefix_boundary = more[0]
        part = local % self.block if self._subblock_hits else 0
        external, _ = self.offload.get_num_new_matched_tokens(request, local - part)
        if part and external > part:
            return self.manager.truncate_computed_blocks(blocks, local - part), local - part, external
        return blocks, local, 0 if part else external

    def admit(self, request, blocks, local: int, external: int, tokens: int) -> bool:
        """Allocate for a request that waited, and plan its load; False when there is no room."""
        new = self.manager.allocate_slots(
            request,
            tokens,
            num_new_computed_tokens=local,
            new_computed_blocks=blocks,
            num_external_computed_tokens=external,
            delay_cache_blocks=external > 0,
        )
        if new is None:
            return False
        self.offload.update_state_after_alloc(request, self.manager.get_blocks(request.request_id), external)
        return True

    def block_copies(self) -> tuple[list, list]:
        """Return the copies within the device that this step begins with, and the blocks that are held for them."""
        return self.manager.take_kv_cache_block_copies() if self._subblock_hits else ([], [])

    def boundary_states(self) -> dict:
        """Return the states that are handed over for offloading, per request."""
        take = getattr(self.manager, "take_boundary_state_offloads", None)
        return take() if take else {}

    def writing(self) -> set[int]:
        """Return the host blocks that stores in flight write to."""
        offload = self.offload
        stores = [*offload._store_event_to_blocks.values()]
        stores += getattr(offload, "_abandoned_store_event_to_blocks", {}).values()
        return {block for store in stores for block in store.cpu_block_ids}

    # -------------------------------------------------------------------------------------------------------- ends

    def finish(self, request) -> None:
        """Hand a finished request's blocks to the offload manager, before they are freed."""
        r = request.request_id
        computed = request.num_computed_tokens
        call(
            KVCacheManager.remove_skipped_blocks,
            {
                "total_computed_tokens": computed if since((0, 20)) else request.num_tokens,
                "processed_computed_tokens": computed,
                "num_prompt_tokens": request.num_prompt_tokens,
            },
            self=self.manager,
            request_id=r,
        )
        if hasattr(self.manager, "get_block_ids_for_computed_tokens"):
            blocks = self.manager.get_block_ids_for_computed_tokens(request_id=r, num_computed_tokens=computed)
        else:
            blocks = self.manager.get_block_ids(r)
        self.offload.request_finished_all_groups(request, blocks)

    def report(self, received: set[str], stored: dict[int, int]) -> None:
        """Tell the offload manager what the workers report: requests loaded, and how many stored each event."""
        self.offload.update_connector_output(
            KVConnectorOutput(
                finished_recving=received or None,
                kv_connector_worker_meta=SimpleCPUOffloadWorkerMetadata(stored) if stored else None,
            )
        )

    def reset(self, connector: bool) -> bool:
        """Reset the device's cache, and the host's as well if asked."""
        device = self.manager.reset_prefix_cache()
        return not (connector and self.offload.reset() is False) and device

    @functools.cached_property
    def has_reset(self) -> bool:
        """Whether the release can reset the host's cache."""
        return hasattr(self.offload, "reset")


def scheduled(new: list, cached: list, tokens: dict[str, int], preempted: set[str], finished: set[str], states: dict):
    """Return a scheduler's output as far as connectors read it.

    ``new``: requests with their whole tables; ``cached``: requests with their new blocks or, resumed, all of them.
    """
    return SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id=r, block_ids=blocks) for r, blocks in new],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[r for r, _, _ in cached],
            new_block_ids=[blocks for _, blocks, _ in cached],
            resumed_req_ids={r for r, _, resumed in cached if resumed},
        ),
        num_scheduled_tokens=tokens,
        preempted_req_ids=preempted,
        finished_req_ids=finished,
        kv_connector_block_state=SimpleNamespace(boundary_state_offloads=states),
    )
