"""What a tree stands on: the release's allocators and rows, component by component.

To the kit all of it is one tier of blocks: the pages of full attention from 1 on, behind them those of a sliding
window, behind these the states of recurrent layers. Block 0 is nobody's; each pool of a release has such a one.
"""

from types import SimpleNamespace

import torch
from level import Refused
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool, ReqToTokenPool
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang_drift import (
    BEFORE_13,
    ComponentType,
    WindowAllocator,
    adopted_state,
    give_up_window_of_prefix,
    say_interval,
    say_page,
    states_of,
)
from sglang_kinds import sizes_of
from sglang_pages import pages_of
from sglang_record import record_of
from sglang_slots import NoMemory, check_page, free_pages, made

__all__ = ["OPTIONS", "STATES_PER_ROW", "Memory"]

OPTIONS = {"page", "pages", "sort", "window", "window_pages", "interval", "release", "states", "pairs"}

STATES_PER_ROW = 3
"""A release has so many states for each request that may run: its own, what it leaves in the tree, and the next one."""

_ROWS = 32
"""Requests that may run at once, where nothing else limits them."""


class _WindowPool(NoMemory, BaseSWAKVPool):
    """Memory of window layers that is none: it knows which slot of the window a slot of full attention goes with."""

    swa_uses_full_indices = False

    def __init__(self) -> None:
        self.full_to_swa_index_mapping = None

    def register_mapping(self, full_to_swa_index_mapping) -> None:
        """Remember the allocator's mapping."""
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices):
        """Return the slots of the window."""
        return self.full_to_swa_index_mapping[kv_indices]


_WindowPool.__abstractmethods__ = frozenset()  # Nobody reads or moves what is not there.


class Memory:
    """Allocators and rows for a setup, and whose each block is.

    ``setup``: ``page`` tokens per page, ``pages``; ``window`` tokens before its own that a token of a window layer
    reads (0: no such layers), ``window_pages``, ``interval`` tokens that must have left the window before it is looked
    at, and whether the window of a prefix is given up when decoding has passed it (``release``); ``states`` of
    recurrent layers (0: none); ``pairs``: keys are of each token and the next one, as a drafter's layers read them.
    """

    def __init__(self, setup: dict, rows: int = _ROWS, length: int | None = None) -> None:
        """``rows`` requests of so many tokens each (as many as there are pages for, if it is not said)."""
        self.page, self.pages = setup["page"], setup["pages"]
        self.window, self.states = setup.get("window", 0), setup.get("states", 0)
        self.pairs = bool(setup.get("pairs"))
        self.left = 2 if self.pairs else 1
        """How many tokens of a request a lookup leaves to be computed: of the last one nobody knows what follows."""
        self.window_pages = setup.get("window_pages", self.pages) if self.window else 0
        least = min(self.pages, self.window_pages if self.window else self.pages)
        if self.page < 1 or least < 2 or self.window < 0 or self.states < 0:
            raise Refused(f"there is no cache of {setup}")
        if self.states and (self.page > 1 or self.states < STATES_PER_ROW):
            raise Refused("states at their ends are cached by pages of one token, three for each row")
        sort = bool(setup.get("sort"))
        if self.window:
            check_page(self.page)
            sizes = (self.page * self.pages, self.page * self.window_pages)
            pool = _WindowPool()
            self.allocator = WindowAllocator(*sizes, self.page, torch.float32, "cpu", pool, sort)
        else:
            self.allocator = made(self.page, self.pages, sort)
        self.rows = self._rows(rows, self.pages * self.page if length is None else length)
        self.components = (
            ComponentType.FULL,
            *([ComponentType.SWA] * bool(self.window)),
            *([ComponentType.MAMBA] * bool(self.states)),
        )
        self.firsts = [0, *([self.pages] * bool(self.window)), *([self.pages + self.window_pages] * bool(self.states))]
        """How many blocks the kit counts before those of each component."""
        self.further = [*(["window"] * bool(self.window)), *(["states"] * bool(self.states))]
        """The components besides full attention, as a case calls them."""
        span = -(-self.window // self.page)
        # One window is locked in the tree and one is the request's own, each a page longer than it is where it begins
        # within one, and the next token has a page: the rest is for what is computed at once.
        room = self.window_pages - 2 * span - 3
        # The tree of windows alone keeps the window of a whole prompt, until it is decoded; the unified one once too.
        slides = self.window and room > 0 and setup.get("tree") != "windows" and not BEFORE_13
        self.chunk = room * self.page if slides else 0
        """A prompt may not fit the window's pool at once; in chunks of so many tokens it does (0: it fits)."""
        self.most = ((self.pages if slides else least) - 1) * self.page
        """Tokens that a request may have: an admission asks for a page more than it needs."""
        say_interval(setup.get("interval", 1), self.window)
        say_page(self.page)
        give_up_window_of_prefix(bool(setup.get("release")))

    def _rows(self, rows: int, length: int):
        if not self.states:
            return ReqToTokenPool(rows, length, "cpu", False)
        one = SimpleNamespace(conv=[(1, 1)], temporal=(1, 1, 1))
        kinds = SimpleNamespace(conv=torch.float32, temporal=torch.float32)
        return HybridReqToTokenPool(
            size=self.states // STATES_PER_ROW,
            mamba_size=self.states,
            mamba_spec_state_size=0,
            max_context_len=length,
            device="cpu",
            enable_memory_saver=False,
            cache_params=SimpleNamespace(shape=one, dtype=kinds, is_kda=False),
            mamba_layer_ids=[0],
            enable_mamba_extra_buffer=False,
            enable_overlap_schedule=False,
        )

    # ---------------------------------------------------------------------------------------------- to the release

    def batch(self, cache, req):
        """Return a batch of one request that is decoded, as far as a release looks at it here."""
        batch = ScheduleBatch.__new__(ScheduleBatch)
        batch.reqs, batch.tree_cache, batch.token_to_kv_pool_allocator = [req], cache, self.allocator
        batch.forward_mode, batch.forward_iter, batch.req_to_token_pool = ForwardMode.DECODE, 0, self.rows
        return batch

    def available(self) -> list[int]:
        """Return what is free of each component, in tokens and states."""
        if not self.window:
            sizes = [self.allocator.available_size()]
        else:
            sizes = [self.allocator.full_available_size(), self.allocator.swa_available_size()]
        return sizes + ([states_of(self.rows).available_size()] if self.states else [])

    def fits(self, cache, tokens: int) -> bool:
        """Whether there are so many free slots of each kind of attention, or will be once the tree is asked."""
        sizes = [sizes_of(cache)[0]] + ([cache.swa_evictable_size()] if self.window else [])
        return all(free + more >= tokens for free, more in zip(self.available(), sizes, strict=False))

    def evict(self, cache, asked: list[int]) -> list[int]:
        """Ask the tree to give back so much of each component; return what it says that it did."""
        kinds = {"window": "swa_num_tokens", "states": "mamba_num"}
        more = {kinds[kind]: count for kind, count in zip(self.further, asked[1:], strict=True)}
        done = cache.evict(EvictParams(num_tokens=asked[0], **more))
        told = {"window": done.swa_num_tokens_evicted, "states": done.mamba_num_evicted}
        return [done.num_tokens_evicted, *(told[kind] for kind in self.further)]

    def refused(self, req) -> None:
        """A request is not admitted: it gives back the state that the lookup took for it, as a scheduler does."""
        kv = record_of(req)
        if self.states and kv.holds_mamba:
            kv.mamba_cow_src_index, kv.mamba_needs_clear = None, False
            states_of(self.rows).free(kv.mamba_pool_idx.unsqueeze(-1))
            kv.mamba_pool_idx = None

    def start_states(self, cache, req) -> None:
        """The state that a lookup found is copied to the request's own, before the pass that goes on from it."""
        if self.states and hasattr(ScheduleBatch, "_collect_deferred_mamba_cow_and_clear"):  # Since 0.5.13.
            batch = self.batch(cache, req)
            batch._collect_deferred_mamba_cow_and_clear([req])
            self.copy_states(batch)

    def copy_states(self, batch) -> None:
        """Copy the states that a batch goes on from, as the model worker does before its pass."""
        if batch.mamba_cow_src_indices is not None:
            copy = getattr(self.rows, "copy_mamba_state", self.rows.mamba_pool.copy_from)  # The former since 0.5.20.
            copy(batch.mamba_cow_src_indices, batch.mamba_cow_dst_indices)

    # ---------------------------------------------------------------------------------------------- to the kit

    def watch(self, copied) -> None:
        """Tell by ``copied`` each copy of states: pairs of places."""
        if not self.states:
            return
        pool = self.rows.mamba_pool
        copy = pool.copy_from

        def copy_from(source, target) -> None:
            copy(source, target)
            places = zip(self.state_blocks(source.view(-1)), self.state_blocks(target.view(-1)), strict=True)
            copied([["device", a, "device", b] for a, b in places])

        pool.copy_from = copy_from

    def slots_of(self, cache) -> list[int]:
        """Return all slots and states that a tree has which shows no nodes."""
        full = cache.all_values_flatten()
        slots = full.tolist()
        if self.window:
            window = self.allocator.full_to_swa_index_mapping[full]
            slots += self.window_slots(window[window > 0])
        if self.states:
            states = self.state_blocks(cache.all_mamba_values_flatten())
            slots += [block * self.page + at for block in states for at in range(self.page)]
        return slots

    def found(self, req, prefix) -> list[list[int]]:
        """Return the blocks that a lookup hands out, of each group."""
        tables = self.attended(prefix)
        if self.states:
            source = adopted_state(req, record_of(req))
            tables.append([] if source is None else self.state_blocks(source.view(-1)))
        return tables

    @property
    def world(self) -> dict:
        """The groups and tiers that this is to the kit."""
        groups: list[dict] = [{"kind": "full", "block": self.page}]
        if self.window:
            groups.append({"kind": "window", "block": self.page, "window": self.window + 1})
        if self.states:
            groups.append({"kind": "mamba", "block": self.page})
        blocks = 1 + self.pages + self.window_pages + self.states
        return {"groups": groups, "tiers": {"device": {"blocks": blocks, "null": 0}}, "hash_block": self.page}

    def free(self) -> dict:
        """Return the blocks that are free, those that are next first, and how many the release counts."""
        if not self.window:
            blocks = free_pages(self.allocator)
        else:
            blocks = free_pages(self.allocator.full_attn_allocator)
            blocks += [self.pages + page for page in free_pages(self.allocator.swa_attn_allocator)]
        count = sum(size // self.page for size in self.available()[: 1 + bool(self.window)])
        if self.states:
            blocks += self.state_blocks(states_of(self.rows).free_slots)
            count += states_of(self.rows).available_size()
        return {"free": blocks, "num_free": count}

    def attended(self, slots) -> list[list[int]]:
        """Return the blocks of each kind of attention that slots are: of full attention, and of the window."""
        return [pages_of(slots.tolist(), self.page), *([self.window_blocks(slots)] if self.window else [])]

    def tables(self, kv) -> list[list[int]]:
        """Return a request's blocks of each group: its row, what of it is in the window, its states."""
        row = self.rows.req_to_token[kv.req_pool_idx, : kv.kv_allocated_len].long()
        return self.attended(row) + ([self.own_states(kv)] if self.states else [])

    def own(self, kv, tables: list[list[int]]) -> list[int]:
        """Return the blocks that are a request's own, and not the tree's; ``tables`` are those of its row, if any."""
        first = kv.cache_protected_len // self.page
        own = [block for table in tables[: 1 + bool(self.window)] for block in table[first:] if block]
        return own + self.own_states(kv)

    def own_states(self, kv) -> list[int]:
        """Return the states that are a request's own."""
        return self.state_blocks(kv.mamba_pool_idx.view(-1)) if self.states and kv.holds_mamba else []

    def window_blocks(self, slots) -> list[int]:
        """Return the blocks of the window that slots of full attention go with; 0 where there is none."""
        return self._moved(pages_of(self.allocator.full_to_swa_index_mapping[slots].tolist(), self.page), self.pages)

    def window_slots(self, slots) -> list[int]:
        """Return slots of the window as the kit numbers them."""
        return [slot + self.pages * self.page for slot in slots.tolist()]

    def state_blocks(self, states) -> list[int]:
        """Return states as the kit numbers them."""
        return self._moved(states.tolist(), self.pages + self.window_pages)

    def _moved(self, blocks: list[int], by: int) -> list[int]:
        return [block and block + by for block in blocks]
