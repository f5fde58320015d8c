"""Allocators and their pool by themselves: put together as `PagedAttentionCache` does it, called as it calls them."""

import torch
from level import Refused
from transformers.generation.continuous_batching.cache import ATTN_TYPE_TO_ALLOCATOR, group_layers_by_attn_type
from transformers.generation.continuous_batching.cache_allocators import CachePool
from transformers_options import DTYPE, Options, model_config

__all__ = ["Allocators"]


class Allocators:
    """One allocator a kind of attention, over one pool and one tensor. Its methods are those of the release's cache."""

    def __init__(self, options: Options) -> None:
        config = model_config(options)
        self.cache_allocators = {
            kind: ATTN_TYPE_TO_ALLOCATOR[kind](
                index=index,
                config=config,
                num_key_value_heads=config.num_key_value_heads,
                cache_dtype=DTYPE,
                page_size=options.page,
                layer_indices=indices,
                allow_block_sharing=options.sharing,
            )
            for index, (kind, indices) in enumerate(group_layers_by_attn_type(config).items())
        }
        size = options.bytes_per_sector
        self.num_sectors = -(-options.blocks * len(options.layers) * options.bytes_per_page // size)
        if any(size % allocator.bytes_per_block for allocator in self.cache_allocators.values()):
            raise Refused("no whole blocks fit a sector")
        self.pool = CachePool(self.num_sectors, len(self.cache_allocators))
        tensor = torch.zeros((self.num_sectors + 2) * size, dtype=torch.uint8)
        for allocator in self.cache_allocators.values():
            allocator.register_cache_tensor(size, self.num_sectors * size, tensor, self.pool)
        self._by_layer = {layer: a for a in self.cache_allocators.values() for layer in a.layer_indices}
        self.use_prefix_sharing = all(a.use_block_sharing for a in self.cache_allocators.values())

    def search_prefix_match(self, r: str, prompt: list[int]) -> int:
        """Find a prefix and hold its blocks; of one kind of attention, since windows share nothing."""
        (allocator,) = self.cache_allocators.values()
        blocks = allocator.match_prefix_blocks(prompt)
        found = len(blocks) * allocator.tokens_per_page
        if found:
            allocator.acquire_prefix_blocks(r, found, blocks)
        return found

    def can_store_request_tokens(self, state, tokens: int) -> bool:
        """Give blocks for so many more tokens, if there are."""
        allocators = self.cache_allocators.values()
        needs = [a.needs_new_sectors(state.request_id, state.current_len(), tokens) for a in allocators]
        if sum(needs) > self.pool.num_free_sectors:
            return False
        for allocator, sectors in zip(allocators, needs, strict=True):
            for _ in range(sectors):
                self.pool.allocate_sector(allocator.index)
            allocator.allocate_cache_to_request(state.request_id, state.current_len(), tokens)
        return True

    def count_new_complete_blocks(self, state, tokens: int) -> dict[str, int]:
        """How many blocks so many tokens fill."""
        if not self.use_prefix_sharing:
            return {}
        page = next(iter(self.cache_allocators.values())).tokens_per_page
        filled = (state.current_len() % page + tokens) // page
        return dict.fromkeys(self.cache_allocators, filled) if filled else {}

    def mark_complete_blocks(self, state, filled: dict[str, int]) -> None:
        """Let what was filled be found."""
        tokens = state.initial_tokens + state.generated_tokens
        for kind, blocks in filled.items():
            self.cache_allocators[kind].mark_complete_blocks(state.request_id, tokens, blocks)

    def extend_read_and_write_indices(self, r: str, past: int, tokens: int, reads: list, writes: list) -> None:
        """Say where a forward pass reads and writes."""
        for i, allocator in enumerate(self.cache_allocators.values()):
            writes[i].extend(allocator.get_write_indices(r, past, tokens))
            reads[i].extend(allocator.get_read_indices(r, past, tokens))

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, kwargs: dict) -> tuple:
        """Write keys and values of a layer, and read what it attends to."""
        allocator = self._by_layer[layer]
        index = (kwargs["read_index"][allocator.index], kwargs["write_index"][allocator.index])
        both = allocator.update(keys[0].transpose(0, 1), values[0].transpose(0, 1), layer, *index)
        return tuple(states.transpose(0, 1)[None] for states in both)

    def prepare_fork_request(self, state, names: list[str], copies: dict) -> list[str]:
        """Fork as many children as there is room for."""
        forked = []
        for name in names:
            needs = {
                a.index: a.count_non_shareable_blocks(state.request_id, state.current_len())
                - self.pool.count_free_blocks(a.index)
                for a in self.cache_allocators.values()
            }
            sectors = {
                a.index: max(0, -(-needs[a.index] // a.blocks_per_sector)) for a in self.cache_allocators.values()
            }
            if sum(sectors.values()) > self.pool.num_free_sectors:
                break
            for index, count in sectors.items():
                for _ in range(count):
                    self.pool.allocate_sector(index)
            for kind, allocator in self.cache_allocators.items():
                for copied, blocks in zip(
                    copies[kind], allocator.fork_blocks(state.request_id, name, state.current_len()), strict=True
                ):
                    copied.extend(blocks)
            forked.append(name)
        return forked

    def perform_cache_copy(self, copies: dict) -> None:
        """Copy what forks do not share."""
        for kind, (source, target) in copies.items():
            if source:
                self.cache_allocators[kind].copy_blocks(source, target)

    def free_blocks(self, r: str, no_cache: bool = False) -> None:
        """Give a request's blocks back."""
        for allocator in self.cache_allocators.values():
            allocator.free_blocks(r, no_cache)

    def evict_cached_blocks(self) -> bool:
        """Forget what is only kept for its content."""
        evicted = [(a.index, a.ledger.evict_cached_blocks()) for a in self.cache_allocators.values()]
        for index, blocks in evicted:
            self.pool.free_blocks(index, blocks)
        return any(blocks for _, blocks in evicted)

    def reset(self) -> None:
        """Free all and forget all."""
        for allocator in self.cache_allocators.values():
            allocator.free_all_requests()
            allocator.ledger.reset()
        self.pool.reset()
