"""What is in a cache: its pages by number, who has them, and the stamps that forward passes left in them.

All layers' pages are equally large, so the release's sectors and blocks, of whichever kind of attention, are runs of
pages. The two sectors in front, which are never handed out, are not counted.
"""

import torch
from transformers.generation.continuous_batching.cache_allocators import cache_allocator

__all__ = ["POSITIONS", "Keys", "Memory", "decoded", "stamped"]

POSITIONS = 4096
"""A stamp is the number of a forward pass times this, and the position: all of it is below 2^24."""

_KEY, _VALUE = 1.0, 2.0


def stamped(pass_of: list[int], positions: list[int], layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys and the values of a layer for these positions: shape [1, 1, tokens, 4]."""
    columns = [[n, p, layer + 1] for n, p in zip(pass_of, positions, strict=True)]
    keys, values = ([[*column, part] for column in columns] for part in (_KEY, _VALUE))
    return tuple(torch.tensor(part, dtype=torch.float32).view(1, 1, len(positions), 4) for part in (keys, values))


def decoded(keys: torch.Tensor, values: torch.Tensor, layer: int) -> list[int]:
    """The stamps of rows of keys and values, shape [tokens, 4]: -1 where it is none, or another layer's."""
    found = []
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        right = key[:3] == value[:3] and key[2] == layer + 1 and (key[3], value[3]) == (_KEY, _VALUE)
        found.append(int(key[0]) * POSITIONS + int(key[1]) if right else -1)
    return found


class Keys:
    """The release's hash keys by number, in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def number(self, key: int) -> int:
        """The number of a key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of(self, tokens: list[int], page: int) -> list[int]:
        """The numbers of the keys of all full blocks of tokens."""
        keys, parent = [], None
        for at in range(0, len(tokens) - page + 1, page):
            parent = cache_allocator.compute_block_hash(parent, tokens[at : at + page])
            keys.append(self.number(parent))
        return keys


class Memory:
    """The pages of allocators and of their pool. ``reserved``: sectors in front that are never handed out."""

    def __init__(self, allocators: list, layers: int, keys: Keys) -> None:
        self._allocators = allocators
        self._keys = keys
        self._places = {
            layer: (allocator, at) for allocator in allocators for at, layer in enumerate(allocator.layer_indices)
        }
        self._layers = range(layers)
        first = allocators[0]
        self.per_sector = first.blocks_per_sector * first.pages_per_block
        self._told: dict[str, list[list[int]]] = {}
        self._held: dict[int, list[int]] = {}

    def tables(self) -> dict[str, list[list[int]]]:
        """Per request that has any block, the pages of each layer."""
        names = dict.fromkeys(r for allocator in self._allocators for r in allocator.block_table)
        return {
            r: [self._pages(layer, self._places[layer][0].block_table.get(r, ())) for layer in self._layers]
            for r in names
        }

    def tell_tables(self, tell) -> None:
        """Tell what has changed in the block tables, from the first entry on that differs; and in pages with a hash."""
        tables = self.tables()
        for r, of_r in tables.items():
            for g, (old, new) in enumerate(zip(self._told.get(r, [[]] * len(of_r)), of_r, strict=True)):
                if old != new:
                    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
                    tell("table", r, g, min(same, len(new)), new[same:])
        self._told = tables
        if held := self._changed():
            tell("holds", "device", held)

    def tell_lookup(self, tell, r: str, found: int, limit: int) -> None:
        """Tell what a lookup has found: so many tokens, and in which pages."""
        tell("lookup", r, found, 0, limit)
        page = self._allocators[0].tokens_per_page
        tell("found", r, [pages[: found // page] for pages in self.tables().get(r, [[]] * len(self._layers))], found)

    def pages(self, tier: str, blocks_of: dict[int, list[int]]) -> list[int]:
        """The pages of blocks, by the index of their allocator."""
        allocators = {allocator.index: allocator for allocator in self._allocators}
        return [p for i, blocks in blocks_of.items() for b in blocks for p in self._block(allocators[i], b, tier)]

    def device(self, pool) -> dict:
        """The state of the device's pool. Blocks that are kept for their content count as free: nobody has them."""
        state = self.state(pool, "device")
        cached, hashes = [], []
        for allocator in self._allocators:
            ledger = allocator.ledger
            for block in ledger.cached_blocks:
                state["free"] += self._block(allocator, block, "device")
                state["num_free"] += allocator.pages_per_block
            for layer in allocator.layer_indices:
                for key, block in ledger.hash_to_block.items():
                    cached.append([self._keys.number(key), layer, self._pages(layer, [block])])
                for block, key in ledger.block_to_hash.items():
                    hashes.append([self._pages(layer, [block])[0], [[self._keys.number(key), layer]]])
        free = set(state["free"])
        ref = [int(page not in free) for page in range(pool.num_sectors * self.per_sector)]
        for allocator in self._allocators:
            for block, count in allocator.ledger.shared_ref_counts.items():
                for page in self._block(allocator, block, "device"):
                    ref[page] = count
        return {**state, "ref": ref, "cached": cached, "hashes": hashes}

    def host(self, pool) -> dict:
        """The state of the host's pool: who is not free is held, once."""
        state = self.state(pool, "host")
        free = set(state["free"])
        return {**state, "ref": [int(page not in free) for page in range(pool.num_sectors * self.per_sector)]}

    def state(self, pool, tier: str) -> dict:
        """The free pages of a pool and its own count of them."""
        sectors = pool.free_sectors
        offset = self._offset(tier)
        free = [
            page for s in sectors for page in range(s * self.per_sector - offset, (s + 1) * self.per_sector - offset)
        ]
        count = pool.num_free_sectors * self.per_sector
        for allocator in self._allocators:
            for blocks in pool._free_blocks[allocator.index].trees.values():
                free += [page for block in blocks for page in self._block(allocator, block, tier)]
            count += pool.count_free_blocks(allocator.index) * allocator.pages_per_block
        return {"free": free, "num_free": count}

    def _changed(self) -> list[list]:
        """What pages with a hash hold, where it is not what was told last: page, layer, stamps."""
        found, now = [], {}
        for allocator in self._allocators:
            blocks = list(allocator.ledger.block_to_hash)
            for layer in allocator.layer_indices if blocks else ():
                keys, values = allocator._kv_token_views[layer]
                size = allocator.tokens_per_page
                rows = [b * allocator.block_physical_stride + i for b in blocks for i in range(size)]
                index = torch.tensor(rows)
                stamps = decoded(keys[index, 0], values[index, 0], layer)
                for at, page in enumerate(self._pages(layer, blocks)):
                    now[page] = (layer, stamps[at * size : (at + 1) * size])
                    if self._held.get(page) != now[page]:
                        found.append([page, *now[page]])
        self._held = now
        return found

    def _offset(self, tier: str) -> int:
        return 2 * self.per_sector if tier == "device" else 0

    def _block(self, allocator, block: int, tier: str) -> list[int]:
        first = block * allocator.pages_per_block - self._offset(tier)
        return list(range(first, first + allocator.pages_per_block))

    def _pages(self, layer: int, blocks) -> list[int]:
        allocator, at = self._places[layer]
        return [block * allocator.pages_per_block + at - self._offset("device") for block in blocks]
