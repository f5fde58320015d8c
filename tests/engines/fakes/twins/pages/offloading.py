"""In place of the release's host tier: blocks of requests that had to leave the device."""

import torch
from transformers_pool import Allocator, Allocators, Pool

__all__ = ["Host"]


class Host:
    """Copies of the blocks of requests, under the names that the release has for them; none without sectors."""

    def __init__(self, cache: Allocators, sectors: int) -> None:
        self._kinds = cache.cache_allocators
        self._fault = cache.fault
        per_sector = [allocator.blocks_per_sector for allocator in self._kinds.values()]
        self._cpu_pool = Pool(sectors, per_sector, reserved=0) if sectors else None
        self._request_id_to_cpu_blocks: dict[str, dict[str, list[int]]] = {}
        self._rows = {
            layer: tuple(torch.zeros(sectors * a.blocks_per_sector * a.tokens_per_page, *t.shape[1:]) for t in tensors)
            for a in self._kinds.values()
            for layer, tensors in a._kv_token_views.items()
        }

    def __contains__(self, r: str) -> bool:
        return r in self._request_id_to_cpu_blocks

    def store(self, r: str) -> None:
        """Copy a request's blocks, if there is room for all of them."""
        pool, wanted = self._cpu_pool, [len(a.block_table.get(r, ())) for a in self._kinds.values()]
        if pool is None or not any(wanted):
            return
        pool.try_to_free_sectors()
        if not pool.has_room(wanted):
            return
        taken = {
            kind: [pool.take(a.index) for _ in range(count)]
            for (kind, a), count in zip(self._kinds.items(), wanted, strict=True)
        }
        self._request_id_to_cpu_blocks[r] = taken
        for kind, allocator in self._kinds.items():
            self._copy(allocator, allocator.block_table.get(r, []), taken[kind], to_host=True)

    def restore(self, r: str) -> None:
        """Copy them back into the blocks that the request has got since."""
        for kind, blocks in self._request_id_to_cpu_blocks[r].items():
            allocator = self._kinds[kind]
            targets = allocator.block_table[r][: len(blocks)]
            self._copy(allocator, targets[::-1] if self._fault == "the wrong way round" else targets, blocks)
        self.drop(r)

    def drop(self, r: str) -> None:
        """A request's copies are not needed any more."""
        for kind, blocks in self._request_id_to_cpu_blocks.pop(r, {}).items():
            for block in blocks if self._fault != "keeps copies" else []:
                self._cpu_pool.give(self._kinds[kind].index, block)

    def _copy(self, allocator: Allocator, device: list[int], host: list[int], *, to_host: bool = False) -> None:
        page = allocator.tokens_per_page
        for layer, tensors in allocator._kv_token_views.items():
            for own, copy in zip(tensors, self._rows[layer], strict=True):
                for block, at in zip(device, host, strict=True):
                    here, there = own[block * page : (block + 1) * page], copy[at * page : (at + 1) * page]
                    (there if to_host else here).copy_(here if to_host else there)
