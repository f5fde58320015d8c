"""In place of the release's own cache, under the calls of its scheduler: another one than `transformers_pool`.

What is computed twice is kept once: who computed it again goes on with what there was. Blocks are counted where several
requests have them, forks share full blocks beside windows too, what was given back last is taken first, and a sector is
of no kind as soon as none of its blocks is in use.
"""

import math

import torch
from paged_memory import RESERVED, Kind, Memory
from releases import RequestState, compute_block_hash
from transformers_pool import Ledger, Pool

__all__ = ["PagedAttentionCache"]

_RING = "sliding_attention"


class Sectors(Pool):
    """Sectors and their blocks, of which those that were given back last are taken first."""

    def take(self, index: int) -> int:
        """A free block of a kind; there is one, or a sector."""
        trees = self._free_blocks[index].trees
        if not self.count_free_blocks(index):
            sector, size = self.free_sectors.pop(), self._per_sector[index]
            trees[sector] = [*range(sector * size, (sector + 1) * size)]
        return next(blocks for blocks in reversed(trees.values()) if blocks).pop()

    def give(self, index: int, block: int) -> None:
        """A block is free again, and its sector with the last one."""
        super().give(index, block)
        self.try_to_free_sectors()


class Layers:
    """The layers of one kind of attention: who has which of its blocks, and what is known of them."""

    def __init__(self, index: int, kind: str, layers: list[int], page: int, window: int, shares: bool) -> None:
        self.index, self.layer_indices, self.layer_type = index, layers, kind
        self.pages_per_block, self.tokens_per_page = len(layers), page
        self.window, self.shares = window if kind == _RING else 0, shares and kind != _RING
        self.block_table: dict[str, list[int]] = {}
        self.ledger = Ledger()

    def lie_in(self, memory: Memory, per_sector: int) -> None:
        """These blocks are cut from its sectors, so many from each."""
        self.blocks_per_sector = per_sector
        self.memory = Kind(memory, self.tokens_per_page, self.layer_indices)
        self.block_physical_stride, self._kv_token_views = self.memory.stride, self.memory.views

    def missing(self, r: str, tokens: int) -> int:
        """How many blocks a request with so many tokens lacks."""
        kept = min(tokens, self.window) if self.window else tokens
        return max(0, -(-kept // self.tokens_per_page) - len(self.block_table.get(r, ())))

    def full(self, tokens: int) -> int:
        """How many of its first blocks nobody writes any more, so that others may have them too."""
        return tokens // self.tokens_per_page if self.shares else 0

    def row(self, r: str, position: int) -> int:
        """Where a position of a request stands."""
        entry, slot = divmod(position % self.window if self.window else position, self.tokens_per_page)
        return self.block_table[r][entry] * self.block_physical_stride + slot

    def rows_read(self, r: str, past: int) -> list[int]:
        """Where the tokens before a pass stand that it attends to, the oldest one first."""
        return [self.row(r, at) for at in range(max(0, past + 1 - self.window) if self.window else 0, past)]

    def rows_written(self, r: str, past: int, tokens: int) -> list[int]:
        """Where a pass writes its tokens: of a ring only those that are left in it, which -1 says of the others."""
        end = past + tokens
        return [self.row(r, at) if not self.window or at >= end - self.window else -1 for at in range(past, end)]


class PagedAttentionCache:
    """A cache for whoever asks it for room, runs passes over it, and lets go."""

    fault = ""
    """What is wrong with caches that are made from now on; nothing, if empty."""

    def __init__(self, config, settings, device: torch.device, helper, dtype: torch.dtype) -> None:
        assert (device.type, helper.tp_size) == ("cpu", 1)
        types, page, shares = config.layer_types, settings.page_size, settings.allow_block_sharing
        layers = {kind: [at for at, other in enumerate(types) if other == kind] for kind in dict.fromkeys(types)}
        in_page = 2 * page * config.num_key_value_heads * config.head_dim * dtype.itemsize
        in_sector = math.lcm(*(len(of_kind) * in_page for of_kind in layers.values()), 128)
        self.num_sectors = -(-settings.num_blocks * len(types) * in_page // in_sector)
        memory = Memory(self.num_sectors, in_sector, dtype)
        per_sector = [in_sector // (in_page * len(of_kind)) for of_kind in layers.values()]
        self.pool = Sectors(self.num_sectors, per_sector, RESERVED)
        self.cache_allocators = {
            kind: Layers(index, kind, of_kind, page, config.sliding_window or 0, shares)
            for index, (kind, of_kind) in enumerate(layers.items())
        }
        for each, count in zip(self.cache_allocators.values(), per_sector, strict=True):
            each.lie_in(memory, count)
        self.use_prefix_sharing = all(each.shares for each in self.cache_allocators.values())

    # Blocks.

    def search_prefix_match(self, r: str, prompt: list[int]) -> int:
        """Find a prefix, less than the prompt, and hold its blocks."""
        (layers,) = self.cache_allocators.values()
        page, key, found = layers.tokens_per_page, None, []
        for at in range(0, len(prompt) - page, page):
            key = compute_block_hash(key, prompt[at : at + page])
            if key not in layers.ledger.hash_to_block:
                break
            found.append(layers.ledger.hash_to_block[key])
        for block in found:
            self._share(layers, block)
        if found:
            layers.block_table[r] = found
        return len(found) * page

    def can_store_request_tokens(self, state: RequestState, tokens: int) -> bool:
        """Give blocks for so many more tokens, if there are. For them nothing is given up that is kept."""
        r, end = state.request_id, state.current_len() + tokens
        kinds = self.cache_allocators.values()
        missing = [layers.missing(r, end) for layers in kinds]
        spare = int(self.fault == "refuses the last block")
        if not self.pool.has_room([count + spare if count else 0 for count in missing]):
            return False
        for layers, count in zip(kinds, missing, strict=True):
            layers.block_table.setdefault(r, []).extend(self.pool.take(layers.index) for _ in range(count))
        return True

    def free_blocks(self, r: str, no_cache: bool = False) -> None:
        """Give a request's blocks back; those with a hash are kept for it, if they are to be."""
        for layers in self.cache_allocators.values():
            for block in layers.block_table.pop(r, []):
                self._let_go(layers, block, keep=not no_cache)

    def evict_cached_blocks(self) -> bool:
        """Forget what is only kept for its content; whether there was any."""
        gone = [(layers, block) for layers in self.cache_allocators.values() for block in layers.ledger.cached_blocks]
        for layers, block in gone:
            layers.ledger.forget(block)
            self.pool.give(layers.index, block)
        return bool(gone)

    def reset(self) -> None:
        """Free all and forget all."""
        for layers in self.cache_allocators.values():
            layers.block_table.clear()
            layers.ledger = Ledger()
        self.pool.reset()

    def _share(self, layers: Layers, block: int) -> None:
        """One request more has the block. Who has it alone is not counted."""
        ledger = layers.ledger
        if block in ledger.cached_blocks:
            del ledger.cached_blocks[block]
        else:
            ledger.shared_ref_counts[block] = ledger.shared_ref_counts.get(block, 1) + 1

    def _let_go(self, layers: Layers, block: int, *, keep: bool) -> None:
        ledger = layers.ledger
        left = ledger.shared_ref_counts.pop(block, 1) - 1
        if left > 1:
            ledger.shared_ref_counts[block] = left
        if left:
            return
        if keep and block in ledger.block_to_hash:
            ledger.cached_blocks[block] = None
        else:
            ledger.forget(block)
            self.pool.give(layers.index, block)

    # What is full can be found, and is had by forks too.

    def count_new_complete_blocks(self, state: RequestState, tokens: int) -> dict[str, int]:
        """How many blocks so many tokens fill."""
        if not self.use_prefix_sharing:
            return {}
        begun = {kind: state.current_len() % each.tokens_per_page for kind, each in self.cache_allocators.items()}
        return {kind: (n + tokens) // self.cache_allocators[kind].tokens_per_page for kind, n in begun.items()}

    def mark_complete_blocks(self, state: RequestState, filled: dict[str, int]) -> None:
        """Let what was filled be found; who filled what there is already has that instead."""
        tokens = state.tokens()
        for kind, count in filled.items():
            layers, key = self.cache_allocators[kind], None
            table, page = layers.block_table[state.request_id], layers.tokens_per_page
            ends = state.current_len() // page
            for entry in range(ends):
                key = compute_block_hash(key, tokens[entry * page : (entry + 1) * page])
                if entry >= ends - count:
                    table[entry] = self._kept_once(layers, table[entry], key)

    def _kept_once(self, layers: Layers, block: int, key: int) -> int:
        """The block that is found under this key: this one, if there is no other."""
        there = layers.ledger.hash_to_block.get(key, block)
        if there == block:
            layers.ledger.register(block, key)
            return block
        if self.fault != "adopts without a count":
            self._share(layers, there)
        if self.fault != "keeps the duplicate":
            self._let_go(layers, block, keep=False)
        return there

    def prepare_fork_request(self, state: RequestState, names: list[str], copies: dict) -> list[str]:
        """Fork as many children as there is room for: they have what is full too, if they may, and copy the rest."""
        forked = []
        for name in names:
            tables = {kind: each.block_table[state.request_id] for kind, each in self.cache_allocators.items()}
            full = {kind: each.full(state.current_len()) for kind, each in self.cache_allocators.items()}
            if not self.pool.has_room([len(table[full[kind] :]) for kind, table in tables.items()]):
                break
            for kind, table in tables.items():
                layers, (sources, targets) = self.cache_allocators[kind], copies[kind]
                for block in table[: full[kind]]:
                    self._share(layers, block)
                own = [self.pool.take(layers.index) for _ in table[full[kind] :]]
                layers.block_table[name] = table[: full[kind]] + own
                sources += table[full[kind] :]
                targets += own
            forked.append(name)
        return forked

    def perform_cache_copy(self, copies: dict) -> None:
        """Copy what forks have for themselves."""
        for kind, pairs in copies.items():
            layers = self.cache_allocators[kind]
            pages = 1 if self.fault == "copies one layer" else layers.pages_per_block
            for source, target in zip(*pairs, strict=True):
                layers.memory.copy(source, target, pages)

    # Forward passes.

    def extend_read_and_write_indices(self, r: str, past: int, tokens: int, reads: list, writes: list) -> None:
        """Say where a forward pass reads what is there, and writes."""
        for of_kind, to, layers in zip(reads, writes, self.cache_allocators.values(), strict=True):
            of_kind += layers.rows_read(r, past)[self.fault == "reads one too few" and layers.window > 0 :]
            to += layers.rows_written(r, past, tokens)

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, kwargs: dict) -> tuple:
        """Read what a layer attends to, then write its keys and values."""
        (layers,) = (each for each in self.cache_allocators.values() if layer in each.layer_indices)
        reads, writes = kwargs["read_index"][layers.index].long(), kwargs["write_index"][layers.index].long()
        both = []
        for view, new in zip(layers.memory.views[layer], (keys, values), strict=True):
            fresh = new[0].transpose(0, 1)
            old = view[reads]
            view[writes[writes >= 0]] = fresh[writes >= 0]
            both.append(torch.cat([old, fresh]).transpose(0, 1)[None])
        return tuple(both)
