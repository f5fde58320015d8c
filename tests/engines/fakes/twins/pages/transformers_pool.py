"""In place of the release's allocators: sectors of blocks of two kinds, under the calls of its cache.

Full attention keeps a block for each run of tokens, and shares those that are full; a window is a ring.
"""

import torch
from level import Refused
from releases import compute_block_hash
from transformers_options import HEAD_DIM, Options

__all__ = ["Allocator", "Allocators", "Pool"]

FAULT = ""
"""What is wrong with caches that are made from now on; nothing, if empty."""

_RESERVED = 2
"""Sectors in front of the device's that are never handed out."""


class Ledger:
    """Which block has which hash, who counts it, and what is kept for its content alone."""

    def __init__(self) -> None:
        self.block_to_hash: dict[int, int] = {}
        self.hash_to_block: dict[int, int] = {}
        self.shared_ref_counts: dict[int, int] = {}
        self.cached_blocks: dict[int, None] = {}

    def register(self, block: int, key: int) -> None:
        """The block can be found, if no other one is found there."""
        if key not in self.hash_to_block:
            self.hash_to_block[key], self.block_to_hash[block] = block, key

    def forget(self, block: int) -> None:
        """The block cannot be found any more."""
        key = self.block_to_hash.pop(block, None)
        if key is not None:
            del self.hash_to_block[key]
        self.cached_blocks.pop(block, None)


class FreeBlocks:
    """The free blocks of a kind, by the sector that they are of."""

    def __init__(self) -> None:
        self.trees: dict[int, list[int]] = {}


class Pool:
    """Sectors, each of one kind of blocks or of none; ``reserved`` ones in front are never handed out."""

    def __init__(self, sectors: int, per_sector: list[int], reserved: int = _RESERVED) -> None:
        self.num_sectors, self._per_sector, self._reserved = sectors, per_sector, reserved
        self.reset()

    def reset(self) -> None:
        """All is free."""
        self.free_sectors = [*range(self._reserved, self._reserved + self.num_sectors)]
        self._free_blocks = [FreeBlocks() for _ in self._per_sector]

    @property
    def num_free_sectors(self) -> int:
        """How many sectors are of no kind."""
        return len(self.free_sectors)

    def count_free_blocks(self, index: int) -> int:
        """How many blocks are free in the sectors of a kind."""
        return sum(map(len, self._free_blocks[index].trees.values()))

    def take(self, index: int) -> int:
        """A free block of a kind; there is one, or a sector."""
        trees = self._free_blocks[index].trees
        if not self.count_free_blocks(index):
            sector, size = self.free_sectors.pop(0), self._per_sector[index]
            trees[sector] = [*range(sector * size, (sector + 1) * size)]
        return next(blocks for blocks in trees.values() if blocks).pop(0)

    def give(self, index: int, block: int) -> None:
        """A block is free again."""
        self._free_blocks[index].trees[block // self._per_sector[index]].append(block)

    def try_to_free_sectors(self) -> None:
        """Sectors without a block in use are of no kind again."""
        for index, free in enumerate(self._free_blocks):
            for sector in [s for s, blocks in free.trees.items() if len(blocks) == self._per_sector[index]]:
                del free.trees[sector]
                self.free_sectors.append(sector)

    def has_room(self, wanted: list[int]) -> bool:
        """Whether there are so many blocks of each kind."""
        missing = [max(0, n - self.count_free_blocks(index)) for index, n in enumerate(wanted)]
        return sum(-(-n // size) for n, size in zip(missing, self._per_sector, strict=True)) <= self.num_free_sectors


class Allocator:
    """The layers of one kind: their block tables, and what stands in their blocks."""

    def __init__(
        self, index: int, layers: list[int], window: int, options: Options, per_sector: int, rows: int
    ) -> None:
        self.index, self.layer_indices, self.window = index, layers, window
        self.tokens_per_page = self.block_physical_stride = options.page
        self.pages_per_block, self.blocks_per_sector = len(layers), per_sector
        self.block_table: dict[str, list[int]] = {}
        self.ledger = Ledger()
        self._kv_token_views = {
            layer: tuple(torch.zeros(rows * options.page, 1, HEAD_DIM) for _ in range(2)) for layer in layers
        }

    def wanted(self, tokens: int, has: int) -> int:
        """How many blocks a request with so many tokens wants, beside those that it has."""
        kept = min(tokens, self.window) if self.window else tokens
        return max(0, -(-kept // self.tokens_per_page) - has)

    def row(self, r: str, position: int) -> int:
        """Where a position of a request stands."""
        entry, slot = divmod(position % self.window if self.window else position, self.tokens_per_page)
        return self.block_table[r][entry] * self.block_physical_stride + slot


class Allocators:
    """A cache. Its methods are those of the release's."""

    def __init__(self, options: Options) -> None:
        self.fault = FAULT
        kinds = sorted(set(options.layers))
        layers = {kind: [at for at, other in enumerate(options.layers) if other == kind] for kind in kinds}
        pages = options.bytes_per_sector // options.bytes_per_page
        if (
            any(pages % len(of_kind) for of_kind in layers.values())
            or options.bytes_per_sector % options.bytes_per_page
        ):
            raise Refused("no whole blocks fit a sector")
        self.num_sectors = -(-options.blocks * len(options.layers) // pages)
        per_sector = [pages // len(layers[kind]) for kind in kinds]
        self.pool = Pool(self.num_sectors, per_sector)
        self.cache_allocators = {
            kind: Allocator(
                index,
                layers[kind],
                options.window if kind == "window" else 0,
                options,
                per_sector[index],
                (self.num_sectors + _RESERVED) * per_sector[index],
            )
            for index, kind in enumerate(kinds)
        }
        self.use_prefix_sharing = options.shares
        self._by_layer = {layer: a for a in self.cache_allocators.values() for layer in a.layer_indices}

    # Blocks.

    def search_prefix_match(self, r: str, prompt: list[int]) -> int:
        """Find a prefix, less than the prompt, and hold its blocks; where there is full attention alone."""
        (allocator,) = self.cache_allocators.values()
        page, ledger, parent, found = allocator.tokens_per_page, allocator.ledger, None, []
        most = len(prompt) if self.fault == "finds the whole prompt" else len(prompt) - 1
        for at in range(0, most - page + 1, page):
            parent = compute_block_hash(parent, prompt[at : at + page])
            if parent not in ledger.hash_to_block:
                break
            found.append(ledger.hash_to_block[parent])
        for block in found:
            self._hold(allocator, r, block)
        return len(found) * page

    def can_store_request_tokens(self, state, tokens: int) -> bool:
        """Give blocks for so many more tokens, if there are. For them nothing is given up that is kept."""
        r, end = state.request_id, state.current_len() + tokens
        kinds = self.cache_allocators.values()
        wanted = [a.wanted(end, len(a.block_table.get(r, ()))) for a in kinds]
        if not self.pool.has_room(wanted):
            self.pool.try_to_free_sectors()
            if not self.pool.has_room(wanted):
                return False
        for allocator, count in zip(kinds, wanted, strict=True):
            for _ in range(count):
                self._hold(allocator, r, self.pool.take(allocator.index))
        return True

    def _hold(self, allocator: Allocator, r: str, block: int) -> None:
        allocator.block_table.setdefault(r, []).append(block)
        counts = allocator.ledger.shared_ref_counts
        counts[block] = counts.get(block, 0) + 1
        allocator.ledger.cached_blocks.pop(block, None)

    def free_blocks(self, r: str, no_cache: bool = False) -> None:
        """Give a request's blocks back; those with a hash are kept for it, if they are to be."""
        for allocator in self.cache_allocators.values():
            for block in allocator.block_table.pop(r, []):
                self._let_go(allocator, block, keep=not no_cache or self.fault == "keeps what is dropped")

    def _let_go(self, allocator: Allocator, block: int, *, keep: bool) -> None:
        ledger = allocator.ledger
        ledger.shared_ref_counts[block] -= 1
        if ledger.shared_ref_counts[block]:
            if self.fault == "frees what is shared":
                self.pool.give(allocator.index, block)
            return
        ledger.shared_ref_counts.pop(block)
        if keep and block in ledger.block_to_hash:
            ledger.cached_blocks[block] = None
        else:
            ledger.forget(block)
            self.pool.give(allocator.index, block)

    def evict_cached_blocks(self) -> bool:
        """Forget what is only kept for its content; whether there was any."""
        gone = [(a, block) for a in self.cache_allocators.values() for block in a.ledger.cached_blocks]
        for allocator, block in gone:
            allocator.ledger.forget(block)
            self.pool.give(allocator.index, block)
        return bool(gone)

    def reset(self) -> None:
        """Free all and forget all."""
        for allocator in self.cache_allocators.values():
            allocator.block_table.clear()
            allocator.ledger = Ledger()
        self.pool.reset()

    # What is full can be found, and is shared by forks.

    def count_new_complete_blocks(self, state, tokens: int) -> dict[str, int]:
        """How many blocks so many tokens fill."""
        if not self.use_prefix_sharing:
            return {}
        page = next(iter(self.cache_allocators.values())).tokens_per_page
        return dict.fromkeys(self.cache_allocators, (state.current_len() % page + tokens) // page)

    def mark_complete_blocks(self, state, filled: dict[str, int]) -> None:
        """Let what was filled be found."""
        tokens = state.initial_tokens + state.generated_tokens
        for kind, count in filled.items():
            allocator, parent = self.cache_allocators[kind], None
            page, ends = allocator.tokens_per_page, state.current_len() // allocator.tokens_per_page
            for entry, block in enumerate(allocator.block_table[state.request_id][:ends]):
                parent = compute_block_hash(parent, tokens[entry * page : (entry + 1) * page])
                if entry >= ends - count:
                    allocator.ledger.register(block, parent)

    def prepare_fork_request(self, state, names: list[str], copies: dict) -> list[str]:
        """Fork as many children as there is room for: they share what is full, if they may, and copy the rest."""
        forked = []
        for name in names:
            own = {kind: self._not_shared(a, state) for kind, a in self.cache_allocators.items()}
            if not self.pool.has_room([len(blocks) for blocks in own.values()]):
                break
            for kind, allocator in self.cache_allocators.items():
                for block in allocator.block_table[state.request_id]:
                    if block in own[kind]:
                        taken = self.pool.take(allocator.index)
                        copies[kind][0].append(block)
                        copies[kind][1].append(taken)
                        self._hold(allocator, name, taken)
                    else:
                        self._hold(allocator, name, block)
            forked.append(name)
        return forked

    def _not_shared(self, allocator: Allocator, state) -> list[int]:
        blocks = allocator.block_table[state.request_id]
        if not self.use_prefix_sharing:
            return blocks
        full = state.current_len() // allocator.tokens_per_page
        return blocks[full + 1 if self.fault == "shares the last block" else full :]

    def perform_cache_copy(self, copies: dict) -> None:
        """Copy what forks do not share."""
        for kind, (sources, targets) in copies.items():
            page = self.cache_allocators[kind].tokens_per_page
            for states in self.cache_allocators[kind]._kv_token_views.values():
                for tensor in states:
                    for source, target in zip(sources, targets, strict=True):
                        tensor[target * page : (target + 1) * page] = tensor[source * page : (source + 1) * page]

    # Forward passes.

    def extend_read_and_write_indices(self, r: str, past: int, tokens: int, reads: list, writes: list) -> None:
        """Say where a forward pass reads what is there, and writes: of a window only what is left of it behind."""
        for i, a in enumerate(self.cache_allocators.values()):
            first = max(0, past + 1 - a.window) if a.window else 0
            reads[i].extend(a.row(r, position) for position in range(first, past))
            stored = range(max(past, past + tokens - a.window) if a.window else past, past + tokens)
            writes[i].extend(
                [a.row(r, position) if position in stored else -1 for position in range(past, past + tokens)]
            )

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, kwargs: dict) -> tuple:
        """Read what a layer attends to, then write its keys and values."""
        allocator = self._by_layer[layer]
        reads, writes = kwargs["read_index"][allocator.index], kwargs["write_index"][allocator.index]
        both = []
        for tensor, new in zip(allocator._kv_token_views[layer], (keys, values), strict=True):
            fresh = new[0].transpose(0, 1)
            old = tensor[reads.long()]
            tensor[writes[writes >= 0].long()] = fresh[writes >= 0]
            both.append(torch.cat([old, fresh]).transpose(0, 1)[None])
        return tuple(both)
